"""adelie: the group lasso by blocks of coordinates in C++, on rows, on a Gram matrix, and for logistic models.

It needs NumPy below 2, so it has an environment of its own (``make peers``). Its penalty has no ridge part here, and
its early exit is off; a logistic path tells where it would have been.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from peers.problem import (
    LASSO,
    N_LAMBDAS,
    THREADS,
    Answer,
    Data,
    Note,
    Peer,
    Problem,
    groups_in,
    lambda_grid,
    lambdas_of,
    lasso_answer,
    nothing,
    standardised,
    violation,
)  # fmt: skip

ENVIRONMENT = ".venv-adelie"
TOL = 1e-7
"""The package's own, of its descent along blocks and of its reweighting for logistic models."""
MIN_RATIO = 1e-2
"""The package's own end of a path, as a fraction of the largest λ; squared error has the grid of all peers."""
EARLY_EXIT = 0.9
"""The package's own share of the deviance at which it would stop."""

Gram = tuple[np.ndarray, np.ndarray]
"""X'X/n and X'y/n of standardised data."""


def settings(problem: Problem, of: int, tol: float, note: Note, seconds: list[float]) -> dict[str, Any]:
    """Return what all forms share; the time after each of ``of`` values of λ is appended to ``seconds``."""
    start = time.perf_counter()

    def enough(state: Any) -> bool:
        seconds.append(time.perf_counter() - start)
        note(models=len(seconds), of=of, groups=int(state.active_set_size))
        return problem.most is not None and state.active_set_size >= problem.most

    return {
        "groups": np.cumsum(problem.sizes) - problem.sizes, "alpha": 1.0, "tol": tol, "early_exit": False,
        "n_threads": THREADS, "progress_bar": False, "exit_cond": enough,
    }  # fmt: skip


# -- squared error ---------------------------------------------------------------------------------------------


def from_rows(problem: Problem, data: Data, note: Note, tol: float = TOL) -> Answer:
    adelie, lambdas = importlib.import_module("adelie"), lambda_grid(*data, problem)
    state = adelie.grpnet(
        data[0], adelie.glm.gaussian(data[1]), lmda_path=lambdas, penalty=problem.costs, intercept=False,
        **settings(problem, lambdas.size, tol, note, []),
    )  # fmt: skip
    return lasso_answer(problem, data, np.asarray(state.lmdas), state.betas.toarray())


def gram_of(data: Data) -> Gram:
    A, t = data
    return A.T @ A / len(t), A.T @ t / len(t)


def gram_path(problem: Problem, gram: Gram, note: Note, tol: float = TOL) -> tuple[np.ndarray, np.ndarray]:
    """Return λ and the solutions, shape (L, D)."""
    C, b = gram
    lambdas = lambdas_of(b, problem)
    # The transpose of a symmetric matrix in C order is the Fortran order that it wants.
    state = importlib.import_module("adelie").gaussian_cov(
        C.T, b, lmda_path=lambdas, penalty=problem.costs, **settings(problem, lambdas.size, tol, note, [])
    )
    return np.asarray(state.lmdas), state.betas.toarray()


def with_gram(problem: Problem) -> tuple[Data, Gram]:
    data = standardised(problem)
    return data, gram_of(data)


def from_gram(problem: Problem, given: tuple[Data, Gram], note: Note, tol: float = TOL) -> Answer:
    return lasso_answer(problem, given[0], *gram_path(problem, given[1], note, tol))


def making_gram(problem: Problem, data: Data, note: Note, tol: float = TOL) -> Answer:
    return from_gram(problem, (data, gram_of(data)), note, tol)


def raw_gram(problem: Problem) -> Gram:
    """Return the moments of standardised data from those of the raw table: fast, digits lost where means are large."""
    X, n = problem.X, len(problem.y)
    mean = X.mean(axis=0)
    C = X.T @ X / n - np.outer(mean, mean)
    scale = np.sqrt(C.diagonal().clip(np.finfo(float).tiny))
    return C / scale / scale[:, None], X.T @ (problem.y - problem.y.mean()) / n / scale


def from_table(problem: Problem, _: None, note: Note, tol: float = TOL) -> Answer:
    lambdas, coefs = gram_path(problem, raw_gram(problem), note, tol)

    def later() -> Answer:
        """Return the checks' own view of the solutions; the data are standardised after the clock has stopped."""
        return lasso_answer(problem, standardised(problem), lambdas, coefs)

    size = groups_in(problem, coefs[-1]), int(np.count_nonzero(coefs[-1]))
    return Answer(len(coefs), *size, lambda: later().fitted(), lambda: later().checks())


# -- logistic --------------------------------------------------------------------------------------------------


def logistic(problem: Problem, data: Data, note: Note, tol: float = TOL) -> Answer:
    """Solve for 100 λ of the package's own grid, with its own weights of groups, the square roots of their sizes."""
    adelie, A, y = importlib.import_module("adelie"), data[0], problem.y
    seconds: list[float] = []
    weights = np.sqrt(problem.sizes)
    state = adelie.grpnet(
        A, adelie.glm.binomial(y), penalty=weights, irls_tol=tol, lmda_path_size=N_LAMBDAS, min_ratio=MIN_RATIO,
        **settings(problem, N_LAMBDAS, tol, note, seconds),
    )  # fmt: skip
    coefs, intercepts = state.betas.toarray(), np.asarray(state.intercepts)
    w = coefs[-1]

    def checks() -> dict[str, Any]:
        left = y - probabilities(coefs @ A.T + intercepts[:, None])
        lambdas = np.asarray(state.lmdas)
        worst = violation(problem, weights, lambdas, coefs, left @ A / len(y))
        level = float((np.abs(left.mean(axis=1)) / lambdas).max() / weights.min())
        return {"violation": max(worst, level)} | early_exit(np.asarray(state.devs), seconds)

    size = groups_in(problem, w), int(np.count_nonzero(w))
    return Answer(len(coefs), *size, lambda: probabilities(A @ w + intercepts[-1]), checks)


def probabilities(scores: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 + 0.5 * np.tanh(scores / 2))


def early_exit(explained: np.ndarray, seconds: list[float]) -> dict[str, Any]:
    """Say after how many λ and seconds the package would have stopped by itself, if it would."""
    enough = np.flatnonzero(explained >= EARLY_EXIT)
    return {"exit_models": int(enough[0]) + 1, "exit_seconds": seconds[enough[0]]} if enough.size else {}


def peer(
    form: str, path: str, computes: str, prepare: Callable[[Problem], Any],
    run: Callable[[Problem, Any, Note], Answer], loss: str = "squared", tall: bool = False,
) -> Peer:  # fmt: skip
    return Peer(f"adelie, {form}", "adelie", path, computes, prepare, run, True, loss, tall, ENVIRONMENT)


PEERS = {
    "adelie": peer("`grpnet`", "groups", LASSO + "1e-7", standardised, from_rows),
    "adelie, Gram": peer(
        "`gaussian_cov`, X'X counted", "groups", "the same; X'X made by NumPy", standardised, making_gram, tall=True
    ),
    "adelie, Gram of the raw table": peer(
        "`gaussian_cov`, X'X of the raw table counted", "groups",
        "the same; X'X of raw columns made by NumPy, centred and scaled after that", nothing, from_table, tall=True,
    ),
    "adelie, Gram given": peer(
        "`gaussian_cov`, X'X given", "groups, X'X given", "the same; X'X not counted", with_gram, from_gram, tall=True
    ),
    "adelie, logistic": peer(
        "`grpnet` with `glm.binomial`", "groups", "logistic group lasso, weights √size, tol 1e-7", standardised,
        logistic, "logistic",
    ),
}  # fmt: skip
