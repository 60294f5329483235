"""Models of raw tables: the same as of a matrix encoded by hand, wherever the rows come from."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from certifying import certify
from sklearn.base import clone

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    AnytimeRunner,
    Encoding,
    FeatureGroups,
    GroupLassoPath,
    budget_curve,
    compare,
    load,
    open_data,
    save,
)
from budgetline.codec import plain_of
from budgetline.data import rows
from budgetline.encoding import table as encoding_table
from budgetline.encoding.table import TableEncoding
from budgetline.fitting import linear

pytestmark = pytest.mark.quick_cases(5)

SEED = 0
GROUPS = FeatureGroups({"who": ["age", "job"], "money": ["income"], "visit": ["day", "new"]}, costs=[1, 3, 2])


def table(n=600, seed=SEED):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n).astype(float)
    income = np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(8, 1, n))
    job = rng.choice(["cook", "nurse", "clerk", "pilot"], n, p=[0.5, 0.3, 0.19, 0.01]).astype(object)
    new = rng.random(n) < 0.3
    day = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    score = np.sin(age / 12) + (job == "nurse") + 0.5 * new + (income == 0) - 1 + rng.standard_normal(n)
    age[rng.random(n) < 0.1] = np.nan
    job[rng.random(n) < 0.1] = None
    X = pd.DataFrame({"age": age, "job": job, "income": income, "day": day, "new": new})
    return X, score, np.where(score > 0, "yes", "no")


def content(model):
    """Return the encoding of a model as plain values."""
    encoding, arrays = model.model_.encoding, {}
    plain = [plain_of(part, arrays, str(k)) for k, part in enumerate((*encoding.encoders, *encoding.pairs))]
    return plain, {name: array.tolist() for name, array in arrays.items()}


def models():
    for encoding in ("linear", "spline"):
        yield AnytimeRegressor(GROUPS, encoding=encoding, alpha=1e-3)
        yield AnytimeClassifier(GROUPS, encoding=encoding, alpha=1e-3, rule="score")
    yield AnytimeRegressorCV(GROUPS, encoding="spline")
    yield AnytimeClassifierCV(GROUPS, encoding="linear", rule="omp", alphas=[1e-3, 1e-1], cv=3)
    yield AnytimeRegressor(GROUPS, encoding=Encoding("spline", columns={"age": "categories"}), alpha=1e-3)
    yield GroupLassoPath(GROUPS, encoding="spline")


def fitted(model):
    X, score, label = table()
    return clone(model).fit(X, label if "Classifier" in type(model).__name__ else score), X


@pytest.mark.parametrize("model", models(), ids=repr)
def test_only_the_columns_that_were_bought_are_read(model):
    found, X = fitted(model)
    for stage, cost in enumerate(found.sequence_.cumulative_costs, start=1):
        bought = [c for g in found.sequence_.groups[:stage] for c in GROUPS.columns[GROUPS.names.index(g)]]
        expected = found.predict(X, stage=stage)
        alone = X[bought[::-1]].assign(more=1)  # in another order, with a column that is not known
        np.testing.assert_array_equal(found.predict(alone, budget=cost), expected)
        nonsense = X.copy()
        for column in set(X.columns) - set(bought):
            nonsense[column] = "nonsense"
        np.testing.assert_array_equal(found.predict(nonsense, stage=stage), expected)
        with pytest.raises(ValueError, match=f"X has no column '{bought[0]}', which this prediction needs"):
            found.predict(X.drop(columns=bought[0]), stage=stage)


@pytest.mark.parametrize("model", models(), ids=repr)
def test_files_keep_the_encoding(model, tmp_path):
    found, X = fitted(model)
    save(found, tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X), found.predict(X))
    np.testing.assert_array_equal(again.predict(X, available=["visit"]), found.predict(X, available=["visit"]))
    assert again.get_params()["encoding"] == found.encoding
    assert again.feature_names_out_.tolist() == found.feature_names_out_.tolist()
    clone(again).fit(X, table()[2 if hasattr(found, "classes_") else 1])


@pytest.mark.parametrize("encoding", ["linear", "spline"])
def test_a_stage_is_the_ridge_model_of_its_design_columns(encoding):
    """By explicit normal equations, with a penalty weight for every standardised design column."""
    found, X = fitted(AnytimeRegressor(GROUPS, encoding=encoding, alpha=1e-2))
    model, y = found.model_, table()[1]
    Z = model.encoding.table(X, np.arange(model.layout.n_features))
    for stage in range(1, 4):
        columns = np.concatenate([model.layout.columns[g] for g in found.order_[:stage]])
        A = (Z[:, columns] - Z[:, columns].mean(axis=0)) / Z[:, columns].std(axis=0)
        C = A.T @ A / len(A) + 1e-2 * np.diag(model.encoding.weights[columns])
        w = np.linalg.solve(C, A.T @ (y - y.mean()) / len(A))
        np.testing.assert_allclose(found.predict(X, stage=stage), A @ w + y.mean(), rtol=1e-8, atol=1e-9)


def sources(tmp_path):
    X, score, label = table()
    for name, y in (("score", score), ("label", label)):
        whole = X.assign(**{name: y})
        file = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pandas(whole, preserve_index=False), file, row_group_size=100)
        yield name, open_data(file, name, chunk_rows=100)
        yield name, open_data(whole, name, chunk_rows=90)
        yield name, open_data(pl.from_pandas(whole).lazy(), name)
        rows = [slice(k, k + 200) for k in range(0, 600, 200)]
        yield name, open_data(lambda X=X, y=y, rows=rows: ((X[part], y[part]) for part in rows))


def test_sources_give_the_same_model(tmp_path):
    X, score, label = table()
    regressor = AnytimeRegressor(GROUPS, encoding="spline", alpha=1e-3).fit(X, score)
    classifier = AnytimeClassifier(GROUPS, encoding="spline", alpha=1e-3, rule="score").fit(X, label)
    for name, source in sources(tmp_path):
        expected = regressor if name == "score" else classifier
        found = clone(expected).fit(source)
        assert content(found) == content(expected)
        assert found.sequence_.groups == expected.sequence_.groups
        np.testing.assert_allclose(found.coef_path_, expected.coef_path_, rtol=1e-8, atol=1e-10)
        curve = budget_curve(expected, source)
        np.testing.assert_allclose(curve.values, budget_curve(expected, X, score if name == "score" else label).values)


def test_dask_gives_the_same_model():
    dd = pytest.importorskip("dask.dataframe")
    X, _, label = table()
    expected = AnytimeClassifier(GROUPS, encoding="spline", alpha=1e-3, rule="score").fit(X, label)
    found = clone(expected).fit(open_data(dd.from_pandas(X.assign(label=label), npartitions=3), "label"))
    assert content(found) == content(expected)
    np.testing.assert_allclose(found.coef_path_, expected.coef_path_, rtol=1e-8, atol=1e-10)


def test_an_iterator_cannot_be_encoded_because_it_is_read_once():
    X, score, _ = table()
    with pytest.raises(ValueError, match="an encoding needs two passes"):
        AnytimeRegressor(encoding="linear").fit(open_data(iter([(X, score)])))


def test_partial_fit_keeps_the_first_encoding():
    X, score, _ = table()
    model = AnytimeRegressor(GROUPS, encoding="spline", alpha=1e-3).partial_fit(X[:300], score[:300])
    first = content(model)
    shuffled = X[300:][X.columns[::-1]]
    model.partial_fit(shuffled, score[300:])
    assert content(model) == first
    assert model.moments_.n_samples == 600


def test_a_level_that_a_fold_lacks_is_no_obstacle():
    X, _, label = table(80)
    found = AnytimeClassifierCV(encoding=Encoding("linear", min_frequency=1), rule="omp", alphas=[1e-2], cv=5).fit(
        X, label
    )
    assert "job=pilot" in found.feature_names_out_ or found.cv_scores_.shape == (1, 5)
    assert np.isfinite(found.cv_scores_).all()


def test_weights_are_copies_of_rows():
    """Where no number of rows decides what a column becomes."""
    X, score, _ = table(200)
    weight = np.random.default_rng(SEED).integers(0, 3, 200)
    rows = np.repeat(np.arange(200), weight)
    a = AnytimeRegressor(GROUPS, encoding=Encoding("linear", min_frequency=0), alpha=1e-3)
    a.fit(X, score, sample_weight=weight)
    b = clone(a).fit(X.iloc[rows], score[rows])
    assert a.feature_names_out_.tolist() == b.feature_names_out_.tolist()
    seen = X[weight > 0]  # other rows may hold categories that no model knows
    np.testing.assert_allclose(a.predict(seen), b.predict(seen), rtol=1e-8)


UNIT_MODELS = {
    "regressor": AnytimeRegressor(GROUPS, encoding="spline"),
    "corrected": AnytimeRegressor(GROUPS, encoding="linear", correction=1.0),
    "pairs": AnytimeRegressor(GROUPS, encoding=Encoding(interactions=3)),
    "counts": AnytimeRegressor(GROUPS, encoding="spline", loss="poisson", rule="omp"),
    "classifier": AnytimeClassifier(GROUPS, encoding="spline", rule="score"),
    "classifier with pairs": AnytimeClassifier(GROUPS, encoding=Encoding(interactions=3), rule="score", correction=1.0),
    "search": AnytimeRegressorCV(GROUPS, encoding="spline", cv=3),
    "classifier search": AnytimeClassifierCV(GROUPS, encoding="linear", rule="omp", alphas=[1e-3, 1e-1], cv=3),
    "group lasso": GroupLassoPath(GROUPS, encoding="spline"),
}


@pytest.mark.parametrize("unit", [1e-9, 2.0**-20, 1e6])
@pytest.mark.parametrize("kind", UNIT_MODELS)
def test_the_unit_of_weights_does_not_matter(kind, unit):
    """Weights that sum to one once merged all categories of a column into one."""
    X, score, label = table(400)
    weight, model = np.random.default_rng(SEED).uniform(0.1, 3.0, 400), UNIT_MODELS[kind]
    y = label if hasattr(model, "predict_proba") else np.round(np.exp(score / 2)) if kind == "counts" else score
    a, b = (clone(model).fit(X, y, sample_weight=each) for each in (weight, unit * weight))
    assert a.feature_names_out_.tolist() == b.feature_names_out_.tolist()
    assert a.sequence_.groups == b.sequence_.groups
    method = "decision_function" if hasattr(model, "predict_proba") else "predict"
    for one, other in zip(*(getattr(each, f"staged_{method}")(X) for each in (a, b)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("unit", [0.1, 1 / 3, 0.7, 1e-12, 1e12])
@pytest.mark.parametrize("n", [57, 100, 101, 240])
def test_rounding_of_weights_does_not_decide_what_is_rare(unit, n):
    """Five rows of weight .1 once weighed 4.999…, and their category was merged with the rare ones."""
    level = np.repeat(["a", "b", "c", "d"], [5, 5, 4, n - 14])
    X = pd.DataFrame({"level": level, "spike": np.where(np.arange(n) < n // 10, 0, np.arange(n))})
    y = np.random.default_rng(SEED).normal(size=n)
    a = AnytimeRegressor(encoding="spline").fit(X, y)
    b = AnytimeRegressor(encoding="spline").fit(X, y, sample_weight=np.full(n, unit))
    assert {"level=a", "level=b", "level=(rare)"} < set(a.feature_names_out_)
    assert a.feature_names_out_.tolist() == b.feature_names_out_.tolist()
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("interactions", [0, 3])
def test_class_weights_are_sample_weights(interactions):
    X, _, label = table(400)
    by_class = {"yes": 0.2, "no": 3.0}
    settings = {"encoding": Encoding(interactions=interactions), "rule": "score"}
    a = AnytimeClassifier(GROUPS, class_weight=by_class, **settings).fit(X, label)
    b = AnytimeClassifier(GROUPS, **settings).fit(X, label, sample_weight=[by_class[each] for each in label])
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


def test_the_unit_of_weights_of_a_source_does_not_matter():
    X, _, label = table(400)
    weight = np.random.default_rng(SEED).uniform(0.1, 3.0, 400)
    model = AnytimeClassifier(GROUPS, encoding=Encoding(interactions=2), rule="score")

    def source(unit):
        starts = range(0, 400, 90)
        return open_data(lambda: ((X[a : a + 90], label[a : a + 90], unit * weight[a : a + 90]) for a in starts))

    found = [clone(model).fit(source(unit)).predict_proba(X) for unit in (1.0, 1e-6)]
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)


def test_certificates_and_comparisons_take_raw_tables():
    X, score, _ = table()
    model = AnytimeRegressor(GROUPS, encoding="spline", alpha=1e-3).fit(X, score)
    found = certify(model)
    assert np.all(found.achieved <= found.bounds + 1e-9)
    both = {name: clone(model).set_params(encoding=name) for name in ("linear", "spline")}
    result = compare(both, X, score, cv=2)
    assert set(result.curves) == {"linear", "spline"}


# -- the runner -------------------------------------------------------------------------------------------------


def extractors():
    return {
        "who": lambda row: [row["age"], row["job"]],
        "money": lambda row: row["income"],
        "visit": lambda row: {"new": row["new"], "day": row["day"]},
    }


@pytest.mark.parametrize("model", models(), ids=repr)
def test_extractors_return_raw_values(model):
    found, X = fitted(model)
    with AnytimeRunner(found, extractors()) as runner:
        for i in range(12):
            answer = runner.predict(X.iloc[i])
            partly = runner.predict(X.iloc[i], budget=found.sequence_.costs[0])
            expected = [found.predict(X.iloc[[i]], stage=stage)[0] for stage in (3, 1)]
            if not hasattr(found, "classes_"):
                expected = pytest.approx(expected, rel=1e-12)
            assert [answer.value, partly.value] == expected
            assert not answer.faults


def test_wrong_raw_values_are_faults_that_say_what_is_wrong():
    found, X = fitted(AnytimeRegressor(GROUPS, encoding="spline", alpha=1e-3))
    wrong = {"who": lambda row: ["old", "cook"], "money": lambda row: [1, 2], "visit": lambda row: {"new": True}}
    with AnytimeRunner(found, wrong) as runner:
        answer = runner.predict(X.iloc[0])
    assert "column 'age' holds text such as 'old', not numbers" in str(answer.faults["who"])
    assert "expected 1 values" in str(answer.faults["money"])
    assert "no value for column 'day'" in str(answer.faults["visit"])
    assert answer.groups == ()


@pytest.mark.parametrize("workers", [1, 3])
def test_pairs_follow_from_their_columns_when_a_model_is_run(workers):
    X, _, label = table()
    encoding = Encoding("spline", interactions=4)
    found = AnytimeClassifier(GROUPS, encoding=encoding, alpha=1e-3, rule="score").fit(X, label)
    pairs = [name for name in found.sequence_.groups if "×" in name]
    assert pairs
    with AnytimeRunner(found, extractors(), mode="thread", workers=workers) as runner:
        for i in range(6):
            answer = runner.predict(X.iloc[i])
            np.testing.assert_allclose(answer.probabilities, found.predict_proba(X.iloc[[i]])[0], rtol=1e-10)
            assert answer.groups == found.sequence_.groups
            assert answer.spent == found.sequence_.cumulative_costs[-1]
        many = runner.predict_many([X.iloc[i] for i in range(6)])
        np.testing.assert_allclose(many.probabilities, found.predict_proba(X.iloc[:6]), rtol=1e-10)
    broken = extractors() | {"money": lambda row: 1 / 0}
    with AnytimeRunner(found, broken) as runner:
        answer = runner.predict(X.iloc[0])
        there = [name for name in found.sequence_.groups if "income" not in name and name != "money"]
        assert list(answer.groups) == there
        expected = found.predict_proba(X.iloc[[0]], available=there)[0]
        np.testing.assert_allclose(answer.probabilities, expected, rtol=1e-10)
        for name in set(pairs) - set(there):
            assert "requires 'money'" in str(answer.faults[name])
    with pytest.raises(ValueError, match="follows from others"):
        AnytimeRunner(found, extractors() | {pairs[0]: lambda row: 1})


@pytest.mark.parametrize("n_pairs", [0, 4])
@pytest.mark.parametrize("kind", [AnytimeRegressor, AnytimeClassifier])
def test_rows_are_answered_from_the_groups_that_they_have(kind, n_pairs):
    """A group is missing where all of its raw columns are; a pair where a group of its columns is."""
    X, score, label = table()
    found = kind(GROUPS, encoding=Encoding("spline", interactions=n_pairs), alpha=1e-2, rule="score")
    found.fit(X, label if kind is AnytimeClassifier else score)
    new = X.iloc[:40].copy()
    rng = np.random.default_rng(SEED)
    away = {name: rng.random(40) < 0.4 for name in GROUPS.names}
    for name, columns in zip(GROUPS.names, GROUPS.columns, strict=True):
        new[list(columns)] = new[list(columns)].astype(object)
        new.loc[away[name], list(columns)] = None
    method = "predict_proba" if kind is AnytimeClassifier else "predict"
    answers = getattr(found, method)(new, available="auto")
    of_column = {column: name for name, columns in zip(GROUPS.names, GROUPS.columns, strict=True) for column in columns}
    for i in range(40):
        there = []
        for name in found.sequence_.groups:
            parents = [of_column[c] for c in name.split(" × ")] if "×" in name else [name]
            raw = [list(GROUPS.columns[GROUPS.names.index(p)]) for p in parents]
            if all(new.iloc[i][columns].notna().any() for columns in raw):
                there.append(name)
        np.testing.assert_allclose(answers[i], getattr(found, method)(new.iloc[[i]], available=there)[0], rtol=1e-8)


def chunkwise(monkeypatch):
    """Encode design columns when they are read, and return a list of the shapes that are made."""
    made = []
    encode = TableEncoding.encode

    def recorded(self, raw, columns=None, watch=None):
        found = encode(self, raw, columns, watch)
        made.append(found.shape)
        return found

    monkeypatch.setattr(encoding_table, "SMALL", 0)
    monkeypatch.setattr(rows, "CHUNK_BYTES", 1 << 13)
    monkeypatch.setattr(rows, "SHIFT_ROWS", 64)
    monkeypatch.setattr(TableEncoding, "encode", recorded)
    return made


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("model", "most"),
    [
        (AnytimeRegressor(GROUPS, encoding="spline"), 200),
        (AnytimeRegressor(GROUPS, encoding=Encoding("spline", interactions=3)), 200),
        (AnytimeRegressorCV(GROUPS, encoding="spline", alphas=[1e-3, 1e-1]), 200),
        (GroupLassoPath(GROUPS, encoding="linear"), 200),
        (AnytimeRegressor(GROUPS, encoding="spline", loss="poisson", rule="omp"), 600),
        (AnytimeClassifier(GROUPS, encoding="spline", rule="omp"), 600),
    ],
    ids=repr,
)
def test_squared_error_never_makes_the_whole_design_matrix(model, most, weighted, monkeypatch):
    X, score, label = table()
    y = label if isinstance(model, AnytimeClassifier) else np.exp(score) if model.loss == "poisson" else score
    weight = np.random.default_rng(SEED).uniform(0.5, 2, len(X)) if weighted else None
    whole = clone(model).fit(X, y, sample_weight=weight)
    made = chunkwise(monkeypatch)
    parts = clone(model).fit(X, y, sample_weight=weight)
    assert parts.sequence_.groups == whole.sequence_.groups
    np.testing.assert_allclose(parts.coef_path_, whole.coef_path_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(parts.intercept_path_, whole.intercept_path_, rtol=1e-9, atol=1e-11)
    assert max(n for n, D in made if D > 1) <= most


def test_parts_of_the_design_matrix_are_encoded_again_where_digits_are_lost(monkeypatch):
    X, score, _ = table()
    X = X.assign(again=X["income"] * (1 + 1e-7 * np.sin(np.arange(len(X)))), same=X["age"])
    model = AnytimeRegressor(encoding="linear", alpha=1e-12)
    whole = clone(model).fit(X, score)
    made = chunkwise(monkeypatch)
    parts = clone(model).fit(X, score)
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=0, atol=1e-6)
    assert sum(n for n, D in made if D > 1) > 2 * len(X)


def test_a_wide_design_matrix_is_made_at_once(monkeypatch):
    rng = np.random.default_rng(SEED)
    monkeypatch.setattr(linear, "SMALL_GRAM", 10)
    X = pd.DataFrame(rng.standard_normal((30, 40)), columns=[f"x{k}" for k in range(40)])
    model = AnytimeRegressor(encoding="linear", alpha=1e-2, max_groups=3)
    whole = clone(model).fit(X, X["x7"])
    made = chunkwise(monkeypatch)
    parts = clone(model).fit(X, X["x7"])
    assert (30, 40) in made
    np.testing.assert_allclose(parts.coef_path_, whole.coef_path_, rtol=0, atol=1e-12)


def test_partial_fit_encodes_in_chunks(monkeypatch):
    X, score, _ = table()
    model = AnytimeRegressor(GROUPS, encoding="spline", alpha=1e-3)
    whole = clone(model).partial_fit(X[:300], score[:300]).partial_fit(X[300:], score[300:])
    made = chunkwise(monkeypatch)
    parts = clone(model).partial_fit(X[:300], score[:300]).partial_fit(X[300:], score[300:])
    np.testing.assert_allclose(parts.coef_path_, whole.coef_path_, rtol=1e-9, atol=1e-11)
    assert max(n for n, D in made if D > 1) < 200


def test_design_columns_have_names_of_their_own():
    X, score, _ = table()
    X = X.assign(**{"job=cook": X["income"]})
    names = AnytimeRegressor(encoding="linear").fit(X, score).feature_names_out_.tolist()
    assert {"job=cook", "job=cook (2)"} <= set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_a_column_of_one_value_has_no_effect(kind, tmp_path):
    rng = np.random.default_rng(SEED)
    X = pd.DataFrame({"one": np.append(np.full(50, 5.0), [np.nan] * 10), "same": rng.choice([0.3, 0.1 + 0.2], 60)})
    model = AnytimeRegressor(encoding=kind).fit(X, rng.normal(size=60))
    np.testing.assert_array_equal(model.effects()["same"].values, 0)
    save(model, tmp_path / "m")
    expected = model.predict(X)
    np.testing.assert_array_equal(load(tmp_path / "m").predict(X), expected)
    np.testing.assert_array_equal(model.predict(X.assign(same=1e9, one=X["one"] * 1e6)), expected)
