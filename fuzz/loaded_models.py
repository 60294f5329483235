"""Saved and loaded models: every call must return the same bits as the model in memory, from any groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    Encoding,
    FeatureGroups,
    GroupLassoPath,
)
from fuzz.trials import Case

LABELS = (["no", "yes"], [3, -7], ["a", "b", "c"], [1, 2, 3, 4])
CALLS = 12


def draw(seed: int) -> Case:
    """Return the settings of a random model."""
    rng = Random(seed)
    J = rng.randint(1, 6)
    kind = rng.choice(["classes", "classes", "classes", "counts", "numbers", "two numbers", "lasso"])
    raw = kind != "lasso" and rng.random() < 0.5
    return {
        "seed": seed,
        "kind": kind,
        "labels": rng.randrange(len(LABELS)),
        "groups": J,
        "n": rng.choice([30, 60, 400]),
        "separable": rng.random() < 0.3,
        "encoding": rng.choice(["linear", "spline"]) if raw else None,
        "pairs": rng.choice([0, 0, 1, 2]) if raw else 0,
        "shared": rng.random() < 0.4,
        "requires": rng.random() < 0.4,
        "weights": rng.random() < 0.3,
        "search": kind in ("classes", "numbers") and rng.random() < 0.2,
        "max_groups": rng.choice([None, None, 2]),
        "alpha": rng.choice([1e-8, 1e-4, 1e-2, "auto"]),
    }


def smaller(case: Case) -> Iterator[Case]:
    """Yield simpler models."""
    plain = {"weights": False, "requires": False, "shared": False, "pairs": 0, "encoding": None, "search": False}
    for key, value in plain.items():
        if case[key] != value and (key != "encoding" or not case["pairs"]):
            yield {**case, key: value}


def check(case: Case) -> None:
    """Save and load a model, and compare random calls."""
    X, y, weight = _data(case)
    model = _model(case).fit(X, y, **({} if weight is None else {"sample_weight": weight}))
    with TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / "model"
        budgetline.save(model, path)
        again = budgetline.load(path)
    rng = Random(case["seed"])
    for _ in range(CALLS):
        text, call = _call(case, X, list(model.feature_groups_.names), model, rng)
        expected, found = call(model), call(again)
        assert _same(expected, found), f"{text} differs after a trip through a file"


def _data(case: Case) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return a table with one or two columns per group, targets, and weights."""
    rng = np.random.default_rng(case["seed"])
    n, D = case["n"], len(_columns(case))
    Z = rng.normal(size=(n, D)) @ (np.eye(D) + 0.3 * rng.normal(size=(D, D)))
    score = Z @ rng.normal(size=D)
    score = 2 * (score - score.mean()) / score.std()
    noisy = score + (0 if case["separable"] else 1) * rng.logistic(size=n)
    if case["kind"] == "classes":
        labels = LABELS[case["labels"]]
        y = np.array(labels)[np.digitize(noisy, np.quantile(noisy, np.arange(1, len(labels)) / len(labels)))]
    elif case["kind"] == "counts":
        y = rng.poisson(np.exp(score / 2)).astype(float)
        y[0] += 1
    else:
        y = np.column_stack([noisy, score**2]) if case["kind"] == "two numbers" else noisy
    weight = rng.integers(1, 4, size=n).astype(float) if case["weights"] else None
    if case["encoding"] is None:
        return Z, y, weight
    X = pd.DataFrame(Z, columns=[f"x{d}" for d in range(D)])
    X["x0"] = pd.cut(X["x0"], 3, labels=["low", "middle", "high"]).astype(str)
    X = X.mask(rng.random(X.shape) < 0.05)
    return X, y, weight


def _columns(case: Case) -> list[int]:
    """Return the group of every column: some groups have two."""
    return [g for g in range(case["groups"]) for _ in range(1 + g % 2)]


def _model(case: Case) -> Any:
    groups, J, own = _columns(case), case["groups"], Random(case["seed"] + 1)
    label = (lambda d: d) if case["encoding"] is None else (lambda d: f"x{d}")
    members = {f"g{g}": [label(d) for d, of in enumerate(groups) if of == g] for g in range(J)}
    several = J > 1
    shared = {"visit": (2.0, ["g0", f"g{J - 1}"])} if case["shared"] and several else {}
    requires = {f"g{J - 1}": ["g0"]} if case["requires"] and several else {}
    prices = [own.choice([0.5, 1.0, 3.0]) for _ in range(J)]
    given = FeatureGroups(members, prices, shared=shared, requires=requires)
    encoding = None if case["encoding"] is None else Encoding(case["encoding"], interactions=case["pairs"])
    options: dict[str, Any] = {"encoding": encoding, "max_groups": case["max_groups"]}
    if case["kind"] == "lasso":
        alpha = 1e-3 if case["alpha"] == "auto" else case["alpha"]
        return GroupLassoPath(given, alpha=alpha, n_lambdas=10)
    classes = case["kind"] == "classes"
    if case["search"]:
        return (AnytimeClassifierCV if classes else AnytimeRegressorCV)(given, alphas=[1e-4, 1e-2], cv=2, **options)
    options["alpha"] = case["alpha"]
    if classes:
        return AnytimeClassifier(given, **options)
    return AnytimeRegressor(given, loss="poisson" if case["kind"] == "counts" else "squared_error", **options)


def _call(case: Case, X: Any, names: list[str], model: Any, rng: Random) -> tuple[str, Callable[[Any], Any]]:
    """Return a random call and its description."""
    classes = case["kind"] == "classes"
    some = [name for name in names if rng.random() < 0.5]
    method = rng.choice(["predict", "predict_proba", "decision_function"]) if classes else "predict"
    stage = rng.randint(0, len(model.sequence_))
    budget = rng.choice([0.0, 1.0, 2.5, 100.0])
    ways: list[tuple[str, Callable[[Any], Any]]] = [
        (f"{method}(available={some})", lambda m: getattr(m, method)(X, available=some)),
        (f"{method}(available={some[:1]})", lambda m: getattr(m, method)(X, available=some[:1])),
        (f"{method}(stage={stage})", lambda m: getattr(m, method)(X, stage=stage)),
        (f"{method}(budget={budget})", lambda m: getattr(m, method)(X, budget=budget)),
        ("auto", lambda m: getattr(m, method)(_with_missing(case, X), available="auto")),
        (f"next_groups({some})", lambda m: m.next_groups(some).to_dict()),
        (f"next_groups({some}, budget={budget})", lambda m: m.next_groups(some, budget=budget).to_dict()),
        ("staged_predict", lambda m: list(m.staged_predict(X))),
        (f"effects(stage={stage})", lambda m: m.effects(stage=stage).to_dict()),
        (f"plan({budget})", lambda m: _planned(m.plan(budget, time_limit=60), X)),
    ]
    if classes:
        ways.append((f"next_groups({some}, X=)", lambda m: m.next_groups(some, X=X[:5]).to_dict()))
    return rng.choice(ways)


def _planned(plan: Any, X: Any) -> list[Any]:
    return [list(plan.groups), plan.cost, plan.explained, plan.model_.scored(X)[0]]


def _with_missing(case: Case, X: Any) -> Any:
    """Return the table without some groups of some rows."""
    rng, groups = np.random.default_rng(case["seed"]), np.array(_columns(case))
    gone = (rng.random((len(X), case["groups"])) < 0.3)[:, groups]
    return X.mask(gone) if case["encoding"] else np.where(gone, np.nan, X)


def _same(a: Any, b: Any) -> bool:
    """Return whether two results are equal to the last bit; NaN equals NaN."""
    if isinstance(a, dict):
        return set(a) == set(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    x, z = np.asarray(a), np.asarray(b)
    if x.dtype.kind == "f":
        return x.shape == z.shape and x.tobytes() == z.tobytes()
    return bool(np.array_equal(x, z))
