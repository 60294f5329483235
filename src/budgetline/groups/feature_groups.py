"""FeatureGroups and its place in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from budgetline.groups.parsing import Column, check_columns, names_of, parse_costs, parse_groups, read_yaml, write_yaml

Remainder = Literal["error", "drop"]


@dataclass(frozen=True)
class Layout:
    """Groups resolved against one table: the positions of every group's columns.

    Attributes
    ----------
    columns : tuple of int arrays
        ``columns[g]`` are the positions of group ``g`` in X, in the user's order.
    n_features : int
        Number of columns of X, including those in no group.
    groups : FeatureGroups
        What was resolved.
    """

    columns: tuple[NDArray[np.intp], ...]
    n_features: int
    groups: FeatureGroups

    @property
    def used(self) -> NDArray[np.intp]:
        """Positions of all grouped columns, group after group."""
        return np.concatenate(self.columns)


class FeatureGroups:
    """Groups of columns with costs: what is computed together, and its price.

    Parameters
    ----------
    groups : mapping, list of column lists, or one label per column
        A mapping gives ``name -> columns``; a list of lists gives groups named ``"0"``, ``"1"``, …; a flat
        sequence gives one group label per column of X. Columns are names (for data frames) or positions.
    costs : mapping name -> cost, sequence in group order, or None
        Finite and non-negative, in any one unit (seconds, dollars, …). None: every group costs 1.
        A group of cost 0 is free and comes first in every cost-sensitive sequence.
    remainder : {"error", "drop"}
        What to do with columns of X that are in no group.

    Attributes
    ----------
    names : tuple of str
    columns : tuple of tuples of str or int
    costs : float array of shape (J,), read-only
    remainder : str

    Examples
    --------
    >>> from budgetline import FeatureGroups
    >>> FeatureGroups({"history": ["age", "sex"], "blood": ["chol", "fbs"]}, costs={"history": 2, "blood": 10.37})
    FeatureGroups(2 groups, 4 columns, total cost 12.37)
    """

    __slots__ = ("_columns", "_costs", "_names", "_remainder")

    def __init__(
        self,
        groups: Mapping[Any, Any] | Iterable[Any],
        costs: Mapping[Any, float] | ArrayLike | None = None,
        *,
        remainder: Remainder = "error",
    ) -> None:
        names, columns = parse_groups(groups)
        check_columns(names, columns)
        if remainder not in ("error", "drop"):
            raise ValueError(f"remainder must be 'error' or 'drop', got {remainder!r}")
        self._names = names
        self._columns = columns
        self._costs = parse_costs(costs, names)
        self._remainder = remainder

    @property
    def names(self) -> tuple[str, ...]:
        """Group names, in the order given."""
        return self._names

    @property
    def columns(self) -> tuple[tuple[Column, ...], ...]:
        """Columns of each group, as given: names or positions."""
        return self._columns

    @property
    def costs(self) -> NDArray[np.float64]:
        """Cost of each group, shape (J,), read-only."""
        return self._costs

    @property
    def remainder(self) -> Remainder:
        """What happens to columns in no group: ``"error"`` or ``"drop"``."""
        return self._remainder

    # -- other ways to make groups ---------------------------------------------------------------------------

    @classmethod
    def from_prefix(
        cls,
        columns: Any,
        sep: str = "_",
        costs: Mapping[Any, float] | ArrayLike | None = None,
        *,
        remainder: Remainder = "error",
    ) -> FeatureGroups:
        """Group columns by the part of their name before the first ``sep``.

        Parameters
        ----------
        columns : data frame or iterable of str
        sep : str
            A name without it is a group of its own.
        costs, remainder : as in the constructor

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> FeatureGroups.from_prefix(["blood_chol", "blood_fbs", "age"]).names
        ('blood', 'age')
        """
        groups: dict[str, list[str]] = {}
        for name in names_of(columns):
            groups.setdefault(name.split(sep, 1)[0], []).append(name)
        return cls(groups, costs, remainder=remainder)

    @classmethod
    def singletons(cls, columns: Any, costs: Mapping[Any, float] | ArrayLike | None = None) -> FeatureGroups:
        """Make every column a group of its own.

        Parameters
        ----------
        columns : data frame, iterable of names, or number of columns
            With a number ``D`` the groups are the positions, named ``"0"`` … ``"D-1"``.
        costs : as in the constructor

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> FeatureGroups.singletons(["age", "chol"], costs=[1, 7.27]).names
        ('age', 'chol')
        """
        if isinstance(columns, Integral):
            return cls([[d] for d in range(int(columns))], costs)
        return cls({name: [name] for name in names_of(columns)}, costs)

    @classmethod
    def random_by_cost(cls, costs: ArrayLike, size: int, random_state: Any = None) -> FeatureGroups:
        """Put columns of equal cost into random groups of a given size (the paper's Yahoo! protocol).

        Columns are shuffled within each cost class and cut into groups of ``size``; the last group of a class
        holds the remainder. A group costs the sum of its columns.

        Parameters
        ----------
        costs : array of shape (D,)
            One cost per column.
        size : int
        random_state : int, RandomState or None

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> FeatureGroups.random_by_cost([1, 1, 1, 5, 5], size=2, random_state=0).costs.tolist()
        [2.0, 1.0, 10.0]
        """
        if int(size) != size or size < 1:
            raise ValueError(f"size must be a positive integer, got {size!r}")
        per_column = np.asarray(costs, dtype=np.float64)
        if per_column.ndim != 1:
            raise ValueError(f"costs must hold one cost per column, got an array of shape {per_column.shape}")
        parse_costs(per_column, tuple(f"column {d}" for d in range(per_column.size)))
        rng = check_random_state(random_state)
        groups: dict[str, list[int]] = {}
        totals: list[float] = []
        for cost in np.unique(per_column):
            members = rng.permutation(np.flatnonzero(per_column == cost))
            for k, start in enumerate(range(0, members.size, int(size))):
                chosen = sorted(members[start : start + int(size)].tolist())
                groups[f"cost{np.format_float_positional(cost, trim='-')}_{k}"] = chosen
                totals.append(float(cost) * len(chosen))
        return cls(groups, totals)

    @classmethod
    def from_yaml(cls, path: str | Path) -> FeatureGroups:
        r"""Read groups from a YAML file.

        The file is a mapping with the key ``groups`` (name -> ``{columns: [...], cost: number}``) and optionally
        ``remainder: drop``. A missing cost is 1.

        Parameters
        ----------
        path : path to the file

        Examples
        --------
        >>> from pathlib import Path; from tempfile import TemporaryDirectory
        >>> from budgetline import FeatureGroups
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "groups.yaml"
        ...     _ = path.write_text("groups:\n  blood: {columns: [chol, fbs], cost: 10.37}\n")
        ...     FeatureGroups.from_yaml(path).costs.tolist()
        [10.37]
        """
        content = read_yaml(Path(path))
        if not isinstance(content, dict) or not isinstance(content.get("groups"), dict):
            raise ValueError(f"{path}: expected a mapping with the key 'groups' (name -> columns, cost)")
        if unknown := sorted(map(str, content.keys() - {"groups", "remainder"})):
            raise ValueError(f"{path}: unknown key {unknown[0]!r}; known are 'groups' and 'remainder'")
        groups, costs = {}, {}
        for name, entry in content["groups"].items():
            if not isinstance(entry, dict) or "columns" not in entry:
                raise ValueError(f"{path}: group {name!r} needs 'columns: [...]' (and optionally 'cost: number')")
            if unknown := sorted(map(str, entry.keys() - {"columns", "cost"})):
                raise ValueError(f"{path}: group {name!r} has the unknown key {unknown[0]!r}")
            groups[name] = entry["columns"]
            costs[name] = entry.get("cost", 1.0)
        try:
            return cls(groups, costs, remainder=content.get("remainder", "error"))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{path}: {error}") from error

    def to_yaml(self) -> str:
        """Return the groups as the text of a file that :meth:`from_yaml` reads.

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> print(FeatureGroups({"blood": ["chol", "fbs"]}, costs=[10.37]).to_yaml(), end="")
        groups:
          blood:
            columns: [chol, fbs]
            cost: 10.37
        """
        entries = {
            name: {"columns": list(columns), "cost": int(cost) if cost.is_integer() else cost}
            for name, columns, cost in zip(self._names, self._columns, self._costs.tolist(), strict=True)
        }
        remainder = {} if self._remainder == "error" else {"remainder": self._remainder}
        return write_yaml({"groups": entries, **remainder})

    def with_costs(self, costs: Mapping[Any, float] | ArrayLike) -> FeatureGroups:
        """Return the same groups at other costs.

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> FeatureGroups([[0], [1, 2]]).with_costs([3, 4]).costs.tolist()
        [3.0, 4.0]
        """
        return FeatureGroups(dict(zip(self._names, self._columns, strict=True)), costs, remainder=self._remainder)

    # -- use -------------------------------------------------------------------------------------------------

    def resolve(self, feature_names: Sequence[str] | None, n_features: int) -> Layout:
        """Find every group's columns in a table.

        Parameters
        ----------
        feature_names : sequence of str or None
            Column names of X, None for arrays.
        n_features : int
            Number of columns of X.

        Returns
        -------
        Layout

        Examples
        --------
        >>> from budgetline import FeatureGroups
        >>> FeatureGroups({"a": ["y"], "b": ["x", "z"]}).resolve(["x", "y", "z"], 3).columns[1].tolist()
        [0, 2]
        """
        position = None if feature_names is None else dict(zip(names_of(feature_names), range(n_features), strict=True))
        owner: dict[int, str] = {}
        resolved = []
        for name, columns in zip(self._names, self._columns, strict=True):
            found = [_position(column, name, position, n_features) for column in columns]
            for d, column in zip(found, columns, strict=True):
                if d in owner:
                    raise ValueError(f"column {column!r} is in group {owner[d]!r} and in group {name!r}")
                owner[d] = name
            resolved.append(np.array(found, dtype=np.intp))
        if self._remainder == "error" and len(owner) < n_features:
            missing = [d if feature_names is None else feature_names[d] for d in range(n_features) if d not in owner]
            raise ValueError(
                f"{_some(missing)} in no group; "
                "add the missing columns to a group or pass remainder='drop' to leave them out"
            )
        return Layout(tuple(resolved), n_features, self)

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureGroups):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __getstate__(self) -> tuple[Any, ...]:
        return self._key()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        names, columns, costs, remainder = state
        self.__init__(dict(zip(names, columns, strict=True)), costs, remainder=remainder)  # type: ignore[misc]

    def _key(self) -> tuple[Any, ...]:
        return self._names, self._columns, tuple(self._costs.tolist()), self._remainder

    def __repr__(self) -> str:
        return (
            f"FeatureGroups({len(self)} groups, {sum(map(len, self._columns))} columns, "
            f"total cost {self._costs.sum():.6g})"
        )


def as_feature_groups(groups: Any, costs: Any, feature_names: Sequence[str] | None, n_features: int) -> FeatureGroups:
    """Turn an estimator's ``feature_groups`` and ``costs`` into FeatureGroups; None means one group per column."""
    if isinstance(groups, FeatureGroups):
        return groups if costs is None else groups.with_costs(costs)
    if groups is None:
        return FeatureGroups.singletons(n_features if feature_names is None else feature_names, costs)
    return FeatureGroups(groups, costs)


def _position(column: Column, group: str, position: dict[str, int] | None, n_features: int) -> int:
    if isinstance(column, str):
        if position is None:
            raise ValueError(
                f"group {group!r} names column {column!r}, but X has no column names; "
                "pass a data frame or give positions"
            )
        if column not in position:
            raise ValueError(f"group {group!r}: column {column!r} is not in X")
        return position[column]
    if not 0 <= column < n_features:
        raise ValueError(f"group {group!r}: column {column} is out of range, X has {n_features} columns")
    return column


def _some(columns: list[Any], most: int = 5) -> str:
    shown = ", ".join(repr(c) for c in columns[:most]) + (", …" if len(columns) > most else "")
    return f"column {shown} of X is" if len(columns) == 1 else f"{len(columns)} columns ({shown}) of X are"
