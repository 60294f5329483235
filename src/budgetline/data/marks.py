"""Marks of files: how a reader notices that a file is no longer the one that was opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

BLOCK = 1 << 14
"""Bytes that are looked at in one place."""
BLOCKS = 8
"""Places that are looked at: of a stretch of up to 128 kB every byte."""


@dataclass(frozen=True)
class Mark:
    """What a file was when it was opened: its size, its time, and a checksum of blocks of a stretch and of the end.

    A change of the same size within one tick of the clock shows if it touches one of the blocks.
    """

    path: Path
    start: int
    stop: int | None
    size: int
    time: int
    digest: str

    @classmethod
    def of(cls, path: Path, start: int = 0, stop: int | None = None) -> Mark:
        """Look at a file, and at the bytes between two positions (None: its end) in particular."""
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

    def anew(self) -> Mark:
        """Look at the file as it is now."""
        return Mark.of(self.path, self.start, self.stop)

    def check(self, where: str) -> None:
        """Raise an error that says where if the file has changed."""
        if self.anew() != self:
            raise ValueError(f"{where}: the file has changed since it was opened; open it again when it is complete")

    @contextmanager
    def held(self, where: str) -> Iterator[None]:
        """Raise an error unless the file is the same before and after it is read inside."""
        self.check(where)
        try:
            yield
        except (OSError, ValueError):
            self.check(where)  # what is wrong may be but a sign of the change
            raise
        self.check(where)

    def text(self, where: str) -> str:
        """Return a name for the contents, if they are still those."""
        self.check(where)
        return f"{self.path.resolve()} {self.size} {self.time} {self.digest}"


def _places(start: int, stop: int, size: int) -> list[int]:
    """Return where the blocks begin: evenly from start to stop, and one at the end, where formats keep their tables."""
    last = max(start, stop - BLOCK)
    spread = {start + (last - start) * k // (BLOCKS - 1) for k in range(BLOCKS)}
    return sorted({*spread, max(0, size - BLOCK)})


class Marked:
    """A partition of a file with a mark, or without one where the file cannot be looked at."""

    mark: Any

    def anew(self) -> Self:
        """Return the partition of the file as it is now, cut as before."""
        return self if self.mark is None else replace(self, mark=self.mark.anew())  # type: ignore[type-var]
