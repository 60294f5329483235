"""Data that change while they are read: between opening and reading, between passes, during a pass."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from budgetline import AnytimeClassifier, AnytimeRegressor, budget_curve, open_data
from budgetline.data.parquet_files import ParquetPartition
from budgetline.data.sources import ArrayPartition
from budgetline.data.svmlight_files import SvmlightPartition
from budgetline.data.tabular import LazyFramePartition
from budgetline.data.text_files import CsvPartition

pytestmark = pytest.mark.quick_cases(6)

NAMES = ["a", "b", "c"]


def make_frame(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return pd.DataFrame(X, columns=NAMES).assign(y=(X @ [1.0, -1.0, 0.5] + rng.normal(size=n) > 0).astype(int))


def flipped(frame):
    """Return the frame with other labels, as many of each class."""
    return frame.assign(y=frame["y"].to_numpy()[::-1])


def write_svmlight(frame, path):
    rows = frame.to_numpy().tolist()
    path.write_text("".join(f"{row[3]:g} 1:{row[0]!r} 2:{row[1]!r} 3:{row[2]!r}\n" for row in rows))


WRITERS = {
    "parquet": lambda frame, path: frame.to_parquet(path, index=False, row_group_size=40),
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "svm": write_svmlight,
}
PARTITIONS = {
    "parquet": ParquetPartition,
    "csv": CsvPartition,
    "svm": SvmlightPartition,
}


def opened(kind, path):
    return open_data(path) if kind == "svm" else open_data(path, "y", chunk_rows=40)


@pytest.fixture(params=WRITERS)
def file(request, tmp_path):
    """A file: its kind, its path, and a function that writes other labels into it."""
    kind = request.param
    path = tmp_path / f"data.{kind}"
    WRITERS[kind](make_frame(), path)

    def change():
        status = path.stat()
        WRITERS[kind](flipped(make_frame()), path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))

    return kind, path, change


def before_reading(monkeypatch, kind, number, change):
    """Call ``change`` before the n-th time that a partition is read, counting from 1."""
    original, count = kind.chunks, 0

    def chunks(self, columns):
        nonlocal count
        count += 1
        if count == number:
            change()
        return original(self, columns)

    monkeypatch.setattr(kind, "chunks", chunks)


def after_first_chunk(monkeypatch, kind, change):
    original = kind.chunks

    def chunks(self, columns):
        for k, chunk in enumerate(original(self, columns)):
            if k == 0:
                change()
            yield chunk

    monkeypatch.setattr(kind, "chunks", chunks)


def assert_refused(model, source, message):
    with pytest.raises(ValueError, match=message):
        model.fit(source)
    assert not hasattr(model, "model_")


def classifier():
    return AnytimeClassifier(rule="score", alpha=1e-3)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3, 7, 12])
def test_a_file_that_changes_between_passes_is_an_error_that_names_it(file, monkeypatch, number):
    kind, path, change = file
    source = opened(kind, path)
    before_reading(monkeypatch, PARTITIONS[kind], number, change)
    assert_refused(classifier(), source, rf"{path.name}.* has changed since it was opened")


def test_a_file_that_changes_before_the_only_pass_is_an_error(file):
    kind, path, change = file
    source = opened(kind, path)
    change()
    assert_refused(AnytimeRegressor(), source, rf"{path.name}.* has changed since it was opened")
    AnytimeRegressor().fit(opened(kind, path))


def test_a_file_that_changes_while_it_is_read_is_an_error(file, monkeypatch):
    kind, path, change = file
    source = opened(kind, path)
    if kind == "svm":  # read at once
        pytest.skip("a stretch of text is read at once")
    after_first_chunk(monkeypatch, PARTITIONS[kind], change)
    assert_refused(AnytimeRegressor(), source, rf"{path.name}.* has changed since it was opened")


def test_a_file_that_grows_by_row_groups_is_an_error(tmp_path):
    """The row groups that were counted are still there: those after them would be left out."""
    path, frame = tmp_path / "data.parquet", make_frame()
    frame[:40].to_parquet(path, index=False, row_group_size=40)
    source = open_data(path, "y")
    frame.to_parquet(path, index=False, row_group_size=40)
    assert_refused(AnytimeRegressor(), source, r"data\.parquet.* has changed since it was opened")


def test_a_file_that_is_cut_short_between_passes_is_not_called_damaged(tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    WRITERS["parquet"](make_frame(), path)
    source = open_data(path, "y")
    before_reading(monkeypatch, ParquetPartition, 3, lambda: path.write_bytes(path.read_bytes()[:-30]))
    assert_refused(classifier(), source, r"data\.parquet.* has changed since it was opened")


def test_a_curve_over_a_file_that_has_changed_since_the_fit_is_an_error(file):
    kind, path, change = file
    source = opened(kind, path)
    model = AnytimeRegressor().fit(source)
    change()
    with pytest.raises(ValueError, match=rf"{path.name}.* has changed since it was opened"):
        budget_curve(model, source)
    budget_curve(model, opened(kind, path))


def test_a_curve_takes_one_pass(file, monkeypatch):
    kind, path, change = file
    source = opened(kind, path)
    model = AnytimeRegressor().fit(source)
    truth = budget_curve(model, source, metric="r2").values
    before_reading(monkeypatch, PARTITIONS[kind], len(source.partitions) + 1, change)
    np.testing.assert_array_equal(budget_curve(model, source, metric="r2").values, truth)


# -- anything else ----------------------------------------------------------------------------------------------------


CHANGES = {
    "labels": lambda frame: flipped(frame),
    "one label": lambda frame: frame.assign(y=frame["y"].where(frame.index != 57, 1 - frame["y"])),
    "features": lambda frame: frame.assign(b=-frame["b"]),
    "one entry": lambda frame: frame.assign(c=frame["c"].where(frame.index != 57, 0.125)),
    "fewer rows": lambda frame: frame[:-1],
    "more rows": lambda frame: pd.concat([frame, frame[:1]]),
    "weights": lambda frame: frame.assign(w=frame["w"][::-1].to_numpy()),
}


class Restarting:
    """A function that starts an iterator of chunks; from a pass on, those of other data."""

    def __init__(self, change, number, text=False):
        frame = make_frame().assign(w=np.linspace(1, 2, 120))
        if text:
            frame["y"] = np.array(["no", "yes"])[frame["y"]]
        self.frames, self.number, self.count, self.text = (frame, change(frame)), number, -1, text

    def __call__(self):
        self.count += 1  # the first time is opening
        frame = self.frames[self.count >= self.number]
        for start in range(0, len(frame), 50):
            part = frame[start : start + 50]
            yield part[NAMES], part["y"], part["w"]


@pytest.mark.parametrize("number", [2, 3, 6])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_function_that_gives_other_rows_in_a_later_pass(kind, number):
    if kind in ("features", "one entry") and number == 2:
        pytest.skip("the first pass reads the labels alone")
    chunks = Restarting(CHANGES[kind], number)
    message = "the data must not change while they are read"
    assert_refused(classifier(), open_data(chunks), rf"pass \d read .*{message}")
    poisson = AnytimeRegressor(loss="poisson", rule="score")
    assert_refused(poisson, open_data(Restarting(CHANGES[kind], number)), message)


@pytest.mark.parametrize("kind", ["rows", "chunks"])
@pytest.mark.parametrize("text", [False, True])
def test_a_function_may_give_the_same_rows_in_another_order_and_in_other_chunks(kind, text):
    frame, count = make_frame(), 0
    labels = np.array(["no", "yes"])[frame["y"]] if text else frame["y"].to_numpy()

    def chunks():
        nonlocal count
        count += 1
        rng = np.random.default_rng(count)
        order = rng.permutation(len(frame)) if kind == "rows" else np.arange(len(frame))
        for rows in np.array_split(order, rng.integers(2, 9)):
            yield frame[NAMES].to_numpy()[rows], labels[rows]

    found = classifier().fit(open_data(chunks))
    np.testing.assert_allclose(found.coef_, classifier().fit(frame[NAMES], labels).coef_, rtol=1e-7)


def test_text_labels_that_change_are_noticed():
    def swapped(frame):
        return frame.assign(y=np.where(frame.index == 3, "yes", np.where(frame.index == 4, "no", frame["y"])))

    frame = Restarting(swapped, 4, text=True).frames[0]
    assert swapped(frame)["y"].tolist() != frame["y"].tolist()
    assert_refused(classifier(), open_data(Restarting(swapped, 4, text=True)), "pass 4 read other")


def test_a_lazy_frame_whose_file_changes_between_passes(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    make_frame().to_csv(path, index=False)
    source = open_data(pl.scan_csv(path), "y")
    change = lambda: flipped(make_frame()).to_csv(path, index=False)  # noqa: E731
    before_reading(monkeypatch, LazyFramePartition, 3, change)
    assert_refused(classifier(), source, "pass 3 read other .*must not change while they are read")


def test_a_mapped_array_whose_file_changes_between_passes(tmp_path, monkeypatch):
    frame, path = make_frame(), tmp_path / "X.npy"
    np.save(path, frame[NAMES].to_numpy())
    source = open_data((np.load(path, mmap_mode="r"), frame["y"].to_numpy()), chunk_rows=120)
    change = lambda: np.load(path, mmap_mode="r+").__setitem__((77, 1), 5.0)  # noqa: E731
    before_reading(monkeypatch, ArrayPartition, 4, change)
    assert_refused(classifier(), source, r"^pass 4 read other rows")


def test_rows_that_are_dense_or_sparse_are_the_same_rows():
    frame, count = make_frame(), 0
    X = np.where((np.arange(120) % 3 == 0)[:, None], frame[NAMES].to_numpy(), 0.0)
    kinds = (sparse.csr_array, np.asfortranarray, sparse.csc_array, np.ascontiguousarray)

    def chunks():
        nonlocal count
        count += 1
        for rows in (slice(0, 70), slice(70, 120)):
            yield kinds[count % 4](X[rows]), frame["y"].to_numpy()[rows]

    np.testing.assert_allclose(
        classifier().fit(open_data(chunks)).coef_, classifier().fit(X, frame["y"]).coef_, rtol=1e-7
    )


def test_one_pass_needs_no_agreement():
    """A function is asked once after opening: whatever it gives then is the data."""
    chunks = Restarting(CHANGES["fewer rows"], 1)
    assert AnytimeRegressor().fit(open_data(chunks)).moments_.n_samples == 119
