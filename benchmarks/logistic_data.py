"""Five data sets for logistic models, each a function of the number of rows and the seed that returns X, y, groups.

X has 328 columns, float64 in C order, in 57 groups of neighbouring columns; y is 0 or 1. One data set is no measure of
a solver: the number of Newton steps, the conditioning of the Hessian and the size of the coefficients differ here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "experiments"))
from paper_shapes import make_agricultural

COLUMNS, GROUPS = 328, 57
STRENGTH = 2.0
"""Standard deviation of the true scores, in logits."""
RARE = 0.01

Data = tuple[np.ndarray, np.ndarray, list[list[int]]]


def independent(rows: int = 50_000, seed: int = 0) -> Data:
    """Independent standard normal columns; y from a logistic model with normal coefficients."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS))
    return X, _labels(_latent(X, rng), 0.5), _groups()


def correlated(rows: int = 50_000, seed: int = 0) -> Data:
    """Columns correlated by 0.8 within groups and by 0.3 across them; y from a logistic model."""
    rng = np.random.default_rng(seed)
    groups = _groups()
    X = np.sqrt(0.2) * rng.standard_normal((rows, COLUMNS))
    X += np.sqrt(0.3) * rng.standard_normal((rows, 1))
    for members in groups:
        X[:, members] += np.sqrt(0.5) * rng.standard_normal((rows, 1))
    return X, _labels(_latent(X, rng), 0.5), groups


def agricultural(rows: int = 100_000, seed: int = 0) -> Data:
    """The shape of the paper's Agricultural data set, with its columns in arbitrary units; y is 1 for its class 2."""
    field = make_agricultural(rows, random_state=seed)
    layout = field.feature_groups.resolve(None, field.data.shape[1])
    return field.data, (field.target == 2).astype(int), [columns.tolist() for columns in layout.columns]


def rare(rows: int = 50_000, seed: int = 0) -> Data:
    """As ``independent``, but the intercept is such that one row in a hundred is of class 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS))
    return X, _labels(_latent(X, rng), RARE), _groups()


def separable(rows: int = 50_000, seed: int = 0) -> Data:
    """As ``independent``, but a hyperplane separates the classes: without a penalty the coefficients are infinite."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, COLUMNS))
    return X, _labels(_scores(X, rng), 0.5), _groups()


DATA: dict[str, tuple[str, Callable[..., Data]]] = {
    "independent": ("independent normal columns", independent),
    "correlated": ("correlated columns", correlated),
    "agricultural": ("Agricultural shape", agricultural),
    "rare": ("rare class, 1 %", rare),
    "separable": ("separable classes", separable),
}
"""The title of each data set in a report, and the function that makes it."""


def _groups() -> list[list[int]]:
    return [part.tolist() for part in np.array_split(np.arange(COLUMNS), GROUPS)]


def _scores(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    scores = X @ rng.standard_normal(X.shape[1])
    return np.asarray(STRENGTH * scores / scores.std())


def _latent(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scores plus logistic noise: cut anywhere, they follow a logistic model whose intercept is the cut."""
    return _scores(X, rng) + rng.logistic(size=len(X))


def _labels(latent: np.ndarray, share: float) -> np.ndarray:
    """Return 1 for the rows with the largest values, up to the given share, else 0."""
    return np.asarray(latent > np.quantile(latent, 1 - share), dtype=int)
