"""A report as one HTML page: tables written here, charts drawn by the script from the record in the page."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from budgetline.report.content import Content
from budgetline.report.reading import plain_of
from budgetline.report.sections import (
    Table,
    best_table,
    budget_table,
    comparison_table,
    details_table,
    facts,
    order_table,
)
from budgetline.report.words import enough, headline, notes, subline

NOTHING_ELSE = "base-uri 'none'; form-action 'none'"
# Inside a script element HTML knows no escapes, but JSON does: no tag or comment can begin or end there.
IN_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def render_page(content: Content) -> str:
    """Return the page; everything that is not ours is escaped, and a policy forbids all scripts but ours."""
    style, script = _file("page.css"), _file("page.js")
    start = content.training_curve.costs[enough(content) or 0]
    comparison, best = comparison_table(content), best_table(content)
    return Template(_file("page.html")).substitute(
        policy=f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; {NOTHING_ELSE}",
        style=style,
        script=script,
        title=escape(content.title),
        eyebrow=escape(f"{content.task.estimator} · {content.date}"),
        headline=escape(headline(content)),
        subline=escape(subline(content)),
        facts="".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts(content)),
        unit=escape(content.unit),
        total=repr(content.total_cost),
        start=repr(start),
        chart_label=escape(f"{content.measure.label} against budget"),
        order=_section(order_table(content), "order", "step"),
        buys=_section(budget_table(content), "buys"),
        comparison="" if comparison is None else _comparison(comparison),
        best="" if best is None else f'<section aria-labelledby="best">{_section(best, "best")}</section>',
        notes="".join(f"<li>{escape(note)}</li>" for note in notes(content)),
        details=_section(details_table(content), "details"),
        footer=escape(f"Made by budgetline {content.version} on {content.date}."),
        record=embedded(content),
    )


def embedded(content: Content) -> str:
    """Return the record as JSON that is safe inside a script element: no tag, no comment, nothing beyond ASCII."""
    return json.dumps(plain_of(content), allow_nan=False, separators=(",", ":")).translate(IN_SCRIPT)


def _comparison(table: Table) -> str:
    chart = (
        '<figure class="chart scripted"><div class="plot" id="methods"><svg role="img"'
        ' aria-label="Timeliness of every method, as in the table below"></svg></div></figure>'
    )
    inside = _section(table, "comparison", chart=chart)
    return f'<section class="comparison" aria-labelledby="comparison">{inside}</section>'


def _section(table: Table, name: str, numbered: str = "", chart: str = "") -> str:
    """Return heading, introduction and table; rows carry their number where a script looks for them."""
    intro = f'<p class="intro">{escape(table.intro)}</p>' if table.intro else ""
    head = "".join(f'<th scope="col"{_class(table, k)}>{escape(cell)}</th>' for k, cell in enumerate(table.header))
    body = []
    for number, row in enumerate(table.rows, start=1):
        cells = "".join(_cell(table, k, cell) for k, cell in enumerate(row))
        body.append(f'<tr data-{numbered}="{number}">{cells}</tr>' if numbered else f"<tr>{cells}</tr>")
    return (
        f'<h2 id="{name}">{escape(table.title)}</h2>{intro}{chart}'
        f'<div class="scroll {name}" role="region" tabindex="0" aria-labelledby="{name}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _cell(table: Table, column: int, text: str) -> str:
    if column == min(table.left):
        return f'<th scope="row">{escape(text)}</th>'
    return f"<td{_class(table, column)}>{escape(text)}</td>"


def _class(table: Table, column: int) -> str:
    return ' class="words"' if column in table.left else ' class="num"'


def _file(name: str) -> str:
    return files("budgetline.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the hash by which the page's policy knows an inline script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
