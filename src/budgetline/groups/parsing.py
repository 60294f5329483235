"""Parsing of groups, costs, shared costs and requirements in all forms; every error names the group or column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Positions
from budgetline.groups.prices import SharedCost
from budgetline.inputs import column_names
from budgetline.messages import cut, did_you_mean, shown, some

Column = str | int
Name = str | int
Costs = Mapping[str, float] | Mapping[int, float] | ArrayLike | None
SharedCosts = Mapping[str, tuple[float, Iterable[Name]]]
Requires = Mapping[str, Iterable[Name]] | Mapping[int, Iterable[Name]]
MOST_REQUIRED = 10**7
"""Limit on required groups, summed over all groups: a chain needs memory quadratic in its length."""
FLAG = "missingindicator_"
"""Prefix of scikit-learn's names for flags of missing values; the rest is the name of the column."""


def parse_groups(groups: object) -> tuple[tuple[str, ...], tuple[tuple[Column, ...], ...]]:
    """Return names and columns of the groups, from a mapping, column lists or labels."""
    names, entries = _named(groups)
    if not names:
        raise ValueError("there must be at least one group")
    if (repeated := _repeated(names)) is not None:
        raise ValueError(f"duplicate group name {shown(repeated)}")
    columns = tuple(_columns(name, entry) for name, entry in zip(names, entries, strict=True))
    owner: dict[Column, str] = {}
    for name, members in zip(names, columns, strict=True):
        if len(new := dict.fromkeys(members, name)) < len(members) or not owner.keys().isdisjoint(new):
            column = next(c for k, c in enumerate(members) if c in owner or c in members[:k])
            where = f"in group {shown(owner[column])} too" if column in owner else "twice in it"
            raise ValueError(f"group {shown(name)}: column {shown(column)} is {where}")
        owner |= new
    return names, columns


def _named(groups: object) -> tuple[tuple[str, ...], Collection[object]]:
    """Return the names of groups, and their columns as given."""
    if isinstance(groups, Mapping):
        return tuple(map(str, groups)), groups.values()
    if isinstance(groups, str | bytes | Set) or not isinstance(groups, Iterable):
        raise TypeError(
            "groups must be a mapping name -> columns, a list of column lists, or one label per column, "
            f"got {shown(groups)}"
        )
    entries = list(groups)
    nested = [isinstance(e, Iterable) and not isinstance(e, str | bytes) for e in entries]
    if all(nested):
        return tuple(map(str, range(len(entries)))), entries
    if any(nested):
        raise TypeError("groups mixes column lists and single labels; give all column lists, or one label per column")
    by_label: dict[str, list[int]] = {}
    for d, label in enumerate(entries):
        if _is_missing(label):
            raise ValueError(f"the group label of column {d} is missing ({shown(label)})")
        by_label.setdefault(str(label), []).append(d)
    return tuple(by_label), by_label.values()


def _is_missing(label: object) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # the truth value of pandas' NA
        return True


def _repeated(names: Iterable[str]) -> str | None:
    """Return the first name that is given twice, if any."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _columns(group: str, columns: object) -> tuple[Column, ...]:
    """Return the columns of one group as names or positions."""
    if type(columns) in (list, tuple) and {str, int}.issuperset(map(type, columns)):  # type: ignore[call-overload]
        return tuple(columns)  # type: ignore[arg-type]
    if isinstance(columns, str | Integral):
        columns = [columns]
    if not isinstance(columns, Iterable) or isinstance(columns, Mapping | bytes):
        raise TypeError(f"group {shown(group)}: columns must be a list of names or positions, got {shown(columns)}")
    columns = list(columns)
    for column in columns:
        if isinstance(column, bool) or not isinstance(column, str | Integral):
            raise TypeError(f"group {shown(group)}: column {shown(column)} is neither a name nor a position")
    return tuple(str(column) if isinstance(column, str) else int(column) for column in columns)


def parse_costs(costs: object, names: tuple[str, ...]) -> Float:
    """Return finite, non-negative costs in group order, read-only."""
    if costs is None:
        costs = np.ones(len(names))
    if hasattr(costs, "to_dict") and list(costs.to_dict()) != list(range(len(names))):
        costs = costs.to_dict()  # a series labelled by group
    if hasattr(costs, "to_pylist"):
        costs = costs.to_pylist()  # before version 21 the entries of an Arrow array are not Python numbers
    if isinstance(costs, Mapping):
        given = {str(name): cost for name, cost in costs.items()}
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"no cost for group {shown(missing[0])}")
        known = set(names)
        if unknown := [name for name in given if name not in known]:
            close = did_you_mean(unknown[0], names)
            raise ValueError(f"cost given for unknown group {shown(unknown[0])}{close}")
        costs = [given[name] for name in names]
    entries = list(costs) if isinstance(costs, Iterable) and not isinstance(costs, str | bytes | Set) else None
    if entries is None or len(entries) != len(names):
        raise ValueError(f"costs must be a mapping or one cost for each of the {len(names)} groups, got {shown(costs)}")
    found = (_cost("the cost of group", name, cost) for name, cost in zip(names, entries, strict=True))
    values = np.fromiter(found, dtype=np.float64, count=len(names))
    values.flags.writeable = False
    return values


def _cost(what: str, name: str, cost: Any) -> float:
    try:
        value = float("" if isinstance(cost, bool | np.bool_) else cost)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} {shown(name)} is not a number: {shown(cost)}") from None
    if not 0 <= value < np.inf:
        raise ValueError(f"{what} {shown(name)} must be finite and not negative, got {shown(cost)}")
    return value


def parse_shared(shared: object, names: tuple[str, ...]) -> tuple[SharedCost, ...]:
    """Return the costs that groups share, from a mapping name -> (cost, groups); members in the order of the groups."""
    if not isinstance(shared, Mapping | None):
        raise TypeError(f"shared must be a mapping name -> (cost, groups), got {shown(shared)}")
    place = places_of(names)
    found: list[SharedCost] = []
    for name, entry in _by_name(shared or {}, "duplicate shared cost {}"):
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise ValueError(f"shared cost {shown(name)} must be given as (cost, groups), got {shown(entry)}")
        cost = _cost("shared cost", name, entry[0])
        members = positions_of(f"shared cost {shown(name)}", entry[1], place)
        if not members:
            raise ValueError(f"shared cost {shown(name)} has no groups")
        found.append(SharedCost(name, cost, members))
    return tuple(found)


def parse_requires(requires: object, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the groups that each group requires directly, from a mapping group -> groups; () if none requires any."""
    if not isinstance(requires, Mapping | None):
        raise TypeError(f"requires must be a mapping group -> groups, got {shown(requires)}")
    place = places_of(names)
    found: dict[int, tuple[int, ...]] = {}
    for name, entry in _by_name(requires or {}, "requires: group {} is given twice"):
        if name not in place:
            raise ValueError(f"requires: there is no group {shown(name)}{did_you_mean(name, place)}")
        g = place[name]
        found[g] = positions_of(f"what group {shown(name)} requires", entry, place)
        if g in found[g]:
            raise ValueError(f"group {shown(name)} requires itself")
    return tuple(found.get(g, ()) for g in range(len(names))) if any(found.values()) else ()


def _by_name(given: Mapping[object, object], twice: str) -> Iterable[tuple[str, object]]:
    """Return the entries of a mapping by name; raise an error if two keys have the same name."""
    if (repeated := _repeated(map(str, given))) is not None:
        raise ValueError(twice.format(shown(repeated)))
    return ((str(key), entry) for key, entry in given.items())


def all_required(direct: tuple[tuple[int, ...], ...], names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return all groups that every group requires, directly or not, each after the groups that it requires itself."""
    try:
        order = list(TopologicalSorter(dict(enumerate(direct))).static_order())
    except CycleError as error:
        around = error.args[1][:0:-1]  # each group before one that it requires
        first = around.index(min(around))
        around = [*around[first:], *around[: first + 1]]
        chain = cut(" -> ".join(shown(names[g]) for g in around))
        raise ValueError(f"groups require each other in a cycle: {chain}") from None
    known: dict[int, tuple[int, ...]] = {}
    total = 0
    for g in order:
        known[g] = tuple(dict.fromkeys(d for h in direct[g] for d in (*known[h], h)))
        total += len(known[g])
        if total > MOST_REQUIRED:
            raise ValueError(f"groups require more than {MOST_REQUIRED} others in all")
    return tuple(known[g] for g in range(len(direct)))


def places_of(names: tuple[str, ...]) -> dict[str, int]:
    """Return the position of every group."""
    return {name: g for g, name in enumerate(names)}


def positions_of(what: str, groups: object, place: Mapping[str, int]) -> tuple[int, ...]:
    """Return positions of groups given by name, in the order of the groups; a single name is accepted."""
    if isinstance(groups, str | Integral):
        groups = [groups]
    if not isinstance(groups, Iterable) or isinstance(groups, Mapping | bytes):
        raise TypeError(f"{what}: a list of groups is expected, got {shown(groups)}")
    found: set[int] = set()
    for name in map(str, groups):
        if name not in place:
            raise ValueError(f"{what}: there is no group {shown(name)}{did_you_mean(name, place)}")
        if place[name] in found:
            raise ValueError(f"{what}: group {shown(name)} is listed twice")
        found.add(place[name])
    return tuple(sorted(found))


def locate(
    groups: Iterable[tuple[str, tuple[Column, ...]]],
    feature_names: Sequence[str] | None,
    n_features: int,
    complete: bool,
) -> tuple[Positions, ...]:
    """Return the positions in X of the columns of each group; if ``complete``, every column must be in a group."""
    position = None if feature_names is None else dict(zip(names_of(feature_names), range(n_features), strict=True))
    owner: dict[int, str] = {}
    found = []
    for name, columns in groups:
        places = [_position(column, name, position, n_features) for column in columns]
        for d, column in zip(places, columns, strict=True):
            if d in owner:
                raise ValueError(f"column {shown(column)} is in group {shown(owner[d])} and in group {shown(name)}")
            owner[d] = name
        found.append(np.array(places, dtype=np.intp))
    if complete and (left := n_features - len(owner)):
        places_left = (d for d in range(n_features) if d not in owner)  # a forged file may say that there are billions
        first = some((d if feature_names is None else feature_names[d] for d in places_left), 5)
        which, them = (f"column {first} is", "it") if left == 1 else (f"{left} columns ({first}) are", "them")
        raise ValueError(f"{which} in no group: add {them} to a group, or leave {them} out with remainder 'drop'")
    return tuple(found)


def _position(column: Column, group: str, position: dict[str, int] | None, n_features: int) -> int:
    """Return the position in X of a column of a group; ``position`` has those of all names, if X has names."""
    if isinstance(column, int):
        if not 0 <= column < n_features:
            raise ValueError(
                f"group {shown(group)}: column {shown(column)} is out of range, the data have {n_features} columns"
            )
        return column
    if position is None:
        raise ValueError(
            f"group {shown(group)} names column {shown(column)}, but the columns of the data have no names: "
            "give positions, or pass a data frame"
        )
    if column not in position:
        close = did_you_mean(column, position)
        raise ValueError(f"group {shown(group)}: column {shown(column)} is not in the data{close}")
    return position[column]


def names_of(columns: Iterable[object]) -> tuple[str, ...]:
    """Return unique column names, of a data frame or as given."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a data frame or a list of names, got the string {shown(columns)}")
    names: tuple[object, ...] = column_names(columns) or tuple(columns)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"column names must be strings, got {shown(wrong[0])}")
    found = tuple(map(str, names))
    if (repeated := _repeated(found)) is not None:
        raise ValueError(f"duplicate column name {shown(repeated)}")
    return found


def group_by_prefix(names: Sequence[str], sep: str, prefixes: Iterable[str] | None) -> dict[str, list[str]]:
    """Return the names that begin with each prefix and ``sep``; None: group by the part before the first ``sep``."""
    if isinstance(prefixes, str):
        raise TypeError(f"prefixes must be a list of names, got the string {shown(prefixes)}")
    subjects = {name: name.removeprefix(FLAG) or name for name in names}
    known = {subject.split(sep, 1)[0] for subject in subjects.values()} if prefixes is None else set(prefixes)
    groups: dict[str, list[str]] = {}
    for name, subject in subjects.items():
        fitting = (prefix for prefix in known if f"{subject}{sep}".startswith(f"{prefix}{sep}"))
        groups.setdefault(max(fitting, key=len, default=subject), []).append(name)
    if unused := sorted(known - groups.keys()):
        raise ValueError(f"no column begins with the prefix {shown(unused[0])}; the columns are {some(names)}")
    return groups


def plain_number(value: float) -> int | float:
    """Return a number as a person would write it: whole numbers without a decimal point."""
    return int(value) if value.is_integer() else value
