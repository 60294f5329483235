"""Encoding: settings of what raw columns become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from budgetline.inputs import check_integer, check_number
from budgetline.messages import did_you_mean, shown, some

KINDS = ("linear", "spline", "categories")


@dataclass(frozen=True)
class Encoding:
    """What the columns of a raw table become: numbers, curves or categories, each inside the group of its column.

    Text, declared categories (also of numbers) and flags are categories, decimals are numbers. Text is numbers or dates
    if nearly all values have one form, such as "8.90%", "$4.99", "36 months" or "7-Jan-18"; "categories" keeps it text.
    A missing or blank value is a category; of a number, it is the mean and a flag. Dates and times are numbers of days.
    ``alpha`` is chosen from the data unless it is given.

    Parameters
    ----------
    numbers : {"linear", "spline", "categories"}
        "linear": one column, asinh((x − median)/3s) with s half the distance of the quartiles: the number itself in the
        middle, its logarithm in the tails. "spline": natural cubic splines of asinh((x − median)/s), which the ridge
        penalises the more they bend, and which keep their end values outside the data; numbers that make up a tenth of
        a column, such as zeros, get a flag. "categories": every different number is a category.
    knots : int or None
        The number of knots of a spline, at quantiles. None: 5 to 12, by the number of rows.
    min_frequency : int
        Categories with fewer rows are merged into one, and unknown ones with them. Weights count, relative to their
        mean.
    max_categories : int
        Largest number of categories: the most frequent ones stay, the others are merged.
    interactions : int
        Largest number of pairs of columns to add, as free groups that require the groups of both columns: the pairs
        with the most to explain beyond the sum of both, with 2,000 design columns or fewer in all.
    columns : mapping column -> kind or settings
        By name (or position): ``{"zip": "categories", "age": {"numbers": "spline", "knots": 4}}``.

    Examples
    --------
    >>> import pandas as pd
    >>> from budgetline import AnytimeRegressor, Encoding
    >>> table = pd.DataFrame({"age": [20, 35, None, 60], "town": ["Ulm", "Bonn", "Ulm", None]})
    >>> model = AnytimeRegressor(encoding=Encoding("linear", min_frequency=1)).fit(table, [1.0, 2.0, 3.0, 4.0])
    >>> model.feature_names_out_.tolist()
    ['age', 'age=(missing)', 'town=Ulm', 'town=Bonn', 'town=(missing)']
    """

    numbers: str = "spline"
    knots: int | None = None
    min_frequency: float = 5
    max_categories: int = 255
    interactions: int = 0
    columns: Mapping[str | int, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.numbers not in KINDS:
            raise ValueError(f"numbers must be one of {some(KINDS)}, got {shown(self.numbers)}")
        if self.knots is not None:
            check_integer("knots", self.knots, ge=3)
        check_number("min_frequency", self.min_frequency, "number", ge=0)
        check_integer("max_categories", self.max_categories, ge=1)
        check_integer("interactions", self.interactions, ge=0)
        if not isinstance(self.columns, Mapping):
            raise TypeError(f"columns must be a mapping of columns to kinds, got {shown(self.columns)}")
        for name, given in self.columns.items():
            self._of(name, given)

    def of(self, d: int, name: str | None) -> Encoding:
        """Return the settings of a column, by its position and its name, if it has one."""
        given = self.columns.get(d if name is None else name)
        return self if given is None else self._of(name if name is not None else d, given)

    @property
    def as_categories(self) -> list[str]:
        """Names of the columns whose own settings make numbers categories."""
        own = ((name, self._of(name, given).numbers) for name, given in self.columns.items())
        return [name for name, numbers in own if numbers == "categories" and isinstance(name, str)]

    def check_columns(self, names: tuple[str, ...] | None, n_features: int) -> None:
        """Raise an error for settings of a column that is not there."""
        known = range(n_features) if names is None else names
        for name in self.columns:
            if name not in known:
                columns = f"positions 0 to {n_features - 1}" if names is None else some(names, 10)
                what = f"encoding has settings for column {shown(name)}, which is not in X"
                raise ValueError(f"{what}{did_you_mean(name, names or ())}; the columns are {columns}")

    def _of(self, name: object, given: object) -> Encoding:
        changes = {"numbers": given} if isinstance(given, str) else given
        allowed = [f.name for f in fields(self) if f.name not in ("columns", "interactions")]
        if not isinstance(changes, Mapping) or not set(changes) <= set(allowed):
            own = f"one of {some(KINDS)}, or a mapping with entries among {some(allowed)}"
            raise ValueError(f"the encoding of column {shown(name)} must be {own}, got {shown(given)}")
        try:
            return replace(self, **{**changes, "columns": {}})
        except (TypeError, ValueError) as error:
            raise type(error)(f"column {shown(name)}: {error}") from error


def as_encoding(given: object) -> Encoding | None:
    """Return the parameter ``encoding`` of an estimator as settings."""
    if given is None or isinstance(given, Encoding):
        return given
    if given in ("linear", "spline"):
        return Encoding(str(given))
    raise ValueError(f"encoding must be None, 'linear', 'spline' or an Encoding, got {shown(given)}")
