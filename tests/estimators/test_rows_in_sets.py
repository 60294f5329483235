"""Rankers and survival models: every stage is the refit, everything that estimators do works, the rest is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from set_references import listwise, partial_likelihood, ranking, survival
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.tree import DecisionTreeRegressor

from budgetline import (
    AnytimeRanker,
    AnytimeRankerCV,
    AnytimeSurvival,
    AnytimeSurvivalCV,
    FeatureGroups,
    StagedEstimators,
    budget_curve,
    certify,
    compare,
    cross_val_budget_curve,
    load,
    open_data,
    save,
    to_onnx,
)
from budgetline.data.rows import Rows
from budgetline.evaluation import concordance, ndcg_score
from budgetline.fitting import RowsTraining, Task
from budgetline.glm.set_families import Cox, Listwise
from budgetline.runtime import EarlyExit

GROUPS = FeatureGroups({"a": [0], "b": [1, 2], "c": [3], "d": [4, 5]}, costs={"a": 1, "b": 3, "c": 1, "d": 2})
ALPHA = 1e-3


def fitted(kind, rule="forward", **settings):
    """Return a model with its training data and the function that computes the risk of scores."""
    weight = None
    if kind == "ranking":
        X, y, qid = ranking()
        weight = np.random.default_rng(1).uniform(0.5, 2.0, 30)[qid]
        model = AnytimeRanker(GROUPS, rule=rule, alpha=ALPHA, **settings).fit(X, y, weight, qid=qid)
        return model, X, lambda eta: listwise(eta, y, qid, weight / weight.sum())
    X, time, event = survival()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = AnytimeSurvival(GROUPS, rule=rule, alpha=ALPHA, **settings).fit(X, time, event, weight)
    stratum = np.zeros(len(X))
    return model, X, lambda eta: partial_likelihood(eta, time, event, stratum, weight / weight.sum(), True)


@pytest.mark.parametrize("kind", ["ranking", "survival"])
def test_every_stage_is_the_refit_on_its_groups(kind):
    model, X, risk = fitted(kind)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 30 if kind == "ranking" else len(X))
    weights = weights[ranking()[2]] if kind == "ranking" else weights
    mean = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    Z = (X - mean) / scale
    columns: list[int] = []
    for stage, name in enumerate(model.sequence_.groups, start=1):
        columns += GROUPS.columns[GROUPS.names.index(name)]
        found = minimize(
            lambda w, c=tuple(columns): risk(Z[:, c] @ w) + ALPHA / 2 * w @ w, np.zeros(len(columns)),
            method="BFGS", options={"gtol": 1e-9},
        )  # fmt: skip
        ours = model.coef_path_[stage - 1, columns] * scale[columns]
        np.testing.assert_allclose(ours, found.x, atol=2e-5)
        gain = risk(np.zeros(len(X))) - found.fun
        assert model.sequence_.gains[:stage].sum() == pytest.approx(gain, abs=1e-9)
        np.testing.assert_allclose(model.predict(X, stage=stage), Z[:, columns] @ ours, atol=1e-9)


@pytest.mark.parametrize("kind", ["ranking", "survival"])
def test_forward_chooses_what_brute_force_chooses(kind):
    model, X, risk = fitted(kind)
    mean, scale = model.model_.stages.mean, model.model_.stages.scale
    Z, chosen, spent = (X - mean) / scale, [], []
    null = risk(np.zeros(len(X)))

    def gain(names):
        columns = [d for name in names for d in GROUPS.columns[GROUPS.names.index(name)]]
        function = lambda w: risk(Z[:, columns] @ w) + ALPHA / 2 * w @ w  # noqa: E731
        return null - minimize(function, np.zeros(len(columns)), method="BFGS").fun

    while len(chosen) < len(GROUPS.names):
        left = [name for name in GROUPS.names if name not in chosen]
        now = gain(chosen) if chosen else 0.0
        rates = {name: (gain([*chosen, name]) - now) / GROUPS.costs[GROUPS.names.index(name)] for name in left}
        chosen.append(max(rates, key=rates.get))
        spent.append(rates[chosen[-1]])
    assert list(model.sequence_.groups) == chosen


@pytest.mark.parametrize("rule", ["forward", "score", "omp", "no-whiten", "single", "static"])
@pytest.mark.parametrize("kind", ["ranking", "survival"])
def test_every_rule_ends_at_the_same_model(kind, rule):
    model, *_ = fitted(kind, rule)
    whole, *_ = fitted(kind)
    assert sorted(model.sequence_.groups) == sorted(GROUPS.names)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-7)
    assert model.sequence_.gains.sum() == pytest.approx(whole.sequence_.gains.sum(), abs=1e-10)


@pytest.mark.parametrize("kind", ["ranking", "survival"])
def test_weights_count_as_repeated_rows_or_queries(kind):
    if kind == "ranking":
        X, y, qid = ranking()
        counts = np.random.default_rng(2).integers(0, 3, 30)[qid]
        plain = AnytimeRanker(GROUPS, alpha=ALPHA).fit(X, y, counts, qid=qid)
        rows = np.concatenate([np.flatnonzero(counts > k) for k in range(2)])
        again = np.concatenate([qid[counts > k] + 100 * k for k in range(2)])
        other = AnytimeRanker(GROUPS, alpha=ALPHA).fit(X[rows], y[rows], qid=again)
    else:
        X, time, event = survival()
        counts = np.random.default_rng(2).integers(0, 3, len(X))
        rows = np.repeat(np.arange(len(X)), counts)
        settings = {"alpha": ALPHA, "ties": "breslow"}
        plain = AnytimeSurvival(GROUPS, **settings).fit(X, time, event, counts)
        other = AnytimeSurvival(GROUPS, **settings).fit(X[rows], time[rows], event[rows])
    assert plain.sequence_.groups == other.sequence_.groups
    np.testing.assert_allclose(plain.coef_path_, other.coef_path_, atol=1e-8)


def test_group_sizes_are_queries_in_their_order():
    X, y, qid = ranking()
    order = np.argsort(qid, kind="stable")
    by_query = AnytimeRanker(GROUPS).fit(X[order], y[order], qid=qid[order])
    by_size = AnytimeRanker(GROUPS).fit(X[order], y[order], group=np.bincount(qid))
    np.testing.assert_array_equal(by_query.coef_path_, by_size.coef_path_)


def test_structured_targets_and_pairs_are_the_same():
    X, time, event = survival()
    y = np.array(list(zip(event, time, strict=True)), dtype=[("cens", bool), ("t", float)])
    pair, array = AnytimeSurvival(GROUPS).fit(X, time, event), AnytimeSurvival(GROUPS).fit(X, y)
    np.testing.assert_array_equal(pair.coef_path_, array.coef_path_)
    assert pair.score(X, y) == pair.score(X, (time, event))


def test_strata_are_compared_within():
    X, time, event = survival()
    stratum = np.where(X[:, 0] > 0, "high", "low")
    model = AnytimeSurvival(GROUPS, alpha=ALPHA).fit(X, time, event, strata=stratum)
    apart = AnytimeSurvival(GROUPS, alpha=ALPHA).fit(X, time + 1000 * (stratum == "low"), event)
    assert abs(model.coef_ - apart.coef_).max() > 0.01
    with pytest.raises(ValueError, match="without strata"):
        model.predict_survival_function(X)
    assert model.score(X, (time, event), strata=stratum) == concordance(time, event, model.predict(X), stratum)
    with pytest.raises(ValueError, match="fitted with strata: pass those of these rows"):
        model.score(X, (time, event))
    for metric in ("concordance", "explained"):
        with pytest.raises(ValueError, match="fitted with strata, and would be evaluated without them"):
            budget_curve(model, X, (time, event), metric=metric)


@pytest.mark.parametrize("kind", ["ranking", "survival"])
def test_saved_models_predict_the_same_bits(kind, tmp_path):
    model, X, _ = fitted(kind)
    save(model, tmp_path / "m.budgetline")
    again = load(tmp_path / "m.budgetline")
    missing = X.copy()
    missing[::2, 1:3] = np.nan
    missing[1::3, 3] = np.nan
    for table, settings in (
        (X, {}),
        (X, {"budget": 4}),
        (X, {"available": ["d", "a"]}),
        (missing, {"available": "auto"}),
    ):
        np.testing.assert_array_equal(model.predict(table, **settings), again.predict(table, **settings))
    assert repr(again) == repr(model)
    if kind == "survival":
        found = model.predict_survival_function(X, budget=4)
        np.testing.assert_array_equal(found, again.predict_survival_function(X, budget=4))


@pytest.mark.parametrize("kind", ["ranking", "survival"])
def test_models_of_subsets_are_close_to_refits(kind):
    model, X, risk = fitted(kind)
    mean, scale = model.model_.stages.mean, model.model_.stages.scale
    Z, null = (X - mean) / scale, risk(np.zeros(len(X)))
    for names in (["d", "b"], ["c", "d"], ["b"]):
        columns = [d for name in names for d in GROUPS.columns[GROUPS.names.index(name)]]
        function = lambda w, c=tuple(columns): risk(Z[:, c] @ w)  # noqa: E731
        best = null - minimize(function, np.zeros(len(columns)), method="BFGS").fun
        gained = null - risk(model.predict(X, available=names))
        assert gained >= 0.9 * best


def test_survival_functions_are_those_of_the_baseline():
    X, time, event = survival(ties=False)
    model = AnytimeSurvival(GROUPS, ties="breslow").fit(X, time, event)
    at = np.quantile(time, [0.2, 0.5, 0.8])
    for stage in (0, 2, 4):
        raised = np.exp(model.predict(X, stage=stage))
        jumps = [(t, 1 / raised[time >= t].sum()) for t in time[event]]
        hazard = np.array([sum(jump for t, jump in jumps if t <= u) for u in at])
        want = np.exp(-np.outer(raised, hazard))
        np.testing.assert_allclose(model.predict_survival_function(X, at, stage=stage), want, rtol=1e-9)
    assert (model.predict_survival_function(X, [0.0]) == 1).all()


@pytest.mark.parametrize(("n", "most"), [(1500, 0.0), (20_000, 4e-4)])
def test_no_jump_of_the_baseline_is_left_out(n, most):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    time = np.where(rng.random(n) < 0.4, 1.0, 2 + rng.exponential(np.exp(-X[:, 0])))
    time[:5] = np.linspace(0.1, 0.5, 5)
    event = rng.random(n) < 0.9
    model = AnytimeSurvival(rule="omp", ties="breslow").fit(X, time, event)
    times = np.unique(time[event])
    assert (model.event_times_.size == times.size) == (most == 0)
    assert 500 < model.event_times_.size <= times.size
    at, some = np.append(times[::7], [0.0, 0.99, 1.0, 1.5, 99.0]), np.argsort(X[:, 0])[:: n // 60]
    for stage in range(3):
        raised = np.exp(model.predict(X, stage=stage))
        order = np.argsort(time)
        left = np.append(np.cumsum(raised[order][::-1])[::-1], np.nan)[np.searchsorted(time[order], times)]
        jumps = [(t, (event & (time == t)).sum() / rest) for t, rest in zip(times.tolist(), left, strict=True)]
        hazard = np.append(0.0, np.cumsum([jump for _, jump in jumps]))[np.searchsorted(times, at, side="right")]
        want = np.exp(-np.outer(raised[some], hazard))
        np.testing.assert_allclose(model.predict_survival_function(X[some], at, stage=stage), want, atol=most + 1e-9)


def test_survival_is_predicted_at_one_time_and_from_available_groups():
    X, time, event = survival()
    model = AnytimeSurvival(GROUPS).fit(X, time, event)
    first = model.sequence_.groups[0]
    found = model.predict_survival_function(X, 3.0, available=[first])
    np.testing.assert_array_equal(found, model.predict_survival_function(X, [3.0], stage=1))
    missing = np.where(np.arange(6) == GROUPS.columns[GROUPS.names.index(first)][0], X, np.nan)
    missing[0] = X[0]
    rows = model.predict_survival_function(missing, [3.0, 9.0], available="auto")
    np.testing.assert_allclose(rows[1:], model.predict_survival_function(X[1:], [3.0, 9.0], stage=1))
    np.testing.assert_allclose(rows[:1], model.predict_survival_function(X[:1], [3.0, 9.0]))
    long = np.arange(900.0)
    many = AnytimeSurvival().fit(X[np.arange(900) % 300], long, np.ones(900))
    usual = many.predict_survival_function(X[:2])
    places = np.linspace(0, 899, 500).round().astype(int)
    np.testing.assert_array_equal(usual, many.predict_survival_function(X[:2], many.event_times_[places]))


def test_folds_of_survival_times_share_the_events():
    X = np.random.default_rng(0).normal(size=(240, 5))
    time, event, patient = np.arange(240.0), np.arange(240) < 40, np.arange(240) // 2
    assert AnytimeSurvivalCV().fit(X, time, event).model_.n_stages == 5
    curve = cross_val_budget_curve(AnytimeSurvival(), X, (time, event), cv=4)
    assert len(curve.folds) == 4
    data = Rows(X, np.column_stack([time, event, np.zeros(240)]), None)
    training = RowsTraining(data, FeatureGroups([[d] for d in range(5)]).resolve(None, 5), Task(Cox(), 1e-8))
    for groups in (None, patient):
        for train, test in training.fixed(4, groups):
            assert 8 <= event[test].sum() <= 12
            assert groups is None or set(patient[train]).isdisjoint(patient[test])
    apart = AnytimeSurvivalCV(alphas=[1e-4, 1e-1]).fit(X, time, event, groups=patient)
    splits = training.fixed(None, patient)
    again = AnytimeSurvivalCV(alphas=[1e-4, 1e-1], cv=splits).fit(X, time, event)
    np.testing.assert_array_equal(apart.cv_scores_, again.cv_scores_)
    nearly = Rows(X, np.column_stack([time, time > 0, 0 * time]), None)  # one row is censored
    assert len(RowsTraining(nearly, training.layout, training.task).fixed(5)) == 5


SPLITS = {
    "rows": KFold(4, shuffle=True, random_state=0),
    "a list": [(np.arange(180), np.arange(180, 360))],
    "masks": [(np.arange(360) < 180, np.arange(360) >= 180)],
}


@pytest.mark.parametrize("case", SPLITS)
def test_folds_that_split_queries_are_refused(case):
    X, y, qid = ranking()
    names = np.array([f"q{k}" for k in qid])
    with pytest.raises(ValueError, match=r"fold 0 splits query 'q\d+' between training and held-out rows"):
        AnytimeRankerCV(cv=SPLITS[case]).fit(X, y, qid=names)
    with pytest.raises(ValueError, match="fold 0 splits query"):
        cross_val_budget_curve(AnytimeRanker(), X, y, cv=SPLITS[case], qid=names, metric="ndcg@5")


def test_splitters_of_groups_get_the_queries():
    X, y, qid = ranking()
    by_splitter = AnytimeRankerCV(cv=GroupKFold(5, shuffle=True, random_state=0)).fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_splitter.cv_scores_, AnytimeRankerCV().fit(X, y, qid=qid).cv_scores_)
    curves = [cross_val_budget_curve(AnytimeRanker(), X, y, cv=cv, qid=qid) for cv in (4, GroupKFold(4))]
    np.testing.assert_array_equal(curves[0].values, curves[1].values)


@pytest.mark.parametrize("kind", [AnytimeRanker, AnytimeRankerCV, AnytimeSurvival, AnytimeSurvivalCV])
def test_metadata_are_routed_to_fit_and_score(kind):
    X, y, qid = ranking()
    _, time, event = survival(360)
    with config_context(enable_metadata_routing=True):
        if kind in (AnytimeRanker, AnytimeRankerCV):
            model = kind(GROUPS).set_fit_request(qid=True).set_score_request(qid=True)
            found = cross_val_score(model, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})
        else:
            model = kind(GROUPS).set_fit_request(strata=True).set_score_request(strata=True)
            y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
            found = cross_val_score(model, X, y, cv=KFold(3), params={"strata": X[:, 0] > 0})
    assert found.shape == (3,)
    assert np.isfinite(found).all()


def test_searches_keep_queries_whole_and_raise_the_metric():
    X, y, qid = ranking(60, 15, 12)
    search = AnytimeRankerCV(rule="omp", alphas=[1e-4, 1e-1]).fit(X, y, qid=qid)
    assert search.alpha_ in (1e-4, 1e-1)
    assert search.held_out_[-1, 1] > 0
    plain = search.chosen()
    assert isinstance(plain, AnytimeRanker)
    np.testing.assert_array_equal(plain.fit(X, y, qid=qid).coef_path_, search.coef_path_)


def test_curves_and_comparisons_of_rankings():
    X, y, qid = ranking(60, 15)
    model = AnytimeRanker(GROUPS).fit(X, y, qid=qid)
    curve = budget_curve(model, X, y, metric="ndcg@5", qid=qid)
    for stage in range(5):
        assert curve.values[stage] == ndcg_score(y, model.predict(X, stage=stage), qid, k=5)
    explained = budget_curve(model, X, y, qid=qid)
    assert explained.values[-1] > explained.values[1] > 0
    mean = cross_val_budget_curve(AnytimeRanker(GROUPS), X, y, cv=3, metric="ndcg@5", qid=qid)
    assert 0.3 < mean.values[-1] <= 1
    found = compare(
        {"forward": AnytimeRanker(GROUPS), "omp": AnytimeRanker(GROUPS, rule="omp")}, X, y, metric="ndcg", qid=qid
    )
    assert list(found.curves) == ["forward", "omp"]


def test_curves_of_survival_times():
    X, time, event = survival()
    model = AnytimeSurvivalCV(GROUPS).fit(X, time, event)
    concordances = budget_curve(model, X, (time, event), metric="concordance").values
    assert concordances[0] == 0.5
    assert concordances[-1] == model.score(X, (time, event)) > 0.6
    brier = budget_curve(model, X, (time, event), metric="brier").values
    assert brier[-1] < brier[0]
    mean = cross_val_budget_curve(clone(model), X, (time, event), cv=3, metric="concordance")
    assert mean.values[-1] > 0.6


def test_raw_tables_with_pairs():
    X, time, event = survival(500, 4)
    event = event & (np.random.default_rng(3).random(500) < 0.9)
    frame = pd.DataFrame({"age": X[:, 0], "kind": np.where(X[:, 1] > 0, "x", "y"), "b": X[:, 2], "c": X[:, 3]})
    frame.loc[::7, "age"] = None
    model = AnytimeSurvivalCV(encoding="spline", interactions=[0, 2], rule="omp").fit(frame, time, event)
    assert model.score(frame, (time, event)) > 0.6
    with pytest.warns(UserWarning, match="count as missing values: 'b'"):
        assert np.isfinite(model.predict(frame.drop(columns="b"), available="auto")).all()


@pytest.mark.parametrize("rule", ["score", "omp"])
@pytest.mark.parametrize("storage", ["dense", "svmlight"])
def test_rankings_are_streamed_by_query(rule, storage, tmp_path):
    X, y, qid = ranking()
    order = np.argsort(qid, kind="stable")
    X, y, qid = X[order], y[order], qid[order]
    if storage == "svmlight":
        for k in range(3):
            part = slice(120 * k, 120 * k + 120)
            dump_svmlight_file(X[part], y[part], str(tmp_path / f"{k}.svm"), zero_based=True, query_id=qid[part])
        source = open_data([str(tmp_path / f"{k}.svm") for k in range(3)], qid="qid", zero_based=True)
    else:
        frames = [
            pd.DataFrame(X[k : k + 120]).add_prefix("x").assign(y=y[k : k + 120], q=qid[k : k + 120])
            for k in (0, 120, 240)
        ]
        for k, frame in enumerate(frames):
            frame.to_parquet(tmp_path / f"{k}.parquet")
        source = open_data(str(tmp_path / "*.parquet"), target="y", qid="q")
    settings = {"rule": rule, "alpha": ALPHA, "correction": 1.0}
    memory = AnytimeRanker(GROUPS, **settings).fit(X, y, qid=qid)
    stream = AnytimeRanker(GROUPS, **settings).fit(source)
    assert memory.sequence_.groups == stream.sequence_.groups
    np.testing.assert_allclose(stream.coef_path_, memory.coef_path_, atol=1e-8)
    np.testing.assert_allclose(stream.model_.penalties, memory.model_.penalties, rtol=1e-9)


def test_a_query_in_two_chunks_is_refused():
    X, y, qid = ranking()
    frame = pd.DataFrame(X).add_prefix("x").assign(y=y, q=np.sort(qid))
    source = open_data(frame, target="y", qid="q", chunk_rows=50)
    with pytest.raises(ValueError, match="query 4 lies in several chunks"):
        AnytimeRanker(rule="omp").fit(source)
    with pytest.raises(TypeError, match="searches on rows in memory"):
        AnytimeRankerCV(rule="omp").fit(source)
    with pytest.raises(ValueError, match="refits every candidate"):
        AnytimeRanker().fit(source)


BAD_RANKINGS = {
    "needs qid": ({"qid": None}, "needs qid"),
    "one of them": ({"group": [360]}, "pass one of them"),
    "negative": ({"y": -1}, "grades of relevance from 0 to 30, got -1"),
    "nothing relevant": ({"y": 0}, "no query of positive weight has a relevant document"),
    "weights": ({"sample_weight": np.arange(360.0)}, "sample_weight differs within query"),
    "short": ({"qid": np.arange(3)}, "inconsistent numbers of samples"),
}


@pytest.mark.parametrize("case", BAD_RANKINGS)
def test_bad_rankings_are_refused(case):
    change, message = BAD_RANKINGS[case]
    X, y, qid = ranking()
    given = {"y": np.full(len(y), change["y"]) if "y" in change else y, "qid": qid} | {
        name: value for name, value in change.items() if name != "y"
    }
    with pytest.raises(ValueError, match=message):
        AnytimeRanker(GROUPS).fit(X, **given)


def test_bad_survival_times_are_refused():
    X, time, event = survival()
    model = AnytimeSurvival(GROUPS)
    with pytest.raises(ValueError, match="times must not be negative, got -1"):
        model.fit(X, np.where(time == time[0], -1, time), event)
    with pytest.raises(ValueError, match="no row of positive weight has an event"):
        model.fit(X, time, np.zeros(len(X), dtype=bool))
    with pytest.raises(ValueError, match="events must be true or false"):
        model.fit(X, time, 2 * event)
    with pytest.raises(ValueError, match="y must be times and events"):
        model.fit(X, time)
    with pytest.raises(TypeError, match="learns from rows in memory"):
        model.fit(open_data((X, time)), None)


@pytest.mark.parametrize("rule", ["forward", "omp"])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_every_stage_with_strata_weights_and_ties_is_the_refit(ties, rule):
    X, time, event = survival()
    rng = np.random.default_rng(1)
    stratum, weight = rng.integers(0, 3, len(X)), rng.uniform(0.5, 2.0, len(X)) * (rng.random(len(X)) > 0.1)
    model = AnytimeSurvival(GROUPS, rule=rule, alpha=ALPHA, ties=ties).fit(X, time, event, weight, strata=stratum)
    share = weight / weight.sum()
    mean = share @ X
    scale = np.sqrt(share @ (X - mean) ** 2)
    Z, columns = (X - mean) / scale, list[int]()
    for stage, name in enumerate(model.sequence_.groups, start=1):
        columns += GROUPS.columns[GROUPS.names.index(name)]

        def loss(w, c=tuple(columns)):
            eta = Z[:, c] @ w
            return partial_likelihood(eta, time, event, stratum, share, ties == "efron") + ALPHA / 2 * w @ w

        found = minimize(loss, np.zeros(len(columns)), method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(model.coef_path_[stage - 1, columns] * scale[columns], found.x, atol=2e-5)


def fits():
    """Return a function that fits each of the four estimators, with and without an encoding."""
    X, y, qid = ranking()
    Xs, time, event = survival()
    frame = pd.DataFrame(Xs[:, :3], columns=list("abc")).assign(kind=np.where(Xs[:, 3] > 0, "x", "y"))
    frame.loc[::9, "b"] = None
    return {
        "ranker": lambda: (AnytimeRanker(GROUPS).fit(X, y, qid=qid), X),
        "ranker CV": lambda: (AnytimeRankerCV(GROUPS, rule="omp").fit(X, y, qid=qid), X),
        "survival": lambda: (AnytimeSurvival(GROUPS, ties="breslow").fit(Xs, time, event), Xs),
        "survival CV": lambda: (AnytimeSurvivalCV(GROUPS).fit(Xs, time, event), Xs),
        "encoded": lambda: (AnytimeSurvival(encoding="spline", rule="omp").fit(frame, time, event), frame),
    }


@pytest.mark.parametrize("kind", ["ranker", "ranker CV", "survival", "survival CV", "encoded"])
def test_all_methods_of_saved_models_are_those_of_the_model(kind, tmp_path):
    model, X = fits()[kind]()
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert type(again) is type(model)
    assert again.get_params().keys() == model.get_params().keys()
    for a, b in zip(model.staged_predict(X), again.staged_predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert model.plan(3).groups == again.plan(3).groups
    np.testing.assert_array_equal(model.plan(3).predict(X), again.plan(3).predict(X))
    first = model.sequence_.groups[0]
    assert str(model.next_groups([first])) == str(again.next_groups([first]))
    for a, b in zip(model.effects(), again.effects(), strict=True):
        np.testing.assert_array_equal(a.values, b.values)
    if "survival" in kind:
        np.testing.assert_array_equal(
            model.predict_survival_function(X, stage=1), again.predict_survival_function(X, stage=1)
        )
    save(again, tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("kind", ["ranker", "survival"])
def test_onnx_graphs_predict_as_the_model_does(kind):
    runtime = pytest.importorskip("onnxruntime")
    model, X = fits()[kind]()
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    for stage in range(model.model_.n_stages + 1):
        (found,) = session.run(None, {"X": X, "stage": np.array(stage)})
        np.testing.assert_allclose(found, model.predict(X, stage=stage), atol=1e-12)


@pytest.mark.parametrize("kind", ["ranker", "survival"])
def test_effects_add_up_to_the_scores(kind):
    model, X = fits()[kind]()
    effects = model.effects(stage=2)
    total = model.predict(X[:1] * 0 + model.model_.stages.mean, stage=2)
    assert total == pytest.approx(0, abs=1e-9)
    for effect in effects:
        (axis,) = effect.axes
        slope, points = model.coef_path_[1, int(axis.column)], np.array(axis.numbers)
        np.testing.assert_allclose(np.diff(effect.values[: points.size].ravel()), slope * np.diff(points), atol=1e-9)


@pytest.mark.parametrize("kind", ["ranker", "survival"])
def test_a_plan_is_worth_at_least_the_prefix(kind):
    model, X, risk = fitted("ranking" if kind == "ranker" else "survival")
    plan = model.plan(4)
    assert plan.cost <= 4
    null = risk(np.zeros(len(X)))
    assert null - risk(plan.predict(X)) >= 0.99 * (null - risk(model.predict(X, budget=4)))


@pytest.mark.parametrize("kind", ["ranker", "survival"])
def test_what_these_models_cannot_do_is_refused(kind):
    model, X = fits()[kind]()
    name = type(model).__name__
    y = np.zeros(len(X))
    with pytest.raises(TypeError, match=f"plans of {name} are not refitted: fit {name}"):
        model.plan(3, X=X, y=y)
    with pytest.raises(TypeError, match=f"X is for classifiers, got {name}"):
        model.next_groups([], X=X)
    with pytest.raises(TypeError, match=f"early exit is for classifiers, got {name}"):
        EarlyExit.fit(model, X, threshold=0.1)
    with pytest.raises(AttributeError):
        model.partial_fit(X, y)
    with pytest.raises(AttributeError):
        model.predict_proba(X)
    with pytest.raises((ValueError, TypeError), match=r"certificate|certif"):
        certify(model)
    for metric in ("mse", "r2", "log_loss", "accuracy", "roc_auc"):
        y_true = (ranking()[1]) if kind == "ranker" else survival()[1:]
        given = {"qid": ranking()[2]} if kind == "ranker" else {}
        with pytest.raises(ValueError, match=f"not (available )?for {name}"):
            budget_curve(model, X, y_true, metric=metric, **given)
    other = "concordance" if kind == "ranker" else "ndcg@5"
    with pytest.raises(ValueError, match=r"is for survival times, not for AnytimeRanker|needs qid"):
        budget_curve(model, X, y_true, metric=other)
    with pytest.raises(ValueError, match=r"a ranking needs qid|y must be times and events"):
        StagedEstimators(DecisionTreeRegressor(), type(model)(GROUPS)).fit(X, ranking()[1][: len(X)] * 1.0)


@pytest.mark.parametrize("kind", ["ranker", "survival"])
def test_other_estimators_follow_the_order(kind):
    model, X = fits()[kind]()
    y = X[:, 0] + X[:, 3]
    staged = StagedEstimators(DecisionTreeRegressor(random_state=0), model.sequence_, feature_groups=GROUPS).fit(X, y)
    assert staged.sequence_.groups == model.sequence_.groups


def test_curves_of_rankings_are_streamed(tmp_path):
    X, y, qid = ranking()
    model = AnytimeRanker(GROUPS).fit(X, y, qid=qid)
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(6)]).assign(y=y, q=qid)
    source = open_data(frame, target="y", qid="q", chunk_rows=50)
    for metric in ("explained", "ndcg@3", "map"):
        want = budget_curve(model, X, y, metric=metric, qid=qid).values
        np.testing.assert_allclose(budget_curve(model, source, metric=metric).values, want, atol=1e-12)


def test_searches_on_some_rows_keep_queries_whole():
    X, y, qid = ranking(60, 12)
    search = AnytimeRankerCV(GROUPS, search_rows=240).fit(X, y, qid=qid)
    rows = search.model_
    assert rows.n_stages == 4
    training = RowsTraining(
        Rows(X, np.column_stack([y, qid]).astype(float), None), GROUPS.resolve(None, 6), Task(Listwise(), 1e-8)
    )
    part, _ = training.sampled(240, [])
    counts = np.bincount(part.rows.Y[:, 1].astype(int), minlength=60)
    assert set(counts.tolist()) == {0, 12}
    uneven = np.random.default_rng(0).integers(0, 40, len(y))
    sizes = np.bincount(uneven)
    other = replace(training, rows=Rows(X, np.column_stack([y, uneven]).astype(float), None))
    for most in (1, 100, 240):
        part, _ = other.sampled(most, [])
        counts = np.bincount(part.rows.Y[:, 1].astype(int), minlength=40)
        assert ((counts == 0) | (counts == sizes)).all()
        assert most - sizes.max() < counts.sum() <= max(most, sizes.max())
