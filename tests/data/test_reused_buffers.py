"""Memory that belongs to the caller: it may be overwritten after each chunk, and belong to the caller's thread."""

import sqlite3
from threading import get_ident

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

from budgetline import AnytimeClassifier, AnytimeRegressor, budget_curve, open_data
from budgetline.encoding import Encoding

N, D, ROWS = 600, 4, 37


def make_data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    return X, X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=N), rng.uniform(0.5, 2.0, size=N)


def reused(X, y, w, given=lambda X, y, w: (X, y, w)):
    """Yield chunks in the same three arrays, which are overwritten for the next chunk and after the last."""
    buffers = [np.empty((ROWS, *part.shape[1:]), part.dtype) for part in (X, y, w)]
    for start in range(0, len(X), ROWS):
        views = []
        for buffer, part in zip(buffers, (X, y, w), strict=True):
            view = buffer[: len(part[start : start + ROWS])]
            view[:] = part[start : start + ROWS]
            views.append(view)
        yield given(*views)
        for buffer in buffers:
            buffer[:] = 7 if buffer.dtype.kind in "fiu" else buffer[0]


def names(X):
    return {f"x{d}": X[:, d] for d in range(X.shape[1])}


def csr_of(X):
    """Return a sparse matrix that shares the memory of an array."""
    return sparse.csr_array((X.ravel(), np.tile(np.arange(D), len(X)), np.arange(len(X) + 1) * D), shape=X.shape)


KINDS = {
    "arrays": lambda X, y, w: (X, y, w),
    "one column": lambda X, y, w: (X[:, :1], y, w),
    "fortran": lambda X, y, w: (X.T.reshape(D, -1).T, y, w),
    "csr": lambda X, y, w: (csr_of(X), y, w),
    "pandas": lambda X, y, w: (pd.DataFrame(X, columns=list(names(X)), copy=False), y, w),
    "polars": lambda X, y, w: (pl.DataFrame(names(X)), pl.Series(y), w),
    "arrow": lambda X, y, w: (pa.table({name: np.ascontiguousarray(x) for name, x in names(X).items()}), y, w),
    "array API": lambda X, y, w: (array_api_strict.asarray(X), array_api_strict.asarray(y), w),
    "list": lambda X, y, w: [X, y, w],
    "memory": lambda X, y, w: (X, memoryview(y), memoryview(w)),  # as array.array and ctypes have
}


def losses():
    yield "squared", AnytimeRegressor(), lambda y: y
    yield "squared, cv", AnytimeRegressor(alpha="auto"), lambda y: y
    yield "poisson", AnytimeRegressor(loss="poisson", rule="score"), lambda y: np.floor(np.abs(y))
    yield "logistic", AnytimeClassifier(rule="omp"), lambda y: (y > 0).astype(int)
    yield "labels", AnytimeClassifier(rule="omp"), lambda y: np.array(["no", "yes"])[(y > 0).astype(int)]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_outlive_the_memory_that_they_came_in(kind, again):
    X, y, w = make_data()
    start = lambda: reused(X, y, w, KINDS[kind])  # noqa: E731
    parts = list(open_data(start if again else start()).partitions)
    chunks = [chunk for part in parts for chunk in part.chunks(None)]
    found = [chunk.X.toarray() if kind == "csr" else chunk.X for chunk in chunks]
    np.testing.assert_array_equal(np.concatenate(found), X[:, :1] if kind == "one column" else X)
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), y)
    np.testing.assert_array_equal(np.concatenate([chunk.weight for chunk in chunks]), w)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_sees_every_chunk(kind):
    X, y, w = make_data()
    table = KINDS[kind](X, y, w)[0]
    known = AnytimeRegressor().fit(table, y, sample_weight=w)
    found = AnytimeRegressor().fit(open_data(reused(X, y, w, KINDS[kind])))
    np.testing.assert_allclose(found.predict(table), known.predict(table), rtol=1e-9)


@pytest.mark.parametrize("loss", [name for name, _, _ in losses()])
def test_every_loss_sees_the_rows_of_a_function_that_reuses_memory(loss):
    [(model, target)] = [(model, target) for name, model, target in losses() if name == loss]
    X, y, w = make_data()
    y = target(y)
    fitted = model.fit(open_data(lambda: reused(X, y, w)))
    other = type(model)(**model.get_params()).fit(open_data((X, y, w)))
    assert fitted.sequence_.groups == other.sequence_.groups
    known = budget_curve(other, X, y, sample_weight=w)
    np.testing.assert_allclose(budget_curve(fitted, X, y, sample_weight=w).values, known.values, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        budget_curve(fitted, open_data(lambda: reused(X, y, w))).values, known.values, rtol=1e-6, atol=1e-9
    )


def test_raw_columns_whose_memory_is_used_again():
    X, y, w = make_data()
    given = KINDS["polars"]
    found = AnytimeRegressor(encoding=Encoding()).fit(open_data(lambda: reused(X, y, w, given)))
    known = AnytimeRegressor(encoding=Encoding()).fit(open_data(lambda: iter([given(X, y, w)])))
    np.testing.assert_allclose(found.predict(pl.DataFrame(names(X))), known.predict(pl.DataFrame(names(X))), rtol=1e-6)


def test_a_chunk_that_cannot_be_copied_is_named():
    X, y, w = make_data()
    twice = pd.DataFrame(X, columns=list("abca"))
    with pytest.raises(ValueError, match=r"chunk 1: .*unique column names"):
        AnytimeRegressor().fit(open_data(iter([(X, y, w), (twice, y, w)])))


def test_two_sources_may_share_a_buffer():
    """The first chunk is read when a source is opened, and used when it is fitted."""
    X, y, w = make_data()
    buffer = np.empty((N // 2, D))

    def halves(X):
        for start in (0, N // 2):
            buffer[:] = X[start : start + N // 2]
            yield buffer, y[start : start + N // 2], w[start : start + N // 2]

    first = open_data(halves(X))
    open_data(halves(np.zeros_like(X)))
    known = AnytimeRegressor().fit(X, y, sample_weight=w)
    np.testing.assert_allclose(AnytimeRegressor().fit(first).predict(X), known.predict(X), rtol=1e-9)


def test_tasks_of_dask_do_not_share_a_buffer():
    pytest.importorskip("dask")
    from budgetline.moments.passes import ChunkMoments
    from budgetline.moments.sums import sum_with_dask

    X, y, w = make_data()
    source = open_data(lambda: reused(X, y, w))
    found = sum_with_dask(source, ChunkMoments(None, ()), None, None)
    np.testing.assert_allclose(found.mean[:D], np.average(X, axis=0, weights=w), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("again", [False, True])
def test_a_cursor_is_read_in_the_thread_that_made_it(again):
    X, y, w = make_data()
    connection = sqlite3.connect(":memory:")
    connection.execute("create table rows (a, b, c, d, y, w)")
    connection.executemany("insert into rows values (?, ?, ?, ?, ?, ?)", np.column_stack([X, y, w]).tolist())

    def chunks():
        cursor = connection.execute("select * from rows")
        while rows := cursor.fetchmany(ROWS):
            block = np.array(rows)
            yield block[:, :D], block[:, D], block[:, D + 1]

    known = AnytimeRegressor().fit(X, y, sample_weight=w)
    found = AnytimeRegressor().fit(open_data(chunks if again else chunks()))
    np.testing.assert_allclose(found.predict(X), known.predict(X), rtol=1e-9)


class Window:
    """A table that is read by slices, in a buffer, by the thread that made it: like a file of another library."""

    def __init__(self, X):
        self.X, self.shape, self.ndim, self.dtype = X, X.shape, 2, X.dtype
        self.thread, self.buffer = get_ident(), np.empty_like(X)

    def __getitem__(self, rows):
        assert get_ident() == self.thread
        part = self.X[rows]
        self.buffer[: len(part)] = part
        return self.buffer[: len(part)]


def test_a_table_of_another_library_is_read_in_the_callers_thread_and_copied():
    X, y, w = make_data()
    known = AnytimeRegressor().fit(X, y, sample_weight=w)
    found = AnytimeRegressor().fit(open_data((Window(X), y, w), chunk_rows=ROWS))
    np.testing.assert_allclose(found.predict(X), known.predict(X), rtol=1e-9)


FITTED = {
    "squared": (AnytimeRegressor(), lambda y: y),
    "encoded": (AnytimeRegressor(encoding="spline"), lambda y: y),
    "poisson": (AnytimeRegressor(loss="poisson", rule="score"), lambda y: np.floor(np.abs(y))),
    "logistic": (AnytimeClassifier(rule="omp"), lambda y: (y > 0).astype(float)),
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", FITTED)
def test_a_fitted_model_does_not_change_with_the_arrays_it_was_fitted_on(kind, order):
    model, target = FITTED[kind]
    X, y, w = make_data()
    given = [np.array(X, order=order), target(y), w.copy()]
    fitted = clone(model).fit(given[0], given[1], sample_weight=given[2])

    def answers():
        subset = fitted.predict(X, available=["1", "3"])
        return fitted.predict(X), subset, fitted.plan(2.0).groups, fitted.next_groups(["2"]).gains

    before = answers()
    for part in given:
        part[:] = 7.0
    for known, found in zip(before, answers(), strict=True):
        np.testing.assert_array_equal(found, known)
