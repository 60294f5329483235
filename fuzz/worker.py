"""A process that checks cases, one after another: ``python -m fuzz.worker`` reads them as lines, and answers in lines.

It is bounded in memory. What it prints besides goes nowhere: answers go to a copy of stdout that only it has.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from typing import Any

from fuzz import KINDS, trials

MEMORY = 8 * 2**30
"""Bytes of address space that a worker may take."""


def blas() -> list[str]:
    """Return the kernels that the linear algebra in use has chosen."""
    import numpy as np
    import scipy.linalg
    from threadpoolctl import threadpool_info

    A = np.eye(50) + 0.1
    scipy.linalg.cho_solve(scipy.linalg.cho_factor(A @ A.T), A)  # a kernel that cannot run here dies now
    return sorted({str(info.get("architecture")) for info in threadpool_info() if info["user_api"] == "blas"})


def prepared() -> dict[str, Any]:
    """Get everything ready, so that no case has to wait for it; say what is missing."""
    try:
        for kind in KINDS:
            trials.prepare(kind)
    except Exception:
        return {"failed": traceback.format_exc()[-2000:]}
    return {"failed": None}


def result(request: dict[str, Any]) -> dict[str, Any]:
    """Check one case; or say what else may be worth knowing of it."""
    kind, case = request["kind"], request["case"]
    if request["do"] == "draw":
        return {"case": trials.module_of(kind).draw(case)}
    if request["do"] == "smaller":
        return {"cases": trials.smaller(kind, case), "kept": trials.kept(kind, case)}
    try:
        trials.check(kind, case)
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"
        place = f"{os.path.basename(last.filename)}:{last.name}"
        return {"failed": text[:2000], "at": place, "traceback": traceback.format_exc()[-6000:]}
    return {"failed": None}


def main() -> None:
    """Answer every line of stdin."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps({"blas": blas()}), file=answers, flush=True)
    print(json.dumps(prepared()), file=answers, flush=True)
    for line in requests:
        print(json.dumps(result(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
