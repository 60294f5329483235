"""The report of a model: one plain record, rendered as HTML, Markdown and JSON."""

from budgetline.report.make_report import make_report
from budgetline.report.report import Report

__all__ = ["Report", "make_report"]
