"""Numbers and dates in text: parsed as tables written by hand say, and the same model through every door."""

import datetime
from dataclasses import replace

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import budgetline
from budgetline import AnytimeRegressor, Encoding, open_data
from budgetline.encoding.encoders import CategoryEncoder, NumberEncoder
from budgetline.encoding.raw import object_column
from budgetline.encoding.summaries import CategorySummary
from budgetline.encoding.written import FORMS, Form, Undecided, Written, find_written, numbers_in
from budgetline.persistence.model_record import record_of_model
from budgetline.persistence.restored_model import estimator_of
from budgetline.runtime import AnytimeRunner


def days(*moment):
    return (datetime.datetime(*moment) - datetime.datetime(1970, 1, 1)) / datetime.timedelta(1)


NUMBERS = {
    "number": {
        "12": 12, "-1.5": -1.5, "1,200": 1200, "1,234,567.5": 1234567.5, "10 000+": 10000, "100+": 100, "1'000": 1000,
        "2\u00a0500": 2500, "735-739": 737, "1 – 2": 1.5, "5 to 8": 6.5, "< 1": 0.5, ">10": 10, "1e3": 1000, ".5": 0.5,
        "−3": -3, "-5--3": None, "12,34": None, "1,2000": None, "0,950": None, "007": None, "9-5": None, "1-2-3": None,
        "5%": None, "$3": None, "": None, "x": None, "12345678901234567890": None, "1e400": None, "٣": None,
    },
    "number, decimal comma": {"8,5": 8.5, "1.200": 1200, "1.234,5": 1234.5, "0,950": 0.95, "1,234,5": None},
    "percent": {"8.90%": 8.9, "5 %": 5, "-3%": -3, "10-20%": 15, "<5%": 2.5, "0": 0, "7": None, "3 percent": 3},
    "currency": {
        "$4.99": 4.99, "$4.99 ": 4.99, "€ 3": 3, "3 €": 3, "$1,200.50": 1200.5, "-$5": -5, "$1.2M": 1.2e6, "0": 0,
        "2.5": 2.5, "USD 7": 7, "7 CHF": 7, "$50,000-$75,000": 62500, "$5 kg": None, "5%": None,
    },
    "currency, decimal comma": {"1.200,50 €": 1200.5, "3,50 €": 3.5},
    "size": {"19M": 19e6, "1.1k": 1100, "3B": 3e9, "201k": 201e3, "950": 950, "3 MB": None, "3 kg": None},
    "bytes": {"3.4 GB": 3.4e9, "512 B": 512, "1 KiB": 1024, "2 MiB": 2097152, "19M": 19e6, "10 bytes": 10},
    "duration in months": {"36 months": 36, "1 month": 1, "3 years": 36, "0": 0, "5": None, "36 moons": None},
    "duration in years": {"< 1 year": 0.5, "10+ years": 10, "1 year": 1, "6 mos": 0.5, "1-2 yrs": 1.5},
    "duration in minutes": {"90 min": 90, "2 h": 120, "30 sec": 0.5, "1 day": 1440, "1 week": 10080},
    "date": {
        "2013-05-27": days(2013, 5, 27), "2013/5/27": days(2013, 5, 27), "2013-05-27 10:00": days(2013, 5, 27, 10),
        "2013-05-27T10:00:30.5": days(2013, 5, 27, 10, 0, 30, 500000), "2013-05-27 10:00Z": days(2013, 5, 27, 10),
        "2013-05-27 10:00+02:00": days(2013, 5, 27, 8), "7-Jan-18": days(2018, 1, 7), "7 May 2018": days(2018, 5, 7),
        "January 7, 2018": days(2018, 1, 7), "Jan 7 2018": days(2018, 1, 7), "07Jan2018": days(2018, 1, 7),
        "Sept. 3rd, 1999": days(1999, 9, 3), "Dec-2011": days(2011, 12, 1), "31-Dec-69": days(1969, 12, 31),
        "1-Jan-68": days(2068, 1, 1), "May 1, 2018 12:30 AM": days(2018, 5, 1, 0, 30), "31-Feb-18": None,
        "7-Jam-18": None, "5/27/2013": None, "2013-13-01": None, "2013-05-27 25:00": None, "1.0.19": None, "May": None,
    },
    "date, day first": {
        "27/05/2013": days(2013, 5, 27), "5/27/2013": None, "1.2.2018": days(2018, 2, 1), "1-2-18": days(2018, 2, 1),
        "2018-02-01": days(2018, 2, 1), "1/2-2018": None,
    },
    "date, month first": {"5/27/2013": days(2013, 5, 27), "1/2/18 1:05 PM": days(2018, 1, 2, 13, 5), "27/5/2013": None},
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_texts_and_their_numbers(name):
    form = FORMS[name]
    assert form.name == name
    for text, number in NUMBERS[name].items():
        found = form.number_in(text)
        assert (found is None) == (number is None), text
        assert number is None or found == pytest.approx(number, rel=1e-14), text


WRITTEN = {
    "percent": lambda x: f"{x:.2f}%",
    "currency": lambda x: f"${x:,.2f}",
    "currency, decimal comma": lambda x: f"{x:,.2f} €".translate(str.maketrans(",.", ".,")),
    "number": lambda x: f"{x:,.2f}",
    "number, decimal comma": lambda x: f"{x:.2f}".replace(".", ","),
    "size": lambda x: f"{x:.2f}k",
    "bytes": lambda x: f"{x:.2f} KB",
    "duration in hours": lambda x: f"{x:.2f} hours",
}


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=50, deadline=None)
@given(cents=st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=30, unique=True))
def test_what_is_written_is_found(name, cents):
    values = [c / 100 for c in cents]
    texts = [WRITTEN[name](x).replace("$-", "-$") for x in values]
    found = numbers_in(texts)
    scale = 1000 if name in ("size", "bytes") else 1
    assert found is not None
    assert found[1].name == name
    np.testing.assert_allclose(found[0], np.multiply(values, scale), rtol=1e-12)


DAYS = st.dates(datetime.date(1970, 1, 1), datetime.date(2068, 12, 31))


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d-%b-%y", "%B %d, %Y", "%m/%d/%Y", "%d.%m.%Y", "%d/%m/%y"])
@settings(max_examples=50, deadline=None)
@given(dates=st.lists(DAYS, min_size=3, max_size=30, unique=True))
def test_dates_are_found(form, dates):
    texts = [date.strftime(form) for date in dates]
    found = numbers_in(texts)
    expected = [(date - datetime.date(1970, 1, 1)).days for date in dates]
    decided = any(date.day > 12 for date in dates) or all(date.day == date.month for date in dates)
    if form[1] in "Yb" or "%b" in form or "%B" in form or decided:
        assert found is not None
        np.testing.assert_array_equal(found[0], expected)
    else:
        assert found is None
        assert isinstance(find_written(dict.fromkeys(texts, 1.0)), Undecided)


def many(*texts, rows=20):
    return {text: float(rows) for text in texts}


TEXT = {
    "words": many("red", "green"),
    "words and digits": many("A1", "B2", "4.0.3 and up", "5"),
    "versions": many("1.0.0", "1.2.3", "4.5.6"),
    "half": many("1%", "2%") | {"x": 10.0, "y": 10.0},
    "half, one text": many("1%", "2%") | {"x": 60.0},
    "codes with zeros": many("007", "123", "456", "789", "700", "701"),
    "one value": many("5%"),
    "identifiers": many("7590-VHVEG", "5575-GNVDE"),
    "zips of nine digits": many("12345-6789", "90210-1234"),
    "large identifiers": many("9007199254740993", "9007199254740995", "n/a"),
}


@pytest.mark.parametrize("name", TEXT)
def test_what_stays_text(name):
    assert find_written(TEXT[name]) is None


@pytest.mark.parametrize("texts", [("1.200 €", "950 €", "3.400 €"), ("5/4/2013", "6/7/2013")])
def test_what_can_be_read_in_two_ways_stays_text(texts):
    assert isinstance(find_written(many(*texts)), Undecided)
    X = pd.DataFrame({"x": texts * 10})
    with pytest.warns(UserWarning, match="column 'x' stays text: .* may be "):
        model = AnytimeRegressor(encoding="linear").fit(X, np.arange(len(X)))
    assert isinstance(model.model_.encoding.encoders[0], CategoryEncoder)
    decided = {"1.200 €": "1.200,50 €", "5/4/2013": "5/14/2013"}[texts[0]]
    assert isinstance(find_written(many(*texts, decided)), Written)


def test_others_are_counted():
    found = find_written({"29.85": 3000.0, "108.15": 4032.0, " ": 11.0})
    assert found.note("TotalCharges") == (
        "column 'TotalCharges': 7,032 of 7,043 values have the form number, such as '108.15' = 108.15; others count "
        "as missing: blank (11)"
    )
    found = find_written({"19M": 5000.0, "201k": 3411.0, "Varies with device": 1226.0, "?": 1.0})
    assert found.note("Size") == (
        "column 'Size': 8,411 of 9,638 values have the form size, such as '19M' = 19,000,000; others count as missing: "
        "'Varies with device' (1,226), '?' (1)"
    )
    assert found.in_words == "size, such as '19M' = 19,000,000"
    assert find_written(many("7-Jan-18", "1-Aug-18")).in_words == "date, such as '7-Jan-18' = 2018-01-07"


def test_few_marks_do_not_make_a_form():
    found = find_written({str(k): 1.0 for k in range(1000)} | {"3.0M": 1.0})
    assert (found.form.name, set(found.others)) == ("number", {"3.0M"})


# -- models ----------------------------------------------------------------------------------------------------

N = 400


def people(seed=0):
    """Return a table of written columns, the same with numbers, and a target."""
    rng = np.random.default_rng(seed)
    rate, price, size = rng.uniform(5, 25, N).round(2), rng.gamma(2, 900, N).round(2), rng.integers(1, 900, N)
    months, low = rng.choice([36, 60], N), rng.integers(0, 40, N) * 5 + 640
    day = [datetime.date(2015, 1, 1) + datetime.timedelta(int(k)) for k in rng.integers(0, 1500, N)]
    gaps = rng.random(N) < 0.1
    town = rng.choice(["Ulm", "Rom"], N)
    written = pd.DataFrame(
        {
            "rate": [f"{x:.2f}%" for x in rate],
            "price": [f"${x:,.2f} " for x in price],
            "size": np.where(gaps, "Varies with device", [f"{x}k" for x in size]),
            "months": [f"{x} months" for x in months],
            "range": [f"{x}-{x + 4}" for x in low],
            "day": [f"{d.day}-{d:%b-%y}" for d in day],
            "us": [f"{d.month}/{d.day}/{d.year}" for d in reversed(day)],
            "town": [f" {t}" if k % 2 else t for k, t in enumerate(town)],
            "blank": [" " if k % 40 == 3 else str(x) for k, x in enumerate(rate[::-1].tolist())],
        }
    )
    since = [(d - datetime.date(1970, 1, 1)).days for d in day]
    numbers = pd.DataFrame(
        {
            "rate": rate,
            "price": price,
            "size": np.where(gaps, np.nan, size * 1e3),
            "months": months.astype(float),
            "range": low + 2.0,
            "day": np.array(since, dtype=float),
            "us": np.array(since[::-1], dtype=float),
            "town": town,
            "blank": np.where(np.arange(N) % 40 == 3, np.nan, rate[::-1]),
        }
    )
    y = (
        rate
        + np.log(price)
        + 3 * gaps
        + low / 100
        + np.sin(np.array(since) / 200)
        + (town == "Ulm")
        + rng.normal(size=N)
    )
    return written, numbers, y


def doors(written, y, folder):
    whole = written.assign(y=y)
    whole.to_csv(folder / "a.csv", index=False)
    whole.to_parquet(folder / "a.parquet", index=False)
    return {
        "pandas": (written, y),
        "objects": (written.astype(object), y),
        "polars": (pl.from_pandas(written), y),
        "arrow": (pa.Table.from_pandas(written), y),
        "csv": (open_data(folder / "a.csv", "y", chunk_rows=97),),
        "parquet": (open_data(folder / "a.parquet", "y", chunk_rows=97),),
        "table": (open_data(pl.from_pandas(whole), "y", chunk_rows=97),),
    }


@pytest.mark.filterwarnings("ignore:column 'size'", "ignore:column 'blank'")
@pytest.mark.parametrize("encoding", ["linear", "spline"])
def test_the_same_model_through_every_door(encoding, tmp_path):
    written, numbers, y = people()
    expected = AnytimeRegressor(encoding=encoding).fit(numbers, y)
    answers = expected.predict(numbers)
    for door, given_data in doors(written, y, tmp_path).items():
        model = AnytimeRegressor(encoding=encoding).fit(*given_data)
        assert model.sequence_.groups == expected.sequence_.groups, door
        np.testing.assert_allclose(model.predict(written), answers, rtol=1e-8, err_msg=door)
    np.testing.assert_allclose(model.predict(numbers), answers, rtol=1e-8)  # numbers instead of text
    budgetline.save(model, tmp_path / "m")
    loaded = budgetline.load(tmp_path / "m")
    assert [getattr(e, "form", None) for e in loaded.model_.encoding.encoders] == [
        getattr(e, "form", None) for e in model.model_.encoding.encoders
    ]
    for table in (written, pl.from_pandas(written), pa.Table.from_pandas(written)):
        np.testing.assert_array_equal(loaded.predict(table), model.predict(written))
    extractors = {name: written[name].__getitem__ for name in written}
    with AnytimeRunner(loaded, extractors) as runner:
        np.testing.assert_allclose([runner.predict(k).value for k in range(9)], answers[:9], rtol=1e-8)
    curve = budgetline.budget_curve(loaded, open_data(tmp_path / "a.csv", "y"), metric="mse")
    assert curve.values[-1] == pytest.approx(np.mean((y - answers) ** 2))


@pytest.mark.filterwarnings("ignore:column 'size'", "ignore:column 'blank'")
def test_the_same_pairs():
    written, numbers, y = people()
    models = []
    for table in (written, numbers):
        for data in ((table, y), (open_data(table.assign(y=y), "y", chunk_rows=97),)):
            models.append(AnytimeRegressor(encoding=Encoding(interactions=2)).fit(*data))
    for ours, plain in zip(models[:2], models[2:], strict=True):
        assert any("×" in group for group in ours.sequence_.groups)
        assert ours.sequence_.groups == plain.sequence_.groups
        np.testing.assert_allclose(ours.predict(written), plain.predict(numbers), rtol=1e-8)


def test_what_is_not_a_number_is_told_when_fitting():
    written, _, y = people()
    with pytest.warns(UserWarning, match="count as missing") as told:
        AnytimeRegressor(encoding="spline").fit(written[["size", "blank", "rate"]], y)
    gaps, example = int((written["size"] == "Varies with device").sum()), written["size"].value_counts().index[1]
    most = next(value for value in written["blank"].value_counts().index if value.strip())
    assert [str(each.message) for each in told] == [
        f"column 'size': {N - gaps} of 400 values have the form size, such as {example!r} = {example[:-1]},000; others "
        f"count as missing: 'Varies with device' ({gaps})",
        f"column 'blank': 390 of 400 values have the form number, such as {most!r} = {most}; others count as missing: "
        "blank (10)",
    ]


def test_another_form_is_told_when_predicting():
    written, _, y = people()
    model = AnytimeRegressor(encoding="spline").fit(written[["rate", "day"]], y)
    other = written[["rate", "day"]].assign(day=[f"{k % 28 + 1}.{k % 12 + 1}.2016" for k in range(N)])
    with pytest.warns(
        UserWarning, match=r"column 'day': 400 of 400 values, such as '1\.1\.2016', are not written like"
    ):
        model.predict(other)


def test_categories_stay_categories():
    X = pd.DataFrame({"x": ["1%", "2%", "3%"] * 20})
    y = np.arange(60.0) % 3
    for table, settings_ in (
        (X.astype("category"), "spline"),
        (X, Encoding(columns={"x": "categories"})),
        (pd.DataFrame({"x": ["1", "2", "3"] * 20}), "spline"),
        (pd.DataFrame({"x": ["1", "2", None] * 20}), "spline"),
    ):
        [encoder] = AnytimeRegressor(encoding=settings_).fit(table, y).model_.encoding.encoders
        assert isinstance(encoder, CategoryEncoder)
    assert isinstance(AnytimeRegressor(encoding="spline").fit(X, y).model_.encoding.encoders[0], NumberEncoder)


def test_spaces_around_text_do_not_count():
    column = object_column([" yes", "yes", "no ", " ", "", None], "x")
    assert (column.categories, column.codes.tolist(), column.blank) == (("yes", "no"), [0, 0, 1, -1, -1, -1], True)
    assert column.missing.tolist() == [False, False, False, True, True, True]


def test_weights_and_sums_keep_what_was_read():
    written, _, _ = people()
    weight = np.random.default_rng(1).integers(0, 4, N).astype(float)
    whole = CategorySummary.of(object_column(written["size"].tolist(), "size"), weight)
    parts = [
        CategorySummary.of(object_column(written["size"][k : k + 100].tolist(), "size"), weight[k : k + 100])
        for k in range(0, N, 100)
    ]
    both = parts[0] + parts[1] + parts[2] + parts[3]
    np.testing.assert_array_equal(both.numbers.values, whole.numbers.values)
    np.testing.assert_array_equal(both.numbers.weights, whole.numbers.weights)
    assert both.scaled(0.5).numbers.missing == both.numbers.missing / 2 == whole.numbers.missing / 2


def test_more_texts_than_are_counted_keep_their_distribution(monkeypatch):
    monkeypatch.setattr("budgetline.encoding.summaries.MOST_CATEGORIES", 4000)
    prices = np.random.default_rng(0).normal(size=20_000).cumsum().round(6) + 1e4
    texts = [f"${x:,.6f}" for x in prices]
    found = None
    for k in range(0, len(texts), 500):
        part = CategorySummary.of(object_column(texts[k : k + 500], "x"), None)
        found = part if found is None else found + part
    assert found.numbers.total == pytest.approx(20_000)
    shares = np.array([0.1, 0.5, 0.9])
    off = np.searchsorted(np.sort(prices), found.numbers.quantiles(shares)) / prices.size - shares
    assert np.abs(off).max() < 0.01


def test_graphs_take_the_numbers_that_are_written():
    written, numbers, y = people()
    names = ["rate", "months", "us"]
    model = AnytimeRegressor(encoding="spline").fit(written[names], y)
    graph = budgetline.to_onnx(model)
    described = {each.name: each.doc_string for each in graph.graph.input}
    assert described["rate"].endswith("written in the form: percent")
    assert described["us"].endswith("written in the form: date, month first")
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    [found] = session.run(None, {name: numbers[[name]].to_numpy() for name in names})
    np.testing.assert_allclose(found, model.predict(written[names]), rtol=1e-9)


def test_an_unknown_form_in_a_file_is_an_error():
    written, _, y = people()
    model = AnytimeRegressor(encoding="spline").fit(written[["rate"]], y)
    record, _ = record_of_model(model.model_)
    [encoder] = record.encoders
    assert encoder.form == FORMS["percent"]
    for wrong in (Form("roman"), Form("date", ",")):
        with pytest.raises(ValueError, match=r"encoders\[0\].form is not known: Form\(kind="):
            estimator_of(replace(record, encoders=(replace(encoder, form=wrong),)))


@pytest.mark.parametrize(
    "labels", [{"<=50K": 60, ">50K": 40}, {"<30": 60, ">30": 40, "NO": 50}, {"0%": 30, "100%": 30}], ids=str
)
def test_a_target_of_two_numbers_is_labels(labels):
    """The incomes "<=50K" and ">50K" were predicted as 25000 and 50000."""
    assert numbers_in([text for text, times in labels.items() for _ in range(times)]) is None


def test_texts_with_digits_are_not_lost_as_a_word_for_missing():
    """Of incomes, 2,855 "under $11k" counted as missing next to "$11-$25k" and others."""
    assert find_written({"$11-$25k": 1000.0, "$25-$50k": 900.0, ">$50k": 700.0, "under $11k": 2855.0}) is None
    assert find_written({"$11k": 1000.0, "$25k": 900.0, "$50k": 700.0, "not told": 2000.0}) is not None
