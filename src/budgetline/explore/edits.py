"""Edits: functions from a state and arguments to the next state; a ValueError names what is wrong.

The page sends an edit as JSON, with its kind and its arguments: ``{"kind": "split_group", "group": "blood"}``. The
types of the arguments are those of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from inspect import Parameter, signature
from typing import get_type_hints

from budgetline.codec import read_as
from budgetline.explore.session_data import Data
from budgetline.explore.state import (
    METRICS,
    Group,
    NamedSharedCost,
    State,
    unused_name,
    with_groups,
    without,
)
from budgetline.groups import FeatureGroups
from budgetline.groups.parsing import read_groups
from budgetline.messages import name_of, shown, some

Edit = partial[State]
"""A function of a state and its data, with all other arguments set."""
CHOICES = ("task", "metric", "shared", "budget", "available", "today", "unit", "title")
"""Fields of a state that the edit "choose" can set."""


def read_edit(plain: object) -> Edit:
    """Read an edit from JSON."""
    entries = dict(plain) if isinstance(plain, dict) else {}
    kind = entries.pop("kind", None)
    if not isinstance(kind, str) or kind not in EDITS:
        raise ValueError(f"there is no edit {shown(kind)}; the known edits are {some(EDITS)}")
    function = EDITS[kind]
    parameters = dict(list(signature(function).parameters.items())[2:])
    hints, known = get_type_hints(function), list(parameters)
    if function is choose:
        hints, parameters, known = get_type_hints(State, include_extras=True), {}, list(CHOICES)
    if unknown := [name for name in entries if name not in known]:
        raise ValueError(f"{kind}.{name_of(str(unknown[0]))} is not a field of this edit")
    for name, parameter in parameters.items():
        if parameter.default is Parameter.empty and name not in entries:
            raise ValueError(f"{kind}.{name} is missing")
    return partial(function, **{name: read_as(hints[name], each, f"{kind}.{name}") for name, each in entries.items()})


def label_of(edits: list[Edit]) -> str:
    """Return what edits do, in a few words."""
    if len(edits) > 1:
        return f"{len(edits)} changes"
    name, given = edits[0].func.__name__, edits[0].keywords
    return f"set {', '.join(given)}" if name == choose.__name__ else name.replace("_", " ")


def changed_by(state: State, edits: Iterable[Edit], data: Data) -> State:
    """Return the state after some edits."""
    for each in edits:
        state = each(state, data)
    return state


def _check_columns(state: State, data: Data, columns: Collection[str]) -> None:
    """Raise an error for a column that is not in the table, is the target, or cannot be used at all."""
    if unknown := [column for column in columns if column not in state.columns]:
        raise ValueError(f"there is no column {shown(unknown[0])}; the columns are {some(state.columns, 8)}")
    if state.target in columns:
        raise ValueError(f"column {shown(state.target)} is the target")
    for column in data.table.columns:
        if column.kind == "other" and column.name in columns:
            raise ValueError(f"column {shown(column.name)} is of a kind that cannot be used")


# -- the target and the settings -------------------------------------------------------------------------------


def set_target(state: State, data: Data, column: str | None) -> State:
    """Choose the column to predict, None: no column; settings follow, and the previous target becomes a group."""
    if column == state.target:
        return state
    chosen = () if column is None else (column,)
    _check_columns(state, data, chosen)
    groups, left_out = without(state, chosen)
    if (back := state.target) in data.unhelpful:
        left_out = (*left_out, str(back))
    elif back is not None:
        groups = (*groups, Group(unused_name(back, {each.name for each in groups if each.columns}), (back,)))
    settings = {"task": ""} if column is None else _settings_for(data, column, data.target(column).task)
    kept = tuple(name for name in state.columns if name in left_out)
    return with_groups(state, groups, {}, left_out=kept, target=column, **settings)


def _settings_for(data: Data, column: str, task: str) -> dict[str, str]:
    """Return a task for a target and its usual metric."""
    target = data.target(column)
    target.check_task(task)
    if task == "regression":
        return {"task": task, "metric": "explained"}
    return {"task": task, "metric": "roc_auc" if target.classes.size == 2 else "accuracy"}


def choose(state: State, data: Data, **choices: object) -> State:
    """Set fields of the state; a new task also sets the metric."""
    task = choices.get("task", state.task)
    if task != state.task and task in METRICS:
        if state.target is None:
            raise ValueError("choose a target first")
        choices = _settings_for(data, state.target, str(task)) | choices
    texts = {name: str(choices[name]).strip() for name in ("unit", "title") if name in choices}
    return replace(state, **(choices | texts))  # type: ignore[arg-type]


# -- columns ---------------------------------------------------------------------------------------------------


def leave_out(state: State, data: Data, columns: tuple[str, ...]) -> State:
    """Leave columns out; groups that become empty are removed."""
    _check_columns(state, data, columns)
    groups, rest = without(state, columns)
    return with_groups(state, groups, left_out=tuple(c for c in state.columns if c in {*rest, *columns}))


def move_columns(state: State, data: Data, columns: tuple[str, ...], group: str) -> State:
    """Move columns, used or left out, to the end of a group; groups that become empty are removed."""
    home = state.group(group)
    _check_columns(state, data, columns)
    new = tuple(column for column in dict.fromkeys(columns) if column not in home.columns)
    rest, left_out = without(state, new)
    groups = (replace(g, columns=(*g.columns, *new)) if g.name == group else g for g in rest)
    return with_groups(state, groups, left_out=left_out)


def new_group(state: State, data: Data, columns: tuple[str, ...], name: str | None = None, cost: float = 1.0) -> State:
    """Make a group of columns, used or left out."""
    _check_columns(state, data, columns)
    columns = tuple(dict.fromkeys(columns))
    if not columns:
        raise ValueError("a group needs at least one column")
    rest, left_out = without(state, columns)
    kept = [group for group in rest if group.columns]  # so that the names of removed groups are free
    name = unused_name(columns[0], {group.name for group in kept}) if name is None else name.strip()
    return with_groups(state, (*kept, Group(name, columns, cost)), left_out=left_out)


# -- groups and prices -----------------------------------------------------------------------------------------


def rename_group(state: State, data: Data, group: str, name: str) -> State:
    """Rename a group wherever it is named."""
    old, name = state.group(group), name.strip()
    groups = (replace(each, name=name) if each is old else each for each in state.groups)
    return with_groups(state, groups, {group: (name,)})


def merge_groups(state: State, data: Data, groups: tuple[str, ...], name: str | None = None) -> State:
    """Merge groups into one, in the place of the first, at the sum of their costs."""
    merged = [state.group(each) for each in dict.fromkeys(groups)]
    if len(merged) < 2:
        raise ValueError("select two or more groups to merge")
    name, gone = (name or merged[0].name).strip(), [group.name for group in merged]
    columns = tuple(column for group in merged for column in group.columns)
    requires = dict.fromkeys(needed for group in merged for needed in group.requires if needed not in gone)
    new = Group(name, columns, sum(group.cost for group in merged), tuple(requires))
    first = min(map(state.groups.index, merged))
    after = (group for group in state.groups[first:] if group.name not in gone)
    return with_groups(state, (*state.groups[:first], new, *after), dict.fromkeys(gone, (name,)))


def split_group(state: State, data: Data, group: str) -> State:
    """Split a group into its columns, at equal parts of its cost."""
    old = state.group(group)
    if len(old.columns) < 2:
        raise ValueError(f"group {shown(group)} has only one column")
    taken, parts = set(state.names) - {group}, list[Group]()
    for column in old.columns:
        parts.append(Group(unused_name(column, taken), (column,), old.cost / len(old.columns), old.requires))
        taken.add(parts[-1].name)
    place = state.groups.index(old)
    groups = (*state.groups[:place], *parts, *state.groups[place + 1 :])
    return with_groups(state, groups, {group: tuple(part.name for part in parts)})


def set_costs(state: State, data: Data, costs: dict[str, float]) -> State:
    """Set the costs of groups, without shared costs."""
    for name in costs:
        state.group(name)
    return replace(state, groups=tuple(replace(each, cost=costs.get(each.name, each.cost)) for each in state.groups))


def set_requires(state: State, data: Data, group: str, requires: tuple[str, ...]) -> State:
    """Set the groups that must be bought before a group."""
    old = state.group(group)
    groups = (replace(each, requires=requires) if each is old else each for each in state.groups)
    return replace(state, groups=tuple(groups))


def import_groups(state: State, data: Data, yaml: str) -> State:
    """Import groups and prices from the YAML of a groups file; other columns are left out."""
    return adopted(state, FeatureGroups(**read_groups(yaml.encode("utf-8", errors="replace"))), data)


def adopted(state: State, found: FeatureGroups, data: Data) -> State:
    """Return the state with these groups; columns in no group are left out, or are an error if the groups say so."""
    names = tuple(column for column in state.columns if column != state.target)
    for group, named in zip(found.names, found.columns, strict=True):
        if state.target is not None and state.target in named:
            raise ValueError(f"group {shown(group)}: column {shown(state.target)} is the target")
    layout = found.resolve(names, len(names))
    members = [layout.labels(columns) for columns in layout.columns]
    used = {column for each in members for column in each}
    _check_columns(state, data, used)
    groups = (
        Group(name, columns, cost, found.requires.get(name, ()))
        for name, columns, cost in zip(found.names, members, found.costs.tolist(), strict=True)
    )
    shared = tuple(NamedSharedCost(name, cost, sharing) for name, (cost, sharing) in found.shared.items())
    return with_groups(state, groups, left_out=tuple(name for name in names if name not in used), shared=shared)


EDITS: dict[str, Callable[..., State]] = {
    function.__name__: function
    for function in (
        set_target, choose, leave_out, move_columns, new_group, rename_group, merge_groups, split_group,
        set_costs, set_requires, import_groups,
    )
}  # fmt: skip
"""The edits that the page may send, by name."""
