"""Missing values in tables: rows predicted from the groups that they have."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from budgetline import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, GroupLassoPath
from budgetline.model.subsets import LinearSubset
from budgetline.moments.tallies import sample_of

GROUPS = {"p": ["a", "b"], "q": ["c"], "r": ["d", "e"], "s": ["f"], "t": ["g"]}
NAMES = list("abcdefg")
COLUMNS = {group: [NAMES.index(name) for name in names] for group, names in GROUPS.items()}


def table(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7)) @ (np.eye(7) + 0.4 * rng.normal(size=(7, 7))) + 3
    return X, X @ rng.normal(size=7), rng


def targets(kind, score, rng):
    score = (score - score.mean()) / score.std()
    return {
        "squared": score + rng.normal(size=score.size),
        "two targets": np.column_stack([score, -score]) + rng.normal(size=(score.size, 2)),
        "poisson": rng.poisson(np.exp(score / 2)),
        "two classes": (2 * score + rng.logistic(size=score.size) > 1).astype(int),
        "three classes": np.digitize(2 * score + rng.logistic(size=score.size), [-1, 1.5]),
    }[kind]


MODELS = {
    "squared": AnytimeRegressor(COLUMNS, costs=[3, 1, 2, 1, 2]),
    "two targets": AnytimeRegressor(COLUMNS),
    "poisson": AnytimeRegressor(COLUMNS, loss="poisson"),
    "two classes": AnytimeClassifier(COLUMNS, alpha=1e-3),
    "three classes": AnytimeClassifier(COLUMNS, alpha=1e-3),
}


def fitted(kind, seed=0, n=300):
    X, score, rng = table(seed, n)
    return MODELS[kind].fit(X, targets(kind, score, rng)), X, rng


def with_gaps(X, rng, share=0.4):
    """Return X with whole groups missing, and which groups each row has."""
    there = {group: rng.random(len(X)) > share for group in COLUMNS}
    for group, columns in COLUMNS.items():
        X = X.copy()
        X[np.ix_(~there[group], columns)] = np.nan
    return X, there


def result(model, X, **keywords):
    return getattr(model, "predict_proba" if hasattr(model, "predict_proba") else "predict")(X, **keywords)


# -- available="auto" ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_each_row_is_answered_from_the_groups_it_has(kind):
    """Against one prediction per row, with the names of its groups; 31 patterns take the shared inverse."""
    model, X, rng = fitted(kind)
    gappy, there = with_gaps(X, rng)
    found = result(model, gappy, available="auto")
    for i in range(len(X)):
        names = [group for group in COLUMNS if there[group][i]]
        np.testing.assert_allclose(found[i], result(model, X[i : i + 1], available=names)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["squared", "two classes"])
@pytest.mark.parametrize("choice", [{"stage": 0}, {"stage": 3}, {"budget": 4}])
def test_a_budget_or_a_stage_limits_the_groups(kind, choice):
    model, X, rng = fitted(kind)
    gappy, there = with_gaps(X, rng)
    order = model.sequence_
    bought = order.groups[: choice["stage"] if "stage" in choice else order.stage_at(choice["budget"])]
    for group in set(COLUMNS) - set(bought):
        gappy[:5, COLUMNS[group][0]] = np.inf  # not read
    found = result(model, gappy, available="auto", **choice)
    for i in range(0, len(X), 7):
        names = [group for group in bought if there[group][i]]
        np.testing.assert_allclose(found[i], result(model, X[i : i + 1], available=names)[0], rtol=1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_without_gaps_it_is_the_plain_answer_and_without_values_that_of_no_group(kind):
    model, X, _ = fitted(kind)
    np.testing.assert_allclose(result(model, X, available="auto"), result(model, X), rtol=1e-12, atol=1e-13)
    nothing = result(model, np.full((2, 7), np.nan), available="auto")
    np.testing.assert_allclose(nothing, result(model, X[:2], stage=0), rtol=1e-12)
    assert model.score(X, result_labels(model, X), available="auto") == 1.0


def result_labels(model, X):
    return model.predict(X)


def test_the_lasso_and_chosen_alphas_answer_too():
    X, score, rng = table()
    gappy, there = with_gaps(X, rng)
    names = [[group for group in COLUMNS if there[group][i]] for i in range(len(X))]
    for model, y in (
        (GroupLassoPath(COLUMNS), score),
        (AnytimeClassifierCV(COLUMNS, rule="omp", alphas=[1e-3, 1e-1], cv=2), score > np.median(score)),
    ):
        model.fit(X, y)
        found = result(model, gappy, available="auto")
        for i in range(0, 60, 3):
            np.testing.assert_allclose(found[i], result(model, X[i : i + 1], available=names[i])[0], rtol=1e-8)


@pytest.mark.parametrize("kind", ["NaN", "None", "nullable", "polars", "pyarrow"])
def test_what_counts_as_missing_in_frames(kind):
    X, score, rng = table()
    X = np.round(X, 1)
    model = AnytimeRegressor(GROUPS).fit(pd.DataFrame(X, columns=NAMES), score)
    gappy, _ = with_gaps(X, rng)
    frame = pd.DataFrame(gappy, columns=NAMES)
    frames = {
        "NaN": frame,
        "None": frame.astype(object).where(frame.notna(), None),
        "nullable": frame.astype("Float64"),
        "polars": pl.DataFrame(frame).with_columns(pl.all().fill_nan(None)),
        "pyarrow": pa.Table.from_pandas(frame),
    }
    with pytest.warns(UserWarning, match="valid feature names"):
        expected = model.predict(gappy, available="auto")
    np.testing.assert_allclose(model.predict(frames[kind], available="auto"), expected, rtol=1e-9)


@pytest.mark.parametrize("convert", [sparse.csr_matrix, sparse.csc_matrix, np.rint, lambda X: np.rint(X).astype(int)])
def test_tables_that_cannot_have_gaps(convert):
    model, X, _ = fitted("two classes")
    X = convert(X)
    np.testing.assert_allclose(result(model, X, available="auto"), result(model, X), rtol=1e-12)


def test_a_group_of_which_a_part_is_missing_is_an_error():
    model, X, _ = fitted("squared")
    X[4, COLUMNS["p"]] = np.nan
    X[7, COLUMNS["r"][1]] = np.nan
    with pytest.raises(ValueError, match=r"NaN: column '4', first in row 7"):
        model.predict(X, available="auto")
    X[7, COLUMNS["r"][1]] = np.inf
    with pytest.raises(ValueError, match=r"infinity: column '4', first in row 7"):
        model.predict(X, available="auto")


def test_auto_is_a_word_and_not_a_group():
    model, X, _ = fitted("squared")
    with pytest.raises(ValueError, match="unknown group 'auto'"):
        model.predict(X, available=["auto"])
    with pytest.raises(TypeError, match="group names or 'auto'"):
        model.predict(X, available="automatic")
    with pytest.raises(ValueError, match="at most one of budget, stage"):
        model.predict(X, available="auto", budget=1, stage=1)


def test_ill_conditioned_columns_are_solved_one_subset_at_a_time():
    X, score, rng = table()
    X[:, 3] = X[:, 2] + 1e-7 * rng.normal(size=len(X))
    model = AnytimeRegressor(COLUMNS, alpha=0).fit(X, score)
    assert isinstance(model.model_.stages.subset, LinearSubset)
    gappy, there = with_gaps(X, rng)
    found = model.predict(gappy, available="auto")
    for i in range(0, 100, 5):
        names = [group for group in COLUMNS if there[group][i]]
        np.testing.assert_allclose(found[i], model.predict(X[i : i + 1], available=names)[0], rtol=1e-6)


def test_prefixes_are_answered_by_their_stage():
    model, X, _ = fitted("three classes")
    for j in range(6):
        names = model.sequence_.groups[:j]
        assert np.array_equal(model.predict_proba(X, available=names), model.predict_proba(X, stage=j))


# -- the sample ----------------------------------------------------------------------------------------------


def test_a_sample_does_not_depend_on_chunks_or_order():
    rng = np.random.default_rng(0)
    X, weight, columns = rng.normal(size=(1000, 5)), rng.random(1000), np.array([3, 0])
    whole = sample_of(X, weight, columns, 50)
    order = rng.permutation(1000)
    first, *rest = (sample_of(X[part], weight[part], columns, 50) for part in np.array_split(order, 7))
    parts = sum(rest, first)
    assert np.array_equal(parts.values, whole.values)
    assert np.array_equal(parts.weight, whole.weight)
    assert {tuple(row) for row in whole.values} <= {tuple(row) for row in X[:, columns]}
    dense = sample_of(sparse.csr_matrix(X), weight, columns, 50)
    assert np.array_equal(dense.values, whole.values)


def test_a_frequent_row_is_as_frequent_in_the_sample():
    X = np.repeat([[0.0], [1.0], [2.0]], [6000, 3000, 1000], axis=0)
    found = sample_of(X, np.ones(10000), np.array([0]), 1000)
    assert found.values.shape == (1000, 1)
    np.testing.assert_allclose(np.bincount(found.values[:, 0].astype(int)) / 1000, [0.6, 0.3, 0.1], atol=0.05)


def test_rows_without_weight_are_not_sampled():
    X, weight = np.arange(20.0)[:, None], np.repeat([0.0, 2.0], 10)
    found = sample_of(X, weight, np.array([0]), 15)
    assert sorted(found.values[:, 0]) == list(range(10, 20))
    assert found.standardised(np.zeros(1), np.ones(1)).weight.sum() == pytest.approx(1)


# -- columns that a table lacks -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("encoding", [None, "spline"])
def test_absent_columns_are_missing_values(kind, encoding):
    """Against the same table with these columns full of missing values, with a warning that names them."""
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind]
    X, score, rng = table()
    columns = dict(zip(NAMES, X.T, strict=True))
    model = AnytimeRegressor(GROUPS, encoding=encoding).fit(make(columns), targets("squared", score, rng))
    full = {**columns, "d": np.full(len(X), np.nan), "e": np.full(len(X), np.nan)}
    some = {name: values for name, values in columns.items() if name not in "de"}
    with pytest.warns(UserWarning, match="missing columns count as missing values: 'd', 'e'"):
        found = model.predict(make(some), available="auto")
    np.testing.assert_allclose(found, model.predict(make(full), available="auto"), rtol=1e-12)
    np.testing.assert_allclose(found, model.predict(make(columns), available=["p", "q", "s", "t"]), rtol=1e-9)
    with pytest.raises(ValueError, match="'d'"):
        model.predict(make(some))


@pytest.mark.parametrize("encoding", [None, "spline"])
def test_text_and_flags_may_be_absent_but_not_all_columns(encoding):
    X, score, _ = table()
    frame = pd.DataFrame(X, columns=["age", "sex", *"cdefg"])
    if encoding:
        frame["sex"] = np.where(frame["sex"] > 3, "m", "f")
    model = AnytimeClassifier(alpha=1e-2, encoding=encoding).fit(frame, score > np.median(score))
    with pytest.warns(UserWarning, match=r"'sex' \(did you mean 'Sex'\?\)"):
        found = model.predict_proba(frame.rename(columns={"sex": "Sex"}), available="auto")
    np.testing.assert_allclose(found, model.predict_proba(frame, available=["age", *"cdefg"]), rtol=1e-9)
    with pytest.raises(ValueError, match="are missing: it was fitted with 'age', 'sex'"):
        model.predict(pd.DataFrame({"other": [1.0]}), available="auto")


def test_only_the_columns_that_a_budget_buys_are_missed():
    X, score, rng = table()
    frame = pd.DataFrame(X, columns=NAMES)
    model = AnytimeRegressor(GROUPS).fit(frame, targets("squared", score, rng))
    first, second = model.sequence_.groups[:2]
    np.testing.assert_allclose(
        model.predict(frame[GROUPS[first]], available="auto", stage=1), model.predict(frame, stage=1), rtol=1e-12
    )
    with pytest.warns(UserWarning, match="count as missing"):
        found = model.predict(frame[GROUPS[second]], available="auto", stage=1)
    np.testing.assert_allclose(found, model.predict(frame, stage=0), rtol=1e-12)
