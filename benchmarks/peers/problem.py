"""What every adapter is given and gives back, and the forms in which peers want the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ALPHA = 1e-5
"""The ridge constant of every peer that accepts one, in units of budgetline: n·ALPHA for Ridge."""
N_LAMBDAS, LAMBDA_RATIO = 100, 1e-3
LOGISTIC_ALPHA = 1e-4
"""The same for logistic models: LogisticRegression would call it 1/(n·C)."""
THREADS = 2
LASSO = "group lasso weighted by cost, tol "

Data = tuple[np.ndarray, np.ndarray]
"""Standardised columns in Fortran order and the centred target."""
Note = Callable[..., None]
"""Called now and then with how far a peer has come, so that one that is stopped leaves that behind."""


@dataclass(frozen=True)
class Problem:
    """Data whose groups are neighbouring columns, and after how many groups everyone may stop."""

    X: np.ndarray
    y: np.ndarray
    sizes: np.ndarray
    costs: np.ndarray
    most: int | None = None

    @property
    def groups(self) -> list[list[int]]:
        return [list(map(int, g)) for g in np.split(np.arange(self.sizes.sum()), np.cumsum(self.sizes)[:-1])]

    @property
    def labels(self) -> np.ndarray:
        """The group of every column."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @property
    def most_groups(self) -> int:
        return self.most or self.sizes.size

    @property
    def most_columns(self) -> int:
        """As many columns as the most groups have on average, and no more than the rows can tell apart."""
        share = self.most_groups / self.sizes.size
        return min(round(share * self.X.shape[1]), self.X.shape[0] - 1)

    def save(self, folder: Path) -> None:
        for name in ("X", "y", "sizes", "costs"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        np.save(folder / "most.npy", np.array(self.most or 0))

    @classmethod
    def load(cls, folder: Path) -> Problem:
        X, y, sizes, costs, most = (np.load(folder / f"{n}.npy") for n in ("X", "y", "sizes", "costs", "most"))
        return cls(X, y, sizes, costs, int(most) or None)

    def head(self, rows: int) -> Problem:
        """The first rows, and one of the largest y so that no class is missing, to let a peer compile."""
        few = np.append(np.arange(rows), self.y.argmax())
        return Problem(self.X[few], self.y[few], self.sizes, self.costs, 1)


@dataclass(frozen=True)
class Answer:
    """What a peer found: how many models, and the last one's size and fitted values (of classes: probabilities).

    ``checks`` returns what else to report; it is called when the clock has stopped.
    """

    models: int
    groups: int
    columns: int
    fitted: Callable[[], np.ndarray]
    checks: Callable[[], dict[str, Any]] = dict


@dataclass(frozen=True)
class Peer:
    """An adapter.

    ``computes`` says what, in words; ``path`` is "groups" for a path over groups, "groups, X'X given" for one that
    starts from the Gram matrix, "columns" for one over single columns, "one model", or "budgetline". ``prepare``
    brings the data into the form that the peer wants; it is not counted. ``compiles`` tells that a first run on few
    rows, not counted either, is needed. ``loss`` is "squared" or "logistic". ``tall`` tells that it forms a matrix of
    columns by columns, so that wide data are not for it. ``environment`` names the virtual environment of a peer that
    cannot share this one, a folder of the repository.
    """

    title: str
    package: str
    path: str
    computes: str
    prepare: Callable[[Problem], Any]
    run: Callable[[Problem, Any, Note], Answer]
    compiles: bool = False
    loss: str = "squared"
    tall: bool = False
    environment: str | None = None


def nothing(_: Problem) -> None:
    """Prepare nothing: the peer takes the data as they are."""


def standardised(problem: Problem) -> Data:
    """Return standardised columns in Fortran order, constant ones zero, and the centred target."""
    A = np.array(problem.X, dtype=float, order="F")
    A -= A.mean(axis=0)
    scale = A.std(axis=0)
    A /= np.where(scale > 0, scale, 1.0)
    return A, problem.y - problem.y.mean()


def explained(y: np.ndarray, fitted: np.ndarray, loss: str) -> float:
    """Return the share of the variance, or of the deviance of classes 0 and 1, that fitted values explain."""
    if loss == "squared":
        return float(1 - np.mean((y - fitted) ** 2) / y.var())
    likely, plain = (np.log(np.where(y == 1, p, 1 - p).clip(1e-300)).sum() for p in (fitted, y.mean()))
    return float(1 - likely / plain)


def triangle(A: np.ndarray, t: np.ndarray) -> Data:
    """Return as few rows as there are columns with the same moments, hence the same lasso problems (1/rows loss)."""
    n, D = A.shape
    gram = np.empty((D + 1, D + 1))
    gram[:D, :D] = A.T @ A
    gram[:D, D] = gram[D, :D] = A.T @ t
    gram[D, D] = t @ t
    gram /= n
    # As much as rounding takes: columns that repeat others would stop the factorisation.
    gram[np.diag_indices(D + 1)] += 1e-12 * np.diag(gram) + np.finfo(float).tiny
    R = np.linalg.cholesky(gram).T * np.sqrt(D + 1)
    return np.asfortranarray(R[:, :D]), np.ascontiguousarray(R[:, D])


def lambda_grid(A: np.ndarray, t: np.ndarray, problem: Problem) -> np.ndarray:
    """Return the λ of a group lasso path, from the largest that matters; the penalty is λ Σ cost ‖w_g‖."""
    return lambdas_of(A.T @ t / len(t), problem)


def lambdas_of(b: np.ndarray, problem: Problem) -> np.ndarray:
    """Return the same from the correlations X'y/n of standardised data."""
    norms = np.sqrt(np.add.reduceat(b**2, np.cumsum(problem.sizes) - problem.sizes))
    top = (norms / problem.costs).max()
    return np.asarray(top * np.geomspace(1, LAMBDA_RATIO, N_LAMBDAS)[1:])


def violation(
    problem: Problem, weights: np.ndarray, lambdas: np.ndarray, coefs: np.ndarray, gradients: np.ndarray
) -> float:
    """Return the largest error of the optimality conditions of a group lasso path, relative to λ·weight.

    The loss has the gradients -``gradients`` at ``coefs``, both (L, D). Those of a group that is in are λ weight w/‖w‖;
    those of one that is not are no longer than λ weight.
    """
    starts, allowed = np.cumsum(problem.sizes) - problem.sizes, lambdas[:, None] * weights
    norms = np.sqrt(np.add.reduceat(coefs**2, starts, axis=1))
    pull = (allowed / np.where(norms > 0, norms, 1.0))[:, problem.labels] * coefs
    left = np.sqrt(np.add.reduceat((gradients - pull) ** 2, starts, axis=1))
    return float((np.where(norms > 0, left, np.maximum(left - allowed, 0.0)) / allowed).max())


def squared_violation(problem: Problem, data: Data, lambdas: np.ndarray, coefs: np.ndarray) -> float:
    """Return the violation for squared error, weighted by cost, with standardised columns and centred target."""
    A, t = data
    return violation(problem, problem.costs, lambdas, coefs, (t - coefs @ A.T) @ A / len(t))


def lasso_answer(problem: Problem, data: Data, lambdas: np.ndarray, coefs: np.ndarray) -> Answer:
    """Return the answer of a group lasso whose solutions on standardised data are ``coefs``, shape (L, D)."""
    w, mean = coefs[-1], problem.y.mean()
    return Answer(
        len(coefs), groups_in(problem, w), int(np.count_nonzero(w)), lambda: data[0] @ w + mean,
        lambda: {"violation": squared_violation(problem, data, lambdas, coefs)},
    )  # fmt: skip


def groups_in(problem: Problem, w: np.ndarray) -> int:
    return int(np.unique(problem.labels[np.flatnonzero(w)]).size)


def lasso_path(problem: Problem, lambdas: np.ndarray, step: Callable[[float], np.ndarray], note: Note) -> np.ndarray:
    """Solve for one λ after another, with ``step``, until the path ends or the most groups are in; (L, D)."""
    path: list[np.ndarray] = []
    for value in lambdas:
        path.append(step(value).copy())
        count = groups_in(problem, path[-1])
        note(models=len(path), of=N_LAMBDAS - 1, groups=count)
        if problem.most and count >= problem.most:
            break
    return np.array(path)


Solver = Callable[[Problem, np.ndarray, np.ndarray], Callable[[float], np.ndarray]]


def lasso_peers(key: str, title: str, package: str, computes: str, solver: Solver, compiles: bool) -> dict[str, Peer]:
    """Return the two adapters of a group lasso: on the rows as they are, and on their triangle."""

    def solve(problem: Problem, data: Data, used: Data, note: Note) -> Answer:
        lambdas = lambda_grid(*used, problem)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they warn where a tolerance is not reached: the path goes on
            coefs = lasso_path(problem, lambdas, solver(problem, *used), note)
        return lasso_answer(problem, data, lambdas[: len(coefs)], coefs)

    def from_rows(problem: Problem, data: Data, note: Note) -> Answer:
        return solve(problem, data, data, note)

    def from_triangle(problem: Problem, data: Data, note: Note) -> Answer:
        return solve(problem, data, triangle(*data), note)

    again = f"the same; {key} works on R with X'X = R'R, which is computed first"
    return {
        key: Peer(title, package, "groups", computes, standardised, from_rows, compiles),
        f"{key}, triangle": Peer(
            f"{key} on the triangle of X", package, "groups", again, standardised, from_triangle, compiles, tall=True
        ),
    }
