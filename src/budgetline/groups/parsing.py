"""Reading groups and costs in all the forms in which users give them; every error names the culprit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.inputs import column_names

Column = str | int


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
        try:
            values[k] = float(cost)
        except (TypeError, ValueError):
            raise ValueError(f"the cost of group {name!r} is not a number: {cost!r}") from None
        if not np.isfinite(values[k]) or values[k] < 0:
            raise ValueError(f"the cost of group {name!r} must be finite and not negative, got {cost!r}")
    values.flags.writeable = False
    return values


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
