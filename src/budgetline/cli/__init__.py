"""The command line: from files to models, reports and predictions. It needs typer and rich."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import current_thread, main_thread

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the process.

    The exit code is 0, or 2 for an error of the user, 1 for a bug, 130 if interrupted.
    """
    _reserve_streams()
    _drop_invalid_sizes()
    with _ending_when_interrupted():
        try:
            for package in ("typer", "rich"):
                import_module(package)
        except ImportError:
            print("error: the command line needs typer and rich: pip install 'budgetline[cli]'", file=sys.stderr)
            return 2
        from budgetline.cli.app import run
    return run(sys.argv[1:] if arguments is None else arguments)


def _reserve_streams() -> None:
    """Open /dev/null for closed standard streams, so that no file that is opened later gets their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # stdin, stdout and stderr
        pass
    os.close(number)


def _drop_invalid_sizes() -> None:
    """Drop sizes of the terminal that are not numbers: typer and rich would fail."""
    for name in ("COLUMNS", "LINES", "TERMINAL_WIDTH"):
        if not re.fullmatch("[1-9][0-9]{0,3}", os.environ.get(name, "80"), re.ASCII):
            del os.environ[name]


@contextmanager
def _ending_when_interrupted() -> Iterator[None]:
    """Exit at once if the user interrupts: during imports, an exception could be lost or printed anywhere."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
