"""Random problems of squared error against brute force, under all rules, schedules and sources."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import numpy as np
import reference
from reference_shared import Shop, anything, arguments, doubling, greedy, linear_score, random_shop
from scipy.linalg import LinAlgWarning

from budgetline import AnytimeRegressor, FeatureGroups, FixedOrder
from budgetline.sequencing import Doubling
from fuzz.orders import Limits, check_greedy, condition
from fuzz.sources import FROM_MOMENTS, SOURCES, STREAMED, Data, fit_from
from fuzz.trials import Case

RULES = ("forward", "omp", "no-whiten", "single", "score", "static")
SCHEDULES = ("greedy", "greedy", "doubling", "doubling-literal", "cheapest", "random", "fixed")
FEATURES = (
    "plain", "plain", "correlated", "scales", "far", "duplicate", "constant", "dependent", "near copy", "zeros",
    "binary", "heavy", "wide", "ill", "ill",
)  # fmt: skip
TARGETS = ("plain", "plain", "explained", "unrelated", "large", "small", "one column")
WEIGHTS = (None, None, "any", "zeros", "whole", "dominating", "tiny")


def draw(seed: int) -> Case:
    """Return the settings of a random problem."""
    rng = Random(seed)
    J = rng.randint(1, 7)
    sizes = [rng.choice([1, 1, 2, 3]) for _ in range(J)]
    features = rng.choice(FEATURES)
    case = {
        "seed": seed,
        "sizes": sizes,
        "n": sum(sizes) + rng.randint(3, 50),
        "targets": rng.choice([0, 0, 1, 2, 3]),
        "features": features,
        "target": rng.choice(TARGETS),
        "weights": rng.choice(WEIGHTS),
        "costs": rng.choice(["uniform", "uniform", "whole", "equal", "wide", "free"]),
        "rule": rng.choice(RULES),
        "cost_sensitive": rng.random() < 0.8,
        "schedule": rng.choice(SCHEDULES),
        "alpha": rng.choice([0.0, 1e-12, 1e-10, 1e-8, 1e-5] if features == "ill" else [0.0, 1e-8, 1e-5, 1e-2, 1.0]),
        "max_cost": rng.choice([None, None, rng.random()]),
        "max_groups": rng.choice([None, None, rng.randint(1, J)]),
        "source": rng.choice(list(SOURCES)),
        "cuts": sorted(rng.randint(1, sum(sizes)) for _ in range(rng.randint(0, 3))),
        "shared": J > 1 and rng.random() < 0.2,
    }
    return _possible(case)


def _possible(case: Case) -> Case:
    """Change settings that do not go together."""
    if case["features"] == "wide":
        case["n"] = max(3, sum(case["sizes"]) // 2)
        case["cuts"] = [cut for cut in case["cuts"] if cut < case["n"]]
    if case["target"] == "small" and case["weights"] == "tiny":
        case["target"] = "plain"  # their products would be zero
    if case["source"] == "svmlight":
        case["targets"], case["weights"] = 0, None
    if case["schedule"] in ("cheapest", "random", "fixed"):
        case["max_cost"] = case["max_groups"] = None
    if case["shared"]:  # brute force knows these
        case |= {"schedule": "doubling" if case["schedule"] == "doubling" else "greedy", "max_cost": None}
        case |= {"rule": case["rule"] if case["rule"] in reference.RULES else "forward", "max_groups": None}
    return case


def smaller(case: Case) -> Iterator[Case]:
    """Yield simpler problems: fewer groups, rows and twists."""
    for key, plain in (
        ("source", "array"), ("weights", None), ("features", "plain"), ("target", "plain"), ("targets", 0),
        ("shared", False), ("schedule", "greedy"), ("max_cost", None), ("max_groups", None), ("costs", "uniform"),
    ):  # fmt: skip
        if case[key] != plain:
            yield {**case, key: plain}
    if len(case["sizes"]) > 1:
        yield {**case, "sizes": case["sizes"][:-1]}
    if case["n"] > sum(case["sizes"]) + 3:
        yield {**case, "n": max(sum(case["sizes"]) + 3, case["n"] // 2), "cuts": []}


# -- data ------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Data, groups and what they cost."""

    data: Data
    groups: list[list[int]]
    costs: list[float]
    shop: Shop | None


def problem_of(case: Case) -> Problem:
    """Return the problem that a case describes."""
    rng = np.random.default_rng(case["seed"])
    D, J, n = sum(case["sizes"]), len(case["sizes"]), case["n"]
    X = _features(rng, n, D, case["features"])
    y = _target(rng, X, max(1, case["targets"]), case["target"])
    if case["source"] == "float32":
        X = X.astype(np.float32).astype(float)
    ends = np.cumsum(case["sizes"])[:-1]
    groups = [list(map(int, g)) for g in np.split(rng.permutation(D), ends)]
    costs = _costs(rng, J, case["costs"])
    shop = random_shop(rng, J) if case["shared"] else None
    data = Data(X, y[:, 0] if case["targets"] == 0 else y, _weights(rng, n, case["weights"]), case["cuts"])
    return Problem(data, groups, costs if shop is None else list(shop.own), shop)


def _features(rng: np.random.Generator, n: int, D: int, kind: str) -> np.ndarray:
    X = rng.standard_normal((n, D)) @ (np.eye(D) + 0.4 * rng.standard_normal((D, D)))
    a, b = rng.integers(D, size=2)
    if kind == "correlated":
        X += 3 * rng.standard_normal((n, 1))
    elif kind == "scales":
        X *= 10.0 ** rng.uniform(-9, 9, D)
    elif kind == "far":
        X += 10.0 ** rng.uniform(2, 6) * rng.standard_normal(D)
    elif kind == "duplicate":
        X[:, a] = X[:, b]
    elif kind == "constant":
        X[:, a] = 3.7
    elif kind == "dependent":
        X = np.round(8 * X)  # whole numbers, so that the sum is exact
        X[:, a] = np.delete(X, a, axis=1) @ rng.integers(-2, 3, D - 1)
    elif kind == "near copy":
        X[:, a] = X[:, b] + 10.0 ** -rng.uniform(1, 5) * rng.standard_normal(n)
    elif kind == "ill":
        return _ill(rng, X)
    elif kind == "zeros":
        X[np.abs(X) < 0.8] = 0.0
    elif kind == "binary":
        X = (X > 0.3).astype(float)
    elif kind == "heavy":
        X = X * np.exp(1.5 * rng.standard_normal((n, 1)))
    return X + (0.0 if kind in ("zeros", "binary", "dependent") else rng.standard_normal(D))


def _ill(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Return columns of which some are near copies of earlier ones, and some have means as large as 1e14 deviations."""
    X, D = X.copy(), X.shape[1]
    for d in range(1, D):
        if rng.random() < 0.5:
            X[:, d] = X[:, rng.integers(d)] + 10.0 ** -rng.uniform(3, 12) * X[:, d]
    return X + np.where(rng.random(D) < 0.3, 10.0 ** rng.uniform(3, 14, D), rng.standard_normal(D))


def _target(rng: np.random.Generator, X: np.ndarray, P: int, kind: str) -> np.ndarray:
    n, D = X.shape
    scale = X.std(axis=0)
    signal = ((X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)) @ (
        rng.standard_normal((D, P)) * rng.exponential(size=(D, 1))
    )
    noise = rng.standard_normal((n, P))
    if kind == "explained":
        return signal + 1e-3 * noise[:1]
    if kind == "unrelated":
        return noise
    if kind == "one column":
        return X[:, rng.integers(D)][:, None] / max(1e-300, scale.max()) + 0.1 * noise
    size = {"large": 10.0 ** rng.uniform(3, 90), "small": 10.0 ** -rng.uniform(3, 90)}.get(kind, 1.0)
    return (signal + rng.exponential() * noise + rng.standard_normal(P)) * size


def _weights(rng: np.random.Generator, n: int, kind: str | None) -> np.ndarray | None:
    if kind is None:
        return None
    w = rng.uniform(0.1, 2, n)
    if kind == "zeros":
        w[rng.random(n) < 0.3] = 0.0
        w[:2] = 1.0
    elif kind == "whole":
        w = rng.integers(0, 4, n).astype(float)
        w[:2] = 1.0
    elif kind == "dominating":
        w[rng.integers(n)] = 10.0 ** rng.uniform(3, 12)
    elif kind == "tiny":
        w *= 10.0 ** -rng.uniform(100, 250)
    return w


def _costs(rng: np.random.Generator, J: int, kind: str) -> list[float]:
    drawn = {
        "uniform": rng.uniform(0.1, 3, J),
        "whole": rng.integers(1, 6, J).astype(float),
        "equal": np.full(J, 0.1),
        "wide": 10.0 ** rng.uniform(-6, 6, J),
        "free": rng.uniform(0.1, 3, J) * (rng.random(J) < 0.6),
    }
    return [float(cost) for cost in drawn[kind]]


# -- the check -------------------------------------------------------------------------------------------------


def check(case: Case) -> None:
    """Fit, and compare order, gains and predictions with those of brute force, or claims with predictions."""
    problem = problem_of(case)
    data, groups = problem.data, problem.groups
    named = {str(g): [f"x{d}" for d in columns] for g, columns in enumerate(groups)}
    by_name = case["source"] in ("frame", "polars", "csv", "parquet")
    given = named if by_name else groups
    priced = {"costs": problem.costs} if problem.shop is None else arguments(problem.shop)
    bought = FeatureGroups(given, **priced)
    order = np.random.default_rng(case["seed"]).permutation(len(groups)).tolist()
    schedule = {"doubling-literal": Doubling(literal=True), "fixed": FixedOrder([bought.names[g] for g in order])}
    limits = _limits(case, problem)
    model = AnytimeRegressor(
        bought, rule=case["rule"], cost_sensitive=case["cost_sensitive"], alpha=case["alpha"],
        schedule=schedule.get(case["schedule"], case["schedule"]), max_cost=limits.max_cost,
        max_groups=limits.max_groups,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LinAlgWarning)
        fit_from(case["source"], model, data)
    _check_claims(case, data, model, bool(told))
    if case["features"] == "ill":
        return  # brute force has lost the digits too
    truth = reference.standardise(data.X, data.y, data.w)
    digits = max(_digits(case, truth), *(_admitted(str(warning.message)) for warning in told), 0.0)
    if case["schedule"] == "fixed":
        assert model.order_.tolist() == order
    elif case["schedule"] in ("cheapest", "random"):
        assert sorted(model.order_.tolist()) == sorted(order)
    elif problem.shop is not None:
        _check_shared(case, problem, model.order_.tolist(), digits)
    else:
        rounding = digits * 2 * reference.risk(truth.Xs, truth.Yc, truth.w, (), case["alpha"])
        check_greedy(model.order_.tolist(), _scores(case, truth, groups), problem.costs, limits, rounding)
    _check_models(case, problem, model, truth, digits)


def _check_claims(case: Case, data: Data, model: Any, warned: bool) -> None:
    """Compare what the stages claim with what their predictions explain on the rows, less the penalty."""
    y = data.y.reshape(len(data.y), -1)
    w = (np.ones(len(y)) if data.w is None else data.w).astype(np.longdouble)
    w = w / w.sum()
    unit = np.ldexp(1.0, int(np.frexp(np.abs(y).max())[1]))  # a power of two: no digits are lost, no squares overflow
    y, X, stages = np.asarray(y / unit, dtype=np.longdouble), _as_given(case, data.X), model.model_.stages
    null = w @ ((y - w @ y) ** 2).sum(axis=1)
    if null <= (1e-15 * np.abs(y).max()) ** 2:
        return  # a constant target
    coef = stages.coef_path * np.where(np.isfinite(stages.scale), stages.scale, 0.0) / unit
    penalty = case["alpha"] * (coef**2).sum(axis=(1, 2))
    for k, claimed in enumerate(model.sequence_.explained):
        errors = y - np.reshape(model.predict(X, stage=k + 1), y.shape) / unit
        real = float(1 - (w @ (errors**2).sum(axis=1) + penalty[k]) / null)
        assert warned or abs(real - claimed) <= 0.01, f"stage {k + 1} claims {claimed} and explains {real}, no warning"


def _limits(case: Case, problem: Problem) -> Limits:
    most = None if case["max_cost"] is None else case["max_cost"] * sum(problem.costs)
    return Limits(case["schedule"], case["cost_sensitive"], most, case["max_groups"])


def _digits(case: Case, truth: Any) -> float:
    """Return the allowed relative error: the loss by conditioning, and a small margin."""
    eps = 6e-8 if case["source"] == "float32" else 2.2e-16
    return min(1.0, 1e-9 + 300 * eps * condition(truth.Xs, truth.w, case["alpha"]))


def _admitted(text: str) -> float:
    """Return the relative error that a warning admits; 0 if it names none."""
    found = re.search(r"about (\d+) digits", text)
    return 0.0 if found is None else 10.0 ** -int(found[1])


def _scores(case: Case, truth: Any, groups: list[list[int]]) -> Any:
    rule = {"score": "forward", "static": "forward"}.get(case["rule"], case["rule"])

    def scores(chosen: list[int], left: list[int]) -> dict[int, float]:
        after = [] if case["rule"] == "static" else chosen
        found = reference.scores(truth.Xs, truth.Yc, truth.w, groups, after, rule, case["alpha"])
        return {g: float(found[g]) for g in left}

    return scores


def _check_shared(case: Case, problem: Problem, order: list[int], digits: float) -> None:
    """Compare orders where bundles may be bought, if no decision was close and every group has a gain."""
    shop = problem.shop
    assert shop is not None
    place = {g: k for k, g in enumerate(order)}
    for g, needed in shop.requires.items():
        assert all(place[h] < place[g] for h in needed if g in place), f"{g} comes before what it requires: {order}"
    data = problem.data
    score, gain = linear_score(data.X, data.y, problem.groups, case["rule"], case["alpha"], data.w)
    allowed = doubling if case["schedule"] == "doubling" else anything
    found = greedy(shop, score, cost_sensitive=case["cost_sensitive"], allowed=allowed)
    whole = gain(frozenset(), frozenset(range(len(problem.groups))))
    steps = [gain(frozenset(found.order[:k]), frozenset([g])) for k, g in enumerate(found.order)]
    if found.margin > 1e-6 and min(steps) > max(1e-6, 1e3 * digits) * whole:
        assert order == found.order, f"{order} is not {found.order} (margin {found.margin:.1e})"


def _check_models(case: Case, problem: Problem, model: Any, truth: Any, digits: float) -> None:
    """Compare explained shares and predictions with refits from the data, for stages and for a set of groups."""
    alpha, order, data = case["alpha"], model.order_.tolist(), problem.data
    arrays = truth.Xs, truth.Yc, truth.w
    R0 = reference.risk(*arrays, (), alpha)
    explained = np.cumsum(model.sequence_.gains)
    X = _as_given(case, data.X)
    # X is multiplied by rounded coefficients, and so is its mean, however little it varies about it
    allowed = digits + 4 * 2.2e-16 * float(np.max(np.abs(truth.x_mean) / truth.x_scale, initial=0.0))
    sets = [order[: k + 1] for k in range(len(order))]
    for k, chosen in enumerate(sets):
        columns = [d for g in chosen for d in problem.groups[g]]
        gained = reference.F(*arrays, columns, alpha)
        assert abs(explained[k] - gained) <= digits * R0, f"stage {k + 1} explains {explained[k]}, not {gained} of {R0}"
        if digits >= 1:
            continue  # the library warned that no digit can be trusted
        _compare(model.predict(X, stage=k + 1), _predicted(truth, columns, alpha), R0, allowed, f"stage {k + 1}")
    some = [g for g in order if np.random.default_rng([case["seed"], g]).random() < 0.5]
    columns = [d for g in some for d in problem.groups[g]]
    names = [model.feature_groups_.names[g] for g in some]
    # from moments alone, sets that are no prefixes have lost the digits that C has, and rank is a matter of digits
    if not (alpha == 0 and (case["source"] in FROM_MOMENTS or case["source"] in STREAMED)):
        _compare(model.predict(X, available=names), _predicted(truth, columns, alpha), R0, allowed, f"groups {names}")


def _as_given(case: Case, X: np.ndarray) -> Any:
    import pandas as pd

    named = case["source"] in ("frame", "polars", "csv", "parquet")
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])]) if named else X


def _predicted(truth: Any, columns: list[int], alpha: float) -> np.ndarray:
    return np.asarray(truth.y_mean + truth.Xs @ reference.fit(truth.Xs, truth.Yc, truth.w, columns, alpha))


def _compare(found: np.ndarray, expected: np.ndarray, R0: float, digits: float, what: str) -> None:
    error = np.abs(np.reshape(found, expected.shape) - expected).max()
    size = np.abs(expected).max() + np.sqrt(2 * R0)
    assert error <= 10 * np.sqrt(digits) * 1e-3 * size + digits * size, (
        f"{what} predicts with an error of {error / size:.1e}"
    )
