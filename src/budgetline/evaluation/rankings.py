"""Rankings: how well the documents of queries are ordered by their scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from budgetline.arrays import Float, Positions
from budgetline.inputs import check_integer, numbered


def ndcg_score(y_true: ArrayLike, y_score: ArrayLike, qid: ArrayLike, *, k: int | None = 5) -> float:
    """Return the mean NDCG@k over queries; queries without a relevant document are left out.

    The documents of a query are ranked by score. With the gain 2^rel − 1 and a logarithmic discount for the ranks i =
    1, 2, …,

        DCG@k = Σ_{i ≤ k} (2^{rel_i} − 1)/log₂(i + 1),      NDCG@k = DCG@k / (DCG@k of the best ranking).

    Documents with equal scores share the mean discount of their ranks, which gives the expected value over all their
    possible orders.

    Parameters
    ----------
    y_true : array of shape (n,)
        The relevance grade of each document, at least 0.
    y_score : array of shape (n,)
        The score of each document. The highest score is ranked first.
    qid : array of shape (n,)
        The query ID of each document. The queries may be in any order.
    k : int or None
        The number of ranks that count. If None, all ranks count.

    Examples
    --------
    >>> from budgetline.evaluation import ndcg_score
    >>> round(ndcg_score([2, 0, 1, 0, 0], [3.0, 2.0, 2.0, 1.0, 5.0], [7, 7, 7, 7, 8], k=2), 4)
    0.9131
    """
    rel, points, query = _checked(y_true, y_score, qid, k)
    ideal, found = (_dcg(np.exp2(rel) - 1, scores, query, k) for scores in (rel, points))
    if not (relevant := ideal > 0).any():
        raise ValueError("no query has a relevant document: NDCG is undefined")
    return float((found[relevant] / ideal[relevant]).mean())


def map_score(y_true: ArrayLike, y_score: ArrayLike, qid: ArrayLike, *, k: int | None = None) -> float:
    """Return the mean average precision over queries; queries without a relevant document are left out.

    The precision at a rank is the share of relevant documents (grade > 0) up to this rank. The average precision of a
    query is the mean of the precisions at the ranks of its relevant documents. Only ranks up to k count. If documents
    have equal scores, the result is the expected value over all their possible orders.

    Parameters
    ----------
    y_true, y_score, qid, k
        As in `ndcg_score`.

    Examples
    --------
    >>> from budgetline.evaluation import map_score
    >>> map_score([1, 0, 1], [3.0, 2.0, 1.0], [7, 7, 7])
    0.8333333333333333
    """
    rel, points, query = _checked(y_true, y_score, qid, k)
    order, rank = ranked(points, query)
    query, found, scores = query[order], (rel[order] > 0).astype(np.float64), points[order]
    starts, ties = np.flatnonzero(rank == 0), _first_of_ties(rank, scores)
    counts = np.diff(ties, append=query.size)
    tied, size, place = (np.repeat(each, counts) for each in (np.add.reduceat(found, ties), counts, ties))
    earlier = np.cumsum(found) - found  # relevant documents of all rows before
    earlier = earlier[place] - np.repeat(earlier[starts], np.diff(starts, append=query.size))
    within = np.arange(query.size) - place
    hits = earlier + within * (tied - 1) / np.maximum(size - 1, 1) + 1
    gained = tied / size * hits / (rank + 1)
    if k is not None:
        gained[rank >= k] = 0.0
    relevant = np.bincount(query, found)
    if not relevant.any():
        raise ValueError("no query has a relevant document: average precision is undefined")
    best = relevant if k is None else np.minimum(relevant, k)
    return float((np.bincount(query, gained)[relevant > 0] / best[relevant > 0]).mean())


def _dcg(gains: Float, scores: Float, query: Positions, k: int | None) -> Float:
    """Return the DCG of every query, shape (Q,)."""
    order, rank = ranked(scores, query)
    discount = 1 / np.log2(rank + 2)
    if k is not None:
        discount[rank >= k] = 0.0
    # tied documents: the mean of their discounts times the sum of their gains
    ties = _first_of_ties(rank, scores[order])
    counts = np.diff(ties, append=order.size)
    shared = np.add.reduceat(discount, ties) / counts * np.add.reduceat(gains[order], ties)
    return np.asarray(np.bincount(query[order][ties], shared), dtype=np.float64)


def ranked(scores: Float, query: Positions) -> tuple[Positions, Positions]:
    """Return documents by query, the highest score first and equal ones in their order, and their ranks from 0 on."""
    order = np.lexsort((-scores, query))
    starts = np.flatnonzero(np.append(True, np.diff(query[order]) > 0))
    return order, np.arange(order.size) - np.repeat(starts, np.diff(starts, append=order.size))


def _first_of_ties(rank: Positions, scores: Float) -> Positions:
    """Return which ranked documents are the first of their query with their score."""
    return np.flatnonzero((rank == 0) | np.append(True, scores[1:] != scores[:-1]))


def _checked(y_true: ArrayLike, y_score: ArrayLike, queries: ArrayLike, k: object) -> tuple[Float, Float, Positions]:
    """Return grades, scores and the number of the query of every document, each (n,)."""
    rel, scores, qid = np.asarray(y_true, dtype=np.float64), np.asarray(y_score), np.asarray(queries)
    if not rel.ndim == scores.ndim == qid.ndim == 1 or not rel.size == scores.size == qid.size > 0:
        shapes = f"{rel.shape}, {scores.shape} and {qid.shape}"
        raise ValueError(f"y_true, y_score and qid must be vectors of equal length, got {shapes}")
    if scores.dtype.kind not in "biuf":
        raise ValueError(f"scores must be numbers, got {scores.dtype}")
    if not np.isfinite(scores).all():
        raise ValueError("scores contain NaN or infinity")
    if not np.all(fits := (rel >= 0) & (rel <= 500)):
        raise ValueError(f"y_true must be grades from 0 to 500 (the gain is 2^rel − 1), got {rel[~fits][0]:g}")
    if k is not None:
        check_integer("k", k, ge=1)
    return rel, scores.astype(np.float64), numbered(qid, "qid")[1]


RANKINGS: dict[str, Callable[..., float]] = {"ndcg": ndcg_score, "map": map_score}
"""Means over queries by name; each accepts grades, scores and queries, all of shape (n,), and ``k=`` ranks or None."""
