"""Where rows come from: arrays, frames, files, iterators and dask."""

from budgetline.data.opening import open_data
from budgetline.data.sources import Source

__all__ = ["Source", "open_data"]
