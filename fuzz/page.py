"""The page of results of a campaign."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fuzz import KERNELS, KINDS, ROOT
from fuzz.campaign import Tally

sys.path.append(str(ROOT / "benchmarks"))
from core import conditions

WHAT = {
    "problems": "squared error against brute force, all rules, schedules and sources",
    "glms": "logistic, softmax, Poisson and a custom loss against plain Newton",
    "certificates": "bounds, best sets and better sequences against all sets and orders",
    "files": "changed and forged models, moments and certificates",
    "commands": "valid and invalid command lines",
    "scenes": "the runtime against a simulation, also with extractors that fail",
    "interruptions": "saves, passes and commands that are killed, are interrupted or run out of disk space",
    "raw_columns": "raw tables through every interface, with other column types at prediction",
    "loaded_models": "models in memory against the same models loaded from files, by random calls",
    "row_sets": "rankings and survival times: stages against minima of risks that are summed set by set",
}


def page(tally: Tally, seed: int, minutes: float, kinds: Sequence[str], kernels: Sequence[str]) -> str:
    """Return the page: a table of cases by kind and kernel, and what was found."""
    ran = [kernel for kernel in kernels if kernel not in tally.skipped]
    total, failed = sum(tally.cases.values()), sum(tally.failures.values())
    heads = ["kind", "what is compared", *(_heading(tally, kernel) for kernel in ran), "all", "failures"]
    lines = [
        "# Random trials",
        "",
        f"`{_command(seed, minutes, kinds, kernels)}` generates random cases and compares the library with slow "
        "reference",
        "implementations that share no code with it. Each worker uses one OpenBLAS kernel, because different kernels",
        f"round differently. **{total:,} cases were checked and {failed:,} failed.** Cases that fail are kept in",
        "`tests/regressions` and become part of the test suite.",
        "",
        f"| {' | '.join(heads)} | seconds per case |",
        f"|---|---|{'---:|' * (len(ran) + 3)}",
        *(_row(tally, kind, ran) for kind in kinds),
        "",
        *_found(tally),
        *([f"This processor cannot run {', '.join(tally.skipped)}.", ""] if tally.skipped else []),
        conditions(),
        "",
    ]
    return "\n".join(lines)


def _command(seed: int, minutes: float, kinds: Sequence[str], kernels: Sequence[str]) -> str:
    """Return the command that was run, with kinds and kernels if they were restricted."""
    command = f"python -m fuzz --seed {seed} --minutes {minutes:g}"
    chosen = {"kinds": (kinds, KINDS), "kernels": (kernels, KERNELS)}
    return command + "".join(f" --{name} {','.join(some)}" for name, (some, known) in chosen.items() if some != known)


def _heading(tally: Tally, kernel: str) -> str:
    """Return the name of a kernel, followed by OpenBLAS's own name if that differs."""
    took = tally.took.get(kernel, kernel)
    return kernel if took == kernel else f"{kernel} ({took})"


def _row(tally: Tally, kind: str, kernels: Sequence[str]) -> str:
    counts = [tally.cases[kind, kernel] for kernel in kernels]
    failures = sum(tally.failures[kind, kernel] for kernel in kernels)
    each = tally.seconds[kind] / max(1, sum(counts))
    numbers = " | ".join(f"{count:,}" for count in [*counts, sum(counts), failures])
    return f"| {kind} | {WHAT[kind]} | {numbers} | {each:.2f} |"


def _found(tally: Tally) -> list[str]:
    if not tally.findings:
        return []
    lines = ["| kind | failure | how often | kept as |", "|---|---|---:|---|"]
    for found in tally.findings.values():
        short = " ".join(found.text.split())[:160].replace("|", "\\|").replace("`", "'")
        lines.append(f"| {found.kind} | `{short}` | {found.count} | {', '.join(found.files)} |")
    return [*lines, ""]
