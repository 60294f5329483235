"""Reading groups, costs, and what groups share and require, in all forms; every error names the culprit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.groups.prices import SharedCost
from budgetline.inputs import column_names
from budgetline.messages import cut, shown, some

Column = str | int
Shared = Mapping[Any, tuple[float, Iterable[Any]]]
Requires = Mapping[Any, Iterable[Any]]
MOST_REQUIRED = 10**7
"""A chain of groups that require each other takes memory of the square of its length."""


def parse_groups(groups: Any) -> tuple[tuple[str, ...], tuple[tuple[Column, ...], ...]]:
    """Return names and columns of the groups, from a mapping, column lists or labels."""
    if isinstance(groups, Mapping):
        return tuple(str(name) for name in groups), tuple(parse_columns(n, c) for n, c in groups.items())
    if isinstance(groups, str | bytes | Set) or not isinstance(groups, Iterable):
        raise TypeError(
            "groups must be a mapping name -> columns, a list of column lists, or one label per column, "
            f"got {shown(groups)}"
        )
    entries = list(groups)
    nested = [isinstance(e, Iterable) and not isinstance(e, str | bytes) for e in entries]
    if all(nested):
        return tuple(str(k) for k in range(len(entries))), tuple(parse_columns(k, c) for k, c in enumerate(entries))
    if any(nested):
        raise TypeError("groups mixes column lists and single labels; give all column lists, or one label per column")
    by_label: dict[str, list[int]] = {}
    for d, label in enumerate(entries):
        if _is_missing(label):
            raise ValueError(f"the group label of column {d} is missing ({shown(label)})")
        by_label.setdefault(str(label), []).append(d)
    return tuple(by_label), tuple(tuple(columns) for columns in by_label.values())


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # the truth value of pandas' NA
        return True


def parse_columns(name: Any, columns: Any) -> tuple[Column, ...]:
    """Return the columns of one group: names or positions."""
    if isinstance(columns, str | Integral):
        columns = [columns]
    if not isinstance(columns, Iterable) or isinstance(columns, Mapping | bytes):
        raise TypeError(f"group {shown(str(name))}: columns must be a list of names or positions, got {shown(columns)}")
    parsed: list[Column] = []
    for column in columns:
        if isinstance(column, str):
            parsed.append(str(column))
        elif isinstance(column, Integral) and not isinstance(column, bool | np.bool_):
            parsed.append(int(column))
        else:
            raise TypeError(f"group {shown(str(name))}: column {shown(column)} is neither a name nor a position")
    return tuple(parsed)


def check_columns(names: tuple[str, ...], columns: tuple[tuple[Column, ...], ...]) -> None:
    """Check that names and columns are unique and that no group is empty."""
    if not names:
        raise ValueError("there must be at least one group")
    owner: dict[Column, str] = {}
    seen: set[str] = set()
    for name, members in zip(names, columns, strict=True):
        if name in seen:
            raise ValueError(f"duplicate group name {shown(name)}")
        seen.add(name)
        if not members:
            raise ValueError(f"group {shown(name)} has no columns")
        for column in members:
            if column in owner:
                where = "twice in it" if owner[column] == name else f"in group {shown(owner[column])} too"
                raise ValueError(f"group {shown(name)}: column {shown(column)} is {where}")
            owner[column] = name


def parse_costs(costs: Any, names: tuple[str, ...]) -> NDArray[np.float64]:
    """Return finite, non-negative costs in group order, read-only."""
    if costs is None:
        costs = np.ones(len(names))
    if hasattr(costs, "to_dict") and list(costs.to_dict()) != list(range(len(names))):
        costs = costs.to_dict()  # a series labelled by group
    if hasattr(costs, "to_pylist"):
        costs = costs.to_pylist()  # before version 21 the entries of an Arrow array are no numbers
    if isinstance(costs, Mapping):
        given = {str(name): cost for name, cost in costs.items()}
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"no cost for group {shown(missing[0])}")
        known = set(names)
        if unknown := [name for name in given if name not in known]:
            raise ValueError(f"cost given for unknown group {shown(unknown[0])}")
        costs = [given[name] for name in names]
    entries = list(costs) if isinstance(costs, Iterable) and not isinstance(costs, str | bytes | Set) else None
    if entries is None or len(entries) != len(names):
        raise ValueError(f"costs must be a mapping or one cost for each of the {len(names)} groups, got {shown(costs)}")
    values = np.empty(len(names))
    for k, (name, cost) in enumerate(zip(names, entries, strict=True)):
        values[k] = _cost(f"the cost of group {shown(name)}", cost)
    values.flags.writeable = False
    return values


def _cost(what: str, cost: Any) -> float:
    if isinstance(cost, bool | np.bool_):
        raise ValueError(f"{what} is not a number: {shown(cost)}")
    try:
        value = float(cost)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} is not a number: {shown(cost)}") from None
    if not np.isfinite(value) or value < 0:
        raise ValueError(f"{what} must be finite and not negative, got {shown(cost)}")
    return value


def parse_shared(shared: Any, names: tuple[str, ...]) -> tuple[SharedCost, ...]:
    """Return the costs that groups share, from a mapping name -> (cost, groups); members in the order of the groups."""
    if shared is None:
        return ()
    if not isinstance(shared, Mapping):
        raise TypeError(f"shared must be a mapping name -> (cost, groups), got {shown(shared)}")
    place = places_of(names)
    found: dict[str, SharedCost] = {}
    for key, entry in shared.items():
        name = str(key)
        if name in found:
            raise ValueError(f"duplicate shared cost {shown(name)}")
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise ValueError(f"shared cost {shown(name)} must be given as (cost, groups), got {shown(entry)}")
        cost = _cost(f"shared cost {shown(name)}", entry[0])
        members = positions_of(f"shared cost {shown(name)}", entry[1], place)
        if not members:
            raise ValueError(f"shared cost {shown(name)} has no groups")
        found[name] = SharedCost(name, cost, members)
    return tuple(found.values())


def parse_requires(requires: Any, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return for every group those that it requires directly, from a mapping group -> groups; () if none does."""
    if requires is None:
        return ()
    if not isinstance(requires, Mapping):
        raise TypeError(f"requires must be a mapping group -> groups, got {shown(requires)}")
    place = places_of(names)
    found: dict[int, tuple[int, ...]] = {}
    for key, entry in requires.items():
        name = str(key)
        if name not in place:
            raise ValueError(f"requires: there is no group {shown(name)}")
        g = place[name]
        if g in found:
            raise ValueError(f"requires: group {shown(name)} is given twice")
        found[g] = positions_of(f"what group {shown(name)} requires", entry, place)
        if g in found[g]:
            raise ValueError(f"group {shown(name)} requires itself")
    return tuple(found.get(g, ()) for g in range(len(names))) if any(found.values()) else ()


def all_required(direct: tuple[tuple[int, ...], ...], names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return all that every group requires, directly or not, each after those that it requires itself."""
    known: dict[int, tuple[int, ...]] = {}
    total = 0
    for start in range(len(direct)):
        path, passed = [start], {start}  # a walk without recursion: chains may be long
        while path:
            waiting = [h for h in direct[path[-1]] if h not in known]
            if circle := [h for h in waiting if h in passed]:
                around = [*path[path.index(circle[0]) :], circle[0]]
                chain = cut(" -> ".join(shown(names[h]) for h in around))
                raise ValueError(f"groups require each other in a circle: {chain}")
            if waiting:
                path.append(waiting[0])
                passed.add(waiting[0])
            else:
                g = path.pop()
                known[g] = tuple(dict.fromkeys(d for h in direct[g] for d in (*known[h], h)))
                total += len(known[g])
                if total > MOST_REQUIRED:
                    raise ValueError(f"groups require more than {MOST_REQUIRED} others, all told")
    return tuple(known[g] for g in range(len(direct)))


def places_of(names: tuple[str, ...]) -> dict[str, int]:
    """Return the position of every group."""
    return {name: g for g, name in enumerate(names)}


def positions_of(what: str, groups: Any, place: Mapping[str, int]) -> tuple[int, ...]:
    """Return positions of groups given by name, in the order of the groups; a single name will do."""
    if isinstance(groups, str | Integral):
        groups = [groups]
    if not isinstance(groups, Iterable) or isinstance(groups, Mapping | bytes):
        raise TypeError(f"{what}: a list of groups is expected, got {shown(groups)}")
    found: set[int] = set()
    for name in map(str, groups):
        if name not in place:
            raise ValueError(f"{what}: there is no group {shown(name)}")
        if place[name] in found:
            raise ValueError(f"{what}: group {shown(name)} is listed twice")
        found.add(place[name])
    return tuple(sorted(found))


def position_of(column: Column, group: str, position: dict[str, int] | None, n_features: int) -> int:
    """Return the position in X of a column of a group; ``position`` has those of all names, where X has names."""
    if isinstance(column, str):
        if position is None:
            raise ValueError(
                f"group {shown(group)} names column {shown(column)}, but X has no column names; "
                "pass a data frame or give positions"
            )
        if column not in position:
            raise ValueError(f"group {shown(group)}: column {shown(column)} is not in X")
        return position[column]
    if not 0 <= column < n_features:
        raise ValueError(f"group {shown(group)}: column {shown(column)} is out of range, X has {n_features} columns")
    return column


def some_columns(columns: list[Any], most: int = 5) -> str:
    """Return the beginning of a sentence about columns of X."""
    first = some(columns, most)
    return f"column {first} of X is" if len(columns) == 1 else f"{len(columns)} columns ({first}) of X are"


def names_of(columns: Any) -> tuple[str, ...]:
    """Return unique column names, of a data frame or as given."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a data frame or a list of names, got the string {shown(columns)}")
    names = column_names(columns)
    if names is None:
        names = tuple(columns)
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"column names must be strings, got {shown(name)}")
        if name in seen:
            raise ValueError(f"duplicate column name {shown(name)}")
        seen.add(name)
    return names


def plain_number(value: float) -> int | float:
    """Return a number as a person would write it: whole ones without a point."""
    return int(value) if value.is_integer() else value
