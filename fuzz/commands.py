"""Random command lines: exit codes as documented, errors of one line, inputs unchanged, nothing half-written."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import budgetline
from budgetline import AnytimeClassifier, AnytimeRegressor, Moments
from budgetline.cli import main
from fuzz.trials import Case

DATA = ("good.csv", "good.parquet", "days", "days/*.csv", "zwei Größen.csv", "link.csv", "labels.csv",
        "semicolons.txt", "packed.csv.gz", "rows.tsv")  # fmt: skip
BAD_DATA = (
    "empty.csv",
    "repeated.csv",
    "latin.csv",
    "quote.csv",
    "header.csv",
    "gaps.csv",
    "ragged.csv",
    "text.csv",
    "nothing.csv",
    "binary.parquet",
    "good.svm",
    "folder",
)
MODELS = ("model", "classes", "short", "link")
BAD_MODELS = ("damaged", "cut", "moments", "good.csv", "nothing", "folder")
GROUPS = ("groups.yaml", "shared.yaml", "positions.yaml")
BAD_GROUPS = ("bad.yaml", "wrong.yaml", "list.yaml", "good.csv", "nothing.yaml")
COLUMNS = ("y", "label", "w", "a_1", "a_2", "b", "c", "zz", "", "y ", "Größe")
NUMBERS = ("0", "1", "2", "0.5", "3.7", "1e-3", "-1", "nan", "inf", "1e400", "x", "", "1_000", "٣", "1e-400")
WHOLE = ("0", "1", "2", "3", "5", "-2", "1.5", "x", "", "99999999999999999999")
OUT = {
    "fit": ("out", "out.budgetline", "good.csv", "model", "folder", "no/where", "link", "", "days/0.csv"),
    "predict": ("out.csv", "other.csv", "good.csv", "out.txt", "folder", "no/where.csv", "model", "link.csv"),
    "groups": ("out.yaml", "groups.yaml", "good.csv", "folder", "no/where.yaml", "out"),
    "report": ("out.html", "out.md", "out.json", "out.txt", "model", "good.csv", "no/where.html", "folder"),
    "export": ("out.onnx", "model", "no/where.onnx", "folder", "out"),
}


class Option(NamedTuple):
    """An option with valid and invalid values; an option without values is a flag."""

    names: tuple[str, ...]
    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


TARGET = Option(("-t", "--target"), ("y", "y", "y", "label"), COLUMNS)
WEIGHT = Option(("--sample-weight",), ("w",), COLUMNS)
FORMAT = Option(("--format",), ("csv", "parquet"), ("json", "svmlight", ""))
GROUP_FILE = Option(("-g", "--groups"), GROUPS, BAD_GROUPS)
METRICS = ("explained", "f1", "mse", "r2", "accuracy", "log_loss", "roc_auc", "ndcg@5", "max_error")
METRIC = Option(("-m", "--metric"), METRICS, ("ndcg@", "ndcg@0", "zz", ""))
FOLDS = Option(("--cv",), ("2", "3"), WHOLE)
TASK = Option(("--task",), ("auto", "regression", "classification"), ("both",))
ALPHA = Option(("--alpha",), ("0", "1e-3", "0.1"), NUMBERS)
COMMON = (Option(("--json",)), Option(("-q", "--quiet")))
TEXT = (
    FORMAT, Option(("--delimiter",), (",", ";", "tab", "_"), ("", "ab", '"', "\n")),
    Option(("--na",), ("?", "0", "NA"), ("", "\x1b[31m")),
)  # fmt: skip
POSITIVE = Option(("--pos-label",), ("up", "down"), ("zz", ""))
COMMANDS: dict[str, tuple[Option, ...]] = {
    "fit": (
        TARGET, TARGET, GROUP_FILE, TASK, ALPHA, Option(("--cv",), ("2", "3"), WHOLE),
        Option(("--rule",), ("forward", "omp", "score", "static", "no-whiten", "single"), ("best",)),
        Option(("--schedule",), ("greedy", "doubling", "cheapest", "random"), ("lazy",)),
        Option(("--max-cost",), ("1", "3", "1e9"), NUMBERS), Option(("--max-groups",), ("1", "2"), WHOLE), WEIGHT,
        Option(("--loss",), ("squared", "poisson"), ("absolute",)), Option(("--stream",)), Option(("--in-memory",)),
        *TEXT,
    ),
    "show": (),
    "curve": (TARGET, METRIC, POSITIVE, WEIGHT, *TEXT),
    "predict": (
        Option(("-b", "--budget"), ("0", "1", "3.5", "1e9"), NUMBERS), Option(("--stage",), ("0", "1", "2"), WHOLE),
        Option(("--available",), ("a", "b,c", "a,b,c"), ("zz", "", "a,,b", "a,a")), Option(("--proba",)), *TEXT,
    ),
    "next": (
        Option(("--available",), ("a", "b,c", "a,b,c"), ("zz", "", "a,,b", "a,a")),
        Option(("-b", "--budget"), ("0", "1", "3.5", "1e9"), NUMBERS),
        *TEXT,
    ),
    "report": (
        TARGET, Option(("--unit",), ("dollars",), ("", "<b>", "\x1b[31m")),
        Option(("--title",), ("A",), ("", "</title>")),
        METRIC, POSITIVE, FOLDS, Option(("--no-baselines",)),
        Option(("--certify",), ("0", "0.05"), ("-1", "x", "nan")), WEIGHT,
        *TEXT,
    ),
    "certify": (
        Option(("--time-limit",), ("0", "0.05"), ("-1", "nan", "x", "")), Option(("--budget",), ("1", "2.5"), NUMBERS),
    ),
    "groups": (
        TARGET, Option(("--by",), ("prefix", "column"), ("zz",)),
        Option(("--sep",), ("_", "-"), ("", "ab")), *TEXT,
    ),
    "export": (),
    "inspect": (TARGET, *TEXT),
}  # fmt: skip
POSITIONS = {
    "fit": ("data",), "show": ("model",), "curve": ("model", "data"),
    "predict": ("model", "data"), "next": ("model", "data"), "report": ("model", "data"), "certify": ("model",),
    "groups": ("data",),
    "export": ("model",), "inspect": ("data",),
}  # fmt: skip
VALUES = {"data": (DATA, BAD_DATA), "model": (MODELS, BAD_MODELS)}


def draw(seed: int) -> Case:
    """Return a random command line, sometimes with an error in it."""
    rng = Random(seed)
    wrong = rng.choice([0.0, 0.0, 0.1, 0.4])

    def some(good: tuple[str, ...], bad: tuple[str, ...]) -> str:
        return rng.choice(bad if bad and rng.random() < wrong else good)

    command = rng.choice(list(COMMANDS))
    parts = [[some(*VALUES[position])] for position in POSITIONS[command]]
    likely = 0.9 if command == "fit" else 0.3
    for k, option in enumerate((*COMMANDS[command], *COMMON)):
        if rng.random() < (likely if k == 0 else 0.15):
            parts.append([rng.choice(option.names), *([some(option.good, option.bad)] if option.good else [])])
    if command in OUT and rng.random() < (0.95 if command in ("fit", "export") else 0.5):
        parts.append(["-o", some(OUT[command][:2], OUT[command])])
    if rng.random() < wrong / 2:
        parts.append([rng.choice(["--zz", "-", "--", "extra", "--help", "-o", "--target", "", "\udcff", "a\nb"])])
    if rng.random() < wrong / 2:
        parts.pop(rng.randrange(len(parts)))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return {"seed": seed, "arguments": [command, *(word for part in parts for word in part)]}


def smaller(case: Case) -> Iterator[Case]:
    """Yield shorter command lines."""
    words = case["arguments"]
    for size in (2, 1):
        for k in range(1, len(words)):
            yield {**case, "arguments": words[:k] + words[k + size :]}


# -- the folder that commands run in ---------------------------------------------------------------------------


@cache
def template() -> Path:
    """Return a folder with good and bad files of every kind."""
    folder = Path(_kept().name)
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(60, 4)), columns=["a_1", "a_2", "b", "c"])
    y = X["a_1"] - 0.5 * X["b"] + 0.3 * rng.normal(size=60)
    frame = X.assign(y=y, w=rng.uniform(1, 2, size=60))
    _write_data(folder, frame, y)
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    groups = {"a": ["a_1", "a_2"], "b": ["b"], "c": ["c"]}
    budgetline.save(AnytimeRegressor(groups, [1, 2, 3.0]).fit(X, y), folder / "model")
    budgetline.save(AnytimeRegressor(groups, max_groups=1).fit(X, y), folder / "short")
    budgetline.save(AnytimeClassifier(groups, alpha=1e-2).fit(X, np.where(y > 0, "up", "down")), folder / "classes")
    Moments.from_data(X, y).save(folder / "moments")
    data = (folder / "model").read_bytes()
    (folder / "damaged").write_bytes(data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
    (folder / "cut").write_bytes(data[: len(data) // 2])
    (folder / "link").symlink_to("model")
    (folder / "link.csv").symlink_to("good.csv")
    return folder


@cache
def _kept() -> TemporaryDirectory[str]:
    """Return the folder of this process; it is deleted when the process ends."""
    return TemporaryDirectory(prefix="fuzz-")


def _write_data(folder: Path, frame: pd.DataFrame, y: pd.Series) -> None:
    for sub in ("days", "folder"):
        (folder / sub).mkdir()
    frame.to_csv(folder / "good.csv", index=False)
    frame.to_csv(folder / "semicolons.txt", sep=";", decimal=",", index=False)
    frame.to_csv(folder / "packed.csv.gz", index=False)
    frame.to_csv(folder / "rows.tsv", sep="\t")
    frame.to_parquet(folder / "good.parquet")
    frame.to_csv(folder / "zwei Größen.csv", index=False)
    frame.drop(columns="y").assign(label=np.where(y > 0, "up", "down")).to_csv(folder / "labels.csv", index=False)
    for k in range(2):
        frame[30 * k : 30 * (k + 1)].to_csv(folder / "days" / f"{k}.csv", index=False)
    (folder / "good.svm").write_text("1.5 1:2\n")
    gaps = frame.copy()
    gaps.loc[5, ["a_1", "y"]] = np.nan
    gaps.to_csv(folder / "gaps.csv", index=False)
    frame.assign(b="some text").to_csv(folder / "text.csv", index=False)
    (folder / "latin.csv").write_bytes("a_1,y\n1,grün\n".encode("latin1"))
    (folder / "binary.parquet").write_bytes(Random(0).randbytes(500))


TEXTS = {
    "empty.csv": "",
    "header.csv": "a_1,a_2,b,c,y,w\n",
    "ragged.csv": "a_1,a_2,b,c,y,w\n1,2,3,4,5,6\n1,2,3\n",
    "repeated.csv": "a_1,y\n1,2\na_1,y\n3,4\n",
    "quote.csv": 'a_1,y\n1,"x\n2,u\n3,v\n',
    "groups.yaml": "groups:\n  a: {columns: [a_1, a_2], cost: 1}\n  b: {columns: [b], cost: 2.5}\n  c: {columns: [c]}\n"
    "remainder: drop\n",
    "shared.yaml": "groups:\n  a: {columns: [a_1, a_2], cost: 1}\n  b: {columns: [b], cost: 0, requires: [a]}\n"
    "  c: {columns: [c], cost: 1}\nshared:\n  s: {cost: 2, groups: [a, c]}\nremainder: drop\n",
    "positions.yaml": "groups:\n  a: {columns: [0, 1], cost: 1}\n  b: {columns: [2, 3], cost: 2}\nremainder: drop\n",
    "bad.yaml": "groups: {a: [",
    "wrong.yaml": "groups:\n  a: {columns: [zz], cost: -1}\n",
    "list.yaml": "- a\n- b\n",
}


# -- the check -------------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def check(case: Case) -> None:
    """Run a command in a fresh folder; compare its output and the files it leaves with the documentation."""
    words = case["arguments"]
    with TemporaryDirectory(prefix="fuzz-") as parent:
        folder = Path(parent) / "here"
        shutil.copytree(template(), folder, symlinks=True)
        before = contents(folder)
        ended = run_in(folder, words)
        after = contents(folder)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert ended.code in (0, 2), f"exit code {ended.code}: {ended.err[-500:]}"
    if ended.code == 2:
        _check_refused(ended, changed)
    else:
        _check_done(words, ended, before, changed)


def run_in(folder: Path, words: list[str]) -> Ended:
    """Run a command in this process, in a folder."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
    texts = (stream.buffer.getvalue().decode("utf-8") for stream in (out, err))  # type: ignore[attr-defined]
    return Ended(code, *texts)


def contents(folder: Path) -> dict[str, Any]:
    """Return the contents of a folder: links, files with their bytes, folders."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def _check_refused(ended: Ended, changed: set[str]) -> None:
    lines = ended.err.splitlines()
    assert lines[-1].startswith("error: "), f"the last line is no error: {ended.err!r}"
    assert len(lines[-1]) < 2_000, f"the line has {len(lines[-1])} characters"
    assert all(char.isprintable() or char.isspace() for char in lines[-1]), f"the line is not readable: {lines[-1]!r}"
    assert ended.out == "", f"an error, but stdout holds {ended.out[:200]!r}"
    assert not changed, f"an error, but these changed: {sorted(changed)}"


def _check_done(words: list[str], ended: Ended, before: dict[str, Any], changed: set[str]) -> None:
    assert "Traceback" not in ended.err, ended.err[-500:]
    outputs = {words[k + 1] for k, word in enumerate(words[:-1]) if word in ("-o", "--output")}
    if words[0] == "report":
        outputs.add("report.html")
    if words[0] == "fit" and not outputs:  # the model has the name of the data
        outputs |= {name for name in changed if name.endswith(".budgetline")}
    allowed = {before[name] if isinstance(before.get(name), str) else name for name in outputs}
    assert changed <= allowed, f"these changed although they are no outputs: {sorted(changed - allowed)}"
    inputs = {before[word] if isinstance(before.get(word), str) else word for word in words if word not in outputs}
    inputs |= {name for name in before if name.startswith("days/")} if {"days", "days/*.csv"} & set(words) else set()
    taken = {word for word in outputs if before.get(word) is not None and words.count(word) > 1}
    assert not changed & (inputs | taken), f"an input was overwritten: {sorted(changed & (inputs | taken))}"
    if "--json" in words and "--help" not in words:
        json.loads(ended.out)
