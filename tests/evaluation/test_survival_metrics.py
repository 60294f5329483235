"""Concordance, Kaplan-Meier curves and the Brier score, against sums over pairs and rows."""

from itertools import product

import numpy as np
import pytest

from budgetline.evaluation import concordance, integrated_brier
from budgetline.evaluation.survival import kaplan_meier


def problem(seed, n=40):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 9, n).astype(float), rng.random(n) < 0.6, rng.integers(0, 5, n).astype(float)


def survival_by_hand(time, leaves, at, last=False):
    """Return the product of the shares that stay, time after time; ``last``: others leave first."""
    found = 1.0
    for t in sorted({t for t in time if t <= at}):
        at_risk = sum(s > t or (s == t and (leaves[i] or not last)) for i, s in enumerate(time))
        gone = sum(s == t and leaves[i] for i, s in enumerate(time))
        found *= 1 - gone / at_risk if at_risk else 1.0
    return found


@pytest.mark.parametrize("seed", range(5))
def test_concordance_is_that_of_all_pairs(seed):
    time, event, scores = problem(seed)
    pairs = right = 0.0
    for i, j in product(range(time.size), repeat=2):
        if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
            pairs += 1
            right += 1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
    assert concordance(time, event, scores) == pytest.approx(right / pairs, abs=1e-12)
    assert concordance(time, event, -scores) == pytest.approx(1 - right / pairs, abs=1e-12)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_kaplan_meier_is_the_product_over_times(seed, last):
    time, event, _ = problem(seed)
    at = np.array([0.0, 1.0, 2.5, 4.0, 8.0, 20.0])
    want = [survival_by_hand(time, event, t, last) for t in at]
    np.testing.assert_allclose(kaplan_meier(time, event, at, last=last), want, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_brier_score_weighs_rows_by_the_chance_of_not_being_censored(seed):
    time, event, _ = problem(seed)
    times = np.array([1.5, 2.0, 4.5, 6.0])
    survival = np.sort(np.random.default_rng(seed).random((time.size, times.size)), axis=1)[:, ::-1]
    score = []
    for k, t in enumerate(times):
        total = 0.0
        for i in range(time.size):
            if time[i] <= t and event[i]:
                total += survival[i, k] ** 2 / survival_by_hand(time, ~event, time[i], last=True)
            elif time[i] > t:
                total += (1 - survival[i, k]) ** 2 / survival_by_hand(time, ~event, t, last=True)
        score.append(total / time.size)
    want = np.trapezoid(score, times) / (times[-1] - times[0])
    assert integrated_brier(time, event, survival, times) == pytest.approx(want, abs=1e-12)


def test_shapes_must_fit():
    time, event, _ = problem(0)
    with pytest.raises(ValueError, match="a row per sample and a column per time"):
        integrated_brier(time, event, np.ones((40, 3)), [1.0, 2.0])
    with pytest.raises(ValueError, match="times must not be negative"):
        integrated_brier(-time, event, np.ones((40, 1)), [1.0])
    with pytest.raises(ValueError, match="concordance is undefined"):
        concordance(time, np.zeros(40), time)
