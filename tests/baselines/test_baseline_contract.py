"""The baselines keep scikit-learn's contract, as the estimators that they clone do."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from budgetline.baselines import ForwardSelection, ImportanceKnapsack

ESTIMATORS = [
    ImportanceKnapsack(Ridge(), importance="contributions", budgets=3),
    ImportanceKnapsack(DecisionTreeClassifier(random_state=0), budgets=2, n_repeats=1, random_state=0),
    ForwardSelection(Ridge(), max_groups=3, cv=2),
    ForwardSelection(LogisticRegression(), max_groups=3, cv=2),
]


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS)
def test_check_estimator(estimator, check):
    check(estimator)
