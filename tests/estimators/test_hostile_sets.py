"""Rankings and survival times that nothing can be learned from, or whose targets are wrong, get a clear error."""

import numpy as np
import pandas as pd
import pytest
from set_references import ranking, survival
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from budgetline import (
    AnytimeRanker,
    AnytimeRankerCV,
    AnytimeSurvival,
    AnytimeSurvivalCV,
    budget_curve,
    cross_val_budget_curve,
    open_data,
)
from budgetline.evaluation import concordance

ALONE = "no query has documents of different grades: nothing says which comes first"
NO_RISK = "no event comes before that of another row of its stratum: nothing says who is at risk"


def rank(X, y, qid, **settings):
    return AnytimeRanker(alpha=1e-3, **settings).fit(X, y, qid=qid)


RANKINGS = {
    "every query has one document": (lambda X, y, q: rank(X, y, np.arange(len(y))), ALONE),
    "all grades equal": (lambda X, y, q: rank(X, np.full(len(y), 2), q), ALONE),
    "grades equal within queries": (lambda X, y, q: rank(X, q % 3, q, rule="omp"), ALONE),
    "all grades equal in a search": (lambda X, y, q: AnytimeRankerCV().fit(X, np.full(len(y), 2), qid=q), ALONE),
    "negative": (lambda X, y, q: rank(X, -y, q), "grades of relevance from 0 to 30, got -"),
    "too high": (lambda X, y, q: rank(X, 20 * y, q), "grades of relevance from 0 to 30, got"),
    "two grades": (lambda X, y, q: rank(X, np.c_[y, y], q), "one grade per document"),
    "NaN": (lambda X, y, q: rank(X, np.where(y == 2, np.nan, y), q), "Input y contains NaN"),
    "NaN query": (lambda X, y, q: rank(X, y, np.where(q == 2, np.nan, q)), "Input qid contains NaN"),
    "no query": (lambda X, y, q: rank(X, y, [None] * len(y)), "Input qid contains None"),
    "missing": (lambda X, y, q: rank(X, y, None), "a ranking needs qid"),
    "missing in score": (lambda X, y, q: rank(X, y, q).score(X, y), "a ranking needs qid"),
    "grades of score": (lambda X, y, q: rank(X, y, q).score(X, -y, qid=q), "grades of relevance"),
    "table of queries": (lambda X, y, q: rank(X, y, q.reshape(-1, 2)), "1d array"),
    "sizes": (lambda X, y, q: AnytimeRanker().fit(X, y, group=[1.5]), "group must be numbers of rows"),
    "sum of sizes": (lambda X, y, q: AnytimeRanker().fit(X, y, group=[100, 100]), "add up to 360, these add up to 200"),
    "mixed queries": (
        lambda X, y, q: rank(X, y, np.where(q == 2, "a", q.astype(object))),
        "qid mixes labels of different types: int, str",
    ),
    "weights within queries of a curve": (
        lambda X, y, q: budget_curve(rank(X, y, q), X, y, qid=q, sample_weight=np.arange(1.0, 361)),
        "sample_weight differs within query 0",
    ),
    "too few queries": (lambda X, y, q: AnytimeRankerCV().fit(X[:6], y[:6], qid=[1, 1, 2, 2, 3, 3]), "too few for 5"),
}


@pytest.mark.parametrize("case", RANKINGS)
def test_rankings(case):
    fit, message = RANKINGS[case]
    with pytest.raises(ValueError, match=message):
        fit(*ranking())


def frame(X, y, qid):
    return pd.DataFrame(X).add_prefix("x").assign(y=y, q=qid)


def test_a_source_holds_its_queries():
    X, y, qid = ranking()
    source = open_data(frame(X, y, np.sort(qid)), target="y", qid="q")
    for given in ({"qid": qid}, {"group": [12] * 30}):
        with pytest.raises(ValueError, match="open it with qid, and pass neither qid nor group"):
            AnytimeRanker(rule="omp").fit(source, **given)


SOURCES = {
    "a query returns later": ({"qid": np.repeat([0, 1, 0, 2, 3, 4], 60)}, "query 0 lies in several chunks"),
    "no query": ({"qid": None}, "a ranking needs qid"),
    "negative": ({"y": -1.0}, "grades of relevance from 0 to 30, got -1"),
    "nothing relevant": ({"y": 0.0}, ALONE),
    "NaN query": ({"qid": np.where(np.arange(360) < 3, np.nan, 1.0)}, "column 'q' has 3 missing values"),
}


@pytest.mark.parametrize("case", SOURCES)
def test_streamed_rankings(case):
    change, message = SOURCES[case]
    X, y, qid = ranking()
    table = frame(X, change.get("y", y), change["qid"] if change.get("qid") is not None else np.sort(qid).astype(float))
    name = None if change.get("qid", qid) is None else "q"
    source = open_data(table, target="y", qid=name, chunk_rows=60)
    with pytest.raises(ValueError, match=message):
        AnytimeRanker(rule="omp").fit(source)


def test_queries_in_any_order_and_of_any_type_are_the_same():
    X, y, qid = ranking()
    plain, order = rank(X, y, qid), np.argsort(qid, kind="stable")
    for other in (rank(X[order], y[order], qid[order]), rank(X, y, np.array([f"q{k}" for k in qid]))):
        np.testing.assert_allclose(other.coef_path_, plain.coef_path_, atol=1e-9)
    source = open_data(frame(X, y, qid), target="y", qid="q", chunk_rows=1000)  # mixed within one chunk
    stream = AnytimeRanker(rule="omp", alpha=1e-3).fit(source)
    np.testing.assert_allclose(stream.coef_path_, rank(X, y, qid, rule="omp").coef_path_, atol=1e-8)


def test_queries_of_one_document_change_nothing_but_the_units():
    X, y, qid = ranking()
    mean, sd = X.mean(axis=0), X.std(axis=0)
    more = np.vstack([X, mean - sd, mean + sd])  # the same means and deviations
    plain = rank(X, y, qid)
    found = AnytimeRanker(alpha=1e-3 * 360 / 362).fit(more, np.append(y, [3, 0]), qid=np.append(qid, [98, 99]))
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=1e-8)


def test_columns_that_are_constant_within_queries_get_no_weight():
    X, y, qid = ranking()
    X[:, 5] = qid
    for rule in ("forward", "score", "omp", "single", "static", "no-whiten"):
        assert abs(rank(X, y, qid, rule=rule).coef_[5]) < 1e-9


def live(X, time, event, **settings):
    return AnytimeSurvival(alpha=1e-3).fit(X, time, event, **settings)


TIMES = {
    "all censored": (lambda X, t, e: live(X, t, 0 * e), "no row of positive weight has an event"),
    "the last row alone": (lambda X, t, e: live(X, np.arange(300), np.arange(300) == 299), NO_RISK),
    "everyone a stratum": (lambda X, t, e: live(X, t, e, strata=np.arange(300)), NO_RISK),
    "negative": (lambda X, t, e: live(X, -t, e), "times must not be negative"),
    "NaN": (lambda X, t, e: live(X, np.where(t < 4, np.nan, t), e), "contains NaN"),
    "infinite": (lambda X, t, e: live(X, np.where(t < 4, np.inf, t), e), "infinity"),
    "NaN event": (lambda X, t, e: live(X, t, np.where(e, 1.0, np.nan)), "contains NaN"),
    "text": (lambda X, t, e: live(X, t, np.where(e, "yes", "no")), "events must be true or false, .*, got '(yes|no)'"),
    "numbers": (lambda X, t, e: live(X, t, 2 * e), "events must be true or false"),
    "strata": (lambda X, t, e: live(X, t, e, strata=np.full(300, np.nan)), "Input strata contains NaN"),
    "lengths": (lambda X, t, e: live(X, t, e[:9]), "inconsistent numbers of samples"),
    "fields": (lambda X, t, e: live(X, np.zeros(300, dtype=[("a", float), ("b", float)]), None), "one field of flags"),
    "three fields": (lambda X, t, e: live(X, np.zeros(300, [("a", "?"), ("b", "f"), ("c", "f")]), None), "y must be t"),
    "dates": (lambda X, t, e: live(X, t.astype("timedelta64[D]"), e), "dates or times, not numbers"),
    "no event to evaluate": (
        lambda X, t, e: budget_curve(live(X, t, e), X, (t, 0 * e), metric="brier"),
        "the Brier score is undefined: no row has an event",
    ),
    "no pair to evaluate": (lambda X, t, e: live(X, t, e).score(X, (t, 0 * e)), "concordance is undefined"),
    "scores": (lambda X, t, e: concordance(t, e, np.where(e, 1.0, np.nan)), "scores contains NaN"),
    "lengths of scores": (lambda X, t, e: concordance(t, e, t[:9]), "inconsistent numbers of samples"),
    "two columns of times": (lambda X, t, e: live(X, np.c_[t, t], e), "time must be a vector, got 2 columns"),
    "two columns of events": (lambda X, t, e: live(X, t, np.c_[e, ~e]), "event must be a vector, got 2 columns"),
    "events twice": (lambda X, t, e: live(X, structured(t, e), e), "structured times hold their events"),
    "two arguments of score": (lambda X, t, e: live(X, t, e).score(X, t, e), r"one argument, score\(X, \(time, event"),
    "queries of a curve": (lambda X, t, e: budget_curve(live(X, t, e), X, (t, e), qid=t), "qid is for rankings, not f"),
    "queries of folds": (lambda X, t, e: cross_val_budget_curve(AnytimeSurvival(), X, (t, e), qid=t), "pass groups"),
    "few events": (
        lambda X, t, e: AnytimeSurvivalCV().fit(X, t, np.arange(300) < 3),
        "3 rows have an event, too few for 5 folds",
    ),
    "a fold without events": (
        lambda X, t, e: AnytimeSurvivalCV(cv=KFold(5)).fit(X, t, np.arange(300) < 50),
        "no row of the training set of fold 0 has an event",
    ),
    "times of a curve": (lambda X, t, e: live(X, t, e).predict_survival_function(X, [np.nan]), "times contains NaN"),
}


def structured(time, event):
    return np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


@pytest.mark.parametrize("case", TIMES)
def test_survival_times(case):
    fit, message = TIMES[case]
    with pytest.raises(ValueError, match=message):
        fit(*survival())


def test_times_and_grades_that_scores_order_perfectly_are_told_once():
    X, _, qid = ranking()
    with pytest.warns(ConvergenceWarning, match="order all events as their times do") as told:
        AnytimeSurvival(alpha=0).fit(X, 9 - X[:, 0], np.ones(360))
    assert len(told) == 1
    best = np.array([x == X[qid == q, 0].max() for x, q in zip(X[:, 0], qid, strict=True)])
    with pytest.warns(ConvergenceWarning, match="order all documents as their grades do") as told:
        AnytimeRanker(alpha=0).fit(X, best, qid=qid)
    assert len(told) == 1


def test_extreme_but_valid_survival_times():
    X, time, event = survival()
    same = live(X, time, event)
    np.testing.assert_allclose(live(X, 1e-100 * time, event).coef_, same.coef_, atol=1e-9)  # only their order counts
    zero = np.where(time < 4, 0.0, time)
    assert np.isfinite(live(X, zero, event).predict_survival_function(X)).all()
    one = live(X, np.ones(300), event)  # everyone at one time: the events came before those who were left
    assert one.score(X, (np.ones(300), event)) > 0.5
    assert np.isfinite(live(X, time, np.arange(300) == time.argmin()).coef_).all()
