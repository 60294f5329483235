"""Every experiment runs from start to end, on little data."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("script", sorted(p.name for p in (ROOT / "experiments").glob("*.py")))
def test_quick_run(script):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "experiments" / script), "--quick"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| method |" in done.stdout
