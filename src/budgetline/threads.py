"""Threads: BLAS is kept to one, and rows are dealt to threads instead.

A BLAS that splits many small products over its threads waits for them again and again, for very long on a busy machine.
Threads that each have their own rows, and a BLAS of one thread, do not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

STRIPES = 8
"""Rows are dealt to eight sums, whatever the number of threads, so that results do not depend on it."""

T = TypeVar("T")


class _Hold:
    """How many contexts keep BLAS to one thread now, and how many threads it may use otherwise.

    The setting belongs to the whole process: the first context to enter changes it, the last to leave restores it.
    """

    lock = Lock()
    depth = 0
    threads = 1
    limiter: ThreadpoolController


def blas_threads() -> int:
    """Return the number of threads that BLAS may use when it is not held (1 if unknown)."""
    with _Hold.lock:
        return _Hold.threads if _Hold.depth else _threads_now()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread."""
    with _Hold.lock:
        if _Hold.depth == 0:
            _Hold.threads = _threads_now()
            _Hold.limiter = _blas().limit(limits=1)
        _Hold.depth += 1
    try:
        yield
    finally:
        with _Hold.lock:
            _Hold.depth -= 1
            if _Hold.depth == 0:
                _Hold.limiter.restore_original_limits()


def in_threads(work: Callable[[list[slice]], T], slices: list[slice]) -> list[T]:
    """Deal slices to stripes and return the result of each, computed by as many threads as BLAS may use."""
    stripes = [slices[k::STRIPES] for k in range(min(STRIPES, len(slices)))]
    if len(stripes) == 1:
        return [work(stripes[0])]
    with one_blas_thread(), ThreadPoolExecutor(min(blas_threads(), STRIPES)) as pool:
        return list(pool.map(work, stripes))


def _threads_now() -> int:
    return min((int(library["num_threads"]) for library in _blas().info()), default=1)


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries, once, as it takes milliseconds; NumPy and SciPy have loaded theirs by then."""
    return ThreadpoolController().select(user_api="blas")
