"""The shape of a working tree in figures: ``python tools/shape.py [TREE] [--walks]``.

Lines, modules, functions, lines with ``Any``, reads of private names of other objects, public names; and with
``--walks`` the modules that six jobs pass through, in the order in which they are first entered.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WALKS = {
    "fit": "bl.AnytimeRegressor(groups).fit(X, y)",
    "predict": "model.predict(X, budget=1.5)",
    "fit from Parquet": "bl.AnytimeClassifier(named, rule='score').fit(bl.open_data('labels.parquet', 'y'))",
    "CLI fit": "cli(['fit', 'data.csv', '--target', 'y', '--output', 'cli.budgetline'])",
    "explore edit": "explored(read_edit({'kind': 'set_target', 'column': 'y'})(start, table))",
    "plan": "model.plan(1.5, time_limit=0.2)",
}
SETTING = """
import contextlib, io, sys
import numpy as np, pandas as pd
import budgetline as bl
from budgetline.cli import main
from budgetline.explore.edits import read_edit
from budgetline.explore.fits import learn
from budgetline.explore.session import opening_state
from budgetline.explore.session_data import Data
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3)); y = X @ [1.0, 2.0, 3.0] + rng.normal(size=200)
groups = [[0], [1, 2]]; named = {"a": ["0"], "b": ["1", "2"]}
frame = pd.DataFrame(X, columns=list("012"))
frame.assign(y=y).to_csv("data.csv", index=False)
frame.assign(y=np.where(y > 0, "high", "low")).to_parquet("labels.parquet", index=False)
model = bl.AnytimeRegressor(groups).fit(X, y)
table = Data("data.csv")
start = opening_state(table)
def explored(state):
    learn(table.read("y"), state, lambda: None, lambda *_: None, lambda _: None)
def cli(arguments):
    sys.argv = ["budgetline", *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
"""
TRACE = """
{job}  # so that all modules are imported
seen = []
def note(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("budgetline") and name not in seen and frame.f_code.co_flags & 1:
        seen.append(name)
sys.setprofile(note)
{job}
sys.setprofile(None)
print(" → ".join(name.removeprefix("budgetline.") for name in seen))
"""


def functions_of(tree: ast.Module) -> list[int]:
    """Return the lines of every function, without its docstring."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            first = node.body[0]
            text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            inside = (first.end_lineno or 0) - first.lineno + 1 if text else 0
            found.append(node.end_lineno - node.lineno + 1 - inside)
    return found


def privates_of(tree: ast.Module) -> list[str]:
    """Return reads of private names of other modules' objects; scikit-learn's own for subclasses do not count."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and re.match("_[a-z]", n.attr)]
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)} | {"_parameter_constraints", "_exit"}
    own |= {n.attr for n in nodes if _is_own(n)}
    return [f"{ast.unparse(n)} (line {n.lineno})" for n in nodes if not _is_own(n) and n.attr not in own]


def _is_own(node: ast.Attribute) -> bool:
    by_name = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    return by_name or (isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--walks", action="store_true")
    arguments = parser.parse_args()
    source = arguments.tree.resolve() / "src"
    files = {path: path.read_text(encoding="utf-8") for path in sorted((source / "budgetline").rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in files.items()}
    lengths = sorted(length for tree in trees.values() for length in functions_of(tree))
    lines = {path: text.count("\n") for path, text in files.items()}
    packages: dict[str, int] = {}
    for path, count in lines.items():
        part = path.relative_to(source / "budgetline").parts
        packages[part[0] if len(part) > 1 else "(root)"] = (
            packages.get(part[0] if len(part) > 1 else "(root)", 0) + count
        )
    print(f"lines {sum(lines.values())}, modules {len(files)}, largest module {max(lines.values())}")
    print(", ".join(f"{name} {count}" for name, count in sorted(packages.items())))
    print(f"functions {len(lengths)}: median {statistics.median(lengths):g}, p95 {lengths[int(0.95 * len(lengths))]}")
    loose = sum(bool(re.search(r"\bAny\b", line)) for text in files.values() for line in text.splitlines())
    print(f"lines with Any {loose}")
    foreign = [f"{path.relative_to(source)}: {read}" for path, tree in trees.items() for read in privates_of(tree)]
    print(f"privates of others {len(foreign)}", *foreign, sep="\n  ")
    environment = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    count = "import budgetline; print('public names', len(budgetline.__all__))"
    subprocess.run([sys.executable, "-c", count], check=True, env=environment)
    for name, job in WALKS.items() if arguments.walks else ():
        with tempfile.TemporaryDirectory() as folder:
            script = SETTING + TRACE.format(job=job)
            found = subprocess.run(
                [sys.executable, "-c", script], env=environment, cwd=folder, capture_output=True, text=True
            )
        if found.returncode:
            sys.exit(f"{name}: {found.stderr}")
        print(f"{name} ({found.stdout.count('→') + 1} modules): {found.stdout.strip()}")


if __name__ == "__main__":
    main()
