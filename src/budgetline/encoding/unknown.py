"""Values that a model does not know: counted when it predicts, with a warning unless they may be rare categories.

A warning needs more unknown than known values. An encoder keeps no names of rare categories: if training had some, a
few unknown values are usual, and at least ``LEAST`` are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from budgetline.encoding.encoders import CategoryEncoder, Encoder, NumberEncoder
from budgetline.encoding.raw import RawColumn
from budgetline.messages import shown, some, warn

LEAST = 5
"""Fewer unknown values of a column that had rare categories are no reason for a warning."""
NOISE = 4.0
"""Standard deviations by which a number of rare values may exceed that of the training data."""
MOST_NAMED = 5
"""Most categories that a warning names."""


@dataclass
class Unknown:
    """Counts of a column: known values, values unknown to the encoder, and examples of these.

    A value is unknown if it is a category that the model has not seen, or text where a number is expected. ``usual`` is
    the share of rare categories, or of text in another form, in the training data.
    """

    column: str
    encoder: Encoder
    usual: float
    count: int = 0
    total: int = 0
    examples: dict[str, None] = field(default_factory=dict)

    def add(self, column: RawColumn) -> None:
        codes, categories = column.as_categories
        lost = [k for k, category in enumerate(self.encoder.known(column)) if category is None]
        self.total += int(np.count_nonzero(codes >= 0))
        unknown = codes[np.isin(codes, lost)]
        self.count += unknown.size
        if len(self.examples) <= MOST_NAMED:
            self.examples |= dict.fromkeys(categories[k] for k in np.unique(unknown)[: MOST_NAMED + 1].tolist())

    @property
    def surprising(self) -> bool:
        """Whether to warn: of most values that the model could know, and of any text if training had only numbers."""
        encoder = self.encoder
        if isinstance(encoder, NumberEncoder) and not self.usual:
            return self.count > 0
        expected = self.usual * self.total
        most = max((self.total + expected) / 2, expected + NOISE * sqrt(expected * (1 - self.usual)))
        named = isinstance(encoder, CategoryEncoder) and not (encoder.rare or encoder.empty)  # no category is hidden
        return self.count >= (1 if named else LEAST) and self.count > most

    def __str__(self) -> str:
        encoder, name, counts = self.encoder, shown(self.column), f"{self.count:,} of {self.total:,} values"
        if isinstance(encoder, NumberEncoder):
            like = f"written like those of the training data (form: {encoder.form.name})" if encoder.form else "numbers"
            example = shown(next(iter(self.examples)))
            return f"column {name}: {counts}, such as {example}, are not {like}, and count as missing"
        if encoder.empty:
            return f"column {name} had no value in the training data: its values are ignored"
        known = (*encoder.categories, *(() if encoder.reference is None else (encoder.reference,)))
        names = f", which knows {some(known, MOST_NAMED)}" * bool(known)
        rare = ", and are treated like rare ones" * encoder.rare
        told = f"{counts} ({some(self.examples, MOST_NAMED)}) are unknown to the model{names}{rare}"
        return f"column {name}: {told}: check their type and spelling"


@dataclass
class Watch:
    """Counts unknown values in the tables that a model predicts from, and warns once per column.

    ``usual`` are the shares of rare categories, and of text in another form, in the training data, by column. Counts of
    threads may miss each other, which only delays a warning.
    """

    usual: Mapping[str, float]
    found: dict[str, Unknown] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def note(self, name: str, encoder: Encoder, column: RawColumn) -> None:
        """Count the values of a raw column; an encoder of numbers knows all numbers."""
        text = isinstance(encoder, NumberEncoder) and column.numbers is None
        counted = text or isinstance(encoder, CategoryEncoder)
        if name not in self.told and counted:
            self.found.setdefault(name, Unknown(name, encoder, self.usual.get(name, 0.0))).add(column)

    def new(self) -> str:
        """Return what is surprising about columns without a warning so far, or ""."""
        found = [each for each in self.found.values() if each.surprising and each.column not in self.told]
        self.told.update(each.column for each in found)
        return "; ".join(map(str, found))

    def warn(self) -> None:
        if text := self.new():
            warn(text, UserWarning)
