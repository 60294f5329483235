"""The report of a model: one plain record, rendered as HTML, Markdown and JSON."""

from budgetline.report.making import summarise
from budgetline.report.summary import Summary

__all__ = ["Summary", "summarise"]
