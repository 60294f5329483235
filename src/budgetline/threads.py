"""BLAS threads: how many there are, and how to hold them back.

Looking the libraries up takes milliseconds, so it is done once; NumPy and SciPy have loaded theirs by then.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def blas_threads() -> int:
    """Return the number of threads that BLAS may use now (1 if it can't be told)."""
    return min((int(library["num_threads"]) for library in _blas().info()), default=1)


def limit_blas(threads: int | None) -> Any:
    """Return a context in which BLAS uses at most so many threads; None: no limit."""
    return _blas().limit(limits=threads)


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")
