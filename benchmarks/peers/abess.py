"""abess: the best subset of groups for every number of groups, by splicing. It knows no costs."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from peers.problem import THREADS, Answer, Data, Note, Peer, Problem, groups_in, standardised


def best_subset(labels: np.ndarray, support: list[int], kind: str = "LinearRegression", **more: Any) -> Any:
    """Return the unfitted estimator for these numbers of groups."""
    return getattr(importlib.import_module("abess"), kind)(support_size=support, group=labels, thread=THREADS, **more)


def run(problem: Problem, data: Data, note: Note) -> Answer:
    A, t = data
    # The Gram matrix for tall data; "loss" keeps the model of the largest size, the end of the path.
    model = best_subset(
        problem.labels, list(range(1, problem.most_groups + 1)), fit_intercept=False, ic_type="loss",
        covariance_update=A.shape[0] > A.shape[1],
    ).fit(A, t, is_normal=False)  # fmt: skip
    w, mean = np.asarray(model.coef_), problem.y.mean()
    return Answer(problem.most_groups, groups_in(problem, w), int(np.count_nonzero(w)), lambda: A @ w + mean)


PEERS = {
    "abess": Peer(
        "abess, `LinearRegression(group=…)`", "abess", "groups",
        "the best set of each number of groups (not nested, no costs); returns one model", standardised, run,
    )
}  # fmt: skip
