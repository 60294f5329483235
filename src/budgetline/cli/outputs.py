"""Output files: checked before the work, written in full or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetline.cli.errors import Refused
from budgetline.files import target_of, write_atomically


def check_output(path: Path | None, *suffixes: str, inputs: Iterable[Path | None]) -> None:
    """Raise an error, before anything is read, if a file cannot be written or is one of the inputs; None is fine."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise Refused(f"cannot write {path}: its name must end in {' or '.join(suffixes)}")
    with writing(path):
        target = target_of(path)
    if target is None:
        if not os.access(path, os.W_OK):
            raise Refused(f"cannot write {path}: it may not be written to")
    elif not target.parent.is_dir():
        raise Refused(f"cannot write {path}: there is no folder {target.parent}")
    elif not os.access(target.parent, os.W_OK):
        raise Refused(f"cannot write {path}: the folder {target.parent} may not be written to")
    check_distinct(path, inputs)


def check_distinct(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raise an error if an output is one of the inputs, under any name; devices, such as a terminal, may be both."""
    if not path.exists() or stat.S_ISCHR(path.stat().st_mode):
        return
    for given in inputs:
        if given is not None and given.exists() and path.samefile(given):
            raise Refused(f"cannot write {path}: it is the same file as the input {given}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the output in errors of writing it."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, str(path)):  # errors of reading name their own file
            raise Refused(f"cannot write {path}: {error.strerror or error}") from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, in full or not at all."""
    with writing(path):
        write_atomically(path, text.encode("utf-8"))
