"""The state of a session: what a user has chosen, as one immutable record that has passed the library's checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

from budgetline.codec import AtLeast
from budgetline.groups import FeatureGroups
from budgetline.groups.parsing import places_of, positions_of
from budgetline.messages import is_unicode, shown, some

METRICS = {
    "regression": ("explained", "r2", "mse"),
    "classification": ("roc_auc", "accuracy", "explained", "log_loss"),
}
"""Metrics of the curve, by task."""
LONGEST_NAME = 200
"""Maximum length of a name, title or unit, in characters."""


@dataclass(frozen=True)
class Group:
    """Columns that are bought together: their name, their cost, and the groups that must be bought before them."""

    name: str
    columns: tuple[str, ...]
    cost: Annotated[float, AtLeast(0)] = 1.0
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedSharedCost:
    """A cost that the first of the groups that share it pays, once."""

    name: str
    cost: Annotated[float, AtLeast(0)]
    groups: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """Everything that a user has chosen about one table.

    Every column is the target, left out, or in exactly one group. Without a target, ``task`` is empty. Groups in
    ``available`` are known when the user asks what to buy next. ``today`` is the order in use now.
    """

    columns: tuple[str, ...]
    groups: tuple[Group, ...]
    target: str | None = None
    task: str = ""
    left_out: tuple[str, ...] = ()
    shared: tuple[NamedSharedCost, ...] = ()
    metric: str = "explained"
    budget: Annotated[float | None, AtLeast(0)] = None
    available: tuple[str, ...] = ()
    today: tuple[str, ...] = ()
    unit: str = "cost units"
    title: str = ""

    def __post_init__(self) -> None:
        places = Counter([*self.left_out, *(column for group in self.groups for column in group.columns)])
        places.update([] if self.target is None else [self.target])
        places.subtract(self.columns)
        if wrong := [column for column, excess in places.items() if excess]:
            raise ValueError(
                f"column {shown(wrong[0])} must be in exactly one place: the target, left out, or one group"
            )
        if self.target is not None:
            choices = ("task", self.task, METRICS), ("metric", self.metric, METRICS.get(self.task, ()))
            for name, value, known in choices:
                if value not in known:
                    raise ValueError(f"{name} must be one of {some(known)}, got {shown(value)}")
        names = (*self.names, *(each.name for each in self.shared))
        for text in (self.unit, self.title, *names):
            if len(text) > LONGEST_NAME:
                raise ValueError(f"a name may have at most {LONGEST_NAME} characters: {shown(text)}")
            if not is_unicode(text):
                raise ValueError(f"{shown(text)} is not valid Unicode text: type it again without the broken character")
        if not all(map(str.strip, (self.unit, *names))):
            raise ValueError("a name must not be empty")
        if self.groups:
            _ = self.feature_groups  # raises an error for wrong prices
        listed = {"available": self.available, "today's order": self.today}
        for what, groups in listed.items():
            positions_of(what, groups, places_of(self.names))  # an unknown name, or one given twice, is an error

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups."""
        return tuple(group.name for group in self.groups)

    @property
    def used(self) -> tuple[str, ...]:
        """Columns in groups, in the order of the table."""
        inside = {column for group in self.groups for column in group.columns}
        return tuple(column for column in self.columns if column in inside)

    @property
    def feature_groups(self) -> FeatureGroups:
        """The groups as the library knows them; columns that are left out are dropped."""
        for what, names in (("shared cost", [each.name for each in self.shared]), ("group", self.names)):
            if again := [name for name, times in Counter(names).items() if times > 1]:
                raise ValueError(f"there is already a {what} {shown(again[0])}")
        return FeatureGroups(
            {group.name: list(group.columns) for group in self.groups},
            {group.name: group.cost for group in self.groups},
            remainder="drop",
            shared={each.name: (each.cost, each.groups) for each in self.shared},
            requires={group.name: group.requires for group in self.groups if group.requires},
        )

    def group(self, name: str) -> Group:
        """Return the group of a name."""
        found = next((group for group in self.groups if group.name == name), None)
        if found is None:
            raise ValueError(f"there is no group {shown(name)}; the groups are {some(self.names)}")
        return found


def without(state: State, columns: Collection[str]) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Return the groups and the left out columns without some columns; groups may become empty."""
    groups = (replace(each, columns=tuple(c for c in each.columns if c not in columns)) for each in state.groups)
    return tuple(groups), tuple(column for column in state.left_out if column not in columns)


def with_groups(
    state: State,
    groups: Iterable[Group],
    renamed: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    **changes: object,
) -> State:
    """Return the state with other groups and other fields; groups without columns are removed.

    ``renamed`` maps a group to its new names, and is applied wherever groups are named.
    """
    kept = [group for group in groups if group.columns]
    names = {group.name for group in kept}

    def now(listed: tuple[str, ...], but: str | None = None) -> tuple[str, ...]:
        found = (new for name in listed for new in renamed.get(name, (name,)) if new in names and new != but)
        return tuple(dict.fromkeys(found))

    changed = {
        "groups": tuple(replace(group, requires=now(group.requires, group.name)) for group in kept),
        "shared": tuple(replace(each, groups=now(each.groups)) for each in state.shared if now(each.groups)),
        "available": now(state.available),
        "today": now(state.today),
    }
    return replace(state, **(changed | changes))  # type: ignore[arg-type]


def unused_name(wanted: str, names: Collection[str]) -> str:
    """Return a name, with a number if it is taken."""
    found, k = wanted, 2
    while found in names:
        found, k = f"{wanted} {k}", k + 1
    return found
