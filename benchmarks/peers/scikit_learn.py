"""scikit-learn: orthogonal matching pursuit and LARS on the Gram matrix (single columns), and one ridge model."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge, lars_path, lars_path_gram, orthogonal_mp, orthogonal_mp_gram

from peers.problem import ALPHA, LOGISTIC_ALPHA, Answer, Data, Note, Peer, Problem, groups_in, standardised


def omp_path(A: np.ndarray, t: np.ndarray, most: int) -> np.ndarray:
    """Return the coefficients after each column, shape (D, steps); from the Gram matrix unless X is wide."""
    if A.shape[1] > A.shape[0]:
        return np.asarray(orthogonal_mp(A, t, n_nonzero_coefs=most, return_path=True)).reshape(A.shape[1], -1)
    path = orthogonal_mp_gram(A.T @ A, A.T @ t, n_nonzero_coefs=most, return_path=True)
    return np.asarray(path).reshape(A.shape[1], -1)


def lars_steps(A: np.ndarray, t: np.ndarray, most: int, ridge: float = 0.0) -> np.ndarray:
    """Return the lasso's coefficients at every knot of its path, shape (D, knots).

    On columns that depend on each other the path breaks off early; a ridge constant on the Gram matrix lets it go on.
    """
    if A.shape[1] > A.shape[0]:
        return np.asarray(lars_path(A, t, method="lasso", max_iter=most)[2])
    # Columns drop out of the path and come back: more steps than columns.
    steps = 10 * most if most == A.shape[1] else most
    gram = A.T @ A
    gram[np.diag_indices_from(gram)] += ridge * len(t)
    return np.asarray(lars_path_gram(A.T @ t, gram, n_samples=len(t), method="lasso", max_iter=steps)[2])


def entry_order(path: np.ndarray) -> list[int]:
    """Return the columns in the order in which they are first not zero along a path (D, steps)."""
    entered = (path != 0).argmax(axis=1) + np.where((path != 0).any(axis=1), 0, path.shape[1])
    return [int(d) for d in np.argsort(entered, kind="stable") if entered[d] < path.shape[1]]


def column_answer(problem: Problem, A: np.ndarray, path: np.ndarray) -> Answer:
    w, mean = path[:, -1], problem.y.mean()
    return Answer(path.shape[1], groups_in(problem, w), int(np.count_nonzero(w)), lambda: A @ w + mean)


def omp(problem: Problem, data: Data, note: Note) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it says when columns are dependent, and stops there
        return column_answer(problem, data[0], omp_path(*data, problem.most_columns))


def lars(problem: Problem, data: Data, note: Note) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return column_answer(problem, data[0], lars_steps(*data, problem.most_columns))


def ridge(problem: Problem, data: Data, note: Note) -> Answer:
    model = Ridge(alpha=ALPHA * len(data[1]), fit_intercept=False, solver="cholesky").fit(*data)
    mean = problem.y.mean()
    return Answer(1, problem.sizes.size, data[0].shape[1], lambda: data[0] @ model.coef_ + mean)


def logistic(problem: Problem, data: Data, note: Note) -> Answer:
    A, y = data[0], problem.y.astype(int)
    model = LogisticRegression(C=1 / (LOGISTIC_ALPHA * len(y)), solver="newton-cholesky").fit(A, y)
    return Answer(1, problem.sizes.size, A.shape[1], lambda: model.predict_proba(A)[:, 1])


PEERS = {
    "sklearn OMP": Peer(
        "scikit-learn, `orthogonal_mp_gram`", "sklearn", "columns", "single columns, a model per column",
        standardised, omp,
    ),
    "sklearn LARS": Peer(
        "scikit-learn, `lars_path_gram`", "sklearn", "columns", "the lasso path of single columns",
        standardised, lars,
    ),
    "sklearn Ridge": Peer("scikit-learn, `Ridge`", "sklearn", "one model", "all columns", standardised, ridge),
    "sklearn logistic": Peer(
        "scikit-learn, `LogisticRegression`", "sklearn", "one model", "all columns, newton-cholesky, tol 1e-4",
        standardised, logistic, loss="logistic", tall=True,
    ),
}  # fmt: skip
