"""Libraries of arrays and their devices, for tests that run with all of them."""

import importlib.util
from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Library:
    """A library of arrays and one of its devices."""

    name: str
    device: str

    def put(self, values):
        """Return a NumPy array as an array of the library, on its device; None stays."""
        if values is None:
            return None
        values = np.array(values)
        if self.name == "array_api_strict":
            import array_api_strict

            return array_api_strict.asarray(values, device=array_api_strict.Device(self.device))
        if self.name == "torch":
            import torch

            torch.set_num_threads(1)  # more would wait for each other while other tests run
            return torch.asarray(values, device=self.device)
        import cupy

        return cupy.asarray(values)

    def holds(self, values):
        """Return whether an array is one of the library, on its device."""
        if not type(values).__module__.startswith(self.name):
            return False
        return self.name == "cupy" or self.device in str(values.device)

    def host(self, values):
        """Return an array of the library as a NumPy array, without the code that is tested."""
        if self.name == "array_api_strict":
            import array_api_strict

            return np.asarray(array_api_strict.asarray(values, device=array_api_strict.Device("CPU_DEVICE")))
        return values.cpu().numpy() if self.name == "torch" else values.get()


def _marks(library):
    if importlib.util.find_spec(library.name) is None:
        return [pytest.mark.skip(reason=f"{library.name} is not installed")]
    if library.device == "cuda" and not _has_gpu(library.name):
        return [pytest.mark.skip(reason="there is no GPU")]
    return []


def _has_gpu(name):
    if name == "torch":
        import torch

        return torch.cuda.is_available()
    import cupy

    return cupy.is_available()


LIBRARIES = (
    Library("array_api_strict", "device1"),
    Library("torch", "cpu"),
    Library("torch", "cuda"),
    Library("cupy", "cuda"),
)
every_library = pytest.mark.parametrize(
    "library", [pytest.param(one, marks=_marks(one), id=f"{one.name}-{one.device}") for one in LIBRARIES]
)
