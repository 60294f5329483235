"""Edits: small records that turn a state into the next one, or raise an error that names what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from budgetline.explore.session_data import ExploredTable
from budgetline.explore.state import METRICS, State, changed_to, singles, with_groups, without
from budgetline.messages import name_of, shown, some


@dataclass(frozen=True)
class Edit:
    """A change of the state; ``about`` describes it in a few words, with the names of fields in braces.

    Consecutive edits of a kind that ``joins`` are undone together.
    """

    about: ClassVar[str] = ""
    joins: ClassVar[bool] = False
    kinds: ClassVar[dict[str, type[Edit]]] = {}
    """All edits, by the kind that a page names: "set_target" for SetTarget."""

    def __init_subclass__(cls) -> None:
        Edit.kinds["".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")] = cls

    @property
    def label(self) -> str:
        """What the edit changes, in a few words."""
        return self.about.format(**{name: _in_words(value) for name, value in self.given.items()})

    @property
    def given(self) -> dict[str, object]:
        """The fields by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the changed state, or raise a ValueError. By default, fields of the same names are set."""
        return changed_to(state, self.given)


def _in_words(value: object) -> str:
    if value is None:
        return "none"
    listed = isinstance(value, tuple | dict)
    return some(value, 2, lambda each: name_of(str(each))) if listed else name_of(str(value))  # type: ignore[arg-type]


def check_columns(state: State, columns: tuple[str, ...]) -> None:
    """Raise an error for a column that is not in the table, or is the target."""
    if unknown := [column for column in columns if column not in state.columns]:
        raise ValueError(f"there is no column {shown(unknown[0])}; the columns are {some(state.columns, 8)}")
    if state.target in columns:
        raise ValueError(f"column {shown(state.target)} is the target")


# -- the table -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetTarget(Edit):
    """Choose the column to predict, None: no column; task, loss, encoding, rule and metric follow from it."""

    column: str | None
    about = "target {column}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with this target; the previous target becomes a group of its own."""
        if self.column == state.target:
            return state
        chosen, back = ((each,) if each is not None else () for each in (self.column, state.target))
        check_columns(state, chosen)
        groups, left_out = without(state, chosen)
        groups = singles((column for column in back if column not in table.unhelpful), groups)
        out = {*left_out, *(column for column in back if column in table.unhelpful)}
        changes: dict[str, object] = {"left_out": tuple(c for c in state.columns if c in out), "target": self.column}
        if self.column is None:
            return with_groups(state, groups, {**changes, "task": "", "loss": ""})
        target = table.target(self.column)
        settings = settings_for(target.task, target.classes.size)
        return with_groups(state, groups, {**changes, **settings, "encoding": "spline"})


def settings_for(task: str, n_classes: int) -> dict[str, object]:
    """Return the settings that follow from a task, and from the number of different values of the target."""
    if task == "regression":
        return {"task": task, "loss": "squared_error", "rule": "fr", "metric": "explained"}
    metric = "roc_auc" if n_classes == 2 else "accuracy"
    return {"task": task, "loss": "log_loss", "rule": "fr", "metric": metric}


@dataclass(frozen=True)
class LeaveOut(Edit):
    """Leave columns out."""

    columns: tuple[str, ...]
    about = "leave out {columns}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state without the columns; groups that become empty are removed."""
        check_columns(state, self.columns)
        groups, rest = without(state, self.columns)
        out = {*rest, *self.columns}
        return with_groups(state, groups, {"left_out": tuple(column for column in state.columns if column in out)})


@dataclass(frozen=True)
class TakeIn(Edit):
    """Use left out columns again."""

    columns: tuple[str, ...]
    about = "take in {columns}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state in which each of the columns is a group of its own."""
        check_columns(state, self.columns)
        if wrong := [column for column in self.columns if column not in state.left_out]:
            raise ValueError(f"column {shown(wrong[0])} is not left out")
        table.check_encoding(state.encoding, self.columns)
        groups, left_out = without(state, self.columns)
        return with_groups(state, singles(dict.fromkeys(self.columns), groups), {"left_out": left_out})


# -- settings --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetTask(Edit):
    """Predict numbers or classes; loss, rule and metric follow."""

    task: str
    about = "task {task}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with this task, if the target allows it."""
        if state.target is None:
            raise ValueError("choose a target first")
        target = table.target(state.target)
        target.check_task(self.task)
        return state if self.task == state.task else changed_to(state, settings_for(self.task, target.classes.size))


@dataclass(frozen=True)
class SetLoss(Edit):
    """Choose the loss of a regression."""

    loss: str
    about = "loss {loss}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with this loss, if the target allows it."""
        if state.target is None:
            raise ValueError("choose a target first")
        table.target(state.target).check_loss(self.loss)
        metric = state.metric if state.metric in METRICS.get(self.loss, ()) else "explained"
        return state if self.loss == state.loss else changed_to(state, {**self.given, "metric": metric})


@dataclass(frozen=True)
class SetEncoding(Edit):
    """Choose how columns are encoded."""

    encoding: str
    about = "encoding {encoding}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with this encoding, if the columns allow it."""
        table.check_encoding(self.encoding, state.used)
        return changed_to(state, self.given)


@dataclass(frozen=True)
class SetAlpha(Edit):
    """Set the ridge constant; None leaves it to the library."""

    alpha: float | None
    about = "alpha {alpha}"


@dataclass(frozen=True)
class SetRule(Edit):
    """Choose how groups are scored."""

    rule: str
    about = "rule {rule}"


@dataclass(frozen=True)
class SetMetric(Edit):
    """Choose the metric of the curve."""

    metric: str
    about = "metric {metric}"


@dataclass(frozen=True)
class SetBudget(Edit):
    """Set the budget, None: no budget."""

    budget: float | None
    about = "budget {budget}"
    joins = True


@dataclass(frozen=True)
class SetStart(Edit):
    """Set the groups that are always known."""

    groups: tuple[str, ...]
    about = "always known: {groups}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with these groups always known."""
        return changed_to(state, {"start": self.groups})


@dataclass(frozen=True)
class SetAvailable(Edit):
    """Set the groups that are available already, to see what to buy next."""

    groups: tuple[str, ...]
    about = "available: {groups}"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with these groups available."""
        return changed_to(state, {"available": self.groups})


@dataclass(frozen=True)
class SetToday(Edit):
    """Set the order in use today, as a list, or as text with names on lines or between commas."""

    groups: tuple[str, ...] | None = None
    text: str | None = None
    about = "today's order"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with this order."""
        if (self.groups is None) == (self.text is None):
            raise ValueError("set one of groups and text")
        listed = listed_names(self.text or "", state.names) if self.groups is None else self.groups
        return changed_to(state, {"today": listed})


@dataclass(frozen=True)
class SetLabels(Edit):
    """Set the title of the report and the unit of the costs."""

    title: str | None = None
    unit: str | None = None
    about = "title and unit"

    def apply(self, state: State, table: ExploredTable) -> State:
        """Return the state with these texts."""
        given = {"title": self.title, "unit": self.unit}
        return changed_to(state, {name: text.strip() for name, text in given.items() if text is not None})


def listed_names(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in a pasted list; known names may contain commas, and lines may be numbered."""
    found = list[str]()
    for line in filter(None, map(str.strip, text.splitlines())):
        parts = [line] if line in known else [part.strip() for part in line.split(",")]
        for part in filter(None, parts):
            bare = part.lstrip("0123456789").lstrip(".)").strip()
            found.append(bare if part not in known and bare in known else part)
    return tuple(found)
