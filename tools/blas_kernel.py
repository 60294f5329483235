"""Print which kernels the BLAS libraries of NumPy and SciPy take: OPENBLAS_CORETYPE asks, the library decides."""

import scipy.linalg  # noqa: F401  (loads its own BLAS)
from threadpoolctl import threadpool_info

print(", ".join(sorted({str(library.get("architecture")) for library in threadpool_info()})))
