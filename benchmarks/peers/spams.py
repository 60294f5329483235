"""SPAMS, the paper's baseline: the group lasso by FISTA, and orthogonal matching pursuit of single columns.

Its ``somp`` shares columns among groups of *targets*; it has no pursuit of groups of columns. Its group penalty has no
weights: columns divided by the cost of their group give the weighted problem exactly.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from peers.problem import LASSO, THREADS, Answer, Data, Note, Peer, Problem, groups_in, lasso_peers, standardised


def solver(problem: Problem, A: np.ndarray, t: np.ndarray, tol: float = 1e-6) -> Callable[[float], np.ndarray]:
    """Return a function of λ that starts from its last solution; the tolerance is the package's own."""
    fista = importlib.import_module("spams").fistaFlat
    scale = 1 / np.repeat(problem.costs, problem.sizes)
    X, Y = np.asfortranarray(A * scale), np.asfortranarray(t[:, None])
    last = np.zeros((A.shape[1], 1), order="F")
    labels = np.asarray(problem.labels + 1, dtype=np.int32)

    def step(value: float) -> np.ndarray:
        found = fista(
            Y, X, last, loss="square", regul="group-lasso-l2", lambda1=float(value) * len(t), groups=labels,
            compute_gram=X.shape[0] >= X.shape[1], tol=tol, numThreads=THREADS,
        )  # fmt: skip
        last[:] = found
        return np.asarray(found)[:, 0] * scale

    return step


def omp(problem: Problem, data: Data, note: Note) -> Answer:
    A, t = data
    scale = np.linalg.norm(A, axis=0)  # it wants columns of length one
    unit = np.asfortranarray(A / np.where(scale > 0, scale, 1.0))
    target = np.asfortranarray(t[:, None])
    found, _ = importlib.import_module("spams").omp(
        target, unit, L=problem.most_columns, eps=0.0, return_reg_path=True, numThreads=THREADS
    )
    w, mean = found.toarray()[:, 0] / np.where(scale > 0, scale, 1.0), problem.y.mean()
    return Answer(int(np.count_nonzero(w)), groups_in(problem, w), int(np.count_nonzero(w)), lambda: A @ w + mean)


PEERS = lasso_peers(
    "SPAMS",
    "SPAMS, `fistaFlat` group-lasso-l2",
    "spams",
    LASSO + "1e-6",
    solver,
    compiles=False,
) | {"SPAMS OMP": Peer("SPAMS, `omp`", "spams", "columns", "single columns, a model per column", standardised, omp)}
