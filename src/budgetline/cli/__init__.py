"""The command line: from files to models, reports and predictions. It needs typer and rich."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from budgetline.packages import imported

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the process.

    The exit code is 0, or 2 for an error of the user, 1 for a bug, 130 if interrupted.
    """
    try:
        try:
            for package in ("typer", "rich"):
                imported(package, "the command line needs typer and rich", "cli")
        except ImportError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        from budgetline.cli.app import run

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130
