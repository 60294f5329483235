"""Prove how close a sequence is to optimal."""

from __future__ import annotations

from collections.abc import Sequence

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
from budgetline.moments.moments import Moments
from budgetline.optimality.set_values import problem_of
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
    They are about squared error on the training data.

    Parameters
    ----------
    subject : fitted model or Moments
        A model of squared error is certified as it is. For moments, the sequence is that of ``rule="forward"`` unless
        another is given.
    feature_groups, costs, alpha
        As in `budgetline.AnytimeRegressor`. Only with moments.
    sequence : GroupSequence or group names, optional
        With moments: the order to certify.
    budgets : array, optional
        Further budgets of interest; every prefix and an even grid are always certified.
    time_limit : float
        Seconds.
    progress : bool or None
        Whether to show a progress bar; None: on a terminal.

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
    """Return the problem of all groups of a model of squared error; other losses have none."""
    if not model.squared_error:
        loss = shown(model.family.loss)
        raise ValueError(
            f"a certificate is about squared error, not about loss {loss}, for which the only known bound is what all "
            "groups explain: see the column explained of sequence_"
        )
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
