"""The paper's algorithms as printed: every model refitted from the data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
from core import printed_steps

from peers.problem import ALPHA, Answer, Note, Peer, Problem, nothing


def algorithm(rule: str) -> Callable[[Problem, Any, Note], Answer]:
    def run(problem: Problem, _: Any, note: Note) -> Answer:
        groups = problem.groups
        order: list[int] = []
        for g in islice(printed_steps(problem.X, problem.y, groups, problem.costs, rule, ALPHA), problem.most_groups):
            order.append(g)
            note(models=len(order), of=problem.most_groups, groups=len(order))
        columns = [d for g in order for d in groups[g]]

        def fitted() -> np.ndarray:
            A = np.column_stack([np.ones(len(problem.y)), problem.X[:, columns]])
            return np.asarray(A @ np.linalg.lstsq(A, problem.y)[0])

        return Answer(len(order), len(order), len(columns), fitted)

    return run


PEERS = {
    "printed, OMP": Peer(
        "the paper's CS-G-OMP as printed", "budgetline", "groups", "groups by gradient per cost, a model per stage",
        nothing, algorithm("omp"),
    ),
    "printed, FR": Peer(
        "the paper's CS-G-FR as printed", "budgetline", "groups", "groups by gain per cost, a model per stage",
        nothing, algorithm("forward"),
    ),
}  # fmt: skip
