"""A report as Markdown."""

from __future__ import annotations

import re

from budgetline.messages import printable
from budgetline.report.content import Content
from budgetline.report.sections import Table, facts, tables
from budgetline.report.sentences import headline, notes, subline

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def render_markdown(content: Content) -> str:
    """Return the report as Markdown; text from the user is escaped and stays on its line."""
    parts = [
        f"# {escape(content.title)}",
        f"**{escape(headline(content))}** {escape(subline(content))}",
        escape(", ".join(f"{label}: {value}" for label, value in facts(content))) + ".",
        *map(_section, tables(content).values()),
        "## How to read this\n\n" + "\n".join(f"- {escape(note)}" for note in notes(content)),
    ]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _section(table: Table) -> str:
    rule = ("---" if k in table.left else "---:" for k in range(len(table.header)))
    rows = [map(escape, table.header), rule, *(map(escape, row) for row in table.rows)]
    intro = f"{escape(table.intro)}\n\n" if table.intro else ""
    return f"## {escape(table.title)}\n\n{intro}" + "\n".join(f"| {' | '.join(row)} |" for row in rows)
