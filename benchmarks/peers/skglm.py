"""skglm: the group lasso by block coordinate descent, from one λ to the next."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from peers.problem import Problem, lasso_peers


def solver(problem: Problem, A: np.ndarray, t: np.ndarray, tol: float = 1e-4) -> Callable[[float], np.ndarray]:
    """Return a function of λ that starts from its last solution; the tolerance is the package's own."""
    load = importlib.import_module
    indices, pointers = load("skglm.utils.data").grp_converter(list(map(int, problem.sizes)), A.shape[1])
    fit = load("skglm.datafits").QuadraticGroup(pointers, indices)
    penalty, engine = load("skglm.penalties").WeightedGroupL2, load("skglm.solvers").GroupBCD(tol=tol)
    last = np.zeros(A.shape[1])

    def step(value: float) -> np.ndarray:
        chosen = penalty(float(value), problem.costs, pointers, indices)
        last[:] = engine.solve(A, t, fit, chosen, w_init=last.copy(), Xw_init=A @ last)[0]
        return last

    return step


PEERS = lasso_peers(
    "skglm", "skglm, `GroupBCD`", "skglm", "group lasso weighted by cost, tol 1e-4", solver, compiles=True
)
