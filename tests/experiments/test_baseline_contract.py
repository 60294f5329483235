"""The baselines keep scikit-learn's contract, as the estimators that they clone do."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from baselines import ForwardSelection, ImportanceKnapsack

ESTIMATORS = [
    ImportanceKnapsack(Ridge(), importance="contributions", budgets=3),
    ImportanceKnapsack(DecisionTreeClassifier(random_state=0), budgets=2, n_repeats=1, random_state=0),
    ForwardSelection(Ridge(), max_groups=3, cv=2),
    ForwardSelection(LogisticRegression(), max_groups=3, cv=2),
]


def not_of_folds(estimator):
    """Folds of repeated rows are not folds of weighted rows."""
    checks = ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"]
    return dict.fromkeys(checks, "folds") if isinstance(estimator, ForwardSelection) else {}


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=not_of_folds)
def test_check_estimator(estimator, check):
    check(estimator)
