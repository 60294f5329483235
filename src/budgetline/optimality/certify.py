"""Prove how close a sequence is to optimal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float
from budgetline.budgets import affordable
from budgetline.groups import FeatureGroups
from budgetline.inputs import check_number, floats_of
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.moments.moments import Moments
from budgetline.optimality.certificate import Certificate
from budgetline.optimality.conditions import Conditions
from budgetline.optimality.proof import Proof
from budgetline.optimality.quadratic import Quadratic, design_groups, model_of
from budgetline.optimality.relaxation import separate
from budgetline.optimality.search import Search
from budgetline.progress import Progress, TimeLimit
from budgetline.sequencing.schedules import FixedOrder, Greedy
from budgetline.sequencing.sequence import GroupSequence
from budgetline.threads import one_blas_thread

GRID = 64
"""This many budgets, evenly spread up to the total cost, are certified in addition to the prefixes."""
JUST_BELOW = 1 - 1e-9
CLOSED = 1e-4
"""A gap below this share of what all groups explain is small enough."""
SEPARATING = 0.5
"""The share of the time limit for the search for Δ."""


def certify(
    subject: object,
    feature_groups: object = None,
    costs: object = None,
    *,
    sequence: GroupSequence | Sequence[str] | None = None,
    alpha: float | None = None,
    budgets: ArrayLike | None = None,
    time_limit: float = 5.0,
    progress: Progress = None,
) -> Certificate:
    """Prove how close a sequence is to optimal at every budget.

    Bounds on what any set of groups can explain come from the models of the prefixes, from a relaxation and from branch
    and bound, until the gaps are below 1e-4 of what all groups explain or the time is over. They are always valid.
    They are about the training data and squared error: for other losses the only bound is that of all groups.

    Parameters
    ----------
    subject : fitted model or Moments
        A model is certified as it is; for moments, the sequence of ``rule="fr"`` unless another is given.
    feature_groups, costs, alpha
        With moments, as in :class:`budgetline.AnytimeRegressor`.
    sequence : GroupSequence or group names, optional
        With moments: the order to certify.
    budgets : array, optional
        Further budgets of interest; every prefix and an even grid are always certified.
    time_limit : float
        Seconds.
    progress : bool or None
        Whether to show a progress bar; None: on a terminal, where tqdm is installed.

    Examples
    --------
    >>> from budgetline import Moments, certify
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> certificate = certify(Moments.of(heart.data, heart.target), heart.feature_groups, time_limit=60)
    >>> round(certificate.at(80).ratio, 3), round(certificate.timeliness().ratio, 2)
    (0.974, 0.98)
    """
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    if isinstance(subject, Moments):
        problem = Quadratic.of_moments(subject, feature_groups, costs, alpha)
        order = _order_of(sequence, problem)
    else:
        model = model_of(subject, feature_groups=feature_groups, costs=costs, sequence=sequence, alpha=alpha)
        order = model.sequence.order.tolist()
        if not model.squared_error:
            return _of_other_loss(model, certified_budgets(model.groups, order, budgets))
        problem = Quadratic.of_model(model)
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


def _order_of(sequence: GroupSequence | Sequence[str] | None, problem: Quadratic) -> list[int]:
    """Return a sequence as positions of groups; None: that of greedy ``fr``."""
    if isinstance(sequence, str):
        raise TypeError(f"sequence must be a GroupSequence or a list of group names, got the string {shown(sequence)}")
    if sequence is None:
        with one_blas_thread():
            return problem.greedy(Greedy())
    names = sequence.groups if isinstance(sequence, GroupSequence) else sequence
    return FixedOrder(tuple(map(str, names))).positions(problem.groups.names, problem.prices)


def _of_other_loss(model: AnytimeModel, grid: Float) -> Certificate:
    """Return the certificate of a generalised linear model: F of all groups is the only bound."""
    sequence, groups = model.sequence, model.groups
    if len(sequence) < len(groups):
        raise ValueError("the sequence ended early, so what all groups explain is not known: fit with all groups")
    values, none = np.cumsum(sequence.gains), np.zeros(len(groups), dtype=bool)
    achieved = np.concatenate([[0.0], values])[affordable(sequence.cumulative_costs, grid)]
    return Certificate(
        design_groups(model), sequence.order, values, model.alpha, model.family.loss, grid, achieved,
        np.full(grid.size, values[-1]), float(values[-1]), float(sequence.null_value), 0.0, none, none,
        Proof.trivial(len(groups)),
    )  # fmt: skip
