"""The pass on dask: the same sums bit by bit, whatever runs them and whoever dies meanwhile."""

import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from budgetline import AnytimeClassifier, AnytimeRegressor, FeatureGroups, GroupLassoPath, open_data
from budgetline.fitting import source_training
from budgetline.moments import passes as streaming
from budgetline.moments.passes import ChunkMoments, sum_over
from budgetline.moments.sums import sum_with_dask, tree_sum

NAMES = [f"x{k}" for k in range(4)]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test


@pytest.fixture(scope="module")
def client():
    """Two worker processes of one thread each; not the default client."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _threads():
    """Without a client, tasks run in threads of this process."""
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def make_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 100
    y = (X - 100) @ [1.0, 2.0, 0.5, -1.0] + rng.normal(size=n)
    return pd.DataFrame(X, columns=NAMES).assign(y=y, w=rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.8))


def write_files(folder, frame, count):
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), count)):
        frame.iloc[rows].to_parquet(folder / f"{k:02}.parquet", index=False, row_group_size=20)
    return [folder / f"{k:02}.parquet" for k in range(count)]


def assert_identical(a, b):
    assert (a.n_samples, a.weight, a.eps, a.feature_names) == (b.n_samples, b.weight, b.eps, b.feature_names)
    for name in ("mean", "mean_low", "scatter"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)


def assert_same(found, wanted, digits=1e-10):
    assert found.sequence_.groups == wanted.sequence_.groups
    np.testing.assert_allclose(found.coef_path_, wanted.coef_path_, rtol=digits)
    np.testing.assert_allclose(found.intercept_path_, wanted.intercept_path_, rtol=digits)


# -- the tree ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A sum that remembers how it was taken."""

    text: str

    def __add__(self, other):
        return Term(f"({self.text}+{other.text})")


def term(chunk):
    return None if chunk.y[0] % 7 == 3 else Term(str(int(chunk.y[0])))  # some parts add nothing


@pytest.mark.parametrize("count", range(41))
def test_here_and_on_dask_sums_are_taken_as_the_same_tree(count):
    y = np.arange(float(count))
    source = open_data((np.ones((count, 1)), y), chunk_rows=1)
    here = sum_over(source, term, None)
    with dask.config.set(scheduler="synchronous"):
        there = sum_with_dask(source, term, None, None)
    assert here == there
    whole = tree_sum(Term("x") for _ in range(count))
    assert (whole is None) == (count == 0)
    if whole is not None:
        depth = max(np.cumsum([(c == "(") - (c == ")") for c in whole.text]))
        assert depth == int(np.ceil(np.log2(count)))


# -- frames -----------------------------------------------------------------------------------------------------------


def test_dask_frames():
    frame = make_frame()
    data = dd.from_pandas(frame, npartitions=5, sort=False)
    wanted = AnytimeRegressor().fit(frame[NAMES], frame["y"], frame["w"])
    found = AnytimeRegressor().fit(open_data(data, "y", weight="w"))
    assert_same(found, wanted)
    assert found.feature_names_in_.tolist() == NAMES
    several = AnytimeRegressor().fit(open_data(data, ["y", "w"]))
    assert_same(several, AnytimeRegressor().fit(frame[NAMES], frame[["y", "w"]]), 1e-9)
    lasso = GroupLassoPath(n_lambdas=10).fit(open_data(data, "y", features=NAMES))
    assert_same(lasso, GroupLassoPath(n_lambdas=10).fit(frame[NAMES], frame["y"]))


def test_dask_frames_give_the_sums_of_their_partitions():
    frame = make_frame()
    data = dd.from_pandas(frame, npartitions=6, sort=False)
    found = AnytimeRegressor().fit(open_data(data, "y"), progress=False)
    pieces = [data.partitions[k].compute() for k in range(6)]
    sums = (sum_over(open_data(piece, "y"), ChunkMoments((*NAMES, "w"), ()), None) for piece in pieces)
    assert_identical(found.moments_, tree_sum(sums))


def test_partitions_that_are_empty_add_nothing():
    frame = make_frame()
    data = dd.from_pandas(frame, npartitions=5, sort=True)
    data = data[data["x0"] > 100.5]
    wanted = AnytimeRegressor().fit(frame.loc[frame["x0"] > 100.5, NAMES], frame.loc[frame["x0"] > 100.5, "y"])
    assert_same(AnytimeRegressor().fit(open_data(data, "y", features=NAMES)), wanted)
    sorted_frame = frame.sort_values("x0", ignore_index=True)
    data = dd.from_pandas(sorted_frame, npartitions=5)
    data = data[data["x0"] > 100.5]
    assert 0 in [len(data.partitions[k].compute()) for k in range(5)]
    assert_same(AnytimeRegressor().fit(open_data(data, "y", features=NAMES)), wanted)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # dask's own
def test_files_that_dask_reads_together(tmp_path):
    """Of many small files, dask may join those of one column but not those of thirty: rows must not be mixed up."""
    rng = np.random.default_rng(0)
    names = [f"c{k}" for k in range(30)]
    frame = pd.DataFrame(rng.normal(size=(400, 30)), columns=names)
    frame["y"] = frame["c0"] - frame["c7"] + rng.normal(size=400)
    frame["note"] = "text"
    write_files(tmp_path, frame, 20)
    data = dd.read_parquet(tmp_path)
    wanted = AnytimeRegressor().fit(frame[names], frame["y"])
    assert_same(AnytimeRegressor().fit(open_data(data, "y", features=names)), wanted, 1e-9)
    groups = FeatureGroups([["c7"], ["c0"]], remainder="drop")
    few = AnytimeRegressor(groups).fit(open_data(data, "y"))
    assert_same(few, AnytimeRegressor(groups).fit(frame[[*names, "note"]], frame["y"]), 1e-9)


def test_what_dask_data_must_be():
    frame = make_frame()
    data, X = dd.from_pandas(frame, npartitions=5), da.from_array(frame[NAMES].to_numpy(), chunks=(50, 4))
    with pytest.raises(TypeError, match="an array needs its target"):
        open_data(X)
    for given in ((X, frame["y"]), (data[NAMES], data["y"])):
        for read in (lambda *parts: open_data(parts), AnytimeRegressor().fit):
            with pytest.raises(TypeError, match="make a dask data frame of X and y"):
                read(*given)
    with pytest.raises(ValueError, match="column 'z' is not in the data"):
        open_data(data, "z")
    broken = frame.copy()
    broken.loc[290, "x2"] = np.nan
    with pytest.raises(ValueError, match=r"partition 4.*NaN: column 'x2'"):
        AnytimeRegressor().fit(open_data(dd.from_pandas(broken, npartitions=5), "y"))


@pytest.mark.parametrize("kind", ["logistic", "softmax", "poisson"])
def test_generalised_models_on_dask(kind):
    frame = make_frame()
    score = frame["y"].to_numpy()
    if kind == "poisson":
        y = np.random.default_rng(0).poisson(np.exp(score / 6)).astype(float)
        model, same = (AnytimeRegressor(loss="poisson", rule="score") for _ in range(2))
    else:
        noisy = score + 2 * np.random.default_rng(0).normal(size=300)
        y = np.array(["low", "mid", "top"])[np.digitize(noisy, [0] if kind == "logistic" else [-1, 1])]
        model, same = (AnytimeClassifier(rule="score", alpha=1e-3) for _ in range(2))
    data = dd.from_pandas(frame[NAMES].assign(target=y), npartitions=4, sort=False)
    model.fit(open_data(data, "target"))
    assert_same(model, same.fit(frame[NAMES], y), 1e-7)
    assert model.n_passes_ > 3


# -- a cluster --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_are_read_inside_the_tasks(client, tmp_path):
    frame = make_frame()
    paths = write_files(tmp_path, frame, 4)
    source = open_data(paths, "y", weight="w", chunk_rows=20)
    here = AnytimeRegressor().fit(source)
    there = AnytimeRegressor().fit(source, client=client)
    assert_identical(here.moments_, there.moments_)
    np.testing.assert_array_equal(here.coef_path_, there.coef_path_)
    assert_same(there, AnytimeRegressor().fit(frame[NAMES], frame["y"], frame["w"]))
    assert there.n_passes_ == 1


def test_files_that_change_are_read_again(client, tmp_path):
    frame = make_frame()
    for factor in (1.0, 2.0):
        changed = frame.assign(y=factor * frame["y"])
        paths = write_files(tmp_path, changed, 2)
        found = AnytimeRegressor().fit(open_data(paths, "y", weight="w"), client=client)
        assert_same(found, AnytimeRegressor().fit(changed[NAMES], changed["y"], changed["w"]))


def test_arrays_are_sent_in_parts(client):
    frame = make_frame(3000)
    X, y = frame[NAMES].to_numpy(), frame["y"].to_numpy()
    source = open_data((X, y), chunk_rows=300)
    part = source.partitions[4].alone()
    assert len(cloudpickle.dumps(part)) < X.nbytes / 5
    (sent,), (whole,) = part.chunks(None), source.partitions[4].chunks(None)
    assert sent.where == whole.where == "rows 1200 to 1499"
    np.testing.assert_array_equal(sent.X, whole.X)
    there = AnytimeRegressor().fit(source, client=client)
    assert_identical(there.moments_, AnytimeRegressor().fit(source).moments_)


def test_dask_data_run_on_the_default_client_or_a_given_one(client):
    frame = make_frame()
    data = dd.from_pandas(frame, npartitions=3, sort=False)
    wanted = AnytimeRegressor().fit(open_data(data, "y")).moments_
    with client.as_current(), dask.config.set(scheduler=None):
        assert_identical(AnytimeRegressor().fit(open_data(data, "y")).moments_, wanted)
    assert_identical(AnytimeRegressor().fit(open_data(data, "y"), client=client).moments_, wanted)


def test_generalised_models_on_a_cluster(client, tmp_path):
    frame = make_frame()
    frame["label"] = np.where(frame["y"] + np.random.default_rng(1).normal(size=300) > 0, "up", "down")
    source = open_data(write_files(tmp_path, frame, 3), "label", weight="w", features=NAMES)
    there = AnytimeClassifier(rule="omp", alpha=1e-2).fit(source, client=client)
    here = AnytimeClassifier(rule="omp", alpha=1e-2).fit(frame[NAMES], frame["label"], frame["w"])
    assert_same(there, here, 1e-7)
    assert there.classes_.tolist() == ["down", "up"]


def test_errors_of_tasks_name_the_file_and_leave_the_model(client, tmp_path):
    frame = make_frame()
    paths = write_files(tmp_path, frame, 3)
    model = AnytimeRegressor().fit(open_data(paths, "y"), client=client)
    before = dict(vars(model))
    broken = frame[:60].copy()
    broken.loc[45, "x1"] = np.nan
    broken.to_parquet(paths[1], index=False, row_group_size=20)
    with pytest.raises(ValueError, match=r"01\.parquet, row group 2: .*column 'x1'"):
        model.fit(open_data(paths, "y"), client=client)
    source = open_data(paths[:1], "y")
    paths[0].unlink()
    with pytest.raises(FileNotFoundError, match=r"00\.parquet"):
        model.fit(source, client=client)
    assert vars(model) == before


def test_an_iterator_cannot_be_sent(client):
    with pytest.raises(ValueError, match="tasks cannot read an iterator"):
        AnytimeRegressor().fit(open_data(iter([(np.eye(3), np.ones(3))])), client=client)


def test_a_worker_notices_that_a_file_has_changed(client, tmp_path, monkeypatch):
    frame = make_frame()
    frame["y"] = (frame["y"] > 0).astype(int)
    source = open_data(write_files(tmp_path, frame, 3), "y")
    passes, original = [], streaming.Passes.total

    def total(self, statistic, columns):
        passes.append(columns)
        if len(passes) == 4:
            path = tmp_path / "01.parquet"
            status, data = path.stat(), bytearray(path.read_bytes())
            data[200] ^= 1
            path.write_bytes(data)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        return original(self, statistic, columns)

    monkeypatch.setattr(streaming.Passes, "total", total)
    model = AnytimeClassifier(rule="score", alpha=1e-3)
    with pytest.raises(ValueError, match=r"01\.parquet.* has changed since it was opened"):
        model.fit(source, client=client)
    assert len(passes) == 4


def test_a_task_that_gives_other_rows_in_a_later_pass(tmp_path):
    """Of what tasks compute again nothing is known but the rows."""
    frame = make_frame()
    frame["y"] = (frame["y"] > 0).astype(int)
    counter = tmp_path / "counter"

    def changing(part):
        with counter.open("a") as file:
            file.write("x")
        late = len(counter.read_text()) > 6
        return part.assign(x1=-part["x1"]) if late else part

    data = dd.from_pandas(frame[[*NAMES, "y"]], npartitions=2, sort=False)
    data = data.map_partitions(changing, meta=data._meta)
    with pytest.raises(ValueError, match=r"pass \d read other rows .*must not change while they are read"):
        AnytimeClassifier(rule="score", alpha=1e-3).fit(open_data(data, "y"))


@dataclass(frozen=True)
class FatalMoments(ChunkMoments):
    """Moments; but the first worker that reads the last file tells who it is and waits for its end.

    Tasks may be stolen and run twice: only the one that creates the file ``victim`` is the first.
    """

    folder: str = ""

    def __call__(self, chunk):
        folder = Path(self.folder)
        if "05.parquet" in chunk.where and self._first():
            with (folder / "who").open("w") as pipe:
                pipe.write(str(os.getpid()))
            (folder / "never").read_text()  # a pipe that nobody writes to
        return super().__call__(chunk)

    def _first(self):
        try:
            (Path(self.folder) / "victim").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(client, tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    source = open_data(write_files(folder, make_frame(), 6), "y", weight="w", chunk_rows=20)
    wanted = AnytimeRegressor().fit(source)
    os.mkfifo(tmp_path / "who")
    os.mkfifo(tmp_path / "never")
    workers = set(client.run(os.getpid).values())
    monkeypatch.setattr(source_training, "ChunkMoments", lambda *args: FatalMoments(*args, folder=str(tmp_path)))
    model = AnytimeRegressor()
    fit = threading.Thread(target=lambda: model.fit(source, client=client), daemon=True)
    fit.start()
    pid = int((tmp_path / "who").read_text())
    assert pid in workers
    assert not hasattr(model, "moments_")
    os.kill(pid, signal.SIGKILL)
    fit.join(120)
    assert not fit.is_alive()
    assert_identical(model.moments_, wanted.moments_)
    np.testing.assert_array_equal(model.coef_path_, wanted.coef_path_)
