"""Columns on the command line: absent, copied to the output, misspelt."""

import io

import numpy as np
import pandas as pd
import pytest

import budgetline

pytestmark = pytest.mark.quick_cases(2)


def patients(n=200, seed=0):
    rng = np.random.default_rng(seed)
    age, sugar = rng.integers(20, 80, n), rng.normal(100, 20, n).round(1)
    town = rng.choice(["Bonn", "Ulm"], n)
    y = np.round(age / 10 + sugar / 50 + (town == "Ulm") + rng.normal(size=n), 3)
    ids = [f"{k:04d}" for k in range(n)]
    return pd.DataFrame({"id": ids, "Age": age, "sugar": sugar, "town": town, "y": y})


@pytest.fixture
def model(run):
    patients().drop(columns="id").to_csv("train.csv", index=False)
    assert run("fit", "train.csv", "-t", "y", "-o", "m", "--encoding", "linear").code == 0
    return budgetline.load("m")


def answers(found, column="prediction"):
    return pd.read_csv(io.StringIO(found.out), dtype={"id": str})[column]


# -- columns that are not there --------------------------------------------------------------------------------


@pytest.mark.parametrize("absent", [["town"], ["Age", "sugar"], ["Age", "sugar", "town"]])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_auto_takes_absent_columns_as_missing(model, run, absent, suffix):
    new = patients(seed=1).drop(columns=absent)
    getattr(new, f"to_{suffix}")(f"new.{suffix}", index=False)
    found = run("predict", "m", f"new.{suffix}", "--available", "auto")
    if len(absent) == 3:
        what = f"error: new.{suffix}: all columns of this {type(model).__name__} are missing: it was fitted with "
        assert found.err.endswith(what + "'Age', 'sugar', 'town'\n")
        return
    assert f"warning: new.{suffix}: missing columns count as missing values: {str(absent)[1:-1]}\n" in found.err
    rest = [name for name in model.sequence_.groups if name not in absent]
    np.testing.assert_allclose(answers(found), model.predict(patients(seed=1), available=rest), rtol=1e-9)
    assert run("predict", "m", f"new.{suffix}").code == 2


def test_auto_takes_absent_columns_of_numbers_as_missing(run):
    patients()[["Age", "sugar", "y"]].to_csv("train.csv", index=False)
    assert run("fit", "train.csv", "-t", "y", "-o", "m", "--encoding", "none").code == 0
    model = budgetline.load("m")
    for name, other in (("Age", "sugar"), ("sugar", "Age")):
        patients(seed=1)[[name]].to_csv("new.csv", index=False)
        found = run("predict", "m", "new.csv", "--available", "auto", "--stage", 2)
        assert f"count as missing values: '{other}'\n" in found.err
        np.testing.assert_allclose(answers(found), model.predict(patients(seed=1), available=[name]), rtol=1e-9)
    # the first group is absent: nothing is known
    first = model.sequence_.groups[0]
    patients()[["Age", "sugar"]].drop(columns=first).to_csv("new.csv", index=False)
    found = run("predict", "m", "new.csv", "--available", "auto", "--stage", 1)
    np.testing.assert_allclose(answers(found), model.predict(patients(), stage=0), rtol=1e-9)


# -- columns to keep -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_kept_columns_come_first_and_as_they_were(model, run, done, suffix):
    new = patients(seed=1).assign(note=["NA", "a,b", *["?"] * 198])
    getattr(new, f"to_{suffix}")(f"new.{suffix}", index=False)
    expected = model.predict(new)
    found = run("predict", "m", f"new.{suffix}", "--keep", "id,note", "--keep", "Age")
    table = pd.read_csv(io.StringIO(found.out), dtype={"id": str}, keep_default_na=False)
    assert list(table) == ["id", "note", "Age", "prediction"]
    pd.testing.assert_frame_equal(table[["id", "note", "Age"]], new[["id", "note", "Age"]], check_dtype=False)
    np.testing.assert_allclose(table["prediction"], expected, rtol=1e-9)
    assert run("predict", "m", f"new.{suffix}", "--keep", "id", "-o", "out.csv").code == 0
    assert pd.read_csv("out.csv", dtype={"id": str})["id"].tolist() == new["id"].tolist()
    kept = done("predict", "m", f"new.{suffix}", "--keep", "id")["kept"]
    assert kept == {"id": new["id"].tolist()}
    assert "kept" not in done("predict", "m", f"new.{suffix}")


def test_kept_columns_follow_the_rows_of_many_files_and_blocks(model, run, monkeypatch):
    monkeypatch.setattr("budgetline.data.text_files.CSV_BLOCK", 1000)
    for k in range(3):
        patients(seed=k).assign(id=[f"{k}-{i}" for i in range(200)]).to_csv(f"part{k}.csv", index=False)
    found = run("predict", "m", "part*.csv", "--keep", "id")
    assert answers(found, "id").tolist() == [f"{k}-{i}" for k in range(3) for i in range(200)]
    expected = np.concatenate([model.predict(patients(seed=k)) for k in range(3)])
    np.testing.assert_allclose(answers(found), expected, rtol=1e-9)


def test_dates_are_kept(model, run, done):
    new = patients(3).assign(seen=pd.to_datetime(["2024-01-02", None, "2024-03-04"]))
    new.to_parquet("new.parquet", index=False)
    assert run("predict", "m", "new.parquet", "--keep", "seen", "-o", "out.csv").code == 0
    assert pd.read_csv("out.csv")["seen"].isna().tolist() == [False, True, False]
    assert done("predict", "m", "new.parquet", "--keep", "seen")["kept"]["seen"][0].startswith("2024-01-02")


def test_what_cannot_be_kept(model, run):
    patients().assign(prediction=1).to_csv("new.csv", index=False)
    assert "error: --keep: column 'Id' is not in new.csv (did you mean 'id'?); its" in (
        run("predict", "m", "new.csv", "--keep", "Id").err
    )
    for keep in ("prediction", "id,id"):
        name = keep.split(",")[0]
        assert (
            f"--keep: the output would have two columns called '{name}'"
            in run("predict", "m", "new.csv", "--keep", keep).err
        )


# -- misspelt names --------------------------------------------------------------------------------------------


def test_the_column_that_may_be_meant_is_named(model, run):
    def error(*arguments):
        found = run(*arguments)
        assert found.code == 2
        return found.err

    assert "--target: column 'Y' is not in train.csv (did you mean 'y'?)" in error(
        "fit", "train.csv", "-t", "Y", "-o", "n"
    )
    assert "(did you mean 'sugar'?)" in error("fit", "train.csv", "-t", "y", "--sample-weight", "suger", "-o", "n")
    with open("groups.yaml", "w") as file:
        file.write("groups:\n  all: {columns: [age, sugar, town]}\n")
    assert "column 'age' is not in the data (did you mean 'Age'?)" in (
        error("fit", "train.csv", "-t", "y", "-g", "groups.yaml", "-o", "n")
    )
    assert "there is no group 'age' (did you mean 'Age'?)" in error("plan", "m", "-b", 2, "--include", "age")
    assert "there is no group 'Sugar' (did you mean 'sugar'?)" in error("plan", "m", "-b", 2, "--exclude", "Sugar")
    assert "there is no group 'twon' (did you mean 'town'?)" in error("next", "m", "--available", "twon")
    assert "--available: there is no group 'tuwn' (did you mean 'town'?); the groups are 'Age'" in error(
        "predict", "m", "train.csv", "--available", "tuwn"
    )
    assert "did you mean" not in error("fit", "train.csv", "-t", "y", "-o", "n", "--start", "zebra")
    patients().rename(columns={"Age": "age"}).to_csv("new.csv", index=False)
    assert "is not in new.csv (did you mean 'age'?)" in error("predict", "m", "new.csv")
