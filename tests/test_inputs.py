"""What users pass in: tables of every kind, targets, weights, and the keywords of predict."""

from itertools import combinations

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import reference
from scipy import sparse
from set_functions import greedy_sequence
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    FeatureGroups,
    GroupLassoPath,
    Moments,
    budget_curve,
    cross_val_budget_curve,
    open_data,
)
from budgetline.glm import ConvexLoss
from budgetline.inputs import NamedArray
from budgetline.sequencing import Doubling

pytestmark = pytest.mark.quick_cases(12)

NAMES = ["a", "b", "c", "d"]
POSITIONS = FeatureGroups({"cheap": [1], "mid": [0, 2], "big": [3]}, {"cheap": 1, "mid": 2, "big": 10})
BY_NAME = FeatureGroups({"cheap": ["b"], "mid": ["a", "c"], "big": ["d"]}, {"cheap": 1, "mid": 2, "big": 10})

rng = np.random.default_rng(0)
X = rng.normal(loc=[0, 1, 2, 3], size=(30, 4))
y = X @ [1.0, 2.0, 0.5, -1.0] + 0.1 * rng.normal(size=30)
X.flags.writeable = y.flags.writeable = False
DF = pd.DataFrame(X, columns=NAMES)

FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "pyarrow": lambda X: pa.table({name: X[:, d] for d, name in enumerate(NAMES)}),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


@pytest.fixture(scope="module")
def on_array():
    return AnytimeRegressor(POSITIONS).fit(X, y)


@pytest.fixture(scope="module")
def on_frame():
    return AnytimeRegressor(BY_NAME).fit(DF, y)


def changed(X, row, column, value):
    X = np.array(X)
    X[row, column] = value
    return X


def wide(n=20, D=1100):
    """More columns than rows, and more than a thousand: no D × D matrix is formed."""
    return np.random.default_rng(1).normal(size=(n, D))


def assert_same_model(model, expected, rtol=1e-12):
    assert model.order_.tolist() == expected.order_.tolist()
    np.testing.assert_allclose(model.coef_path_, expected.coef_path_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.intercept_path_, expected.intercept_path_, rtol=rtol, atol=rtol)


# -- tables --------------------------------------------------------------------------------------------------


def test_frames_give_the_model_of_the_array(frame, on_array):
    model = AnytimeRegressor(BY_NAME).fit(frame(X), y)
    assert_same_model(model, on_array)
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_allclose(model.predict(frame(X)), on_array.predict(X), rtol=1e-12)
    np.testing.assert_allclose(model.predict(frame(X), budget=3), on_array.predict(X, budget=3), rtol=1e-12)


MIXED = {"a": X[:, 0], "b": X[:, 1] > 1, "c": (10 * X[:, 2]).astype(int), "d": X[:, 3]}
MIXED_ARRAY = np.column_stack([np.asarray(v, dtype=float) for v in MIXED.values()])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(MIXED),
        pd.DataFrame(MIXED).convert_dtypes(),
        pd.DataFrame(MIXED).astype({"a": "Float64", "b": "boolean", "c": "Int16"}),
        pd.DataFrame(MIXED).astype(object),
        pd.DataFrame(MIXED).astype({"c": object}),
        pd.DataFrame(MIXED).convert_dtypes(dtype_backend="pyarrow"),
        pd.DataFrame(MIXED, index=np.arange(30)[::-1]),
        pl.DataFrame(MIXED),
        pl.DataFrame(MIXED).with_columns(pl.col("c").cast(pl.UInt64)),
        pa.table(MIXED),
        pa.concat_tables([pa.table(MIXED)[:7], pa.table(MIXED)[7:]]),
    ],
    ids=[
        "numpy",
        "nullable",
        "Float64 boolean Int16",
        "object",
        "one object",
        "pandas pyarrow",
        "index",
        "polars",
        "polars UInt64",
        "pyarrow",
        "pyarrow chunks",
    ],
)
def test_mixed_dtypes(table):
    model = AnytimeRegressor(BY_NAME).fit(table, y)
    assert_same_model(model, AnytimeRegressor(POSITIONS).fit(MIXED_ARRAY, y))
    np.testing.assert_allclose(model.predict(table, budget=3), model.predict(pd.DataFrame(MIXED), budget=3))


@pytest.mark.parametrize(
    "columns",
    [range(4), [5, 6, 7, 8], pd.MultiIndex.from_product([["p", "q"], ["r", "s"]]), pd.date_range("2020", periods=4)],
    ids=["default", "integers", "multi", "dates"],
)
def test_frames_without_string_names_are_arrays(columns, on_array):
    table = pd.DataFrame(X, columns=columns)
    model = AnytimeRegressor(POSITIONS).fit(table, y)
    assert_same_model(model, on_array)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_allclose(model.predict(table), on_array.predict(X), rtol=1e-12)
    np.testing.assert_allclose(model.predict(table, budget=3), on_array.predict(X, budget=3), rtol=1e-12)
    np.testing.assert_allclose(model.predict(table, stage=0), on_array.predict(X, stage=0))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.uint64, np.float16, np.longdouble, object])
def test_array_dtypes(dtype):
    table = np.abs(30 * X).astype(dtype)
    expected = AnytimeRegressor(POSITIONS).fit(table.astype(float), y)
    model = AnytimeRegressor(POSITIONS).fit(table, y)
    assert_same_model(model, expected)
    np.testing.assert_allclose(model.predict(table, budget=3), expected.predict(table.astype(float), budget=3))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("container", ["matrix", "array"])
def test_sparse_tables(kind, container):
    dense = np.where(np.abs(X - X.mean(0)) > 0.7, X, 0.0)
    table = getattr(sparse, f"{kind}_{container}")(dense)
    expected = AnytimeRegressor(POSITIONS).fit(dense, y)
    model = AnytimeRegressor(POSITIONS).fit(table, y)
    assert_same_model(model, expected, rtol=1e-10)
    for keywords in ({}, {"budget": 3}, {"stage": 0}, {"available": ["big", "cheap"]}):
        np.testing.assert_allclose(model.predict(table, **keywords), expected.predict(dense, **keywords), rtol=1e-9)


def test_light_sparse_tables_give_the_model_of_the_array():
    dense = np.where(rng.random((300, 20)) < 0.03, rng.normal(size=(300, 20)), 0.0)
    target = dense @ rng.normal(size=20) + rng.normal(size=300)
    expected = AnytimeRegressor().fit(dense, target)
    assert_same_model(AnytimeRegressor().fit(sparse.csr_array(dense), target), expected, rtol=1e-9)


def test_lists_are_tables(on_array):
    assert_same_model(AnytimeRegressor(POSITIONS).fit(X.tolist(), y.tolist()), on_array)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (X[None], ValueError, "dim 3"),
        (X[0], ValueError, "2D"),
        (X[:0], ValueError, "0 sample"),
        (X[:, :0], ValueError, "0 feature"),
        (DF[:0], ValueError, "0 sample"),
        (DF[[]], ValueError, "0 feature"),
        (None, ValueError, "2D"),
        (DF["a"], ValueError, "2-dimensional"),
        (pl.LazyFrame(DF), TypeError, "collect"),
        (X + 1j, ValueError, "[Cc]omplex"),
        (np.full((30, 4), "x"), ValueError, "column 0 does not hold numbers"),
        (X.astype(str), ValueError, "strings"),
        (pd.DataFrame(X, columns=["a", "a", "b", "c"]), ValueError, "'a'"),
    ],
)
def test_what_is_no_table(table, error, message):
    with pytest.raises(error, match=message):
        AnytimeRegressor().fit(table, y[:0] if getattr(table, "shape", (1,))[0] == 0 else y)


HUGE = 10**400
"""No float can hold it."""


@pytest.mark.parametrize("as_table", [lambda rows: rows, lambda rows: np.array(rows, dtype=object)])
def test_whole_numbers_that_no_float_can_hold_are_named(as_table, on_array):
    rows = [*X[1:].tolist(), [1, 2, HUGE, 4]]
    with pytest.raises(ValueError, match=r"column 2 .*too large"):
        AnytimeRegressor().fit(as_table(rows), y)
    with pytest.raises(ValueError, match=r"column 2 .*too large"):
        on_array.predict(as_table(rows))
    with pytest.raises(ValueError, match=r"y contains a whole number that is too large"):
        AnytimeRegressor().fit(X, as_table([*y[1:], HUGE]))
    with pytest.raises(ValueError, match=r"sample_weight contains a whole number that is too large"):
        AnytimeRegressor().fit(X, y, sample_weight=as_table([*np.ones(29), HUGE]))
    with pytest.raises(ValueError, match=r"chunk 0: Input sample_weight contains a whole number that is too large"):
        AnytimeRegressor().fit(open_data(iter([(X, y, [*np.ones(29), HUGE])])))
    with pytest.raises(ValueError, match=r"column 'c' holds a whole number that is too large"):
        AnytimeRegressor(encoding="linear").fit(DF.assign(c=pd.Series([*range(29), HUGE], dtype=object)), y)


def test_large_whole_numbers_in_lists_are_floats(on_array):
    found = on_array.predict([[10**20, 1, 2, 3]])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, on_array.predict(np.array([[1e20, 1, 2, 3]])))


def text(frame):
    column = ["x"] * 30
    if isinstance(frame, pd.DataFrame):
        return frame.assign(c=column)
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(c=pl.Series(column))
    return frame.set_column(2, "c", [column])


def test_strings_are_named(frame):
    with pytest.raises(ValueError, match="column 'c' holds String"):
        AnytimeRegressor().fit(text(frame(X)), y)


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(["u", "v", "w"] * 10),
        pd.to_datetime(["2020-01-01"] * 30),
        pd.to_timedelta(["1s"] * 30),
        pd.Series([1.0] * 29 + ["x"], dtype=object),
        pd.Series([1.0] * 29 + [[2]], dtype=object),
    ],
    ids=["categories", "dates", "durations", "text among numbers", "list among numbers"],
)
def test_columns_that_are_not_numbers_are_named(values):
    with pytest.raises(ValueError, match="column 'c'"):
        AnytimeRegressor().fit(DF.assign(c=values), y)
    assert AnytimeRegressor(FeatureGroups([[0], [1, 3]], remainder="drop")).fit(DF.assign(c=values), y).coef_[2] == 0


# -- values that are masked ----------------------------------------------------------------------------------

HIDDEN = np.arange(len(y)) == 3
MASKED = {
    "X": lambda: AnytimeRegressor().fit(np.ma.array(X, mask=np.zeros_like(X) + HIDDEN[:, None]), y),
    "rows of X": lambda: AnytimeRegressor().fit([np.ma.array(row, mask=row == row[0]) for row in X], y),
    "y": lambda: AnytimeRegressor().fit(X, np.ma.array(y, mask=HIDDEN)),
    "rows of y": lambda: AnytimeRegressor().fit(
        X, [np.ma.array([a, a], mask=[h, 0]) for a, h in zip(y, HIDDEN, strict=True)]
    ),
    "labels": lambda: AnytimeClassifier().fit(X, np.ma.array(y > 0, mask=HIDDEN)),
    "texts": lambda: AnytimeClassifier().fit(X, np.ma.array(np.where(y > 0, "a", "b"), mask=HIDDEN)),
    "weights": lambda: AnytimeRegressor().fit(X, y, sample_weight=np.ma.array(np.ones(len(y)), mask=HIDDEN)),
}


@pytest.mark.parametrize("what", MASKED)
def test_masked_values_are_not_taken_for_what_is_under_the_mask(what):
    name = {"weights": "sample_weight"}.get(what, "X" if "X" in what else "y")
    text = f"^({name} is a masked array with masked values: fill them first|Input {name} contains a masked value)"
    with pytest.raises(ValueError, match=text):
        MASKED[what]()


def test_a_mask_that_hides_nothing_is_no_mask():
    masked = AnytimeRegressor().fit(
        np.ma.array(X), np.ma.array(y, mask=False), np.ma.array(np.ones(len(y)), mask=False)
    )
    np.testing.assert_array_equal(masked.coef_, AnytimeRegressor().fit(X, y).coef_)


# -- values that are not finite ------------------------------------------------------------------------------

KINDS = {
    "float64": np.asarray,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "object": lambda X: X.astype(object),
    "csr": sparse.csr_array,
    "csc float32": lambda X: sparse.csc_array(X.astype(np.float32)),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("kind", KINDS)
class TestNotFinite:
    def test_fit_names_the_column(self, kind, value, word):
        with pytest.raises(ValueError, match=f"{word}: column '2', first in row 7"):
            AnytimeRegressor().fit(KINDS[kind](changed(X, 7, 2, value)), y)

    def test_wide_tables_too(self, kind, value, word):
        table = KINDS[kind](changed(wide(), 3, 1050, value))
        with pytest.raises(ValueError, match=f"{word}: column '1050', first in row 3"):
            AnytimeRegressor(max_groups=2).fit(table, y[:20])

    def test_dropped_columns_do_not_matter(self, kind, value, word):
        groups = FeatureGroups([[0], [1, 3]], remainder="drop")
        clean, dirty = KINDS[kind](np.array(X)), KINDS[kind](changed(X, 7, 2, value))
        expected, model = AnytimeRegressor(groups).fit(clean, y), AnytimeRegressor(groups).fit(dirty, y)
        assert_same_model(model, expected)
        assert np.array_equal(model.predict(dirty), expected.predict(clean))
        with pytest.raises(ValueError, match="column '2'"):
            AnytimeRegressor(FeatureGroups([[0], [1, 2]], remainder="drop")).fit(dirty, y)

    def test_dropped_columns_of_wide_tables_do_not_matter(self, kind, value, word):
        groups = [list(range(0, 1050, 50)), list(range(1051, 1100))]
        model = AnytimeRegressor(FeatureGroups(groups, remainder="drop"), max_groups=1)
        model.fit(KINDS[kind](changed(wide(), 3, 1050, value)), y[:20])
        used = [d for group in groups for d in group]
        clean = np.array(dense(KINDS[kind](wide())), dtype=float)[:, used]
        expected = AnytimeRegressor([range(21), range(21, 70)], max_groups=1).fit(clean, y[:20])
        assert model.order_.tolist() == expected.order_.tolist()
        np.testing.assert_allclose(model.coef_[used], expected.coef_, rtol=1e-3, atol=1e-5)
        assert np.count_nonzero(model.coef_) == np.count_nonzero(expected.coef_)

    @pytest.mark.slow  # a thousand columns in one group
    def test_dropped_columns_of_tables_without_a_gram_matrix_do_not_matter(self, kind, value, word):
        groups = [list(range(1050)), list(range(1051, 1100))]
        model = AnytimeRegressor(FeatureGroups(groups, remainder="drop"), max_groups=1, alpha=1.0)
        model.fit(KINDS[kind](changed(wide(), 3, 1050, value)), y[:20])
        expected = AnytimeRegressor([range(1050), range(1050, 1099)], max_groups=1, alpha=1.0)
        expected.fit(np.delete(np.array(dense(KINDS[kind](wide())), dtype=float), 1050, axis=1), y[:20])
        assert model.order_.tolist() == expected.order_.tolist()
        np.testing.assert_allclose(np.delete(model.coef_, 1050), expected.coef_, rtol=1e-3, atol=1e-5)
        assert model.coef_[1050] == 0

    def test_predict_names_the_column(self, kind, value, word, on_array):
        with pytest.raises(ValueError, match=f"{word}: column '3', first in row 7"):
            on_array.predict(KINDS[kind](changed(X, 7, 3, value)))

    def test_predict_does_not_look_at_unused_columns(self, kind, value, word, on_array):
        clean, dirty = KINDS[kind](np.array(X)), KINDS[kind](changed(X, 7, 3, value))
        for keywords in ({"budget": 3}, {"stage": 2}, {"available": ["mid"]}, {"stage": 0}):
            assert np.array_equal(on_array.predict(dirty, **keywords), on_array.predict(clean, **keywords))


def test_missing_values_in_frames_are_named(frame):
    table = {name: X[:, d].tolist() for d, name in enumerate(NAMES)}
    table["c"][5] = None
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[type_name(frame(X))](table)
    with pytest.raises(ValueError, match="NaN: column 'c', first in row 5"):
        AnytimeRegressor(BY_NAME).fit(table, y)
    groups = FeatureGroups({"g": ["a", "b"], "h": ["d"]}, remainder="drop")
    assert_same_model(AnytimeRegressor(groups).fit(table, y), AnytimeRegressor(groups).fit(DF, y))


def type_name(table):
    return type(table).__module__.split(".")[0].replace("_", "")


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "boolean", object])
def test_missing_values_of_nullable_columns_are_named(dtype):
    column = pd.Series([1, 0, None] + [1] * 27).astype(dtype)
    with pytest.raises(ValueError, match="NaN: column 'c', first in row 2"):
        AnytimeRegressor().fit(DF.assign(c=column), y)


@pytest.mark.parametrize("reader", [AnytimeRegressorCV(cv=3).fit, Moments.from_data])
def test_other_readers_name_the_column(reader):
    with pytest.raises(ValueError, match="NaN: column 'c', first in row 7"):
        reader(FRAMES["pandas"](changed(X, 7, 2, np.nan)), y)


def test_dropped_columns_may_hold_anything(frame):
    groups = FeatureGroups({"g": ["a", "b"], "h": ["d"]}, remainder="drop")
    model = AnytimeRegressor(groups).fit(text(frame(X)), y)
    assert_same_model(model, AnytimeRegressor(groups).fit(DF, y))
    np.testing.assert_allclose(model.predict(text(frame(X))), model.predict(DF), rtol=1e-12)


def test_dropped_columns_of_frames_without_names_may_hold_anything():
    table = pd.DataFrame({0: X[:, 0], 1: X[:, 1], 2: ["x"] * 30, 3: X[:, 3]})
    groups = FeatureGroups([[0], [1, 3]], remainder="drop")
    model = AnytimeRegressor(groups).fit(table, y)
    assert_same_model(model, AnytimeRegressor(groups).fit(X, y))
    np.testing.assert_allclose(model.predict(table), model.predict(X), rtol=1e-12)


# -- degenerate tables and extreme values --------------------------------------------------------------------


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e8 + 0.1, 1e-300, 1e150])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
@pytest.mark.parametrize("alpha", [0.0, 1e-5])
def test_constant_columns_get_an_exact_zero(constant, kind, alpha):
    if kind == "float32" and constant > 1e38:
        constant = 3e38
    with_constant = KINDS[kind](np.column_stack([X, np.full(30, constant)]))
    model = AnytimeRegressor(alpha=alpha).fit(with_constant, y)
    assert model.coef_[4] == 0
    expected = AnytimeRegressor(alpha=alpha).fit(KINDS[kind](np.array(X)), y)
    np.testing.assert_allclose(model.coef_[:4], expected.coef_, rtol=1e-6)
    assert model.order_[-1] == 4


@pytest.mark.parametrize("alpha", [0.0, 1e-5])
@pytest.mark.parametrize("table", [np.ones((30, 2)), np.zeros((30, 2)), sparse.csr_array((30, 2))])
def test_nothing_but_constants_predicts_the_mean(table, alpha):
    model = AnytimeRegressor(alpha=alpha).fit(table, y)
    assert not model.coef_.any()
    np.testing.assert_allclose(model.predict(table), y.mean())


@pytest.mark.parametrize("alpha", [0.0, 1e-5])
def test_one_row_predicts_its_target(alpha):
    model = AnytimeRegressor(alpha=alpha).fit(X[:1], y[:1])
    np.testing.assert_allclose(model.predict(X), y[0])
    assert model.sequence_.explained.tolist() == [0.0] * 4


@pytest.mark.parametrize("shape", [(3, 4), (5, 60), (20, 1100)])
def test_more_columns_than_rows_interpolate(shape):
    table, target = wide(*shape), y[: shape[0]]
    model = AnytimeRegressor(alpha=0, max_groups=60).fit(table, target)
    assert np.isfinite(model.coef_path_).all()
    np.testing.assert_allclose(model.predict(table), target, atol=1e-10)


def test_constant_target():
    model = AnytimeRegressor(POSITIONS).fit(X, np.full(30, 0.1))
    assert not model.coef_path_.any()
    assert model.predict(X).tolist() == [0.1] * 30
    assert not model.sequence_.explained.any()
    assert not len(AnytimeRegressor(min_gain=0.1).fit(X, np.full(30, 0.1)).sequence_)


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e100, 1e149])
@pytest.mark.parametrize("where", ["X", "one column", "y", "X and y"])
@pytest.mark.parametrize("kind", ["float64", "csr"])
def test_extreme_values_scale_through(scale, where, kind):
    columns = np.array([1, 1, 1, scale]) if where == "one column" else scale if "X" in where else 1.0
    target = scale if "y" in where else 1.0
    model = AnytimeRegressor().fit(KINDS[kind](X * columns), y * target)
    expected = AnytimeRegressor().fit(X, y)
    np.testing.assert_allclose(model.coef_ * columns / target, expected.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.predict(X * columns) / target, expected.predict(X), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-37, 1e-25, 1e-18, 1e10, 1e19, 1e30, 1e37])
@pytest.mark.parametrize("table", [X, wide()], ids=["tall", "wide"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_float32_whose_squares_leave_its_range(scale, table, kind):
    target = y[: len(table)]
    model = AnytimeRegressor(max_groups=3).fit(kind((table * scale).astype(np.float32)), target)
    expected = AnytimeRegressor(max_groups=3).fit(table, target)
    assert model.order_.tolist() == expected.order_.tolist()
    np.testing.assert_allclose(model.coef_ * scale, expected.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_float32_features_with_a_float64_target(scale):
    model = AnytimeRegressor().fit(X.astype(np.float32), y * scale)
    np.testing.assert_allclose(model.coef_ / scale, AnytimeRegressor().fit(X, y).coef_, rtol=1e-5)


@pytest.mark.parametrize("kind", ["float64", "csr"])
@pytest.mark.parametrize("table", [X, wide()], ids=["tall", "wide"])
def test_values_too_large_to_square_are_named(kind, table):
    with pytest.raises(ValueError, match=r"column '2' holds 1e\+200"):
        AnytimeRegressor(max_groups=1).fit(KINDS[kind](changed(table, 4, 2, 1e200)), y[: len(table)])


@pytest.mark.parametrize("table", [X, wide()], ids=["tall", "wide"])
def test_targets_too_large_to_square_are_an_error(table):
    with pytest.raises(ValueError, match=r"y .*too large"):
        AnytimeRegressor(max_groups=1).fit(table, y[: len(table)] * 1e200)


# -- targets and weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        y.tolist(),
        y.astype(object),
        pd.Series(y, index=np.arange(30)[::-1]),
        pd.Series(y, dtype="Float64"),
        pl.Series(y),
        pa.array(y),
    ],
    ids=["list", "object", "Series", "nullable", "polars", "pyarrow"],
)
def test_kinds_of_targets(target, on_array):
    assert_same_model(AnytimeRegressor(POSITIONS).fit(X, target), on_array)


def test_a_column_of_targets_keeps_its_shape(on_array):
    model = AnytimeRegressor(POSITIONS).fit(X, y[:, None])
    assert model.coef_.shape == (1, 4)
    assert model.coef_path_.shape == (3, 1, 4)
    assert model.intercept_path_.shape == (3, 1)
    assert model.predict(X).shape == (30, 1)
    assert all(p.shape == (30, 1) for p in model.staged_predict(X))
    np.testing.assert_allclose(model.predict(X, budget=3)[:, 0], on_array.predict(X, budget=3), rtol=1e-12)
    assert on_array.coef_.shape == (4,)
    assert isinstance(on_array.intercept_, float)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, int])
@pytest.mark.parametrize("target", [y, np.column_stack([y, -y])], ids=["one target", "two targets"])
def test_whatever_goes_in_float64_comes_out(dtype, target):
    table = X.astype(dtype)
    model = AnytimeRegressor(POSITIONS).fit(table, target)
    for array in (model.coef_, model.coef_path_, np.asarray(model.intercept_), model.intercept_path_):
        assert array.dtype == np.float64
    for keywords in ({}, {"stage": 0}, {"budget": 3}, {"available": ["big"]}):
        assert model.predict(np.array(X), **keywords).dtype == np.float64
    assert next(model.staged_predict(np.array(X))).dtype == np.float64
    moments = Moments.from_data(table, target)
    assert moments.mean.dtype == moments.scatter.dtype == np.float64


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (None, ValueError, "y to be passed"),
        (y[:29], ValueError, "29, 30"),
        (changed(y[:, None], 3, 0, np.nan)[:, 0], ValueError, "y contains NaN"),
        (changed(y[:, None], 3, 0, np.inf), ValueError, "y contains infinity"),
        (np.array(["x"] * 30), ValueError, "could not convert"),
        (y[None], ValueError, "1, 30"),
        (y[:, None, None], ValueError, "dim 3"),
        (np.empty((30, 0)), ValueError, "0 feature"),
        (3.0, ValueError, "y must have shape"),
        (y + 1j, ValueError, "[Cc]omplex"),
        (sparse.csr_array(y[:, None]), TypeError, "[Ss]parse"),
    ],
)
def test_bad_targets(target, error, message):
    for estimator in (AnytimeRegressor(), AnytimeRegressorCV()):
        with pytest.raises(error, match=message):
            estimator.fit(X, target)


WEIGHT = rng.integers(0, 4, 30).astype(float)


@pytest.mark.parametrize(
    "weight",
    [
        WEIGHT.astype(int),
        WEIGHT.tolist(),
        pd.Series(WEIGHT, index=np.arange(30)[::-1]),
        pl.Series(WEIGHT),
        WEIGHT * 1e-200,
        WEIGHT * 1e200,
    ],
    ids=["int", "list", "Series", "polars", "tiny", "huge"],
)
@pytest.mark.parametrize("kind", ["float64", "csr"])
def test_weights_are_repetitions(weight, kind):
    rows = np.repeat(np.arange(30), WEIGHT.astype(int))
    model = AnytimeRegressor(POSITIONS).fit(KINDS[kind](np.array(X)), y, sample_weight=weight)
    assert_same_model(model, AnytimeRegressor(POSITIONS).fit(X[rows], y[rows]), rtol=1e-9)


@pytest.mark.parametrize("weight", [2.0, 1, np.float32(0.5), np.ones(30)])
def test_equal_weights_change_nothing(weight, on_array):
    assert_same_model(AnytimeRegressor(POSITIONS).fit(X, y, sample_weight=weight), on_array)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(30), "sample_weight is zero"),
        (0.0, "sample_weight is zero"),
        (np.r_[np.ones(4), -1, np.ones(25)], r"sample_weight\[4\] is negative"),
        (-1.0, r"sample_weight\[0\] is negative"),
        (np.ones(29), r"\(29,\)"),
        (np.ones((30, 1)), "1D"),
        (np.r_[np.nan, np.ones(29)], "sample_weight contains NaN"),
        (np.r_[np.inf, np.ones(29)], "sample_weight contains infinity"),
        (["x"] * 30, "could not convert"),
        (np.full(30, 1e308), "sample_weight"),
    ],
)
@pytest.mark.parametrize("table", [X, wide(30)], ids=["tall", "wide"])
def test_bad_weights(weight, message, table):
    with pytest.raises(ValueError, match=message):
        AnytimeRegressor(max_groups=2).fit(table, y, sample_weight=weight)


# -- predict: the table --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keywords", [{}, {"budget": 1}, {"stage": 0}])
def test_columns_of_frames_are_found_by_name(frame, on_frame, keywords):
    shuffled = pd.DataFrame(X, columns=NAMES)[["d", "a", "b", "c"]].assign(z="text")
    shuffled = {"pandas": lambda t: t, "polars": pl.DataFrame, "pyarrow": pa.Table.from_pandas}[type_name(frame(X))](
        shuffled
    )
    np.testing.assert_allclose(on_frame.predict(shuffled, **keywords), on_frame.predict(DF, **keywords), rtol=1e-12)
    for a, b in zip(on_frame.staged_predict(shuffled), on_frame.staged_predict(DF), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    found, expected = (budget_curve(on_frame, table, y).values for table in (shuffled, DF))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "keywords"),
    [
        (["a", "b", "c"], {"budget": 3}),
        (["a", "b", "c"], {"budget": 12.9}),
        (["b"], {"stage": 1}),
        (["b", "d"], {"stage": 1}),
        (["d"], {"available": ["big"]}),
        (["b", "d"], {"available": {"big", "cheap"}}),
        (["a"], {"stage": 0}),
        (["a"], {"available": []}),
    ],
)
def test_unused_columns_may_be_missing(frame, on_frame, columns, keywords):
    part = {"pandas": lambda t: t[columns], "polars": lambda t: t[columns], "pyarrow": lambda t: t.select(columns)}
    table = frame(X)
    found = on_frame.predict(part[type_name(table)](table), **keywords)
    np.testing.assert_allclose(found, on_frame.predict(DF, **keywords), rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "keywords", "missing"),
    [
        (["a", "b", "c"], {}, "d"),
        (["a", "b", "c"], {"budget": 13}, "d"),
        (["a"], {"budget": 1}, "b"),
        (["a", "b", "d"], {"stage": 2}, "c"),
        (["b"], {"available": ["big"]}, "d"),
    ],
)
def test_missing_used_columns_are_named(on_frame, columns, keywords, missing):
    with pytest.raises(ValueError, match=rf"column '{missing}' of group '\w+' is missing"):
        on_frame.predict(DF[columns], **keywords)


@pytest.mark.parametrize("table", [DF.assign(z=1.0), DF[["b"]].assign(z="text")])
def test_columns_that_are_not_needed_are_not_read(on_frame, table):
    np.testing.assert_allclose(on_frame.predict(table, budget=1), on_frame.predict(DF, budget=1), rtol=1e-12)


@pytest.mark.parametrize("keywords", [{}, {"budget": 1}, {"stage": 0}])
def test_wrong_number_of_columns(on_array, keywords):
    with pytest.raises(ValueError, match=r"3 features.* expecting 4"):
        on_array.predict(X[:, :3], **keywords)
    with pytest.raises(ValueError, match=r"5 features.* expecting 4"):
        on_array.predict(np.column_stack([X, y]), **keywords)


@pytest.mark.parametrize("columns", [NAMES, ["b"]])
def test_predicting_no_rows_is_an_error(on_frame, columns):
    with pytest.raises(ValueError, match="0 sample"):
        on_frame.predict(DF[columns][:0], budget=1)


def test_unused_columns_of_frames_may_hold_anything(on_frame):
    for values in (["x"] * 30, [None] * 30, [np.nan] * 30):
        table = DF.assign(d=values)
        np.testing.assert_allclose(on_frame.predict(table, budget=3), on_frame.predict(DF, budget=3), rtol=1e-12)
        with pytest.raises(ValueError, match="column 'd'"):
            on_frame.predict(table)
        with pytest.raises(ValueError, match="column 'd'"):
            next(on_frame.staged_predict(table))


def test_names_seen_only_once_are_a_warning(on_frame, on_array):
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        on_frame.predict(X)
    with pytest.warns(UserWarning, match="X has feature names"):
        on_array.predict(DF)


# -- predict: the keywords -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "stage"),
    [(0, 0), (0.999, 0), (1, 1), (1.0, 1), (2.999, 1), (3, 2), (np.int64(3), 2), (np.float32(12.5), 2), (13, 3),
     (1e300, 3), (np.inf, 3)],
)  # fmt: skip
def test_budget_is_the_longest_affordable_prefix(on_array, budget, stage):
    assert on_array.sequence_.groups == ("cheap", "mid", "big")
    assert np.array_equal(on_array.predict(X, budget=budget), on_array.predict(X, stage=stage))


def test_stage_zero_is_the_mean(on_array):
    np.testing.assert_allclose(on_array.predict(X, stage=0), y.mean(), rtol=1e-12)
    assert np.array_equal(on_array.predict(X), on_array.predict(X, stage=3))


def test_staged_predict_is_predict_at_every_stage(on_array):
    stages = list(on_array.staged_predict(X))
    assert len(stages) == 3
    for j, prediction in enumerate(stages, start=1):
        np.testing.assert_allclose(prediction, on_array.predict(X, stage=j), rtol=1e-12)
        np.testing.assert_allclose(prediction, X @ on_array.coef_path_[j - 1] + on_array.intercept_path_[j - 1])


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"budget": -1}, ValueError, "budget .* -1"),
        ({"budget": np.nan}, ValueError, "budget .* nan"),
        ({"budget": "3"}, ValueError, "budget .* '3'"),
        ({"budget": True}, ValueError, "budget .* True"),
        ({"budget": [3]}, ValueError, r"budget .* \[3\]"),
        ({"budget": 1j}, ValueError, "budget .* 1j"),
        ({"stage": 4}, ValueError, "stage must be between 0 and 3, got 4"),
        ({"stage": -1}, ValueError, "stage must be between 0 and 3, got -1"),
        ({"stage": 1.0}, TypeError, "stage .* 1.0"),
        ({"stage": True}, TypeError, "stage .* True"),
        ({"stage": "1"}, TypeError, "stage .* '1'"),
        ({"available": ["cheap", "nope"]}, ValueError, "unknown group 'nope'.* 'cheap', 'mid', 'big'"),
        ({"available": {0}}, ValueError, "unknown group 0"),
        ({"available": "cheap"}, TypeError, "available .* 'cheap'"),
        ({"available": 3}, TypeError, "available .* 3"),
        ({"budget": 1, "stage": 1}, ValueError, "at most one"),
        ({"budget": 0, "stage": 0}, ValueError, "at most one"),
        ({"stage": 0, "available": []}, ValueError, "at most one"),
        ({"budget": 1, "stage": 1, "available": ["big"]}, ValueError, "at most one"),
    ],
)
def test_bad_keywords_are_named(on_array, keywords, error, message):
    with pytest.raises(error, match=message):
        on_array.predict(X, **keywords)


def test_rounded_budgets_are_enough():
    model = AnytimeRegressor([[1], [0], [2], [3]], costs=[0.1, 0.2, 0.3, 0.4]).fit(X, y)
    for j, total in enumerate(model.sequence_.cumulative_costs, start=1):
        assert np.array_equal(model.predict(X, budget=round(float(total), 1)), model.predict(X, stage=j))
    exact = AnytimeRegressor([[1], [0, 2, 3]], costs=[0.1, 0.2]).fit(X, y)
    assert exact.sequence_.cumulative_costs[-1] > 0.3
    assert np.array_equal(exact.predict(X, budget=0.3), exact.predict(X, stage=2))
    assert np.array_equal(exact.predict(X, budget=0.2999), exact.predict(X, stage=1))


def test_free_groups_come_first_and_need_no_budget():
    model = AnytimeRegressor([[0], [1], [2], [3]], costs=[1, 0, 3, 0]).fit(X, y)
    assert set(model.order_[:2].tolist()) == {1, 3}
    assert np.array_equal(model.predict(X, budget=0), model.predict(X, stage=2))
    free = AnytimeRegressor([[0], [1], [2], [3]], costs=[0] * 4, schedule="doubling").fit(X, y)
    assert len(free.sequence_) == 4
    assert np.array_equal(free.predict(X, budget=0), free.predict(X))


# -- predict with any subset of groups -----------------------------------------------------------------------

GROUPS = [[0], [1, 2], [3, 6], [4, 5]]
SUBSETS = [S for k in range(5) for S in combinations(range(4), k)]


def refit(X, Y, w, columns, alpha, Z):
    s = reference.standardise(X, Y, w)
    return ((Z - s.x_mean) / s.x_scale) @ reference.fit(s.Xs, s.Yc, s.w, columns, alpha) + s.y_mean


def subset_data(case):
    rng = np.random.default_rng(5)
    table = rng.normal(size=(4 if case == "few rows" else 40, 7))
    if case == "duplicates":
        table[:, 3], table[:, 5], table[:, 6] = table[:, 0], table[:, 4], table[:, 1] + table[:, 2]
    if case == "constants":
        table[:, 2], table[:, 4] = 0.1, 3.0
    target = table @ rng.normal(size=(7, 2 if case == "two targets" else 1)) + rng.normal(size=(len(table), 1))
    weight = rng.integers(0, 4, len(table)).astype(float) if case == "weights" else None
    return table, target, weight, rng.normal(size=(6, 7))


@pytest.mark.parametrize("case", ["plain", "two targets", "weights", "duplicates", "constants", "few rows"])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize("schedule", ["greedy", "doubling"])
def test_available_is_a_refit_on_those_columns(case, alpha, schedule):
    table, target, weight, new = subset_data(case)
    model = AnytimeRegressor(GROUPS, [1, 4, 2, 9], alpha=alpha, schedule=schedule).fit(table, target, weight)
    for subset in SUBSETS:
        expected = refit(table, target, weight, [d for g in subset for d in GROUPS[g]], alpha, new)
        found = model.predict(new, available=[str(g) for g in reversed(subset)])
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=f"{subset} of {model.order_}")


def test_available_prefixes_are_the_stages(on_array):
    names = on_array.sequence_.groups
    for j in range(4):
        assert np.array_equal(on_array.predict(X, available=set(names[:j])), on_array.predict(X, stage=j))


@pytest.mark.parametrize(
    "collection",
    [list, tuple, set, frozenset, np.array, pd.Index, dict.fromkeys, lambda names: dict.fromkeys(names).keys(),
     lambda names: names * 2, iter, lambda names: (name for name in names)],
    ids=["list", "tuple", "set", "frozenset", "array", "Index", "dict", "keys", "repeated", "iterator", "generator"],
)  # fmt: skip
def test_available_is_any_collection(on_array, collection):
    expected = on_array.predict(X, available=["big", "mid"])
    assert not np.allclose(expected, on_array.predict(X, stage=0))
    assert np.array_equal(on_array.predict(X, available=collection(["big", "mid"])), expected)


def test_groups_outside_the_sequence_add_nothing():
    model = AnytimeRegressor(POSITIONS, max_cost=3).fit(X, y)
    assert model.sequence_.groups == ("cheap", "mid")
    with pytest.warns(UserWarning, match="'big' is not used"):
        assert np.array_equal(model.predict(X, available=["big", "cheap"]), model.predict(X, available=["cheap"]))
    with pytest.warns(UserWarning, match="'big' is not used"):
        assert np.array_equal(model.predict(X, available=["big"]), model.predict(X, stage=0))
    short = AnytimeRegressor(POSITIONS, max_cost=1).fit(X, y)
    with pytest.warns(UserWarning, match="groups 'big', 'mid' are not used: the order ended before them"):
        assert np.array_equal(short.predict(X, available=["mid", "big"]), short.predict(X, stage=0))


# -- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "groups"),
    [
        ({"max_groups": 1}, ("cheap",)),
        ({"max_groups": 2}, ("cheap", "mid")),
        ({"max_groups": 9}, ("cheap", "mid", "big")),
        ({"max_cost": 13}, ("cheap", "mid", "big")),
        ({"max_cost": 12.9}, ("cheap", "mid")),
        ({"max_cost": 11}, ("cheap", "mid")),
        ({"max_cost": 1}, ("cheap",)),
        ({"max_cost": 0.5}, ()),
        ({"max_cost": 0}, ()),
        ({"min_gain": 1.0}, ()),
        ({"schedule": Doubling(c_min=0.5, literal=True)}, ()),
    ],
)
def test_limits(limits, groups):
    model = AnytimeRegressor(POSITIONS, **limits).fit(X, y)
    assert model.sequence_.groups == groups
    assert model.coef_path_.shape == (len(groups), 4)
    assert model.intercept_path_.shape == (len(groups),)
    assert len(list(model.staged_predict(X))) == len(groups)
    assert np.array_equal(model.predict(X), model.predict(X, stage=len(groups)))
    if not groups:
        np.testing.assert_allclose(model.predict(X), y.mean())
        assert not model.coef_.any()


def test_max_cost_passes_over_what_does_not_fit():
    model = AnytimeRegressor([[0], [1], [2], [3]], costs=[1, 50, 1, 1], max_cost=3).fit(X, y)
    assert sorted(model.order_.tolist()) == [0, 2, 3]
    rounded = AnytimeRegressor([[1], [0, 2, 3]], costs=[0.1, 0.2], max_cost=0.3).fit(X, y)
    assert len(rounded.sequence_) == 2


@pytest.mark.parametrize("rule", ["forward", "omp"])
def test_min_gain_stops_at_the_first_small_gain(rule):
    everything = AnytimeRegressor(rule=rule).fit(X, y).sequence_
    shares = np.diff(everything.explained, prepend=0.0)
    assert (np.diff(shares) < 0).all()
    for keep in range(1, 4):
        threshold = float(np.sqrt(shares[keep - 1] * shares[keep]))
        kept = AnytimeRegressor(rule=rule, min_gain=threshold).fit(X, y).sequence_
        assert kept.groups == everything.groups[:keep]


# -- state ---------------------------------------------------------------------------------------------------

BAD_FITS = {
    "NaN in X": lambda: (changed(X, 3, 2, np.nan), y),
    "NaN in a frame": lambda: (FRAMES["pandas"](changed(X, 3, 2, np.nan)), y),
    "NaN in y": lambda: (X, np.r_[np.nan, y[1:]]),
    "short y": lambda: (X, y[:5]),
    "bad weight": lambda: (X, np.column_stack([y, y]), -np.ones(30)),
    "too many columns": lambda: (np.column_stack([X, y]), y),
}


@pytest.mark.parametrize(
    "estimator", [AnytimeRegressor(POSITIONS), AnytimeRegressorCV(POSITIONS, alphas=[1e-3], cv=2)], ids=["plain", "CV"]
)
@pytest.mark.parametrize("case", BAD_FITS)
class TestFailedFit:
    def test_leaves_a_fresh_estimator_unfitted(self, estimator, case):
        fresh = clone(estimator)
        before = set(vars(fresh))
        with pytest.raises(ValueError, match=r"."):
            fresh.fit(*BAD_FITS[case]())
        assert {name for name in set(vars(fresh)) - before if name.endswith("_")} == set()
        with pytest.raises(NotFittedError):
            fresh.predict(X)

    def test_leaves_a_fitted_estimator_as_it_was(self, estimator, case):
        fitted = clone(estimator).fit(X, y)
        expected = fitted.predict(X)
        with pytest.raises(ValueError, match=r"."):
            fitted.fit(*BAD_FITS[case]())
        assert np.array_equal(fitted.predict(X), expected)
        assert fitted.n_features_in_ == 4
        assert not hasattr(fitted, "feature_names_in_")


def test_refit_forgets_the_names(on_array):
    model = AnytimeRegressor(POSITIONS).fit(DF, y).fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert_same_model(model, on_array)


def test_fit_moments_is_fit():
    moments = Moments.from_data(DF, y)
    model = AnytimeRegressor(BY_NAME).fit_moments(moments)
    assert_same_model(model, AnytimeRegressor(BY_NAME).fit(DF, y), rtol=1e-9)
    assert model.feature_names_in_.tolist() == NAMES
    with pytest.raises(TypeError, match="moments must be Moments, got ndarray"):
        AnytimeRegressor().fit_moments(X)


LAYOUTS = {
    "C": np.array,
    "F": np.asfortranarray,
    "reversed": lambda X: X[::-1, ::-1],
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "float32": lambda X: X.astype(np.float32),
    "frame": lambda X: pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])]),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
}


@pytest.mark.parametrize(
    ("estimator", "shape"),
    [
        (AnytimeRegressor(), (30, 4)),
        (AnytimeRegressorCV(alphas=[1e-3], cv=2), (30, 4)),
        (AnytimeRegressor(max_groups=1), (20, 1100)),
    ],
    ids=["tall", "CV", "wide"],
)
@pytest.mark.parametrize("layout", [*LAYOUTS, "memmap"])
def test_the_users_data_are_not_touched(estimator, shape, layout, tmp_path):
    source = np.random.default_rng(2).normal(loc=3, size=shape)
    table = memory_map(source, tmp_path / "X.npy") if layout == "memmap" else LAYOUTS[layout](source)
    target, weight, costs = source[:, 0] ** 2, np.arange(1.0, shape[0] + 1), np.array([1.0, 2.0, 3.0, 4.0])
    buffers = [target, weight, costs, *buffers_of(table)]
    before = [b.copy() for b in buffers]
    for b in buffers:
        b.flags.writeable = False
    groups = [list(range(k, shape[1], 4)) for k in range(4)]
    model = clone(estimator).set_params(feature_groups=groups, costs=costs).fit(table, target, sample_weight=weight)
    model.predict(table)
    model.predict(table, budget=2)
    assert all(np.array_equal(b, a) for b, a in zip(buffers, before, strict=True))
    assert model.costs is costs
    expected = clone(model).fit(np.array(dense(table), dtype=float), target, weight)
    np.testing.assert_allclose(model.predict(table), expected.predict(dense(table)), rtol=1e-4)


def buffers_of(table):
    if sparse.issparse(table):
        return [table.data, table.indices, table.indptr]
    return [table] if isinstance(table, np.ndarray) else [np.asarray(table)]


def memory_map(X, path):
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def dense(table):
    return table.toarray() if sparse.issparse(table) else np.asarray(table)


def test_wide_frames_are_read_in_one_go(monkeypatch):
    calls = []
    schema = nw.DataFrame.schema.fget
    monkeypatch.setattr(nw.DataFrame, "schema", property(lambda self: calls.append(1) or schema(self)))
    table = pd.DataFrame(wide(5, 60), columns=[f"x{d}" for d in range(60)])
    assert AnytimeRegressor(max_groups=1).fit(table, y[:5]).coef_.shape == (60,)
    assert len(calls) <= 2


FITS = {
    "data": lambda X, y: AnytimeRegressor().fit(X, y),
    "wide": lambda X, y: AnytimeRegressor().fit(np.hstack([X, wide(len(X))]), y),
    "sparse": lambda X, y: AnytimeRegressor().fit(sparse.csr_array(X), y),
    "moments": lambda X, y: AnytimeRegressor().fit_moments(Moments.from_data(X, y)),
    "batches": lambda X, y: AnytimeRegressor().partial_fit(X, y),
    "source": lambda X, y: AnytimeRegressor().fit(open_data((X, y), chunk_rows=10)),
    "poisson": lambda X, y: AnytimeRegressor(loss="poisson").fit(X, np.abs(y)),
    "streamed poisson": lambda X, y: AnytimeRegressor(loss="poisson", rule="score").fit(
        open_data((X, np.abs(y)), chunk_rows=10)
    ),
    "convex loss": lambda X, y: AnytimeRegressor(loss=ConvexLoss(np.cosh, np.sinh, np.cosh)).fit(X, y),
    "lasso": lambda X, y: GroupLassoPath().fit(X, y),
    "cross-validation": lambda X, y: AnytimeRegressorCV().fit(X, y),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e-308])
def test_targets_too_small_to_square_are_an_error(fit, scale):
    with pytest.raises(ValueError, match=r"y contains values too small for float64 products: y spans only .*; rescale"):
        fit(X, y * scale)


def test_of_several_targets_the_one_that_is_too_small_is_named():
    with pytest.raises(ValueError, match="target 1 of y spans only"):
        AnytimeRegressor().fit(X, np.column_stack([y, y * 1e-170, y]))


@pytest.mark.parametrize("value", [0.0, 1e-200, 5e-324])
def test_constant_targets_may_be_as_small_as_they_like(value):
    assert AnytimeRegressor().fit(X, np.full(30, value)).predict(X).tolist() == [value] * 30


def test_small_targets_are_ordered_as_large_ones():
    large, small = (AnytimeRegressor(POSITIONS).fit(X, y * scale) for scale in (1.0, 2.0**-430))
    assert small.order_.tolist() == large.order_.tolist()
    np.testing.assert_array_equal(small.coef_path_ * 2.0**430, large.coef_path_)


def nearly_constant(n):
    """Values near 1e8 that differ by one unit in the last place."""
    return 1e8 + np.spacing(1e8) * (np.arange(n) % 2)


ROUNDED = FITS | {
    "classes": lambda X, y: AnytimeClassifier().fit(X, y > 0),
    "classes by cross-validation": lambda X, y: AnytimeClassifierCV(alphas=[0.1, 1.0]).fit(X, y > 0),
    "streamed classes": lambda X, y: AnytimeClassifier(rule="score").fit(
        open_data((X, (y > 0).astype(int)), chunk_rows=10)
    ),
}


@pytest.mark.parametrize("fit", ROUNDED.values(), ids=ROUNDED)
def test_columns_lost_in_the_rounding_of_their_mean_are_reported_once(fit):
    table = np.column_stack([X, nearly_constant(30), np.full(30, 0.1)])
    with pytest.warns(UserWarning, match="count as constant") as caught:
        fit(table, np.clip(y, -3, 3))
    found = [str(w.message) for w in caught if "count as constant" in str(w.message)]
    assert len(found) == 1
    assert "1 of the columns differ by less than the rounding error of their means" in found[0]
    assert ": '4'. Subtract" in found[0]


def test_columns_lost_in_rounding_are_named_and_their_list_is_short():
    names = [f"c{d}" for d in range(9)]
    table = pd.DataFrame(np.column_stack([nearly_constant(30)] * 8 + [y]), columns=names)
    groups = FeatureGroups({"far": names[1:8], "near": ["c8"]}, remainder="drop")
    with pytest.warns(UserWarning, match=r"7 of the columns .*: 'c1', 'c2', 'c3', 'c4', 'c5', …\. Subtract"):
        AnytimeRegressor(groups).fit(table, y)


def test_constant_columns_need_no_warning_however_they_are_read():
    table = np.column_stack([X, np.full(30, 0.1), np.zeros(30), np.full(30, 7.1)])
    table[:5, 4:] = 3.0  # in rows that do not count
    weight = np.r_[np.zeros(5), np.ones(25)]
    for read in (table, sparse.csr_array(table), sparse.csc_array(table)):
        model = AnytimeRegressor().fit(read, y, sample_weight=weight)
        assert np.all(model.coef_[4:] == 0)
        AnytimeRegressor(loss="poisson").fit(read, np.abs(y), sample_weight=weight)


# -- numbers that no float can hold --------------------------------------------------------------------------------

HUGE = 10**400


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.predict(np.ones((1, 2)), budget=HUGE),
        lambda model: model.certificate([1, HUGE], time_limit=0),
        lambda model: model.certificate(time_limit=HUGE),
        lambda model: model.certificate(time_limit=0).at(HUGE),
        lambda model: budgetline.BudgetCurve.of(model).at(HUGE),
        lambda model: budgetline.timeliness(budgetline.BudgetCurve.of(model), HUGE),
        lambda model: budgetline.stopping_cost(budgetline.BudgetCurve.of(model), HUGE),
        lambda model: budgetline.AnytimeRunner(model, {"0": len, "1": len}).predict("x", budget=HUGE),
        lambda model: budgetline.AnytimeRunner(model, {"0": len, "1": len}).predict("x", deadline=HUGE),
        lambda model: budgetline.AnytimeRunner(model, {"0": len, "1": len}, seconds={"0": HUGE}),
        lambda model: budgetline.Extractor(len, timeout=HUGE),
        lambda model: budgetline.sequencing.Doubling(c_min=HUGE),
        lambda model: budgetline.FeatureGroups({"a": [0]}, {"a": HUGE}),
        lambda model: budgetline.FeatureGroups({"a": [0]}, shared={"s": (HUGE, ["a"])}),
        lambda model: greedy_sequence(len, {"a": 1}, max_cost=HUGE),
        lambda model: model.set_params(alpha=HUGE).fit(np.eye(3)[:, :2], [1, 2, 3]),
        lambda model: model.set_params(max_cost=HUGE).fit(np.eye(3)[:, :2], [1, 2, 3]),
        lambda model: budgetline.AnytimeRegressorCV(alphas=[1, HUGE]).fit(np.eye(3)[:, :2], [1, 2, 3]),
        lambda model: model.fit(np.eye(3)[:, :2], [1, 2, 3], sample_weight=HUGE),
    ],
)
def test_a_whole_number_beyond_all_floats_is_the_usual_error(call):
    model = budgetline.AnytimeRegressor(costs=[1, 2]).fit([[1, 0], [0, 1], [0, 0]], [1, 2, 4])
    with pytest.raises(ValueError):  # noqa: PT011
        call(model)


@pytest.mark.parametrize("name", ["rule", "schedule", "costs"])
def test_of_a_long_setting_the_error_shows_the_beginning(name):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of AnytimeRegressor must be") as caught:
        AnytimeRegressor(**{name: "x" * 10**6}).fit(X, y)
    assert len(str(caught.value)) <= 1000


def test_an_array_with_names_is_a_table_like_a_frame():
    named = NamedArray(X, tuple(NAMES))
    by_frame, by_array = (AnytimeRegressor(BY_NAME).fit(table, y) for table in (DF, named))
    np.testing.assert_array_equal(by_array.predict(named, stage=1), by_frame.predict(DF, stage=1))
    assert by_array.feature_names_in_.tolist() == NAMES
    curves = [cross_val_budget_curve(by_array, table, y, cv=3) for table in (DF, named)]
    np.testing.assert_array_equal(curves[0].values, curves[1].values)
    turned = NamedArray(X[:, [0, 2, 1, 3]], ("a", "c", "b", "d"))
    np.testing.assert_allclose(by_array.predict(turned), by_frame.predict(DF), rtol=1e-12)
    with pytest.raises(ValueError, match="column 'b' of group"):
        by_array.predict(NamedArray(X, ("a", "c", "k", "d")))
