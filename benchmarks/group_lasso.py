"""Speed of the group lasso path, as ratios within one run: ``python benchmarks/group_lasso.py``.

The command line and the measurements work as in ``core.py``: each case runs in its own process, and times that are
compared are taken alternately. celer and skglm solve the same problem (standardised data, no ridge) for the first few λ
of the same grid, with warm starts. They use the loosest of several tolerances at which they violate the optimality
conditions by at most ``PRECISION`` of λ·cost, or the tightest if none suffices. budgetline solves for the same λ at its
own tolerance.

On wide data a path ends at the first λ with at least 100 groups. budgetline's time includes standardising the columns
and fitting the least-squares models of the first 100 prefixes. celer is given standardised columns and uses its own
tolerance. A peer that is not installed (``make peers``) gets a line in the table.
"""

from __future__ import annotations

import os
import resource
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from compare_peers import agricultural, drawn
from core import Cases, Measurements, in_turns, main, seconds
from peers import celer, skglm
from peers.problem import Problem, groups_in, lambda_grid, squared_violation, standardised
from peers.problem import lasso_path as peer_path

from budgetline import GroupLassoPath, Moments
from budgetline.baselines.lasso_path import lasso_path
from budgetline.leastsquares.gram import Gram

PRECISION = 1e-4
FEW = 25
"""How many of the 100 λ the peers compute: from the largest λ down to 0.18 of it."""


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
        "budgetline from moments, seconds": ours,
        "budgetline with the moments, seconds": ours + seconds(lambda: Moments.from_data(problem.X, problem.y)),
        "tol of the peer": tol,
        "optimality conditions violated by": reached,
        "largest difference of coefficients": float(apart),
    }


def correlated(rows: int, D: int, most: int) -> Problem:
    """As ``drawn``, with a factor that all columns share and groups of unequal size."""
    problem, rng = drawn(rows, D, most), np.random.default_rng(1)
    sizes = np.tile([1, 9, 3, 7], D // 20)
    return Problem(problem.X + rng.standard_normal((rows, 1)), problem.y, sizes, rng.uniform(0.5, 2, sizes.size), most)


def wide_case(make: Callable[[int, int, int], Problem], rounds: int = 3) -> Measurements:
    warnings.simplefilter("ignore")
    problem = make(2_000, 20_000, 100)
    model = GroupLassoPath(problem.groups, problem.costs, alpha=0.0, max_groups=100)
    found: Measurements = {"seconds": seconds(lambda: model.fit(problem.X, problem.y))}
    found["peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    A, t = standardised(problem)
    coefs = model.path_coef_ * problem.X.std(axis=0)
    found["optimality conditions violated by"] = squared_violation(problem, (A, t), model.lambdas_, coefs)
    found |= {"λ": len(model.lambdas_), "groups in the last solution": groups_in(problem, coefs[-1])}
    if find_spec("celer") is None:
        return found | {"celer is not installed": 1}
    few = problem.head(200)
    celer.solver(few, *standardised(few))(1.0)  # compile
    theirs, grid = list[np.ndarray](), lambda_grid(A, t, problem)
    works = {
        "ours": lambda: model.fit(problem.X, problem.y),
        "celer": lambda: theirs.append(peer_path(problem, grid, celer.solver(problem, A, t), lambda **_: None)),
    }
    times = in_turns(works, rounds)
    last = theirs[0]
    return found | {
        "celer, seconds, standardised data given": float(np.median(times["celer"])),
        "budgetline / celer": float(np.median(times["ours"] / times["celer"])),
        "celer: optimality conditions violated by": squared_violation(problem, (A, t), grid[: len(last)], last),
        "celer: λ": 1 + len(last),
        "celer: groups in the last solution": groups_in(problem, last[-1]),
        "load average of the machine": os.getloadavg()[0],
    }


SHAPE = "100,000 × 328, 57 groups"
WIDE = "2,000 × 20,000, to 100 groups"
BEFORE_CELER = {"peak memory, MB": 2048, "budgetline / celer": 1, "optimality conditions violated by": 1e-8}
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
    "wide": (f"{WIDE} of 5 columns", lambda: wide_case(drawn), BEFORE_CELER),
    "correlated": (f"{WIDE} of 1 to 9 columns with a common factor", lambda: wide_case(correlated), BEFORE_CELER),
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
