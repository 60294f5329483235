"""Tables of numbers for Cox models: rossi and gbsg2, which are here, and SUPPORT2, which is read from a folder.

The folder is that of the variable SURVIVAL_DATA, by default ../shared/data/survival next to the repository. This module
needs pandas alone: ``benchmarks/survival_references.py`` uses it in an environment without budgetline.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent / "survival"
REFERENCES = HERE / "references.json"
SURVIVAL = Path(os.environ.get("SURVIVAL_DATA", HERE.parents[3] / "shared" / "data" / "survival"))
SUPPORT2 = SURVIVAL / "support2.csv.gz"
MEASURED = ["age", "num.co", "scoma", "meanbp", "wblc", "hrt", "resp", "temp", "crea", "sod", "diabetes", "dementia"]


def rossi():
    table = pd.read_csv(HERE / "rossi.csv")
    return table.drop(columns=["week", "arrest"]).astype(float), table["week"], table["arrest"]


def gbsg2():
    table = pd.read_csv(HERE / "gbsg2.csv")
    kinds = pd.get_dummies(table[["horTh", "menostat", "tgrade"]], drop_first=True)
    numbers = table[["age", "tsize", "pnodes", "progrec", "estrec"]]
    return kinds.join(numbers).astype(float), table["time"], table["cens"]


def support2():
    """Patients without a missing value in the columns that are used."""
    table = pd.read_csv(SUPPORT2, index_col=0).dropna(subset=[*MEASURED, "sex", "dzgroup"])
    kinds = pd.get_dummies(table[["sex", "dzgroup"]], drop_first=True)
    return kinds.join(table[MEASURED]).astype(float), table["d.time"], table["death"]


TABLES = {"rossi": rossi, "gbsg2": gbsg2} | ({"support2": support2} if SUPPORT2.exists() else {})


def survival_table(name):
    """Return a frame of numbers, times and events."""
    X, time, event = TABLES[name]()
    return X, time.to_numpy(np.float64), event.to_numpy() == 1
