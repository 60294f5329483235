"""Every engine gives the same answers, those of the formulas; and the model needs no more than these answers."""

from dataclasses import fields

import numpy as np
import pytest
from engines import PlainEngine
from scipy import sparse

from budgetline import FeatureGroups, open_source
from budgetline.data.rows import Rows
from budgetline.model.generalised import fit_generalised
from budgetline.model.recipe import Recipe
from budgetline.objectives.families import Logistic, Poisson, Softmax
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import Greedy
from budgetline.statistics.design_blocks import DesignBlocks
from budgetline.statistics.rows_engine import engine_of_rows
from budgetline.statistics.passes import ChunkMoments, Passes
from budgetline.statistics.source_engine import SourceEngine

pytestmark = pytest.mark.quick_cases(6)

ORDER = np.array([3, 0, 5, 1, 2, 4])
FAMILIES = {"logistic": Logistic(), "softmax": Softmax(3), "poisson": Poisson()}


def problem(family, n=60, seed=0):
    """Return X, Y and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6))) + 4
    X[rng.random(X.shape) < 0.3] = 0.0
    if family == "softmax":
        Y = np.eye(3)[rng.integers(0, 3, n)]
    else:
        Y = (rng.random((n, 1)) < 0.4).astype(float) if family == "logistic" else rng.poisson(2.0, (n, 1)).astype(float)
    return X, Y, np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.2, 2.0, n))


def make(kind, X, Y, weight, family):
    """Return an engine of a kind."""
    loss = FAMILIES[family]
    if kind in ("dense", "sparse"):
        table = sparse.csr_array(X) if kind == "sparse" else X
        return engine_of_rows(Rows(table, Y, weight), ORDER, loss)
    if kind == "plain":
        return PlainEngine(X, Y, weight, ORDER, loss)
    labels = family == "softmax"
    passes = Passes(open_source((X, Y.argmax(axis=1) if labels else Y[:, 0], weight), chunk_rows=17), progress=False)
    classes, shape = (np.arange(3), (3,)) if labels else (None, ())
    moments = passes.total(ChunkMoments(None, shape, classes), None)
    return SourceEngine(lambda statistic: passes.total(statistic, None), moments, ORDER, loss, classes)


@pytest.mark.parametrize("kind", ["dense", "sparse", "source"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_engine_answers_as_the_formulas_do(family, kind):
    X, Y, weight = problem(family)
    engine, plain = (make(k, X, Y, weight, family) for k in (kind, "plain"))
    columns, others = np.array([0, 2, 5, 3]), np.array([6, 1])
    theta = np.random.default_rng(1).normal(size=(4, engine.y_mean.size)) / 3
    point, truth = (e.at(columns, theta) for e in (engine, plain))

    def check(found, wanted):
        # entries may cancel: the error is that of the largest one
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11 * max(1.0, np.abs(wanted).max()))

    for name in ("x_mean", "x_scale", "y_mean", "y_spread", "saturated"):
        check(getattr(engine, name), getattr(plain, name))
    groups = np.array([[1, 4], [5, 2]])
    check(engine.covariance(groups), plain.covariance(groups))
    for ask in (
        lambda p: p.risk,
        lambda p: p.gradient(columns),
        lambda p: p.gradient(None),
        lambda p: p.hessian(columns),
        lambda p: p.hessian(columns, theta.shape[1] - 1),
        lambda p: p.cross(columns, others),
        lambda p: p.cross(columns, None),
        lambda p: p.blocks(groups),
        lambda p: p.product(columns, theta),
        lambda p: p.curvature_range(),
    ):
        check(ask(point), ask(truth))
    step = 1e-6 * np.ones_like(theta)
    near, wanted = (p.near(columns, theta + step) for p in (point, truth))
    check(near.risk, wanted.risk)
    check(near.gradient(None), wanted.gradient(None))


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("rule", ["fr", "score", "omp", "no-whiten", "single", "static"])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_engine_of_ones_own_is_all_that_the_model_needs(family, rule, eager):
    X, Y, weight = problem(family)
    groups = FeatureGroups(
        {"a": [3], "b": [0, 5], "c": [1, 2], "d": [4]}, shared={"visit": (2.0, ["a", "c"])}, requires={"d": ["b"]}
    )
    columns = tuple(np.asarray(c) for c in groups.columns)
    recipe = Recipe(columns, groups.names, groups.prices, rule, Greedy(), Limits(), True, 1e-2)
    plain = PlainEngine(X, Y, weight, ORDER, FAMILIES[family], eager)
    found, wanted = (
        fit_generalised(engine, recipe, FAMILIES[family], 1e-10)
        for engine in (plain, make("dense", X, Y, weight, family))
    )
    assert found.sequence.groups == wanted.sequence.groups
    for field in fields(found):
        if field.name not in ("sequence", "names", "subset"):
            np.testing.assert_allclose(getattr(found, field.name), getattr(wanted, field.name), rtol=1e-9, atol=1e-10)
    some = np.array([True, False, True, True])
    # fitted to cells of rows, whose means are rounded
    np.testing.assert_allclose(found.of_steps(some).coef, wanted.of_steps(some).coef, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_many_threads_compute_the_same_numbers_as_few(family, monkeypatch):
    X, Y, weight = problem(family, n=5000)
    engine = make("dense", X, Y, weight, family)
    columns = np.array([0, 2, 5, 3])
    theta = np.random.default_rng(1).normal(size=(4, engine.y_mean.size)) / 3
    few = engine.at(columns, theta)
    monkeypatch.setattr("budgetline.statistics.row_sums.FEW_THREADS", 0)
    many = engine.at(columns, theta)
    assert len(engine.slices) > 1
    assert few.risk == many.risk
    assert np.array_equal(few.gradient(columns), many.gradient(columns))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_a_renewed_hessian_has_old_curvatures_only_where_they_have_changed_little(family, kind, monkeypatch):
    monkeypatch.setattr("budgetline.statistics.device_engine.FEWEST_ROWS", 16)  # several blocks, and several pieces
    monkeypatch.setattr("budgetline.statistics.rows_engine.FEWEST_ROWS", 5)
    X, Y, weight = problem(family)
    engine, plain = (make(k, X, Y, weight, family) for k in (kind, "plain"))
    columns = np.array([0, 2, 5, 3, 1])
    theta = np.random.default_rng(1).normal(size=(5, 1)) / 3
    first = engine.at(columns[:3], theta[:3])
    past = first.renewed(columns[:3], None)
    np.testing.assert_allclose(past.H, plain.at(columns[:3], theta[:3]).hessian(columns[:3]), rtol=1e-10, atol=1e-12)
    for size in (0.03, 0.1, 0.3):  # each from the one before
        theta[2] += size
        point, exact = engine.at(columns, theta), plain.at(columns, theta)
        now = plain.weight * plain.loss.curvature(exact.eta).scale[:, 0]
        ratio = np.divide(now, past.curvature, out=np.ones_like(now), where=now > 0)
        old = np.maximum(ratio, 1 / ratio) <= 1.15
        assert point.outdated(past) == pytest.approx(1 - old.mean())
        found = point.renewed(columns, past)
        whole = not 0 < 1 - old.mean() <= 0.5
        np.testing.assert_allclose(found.curvature, np.where(old & (not whole), past.curvature, now), rtol=1e-10)
        wanted = (plain.Z[:, columns].T * found.curvature) @ plain.Z[:, columns]
        np.testing.assert_allclose(found.H, wanted, rtol=1e-10, atol=1e-12)
        past = found


@pytest.mark.parametrize(("family", "kind"), [("softmax", "dense"), ("softmax", "source"), ("logistic", "source")])
def test_hessians_of_several_scores_and_of_sources_are_renewed_as_a_whole(family, kind):
    X, Y, weight = problem(family)
    engine, columns = make(kind, X, Y, weight, family), np.array([0, 2, 5])
    theta = np.full((3, engine.y_mean.size), 0.1)
    past = engine.at(columns, theta).renewed(columns, None)
    point = engine.at(columns, theta + 0.01)
    assert point.outdated(past) == 1
    assert np.array_equal(point.renewed(columns, past).H, point.hessian(columns))


@pytest.mark.parametrize("room", [0, 1 << 32])
@pytest.mark.parametrize("together", [1, 48])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_complete_point_answers_as_the_point_does(family, together, room, monkeypatch):
    monkeypatch.setattr("budgetline.statistics.rows_engine.TOGETHER", together)  # products of one column: some missing
    monkeypatch.setattr("budgetline.statistics.design_blocks.LARGEST_BUFFER", room)
    X, Y, weight = problem(family, n=2000)
    engine = make("dense", X, Y, weight, family)
    columns, others, groups = np.array([0, 2, 5, 3]), np.array([6, 1]), np.array([[1, 4], [5, 2]])
    theta = np.random.default_rng(1).normal(size=(4, engine.y_mean.size)) / 3
    point = engine.at(columns, theta)
    complete = point.complete(columns, np.arange(1, 7))
    assert complete is not point
    for ask in (
        lambda p: p.hessian(columns),
        lambda p: p.hessian(columns, 0),
        lambda p: p.hessian(np.append(columns, 4)),
        lambda p: p.hessian(np.append(columns, others)),
        lambda p: p.cross(columns, others),
        lambda p: p.cross(np.append(columns, 1), others),
        lambda p: p.cross(columns, None),
        lambda p: p.cross(np.append(columns, 6), None),
        lambda p: p.blocks(groups),
        lambda p: p.blocks(np.array([[1], [4]])),
        lambda p: p.gradient(None),
        lambda p: p.gradient(np.append(columns, others)),
    ):
        wanted = ask(point)
        np.testing.assert_allclose(ask(complete), wanted, rtol=1e-10, atol=1e-11 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("seed", range(3))
def test_blocks_hold_the_columns_that_are_asked_for(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 9))
    engine = engine_of_rows(Rows(X, X[:, :1] > 0), rng.permutation(9), Logistic())
    blocks = DesignBlocks(engine.A, engine.order, [slice(0, 20), slice(20, 40), slice(40, 50)], 2)
    Z = np.column_stack([np.ones(50), engine.A.plain(engine.order)])
    for step in range(40):  # from then on, all columns are held
        columns = np.concatenate([[0], 1 + rng.permutation(9)[: rng.integers(0, 10)]])
        others, rest = blocks.rest(columns) if step % 3 == 2 else (np.setdiff1d(np.arange(10), columns), None)
        chosen = blocks.of(columns)
        for s in (slice(0, 20), slice(20, 40), slice(40, 50)):
            np.testing.assert_allclose(chosen(s), Z[s, columns].T, rtol=1e-13)
            if rest is not None:
                np.testing.assert_allclose(rest(s), Z[s, others].T, rtol=1e-13)


@pytest.mark.parametrize("classes", [3, 12])
def test_large_hessians_of_several_scores_are_summed_score_by_score(classes, monkeypatch):
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(400, 6)), np.eye(classes)[rng.integers(0, classes, 400)]
    engine = engine_of_rows(Rows(X, Y), np.arange(6), Softmax(classes))
    columns = np.arange(7)
    point = engine.at(columns, rng.normal(size=(7, classes - 1)) / 3)
    wanted = point.hessian(columns)
    monkeypatch.setattr("budgetline.statistics.rows_engine.WHOLE", 1)
    np.testing.assert_allclose(point.hessian(columns), wanted, atol=1e-14)
