"""Speed and memory of the generalised linear models, as ratios within one run: ``python benchmarks/glm.py``.

Command line and way of measuring as in ``core.py``: each case in a process of its own, times that are compared taken
in turns. scikit-learn gets data that are already standardised, and the loosest tolerance of a ladder at which its
gradient, in our scaling, is as small as ours is asked to be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from core import Cases, Measurements, in_turns, main, peak_rise_mb, seconds
from sklearn.linear_model import LogisticRegression

from budgetline import AnytimeClassifier
from budgetline.datasets import make_agricultural

ALPHA, TOL = 1e-5, 1e-10
MFEAT = Path(__file__).resolve().parents[2] / "shared" / "data" / "mfeat"
MFEAT_SIZES = {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}

Data = tuple[np.ndarray, np.ndarray, dict[str, list[int]]]


def gradient_norm(X: np.ndarray, y: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Largest entry of the gradient of mean log loss + alpha/2 ‖w‖² for standardised X and y in {0, 1}."""
    w = np.ravel(coef)
    residual = (1 / (1 + np.exp(-(X @ w + intercept))) - y) / len(y)
    return float(max(np.abs(X.T @ residual + ALPHA * w).max(), abs(residual.sum())))


def matching(X: np.ndarray, y: np.ndarray) -> LogisticRegression:
    """scikit-learn's model with the loosest tolerance 10^-k whose gradient is within ``TOL``."""
    for k in range(4, 16):
        model = LogisticRegression(C=1 / (ALPHA * len(y)), solver="newton-cholesky", tol=10.0**-k)
        model.fit(X, y)
        if gradient_norm(X, y, model.coef_, model.intercept_) <= TOL:
            return model
    raise RuntimeError("scikit-learn does not reach the tolerance")


def logistic_case(rounds: int = 3) -> Measurements:
    field = make_agricultural(100_000, random_state=0)
    X, y, groups = field.data, (field.target == 2).astype(int), field.feature_groups
    ours = AnytimeClassifier(groups, rule="omp", alpha=ALPHA, tol=TOL)
    memory = peak_rise_mb(lambda: ours.fit(X, y))
    mean, scale = X.mean(axis=0), X.std(axis=0)
    standardised = (X - mean) / scale
    theirs = matching(standardised, y)
    times = in_turns({"ours": lambda: ours.fit(X, y), "theirs": lambda: theirs.fit(standardised, y)}, rounds)
    ratio = float(np.median(times["ours"] / times["theirs"]))
    own = gradient_norm(standardised, y, ours.coef_ * scale, ours.intercept_ + ours.coef_ @ mean)
    apart = float(np.abs(np.ravel(ours.coef_) * scale - theirs.coef_[0]).max())
    return {
        "omp sequence, seconds": float(np.median(times["ours"])),
        "one LogisticRegression, seconds": float(np.median(times["theirs"])),
        "omp / LogisticRegression": ratio,
        "memory above X, MB": memory,
        "stages": len(ours.order_),
        "gradient, ours": own,
        "gradient, LogisticRegression": gradient_norm(standardised, y, theirs.coef_, theirs.intercept_),
        "tol of LogisticRegression": theirs.tol,
        "iterations of LogisticRegression": int(theirs.n_iter_[0]),
        "largest difference of coefficients": apart,
        "load average of the machine": os.getloadavg()[0],
    }


def score_case() -> Measurements:
    field = make_agricultural(100_000, random_state=0)
    model = AnytimeClassifier(field.feature_groups, rule="score", alpha=ALPHA, tol=TOL)
    return {"score sequence, seconds": seconds(lambda: model.fit(field.data, field.target == 2))}


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
    model = AnytimeClassifier(groups, rule="omp", alpha=ALPHA, tol=TOL)
    return {
        "omp sequence, seconds": seconds(lambda: model.fit(X, y)),
        "accuracy in sample, first stage": float(np.mean(model.predict(X, stage=1) == y)),
        "accuracy in sample, last stage": float(np.mean(model.predict(X) == y)),
    }


CASES: Cases = {
    "logistic": (
        "logistic, 100,000 × 328, 57 groups",
        logistic_case,
        {"omp / LogisticRegression": 5, "memory above X, MB": 400, "gradient, ours": TOL},
    ),
    "score": ("logistic, 100,000 × 328, 57 groups, once", score_case, {}),
    "softmax": ("softmax, 10 classes, generated 2,000 × 649, 6 groups", lambda: softmax_case(mfeat_like), {}),
}
if MFEAT.is_dir():
    CASES["mfeat"] = ("softmax, 10 classes, mfeat 2,000 × 649, 6 groups", lambda: softmax_case(mfeat), {})


if __name__ == "__main__":
    main(CASES, "Speed and memory of the generalised linear models", __file__, __doc__)
