"""Concordance, Kaplan-Meier curves and the Brier score, against sums over pairs and rows."""

from itertools import product

import numpy as np
import pytest

from budgetline.evaluation import concordance, integrated_brier
from budgetline.evaluation.survival import brier_times, kaplan_meier, survival_of


def problem(seed, n=40):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 9, n).astype(float), rng.random(n) < 0.6, rng.integers(0, 5, n).astype(float)


def survival_by_hand(time, leaves, at, last=False, before=False):
    """Return the product of the shares that stay, up to or ``before`` a time; ``last``: others leave first."""
    found = 1.0
    for t in sorted({t for t in time if (t < at if before else t <= at)}):
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
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_kaplan_meier_is_the_product_over_times(seed, before, last):
    time, event, _ = problem(seed)
    at = np.array([0.0, 1.0, 2.5, 4.0, 8.0, 20.0])
    want = [survival_by_hand(time, event, t, last, before) for t in at]
    np.testing.assert_allclose(kaplan_meier(time, event, at, last=last, before=before), want, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_concordance_within_strata_is_that_of_their_pairs(seed):
    time, event, scores = problem(seed)
    strata = np.random.default_rng(seed + 100).choice(["a", "b", "c"], time.size)
    pairs = right = 0.0
    for i, j in product(range(time.size), repeat=2):
        early = time[i] < time[j] or (time[i] == time[j] and not event[j])
        if event[i] and early and strata[i] == strata[j]:
            pairs += 1
            right += 1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
    assert concordance(time, event, scores, strata) == pytest.approx(right / pairs, abs=1e-12)


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
                total += survival[i, k] ** 2 / survival_by_hand(time, ~event, time[i], last=True, before=True)
            elif time[i] > t:
                total += (1 - survival[i, k]) ** 2 / survival_by_hand(time, ~event, t, last=True)
        score.append(total / time.size)
    want = np.trapezoid(score, times) / (times[-1] - times[0])
    assert integrated_brier(time, event, survival, times) == pytest.approx(want, abs=1e-12)


def test_what_happened_after_censoring_at_the_same_time_counts():
    # the last event has weight 1/G(2−) = 1/1: G falls at 2 only, for the row that is censored there
    assert integrated_brier([1.0, 2.0, 2.0], [1, 1, 0], [[0.5], [0.5], [0.5]], [2.0]) == pytest.approx(0.5 / 3)


def test_extreme_scores_have_a_survival_of_one_before_the_first_event_and_of_zero_afterwards():
    found = survival_of(np.array([-1e9, 0.0, 1e9, np.inf]), np.array([1.0]), np.array([0.5]), np.array([0.0, 1.0, 2.0]))
    low = [[1.0, 1.0, 1.0], [1.0, np.exp(-0.5), np.exp(-0.5)]]
    np.testing.assert_allclose(found, [*low, [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


def test_a_score_at_one_time_if_most_events_are_tied():
    times = brier_times(np.array([1.0, 1.0, 1.0, 1.0, 2.0]), np.array([True, True, True, True, False]))
    assert times.tolist() == [1.0]


BAD_SURVIVAL = {
    "descending": ([2.0, 1.0], 0.5, "different numbers in ascending order"),
    "repeated": ([1.0, 1.0], 0.5, "different numbers in ascending order"),
    "above one": ([1.0, 2.0], 5.0, "probabilities from 0 to 1, got 5"),
    "NaN": ([1.0, 2.0], np.nan, "survival contains NaN"),
    "a table of times": ([[1.0, 2.0]], 0.5, "times must be a vector"),
}


@pytest.mark.parametrize("case", BAD_SURVIVAL)
def test_brier_scores_of_wrong_times_or_probabilities_are_refused(case):
    times, value, message = BAD_SURVIVAL[case]
    time, event, _ = problem(0)
    with pytest.raises(ValueError, match=message):
        integrated_brier(time, event, np.full((40, 2), value), times)


def test_shapes_must_fit():
    time, event, _ = problem(0)
    with pytest.raises(ValueError, match="time must be a vector, got 2 columns"):
        concordance(np.column_stack([time, time]), event, time)
    with pytest.raises(ValueError, match="event must be a vector, got 2 columns"):
        concordance(time, np.column_stack([event, ~event]), time)
    with pytest.raises(ValueError, match=r"scores must be a vector, got shape \(40, 1\)"):
        concordance(time, event, time[:, None])
    with pytest.raises(ValueError, match="a row per sample and a column per time"):
        integrated_brier(time, event, np.ones((40, 3)), [1.0, 2.0])
    with pytest.raises(ValueError, match="times must not be negative"):
        integrated_brier(-time, event, np.ones((40, 1)), [1.0])
    with pytest.raises(ValueError, match="concordance is undefined"):
        concordance(time, np.zeros(40), time)
