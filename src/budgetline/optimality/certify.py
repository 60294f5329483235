"""Prove how close a sequence is to optimal."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float
from budgetline.bounds.certificate import Certificate
from budgetline.bounds.problem import Conditions, Quadratic
from budgetline.bounds.relaxation import separate
from budgetline.bounds.search import SEPARATING, Search
from budgetline.groups import FeatureGroups
from budgetline.inputs import check_number, floats_of
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.subsets import LinearSubset
from budgetline.optimality.set_values import problem_of
from budgetline.progress import Progress, TimeLimit
from budgetline.threads import one_blas_thread

GRID = 64
"""This many budgets, evenly spread up to the total cost, are certified in addition to the prefixes."""
JUST_BELOW = 1 - 1e-9
CLOSED = 1e-4
"""A gap below this share of what all groups explain is small enough."""


def certify(
    model: object, *, budgets: ArrayLike | None = None, time_limit: float = 5.0, progress: Progress = None
) -> Certificate:
    """Prove how close a model's sequence is to optimal at every budget, for squared error.

    The bounds limit what any set of groups can explain. They are computed from the models of the prefixes, by a
    relaxation, and by branch and bound. The search ends at the time limit, or earlier if all gaps between the sequence
    and its bounds fall below 1e-4 of what all groups together explain. The bounds are valid no matter when the search
    ends. They apply to squared error on the training data.

    Parameters
    ----------
    model : fitted estimator of this library, its AnytimeModel, or a pipeline or search that ends in one
        The model whose order is certified.
    budgets : array, optional
        Additional budgets to certify. Every prefix and an even grid of budgets are always certified.
    time_limit : float
        The time limit in seconds.
    progress : bool or None
        Whether to show a progress bar. If None, it is shown on a terminal.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor, certify
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
    >>> certificate = certify(model, time_limit=60)
    >>> round(certificate.at(80).ratio, 3), round(certificate.timeliness().ratio, 2)
    (0.974, 0.98)
    """
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    found = as_model(model)
    order, problem = found.sequence.order.tolist(), _problem_of(found)
    grid, every = certified_budgets(problem.groups, order, budgets), Conditions.none(problem.prices)
    with one_blas_thread(), TimeLimit(limit, progress) as clock:
        search = Search(problem, grid, every, separate(problem, clock.start + SEPARATING * clock.limit))
        search.follow(order, clock.end)
        search.run(clock.end, CLOSED * search.everything, clock.tick)
        return search.certificate(order)


def certified_budgets(groups: FeatureGroups, order: list[int], budgets: ArrayLike | None) -> Float:
    """Return the budgets of a certificate: every prefix, just before it, an even grid, and those asked for."""
    spent = np.cumsum(groups.prices.steps(order))
    even = groups.prices.total * (np.arange(1, GRID + 1) / GRID)
    try:
        asked = np.empty(0) if budgets is None else np.atleast_1d(floats_of(budgets))
    except (TypeError, ValueError):
        raise ValueError(f"budgets must be numbers, got {shown(budgets)}") from None
    if asked.ndim != 1 or not np.isfinite(asked).all() or np.any(asked < 0):
        raise ValueError(f"budgets must be finite and not negative, got {shown(budgets)}")
    return np.asarray(np.unique(np.concatenate([[0.0], spent, spent * JUST_BELOW, even, asked])))


def _problem_of(model: AnytimeModel) -> Quadratic:
    """Return the problem of all groups of a model of squared error; other losses have none."""
    if not model.squared_error:
        raise ValueError(
            f"certificates exist only for squared error, and this model uses loss {shown(model.family.loss)}: fit an "
            "AnytimeRegressor, on numbers such as 0 and 1 for two classes (command line: --task regression)"
        )
    problem = problem_of(model)
    if model.moments is not None:
        return problem.warned()
    subset = model.stages.subset
    assert isinstance(subset, LinearSubset)
    if model.stages.columns.size < model.layout.read.size or not subset.kept.all():
        raise ValueError(
            "the model does not hold the covariance of all groups (it ended early, or columns are dependent): "
            "fit it to moments with fit_moments(Moments.from_data(X, y))"
        )
    return problem
