"""NDCG against scikit-learn query by query, and against all orders of tied documents."""

from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score as sklearn_ndcg

from budgetline import AnytimeClassifier, AnytimeRegressor, budget_curve
from budgetline.evaluation import ndcg_score

documents = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=14)


def by_query(relevance, scores, qid, k):
    """Return the mean over queries of scikit-learn's value."""
    relevance, scores, qid = map(np.asarray, (relevance, scores, qid))
    values = []
    for q in np.unique(qid):
        gains = 2.0 ** relevance[qid == q] - 1
        if not gains.any():
            continue
        if gains.size == 1:  # scikit-learn refuses a single document
            values.append(1.0)
        else:
            values.append(sklearn_ndcg([gains], [scores[qid == q]], k=k))
    return np.mean(values) if values else None


@given(documents, st.sampled_from([1, 2, 3, 5, 50, None]))
def test_the_mean_over_queries_equals_scikit_learn(rows, k):
    relevance, scores, qid = zip(*rows, strict=True)
    truth = by_query(relevance, scores, qid, k)
    if truth is None:
        with pytest.raises(ValueError, match="no query has a relevant document"):
            ndcg_score(relevance, scores, qid, k=k)
    else:
        assert ndcg_score(relevance, scores, qid, k=k) == pytest.approx(truth, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=6), st.integers(1, 7))
def test_ties_are_the_mean_over_all_orders(rows, k):
    relevance, scores = np.array(rows).T
    discounts = np.where(np.arange(len(rows)) < k, 1 / np.log2(np.arange(len(rows)) + 2), 0)
    gains = 2.0**relevance - 1
    if not gains.any():
        return
    orders = [list(p) for p in permutations(range(len(rows))) if np.all(np.diff(scores[list(p)]) <= 0)]
    found = np.mean([gains[p] @ discounts for p in orders])
    best = np.sort(gains)[::-1] @ discounts
    assert ndcg_score(relevance, scores, np.zeros(len(rows)), k=k) == pytest.approx(found / best, rel=1e-12)


def test_by_hand():
    # ranks 1, 2 hold gains 3 and (the tie of 0 and 1) ½: (3 + ½/log₂3)/(3 + 1/log₂3)
    expected = (3 + 0.5 / np.log2(3)) / (3 + 1 / np.log2(3))
    assert ndcg_score([2, 0, 1], [3, 2, 2], [0, 0, 0], k=2) == pytest.approx(expected)
    assert ndcg_score([0, 3], [1, 2], [0, 0]) == 1
    assert ndcg_score([0, 3], [2, 1], [0, 0]) == pytest.approx(1 / np.log2(3))
    assert ndcg_score([0, 3], [2, 1], [0, 0], k=1) == 0
    # grades need not be whole
    assert ndcg_score([0.5, 1.5], [2, 1], [0, 0], k=1) == pytest.approx((2**0.5 - 1) / (2**1.5 - 1))


def test_queries_without_a_relevant_document():
    relevance, scores, qid = [1, 0, 0, 0], [1, 2, 3, 4], ["a", "a", "b", "b"]
    value = 1 / np.log2(3)
    assert ndcg_score(relevance, scores, qid) == pytest.approx(value)
    with pytest.raises(ValueError, match="no query has a relevant document"):
        ndcg_score([0, 0], [1, 2], [1, 1])


def test_single_documents_long_ranks_and_any_kind_of_query():
    assert ndcg_score([2], [-7.0], ["only"]) == 1
    assert ndcg_score([2, 1], [0, 0], [1, 2], k=100) == 1
    rng = np.random.default_rng(0)
    relevance, scores, qid = rng.integers(0, 5, 300), rng.integers(0, 9, 300) / 7, rng.integers(0, 20, 300)
    truth = by_query(relevance, scores, qid, 5)
    order = np.argsort(qid, kind="stable")
    kinds = [
        (relevance, scores, qid),
        (relevance[order], scores[order], qid[order]),
        (relevance, scores, [f"query {q}" for q in qid]),
        (relevance, scores.astype(np.float32), qid - 10),
        (relevance.tolist(), scores.tolist(), qid.tolist()),
        (pd.Series(relevance), pd.Series(scores), pd.Series(qid).astype("category")),
        (pl.Series(relevance), pl.Series(scores), pl.Series(qid.astype(str))),
    ]
    for arguments in kinds:
        assert ndcg_score(*arguments) == pytest.approx(truth, rel=1e-12)
    assert ndcg_score(relevance, -(2**40) + scores * 2**30, qid, k=np.int64(5)) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], [], []), {}, "equal length"),
        (([1, 0], [1, 0], [1]), {}, "equal length"),
        (([[1, 0]], [[1, 0]], [[1, 1]]), {}, "equal length"),
        (([-1, 0], [1, 0], [1, 1]), {}, "from 0 to 500 .* got -1"),
        (([np.nan, 0], [1, 0], [1, 1]), {}, "got nan"),
        (([5000, 0], [1, 0], [1, 1]), {}, "got 5000"),
        (([1, 0], [np.nan, 0], [1, 1]), {}, "scores contain NaN"),
        (([1, 0], [np.inf, 0], [1, 1]), {}, "scores contain NaN or infinity"),
        (([1, 0], ["a", "b"], [1, 1]), {}, "scores must be numbers"),
        *((([1, 0], [1, 0], [1, 1]), {"k": k}, "k must be an integer ≥ 1") for k in (0, -1, 2.5, True, "five", np.nan)),
    ],
)  # fmt: skip
def test_errors(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ndcg_score(*arguments, **options)


@pytest.mark.parametrize("k", [1, 5, None])
def test_stages_of_models(k):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 4))
    relevance = np.clip((1 + X @ [1, 0.5, 0, 0.2] + rng.standard_normal(200)).astype(int), 0, 4)
    qid = np.array(["q", "r", "s", "t", "u"])[rng.integers(0, 5, 200)]
    name = "ndcg" if k is None else f"ndcg@{k}"
    for y, model in (
        (relevance, AnytimeRegressor().fit(X, relevance)),
        (relevance > 1, AnytimeClassifier(alpha=0.1).fit(X, relevance > 1)),
    ):
        method = model.decision_function if hasattr(model, "classes_") else model.predict
        truth = [by_query(y.astype(int), method(X, stage=j), qid, k) for j in range(5)]
        curve = budget_curve(model, X, y, metric=name, qid=qid)
        np.testing.assert_allclose(curve.values, truth, rtol=1e-9)
        assert curve.metric == name
        assert curve.greater_is_better
        np.testing.assert_allclose(budget_curve(model, X, y, metric=name, qid=list(qid)).values, truth, rtol=1e-9)


def test_rows_that_are_equal_so_far_tie():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (200, 4)).astype(float)  # after j columns at most 3^j distinct scores
    y = X @ [1, 0.5, 0, 0.2] + rng.standard_normal(200)
    relevance, qid = np.clip(y.astype(int), 0, 4), rng.integers(0, 5, 200)
    model = AnytimeRegressor().fit(X, relevance)
    truth = [by_query(relevance, model.predict(X, stage=j), qid, None) for j in range(5)]
    np.testing.assert_allclose(budget_curve(model, X, relevance, metric="ndcg", qid=qid).values, truth, rtol=1e-9)
