"""Values: whatever groups are there, the runner predicts what the model predicts from them, and what the data say."""

import asyncio
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import reference
from runtime_extractors import COLUMNS, COSTS, data

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRegressorCV,
    AnytimeRunner,
    Extractor,
    GroupLassoPath,
)
from budgetline.model.calibration import Calibration

X, Y, NEW = data()
RNG = np.random.default_rng(1)
TARGETS = np.column_stack([Y, X @ RNG.normal(size=9) + RNG.normal(size=len(X)), RNG.normal(size=len(X))])
COUNTS = RNG.poisson(np.exp(0.3 * (X - X.mean(axis=0))[:, :3].sum(axis=1)))
TWO = (np.median(Y) < Y).astype(int)
THREE = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
FRAME = pd.DataFrame(X, columns=[f"c{d}" for d in range(9)])
NAMED = {name: [f"c{d}" for d in columns] for name, columns in COLUMNS.items()}


def calibrated(model, slopes):
    """Return an estimator whose stages are calibrated in some way."""
    shape = (1 + model.model_.n_stages, slopes)
    offsets = RNG.normal(size=shape[0]) if slopes == 2 else np.zeros(shape[0])
    model.model_ = replace(model.model_, calibration=Calibration(RNG.uniform(0.3, 2, shape), offsets))
    return model


MODELS = {
    "one target": lambda: AnytimeRegressor(COLUMNS, costs=COSTS).fit(X, Y),
    "frame": lambda: AnytimeRegressor(NAMED, costs=COSTS).fit(FRAME, Y),
    "several targets": lambda: AnytimeRegressor(COLUMNS, costs=COSTS, alpha=0.1).fit(X, TARGETS),
    "one column of targets": lambda: AnytimeRegressor(COLUMNS, costs=COSTS).fit(X, Y[:, None]),
    "truncated": lambda: AnytimeRegressor(COLUMNS, costs=COSTS, max_groups=3).fit(X, Y),
    "weighted": lambda: AnytimeRegressor(COLUMNS, costs=COSTS).fit(X, Y, sample_weight=np.arange(1.0, 81.0)),
    "cross-validated": lambda: AnytimeRegressorCV(COLUMNS, costs=COSTS, cv=3).fit(X, Y),
    "poisson": lambda: AnytimeRegressor(COLUMNS, costs=COSTS, loss="poisson", alpha=1e-2).fit(X, COUNTS),
    "two classes": lambda: AnytimeClassifier(COLUMNS, costs=COSTS, alpha=1e-2).fit(X, TWO),
    "names of two classes": lambda: AnytimeClassifier(NAMED, costs=COSTS, alpha=1e-2).fit(
        FRAME, np.array(["no", "yes"])[TWO]
    ),
    "objects as classes": lambda: AnytimeClassifier(COLUMNS, costs=COSTS, alpha=1e-2).fit(
        X, pd.Series(["no", "yes"], dtype=object).to_numpy()[TWO]
    ),
    "three classes": lambda: AnytimeClassifier(COLUMNS, costs=COSTS, alpha=1e-2).fit(X, THREE),
    "names of three classes": lambda: AnytimeClassifier(COLUMNS, costs=COSTS, alpha=1e-2, max_groups=4).fit(
        X, np.array(["red", "green", "blue"])[THREE]
    ),
    "calibrated classes": lambda: calibrated(AnytimeClassifier(COLUMNS, costs=COSTS, alpha=1e-2).fit(X, TWO), 2),
    "three calibrated classes": lambda: calibrated(
        AnytimeClassifier(COLUMNS, costs=COSTS, alpha=1e-2).fit(X, THREE), 1
    ),
    "group lasso": lambda: GroupLassoPath(COLUMNS, costs=COSTS).fit(X, Y),
}


class Row:
    """Computes a group from one row; it fails for the groups that the input leaves out."""

    def __init__(self, name):
        self.name = name

    def __call__(self, raw):
        row, present = raw
        if self.name not in present:
            raise ValueError("left out")
        return row[COLUMNS[self.name]]


def table(model, rows):
    return pd.DataFrame(rows, columns=FRAME.columns) if hasattr(model, "feature_names_in_") else rows


def ridge(model, groups, rows):
    """Return predictions of a ridge regression on the columns of these groups, from the data alone."""
    weight = np.arange(1.0, 81.0) if model is fitted("weighted") else None
    targets = TARGETS if model is fitted("several targets") else Y
    found = reference.standardise(X, targets, weight)
    columns = [d for name in groups for d in COLUMNS[name]]
    weights = reference.fit(found.Xs, found.Yc, found.w, columns, model.model_.alpha)
    return found.y_mean + (rows - found.x_mean) / found.x_scale @ weights


FITTED = {}


def fitted(kind):
    if kind not in FITTED:
        FITTED[kind] = MODELS[kind]()
    return FITTED[kind]


SQUARED = ("one target", "frame", "several targets", "one column of targets", "truncated", "weighted")


def agree(model, answer, rows, groups):
    """Compare the prediction of one row, or many, with the model of these groups."""
    one = len(rows) == 1 and np.ndim(answer.value) < np.ndim(model.predict(table(model, rows)))
    pick = (lambda values: values[0]) if one else (lambda values: values)
    expected = pick(model.predict(table(model, rows), available=groups))
    if hasattr(model, "classes_"):
        assert np.array_equal(answer.value, expected)
        chances = pick(model.predict_proba(table(model, rows), available=groups))
        np.testing.assert_allclose(answer.probabilities, chances, rtol=1e-9, atol=1e-12)
        assert np.shape(answer.probabilities) == np.shape(chances)
    else:
        np.testing.assert_allclose(answer.value, expected, rtol=1e-9)
        assert answer.probabilities is None
    assert np.shape(answer.value) == np.shape(expected)


@pytest.mark.parametrize("kind", MODELS)
def test_every_subset_of_groups_predicts_what_the_model_does(kind):
    model = fitted(kind)
    order = model.sequence_.groups
    runner = AnytimeRunner(model, {name: Row(name) for name in COLUMNS})
    for k in range(len(order) + 1):
        for groups in map(set, itertools.combinations(order, k)):
            row = NEW[(7 * k + len(groups)) % len(NEW)]
            answer = runner.predict((row, groups))
            assert set(answer.groups) == groups
            agree(model, answer, row[None], groups)
            if kind in SQUARED:
                np.testing.assert_allclose(np.ravel(answer.value), ridge(model, groups, row[None])[0], rtol=1e-7)


@pytest.mark.parametrize("several", [False, True])
def test_intervals_are_those_of_the_model(several):
    model = AnytimeRegressorCV(COLUMNS, costs=COSTS, cv=3).fit(X, TARGETS if several else Y)
    order = model.sequence_.groups
    runner = AnytimeRunner(model, {name: Row(name) for name in COLUMNS}, interval=0.8)
    for groups in map(set, itertools.combinations(order, 2)):
        answer = runner.predict((NEW[0], groups))
        bounds = model.predict_interval(NEW[:1], 0.8, available=groups)
        np.testing.assert_allclose(answer.interval, np.array(bounds)[:, 0], rtol=1e-9)
        assert several or type(answer.interval[0]) is float
    present = [set(order), {order[0]}, {order[1]}]
    many = runner.predict_many(list(zip(NEW[:3], present, strict=True)))
    for k, groups in enumerate(present):
        bounds = model.predict_interval(NEW[k : k + 1], 0.8, available=groups)
        np.testing.assert_allclose([many.interval[0][k], many.interval[1][k]], np.array(bounds)[:, 0], rtol=1e-9)
    assert AnytimeRunner(model, {name: Row(name) for name in COLUMNS}).predict((NEW[0], {order[0]})).interval is None
    with pytest.raises(ValueError, match="fit AnytimeRegressorCV"):
        AnytimeRunner(fitted("one target"), {name: Row(name) for name in COLUMNS}, interval=0.8)


@pytest.mark.parametrize("kind", MODELS)
def test_types_of_values_are_those_of_python(kind):
    model = fitted(kind)
    answer = AnytimeRunner(model, {name: Row(name) for name in COLUMNS}).predict((NEW[0], set(COLUMNS)))
    if "names" in kind or "objects" in kind:
        assert type(answer.value) is str
    elif "classes" in kind:
        assert type(answer.value) is int
    elif "targets" not in kind:
        assert type(answer.value) is float


@pytest.mark.parametrize("kind", MODELS)
def test_streams_go_through_the_stages(kind):
    model = fitted(kind)
    runner = AnytimeRunner(model, {name: Row(name) for name in COLUMNS})
    raw = NEW[3], set(COLUMNS)

    async def collect():
        return [answer async for answer in runner.astream(raw)]

    for answers in (list(runner.stream(raw)), asyncio.run(collect())):
        assert len(answers) == 1 + model.model_.stages.n_stages
        for stage, answer in enumerate(answers):
            assert answer.stage == stage
            agree(model, answer, NEW[[3]], set(model.sequence_.groups[:stage]))


@pytest.mark.parametrize("kind", MODELS)
def test_many_rows(kind):
    model = fitted(kind)

    def compute(name):
        return Extractor(lambda raws: np.array([row[COLUMNS[name]] for row, _ in raws]), batch=True)

    rows = np.vstack([NEW, X])
    raws = [(row, set(COLUMNS)) for row in rows]
    for extractors in ({n: Row(n) for n in COLUMNS}, {n: compute(n) for n in COLUMNS}):
        answer = AnytimeRunner(model, extractors).predict_many(raws)
        agree(model, answer, rows, set(model.sequence_.groups))


@pytest.mark.parametrize("kind", MODELS)
def test_rows_that_lack_groups(kind):
    """Every row lacks a random set of groups: each is predicted from the groups that it has."""
    model = fitted(kind)
    order = model.sequence_.groups
    rng = np.random.default_rng(5)
    rows = X[:15]
    present = [{name for name in order if rng.random() < 0.6} for _ in rows]
    runner = AnytimeRunner(model, {name: Row(name) for name in COLUMNS})
    answer = runner.predict_many(list(zip(rows, present, strict=True)))
    for i, (row, own) in enumerate(zip(rows, present, strict=True)):
        expected = model.predict(table(model, row[None]), available=own)[0]
        if hasattr(model, "classes_"):
            assert answer.value[i] == expected
            chances = model.predict_proba(table(model, row[None]), available=own)[0]
            np.testing.assert_allclose(answer.probabilities[i], chances, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_allclose(answer.value[i], expected, rtol=1e-9)
    for name in order:
        lacking = [i for i, own in enumerate(present) if name not in own]
        assert answer.faults[name].rows.tolist() == lacking


@pytest.mark.parametrize("kind", ["one target", "two classes", "three classes", "several targets"])
def test_what_extractors_may_return(kind):
    """Lists, tuples, arrays of any number type, one number for one column, a row of shape (1, width)."""
    model = fitted(kind)
    row = np.round(NEW[0] * 4)
    forms = (
        list,
        tuple,
        lambda v: v.astype(np.float32),
        lambda v: v.astype(np.int16),
        lambda v: v[None],
        lambda v: v[::-1][::-1],
        lambda v: v.tolist()[0] if v.size == 1 else v,
        lambda v: np.float64(v[0]) if v.size == 1 else v,
        lambda v: np.asfortranarray(v),
        pd.Series,
    )
    for form in forms:
        extractors = {n: (lambda raw, n=n, form=form: form(raw[COLUMNS[n]])) for n in COLUMNS}
        answer = AnytimeRunner(model, extractors).predict(row)
        assert not answer.faults, answer.faults
        agree(model, answer, row[None], set(COLUMNS))


@pytest.mark.parametrize("kind", ["frame", "three classes"])
def test_a_model_predicts_as_its_estimator_does(kind):
    model = fitted(kind)
    runners = [AnytimeRunner(given, {name: Row(name) for name in COLUMNS}) for given in (model, model.model_)]
    for groups in (set(COLUMNS), {"a", "d"}):
        one, other = (runner.predict((NEW[0], groups)) for runner in runners)
        assert (one.value, one.groups) == (other.value, other.groups)
        np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_booleans_are_numbers():
    model = fitted("one target")
    answer = AnytimeRunner(
        model, {name: (lambda raw, name=name: np.ones(len(COLUMNS[name]), bool)) for name in COLUMNS}
    )
    agree(model, answer.predict(0), np.ones((1, 9)), set(COLUMNS))


def test_names_decide_over_the_order():
    model = fitted("frame")
    extractors = {n: (lambda raw: dict(reversed(list(zip(FRAME.columns, raw, strict=True))))) for n in COLUMNS}
    answer = AnytimeRunner(model, extractors).predict(NEW[0])
    agree(model, answer, NEW[:1], set(COLUMNS))
    unnamed = AnytimeRunner(fitted("one target"), extractors).predict(NEW[0])
    assert {fault.kind for fault in unnamed.faults.values()} == {"type"}


def test_large_values_are_finite():
    """The sum of their squares is not, and that is how tables are checked first."""
    model = fitted("one target")
    for batch in (False, True):

        def compute(raw, batch=batch):
            return np.full((len(raw), 1) if batch else 1, 1e200)

        extractors = {n: Row(n) for n in COLUMNS} | {"b": Extractor(compute, batch=batch)}
        answer = AnytimeRunner(model, extractors).predict_many([(x, set(COLUMNS)) for x in NEW])
        assert not answer.faults
        rows = NEW.copy()
        rows[:, COLUMNS["b"]] = 1e200
        agree(model, answer, rows, set(COLUMNS))


def test_inputs_are_not_changed():
    model = fitted("one target")
    rows = NEW.copy()
    rows.setflags(write=False)
    known = {"a": NEW[:, COLUMNS["a"]].copy()}
    known["a"].setflags(write=False)
    extractors = {name: (lambda raw, name=name: raw[COLUMNS[name]]) for name in COLUMNS}
    answer = AnytimeRunner(model, extractors).predict_many(rows, known=known)
    agree(model, answer, NEW, set(COLUMNS))
