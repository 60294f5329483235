"""certify: how good a sequence is, proven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.budgets import affordable, floats_of
from budgetline.groups import FeatureGroups
from budgetline.messages import shown
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.proof import Proof
from budgetline.optimality.quadratic import Quadratic
from budgetline.optimality.search import Search
from budgetline.optimality.statement import (
    check_time_limit,
    fitted_model,
    order_of,
    problem_of_model,
    problem_of_moments,
)
from budgetline.progress import Progress, TimeLimit
from budgetline.sequencing.sequence import GroupSequence
from budgetline.statistics.moments import Moments
from budgetline.threads import one_blas_thread

Float = NDArray[np.float64]

GRID = 64
"""Beside the prefixes, so many budgets are certified, evenly spread up to the total cost."""
JUST_BELOW = 1 - 1e-9
CLOSED = 1e-4
"""A gap below this share of what all groups explain is small enough."""
SEPARATING = 0.5
"""The share of the time that the search for Δ may take."""


def certify(
    subject: Any,
    feature_groups: Any = None,
    costs: Any = None,
    *,
    sequence: GroupSequence | Sequence[str] | None = None,
    alpha: float | None = None,
    budgets: Any = None,
    time_limit: float = 5.0,
    progress: Progress = None,
) -> Certificate:
    """Bound what any set of groups can explain at every budget, and say how near a sequence comes.

    Bounds come from the models of the prefixes, from a relaxation and from branch and bound, until the gaps are below
    1e-4 of what all groups explain or the time is over; they are valid whenever it ends. All is about the training data
    and squared error: for other losses the only bound is that of all groups.

    Parameters
    ----------
    subject : fitted model or Moments
        A model is certified as it is; of moments, the sequence of ``rule="fr"`` unless another is given.
    feature_groups, costs
        With moments, as in :class:`budgetline.AnytimeRegressor`.
    sequence : GroupSequence or group names, optional
        With moments: the order to certify.
    alpha : float, optional
        With moments: the ridge constant; default: 1e-5.
    budgets : array, optional
        Further budgets of interest; every prefix and an even grid are always certified.
    time_limit : float
        Seconds.
    progress : bool or None
        Whether to show a progress bar; None: on a terminal, where tqdm is installed.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> from budgetline import Moments, certify
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> certificate = certify(Moments.of(heart.data, heart.target), heart.feature_groups, time_limit=60)
    >>> round(certificate.at(80).ratio, 3), round(certificate.timeliness().ratio, 2)
    (0.974, 0.98)
    """
    limit = check_time_limit(time_limit)
    if isinstance(subject, Moments):
        problem = problem_of_moments(subject, feature_groups, costs, alpha)
        return _certified(problem, order_of(sequence, problem, subject), budgets, limit, progress)
    model = fitted_model(subject, feature_groups=feature_groups, costs=costs, sequence=sequence, alpha=alpha)
    if not model.squared_error:
        return _of_other_loss(model, budgets)
    return _certified(problem_of_model(model), model.sequence.order.tolist(), budgets, limit, progress)


def _certified(problem: Quadratic, order: list[int], budgets: Any, limit: float, progress: Progress) -> Certificate:
    grid = certified_budgets(problem.groups, order, budgets)
    none = np.zeros(problem.sizes.size, dtype=bool)
    with one_blas_thread(), TimeLimit(limit, progress) as clock:
        search = Search(problem, grid, none, none, clock.start + SEPARATING * clock.limit)
        search.follow(order, clock.end)
        search.run(clock.end, CLOSED * search.everything, clock.tick)
        return search.certificate(order)


def certified_budgets(groups: FeatureGroups, order: list[int], budgets: Any) -> Float:
    """Return the budgets of a certificate: every prefix, just before it, an even grid, and those asked for."""
    prices = groups.prices
    spent = np.cumsum(prices.steps(order))
    even = prices.total * (np.arange(1, GRID + 1) / GRID)
    try:
        asked = np.empty(0) if budgets is None else np.atleast_1d(floats_of(budgets))
    except (TypeError, ValueError):
        raise ValueError(f"budgets must be numbers, got {shown(budgets)}") from None
    if asked.ndim != 1 or not np.isfinite(asked).all() or np.any(asked < 0):
        raise ValueError(f"budgets must be finite and not negative, got {shown(budgets)}")
    found = np.unique(np.concatenate([[0.0], spent, spent * JUST_BELOW, even, asked]))
    return np.asarray(found)


def _of_other_loss(model: Any, budgets: Any) -> Certificate:
    """Return the certificate of a generalised linear model: F of all groups is the only bound."""
    sequence, groups = model.sequence, model.groups
    if len(sequence) < len(groups):
        raise ValueError("the sequence was ended early, so what all groups explain is not known: fit all of them")
    J = len(groups)
    grid = certified_budgets(groups, sequence.order.tolist(), budgets)
    values = np.cumsum(sequence.gains)
    achieved = np.concatenate([[0.0], values])[affordable(sequence.cumulative_costs, grid)]
    none = np.zeros(J, dtype=bool)
    alpha, loss = model.alpha, type(model.family).__name__
    return Certificate(
        groups, sequence.order, values, alpha, loss, grid, achieved,
        np.full(grid.size, values[-1]), float(values[-1]), float(sequence.null_value), 0.0, none, none,
        Proof.trivial(J),
    )  # fmt: skip
