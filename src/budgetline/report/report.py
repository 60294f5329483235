"""Report: the report of a model, and its renderings as HTML, Markdown and JSON.

`page.html` is a Jinja template; its script draws the charts from the record, which the page holds as JSON.
"""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from budgetline.files import PathName, write_atomically
from budgetline.messages import printable, shown
from budgetline.packages import imported
from budgetline.report.content import Content
from budgetline.report.sections import Section, facts, sections
from budgetline.report.sentences import enough, headline, notes, subline, warning

SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
"""Characters with a special meaning in Markdown."""


@dataclass(frozen=True)
class Report(Content):
    """Report on what a fitted model achieves at every budget, which can be rendered as HTML, Markdown or JSON.

    `make_report` creates it. All parts are frozen records of numbers, strings and tuples. Unknown values are None.

    Attributes
    ----------
    title : str
        The heading of the report.
    version : str
        The version of the library.
    date : str
        The date on which the report was made.
    unit : str
        The unit of the costs.
    task : record with kind, estimator, loss, classes
        What the model predicts.
    data : record with rows, columns, groups, pairs, weighted, target
        The data to which the model was fitted.
    settings : dict name -> text
        Parameters of the estimator.
    measure : record with name, label, style, greater_is_better, folds, folds_made
        The metric of the curves.
    sequence : tuple of records with step, group, columns, cost, cumulative_cost, gain, explained, agreement, folds
        The steps of the sequence. ``explained`` is the share of the training loss that the model removes, as
        ``budget_curve`` computes it. ``gain`` is the reduction of the training risk, which includes the ridge penalty.
    left_out : tuple of str
        Groups that are not in the sequence.
    curves : tuple of records with kind, label, costs, values, errors
        The curve of kind "training" and, if data were passed, the curve of kind "cross-validated". The first point of
        each curve is the value before any group is bought.
    comparison : record with shares, budgets, methods; or None
        Held-out values of the model and of other orders, at several shares of the total cost.
    certificate : record with budgets (achieved, bound, ratio, share, budget), timeliness, notes, curve; or None
        The results of the certificate, as shares F/R(∅) of the training risk without any group. The risk includes the
        ridge penalty. ``curve`` is the bound.
    shared : dict name -> cost and groups
        Costs that several groups share. The first of these groups to be bought pays the cost.
    required : dict group -> groups
        The groups that must be bought before a group.
    effects : tuple of records with group, axes, output, of_class, values
        What columns add to the score at the last stage. The model has ``effects_in_all`` effects, and the report shows
        those with the largest range.
    probabilities : record with thresholds, stages (stage, first, second); or None
        For two classes, counts of the held-out rows of each class by their predicted probability of the second class.
    intervals : record with coverage, stages (stage, lower, upper, covered, error); or None
        For regression, the interval around the prediction that should contain a share ``coverage`` of the held-out
        targets, and ``covered``, the share that it actually contains.
    risks : record with times, groups (budget, name, rows, events, observed, predicted); or None
        For survival times, the observed and predicted survival of held-out rows with low, middle and high risk.
    other_data : str
        A warning if the data differ from the data to which the model was fitted; otherwise an empty string.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier, make_report
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> report = make_report(AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target))
    >>> report.headline
    '194.2 of 323.97 cost units buy 91 % of the training improvement in explained deviance from all 9 groups.'
    >>> report.sequence[0].group, report.to_dict()["total_cost"]
    ('cp', 323.97)
    """

    @property
    def headline(self) -> str:
        """The main result in one sentence."""
        return headline(self)

    @property
    def warning(self) -> str:
        """A warning if the model was fitted to other data, or if more groups lower held-out quality; else empty."""
        return warning(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain dicts and tuples, with its headline, warning and total cost."""
        return {"headline": self.headline, "warning": self.warning, "total_cost": self.total_cost, **asdict(self)}

    def to_json(self) -> str:
        """Return the record of `to_dict` as JSON, in plain ASCII."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1) + "\n"

    def to_markdown(self) -> str:
        """Return the report as Markdown, with all names escaped and kept on one line."""
        parts = [
            f"# {escape(self.title)}",
            f"**{escape(self.headline)}** {escape(subline(self))}",
            *([f"**Warning.** {escape(self.warning)}"] if self.warning else []),
            escape(", ".join(f"{label}: {value}" for label, value in facts(self))) + ".",
            *map(_markdown_section, sections(self).values()),
            "## How to read this\n\n" + "\n".join(f"- {escape(note)}" for note in self._notes()),
        ]
        return "\n\n".join(parts) + "\n"

    def to_html(self) -> str:
        """Return the report as a self-contained HTML page, which needs no other files and no network access."""
        style, script = (_file(f"charts.{kind}") + _file(f"page.{kind}") for kind in ("css", "js"))
        # text is escaped, and no script but that of the page may run
        policy = f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        return _page()(
            report=self,
            policy=policy + "base-uri 'none'; form-action 'none'",
            style=style,
            script=script,
            headline=_unbroken(self.headline),
            subline=_unbroken(subline(self)),
            facts=facts(self),
            start=self.training_curve.costs[found[0] if (found := enough(self)) else 0],
            sections=sections(self),
            notes=self._notes(),
            record=self.to_dict() | {"points": self.points},
        )

    def write(self, path: PathName) -> None:
        """Write the report to ``path`` with suffix ``.html``, ``.md`` or ``.json``, completely or not at all."""
        renderings = {".html": self.to_html, ".md": self.to_markdown, ".json": self.to_json}
        render = renderings.get(Path(path).suffix.lower())
        if render is None:
            raise ValueError(f"a report is written as {', '.join(renderings)}, not as {shown(os.fspath(path))}")
        write_atomically(path, render().encode("utf-8", errors="backslashreplace"))  # names may hold lone surrogates

    def _notes(self) -> list[str]:
        return [*notes(self), *(note for section in sections(self).values() for note in section.notes)]

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.to_markdown(), quote=False)}</pre>"

    def __repr__(self) -> str:
        return f"Report({shown(self.title)}: {printable(self.headline)})"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _markdown_section(table: Section) -> str:
    rule = ("---" if k in table.left else "---:" for k in range(len(table.header)))
    rows = [map(escape, table.header), rule, *(map(escape, row) for row in table.rows)]
    intro = f"{escape(table.intro)}\n\n" if table.intro else ""
    return f"## {escape(table.title)}\n\n{intro}" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


@cache
def _page() -> Callable[..., str]:
    """Return the template of the page as a function of its parts."""
    jinja = imported("jinja2", "a report as HTML (not as Markdown or JSON) needs Jinja", "report")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    # inside a script element HTML has no escapes; tojson writes <, > and & as escapes of JSON
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    render: Callable[..., str] = environment.from_string(_file("page.html")).render
    return render


def _file(name: str) -> str:
    return files("budgetline.report").joinpath(name).read_text("utf-8")


def _unbroken(text: str) -> str:
    """Return a text whose lines do not break before a percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _digest(text: str) -> str:
    """Return the hash by which the policy of the page knows an inline script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
