"""Cross-validation that also chooses pairs of columns, and what it says of held-out rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from budgetline import AnytimeClassifierCV, AnytimeRegressorCV, Encoding, cross_val_budget_curve, load, open_data, save
from budgetline.fitting import fold_search

ALPHAS = (1e-3, 1e-2)


def table(seed, n=400, product=True):
    """Return columns and a score in which two of them multiply, or only add up."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    score = 1.5 * X.a * X.b if product else 1.5 * X.a + X.b
    return X, (score + X.c + 0.5 * rng.normal(size=n)).to_numpy()


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("product", [False, True])
def test_pairs_are_kept_only_where_they_help(product, classes):
    X, score = table(0, product=product)
    kind = AnytimeClassifierCV if classes else AnytimeRegressorCV
    model = kind(encoding="spline", alphas=ALPHAS, interactions=(0, 3)).fit(X, score > 0 if classes else score)
    pairs = {pair.columns for pair in model.model_.encoding.pairs}
    assert ((0, 1) in pairs) == product
    assert product or not pairs


def test_one_number_of_pairs_is_no_choice():
    X, score = table(1)
    model = AnytimeRegressorCV(encoding="spline", alphas=ALPHAS, interactions=(2,)).fit(X, score)
    assert len(model.model_.encoding.pairs) == 2


def test_held_out_quality_is_that_of_the_folds_without_pairs():
    """Squared error, one alpha, no correction: the same curve as cross-validating the plain estimator.

    Folds of a search share the encoding of all rows, so columns are used as they are.
    """
    X, score = table(2)
    folds = KFold(4)
    model = AnytimeRegressorCV(alphas=[1e-3], corrections=[0], cv=folds).fit(X, score)
    expected = cross_val_budget_curve(model.chosen(), X, score, cv=folds, metric="explained")
    np.testing.assert_allclose(model.held_out_[:, 0], expected.costs)
    np.testing.assert_allclose(model.held_out_[:, 1], expected.values, rtol=1e-9)
    np.testing.assert_allclose(model.held_out_[:, 2], expected.errors, rtol=1e-7)


def test_what_was_chosen_is_learned_again_without_a_search(tmp_path):
    X, score = table(3)
    settings = {"alphas": ALPHAS, "interactions": (0, 3), "calibration": None}  # a calibration is learned from folds
    model = AnytimeClassifierCV(encoding="spline", **settings).fit(X, score > 0)
    save(model, tmp_path / "m")
    for each in (model, load(tmp_path / "m")):
        again = each.chosen().fit(X, score > 0)
        assert again.sequence_.groups == model.sequence_.groups
        np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(each.held_out_, model.held_out_)


def test_many_rows_are_sampled_in_the_same_folds(monkeypatch):
    X, score = table(4, n=600)
    monkeypatch.setattr(fold_search, "PAIR_ROWS", 300)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = AnytimeClassifierCV(encoding="spline", alphas=ALPHAS, interactions=(0, 3), cv=folds).fit(X, score > 0)
    assert (0, 1) in {pair.columns for pair in model.model_.encoding.pairs}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"interactions": ()}, "interactions must be whole numbers"),
        ({"interactions": (0, -1)}, "interactions must be whole numbers"),
        ({"interactions": (0, 2.5)}, "interactions must be whole numbers"),
        ({"interactions": (0, 3), "encoding": None}, "set encoding, such as encoding='spline'"),
    ],
)
def test_wrong_numbers_of_pairs(settings, text):
    X, score = table(5, n=50)
    with pytest.raises(ValueError, match=text):
        AnytimeRegressorCV(**{"encoding": Encoding("spline"), "alphas": ALPHAS} | settings).fit(X, score)


def test_pairs_are_not_tried_on_sources():
    X, score = table(6, n=50)
    model = AnytimeRegressorCV(encoding="spline", alphas=ALPHAS, interactions=(0, 3), cv=2)
    with pytest.raises(ValueError, match="set interactions=None"):
        model.fit(open_data((X.to_numpy(), score)))
