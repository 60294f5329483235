"""Every engine gives the same results, those of the formulas; and the model needs no more than these results."""

from dataclasses import fields

import numpy as np
import pytest
from engines import PlainEngine
from scipy import sparse

from budgetline import FeatureGroups, open_data
from budgetline.data.rows import Rows
from budgetline.fitting.generalised import fit_generalised
from budgetline.fitting.recipe import Recipe
from budgetline.glm.families import Logistic, Poisson, Softmax
from budgetline.glm.partial_hessian import updated_hessian
from budgetline.glm.row_blocks import Design
from budgetline.glm.rows_engine import engine_of_rows
from budgetline.glm.source_engine import SourceEngine
from budgetline.moments.passes import ChunkMoments, Passes
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import Greedy

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
    passes = Passes(open_data((X, Y.argmax(axis=1) if labels else Y[:, 0], weight), chunk_rows=17), progress=False)
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
    ):
        check(ask(point), ask(truth))
    # over a source, a point this near is predicted by the Hessian
    near, wanted = (e.at(columns, theta + 1e-8 * np.abs(theta).max()) for e in (engine, plain))
    check(near.risk, wanted.risk)
    check(near.gradient(None), wanted.gradient(None))


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("rule", ["forward", "score", "omp", "no-whiten", "single", "static"])
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
        fit_generalised(engine, recipe, FAMILIES[family], 1e-10)[0]
        for engine in (plain, make("dense", X, Y, weight, family))
    )
    assert found.sequence.groups == wanted.sequence.groups
    for field in fields(found):
        if field.name not in ("sequence", "names", "subset", "spread"):
            np.testing.assert_allclose(getattr(found, field.name), getattr(wanted, field.name), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.spread.values, wanted.spread.values, rtol=1e-7)
    some = np.array([True, False, True, True])
    # fitted to cells of rows, whose means are rounded
    np.testing.assert_allclose(found.of_steps(some).coef, wanted.of_steps(some).coef, rtol=1e-6, atol=1e-7)


def test_a_source_is_not_read_for_steps_that_its_hessian_predicts():
    X, Y, weight = problem("logistic")
    engine, columns = make("source", X, Y, weight, "logistic"), np.array([0, 2, 5])
    reads, total = [], engine._total
    engine._total = lambda statistic: reads.append(1) or total(statistic)
    theta = np.array([[0.1], [1.0], [0.3]])
    for step, wanted in ((0.0, 1), (5e-8, 1), (9e-8, 1), (2e-7, 2), (2.5e-7, 2)):  # each from the last pass
        engine.at(columns, theta + step)
        assert len(reads) == wanted


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_an_updated_hessian_has_old_curvatures_only_where_they_have_changed_little(family, kind, monkeypatch):
    monkeypatch.setattr("budgetline.glm.rows_engine.FEWEST_ROWS", 16)  # several blocks, and several pieces
    monkeypatch.setattr("budgetline.glm.partial_hessian.FEWEST_ROWS", 5)
    X, Y, weight = problem(family)
    engine, plain = (make(k, X, Y, weight, family) for k in (kind, "plain"))
    columns = np.array([0, 2, 5, 3, 1])
    theta = np.random.default_rng(1).normal(size=(5, 1)) / 3
    engine.at(columns[:3], theta[:3]).hessian(columns[:3])
    wanted = plain.at(columns[:3], theta[:3]).hessian(columns[:3])
    np.testing.assert_allclose(engine.kept.K, wanted, rtol=1e-10, atol=1e-12)
    shares = []
    for size in (0.03, 0.1, 0.3):  # each from the one before
        theta[2] += size
        past, exact = engine.kept, plain.at(columns, theta)
        now = plain.weight * plain.loss.curvature(exact.eta).scale[:, 0]
        ratio = np.divide(now, past.curvature, out=np.ones_like(now), where=now > 0)
        old = np.maximum(ratio, 1 / ratio) <= 1.15
        found = engine.at(columns, theta).hessian(columns, within=0.15)
        shares.append(1 - old.mean())
        whole = not 0 < shares[-1] <= 0.5
        curvature = engine.kept.curvature
        np.testing.assert_allclose(curvature, np.where(old & (not whole), past.curvature, now), rtol=1e-10)
        Z = plain.Z[:, columns]
        np.testing.assert_allclose(found, (Z.T * curvature) @ Z, rtol=1e-10, atol=1e-12)
        bounds = np.linalg.eigvals(np.linalg.solve(exact.hessian(columns), found)).real
        assert 1 / 1.15 - 1e-9 <= bounds.min() <= bounds.max() <= 1.15 + 1e-9
    assert any(0 < share <= 0.5 for share in shares)


def test_an_updated_hessian_uses_the_leading_columns_that_agree():
    X, Y, weight = problem("logistic")
    engine, plain = (make(k, X, Y, weight, "logistic") for k in ("dense", "plain"))
    design, curvature = engine.design, plain.weight * np.linspace(0.1, 0.2, len(X))
    kept = updated_hessian(design, np.array([0, 2, 5, 3]), curvature, None, 0.15)
    now = np.where(np.arange(len(X)) % 3, curvature, 2 * curvature)
    columns = np.array([0, 2, 4, 1, 6])
    Z, found = plain.Z[:, columns], updated_hessian(design, columns, now, kept, 0.15)
    np.testing.assert_allclose(found.K, (Z.T * now) @ Z, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("family", "kind"), [("softmax", "dense"), ("softmax", "source"), ("logistic", "source")])
def test_hessians_of_several_scores_and_of_sources_are_exact(family, kind):
    X, Y, weight = problem(family)
    engine, columns = make(kind, X, Y, weight, family), np.array([0, 2, 5])
    theta = np.full((3, engine.y_mean.size), 0.1)
    engine.at(columns, theta).hessian(columns)
    point = engine.at(columns, theta + 0.01)
    assert np.array_equal(point.hessian(columns, within=0.15), point.hessian(columns))


@pytest.mark.parametrize("room", [0, 1 << 32])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_hold_the_columns_that_are_asked_for(seed, room, monkeypatch):
    monkeypatch.setattr("budgetline.glm.row_blocks.LARGEST_BUFFER", room)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 9))
    engine = engine_of_rows(Rows(X, X[:, :1] > 0), rng.permutation(9), Logistic())
    design = Design(engine.A, engine.order, 20)
    monkeypatch.setattr("budgetline.glm.row_blocks.MOST_ROWS", 20)
    Z = np.column_stack([np.ones(50), engine.A.plain(engine.order)])
    for _ in range(40):
        columns = np.concatenate([[0], 1 + rng.permutation(9)[: rng.integers(1, 10)]])
        others = columns[-rng.integers(1, columns.size) :] if rng.random() < 0.5 else 1 + rng.permutation(9)[:3]
        chosen, more = design.of(columns), design.beyond(columns, others)
        for s in design.slices:
            np.testing.assert_allclose(chosen(s), Z[s, columns].T, rtol=1e-13)
            np.testing.assert_allclose(more(s), Z[s, others].T, rtol=1e-13)
        rows = np.flatnonzero(rng.random(50) < 0.4)
        np.testing.assert_allclose(design.picked(columns, rows), Z[np.ix_(rows, columns)].T, rtol=1e-13)


def test_hessians_of_few_columns_and_many_scores():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(400, 6)), np.eye(12)[rng.integers(0, 12, 400)]
    loss, weight = Softmax(12), rng.uniform(0.5, 1.5, 400)
    engine, plain = (
        engine_of_rows(Rows(X, Y, weight), np.arange(6), loss),
        PlainEngine(X, Y, weight, np.arange(6), loss),
    )
    for columns in (np.arange(3), np.arange(7)):  # sums over pairs of columns, or over pairs of scores
        theta = rng.normal(size=(columns.size, 11)) / 3
        point, truth = (e.at(columns, theta) for e in (engine, plain))
        np.testing.assert_allclose(point.hessian(columns), truth.hessian(columns), atol=1e-13)
        np.testing.assert_allclose(point.cross(columns, np.array([5])), truth.cross(columns, np.array([5])), atol=1e-13)
