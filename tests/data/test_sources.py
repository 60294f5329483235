"""Whatever holds the data, the sequence and the coefficients are those of the array in memory."""

import io
import os
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from budgetline import AnytimeRegressor, FeatureGroups, GroupLassoPath, Moments, open_data
from budgetline.data import svmlight_files
from budgetline.data.sources import SOURCE_BYTES, ahead
from budgetline.moments import sums
from budgetline.moments.passes import ChunkMoments, sum_over

pytestmark = pytest.mark.quick_cases(12)

COLUMNS = [f"x{k}" for k in range(6)]
GROUPS = {"a": [3, 0], "b": [1], "c": [2, 5], "d": [4]}
COSTS = {"a": 2.0, "b": 1.0, "c": 3.0, "d": 0.5}
NAMED = {name: [COLUMNS[d] for d in columns] for name, columns in GROUPS.items()}


def make_frame(kind, n=211):
    """Return a frame of features, a target (or two) and weights, some of them zero."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 6)) @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6)))
    y = X @ [3.0, -2.0, 1.0, 0.5, 0.0, 1.5] + rng.normal(size=n)
    frame = pd.DataFrame(X, columns=COLUMNS)
    if kind == "large means":
        frame += 1e6
        y = y + 1e6
    elif kind == "float32":
        frame = frame.astype(np.float32)
    elif kind == "mixed":
        frame["x0"] = (1000 * X[:, 0]).astype(np.int64)
        frame["x1"] = X[:, 1] > 0
        frame["x2"] = rng.integers(-100, 100, n).astype(np.int8)
        frame["x3"] = X[:, 3].astype(np.float32)
        frame["x4"] = 7.0
        frame["x5"] = (10 * np.abs(X[:, 5])).astype(np.uint16)
    frame["y"] = y
    frame["y2"] = X[:, 1] + rng.normal(size=n)
    frame["w"] = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.5, 2.0, n))
    return frame


def parts_of(X, y, w, sizes):
    ends = np.cumsum(sizes)
    return [(X[a:b], y[a:b]) if w is None else (X[a:b], y[a:b], w[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


# -- every kind of source: (folder, frame) -> keywords of open_data; the data of a tuple are made from the frame ----


def parquet(row_group, chunk_rows=20, files=1, as_what="file"):
    def make(folder, frame):
        for k, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
            frame.iloc[rows].to_parquet(folder / f"part{k}.parquet", row_group_size=row_group, index=False)
        (folder / "_SUCCESS").write_text("")
        paths = {
            "file": folder / "part0.parquet",
            "folder": folder,
            "glob": str(folder / "part*.parquet"),
            "list": [folder / f"part{k}.parquet" for k in reversed(range(files))],
        }
        return {"data": paths[as_what], "chunk_rows": chunk_rows}

    return make


def single_rows(folder, frame):
    frame[:25].to_parquet(folder / "a.parquet", row_group_size=1, index=False)
    frame[25:].to_parquet(folder / "b.parquet", index=False)
    return {"data": folder, "chunk_rows": 20}


def csv(files=1, chunk_rows=None):
    def make(folder, frame):
        for k, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
            frame.iloc[rows].to_csv(folder / f"{k}.csv", index=False)
        return {"data": folder, "chunk_rows": chunk_rows}

    return make


NAMED_SOURCES = {
    "parquet, row groups of 1": single_rows,
    "parquet, odd row groups": parquet(13),
    "parquet, row groups larger than a chunk": parquet(50),
    "parquet, one row group": parquet(10**6),
    "parquet, chunks of the default size": parquet(50, None),
    "parquet folder": parquet(50, 20, 3, "folder"),
    "parquet glob": parquet(50, 20, 3, "glob"),
    "parquet list": parquet(50, 20, 3, "list"),
    "csv": csv(),
    "csv folder": csv(3, 10),
    "arrow table": lambda _, frame: {"data": pa.Table.from_pandas(frame), "chunk_rows": 50},
    "arrow table of many pieces": lambda _, frame: {
        "data": pa.concat_tables([pa.Table.from_pandas(frame[k::4]) for k in range(4)]),
        "chunk_rows": 60,
    },
    "pandas": lambda _, frame: {"data": frame, "chunk_rows": 64},
    "polars": lambda _, frame: {"data": pl.from_pandas(frame), "chunk_rows": 64},
    "lazy frame": lambda _, frame: {"data": pl.from_pandas(frame).lazy(), "chunk_rows": 64},
}


def memmap(folder, X, y, w):
    np.save(folder / "X.npy", X)
    return {"data": (np.load(folder / "X.npy", mmap_mode="r"), y, w), "chunk_rows": 30}


PLAIN_SOURCES = {
    "array": lambda _, X, y, w: {"data": (X, y, w)},
    "rows one by one": lambda _, X, y, w: {"data": (X, y, w), "chunk_rows": 1},
    "array in Fortran order": lambda _, X, y, w: {"data": (np.asfortranarray(X), y, w), "chunk_rows": 100},
    "lists for vectors": lambda _, X, y, w: {"data": (X, y.tolist(), None if w is None else w.tolist())},
    "series for vectors": lambda _, X, y, w: {
        "data": (X, pd.Series(y, index=range(len(y), 0, -1)), w),
        "chunk_rows": 10,
    },
    "memmap": memmap,
    "csr": lambda _, X, y, w: {"data": (sparse.csr_array(X), y, w), "chunk_rows": 37},
    "csc": lambda _, X, y, w: {"data": (sparse.csc_array(X), y, w), "chunk_rows": 37},
    "iterator": lambda _, X, y, w: {"data": iter(parts_of(X, y, w, [1, 99, 5, 106]))},
    "function": lambda _, X, y, w: {"data": lambda: iter(parts_of(X, y, w, [100, 111]))},
    "frame and vector": lambda _, X, y, w: {"data": (pd.DataFrame(X), y, w)},
}


def assert_same(found, wanted, digits=1e-10):
    assert found.sequence_.groups == wanted.sequence_.groups
    np.testing.assert_array_equal(found.order_, wanted.order_)
    assert found.coef_path_.shape == wanted.coef_path_.shape
    size = np.abs(wanted.coef_path_).max()
    np.testing.assert_allclose(found.coef_path_, wanted.coef_path_, rtol=digits, atol=digits * size)
    scale = max(1.0, np.abs(wanted.intercept_path_).max())
    np.testing.assert_allclose(found.intercept_path_, wanted.intercept_path_, rtol=digits, atol=digits * scale)
    np.testing.assert_allclose(found.sequence_.gains, wanted.sequence_.gains, rtol=1e-9, atol=1e-12)


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("kind", ["plain", "large means", "float32", "mixed"])
@pytest.mark.parametrize("name", NAMED_SOURCES)
def test_sources_with_names(tmp_path, name, kind, weight):
    frame = make_frame(kind)
    if "csv" in name:  # text of float32 numbers is of other numbers, and flags as text are no numbers
        frame = frame.astype(np.float64)
    source = open_data(**NAMED_SOURCES[name](tmp_path, frame), target="y", weight=weight, features=COLUMNS)
    assert (source.n_features, source.feature_names, source.target_shape) == (6, tuple(COLUMNS), ())
    found = AnytimeRegressor(NAMED, COSTS).fit(source)
    w = None if weight is None else frame["w"].to_numpy()
    assert_same(found, AnytimeRegressor(NAMED, COSTS).fit(frame[COLUMNS], frame["y"], w))
    assert found.n_passes_ == 1
    assert found.feature_names_in_.tolist() == COLUMNS
    assert found.moments_.n_samples == (len(frame) if w is None else np.count_nonzero(w))


@pytest.mark.parametrize("kind", ["plain", "large means", "float32", "mixed"])
def test_parquet_rows_read_in_turns(tmp_path, kind):
    frame = make_frame(kind)
    frame.to_parquet(tmp_path / "a.parquet", index=False, row_group_size=110)
    source = open_data(tmp_path / "a.parquet", "y", weight="w", features=COLUMNS, chunk_rows=40)
    found = AnytimeRegressor(NAMED, COSTS).fit(source)
    assert_same(found, AnytimeRegressor(NAMED, COSTS).fit(frame[COLUMNS], frame["y"], frame["w"]))
    frame = frame.astype({"x2": "Int64" if kind == "mixed" else "float64"})
    frame.loc[150, "x2"] = None
    frame.to_parquet(tmp_path / "a.parquet", index=False, row_group_size=110)
    source = open_data(tmp_path / "a.parquet", "y", features=COLUMNS, chunk_rows=40)
    with pytest.raises(ValueError, match=r"a\.parquet, row group 1: .*NaN: column 'x2'"):
        AnytimeRegressor(NAMED).fit(source)


def test_parquet_metadata_are_those_of_the_file_as_it_is(tmp_path):
    """A file of the same name, size and time, but with other columns, is another file."""
    path, frame = tmp_path / "a.parquet", make_frame("plain")[["x0", "x1", "y"]]
    other = frame.rename(columns={"x0": "x1", "x1": "x0"})[["x0", "x1", "y"]]
    for table in (frame, other):
        table.to_parquet(path, index=False, row_group_size=50)
        os.utime(path, ns=(10**18, 10**18))
        source = open_data(path, "y", chunk_rows=50)
        rows = np.vstack([chunk.X for partition in source.partitions for chunk in partition.chunks(None)])
        np.testing.assert_array_equal(rows, table[["x0", "x1"]])


@pytest.mark.parametrize("row_group", [7, 40, 200])
def test_parquet_columns_of_several_types(tmp_path, row_group):
    """Flags, small integers and numbers of half precision become numbers; missing values become NaN."""
    rng = np.random.default_rng(0)
    values = {
        "flag": rng.integers(0, 2, 100).astype(bool),
        "small": rng.integers(-5, 5, 100).astype(np.int8),
        "half": rng.normal(size=100).astype(np.float16),
        "single": rng.normal(size=100).astype(np.float32),
        "count": rng.integers(0, 9, 100),
        "double": rng.normal(size=100),
    }
    table = pa.table(values)
    gap = pa.array([None if k == 61 else int(v) for k, v in enumerate(values["count"])], pa.int64())
    table = table.set_column(4, "count", gap).append_column("y", pa.array(np.arange(100.0)))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group)
    source = open_data(tmp_path / "a.parquet", "y", chunk_rows=30)
    chunks = [chunk for partition in source.partitions for chunk in partition.chunks(None)]
    wanted = np.column_stack([column.astype(float) for column in values.values()])
    wanted[61, 4] = np.nan
    np.testing.assert_array_equal(np.vstack([chunk.X for chunk in chunks]), wanted)
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), np.arange(100.0))
    assert max(chunk.n_rows for chunk in chunks) <= min(row_group, 30)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["plain", "large means", "float32"])
@pytest.mark.parametrize("name", PLAIN_SOURCES)
def test_sources_without_names(tmp_path, name, kind, weighted):
    frame = make_frame(kind)
    X, y = frame[COLUMNS].to_numpy(), frame["y"].to_numpy()
    w = frame["w"].to_numpy() if weighted else None
    source = open_data(**PLAIN_SOURCES[name](tmp_path, X, y, w))
    assert (source.n_features, source.feature_names, source.target_shape) == (6, None, ())
    found = AnytimeRegressor(GROUPS, COSTS).fit(source)
    assert_same(found, AnytimeRegressor(GROUPS, COSTS).fit(X, y, w))


@pytest.mark.parametrize("name", ["parquet, odd row groups", "csv", "polars", "lazy frame"])
def test_several_targets_by_name(tmp_path, name):
    frame = make_frame("plain")
    source = open_data(**NAMED_SOURCES[name](tmp_path, frame), target=["y", "y2"], weight="w")
    assert source.target_shape == (2,)
    found = AnytimeRegressor(NAMED, COSTS).fit(source)
    wanted = AnytimeRegressor(NAMED, COSTS).fit(frame[COLUMNS], frame[["y", "y2"]], frame["w"])
    assert_same(found, wanted)
    assert found.predict(frame[COLUMNS]).shape == (len(frame), 2)


@pytest.mark.parametrize("name", ["array", "memmap", "csr", "iterator"])
def test_several_targets_in_a_matrix(tmp_path, name):
    frame = make_frame("plain")
    X, Y = frame[COLUMNS].to_numpy(), frame[["y", "y2"]].to_numpy()
    source = open_data(**PLAIN_SOURCES[name](tmp_path, X, Y, None))
    assert_same(AnytimeRegressor(GROUPS).fit(source), AnytimeRegressor(GROUPS).fit(X, Y))


@settings(max_examples=40)
@given(data=st.data(), seed=st.integers(0, 10**6), far=st.sampled_from([0.0, 1e6]), weighted=st.booleans())
def test_chunks_of_any_size_in_any_order(data, seed, far, weighted):
    rng = np.random.default_rng(seed)
    n = data.draw(st.integers(20, 60))
    X = rng.normal(size=(n, 4)) + far
    y = (X - far) @ rng.normal(size=4) + 0.1 * rng.normal(size=n)
    label = np.array(data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)))
    w = rng.uniform(0.1, 2.0, n) * (label != 3) if weighted else None  # chunk 3 weighs nothing
    if weighted and np.count_nonzero(w) < 12:
        return
    order = data.draw(st.permutations(range(7)))  # some may be empty
    chunks = [(X[label == k], y[label == k], None if w is None else w[label == k]) for k in order]
    source = open_data(iter(chunks) if data.draw(st.booleans()) else lambda: iter(chunks))
    found = AnytimeRegressor(alpha=1e-3).fit(source)
    assert_same(found, AnytimeRegressor(alpha=1e-3).fit(X, y, w))


@pytest.mark.parametrize("count", [None, 6, 9])
@pytest.mark.parametrize("text_bytes", [60, 200, 1000, 10**6])
def test_svmlight_lines_are_read_once_wherever_the_file_is_cut(tmp_path, monkeypatch, text_bytes, count):
    frame = make_frame("plain", 60)
    X, y, qid = frame[COLUMNS].to_numpy(copy=True), frame["y"].to_numpy(), np.arange(60) // 7
    X[:, 2] *= X[:, 2] > 0  # some entries are not in the file
    for k, rows in enumerate((slice(0, 41), slice(41, 60))):
        dump_svmlight_file(
            X[rows], y[rows], str(tmp_path / f"{k}.svm"), zero_based=False, query_id=qid[rows], comment="text"
        )
    monkeypatch.setattr(svmlight_files, "TEXT_BYTES", text_bytes)
    source = open_data(tmp_path, qid="qid", n_features=count)
    chunks = [chunk for part in source.partitions for chunk in part.chunks(None)]
    np.testing.assert_array_equal(np.concatenate([chunk.qid for chunk in chunks]), qid)
    np.testing.assert_allclose(sparse.vstack([c.X for c in chunks]).toarray()[:, :6], X, rtol=1e-15)
    assert source.n_features == (count or 6)
    found = AnytimeRegressor(FeatureGroups(GROUPS, COSTS, remainder="drop")).fit(source)
    wanted = AnytimeRegressor(FeatureGroups(GROUPS, COSTS)).fit(X, y)
    assert found.sequence_.groups == wanted.sequence_.groups
    np.testing.assert_allclose(found.coef_[:6], wanted.coef_, rtol=1e-10)


def test_svmlight_boundaries_at_the_very_start_of_a_line(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"1 1:1\n2 1:2\n3 1:3\n4 1:4")  # lines of 6 bytes, the last one without its end
    for size in range(1, 25):
        monkeypatch.setattr(svmlight_files, "TEXT_BYTES", size)
        source = open_data(tmp_path / "a.txt", file_format="svmlight")
        y = np.concatenate([chunk.y for part in source.partitions for chunk in part.chunks(None)])
        assert y.tolist() == [1, 2, 3, 4]


def test_svmlight_indices_from_zero(tmp_path):
    (tmp_path / "a.svm").write_text("1 0:1 2:1\n2 0:5\n0 1:3\n")
    assert open_data(tmp_path / "a.svm", zero_based=True).n_features == 3
    with pytest.raises(ValueError, match=r"a\.svm.*[Ii]nvalid index 0"):
        open_data(tmp_path / "a.svm")


def test_float32_rows_are_multiplied_in_double_precision(tmp_path):
    """Of an array in memory the coefficients are refined by the data; a source has passed by then."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(4000, 20)) + 3).astype(np.float32)
    y = X @ rng.normal(size=20) + rng.normal(size=4000)
    wanted = AnytimeRegressor().fit(X.astype(np.float64), y)
    found = AnytimeRegressor().fit(open_data((X, y)))
    assert_same(found, wanted)
    assert found.moments_.eps == np.finfo(np.float64).eps
    assert_same(AnytimeRegressor().partial_fit(X[:2000], y[:2000]).partial_fit(X[2000:], y[2000:]), wanted)


@pytest.mark.parametrize("dtypes", [("int32", "float32"), ("uint64", "int8"), ("int64", "float16"), ("uint8", "bool")])
def test_columns_of_different_types_keep_their_values(dtypes):
    rng = np.random.default_rng(0)
    largest = {"int32": 2**31 - 1, "uint64": 2**52, "int64": 2**52, "uint8": 255}[dtypes[0]]
    frame = pd.DataFrame({"a": rng.integers(0, largest, 30), "b": rng.integers(0, 2, 30)})
    frame = frame.astype({"a": dtypes[0], "b": dtypes[1]}).assign(y=rng.normal(size=30))
    (part,) = open_data(frame, "y").partitions
    (chunk,) = part.chunks(None)
    np.testing.assert_array_equal(chunk.X.astype(np.float64), frame[["a", "b"]].to_numpy(dtype=np.float64))


def test_group_lasso_from_a_source(tmp_path):
    frame = make_frame("plain")
    source = open_data(**parquet(30)(tmp_path, frame), target="y", weight="w", features=COLUMNS)
    found = GroupLassoPath(NAMED, COSTS, n_lambdas=20).fit(source)
    wanted = GroupLassoPath(NAMED, COSTS, n_lambdas=20).fit(frame[COLUMNS], frame["y"], frame["w"])
    assert_same(found, wanted)
    np.testing.assert_allclose(found.path_coef_, wanted.path_coef_, rtol=1e-6, atol=1e-8)
    assert found.n_passes_ == 1


def test_subsets_from_a_source_are_those_of_the_array(tmp_path):
    frame = make_frame("large means")
    found = AnytimeRegressor(NAMED).fit(open_data(frame[[*COLUMNS, "y"]], "y", chunk_rows=50))
    wanted = AnytimeRegressor(NAMED).fit(frame[COLUMNS], frame["y"])
    for available in (["d"], ["b", "c"], ["a", "d"], []):
        np.testing.assert_allclose(
            found.predict(frame[COLUMNS], available=available),
            wanted.predict(frame[COLUMNS], available=available),
            rtol=1e-10,
        )


# -- unused columns ---------------------------------------------------------------------------------------------------


def unused(folder):
    frame = make_frame("plain").drop(columns=["y2"])
    frame["text"], frame["gap"] = "words", np.nan
    return frame, AnytimeRegressor(FeatureGroups({"late": ["x5"], "early": ["x1", "x0"]}, remainder="drop"))


def check_unused(frame, model):
    wanted = AnytimeRegressor({"late": [2], "early": [1, 0]}).fit(frame[["x0", "x1", "x5"]].to_numpy(), frame["y"])
    assert model.sequence_.groups == wanted.sequence_.groups
    np.testing.assert_allclose(model.coef_[[0, 1, 5]], wanted.coef_, rtol=1e-10)
    assert model.n_features_in_ == 9
    assert model.moments_.feature_names == ("x0", "x1", "x5")


def test_unused_columns_of_parquet_are_not_read(tmp_path, monkeypatch):
    frame, model = unused(tmp_path)
    frame.to_parquet(tmp_path / "a.parquet", index=False, row_group_size=50)
    asked, original = [], pq.ParquetFile.iter_batches

    def spy(self, *args, **keywords):
        asked.append(list(keywords["columns"]))
        return original(self, *args, **keywords)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    check_unused(frame, model.fit(open_data(tmp_path / "a.parquet", "y", chunk_rows=60)))
    assert {name for columns in asked for name in columns} == {"x0", "x1", "x5", "y"}


def test_unused_columns_of_csv_are_not_read(tmp_path, monkeypatch):
    frame, model = unused(tmp_path)
    frame.to_csv(tmp_path / "a.csv", index=False)
    source, asked, original = open_data(tmp_path / "a.csv", "y"), [], pyarrow.csv.open_csv

    def spy(*args, **keywords):
        asked.append(list(keywords["convert_options"].include_columns))
        return original(*args, **keywords)

    monkeypatch.setattr(pyarrow.csv, "open_csv", spy)
    check_unused(frame, model.fit(source))
    assert asked == [["x0", "x1", "x5", "y"]]


@pytest.mark.parametrize(
    "make", [lambda f: f, pl.from_pandas, pa.Table.from_pandas, lambda f: pl.from_pandas(f).lazy()]
)
def test_unused_columns_of_frames_may_hold_anything(tmp_path, make):
    frame, model = unused(tmp_path)
    check_unused(frame, model.fit(open_data(make(frame), "y", chunk_rows=60)))


def test_unused_columns_of_pandas_may_mix_types(tmp_path):
    frame, model = unused(tmp_path)
    frame["text"] = [1, "a"] * 105 + [None]
    check_unused(frame, model.fit(open_data(frame, "y")))


# -- opening ----------------------------------------------------------------------------------------------------------


def test_marks_of_globs_in_the_name_of_a_file(tmp_path):
    folder = tmp_path / "run[1]"
    folder.mkdir()
    make_frame("plain").to_parquet(folder / "a.parquet", index=False)
    assert open_data(folder / "a.parquet", "y").about_rows == 211
    assert open_data(folder, "y").about_rows == 211


def test_hidden_and_unfinished_files_of_a_folder_are_left_alone(tmp_path):
    make_frame("plain").to_parquet(tmp_path / "a.parquet", index=False)
    for name in ("_temporary/b.parquet", ".cache/c.parquet", "_d.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"unfinished")
    (tmp_path / "deep").mkdir()
    make_frame("plain").to_parquet(tmp_path / "deep" / "e.parquet", index=False)
    assert open_data(tmp_path, "y").about_rows == 422


def test_the_number_of_rows_is_known_where_the_data_tell():
    X, y = np.eye(3), np.arange(3.0)
    assert open_data((X, y), chunk_rows=2).about_rows == 3
    assert open_data(iter([(X, y)])).about_rows is None
    assert open_data(iter([(X, y)])).once
    assert not open_data((X, y)).once


def test_a_function_is_asked_for_its_chunks_once_a_pass():
    frame, given = make_frame("plain"), []

    def chunks():
        for start in range(0, 200, 50):
            given.append(start)
            rows = frame[start : start + 50]
            yield rows[COLUMNS], rows["y"]

    source = open_data(chunks)
    assert given == [0]  # the first one tells the columns
    assert not source.once
    AnytimeRegressor(NAMED).fit(source)
    assert given == [0, 0, 50, 100, 150]


def test_only_one_chunk_is_read_ahead():
    """Memory is for two chunks: one that is added and one that is read."""
    read, most = [], []
    for done, _ in enumerate(ahead(read.append(k) or k for k in range(20))):
        most.append(len(read) - done)
    assert len(read) == 20
    assert max(most) <= 2


@pytest.mark.parametrize(("entries", "most"), [(SOURCE_BYTES // 8, 2), (SOURCE_BYTES // 32, 5)])
def test_chunks_in_work_take_bounded_memory(monkeypatch, entries, most):
    """As many at once as have room, and one that is read; a large one alone."""
    monkeypatch.setattr(sums, "blas_threads", lambda: 3)
    read, held = [], []
    items = (read.append(k) or np.broadcast_to(float(k), entries) for k in range(20))
    for done, value in enumerate(sums.in_order(lambda item: item[0], items)):
        assert value == done
        held.append(len(read) - done)
    assert len(read) == 20
    assert max(held) <= most


def test_results_do_not_depend_on_the_number_of_threads(tmp_path, monkeypatch):
    frame = make_frame("large means")
    frame.to_parquet(tmp_path / "a.parquet", index=False, row_group_size=110)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(sums, "blas_threads", lambda threads=threads: threads)
        source = open_data(tmp_path / "a.parquet", "y", weight="w", features=COLUMNS, chunk_rows=7)
        found.append(AnytimeRegressor(NAMED, COSTS).fit(source).coef_path_)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_the_first_bad_chunk_is_the_one_that_is_named(monkeypatch):
    monkeypatch.setattr(sums, "blas_threads", lambda: 3)
    X, y = np.ones((100, 2)), np.arange(100.0)
    X[35], X[62] = np.nan, np.inf
    for _ in range(5):
        with pytest.raises(ValueError, match=r"rows 30 to 39: .*NaN"):
            AnytimeRegressor().fit(open_data((X, y), chunk_rows=10))


@pytest.mark.parametrize("chunk_rows", [0, -1, 2.5, True, "10"])
def test_chunk_rows_must_be_a_number_of_rows(chunk_rows):
    with pytest.raises(ValueError, match="chunk_rows must be an integer ≥ 1"):
        open_data((np.eye(2), np.ones(2)), chunk_rows=chunk_rows)


def test_what_is_not_a_source_is_refused():
    with pytest.raises(TypeError, match="an array needs its target"):
        open_data(np.eye(3))
    with pytest.raises(TypeError, match="do not know how to read dict"):
        open_data({"a": 1})
    with pytest.raises(ValueError, match=r"target y is None; sources hold it \(open_data\)"):
        AnytimeRegressor().fit((np.eye(3), np.ones(3)))
    source = open_data((np.eye(3), np.ones(3)))
    for more in ({"y": np.ones(3)}, {"sample_weight": np.ones(3)}):
        with pytest.raises(ValueError, match="a source holds its own targets and weights"):
            AnytimeRegressor().fit(source, **more)
    with pytest.raises(ValueError, match="client is for sources"):
        AnytimeRegressor().fit(np.eye(3), np.ones(3), client="x")
    for role in ("target", "weight", "qid", "features"):
        for data in ((np.eye(3), np.ones(3)), iter([(np.eye(3), np.ones(3))])):
            with pytest.raises(ValueError, match=f"{role}='y' names a column"):
                open_data(data, **{role: "y"})
    with pytest.raises(TypeError, match="of length 4"):
        open_data((np.eye(3), np.ones(3), None, None))
    with pytest.raises(ValueError, match="target y is None"):
        open_data((np.eye(3), None))
    with pytest.raises(ValueError, match="y has shape"):
        open_data((np.eye(3), np.ones(2)))
    with pytest.raises(ValueError, match="say which column is the target"):
        open_data(pd.DataFrame({"a": [1.0]}))
    with pytest.raises(ValueError, match=r"table of shape \(n, D\)"):
        open_data((np.ones(3), np.ones(3)))
    with pytest.raises(ValueError, match="iterator of chunks is empty"):
        open_data(iter([]))


# -- progress ---------------------------------------------------------------------------------------------------------


def test_no_bar_unless_a_terminal_watches(capfd):
    frame = make_frame("plain")
    AnytimeRegressor(NAMED).fit(open_data(frame[[*COLUMNS, "y"]], "y"))
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("progress", [True, None, False])
def test_the_bar_counts_rows(monkeypatch, progress):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    frame = make_frame("plain")
    source = open_data(frame[[*COLUMNS, "y"]], "y", chunk_rows=100)
    AnytimeRegressor(NAMED).fit(source, progress=progress)
    shown = screen.getvalue()
    assert (" of 211 rows, " in shown) if progress is not False else not shown


def test_the_bar_does_without_a_total(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    frame = make_frame("plain")
    chunks = iter([(frame[COLUMNS], frame["y"])] * 2)
    AnytimeRegressor(NAMED).fit(open_data(chunks), progress=True)
    shown = screen.getvalue()
    assert "rows, " in shown
    assert " of " not in shown


# -- moments of a pass ------------------------------------------------------------------------------------------------


def test_a_chunk_without_weight_adds_nothing():
    frame = make_frame("plain")
    X, y, w = (frame[part].to_numpy(copy=True) for part in (COLUMNS, "y", "w"))
    w[50:100] = 0
    X[60], y[70] = 1e9, -1e9  # of no weight
    source = open_data((X, y, w), chunk_rows=50)
    found = sum_over(source, ChunkMoments(None, ()), None)
    keep = w > 0
    wanted = Moments.from_data(X[keep], y[keep], w[keep])
    assert found.n_samples == keep.sum()
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-12)
    np.testing.assert_allclose(found.scatter, wanted.scatter, rtol=1e-11, atol=1e-9)


def test_labels_of_rows_are_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [3.0, 1.0, 2.0], "y": [1.0, 2.0, 3.0]}).sort_values("a")
    frame.to_parquet(tmp_path / "sorted.parquet")
    assert open_data(tmp_path / "sorted.parquet", "y").feature_names == ("a",)


def test_the_bar_knows_the_time_left_of_text_files(tmp_path, monkeypatch):
    frame = make_frame("plain")[[*COLUMNS, "y"]]
    frame.to_csv(tmp_path / "a.csv", index=False)
    dump_svmlight_file(frame[COLUMNS].to_numpy(), frame["y"].to_numpy(), str(tmp_path / "a.svm"), zero_based=False)
    for source in (open_data(tmp_path / "a.csv", "y"), open_data(tmp_path / "a.svm", n_features=len(COLUMNS))):
        assert source.about_rows == pytest.approx(len(frame), rel=0.05)
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        AnytimeRegressor().fit(source, progress=True)
        assert f" of {source.about_rows} rows" in screen.getvalue()
    empty = tmp_path / "empty.svm"
    empty.write_text("")
    assert open_data(empty, n_features=1).about_rows == 0


def test_what_would_be_ignored_is_refused(tmp_path):
    frame = make_frame("plain")[[*COLUMNS, "y"]]
    frame.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.svm").write_text("1 1:2\n2 2:3\n")
    X, y = frame[COLUMNS].to_numpy(), frame["y"].to_numpy()
    for data, target, extra, message in (
        ((X, y), None, {"file_format": "csv"}, "file_format='csv' is for files"),
        ((X, y), None, {"n_features": 5}, "n_features=5 is for files"),
        ((X, y), None, {"zero_based": True}, "zero_based=True is for files"),
        (tmp_path / "a.csv", "y", {"n_features": 5}, "n_features=5 is for svmlight files"),
        (tmp_path / "a.svm", None, {"chunk_rows": 5}, "chunk_rows=5 has no effect"),
        (iter([(X, y)]), None, {"chunk_rows": 5}, "chunk_rows=5 has no effect"),
        ((frame[COLUMNS], y), None, {"chunk_rows": 5}, "chunk_rows=5 has no effect"),
    ):
        with pytest.raises(ValueError, match=message):
            open_data(data, target, **extra)
