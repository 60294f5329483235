"""Outputs: checked before the work, written in full or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from budgetline.cli.errors import Refused
from budgetline.files import write_atomically


def check_output(path: Path, *suffixes: str) -> None:
    """Raise an error if nothing can be written there, before any work is done."""
    folder = path.parent
    if suffixes and path.suffix.lower() not in suffixes:
        raise Refused(f"cannot write {path}: its name must end in {' or '.join(suffixes)}")
    if path.is_dir():
        raise Refused(f"cannot write {path}: it is a folder")
    if not folder.is_dir():
        raise Refused(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise Refused(f"cannot write {path}: the folder {folder} may not be written to")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a place beside ``path`` to write to; what is there in the end replaces it, unless there was an error."""
    beside = path.with_name(f".{path.name}.{token_hex(8)}")
    try:
        with saying(path):
            yield beside
            with open(beside, "rb") as file:
                os.fsync(file.fileno())
            os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def saying(path: Path) -> Iterator[None]:
    """Name the file that was asked for in errors of writing, not the one beside it."""
    try:
        yield
    except OSError as error:
        # errors of files that are read meanwhile are named already
        if error.filename is None or Path(error.filename).parent == path.parent:
            raise Refused(f"cannot write {path}: {error.strerror or error}") from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, in full or not at all."""
    with saying(path):
        write_atomically(path, text.encode("utf-8"))
