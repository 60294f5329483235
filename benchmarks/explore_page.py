"""From an input on the page of ``budgetline explore`` to the first and to the final order on the screen, NHANES.

``python benchmarks/explore_page.py --write docs/results/explore_page.md`` opens the page in Chromium and makes random
edits by events in its fields, one after another. Times are measured by the browser's clock, from the event to the
second frame after the new order is in the page, when it has been painted. The first order uses the settings that were
chosen before the edit. For the final order, the settings are chosen again on five folds, and it has a held-out curve.
The table also shows the processor time that all threads of server and browser use until the final order, which hardly
depends on other programs on the machine.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from core import print_report

from budgetline import FeatureGroups
from budgetline.datasets import load_nhanes

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from browser import chromium
from explore_browser import Explorer, served

BAR = 300.0
"""Milliseconds until the first order that 95 of 100 edits may take."""
TIMED = """async ({ kind, chosen, cost }) => {
    const result = document.querySelector("#order-result"), before = Number(document.body.dataset.revision);
    const rows = document.querySelectorAll("#group-rows tr"), press = id => document.getElementById(id).click();
    const act = {
        price() { rows[chosen[0]].cost.value = String(cost); rows[chosen[0]].cost.dispatchEvent(new Event("change")); },
        merge() { for (const k of chosen) rows[k].choose.click(); press("merge"); },
        undo() { press("undo"); },
    };
    const { dataset } = document.body, start = performance.now();
    const edited = () => Number(dataset.revision) > before && dataset.pending === "0";
    const first = () => edited() && result.dataset.revision === dataset.revision;
    const painted = async ready => {
        await new Promise(done => {
            const watch = new MutationObserver(() => { if (ready()) { watch.disconnect(); done(); } });
            for (const node of [document.body, result]) watch.observe(node, { attributes: true });
        });
        await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
        return performance.now() - start;
    };
    const both = [painted(first), painted(() => first() && result.dataset.fresh === "true")];
    act[kind]();
    return Promise.all(both);
}"""


@dataclass(frozen=True)
class Effort:
    """The number of edits, and the number of edits before them that are not counted."""

    edits: int = 200
    warm_up: int = 10


QUICK = Effort(edits=20, warm_up=3)


def write_nhanes(folder: Path) -> tuple[str, ...]:
    """Write NHANES as a CSV file and its groups as YAML; return the arguments that open them."""
    nhanes = load_nhanes()
    table = pd.DataFrame(nhanes.data, columns=nhanes.feature_names).assign(target=nhanes.target)
    table.to_csv(folder / "nhanes.csv", index=False)
    given = nhanes.feature_groups
    columns = {
        name: [nhanes.feature_names[k] for k in found] for name, found in zip(given.names, given.columns, strict=True)
    }
    groups = FeatureGroups(columns, given.costs)
    (folder / "nhanes.yaml").write_text(groups.to_yaml())
    return ("nhanes.csv", "--reset", "-t", "target", "-g", "nhanes.yaml")


def drawn(kind: str, groups: int, rng: np.random.Generator) -> dict[str, object]:
    """Return a random edit of a kind."""
    chosen = rng.choice(groups, 2, replace=False).tolist()
    return {"kind": kind, "chosen": chosen, "cost": round(float(rng.uniform(1, 200)), 2)}


def processor_ms() -> float:
    """Return the processor time of all processes below this one, in milliseconds (Linux)."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    below, spent = {os.getpid()}, 0
    for _ in range(6):  # as deep as the processes of a browser
        below |= {pid for pid, parent in parents.items() if parent in below}
    for pid in below - {os.getpid()}:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                spent += int(thread.read_text().split()[0])
    return spent / 1e6


def measure(effort: Effort) -> tuple[dict[str, list[tuple[float, float, float]]], int, int]:
    """Return milliseconds to both orders and of the processor, by kind of edit, and the numbers of groups and rows."""
    rng, found = np.random.default_rng(0), defaultdict(list)
    with TemporaryDirectory() as name:
        arguments = write_nhanes(Path(name))
        with served(name, *arguments) as address, chromium() as browser:
            explorer = Explorer(browser, address)
            explorer.settled()
            groups = explorer.page.locator("#group-rows tr").count()
            undo = False
            for k in range(effort.warm_up + effort.edits):
                # every merge is taken back next, so that the table keeps its groups
                kind = "undo" if undo else str(rng.choice(["price", "merge"], p=[0.8, 0.2]))
                undo = kind == "merge"
                before = processor_ms()
                first, final = explorer.page.evaluate(TIMED, drawn(kind, groups, rng))
                if k >= effort.warm_up:
                    found[kind].append((first, final, processor_ms() - before))
            rows = explorer.page.evaluate("document.querySelector('#table-lead').textContent")
            explorer.context.close()
    return dict(found), groups, int("".join(c for c in rows.split("(")[1] if c.isdigit()))


def report(effort: Effort) -> list[str]:
    """Return the page of results."""
    found, groups, rows = measure(effort)
    every = [value for values in found.values() for value in values]
    first, final, _ = np.percentile(every, 95, axis=0)
    lines = [
        "# From an input to the new order on the screen",
        "",
        f"For 95 of 100 edits, the page shows a first order within {first / 1000:.1f} s and the final order within "
        f"{final / 1000:.1f} s. The target of {BAR:g} ms for the first order is "
        f"{'met' if first <= BAR else 'not met'}.",
        "",
        f"The data are NHANES ({rows:,} rows, {groups} groups), with squared error and five folds. The table shows "
        f"times in milliseconds, measured in Chromium, for {len(every)} random edits that were made one after another. "
        "The first order uses the settings that were chosen before the edit. For the final order, the settings are "
        "chosen again by cross-validation, as in `budgetline fit`, and it has a held-out curve.",
        "",
        "| edit | number | first: median | 95 of 100 | longest | final: median | 95 of 100 | processor: median |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, values in [*sorted(found.items()), ("all", every)]:
        (soon, late, of_processor), (soon_high, late_high, _) = np.percentile(values, [50, 95], axis=0)
        longest = max(each[0] for each in values)
        figures = " | ".join(f"{x:.0f}" for x in (soon, soon_high, longest, late, late_high, of_processor))
        lines.append(f"| {kind} | {len(values)} | {figures} |")
    lines += [
        "",
        f"The load average of the machine was {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; the benchmark "
        "alone accounts for about 1.",
    ]
    return [*lines, ""]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
