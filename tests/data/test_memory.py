"""Memory that is used again for the rows of later chunks."""

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from budgetline.data.memory import LARGE, Room, lent

SHAPE = (4, LARGE // 16)
DOUBLE = np.dtype(np.float64)


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_while_other_arrays_live():
    kept, first = lent(SHAPE, DOUBLE), lent(SHAPE, DOUBLE)
    assert first.shape == SHAPE
    assert first.dtype == DOUBLE
    assert first.flags.writeable
    where = place(first)
    del first
    gc.collect()
    again = lent((8, LARGE // 32), np.dtype(np.int64))
    assert place(again) == where
    assert not np.shares_memory(kept, again)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a.T[5:9, 1:],
        lambda a: a[1],
        lambda a: a.view(np.uint64),
        lambda a: a.reshape(-1)[::7],
        lambda a: np.asarray(memoryview(a)),
        lambda a: np.broadcast_to(a[:1], (3, a.shape[1])),
        lambda a: next(iter(a)),
    ],
)
def test_every_view_keeps_its_memory(view):
    keeper, array = lent(SHAPE, DOUBLE), lent(SHAPE, DOUBLE)
    array[:] = 3.5
    part = view(array)
    wanted = part.copy()
    del array
    gc.collect()
    others = [lent(SHAPE, DOUBLE) for _ in range(3)]
    for other in others:
        other[:] = -1
        assert not np.shares_memory(other, part)
    np.testing.assert_array_equal(part, wanted)
    del keeper


def test_memory_is_freed_with_the_last_array():
    gc.collect()
    tracemalloc.start()
    try:
        arrays = [lent((6, LARGE // 8), DOUBLE) for _ in range(4)]
        assert tracemalloc.get_traced_memory()[0] > 24 * LARGE
        arrays.clear()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < LARGE
    finally:
        tracemalloc.stop()


def test_threads_do_not_share_memory():
    def work(number):
        for _ in range(20):
            array = lent(SHAPE, DOUBLE)
            array[:] = number
            view = array.T[::11]
            del array
            if not (view == number).all():
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_room_is_found_by_its_own_table_alone():
    room, other = Room((7, 3), DOUBLE, beside=2), Room((7, 3), DOUBLE, beside=2)
    room.columns[:] = np.arange(21.0).reshape(3, 7)
    table = room.table
    assert table.flags.f_contiguous
    whole = room.around(table, 5)
    assert whole is not None
    assert np.shares_memory(whole, table)
    whole[:, 3:] = -1
    np.testing.assert_array_equal(whole[:, :3], np.arange(21.0).reshape(3, 7).T)
    np.testing.assert_array_equal(room.table, np.arange(21.0).reshape(3, 7).T)
    others = [other.table, table.copy(), table[:6], table[1:], table[:, :2], table[:, 1:], table[::-1], None]
    others += [table.view(np.int64), table.T, np.asfortranarray(table)[:, [0, 1, 2]]]
    assert all(room.around(wrong, 5) is None for wrong in others)
    assert room.around(table, 100) is None
