"""Edits of groups and prices."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from budgetline.codec import plain_of, read_record
from budgetline.explore.edits import Edit, check_columns
from budgetline.explore.session_data import ExploredTable
from budgetline.explore.state import Group, NamedSharedCost, State, unused_name, with_groups, without
from budgetline.groups import FeatureGroups
from budgetline.groups.yaml_file import read_groups
from budgetline.messages import shown, some


@dataclass(frozen=True)
class RenameGroup(Edit):
    """Rename a group."""

    group: str
    name: str
    about = "rename {group}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with the new name wherever the group is named."""
        old, name = state.group(self.group), self.name.strip()
        groups = (replace(each, name=name) if each is old else each for each in state.groups)
        return with_groups(state, groups, renamed={self.group: (name,)})


@dataclass(frozen=True)
class MergeGroups(Edit):
    """Merge groups into one, in the place of the first, at the sum of their costs."""

    groups: tuple[str, ...]
    name: str | None = None
    about = "merge {groups}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with the merged group."""
        merged = [state.group(name) for name in dict.fromkeys(self.groups)]
        if len(merged) < 2:
            raise ValueError("select two groups or more to merge")
        name, gone = (self.name or merged[0].name).strip(), [group.name for group in merged]
        columns = tuple(column for group in merged for column in group.columns)
        requires = dict.fromkeys(needed for group in merged for needed in group.requires if needed not in gone)
        new = Group(name, columns, sum(group.cost for group in merged), tuple(requires))
        first = min(map(state.groups.index, merged))
        before = state.groups[:first]
        after = (group for group in state.groups[first:] if group.name not in gone)
        return with_groups(state, (*before, new, *after), renamed=dict.fromkeys(gone, (name,)))


@dataclass(frozen=True)
class SplitGroup(Edit):
    """Split a group into its columns, at equal parts of its cost."""

    group: str
    about = "split {group}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with the parts in place of the group."""
        old = state.group(self.group)
        if len(old.columns) < 2:
            raise ValueError(f"group {shown(self.group)} has only one column")
        taken, parts = set(state.names) - {old.name}, list[Group]()
        for column in old.columns:
            parts.append(Group(unused_name(column, taken), (column,), old.cost / len(old.columns), old.requires))
            taken.add(parts[-1].name)
        place = state.groups.index(old)
        groups = (*state.groups[:place], *parts, *state.groups[place + 1 :])
        return with_groups(state, groups, renamed={self.group: tuple(part.name for part in parts)})


@dataclass(frozen=True)
class MoveColumns(Edit):
    """Move columns, used or left out, into a group."""

    columns: tuple[str, ...]
    group: str
    about = "move {columns} to {group}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with the columns at the end of the group; groups that become empty are removed."""
        home = state.group(self.group)
        check_columns(state, self.columns)
        new = tuple(column for column in dict.fromkeys(self.columns) if column not in home.columns)
        table.check_encoding(state.encoding, new)
        rest, left_out = without(state, new)
        groups = (replace(g, columns=(*g.columns, *new)) if g.name == home.name else g for g in rest)
        return with_groups(state, groups, {"left_out": left_out})


@dataclass(frozen=True)
class NewGroup(Edit):
    """Make a group of columns, used or left out."""

    columns: tuple[str, ...]
    name: str | None = None
    cost: float = 1.0
    about = "new group of {columns}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with the new group at the end."""
        check_columns(state, self.columns)
        columns = tuple(dict.fromkeys(self.columns))
        if not columns:
            raise ValueError("a group needs a column")
        table.check_encoding(state.encoding, columns)
        rest, left_out = without(state, columns)
        names = {group.name for group in rest if group.columns}
        name = unused_name(columns[0], names) if self.name is None else self.name.strip()
        kept = (group for group in rest if group.columns)  # so that the names of removed groups are free
        return with_groups(state, (*kept, Group(name, columns, self.cost)), {"left_out": left_out})


@dataclass(frozen=True)
class SetCosts(Edit):
    """Set the costs of groups, without shared costs."""

    costs: dict[str, float]
    about = "cost of {costs}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with these costs."""
        for name in self.costs:
            state.group(name)
        groups = (replace(each, cost=self.costs.get(each.name, each.cost)) for each in state.groups)
        return replace(state, groups=tuple(groups))


@dataclass(frozen=True)
class SetShared(Edit):
    """Add a shared cost, or change it; ``old`` is its previous name, if that changes."""

    name: str
    cost: float
    groups: tuple[str, ...]
    old: str | None = None
    about = "shared cost {name}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with the shared cost."""
        new, known = NamedSharedCost(self.name.strip(), self.cost, self.groups), [each.name for each in state.shared]
        if self.old is not None and self.old not in known:
            raise ValueError(f"there is no shared cost {shown(self.old)}")
        place = new.name if self.old is None else self.old
        shared = tuple(new if each.name == place else each for each in state.shared)
        return replace(state, shared=shared if place in known else (*shared, new))


@dataclass(frozen=True)
class RemoveShared(Edit):
    """Remove a shared cost."""

    name: str
    about = "remove shared cost {name}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state without the shared cost."""
        if self.name not in [each.name for each in state.shared]:
            raise ValueError(f"there is no shared cost {shown(self.name)}")
        return replace(state, shared=tuple(each for each in state.shared if each.name != self.name))


@dataclass(frozen=True)
class SetRequires(Edit):
    """Set the groups that must be bought before a group."""

    group: str
    requires: tuple[str, ...]
    about = "what {group} requires"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with these requirements."""
        old = state.group(self.group)
        groups = (replace(each, requires=self.requires) if each is old else each for each in state.groups)
        return replace(state, groups=tuple(groups))


@dataclass(frozen=True)
class ImportGroups(Edit):
    """Import groups and prices from the YAML of a groups file."""

    yaml: str
    about = "import groups"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with these groups; other columns are left out."""
        return adopted(state, FeatureGroups(**read_groups(self.yaml.encode("utf-8", errors="replace"))), table)


def adopted(state: State, found: FeatureGroups, table: ExploredTable) -> State:
    """Return the state with these groups; columns in no group are left out, or are an error if the groups say so."""
    names = tuple(column for column in state.columns if column != state.target)
    if state.target is not None:
        for group, columns in zip(found.names, found.columns, strict=True):
            if state.target in columns:
                raise ValueError(f"group {shown(group)}: column {shown(state.target)} is the target")
    layout = found.resolve(names, len(names))
    members = [layout.labels(columns) for columns in layout.columns]
    used = {column for each in members for column in each}
    table.check_encoding(state.encoding, tuple(used))
    groups = tuple(
        Group(name, columns, cost, found.requires.get(name, ()))
        for name, columns, cost in zip(found.names, members, found.costs.tolist(), strict=True)
    )
    changes: dict[str, object] = {
        "left_out": tuple(column for column in names if column not in used),
        "shared": tuple(NamedSharedCost(name, cost, shared) for name, (cost, shared) in found.shared.items()),
    }
    return with_groups(state, groups, changes)


def read_edit(plain: object) -> Edit:
    """Read an edit from JSON; a ValueError names what is wrong."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(kind, str):
        raise ValueError(f"an edit must be a mapping with its kind, got {shown(plain)}")
    if kind not in Edit.kinds:
        raise ValueError(f"there is no edit {shown(kind)}; known are {some(Edit.kinds)}")
    return read_record(Edit.kinds[kind], {name: value for name, value in plain.items() if name != "kind"}, kind)


def edit_text(edit: Edit) -> str:
    """Return an edit as the JSON that :func:`read_edit` reads."""
    kind = next(name for name, cls in Edit.kinds.items() if type(edit) is cls)
    return json.dumps({"kind": kind, **plain_of(edit)}, allow_nan=False)


def changed_by(state: State, edits: list[Edit], table: ExploredTable) -> State:
    """Return the state after some edits."""
    for edit in edits:
        state = edit.apply(state, table)
    return state
