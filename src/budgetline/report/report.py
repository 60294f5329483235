"""Report: the report of a model, and its renderings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

from budgetline.codec import read_record
from budgetline.files import PathName, write_atomically
from budgetline.messages import printable, shown
from budgetline.report.content import SCHEMA, Content
from budgetline.report.rendering import render_markdown, render_page
from budgetline.report.sentences import headline, warning


@dataclass(frozen=True)
class Report(Content):
    """What a fitted model is worth at every budget: one plain record, rendered as HTML, Markdown or JSON.

    Made by :func:`make_report`. All parts are frozen records of numbers, strings and tuples. Unknown values are None.

    Attributes
    ----------
    title, version, date, unit : str
        ``version`` is that of the library, ``unit`` that of the costs.
    task : record with kind, estimator, loss, classes
    data : record with rows, columns, groups, pairs, weighted, target
    settings : tuple of records with name, value
    measure : record with name, label, style, greater_is_better, folds, folds_made
        The metric of the curves.
    sequence : tuple of records with step, group, columns, cost, cumulative_cost, gain, explained, agreement
        ``explained`` is the share of the training loss that is removed, as ``budget_curve`` counts it. The gain is
        that of the fit, which also counts the ridge penalty.
    left_out : tuple of str
        Groups that are not in the sequence.
    curves : tuple of records with kind, label, costs, values, errors
        Of kind "training" and, where data were given, "cross-validated"; the first point is before any group.
    comparison : record with shares, budgets, methods; or None
    certificate : record with budgets (achieved, bound, ratio, share, budget), timeliness, notes, curve; or None
        Shares F/R(∅) of the training data, with the ridge penalty; ``curve`` is the bound.
    shared : tuple of records with name, cost, groups
    required : tuple of records with group, groups
    effects : tuple of records with group, axes, output, values
        What columns add to the score at the last stage, those with the largest range of ``effects_in_all``.
    plans : record with budgets, sets (groups, cost), curve; or None
        What a budget buys if it is known in advance.
    probabilities : record with thresholds, stages (stage, first, second); or None
        Held-out rows of each of two classes, counted by the predicted probability of the second.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier, Report, make_report
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> report = make_report(AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target))
    >>> report.headline
    '194.2 of 323.97 cost units buy 91 % of the training improvement from all 9 groups.'
    >>> Report.from_json(report.to_json()) == report
    True
    """

    @property
    def headline(self) -> str:
        """The sentence to remember."""
        return headline(self)

    @property
    def warning(self) -> str:
        """A sentence if the held-out quality falls with more groups, else nothing."""
        return warning(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain dicts and lists, with the version of its schema."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the record from what :meth:`to_dict` returned; a ValueError names an entry that is wrong."""
        if not isinstance(content, Mapping):
            raise ValueError(f"a report must be a mapping of names to values, got {shown(content)}")
        if type(schema := content.get("schema")) is not int:
            raise ValueError(f"schema must be a whole number, got {shown(schema)}")
        if schema != SCHEMA:
            raise ValueError(f"schema is {schema}, this version of budgetline reads {SCHEMA}: make the report again")
        return read_record(cls, {name: entry for name, entry in content.items() if name != "schema"})

    def to_json(self) -> str:
        """Return the record as JSON, in plain ASCII."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the record from what :meth:`to_json` returned."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a report must be JSON: {error}") from error
        return cls.from_dict(content)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return render_markdown(self)

    def to_html(self) -> str:
        """Return the report as one HTML page that needs no other file and no network."""
        return render_page(self)

    def write(self, path: PathName) -> None:
        """Write the report as ``.html``, ``.md`` or ``.json``, by the suffix of the path; completely or not at all."""
        renderings = {".html": self.to_html, ".md": self.to_markdown, ".json": self.to_json}
        render = renderings.get(Path(path).suffix.lower())
        if render is None:
            raise ValueError(f"a report is written as {', '.join(renderings)}, not as {shown(os.fspath(path))}")
        write_atomically(path, render().encode("utf-8", errors="backslashreplace"))  # names may hold lone surrogates

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_markdown(), quote=False)}</pre>"

    def __repr__(self) -> str:
        return f"Report({shown(self.title)}: {printable(self.headline)})"
