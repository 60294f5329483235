"""Twelve digits: small generalised linear models against Newton's method in 40-digit arithmetic."""

import numpy as np
import pytest
from engines import ENGINES, fit_with

from budgetline import AnytimeClassifier, AnytimeRegressor

mp = pytest.importorskip("mpmath")


def problem(family, seed, n=20, D=3):
    """Data of few binary digits, so that both computations start from exactly the same numbers."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-64, 64, (n, D)) / 16.0 + [0, 5, -3]
    signal = (X - X.mean(axis=0)) @ [0.4, -0.3, 0.2]
    if family == "poisson":
        return X, rng.poisson(np.exp(0.5 + signal)).astype(float)
    if family == "logistic":
        y = (signal + rng.logistic(size=n) > 0).astype(int)
        y[:2] = 0, 1
    else:
        y = (np.column_stack([signal, -signal, np.zeros(n)]) + rng.gumbel(size=(n, 3))).argmax(axis=1)
        y[:3] = 0, 1, 2
    return X, y


def moments(family, eta):
    """Return ∇φ (P) and ∇²φ (P, P) of scores (P): softmax without its last class, whose score is zero."""
    if family == "poisson":
        return [mp.exp(eta[0])], [[mp.exp(eta[0])]]
    e = [mp.exp(v) for v in eta]
    total = 1 + sum(e)
    p = [v / total for v in e]
    return p, [[(p[a] if a == b else 0) - p[a] * p[b] for b in range(len(p))] for a in range(len(p))]


def solve(family, X, y, alpha):
    """Return intercepts and coefficients (1 + D, P) in the user's units, in 40 digits.

    Softmax has P − 1 free scores u here, against the last class. The ridge is of the centred W = u − mean(u, 0), which
    is ‖u‖² − (Σ u)²/P per column; so the Hessian of the penalty is alpha (I − 11'/P).
    """
    n, D = X.shape
    classes = 3 if family == "softmax" else 2
    Q = classes - 1 if family == "softmax" else 1
    columns = [[mp.mpf(float(v)) for v in X[:, d]] for d in range(D)]
    means = [sum(c) / n for c in columns]
    scales = [mp.sqrt(sum((v - m) ** 2 for v in c) / n) for c, m in zip(columns, means, strict=True)]
    Z = [[mp.mpf(1)] + [(columns[d][i] - means[d]) / scales[d] for d in range(D)] for i in range(n)]
    Y = [[mp.mpf(int(y[i] == q)) for q in range(Q)] if family == "softmax" else [mp.mpf(float(y[i]))] for i in range(n)]
    shared = mp.mpf(1) / classes if family == "softmax" else 0
    spread = [[int(a == b) - shared for b in range(Q)] for a in range(Q)]
    ridge = mp.mpf(float(alpha))
    K = (1 + D) * Q
    theta = mp.zeros(K, 1)
    for _ in range(100):
        gradient, H = mp.zeros(K, 1), mp.zeros(K, K)
        for z, target in zip(Z, Y, strict=True):
            eta = [sum(z[k] * theta[k * Q + q] for k in range(1 + D)) for q in range(Q)]
            mean, curvature = moments(family, eta)
            for a in range(K):
                gradient[a] += z[a // Q] * (mean[a % Q] - target[a % Q]) / n
                for b in range(K):
                    H[a, b] += z[a // Q] * z[b // Q] * curvature[a % Q][b % Q] / n
        for k in range(1, 1 + D):
            for a in range(Q):
                for b in range(Q):
                    gradient[k * Q + a] += ridge * spread[a][b] * theta[k * Q + b]
                    H[k * Q + a, k * Q + b] += ridge * spread[a][b]
        step = mp.lu_solve(H, -gradient)
        size = max(abs(s) for s in step)
        length = min(mp.mpf(1), 1 / size)  # far from the optimum, short steps
        theta += length * step
        if size < mp.mpf(10) ** -35:
            break
    else:
        raise AssertionError("no convergence in 40 digits")
    rows = [[theta[k * Q + q] for q in range(Q)] for k in range(1 + D)]
    if family == "softmax":  # centred scores of all classes
        rows = [[*row, mp.mpf(0)] for row in rows]
        rows = [[v - sum(row) / classes for v in row] for row in rows]
    coef = [[v / scales[d] for v in rows[1 + d]] for d in range(D)]
    intercept = [v - sum(coef[d][p] * means[d] for d in range(D)) for p, v in enumerate(rows[0])]
    return np.array([[float(v) for v in row] for row in [intercept, *coef]])


def correct_digits(found, truth):
    """Of the largest entry: a coefficient near zero has no digits of its own."""
    return -np.log10(np.abs(found - truth).max() / np.abs(truth).max() + 1e-17)


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize(("tol", "digits"), [(1e-14, 12), (1e-10, 12)], ids=["tight", "default"])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
@pytest.mark.parametrize("family", ["logistic", "softmax", "poisson"])
def test_digits(family, alpha, seed, tol, digits):
    """The last step of a stage is one more than the tolerance asks for, so the default gives all digits too."""
    with mp.workdps(40):
        X, y = problem(family, seed)
        groups = [[0, 2], [1]]
        truth = {chosen: solve(family, X[:, chosen], y, alpha) for chosen in ((0, 2), (1,), (0, 1, 2))}
        for engine in ENGINES:
            settings = {"rule": "score", "alpha": alpha, "tol": tol}
            if family == "poisson":
                model = fit_with(engine, AnytimeRegressor(groups, loss="poisson", **settings), X, y)
            else:
                model = fit_with(engine, AnytimeClassifier(groups, **settings), X, y)
            for stage, chosen in enumerate([tuple(groups[model.order_[0]]), (0, 1, 2)]):
                coef = np.atleast_2d(model.coef_path_[stage])[:, chosen]
                found = np.vstack([np.atleast_1d(model.intercept_path_[stage]), coef.T])
                assert correct_digits(found, truth[chosen]) >= digits, engine
