"""Arrays of other libraries on any device: PyTorch, CuPy, and all others that follow the array API standard.

Large arrays stay on their device and are multiplied there, a chunk of rows at a time. Small ones are copied to
the host, as NumPy arrays. Arrays of other libraries have the static type of NumPy's: they follow the same standard.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from threading import local
from types import ModuleType
from typing import TypeVar, cast

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
    where: object

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

    def put(self, values: Array) -> Float:
        """Return a copy of a NumPy array on the device."""
        found: Float
        if self.library == "torch":
            whole = values if values.flags.writeable and min(values.strides, default=0) >= 0 else values.copy()
            found = self.xp.from_numpy(whole).to(self.where)
            if str(self.where) == "cpu":
                found = found.clone()  # type: ignore[attr-defined]
        elif self.library == "cupy":
            with self.where:  # type: ignore[attr-defined]
                found = self.xp.asarray(values)
        else:
            found = self.xp.asarray(values, device=self.where, copy=True)
        return found

    def numpy(self, values: object) -> Array:
        """Return an array of the device as a NumPy array, which may share its memory."""
        found: Array
        if self.library == "torch":
            tensor = values.detach()  # type: ignore[attr-defined]
            if tensor.is_cuda and tensor.nbytes <= PINNED_BYTES:
                tensor = self.xp.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor)
            found = tensor.cpu().numpy()
        elif self.library == "cupy":
            found = values.get()  # type: ignore[attr-defined]
        elif self.library == "array_api_strict":
            found = np.asarray(self.xp.asarray(values, device=self.xp.Device("CPU_DEVICE")))
        else:
            found = np.asarray(values)
        return found

    def cast(self, values: Float, dtype: DType) -> Float:
        """Return an array with numbers of another type; the same array if it already has this type."""
        wanted = getattr(self.xp, dtype.name)
        if values.dtype == wanted:
            return values
        found: Float = values.to(wanted) if self.library == "torch" else self.xp.astype(values, wanted)  # type: ignore[attr-defined]
        return found

    def take(self, values: Float, index: Float, axis: int) -> Float:
        """Return some rows or columns, at positions that are on the device."""
        if self.library == "torch":
            found: Float = self.xp.index_select(values, axis, index)
        else:
            found = self.xp.take(values, index, axis=axis)
        return found

    def permuted(self, values: Float, axes: tuple[int, ...]) -> Float:
        """Return the array with its axes in another order."""
        names = ("permute_dims", "permute", "transpose")
        found: Float = getattr(self.xp, next(name for name in names if hasattr(self.xp, name)))(values, axes)
        return found

    def positions(self, index: Positions) -> Float:
        """Return positions on the device."""
        return self.put(np.asarray(index, dtype=np.int64))

    def zeros(self, shape: tuple[int, ...]) -> Float:
        """Return zeros of double precision, made on the device."""
        found: Float
        if self.library == "cupy":
            with self.where:  # type: ignore[attr-defined]
                found = self.xp.zeros(shape)
        else:
            found = self.xp.zeros(shape, dtype=self.xp.float64, device=self.where)
        return found

    @property
    def has_bits(self) -> bool:
        """Whether the bits of doubles can be viewed as integers; that is not part of the standard."""
        return self.library in ("torch", "cupy")

    def bits(self, values: Float) -> Float:
        """Return the bits of doubles as integers."""
        return values.view(self.xp.int64)

    def free_bytes(self) -> int | None:
        """Return how much memory is free; None if the library does not say."""
        if self.library == "torch" and str(self.where).startswith("cuda"):
            return int(self.xp.cuda.mem_get_info(self.where)[0])
        if self.library == "cupy":
            self.release()
            with self.where:  # type: ignore[attr-defined]
                return int(self.xp.cuda.runtime.memGetInfo()[0])
        return None

    @contextmanager
    def lane(self) -> Iterator[None]:
        """Give this thread its own queue of work, so that copies and products overlap.

        Its work begins when the default queue is done, which may still be filling a table on the device.
        """
        lanes, name = vars(_own), str(self)
        if self.library == "torch" and str(self.where).startswith("cuda"):
            if name not in lanes:
                lanes[name] = self.xp.cuda.Stream(self.where)
            lanes[name].wait_stream(self.xp.cuda.default_stream(self.where))
            with self.xp.cuda.stream(lanes[name]):
                yield
        elif self.library == "cupy":
            with self.where:  # type: ignore[attr-defined]
                if name not in lanes:
                    lanes[name] = self.xp.cuda.Stream(non_blocking=True)
                lanes[name].wait_event(self.xp.cuda.Stream.null.record())
                with lanes[name]:
                    yield
        else:
            yield

    @property
    def writable(self) -> bool:
        """Whether parts of an array can be written; that is not part of the standard."""
        return self.library != "jax"

    def release(self) -> None:
        """Free the memory that the library keeps for later."""
        if self.library == "torch" and str(self.where).startswith("cuda"):
            self.xp.cuda.empty_cache()
        elif self.library == "cupy":
            self.xp.get_default_memory_pool().free_all_blocks()

    def __str__(self) -> str:
        return f"{self.library} on {self.where}"


def library_of(values: Array) -> ModuleType:
    """Return the functions that work on an array: NumPy's, or those of its own library."""
    if isinstance(values, np.ndarray):
        return np
    if _is_tensor(values):
        return sys.modules["torch"]
    if _is_of_cupy(values):
        return sys.modules["cupy"]
    found: ModuleType = values.__array_namespace__()
    return found


def device_of(value: object) -> Device | None:
    """Return the device of an array of another library; None for anything else, such as a NumPy array."""
    if isinstance(value, np.ndarray | np.generic) or not _is_array(value):
        return None
    library = library_of(value)  # type: ignore[arg-type]
    return None if library is np else Device(library, getattr(value, "device", None))


def named_device(name: str) -> Device:
    """Return a device by its name, such as "cuda:1": of PyTorch if it is installed, otherwise of CuPy."""
    for library in ("torch", "cupy"):
        try:
            xp = import_module(library)
        except ImportError:
            continue
        return Device(xp, _torch_device(xp, name) if library == "torch" else _cupy_device(xp, name))
    raise ImportError(f"device={shown(name)} needs PyTorch or CuPy: install one of them")


def _torch_device(torch: ModuleType, name: str) -> object:
    try:
        where = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={shown(name)} is not a device of PyTorch: give 'cuda', 'cuda:1' or 'cpu'") from error
    if where.type == "cuda" and not (where.index or 0) < torch.cuda.device_count():
        raise ValueError(f"device={shown(name)}: PyTorch finds {torch.cuda.device_count()} GPUs here")
    if where.type == "mps":
        raise ValueError(f"device={shown(name)} has no numbers of double precision, which fits need")
    return where


def _cupy_device(cupy: ModuleType, name: str) -> object:
    kind, _, number = name.partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise ValueError(f"device={shown(name)} is not a device of CuPy: give 'cuda' or 'cuda:1'")
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if int(number or 0) >= count:
        raise ValueError(f"device={shown(name)}: CuPy finds {count} GPUs here")
    return cupy.cuda.Device(int(number or 0))


def with_values(values: Float, constants: Float) -> Float:
    """Return constants, a NumPy array, on the device of an array."""
    device = device_of(values)
    return constants if device is None else device.put(constants)


def largest(values: Float, axis: int) -> Float:
    """Return the largest numbers along an axis, of an array of any library."""
    xp = library_of(values)
    found: Float = (xp.amax if hasattr(xp, "amax") else xp.max)(values, axis=axis)
    return found


def on_host(value: T) -> T:
    """Return an array of another library as a NumPy array; anything else as it is."""
    device = device_of(value)
    return value if device is None else cast(T, device.numpy(value))


def like(given: object, answer: Array) -> Array:
    """Return an answer as an array of the library and device of ``given``; text labels stay NumPy arrays."""
    device = device_of(given)
    if device is None or answer.dtype.kind not in "biuf":
        return answer
    return device.put(answer if device.double or answer.dtype != DOUBLE else answer.astype(SINGLE))


def _is_array(value: object) -> bool:
    return _is_tensor(value) or _is_of_cupy(value) or hasattr(value, "__array_namespace__")


def _is_of_cupy(value: object) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def _is_tensor(value: object) -> bool:
    """Return whether a value is a tensor of PyTorch, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
