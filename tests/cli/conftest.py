"""Commands run in a folder of their own, in this process or in another."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.utils import Bunch

import budgetline
from budgetline.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Return a function that runs a command and returns its code, stdout and stderr."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Bunch(code=code, out=captured.out, err=captured.err)

    return call


@pytest.fixture
def done(run):
    """Return a function that runs a command that must succeed, and returns its JSON document."""

    def call(*arguments):
        found = run(*arguments, "--json")
        assert found.code == 0, found.err
        return json.loads(found.out)

    return call


@pytest.fixture
def process():
    """Return a function that runs Python with these arguments and environment, and this library."""

    def call(*arguments, **environment):
        env = {**os.environ, "PYTHONPATH": str(Path(budgetline.__file__).parents[1]), **environment}
        command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env)

    return call
