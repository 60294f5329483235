"""Correlated Gaussian features from a factor model, drawn a few thousand rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from budgetline.arrays import Float

# Rows drawn at once. Part of what a seed means: another number gives other data.
CHUNK = 4096

RandomState = int | np.random.RandomState | None
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FactorModel:
    """Features z = L f + s ∘ e of unit variance, with independent standard normal f and e: L (D, m) and s (D,)."""

    loadings: Float
    noise: Float

    @classmethod
    def of(cls, loadings: Float, communality: Float) -> FactorModel:
        """Scale the rows of `loadings` so that factors explain `communality` of each feature's variance."""
        factor = np.sqrt(communality) / np.linalg.norm(loadings, axis=1)
        return cls(loadings * factor[:, None], np.sqrt(1.0 - communality))

    @property
    def covariance(self) -> Float:
        """Covariance of the features, shape (D, D)."""
        return self.loadings @ self.loadings.T + np.diag(self.noise**2)

    def unit_score(self, coef: Float) -> Float:
        """Scale coefficients (D,) so that their score has unit variance."""
        return np.asarray(coef / np.sqrt(coef @ self.covariance @ coef))

    def draw(self, factors: Float, rng: np.random.Generator) -> Float:
        """Draw features (n, D) for given factors (n, m)."""
        features: Float = rng.standard_normal((len(factors), len(self.noise)))
        features *= self.noise
        features += factors @ self.loadings.T
        return features


def make_generator(random_state: RandomState) -> np.random.Generator:
    """Turn scikit-learn's `random_state` into a NumPy generator, which is faster and can draw by chunk."""
    return np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def row_chunks(n_samples: int) -> Iterator[slice]:
    """Cut rows 0 … n_samples − 1 into slices of at most CHUNK."""
    for start in range(0, n_samples, CHUNK):
        yield slice(start, min(start + CHUNK, n_samples))
