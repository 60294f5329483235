"""celer: the group lasso by working sets, from one λ to the next."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from peers.problem import Problem, lasso_peers


def solver(problem: Problem, A: np.ndarray, t: np.ndarray, tol: float = 1e-4) -> Callable[[float], np.ndarray]:
    """Return a function of λ that starts from its last solution; the tolerance is the package's own."""
    GroupLasso = importlib.import_module("celer").GroupLasso
    model = GroupLasso(problem.groups, weights=problem.costs, fit_intercept=False, tol=tol, warm_start=True)
    return lambda value: np.asarray(model.set_params(alpha=float(value)).fit(A, t).coef_)


PEERS = lasso_peers(
    "celer", "celer, `GroupLasso`", "celer", "group lasso weighted by cost, tol 1e-4", solver, compiles=True
)
