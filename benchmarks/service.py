"""The example service under load, on the loopback: ``python benchmarks/service.py --write docs/results/service.md``.

The service runs in its own process, on a free port. The clients are tasks of this process that send their next request
as soon as they have received a response. Every response is compared with the model's prediction from the groups that
the response names.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from core import print_report

from budgetline import AnytimeClassifier
from budgetline.datasets import load_heart
from budgetline.datasets.loaders import read_archive

SERVICE = Path(__file__).resolve().parents[1] / "examples" / "service.py"
SLACK_MS = 5.0
START_SECONDS = 120.0


@dataclass(frozen=True)
class Effort:
    """Numbers of clients, deadlines in milliseconds, and requests for each pair of them."""

    clients: tuple[int, ...] = (1, 4, 16)
    deadlines: tuple[float, ...] = (10.0, 25.0, 50.0, 100.0)
    requests: int = 320
    warm_up: int = 50


QUICK = Effort(clients=(2,), deadlines=(25.0, 1000.0), requests=10, warm_up=2)


# -- the service ---------------------------------------------------------------------------------------------------


@contextmanager
def served(**settings: str) -> Iterator[tuple[int, int]]:
    """Run the service, and yield its port and its process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | settings | {"PORT": str(port), "OPENBLAS_NUM_THREADS": "1"}
    with TemporaryFile("w+") as errors:
        process = subprocess.Popen([sys.executable, str(SERVICE)], env=environment, stderr=errors)
        try:
            if not comes_up(process, port):
                errors.seek(0)
                raise RuntimeError(f"the service did not come up:\n{errors.read()}")
            yield port, process.pid
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def comes_up(process: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        except ConnectionRefusedError:
            time.sleep(0.05)
    return False


def cpu_seconds(pid: int) -> float:
    """Processor time of a process itself, without its children."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# -- the clients ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One request: which patient, after how many milliseconds it had a response, and the response."""

    row: int
    latency_ms: float
    answer: dict[str, Any]


async def ask(port: int, records: list[dict[str, Any]], deadline_ms: float, rows: list[int]) -> list[Asked]:
    """Be one client: ask for these patients one after the other, over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = []
    for row in rows:
        body = json.dumps({"patient": records[row], "deadline_ms": deadline_ms}).encode()
        head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        start = time.perf_counter()
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        header = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(header.split("content-length:")[1].split("\r\n")[0])
        answer = await reader.readexactly(length)
        latency = time.perf_counter() - start
        if " 200 " not in header.split("\r\n")[0]:
            raise RuntimeError(f"{header}{answer.decode()}")
        found.append(Asked(row, 1e3 * latency, json.loads(answer)))
    writer.close()
    await writer.wait_closed()
    return found


async def load(
    port: int, records: list[dict[str, Any]], deadline_ms: float, clients: int, requests: int
) -> tuple[list[Asked], float]:
    """Return all responses, and their number per second."""
    rows = np.random.default_rng(0).integers(len(records), size=requests).tolist()
    start = time.perf_counter()
    found = await asyncio.gather(*(ask(port, records, deadline_ms, rows[k::clients]) for k in range(clients)))
    return [one for part in found for one in part], requests / (time.perf_counter() - start)


def raw_records() -> list[dict[str, Any]]:
    """Return the patients of Cleveland as they come from UCI; None where a value is missing."""
    archive = read_archive("heart")
    names = [name for name in archive["columns"].tolist() if name != "num"]
    values = archive["values"][archive["site"] == "cleveland"]
    columns = archive["columns"].tolist()
    return [{name: None if np.isnan(v := row[columns.index(name)]) else float(v) for name in names} for row in values]


# -- the report ----------------------------------------------------------------------------------------------------


class Reference:
    """Tells the right responses, from the encoded data that ship with the library."""

    def __init__(self) -> None:
        heart = load_heart()
        self._X = heart.data
        self._model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)

    def wrong(self, asked: list[Asked]) -> int:
        """Count responses that are not the prediction from the groups that they name."""
        by_groups: dict[tuple[str, ...], list[Asked]] = {}
        for one in asked:
            by_groups.setdefault(tuple(one.answer["groups"]), []).append(one)
        count = 0
        for groups, some in by_groups.items():
            expected = self._model.predict_proba(self._X[[one.row for one in some]], available=groups)[:, 1]
            found = np.array([one.answer["probability"] for one in some])
            values = np.array([one.answer["value"] for one in some])
            count += int((~np.isclose(found, expected, rtol=1e-8, atol=1e-10) | (values != (found > 0.5))).sum())
        return count


def line(clients: int, deadline: float, asked: list[Asked], rate: float, busy: float, wrong: int) -> str:
    latency = np.array([one.latency_ms for one in asked])
    elapsed = np.array([one.answer["elapsed_ms"] for one in asked])
    stage = np.mean([one.answer["stage"] for one in asked])
    groups = np.mean([len(one.answer["groups"]) for one in asked])
    late = [f"{(t > deadline + SLACK_MS).mean():.1%}" for t in (elapsed, latency)]
    times = [f"{np.quantile(t, q):.1f}" for t in (elapsed, latency) for q in (0.5, 0.99)]
    cells = [*times, *late, f"{rate:.0f}", f"{busy:.0%}", f"{stage:.1f}", f"{groups:.1f}", str(wrong)]
    return f"| {clients} client{'s' * (clients > 1)}, {deadline:g} ms | {' | '.join(cells)} |"


HEAD = f"""\
# The example service under load

Made by `python benchmarks/service.py --write docs/results/service.md`.

`examples/service.py` (FastAPI, one process, one `AnytimeRunner`) runs on the loopback interface. Each client sends its
next request as soon as it has received a response. Of the nine extractors, three read recorded values, one blocks a
thread for 1 ms, one computes for 4 ms in one of two worker processes, and four call services whose delays are
exponentially distributed with a mean of 8 or 15 ms. Up to three extractors run at the same time.

All times are in milliseconds. "Server" is the time that a call to the runner takes, and "client" is the time that the
client waits, including HTTP and JSON. A response is "late" if it arrives more than {SLACK_MS:g} ms after the deadline.
"Server CPU" is the share of one core that the service used, not counting its two worker processes. The clients, the
server and these processes share the machine's cores. Replacing a process that was killed at a deadline takes about 0.1
s. A response is wrong if it differs from what `predict_proba(available=groups)` of the same model returns for the same
patient in the encoded data that ship with the library.
"""


def report(effort: Effort) -> list[str]:
    records, reference = raw_records(), Reference()
    before = os.getloadavg()[0]
    heads = (
        "server p50", "server p99", "client p50", "client p99", "late at the server", "late at the client",
        "requests/s", "server CPU", "stage", "groups", "wrong",
    )  # fmt: skip
    lines = [HEAD, f"| load | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    total = all_wrong = 0
    with served(SEED="0") as (port, pid):
        asyncio.run(load(port, records, 100.0, 2, effort.warm_up))
        for clients in effort.clients:
            for deadline in effort.deadlines:
                used = cpu_seconds(pid)
                asked, rate = asyncio.run(load(port, records, deadline, clients, effort.requests))
                busy = (cpu_seconds(pid) - used) * rate / len(asked)
                wrong = reference.wrong(asked)
                lines.append(line(clients, deadline, asked, rate, busy, wrong))
                total, all_wrong = total + len(asked), all_wrong + wrong
    after = os.getloadavg()[0]
    fastapi, uvicorn, pydantic = (f"{name} {version(name)}" for name in ("fastapi", "uvicorn", "pydantic"))
    return [
        *lines,
        "",
        f"Of {total} responses, {all_wrong} were wrong. The load average of the machine was {before:.1f} before and "
        f"{after:.1f} after the run. The service ran with {fastapi}, {uvicorn} and {pydantic}.",
    ]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
