"""The report of a results folder: one self-contained HTML file."""

from displace.report.html.page import Report, write_report

__all__ = ["Report", "write_report"]
