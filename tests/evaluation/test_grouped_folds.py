"""Folds that keep rows together, such as those of a patient."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import AnytimeClassifier, AnytimeRegressor, budget_curve, compare, cross_val_budget_curve, make_report
from budgetline.evaluation.resampling import folds_in_words, make_folds, splits_of


def visits(seed=0, patients=30, n=240):
    """Return rows of patients, who differ much more from each other than their visits do."""
    rng = np.random.default_rng(seed)
    patient = rng.integers(0, patients, n)
    own = rng.normal(size=(patients, 4))[patient]
    X = own + 0.05 * rng.normal(size=(n, 4))
    y = 3 * rng.normal(size=patients)[patient] + X[:, 0]
    return X, y, np.array([f"P{k}" for k in patient])


def kept_together(splits, groups):
    return all(set(groups[train]).isdisjoint(groups[test]) for train, test in splits)


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("classifier", [False, True])
def test_a_number_of_folds_keeps_groups_together(cv, classifier):
    _, y, groups = visits()
    y = y > 0 if classifier else y
    kind = StratifiedGroupKFold if classifier else GroupKFold
    splits = splits_of(cv, y, groups, classifier=classifier)
    own = kind(cv or 5, shuffle=True, random_state=0).split(np.zeros((len(y), 1)), y, groups)
    for found, expected in zip(splits, own, strict=True):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
    assert kept_together(splits, groups)
    assert sorted(np.concatenate([test for _, test in splits])) == list(range(len(y)))


def test_splitters_get_the_groups_and_lists_are_kept():
    _, y, groups = visits()
    assert kept_together(splits_of(GroupShuffleSplit(4, random_state=1), y, groups), groups)
    given = list(KFold(3).split(y))
    for found, expected in zip(splits_of(given, y, groups), given, strict=True):
        np.testing.assert_array_equal(found[1], expected[1])
    for found, expected in zip(splits_of(3, y), given, strict=True):
        np.testing.assert_array_equal(found[1], expected[1])


def test_groups_that_make_no_folds():
    _, y, groups = visits()
    with pytest.raises(ValueError, match="the rows belong to 3 groups, too few for 5 folds: use 3 or fewer"):
        splits_of(5, y, np.arange(len(y)) % 3)
    assert len(splits_of(3, y > 0, np.arange(len(y)) % 3, classifier=True)) == 3
    with pytest.raises(ValueError, match="need two or more"):
        splits_of(2, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="groups contains None, first in row 1"):
        splits_of(2, y, ["a", None, *groups[2:]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        splits_of(2, y, groups[1:])


@pytest.mark.parametrize("kind", [AnytimeRegressor, AnytimeClassifier])
def test_curves_comparisons_and_reports_use_these_folds(kind):
    X, y, groups = visits()
    model = kind(alpha=1e-2)
    y = y > 0 if is_classifier(model) else y
    splits = splits_of(4, y, groups, classifier=is_classifier(model))
    expected = [budget_curve(kind(alpha=1e-2).fit(X[a], y[a]), X[b], y[b]).values[-1] for a, b in splits]
    for found in (
        cross_val_budget_curve(model, X, y, cv=4, groups=groups),
        compare({"own": model}, X, y, cv=4, groups=groups).curves["own"],
        cross_val_budget_curve(make_pipeline(StandardScaler(with_std=False), model), X, y, cv=4, groups=groups),
    ):
        np.testing.assert_allclose([curve.values[-1] for curve in found.folds], expected, rtol=1e-6)
    report = make_report(model.fit(X, y), X, y, cv=4, groups=groups, metric="explained", baselines=False)
    np.testing.assert_allclose(report.curves[1].values[-1], np.mean(expected), rtol=1e-6)
    assert report.measure.folds_made.startswith("groups of rows shuffled with seed 0")
    with pytest.raises(ValueError, match="groups needs X and y"):
        make_report(model, groups=groups)


def test_rows_of_one_patient_on_both_sides_flatter_a_model():
    X, y, groups = visits()
    nearest = AnytimeRegressor(encoding="spline", alpha=1e-6)
    mixed = cross_val_budget_curve(nearest, X, y, cv=make_folds(5, False)).values[-1]
    apart = cross_val_budget_curve(nearest, X, y, groups=groups).values[-1]
    assert apart < mixed


class Nosy(RegressorMixin, BaseEstimator):
    """Remembers the groups that ``fit`` got."""

    seen: ClassVar = []

    def fit(self, X, y, sample_weight=None, groups=None):
        self.seen.append(groups)
        self.model_ = AnytimeRegressor().fit(X, y).model_
        return self


def test_estimators_with_folds_of_their_own_get_the_groups_of_their_rows():
    X, y, groups = visits()
    for estimator in (Nosy(), make_pipeline(StandardScaler(), Nosy())):
        Nosy.seen.clear()
        cross_val_budget_curve(estimator, X, y, cv=3, groups=groups)
        for found, (train, _) in zip(Nosy.seen, splits_of(3, y, groups), strict=True):
            np.testing.assert_array_equal(found, groups[train])


def test_queries_and_groups_are_not_given_together():
    X, y, groups = visits()
    with pytest.raises(ValueError, match="pass only one of qid and groups"):
        cross_val_budget_curve(AnytimeRegressor(), X, y, qid=groups, groups=groups)


def test_folds_in_words():
    assert folds_in_words(make_folds(3, True, grouped=True)) == (
        "groups of rows shuffled with seed 0, stratified by class"
    )
    assert folds_in_words(GroupKFold(3)) == "groups of rows in their original order"
