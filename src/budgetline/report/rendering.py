"""The renderings of a report. On the HTML page, tables are written here; the script draws charts from its record."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import asdict
from hashlib import sha256
from html import escape as escape_html
from importlib.resources import files
from string import Template

from budgetline.messages import printable
from budgetline.report.content import Content
from budgetline.report.effects import picture_of
from budgetline.report.sections import Table, effect_name, facts, tables
from budgetline.report.sentences import enough, headline, notes, subline, warning

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
"""Characters that mean something in Markdown."""
NOTHING_ELSE = "base-uri 'none'; form-action 'none'"
# Inside a script element HTML has no escapes, but JSON does: no tag or comment can begin or end there.
IN_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}

CHARTS = {
    "comparison": '<figure class="chart scripted"><div class="plot" id="methods"><svg role="img"'
    ' aria-label="Timeliness of every method, as in the table below"></svg></div></figure>',
    "thresholds": '<div class="scripted decide"><div><div class="slider"><label for="threshold">Threshold</label>'
    '<input type="range" id="threshold" min="0" step="1"></div><p class="label" id="threshold-what"></p>'
    '<table><tbody id="called"></tbody></table></div><figure class="chart">'
    '<figcaption class="legend" id="reliability-legend"></figcaption><div class="plot" id="reliability">'
    '<svg role="img" aria-label="Predicted probabilities and what happened"></svg></div></figure></div>',
}
"""Charts that stand above a table."""


def render_markdown(content: Content) -> str:
    """Return the report as Markdown; text from the user is escaped and stays on its line."""
    parts = [
        f"# {escape(content.title)}",
        f"**{escape(headline(content))}** {escape(subline(content))}",
        *([f"**Warning.** {escape(text)}"] if (text := warning(content)) else []),
        escape(", ".join(f"{label}: {value}" for label, value in facts(content))) + ".",
        *map(_markdown_section, tables(content).values()),
        "## How to read this\n\n" + "\n".join(f"- {escape(note)}" for note in notes(content)),
    ]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _markdown_section(table: Table) -> str:
    rule = ("---" if k in table.left else "---:" for k in range(len(table.header)))
    rows = [map(escape, table.header), rule, *(map(escape, row) for row in table.rows)]
    intro = f"{escape(table.intro)}\n\n" if table.intro else ""
    return f"## {escape(table.title)}\n\n{intro}" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def render_page(content: Content) -> str:
    """Return the page; all text is escaped, and a policy forbids all scripts but ours."""
    style, script = (_file(f"charts.{kind}") + _file(f"page.{kind}") for kind in ("css", "js"))
    found = enough(content)
    words = {
        "title": content.title,
        "eyebrow": f"{content.task.estimator} · {content.date}",
        "headline": headline(content),
        "subline": subline(content),
        "scatter": "absent" if content.equal_costs else "scripted",
        "unit": content.unit,
        "total": repr(content.total_cost),
        "start": repr(content.training_curve.costs[found[0] if found else 0]),
        "chart_label": f"{content.measure.label} against budget",
        "footer": f"Made by budgetline {content.version} on {content.date}.",
    }
    record = asdict(content) | {"points": content.points}
    charts = CHARTS | {"effects": _effects(content)}
    sections = {"plans": "", "thresholds": "", "effects": "", "comparison": "", "optimality": ""} | {
        k: _html_section(k, table, charts.get(k, "")) for k, table in tables(content).items()
    }
    return Template(_file("page.html")).substitute(
        {name: escape_html(entry).replace(" %", "&nbsp;%") for name, entry in words.items()},
        policy=f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; {NOTHING_ELSE}",
        style=style,
        script=script,
        warning=f'<p class="warning">{escape_html(text)}</p>' if (text := warning(content)) else "",
        facts="".join(f"<div><dt>{escape_html(k)}</dt><dd>{escape_html(v)}</dd></div>" for k, v in facts(content)),
        notes="".join(f"<li>{escape_html(note)}</li>" for note in notes(content)),
        record=json.dumps(record, allow_nan=False, separators=(",", ":")).translate(IN_SCRIPT),
        **sections,
    )


def _file(name: str) -> str:
    """Return the text of a file of the page."""
    return files("budgetline.report").joinpath(name).read_text("utf-8")


def _effects(content: Content) -> str:
    """Return a picture of every effect."""
    figures = []
    for effect in content.effects:
        caption = f"<figcaption>{escape_html(effect_name(content, effect))}</figcaption>"
        figures.append(f'<figure class="effect">{caption}{picture_of(effect)}</figure>')
    return f'<div class="pictures">{"".join(figures)}</div>'


def _html_section(name: str, table: Table, chart: str) -> str:
    """Return heading, introduction, chart and table; the rows are numbered for the script."""
    intro = f'<p class="intro">{escape_html(table.intro)}</p>' if table.intro else ""
    kinds, first = ["words" if k in table.left else "num" for k in range(len(table.header))], min(table.left)
    head = (f'<th scope="col" class="{kinds[k]}">{escape_html(cell)}</th>' for k, cell in enumerate(table.header))
    body = []
    for step, row in enumerate(table.rows, start=1):
        cells = [f'<td class="{kinds[k]}">{escape_html(cell)}</td>' for k, cell in enumerate(row)]
        cells[first] = f'<th scope="row">{escape_html(row[first])}</th>'
        body.append(f'<tr data-row="{step}">{"".join(cells)}</tr>')
    return (
        f'<section class="{name}" aria-labelledby="{name}"><h2 id="{name}">{escape_html(table.title)}</h2>'
        f"{intro}{chart}"
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}">'
        f"<table><thead><tr>{''.join(head)}</tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _digest(text: str) -> str:
    """Return the hash by which the page's policy knows an inline script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
