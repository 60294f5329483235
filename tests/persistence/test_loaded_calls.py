"""Models from files: random calls must return the same bits as the models that were saved."""

from random import Random

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FeatureGroups, load, save
from budgetline.datasets import load_bank, load_heart, load_thyroid


def heart():
    data = load_heart()
    return AnytimeClassifier(data.feature_groups, alpha=1e-3), data.data, data.target


def thyroid():
    """Return three classes, with shared costs."""
    data = load_thyroid(tests="single")
    rows = np.arange(0, len(data.data), 7)
    return (
        AnytimeClassifier(data.feature_groups, rule="omp", alpha=1e-3, max_groups=7),
        data.data[rows],
        data.target[rows],
    )


def bank():
    """Return a raw table with pairs of columns and a group that requires another."""
    data = load_bank()
    X = pd.DataFrame(data.data)[:600].reset_index(drop=True)
    groups = FeatureGroups({name: [name] for name in X}, requires={X.columns[0]: [X.columns[1]]})
    encoding = Encoding("linear", interactions=3)
    return AnytimeClassifier(groups, encoding=encoding, rule="omp"), X, np.asarray(data.target)[:600]


def cancer():
    """Return classes that are nearly separable, and hardly any ridge."""
    data = load_breast_cancer()
    groups = [list(range(k, 30, 10)) for k in range(10)]
    return AnytimeClassifier(groups, rule="omp", alpha=1e-8), data.data, data.target


def counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6)))
    y = rng.poisson(np.exp(X @ rng.normal(size=6) / 3))
    groups = FeatureGroups([[0], [1, 2], [3], [4, 5]], [1, 2, 1, 3], shared={"visit": (1.0, ["0", "3"])})
    return AnytimeRegressor(groups, loss="poisson", alpha=1e-3), X, y


def many():
    """Return squared error of so many columns that their arrays are packed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 120)) @ (np.eye(120) + 0.1 * rng.normal(size=(120, 120)))
    groups = [list(range(k, 120, 6)) for k in range(6)]
    return AnytimeRegressor(groups, alpha=1e-3), X, X @ rng.normal(size=120) + rng.normal(size=400)


def many_classes():
    """Return the same of two classes."""
    model, X, y = many()
    return AnytimeClassifier(model.feature_groups, rule="score", alpha=0.1), X, (y > 0).astype(int)


TABLES = (heart, thyroid, bank, cancer, counts, many, many_classes)


def with_missing(X, groups, rng):
    """Return twenty rows without some groups."""
    rows, columns = pd.DataFrame(X)[:20].copy(), groups.resolve(getattr(X, "columns", None), X.shape[1]).columns
    for row in range(20):
        gone = [own for own in columns if rng.random() < 0.3]
        rows.iloc[row, [d for own in gone for d in own]] = None
    return rows if isinstance(X, pd.DataFrame) else rows.to_numpy()


def random_call(model, X, given, rng):
    """Return what to call, its arguments and its keywords."""
    names = list(given.names)
    some = rng.sample(names, rng.randint(0, len(names)))
    some = [name for name in some if name in model.sequence_.groups]
    own = [name for name in model.sequence_.groups if rng.random() < 0.5]
    rows, classes = X[:20], hasattr(model, "classes_")
    method = rng.choice(["predict", "predict_proba", "decision_function"]) if classes else "predict"
    budget = rng.random() * model.sequence_.cumulative_costs[-1]
    ways = [
        (method, (rows,), {"available": own}),
        (method, (with_missing(X, given, rng),), {"available": "auto"}),
        (method, (with_missing(X, given, rng),), {"available": "auto", "budget": budget}),
        (method, (rows,), {"budget": budget}),
        (method, (rows,), {"stage": rng.randint(0, len(model.sequence_))}),
        ("next_groups", (some,), {}),
        ("next_groups", (some,), {"budget": budget}),
        ("plan", (budget,), {"time_limit": 60}),
    ]
    if classes:
        ways.append(("next_groups", (some,), {"X": rows}))
    weights = [4, 4, 2, 2, 1, 3, 2, 1, 3][: len(ways)]
    return rng.choices(ways, weights)[0]


def bits(found, X):
    """Return what a call returned as bytes and text, which say all of it."""
    if isinstance(found, np.ndarray):
        return found.tobytes() if found.dtype.kind == "f" else found.tolist()
    if hasattr(found, "model_"):
        return found.groups, found.cost.hex(), found.explained.hex(), found.model_.scored(X[:20])[0].tobytes()
    chances = None if found.chances is None else found.chances.tobytes()
    return found.groups, found.along, found.costs.tobytes(), found.gains.tobytes(), chances, found.unknown


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("n_calls", [9, pytest.param(200, marks=pytest.mark.slow)])
def test_random_calls_return_the_same_bits(table, n_calls, tmp_path):
    model, X, y = table()
    model.fit(X, y)
    save(model, tmp_path / "m")
    loaded, rng = load(tmp_path / "m"), Random(n_calls)
    given = model.model_.source.groups
    given = FeatureGroups({name: own for name, own in zip(given.names, given.columns, strict=True) if len(own)})
    for _ in range(n_calls):
        method, arguments, keywords = random_call(model, X, given, rng)
        expected, found = (bits(getattr(each, method)(*arguments, **keywords), X) for each in (model, loaded))
        assert found == expected, (method, arguments[0] if method != "predict" else "", list(keywords))
