"""Reading groups, costs, and what groups share and require, in all forms; every error names the culprit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.groups.prices import SharedCost
from budgetline.inputs import column_names

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
            f"groups must be a mapping name -> columns, a list of column lists, or one label per column, got {groups!r}"
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
            raise ValueError(f"the group label of column {d} is missing ({label!r})")
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
        raise TypeError(f"group {str(name)!r}: columns must be a list of names or positions, got {columns!r}")
    parsed: list[Column] = []
    for column in columns:
        if isinstance(column, str):
            parsed.append(str(column))
        elif isinstance(column, Integral) and not isinstance(column, bool | np.bool_):
            parsed.append(int(column))
        else:
            raise TypeError(f"group {str(name)!r}: column {column!r} is neither a name nor a position")
    return tuple(parsed)


def check_columns(names: tuple[str, ...], columns: tuple[tuple[Column, ...], ...]) -> None:
    """Check that names and columns are unique and that no group is empty."""
    if not names:
        raise ValueError("there must be at least one group")
    owner: dict[Column, str] = {}
    seen: set[str] = set()
    for name, members in zip(names, columns, strict=True):
        if name in seen:
            raise ValueError(f"duplicate group name {name!r}")
        seen.add(name)
        if not members:
            raise ValueError(f"group {name!r} has no columns")
        for column in members:
            if column in owner:
                where = "twice in it" if owner[column] == name else f"in group {owner[column]!r} too"
                raise ValueError(f"group {name!r}: column {column!r} is {where}")
            owner[column] = name


def parse_costs(costs: Any, names: tuple[str, ...]) -> NDArray[np.float64]:
    """Return finite, non-negative costs in group order, read-only."""
    if costs is None:
        costs = np.ones(len(names))
    if hasattr(costs, "to_dict") and list(costs.to_dict()) != list(range(len(names))):
        costs = costs.to_dict()  # a series labelled by group
    if isinstance(costs, Mapping):
        given = {str(name): cost for name, cost in costs.items()}
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"no cost for group {missing[0]!r}")
        known = set(names)
        if unknown := [name for name in given if name not in known]:
            raise ValueError(f"cost given for unknown group {unknown[0]!r}")
        costs = [given[name] for name in names]
    entries = list(costs) if isinstance(costs, Iterable) and not isinstance(costs, str | bytes | Set) else None
    if entries is None or len(entries) != len(names):
        raise ValueError(f"costs must be a mapping or one cost for each of the {len(names)} groups, got {costs!r}")
    values = np.empty(len(names))
    for k, (name, cost) in enumerate(zip(names, entries, strict=True)):
        values[k] = _cost(f"the cost of group {name!r}", cost)
    values.flags.writeable = False
    return values


def _cost(what: str, cost: Any) -> float:
    try:
        value = float(cost)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} is not a number: {cost!r}") from None
    if not np.isfinite(value) or value < 0:
        raise ValueError(f"{what} must be finite and not negative, got {cost!r}")
    return value


def parse_shared(shared: Any, names: tuple[str, ...]) -> tuple[SharedCost, ...]:
    """Return the costs that groups share, from a mapping name -> (cost, groups); members in the order of the groups."""
    if shared is None:
        return ()
    if not isinstance(shared, Mapping):
        raise TypeError(f"shared must be a mapping name -> (cost, groups), got {shared!r}")
    found: dict[str, SharedCost] = {}
    for key, entry in shared.items():
        name = str(key)
        if name in found:
            raise ValueError(f"duplicate shared cost {name!r}")
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise ValueError(f"shared cost {name!r} must be given as (cost, groups), got {entry!r}")
        cost = _cost(f"shared cost {name!r}", entry[0])
        members = positions_of(f"shared cost {name!r}", entry[1], names)
        if not members:
            raise ValueError(f"shared cost {name!r} has no groups")
        found[name] = SharedCost(name, cost, members)
    return tuple(found.values())


def parse_requires(requires: Any, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return for every group those that it requires directly, from a mapping group -> groups; () if none does."""
    if requires is None:
        return ()
    if not isinstance(requires, Mapping):
        raise TypeError(f"requires must be a mapping group -> groups, got {requires!r}")
    place = {name: g for g, name in enumerate(names)}
    found: dict[int, tuple[int, ...]] = {}
    for key, entry in requires.items():
        name = str(key)
        if name not in place:
            raise ValueError(f"requires: there is no group {name!r}")
        g = place[name]
        if g in found:
            raise ValueError(f"requires: group {name!r} is given twice")
        found[g] = positions_of(f"what group {name!r} requires", entry, names)
        if g in found[g]:
            raise ValueError(f"group {name!r} requires itself")
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
                shown = " -> ".join(repr(names[h]) for h in around)
                raise ValueError(f"groups require each other in a circle: {shown}")
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


def positions_of(what: str, groups: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return positions of groups given by name, in the order of the groups; a single name will do."""
    if isinstance(groups, str | Integral):
        groups = [groups]
    if not isinstance(groups, Iterable) or isinstance(groups, Mapping | bytes):
        raise TypeError(f"{what}: a list of groups is expected, got {groups!r}")
    place = {name: g for g, name in enumerate(names)}
    found: set[int] = set()
    for name in map(str, groups):
        if name not in place:
            raise ValueError(f"{what}: there is no group {name!r}")
        if place[name] in found:
            raise ValueError(f"{what}: group {name!r} is listed twice")
        found.add(place[name])
    return tuple(sorted(found))


def position_of(column: Column, group: str, position: dict[str, int] | None, n_features: int) -> int:
    """Return the position in X of a column of a group; ``position`` has those of all names, where X has names."""
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


def some_columns(columns: list[Any], most: int = 5) -> str:
    """Return the beginning of a sentence about columns of X."""
    shown = ", ".join(repr(c) for c in columns[:most]) + (", …" if len(columns) > most else "")
    return f"column {shown} of X is" if len(columns) == 1 else f"{len(columns)} columns ({shown}) of X are"


def names_of(columns: Any) -> tuple[str, ...]:
    """Return unique column names, of a data frame or as given."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a data frame or a list of names, got the string {columns!r}")
    names = column_names(columns)
    if names is None:
        names = tuple(columns)
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"column names must be strings, got {name!r}")
        if name in seen:
            raise ValueError(f"duplicate column name {name!r}")
        seen.add(name)
    return names


def write_yaml(content: Any) -> str:
    """Return plain content as YAML, texts that would be read as something else in quotes."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError("writing YAML needs PyYAML: pip install 'budgetline[yaml]'") from error
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    return text


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file in which no key is given twice."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError("reading YAML needs PyYAML: pip install 'budgetline[yaml]'") from error

    class UniqueKeys(yaml.SafeLoader):  # type: ignore[misc]
        """PyYAML keeps the last of two equal keys without a word; a group would be lost."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            own = (key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge")
            keys = [self.construct_object(key, deep=True) for key in own]
            if repeated := [key for key, count in Counter(map(repr, keys)).items() if count > 1]:
                raise ValueError(f"{path}: duplicate key {repeated[0]} (line {node.start_mark.line + 1})")
            return super().construct_mapping(node, deep)

    with path.open(encoding="utf-8") as file:
        try:
            return yaml.load(file, UniqueKeys)
        except yaml.YAMLError as error:
            raise ValueError(f"{path}: not valid YAML: {error}") from error


def read_groups_file(path: Path) -> dict[str, Any]:
    """Return the arguments of ``FeatureGroups`` from a YAML file; see ``FeatureGroups.from_yaml`` for its form."""
    content = read_yaml(path)
    if not isinstance(content, dict) or not isinstance(content.get("groups"), dict):
        raise ValueError(f"{path}: expected a mapping with the key 'groups' (name -> columns, cost)")
    if unknown := sorted(map(str, content.keys() - {"groups", "remainder", "shared"})):
        raise ValueError(f"{path}: unknown key {unknown[0]!r}; known are 'groups', 'shared' and 'remainder'")
    groups, costs, requires, shared = {}, {}, {}, {}
    for name, entry in content["groups"].items():
        if not isinstance(entry, dict) or "columns" not in entry:
            raise ValueError(f"{path}: group {name!r} needs 'columns: [...]' (and optionally 'cost: number')")
        if unknown := sorted(map(str, entry.keys() - {"columns", "cost", "requires"})):
            raise ValueError(f"{path}: group {name!r} has the unknown key {unknown[0]!r}")
        groups[name] = entry["columns"]
        costs[name] = entry.get("cost", 1.0)
        if "requires" in entry:
            requires[name] = entry["requires"]
    given = content.get("shared", {})
    if not isinstance(given, dict):
        raise ValueError(f"{path}: 'shared' must be a mapping name -> {{cost: number, groups: [...]}}, got {given!r}")
    for name, entry in given.items():
        if not isinstance(entry, dict) or set(entry) != {"cost", "groups"}:
            raise ValueError(f"{path}: shared cost {name!r} needs 'cost: number' and 'groups: [...]', and nothing else")
        shared[name] = (entry["cost"], entry["groups"])
    remainder = content.get("remainder", "error")
    return {"groups": groups, "costs": costs, "remainder": remainder, "shared": shared, "requires": requires}


def plain_number(value: float) -> int | float:
    """Return a number as a person would write it: whole ones without a point."""
    return int(value) if value.is_integer() else value
