"""Values that a model does not know: counted when it predicts, with a warning unless they are a few new categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from budgetline.encoding.encoders import CategoryEncoder, Encoder, NumberEncoder
from budgetline.encoding.raw import RawColumn
from budgetline.messages import shown, warn

LEAST = 5
"""Fewer unknown values of a column are no reason for a warning."""
NOISE = 4.0
"""Standard deviations by which a number of rare values may exceed that of the training data."""


@dataclass
class Unknown:
    """Counts of a column: known values, values unknown to the encoder, and an example of these.

    A value is unknown if it is a category that the model has not seen, or text where a number is expected. ``usual`` is
    the share of rare categories, or of text in another form, in the training data.
    """

    column: str
    encoder: Encoder
    usual: float
    count: int = 0
    total: int = 0
    example: str = ""

    def add(self, column: RawColumn) -> None:
        codes, categories = column.as_categories
        lost = [k for k, category in enumerate(self.encoder.known(column)) if category is None]
        self.total += int(np.count_nonzero(codes >= 0))
        self.count += int(np.isin(codes, lost).sum())
        self.example = self.example or (categories[lost[0]] if lost else "")

    @property
    def surprising(self) -> bool:
        """Whether to warn: of most values that the model could know, and of any text if training had only numbers."""
        if isinstance(self.encoder, NumberEncoder) and not self.usual:
            return self.count > 0
        expected = self.usual * self.total
        most = max((self.total + expected) / 2, expected + NOISE * sqrt(expected * (1 - self.usual)))
        return self.count >= LEAST and self.count > most

    def __str__(self) -> str:
        encoder, name = self.encoder, shown(self.column)
        if isinstance(encoder, NumberEncoder):
            like = f"written like those of the training data (form: {encoder.form.name})" if encoder.form else "numbers"
            how = f"not {like}, and count as missing"
        elif encoder.empty:
            return f"column {name} had no value in the training data: its values are ignored"
        else:
            how = "categories that the model does not know, treated like rare ones: check their type and spelling"
        return f"column {name}: {self.count:,} of {self.total:,} values, such as {shown(self.example)}, are {how}"


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
