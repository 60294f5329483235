"""What every adapter is given and gives back, and the forms in which peers want the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ALPHA = 1e-5
"""The ridge constant of everyone who takes one, in our units: Ridge would call it n·ALPHA."""
N_LAMBDAS, LAMBDA_RATIO = 100, 1e-3
THREADS = 2
LASSO = "group lasso weighted by cost, tol "

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
        """The first rows only, to let a peer compile what it compiles."""
        return Problem(self.X[:rows], self.y[:rows], self.sizes, self.costs, 1)


@dataclass(frozen=True)
class Answer:
    """What a peer found: how many models, and the last one's size and fitted values."""

    models: int
    groups: int
    columns: int
    fitted: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """An adapter.

    ``computes`` says what, in words; ``path`` is "groups" for a path over groups, "columns" for one over single
    columns, "one model", or "ours". ``prepare`` brings the data into the form that the peer wants; it is not counted.
    ``compiles`` tells that a first run on few rows, not counted either, is needed.
    """

    title: str
    package: str
    path: str
    computes: str
    prepare: Callable[[Problem], Any]
    run: Callable[[Problem, Any, Note], Answer]
    compiles: bool = False


def nothing(_: Problem) -> None:
    """Prepare nothing: the peer takes the data as they are."""


def standardised(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised columns in Fortran order, constant ones zero, and the centred target."""
    A = np.array(problem.X, dtype=float, order="F")
    A -= A.mean(axis=0)
    scale = A.std(axis=0)
    A /= np.where(scale > 0, scale, 1.0)
    return A, problem.y - problem.y.mean()


def triangle(A: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    b = A.T @ t / len(t)
    norms = np.sqrt(np.add.reduceat(b**2, np.cumsum(problem.sizes) - problem.sizes))
    top = (norms / problem.costs).max()
    return np.asarray(top * np.geomspace(1, LAMBDA_RATIO, N_LAMBDAS)[1:])


def lasso_answer(problem: Problem, A: np.ndarray, path: list[np.ndarray]) -> Answer:
    """Return the answer of a group lasso whose solutions (D,), on standardised columns A, are ``path``."""
    w = path[-1]
    mean = problem.y.mean()
    return Answer(len(path), groups_in(problem, w), int(np.count_nonzero(w)), lambda: A @ w + mean)


def groups_in(problem: Problem, w: np.ndarray) -> int:
    return int(np.unique(problem.labels[np.flatnonzero(w)]).size)


def lasso_path(
    problem: Problem, A: np.ndarray, t: np.ndarray, step: Callable[[float], np.ndarray], note: Note
) -> list[np.ndarray]:
    """Solve for one λ after another, with ``step``, until the path ends or the most groups are in."""
    path: list[np.ndarray] = []
    for value in lambda_grid(A, t, problem):
        path.append(step(value).copy())
        count = groups_in(problem, path[-1])
        note(models=len(path), of=N_LAMBDAS - 1, groups=count)
        if problem.most and count >= problem.most:
            break
    return path


Solver = Callable[[Problem, np.ndarray, np.ndarray], Callable[[float], np.ndarray]]


def lasso_peers(key: str, title: str, package: str, computes: str, solver: Solver, compiles: bool) -> dict[str, Peer]:
    """Return the two adapters of a group lasso: on the rows as they are, and on their triangle."""

    def solve(problem: Problem, rows: np.ndarray, A: np.ndarray, t: np.ndarray, note: Note) -> Answer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they warn where a tolerance is not reached: the path goes on
            return lasso_answer(problem, rows, lasso_path(problem, A, t, solver(problem, A, t), note))

    def from_rows(problem: Problem, data: tuple[np.ndarray, np.ndarray], note: Note) -> Answer:
        return solve(problem, data[0], *data, note)

    def from_triangle(problem: Problem, data: tuple[np.ndarray, np.ndarray], note: Note) -> Answer:
        return solve(problem, data[0], *triangle(*data), note)

    again = f"the same; X'X = R'R made by us, {key} works on R"
    return {
        key: Peer(title, package, "groups", computes, standardised, from_rows, compiles),
        f"{key}, triangle": Peer(
            f"{key} on the triangle of X", package, "groups", again, standardised, from_triangle, compiles
        ),
    }
