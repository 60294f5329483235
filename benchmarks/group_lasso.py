"""Speed of the group lasso path, as ratios within one run: ``python benchmarks/group_lasso.py``.

Command line and way of measuring as in ``core.py``: each case in a process of its own, times that are compared taken in
turns. celer and skglm solve the same problem (standardised data, no ridge) on the first few λ of the same grid, each
from its solution before, at the loosest tolerance of a ladder at which they violate the optimality conditions by no
more than ``PRECISION`` of λ·cost, or at the tightest if none does. Ours is for the same λ, at its own tolerance.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import numpy as np
from core import Cases, Measurements, in_turns, main, seconds

from budgetline import GroupLassoPath, Moments
from budgetline.baselines.lasso_path import lasso_path
from budgetline.datasets import make_agricultural
from budgetline.objectives.gram import Gram

PRECISION = 1e-4
FEW = 25
"""How many of the 100 λ the peers get: from the largest down to 0.18 of it."""

field = make_agricultural(100_000, random_state=0)
X, y, costs = field.data, field.target.astype(float), np.array(field.feature_groups.costs)
layout = field.feature_groups.resolve(None, X.shape[1])
order = np.concatenate(layout.columns)
sizes = np.array([columns.size for columns in layout.columns])


def violation(C: np.ndarray, b: np.ndarray, coefs: np.ndarray, lambdas: np.ndarray) -> float:
    """Largest error of the optimality conditions relative to λ·cost, for standardised coefficients (L, D)."""
    worst = 0.0
    for value, w in zip(lambdas, coefs, strict=True):
        r = b - C @ w
        for end, size, cost in zip(np.cumsum(sizes), sizes, costs, strict=True):
            here, kappa = slice(end - size, end), value * cost
            norm = np.linalg.norm(w[here])
            left = np.linalg.norm(r[here] - kappa * w[here] / norm) if norm else np.linalg.norm(r[here]) - kappa
            worst = max(worst, float(left) / kappa)
    return worst


def path_case(rounds: int = 7) -> Measurements:
    moments = Moments.of(X, y)
    model = GroupLassoPath(field.feature_groups)
    gram = Gram.of(moments, order, model.alpha)
    problem = gram, sizes, costs

    works: dict[str, Callable[[], object]] = {
        "XtX": lambda: X.T @ X,
        "path": lambda: lasso_path(*problem, (100, 1e-3)),
        "moments": lambda: GroupLassoPath(field.feature_groups).fit_moments(moments),
        "data": lambda: model.fit(X, y),
    }
    times = in_turns(works, rounds)
    path = lasso_path(*problem, (100, 1e-3))
    return {
        "X'X seconds": float(np.median(times["XtX"])),
        "100 λ from moments, seconds": float(np.median(times["path"])),
        "100 λ from moments / X'X": float(np.median(times["path"] / times["XtX"])),
        "estimator from moments / X'X": float(np.median(times["moments"] / times["XtX"])),
        "estimator from data / X'X": float(np.median(times["data"] / times["XtX"])),
        "optimality conditions violated by": violation(gram.C, gram.b[:, 0], path.coefs[:, 0], path.lambdas),
        "largest duality gap / R(∅)": float(path.gaps.max() / (gram.target_variance.sum() / 2)),
        "groups in the last solution": int(np.sum(path.entries < 100)),
        "load average of the machine": os.getloadavg()[0],
    }


def celer_path(A: np.ndarray, t: np.ndarray, lambdas: np.ndarray, tol: float) -> np.ndarray:
    from celer import GroupLasso

    groups = [list(map(int, g)) for g in np.split(np.arange(A.shape[1]), np.cumsum(sizes)[:-1])]
    model = GroupLasso(groups, weights=costs, fit_intercept=False, tol=tol, warm_start=True)
    return np.array([model.set_params(alpha=value).fit(A, t).coef_.copy() for value in lambdas])


def skglm_path(A: np.ndarray, t: np.ndarray, lambdas: np.ndarray, tol: float) -> np.ndarray:
    from skglm.datafits import QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD
    from skglm.utils.data import grp_converter
    from skglm.utils.jit_compilation import compiled_clone

    indices, pointers = grp_converter(list(map(int, sizes)), A.shape[1])
    datafit = compiled_clone(QuadraticGroup(pointers, indices))
    datafit.initialize(A, t)
    solver, found, w = GroupBCD(tol=tol), [], np.zeros(A.shape[1])
    for value in lambdas:
        penalty = compiled_clone(WeightedGroupL2(value, costs, pointers, indices))
        w = solver.solve(A, t, datafit, penalty, w_init=w, Xw_init=A @ w)[0]
        found.append(w.copy())
    return np.array(found)


def peer_case(peer: Callable[..., np.ndarray], tolerances: list[float]) -> Measurements:
    warnings.simplefilter("ignore")
    gram = Gram.of(Moments.of(X, y), order, 0.0)
    problem = gram, sizes, costs
    lambdas = lasso_path(*problem, (100, 1e-3)).lambdas[1:FEW]
    A = np.asfortranarray(((X - X.mean(axis=0)) / X.std(axis=0))[:, order])
    t = y - y.mean()
    peer(A[:1000], t[:1000], lambdas[:1], 1e-2)  # compile
    for tol in tolerances:
        found: list[np.ndarray] = []
        theirs = seconds(lambda tol=tol, found=found: found.append(peer(A, t, lambdas, tol)))
        reached = violation(gram.C, gram.b[:, 0], found[0], lambdas)
        if reached <= PRECISION:
            break
    ours = float(np.median([seconds(lambda: lasso_path(*problem, lambdas)) for _ in range(5)]))
    apart = np.abs(found[0] - lasso_path(*problem, lambdas).coefs[:, 0]).max()
    return {
        "seconds, standardised data given": theirs,
        "ours from moments, seconds": ours,
        "ours with the moments, seconds": ours + seconds(lambda: Moments.of(X, y)),
        "tol of the peer": tol,
        "optimality conditions violated by": reached,
        "largest difference of coefficients": float(apart),
    }


SHAPE = "100,000 × 328, 57 groups"
CASES: Cases = {
    "path": (
        f"{SHAPE}, 100 λ",
        path_case,
        {
            "100 λ from moments / X'X": 8,
            "estimator from data / X'X": 8,
            "optimality conditions violated by": 1e-8,
        },
    ),
    "celer": (f"celer, {SHAPE}, first {FEW - 1} λ", lambda: peer_case(celer_path, [1e-6, 1e-8, 1e-10, 1e-12]), {}),
    "skglm": (f"skglm, {SHAPE}, first {FEW - 1} λ", lambda: peer_case(skglm_path, [1e-5, 1e-6, 1e-7, 1e-8]), {}),
}


if __name__ == "__main__":
    main(CASES, "Speed of the group lasso path", __file__, __doc__)
