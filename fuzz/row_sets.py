"""Random rankings and survival times: every stage is the minimum of a risk that is summed set by set."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from set_references import listwise, partial_likelihood

from budgetline import AnytimeRanker, AnytimeSurvival, FeatureGroups, load, open_data, save
from fuzz.trials import Case

RULES = ("omp", "score", "forward", "no-whiten", "single", "static")


def draw(seed: int) -> Case:
    """Return the settings of a random problem."""
    rng = Random(seed)
    sizes = [rng.choice([1, 1, 2, 3]) for _ in range(rng.randint(1, 4))]
    kind = rng.choice(["ranking", "survival"])
    streamed = kind == "ranking" and rng.random() < 0.3
    return {
        "seed": seed,
        "kind": kind,
        "streamed": streamed,
        "sizes": sizes,
        "n": rng.randint(20, 80),
        "sets": rng.randint(2, 8),
        "grades": rng.choice([1, 2, 4]),
        "times": rng.choice([2, 8, 1000]),
        "events": rng.choice([0.2, 0.6, 1.0]),
        "strata": rng.choice([1, 1, 3]),
        "ties": rng.choice(["efron", "breslow"]),
        "weights": rng.choice([None, "any", "zeros"]),
        "units": rng.choice([0, 0, 6]),
        "rule": rng.choice(
            ["omp", "score"] if streamed else ["forward", "omp", "score", "no-whiten", "single", "static"]
        ),
        "alpha": rng.choice([1e-3, 1e-2, 0.1, 1.0]),
    }


def smaller(case: Case) -> Iterator[Case]:
    """Yield simpler problems."""
    plain = {"streamed": False, "weights": None, "units": 0, "strata": 1, "ties": "breslow", "rule": "forward"}
    for key, value in plain.items():
        if case[key] != value:
            yield {**case, key: value}
    if len(case["sizes"]) > 1:
        yield {**case, "sizes": case["sizes"][:-1]}


def check(case: Case) -> None:
    """Fit, and compare every stage with the minimum of the risk on its groups; a file must predict the same bits."""
    rng, n, D = np.random.default_rng(case["seed"]), case["n"], sum(case["sizes"])
    X = rng.standard_normal((n, D)) * 10.0 ** rng.uniform(-case["units"], case["units"], D)
    ends = np.cumsum(case["sizes"]).tolist()
    groups = [list(range(end - size, end)) for size, end in zip(case["sizes"], ends, strict=True)]
    bought = FeatureGroups(groups, rng.uniform(0.1, 3.0, len(groups)).tolist())
    settings = {key: case[key] for key in ("rule", "alpha")}
    model: Any
    if case["kind"] == "ranking":
        qid = np.sort(rng.integers(0, case["sets"], n))
        y = rng.integers(0, case["grades"] + 1, n)
        qid[-2:], y[-2:] = case["sets"], [0, 1]
        weight = _weights(rng, case["weights"], case["sets"] + 1)[qid]
        model = AnytimeRanker(bought, **settings)
        if case["streamed"]:
            table = pd.DataFrame(X).add_prefix("x").assign(y=y, qid=qid, w=weight)
            model.fit(open_data(table, target="y", qid="qid", weight="w", chunk_rows=n))
        else:
            order = rng.permutation(n)
            model.fit(X[order], y[order], weight[order], qid=qid[order])
        risk = lambda eta: listwise(eta, y, qid, weight / weight.sum())  # noqa: E731
    else:
        time, event = np.ceil(rng.exponential(case["times"], n)), rng.random(n) < case["events"]
        stratum, weight = rng.integers(0, case["strata"], n), _weights(rng, case["weights"], n)
        time[:2], event[0], stratum[:2], weight[:2] = [1.0, 5.0], True, 0, 1.0  # one event with a row at risk
        model = AnytimeSurvival(bought, ties=case["ties"], **settings).fit(X, time, event, weight, strata=stratum)
        share, efron = weight / weight.sum(), case["ties"] == "efron"
        risk = lambda eta: partial_likelihood(eta, time, event, stratum, share, efron)  # noqa: E731
    _check_stages(model, X, groups, weight, risk)
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "m")
        np.testing.assert_array_equal(load(Path(folder) / "m").predict(X), model.predict(X))


def _weights(rng: np.random.Generator, kind: str | None, n: int) -> np.ndarray:
    weight = np.ones(n) if kind is None else rng.uniform(0.1, 2.0, n)
    weight[:-1] *= rng.random(n - 1) > (0.2 if kind == "zeros" else 0.0)
    return weight


def _check_stages(model: Any, X: np.ndarray, groups: list[list[int]], weight: np.ndarray, risk: Any) -> None:
    share = weight / weight.sum()
    mean = share @ X
    scale = np.sqrt(share @ (X - mean) ** 2)
    Z, columns, before = (X - mean) / scale, list[int](), risk(np.zeros(len(X)))
    assert sorted(model.sequence_.groups) == sorted(map(str, range(len(groups))))
    for stage, name in enumerate(model.sequence_.groups):
        columns += groups[int(name)]

        def loss(w: np.ndarray, c: tuple[int, ...] = tuple(columns)) -> float:
            return float(risk(Z[:, c] @ w) + model.alpha / 2 * w @ w)

        ours = model.coef_path_[stage, columns] * scale[columns]
        found = minimize(loss, np.zeros(len(columns)), method="BFGS", options={"gtol": 1e-9})
        assert abs(loss(ours) - found.fun) < 1e-8
        assert abs(before - found.fun - model.sequence_.gains[: stage + 1].sum()) < 1e-8
        np.testing.assert_allclose(ours, found.x, atol=1e-3)
