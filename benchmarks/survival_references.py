"""Cox coefficients of lifelines and scikit-survival, which the tests compare with: ``make survival-references``.

scikit-survival is under the GPL and lifelines has many dependencies, so both are in an environment of their own, and
the tests read what is written here: tests/support/survival/references.json. lifelines has Efron's ties alone.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from lifelines import CoxPHFitter
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.util import Surv

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from survival_tables import REFERENCES, TABLES, survival_table

PACKAGES = ("lifelines", "scikit-survival", "numpy", "scipy")


def of_lifelines(X: pd.DataFrame, time: np.ndarray, event: np.ndarray) -> list[float]:
    """Return the coefficients with Efron's ties."""
    table = X.assign(time=time, event=event)
    options = {"precision": 1e-14, "r_precision": 1e-14, "max_steps": 100}
    fitted = CoxPHFitter().fit(table, "time", "event", fit_options=options)
    return fitted.params_[X.columns].tolist()


def of_scikit_survival(X: pd.DataFrame, time: np.ndarray, event: np.ndarray, ties: str) -> list[float]:
    """Return the coefficients, from standardised columns: without them the search reaches fewer digits."""
    mean, scale = X.mean(), X.std(ddof=0)
    model = CoxPHSurvivalAnalysis(ties=ties, tol=1e-14, n_iter=100).fit(
        (X - mean) / scale, Surv.from_arrays(event, time)
    )
    return (model.coef_ / scale).tolist()


def main() -> None:
    """Write the coefficients of all tables, with the versions that made them."""
    found: dict[str, object] = {
        "versions": {name: version(name) for name in PACKAGES} | {"Python": platform.python_version()}
    }
    for name in TABLES:
        X, time, event = survival_table(name)
        found[name] = {
            "columns": X.columns.tolist(), "rows": len(X), "events": int(event.sum()),
            "lifelines, efron": of_lifelines(X, time, event),
            "scikit-survival, efron": of_scikit_survival(X, time, event, "efron"),
            "scikit-survival, breslow": of_scikit_survival(X, time, event, "breslow"),
        }  # fmt: skip
    REFERENCES.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
