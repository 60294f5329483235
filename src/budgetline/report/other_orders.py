"""Other ways to order the groups of a model, to compare its order with."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone, is_classifier

from budgetline.baselines import GroupLassoPath
from budgetline.estimators import AnytimeRegressor, StagedEstimators
from budgetline.estimators.base import AnytimeEstimator
from budgetline.estimators.cross_validation import unsearched
from budgetline.glm.families import SquaredError
from budgetline.model.staged import Staged
from budgetline.sequencing import RandomOrder

OWN = "this model"
Orders = dict[str, tuple[str, dict[str, Any]]]
"""Ways to order groups: name -> (description, settings of an estimator)."""


def methods_of(model: Any, orders: Orders) -> dict[str, Any]:
    """Return the model itself, first, and copies with other orders; none is fitted, and none repeats a search."""
    return {OWN: unsearched(model)} | {name: _reordered(model, settings) for name, (_, settings) in orders.items()}


def other_orders(model: Staged, random_state: int) -> Orders:
    """Return the ways to order groups that differ from the model's own; none if its order was given, not learned."""
    given, squares = model.settings, isinstance(model.family, SquaredError)
    if "order" in given:  # of any estimators
        order = given["order"]
        if not isinstance(order, AnytimeEstimator):
            return {}
        given = order.get_params(deep=False)
        squares = not is_classifier(order) and given.get("loss", "squared_error") == "squared_error"
    greedy = {"rule": given.get("rule", "fr"), "cost_sensitive": True, "schedule": "greedy"}
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
    del found["Newton step (score)" if squares else "matching pursuit (omp)"]
    if not model.groups.shared and len(set(model.groups.costs.tolist())) == 1:
        found = {name: entry for name, entry in found.items() if name not in ("costs ignored", "cheapest first")}
    own = {name: given.get(name) for name in greedy}
    return {name: (note, settings) for name, (note, settings) in found.items() if settings != own}


def _reordered(estimator: Any, settings: dict[str, Any]) -> Any:
    """Return an unfitted copy with other settings of the estimator at the end of pipelines and searches."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return clone(estimator).set_params(**{name: _reordered(last, settings)})
    if isinstance(estimator, StagedEstimators):
        return clone(estimator).set_params(order=_reordered(estimator.order, settings))
    if hasattr(estimator, "estimator"):
        return clone(estimator).set_params(estimator=_reordered(estimator.estimator, settings))
    if isinstance(estimator, GroupLassoPath):  # it has no rules: compare with a greedy model on the same groups
        return AnytimeRegressor(estimator.feature_groups, estimator.costs, alpha=estimator.alpha, **settings)
    return unsearched(estimator).set_params(**settings)
