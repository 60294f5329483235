"""A report as Markdown."""

from __future__ import annotations

import re

from budgetline.messages import printable
from budgetline.report.content import Content
from budgetline.report.sections import (
    Table,
    best_table,
    budget_table,
    comparison_table,
    details_table,
    facts,
    order_table,
)
from budgetline.report.words import headline, notes, subline

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def render_markdown(content: Content) -> str:
    """Return the report as Markdown; text of the user's is escaped and stays on its line."""
    tables = [table(content) for table in (order_table, budget_table, comparison_table, best_table, details_table)]
    figures = ", ".join(f"{label}: {value}" for label, value in facts(content))
    parts = [
        f"# {escape(content.title)}",
        f"**{escape(headline(content))}** {escape(subline(content))}",
        f"{escape(figures)}.",
        *(_table(table) for table in tables if table is not None),
        "## How to read this\n\n" + "\n".join(f"- {escape(note)}" for note in notes(content)),
    ]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    r"""Return text that Markdown shows as it is.

    Examples
    --------
    >>> from budgetline.report.markdown import escape
    >>> print(escape("blood_fbs | <b>"))
    blood\_fbs \| \<b\>
    """
    return SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _table(table: Table) -> str:
    rule = ("---" if k in table.left else "---:" for k in range(len(table.header)))
    rows = [map(escape, table.header), rule, *(map(escape, row) for row in table.rows)]
    intro = f"{escape(table.intro)}\n\n" if table.intro else ""
    return f"## {escape(table.title)}\n\n{intro}" + "\n".join(f"| {' | '.join(row)} |" for row in rows)
