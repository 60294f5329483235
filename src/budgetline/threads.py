"""Threads: how many BLAS may use, how to hold it back, and how to deal work out by rows instead.

A BLAS that splits many medium products over its threads waits for them again and again, for very long on a busy
machine. Dealing rows to threads, each with a BLAS of one thread, keeps them busy with work of their own.

Looking the libraries up takes milliseconds, so it is done once; NumPy and SciPy have loaded theirs by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController


def blas_threads() -> int:
    """Return the number of threads that BLAS may use now (1 if it can't be told)."""
    return min((int(library["num_threads"]) for library in _blas().info()), default=1)


def limit_blas(threads: int | None) -> Any:
    """Return a context in which BLAS uses at most so many threads; None: no limit."""
    return _blas().limit(limits=threads)


_threads: ContextVar[int | None] = ContextVar("threads for lanes", default=None)


@contextmanager
def lanes_only() -> Iterator[None]:
    """Keep BLAS to one thread, and leave the others to :func:`in_lanes`."""
    token = _threads.set(_threads.get() or blas_threads())
    try:
        with limit_blas(1):
            yield
    finally:
        _threads.reset(token)


LANES = 8
"""Rows are dealt to so many sums, whatever the number of threads, so that results do not depend on it."""

T = TypeVar("T")


def in_lanes(work: Callable[[list[slice]], T], slices: list[slice]) -> list[T]:
    """Deal slices to lanes and return the result of each, computed by as many threads as BLAS may use."""
    threads = _threads.get() or blas_threads()
    lanes = [slices[k::LANES] for k in range(min(LANES, len(slices)))]
    if len(lanes) == 1:
        return [work(lanes[0])]
    with limit_blas(max(1, threads // LANES)), ThreadPoolExecutor(min(threads, LANES)) as pool:
        return list(pool.map(work, lanes))


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")
