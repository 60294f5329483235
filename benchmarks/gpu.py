"""Times of fits on a GPU and on the CPU of the same machine; writes docs/results/gpu.md.

    python benchmarks/gpu.py [--library torch|cupy] [--quick] [--write docs/results/gpu.md]

Times are medians after a warm-up, with the data on the device. Without ``--quick``, the same fits run on the CPU, and
orders and coefficients are compared.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from collections.abc import Callable
from datetime import date
from os import cpu_count
from pathlib import Path
from time import perf_counter
from types import ModuleType

import numpy as np
from core import opened

from budgetline import AnytimeClassifier, AnytimeRegressor, open_data
from budgetline.devices import Device, named_device, on_host

ROWS, COLUMNS, GROUPS = 709_877, 501, [list(range(s, min(s + 10, 501))) for s in range(0, 501, 10)]
WIDE_ROWS, WIDE_COLUMNS, WIDE_GROUPS = 2_000, 20_000, 400


def tall(xp: ModuleType) -> tuple[object, object, object]:
    """Columns that are correlated within and between groups, a linear target, and labels."""
    if xp.__name__ == "torch":
        xp.manual_seed(0)
        X = xp.randn((ROWS, COLUMNS), dtype=xp.float64, device="cuda")
        noise = xp.randn(ROWS, dtype=xp.float64, device="cuda")
        chance = xp.rand(ROWS, dtype=xp.float64, device="cuda")
        weights = xp.linspace(1.0, 0.0, COLUMNS, dtype=xp.float64, device="cuda")
    else:
        xp.random.seed(0)
        X, noise, chance = (
            xp.random.standard_normal((ROWS, COLUMNS)),
            xp.random.standard_normal(ROWS),
            xp.random.rand(ROWS),
        )
        weights = xp.linspace(1.0, 0.0, COLUMNS)
    for start in range(0, ROWS, 50_000):  # in place, in chunks
        part = X[start : start + 50_000]
        part[:, 1:] += 0.5 * part[:, :-1]
    score = X @ weights / 12
    y = score * 4 + noise
    labels = (chance < 1 / (1 + xp.exp(-score))) * 1
    return X, y, labels


def wide(xp: ModuleType) -> tuple[object, object]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((WIDE_ROWS, WIDE_COLUMNS))
    y = X[:, ::100] @ rng.standard_normal(WIDE_COLUMNS // 100) + rng.standard_normal(WIDE_ROWS)
    device = named_device("cuda") if xp.__name__ == "torch" else Device(xp, xp.cuda.Device(0))
    return device.put(X), device.put(y)


def timed(xp: ModuleType, work: Callable[[], object], repeats: int) -> tuple[float, object]:
    times, found = [], None
    for _ in range(repeats + 1):
        synchronise(xp)
        start = perf_counter()
        found = work()
        synchronise(xp)
        times.append(perf_counter() - start)
    return float(np.median(times[1:])), found


def synchronise(xp: ModuleType) -> None:
    if xp.__name__ == "torch":
        xp.cuda.synchronize()
    else:
        xp.cuda.runtime.deviceSynchronize()


def peak(xp: ModuleType, work: Callable[[], object], size: int) -> float:
    """Return the peak memory on the device during some work, in multiples of X, X included."""
    if xp.__name__ == "torch":
        xp.cuda.empty_cache()
        xp.cuda.reset_peak_memory_stats()
        before = xp.cuda.memory_allocated()
        work()
        return 1 + float((xp.cuda.max_memory_allocated() - before) / size)
    pool = xp.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    work()
    return 1 + float((pool.total_bytes() - before) / size)


def differences(found: AnytimeRegressor, wanted: AnytimeRegressor) -> str:
    same = "the same" if found.sequence_.groups == wanted.sequence_.groups else "ANOTHER"
    error = np.abs(found.coef_path_ - wanted.coef_path_).max() / np.abs(wanted.coef_path_).max()
    return f"{same} | {error:.0e}"


def streamed(X: object, y: object, rows: int) -> tuple[float, float, float, str]:
    """Return the seconds to read Parquet files alone, to fit on the CPU and through the device; and differences."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        table, target = on_host(X[:rows]), on_host(y[:rows])
        paths = []
        for k, start in enumerate(range(0, rows, rows // 4)):
            part = slice(start, min(start + rows // 4, rows))
            columns = {f"x{d}": table[part, d] for d in range(COLUMNS)} | {"y": target[part]}
            paths.append(str(Path(folder) / f"{k}.parquet"))
            pq.write_table(pa.table(columns), paths[-1], row_group_size=20_000, compression="zstd")
        groups = [[f"x{d}" for d in group] for group in GROUPS]
        times = {}
        models = {}
        for name, settings in (("cpu", {}), ("device", {"device": "cuda"})):
            for _ in range(2):
                start = perf_counter()
                models[name] = AnytimeRegressor(groups).fit(open_data(paths, "y", **settings))
                times[name] = perf_counter() - start
        start = perf_counter()
        for partition in open_data(paths, "y").partitions:
            for _ in partition.chunks(None):
                pass
        return perf_counter() - start, times["cpu"], times["device"], differences(models["device"], models["cpu"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="torch")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write")
    given = parser.parse_args()
    xp = __import__(given.library)
    X, y, labels = tall(xp)
    size = 8 * ROWS * COLUMNS
    cases = [
        ("least squares, forward", lambda: AnytimeRegressor(GROUPS), X, y, 0.06, 5),
        ("logistic, omp", lambda: AnytimeClassifier(GROUPS, rule="omp"), X, labels, 1.5, 2),
        ("logistic, score", lambda: AnytimeClassifier(GROUPS, rule="score"), X, labels, 2.5, 2),
    ]
    lines = []
    for name, make, table, target, limit, repeats in cases:
        seconds, model = timed(xp, lambda m=make, X=table, y=target: m().fit(X, y), repeats)
        memory = peak(xp, lambda m=make, X=table, y=target: m().fit(X, y), size)
        row = f"| {name}, {ROWS:,} × {COLUMNS} | {seconds * 1e3:,.0f} ms | {limit * 1e3:,.0f} ms | {memory:.2f}"
        print(row, flush=True)
        lines.append((row, name, make, table, target, model))
    WX, wy = wide(xp)
    groups = [list(range(s, s + 5)) for s in range(0, WIDE_COLUMNS, 5)]
    for rule in ("forward", "omp"):
        make = lambda rule=rule: AnytimeRegressor(groups, rule=rule, max_groups=WIDE_GROUPS)  # noqa: E731
        seconds, model = timed(xp, lambda m=make: m().fit(WX, wy), 2)
        memory = peak(xp, lambda m=make: m().fit(WX, wy), 8 * WIDE_ROWS * WIDE_COLUMNS)
        row = f"| wide, {rule}, {WIDE_ROWS:,} × {WIDE_COLUMNS:,} | {seconds * 1e3:,.0f} ms | 2,000 ms | {memory:.2f}"
        print(row, flush=True)
        lines.append((row, f"wide {rule}", make, WX, wy, model))
    page = []
    for row, name, make, table, target, model in lines:
        text = f"{row} | | |"
        if not given.quick:
            host, own = on_host(table), on_host(target)
            start = perf_counter()
            wanted = make().fit(host, own)
            text = f"{row} | {differences(model, wanted)} | {perf_counter() - start:.1f} s |"
            print(name, text, flush=True)
        page.append(text)
    reading, cpu, device, same = streamed(X, y, 200_000 if given.quick else ROWS)
    print(f"parquet: read {reading:.2f} s, cpu {cpu:.2f} s, device {device:.2f} s, {same}", flush=True)
    if given.write:
        text = as_page(xp, page, (reading, cpu, device, same))
        Path(given.write).write_text(opened(text, Path(given.write)), encoding="utf-8")


def as_page(xp: ModuleType, rows: list[str], stream: tuple[float, float, float, str]) -> str:
    card = (
        xp.cuda.get_device_name() if xp.__name__ == "torch" else xp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    )
    reading, cpu, device, same = stream
    order, difference = same.split(" | ")
    return "\n".join(
        [
            "# On a GPU",
            "",
            f"Made by `benchmarks/gpu.py` on {date.today()}: {card}, {xp.__name__} {xp.__version__}, {cpu_count()} "
            f"CPU cores, Python {platform.python_version()}. The data are on the device, in float64. Times are "
            "medians of complete calls to `fit` after a warm-up, including input checks and copies of y. Memory is "
            "the peak on the device, including X itself, as a multiple of the size of X. The orders and coefficients "
            "are compared with those of the same fit on the CPU, and the difference in coefficients is relative to "
            "the largest coefficient. The last column is the time of one run on the CPU.",
            "",
            "| fit | on the GPU | aim | memory | order | difference | on the CPU |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"**Files.** Reading a Parquet table of {ROWS:,} × {COLUMNS} values (zstd) takes {reading:.1f} s in one "
            f"thread, without fitting anything. A least-squares fit from these files takes {cpu:.1f} s on the CPU and "
            f'{device:.1f} s on the device (`open_data(..., device="cuda")`). '
            f"The order is {'' if order == 'the same' else 'not '}the same as on the CPU, and the coefficients differ "
            f"by {difference}.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
