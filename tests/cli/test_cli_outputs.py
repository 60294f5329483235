"""What the commands write to: never over an input, through links and pipes, and how they end when nobody listens."""

import errno
import io
import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

import budgetline
import budgetline.cli.data
from budgetline import AnytimeRegressor

COLUMNS = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def files(folder):
    """Write data, a model, groups, and extractors to profile."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=COLUMNS)
    y = X["a"] + 0.5 * X["b"] + 0.1 * rng.normal(size=40)
    X.assign(y=y).to_csv("d.csv", index=False)
    budgetline.save(AnytimeRegressor(costs=[1, 2, 3]).fit(X, y), "m")
    Path("g.yaml").write_text("groups:\n  one: {columns: [a, b], cost: 1}\n  two: {columns: [c], cost: 2}\n")


# -- outputs that are inputs -----------------------------------------------------------------------------------

# the command without its output, and the inputs that the output must not be
COMMANDS = {
    "fit": (["fit", "d.csv", "-t", "y", "-g", "g.yaml"], ["d.csv", "g.yaml"], ""),
    "fit a folder": (["fit", "days", "-t", "y"], ["days/1.csv", "days/sub/2.csv"], ""),
    "fit a glob": (["fit", "days/*.csv", "-t", "y"], ["days/1.csv"], ""),
    "predict": (["predict", "m", "d.csv"], ["d.csv", "m"], ".csv"),
    "predict a folder": (["predict", "m", "days"], ["days/1.csv", "days/sub/2.csv"], ".csv"),
    "report": (["report", "m", "d.csv", "-t", "y"], ["d.csv", "m"], ".md"),
    "export": (["export", "m"], ["m"], ".onnx"),
    "groups": (["groups", "d.csv", "-t", "y"], ["d.csv"], ""),
}
WAYS = ("as it is", "another spelling", "a link", "a hard link")
CASES = [
    (name, given, way)
    for name, (_, inputs, suffix) in COMMANDS.items()
    for given in inputs
    for way in WAYS
    if given.endswith(suffix) or "link" in way  # other names are refused for what they end in
]


@pytest.mark.quick_cases(16)
@pytest.mark.parametrize(("name", "given", "way"), CASES)
def test_an_output_that_is_an_input_is_refused(name, given, way, run, monkeypatch, tmp_path):
    os.makedirs("days/sub")
    for part in ("days/1.csv", "days/sub/2.csv"):
        Path(part).write_bytes(Path("d.csv").read_bytes())
    command, _, suffix = COMMANDS[name]
    output = f"out{suffix}"
    if way == "a link":
        os.symlink(given, output)
    elif way == "a hard link":
        os.link(given, output)
    else:
        output = given if way == "as it is" else f"{tmp_path}/days/../{given}"
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(budgetline.cli.data.Files, "numeric", property(lambda _: pytest.fail("read")))
    found = run(*command, "-o", output)
    assert (found.code, found.out) == (2, "")
    assert found.err == f"error: cannot write {output}: it is the same file as the input {given}\n"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_other_files_are_replaced_as_before(run):
    for command, output in ((["fit", "d.csv", "-t", "y"], "m"), (["predict", "m", "d.csv"], "p.csv")):
        for _ in range(2):
            assert run(*command, "-o", output).code == 0
    assert len(pd.read_csv("p.csv")) == 40


# -- where to write --------------------------------------------------------------------------------------------


def test_predictions_go_through_links_and_keep_modes(run):
    Path("p.csv").write_text("old")
    os.chmod("p.csv", 0o600)
    os.symlink("p.csv", "link.csv")
    assert run("predict", "m", "d.csv", "-o", "link.csv").code == 0
    assert os.path.islink("link.csv")
    assert os.stat("p.csv").st_mode & 0o777 == 0o600
    assert len(pd.read_csv("p.csv")) == 40


def test_predictions_go_into_pipes(run):
    os.mkfifo("pipe.csv")
    found = []
    reader = threading.Thread(target=lambda: found.append(Path("pipe.csv").read_bytes()), daemon=True)
    reader.start()
    assert run("predict", "m", "d.csv", "-o", "pipe.csv").code == 0
    reader.join(20)
    assert run("predict", "m", "d.csv", "-o", "file.csv").code == 0
    assert found == [Path("file.csv").read_bytes()]
    assert Path("pipe.csv").is_fifo()


def test_a_link_into_nowhere_is_one_line(run):
    os.symlink("no/such/file", "link")
    found = run("fit", "d.csv", "-t", "y", "-o", "link")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error: cannot write link: there is no folder ")
    assert found.err.endswith("/no/such\n")


# -- how commands end ------------------------------------------------------------------------------------------


def test_a_closed_stdout_is_one_line(run, monkeypatch):
    before = sorted(os.listdir())
    monkeypatch.setattr("sys.stdout", None)
    for command in (["show", "m"], ["fit", "d.csv", "-t", "y", "-o", "new"], ["--version"]):
        found = run(*command)
        assert found.code == 2
        assert found.err == "error: stdout is closed: there is nowhere to print the result\n"
    assert sorted(os.listdir()) == before


def test_a_closed_stderr_is_nobody_to_tell(run, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    found = run("predict", "m", "d.csv")
    assert found.code == 0
    assert found.out.startswith("prediction\n")
    assert len(found.out.splitlines()) == 41
    assert run("show", "nope") == Bunch(code=2, out="", err="")


class Full(io.StringIO):
    """Takes everything, and fails when it should be passed on."""

    def __init__(self, error):
        super().__init__()
        self.error, self.number = error, os.open(os.devnull, os.O_WRONLY)

    def flush(self):
        raise self.error

    def fileno(self):
        return self.number


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, ""),
        (OSError(errno.ENOSPC, "No space left"), 2, "error: cannot print to stdout: No space left\n"),
    ],
)
@pytest.mark.parametrize("command", [["groups", "d.csv", "-q"], ["predict", "m", "d.csv", "-q"]])
def test_a_stdout_that_fails_at_last_is_no_traceback(command, error, code, line, run, monkeypatch):
    full = Full(error)
    monkeypatch.setattr("sys.stdout", full)
    found = run(*command)
    assert (found.code, found.err) == (code, line)
    os.close(full.number)


def test_a_narrow_terminal_is_believed(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    found = run("show", "m")
    assert found.code == 0
    assert "schedule greedy" not in next(line for line in found.out.splitlines() if line.startswith("Settings:"))


def test_quiet_does_not_hide_that_columns_were_left_out(run):
    command = ["fit", "text.csv", "-t", "y", "-o", "new", "--encoding", "none"]
    pd.read_csv("d.csv").assign(name="x").to_csv("text.csv", index=False)
    for more in ([], ["--quiet"], ["-q", "--json"]):
        found = run(*command, *more)
        assert found.code == 0
        assert "warning: left out because they do not hold numbers: name\n" in found.err
        assert more == [] or len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "roles"),
    [
        (["fit", "d.csv", "-t", "y", "--sample-weight", "y", "-o", "new"], "target and weight"),
        (["curve", "m", "d.csv", "-t", "y", "--sample-weight", "y"], "target and weight"),
        (["report", "m", "d.csv", "-t", "y", "--sample-weight", "y"], "target and weight"),
    ],
)
def test_a_column_cannot_be_the_target_and_something_else(command, roles, run):
    found = run(*command)
    assert (found.code, found.out) == (2, "")
    assert found.err.endswith(f"error: column 'y' cannot be both {roles}\n")


INTERRUPTED = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
from budgetline.cli import main
sys.exit(main(["show", "m"]))
"""


@pytest.mark.parametrize("module", ["numpy", "rich"])
def test_an_interruption_while_modules_are_imported_is_no_traceback(module, process):
    found = process("-c", INTERRUPTED, module)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")
