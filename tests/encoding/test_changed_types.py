"""The same values in other types: matched at prediction, the same model through every door, and a word about others."""

import datetime
import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import KFold

import budgetline
from budgetline import (
    AnytimeRegressor,
    AnytimeRegressorCV,
    Encoding,
    budget_curve,
    cross_val_budget_curve,
    make_report,
    open_data,
)
from budgetline.encoding.raw import column_of, object_column, raw_data
from budgetline.evaluation import compare
from budgetline.explore.fits import learn
from budgetline.explore.session_data import Sample
from budgetline.explore.state import Group, State
from budgetline.runtime import AnytimeRunner, Extractor

N = 240
BIG = 2**53
FITTED = {
    "flags": [True, False, True],
    "zeros": ["07001", "07002", "12345"],
    "points": ["1.0", "2.0", "3.5"],
    "codes": pd.Categorical([1, 2, 7]),
    "whole": [3, 4, 5],
}
ASKED = {
    "flags": [[1, 0, 1], [1.0, 0.0, 1.0], ["True", "False", "True"], ["true", "false", "true"], ["1", "0", "1"]],
    "zeros": [[7001, 7002, 12345], [7001.0, 7002.0, 12345.0], pd.Categorical([7001, 7002, 12345])],
    "points": [[1.0, 2.0, 3.5], [Decimal(1), Decimal(2), Decimal("3.50")]],
    "codes": [[1, 2, 7], [1.0, 2.0, 7.0], ["1", "2", "7"], ["01", "2.0", " 7"]],
    "whole": [["3", "4.0", "05"], [Decimal(3), Decimal(4), Decimal(5)], pd.Categorical([3, 4, 5])],
}


def repeated(values, dtype=None):
    """Return N rows of three values in turn."""
    if isinstance(values, pd.Categorical):
        return pd.Series(values).take(np.arange(N) % 3).reset_index(drop=True)
    return pd.Series([values[k % 3] for k in range(N)], dtype=dtype)


def target(seed=0):
    return np.random.default_rng(seed).normal(size=N) + np.array([0.0, 3.0, -2.0])[np.arange(N) % 3]


def fitted(name, **settings):
    return AnytimeRegressor(encoding=Encoding("linear", **settings)).fit(
        repeated(FITTED[name]).to_frame(name), target()
    )


@pytest.mark.parametrize(("name", "asked"), [(name, asked) for name, each in ASKED.items() for asked in each])
@pytest.mark.parametrize("stored", [False, True])
def test_the_same_values_in_another_type(name, asked, stored, tmp_path):
    model = fitted(name)
    if stored:
        budgetline.save(model, tmp_path / "m")
        model = budgetline.load(tmp_path / "m")
    expected = model.predict(repeated(FITTED[name]).to_frame(name))
    assert np.ptp(expected) > 1
    for X in (repeated(asked), repeated(list(asked), dtype=object)):
        np.testing.assert_array_equal(model.predict(X.to_frame(name)), expected)
    values = list(asked)
    with AnytimeRunner(model, {name: lambda k: values[k]}) as runner:
        np.testing.assert_allclose([runner.predict(k).value for k in range(3)], expected[:3], rtol=1e-12)


@pytest.mark.parametrize(("name", "asked"), [("flags", ["true", "false", "true"]), ("whole", ["03", "4.0", "5"])])
def test_weights_do_not_change_what_is_the_same(name, asked):
    """A weighted fit once took flags and numbers for text."""
    X, settings = repeated(FITTED[name]).to_frame(name), Encoding("linear", columns={name: "categories"})
    model = AnytimeRegressor(encoding=settings).fit(X, target(), sample_weight=np.full(N, 2.0))
    np.testing.assert_array_equal(model.predict(repeated(asked).to_frame(name)), model.predict(X))


def test_a_name_counts_more_than_a_value():
    X = pd.DataFrame({"x": ["1", "1.0", "01", "7"] * 20})
    model = AnytimeRegressor(encoding="linear").fit(X, np.arange(80.0))
    [levels] = model.model_.encoding.encoders
    assert levels.known(object_column([1, 7.0, 9], "x")) == ["1", "7", None]
    assert levels.known(object_column(["1.00", "01", "7.0"], "x")) == [
        None,
        "01",
        None,
    ]  # text is matched by name alone


def test_a_value_of_several_categories_is_unknown():
    model = AnytimeRegressor(encoding="linear").fit(pd.DataFrame({"x": ["01", "1.0", "7"] * 20}), np.arange(60.0))
    [levels] = model.model_.encoding.encoders
    assert levels.known(object_column([1, 7], "x")) == [None, "7"]


def test_versions_are_not_numbers():
    rows = ["1.1"] * 30 + ["2.0"] * 30 + ["1.10"]
    model = AnytimeRegressor(encoding="linear").fit(pd.DataFrame({"x": rows}), np.arange(61.0))
    assert model.feature_names_out_.tolist() == ["x=1.1", "x=2.0", "x=(rare)"]
    [levels] = model.model_.encoding.encoders
    assert levels.known(object_column(["1.10", "1.1"], "x")) == [None, "1.1"]


@pytest.mark.parametrize("of", [pd.Series, pl.Series, lambda x: pd.Series(x, dtype="Int64"), np.array, Decimal])
def test_numbers_that_floats_do_not_tell_apart_are_no_categories(of):
    ids = [BIG, BIG + 1, BIG + 2]
    given = [of(k) for k in ids] * 20 if of is Decimal else of(ids * 20)
    X = given.reshape(-1, 1) if isinstance(given, np.ndarray) else pd.DataFrame({"x": given})
    column = column_of(raw_data(pl.DataFrame({"x": given}) if isinstance(given, pl.Series) else X)[0], 0, "x")
    np.testing.assert_array_equal(column.as_numbers()[:3], np.array(ids, dtype=float))
    with pytest.raises(ValueError, match=r"column 'x' holds 9.0072e.15: .* make them text to use them as categories"):
        column.as_categories  # noqa: B018
    declared = object_column([str(k) for k in ids], "x")
    assert declared.as_categories[1] == tuple(map(str, ids))


def test_large_ids_of_text_files_are_told_apart(tmp_path):
    ids, y = [BIG + k % 3 for k in range(N)], target()
    pd.DataFrame({"x": ids, "y": y}).to_csv(tmp_path / "a.csv", index=False)
    settings = Encoding("linear", columns={"x": "categories"})
    model = AnytimeRegressor(encoding=settings).fit(open_data(tmp_path / "a.csv", "y"))
    assert sorted(model.feature_names_out_) == [f"x={BIG + k}" for k in range(3)]
    X = pd.DataFrame({"x": [str(k) for k in ids]})
    expected = AnytimeRegressor(encoding=settings).fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9)
    curve = budget_curve(model, open_data(tmp_path / "a.csv", "y"), metric="mse")
    assert curve.values[-1] == pytest.approx(np.mean((y - expected) ** 2))


def test_settings_of_a_column_that_is_not_there_are_an_error(tmp_path):
    frame = repeated(FITTED["zeros"]).to_frame("zip")
    expected = "encoding has settings for column 'Zip', which is not in X .did you mean 'zip'.*; the columns are 'zip'"
    model = AnytimeRegressor(encoding=Encoding(columns={"Zip": "categories"}))
    with pytest.raises(ValueError, match=expected):
        model.fit(frame, target())
    frame.assign(y=target()).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=expected):
        model.fit(open_data(tmp_path / "a.parquet", "y"))
    with pytest.raises(ValueError, match="column 'Zip', which is not in X; the columns are positions 0 to 0"):
        model.fit(frame.to_numpy(), target())
    with pytest.raises(ValueError, match="column 0, which is not in X; the columns are 'zip'"):
        AnytimeRegressor(encoding=Encoding(columns={0: "categories"})).fit(frame, target())


# -- doors -----------------------------------------------------------------------------------------------------


def typed(n=90, seed=0):
    """Return a table with every kind of column, each of which has an effect."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "code": pd.Categorical(rng.choice([1, 2, 7], n)),
            "flag code": pd.Categorical(rng.random(n) < 0.5),
            "decimal code": pd.Categorical([Decimal(int(k)) / 2 for k in rng.integers(0, 3, n)]),
            "text": pd.Categorical(rng.choice(["a", "b", "c"], n)),
            "flag": rng.random(n) < 0.5,
            "amount": pd.Series([Decimal(int(k)) / 4 for k in rng.integers(0, 50, n)], dtype=object),
            "day": pd.Series([datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in rng.integers(0, 99, n)]),
            "id": rng.integers(0, 3, n) + 2**50,
        }
    )
    y = rng.normal(size=n) + (frame["code"].astype(int) == 2) + frame["flag"] + (frame["id"] - 2**50) ** 2
    return frame.assign(y=y.astype(float))


def doors(frame, folder):
    """Yield the name of a door, and what is fitted through it: (X, y), or a source."""
    X, y, table = frame.drop(columns="y"), frame["y"], pa.Table.from_pandas(frame)
    yield "pandas", (X, y)
    yield "arrow", (table.drop_columns("y"), y)
    yield "pandas source", (open_data(frame, "y"),)
    yield "arrow source", (open_data(table, "y", chunk_rows=20),)
    frame.to_parquet(folder / "a.parquet", row_group_size=40)
    yield "parquet", (open_data(folder / "a.parquet", "y"),)  # where categories of numbers are numbers, also in pandas
    yield "frames", (open_data(lambda: iter([(X[:40], y[:40]), (X[40:], y[40:])])),)


LOST = dict.fromkeys(("code", "flag code", "decimal code"), "categories")


def test_one_rule_through_every_door(tmp_path):
    frame, found = typed(), {}
    X, settings = frame.drop(columns="y"), Encoding("linear", columns={"id": "categories"})
    for door, given in doors(frame, tmp_path):
        own = replace(settings, columns={**settings.columns, **LOST}) if door == "parquet" else settings
        found[door] = AnytimeRegressor(encoding=own).fit(*given)
    names = set(found["pandas"].feature_names_out_)
    assert {"code=2", "decimal code=0.5", "amount", "day", f"id={2**50 + 1}"} < names
    for door, model in found.items():
        assert set(model.feature_names_out_) == names, door
        np.testing.assert_allclose(model.predict(X), found["pandas"].predict(X), rtol=1e-9, err_msg=door)


def test_polars_reads_the_same_where_it_has_the_types(tmp_path):
    frame = typed().drop(columns=["code", "flag code", "decimal code"])  # polars has categories of text alone
    settings = Encoding("linear", columns={"id": "categories"})
    X, y = frame.drop(columns="y"), frame["y"]
    expected = AnytimeRegressor(encoding=settings).fit(X, y).predict(X)
    other = pl.from_arrow(pa.Table.from_pandas(frame))
    for given in ((other.drop("y"), y), (open_data(other, "y"),), (open_data(other.lazy(), "y"),)):
        np.testing.assert_allclose(AnytimeRegressor(encoding=settings).fit(*given).predict(X), expected, rtol=1e-9)


def test_decimals_are_numbers_without_an_encoding_too(tmp_path):
    frame = typed()[["amount", "y"]]
    frame.to_parquet(tmp_path / "a.parquet")
    expected = AnytimeRegressor().fit(frame[["amount"]], frame["y"])
    found = AnytimeRegressor().fit(open_data(tmp_path / "a.parquet", "y"))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_arrays_of_dates_are_days_in_every_unit(unit):
    column = column_of(raw_data(np.array([["1970-01-02"], ["NaT"]], dtype=f"M8[{unit}]"))[0], 0, "x")
    np.testing.assert_array_equal(column.as_numbers(), [1, np.nan])
    column = column_of(raw_data(np.array([[36], [12]]).astype("m8[h]").astype(f"m8[{unit}]"))[0], 0, "x")
    np.testing.assert_array_equal(column.as_numbers(), [1, 0] if unit == "D" else [1.5, 0.5])


@pytest.mark.parametrize(("year", "hours"), [(1, 5), (9999, -5)])
def test_moments_at_the_ends_of_the_calendar_have_time_zones(year, hours):
    """Such as 0001-01-01T00:00+05:00, which no datetime holds in UTC."""
    moment = datetime.datetime(year, 1 if year == 1 else 12, 1 if year == 1 else 31, 0 if year == 1 else 23)
    zoned = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=hours)))
    column = column_of(raw_data(pd.DataFrame({"x": pd.Series([zoned, zoned], dtype=object)}))[0], 0, "x")
    expected = (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1) - hours / 24
    np.testing.assert_allclose(column.as_numbers(), expected, rtol=1e-12)


# -- unknown categories ----------------------------------------------------------------------------------------


def unknown(X, model):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.predict(X)
    assert all(each.filename == __file__ for each in found)
    return [str(each.message) for each in found]


def test_unknown_categories_are_told_once_with_counts():
    X = pd.DataFrame({"zip": repeated(FITTED["zeros"]), "flag": repeated([True, False, True])})
    model = AnytimeRegressor(encoding="linear").fit(X, target())
    assert not unknown(X, model)
    [message] = unknown(X.assign(zip="D-" + X["zip"]), model)
    names = sorted(FITTED["zeros"])
    assert message.startswith(f"column 'zip': 240 of 240 values ({', '.join(repr(f'D-{name}') for name in names)}) are")
    assert message.endswith(": check their type and spelling")
    assert all(repr(name) in message.partition("which knows")[2] for name in names)
    both = X.assign(zip=["99999"] * 100 + [None] * 140, flag=["yes", "no"] * 120)
    [message] = unknown(both, model)
    assert "column 'zip': 100 of 100 values ('99999') are unknown to the model" in message
    assert "column 'flag': 240 of 240 values ('yes', 'no') are unknown to the model" in message
    few = X.assign(zip=["99999", *X["zip"].tolist()[1:]])
    assert not unknown(few, model)  # a few new values are usual
    assert "column 'zip': 1 of 1 values ('99999')" in unknown(few[:1], model)[0]
    with pytest.warns(UserWarning, match="column 'flag': 240 of 240"):
        list(model.staged_predict(both))
    with pytest.warns(UserWarning, match="column 'flag': 240 of 240"):
        model.plan(2).predict(both)


def test_more_rows_of_an_encoding_that_stays_as_it_is():
    X = pd.DataFrame({"zip": repeated(FITTED["zeros"]), "none": None})
    model = AnytimeRegressor(encoding="linear").partial_fit(X, target())
    model.partial_fit(X, target(1))
    with pytest.warns(
        UserWarning, match="'none' had no value.*'zip': 240 of 240|'zip': 240 of 240.*'none' had no value"
    ):
        model.partial_fit(pd.DataFrame({"zip": ["x"] * N, "none": [1.0] * N}), target(2))


def test_rare_categories_are_nothing_unusual():
    rng = np.random.default_rng(0)
    names = [f"r{k}" for k in range(2000)]
    X = pd.DataFrame({"x": np.where(rng.random(400) < 0.6, rng.choice(names, 400), "usual")})
    model = AnytimeRegressor(encoding="linear").fit(X, rng.normal(size=400))
    assert not unknown(X, model)
    assert not unknown(X[X["x"] != "usual"][:5], model)
    assert unknown(X.assign(x="other"), model)
    ids = pd.DataFrame({"x": [f"u{k}" for k in range(400)]})
    assert not unknown(ids, AnytimeRegressor(encoding="linear").fit(ids, rng.normal(size=400)))


def test_held_out_rows_are_evaluated_without_a_word():
    X = pd.DataFrame({"day": [f"d{k // 24}" for k in range(N)], "x": np.arange(N)})  # a fold has days of its own
    model = AnytimeRegressor(encoding="linear")
    cross_val_budget_curve(model, X, target(), cv=5)
    budget_curve(model.fit(X, target()), X.assign(day="another"), target())
    assert unknown(X.assign(day="another"), model)


def test_a_service_is_told_once():
    model = fitted("zeros")
    with AnytimeRunner(model, {"zeros": str}) as runner, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(20):
            runner.predict("D-1")
    [message] = [str(each.message) for each in found]
    assert "column 'zeros': 1 of 1 values ('D-1')" in message


# -- columns without values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [["a", "b"], [True, False], [1.5, 2.5], [datetime.date(2020, 1, 1)] * 2])
@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_a_column_without_values_takes_any_kind_later(later, kind, tmp_path):
    X = pd.DataFrame({"x": np.arange(60.0), "none": pd.Series([None] * 60, dtype=object)})
    model = AnytimeRegressor(encoding=Encoding(kind, interactions=1)).fit(X, np.arange(60.0) ** 2)
    budgetline.save(model, tmp_path / "m")
    expected = model.predict(X)
    for each in (model, budgetline.load(tmp_path / "m")):
        found = each.predict(X[:4].assign(none=pd.Series([*later, None, None], dtype=object)))
        np.testing.assert_array_equal(found, expected[:4])
    with AnytimeRunner(model, {"x": float, "none": lambda k: later[k]}) as runner:
        np.testing.assert_allclose([runner.predict(k).value for k in range(2)], expected[:2], rtol=1e-9)
    with pytest.warns(UserWarning, match="column 'none' had no value in the training data: its values are ignored"):
        model.predict(X.assign(none=later * 30))
    np.testing.assert_array_equal(model.effects()["none"].values, 0)


def test_rows_without_weight_count_as_missing():
    X = pd.DataFrame({"x": np.arange(60.0), "none": [1.0] * 3 + [None] * 57})
    weight = np.r_[np.zeros(3), np.ones(57)]
    model = AnytimeRegressor(encoding="linear").fit(X, np.arange(60.0), sample_weight=weight)
    np.testing.assert_array_equal(model.effects()["none"].values, 0)


@pytest.mark.parametrize("values", [["a", "b"], [True, False], [1.5, 2.5]])
def test_a_column_may_have_no_value_in_a_training_fold(values):
    rng = np.random.default_rng(0)
    late = pd.Series([None] * 192 + values * 24, dtype=object)  # in the last of five folds alone
    X = pd.DataFrame({"x": rng.normal(size=N), "late": late, "town": rng.choice(["a", "b"], N)})
    y, model = X["x"] + target(), AnytimeRegressor(encoding=Encoding("spline", interactions=1))
    assert np.isfinite(cross_val_budget_curve(model, X, y, cv=KFold(5)).values).all()
    compare({"spline": model, "linear": AnytimeRegressor(encoding="linear")}, X, y, cv=KFold(5))
    report = make_report(model.fit(X, y), X, y, cv=KFold(5), baselines=False)
    assert report.to_html()
    searched = AnytimeRegressorCV(encoding="linear", cv=KFold(5)).fit(X, y)
    assert np.isfinite(searched.predict(X)).all()


def test_explore_takes_a_column_without_value_in_a_fold():
    late = ["a", *[None] * 199]
    X = pa.table({"x": np.arange(200.0), "late": late, "none": pa.nulls(200)})
    groups = tuple(Group(name, (name,)) for name in X.column_names)
    state = State(("y", *X.column_names), groups, "y", "regression")
    found = learn(Sample(X, target()[:200]), state, lambda: None, lambda *_: None, lambda model: None)
    assert all(np.isfinite(fold.values).all() for fold in found.folds)


# -- text in a column of numbers ----------------------------------------------------------------------------------


def measured(**changes):
    """Return a table of numbers and percentages, of which some rows may be others, and a target."""
    rng = np.random.default_rng(5)
    size, rate = rng.integers(1, 300, N).astype(float), rng.integers(1, 900, N) / 10
    X = pd.DataFrame({"size": [f"{value:g}" for value in size], "rate": [f"{value}%" for value in rate]})
    for name, texts in changes.items():
        X.loc[: len(texts) - 1, name] = texts
    return X, np.log(size) + rate / 30


def numeric(X):
    return X.assign(size=pd.to_numeric(X["size"], errors="coerce"))


@pytest.mark.parametrize("stored", [False, True])
def test_text_that_training_rows_never_showed_is_missing_and_told_once(stored, tmp_path):
    """A shifted row has "3.0M" in a column of numbers: predict was an error."""
    X, y = measured()
    model = AnytimeRegressor(encoding="spline").fit(numeric(X), y)
    if stored:
        budgetline.save(model, tmp_path / "m")
        model = budgetline.load(tmp_path / "m")
    asked, _ = measured(size=["3.0M", "n/a"], rate=["Everyone", "Teen", "NA"])
    gaps = numeric(asked).assign(rate=[None] * 3 + asked["rate"].tolist()[3:])
    text = (
        "column 'size': 1 of 240 values, such as '3.0M', are not numbers, and count as missing; "
        "column 'rate': 2 of 240 values, such as 'Everyone', are not written like those of the training data "
        "(form: percent), and count as missing"
    )
    with pytest.warns(UserWarning, match="missing") as told:
        found = model.predict(asked)
    assert [str(each.message) for each in told] == [text]
    np.testing.assert_array_equal(found, model.predict(gaps))


def test_a_column_of_text_is_still_no_column_of_numbers():
    X, y = measured()
    model = AnytimeRegressor(encoding="spline").fit(numeric(X), y)
    with pytest.raises(ValueError, match="column 'size' holds text such as 'large', not numbers"):
        model.predict(measured(size=["large"] * 121)[0])
    with pytest.warns(UserWarning, match="column 'size': 120 of 240 values, such as 'large', are not numbers"):
        model.predict(measured(size=["large"] * 120)[0])


def test_extractors_of_several_rows_may_return_text_beside_numbers():
    X, y = measured()
    model = AnytimeRegressor(encoding="spline").fit(numeric(X), y)
    asked = {"size": ["3.0M", "12", "40"], "rate": ["1.5%", "2.5%", "60.0%"]}
    extractors = {
        name: Extractor(lambda rows, values=values: [values[i] for i in rows], batch=True)
        for name, values in asked.items()
    }
    with AnytimeRunner(model, extractors) as runner, pytest.warns(UserWarning, match="1 of 3 values, such as '3.0M',"):
        answer = runner.predict_many([0, 1, 2])
    assert not answer.faults
