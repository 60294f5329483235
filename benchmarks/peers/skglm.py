"""skglm: the group lasso by block coordinate descent, from one λ to the next."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable

import numpy as np

from peers.problem import Answer, Note, Peer, Problem, lasso_answer, lasso_path, standardised, triangle

Data = tuple[np.ndarray, np.ndarray]


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


def solve(problem: Problem, A: np.ndarray, t: np.ndarray, note: Note) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where a tolerance is not reached: the path goes on
        return lasso_path(problem, A, t, solver(problem, A, t), note)


def from_rows(problem: Problem, data: Data, note: Note) -> Answer:
    return lasso_answer(problem, data[0], solve(problem, *data, note))


def from_triangle(problem: Problem, data: Data, note: Note) -> Answer:
    return lasso_answer(problem, data[0], solve(problem, *triangle(*data), note))


PEERS = {
    "skglm": Peer(
        "skglm, `GroupBCD`", "skglm", "groups", "group lasso weighted by cost, tol 1e-4",
        standardised, from_rows, True,
    ),
    "skglm, triangle": Peer(
        "skglm on the triangle of X", "skglm", "groups", "the same; X'X = R'R made by us, skglm works on R",
        standardised, from_triangle, True,
    ),
}  # fmt: skip
