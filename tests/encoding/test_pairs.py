"""Pairs of columns: the screen against a computation row by row, and what becomes of the pairs that it finds."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from budgetline import AnytimeClassifier, AnytimeRegressor, Encoding, FeatureGroups, load, open_data, save
from budgetline.encoding.fitting import encoding_from
from budgetline.encoding.pairs import LEAST_PENALTY, MOST_PRODUCTS, PAIR_WEIGHT, CellSums, Screen, bins_of
from budgetline.encoding.raw import RawTable, raw_data
from budgetline.encoding.summaries import TableSummary

SEED = 0


def table(n=1500, seed=SEED):
    """Return columns of which a and c, and b and t, act together."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd"))
    X["t"] = rng.choice(["x", "y", "z"], n)
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    X.loc[rng.random(n) < 0.3, "d"] = 0.0
    score = X["a"] + 1.5 * X["a"] * X["c"] + np.where(X["t"] == "x", 1.5, -0.5) * X["b"].fillna(0)
    return X, score.to_numpy() + rng.standard_normal(n)


def screened(X, weight=None, alpha=1e-3, seed=SEED):
    data, names = raw_data(X)
    source, settings = FeatureGroups.singletons(names).resolve(names, X.shape[1]), Encoding("spline", interactions=3)
    raw = RawTable.of(data, source, source.read)
    summary = TableSummary.of(raw, source, settings, weight)
    encoding = encoding_from(summary, source, settings)
    bins = bins_of(summary, encoding.encoders)
    Z, rng = encoding.encode(raw), np.random.default_rng(seed)
    blocks = [Z[:, a:b] for a, b in zip(encoding.ends[:-1], encoding.ends[1:], strict=True)]
    starts = np.cumsum([0, *(len(each.means) for each in bins)])
    codes = np.array([each.codes(block) for each, block in zip(bins, blocks, strict=True)])
    residual, curvature = rng.standard_normal((len(X), 2)), rng.uniform(0.1, 1, (len(X), 2))
    weight = np.ones(len(X)) if weight is None else weight
    sums = CellSums.of(codes + starts[:-1, None], int(starts[-1]), weight, residual, curvature)
    weight = weight * np.count_nonzero(weight) / weight.sum()  # in the screen, rows count
    return bins, codes, Screen(bins, sums.in_rows(len(bins)), alpha, 1.7), (weight, residual, curvature), blocks


def test_bins_are_where_the_numbers_are():
    X, _ = table()
    bins, codes, _, _, blocks = screened(X)
    for each, code, block in zip(bins, codes, blocks, strict=True):
        flags = (
            each.columns >= block.shape[1] - each.flags.size if each.edges is not None else np.ones(len(each.columns))
        )
        own = (block[:, each.columns] - each.centres) * np.where(flags, 2, 1)
        mass = np.bincount(code, minlength=len(each.means))
        assert mass.sum() == len(X)
        for b in np.flatnonzero(mass):
            np.testing.assert_allclose(own[code == b].mean(axis=0), each.means[b], atol=1e-9)
    assert np.bincount(codes[1])[-1] == X["b"].isna().sum()
    assert (X["d"][codes[3] == len(bins[3].means) - 1] == 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_gains_are_those_of_a_penalised_score_test_row_by_row(weighted):
    X, _ = table(400)
    given = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None
    bins, codes, screen, (weight, residual, curvature), _ = screened(X, given)
    for i, j in combinations(range(len(bins)), 2):
        a, b = bins[i], bins[j]
        left, right = a.means[codes[i]], b.means[codes[j]]
        Q = (left[:, :, None] * right[:, None, :]).reshape(len(X), -1)
        effects = np.hstack([np.eye(len(a.means))[codes[i]], np.eye(len(b.means))[codes[j]]])
        penalty = max(weight.sum() * 1e-3 * PAIR_WEIGHT, LEAST_PENALTY) * np.outer(a.penalties, b.penalties).ravel()
        expected = 0.0
        for r, h in zip(residual.T, curvature.T, strict=True):
            H = effects.T @ (effects * (weight * h)[:, None])
            H += 1e-6 * np.trace(H) / len(H) * np.eye(len(H))
            cross = effects.T @ (Q * (weight * h)[:, None])
            g = Q.T @ (weight * r) - cross.T @ np.linalg.solve(H, effects.T @ (weight * r))
            M = Q.T @ (Q * (weight * h)[:, None]) - cross.T @ np.linalg.solve(H, cross)
            inverse = np.linalg.inv(M + np.diag(penalty + 1e-6))
            expected += g @ inverse @ g / 1.7 - np.trace(inverse @ M)
        assert screen.gain(i, j) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [AnytimeRegressor, AnytimeClassifier])
def test_columns_that_act_together_are_found(kind, seed):
    X, score = table(seed=seed)
    y = score if kind is AnytimeRegressor else np.where(score > 0, "yes", "no")
    found = kind(encoding=Encoding("spline", interactions=2), rule="score").fit(X[::2], y[::2])
    pairs = {name for name in found.feature_groups_.names if "×" in name}
    assert pairs == {"a × c", "b × t"}
    plain = kind(encoding="spline", rule="score").fit(X[::2], y[::2])
    assert found.score(X[1::2], y[1::2]) > plain.score(X[1::2], y[1::2]) + 0.03
    assert found.feature_groups_.requires == {"a × c": ("a", "c"), "b × t": ("b", "t")}
    assert found.feature_groups_.prices.total == 5
    order = found.sequence_.groups
    assert all(order.index(name) > max(map(order.index, name.split(" × "))) for name in pairs)


@pytest.mark.parametrize("seed", range(3))
def test_a_small_alpha_does_not_let_products_fit_noise(seed):
    """The ridge constant that suits single columns is too small for the products of ten pairs that explain nothing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((1000, 6)), columns=list("abcdef"))
    y = X["a"] + X["b"] + X["c"] + rng.logistic(size=1000) > 0
    losses = []
    for most in (0, 10):
        model = AnytimeClassifier(encoding=Encoding(interactions=most), alpha=1e-4, rule="score").fit(X[::2], y[::2])
        losses.append(log_loss(y[1::2], model.predict_proba(X[1::2])))
    assert losses[1] < 1.07 * losses[0]


def test_products_that_rest_on_few_rows_are_left_out():
    """Two rare categories meet in seven rows, and both are large where a third column is: no product for these."""
    rng = np.random.default_rng(SEED)
    X = pd.DataFrame({"x": rng.standard_normal(2000), "t": "usual", "u": "usual"})
    X.loc[:29, "t"], X.loc[23:52, "u"] = "rare", "rare"
    y = np.where((X["t"] == "rare") & (X["u"] == "rare"), 100.0, 0.0) + rng.standard_normal(2000)
    found = AnytimeRegressor(encoding=Encoding(interactions=3)).fit(X, y)
    assert "t × u" not in found.feature_groups_.names
    X.loc[:299, "t"], X.loc[:299, "u"] = "rare", "rare"
    y = np.where((X["t"] == "rare") & (X["u"] == "rare"), 2.0, X["x"]) + rng.standard_normal(2000)
    assert AnytimeRegressor(encoding=Encoding(interactions=3)).fit(X, y).model_.encoding.pairs


def test_design_columns_of_a_pair_are_products():
    X, score = table()
    found = AnytimeRegressor(encoding=Encoding("spline", interactions=2), alpha=1e-3).fit(X, score).model_
    encoding = found.encoding
    Z = encoding.table(X, np.arange(found.layout.n_features))
    for pair, start, stop in zip(encoding.pairs, encoding.ends[-3:-1], encoding.ends[-2:], strict=True):
        (i, j), products = pair.columns, Z[:, start:stop]
        for t, (p, q) in enumerate(pair.terms.T):
            left, right = Z[:, encoding.ends[i] + p], Z[:, encoding.ends[j] + q]
            np.testing.assert_allclose(products[:, t], (left - left.mean()) * (right - right.mean()), atol=1e-9)
        assert products.std(axis=0).min() > 0
    np.testing.assert_array_equal(encoding.with_products(Z[:, : encoding.ends[5]]), Z)
    some = np.array([0, encoding.ends[-2] - 1, encoding.ends[-1] - 1])
    np.testing.assert_array_equal(encoding.table(X, some), Z[:, some])


def test_pairs_are_the_same_from_a_source_and_survive_files(tmp_path):
    X, score = table()
    y = np.where(score > 0, "yes", "no")
    model = AnytimeClassifier(encoding=Encoding("spline", interactions=3), rule="score")
    here, there = (
        model.fit(X, y),
        AnytimeClassifier(**model.get_params()).fit(open_data(X.assign(y=y), "y", chunk_rows=400)),
    )
    assert here.sequence_.groups == there.sequence_.groups
    np.testing.assert_allclose(here.predict_proba(X), there.predict_proba(X), rtol=1e-6)
    save(here, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(X), here.predict_proba(X))


def test_columns_of_one_group_can_be_a_pair():
    X, score = table()
    groups = FeatureGroups({"first": ["a", "c"], "rest": ["b", "d", "t"]}, [1, 2])
    found = AnytimeRegressor(groups, encoding=Encoding("spline", interactions=2)).fit(X, score)
    assert found.feature_groups_.requires == {"a × c": ("first",), "b × t": ("rest",)}
    assert found.predict(X[["c", "a"]], budget=1).shape == (len(X),)


@pytest.mark.slow
def test_there_are_never_more_products_than_stated():
    rng = np.random.default_rng(SEED)
    X = pd.DataFrame({f"t{k}": rng.choice(list("abcdefghijkl"), 3000) for k in range(12)})
    cells = X.apply(lambda column: column.map(ord)).to_numpy()
    y = np.sin(np.outer(cells[:, 0], np.ones(11)) * cells[:, 1:]).sum(axis=1)
    found = AnytimeRegressor(encoding=Encoding("linear", interactions=60)).fit(X, y).model_
    assert 0 < sum(pair.width for pair in found.encoding.pairs) <= MOST_PRODUCTS


def test_a_pair_gets_a_name_of_its_own():
    X, score = table()
    X = X.rename(columns={"d": "a × c"})
    found = AnytimeRegressor(encoding=Encoding("spline", interactions=1)).fit(X, score)
    assert found.feature_groups_.names[-1] == "a × c (2)"


def test_groups_without_columns_need_an_encoding_that_makes_them():
    groups = FeatureGroups({"a": [0], "b": [1], "both": []}, requires={"both": ["a", "b"]})
    with pytest.raises(ValueError, match="group 'both' has no columns"):
        AnytimeRegressor(groups).fit(np.eye(5)[:, :2], np.arange(5.0))
    with pytest.raises(ValueError, match="group 'b' has no columns"):
        FeatureGroups({"a": [0], "b": []})
