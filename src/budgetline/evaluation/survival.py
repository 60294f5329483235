"""Survival times: survival functions of a model, and how well scores and functions agree with what happened."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Mask, Positions
from budgetline.inputs import check_queries, check_survival, finite_floats
from budgetline.model.anytime import AnytimeModel
from budgetline.model.staged import Available

BRIER_TIMES, USUAL_TIMES = 100, 500
"""The integrated Brier score is a mean over the first number of times; by default survival is at most at the second."""


def survival_function(
    model: AnytimeModel,
    X: object,
    times: ArrayLike | None = None,
    *,
    budget: float | None = None,
    stage: int | None = None,
    available: Available = None,
) -> Float:
    """Return the probability of no event up to each time, shape (n, T); see ``AnytimeSurvival``."""
    known, hazards = baseline_of(model)
    usual = np.unique(np.linspace(0, known.size - 1, USUAL_TIMES).round().astype(np.intp))
    at = known[usual] if times is None else np.atleast_1d(finite_floats("times", times, 0))
    if at.ndim != 1:
        raise ValueError(f"times must be a number or a vector, got shape {at.shape}")
    scores, like = model.scored(X, budget=budget, stage=stage, available=available)
    return survival_of(scores[:, 0], known, hazards[like], at)


def has_baseline(model: AnytimeModel) -> bool:
    """Return whether a model has baseline hazards: one of survival times does, unless it was fitted with strata."""
    return "cumulative_hazards_" in model.learned


def baseline_of(model: AnytimeModel) -> tuple[Float, Float]:
    """Return times (T,) and the cumulative baseline hazards (1 + stages, T) of a model."""
    if not has_baseline(model):
        raise ValueError(f"{model.estimator} has no baseline hazard, which needs survival times without strata")
    return model.learned["event_times_"], model.learned["cumulative_hazards_"]


def survival_of(scores: Float, known: Float, hazard: Float, times: Float) -> Float:
    """Return exp(−H(t) e^score) of scores (n,), for cumulative hazards (K,) or (n, K) that rise at known times: (n, T).

    Before the first rise it is 1, however large the score is.
    """
    place = np.searchsorted(known, times, side="right")
    at = np.where(place > 0, hazard[..., np.maximum(place - 1, 0)], 0.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.where(at > 0, np.exp(-np.exp(np.log(at) + scores[:, None])), 1.0)


def concordance(time: ArrayLike, event: ArrayLike, scores: ArrayLike, strata: ArrayLike | None = None) -> float:
    """Return Harrell's concordance: the share of comparable pairs in which the row with the higher score comes first.

    Two rows are comparable if an event occurred at the earlier of their two times. Pairs with equal scores count half.
    Two events at the same time do not form a pair.

    Parameters
    ----------
    time : array of shape (n,)
        The time of each row.
    event : array of shape (n,)
        Whether the event happened at that time. If it did not, the row is censored.
    scores : array of shape (n,)
        Predicted risks. The higher the score, the earlier an event is expected.
    strata : array of shape (n,), optional
        The stratum of each row. Only rows of the same stratum form pairs.

    Examples
    --------
    >>> from budgetline.evaluation import concordance
    >>> concordance([1.0, 2.0, 3.0], [True, True, False], [0.9, 0.1, 0.5])
    0.6666666666666666
    """
    points = finite_floats("scores", scores, 1)
    if points.ndim != 1:
        raise ValueError(f"scores must be a vector, got shape {points.shape}")
    when, happened = check_survival((time, event), points.size)
    stratum = np.zeros(points.size) if strata is None else check_queries(strata, points.size, name="strata")
    kinds = (np.flatnonzero(stratum == one) for one in np.unique(stratum))
    right, pairs = np.sum([_concordant(when[own], happened[own], points[own]) for own in kinds], axis=0).tolist()
    if not pairs:
        raise ValueError("concordance is undefined: no event is followed by another row")
    return float(right / pairs)


def _concordant(when: Float, happened: Mask, points: Float) -> tuple[float, int]:
    """Return how many pairs are concordant, and of how many pairs the order is known."""
    # events before censored rows of the same time; tied events by score, so that none counts as concordant
    order = np.lexsort((points, ~happened, when))
    when, happened, rank = when[order], happened[order], np.unique(points[order], return_inverse=True)[1]
    after = when.size - 1 - np.arange(when.size)
    _, tied = np.unique(when[happened], return_counts=True)
    lower, equal = _followers(rank, happened)
    both = np.unique(np.column_stack([when[happened], rank[happened]]), axis=0, return_counts=True)[1]
    known = int(after[happened].sum() - (tied * (tied - 1) // 2).sum())
    return lower + (equal - (both * (both - 1) // 2).sum()) / 2, known


def _followers(rank: Positions, event: Mask) -> tuple[int, int]:
    """Return how many pairs of an event and a later row have a lower, and an equal, rank later."""
    # two ranks differ first in some bit: rows that share the higher bits are a run, in which ones come before zeros
    lower = 0
    for bit in range(int(rank.max()).bit_length()):
        order = np.argsort(rank >> (bit + 1), kind="stable")
        zero = (rank[order] >> bit) & 1 == 0
        lower += int(_later(rank[order] >> (bit + 1), zero)[event[order] & ~zero].sum())
    order = np.argsort(rank, kind="stable")
    return lower, int(_later(rank[order], np.ones(rank.size, dtype=bool))[event[order]].sum())


def _later(run: Positions, counted: Mask) -> Positions:
    """Return how many of the counted rows come later in the same run."""
    seen = np.cumsum(counted)
    return np.asarray(seen[np.searchsorted(run, run, side="right") - 1] - seen)


def integrated_brier(time: ArrayLike, event: ArrayLike, survival: ArrayLike, times: ArrayLike) -> float:
    """Return the mean over times (T,) of the Brier score of survival functions (n, T); smaller is better.

    Rows are weighted by the inverse probability of not being censored, which is estimated from the same rows (Graf et
    al., 1999). For a row that is still under observation at time t, this is the probability at t. For a row with an
    earlier event, it is the probability just before the event, so that no weight is infinite.

    Parameters
    ----------
    time, event : arrays of shape (n,)
        As in `concordance`.
    survival : array of shape (n, T)
        Probabilities of no event up to each time.
    times : array of shape (T,)
        The times, in ascending order.

    Examples
    --------
    >>> from budgetline.evaluation import integrated_brier
    >>> integrated_brier([1.0, 2.0, 3.0], [1, 1, 0], [[0.5, 0.0], [1.0, 0.5], [1.0, 1.0]], [1.5, 2.5])
    0.08333333333333333
    """
    survival, times = finite_floats("survival", survival, 1), finite_floats("times", times, 1)
    time, event = check_survival((time, event), len(survival))
    if times.ndim != 1 or np.any(np.diff(times) <= 0):
        raise ValueError("times must be a vector of different numbers in ascending order")
    if survival.shape != (time.size, times.size):
        raise ValueError(f"survival must have a row per sample and a column per time, got shape {survival.shape}")
    if wrong := survival[(survival < 0) | (survival > 1)].tolist():
        raise ValueError(f"survival must be probabilities from 0 to 1, got {wrong[0]:g}")
    own = kaplan_meier(time, ~event, time, last=True, before=True)[:, None]
    left = kaplan_meier(time, ~event, times, last=True)
    died, alive = (time[:, None] <= times) & event[:, None], time[:, None] > times
    squares = np.where(died, survival**2 / own, 0.0)
    squares += np.where(alive, (1 - survival) ** 2 / np.where(left > 0, left, np.inf), 0.0)
    score = squares.mean(axis=0)
    return float(np.trapezoid(score, times) / (times[-1] - times[0])) if times.size > 1 else float(score[0])


def kaplan_meier(time: Float, leaves: Mask, at: Float, *, last: bool = False, before: bool = False) -> Float:
    """Return the estimated share of rows that have not left up to each time, or ``before`` it.

    With ``last``, others leave before those that leave at the same time.
    """
    known, place = np.unique(time, return_inverse=True)
    at_risk = time.size - np.searchsorted(np.sort(time), known, side="left") - last * np.bincount(place, ~leaves)
    kept = np.where(at_risk > 0, 1 - np.bincount(place, leaves) / np.maximum(at_risk, 1), 1.0)
    return np.append(1.0, np.cumprod(kept))[np.searchsorted(known, at, side="left" if before else "right")]


def brier_times(time: Float, event: Mask) -> Float:
    """Return the times of an integrated Brier score: from the first tenth to the last tenth of the times of events."""
    if not event.any():
        raise ValueError("the Brier score is undefined: no row has an event")
    first, last = np.quantile(time[event], [0.1, 0.9])
    return np.unique(np.linspace(first, last, BRIER_TIMES))  # one time if most events are tied
