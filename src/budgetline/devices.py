"""Arrays of other libraries on any device: PyTorch, CuPy, and all others that follow the array API standard.

Large arrays stay on their device and are multiplied there, a chunk of rows at a time. Small ones are copied to
the host, as NumPy arrays. Arrays of other libraries have the static type of NumPy's: they follow the same standard.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from threading import local
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from budgetline.arrays import Array, DType, Float, Positions
from budgetline.messages import shown

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
PINNED_BYTES = 1 << 26
"""Up to this size, arrays are copied from a GPU through pinned memory, which takes a tenth of the time."""
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
    def has_bits(self) -> bool:
        """Whether the bits of doubles can be viewed as integers; that is not part of the standard."""
        return self.library in ("torch", "cupy")

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

    def bits(self, values: Float) -> Float:
        """Return the bits of doubles as integers."""
        return values.view(self.xp.int64)

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
        """Give this thread its own queue of work on a GPU of PyTorch, so that copies and products overlap.

        Its work begins when the default queue is done, which may still be filling a table on the device.
        """
        queue: Any = nullcontext()
        if self._cuda_of_torch:
            cuda, lanes, name = self.xp.cuda, vars(_own), str(self)
            if name not in lanes:
                lanes[name] = cuda.Stream(self.where)
            lanes[name].wait_stream(cuda.default_stream(self.where))
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
        raise ValueError(f"device={shown(name)} is not a device of PyTorch: give 'cuda', 'cuda:1' or 'cpu'") from error
    if where.type == "cuda" and not (where.index or 0) < torch.cuda.device_count():
        raise ValueError(f"device={shown(name)}: PyTorch finds {torch.cuda.device_count()} GPUs here")
    if where.type == "mps":
        raise ValueError(f"device={shown(name)} has no numbers of double precision, which fits need")
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
