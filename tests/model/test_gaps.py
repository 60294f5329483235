"""Gaps in tables: rows answered from the groups that they have; classifiers of any subset of groups, recalibrated."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

import budgetline
from budgetline import AnytimeClassifier, AnytimeClassifierCV, AnytimeRegressor, GroupLassoPath, open_source
from budgetline.datasets import load_heart
from budgetline.model.subsets import LinearSubset
from budgetline.statistics.samples import sample_of

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


def answer(model, X, **keywords):
    return getattr(model, "predict_proba" if hasattr(model, "predict_proba") else "predict")(X, **keywords)


# -- available="auto" ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_each_row_is_answered_from_the_groups_it_has(kind):
    """Against one prediction per row, with the names of its groups; 31 patterns take the shared inverse."""
    model, X, rng = fitted(kind)
    gappy, there = with_gaps(X, rng)
    found = answer(model, gappy, available="auto")
    for i in range(len(X)):
        names = [group for group in COLUMNS if there[group][i]]
        np.testing.assert_allclose(found[i], answer(model, X[i : i + 1], available=names)[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["squared", "two classes"])
@pytest.mark.parametrize("choice", [{"stage": 0}, {"stage": 3}, {"budget": 4}])
def test_a_budget_or_a_stage_limits_the_groups(kind, choice):
    model, X, rng = fitted(kind)
    gappy, there = with_gaps(X, rng)
    order = model.sequence_
    bought = order.groups[: choice["stage"] if "stage" in choice else order.stage_at(choice["budget"])]
    for group in set(COLUMNS) - set(bought):
        gappy[:5, COLUMNS[group][0]] = np.inf  # not read
    found = answer(model, gappy, available="auto", **choice)
    for i in range(0, len(X), 7):
        names = [group for group in bought if there[group][i]]
        np.testing.assert_allclose(found[i], answer(model, X[i : i + 1], available=names)[0], rtol=1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_without_gaps_it_is_the_plain_answer_and_without_values_that_of_no_group(kind):
    model, X, _ = fitted(kind)
    np.testing.assert_allclose(answer(model, X, available="auto"), answer(model, X), rtol=1e-12, atol=1e-13)
    nothing = answer(model, np.full((2, 7), np.nan), available="auto")
    np.testing.assert_allclose(nothing, answer(model, X[:2], stage=0), rtol=1e-12)
    assert model.score(X, answer_labels(model, X), available="auto") == 1.0


def answer_labels(model, X):
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
        found = answer(model, gappy, available="auto")
        for i in range(0, 60, 3):
            np.testing.assert_allclose(found[i], answer(model, X[i : i + 1], available=names[i])[0], rtol=1e-8)


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
    np.testing.assert_allclose(answer(model, X, available="auto"), answer(model, X), rtol=1e-12)


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


# -- recalibration -------------------------------------------------------------------------------------------

SUBSETS = [["q", "t"], ["p"], ["r", "s"], ["s", "p", "t"], ["q", "r", "s", "t"]]


@pytest.mark.parametrize("subset", SUBSETS)
@pytest.mark.parametrize("kind", ["two classes", "three classes"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_probability_is_the_frequency(kind, subset, weighted):
    """All training rows are in the sample, so what holds for a refit with an intercept holds here."""
    X, score, rng = table(1)
    y = targets(kind, score, rng)
    weight = rng.integers(0, 3, size=len(y)) if weighted else np.ones(len(y))
    model = AnytimeClassifier(COLUMNS, alpha=1e-3).fit(X, y, sample_weight=weight)
    mean = np.average(model.predict_proba(X, available=subset), axis=0, weights=weight)
    np.testing.assert_allclose(mean, np.bincount(y, weight) / weight.sum(), atol=1e-6)


@pytest.mark.parametrize("kind", ["two classes", "three classes"])
def test_level_and_scale_are_those_of_least_risk(kind):
    """Against a general minimiser of the ridge-penalised log loss of level + scale · (uncorrected scores)."""
    alpha = 1e-2
    X, score, rng = table(2)
    y = targets(kind, score, rng)
    model = AnytimeClassifier(COLUMNS, alpha=alpha).fit(X, y)
    stages = model.model_.stages
    plain = dataclasses.replace(stages, subset=dataclasses.replace(stages.subset, recalibration=None))
    checked = 0
    for subset in SUBSETS:
        raw, found = plain.of_groups(subset), stages.of_groups(subset)
        if raw.coef is stages.at_stage(len(subset)).coef or np.array_equal(raw.coef, found.coef):
            continue
        U = (X - X.mean(axis=0)) @ raw.coef.T
        square = ((raw.coef * X.std(axis=0)) ** 2).sum()

        def risk(at, U=U, square=square):
            eta = at[:-1] + at[-1] * U
            if eta.shape[1] == 1:
                loss = np.logaddexp(0, eta[:, 0]) - y * eta[:, 0]
            else:
                loss = -log_softmax(eta, axis=1)[np.arange(len(y)), y]
            return loss.mean() + alpha / 2 * square * at[-1] ** 2

        best = minimize(risk, np.append(np.zeros(U.shape[1]), 1.0), method="BFGS", options={"gtol": 1e-9}).x
        eta = best[:-1] + best[-1] * U
        expected = np.hstack([1 - expit(eta), expit(eta)]) if eta.shape[1] == 1 else softmax(eta, axis=1)
        np.testing.assert_allclose(model.predict_proba(X, available=subset), expected, atol=1e-5)
        checked += 1
    assert checked >= 3


def test_a_sample_of_many_rows_brings_the_mean_near_the_frequency():
    X, score, rng = table(3, n=8000)
    y = (2 * (score - score.mean()) / score.std() + rng.logistic(size=len(score)) > 3).astype(int)
    model = AnytimeClassifier(COLUMNS, rule="omp", alpha=1e-4).fit(X, y)
    subset = model.model_.stages.subset
    assert subset.recalibration.rows.shape == (2000, 7)
    for names in SUBSETS:
        assert abs(model.predict_proba(X, available=names)[:, 1].mean() - y.mean()) < 0.012


def test_prefixes_are_answered_by_their_stage():
    model, X, _ = fitted("three classes")
    for j in range(6):
        names = model.sequence_.groups[:j]
        assert np.array_equal(model.predict_proba(X, available=names), model.predict_proba(X, stage=j))


def test_other_losses_keep_no_rows():
    assert fitted("poisson")[0].model_.stages.subset.recalibration is None
    assert AnytimeClassifier(max_groups=1).fit(*tiny()).model_.stages.subset.recalibration is None


def tiny():
    X, score, _ = table(n=40)
    return X, score > score.mean()


@pytest.mark.parametrize("n", [500, 3000])
def test_a_source_keeps_the_same_rows(n):
    X, score, rng = table(4, n)
    y = targets("two classes", score, rng)
    here = AnytimeClassifier(COLUMNS, rule="score", alpha=1e-3).fit(X, y)
    streamed = AnytimeClassifier(COLUMNS, rule="score", alpha=1e-3).fit(open_source((X, y), chunk_rows=170))
    a, b = (m.model_.stages.subset.recalibration for m in (here, streamed))
    np.testing.assert_allclose(a.rows, b.rows, rtol=1e-5, atol=1e-6)
    for names in SUBSETS:
        expected = here.predict_proba(X[:50], available=names)
        np.testing.assert_allclose(streamed.predict_proba(X[:50], available=names), expected, atol=1e-6)


def test_separable_classes_do_not_break_it():
    X = np.random.default_rng(0).normal(size=(200, 4))
    model = AnytimeClassifier(alpha=1e-8, tol=1e-6).fit(X, X[:, 0] + X[:, 1] > 0)
    for names in (["0"], ["1"], ["2", "3"], ["1", "3"]):
        assert np.isfinite(model.decision_function(X, available=names)).all()


def test_files_without_rows_are_answered_as_before(tmp_path):
    heart = load_heart()
    model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    names = ["age", "exercise", "thallium"]
    budgetline.save(model, tmp_path / "with", rows=True)
    corrected = model.predict_proba(heart.data, available=names)
    kept = budgetline.load(tmp_path / "with")
    assert np.array_equal(kept.predict_proba(heart.data, available=names), corrected)
    record = model.model_
    stages = dataclasses.replace(record.stages, subset=dataclasses.replace(record.stages.subset, recalibration=None))
    bare = AnytimeClassifier.from_model(dataclasses.replace(record, stages=stages))
    budgetline.save(model, tmp_path / "without")
    found = budgetline.load(tmp_path / "without")
    assert found.model_.stages.subset.recalibration is None
    expected = bare.predict_proba(heart.data, available=names)
    assert np.array_equal(found.predict_proba(heart.data, available=names), expected)
    assert not np.array_equal(expected, corrected)


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
