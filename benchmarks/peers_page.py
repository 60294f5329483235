"""The page that ``compare_peers.py`` writes: a table per shape, and whether the goal is met."""

from __future__ import annotations

import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from core import conditions
from peers.adelie import EARLY_EXIT, MIN_RATIO
from peers.adelie import TOL as ADELIE_TOL
from peers.problem import ALPHA, LOGISTIC_ALPHA, N_LAMBDAS, THREADS, Peer, Problem
from peers.registry import PEERS

Measured = dict[str, Any]
DISTRIBUTIONS = {"sklearn": "scikit-learn", "spams": "spams-bin"}
REFERENCES = {"squared": "ours", "logistic": "ours, logistic"}
"""The peer whose time counts as 1, by loss."""
LOSSES = {"squared": "squared error", "logistic": "logistic models"}


@dataclass(frozen=True)
class Section:
    """What was measured on one shape; of the problem only the sizes are kept."""

    title: str
    loss: str
    problem: Problem
    results: dict[str, Measured]
    limit: float


def head(sections: list[Section]) -> str:
    """Return what a reader has to know before the tables; of adelie and logistic models only if they are there."""
    peers = {name: PEERS[name] for section in sections for name in section.results if name in PEERS}
    raw = "adelie, Gram of the raw table" in peers
    given = any(peer.path.endswith("X'X given") for peer in peers.values())
    logistic = any(section.loss == "logistic" for section in sections)
    paragraphs = [
        "# Peers: time and memory",
        "Made by `python benchmarks/compare_peers.py --write docs/results/peers.md` after `make peers` has installed "
        "the packages.",
        f"Every peer runs in its own process on the same data (float64), with {THREADS} threads if it is "
        "multithreaded. The times exclude reading the data, imports and compilation. They also exclude the "
        "preparation, which has a column of its own: it standardises the columns and stores them in Fortran order. "
        "budgetline, LightGBM and the algorithms as printed in the paper start from the raw table instead"
        f"{RAW_START if raw else ''}. The times include derived quantities such as the Gram matrix"
        f"{GIVEN if given else ''}.",
        'Times are medians of three runs, or of fewer if these take five seconds or more. "Time ×" is wall-clock '
        'time relative to budgetline. "Memory" is the peak memory use of the whole process, including the data and '
        f'the prepared copy. "End" is the share of the variance {DEVIANCE if logistic else ""}'
        "of the training targets that the last model explains. It shows that a peer has solved its problem. For group "
        'lassos, "error" is the largest violation of the optimality conditions along the path, relative to λ·weight.',
        f"Group lasso paths for squared error have {N_LAMBDAS - 1} values of λ, down to a thousandth of the largest. "
        'They use warm starts and each package\'s default tolerance. "On the triangle of X" means that the package is '
        "used as an expert would use it: R with X'X = R'R is computed first (this time is counted), and the package "
        f"then works on R, which has few rows. {RAW_TABLE if raw else 'No package does this on its own.'}",
        f"If a package accepts a ridge constant, it is set to {ALPHA:g}"
        f"{f' for squared error and to {LOGISTIC_ALPHA:g} for logistic models' if logistic else ''}."
        f"{' In the logistic data, every group costs 1.' if logistic else ''}",
    ]
    if any(peer.package == "adelie" for peer in peers.values()):
        paragraphs.append(ABOUT_ADELIE + (ADELIE_LOGISTIC if logistic else ""))
    return "\n\n".join(textwrap.fill(text, 100, break_on_hyphens=False) for text in paragraphs) + "\n"


DEVIANCE = "(for logistic models, of the deviance) "
RAW_START = ', and so do the rows with "X\'X of the raw table"'
GIVEN = ', except in rows labelled "X\'X given", where they belong to the preparation'
RAW_TABLE = (
    "\"X'X of the raw table\" also takes an expert: X'X is computed from the raw columns, then centred and scaled. "
    "This loses digits if the means are large. No package does either of these on its own."
)
ABOUT_ADELIE = (
    "adelie needs NumPy below 2, so it has an environment of its own. It runs without a ridge penalty (`alpha` is 1), "
    f"with `tol` and `irls_tol` at {ADELIE_TOL:g} (its defaults), and with `early_exit` off. For squared error it uses "
    "the same λ and weights as the other group lassos."
)
ADELIE_LOGISTIC = (
    f" For logistic models it uses its own settings: {N_LAMBDAS} values of λ, the last of them {MIN_RATIO:g} times the "
    f"largest; weights √size; and an intercept. By default it would stop once {100 * EARLY_EXIT:g} % of the deviance "
    "is explained. If a path gets that far, a line below the table says when."
)


COLUMNS = (
    "peer", "path of", "what it computes", "time ×", "wall, s", "CPU, s", "preparation, s", "memory, MB",
    "models / groups / columns at the end", "error", "end",
)  # fmt: skip


def cells(peer: Peer, found: Measured, ours: float) -> list[str]:
    """Return the row of one peer."""
    memory = f"{found['peak_mb']:,.0f}" if "peak_mb" in found else ""
    if "failed" in found:
        reached = (
            f"stopped at {found['models']} of {found['of']} models, {found['groups']} groups" if "of" in found else ""
        )
        times = f"> {float(found['failed'][2:-2]) / ours:,.0f}" if found["failed"].startswith("> ") else ""
        return [peer.title, peer.path, peer.computes, times, found["failed"], "", "", memory, reached, "", ""]
    size = f"{found['models']} / {found['groups']} / {found['columns']}"
    return [
        peer.title, peer.path, peer.computes, f"{found['wall'] / ours:.3g}", f"{found['wall']:.3g}",
        f"{found['cpu']:.3g}", f"{found['preparation']:.2g}", memory, size,
        f"{found['violation']:.1g}" if "violation" in found else "", f"{found['explained']:.4f}",
    ]  # fmt: skip


def table(section: Section) -> list[str]:
    """Return the table of one shape and whether the goal is met."""
    problem, results = section.problem, section.results
    rows, D, J = problem.y.size, problem.X.shape[1], problem.sizes.size
    first, again = results[REFERENCES[section.loss]], results["ours, again"]
    part = f", the first {problem.most} groups or {problem.most_columns} columns of every path" if problem.most else ""
    if "failed" in first or "failed" in again:
        return [f"## {section.title}", "", f"budgetline did not finish: {first} {again}", ""]
    ours = float(np.mean([first["wall"], again["wall"]]))
    lines = [
        f"## {section.title}: {rows:,} × {D:,}, {J:,} groups, {rows * D * 8 / 1e6:,.0f} MB{part}",
        "",
        f"budgetline was run before and after the other packages, and took {first['wall']:.3g} s and "
        f"{again['wall']:.3g} s. Times are relative to the mean of these two.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    lines += [f"| {' | '.join(cells(PEERS[name], found, ours))} |" for name, found in results.items() if name in PEERS]
    # Of wide data paths differ in what a first part is.
    return [*lines, "", *early_exits(section), *([] if problem.most else verdicts(section, ours))]


def early_exits(section: Section) -> list[str]:
    """Say where the early exit of a peer, which is off, would have stopped it."""
    found = [(PEERS[n].title, f) for n, f in section.results.items() if n in PEERS and "wall" in f]
    lines = [
        f"The early exit would have stopped {title}, after {f['exit_models']} values of λ and "
        f"{f['exit_seconds']:.3g} s."
        for title, f in found
        if "exit_models" in f
    ]
    return [line for text in lines for line in (text, "")]


def verdicts(section: Section, ours: float) -> list[str]:
    """Say whether budgetline is faster than every peer that computes a path of groups, from the same start."""
    lines = verdict("a path of groups", rivals(section, "groups"), ours, 0.0)
    given = section.results.get("ours, given", {})
    if "wall" in given:
        found = rivals(section, "groups, X'X given")
        lines += verdict("a path of groups from a given X'X", found, given["wall"], given["preparation"])
    return lines


def rivals(section: Section, path: str) -> dict[str, Measured]:
    return {n: f for n, f in section.results.items() if n in PEERS and PEERS[n].path == path}


def verdict(what: str, rivals: dict[str, Measured], ours: float, preparation: float) -> list[str]:
    """Say which peers are faster than budgetline, even if preparation counts on both sides; nothing without peers."""
    if not rivals:
        return []
    faster = [n for n, f in rivals.items() if "wall" in f and f["wall"] < ours]
    still = [n for n in faster if rivals[n]["wall"] + rivals[n]["preparation"] < ours + preparation]
    missing = [n for n, f in rivals.items() if "failed" in f and not f["failed"].startswith("> ")]
    done = [f["wall"] / ours for f in rivals.values() if "wall" in f]
    met = "missed" if faster else "met" if len(missing) < len(rivals) else "not checked"
    text = f"The goal, to be faster than every peer that computes {what}, is **{met}**."
    if faster:
        text += f" These peers are faster: {'; '.join(faster)}. With preparation counted, "
        text += f"these are still faster: {'; '.join(still)}." if still else "none of them is faster."
    text += f" The fastest peer takes {min(done):.3g} times as long as budgetline." if done else ""
    return [text + (f" These peers could not be measured: {'; '.join(missing)}." if missing else ""), ""]


def versions(interpreters: dict[str, Path]) -> str:
    """Name the versions of all peers, asking the Python that has them."""
    found = []
    for package in sorted({peer.package for peer in PEERS.values()} - {"budgetline", "sklearn"}):
        name = DISTRIBUTIONS.get(package, package)
        found.append(
            f"{name} {version(name, interpreters[package])}" if package in interpreters else f"{name} not installed"
        )
    return "Versions of the peers: " + ", ".join(found) + "."


def version(name: str, python: Path) -> str:
    """Return the version of a package, with NumPy's if the package has an environment of its own."""
    ask = f"from importlib.metadata import version; print(version({name!r}), version('numpy'))"
    done = subprocess.run([str(python), "-c", ask], check=True, stdout=subprocess.PIPE, text=True)
    found, numpy = done.stdout.split()
    return found if numpy == np.__version__ else f"{found} with NumPy {numpy}"


def page(sections: list[Section], load: float, interpreters: dict[str, Path]) -> str:
    lines = [head(sections)]
    for section in sections:
        lines += table(section)
    limits = {section.loss: section.limit for section in sections}
    each = " and ".join(f"{limit:g} s ({LOSSES[loss]})" for loss, limit in limits.items())
    lines += [f"One run may take at most {each}. Before the start, the load average of the machine was {load:.2f}.", ""]
    return "\n".join([*lines, conditions(), versions(interpreters), ""])
