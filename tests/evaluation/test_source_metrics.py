"""Curves over sources equal those over tables, whatever the chunks."""

import numpy as np
import pytest
from paper_shapes import make_yahoo
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from budgetline import AnytimeClassifier, AnytimeRegressor, Moments, budget_curve, open_data
from budgetline.datasets import load_heart, load_thyroid
from budgetline.evaluation import budget_curves

heart, thyroid = load_heart(), load_thyroid()
thyroid.data, thyroid.target = thyroid.data[::10], thyroid.target[::10]
REGRESSOR = AnytimeRegressor(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
CLASSIFIER = AnytimeClassifier(heart.feature_groups, alpha=1e-2, rule="omp").fit(heart.data, heart.target)
SOFTMAX = AnytimeClassifier(thyroid.feature_groups, alpha=1e-2, rule="omp").fit(thyroid.data, thyroid.target)
CASES = [
    *((REGRESSOR, heart, m) for m in ("explained", "gain", "mse", "r2", "accuracy", "roc_auc", mean_absolute_error)),
    *((CLASSIFIER, heart, m) for m in ("explained", "gain", "accuracy", "log_loss", "roc_auc", "neg_brier_score")),
    *((SOFTMAX, thyroid, m) for m in ("explained", "accuracy", "log_loss", "roc_auc")),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("model", "data", "metric"), CASES, ids=lambda x: getattr(x, "__name__", str(x))[:20])
def test_curves_do_not_depend_on_chunks(model, data, metric, weighted):
    w = np.random.default_rng(0).uniform(0, 1, len(data.target)) * (np.arange(len(data.target)) % 3 > 0)
    given = (data.data, data.target, w) if weighted else (data.data, data.target)
    truth = budget_curve(model, data.data, data.target, metric=metric, sample_weight=w if weighted else None)
    for rows in (1000, 37):
        found = budget_curve(model, open_data(given, chunk_rows=rows), metric=metric)
        np.testing.assert_allclose(found.values, truth.values, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(found.costs, truth.costs)
        assert (found.metric, found.greater_is_better) == (truth.metric, truth.greater_is_better)


def test_unused_columns_are_not_read():
    short = AnytimeRegressor(heart.feature_groups, alpha=1e-2, max_groups=2).fit(heart.data, heart.target)
    X = heart.data.copy()
    used = short.model_.stages.at_stage(2).columns
    X[:, np.setdiff1d(np.arange(X.shape[1]), used)] = np.nan
    found = budget_curve(short, open_data((X, heart.target), chunk_rows=50))
    np.testing.assert_allclose(found.values, budget_curve(short, heart.data, heart.target).values, rtol=1e-12)


def test_ndcg_over_svmlight_files(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    web = make_yahoo(1500, random_state=0)
    model = AnytimeRegressor(web.feature_groups, rule="omp", max_groups=5, alpha=1e-2).fit(web.data, web.target)
    dump_svmlight_file(web.data, web.target, str(tmp_path / "a.svm"), query_id=web.qid, zero_based=False)
    source = open_data(tmp_path / "a.svm", qid="qid", n_features=501)
    truth = budget_curve(model, web.data, web.target, metric="ndcg@5", qid=web.qid)
    np.testing.assert_allclose(budget_curve(model, source, metric="ndcg@5").values, truth.values, rtol=1e-9)


def test_errors():
    source = open_data((heart.data, heart.target), chunk_rows=100)
    with pytest.raises(ValueError, match="sources hold y"):
        budget_curve(REGRESSOR, source, heart.target)
    with pytest.raises(ValueError, match="2 features, but the model was fitted on"):
        budget_curve(REGRESSOR, open_data((heart.data[:, :2], heart.target)))
    with pytest.raises(ValueError, match=r"rows 200 to 299: label 7 in y"):
        budget_curve(CLASSIFIER, open_data((heart.data, np.where(np.arange(303) == 250, 7, 0)), chunk_rows=100))
    bad = heart.data.copy()
    bad[150, 3] = np.nan
    with pytest.raises(ValueError, match=r"rows 100 to 199: Input X contains NaN: column '3', first in row 50"):
        budget_curve(REGRESSOR, open_data((bad, heart.target), chunk_rows=100))


def test_predictions_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr(budget_curves, "GATHER_BYTES", 1000)
    source = open_data((heart.data, heart.target), chunk_rows=100)
    with pytest.raises(MemoryError, match="mean over rows"):
        budget_curve(CLASSIFIER, source, metric="roc_auc")
    assert budget_curve(CLASSIFIER, source, metric="log_loss").values.size == 10


def test_searches_are_seen_through_and_queries_are_not_ignored():
    search = GridSearchCV(AnytimeRegressor(heart.feature_groups), {"alpha": [1e-2]}, cv=2).fit(heart.data, heart.target)
    moments, source = Moments.from_data(heart.data, heart.target), open_data((heart.data, heart.target), chunk_rows=100)
    truth = budget_curve(search, heart.data, heart.target, metric="mse").values
    for held, name in ((moments, "moments"), (source, "sources")):
        np.testing.assert_allclose(budget_curve(search, held, metric="mse").values, truth, rtol=1e-10)
        with pytest.raises(ValueError, match=f"{name} hold y, weights and queries"):
            budget_curve(search, held, qid=heart.target)
        with pytest.raises(TypeError, match=f"{name} can evaluate only an estimator of budgetline, not Pipeline"):
            budget_curve(make_pipeline(search.best_estimator_), held)
