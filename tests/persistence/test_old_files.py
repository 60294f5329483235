"""Files of the version before: they still load, with the same predictions."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import budgetline
from budgetline import Certificate, Moments

FOLDER = Path(__file__).parents[1] / "support" / "files_0_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
X = np.array(EXPECTED["X"])
MODELS = sorted(path.stem for path in FOLDER.glob("*.budgetline"))


def test_there_are_files_of_every_kind():
    classes = {EXPECTED[name]["class"] for name in MODELS}
    assert classes == {
        "AnytimeRegressor", "AnytimeRegressorCV", "AnytimeClassifier", "AnytimeClassifierCV", "GroupLassoPath",
    }  # fmt: skip
    assert {path.suffix for path in FOLDER.iterdir()} >= {".moments", ".certificate"}


@pytest.mark.parametrize("name", MODELS)
def test_models_predict_as_before(name, tmp_path):
    expected = EXPECTED[name]
    model = budgetline.load(FOLDER / f"{name}.budgetline")
    assert type(model).__name__ == expected["class"]
    assert list(model.sequence_.groups) == expected["groups"]
    budgetline.save(model, tmp_path / "again")
    again = budgetline.load(tmp_path / "again")
    table = pd.DataFrame(X, columns=EXPECTED["columns"]) if hasattr(model, "feature_names_in_") else X
    for keywords, answer in expected["answers"]:
        for loaded in (model, again):
            found = getattr(loaded, expected["method"])(table, **keywords)
            np.testing.assert_allclose(found, answer, rtol=1e-12, atol=1e-12, err_msg=str(keywords))


def test_rows_are_added_to_a_model_of_before():
    model = budgetline.load(FOLDER / "regressor.budgetline")
    assert model.partial_fit(X, X[:, 0]).moments_.n_samples == 40 + len(X)


def test_settings_that_are_new_have_their_defaults():
    model = budgetline.load(FOLDER / "search.budgetline")
    assert (model.loss, model.tol, model.alphas) == ("squared_error", None, [1e-3, 1.0])


def test_moments_are_as_before():
    moments = Moments.load(FOLDER / "weighted.moments")
    assert moments.weight == EXPECTED["moments"]["weight"]
    assert moments.mean.tolist() == EXPECTED["moments"]["mean"]
    assert moments.scatter.tolist() == EXPECTED["moments"]["scatter"]
    assert moments.feature_names == tuple(EXPECTED["columns"])


@pytest.mark.parametrize("name", ["shared", "best_set"])
def test_certificates_are_as_before(name):
    certificate = Certificate.load(FOLDER / f"{name}.certificate")
    certificate.verify(Moments.load(FOLDER / "weighted.moments"))


def test_certificates_of_other_losses_load():
    certificate = Certificate.load(FOLDER / "classifier.certificate")
    assert certificate.loss == "log_loss"
    assert certificate.everything > 0
