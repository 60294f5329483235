"""budgetline itself, with all stage models."""

from __future__ import annotations

from collections.abc import Callable

from budgetline import AnytimeClassifier, AnytimeRegressor, GroupLassoPath, Moments
from peers.problem import (
    ALPHA,
    LAMBDA_RATIO,
    LOGISTIC_ALPHA,
    N_LAMBDAS,
    Answer,
    Note,
    Peer,
    Problem,
    nothing,
    squared_violation,
    standardised,
)  # fmt: skip


def regressor(problem: Problem, rule: str) -> AnytimeRegressor:
    return AnytimeRegressor(problem.groups, problem.costs, rule=rule, alpha=ALPHA, max_groups=problem.most)


def path(problem: Problem) -> GroupLassoPath:
    return GroupLassoPath(
        problem.groups,
        problem.costs,
        alpha=0.0,
        refit=False,
        n_lambdas=N_LAMBDAS,
        lambda_ratio=LAMBDA_RATIO,
        max_groups=problem.most,
    )


def moments(problem: Problem) -> Moments:
    return Moments.from_data(problem.X, problem.y)


def stages_of(problem: Problem, model: AnytimeRegressor) -> Answer:
    stages, columns = model.coef_path_.shape[0], problem.sizes[model.order_].sum()
    return Answer(stages, stages, int(columns), lambda: model.predict(problem.X))


def lasso_of(problem: Problem, model: GroupLassoPath) -> Answer:
    last = model.path_coef_[-1]
    used = {int(g) for g in problem.labels[last != 0]}
    fitted = lambda: problem.X @ last + model.path_intercept_[-1]  # noqa: E731

    def checks() -> dict[str, float]:
        coefs = model.path_coef_ * problem.X.std(axis=0)
        return {"violation": squared_violation(problem, standardised(problem), model.lambdas_, coefs)}

    return Answer(len(model.lambdas_), len(used), int((last != 0).sum()), fitted, checks)


def sequence(rule: str) -> Callable[[Problem, None, Note], Answer]:
    return lambda problem, _, note: stages_of(problem, regressor(problem, rule).fit(problem.X, problem.y))


def sparse(problem: Problem, _: None, note: Note) -> Answer:
    return lasso_of(problem, path(problem).fit(problem.X, problem.y))


def sequence_of_moments(problem: Problem, given: Moments, note: Note) -> Answer:
    return stages_of(problem, regressor(problem, "forward").fit_moments(given))


def sparse_of_moments(problem: Problem, given: Moments, note: Note) -> Answer:
    return lasso_of(problem, path(problem).fit_moments(given))


def logistic(problem: Problem, _: None, note: Note) -> Answer:
    model = AnytimeClassifier(
        problem.groups, problem.costs, rule="omp", alpha=LOGISTIC_ALPHA, max_groups=problem.most
    ).fit(problem.X, problem.y.astype(int))
    stages, columns = len(model.order_), problem.sizes[model.order_].sum()
    return Answer(stages, stages, int(columns), lambda: model.predict_proba(problem.X)[:, 1])


PEERS = {
    "ours": Peer(
        "**budgetline, `forward`**", "budgetline", "budgetline", "groups by gain per cost, a ridge model per stage",
        nothing, sequence("forward"), True,
    ),
    "ours, omp": Peer(
        "budgetline, `omp`", "budgetline", "budgetline", "groups by gradient per cost, a ridge model per stage",
        nothing, sequence("omp"), True,
    ),
    "ours, lasso": Peer(
        "budgetline, `GroupLassoPath`", "budgetline", "budgetline", "group lasso weighted by cost, to a gap of 1e-9",
        nothing, sparse, True,
    ),
    "ours, given": Peer(
        "budgetline, `forward` from given `Moments`", "budgetline", "budgetline, X'X given",
        "as `forward`; the moments not counted",
        moments, sequence_of_moments, True, tall=True,
    ),
    "ours, lasso, given": Peer(
        "budgetline, `GroupLassoPath` from given `Moments`", "budgetline", "budgetline, X'X given",
        "as `GroupLassoPath`; the moments not counted", moments, sparse_of_moments, True, tall=True,
    ),
    "ours, logistic": Peer(
        "**budgetline, `omp`**", "budgetline", "budgetline", "groups by gradient per cost, a logistic model per stage",
        nothing, logistic, True, "logistic",
    ),
}  # fmt: skip
