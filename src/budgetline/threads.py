"""Threads: keeping BLAS to one, and dealing work out by rows instead.

A BLAS that splits many small products over its threads waits for them again and again, for very long on a busy machine.
Dealing rows to threads, each with a BLAS of one thread, keeps them busy with work of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

LANES = 8
"""Rows are dealt to so many sums, whatever the number of threads, so that results do not depend on it."""

T = TypeVar("T")


class _Hold:
    """How many contexts keep BLAS to one thread now, and how many threads it may use otherwise.

    The setting is one for the whole process: the first context to enter changes it and the last to leave changes it
    back, in whatever thread they run.
    """

    lock = Lock()
    depth = 0
    threads = 1
    limiter: Any = None


def blas_threads() -> int:
    """Return the number of threads that BLAS may use when it is not held (1 if it can't be told)."""
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


def in_lanes(work: Callable[[list[slice]], T], slices: list[slice]) -> list[T]:
    """Deal slices to lanes and return the result of each, computed by as many threads as BLAS may use."""
    lanes = [slices[k::LANES] for k in range(min(LANES, len(slices)))]
    if len(lanes) == 1:
        return [work(lanes[0])]
    with one_blas_thread(), ThreadPoolExecutor(min(blas_threads(), LANES)) as pool:
        return list(pool.map(work, lanes))


def _threads_now() -> int:
    return min((int(library["num_threads"]) for library in _blas().info()), default=1)


@cache
def _blas() -> Any:
    """Look the libraries up, once, as it takes milliseconds; NumPy and SciPy have loaded theirs by then."""
    return ThreadpoolController().select(user_api="blas")
