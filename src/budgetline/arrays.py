"""Names of the array types that signatures share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]
Array = NDArray[Any]
"""Of any dtype: labels, float32 data."""
DType = np.dtype[Any]
Table: TypeAlias = Any
"""A dense array or a sparse matrix of shape (n, D); SciPy's matrices have no static types."""
