"""Encoding: settings for turning raw columns into design columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from budgetline.inputs import check_integer, check_number
from budgetline.messages import did_you_mean, shown, some

KINDS = ("linear", "spline", "categories")


@dataclass(frozen=True)
class Encoding:
    """Settings for encoding the columns of a raw table as numbers, splines or categories.

    Each column of the table becomes one or more design columns, which belong to the same group. Text, Booleans and
    columns of a categorical type (even if the categories are numbers) are encoded as categories, and decimal types as
    numbers. A text column is read as numbers or dates if nearly all of its values have the same form, such as "8.90%",
    "$4.99", "36 months" or "7-Jan-18"; the setting "categories" keeps it as text. Dates, with or without a time of day,
    are converted to days since 1970. In a categorical column, missing and blank values become a category of their own.
    In a numeric column, they are replaced by the mean, and an indicator column marks them. With an encoding, ``alpha``
    is chosen from the data unless you set it.

    Parameters
    ----------
    numbers : {"linear", "spline", "categories"}
        How numbers are encoded. "linear" creates one column, asinh((x − median)/3s), where s is half the interquartile
        range. This function is nearly linear in the middle and logarithmic in the tails. "spline" creates natural cubic
        splines of asinh((x − median)/s). The more a spline bends, the more the ridge penalises it. Outside the range of
        the data, splines keep their boundary values. A value that makes up at least a tenth of a column, such as zero,
        gets an indicator column. "categories" turns every distinct number into a category.
    knots : int or None
        Number of knots per spline. The knots are placed at quantiles. If None, there are 5 to 12 knots, depending on
        the number of rows.
    min_frequency : int
        Minimum number of rows per category. Rarer categories are merged into one, which is also used for unknown
        categories. Each row counts as its sample weight divided by the mean weight.
    max_categories : int
        Maximum number of categories per column. The most frequent categories are kept, and the others are merged.
    interactions : int
        Maximum number of column pairs to add as interactions. Each pair is a free group that requires the groups of
        both columns. The pairs that explain most, beyond the separate effects of their two columns, are added. All
        pairs together have at most 2,000 design columns.
    columns : mapping column -> kind or settings
        Settings for individual columns, by name (or position), such as
        ``{"zip": "categories", "age": {"numbers": "spline", "knots": 4}}``.

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
        """Return the settings of a column, given its position and, if it has one, its name."""
        given = self.columns.get(d if name is None else name)
        return self if given is None else self._of(name if name is not None else d, given)

    @property
    def as_categories(self) -> list[str]:
        """Names of the columns whose individual settings turn numbers into categories."""
        own = ((name, self._of(name, given).numbers) for name, given in self.columns.items())
        return [name for name, numbers in own if numbers == "categories" and isinstance(name, str)]

    def check_columns(self, names: tuple[str, ...] | None, n_features: int) -> None:
        """Raise an error if there are settings for a column that the table does not have."""
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
