"""Figures of the studies for print: these only draw what the studies have computed."""

from displace.report.figures.drawing import draw, save_figure, save_figures

__all__ = ["draw", "save_figure", "save_figures"]
