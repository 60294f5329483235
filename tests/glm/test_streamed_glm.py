"""Generalised linear models over sources: those of the array in memory, in as few passes as are counted."""

import re
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from engines import ENGINES, fit_with
from sklearn.exceptions import ConvergenceWarning

from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, open_data
from budgetline.data.sources import ArrayPartition
from budgetline.glm import ConvexLoss
from budgetline.glm.families import Poisson
from budgetline.glm.source_engine import SourceEngine
from budgetline.moments.passes import ChunkMoments, Passes

pytestmark = pytest.mark.quick_cases(4)

RULES = ["score", "omp", "no-whiten", "single", "static"]
LOSSES = ["logistic", "softmax", "poisson", "convex"]
GROUPS, COSTS = [[0, 3], [1], [2, 4], [5]], [2.0, 1.0, 3.0, 0.5]


def softplus():
    """Logistic loss as a user would write it."""
    return ConvexLoss(
        lambda eta: np.logaddexp(0, eta),
        lambda eta: (1 + np.tanh(eta / 2)) / 2,
        lambda eta: (1 - np.tanh(eta / 2) ** 2) / 4,
    )


def problem(loss, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6)))
    scores = X @ rng.normal(size=(6, 3)) / 2
    w = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.5, 2.0, n))
    if loss == "softmax":
        y = np.array(["north", "south", "west"])[(scores + rng.gumbel(size=(n, 3))).argmax(axis=1)]
    elif loss == "logistic":
        y = np.array(["no", "yes"])[(scores[:, 0] + rng.logistic(size=n) > 0).astype(int)]
    elif loss == "poisson":
        y = rng.poisson(np.exp(scores[:, 0] / 2)).astype(float)
    else:
        y = (scores[:, 0] + rng.logistic(size=n) > 0).astype(float)
    return X + 5, y, w


def make(loss, groups=GROUPS, costs=COSTS, **settings):
    settings = {"alpha": 1e-3, "rule": "score"} | settings
    if loss in ("poisson", "convex"):
        return AnytimeRegressor(groups, costs, loss="poisson" if loss == "poisson" else softplus(), **settings)
    return AnytimeClassifier(groups, costs, **settings)


def assert_same(found, wanted, digits=1e-8):
    assert found.sequence_.groups == wanted.sequence_.groups
    assert found.coef_path_.shape == wanted.coef_path_.shape
    for name in ("coef_path_", "intercept_path_"):
        a, b = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(a, b, rtol=0, atol=digits * np.abs(b).max())
    np.testing.assert_allclose(found.sequence_.gains, wanted.sequence_.gains, rtol=1e-6, atol=1e-10)
    assert found.sequence_.explained == pytest.approx(wanted.sequence_.explained, abs=1e-8)


def answers(model, X, **choice):
    return model.predict_proba(X, **choice) if isinstance(model, AnytimeClassifier) else model.predict(X, **choice)


@pytest.mark.quick_cases(14)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", LOSSES)
def test_streamed_is_what_fits_in_memory(loss, rule, weighted):
    X, y, w = problem(loss)
    w = w if weighted else None
    found = make(loss, rule=rule).fit(open_data((X, y, w), chunk_rows=70))
    wanted = make(loss, rule=rule).fit(X, y, w)
    assert_same(found, wanted)
    for available in (["0"], ["1", "3"], ["2", "0"], []):
        np.testing.assert_allclose(
            answers(found, X, available=available), answers(wanted, X, available=available), rtol=1e-5, atol=1e-7
        )
    for stage in range(5):
        np.testing.assert_allclose(answers(found, X, stage=stage), answers(wanted, X, stage=stage), rtol=1e-7)
    if isinstance(found, AnytimeClassifier):
        assert found.classes_.tolist() == wanted.classes_.tolist()
        np.testing.assert_array_equal(found.predict(X), wanted.predict(X))


class Spying:
    """Counts how often the first rows are read."""

    def __init__(self, monkeypatch):
        self.passes, original = 0, ArrayPartition.chunks

        def chunks(partition, columns):
            self.passes += partition.start == 0
            return original(partition, columns)

        monkeypatch.setattr(ArrayPartition, "chunks", chunks)


@pytest.mark.parametrize("loss", LOSSES)
def test_passes_are_counted_and_few(monkeypatch, loss):
    X, y, w = problem(loss)
    spy = Spying(monkeypatch)
    model = make(loss).fit(open_data((X, y, w), chunk_rows=70))
    assert model.n_passes_ == spy.passes
    stages = len(model.order_)
    assert model.n_passes_ <= 3 + 5 * (stages + 1)
    model.fit(X, y, w)
    assert not hasattr(model, "n_passes_")


@pytest.mark.parametrize("loss", ["logistic", "softmax", "poisson"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "pandas", "function"])
def test_every_kind_of_source_that_can_be_read_again(tmp_path, loss, kind):
    X, y, w = problem(loss)
    names = [f"x{d}" for d in range(6)]
    frame = pd.DataFrame(X, columns=names).assign(label=y, w=w, note="text")
    groups = FeatureGroups([[names[d] for d in group] for group in GROUPS], COSTS, remainder="drop")
    if kind == "function":
        source = open_data(lambda: ((f[names], f["label"], f["w"]) for f in (frame[:100], frame[100:101], frame[101:])))
    else:
        data = frame
        if kind == "parquet":
            data = tmp_path / "a.parquet"
            frame.to_parquet(data, index=False, row_group_size=90)
        elif kind == "csv":
            data = tmp_path / "a.csv"
            frame.to_csv(data, index=False)
        source = open_data(data, "label", weight="w", chunk_rows=50)
    found = make(loss, groups, None).fit(source)
    wanted = make(loss, groups, None).fit(frame[names], y, w)
    assert found.sequence_.groups == wanted.sequence_.groups
    np.testing.assert_allclose(found.coef_[..., :6], wanted.coef_, rtol=1e-7, atol=1e-9)


def test_labels_may_first_appear_in_a_later_chunk():
    X, y, _ = problem("softmax")
    order = np.argsort(y, kind="stable")  # one class after another
    X, y = X[order], y[order]
    found = make("softmax").fit(open_data((X, y), chunk_rows=40))
    assert found.classes_.tolist() == ["north", "south", "west"]
    assert_same(found, make("softmax").fit(X, y))


@pytest.mark.parametrize("dtype", ["int64", "bool", "float64", "object"])
def test_labels_of_other_kinds(dtype):
    X, y, _ = problem("convex")
    y = np.array(["0", "1"], dtype=object)[y.astype(int)] if dtype == "object" else y.astype(dtype)
    found = make("logistic").fit(open_data((X, y), chunk_rows=40))
    wanted = make("logistic").fit(X, y)
    assert_same(found, wanted)
    np.testing.assert_array_equal(found.classes_.astype(float), wanted.classes_.astype(float))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([["a", "b"], [1, 2]], "mixes labels"),
        ([[True, False], ["a", "b"]], "mixes labels"),
        ([[0.0, 1.0], [np.nan, 1.0]], "chunk 1: Input y contains NaN"),
        ([["a", "b"], np.array(["a", None], dtype=object)], "chunk 1"),
        ([["a", "a"], ["a", "a"]], "only one class"),
        ([[0.5, 1.5], [0.25, 0.1]], "continuous"),
        ([[[0, 1], [1, 0]], [[0, 1], [1, 0]]], "one target"),
    ],
)
def test_labels_that_are_none(labels, message):
    chunks = [(np.arange(4.0).reshape(2, 2), np.asarray(part)) for part in labels]
    model = AnytimeClassifier(rule="omp")
    with pytest.raises(ValueError, match=message):
        model.fit(open_data(lambda: iter(chunks)))
    assert not hasattr(model, "classes_")


def test_a_class_without_weight_is_an_error_in_memory_and_streamed():
    X, y, w = problem("softmax")
    w = np.where(y == "west", 0.0, 1.0)
    for fit in (lambda m: m.fit(X, y, w), lambda m: m.fit(open_data((X, y, w), chunk_rows=100))):
        with pytest.raises(ValueError, match="class 'west' has no sample of positive weight"):
            fit(make("softmax"))


def test_one_target_as_a_matrix_is_a_vector():
    X, y, _ = problem("poisson")
    found = make("poisson").fit(open_data((X, y[:, None]), chunk_rows=50))
    assert_same(found, make("poisson").fit(X, y))
    assert found.predict(X).shape == (300,)


def test_chunks_without_weight_or_counts_are_no_error():
    X, y, w = problem("poisson")
    order = np.argsort(y, kind="stable")  # the first chunks hold zeros only
    X, y, w = X[order], y[order], w[order]
    w[100:150] = 0
    assert not y[:50].any()
    found = make("poisson").fit(open_data((X, y, w), chunk_rows=50))
    assert_same(found, make("poisson").fit(X, y, w))


def test_targets_that_are_no_counts_are_located(tmp_path):
    X, y, _ = problem("poisson")
    y[170] = -1
    with pytest.raises(ValueError, match=r"rows 150 to 199: .*negative"):
        make("poisson").fit(open_data((X, y), chunk_rows=50))
    with pytest.raises(ValueError, match="zero everywhere"):
        make("poisson").fit(open_data((X, np.zeros(300)), chunk_rows=50))


@pytest.mark.parametrize("loss", LOSSES)
def test_forward_regression_is_refused_before_the_first_pass(monkeypatch, loss):
    X, y, _ = problem(loss)
    spy = Spying(monkeypatch)
    with pytest.raises(ValueError, match="use rule='score' or 'omp'"):
        make(loss, rule="forward").fit(open_data((X, y)))
    assert spy.passes == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_an_iterator_is_refused(loss):
    X, y, _ = problem(loss)
    with pytest.raises(ValueError, match="pass a function that makes one"):
        make(loss).fit(open_data(iter([(X, y)])))


def test_what_is_not_for_sources():
    X, y, _ = problem("logistic")
    with pytest.raises(ValueError, match="pass the weights as a column"):
        make("logistic", class_weight="balanced").fit(open_data((X, y)))
    with pytest.raises(ValueError, match="one target"):
        make("poisson").fit(open_data((X, np.ones((300, 2)))))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("rule", ["score", "omp"])
def test_separable_classes_end_with_a_warning(loss, rule, engine):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] > 0).astype(int) if loss == "logistic" else np.digitize(X[:, 0], [-0.5, 0.5])
    with pytest.warns(ConvergenceWarning, match=re.escape("Raise alpha")):
        model = fit_with(engine, make(loss, [[0], [1]], None, alpha=0, rule=rule), X, y)
    assert np.isfinite(model.coef_path_).all()
    assert engine == "memory" or model.n_passes_ < 200
    assert (model.predict(X) == y).mean() > 0.95


@pytest.mark.parametrize("engine", ENGINES)
def test_a_far_sample_and_columns_that_repeat_others_are_no_reason_to_warn(engine):
    X, y, _ = problem("logistic")
    X[:, 1] = X[:, 0]  # no curvature in a direction, from the start
    X[0, 2] = 5e3 * (1 if y[0] == "yes" else -1)  # fitted perfectly, while the others hold the coefficients
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_with(engine, make("logistic", alpha=0, rule="omp"), X, y)


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("limit", [{"min_gain": 0.02}, {"max_cost": 3.0}, {"max_groups": 2}])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_limits_end_the_sequence_as_in_memory(loss, limit, engine):
    X, y, w = problem(loss)
    found = fit_with(engine, make(loss, **limit), X, y, w)
    wanted = make(loss, **limit).fit(X, y, w)
    assert_same(found, wanted)
    assert 0 < len(found.order_) < 4


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_constant_and_twin_columns(loss):
    X, y, _ = problem(loss)
    X[:, 5] = 7.0
    X[:, 1] = X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = make(loss).fit(open_data((X.astype(np.float32), y), chunk_rows=70))
    assert not found.coef_path_[:, 5].any()
    assert_same(found, make(loss).fit(X.astype(np.float32), y), 1e-6)


def test_nothing_to_learn():
    """Targets that no column explains any better than the intercept."""
    X = np.tile([[0.0], [1.0]], (20, 1))
    y = np.repeat([0, 1], 20)
    found = AnytimeClassifier(rule="score").fit(open_data((X, y), chunk_rows=7))
    wanted = AnytimeClassifier(rule="score").fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), wanted.predict_proba(X), atol=1e-9)
    assert found.sequence_.groups == wanted.sequence_.groups


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y, _ = problem("logistic")
    model = make("logistic").fit(open_data((X, y)))
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(open_data((np.where(X > 6, np.nan, X), y), chunk_rows=100))
    assert vars(model) == before


class Cautious(Poisson):
    """A loss that refuses the target 1."""

    def check(self, Y):
        if np.any(Y == 1):
            raise ValueError("1 is no target")


@pytest.mark.parametrize("refused", [False, True])
def test_a_source_is_checked_by_its_own_targets_alone(refused):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40.0) % 4 * 2
    y[5] = 1 if refused else 2
    passes = Passes(open_data((X, y), chunk_rows=7))
    moments = passes.total(ChunkMoments(None, ()), None)
    engine = SourceEngine(lambda statistic: passes.total(statistic, None), moments, np.arange(3), Cautious())
    with pytest.raises(ValueError, match="1 is no target") if refused else nullcontext():
        assert np.isfinite(engine.at(np.arange(4), np.zeros((4, 1))).risk)
