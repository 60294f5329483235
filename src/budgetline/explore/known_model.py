"""From a fitted model to the state of a session with the same target, groups, prices and settings.

A session chooses the correction and pairs of columns on folds, and alpha unless the model was given one.
"""

from __future__ import annotations

from dataclasses import replace

from budgetline.encoding import Encoding
from budgetline.explore.edits import SetTarget, SetTask
from budgetline.explore.group_edits import adopted
from budgetline.explore.session_data import ExploredTable
from budgetline.explore.state import State, changed_to
from budgetline.groups import FeatureGroups
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel

PLAIN: dict[str, tuple[object, ...]] = {
    "schedule": ("greedy",),
    "cost_sensitive": (True,),
    "max_cost": (None,),
    "class_weight": (None,),
    "tol": (None, 1e-10),
}
"""Settings that a session cannot change, and the values that it has; what folds decide is decided again."""


def state_of_model(model: AnytimeModel, state: State, table: ExploredTable, target: str | None) -> State:
    """Return the state with the target, groups, prices and settings of a model.

    ``target`` None is the one useful column of the table that the model does not know. A ValueError names a setting
    that a session cannot have.
    """
    names = model.source.names
    if names is None:
        raise ValueError("the model knows its columns by position: explore needs names")
    if target is None:
        others = [column for column in state.columns if column not in (*names, *table.unhelpful)]
        if len(others) != 1:
            which = f": {some(others, 5)}" if others else ""
            raise ValueError(
                f"the data have {len(others)} columns that the model does not know{which}; name the target"
            )
        target = others[0]
    _check(model)
    state = SetTarget(target).apply(state, table)
    state = SetTask("regression" if model.classes is None else "classification").apply(state, table)
    encoding = _encoding(model)
    table.target(target).check_loss(model.family.loss)
    state = changed_to(
        state, {"encoding": encoding, "loss": model.family.loss if model.classes is None else "log_loss"}
    )
    source, groups = model.source, model.groups
    members = {name: list(source.labels(own)) for name, own in zip(groups.names, source.columns, strict=True)}
    known = FeatureGroups(members, groups.costs, remainder="drop", shared=groups.shared, requires=groups.requires)
    state = adopted(state, known, table)
    given = model.settings.get("alpha")
    alpha = given if isinstance(given, float | int) else None
    changes = {"rule": model.settings["rule"], "start": tuple(model.settings["start"]), "alpha": alpha}
    return changed_to(state, changes)


def _check(model: AnytimeModel) -> None:
    """Raise an error if the model has a setting that a session cannot have."""
    if "rule" not in model.settings:
        raise ValueError(f"a {model.estimator} has no rule to learn its order by")
    for name, values in PLAIN.items():
        if (value := model.settings.get(name, values[0])) not in values:
            raise ValueError(f"the model was learned with {name}={shown(value)}, which explore does not have")
    if model.family.loss not in ("squared_error", "poisson", "log_loss"):
        raise ValueError(f"the model has a loss of its own, {shown(model.family.loss)}")


def _encoding(model: AnytimeModel) -> str:
    given = model.settings.get("encoding")
    if isinstance(given, Encoding):
        if replace(given, interactions=0) != Encoding(given.numbers) or given.numbers == "levels":
            raise ValueError(f"the model was learned with {shown(given)}, and explore has plain encodings only")
        return given.numbers
    return "none" if given is None else str(given)
