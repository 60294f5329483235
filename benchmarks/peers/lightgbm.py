"""LightGBM with the penalties of cost-efficient gradient boosting (CEGB): one nonlinear model per trade-off."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from peers.problem import THREADS, Answer, Note, Peer, Problem, nothing

ROUNDS = 100


def booster(
    X: np.ndarray,
    y: np.ndarray,
    column_costs: np.ndarray,
    tradeoff: float,
    objective: str = "regression",
    rounds: int = ROUNDS,
    **more: Any,
) -> Any:
    """Train; a column is paid when the model first splits on it. Gains are in units of n times the loss."""
    lightgbm = importlib.import_module("lightgbm")
    params = {
        "objective": objective,
        "num_threads": THREADS,
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,
        "seed": 0,
        "cegb_tradeoff": tradeoff,
        "cegb_penalty_feature_coupled": (len(y) * column_costs / column_costs.sum()).tolist(),
        **more,
    }
    return lightgbm.train(params, lightgbm.Dataset(X, y), rounds)


def columns_used(model: Any) -> np.ndarray:
    return np.flatnonzero(model.feature_importance("split"))


def run(problem: Problem, _: Any, note: Note) -> Answer:
    # Each column bears its share of the price of its group: LightGBM knows no groups.
    shares = np.repeat(problem.costs / problem.sizes, problem.sizes)
    model = booster(problem.X, problem.y, shares, float(problem.y.var()))
    columns = columns_used(model)
    groups = int(np.unique(problem.labels[columns]).size)
    return Answer(1, groups, columns.size, lambda: np.asarray(model.predict(problem.X)))


PEERS = {
    "LightGBM": Peer(
        "LightGBM, `cegb_penalty_feature_coupled`", "lightgbm", "one model",
        f"{ROUNDS} trees at one trade-off of gain and cost, nonlinear", nothing, run,
    )
}  # fmt: skip
