"""How this program was called, for commands that the user is told to run next."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from shutil import which


def command_name() -> str:
    """Return what a shell in this folder must be given to run this program again.

    That is ``budgetline`` where the shell finds this very program under that name; the path by which it was called
    where it does not, as in an environment that is not activated.
    """
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{quote(sys.executable)} -m budgetline"
    on_path = which("budgetline")
    if called.name != "budgetline" or (on_path is not None and Path(on_path).resolve() == called.resolve()):
        return "budgetline"
    return quote(sys.argv[0])
