"""compare() against a loop written by hand, its tables, its progress bar and its errors."""

import io
import sys
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    FixedOrder,
    budget_curve,
    compare,
    cross_val_budget_curve,
    progress,
    stopping_cost,
    timeliness,
)
from budgetline.evaluation import comparison

GROUPS = {"a": [0, 1], "b": [2], "c": [3, 4], "d": [5]}
COSTS = {"a": 1.0, "b": 0.5, "c": 4.0, "d": 3.0}
COLUMNS = ["method", "fold", "timeliness", "stop_cost", "final", "fit_seconds"]


def data(seed=0, n=150):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, 6)) + 3
    return X, X @ rng.standard_normal(6) + 2 * rng.standard_normal(n), rng.uniform(0.5, 2, n)


def methods(**kwargs):
    return {
        "omp": AnytimeRegressor(GROUPS, COSTS, rule="omp", **kwargs),
        "plain": AnytimeRegressor(GROUPS, COSTS, cost_sensitive=False, **kwargs),
        "given": AnytimeRegressor(GROUPS, COSTS, schedule=FixedOrder(["d", "c", "b", "a"]), **kwargs),
    }


def by_hand(estimators, X, y, splits, *, metric="explained", fraction=1.0, interpolation="step", w=None, q=None):
    """Return (method, fold) -> timeliness, stopping cost, last value."""
    found = {}
    for k, (train, test) in enumerate(splits):
        weight = (lambda rows: {}) if w is None else (lambda rows: {"sample_weight": w[rows]})
        models = {name: clone(e).fit(X[train], y[train], **weight(train)) for name, e in estimators.items()}
        stop = stopping_cost(next(iter(models.values())), fraction)
        for name, model in models.items():
            query = {} if q is None else {"qid": q[test]}
            curve = budget_curve(model, X[test], y[test], metric=metric, **weight(test), **query)
            found[name, k] = timeliness(curve, stop, interpolation=interpolation), stop, curve.values[-1]
    return found


def check(comparison, truth, rtol=1e-8):
    rows = {(row["method"], row["fold"]): row for row in comparison.rows}
    assert rows.keys() == truth.keys()
    for key, values in truth.items():
        found = [rows[key][name] for name in ("timeliness", "stop_cost", "final")]
        np.testing.assert_allclose(found, values, rtol=rtol, atol=1e-11, err_msg=str(key))
        assert rows[key]["fit_seconds"] > 0


@pytest.fixture
def no_moments(monkeypatch):
    monkeypatch.setattr(comparison, "MOMENTS_BYTES", 0)


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("path", ["moments", "data"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metric": "mse", "fraction": 0.9, "interpolation": "step"},
        {"metric": "r2", "fraction": 0.97},
        {"metric": "gain", "fraction": 0},
        {"metric": "neg_mean_absolute_error", "fraction": 0.5},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_a_loop(options, path, weighted, request):
    if path == "data":
        request.getfixturevalue("no_moments")
    X, y, w = data()
    w = w if weighted else None
    found = compare(methods(), X, y, cv=4, sample_weight=w, **options)
    check(found, by_hand(methods(), X, y, KFold(4).split(X), w=w, **options))
    assert found.metric == options.get("metric", "explained")


@pytest.mark.parametrize("kind", ["csr", "pandas", "polars"])
def test_kinds_of_tables(kind):
    X, y, _ = data()
    names = list("uvwxyz")
    groups = GROUPS if kind == "csr" else {g: [names[d] for d in c] for g, c in GROUPS.items()}
    make = {
        "csr": sparse.csr_array,
        "pandas": lambda X: pd.DataFrame(X, columns=names),
        "polars": lambda X: pl.DataFrame(X, schema=names),
    }[kind]
    found = compare({"omp": AnytimeRegressor(groups, COSTS, rule="omp")}, make(X), y, cv=3)
    check(found, by_hand({"omp": methods()["omp"]}, X, y, KFold(3).split(X)))


def test_text_in_columns_that_no_group_uses():
    X, y, _ = data()
    names = list("uvwxyz")
    groups = FeatureGroups({g: [names[d] for d in c] for g, c in GROUPS.items()}, COSTS, remainder="drop")
    frame = pd.DataFrame(X, columns=names).assign(name="text", gap=np.nan)
    for table in (frame, pl.from_pandas(frame)):
        found = compare({"omp": AnytimeRegressor(groups, rule="omp")}, table, y, cv=3)
        check(found, by_hand({"omp": methods()["omp"]}, X, y, KFold(3).split(X)))


def test_encodings_are_not_lost():
    X, y, _ = data()
    method = AnytimeRegressor(GROUPS, COSTS, encoding="spline", alpha=1e-3)
    check(compare({"omp": method}, np.exp(X), y, cv=3), by_hand({"omp": method}, np.exp(X), y, KFold(3).split(X)))


def test_several_targets():
    X, y, _ = data()
    Y = np.column_stack([y, X[:, 0] - y])
    check(compare(methods(), X, Y, cv=3), by_hand(methods(), X, Y, KFold(3).split(X)))


def test_estimators_of_all_kinds_together():
    X, y, _ = data()
    mixed = {
        "plain": AnytimeRegressor(GROUPS, COSTS),
        "cv": AnytimeRegressorCV(GROUPS, COSTS, alphas=[1e-3, 1.0], cv=3),
        "pipeline": make_pipeline(StandardScaler(), AnytimeRegressor(GROUPS, COSTS)),
        "search": GridSearchCV(AnytimeRegressor(GROUPS, COSTS), {"alpha": [1e-3, 1.0]}, cv=3),
    }
    check(compare(mixed, X, y, cv=3), by_hand(mixed, X, y, KFold(3).split(X)))
    for first in ("cv", "pipeline", "search"):  # their training curves give the stopping cost, too
        ordered = {first: mixed[first], **mixed}
        found = compare(ordered, X, y, cv=3, fraction=0.9)
        check(found, by_hand(ordered, X, y, KFold(3).split(X), fraction=0.9))


def test_a_poisson_model_beside_one_of_squared_error():
    X, _, _ = data()
    y = np.random.default_rng(0).poisson(np.exp(0.2 * X[:, 0]))
    both = {"squares": AnytimeRegressor(GROUPS, COSTS), "counts": AnytimeRegressor(GROUPS, COSTS, loss="poisson")}
    check(compare(both, X, y, cv=3, metric="mse"), by_hand(both, X, y, KFold(3).split(X), metric="mse"))


@pytest.mark.parametrize("metric", ["explained", "roc_auc", "log_loss"])
def test_classifiers(metric):
    X, y, w = data()
    y = np.where(y > np.median(y), "yes", "no")
    both = {rule: AnytimeClassifier(GROUPS, COSTS, rule=rule, alpha=0.01) for rule in ("omp", "static")}
    truth = by_hand(both, X, y, StratifiedKFold(3).split(X, y), metric=metric, fraction=0.8, w=w)
    check(compare(both, X, y, cv=3, metric=metric, fraction=0.8, sample_weight=w), truth)


def test_queries_stay_together():
    X, y, _ = data()
    relevance, qid = np.digitize(y, np.quantile(y, [0.5, 0.8])), np.random.default_rng(0).integers(0, 15, len(y))
    splits = list(GroupKFold(3).split(X, relevance, qid))
    for metric in ("ndcg@5", "ndcg"):
        found = compare(methods(), X, relevance, metric=metric, cv=3, qid=qid)
        check(found, by_hand(methods(), X, relevance, splits, metric=metric, q=qid))
    # also where the metric needs no queries, and the moments are shared
    check(compare(methods(), X, y, cv=3, qid=qid), by_hand(methods(), X, y, GroupKFold(3).split(X, y, qid)))
    found = cross_val_budget_curve(methods()["omp"], X, relevance, metric="ndcg@5", cv=3, qid=qid.astype(str).tolist())
    assert len(found.folds) == 3


def test_mean_curves_are_those_of_cross_validation():
    X, y, _ = data()
    found = compare(methods(), X, y, cv=4, interpolation="step")
    for name, estimator in methods().items():
        truth = cross_val_budget_curve(estimator, X, y, cv=4)
        np.testing.assert_allclose(found.curves[name].costs, truth.costs)
        np.testing.assert_allclose(found.curves[name].values, truth.values, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(found.curves[name].errors, truth.errors, rtol=1e-6, atol=1e-11)


def test_tables():
    X, y, _ = data()
    found = compare(methods(), X, y, cv=3, fraction=0.97)
    for frame in (found.to_frame(), found.to_frame("polars")):
        assert list(frame.columns) == COLUMNS
        assert len(frame) == 9
        assert list(frame["fold"]) == [0] * 3 + [1] * 3 + [2] * 3
    assert isinstance(found.to_frame("polars"), pl.DataFrame)
    summary = found.summary()
    mine = found.to_frame().query("method == 'omp'")["timeliness"]
    assert summary["omp"]["timeliness"] == pytest.approx(mine.mean())
    assert summary["omp"]["error"] == pytest.approx(mine.std() / np.sqrt(3))
    text = str(found)
    assert len(text.splitlines()) == 4
    assert "nan" not in text
    assert repr(found).startswith("Comparison(3 methods, 3 folds, explained)")


def test_explained_fractions_of_different_losses_are_not_compared():
    X, y, _ = data()
    given = {"squared": AnytimeRegressor(), "poisson": AnytimeRegressor(loss="poisson", rule="omp", alpha=1e-2)}
    counts = np.round(np.exp(y - y.max()) * 10)
    with pytest.raises(ValueError, match="'squared' SquaredError, 'poisson' Poisson"):
        compare(given, X, counts, cv=2)
    assert set(compare(given, X, counts, cv=2, metric="mse").curves) == {"squared", "poisson"}


def test_mean_curves_are_read_as_their_folds_are():
    X, y, _ = data()
    curve = compare(
        {"free": AnytimeRegressor(costs=[1.0, 0, 1, 0, 1, 1][: X.shape[1]], cost_sensitive=False)}, X, y
    ).curves["free"]
    for interpolation in ("step", "linear"):
        mean = np.mean([fold.at(1.5, interpolation=interpolation) for fold in curve.folds])
        assert curve.at(1.5, interpolation=interpolation) == pytest.approx(mean)
        mean = np.mean([timeliness(fold, 2.5, interpolation=interpolation) for fold in curve.folds])
        assert timeliness(curve, 2.5, interpolation=interpolation) == pytest.approx(mean)


def test_estimators_are_not_modified():
    X, y, _ = data()
    given = methods()
    before = {name: repr(e.get_params()) for name, e in given.items()}
    X0, y0 = X.copy(), y.copy()
    compare(given, X, y, cv=3)
    for name, estimator in given.items():
        assert repr(estimator.get_params()) == before[name]
        assert not hasattr(estimator, "sequence_")
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_array_equal(y, y0)
    fitted = methods()["omp"].fit(X, y)
    order = fitted.order_
    compare({"fitted": fitted}, X[:60], y[:60], cv=2)
    assert fitted.order_ is order


def test_one_fold():
    X, y, _ = data()
    train = np.arange(len(y)) < 100
    indices = [(np.flatnonzero(train), np.flatnonzero(~train))]
    one = compare(methods(), X, y, cv=indices)
    check(one, by_hand(methods(), X, y, indices))
    assert np.isnan(one.summary()["omp"]["error"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fraction": "plato"}, ValueError, "fraction must be a number ≥ 0 and ≤ 1"),
        ({"fraction": 1.5}, ValueError, "fraction must be a number ≥ 0 and ≤ 1"),
        ({"interpolation": "curved"}, ValueError, "'step' or 'linear'"),
        ({"metric": "nonsense"}, ValueError, "unknown metric"),
        ({"metric": "log_loss"}, ValueError, "for classifiers"),
        ({"metric": "ndcg@5"}, ValueError, "needs qid"),
        ({"qid": [1, 2]}, ValueError, "inconsistent"),
        ({"sample_weight": [1.0, 2.0]}, ValueError, "sample_weight.shape"),
    ],
)
def test_errors(options, error, message):
    X, y, _ = data()
    with pytest.raises(error, match=message):
        compare(methods(), X, y, cv=3, **options)


@pytest.mark.parametrize("n", [2, 500])
def test_weights_of_another_length_are_refused(n):
    X, y, _ = data()
    with pytest.raises(ValueError, match="sample_weight"):
        cross_val_budget_curve(AnytimeRegressor(), X, y, cv=3, sample_weight=np.ones(n))


def test_impossible_estimators_are_refused():
    X, y, _ = data()
    with pytest.raises(ValueError, match="no estimators"):
        compare({}, X, y)
    with pytest.raises(TypeError, match="mapping name -> estimator, got list"):
        compare([AnytimeRegressor()], X, y)
    with pytest.raises(ValueError, match="inconsistent"):
        compare(methods(), X, y[1:])


# ---- progress


def both_calls(**options):
    X, y, _ = data(n=40)
    compare({"a": AnytimeRegressor()}, X, y, cv=2, **options)
    cross_val_budget_curve(AnytimeRegressor(), X, y, cv=2, **options)


def test_progress_on_request(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_PER_STATUS", 0)
    both_calls(progress=True)
    shown = capsys.readouterr()
    assert "of 2 fits" in shown.err
    assert "of 2 folds" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("wanted", [None, False])
def test_quiet_unless_asked(capsys, wanted):
    both_calls(progress=wanted)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Log(io.StringIO):
    """Stands for stderr; tells when a line has come."""

    def __init__(self):
        super().__init__()
        self.filled = threading.Event()

    def write(self, text):
        found = super().write(text)
        self.filled.set()
        return found


def test_lines_for_logs(monkeypatch):
    log, now = Log(), [100.0]
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "SECONDS_PER_LINE", 0.001)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.make_bar("lines", "fits", 2500) as bar:
        assert bar.line() == "0 of 2,500 fits, 0 s"
        bar.update()
        now[0] += 40.4
        log.filled.clear()
        assert log.filled.wait(60)
    assert "1 of 2,500 fits, 40 s\n" in log.getvalue()
    with progress.make_bar("lines", "learning", None) as bar:
        assert bar.line() == "learning, 0 s"
        bar.update(3)
        assert bar.line() == "3 learning, 0 s"


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_lines_without_a_reader(monkeypatch, stderr):
    log = Log()
    log.close()
    monkeypatch.setattr(sys, "stderr", None if stderr is None else log)
    monkeypatch.setattr(progress, "SECONDS_PER_LINE", 0.0)
    both_calls(progress="lines")


def test_a_short_work_prints_no_line(capsys):
    both_calls(progress="lines")
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(progress, "SECONDS_PER_STATUS", 0)
    monkeypatch.setattr(sys, "stderr", screen)
    both_calls()
    shown = screen.getvalue()
    assert " fits" in shown
    assert " folds" in shown
    both_calls(progress=False)
    assert screen.getvalue() == shown


def test_a_program_without_stderr(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(progress.counted("abc", None, "fits")) == ["a", "b", "c"]


def test_items_pass_in_order():
    assert list(progress.counted("abc", True, "letters")) == ["a", "b", "c"]
    assert list(progress.counted("abc", None, "letters")) == ["a", "b", "c"]
