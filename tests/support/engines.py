"""Engines for generalised linear models: every way to fit, and one that states the formulas as they are written."""

from importlib.util import find_spec

import numpy as np

from budgetline import open_data
from budgetline.moments.tallies import RowSample

ENGINES = ["memory", "source", *(["dask"] if find_spec("dask") else [])]


def engines_for(rule):
    """Return the engines to test a rule with: ``forward`` is for memory alone; dask makes the passes of a source."""
    return {"forward": ["memory"], "score": ENGINES}.get(rule, ["memory", "source"])


def fit_with(engine, model, X, y, weight=None):
    """Fit a model to the same rows by an engine, in uneven chunks."""
    if engine == "memory":
        return model.fit(X, y, sample_weight=weight)
    if engine == "source":
        return model.fit(open_data((X, y, weight), chunk_rows=23))
    return model.fit(open_data((X, y, weight), chunk_rows=31), client=Synchronous())


class Synchronous:
    """A client of dask that computes in this thread."""

    def compute(self, task):
        self.found = task.compute(scheduler="synchronous")
        return self

    def result(self):
        return self.found


class PlainEngine:
    """The formulas of ``glm/engines.py`` on a dense Z, one row after another; for a few rows and columns."""

    def __init__(self, X, Y, weight, order, loss, eager=False):
        self.few, self.stale = np.inf if eager else 48, np.inf
        self.n_rows, self.loss = len(X), loss
        self.weight = weight / weight.sum()
        self.sample_size = 1 / (self.weight @ self.weight)
        self.x_mean = self.weight @ X
        self.x_scale = np.sqrt(self.weight @ (X - self.x_mean) ** 2)
        self.Z = np.column_stack([np.ones(len(X)), ((X - self.x_mean) / self.x_scale)[:, order]])
        self.targets = loss.internal(Y)
        self.y_mean = self.weight @ self.targets
        self.y_spread = float(np.sqrt(self.weight @ (self.targets - self.y_mean) ** 2).max())
        self.saturated = float(self.weight @ loss.saturated(self.targets))

    def covariance(self, groups):
        return np.array([(self.Z[:, g].T * self.weight) @ self.Z[:, g] for g in groups])

    def sample(self, columns, most):
        there = np.flatnonzero(self.weight)[:most]
        rows = self.weight[there] / self.weight[there].sum()
        return RowSample(np.arange(rows.size, dtype=np.uint64), self.Z[there][:, columns], rows, most)

    def at(self, columns, theta):
        return PlainPoint(self, self.Z[:, columns] @ theta)

    def drift(self, point):
        return np.inf


def matrices(curvature):
    """Return the second derivatives of every row, shape (n, Q, Q)."""
    B = np.eye(curvature.scale.shape[1]) if curvature.contrasts is None else curvature.contrasts
    found = np.array([B.T @ np.diag(scale) @ B for scale in curvature.scale])
    return found if curvature.along is None else found - curvature.along[:, :, None] * curvature.along[:, None]


class PlainPoint:
    """A point of a :class:`PlainEngine`."""

    def __init__(self, engine, eta):
        self.engine, self.eta = engine, eta
        self.risk = float(engine.weight @ (engine.loss.value(eta) - (engine.targets * eta).sum(axis=1)))
        self.every = np.arange(1, engine.Z.shape[1])

    def gradient(self, columns):
        columns = self.every if columns is None else columns
        residual = self.engine.targets - self.engine.loss.mean(self.eta)
        return self.engine.Z[:, columns].T @ (self.engine.weight[:, None] * residual)

    def hessian(self, columns, score=None, within=0.0):
        H = self.cross(columns, columns)
        Q = self.eta.shape[1]
        return H if score is None else H[score::Q, score::Q].copy()

    def cross(self, columns, others):
        others = self.every if others is None else others
        total = 0.0
        for z, weight, curvature in zip(
            self.engine.Z, self.engine.weight, matrices(self.engine.loss.curvature(self.eta)), strict=True
        ):
            total = total + weight * np.kron(np.outer(z[columns], z[others]), curvature)
        return total

    def blocks(self, groups):
        return np.array([self.cross(g, g) for g in groups])

    def product(self, columns, V):
        return (self.hessian(columns) @ V.ravel()).reshape(V.shape)
