"""celer: the group lasso by working sets, from one λ to the next."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable

import numpy as np

from peers.problem import Answer, Note, Peer, Problem, lasso_answer, lasso_path, standardised, triangle

Data = tuple[np.ndarray, np.ndarray]


def solver(problem: Problem, A: np.ndarray, t: np.ndarray, tol: float = 1e-4) -> Callable[[float], np.ndarray]:
    """Return a function of λ that starts from its last solution; the tolerance is the package's own."""
    GroupLasso = importlib.import_module("celer").GroupLasso
    model = GroupLasso(problem.groups, weights=problem.costs, fit_intercept=False, tol=tol, warm_start=True)
    return lambda value: np.asarray(model.set_params(alpha=float(value)).fit(A, t).coef_)


def solve(problem: Problem, A: np.ndarray, t: np.ndarray, note: Note) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where a tolerance is not reached: the path goes on
        return lasso_path(problem, A, t, solver(problem, A, t), note)


def from_rows(problem: Problem, data: Data, note: Note) -> Answer:
    return lasso_answer(problem, data[0], solve(problem, *data, note))


def from_triangle(problem: Problem, data: Data, note: Note) -> Answer:
    return lasso_answer(problem, data[0], solve(problem, *triangle(*data), note))


PEERS = {
    "celer": Peer(
        "celer, `GroupLasso`", "celer", "groups", "group lasso weighted by cost, tol 1e-4",
        standardised, from_rows, True,
    ),
    "celer, triangle": Peer(
        "celer on the triangle of X", "celer", "groups", "the same; X'X = R'R made by us, celer works on R",
        standardised, from_triangle, True,
    ),
}  # fmt: skip
