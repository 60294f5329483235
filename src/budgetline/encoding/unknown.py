"""Text that a model does not know: counted when it predicts, and told if it is more than a few new categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np

from budgetline.encoding.encoders import Encoder, NumberEncoder
from budgetline.encoding.raw import RawColumn
from budgetline.messages import shown, warn

LEAST = 5
"""Fewer unknown values of a column are not told."""
NOISE = 4.0
"""Standard deviations by which a number of rare values may exceed that of the training data."""


@dataclass(frozen=True)
class Unknown:
    """How many values of a column are not missing, how many of these are unknown, and an example.

    Unknown are categories that the model does not know, and text in a column of ``numbers`` that is no number, or not
    in the ``form`` of the training data. ``usual`` is the share of rare categories, or of text in another form, in the
    training data. A column is ``empty`` if it had no value there.
    """

    column: str
    usual: float
    empty: bool = False
    numbers: bool = False
    form: str = ""
    count: int = 0
    total: int = 0
    example: str = ""

    def with_values(self, encoder: Encoder, column: RawColumn) -> Unknown:
        """Return the same with the values of a raw column added."""
        codes, levels = column.as_levels()
        total = self.total + int(np.count_nonzero(codes >= 0))
        lost = [k for k, level in enumerate(encoder.known(column)) if level is None]
        if not lost:
            return replace(self, total=total)
        count = self.count + int(np.isin(codes, lost).sum())
        return replace(self, count=count, total=total, example=self.example or levels[lost[0]])

    @property
    def surprising(self) -> bool:
        """Whether a person should know of the unknown values.

        Categories: they are most of those that the model could know, and more than chance would have. Numbers: there is
        one, if the training data had none.
        """
        if self.numbers and not self.usual:
            return self.count > 0
        expected = self.usual * self.total
        most = max((self.total + expected) / 2, expected + NOISE * sqrt(expected * (1 - self.usual)))
        return self.count >= LEAST and self.count > most

    def __str__(self) -> str:
        if self.empty:
            return f"column {shown(self.column)} had no value in the training data: its values are ignored"
        what = f"column {shown(self.column)}: {self.count:,} of {self.total:,} values, such as {shown(self.example)},"
        if self.numbers:
            form = f"written like those of the training data (form: {self.form})"
            if self.count == 1:
                return f"{what} is not {form if self.form else 'a number'}, and counts as missing"
            return f"{what} are not {form if self.form else 'numbers'}, and count as missing"
        return (
            f"{what} are categories that the model does not know, and are treated like rare ones: check their type and "
            "spelling"
        )


@dataclass
class Watch:
    """Counts unknown values in the tables that a model predicts from, and warns once of each column.

    ``usual`` are the shares of rare categories, and of text in another form, in the training data, by column. Counts of
    threads may miss each other, which only delays a warning.
    """

    usual: Mapping[str, float]
    found: dict[str, Unknown] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def note(self, name: str, encoder: Encoder, column: RawColumn) -> None:
        """Count the values of a raw column; numbers for an encoder of numbers are all known."""
        if name in self.told or (isinstance(encoder, NumberEncoder) and column.numbers is not None):
            return
        new = Unknown(name, self.usual.get(name, 0.0))
        if isinstance(encoder, NumberEncoder):
            new = replace(new, numbers=True, form="" if encoder.form is None else encoder.form.name)
        elif encoder.empty:
            new = replace(new, empty=True)
        self.found[name] = self.found.get(name, new).with_values(encoder, column)

    def new(self) -> str:
        """Return what is surprising about columns that were not told yet, "" if nothing is."""
        found = [each for each in self.found.values() if each.surprising and each.column not in self.told]
        self.told.update(each.column for each in found)
        return "; ".join(map(str, found))

    def warn(self) -> None:
        """Warn of columns that were not told yet."""
        if text := self.new():
            warn(text, UserWarning)
