"""Mean average precision: by scikit-learn where scores differ, by all orders where they tie."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from budgetline.evaluation import map_score


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_mean_of_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    y, qid, scores = rng.integers(0, 3, 60), rng.integers(0, 7, 60), rng.normal(size=60)
    each = [average_precision_score(y[qid == q] > 0, scores[qid == q]) for q in range(7) if (y[qid == q] > 0).any()]
    assert map_score(y, scores, qid) == pytest.approx(np.mean(each), abs=1e-12)


@pytest.mark.parametrize("k", [None, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_ties_count_as_the_mean_over_their_orders(seed, k):
    rng = np.random.default_rng(seed)
    y, scores = np.append(1, rng.integers(0, 2, 5)), rng.integers(0, 3, 6).astype(float)
    values = []
    for order in permutations(range(6)):
        ranked = sorted(order, key=lambda i: -scores[i])
        hits = np.cumsum(y[ranked]) / np.arange(1, 7) * y[ranked]
        values.append(hits[:k].sum() / min(y.sum(), k or 6))
    assert map_score(y, scores, np.zeros(6), k=k) == pytest.approx(np.mean(values), abs=1e-12)


def test_it_needs_a_relevant_document():
    with pytest.raises(ValueError, match="no query has a relevant document"):
        map_score([0, 0], [1.0, 2.0], [1, 1])
