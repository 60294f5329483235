"""Speed and memory of the generalised linear models, as ratios within one run: ``python benchmarks/glm.py``.

The command line and the measurements work as in ``core.py``: each case runs in its own process, and times that are
compared are taken alternately. scikit-learn is given standardised data and the loosest of several tolerances at which
its gradient, scaled as in budgetline, meets budgetline's tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from core import Cases, Measurements, in_turns, main, peak_rise_mb, seconds
from logistic_data import DATA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import SplineTransformer

from budgetline import AnytimeClassifier, AnytimeClassifierCV

ALPHA, TOL = 1e-4, 1e-10
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
MFEAT, SPAM = SHARED / "mfeat", SHARED / "field" / "spam.csv.gz"
MFEAT_SIZES = {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}

Data = tuple[np.ndarray, np.ndarray, dict[str, list[int]]]


def gradient_norm(X: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Largest entry of the gradient of mean log loss + alpha/2 ‖w‖² for standardised X and y in {0, 1}."""
    w = np.ravel(coef)
    residual = (1 / (1 + np.exp(-(X @ w + intercept))) - y) / len(y)
    return float(max(np.abs(X.T @ residual + ALPHA * w).max(), abs(residual.sum())))


def coefficient_error(X: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: float) -> float:
    """Largest entry, except the intercept's, of a Newton step of this model, from a gradient in extended precision."""
    Z, w = X.astype(np.longdouble), np.ravel(coef).astype(np.longdouble)
    p = 1 / (1 + np.exp(-(Z @ w + intercept)))
    residual = (p - y) / len(y)
    gradient = np.concatenate([[residual.sum()], Z.T @ residual + np.longdouble(ALPHA) * w]).astype(np.float64)
    A = np.column_stack([np.ones(len(y)), X])
    H = (A.T * (p * (1 - p) / len(y)).astype(np.float64)) @ A
    H[range(1, len(H)), range(1, len(H))] += ALPHA
    return float(np.abs(np.linalg.solve(H, gradient)[1:]).max())


def matching(X: np.ndarray, y: np.ndarray) -> LogisticRegression:
    """scikit-learn's model with the loosest tolerance 10^-k whose gradient is within ``TOL``."""
    for k in range(4, 16):
        model = LogisticRegression(C=1 / (ALPHA * len(y)), solver="newton-cholesky", tol=10.0**-k)
        model.fit(X, y)
        if gradient_norm(X, y, model.coef_, model.intercept_) <= TOL:
            return model
    raise RuntimeError("scikit-learn does not reach the tolerance")


def logistic_case(name: str, rows: int = 50_000, rounds: int = 3) -> Measurements:
    """Sequences compared with one fit of all columns, on columns that are standardised for it beforehand."""
    X, y, groups = DATA[name][1](rows, 0)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    standardised = (X - mean) / scale
    omp, score = (AnytimeClassifier(groups, rule=rule, alpha=ALPHA, tol=TOL) for rule in ("omp", "score"))
    memory = peak_rise_mb(lambda: omp.fit(X, y))
    theirs = matching(standardised, y)
    fits = {"omp": (omp, X), "score": (score, X), "theirs": (theirs, standardised)}
    times = in_turns({name: partial(model.fit, table, y) for name, (model, table) in fits.items()}, rounds)
    apart = float(np.abs(np.ravel(omp.coef_) * scale - theirs.coef_[0]).max())
    errors = [
        coefficient_error(standardised, y, m.coef_ * scale, float(np.ravel(m.intercept_ + m.coef_ @ mean)[0]))
        for m in (omp, score)
    ]
    return {
        "omp sequence, seconds": float(np.median(times["omp"])),
        "one LogisticRegression, seconds": float(np.median(times["theirs"])),
        "omp / LogisticRegression": float(np.median(times["omp"] / times["theirs"])),
        "score / omp": float(np.median(times["score"] / times["omp"])),
        "memory above X, MB": memory,
        "gradient, budgetline": gradient_norm(standardised, y, omp.coef_ * scale, omp.intercept_ + omp.coef_ @ mean),
        "iterations of LogisticRegression": int(theirs.n_iter_[0]),
        "largest difference of coefficients": apart,
        "error of budgetline's coefficients, omp": errors[0],
        "error of budgetline's coefficients, score": errors[1],
    }


def many_classes_case(rounds: int = 5) -> Measurements:
    """100 classes, three columns: a sequence compared with scikit-learn's models of the same prefixes."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 100
    X = rng.standard_normal((1000, 3))
    X[:, 0] += y / 30
    ours = AnytimeClassifier(rule="score", alpha=ALPHA, tol=TOL)
    ours.fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)

    def theirs() -> None:
        for stage in (1, 2, 3):
            LogisticRegression(C=1 / (ALPHA * len(y)), tol=1e-6, max_iter=10_000).fit(Z[:, ours.order_[:stage]], y)

    times = in_turns({"ours": lambda: ours.fit(X, y), "theirs": theirs}, rounds)
    return {
        "score sequence, seconds": float(np.median(times["ours"])),
        "score / LogisticRegression of three prefixes": float(np.median(times["ours"] / times["theirs"])),
    }


def spam_case() -> Measurements:
    """Cross-validation of five alphas on cubic splines of every column, a group each."""
    table = np.genfromtxt(SPAM, delimiter=",", names=True)
    raw = np.column_stack([table[name] for name in table.dtype.names])
    X, y = raw[:, :-1], raw[:, -1]
    splines = [SplineTransformer(n_knots=6, include_bias=False).fit_transform(X[:, [d]]) for d in range(X.shape[1])]
    groups = _consecutive({str(d): part.shape[1] for d, part in enumerate(splines)})
    search = AnytimeClassifierCV(groups, rule="omp")
    wide = np.hstack(splines)
    return {"columns": wide.shape[1], "fit, seconds": seconds(lambda: search.fit(wide, y))}


def mfeat_like() -> Data:
    """2,000 × 649 in the groups of mfeat: ten class means and the rest in factors, both shared by the groups."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 200)
    factors = rng.standard_normal((10, 20))[y] + rng.standard_normal((2000, 20))
    X = factors @ rng.standard_normal((20, 649)) + 4 * rng.standard_normal((2000, 649))
    return X, y, _consecutive(MFEAT_SIZES)


def mfeat() -> Data:
    tables = [np.loadtxt(MFEAT / f"mfeat-{name}.csv.gz", delimiter=",", skiprows=1) for name in MFEAT_SIZES]
    return np.hstack([t[:, :-1] for t in tables]), tables[0][:, -1], _consecutive(MFEAT_SIZES)


def _consecutive(sizes: dict[str, int]) -> dict[str, list[int]]:
    ends = np.cumsum(list(sizes.values())).tolist()
    return {name: list(range(end - size, end)) for (name, size), end in zip(sizes.items(), ends, strict=True)}


def softmax_case(data: Callable[[], Data]) -> Measurements:
    X, y, groups = data()
    model = AnytimeClassifier(groups, rule="omp", alpha=1e-5, tol=TOL)
    return {
        "omp sequence, seconds": seconds(lambda: model.fit(X, y)),
        "accuracy in sample, first stage": float(np.mean(model.predict(X, stage=1) == y)),
        "accuracy in sample, last stage": float(np.mean(model.predict(X) == y)),
    }


LOGISTIC_TARGETS = {
    "omp / LogisticRegression": 5,
    "score / omp": 2,
    "memory above X, MB": 400,
    "gradient, budgetline": TOL,
}
LOGISTIC_TARGETS |= {f"error of budgetline's coefficients, {rule}": 1e-9 for rule in ("omp", "score")}
LARGE: Cases = {
    f"{name}-large": (f"logistic, {label}, 100,000 rows", partial(logistic_case, name, 100_000), {})
    for name, (label, _) in DATA.items()
}
CASES: Cases = {
    name: (
        f"logistic, {label}, 50,000 rows",
        partial(logistic_case, name),
        LOGISTIC_TARGETS,
    )
    for name, (label, _) in DATA.items()
}
CASES["softmax"] = ("softmax, 10 classes, generated 2,000 × 649, 6 groups", lambda: softmax_case(mfeat_like), {})
CASES["classes"] = (
    "softmax, 100 classes, 1,000 × 3",
    many_classes_case,
    {"score / LogisticRegression of three prefixes": 5},
)
if SPAM.is_file():
    CASES["cv"] = ("AnytimeClassifierCV, spam with splines", spam_case, {"fit, seconds": 20})
if MFEAT.is_dir():
    CASES["mfeat"] = (
        "softmax, 10 classes, mfeat 2,000 × 649, 6 groups",
        lambda: softmax_case(mfeat),
        {"omp sequence, seconds": 8},
    )


if __name__ == "__main__":
    main(CASES, "Speed and memory of the generalised linear models", __file__, __doc__, LARGE)
