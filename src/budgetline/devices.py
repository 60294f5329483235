"""Arrays of other libraries on any device: PyTorch, CuPy, and all others that follow the array API standard.

Large tables stay on their device and are multiplied there, a chunk of rows at a time, in smaller chunks if memory
runs out. Small ones are copied to the host, as NumPy arrays. Arrays of other libraries have the static type of
NumPy's: they follow the same standard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from importlib import import_module
from operator import iadd
from threading import local
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from budgetline.arrays import Array, DType, Float, Positions
from budgetline.messages import shown

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
PINNED_BYTES = 1 << 26
"""Up to this size, arrays are copied from a GPU through pinned memory, which takes a tenth of the time."""
SMALL_BYTES = 1 << 18
"""Tables of at most this many bytes are copied to the host: starting work on a device takes longer."""
CHUNK_BYTES = 1 << 28
"""Size of the rows that are multiplied at once: large enough for any device, and small compared with its memory."""
LEAST_ROWS = 256
"""Chunks are not made smaller than this when memory runs out."""
Index = slice | Positions | list[int]
ChunkResult = TypeVar("ChunkResult")
T = TypeVar("T")
_own = local()
"""The queues of work of each thread, by the name of the device."""


@dataclass(frozen=True)
class Device:
    """A library of arrays and one of its devices: one name for functions that libraries name differently."""

    xp: ModuleType
    where: Any

    @property
    def library(self) -> str:
        """The name of the library."""
        return self.xp.__name__.partition(".")[0]

    @property
    def double(self) -> bool:
        """Whether the device has double precision; JAX has it only if ``jax_enable_x64`` is set."""
        if self.library == "jax":
            return bool(sys.modules["jax"].config.jax_enable_x64)
        return not (self.library == "torch" and str(self.where).startswith("mps"))

    @property
    def writable(self) -> bool:
        """Whether parts of an array can be written; that is not part of the standard."""
        return self.library != "jax"

    @property
    def _cuda_of_torch(self) -> bool:
        return self.library == "torch" and str(self.where).startswith("cuda")

    def put(self, values: Array) -> Float:
        """Return a copy of a NumPy array on the device."""
        found: Any
        if self.library == "torch":
            whole = values if values.flags.writeable and min(values.strides, default=0) >= 0 else values.copy()
            found = self.xp.from_numpy(whole).to(self.where)
            found = found.clone() if str(self.where) == "cpu" else found
        elif self.library == "cupy":
            with self.where:
                found = self.xp.asarray(values)
        else:
            found = self.xp.asarray(values, device=self.where, copy=True)
        return cast(Float, found)

    def numpy(self, values: Any) -> Array:
        """Return an array of the device as a NumPy array, which may share its memory."""
        found: Array
        if self.library == "torch":
            tensor = values.detach()
            if tensor.is_cuda and tensor.nbytes <= PINNED_BYTES:
                tensor = self.xp.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
            found = tensor.cpu().numpy()
        elif self.library == "cupy":
            found = values.get()
        elif self.library == "array_api_strict":
            found = np.asarray(self.xp.asarray(values, device=self.xp.Device("CPU_DEVICE")))
        else:
            found = np.asarray(values)
        return found

    def cast(self, values: Any, dtype: DType) -> Float:
        """Return an array with numbers of another type; the same array if it already has this type."""
        wanted = getattr(self.xp, dtype.name)
        if values.dtype != wanted:
            values = values.to(wanted) if self.library == "torch" else self.xp.astype(values, wanted)
        return cast(Float, values)

    def take(self, values: Float, index: Float, axis: int) -> Float:
        """Return some rows or columns, at positions that are on the device."""
        if self.library == "torch":
            return cast(Float, self.xp.index_select(values, axis, index))
        return cast(Float, self.xp.take(values, index, axis=axis))

    def permuted(self, values: Float, axes: tuple[int, ...]) -> Float:
        """Return the array with its axes in another order."""
        names = ("permute_dims", "permute", "transpose")
        return cast(Float, getattr(self.xp, next(name for name in names if hasattr(self.xp, name)))(values, axes))

    def positions(self, index: Positions) -> Float:
        """Return positions on the device."""
        return self.put(np.asarray(index, dtype=np.int64))

    def zeros(self, shape: tuple[int, ...]) -> Float:
        """Return zeros of double precision, made on the device."""
        if self.library == "cupy":
            with self.where:
                return cast(Float, self.xp.zeros(shape))
        return cast(Float, self.xp.zeros(shape, dtype=self.xp.float64, device=self.where))

    def free_bytes(self) -> int | None:
        """Return how much memory is free; None if the library does not say."""
        if self._cuda_of_torch:
            return int(self.xp.cuda.mem_get_info(self.where)[0])
        if self.library == "cupy":
            self.release()
            with self.where:
                return int(self.xp.cuda.runtime.memGetInfo()[0])
        return None

    def release(self) -> None:
        """Free the memory that the library keeps for later."""
        if self._cuda_of_torch:
            self.xp.cuda.empty_cache()
        elif self.library == "cupy":
            self.xp.get_default_memory_pool().free_all_blocks()

    @contextmanager
    def lane(self) -> Iterator[None]:
        """Give this thread its own queue of work on a GPU of PyTorch, so that copies and products overlap."""
        queue: Any = nullcontext()
        if self._cuda_of_torch:
            cuda, lanes, name = self.xp.cuda, vars(_own), str(self)
            if name not in lanes:
                lanes[name] = cuda.Stream(self.where)
            lanes[name].wait_stream(cuda.default_stream(self.where))  # it may still be filling a table
            queue = cuda.stream(lanes[name])
        with queue:
            yield

    def __str__(self) -> str:
        return f"{self.library} on {self.where}"


def library_of(values: Any) -> ModuleType:
    """Return the functions that work on an array: NumPy's, or those of its own library."""
    name = "numpy" if isinstance(values, np.ndarray) else _without_standard(values)
    return sys.modules[name] if name else cast(ModuleType, values.__array_namespace__())


def device_of(value: object) -> Device | None:
    """Return the device of an array of another library; None for anything else, such as a NumPy array."""
    if isinstance(value, np.ndarray | np.generic):
        return None
    if not _without_standard(value) and not hasattr(value, "__array_namespace__"):
        return None
    library = library_of(value)
    return None if library is np else Device(library, getattr(value, "device", None))


def _without_standard(value: object) -> str:
    """Return the library of a PyTorch tensor or CuPy array, "" for others; it imports neither."""
    for name, kind in (("torch", "Tensor"), ("cupy", "ndarray")):
        library = sys.modules.get(name)
        if library is not None and isinstance(value, getattr(library, kind)):
            return name
    return ""


def named_device(name: str) -> Device:
    """Return a device of PyTorch by its name, such as "cuda:1"."""
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise ImportError(f"device={shown(name)} needs PyTorch: install it") from error
    try:
        where = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={shown(name)} is not a device of PyTorch: pass 'cuda', 'cuda:1' or 'cpu'") from error
    if where.type == "cuda" and not (where.index or 0) < torch.cuda.device_count():
        raise ValueError(f"device={shown(name)}: PyTorch finds {torch.cuda.device_count()} GPUs on this machine")
    if where.type == "mps":
        raise ValueError(f"device={shown(name)} does not support double precision, which fits need")
    return Device(torch, where)


def with_values(values: Float, constants: Float) -> Float:
    """Return constants, a NumPy array, on the device of an array."""
    device = device_of(values)
    return constants if device is None else device.put(constants)


def largest(values: Float, axis: int) -> Float:
    """Return the largest numbers along an axis, of an array of any library."""
    xp = library_of(values)
    return cast(Float, (xp.amax if hasattr(xp, "amax") else xp.max)(values, axis=axis))


def on_host(value: T) -> T:
    """Return an array of another library as a NumPy array; anything else as it is."""
    device = device_of(value)
    return value if device is None else cast(T, device.numpy(value))


def like(given: object, found: Array) -> Array:
    """Return an array as one of the library and device of ``given``; text labels stay NumPy arrays."""
    device = device_of(given)
    if device is None or found.dtype.kind not in "biuf":
        return found
    return device.put(found if device.double or found.dtype != DOUBLE else found.astype(SINGLE))


# -- tables ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """A table (n, D) on a device, indexed like an array: ``[rows]`` or ``[rows, columns]``, without a copy for slices.

    NumPy's functions, and ``numpy.asarray``, copy it to the host. None: all columns of the array.
    """

    array: Float
    device: Device
    columns: Positions | None = None
    ndim = 2

    @cached_property
    def dtype(self) -> DType:
        """The type of the numbers, as NumPy calls it."""
        name = str(self.array.dtype).rpartition(".")[2]
        try:
            found = np.dtype(name)
        except TypeError:
            raise ValueError(f"X holds {name} numbers: convert them to float32 or float64") from None
        if found.kind == "c":
            raise ValueError("Complex data not supported: X holds complex numbers")
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, D)."""
        n, D = self.array.shape
        return int(n), int(D) if self.columns is None else self.columns.size

    @cached_property
    def _index(self) -> Float | None:
        """The columns, on the device."""
        return None if self.columns is None else self.device.positions(self.columns)

    @property
    def plain(self) -> bool:
        """Whether all columns of the array are read, and are doubles: blocks are then views."""
        return self.columns is None and self.dtype == DOUBLE

    def block(self, rows: slice, dtype: DType = DOUBLE, columns: Float | None = None) -> Float:
        """Return rows on the device, with numbers of this type; ``columns`` are positions on the device."""
        found = self.array[rows, ...]
        for index in (self._index, columns):
            found = found if index is None else self.device.take(found, index, 1)
        return self.device.cast(found, dtype)

    def __getitem__(self, index: Index | tuple[Index, Index]) -> DeviceTable:
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        table = self
        if isinstance(rows, slice):
            if rows != slice(None):
                table = replace(table, array=table.array[slice(*rows.indices(self.shape[0])), ...])
        else:
            places = self.device.positions(_places(rows))
            table = replace(table, array=self.device.take(table.array, places, 0))
        if isinstance(columns, slice) and self.columns is None:
            return table if columns == slice(None) else replace(table, array=table.array[:, columns])
        known = np.arange(self.array.shape[1]) if self.columns is None else self.columns
        return replace(table, columns=known[columns if isinstance(columns, slice) else _places(columns)])

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> Array:
        found = self.array if self._index is None else self.device.take(self.array, self._index, 1)
        return np.array(on_host(found), dtype=dtype, copy=copy)

    def __matmul__(self, W: Float) -> Float:
        """Return the product with W (D, m), computed on the device, on the host."""
        right = self.device.put(np.ascontiguousarray(W, dtype=np.float64))
        return on_host(self.joined(lambda s: self.block(s) @ right, at_once=True))

    def sum(self, dtype: DType) -> float:
        """Return the sum of all numbers, in numbers of this type."""
        total = self.summed(lambda s: self.device.xp.sum(self.block(s, np.dtype(dtype)), axis=0))
        with np.errstate(invalid="ignore"):
            return float(on_host(total).sum())

    def __abs__(self) -> Array:
        return np.asarray(np.abs(np.asarray(self)))

    @property
    def chunk_bytes(self) -> int:
        """Size of the rows that are multiplied at once: also small compared with the table."""
        n, D = self.shape
        return min(CHUNK_BYTES, max(1 << 20, n * D))

    @property
    def chunk_rows(self) -> int:
        """Number of rows of a chunk."""
        return max(LEAST_ROWS, self.chunk_bytes // (8 * max(self.shape[1], 1)))

    def summed(self, work: Callable[[slice], Float], *, at_once: bool = False) -> Float:
        """Return the sum of what ``work`` returns for chunks of rows, on the device.

        ``at_once``: the work makes no large arrays. If blocks are views, too, all rows are one chunk.
        """
        return reduce(iadd, self._over_chunks(work, at_once))

    def mapped(self, work: Callable[[slice], ChunkResult], *, at_once: bool = False) -> list[ChunkResult]:
        """Return the results of ``work`` for chunks of rows, in order; as above."""
        return list(self._over_chunks(work, at_once))

    def joined(self, work: Callable[[slice], Float], *, at_once: bool = False) -> Float:
        """Return what ``work`` returns for chunks of rows (m, …), one after another, on the device; as above."""
        parts = self.mapped(work, at_once=at_once)
        joined: Float = parts[0] if len(parts) == 1 else self.device.xp.concat(parts, axis=0)
        return joined

    def _over_chunks(self, work: Callable[[slice], ChunkResult], at_once: bool) -> Iterator[ChunkResult]:
        """Yield the work on chunks of rows; they are made smaller if memory runs out."""
        n, start = self.shape[0], 0
        size = n if at_once and self.plain else self.chunk_rows
        while start < n:
            rows = slice(start, min(start + size, n))
            found = self._attempt(work, rows)
            if found is not None:
                yield found
                start = rows.stop
            elif (tried := rows.stop - rows.start) < 2 * LEAST_ROWS:
                what = f"has no memory left for {tried} rows of {self.shape[1]} columns, in addition to the table"
                raise MemoryError(
                    f"{self.device} {what}: fit on fewer rows, or stream them, open_data(..., device=...)"
                )
            else:
                size = min(tried // 2, self.chunk_rows)

    def _attempt(self, work: Callable[[slice], ChunkResult], rows: slice) -> ChunkResult | None:
        """Return the work on some rows, None if there is not enough memory for it."""
        try:
            return work(rows)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        self.device.release()
        return None


def on_device(given: object) -> object:
    """Return an array of another library as a table on its device; small tables, and anything else, on the host."""
    device = device_of(given)
    if device is None:
        return given
    array: Float = given.detach() if device.library == "torch" else given  # type: ignore[attr-defined, assignment]
    if len(array.shape) != 2 or not device.double:
        return on_host(array)
    table = DeviceTable(array, device)
    return on_host(array) if table.dtype.itemsize * table.shape[0] * table.shape[1] <= SMALL_BYTES else table


def moved(table: Array, device: Device) -> Array | DeviceTable:
    """Return a copy of a table on a device; small tables, sparse matrices and device tables stay."""
    if not isinstance(table, np.ndarray) or table.nbytes <= SMALL_BYTES:
        return table
    numbers = table if table.dtype in (DOUBLE, SINGLE) else table.astype(DOUBLE)
    return DeviceTable(device.put(numbers), device)


def out_of_memory(error: Exception) -> bool:
    """Return whether an error of a library says that there is not enough memory."""
    text = f"{type(error).__name__} {error}"
    return isinstance(error, MemoryError) or "OutOfMemory" in text or "RESOURCE_EXHAUSTED" in text


def _places(index: Positions | list[int]) -> Positions:
    places = np.asarray(index)
    return np.flatnonzero(places) if places.dtype == bool else places.astype(np.intp)
