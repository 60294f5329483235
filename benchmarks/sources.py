"""Speed and memory of fits from files, as ratios within one run: ``python benchmarks/sources.py``.

The command line and the measurements work as in ``core.py``. The files are written to a temporary folder and removed
afterwards, so they are in the page cache as far as they fit. Everything whose memory is measured runs in a fresh
process, and peak memory includes everything the process imports. By default pyarrow keeps a dictionary of the values of
each column, which slows reading most if no value is repeated. The names of the cases say which have no dictionaries.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np
from core import Cases, Measurements, in_turns, main, seconds

from budgetline import AnytimeClassifier, AnytimeRegressor, open_data

D, GROUP = 500, 10
ROWS, PARQUET_FILES = 1_500_000, 3
TEXT_ROWS, TEXT_D = 200_000, 100
BLOCK = 10_000


def own_folder() -> TemporaryDirectory[str]:
    """A folder that is removed after; what processes that were killed left behind is removed now."""
    for left in Path(gettempdir()).glob("budgetline-bench-*-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            rmtree(left, ignore_errors=True)
    return TemporaryDirectory(prefix=f"budgetline-bench-{os.getpid()}-")


def fresh_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def apart(work: Callable[..., Any], *args: Any) -> Any:
    """Run in a fresh process, so that its memory is its own."""
    with fresh_pool() as pool:
        return pool.submit(work, *args).result()


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def table(rng: np.random.Generator, n: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns (width, n) and a target in which each group matters less than the one before."""
    X = rng.standard_normal((width, n))
    return X, (0.97 ** np.arange(width)) @ X + rng.standard_normal(n)


def groups(width: int) -> list[list[int]]:
    return [list(range(start, start + GROUP)) for start in range(0, width, GROUP)]


# -- files ---------------------------------------------------------------------------------------------------------


def write_parquet(folder: Path, n: int, width: int, files: int, group_rows: int, labels: bool, **options: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [*(f"x{d}" for d in range(width)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    for k in range(files):
        rows = n * (k + 1) // files - n * k // files
        with pq.ParquetWriter(folder / f"{k}.parquet", schema, **options) as out:
            for start in range(0, rows, group_rows):
                X, y = table(rng, min(group_rows, rows - start), width)
                y = (y > 0).astype(float) if labels else y
                out.write_table(pa.table([*X, y], schema=schema), row_group_size=group_rows)


def write_csv(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv

    X, y = table(np.random.default_rng(0), TEXT_ROWS, TEXT_D)
    pyarrow.csv.write_csv(pa.table([*X, y], names=[*(f"x{d}" for d in range(TEXT_D)), "y"]), path)


def write_svmlight(path: Path) -> None:
    X, y = table(np.random.default_rng(0), TEXT_ROWS, TEXT_D)
    line = " ".join(["%.17g", *(f"{d + 1}:%.17g" for d in range(TEXT_D))])
    np.savetxt(path, np.column_stack([y, X.T]), fmt=line)


# -- what is measured ----------------------------------------------------------------------------------------------


def fit(path: Path, target: str | None, width: int) -> tuple[float, float, np.ndarray]:
    """Seconds, peak memory and coefficients of a fit, the opening of the source included."""
    model = AnytimeRegressor(groups(width))
    options = {} if target else {"n_features": width}
    taken = seconds(lambda: model.fit(open_data(path, target, **options)))
    return taken, peak_mb(), model.coef_


def read(path: Path, target: str | None, width: int) -> float:
    """Seconds of reading all chunks, doing nothing with them."""

    def work() -> None:
        for partition in open_data(path, target, **({} if target else {"n_features": width})).partitions:
            for _ in partition.chunks(None):
                pass

    return seconds(work)


def fit_with_dask(path: Path, width: int) -> tuple[float, float, np.ndarray]:
    """Seconds, highest peak memory of a worker, and coefficients; two worker processes of one thread."""
    from distributed import Client, LocalCluster

    model = AnytimeRegressor(groups(width))
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": None}
    with (
        TemporaryDirectory() as scratch,
        LocalCluster(local_directory=scratch, **settings) as cluster,
        Client(cluster) as client,
    ):
        taken = seconds(lambda: model.fit(open_data(path, "y"), client=client))
        return taken, max(client.run(peak_mb).values()), model.coef_


class InMemory:
    """X in a process of its own, which multiplies it when asked to."""

    X: np.ndarray

    @classmethod
    def make(cls, n: int) -> None:
        rng = np.random.default_rng(0)
        cls.X = np.empty((n, D))
        for start in range(0, n, BLOCK):
            rng.standard_normal(out=cls.X[start : start + BLOCK])

    @classmethod
    def multiply(cls) -> float:
        return seconds(lambda: cls.X.T @ cls.X)


# -- cases ---------------------------------------------------------------------------------------------------------


def parquet_case(n: int, files: int, group_rows: int, rounds: int, dask: bool, **options: Any) -> Measurements:
    with own_folder() as name, fresh_pool() as memory:
        folder = Path(name)
        writing = seconds(lambda: apart(partial(write_parquet, **options), folder, n, D, files, group_rows, False))
        memory.submit(InMemory.make, n).result()
        inside: dict[str, list[Any]] = {"X'X": [], "fit": [], "read": []}
        works = {
            "X'X": lambda: inside["X'X"].append(memory.submit(InMemory.multiply).result()),
            "fit": lambda: inside["fit"].append(apart(fit, folder, "y", D)),
            "read": lambda: inside["read"].append(apart(read, folder, "y", D)),
        }
        in_turns(works, rounds)
        product, reading = np.array(inside["X'X"]), np.array(inside["read"])
        fitting = np.array([taken for taken, _, _ in inside["fit"]])
        found = {
            "size of the files, GB": sum(path.stat().st_size for path in folder.iterdir()) / 1e9,
            "writing, seconds": writing,
            "X'X in memory, seconds": float(np.median(product)),
            "fit, seconds": float(np.median(fitting)),
            "reading alone, seconds": float(np.median(reading)),
            "fit / X'X": float(np.median(fitting / product)),
            "reading alone / X'X": float(np.median(reading / product)),
            "peak memory, MB": max(peak for _, peak, _ in inside["fit"]),
        }
        return found | (_beside_dask(folder, found["fit, seconds"], inside["fit"][0][2]) if dask else {})


def _beside_dask(folder: Path, alone: float, coef: np.ndarray) -> Measurements:
    taken, peak, same = fit_with_dask(folder, D)
    assert np.array_equal(coef, same), "dask: not the same coefficients"
    return {
        "dask, 2 workers of 1 thread, seconds": taken,
        "dask / fit": taken / alone,
        "dask, peak memory of a worker, MB": peak,
    }


def text_case(file: str, write: Callable[[Path], None], target: str | None, rounds: int = 3) -> Measurements:
    with own_folder() as name:
        path = Path(name) / file
        apart(write, path)
        fits: list[tuple[float, float, np.ndarray]] = []
        reads: list[float] = []
        works = {
            "fit": lambda: fits.append(apart(fit, path, target, TEXT_D)),
            "read": lambda: reads.append(apart(read, path, target, TEXT_D)),
        }
        in_turns(works, rounds)
        taken = float(np.median([fit[0] for fit in fits]))
        return {
            "size of the file, MB": path.stat().st_size / 1e6,
            "fit, seconds": taken,
            "reading alone, seconds": float(np.median(reads)),
            "MB of text a second": path.stat().st_size / 1e6 / taken,
            "peak memory, MB": max(fit[1] for fit in fits),
        }


def classify(path: Path, streamed: bool) -> tuple[float, float, int, np.ndarray]:
    """Seconds, peak memory, passes and coefficients of a logistic fit."""
    model = AnytimeClassifier(groups(TEXT_D), rule="omp")
    source = open_data(path, "y")
    if streamed:
        taken = seconds(lambda: model.fit(source))
        return taken, peak_mb(), model.n_passes_, model.coef_
    chunks = [chunk for partition in source.partitions for chunk in partition.chunks(None)]
    X, y = np.vstack([chunk.X for chunk in chunks]), np.concatenate([chunk.y for chunk in chunks])
    return seconds(lambda: model.fit(X, y)), peak_mb(), 0, model.coef_


def logistic_case() -> Measurements:
    with own_folder() as name:
        folder = Path(name)
        apart(write_parquet, folder, TEXT_ROWS, TEXT_D, 2, 100_000, True)
        taken, peak, passes, coef = apart(classify, folder, True)
        inside, _, _, same = apart(classify, folder, False)
        return {
            "stages": TEXT_D // GROUP,
            "passes": passes,
            "fit, seconds": taken,
            "fit in memory, seconds": inside,
            "peak memory, MB": peak,
            "largest relative difference of coefficients": float(np.max(np.abs(coef / same - 1))),
        }


GOOD = {"fit / X'X": 1.6, "peak memory, MB": 1000}
USUAL = {"fit / X'X": 2.5, "peak memory, MB": 1000}
MEMORY = {"peak memory, MB": 1000}
TEXT_SIZE = f"{TEXT_ROWS:,} × {TEXT_D}"
CASES: Cases = {
    "parquet": (
        "Parquet, 1,500,000 × 500 float64, 50 groups, 3 files, row groups of 16,384, no dictionaries",
        partial(parquet_case, ROWS, PARQUET_FILES, 16_384, rounds=3, dask=True, use_dictionary=False),
        GOOD,
    ),
    "defaults": (
        "Parquet, 500,000 × 500, row groups of 100,000, dictionaries (pyarrow's default)",
        partial(parquet_case, 500_000, 2, 100_000, rounds=3, dask=False),
        USUAL,
    ),
    "small": (
        "Parquet, 500,000 × 500, row groups of 1,000, no dictionaries",
        partial(parquet_case, 500_000, 2, 1_000, rounds=1, dask=False, use_dictionary=False),
        MEMORY,
    ),
    "large": (
        "Parquet, 1,000,000 × 500, one row group",
        partial(parquet_case, 1_000_000, 1, 1_000_000, rounds=3, dask=False),
        USUAL,
    ),
    "plain": (
        "Parquet, 1,000,000 × 500, one row group, no dictionaries, pages of 1 MB",
        partial(
            parquet_case,
            1_000_000,
            1,
            1_000_000,
            rounds=1,
            dask=False,
            use_dictionary=False,
            max_rows_per_page=1_000_000,
        ),
        MEMORY,
    ),
    "csv": (f"CSV, {TEXT_SIZE}", partial(text_case, "table.csv", write_csv, "y"), MEMORY),
    "svmlight": (
        f"svmlight, {TEXT_SIZE}, no zeros",
        partial(text_case, "table.svm", write_svmlight, None),
        MEMORY,
    ),
    "logistic": (f"logistic over Parquet, {TEXT_SIZE}, 10 groups", logistic_case, MEMORY),
}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the files are removed
    main(CASES, "Speed and memory of fits from files", __file__, __doc__)
