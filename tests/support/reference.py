"""The slow truth: every quantity of the method by brute force, refitted from the data each time.

Nothing here shares code with the library, and nothing forms a Gram matrix: ridge regression is ordinary
least squares on the data with √alpha·I stacked below, solved by an SVD, so that alpha = 0, duplicate columns
and n < D are not special cases. What follows ``standardise`` works in standardised units; ``sequence``
returns coefficients in the user's units.

Notation: Xs (n, D) standardised features, Yc (n, P) centred responses, w (n,) weights, ``columns`` a set.
The objective is Σ w_i‖y_i − W'x_i‖² / 2Σw + alpha/2 ‖W‖², and F(S) = R(∅) − R(S).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

TIE = 1e-12  # rates closer than this, relatively, are equal
ZERO = 1e-12  # a score below this fraction of ‖Y‖²/n is rounding
RULES = ("omp", "forward", "no-whiten", "single")
SCHEDULES = ("greedy", "doubling", "doubling-literal")


class Standardised(NamedTuple):
    """Features with mean 0 and standard deviation 1, centred responses, and what undoes it."""

    Xs: Array
    Yc: Array
    w: Array
    x_mean: Array
    x_scale: Array
    y_mean: Array


def standardise(X: ArrayLike, Y: ArrayLike, w: ArrayLike | None = None) -> Standardised:
    """Weighted means and population deviations; a constant column becomes zeros with scale 1."""
    X = np.asarray(X, dtype=float)
    Y = np.asarray(Y, dtype=float)
    Y = Y[:, None] if Y.ndim == 1 else Y
    w = np.ones(len(X)) if w is None else np.asarray(w, dtype=float)
    share = w / w.sum()
    # Differences to the heaviest row keep their digits, also if it outweighs all others or columns are far from zero.
    heavy = int(np.argmax(w))
    X_away, Y_away = X - X[heavy], Y - Y[heavy]
    x_offset, y_offset = share @ X_away, share @ Y_away
    # Constancy is a property of the rows that count, decided exactly: a rounded variance cannot tell.
    constant = np.ptp(X[w > 0], axis=0) == 0
    centred = np.where(constant, 0.0, X_away - x_offset)
    x_scale = np.where(constant, 1.0, np.sqrt(share @ centred**2))
    x_mean, y_mean = X[heavy] + x_offset, Y[heavy] + y_offset
    return Standardised(centred / x_scale, Y_away - y_offset, w, x_mean, x_scale, y_mean)


def _augmented(Xs: Array, Yc: Array, w: Array, alpha: float) -> tuple[Array, Array]:
    """Return A (n + D, D) and T (n + D, P) with ½‖T − A W‖² equal to the objective at W."""
    root = np.sqrt(w / w.sum())[:, None]
    D = Xs.shape[1]
    A = np.vstack([root * Xs, np.sqrt(alpha) * np.eye(D)])
    T = np.vstack([root * Yc, np.zeros((D, Yc.shape[1]))])
    return A, T


def fit(Xs: Array, Yc: Array, w: Array, columns: Iterable[int], alpha: float) -> Array:
    """Ridge coefficients (D, P) on a set of columns, zero elsewhere; of minimum norm when singular."""
    columns = sorted(set(columns))
    A, T = _augmented(Xs, Yc, w, alpha)
    W = np.zeros((Xs.shape[1], Yc.shape[1]))
    if columns:
        W[columns] = np.linalg.lstsq(A[:, columns], T, rcond=None)[0]
    return W


def risk(Xs: Array, Yc: Array, w: Array, columns: Iterable[int], alpha: float) -> float:
    """Return R(S), the minimum of the objective over coefficients on ``columns``."""
    A, T = _augmented(Xs, Yc, w, alpha)
    return 0.5 * float(np.sum((T - A @ fit(Xs, Yc, w, columns, alpha)) ** 2))


def F(Xs: Array, Yc: Array, w: Array, columns: Iterable[int], alpha: float) -> float:
    """Return R(∅) − R(S), the explained objective of a set of columns."""
    return risk(Xs, Yc, w, (), alpha) - risk(Xs, Yc, w, columns, alpha)


def gradient(Xs: Array, Yc: Array, w: Array, columns: Iterable[int], alpha: float) -> Array:
    """Minus the gradient of the objective at the fit on ``columns``: r = X'(Y − XW)/n − alpha W, (D, P)."""
    W = fit(Xs, Yc, w, columns, alpha)
    return (Xs * (w / w.sum())[:, None]).T @ (Yc - Xs @ W) - alpha * W


def scores(
    Xs: Array,
    Yc: Array,
    w: Array,
    groups: Sequence[Sequence[int]],
    chosen: Iterable[int],
    rule: str,
    alpha: float,
) -> Array:
    """Score of every group after ``chosen`` (not divided by cost), r_g' M_g⁻¹ r_g; chosen ones score 0.

    omp        M_g = X_g'X_g/n + alpha I, computed as ‖P_g E‖²: the projection of the augmented residual on
               the group's augmented columns, which is the pseudo-inverse when the block is singular
    forward         2(F(S ∪ g) − F(S)), by refitting
    no-whiten  ‖r_g‖²
    single     max_d ‖r_d‖²
    """
    chosen = set(chosen)
    S = [d for g in chosen for d in groups[g]]
    A, T = _augmented(Xs, Yc, w, alpha)
    E = T - A @ fit(Xs, Yc, w, S, alpha)
    r = gradient(Xs, Yc, w, S, alpha)
    out = np.zeros(len(groups))
    for g in set(range(len(groups))) - chosen:
        columns = list(groups[g])
        if rule == "omp":
            A_g = A[:, columns]
            out[g] = np.sum((A_g @ np.linalg.lstsq(A_g, E, rcond=None)[0]) ** 2)
        elif rule == "forward":
            out[g] = 2 * (F(Xs, Yc, w, S + columns, alpha) - F(Xs, Yc, w, S, alpha))
        elif rule == "no-whiten":
            out[g] = np.sum(r[columns] ** 2)
        elif rule == "single":
            out[g] = np.max(np.sum(r[columns] ** 2, axis=1))
        else:
            raise ValueError(f"unknown rule {rule!r}")
    return out


def candidates(
    remaining: Iterable[int],
    costs: Sequence[float],
    spent: float,
    schedule: str,
    c_min: float | None,
    max_cost: float | None,
) -> list[int]:
    """Which of the remaining groups the schedule allows next; empty means stop."""
    fits = [g for g in remaining if max_cost is None or spent + costs[g] <= max_cost]
    if schedule == "greedy" or not fits:
        return fits
    limit = spent if spent > 0 else c_min
    affordable = [] if limit is None else [g for g in fits if costs[g] <= limit]
    if affordable or schedule == "doubling-literal":
        return affordable
    lowest = min(costs[g] for g in fits)
    return [g for g in fits if costs[g] == lowest]


def best(
    allowed: Sequence[int],
    score: Mapping[int, float],
    costs: Sequence[float],
    cost_sensitive: bool,
    zero: float,
) -> int:
    """Highest rate; ties to the cheaper, then the lower index. Free groups first, worthless ones last."""
    free = [g for g in allowed if cost_sensitive and costs[g] == 0]
    pool = free or list(allowed)
    useful = [g for g in pool if score[g] > zero]
    if not useful:
        return min(pool, key=lambda g: (costs[g], g))
    per_cost = cost_sensitive and not free
    rate = {g: score[g] / costs[g] if per_cost else score[g] for g in useful}
    top = max(rate.values())
    return min((g for g in useful if rate[g] >= top * (1 - TIE)), key=lambda g: (costs[g], g))


def _spent(order: Sequence[int], costs: Sequence[float]) -> float:
    """Sum the costs left to right, as a running total would."""
    return list(accumulate((costs[g] for g in order), initial=0.0))[-1]


def sequence(
    X: ArrayLike,
    Y: ArrayLike,
    groups: Sequence[Sequence[int]],
    costs: ArrayLike,
    *,
    rule: str = "forward",
    cost_sensitive: bool = True,
    schedule: str = "greedy",
    c_min: float | None = None,
    alpha: float = 1e-5,
    sample_weight: ArrayLike | None = None,
    max_cost: float | None = None,
    max_groups: int | None = None,
) -> dict[str, Any]:
    """Order the groups.

    Returns
    -------
    dict
        ``order`` (list of group indices), ``gains`` (F differences), ``R0``, and in the user's units
        ``coefs`` (stages, D) and ``intercepts`` (stages,), or (stages, P, D) and (stages, P) when Y is a
        matrix. The first row is the stage with one group.
    """
    if rule not in RULES or schedule not in SCHEDULES:
        raise ValueError(f"unknown rule {rule!r} or schedule {schedule!r}")
    data = standardise(X, Y, sample_weight)
    arrays = data.Xs, data.Yc, data.w
    price = [float(c) for c in np.asarray(costs)]
    c_min = min(price) if c_min is None and schedule == "doubling-literal" else c_min
    R0 = risk(*arrays, (), alpha)

    order: list[int] = []
    gains: list[float] = []
    coefs, intercepts = [], []
    while len(order) < (len(groups) if max_groups is None else min(max_groups, len(groups))):
        left = [g for g in range(len(groups)) if g not in order]
        allowed = candidates(left, price, _spent(order, price), schedule, c_min, max_cost)
        if not allowed:
            break
        score = scores(*arrays, groups, order, rule, alpha)
        before = [d for g in order for d in groups[g]]
        order.append(best(allowed, dict(enumerate(score)), price, cost_sensitive, ZERO * 2 * R0))
        after = [d for g in order for d in groups[g]]
        gains.append(F(*arrays, after, alpha) - F(*arrays, before, alpha))
        coef = fit(*arrays, after, alpha).T / data.x_scale
        coefs.append(coef)
        intercepts.append(data.y_mean - coef @ data.x_mean)

    P, D = data.Yc.shape[1], data.Xs.shape[1]
    coef_path = np.reshape(coefs, (len(order), P, D))
    intercept_path = np.reshape(intercepts, (len(order), P))
    flat = np.ndim(Y) == 1
    return {
        "order": order,
        "gains": gains,
        "R0": R0,
        "coefs": coef_path[:, 0] if flat else coef_path,
        "intercepts": intercept_path[:, 0] if flat else intercept_path,
    }


def set_sequence(
    F: Callable[[frozenset[Any]], float],
    costs: Mapping[Hashable, float],
    *,
    cost_sensitive: bool = True,
    schedule: str = "greedy",
    c_min: float | None = None,
    max_cost: float | None = None,
    max_groups: int | None = None,
) -> dict[str, list[Any]]:
    """Order the keys of ``costs`` by marginal gain for any set function; ties go to the earlier key."""
    if schedule not in SCHEDULES:
        raise ValueError(f"unknown schedule {schedule!r}")
    items, price = list(costs), [float(c) for c in costs.values()]
    c_min = min(price) if c_min is None and schedule == "doubling-literal" else c_min
    order: list[int] = []
    gains: list[float] = []
    while len(order) < (len(items) if max_groups is None else min(max_groups, len(items))):
        left = [g for g in range(len(items)) if g not in order]
        allowed = candidates(left, price, _spent(order, price), schedule, c_min, max_cost)
        if not allowed:
            break
        S = frozenset(items[g] for g in order)
        score = {g: F(S | {items[g]}) - F(S) for g in allowed}
        order.append(best(allowed, score, price, cost_sensitive, zero=1e-14 * abs(F(S))))
        gains.append(score[order[-1]])
    return {"order": [items[g] for g in order], "gains": gains}
