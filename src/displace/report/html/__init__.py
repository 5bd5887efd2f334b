"""The report of a results folder: one self-contained HTML file."""

from displace.report.html.page import Report, shown_studies, write_report

__all__ = ["Report", "shown_studies", "write_report"]
