"""From what a user passes to ``fit`` to what ``fit_model`` learns from.

`read_table` checks a table in memory, finds the groups in its columns, checks the target, and encodes raw columns; it
returns a `RowsTraining`. `read_source` does the same for a source, whose rows are read later; it returns `Passes`
over the columns. Both return the `Columns` that were found, which is what a recipe needs to know of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import narwhals as nw

from budgetline.arrays import Float
from budgetline.data.dask import refuse_dask
from budgetline.data.rows import Rows
from budgetline.data.sources import Source
from budgetline.encoding.fitting import encoding_from
from budgetline.encoding.pairs import Bins, bins_of
from budgetline.encoding.raw import RawTable, known_table, raw_data
from budgetline.encoding.settings import Encoding
from budgetline.encoding.summaries import TableSummary
from budgetline.encoding.table import TableEncoding, design_of
from budgetline.fitting import RowsTraining, Task
from budgetline.groups import Layout, as_feature_groups
from budgetline.inputs import MissingValue, NotNumbers, check_table, column_names, numbers_of
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.moments.passes import ChunkSummary, Passes, not_empty, sum_over

CheckedTarget = tuple[Task, Float, Float | None]
"""A checked target: the task, the targets (n, P) and the weights (n,) of the rows."""


class Columns(NamedTuple):
    """The groups among the columns that are read, the encoding of raw columns, and their bins if pairs are sought."""

    layout: Layout
    encoding: TableEncoding | None = None
    bins: tuple[Bins, ...] = ()


@dataclass(frozen=True)
class ColumnSettings:
    """The parameters of an estimator that say what its columns are; ``pairs``: pairs of columns are sought."""

    feature_groups: object
    costs: object
    encoding: Encoding | None
    pairs: bool
    estimator: object

    def layout(self, names: tuple[str, ...] | None, n_features: int) -> Layout:
        """Find the groups in the columns of a table."""
        groups = as_feature_groups(self.feature_groups, self.costs, names, n_features)
        layout = groups.resolve(names, n_features)
        if empty := [name for name, own in zip(groups.names, layout.columns, strict=True) if not own.size]:
            raise ValueError(f"group {shown(empty[0])} has no columns")
        return layout


def read_table(
    X: object, settings: ColumnSettings, target: Callable[[int], CheckedTarget], known: AnytimeModel | None = None
) -> tuple[RowsTraining, Columns]:
    """Check a table in memory, its target, and read the grouped columns; a known model keeps its encoding."""
    if known is not None and known.encoding is None:
        check_table(X, known.columns)
    if settings.encoding is not None:
        return _encoded(X, settings, target, known)
    table = check_table(X, estimator=settings.estimator)
    layout = settings.layout(column_names(X), table.shape[1])
    task, Y, weight = target(table.shape[0])
    read = None if layout.reads_all else layout.read
    if isinstance(table, nw.DataFrame):
        rows = Rows(numbers_of(table, read), Y, weight)
    else:
        rows = Rows(numbers_of(table), Y, weight, read)
    return RowsTraining(rows, layout, task), Columns(layout)


def _encoded(
    X: object, settings: ColumnSettings, target: Callable[[int], CheckedTarget], known: AnytimeModel | None
) -> tuple[RowsTraining, Columns]:
    """Read raw columns and encode them."""
    how, encoding = settings.encoding, None if known is None else known.encoding
    bins: tuple[Bins, ...] = ()
    assert how is not None
    data, names = raw_data(X)
    if encoding is None:
        how.check_columns(names, data.shape[1])
    task, Y, weight = target(data.shape[0])
    if encoding is None:
        source = settings.layout(names, data.shape[1])
        table = RawTable.of(data, source, source.read)
        encoding, bins = _fitted(TableSummary.of(table, source, how, weight), source, how, settings.pairs)
    else:
        assert known is not None
        table, watch = known_table(X, encoding.source, encoding.source.read), known.watch()
        encoding.note(table, watch)
        watch.warn()
    # least squares takes moments of the design columns, and reads them again only if these are ill conditioned
    design = design_of(table, encoding, at_once=not task.squared_error)
    return RowsTraining(Rows(design, Y, weight), encoding.layout, task), Columns(encoding.layout, encoding, bins)


def read_source(passes: Passes, settings: ColumnSettings) -> tuple[Passes, Columns]:
    """Find the groups in the columns of a source; an encoding takes a pass, and later passes read design columns."""
    source, how = passes.source, settings.encoding
    layout = settings.layout(source.feature_names, source.n_features)
    if how is None:
        return passes, Columns(layout)
    how.check_columns(source.feature_names, source.n_features)
    raw = source.raw().reading(dict.fromkeys(how.as_categories, "text"))
    summary = ChunkSummary(layout, how)
    found = not_empty(sum_over(raw, summary, layout.read, client=passes.client, progress=passes.progress))
    encoding, bins = _fitted(found, layout, how, settings.pairs)
    passes = Passes(raw.encoded(encoding), passes.client, passes.progress, passes.count + 1)
    return passes, Columns(encoding.layout, encoding, bins)


def _fitted(
    summary: TableSummary, source: Layout, how: Encoding, pairs: bool
) -> tuple[TableEncoding, tuple[Bins, ...]]:
    """Fit the encoders of raw columns, and bin their values if pairs are sought."""
    encoding = encoding_from(summary, source, how)
    return encoding, bins_of(summary, encoding.encoders) if pairs else ()


def source_of(X: object, y: object, sample_weight: object, client: object) -> Source | None:
    """Return X as a source if it is one; None for tables, which take no source options."""
    if isinstance(X, Source):
        if y is not None or sample_weight is not None:
            raise ValueError("a source holds its own targets and weights: pass neither y nor sample_weight")
        return X
    refuse_dask(X)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None; sources hold it (open_data)")
    if client is not None:
        raise ValueError("client is for sources: open_data makes one from a table")
    return None


@contextmanager
def advising(encoding: object) -> Iterator[None]:
    """Add to errors about text and missing values that an encoding accepts them, unless there is one."""
    try:
        yield
    except ValueError as error:
        found = error if isinstance(error, MissingValue | NotNumbers) else error.__cause__
        if encoding is not None or not isinstance(found, MissingValue | NotNumbers):
            raise
        raise ValueError(f"{error}; encoding='spline' accepts text and missing values") from error
