"""Speed and memory of the core, as ratios within one run: ``make bench``.

Each case runs in its own process (``--case NAME`` prints its measurements as JSON). Times that are compared with each
other are measured in turns, round after round, and the ratio is the median over rounds. These machines are noisy, but
noise that lasts affects both sides. ``--write FILE`` also writes the table as Markdown, with the date, the machine and
the versions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import budgetline
from budgetline import AnytimeRegressor, AnytimeRegressorCV, Moments
from budgetline.datasets import load_nhanes

Measurements = dict[str, float]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work))
    return {name: np.array(t) for name, t in times.items()}


def peak_rise_mb(work: Callable[[], object]) -> float:
    """Peak resident memory during ``work`` minus the memory before it, from Linux's high-water mark."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    work()
    return (_status("VmHWM") - before) / 1024


def _status(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return float(line.split()[1])
    raise RuntimeError(f"no {key} in /proc/self/status")


def tall(dtype: type) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """200,000 × 501 in 51 groups, columns correlated within groups and far from zero mean."""
    rng = np.random.default_rng(0)
    n, D = 200_000, 501
    groups = [list(range(s, min(s + 10, D))) for s in range(0, D, 10)]
    X = rng.standard_normal((n, D), dtype=np.float32).astype(dtype)
    for members in groups:
        X[:, members] += rng.standard_normal((n, 1)).astype(dtype) + dtype(rng.uniform(-5, 5))
    y = X @ rng.standard_normal(D).astype(dtype) + 5 * rng.standard_normal(n)
    return X, y, groups


def tall_case(dtype: type) -> Measurements:
    X, y, groups = tall(dtype)
    forward, omp = AnytimeRegressor(groups), AnytimeRegressor(groups, rule="omp")
    memory = peak_rise_mb(lambda: forward.fit(X, y))
    times = in_turns(
        {"XtX": lambda: X.T @ X, "forward": lambda: forward.fit(X, y), "omp": lambda: omp.fit(X, y)}, rounds=7
    )
    return {
        "X'X seconds": float(np.median(times["XtX"])),
        "forward seconds": float(np.median(times["forward"])),
        "forward / X'X": float(np.median(times["forward"] / times["XtX"])),
        "forward / omp": float(np.median(times["forward"] / times["omp"])),
        "memory above X, MB": memory,
    }


def correction_case() -> Measurements:
    """The time that a correction adds to a fit, and the time that choosing it adds to a cross-validation."""
    X, y, groups = tall(np.float64)
    nhanes = load_nhanes()
    rows, cv = slice(0, 50_000), {"alphas": (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)}
    ways = {
        "fit": lambda: AnytimeRegressor(groups).fit(X, y),
        "corrected": lambda: AnytimeRegressor(groups, correction=1.0).fit(X, y),
        "NHANES": lambda: AnytimeRegressor(nhanes.feature_groups).fit(nhanes.data, nhanes.target),
        "NHANES, corrected": lambda: AnytimeRegressor(nhanes.feature_groups, correction=1.0).fit(
            nhanes.data, nhanes.target
        ),
        "CV": lambda: AnytimeRegressorCV(groups, corrections=[0.0], **cv).fit(X[rows], y[rows]),
        "CV, corrected": lambda: AnytimeRegressorCV(groups, **cv).fit(X[rows], y[rows]),
    }
    times = in_turns(ways, rounds=7)
    return {
        "fit with correction / fit": float(np.median(times["corrected"] / times["fit"])),
        "the same, NHANES": float(np.median(times["NHANES, corrected"] / times["NHANES"])),
        "fit of NHANES, ms": 1e3 * float(np.median(times["NHANES"])),
        "cross-validation with corrections / without": float(np.median(times["CV, corrected"] / times["CV"])),
    }


def wide_case() -> Measurements:
    rng = np.random.default_rng(0)
    n, D = 2_000, 20_000
    X = rng.standard_normal((n, D))
    y = X[:, ::100] @ rng.standard_normal(D // 100) + rng.standard_normal(n)
    groups = [list(range(s, s + 5)) for s in range(0, D, 5)]
    models = {rule: AnytimeRegressor(groups, rule=rule, max_groups=400) for rule in ("omp", "forward")}
    times = in_turns({rule: lambda m=m: m.fit(X, y) for rule, m in models.items()}, rounds=2)
    return {
        "omp seconds": float(times["omp"].min()),
        "forward seconds": float(times["forward"].min()),
        "forward / omp": float(np.median(times["forward"] / times["omp"])),
        "peak memory, MB": _status("VmHWM") / 1024,
    }


def growth_case() -> Measurements:
    """Exponents of time against n, D and J, fitted by least squares on logarithms."""
    rng = np.random.default_rng(0)

    def moments(n: int, D: int) -> Moments:
        X = rng.standard_normal((n, D))
        return Moments.from_data(X, X @ rng.standard_normal(D) + rng.standard_normal(n))

    def exponent(sizes: list[int], work: Callable[[int], Callable[[], object]]) -> float:
        times = [min(seconds(w) for _ in range(5)) for w in map(work, sizes)]
        return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])

    def sequence(n: int, D: int, J: int) -> Callable[[], object]:
        m, groups = moments(n, D), [list(map(int, g)) for g in np.array_split(np.arange(D), J)]
        return lambda: AnytimeRegressor(groups).fit_moments(m)

    return {
        "moments ~ n^": exponent([20_000, 40_000, 80_000, 160_000], lambda n: _moments_work(rng, n, 300)),
        "sequence ~ n^": exponent([2_000, 8_000, 32_000, 128_000], lambda n: sequence(n, 300, 50)),
        "sequence ~ D^ (50 groups)": exponent([400, 800, 1600, 3200], lambda D: sequence(D + 50, D, 50)),
        "sequence ~ J^ (D = 1,024)": exponent([16, 32, 64, 128, 256, 512, 1024], lambda J: sequence(1100, 1024, J)),
    }


def _moments_work(rng: np.random.Generator, n: int, D: int) -> Callable[[], object]:
    X, y = rng.standard_normal((n, D)), rng.standard_normal(n)
    return lambda: Moments.from_data(X, y)


def printed_case() -> Measurements:
    """The algorithms as the paper prints them, refitting from X at every step, on data that are small enough."""
    rng = np.random.default_rng(0)
    n, D, size = 10_000, 200, 5
    X = rng.standard_normal((n, D)) + rng.standard_normal((n, 1))
    y = X @ rng.standard_normal(D) + 5 * rng.standard_normal(n)
    groups = [list(range(s, s + size)) for s in range(0, D, size)]
    costs = rng.uniform(0.5, 2, len(groups))
    ours = {rule: AnytimeRegressor(groups, costs, rule=rule) for rule in ("omp", "forward")}
    orders: dict[str, list[int]] = {}
    times = {
        name: np.median(t) for name, t in in_turns({r: lambda m=m: m.fit(X, y) for r, m in ours.items()}, 9).items()
    }
    for rule in ours:
        work = lambda rule=rule: orders.update({rule: as_printed(X, y, groups, costs, rule)})  # noqa: E731
        times[f"{rule} printed"] = seconds(work)
    for rule, model in ours.items():
        assert orders[rule] == model.order_.tolist(), f"{rule}: not the same sequence"
    return {
        "omp printed / budgetline": float(times["omp printed"] / times["omp"]),
        "forward printed / budgetline": float(times["forward printed"] / times["forward"]),
        "printed: forward / omp": float(times["forward printed"] / times["omp printed"]),
    }


def as_printed(X: np.ndarray, y: np.ndarray, groups: list[list[int]], costs: np.ndarray, rule: str) -> list[int]:
    """Algorithm 1 of the paper (and its FR variant), every model refitted from the data."""
    return list(printed_steps(X, y, groups, costs, rule))


def printed_steps(
    X: np.ndarray, y: np.ndarray, groups: list[list[int]], costs: np.ndarray, rule: str, alpha: float = 1e-5
) -> Iterator[int]:
    """The same, yielding each group when it has been chosen."""
    n = len(X)
    X = (X - X.mean(0)) / X.std(0)
    y = y - y.mean()

    def refit(columns: list[int]) -> np.ndarray:
        A = X[:, columns]
        return np.linalg.solve(A.T @ A / n + alpha * np.eye(len(columns)), A.T @ y / n)

    def explained(columns: list[int]) -> float:
        w = refit(columns)
        return float((y @ y - np.sum((y - X[:, columns] @ w) ** 2)) / (2 * n) - alpha / 2 * w @ w)

    order: list[int] = []
    chosen: list[int] = []
    while len(order) < len(groups):
        residual = y - X[:, chosen] @ refit(chosen) if chosen else y
        before = explained(chosen) if chosen and rule == "forward" else 0.0
        rates = np.full(len(groups), -np.inf)
        for g in set(range(len(groups))) - set(order):
            if rule == "forward":
                rates[g] = (explained(chosen + groups[g]) - before) / costs[g]
            else:
                A = X[:, groups[g]]
                b = A.T @ residual / n
                rates[g] = b @ np.linalg.solve(A.T @ A / n + alpha * np.eye(len(b)), b) / costs[g]
        order.append(int(np.argmax(rates)))
        chosen = chosen + groups[order[-1]]
        yield order[-1]


CASES = {
    "float64": (
        "200,000 × 501 float64, 51 groups",
        lambda: tall_case(np.float64),
        {"forward / X'X": 1.35, "forward / omp": 1.2, "memory above X, MB": 200},
    ),
    "float32": (
        "200,000 × 501 float32, 51 groups",
        lambda: tall_case(np.float32),
        {"forward / X'X": 1.35, "forward / omp": 1.2, "memory above X, MB": 200},
    ),
    "wide": (
        "2,000 × 20,000, groups of 5, first 400",
        wide_case,
        {"forward / omp": 2.0, "peak memory, MB": 1536},
    ),
    "correction": (
        "the correction: 200,000 × 501, and five folds of 50,000 of its rows",
        correction_case,
        {
            "fit with correction / fit": 1.05,
            "the same, NHANES": 1.05,
            "cross-validation with corrections / without": 2.0,
        },
    ),
    "growth": ("growth of time", growth_case, {}),
    "printed": ("10,000 × 200, 40 groups, compared with the paper's algorithms as printed", printed_case, {}),
}


Cases = dict[str, tuple[str, Callable[[], Measurements], dict[str, float]]]


def report(results: dict[str, Measurements], cases: Cases) -> list[str]:
    lines = ["| case | measure | value | target |", "|---|---|---|---|"]
    for name, measured in results.items():
        title, _, targets = cases[name]
        for key, value in measured.items():
            target = "" if key not in targets else f"≤ {targets[key]:g}: {'met' if value <= targets[key] else 'MISSED'}"
            lines.append(f"| {title} | {key} | {value:.3g} | {target} |")
    return lines


def conditions() -> str:
    return (
        f"Measured on {date.today().isoformat()}: {_processor()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, budgetline {budgetline.__version__}."
    )


def _processor() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return names[0].split(":")[1].strip() if names else platform.machine()


def _in_own_process(script: str, name: str, limit: float = 600) -> Measurements:
    command = [sys.executable, script, "--case", name]
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"not finished after, seconds": limit}
    return dict(json.loads(done.stdout))


def opened(text: str, path: Path) -> str:
    """Return a page that keeps the conclusion of the page at a path, which is written by hand."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if (
        conclusion := re.search(r"^\*\*In short\.\*\*.*?(?=\n\n)", old, re.DOTALL | re.MULTILINE)
    ) is None or conclusion[0] in text:
        return text
    title, _, rest = text.partition("\n\n")
    return f"{title}\n\n{conclusion[0]}\n\n{rest}"


def typeset(text: str) -> str:
    """Return Markdown with typographic minus signs and spaces before per cent signs, except in code and addresses."""
    parts = re.split(r"(```.*?```|`[^`]*`|\]\([^)]*\))", text, flags=re.DOTALL)
    for k in range(0, len(parts), 2):
        parts[k] = re.sub(r"(?<![\w.)-])-(?=\.?\d)", "−", re.sub(r"(?<=\d)%", " %", parts[k]))
    return "".join(parts)


def print_report(report: Callable[[Any], list[str]], full: Any, quick: Any, description: str | None) -> None:
    """The command line of an experiment: ``--quick`` runs a tiny version, ``--write FILE`` keeps the report."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a tiny version, for the test suite")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    text = typeset("\n".join([*report(quick if args.quick else full), conditions(), ""]))
    print(text)
    if args.write:
        args.write.parent.mkdir(parents=True, exist_ok=True)
        args.write.write_text(opened(text, args.write))


def main(cases: Cases, title: str, script: str, description: str | None, alone: Cases | None = None) -> None:
    """Run all cases, or the named one; some cases run only when named."""
    parser, each = argparse.ArgumentParser(description=description), cases | (alone or {})
    parser.add_argument("--case", choices=each)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(each[args.case][1]()))
        return
    results: dict[str, Measurements] = {}
    for name in cases:
        print(f"… {cases[name][0]}", file=sys.stderr, flush=True)
        results[name] = _in_own_process(script, name)
    lines = report(results, cases)
    print("\n".join([*lines, "", conditions()]))
    if args.write:
        name = Path(script).name
        head = f"# {title}\n\nMade by `python benchmarks/{name} --write docs/results/{args.write.name}`.\n"
        args.write.parent.mkdir(parents=True, exist_ok=True)
        args.write.write_text(opened("\n".join([head, *lines, "", conditions(), ""]), args.write))


if __name__ == "__main__":
    main(CASES, "Speed and memory of the core", __file__, __doc__)
