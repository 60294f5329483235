"""budgetline itself, with all stage models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from budgetline import AnytimeRegressor, GroupLassoPath
from peers.problem import ALPHA, LAMBDA_RATIO, N_LAMBDAS, Answer, Note, Peer, Problem, nothing


def sequence(rule: str) -> Callable[[Problem, Any, Note], Answer]:
    def run(problem: Problem, _: Any, note: Note) -> Answer:
        model = AnytimeRegressor(problem.groups, problem.costs, rule=rule, alpha=ALPHA, max_groups=problem.most)
        model.fit(problem.X, problem.y)
        stages, columns = model.coef_path_.shape[0], problem.sizes[model.order_].sum()
        return Answer(stages, stages, int(columns), lambda: model.predict(problem.X))

    return run


def sparse(problem: Problem, _: Any, note: Note) -> Answer:
    model = GroupLassoPath(
        problem.groups,
        problem.costs,
        alpha=0.0,
        refit=False,
        max_groups=problem.most,
        n_lambdas=N_LAMBDAS,
        lambda_ratio=LAMBDA_RATIO,
    ).fit(problem.X, problem.y)
    last = model.path_coef_[-1]
    used = {int(g) for g in problem.labels[last != 0]}
    fitted = lambda: problem.X @ last + model.path_intercept_[-1]  # noqa: E731
    return Answer(len(model.lambdas_), len(used), int((last != 0).sum()), fitted)


PEERS = {
    "ours": Peer(
        "**budgetline, `fr`**", "budgetline", "ours", "groups by gain per cost, a ridge model per stage",
        nothing, sequence("fr"), True,
    ),
    "ours, omp": Peer(
        "budgetline, `omp`", "budgetline", "ours", "groups by gradient per cost, a ridge model per stage",
        nothing, sequence("omp"), True,
    ),
    "ours, lasso": Peer(
        "budgetline, `GroupLassoPath`", "budgetline", "ours", "group lasso weighted by cost, to a gap of 1e-9",
        nothing, sparse, True,
    ),
}  # fmt: skip
