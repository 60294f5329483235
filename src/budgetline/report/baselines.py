"""Other ways to order the same groups, to compare a model with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from budgetline.baselines import GroupLassoPath
from budgetline.estimators import AnytimeRegressor
from budgetline.sequencing import RandomOrder

OWN = "this model"


@dataclass(frozen=True)
class Baseline:
    """A way to order groups: a name, what it does in words, and the settings that make it."""

    name: str
    note: str
    settings: dict[str, Any]


def baselines_of(estimator: Any, squared_error: bool, random_state: int) -> list[Baseline]:
    """Return the baselines that differ from an estimator of this library."""
    own = estimator.get_params(deep=False)
    rule = own.get("rule", "fr")
    gradient = (
        Baseline("matching pursuit (omp)", "by the gradient, per cost", _settings("omp"))
        if squared_error
        else Baseline("Newton step (score)", "by the gain of one Newton step, per cost", _settings("score"))
    )
    shown = "random order"
    found = [
        Baseline("exact gains (fr)", "by the exact gain, per cost", _settings("fr")),
        gradient,
        Baseline("each group alone", "by the gain of each group on its own, per cost", _settings("static")),
        Baseline("costs ignored", "by the gain, whatever it costs", _settings(rule, cost_sensitive=False)),
        Baseline("cheapest first", "by the cost, whatever it gains", _settings(rule, schedule="cheapest")),
        Baseline(shown, f"drawn with seed {random_state}", _settings(rule, schedule=RandomOrder(random_state))),
    ]
    return [baseline for baseline in found if any(own.get(k) != v for k, v in baseline.settings.items())]


def varied(estimator: Any, settings: dict[str, Any]) -> Any:
    """Return an unfitted copy with other settings of the estimator at the end of pipelines and searches."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return clone(estimator).set_params(**{name: varied(last, settings)})
    if hasattr(estimator, "estimator"):
        return clone(estimator).set_params(estimator=varied(estimator.estimator, settings))
    if isinstance(estimator, GroupLassoPath):  # it has no rules: a greedy model on the same groups is its baseline
        return AnytimeRegressor(estimator.feature_groups, estimator.costs, alpha=estimator.alpha, **settings)
    return clone(estimator).set_params(**settings)


def _settings(rule: str, cost_sensitive: bool = True, schedule: Any = "greedy") -> dict[str, Any]:
    return {"rule": rule, "cost_sensitive": cost_sensitive, "schedule": schedule}
