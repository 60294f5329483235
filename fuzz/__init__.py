"""A standing campaign of random trials against slow references: ``make fuzz``, or ``python -m fuzz --help``.

Every kind of trial is a module with two functions: ``draw(seed)`` returns a case, a dictionary that JSON can hold;
``check(case)`` raises an error if the library is wrong about it. Some have more: ``smaller(case)`` yields simpler
cases, ``kept(case)`` returns the case as it is worth keeping. Cases that failed lie in ``tests/regressions``, one file
each; the tests replay them.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REGRESSIONS = ROOT / "tests" / "regressions"
KINDS = (
    "problems",
    "glms",
    "certificates",
    "files",
    "commands",
    "scenes",
    "interruptions",
    "raw_columns",
    "loaded_models",
    "row_sets",
)
KERNELS = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX")

# The references, which share no code with the library, belong to the tests; the exact search to the experiments.
for folder in (ROOT / "tests" / "support", ROOT / "experiments"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
