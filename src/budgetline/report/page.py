"""A report as one HTML page: tables written here, charts drawn by the script from the record in the page."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from budgetline.report.content import Content
from budgetline.report.sections import Table, facts, tables
from budgetline.report.sentences import enough, headline, notes, subline

NOTHING_ELSE = "base-uri 'none'; form-action 'none'"
# Inside a script element HTML has no escapes, but JSON does: no tag or comment can begin or end there.
IN_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}

CHARTS = {
    "comparison": '<figure class="chart scripted"><div class="plot" id="methods"><svg role="img"'
    ' aria-label="Timeliness of every method, as in the table below"></svg></div></figure>'
}
"""Charts that stand above a table."""


def render_page(content: Content) -> str:
    """Return the page; all text is escaped, and a policy forbids all scripts but ours."""
    style, script = (files("budgetline.report").joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    found = enough(content)
    text = {
        "title": content.title,
        "eyebrow": f"{content.task.estimator} · {content.date}",
        "headline": headline(content),
        "subline": subline(content),
        "unit": content.unit,
        "total": repr(content.total_cost),
        "start": repr(content.training_curve.costs[found[0] if found else 0]),
        "chart_label": f"{content.measure.label} against budget",
        "footer": f"Made by budgetline {content.version} on {content.date}.",
    }
    sections = {"comparison": "", "optimality": ""} | {k: _section(k, table) for k, table in tables(content).items()}
    return Template(files("budgetline.report").joinpath("page.html").read_text("utf-8")).substitute(
        {name: escape(entry).replace(" %", "&nbsp;%") for name, entry in text.items()},
        policy=f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; {NOTHING_ELSE}",
        style=style,
        script=script,
        facts="".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts(content)),
        notes="".join(f"<li>{escape(note)}</li>" for note in notes(content)),
        record=json.dumps(asdict(content), allow_nan=False, separators=(",", ":")).translate(IN_SCRIPT),
        **sections,
    )


def _section(name: str, table: Table) -> str:
    """Return heading, introduction, chart and table; the rows are numbered for the script."""
    intro = f'<p class="intro">{escape(table.intro)}</p>' if table.intro else ""
    kinds, first = ["words" if k in table.left else "num" for k in range(len(table.header))], min(table.left)
    head = (f'<th scope="col" class="{kinds[k]}">{escape(cell)}</th>' for k, cell in enumerate(table.header))
    body = []
    for step, row in enumerate(table.rows, start=1):
        cells = [f'<td class="{kinds[k]}">{escape(cell)}</td>' for k, cell in enumerate(row)]
        cells[first] = f'<th scope="row">{escape(row[first])}</th>'
        body.append(f'<tr data-row="{step}">{"".join(cells)}</tr>')
    return (
        f'<section class="{name}" aria-labelledby="{name}"><h2 id="{name}">{escape(table.title)}</h2>'
        f"{intro}{CHARTS.get(name, '')}"
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}">'
        f"<table><thead><tr>{''.join(head)}</tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _digest(text: str) -> str:
    """Return the hash by which the page's policy knows an inline script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
