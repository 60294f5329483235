"""The renderings of a report. ``page.html`` is a Jinja template; its script draws the charts from the record."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib.resources import files

from budgetline.messages import printable
from budgetline.report.content import Content
from budgetline.report.effect_records import caption_of, picture_of
from budgetline.report.sections import ReportTable, facts, tables
from budgetline.report.sentences import enough, headline, notes, subline, warning

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
"""Characters that mean something in Markdown."""
NOTHING_ELSE = "base-uri 'none'; form-action 'none'"


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


def _markdown_section(table: ReportTable) -> str:
    rule = ("---" if k in table.left else "---:" for k in range(len(table.header)))
    rows = [map(escape, table.header), rule, *(map(escape, row) for row in table.rows)]
    intro = f"{escape(table.intro)}\n\n" if table.intro else ""
    return f"## {escape(table.title)}\n\n{intro}" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def render_page(content: Content) -> str:
    """Return the page. The template escapes all text, and a policy forbids all scripts but that of the page."""
    style, script = (_file(f"charts.{kind}") + _file(f"page.{kind}") for kind in ("css", "js"))
    found, classes = enough(content), bool(content.task.classes)
    return _page()(
        report=content,
        policy=f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; {NOTHING_ELSE}",
        style=style,
        script=script,
        headline=_unbroken(headline(content)),
        subline=_unbroken(subline(content)),
        warning=warning(content),
        facts=facts(content),
        start=content.training_curve.costs[found[0] if found else 0],
        tables=tables(content),
        effects=[(caption_of(effect, classes), picture_of(effect)) for effect in content.effects],
        notes=notes(content),
        record=asdict(content) | {"points": content.points},
    )


@cache
def _page() -> Callable[..., str]:
    """Return the template of the page as a function of its parts."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "a report as HTML needs Jinja: pip install 'budgetline[report]'; Markdown and JSON need nothing"
        ) from error
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    # inside a script element HTML has no escapes; tojson writes <, > and & as escapes of JSON
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.from_string(_file("page.html")).render


def _file(name: str) -> str:
    """Return the text of a file of the page."""
    return files("budgetline.report").joinpath(name).read_text("utf-8")


def _unbroken(text: str) -> str:
    """Return a text whose lines do not break before a percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _digest(text: str) -> str:
    """Return the hash by which the policy of the page knows an inline script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
