"""Advice in errors about tables works when it is followed."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    open_data,
)

RNG = np.random.default_rng(0)
TEXT = pd.DataFrame({"a": RNG.normal(size=60), "b": RNG.choice(["x", "y"], 60)})
GAPS = pd.DataFrame({"a": np.where(np.arange(60) % 7, RNG.normal(size=60), np.nan), "b": RNG.normal(size=60)})
TARGET = RNG.normal(size=60)
TABLES = {
    "text": TEXT,
    "gaps": GAPS,
    "polars": pl.from_pandas(TEXT),
    "polars with gaps": pl.from_pandas(GAPS),
    "array of numbers": GAPS.to_numpy(),
    "array of objects": TEXT.to_numpy(),
    "array of text": TEXT[["b", "b"]].to_numpy().astype(str),
    "lists": TEXT.to_numpy().tolist(),
}
ADVICE = "; encoding='spline' accepts text and missing values$"


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", [AnytimeRegressor, AnytimeClassifier, AnytimeRegressorCV, AnytimeClassifierCV])
def test_errors_about_text_and_gaps_name_the_encoding(name, kind):
    y = TARGET > 0 if "Classifier" in kind.__name__ else TARGET
    with pytest.raises(ValueError, match=ADVICE):
        kind().fit(TABLES[name], y)
    kind(encoding="spline").fit(TABLES[name], y)


@pytest.mark.parametrize("name", ["text", "gaps"])
def test_errors_about_sources_do_too(name, tmp_path):
    TABLES[name].assign(y=TARGET).to_csv(tmp_path / "d.csv", index=False)
    TABLES[name].assign(y=TARGET).to_parquet(tmp_path / "d.parquet")
    for data in (tmp_path / "d.csv", tmp_path / "d.parquet", TABLES[name].assign(y=TARGET)):
        with pytest.raises(ValueError, match=ADVICE):
            AnytimeRegressor().fit(open_data(data, "y"))
        AnytimeRegressor(encoding="spline").fit(open_data(data, "y"))


def test_no_encoding_is_named_where_it_would_not_help():
    model = AnytimeRegressor().fit(GAPS.fillna(0.0), TARGET)
    refused = [
        lambda: AnytimeRegressor().fit(sparse.csr_array(GAPS), TARGET),
        lambda: AnytimeRegressor().fit(GAPS.fillna(np.inf), TARGET),
        lambda: AnytimeRegressor(encoding="spline").fit(GAPS.fillna(np.inf), TARGET),
        lambda: model.predict(GAPS),
        lambda: model.predict(TEXT),
    ]
    for call in refused:
        with pytest.raises(ValueError, match="column") as caught:
            call()
        assert "encoding" not in str(caught.value)


@pytest.mark.parametrize("kind", [np.array, lambda labels: [f"c{k}" for k in labels]])
def test_many_classes_are_told(kind):
    X, y = RNG.normal(size=(240, 2)), kind(np.arange(240) % 60)
    with pytest.warns(UserWarning, match="y has 60 classes, such as .*: each has coefficients of its own"):
        AnytimeClassifier(schedule="cheapest", alpha=1.0).fit(X, y)
    with pytest.warns(UserWarning, match="y has 60 classes"):
        AnytimeClassifier(rule="score", alpha=1.0, max_groups=1).fit(open_data((X, np.asarray(y))))
    AnytimeClassifier(schedule="cheapest", alpha=1.0).fit(X, kind(np.arange(240) % 50))
