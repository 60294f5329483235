"""Prove how close a sequence is to optimal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float
from budgetline.bounds.certificate import Certificate, no_proof
from budgetline.bounds.problem import Conditions, Quadratic
from budgetline.bounds.relaxation import separate
from budgetline.bounds.search import SEPARATING, Search
from budgetline.budgets import affordable
from budgetline.groups import FeatureGroups
from budgetline.inputs import check_number, floats_of
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model
from budgetline.model.subsets import LinearSubset
from budgetline.moments.moments import Moments
from budgetline.optimality.set_values import design_groups, problem_of
from budgetline.progress import Progress, TimeLimit
from budgetline.sequencing.schedules import FixedOrder, Greedy
from budgetline.sequencing.sequence import GroupSequence
from budgetline.threads import one_blas_thread

GRID = 64
"""This many budgets, evenly spread up to the total cost, are certified in addition to the prefixes."""
JUST_BELOW = 1 - 1e-9
CLOSED = 1e-4
"""A gap below this share of what all groups explain is small enough."""


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
        A model is certified as it is; for moments, the sequence of ``rule="forward"`` unless another is given.
    feature_groups, costs, alpha
        As in `budgetline.AnytimeRegressor`. Only with moments.
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
    >>> certificate = certify(Moments.from_data(heart.data, heart.target), heart.feature_groups, time_limit=60)
    >>> round(certificate.at(80).ratio, 3), round(certificate.timeliness().ratio, 2)
    (0.974, 0.98)
    """
    limit = check_number("time_limit", time_limit, "number of seconds", ge=0)
    if isinstance(subject, Moments):
        problem = Quadratic.of_moments(subject, feature_groups, costs, alpha).warned()
        order = _order_of(sequence, problem)
    else:
        of_moments = {"feature_groups": feature_groups, "costs": costs, "sequence": sequence, "alpha": alpha}
        if given := [name for name, value in of_moments.items() if value is not None]:
            raise TypeError(f"{given[0]} is for moments; a model has its own")
        model = as_model(subject)
        order = model.sequence.order.tolist()
        if not model.squared_error:
            return _of_other_loss(model, certified_budgets(model.groups, order, budgets))
        problem = _problem_of(model)
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
    """Return the problem of all groups of a model of squared error."""
    problem = problem_of(model)
    if model.moments is not None:
        return problem.warned()
    subset = model.stages.subset
    assert isinstance(subset, LinearSubset)
    if model.stages.columns.size < model.layout.read.size or not subset.kept.all():
        raise ValueError(
            "the model does not hold the covariance of all groups (it ended early, or columns are dependent): "
            "give the moments, certify(moments, groups, sequence=model.sequence_)"
        )
    return problem


def _order_of(sequence: GroupSequence | Sequence[str] | None, problem: Quadratic) -> list[int]:
    """Return a sequence as positions of groups; None: that of greedy ``forward``."""
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
        **no_proof(len(groups)),
    )  # fmt: skip
