"""Random generalised linear models against plain Newton from scratch, under all rules, losses and sources."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import reference
import reference_glm

from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups
from budgetline.glm import ConvexLoss
from fuzz.orders import Limits, check_greedy
from fuzz.sources import IN_MEMORY, STREAMED, Data, fit_from
from fuzz.trials import Case

RULES = ("forward", "omp", "score", "no-whiten", "single")
FAMILIES = ("logistic", "logistic", "softmax", "poisson", "squared")
LABELS = {"whole": [3, -7, 13], "text": ["no", "yes", "Ärger"], "flags": [False, True, None], "real": [0.0, 2.0, -1.0]}
NAMED = ("frame", "polars", "csv", "parquet")
SQUARED = ConvexLoss(lambda eta: eta**2 / 2, lambda eta: eta, np.ones_like)


def draw(seed: int) -> Case:
    """Return the settings of a random problem."""
    rng = Random(seed)
    J = rng.randint(1, 5)
    sizes = [rng.choice([1, 1, 2, 3]) for _ in range(J)]
    family = rng.choice(FAMILIES)
    streamed = rng.random() < 0.5
    case = {
        "seed": seed,
        "family": family,
        "labels": rng.choice(["whole", "text", "real", *(["flags"] if family == "logistic" else [])]),
        "sizes": sizes,
        "n": sum(sizes) + rng.randint(25, 60),
        "features": rng.choice(["plain", "plain", "scales", "duplicate", "constant", "binary", "far"]),
        "weights": rng.choice([None, None, "any", "zeros"]),
        "costs": rng.choice(["uniform", "whole", "free"]),
        "rule": rng.choice(RULES[1:] if streamed else RULES),
        "cost_sensitive": rng.random() < 0.8,
        "schedule": rng.choice(["greedy", "greedy", "doubling"]),
        "alpha": rng.choice([1e-4, 1e-3, 1e-2, 0.1, 1.0]),
        "source": rng.choice(_ways(family, streamed)),
        "cuts": sorted(rng.randint(1, 20) for _ in range(rng.randint(0, 3))),
    }
    if case["source"] == "svmlight":  # which holds numbers, without weights
        case |= {"weights": None, "labels": "whole"}
    return case


def _ways(family: str, streamed: bool) -> list[str]:
    if not streamed:
        return [name for name in IN_MEMORY if name not in ("on demand", "float32")]
    return [name for name in STREAMED if name != "dask" or family in ("poisson", "squared")]


def smaller(case: Case) -> Iterator[Case]:
    """Yield simpler problems."""
    for key, plain in (("source", "array"), ("weights", None), ("features", "plain"), ("schedule", "greedy")):
        if case[key] != plain:
            yield {**case, key: plain}
    if len(case["sizes"]) > 1:
        yield {**case, "sizes": case["sizes"][:-1]}


def data_of(case: Case) -> tuple[Data, np.ndarray, list[list[int]], list[float]]:
    """Return the data, the targets (n, P) of the reference, groups and costs."""
    rng = np.random.default_rng(case["seed"])
    n, D, J = case["n"], sum(case["sizes"]), len(case["sizes"])
    X = rng.standard_normal((n, D)) @ (np.eye(D) + 0.4 * rng.standard_normal((D, D)))
    X = _bent(rng, X, case["features"])
    scale = X.std(axis=0)
    scores = 1.5 * (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1) @ rng.standard_normal((D, 3)) / np.sqrt(D)
    y, Y = _target(rng, scores, case["family"], case["labels"])
    w = rng.uniform(0.1, 2, n) if case["weights"] else None
    if w is not None and case["weights"] == "zeros":
        w[6:][rng.random(n - 6) < 0.2] = 0.0
    groups = [list(map(int, g)) for g in np.split(rng.permutation(D), np.cumsum(case["sizes"])[:-1])]
    costs = {"uniform": rng.uniform(0.1, 3, J), "whole": rng.integers(1, 6, J), "free": rng.integers(0, 3, J)}
    return Data(X, y, w, case["cuts"]), Y, groups, [float(c) for c in costs[case["costs"]]]


def _bent(rng: np.random.Generator, X: np.ndarray, kind: str) -> np.ndarray:
    D = X.shape[1]
    if kind == "scales":
        return X * 10.0 ** rng.uniform(-6, 6, D)
    if kind == "duplicate":
        X[:, rng.integers(D)] = X[:, rng.integers(D)]
    elif kind == "constant":
        X[:, rng.integers(D)] = 2.5
    elif kind == "binary":
        return (X > 0.2).astype(float)
    elif kind == "far":
        return X + 1e4 * rng.standard_normal(D)
    return X + rng.standard_normal(D)


def _target(rng: np.random.Generator, scores: np.ndarray, family: str, labels: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what the library learns from, and the numbers (n, P) of the reference; every class occurs."""
    n = len(scores)
    if family in ("poisson", "squared"):
        y = rng.poisson(np.exp(0.7 * scores[:, 0])).astype(float)
        y[:2] += [1.0, 3.0]
        return y, y[:, None]
    classes = 2 if family == "logistic" else 3
    codes = (scores[:, :classes] + rng.gumbel(size=(n, classes))).argmax(axis=1)
    codes[:6] = [0, 1, 2, 0, 1, 2][:6] if classes == 3 else [0, 1, 0, 1, 0, 1]
    names = np.array(LABELS[labels][:classes])
    order = np.argsort(names)
    rank = np.argsort(order)[codes]
    return names[codes], rank[:, None].astype(float) if classes == 2 else np.eye(3)[rank]


def check(case: Case) -> None:
    """Fit, and compare order, gains and probabilities with those of brute force."""
    data, Y, groups, costs = data_of(case)
    given = groups
    if case["source"] in NAMED:
        given = {str(g): [f"x{d}" for d in columns] for g, columns in enumerate(groups)}
    settings = {key: case[key] for key in ("rule", "cost_sensitive", "schedule", "alpha")}
    bought = FeatureGroups(given, costs)
    if case["family"] in ("poisson", "squared"):
        loss = "poisson" if case["family"] == "poisson" else SQUARED
        model: Any = AnytimeRegressor(bought, loss=loss, **settings)
    else:
        model = AnytimeClassifier(bought, **settings)
    fit_from(case["source"], model, data)
    family = reference_glm.FAMILIES[case["family"]]
    found = reference.standardise(data.X, Y, data.w)
    Xs, w, targets = found.Xs, found.w / found.w.sum(), found.Yc + found.y_mean

    def scores(chosen: list[int], left: list[int]) -> dict[int, float]:
        return reference_glm.scores(family, Xs, targets, w, groups, chosen, case["rule"], case["alpha"], left)

    null = reference_glm.fit(family, Xs, targets, w, (), case["alpha"])[1]
    size = max(null - float(w @ family.saturated(targets)), 1e-12)
    order = model.order_.tolist()
    check_greedy(order, scores, costs, Limits(case["schedule"], case["cost_sensitive"]), 1e-9 * size)
    explained = np.cumsum(model.sequence_.gains)
    table = pd.DataFrame(data.X, columns=[f"x{d}" for d in range(data.X.shape[1])])
    for k in range(len(order)):
        columns = [d for g in order[: k + 1] for d in groups[g]]
        theta, risk = reference_glm.fit(family, Xs, targets, w, columns, case["alpha"])
        gain = null - risk
        assert abs(explained[k] - gain) <= 1e-9 * size, f"stage {k + 1} explains {explained[k]}, not {gain} of {size}"
        means = family.mean(theta[0] + Xs @ theta[1:])
        answer = _means(case, model, table if case["source"] in NAMED else data.X, k + 1)
        error = np.abs(answer - means).max() / max(1.0, np.abs(means).max())
        assert error <= 1e-6, f"stage {k + 1} predicts with an error of {error:.1e}"


def _means(case: Case, model: Any, X: Any, stage: int) -> np.ndarray:
    if case["family"] in ("poisson", "squared"):
        return np.asarray(model.predict(X, stage=stage))[:, None]
    found = np.asarray(model.predict_proba(X, stage=stage))
    assert np.abs(found.sum(axis=1) - 1).max() < 1e-12
    return found[:, 1:] if found.shape[1] == 2 else found
