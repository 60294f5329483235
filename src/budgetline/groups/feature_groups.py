"""Feature groups, and their columns in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from budgetline.arrays import Float, Positions
from budgetline.codec import As, plain_of, read_record
from budgetline.groups import parsing
from budgetline.groups.parsing import Column, Costs, Name, Requires, SharedCosts, plain_number
from budgetline.groups.prices import Prices
from budgetline.inputs import KnownColumns
from budgetline.messages import name_of, shown, some, warn
from budgetline.tables import html_table

Remainder = Literal["error", "drop"]
MOST_SINGLES = 10_000_000
"""Most columns that become groups of their own if no groups are given; each needs about 360 bytes."""


@dataclass(frozen=True)
class Layout:
    """Groups placed in a table of ``n_features`` columns: ``columns[g]`` are the positions of group g, in its order."""

    columns: tuple[Positions, ...]
    n_features: int
    groups: FeatureGroups
    names: tuple[str, ...] | None = None

    @cached_property
    def read(self) -> Positions:
        """Positions in X of the columns that are in groups, ascending: the columns that a fit reads."""
        return np.sort(self.by_group)

    @cached_property
    def position(self) -> tuple[Positions, ...]:
        """``position[g]`` are the positions of group ``g`` among the columns that are read."""
        if self.reads_all:
            return self.columns
        return tuple(np.searchsorted(self.read, columns) for columns in self.columns)

    @property
    def by_group(self) -> Positions:
        """Positions in X of the columns that are in groups, group after group."""
        return np.concatenate(self.columns)

    @property
    def reads_all(self) -> bool:
        """Whether every column of X is in a group."""
        return self.read.size == self.n_features

    @property
    def names_read(self) -> tuple[str, ...] | None:
        """Names of the columns that are read."""
        return None if self.names is None else tuple(self.names[d] for d in self.read)

    def columns_of(self, groups: Positions) -> Positions:
        """Return the positions in X of the columns of some groups, ascending."""
        own = [self.columns[g] for g in groups.tolist()]
        return np.sort(np.concatenate([np.empty(0, dtype=np.intp), *own]))

    def known(self, estimator: str) -> KnownColumns:
        """Return the columns with which an estimator of this name compares other tables."""
        names = self.names or ()
        owners = zip(self.groups.names, self.columns, strict=True)
        group_of = {names[d]: group for group, columns in owners for d in columns if names}
        return KnownColumns(estimator, self.names, self.n_features, group_of)

    def labels(self, columns: Positions) -> tuple[str, ...]:
        """Return the names of columns, or their positions as text."""
        return tuple(str(d) if self.names is None else self.names[d] for d in columns.tolist())


@dataclass(frozen=True)
class GroupsRecord:
    """Groups as a file holds them: shared costs as (name, cost, groups), requirements as (group, groups)."""

    names: tuple[str, ...]
    columns: tuple[tuple[str | int, ...], ...]
    costs: tuple[float, ...]
    remainder: str
    shared: tuple[tuple[str, float, tuple[str, ...]], ...] = ()
    requires: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FeatureGroups:
    """Groups of columns that are computed together, and their costs.

    Parameters
    ----------
    groups : mapping, list of column lists, or one label per column
        A mapping ``name -> columns``, a list of column lists, or a flat sequence with one group label per column of X.
        If you pass a list of column lists, the groups are named ``"0"``, ``"1"``, and so on. Columns are given by name
        (for data frames) or by position.
    costs : mapping name -> cost, sequence in group order, or None
        Non-negative costs, all in the same unit (seconds, dollars, …), at most 1e300 in total. If None, every group
        costs 1. A group with cost 0 is free and comes first in every cost-sensitive sequence.
    remainder : {"error", "drop"}
        What to do with columns of X that are in no group.
    shared : mapping name -> (cost, groups), optional
        Costs that several groups share, such as the cost of a blood draw. Each shared cost is paid only once, when the
        first of its groups is bought.
    requires : mapping group -> groups, optional
        For each group, the groups that must be bought before it.

    Attributes
    ----------
    names : tuple of str
        Names of the groups.
    columns : tuple of tuples of str or int
        Columns of each group: names or positions, as passed.
    costs : float array of shape (n_groups,), read-only
        The cost of each group itself, without shared costs or the costs of required groups.
    shared, requires : dict
        The shared costs and the requirements, by name, as passed.
    prices : Prices
        The object that computes the cost of any set of groups, where groups are specified by position.

    Examples
    --------
    >>> from budgetline import FeatureGroups
    >>> FeatureGroups({"history": ["age", "sex"], "blood": ["chol", "fbs"]}, costs={"history": 2, "blood": 10.37})
    FeatureGroups(2 groups, 4 columns, total cost 12.37)

    Two tests of one blood sample, and an index that is computed from both:

    >>> draw, index = {"draw": (2.1, ["TT4", "T4U"])}, {"FTI": ["TT4", "T4U"]}
    >>> blood = FeatureGroups.singletons(["TT4", "T4U", "FTI"], [12.41, 9.31, 0], shared=draw, requires=index)
    >>> round(blood.cost_of(["TT4"]), 2), round(blood.cost_of(["FTI"]), 2)
    (14.51, 23.82)
    """

    names: tuple[str, ...]
    columns: tuple[tuple[Column, ...], ...]
    remainder: Remainder
    prices: Prices
    _direct: tuple[tuple[int, ...], ...]

    def __init__(
        self,
        groups: Mapping[str, object] | Iterable[object],
        costs: Costs = None,
        *,
        remainder: Remainder = "error",
        shared: SharedCosts | None = None,
        requires: Requires | None = None,
    ) -> None:
        names, columns = parsing.parse_groups(groups)
        if remainder not in ("error", "drop"):
            raise ValueError(f"remainder must be 'error' or 'drop', got {shown(remainder)}")
        own, direct = parsing.parse_costs(costs, names), parsing.parse_requires(requires, names)
        empty = [g for g, members in enumerate(columns) if not members and not (direct and direct[g])]
        if empty:
            raise ValueError(f"group {shown(names[empty[0]])} has no columns")
        prices = Prices(own, parsing.parse_shared(shared, names), parsing.all_required(direct, names))
        vars(self).update(names=names, columns=columns, remainder=remainder, prices=prices, _direct=direct)

    @property
    def costs(self) -> Float:
        """The cost of each group itself, a read-only array of shape (n_groups,)."""
        return self.prices.own

    @property
    def shared(self) -> dict[str, tuple[float, tuple[str, ...]]]:
        """Costs that several groups share: name -> (cost, names of the groups)."""
        return {s.name: (s.cost, tuple(self.names[g] for g in s.members)) for s in self.prices.shared}

    @property
    def requires(self) -> dict[str, tuple[str, ...]]:
        """For each group with requirements, the names of the groups that it requires directly."""
        given = enumerate(self._direct)
        return {self.names[g]: tuple(self.names[h] for h in required) for g, required in given if required}

    @classmethod
    def from_prefix(
        cls,
        columns: Iterable[object],
        sep: str = "_",
        costs: Costs = None,
        *,
        prefixes: Iterable[str] | None = None,
        **settings: Any,
    ) -> FeatureGroups:
        """Group the columns of a data frame, or a list of column names, by the prefixes of the names.

        Parameters
        ----------
        columns : data frame or names
            The columns to group.
        sep : str
            The text that separates the prefix from the rest of the name.
        prefixes : list of str, optional
            The prefixes that become groups. If the name of a column begins with one of them, followed by ``sep``, the
            column belongs to the longest such prefix; any other column is a group of its own. By default, the prefix of
            a column is the part of its name before the first ``sep``. In this case, a warning lists the groups that
            contain several columns, because a common prefix does not always mean one group: ``serum_iron`` and
            ``serum_albumin`` may come from one blood test or from two.
        costs
            As in ``FeatureGroups``.
        **settings
            The parameters ``remainder``, ``shared`` and ``requires`` of ``FeatureGroups``.

        Notes
        -----
        A column named ``missingindicator_age``, which is how scikit-learn names the missing-value indicator of ``age``,
        joins the group of ``age``.

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> FeatureGroups.from_prefix(["blood_chol", "blood_fbs", "serum_iron"], prefixes=["blood"]).names
        ('blood', 'serum_iron')
        """
        groups = parsing.group_by_prefix(parsing.names_of(columns), sep, prefixes)
        merged = [group for group, members in groups.items() if len(members) > 1]
        if prefixes is None and merged:
            each = some(merged, 3, of=lambda group: f"{shown(group)} holds {some(groups[group], 3)}")
            right = f"prefixes=[{some(merged, 3)}]"
            warn(f"columns with the same prefix are one group: {each}. If that is right, say so: {right}", UserWarning)
        return cls(groups, costs, **settings)

    @classmethod
    def singletons(cls, columns: Iterable[object] | int, costs: Costs = None, **settings: Any) -> FeatureGroups:
        """Make every column a group of its own, given a data frame, column names, or the number of columns.

        If the number of columns D is passed, the groups are named ``"0"`` to ``"D-1"``. ``settings`` can contain
        ``remainder``, ``shared`` and ``requires``. Other parameters as in ``FeatureGroups``.

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> FeatureGroups.singletons(["age", "chol"], costs=[1, 7.27]).names
        ('age', 'chol')
        """
        if isinstance(columns, int | np.integer):
            return cls([[d] for d in range(int(columns))], costs, **settings)
        return cls({name: [name] for name in parsing.names_of(columns)}, costs, **settings)

    @classmethod
    def from_yaml(cls, path: str | Path) -> FeatureGroups:
        r"""Read groups from a YAML file at ``path``.

        The file is a mapping with the key ``groups`` (name -> ``{columns: [...], cost: number, requires: [...]}``) and
        optionally ``shared`` (name -> ``{cost: number, groups: [...]}``) and ``remainder: drop``. Costs default to 1.

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> with open("groups.yaml", "w") as file:
        ...     _ = file.write("groups:\n  blood: {columns: [chol, fbs], cost: 10.37}\n")
        >>> FeatureGroups.from_yaml("groups.yaml").costs.tolist()
        [10.37]
        """
        try:
            return cls(**parsing.read_groups(parsing.content_of(Path(path))))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{path}: {error}") from error

    def to_yaml(self) -> str:
        """Return the groups as YAML text, which `from_yaml` can read from a file.

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> print(FeatureGroups({"blood": ["chol", "fbs"]}, costs=[10.37]).to_yaml(), end="")
        groups:
          blood:
            columns: [chol, fbs]
            cost: 10.37
        """
        content: dict[str, Any] = {"groups": {}}
        for name, columns, cost in zip(self.names, self.columns, self.costs.tolist(), strict=True):
            content["groups"][name] = {"columns": list(columns), "cost": plain_number(cost)}
        for name, required in self.requires.items():
            content["groups"][name]["requires"] = list(required)
        if shared := self.shared:
            content["shared"] = {n: {"cost": plain_number(c), "groups": list(g)} for n, (c, g) in shared.items()}
        if self.remainder != "error":
            content["remainder"] = self.remainder
        return parsing.write_yaml(content)

    def with_costs(self, costs: Costs) -> FeatureGroups:
        """Return the same groups with new ``costs``; shared costs and requirements do not change."""
        return FeatureGroups(**{**self._arguments(), "costs": costs})

    def with_free(self, requires: Mapping[str, Sequence[str]]) -> FeatureGroups:
        """Return these groups plus new free groups that have no columns.

        ``requires`` maps the name of each new group to the groups that it requires.
        """
        given = self._arguments()
        groups = given["groups"] | dict.fromkeys(requires, ())
        costs = np.append(self.costs, np.zeros(len(requires)))
        return FeatureGroups(**{**given, "groups": groups, "costs": costs, "requires": {**self.requires, **requires}})

    def _arguments(self) -> dict[str, Any]:
        groups = dict(zip(self.names, self.columns, strict=True))
        extra = {"remainder": self.remainder, "shared": self.shared, "requires": self.requires}
        return {"groups": groups, "costs": self.costs, **extra}

    def cost_of(self, groups: Iterable[Name]) -> float:
        """Return the total cost of the named groups and of all groups that they require; shared costs count once.

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> blood = FeatureGroups({"chol": [0], "fbs": [1]}, [5, 3], shared={"draw": (2, ["chol", "fbs"])})
        >>> blood.cost_of(["chol"]), blood.cost_of(["chol", "fbs"])
        (7.0, 10.0)
        """
        positions = parsing.positions_of("groups", groups, parsing.places_of(self.names))
        return self.prices.cost(self.prices.closure(positions))

    def resolve(self, feature_names: Sequence[str] | None, n_features: int) -> Layout:
        """Find every group's columns in a table; ``feature_names`` is None for arrays."""
        members = zip(self.names, self.columns, strict=True)
        columns = parsing.locate(members, feature_names, n_features, complete=self.remainder == "error")
        names = None if feature_names is None else tuple(map(str, feature_names))
        return Layout(columns, n_features, self, names)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGroups) and self.record() == other.record()

    def __hash__(self) -> int:
        return hash(self.record())

    def record(self) -> GroupsRecord:
        """Return the groups as a plain record, in the form in which they are stored in files."""
        shared = tuple((name, cost, members) for name, (cost, members) in self.shared.items())
        requires = tuple(self.requires.items())
        return GroupsRecord(self.names, self.columns, tuple(self.costs.tolist()), self.remainder, shared, requires)

    def __reduce__(self) -> tuple[Callable[[], FeatureGroups], tuple[()]]:
        return partial(FeatureGroups, **self._arguments()), ()  # a new object, so that costs stay read-only

    def __repr__(self) -> str:
        n_columns, total = sum(map(len, self.columns)), self.prices.total
        return f"FeatureGroups({len(self)} groups, {n_columns} columns, total cost {total:.6g})"

    def _repr_html_(self) -> str:
        rows = zip(self.names, self.columns, self.costs.tolist(), strict=True)
        cells = [[name, str(len(own)), some(map(str, own), of=name_of), f"{cost:.6g}"] for name, own, cost in rows]
        return html_table(("group", "width", "columns", "cost"), cells)


def as_feature_groups(groups: Any, costs: Any, feature_names: Sequence[str] | None, n_features: int) -> FeatureGroups:
    """Return the groups of an estimator's ``feature_groups`` and ``costs``; None means one group per column."""
    if isinstance(groups, FeatureGroups):
        return groups if costs is None else groups.with_costs(costs)
    if groups is None:
        if n_features > MOST_SINGLES:
            what = f"{n_features:,} columns, each a group of its own, would need too much memory"
            raise ValueError(f"{what}: pass feature_groups with the columns that matter, and remainder='drop'")
        return FeatureGroups.singletons(n_features if feature_names is None else feature_names, costs)
    return FeatureGroups(groups, costs)


def plain_groups(groups: FeatureGroups) -> dict[str, object]:
    """Return groups as plain JSON."""
    return plain_of(groups.record())


def groups_of(plain: object, where: str) -> FeatureGroups:
    """Return the groups of `plain_groups`; ``where`` names them in errors."""
    record = read_record(GroupsRecord, plain, where)
    if not len(record.names) == len(record.columns) == len(record.costs) == len(set(record.names)):
        raise ValueError(f"{where} must have one list of columns and one cost for every name")
    found = FeatureGroups(
        dict(zip(record.names, record.columns, strict=True)),
        record.costs,
        remainder=record.remainder,  # type: ignore[arg-type]
        shared={name: (cost, members) for name, cost, members in record.shared},
        requires=dict(record.requires),
    )
    if plain_groups(found) != plain:  # names given twice, for example
        raise ValueError(f"{where}: the groups, shared costs or requirements are not as written by save")
    return found


StoredGroups = Annotated[FeatureGroups, As(plain_groups, groups_of)]
"""The type of groups in a record."""


def check_order(order: Positions, groups: FeatureGroups) -> None:
    """Raise an error unless the entries are positions of different groups, each after its requirements."""
    if np.unique(order).size < order.size or np.any((order < 0) | (order >= len(groups))):
        raise ValueError("order is not an order of the groups")
    if groups.prices.out_of_order(order.tolist()) is not None:
        raise ValueError("order has a group before one that it requires")
