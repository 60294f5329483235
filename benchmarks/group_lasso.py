"""Speed of the group lasso path, as ratios within one run: ``python benchmarks/group_lasso.py``.

Command line and way of measuring as in ``core.py``: each case in a process of its own, times that are compared taken in
turns. celer and skglm solve the same problem (standardised data, no ridge) on the first few λ of the same grid, each
from its solution before, at the loosest tolerance of a ladder at which they violate the optimality conditions by no
more than ``PRECISION`` of λ·cost, or at the tightest if none does. Ours is for the same λ, at its own tolerance.

A peer that is not installed (``pip install 'budgetline[peers]'``) is a line of the table.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from compare_peers import agricultural
from core import Cases, Measurements, in_turns, main, seconds
from peers import celer, skglm
from peers.problem import squared_violation, standardised

from budgetline import GroupLassoPath, Moments
from budgetline.baselines.lasso_path import lasso_path
from budgetline.leastsquares.gram import Gram

PRECISION = 1e-4
FEW = 25
"""How many of the 100 λ the peers get: from the largest down to 0.18 of it."""


def path_case(rounds: int = 7) -> Measurements:
    problem = agricultural()
    X, y, moments = problem.X, problem.y, Moments.from_data(problem.X, problem.y)
    model = GroupLassoPath(problem.groups, problem.costs)
    given = Gram.of(moments, np.arange(X.shape[1]), model.alpha), problem.sizes, problem.costs
    works: dict[str, Callable[[], object]] = {
        "XtX": lambda: X.T @ X,
        "path": lambda: lasso_path(*given, (100, 1e-3)),
        "moments": lambda: GroupLassoPath(problem.groups, problem.costs).fit_moments(moments),
        "data": lambda: model.fit(X, y),
    }
    times = in_turns(works, rounds)
    path = lasso_path(*given, (100, 1e-3))
    return {
        "X'X seconds": float(np.median(times["XtX"])),
        "100 λ from moments, seconds": float(np.median(times["path"])),
        "100 λ from moments / X'X": float(np.median(times["path"] / times["XtX"])),
        "estimator from moments / X'X": float(np.median(times["moments"] / times["XtX"])),
        "estimator from data / X'X": float(np.median(times["data"] / times["XtX"])),
        "optimality conditions violated by": float(path.violations.max()),
        "largest duality gap / R(∅)": float(path.gaps.max() / given[0].null_value),
        "groups in the last solution": int(np.sum(path.entries < 100)),
        "load average of the machine": os.getloadavg()[0],
    }


def peer_case(package: str, solver: Callable[..., Callable[[float], np.ndarray]], ladder: list[float]) -> Measurements:
    """Compare with a peer at the tolerances of a ladder."""
    if find_spec(package) is None:
        return {f"{package} is not installed": 1}
    warnings.simplefilter("ignore")
    problem = agricultural()
    A, t = standardised(problem)
    given = Gram.of(Moments.from_data(problem.X, problem.y), np.arange(A.shape[1]), 0.0), problem.sizes, problem.costs
    lambdas = lasso_path(*given, (100, 1e-3)).lambdas[1:FEW]

    def coefs(tol: float, rows: int = len(t), number: int = FEW) -> np.ndarray:
        step = solver(problem, np.asfortranarray(A[:rows]), t[:rows], tol)
        return np.array([step(value).copy() for value in lambdas[:number]])

    coefs(1e-2, 1000, 1)  # compile
    for tol in ladder:
        found: list[np.ndarray] = []
        theirs = seconds(lambda tol=tol, found=found: found.append(coefs(tol)))
        reached = squared_violation(problem, (A, t), lambdas, found[0])
        if reached <= PRECISION:
            break
    grid = FEW, 1e-3 ** ((FEW - 1) / 99)  # the first few of 100
    ours = float(np.median([seconds(lambda: lasso_path(*given, grid)) for _ in range(5)]))
    apart = np.abs(found[0] - lasso_path(*given, grid).coefs[1:, 0]).max()
    return {
        "seconds, standardised data given": theirs,
        "ours from moments, seconds": ours,
        "ours with the moments, seconds": ours + seconds(lambda: Moments.from_data(problem.X, problem.y)),
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
    "celer": (
        f"celer, {SHAPE}, first {FEW - 1} λ",
        lambda: peer_case("celer", celer.solver, [1e-6, 1e-8, 1e-10, 1e-12]),
        {},
    ),
    "skglm": (
        f"skglm, {SHAPE}, first {FEW - 1} λ",
        lambda: peer_case("skglm", skglm.solver, [1e-5, 1e-6, 1e-7, 1e-8]),
        {},
    ),
}


if __name__ == "__main__":
    main(CASES, "Speed of the group lasso path", __file__, __doc__)
