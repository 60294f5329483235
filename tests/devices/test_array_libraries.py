"""Arrays of other libraries, on every device: the same models as from NumPy arrays, the same kind of predictions."""

import numpy as np
import pytest
from array_libraries import every_library
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from budgetline import (
    AnytimeClassifier,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    GroupLassoPath,
    Moments,
    StagedEstimators,
    budget_curve,
    compare,
    cross_val_budget_curve,
    devices,
    load,
    open_data,
    save,
)
from budgetline.devices import DeviceTable
from budgetline.glm import ConvexLoss

pytestmark = [every_library, pytest.mark.quick_cases(6)]
N, D = 1500, 24
GROUPS = [list(range(s, s + 3)) for s in range(0, D, 3)]


@pytest.fixture(autouse=True)
def _on_the_device(monkeypatch):
    """Compute small tables on the device, too, in several chunks."""
    monkeypatch.setattr(devices, "SMALL_BYTES", 0)
    monkeypatch.setattr(devices, "CHUNK_BYTES", 8 * D * 400)


def table(seed=0, far=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) @ (np.eye(D) + rng.normal(size=(D, D)) / 10)
    score = X[:, ::4] @ np.linspace(1.5, -1.0, D // 4) / 2
    X += far * np.linspace(0, 1, D)
    return X, score, rng.uniform(0, 2, size=N) * (rng.uniform(size=N) < 0.9), rng


def data(kind, seed=0, far=0.0):
    X, score, weight, rng = table(seed, far)
    if kind == "logistic":
        return X, (rng.uniform(size=N) < 1 / (1 + np.exp(-score))).astype(int), weight
    if kind == "softmax":
        noisy = np.stack([score, -score, 0 * score], axis=1) + rng.gumbel(size=(N, 3))
        return X, noisy.argmax(axis=1), weight
    if kind in ("poisson", "own"):
        return X, rng.poisson(np.exp(score / 3)).astype(float), weight
    y = np.stack([score, score**2], axis=1) + rng.normal(size=(N, 2))
    return X, y if kind == "targets" else y[:, 0], weight


def estimator(kind, **settings):
    if kind in ("logistic", "softmax"):
        return AnytimeClassifier(GROUPS, **settings)
    loss = {"poisson": "poisson", "own": ConvexLoss(np.exp, np.exp)}.get(kind, "squared_error")
    return AnytimeRegressor(GROUPS, loss=loss, **settings)


def assert_same(found, wanted, rtol=1e-9):
    assert found.sequence_.groups == wanted.sequence_.groups
    scale = np.abs(wanted.coef_path_).max()
    assert_allclose(found.coef_path_, wanted.coef_path_, rtol=rtol, atol=rtol * scale)
    assert_allclose(found.intercept_path_, wanted.intercept_path_, rtol=1e-7, atol=1e-7)
    assert_allclose(found.sequence_.gains, wanted.sequence_.gains, rtol=1e-7, atol=1e-10)
    assert isinstance(found.coef_, np.ndarray)


@pytest.mark.parametrize("kind", ["squares", "targets", "logistic", "softmax", "poisson", "own"])
@pytest.mark.parametrize("rule", ["forward", "score", "omp"])
def test_the_same_model(library, kind, rule):
    X, y, weight = data(kind)
    if rule == "forward" and kind not in ("squares", "targets"):
        X, y, weight = X[:500], y[:500], None
    wanted = estimator(kind, rule=rule).fit(X, y, weight)
    found = estimator(kind, rule=rule).fit(library.put(X), library.put(y), library.put(weight))
    assert_same(found, wanted)


@pytest.mark.parametrize("kind", ["squares", "logistic", "softmax"])
def test_large_means_cost_no_digits(library, kind):
    X, y, weight = data(kind, far=1e4)
    wanted = estimator(kind, rule="omp").fit(X, y, weight)
    assert_same(estimator(kind, rule="omp").fit(library.put(X), library.put(y), library.put(weight)), wanted)


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
@pytest.mark.parametrize("rule", ["omp", "score"])
def test_standardised_columns_are_kept_where_memory_is_plentiful(library, kind, rule, monkeypatch):
    X, y, weight = data(kind)
    if not devices.device_of(library.put(X)).writable:
        pytest.skip("parts of an array cannot be written")
    wanted = estimator(kind, rule=rule).fit(X, y, weight)
    monkeypatch.setattr(devices.Device, "free_bytes", lambda self: 1 << 40)
    assert_same(estimator(kind, rule=rule).fit(library.put(X), library.put(y), library.put(weight)), wanted)


def test_centred_copies_are_made_of_a_chunk_at_a_time(library, monkeypatch):
    sizes, block = [], DeviceTable.block

    def noted(self, rows, *args, **kwargs):
        found = block(self, rows, *args, **kwargs)
        sizes.append(found.shape[0] * found.shape[1])
        return found

    monkeypatch.setattr(DeviceTable, "block", noted)
    X, y, _ = data("logistic")
    AnytimeClassifier(GROUPS, rule="omp", max_groups=2).fit(library.put(X), y)
    assert max(sizes) == 400 * D < N * D


def test_numpy_copies_do_not_share_memory_with_the_table(library):
    X = library.put(table()[0])
    copied = np.array(devices.on_device(X))
    copied[:] = 0
    assert_allclose(library.host(X), table()[0])


@pytest.mark.parametrize("kind", ["squares", "logistic", "softmax"])
@pytest.mark.parametrize("settings", [{"alpha": "auto"}, {"alpha": 0, "max_groups": 3}, {"correction": 1.0}])
def test_other_settings(library, kind, settings):
    X, y, weight = data(kind, seed=1)
    wanted = estimator(kind, rule="score", **settings).fit(X, y, weight)
    found = estimator(kind, rule="score", **settings).fit(library.put(X), library.put(y), library.put(weight))
    assert_same(found, wanted)


def test_answers_are_arrays_of_the_same_kind(library):
    X, y, _ = data("softmax")
    model, XL = AnytimeClassifier(GROUPS, rule="omp").fit(X, y), library.put(X)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        answer = getattr(model, method)
        for choice in ({}, {"stage": 0}, {"stage": 2}, {"available": [model.sequence_.groups[k] for k in (0, 2)]}):
            assert library.holds(answer(XL, **choice))
            assert_allclose(library.host(answer(XL, **choice)), answer(X, **choice), rtol=1e-12, atol=1e-12)
    stages = list(model.staged_predict_proba(XL))
    assert all(map(library.holds, stages))
    assert_allclose(library.host(stages[-1]), model.predict_proba(X), rtol=1e-12)
    assert model.score(XL, library.put(y)) == model.score(X, y)
    assert isinstance(model.predict(X), np.ndarray)
    text = AnytimeClassifier(GROUPS, rule="omp").fit(XL, np.array(["no", "yes", "well"])[y])
    assert text.predict(XL).tolist() == np.array(["no", "yes", "well"])[model.predict(X)].tolist()


def test_any_estimator_sees_numpy_arrays_and_answers_in_kind(library):
    X, y, weight = data("softmax")
    tree = StagedEstimators(DecisionTreeClassifier(max_depth=3, random_state=0), AnytimeClassifier(GROUPS), stages=3)
    model, XL = tree.fit(library.put(X), library.put(y), library.put(weight)), library.put(X)
    expected = clone(tree).fit(X, y, weight)
    assert model.sequence_.groups == expected.sequence_.groups
    assert library.holds(model.predict_proba(XL))
    assert_allclose(library.host(model.predict_proba(XL)), expected.predict_proba(X), rtol=1e-12)
    assert all(map(library.holds, model.staged_predict(XL)))
    assert model.score(XL, library.put(y), library.put(weight)) == expected.score(X, y, weight)


def test_gaps_and_columns_that_are_not_read(library):
    X, y, _ = data("squares")
    groups = FeatureGroups({"a": [0, 5], "b": [2, 3], "c": [9]}, remainder="drop")
    wanted, found = AnytimeRegressor(groups).fit(X, y), AnytimeRegressor(groups).fit(library.put(X), library.put(y))
    assert_same(found, wanted)
    X[:, 7], X[::2, 9] = np.nan, np.nan
    assert_allclose(library.host(found.predict(library.put(X), available="auto")), wanted.predict(X, available="auto"))
    with pytest.raises(ValueError, match="Input X contains NaN: column '9', first in row 0"):
        found.predict(library.put(X))
    with pytest.raises(ValueError, match="Input X contains NaN: column '9', first in row 0"):
        AnytimeRegressor(groups).fit(library.put(X), library.put(y))


def test_single_precision(library):
    X, y, weight = data("squares")
    X32 = X.astype(np.float32)
    for model in (AnytimeRegressor(GROUPS), AnytimeClassifier(GROUPS, rule="omp")):
        target = y if isinstance(model, AnytimeRegressor) else (y > 0).astype(int)
        wanted = model.fit(X32, target, weight).coef_path_
        found = model.fit(library.put(X32), library.put(target), library.put(weight)).coef_path_
        assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)
    whole = library.put(np.round(X * 3).astype(np.int64))
    assert_same(AnytimeRegressor(GROUPS).fit(whole, y), AnytimeRegressor(GROUPS).fit(np.round(X * 3), y))


@pytest.mark.parametrize("kind", ["squares", "logistic"])
def test_wide_tables(library, kind):
    X, y, _ = data(kind)
    X = np.hstack([X[:200], np.random.default_rng(3).normal(size=(200, 1200))])
    groups = [list(range(s, s + 4)) for s in range(0, X.shape[1], 4)]
    make = AnytimeRegressor if kind == "squares" else AnytimeClassifier
    wanted = make(groups, rule="omp", alpha=1e-2, max_groups=12).fit(X, y[:200])
    found = make(groups, rule="omp", alpha=1e-2, max_groups=12).fit(library.put(X), library.put(y[:200]))
    assert_same(found, wanted)


def test_moments_folds_and_parts(library):
    X, y, weight = data("targets")
    wanted, found = (
        Moments.from_data(X, y, weight),
        Moments.from_data(library.put(X), library.put(y), library.put(weight)),
    )
    assert_allclose(found.scatter, wanted.scatter, rtol=1e-12, atol=1e-9)
    assert_allclose(found.mean, wanted.mean, rtol=1e-12, atol=1e-14)
    y = y[:, 0]
    cv = AnytimeRegressorCV(GROUPS).fit(library.put(X), library.put(y), library.put(weight))
    assert cv.alpha_ == AnytimeRegressorCV(GROUPS).fit(X, y, weight).alpha_
    model, both = AnytimeRegressor(GROUPS), AnytimeRegressor(GROUPS)
    for part in (slice(0, 700), slice(700, N)):
        model.partial_fit(library.put(X[part]), library.put(y[part]))
        both.partial_fit(X[part], y[part])
    assert_same(model, both)


def test_everything_else_takes_them(library, tmp_path):
    X, y, weight = data("squares")
    XL, yL, wL = map(library.put, (X, y, weight))
    model = AnytimeRegressor(GROUPS).fit(XL, yL, wL)
    curve, wanted = budget_curve(model, XL, yL, sample_weight=wL), budget_curve(model, X, y, sample_weight=weight)
    assert_allclose(curve.values, wanted.values)
    folds, wanted = (cross_val_budget_curve(AnytimeRegressor(GROUPS), *given, cv=2) for given in ((XL, yL), (X, y)))
    assert_allclose(folds.values, wanted.values)
    judged = compare({"forward": AnytimeRegressor(GROUPS)}, XL, yL, cv=2).curves["forward"]
    assert_allclose(judged.values[-1], wanted.values[-1], rtol=1e-6)
    plan = model.plan(3.0, X=XL, y=yL)
    assert library.holds(plan.predict(XL))
    assert_allclose(GroupLassoPath(GROUPS).fit(XL, yL).coef_, GroupLassoPath(GROUPS).fit(X, y).coef_, atol=1e-8)
    streamed = AnytimeRegressor(GROUPS).fit(open_data((XL, yL, wL), chunk_rows=500))
    assert_same(streamed, AnytimeRegressor(GROUPS).fit(X, y, weight))
    chunks = lambda: ((library.put(X[s]), library.put(y[s])) for s in (slice(0, 800), slice(800, N)))  # noqa: E731
    assert_same(AnytimeRegressor(GROUPS).fit(open_data(chunks)), AnytimeRegressor(GROUPS).fit(X, y))
    spline = AnytimeRegressor(encoding="spline").fit(library.put(X[:, :3]), yL)
    assert library.holds(spline.predict(library.put(X[:, :3])))
    save(model, tmp_path / "model")
    assert_allclose(load(tmp_path / "model").predict(X), library.host(model.predict(XL)), rtol=1e-12)


def test_streamed_classifiers_from_device_chunks(library):
    X, y, weight = data("logistic")
    source = open_data((library.put(X), library.put(y), library.put(weight)), chunk_rows=500)
    found = AnytimeClassifier(GROUPS, rule="score").fit(source)
    assert_same(found, AnytimeClassifier(GROUPS, rule="score").fit(X, y, weight))


def test_smaller_chunks_when_memory_runs_out(library, monkeypatch):
    X, y, _ = data("logistic")
    wanted, most, block = AnytimeClassifier(GROUPS, rule="omp").fit(X, y), [700], DeviceTable.block

    def limited(self, rows, *args, **kwargs):
        if rows.stop - rows.start > most[0]:
            raise MemoryError("out of memory")
        return block(self, rows, *args, **kwargs)

    monkeypatch.setattr(devices, "CHUNK_BYTES", 1 << 20)
    monkeypatch.setattr(DeviceTable, "block", limited)
    assert_same(AnytimeClassifier(GROUPS, rule="omp").fit(library.put(X), library.put(y)), wanted)
    most[0] = 10
    with pytest.raises(MemoryError, match=r"has no memory left for 375 rows of 24 columns"):
        AnytimeClassifier(GROUPS, rule="omp").fit(library.put(X), library.put(y))


def test_bad_input(library):
    X, y, _ = data("squares")
    with pytest.raises(ValueError, match="Expected 2D array"):
        AnytimeRegressor().fit(library.put(X[0]), library.put(y[:1]))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples"):
        AnytimeRegressor(GROUPS).fit(library.put(X), library.put(y[:-1]))
    with pytest.raises(ValueError, match="Complex data not supported"):
        AnytimeRegressor(GROUPS).fit(library.put(X.astype(complex)), library.put(y))
    model = AnytimeRegressor(GROUPS).fit(library.put(X), y)  # y and weights may be anywhere
    with pytest.raises(ValueError, match="expecting 24 features"):
        model.predict(library.put(X[:, 1:]))
