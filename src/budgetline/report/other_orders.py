"""Other ways to order the same groups, to compare a model with."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from budgetline.baselines import GroupLassoPath
from budgetline.estimators import AnytimeRegressor
from budgetline.model.anytime import AnytimeModel
from budgetline.sequencing import RandomOrder

Settings = dict[str, Any]
Orders = dict[str, tuple[str, Settings]]
"""Ways to order groups: name -> (description, settings of an estimator)."""


def other_orders(model: AnytimeModel, random_state: int) -> Orders:
    """Return the ways to order groups that differ from a model's own."""
    greedy = {"rule": model.settings.get("rule", "fr"), "cost_sensitive": True, "schedule": "greedy"}
    fr, omp, score, static = ({**greedy, "rule": rule} for rule in ("fr", "omp", "score", "static"))
    found = {
        "exact gains (fr)": ("largest exact gain per cost first", fr),
        "matching pursuit (omp)": ("largest gradient per cost first", omp),
        "Newton step (score)": ("largest gain of one Newton step per cost first", score),
        "each group alone": ("largest gain on its own per cost first", static),
        "costs ignored": ("largest gain first, whatever the cost", {**greedy, "cost_sensitive": False}),
        "cheapest first": ("lowest cost first, whatever the gain", {**greedy, "schedule": "cheapest"}),
        "random order": (f"drawn with seed {random_state}", {**greedy, "schedule": RandomOrder(random_state)}),
    }
    del found["Newton step (score)" if model.squared_error else "matching pursuit (omp)"]
    own = {name: model.settings.get(name) for name in greedy}
    return {name: (note, settings) for name, (note, settings) in found.items() if settings != own}


def reordered(estimator: Any, settings: Settings) -> Any:
    """Return an unfitted copy with other settings of the estimator at the end of pipelines and searches."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return clone(estimator).set_params(**{name: reordered(last, settings)})
    if hasattr(estimator, "estimator"):
        return clone(estimator).set_params(estimator=reordered(estimator.estimator, settings))
    if isinstance(estimator, GroupLassoPath):  # it has no rules: compare with a greedy model on the same groups
        return AnytimeRegressor(estimator.feature_groups, estimator.costs, alpha=estimator.alpha, **settings)
    return clone(estimator).set_params(**settings)
