"""The two functions of docs/large_data.md on Spark in local mode; ``make test-spark`` installs it."""

import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from budgetline import AnytimeRegressor, Moments

pyspark = pytest.importorskip("pyspark", reason="Spark is large: make test-spark installs it and runs this test")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("default"),  # Spark's own
]

FEATURES = ["age", "bmi", "lab"]


def moments(batches):
    import pyarrow as pa

    tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
    total = sum(Moments.from_data(table.select(FEATURES), table["risk"].to_numpy()) for table in tables)
    if total:
        yield pa.RecordBatch.from_pydict({"moments": [total.to_bytes()]})


def test_moments_by_map_in_arrow(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 3)) + 100, columns=FEATURES)
    frame["risk"] = frame @ [1.0, 0.5, 2.0] + rng.normal(size=3000)
    for k in range(3):
        frame[k::3].to_parquet(tmp_path / f"part{k}.parquet", index=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = pyspark.sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        data = spark.read.parquet(str(tmp_path)).select(*FEATURES, "risk").repartition(4)
        rows = data.mapInArrow(moments, "moments binary").collect()
    finally:
        spark.stop()
    total = sum(Moments.from_bytes(bytes(row.moments)) for row in rows)
    assert total.n_samples == 3000
    here = AnytimeRegressor().fit(frame[FEATURES], frame["risk"])
    there = AnytimeRegressor().fit_moments(total)
    np.testing.assert_array_equal(there.order_, here.order_)
    np.testing.assert_allclose(there.coef_path_, here.coef_path_, rtol=1e-10)
