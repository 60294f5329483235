"""How long a change takes to show, over HTTP: NHANES, 5 folds, squared error, one random change after another.

    python benchmarks/explore.py [--edits 200] [--quick 100]

A change is sent to a server in a process of its own. Two times are measured: until the first order, with the settings
that were chosen before, and until the final one, with settings chosen again and its curve on held-out folds. Then many
changes are sent at once, without waiting for results: the last state must be that of the last change, and its order
that of the library.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from budgetline.datasets import load_nhanes


class Client:
    """A page without a browser."""

    def __init__(self, data: Path, *options: str) -> None:
        command = [sys.executable, "-m", "budgetline", "explore", str(data), "--no-open", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        address, self.token = self.process.stdout.readline().strip().split("/#token=")
        self.connection = HTTPConnection(address.removeprefix("http://"))
        self.serial = 0
        self.parts: dict[str, dict] = {}

    def ask(self, path: str, body: object = None) -> dict:
        """Return the answer to a request."""
        headers = {"X-Budgetline-Token": self.token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        self.connection.request("GET" if data is None else "POST", path, data, headers)
        return json.load(self.connection.getresponse())

    def edit(self, **edit: object) -> dict:
        """Make a change; return the new snapshot."""
        return self.ask("/api/edit", {"edits": [edit]})

    def order(self, revision: int, *, final: bool = True) -> dict:
        """Wait for the first or the final order of a revision."""
        while True:
            found = self.parts.get("order", {})
            if found.get("revision", -1) >= revision and not (final and found["preliminary"]):
                return found
            news = self.ask(f"/api/results?after={self.serial}&wait=25")
            self.serial = news["serial"]
            self.parts |= news["parts"]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


def random_edit(snapshot: dict, rng: np.random.Generator) -> dict:
    """Return a change of prices or groups that a user might make."""
    groups = snapshot["state"]["groups"]
    names = [group["name"] for group in groups]
    wide = [group["name"] for group in groups if len(group["columns"]) > 1]
    kind = rng.choice(["cost", "cost", "cost", "merge", "split", "shared", "move"])
    some = [names[k] for k in rng.choice(len(names), 2, replace=False)]
    if kind == "merge" and len(names) > 15:
        return {"kind": "merge_groups", "groups": some}
    if kind == "split" and wide and len(names) < 40:
        column = rng.choice(next(group for group in groups if group["name"] == wide[0])["columns"])
        return {"kind": "new_group", "columns": [str(column)], "name": f"{column} alone", "cost": 3}
    if kind == "shared":
        return {"kind": "choose", "shared": [{"name": "visit", "cost": float(rng.integers(1, 20)), "groups": some}]}
    if kind == "move" and wide:
        column = rng.choice(next(group for group in groups if group["name"] == wide[-1])["columns"])
        return {"kind": "move_columns", "columns": [str(column)], "group": some[0]}
    return {"kind": "set_costs", "costs": {some[0]: float(np.round(rng.gamma(2, 8) + 0.1, 2))}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--quick", type=int, default=100)
    given = parser.parse_args()
    nhanes, rng = load_nhanes(as_frame=True), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        data, groups = Path(folder) / "nhanes.csv", Path(folder) / "groups.yaml"
        nhanes.frame.to_csv(data, index=False)
        groups.write_text(nhanes.feature_groups.to_yaml(), encoding="utf-8")
        with Client(data, "-t", "LBXGH", "-g", str(groups), "--quiet") as client:
            measure(client, given.edits, rng)
            snapshot = client.ask("/api/state")
            name = snapshot["state"]["groups"][0]["name"]
            for _ in range(given.quick):
                snapshot = client.edit(kind="set_costs", costs={name: float(rng.gamma(9))})
            last = client.order(snapshot["revision"])
            print(f"{given.quick} changes at once: revision {last['revision']} of {snapshot['revision']} is shown")


def measure(client: Client, edits: int, rng: np.random.Generator) -> None:
    """Make changes, one after another, and print how long they take."""
    snapshot = client.ask("/api/state")
    client.order(snapshot["revision"])
    first, final = [], []
    for _ in range(edits):
        edit, before = random_edit(snapshot, rng), snapshot["revision"]
        began = time.perf_counter()
        snapshot = client.edit(**edit)
        if snapshot["revision"] > before:
            client.order(snapshot["revision"], final=False)
            first.append(time.perf_counter() - began)
            client.order(snapshot["revision"])
            final.append(time.perf_counter() - began)
    show("from the change to the first order", first)
    show("from the change to the final order", final)


def show(what: str, seconds: list[float]) -> None:
    """Print quantiles in milliseconds."""
    middle, most, worst = 1000 * np.quantile(seconds, [0.5, 0.95, 1])
    print(
        f"{what}: median {middle:.0f} ms, p95 {most:.0f} ms, largest {worst:.0f} ms ({len(seconds)} changes)",
        flush=True,
    )


if __name__ == "__main__":
    main()
