"""Work shared by threads: every slice once, sums that do not depend on the threads, errors and warnings that arrive."""

import os
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from budgetline import AnytimeClassifier, AnytimeRegressor, threads
from budgetline.messages import warn
from budgetline.threads import (
    FREE,
    STRIPES,
    _Hold,
    blas_threads,
    in_threads,
    map_in_threads,
    one_blas_thread,
    product,
    share_out,
    sum_in_threads,
)

SLICES = [slice(a, a + 7) for a in range(0, 7 * (3 * STRIPES + 5), 7)]


def test_every_slice_is_worked_on_once():
    seen = []
    in_threads(seen.extend, SLICES)
    assert sorted(s.start for s in seen) == [s.start for s in SLICES]


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_sums_do_not_depend_on_the_number_of_threads(threads):
    values = np.random.default_rng(0).normal(size=SLICES[-1].stop) * 10.0 ** np.arange(SLICES[-1].stop).clip(max=12)

    def total():
        return sum_in_threads(lambda stripe: np.array([sum(values[s].sum() for s in stripe)]), SLICES)

    with threadpool_limits(1):
        alone = total()
    with threadpool_limits(threads):
        for _ in range(5):
            assert np.array_equal(total(), alone)


def test_an_error_in_any_thread_reaches_the_caller():
    def work(stripe):
        if stripe[0].start == SLICES[STRIPES - 1].start:
            raise ValueError("slice 15 is bad")

    with pytest.raises(ValueError, match="slice 15 is bad"):
        in_threads(work, SLICES)


def test_after_an_error_helpers_take_other_work():
    def work(stripe):
        raise ValueError("bad")

    with threadpool_limits(4):
        for _ in range(20):
            with pytest.raises(ValueError, match="bad"):
                in_threads(work, SLICES)
            seen = []
            in_threads(seen.extend, SLICES)
            assert len(seen) == len(SLICES)


def test_several_threads_may_ask_for_help_at_once():
    def total(_):
        return float(sum_in_threads(lambda stripe: np.array([float(len(stripe))]), SLICES)[0])

    with threadpool_limits(4), ThreadPoolExecutor(6) as pool:
        assert list(pool.map(total, range(200))) == [float(len(SLICES))] * 200


def test_work_goes_on_if_no_thread_can_be_started(monkeypatch):
    monkeypatch.setattr(threads, "_helpers", lambda: ThreadPoolExecutor(1))
    monkeypatch.setattr(Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start new thread")))
    seen = []
    with threadpool_limits(4):
        in_threads(seen.extend, SLICES)
    assert len(seen) == len(SLICES)


def test_nothing_to_do_is_done_at_once():
    share_out(lambda k: pytest.fail("called"), 0)


def test_work_inside_work_ends():
    inner = lambda: float(sum_in_threads(lambda stripe: np.array([float(len(stripe))]), SLICES)[0])  # noqa: E731
    assert map_in_threads(lambda _: inner(), range(40)) == [float(len(SLICES))] * 40


def test_results_come_in_order_and_warnings_at_the_callers_line():
    def work(k):
        if k in (3, 5):
            warn(f"item {k} is odd", UserWarning)
        return k * k

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert map_in_threads(work, range(8)) == [k * k for k in range(8)]
    assert [str(w.message) for w in found] == ["item 3 is odd", "item 5 is odd"]
    assert {w.filename for w in found} == {__file__}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    in_threads(lambda stripe: None, SLICES)
    child = os.fork()
    if child == 0:
        try:
            with threadpool_limits(4):
                total = sum_in_threads(lambda stripe: np.array([float(len(stripe))]), SLICES)
            os._exit(0 if total[0] == len(SLICES) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def result_in_child(work):
    """Return what a forked child says of ``work``: 0 for true. A child that hangs is killed after a minute."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    end = time.monotonic() + 60
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        Event().wait(0.005)
    return os.waitstatus_to_exitcode(found[1])


def fits():
    X = np.random.default_rng(0).normal(size=(60, 4))
    AnytimeRegressor().fit(X, X[:, 0])
    return AnytimeClassifier(rule="omp").fit(X, X[:, 1] > 0).sequence_.groups[0] == "1"


HELD = {
    "the lock of BLAS": lambda: _Hold.lock,
    "BLAS": one_blas_thread,
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("held", HELD)
def test_a_child_fits_whatever_other_threads_held_at_the_fork(held):
    inside, leave = Event(), Event()

    def hold():
        with HELD[held]():
            inside.set()
            leave.wait()

    with threadpool_limits(2):
        thread = Thread(target=hold)
        thread.start()
        inside.wait()
        try:
            assert result_in_child(lambda: _Hold.depth == 0 and blas_threads() == 2 and fits()) == 0
        finally:
            leave.set()
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_keeps_what_its_own_thread_holds():
    with one_blas_thread():
        assert result_in_child(lambda: _Hold.depth == 1 and fits() and _Hold.depth == 1) == 0


@pytest.mark.parametrize("k", [1, 3, FREE + 1])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_products_are_those_of_matrices(k, m, order):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(k, 40)), rng.normal(size=(40, m))
    given = np.repeat(A, 2, axis=1)[:, ::2] if order == "strided" else np.array(A, order=order)
    assert np.allclose(product(given, B), A @ B, rtol=1e-13, atol=1e-13)
    assert product(given, B).shape == (k, m)
