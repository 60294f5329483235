"""StagedEstimators keep scikit-learn's contract, as the estimators that they clone do."""

from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from budgetline import AnytimeClassifier, AnytimeRegressor, StagedEstimators

ESTIMATORS = [
    StagedEstimators(Ridge(), AnytimeRegressor()),
    StagedEstimators(HistGradientBoostingRegressor(max_iter=5), AnytimeRegressor(), stages=2),
    StagedEstimators(DecisionTreeClassifier(random_state=0), AnytimeClassifier(rule="omp"), stages="auto"),
    StagedEstimators(LogisticRegression(), AnytimeClassifier(rule="omp"), stages=2),
]


@parametrize_with_checks(ESTIMATORS)
def test_check_estimator(estimator, check):
    check(estimator)
