"""Marks of files, by which a reader notices that a file has changed since it was opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Self

from budgetline.data.sources import Partition

BLOCK = 1 << 14
"""Size of a compared block in bytes."""
BLOCKS = 8
"""Number of compared blocks: up to 128 kB every byte is compared."""


@dataclass(frozen=True)
class Mark:
    """The state of a file when it was opened: its size, its time, and a checksum of some of its blocks.

    The blocks are spread over the bytes from ``start`` to ``stop`` (None: the end of the file), and one is at the end.
    A change that keeps the size and happens within one tick of the clock is noticed if it touches one of them.
    """

    path: Path
    start: int
    stop: int | None
    size: int
    time: int
    digest: str

    @classmethod
    def of(cls, path: Path, start: int = 0, stop: int | None = None) -> Mark:
        """Mark a file as it is now."""
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                total = sha256()
                for place in _places(start, status.st_size if stop is None else stop, status.st_size):
                    file.seek(place)
                    total.update(file.read(BLOCK))
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist") from None
        return cls(path, start, stop, status.st_size, status.st_mtime_ns, total.hexdigest()[:32])

    def renewed(self) -> Mark:
        """Mark the file as it is now."""
        return Mark.of(self.path, self.start, self.stop)

    def check(self, where: str) -> None:
        """Raise an error that says where if the file has changed."""
        if self.renewed() != self:
            raise ValueError(f"{where}: the file has changed since it was opened; open it again when it is complete")

    @contextmanager
    def held(self, where: str) -> Iterator[None]:
        """Raise an error unless the file is the same before and after the body, which reads it."""
        self.check(where)
        try:
            yield
        except (OSError, ValueError):
            self.check(where)  # the change may be the cause
            raise
        self.check(where)

    def text(self, where: str) -> str:
        """Return a text that identifies the contents, after checking that they have not changed."""
        self.check(where)
        return f"{self.path.resolve()} {self.size} {self.time} {self.digest}"


def _places(start: int, stop: int, size: int) -> list[int]:
    """Return where the blocks begin: evenly from start to stop, and at the end, where formats keep metadata."""
    last = max(start, stop - BLOCK)
    spread = {start + (last - start) * k // (BLOCKS - 1) for k in range(BLOCKS)}
    return sorted({*spread, max(0, size - BLOCK)})


@dataclass(frozen=True)
class FilePartition(Partition):
    """A file, or a part of one."""

    mark: Mark

    @property
    def path(self) -> Path:
        """The file."""
        return self.mark.path

    @property
    def where(self) -> str:
        """The file, or the part of it, for errors."""
        return str(self.path)

    def fingerprint(self) -> str:
        """Return a text that identifies the contents of the file, and the parts that are read."""
        parts = [getattr(self, part.name) for part in fields(self)[1:]]
        return f"{self.mark.text(self.where)} {parts}"

    def reopened(self) -> Self:
        """Return the partition of the current file, split as before."""
        return replace(self, mark=self.mark.renewed())
