"""Arrow tables and datasets, data frames and polars lazy frames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from budgetline.arrays import Positions
from budgetline.data.marks import Mark
from budgetline.data.roles import Roles, arrow, guarded
from budgetline.data.sources import Chunk, Partition

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


@dataclass(frozen=True)
class TablePartition(Partition):
    """A data frame or Arrow table in memory, as a narwhals frame."""

    frame: nw.DataFrame[Any]
    roles: Roles

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.frame.shape[0]

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Yield slices of the table."""
        arrow()  # before narwhals imports it, whose error names no extra
        table = self.frame.select(self.roles.wanted(columns)).to_arrow()
        for start in range(0, table.num_rows, self.roles.chunk_rows):
            [batch] = table.slice(start, self.roles.chunk_rows).combine_chunks().to_batches()
            yield self.roles.chunk(batch, columns, f"rows {start} to {start + batch.num_rows - 1}", start)


@dataclass(frozen=True)
class FragmentPartition(Partition):
    """One fragment of an Arrow dataset; if it is a file of this machine, with its mark."""

    fragment: pa.dataset.Fragment
    schema: pa.Schema
    roles: Roles
    mark: Mark | None

    @classmethod
    def of(cls, fragment: pa.dataset.Fragment, schema: pa.Schema, roles: Roles) -> FragmentPartition:
        """Mark the file, if there is one."""
        local = type(getattr(fragment, "filesystem", None)).__name__ == "LocalFileSystem"
        return cls(fragment, schema, roles, Mark.of(Path(fragment.path)) if local else None)

    def anew(self) -> FragmentPartition:
        """Return the partition of the file as it is now."""
        return self if self.mark is None else replace(self, mark=self.mark.anew())

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Read the fragment with little read ahead: the defaults let memory grow with the data."""
        where = str(getattr(self.fragment, "path", None) or "fragment in memory")
        batches = self.fragment.to_batches(
            schema=self.schema,
            columns=self.roles.wanted(columns),
            batch_size=self.roles.chunk_rows,
            batch_readahead=1,
            fragment_readahead=1,
        )
        with nullcontext() if self.mark is None else self.mark.held(where):
            for k, batch in enumerate(guarded(batches, where)):
                yield self.roles.chunk(batch, columns, f"{where}, batch {k}")


@dataclass(frozen=True)
class LazyFramePartition(Partition):
    """A polars LazyFrame, run by its streaming engine."""

    frame: pl.LazyFrame
    roles: Roles

    def chunks(self, columns: Positions | None) -> Iterator[Chunk]:
        """Run the query and yield its batches."""
        query = self.frame.select(self.roles.wanted(columns))
        for k, frame in enumerate(query.collect_batches(chunk_size=self.roles.chunk_rows, engine="streaming")):
            for chunk in TablePartition(nw.from_native(frame), self.roles).chunks(columns):
                yield replace(chunk, where=f"batch {k} of the lazy frame")
