"""Survival times: survival functions of a model, and how well scores and functions agree with what happened."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Mask, Positions
from budgetline.inputs import check_survival, finite_floats
from budgetline.model.anytime import AnytimeModel

BRIER_TIMES = 100
"""The integrated Brier score is a mean over this many times."""


def survival_function(
    model: AnytimeModel,
    X: object,
    times: ArrayLike | None = None,
    *,
    budget: float | None = None,
    stage: int | None = None,
) -> Float:
    """Return the probability of no event up to each time, shape (n, T); see ``AnytimeSurvival``."""
    known, hazards = baseline_of(model)
    at = known if times is None else finite_floats("times", times, 0)
    if at.ndim != 1:
        raise ValueError(f"times must be a vector, got shape {at.shape}")
    last = model.stages.last_stage(budget, stage, None)
    return survival_of(model.scored(X, stage=last)[0][:, 0], known, hazards[last], at)


def baseline_of(model: AnytimeModel) -> tuple[Float, Float]:
    """Return times (T,) and the cumulative baseline hazards (1 + stages, T) of a model."""
    if "cumulative_hazards_" not in model.learned:
        raise ValueError(f"{model.estimator} has no baseline hazard: that needs survival times without strata")
    return model.learned["event_times_"], model.learned["cumulative_hazards_"]


def survival_of(scores: Float, known: Float, hazard: Float, times: Float) -> Float:
    """Return exp(−H(t) e^score) of scores (n,), for a cumulative hazard (K,) that rises at known times: (n, T)."""
    at = np.append(0.0, hazard)[np.searchsorted(known, times, side="right")]
    with np.errstate(over="ignore"):
        found: Float = np.exp(-at * np.exp(scores[:, None]))
    return found


def concordance(time: ArrayLike, event: ArrayLike, scores: ArrayLike) -> float:
    """Return Harrell's concordance: of pairs whose order is known, the share in which the higher score comes first.

    The order of two rows is known if the earlier time is an event. Pairs of equal score count half; two events at one
    time are no pair.

    Parameters
    ----------
    time, event, scores : arrays of shape (n,)

    Examples
    --------
    >>> from budgetline.evaluation import concordance
    >>> concordance([1.0, 2.0, 3.0], [True, True, False], [0.9, 0.1, 0.5])
    0.6666666666666666
    """
    points = finite_floats("scores", scores, 1)
    when, happened = check_survival((time, event), points.size)
    # events before censored rows of the same time; tied events by score, so that none counts as concordant
    order = np.lexsort((points, ~happened, when))
    when, happened, rank = when[order], happened[order], np.unique(points[order], return_inverse=True)[1]
    after = when.size - 1 - np.arange(when.size)
    _, tied = np.unique(when[happened], return_counts=True)
    pairs = after[happened].sum() - (tied * (tied - 1) // 2).sum()
    if not pairs:
        raise ValueError("concordance is undefined: no event is followed by another row")
    lower, equal = _followers(rank, happened)
    both = np.unique(np.column_stack([when[happened], rank[happened]]), axis=0, return_counts=True)[1]
    return float((lower + (equal - (both * (both - 1) // 2).sum()) / 2) / pairs)


def _followers(rank: Positions, event: Mask) -> tuple[int, int]:
    """Return how many pairs of an event and a later row have a lower, and an equal, rank later."""
    n, size, lower, equal = rank.size, 1, 0, 0
    position = np.arange(n)
    while size < n:  # merge sort: count between the halves of every segment
        segment, first = position // (2 * size), position % (2 * size) < size
        order = np.lexsort((rank, segment))
        s, r, second = segment[order], rank[order], ~first[order]
        counted = (event & first)[order]
        new_run = np.append(True, (s[1:] != s[:-1]) | (r[1:] != r[:-1]))
        run = np.cumsum(new_run) - 1
        in_run = np.bincount(run, second).astype(np.int64)
        segments = s[new_run]
        before = np.cumsum(in_run) - in_run
        start = before[np.searchsorted(segments, segments)]
        events = np.bincount(run, counted).astype(np.int64)
        lower += int((events * (before - start)).sum())
        equal += int((events * in_run).sum())
        size *= 2
    return lower, equal


def integrated_brier(time: ArrayLike, event: ArrayLike, survival: ArrayLike, times: ArrayLike) -> float:
    """Return the mean over times (T,) of the Brier score of survival functions (n, T); smaller is better.

    Rows count by the inverse probability of not being censored, estimated from the same rows (Graf et al., 1999).

    Examples
    --------
    >>> from budgetline.evaluation import integrated_brier
    >>> integrated_brier([1.0, 2.0, 3.0], [1, 1, 0], [[0.5, 0.0], [1.0, 0.5], [1.0, 1.0]], [1.5, 2.5])
    0.08333333333333333
    """
    survival, times = np.asarray(survival, dtype=np.float64), finite_floats("times", times, 1)
    time, event = check_survival((time, event), len(survival))
    if survival.shape != (time.size, times.size):
        raise ValueError(f"survival must have a row per sample and a column per time, got shape {survival.shape}")
    left = censoring_survival(time, event, np.append(times, time))
    at_times, at_own = left[: times.size], left[times.size :]
    died = (time[:, None] <= times) & event[:, None]
    alive = time[:, None] > times
    own = np.where(at_own > 0, at_own, np.inf)[:, None]
    squares = np.where(died, survival**2 / own, 0.0)
    squares += np.where(alive, (1 - survival) ** 2 / np.where(at_times > 0, at_times, np.inf), 0.0)
    score = squares.mean(axis=0)
    return float(np.trapezoid(score, times) / (times[-1] - times[0])) if times.size > 1 else float(score[0])


def censoring_survival(time: Float, event: Mask, at: Float) -> Float:
    """Return the Kaplan-Meier estimate of the probability of not being censored up to each time, events first."""
    return kaplan_meier(time, ~event, at, last=True)


def kaplan_meier(time: Float, leaves: Mask, at: Float, *, last: bool = False) -> Float:
    """Return the estimated share of rows that have not left up to each time; ``last``: others leave before them."""
    known, place = np.unique(time, return_inverse=True)
    at_risk = time.size - np.searchsorted(np.sort(time), known, side="left") - last * np.bincount(place, ~leaves)
    kept = np.where(at_risk > 0, 1 - np.bincount(place, leaves) / np.maximum(at_risk, 1), 1.0)
    return np.append(1.0, np.cumprod(kept))[np.searchsorted(known, at, side="right")]


def brier_times(time: Float, event: Mask) -> Float:
    """Return the times of an integrated Brier score: from the first tenth to the last tenth of the times of events."""
    if not event.any():
        raise ValueError("the Brier score is undefined: no row has an event")
    first, last = np.quantile(time[event], [0.1, 0.9])
    return np.linspace(first, last, BRIER_TIMES)
