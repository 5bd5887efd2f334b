"""The report of a results folder: one self-contained HTML file."""

from displace.evaluation.report.page import Report, write_report

__all__ = ["Report", "write_report"]
