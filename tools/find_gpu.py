"""Say which GPUs PyTorch and CuPy find; fail if neither finds one."""

from __future__ import annotations

import sys

from budgetline.devices import Device, named_device

found: list[str] = []
try:
    found.append(str(named_device("cuda")))
except (ImportError, ValueError) as error:
    print(error)
try:
    import cupy

    found.append(str(Device(cupy, cupy.cuda.Device(0))))
except (ImportError, RuntimeError) as error:
    print(f"CuPy: {error}")
print("\n".join(found))
sys.exit(0 if found else "no GPU is found: the tests of device arrays run with make test, on the CPU")
