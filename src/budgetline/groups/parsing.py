"""Parse groups, costs, shared costs and requirements, given as Python values or as YAML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Positions
from budgetline.groups.prices import SharedCost
from budgetline.inputs import column_names, is_missing
from budgetline.messages import CONTROLS, cut, did_you_mean, shown, some
from budgetline.packages import imported

Column = str | int
Name = str | int
Costs = Mapping[str, float] | Mapping[int, float] | ArrayLike | None
SharedCosts = Mapping[str, tuple[float, Iterable[Name]]]
Requires = Mapping[str, Iterable[Name]] | Mapping[int, Iterable[Name]]
FLAG = "missingindicator_"
"""Prefix of scikit-learn's names for flags of missing values; the rest is the name of the column."""
MOST_BYTES = 2**25
"""Largest size of a YAML file: files come from outside."""
INTEGER = re.compile(r"(0|-?[1-9][0-9]*)$")
"""The only numbers of a YAML file; the rest is text. YAML 1.1 would read 1:30 as ninety, 010 as eight, no as false."""


def parse_groups(groups: object) -> tuple[tuple[str, ...], tuple[tuple[Column, ...], ...]]:
    """Return names and columns of the groups, from a mapping, column lists or labels."""
    names, entries = _named(groups)
    if not names:
        raise ValueError("there must be at least one group")
    _check_unique("group", names)
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
    if isinstance(groups, Mapping):
        return tuple(map(str, groups)), groups.values()
    if isinstance(groups, str | bytes | Set) or not isinstance(groups, Iterable):
        forms = "a mapping name -> columns, a list of column lists, or one label per column"
        raise TypeError(f"groups must be {forms}, got {shown(groups)}")
    entries = list(groups)
    nested = [isinstance(e, Iterable) and not isinstance(e, str | bytes) for e in entries]
    if all(nested):
        return tuple(map(str, range(len(entries)))), entries
    if any(nested):
        raise TypeError("groups mixes column lists and single labels; give all column lists, or one label per column")
    by_label: dict[str, list[int]] = {}
    for d, label in enumerate(entries):
        if is_missing(label):
            raise ValueError(f"the group label of column {d} is missing ({shown(label)})")
        by_label.setdefault(str(label), []).append(d)
    return tuple(by_label), by_label.values()


def _check_unique(what: str, names: Iterable[str]) -> None:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"duplicate {what} name {shown(repeated[0])}")


def _columns(group: str, columns: object) -> tuple[Column, ...]:
    if isinstance(columns, str | Integral):
        columns = [columns]
    if not isinstance(columns, Iterable) or isinstance(columns, Mapping | bytes):
        raise TypeError(f"group {shown(group)}: columns must be a list of names or positions, got {shown(columns)}")
    columns = list(columns)
    if {str, int}.issuperset(map(type, columns)):
        return tuple(columns)
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
        if unknown := sorted(given.keys() - set(names)):  # before the missing ones: it may be one of them, misspelt
            hint = f"{did_you_mean(unknown[0], names)}; the groups are {some(names)}"
            raise ValueError(f"cost given for unknown group {shown(unknown[0])}{hint}")
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"no cost for group {shown(missing[0])}")
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
        advice = "; write it like 1.5" if isinstance(cost, str) else ""
        raise ValueError(f"{what} {shown(name)} is not a number: {shown(cost)}{advice}") from None
    if not 0 <= value < np.inf:
        raise ValueError(f"{what} {shown(name)} must be finite and not negative, got {shown(cost)}")
    return value


def parse_shared(shared: object, names: tuple[str, ...]) -> tuple[SharedCost, ...]:
    """Return the costs that groups share, from a mapping name -> (cost, groups); members in the order of the groups."""
    found, place = [], places_of(names)
    for name, entry in _by_name("shared", "name -> (cost, groups)", shared).items():
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise ValueError(f"shared cost {shown(name)} must be given as (cost, groups), got {shown(entry)}")
        members = positions_of(f"shared cost {shown(name)}", entry[1], place)
        if not members:
            raise ValueError(f"shared cost {shown(name)} has no groups")
        found.append(SharedCost(name, _cost("shared cost", name, entry[0]), members))
    return tuple(found)


def parse_requires(requires: object, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the groups that each group requires directly, from a mapping group -> groups; () without requirements."""
    found: dict[int, tuple[int, ...]] = {}
    place = places_of(names)
    for name, entry in _by_name("requires", "group -> groups", requires).items():
        (g,) = positions_of("requires", name, place)
        found[g] = positions_of(f"what group {shown(name)} requires", entry, place)
        if g in found[g]:
            raise ValueError(f"group {shown(name)} requires itself")
    return tuple(found.get(g, ()) for g in range(len(names))) if any(found.values()) else ()


def _by_name(what: str, form: str, given: object) -> dict[str, object]:
    """Return a mapping with its keys as text."""
    if not isinstance(given, Mapping | None):
        raise TypeError(f"{what} must be a mapping {form}, got {shown(given)}")
    _check_unique(what, map(str, given or {}))
    return {str(key): entry for key, entry in (given or {}).items()}


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
    for g in order:
        known[g] = tuple(dict.fromkeys(d for h in direct[g] for d in (*known[h], h)))
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
            hint = f"{did_you_mean(name, place)}; the groups are {some(place)}"
            raise ValueError(f"{what}: there is no group {shown(name)}{hint}")
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
    what = f"column {shown(column)}"
    if isinstance(column, int):
        if not 0 <= column < n_features:
            raise ValueError(f"group {shown(group)}: {what} is out of range, the data have {n_features} columns")
        return column
    if position is None:
        advice = "give positions, or pass a data frame"
        raise ValueError(f"group {shown(group)} names {what}, but the columns of the data have no names: {advice}")
    if column not in position:
        raise ValueError(f"group {shown(group)}: {what} is not in the data{did_you_mean(column, position)}")
    return position[column]


def names_of(columns: Iterable[object]) -> tuple[str, ...]:
    """Return unique column names, of a data frame or as given."""
    if isinstance(columns, str):
        raise TypeError(f"columns must be a data frame or a list of names, got the string {shown(columns)}")
    names: tuple[object, ...] = column_names(columns) or tuple(columns)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"column names must be strings, got {shown(wrong[0])}")
    found = tuple(map(str, names))
    _check_unique("column", found)
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


# -- YAML -----------------------------------------------------------------------------------------------------------


def plain_number(value: float) -> int | float:
    """Return a number as a person would write it: whole numbers without a decimal point."""
    return int(value) if value.is_integer() else value


def write_yaml(content: object) -> str:
    """Return plain content as YAML; if a name has control characters, only ASCII is left unescaped."""
    yaml = imported("yaml", "writing YAML needs PyYAML", "yaml")
    style = {"sort_keys": False, "default_flow_style": None, "width": 100}
    text: str = yaml.safe_dump(content, allow_unicode=True, **style)
    return yaml.safe_dump(content, **style) if CONTROLS.search(text.replace("\n", "")) else text


def content_of(path: Path) -> bytes:
    """Return the content of a file, or the beginning of a file that is too large."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def read_groups(data: bytes) -> dict[str, Any]:
    """Return the arguments of ``FeatureGroups`` from YAML; ``FeatureGroups.from_yaml`` describes its form."""
    content = _parse_yaml(data)
    if not isinstance(content, dict) or not isinstance(content.get("groups"), dict):
        raise ValueError("expected a mapping with the key 'groups' (name -> columns, cost)")
    _check_keys("the file", content, {"groups"}, {"remainder", "shared"})
    groups, shared = content["groups"], content.get("shared", {})
    for name, entry in groups.items():
        _check_keys(f"group {shown(name)}", entry, {"columns"}, {"cost", "requires"})
    if not isinstance(shared, dict):
        raise ValueError(f"'shared' must be a mapping name -> {{cost: number, groups: [...]}}, got {shown(shared)}")
    for name, entry in shared.items():
        _check_keys(f"shared cost {shown(name)}", entry, {"cost", "groups"})
    return {
        "groups": {name: entry["columns"] for name, entry in groups.items()},
        "costs": {name: entry.get("cost", 1.0) for name, entry in groups.items()},
        "remainder": content.get("remainder", "error"),
        "shared": {name: (entry["cost"], entry["groups"]) for name, entry in shared.items()},
        "requires": {name: entry["requires"] for name, entry in groups.items() if "requires" in entry},
    }


def _check_keys(what: str, entry: object, needed: set[str], others: Set[str] = frozenset()) -> None:
    if not isinstance(entry, dict) or not needed <= entry.keys():
        raise ValueError(f"{what} needs {some(sorted(needed))}, got {shown(entry)}")
    if unknown := sorted(map(str, entry.keys() - needed - others)):
        known = some(sorted(needed | others))
        raise ValueError(f"{what} has the unknown key {shown(unknown[0])}; the known keys are {known}")


def _parse_yaml(data: bytes) -> object:
    """Return the content of a YAML file; anchors and duplicate keys are errors, all scalars but integers stay text."""
    yaml = imported("yaml", "reading YAML needs PyYAML", "yaml")
    if len(data) > MOST_BYTES:
        raise ValueError(f"too large for a file of groups, which may have at most {MOST_BYTES} bytes")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def compose_node(self, parent: Any, index: object) -> Any:
            if (event := self.peek_event()) and getattr(event, "anchor", None) is not None:
                # a few lines of aliases can expand to a billion entries
                raise ValueError(f"anchors and aliases (& and *) are not supported (line {event.start_mark.line + 1})")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> object:
            found = super().construct_mapping(node, deep)
            if len(found) < len(node.value):  # PyYAML keeps the last of two equal keys; a group would be lost
                (key, _), *_ = Counter(self.construct_object(key, deep=True) for key, _ in node.value).most_common(1)
                raise ValueError(f"duplicate key {shown(key)} (line {node.start_mark.line + 1})")
            return found

    Loader.add_implicit_resolver("tag:yaml.org,2002:int", INTEGER, "-0123456789")
    try:
        return Loader(data.decode("utf-8")).get_single_data()
    except RecursionError:
        raise ValueError("its lists and mappings are nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(f"not valid YAML: {cut(' '.join(str(error).split()))}") from error
