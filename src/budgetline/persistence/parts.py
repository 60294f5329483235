"""Fields and arrays of a file, taken out one by one, with types and sizes checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetline.messages import shown

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """What a file holds; every method raises a ValueError that names the part which is not as it should be.

    Examples
    --------
    >>> from budgetline.persistence.parts import Parts
    >>> Parts({"n_passes": 3}, {}).whole("n_passes")
    3
    """

    fields: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    taken: set[str] = field(default_factory=set)

    def any(self, name: str) -> Any:
        """Return a field of any type."""
        if name not in self.fields:
            raise ValueError(f"{name} is missing")
        self.taken.add(name)
        return self.fields[name]

    def whole(self, name: str, least: int = 0) -> int:
        """Return a whole number, not below ``least``."""
        value = self.any(name)
        if type(value) is not int or value < least:
            raise ValueError(f"{name} is {shown(value)}, not a whole number ≥ {least}")
        return value

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self.any(name)
        if type(value) is not float or not math.isfinite(value):
            raise ValueError(f"{name} is {shown(value)}, not a number")
        return value

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.any(name)
        if not isinstance(value, str):
            raise ValueError(f"{name} is {shown(value)}, not a text")
        return value

    def list_of(self, name: str, kind: type) -> list[Any]:
        """Return a list of entries of one type."""
        return entries_of(name, self.any(name), kind)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a mapping."""
        value = self.any(name)
        if not isinstance(value, dict):
            raise ValueError(f"{name} is not a mapping")
        return value

    def array(self, name: str, dtype: str, *shape: int | None) -> NDArray[Any]:
        """Return an array of this type and shape, of which None may be any length; floats are finite."""
        found = self.loose(name, dtype, *shape)
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise ValueError(f"{name} holds numbers that are not finite")
        return found

    def loose(self, name: str, dtype: str, *shape: int | None) -> NDArray[Any]:
        """Return an array of this type and shape, in which floats may be infinite or missing."""
        if name not in self.arrays:
            raise ValueError(f"{name} is missing")
        self.taken.add(name)
        found = self.arrays[name]
        fits = len(found.shape) == len(shape) and all(
            k is None or k == n for k, n in zip(shape, found.shape, strict=True)
        )
        if found.dtype != np.dtype(dtype) or not fits:
            raise ValueError(f"{name} is an array of {found.dtype} and shape {found.shape}, not {dtype} and {shape}")
        if found.dtype.kind == "b" and np.any(found.view(np.uint8) > 1):
            raise ValueError(f"{name} holds flags that are neither true nor false")
        return found

    def check_all_taken(self) -> None:
        """Raise an error if something is left that nothing asked for."""
        if left := sorted((set(self.fields) | set(self.arrays)) - self.taken):
            raise ValueError(f"{shown(left[0])} is not known here")


def entries_of(name: str, value: Any, kind: type) -> list[Any]:
    """Return a list whose entries are of one type."""
    if not isinstance(value, list) or not all(type(entry) is kind for entry in value):
        raise ValueError(f"{name} is not a list of {kind.__name__}")
    return value
