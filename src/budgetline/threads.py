"""Threads: BLAS uses one thread, and rows are divided among threads.

A BLAS that splits many small products over its threads waits for them again and again, very long on a busy machine.
Threads that each have their own rows, and a BLAS of one thread, do not wait.

A forked process has only the thread that forked. Locks that other threads held would be held there for ever, so the
child makes new ones.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Lock, local
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from budgetline.arrays import Float
from budgetline.messages import Held, hold_warnings, warn
from budgetline.progress import announce

STRIPES = 16
"""Rows are split into this many sums, so that results do not depend on the number of threads."""
FREE = 500
"""``np.matmul`` holds Python's lock, and all other threads wait, unless its result has more entries than this."""

T = TypeVar("T")
R = TypeVar("R")


class _Hold:
    """Counts the contexts that keep BLAS to one thread; ``threads`` is how many it may use otherwise.

    The setting belongs to the whole process: the first context to enter changes it, the last to leave restores it.
    ``own.depth`` counts the contexts of a thread.
    """

    lock = Lock()
    depth = 0
    threads = 1
    limiter: ThreadpoolController
    own = local()


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
        _count(1)
    try:
        yield
    finally:
        with _Hold.lock:
            _count(-1)
            if _Hold.depth == 0:
                _Hold.limiter.restore_original_limits()


def _count(contexts: int) -> None:
    _Hold.depth += contexts
    _Hold.own.depth = getattr(_Hold.own, "depth", 0) + contexts


def sum_in_threads(work: Callable[[list[slice]], Float], slices: list[slice], most: int = STRIPES) -> Float:
    """Return the sum of ``work`` over stripes of slices, added in the order of the stripes, as in ``in_threads``."""
    total, stripes = _OrderedSum(), stripes_of(slices)
    share_out(lambda k: total.add(k, work(stripes[k])), len(stripes), most)
    return total.value


def added(of: Callable[[slice], Float], stripe: list[slice]) -> Float:
    """Return the sum over the slices of a stripe."""
    total = of(stripe[0])
    for s in stripe[1:]:
        total += of(s)
    return total


def product(A: Float, B: Float) -> Float:
    """Return the product of matrices (k, n) and (n, m), without stopping other threads, however small it is."""
    small = A.shape[0] * B.shape[1] <= FREE
    whole = A.flags.forc and B.flags.forc  # np.dot copies others before it multiplies them by a vector
    return np.asarray(np.dot(A, B) if small and whole else A @ B)


def in_threads(work: Callable[[list[slice]], None], slices: list[slice], most: int = STRIPES) -> None:
    """Call ``work`` on stripes of slices, in as many threads as BLAS may use, but at most ``most``."""
    stripes = stripes_of(slices)
    share_out(lambda k: work(stripes[k]), len(stripes), most)


def map_in_threads(function: Callable[[T], R], items: Sequence[T], unit: str = "") -> list[R]:
    """Return the results for all items, each computed by one thread, and announce them; warnings come at the end."""
    results: dict[int, R] = {}
    found: dict[int, list[Held]] = {}

    def work(k: int) -> None:
        token = _alone.set(True)
        try:
            with hold_warnings() as found[k]:
                results[k] = function(items[k])
            if unit:
                announce(unit, len(results), len(items))
        finally:
            _alone.reset(token)

    share_out(work, len(items))
    for k in range(len(items)):
        for text, category in found[k]:
            warn(text, category)
    return [results[k] for k in range(len(items))]


_alone: ContextVar[bool] = ContextVar("budgetline_alone", default=False)
"""Whether this thread computes one of several results: then no other threads help it."""


def stripes_of(slices: list[slice]) -> list[list[slice]]:
    """Split slices into at most ``STRIPES`` lists."""
    return [slices[k::STRIPES] for k in range(min(STRIPES, len(slices)))]


def share_out(work: Callable[[int], None], count: int, most: int | None = None) -> None:
    """Call ``work`` with 0, 1, …, count − 1, in as many threads as BLAS may use, at most ``most`` if it is given.

    BLAS itself has one thread meanwhile. After an error no more work begins.
    """
    numbers, helpers = iter(range(count)), list[Future[None]]()

    def run() -> None:
        try:
            for k in numbers:
                work(k)
        except BaseException:
            deque(numbers, maxlen=0)
            raise

    with one_blas_thread():
        threads = 1 if count == 1 or _alone.get() else min(blas_threads(), count, most or count)
        with suppress(RuntimeError):  # the system allows no more threads, or Python is about to end
            for _ in range(threads - 1):
                helpers.append(_helpers().submit(copy_context().run, run))
        try:
            run()
        finally:
            for helper in helpers:
                if not helper.cancel():  # one that has not begun, because others have all threads, is not waited for
                    helper.result()


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "budgetline rows")


class _OrderedSum:
    """The sum of numbered arrays, always in the order of their numbers. Early arrays wait for their turn."""

    def __init__(self) -> None:
        self.value: Float = np.zeros(())
        self._early: dict[int, Float] = {}
        self._next, self._lock = 0, Lock()

    def add(self, number: int, found: Float) -> None:
        """Add an array, which may be overwritten."""
        with self._lock:
            self._early[number] = found
            while self._next in self._early:
                found = self._early.pop(self._next)
                self.value = found if self._next == 0 else np.add(self.value, found, out=self.value)
                self._next += 1


def _renew() -> None:
    """Make a forked process usable, whatever other threads did at the fork."""
    _helpers.cache_clear()
    _Hold.lock = Lock()
    if _Hold.depth:
        _Hold.depth = getattr(_Hold.own, "depth", 0)
        if _Hold.depth == 0:
            _Hold.limiter.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def _threads_now() -> int:
    return min((int(library["num_threads"]) for library in _blas().info()), default=1)


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries once: it takes milliseconds. NumPy and SciPy have loaded theirs by now."""
    return ThreadpoolController().select(user_api="blas")
