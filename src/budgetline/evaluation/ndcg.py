"""Normalised discounted cumulative gain of a ranking, with ties averaged."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Array, Float, Positions
from budgetline.budgets import check_integer, check_number


def ndcg_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    qid: ArrayLike,
    *,
    k: int | None = 5,
    empty: Literal["skip"] | float = "skip",
) -> float:
    """Return the mean NDCG@k over queries.

    The documents of a query are ranked by score; with gain 2^rel − 1 and the discount of rank i = 1, 2, …,

        DCG@k = Σ_{i ≤ k} (2^{rel_i} − 1)/log₂(i + 1),      NDCG@k = DCG@k / (DCG@k of the best ranking).

    Documents of equal score share the mean discount of their ranks: the expected value over all orders of them.

    Parameters
    ----------
    y_true : array of shape (n,)
        Grades ≥ 0.
    y_score : array of shape (n,)
        Higher comes first.
    qid : array of shape (n,)
        The query of each document; rows of a query need not be adjacent.
    k : int or None
        How many ranks count; None: all.
    empty : "skip" or float
        What a query without any relevant document counts, for which the ratio is 0/0: nothing ("skip": the mean is over
        the other queries), or a value of your convention, usually 0 or 1.

    Examples
    --------
    >>> from budgetline.evaluation import ndcg_score
    >>> round(ndcg_score([2, 0, 1, 0, 0], [3.0, 2.0, 2.0, 1.0, 5.0], [7, 7, 7, 7, 8], k=2), 4)
    0.9131
    """
    rel, points, queries = np.asarray(y_true, dtype=np.float64), np.asarray(y_score), np.asarray(qid)
    _check(rel, points, queries, k, empty)
    _, query = np.unique(queries, return_inverse=True)
    gains = np.exp2(rel) - 1
    ideal = _dcg(gains, rel, query, k)
    found = _dcg(gains, points.astype(np.float64), query, k)
    relevant = ideal > 0
    values = np.divide(found, ideal, out=np.zeros_like(ideal), where=relevant)
    if empty != "skip":
        return float(np.where(relevant, values, float(empty)).mean())
    if not relevant.any():
        raise ValueError("no query has a relevant document: NDCG is undefined; give empty=0 or empty=1")
    return float(values[relevant].mean())


def _dcg(gains: Float, scores: Float, query: Positions, k: int | None) -> Float:
    """Return the DCG of every query, shape (Q,)."""
    order = np.lexsort((-scores, query))
    query, scores, gains = query[order], scores[order], gains[order]
    new_query = np.append(True, query[1:] != query[:-1])
    new_score = new_query | np.append(True, scores[1:] != scores[:-1])
    starts = np.flatnonzero(new_query)
    rank = np.arange(query.size) - np.repeat(starts, np.diff(starts, append=query.size))
    discount = 1 / np.log2(rank + 2)
    if k is not None:
        discount[rank >= k] = 0.0
    # documents that tie: the mean of their discounts times the sum of their gains
    ties = np.flatnonzero(new_score)
    counts = np.diff(ties, append=query.size)
    shared = np.add.reduceat(discount, ties) / counts * np.add.reduceat(gains, ties)
    return np.asarray(np.bincount(query[ties], shared, starts.size), dtype=np.float64)


def _check(rel: Float, scores: Array, qid: Array, k: object, empty: object) -> None:
    if not rel.ndim == scores.ndim == qid.ndim == 1 or not rel.size == scores.size == qid.size > 0:
        shapes = f"{rel.shape}, {scores.shape} and {qid.shape}"
        raise ValueError(f"y_true, y_score and qid must be vectors of one length, got {shapes}")
    if scores.dtype.kind not in "biuf":
        raise ValueError(f"scores must be numbers, got {scores.dtype}")
    if not np.isfinite(scores).all():
        raise ValueError("scores hold NaN or infinity")
    if not np.all(fits := (rel >= 0) & (rel <= 500)):
        raise ValueError(f"y_true must be grades from 0 to 500 (the gain is 2^rel − 1), got {rel[~fits][0]:g}")
    if k is not None:
        check_integer("k", k, ge=1)
    if empty != "skip":
        check_number("empty", empty, "number or 'skip'", finite=True)
