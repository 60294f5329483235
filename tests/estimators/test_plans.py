"""Plans: the models that are fitted on them, where they can be used, and plans of losses other than squared error."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import reference_glm
from best_sets import best_set
from reference import standardise
from sklearn.exceptions import NotFittedError

import budgetline
from budgetline import (
    AnytimeClassifier,
    AnytimeClassifierCV,
    AnytimeRegressor,
    AnytimeRegressorCV,
    AnytimeRunner,
    Encoding,
    FeatureGroups,
    FixedOrder,
    GroupLassoPath,
    Moments,
    budget_curve,
    open_data,
)

pytestmark = pytest.mark.quick_cases(3)

COLUMNS = {"a": [0, 1], "b": [2], "c": [3, 4], "d": [5], "e": [6, 7]}
COSTS = {"a": 1.0, "b": 2.0, "c": 0.5, "d": 1.5, "e": 3.0}
GROUPS = FeatureGroups(COLUMNS, COSTS, shared={"draw": (1.0, ["b", "d"])}, requires={"e": ["c"]})
LONG = 60.0


@cache
def table(seed=0, n=150):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 8)) @ (np.eye(8) + 0.4 * rng.normal(size=(8, 8)))


def score_of(X, seed=0):
    return X @ np.random.default_rng([seed, 1]).normal(size=(8, 3))


def target(kind, seed=0):
    X, rng = table(seed), np.random.default_rng([seed, 2])
    scores = score_of(X, seed)
    if kind == "squared":
        return scores[:, 0] + rng.normal(size=len(X))
    if kind == "targets":
        return scores + rng.normal(size=scores.shape)
    if kind == "poisson":
        return rng.poisson(np.exp(0.3 * scores[:, 0])).astype(float)
    if kind == "binary":
        return np.where(0.5 * scores[:, 0] + rng.logistic(size=len(X)) > 0, "yes", "no")
    return np.array(["x", "y", "z"])[np.argmax(0.5 * scores + rng.gumbel(size=scores.shape), axis=1)]


def raw_table():
    """Categories, missing values and numbers."""
    X = table()
    frame = pd.DataFrame(X.copy(), columns=[f"x{d}" for d in range(8)])  # pandas below 3 shares memory
    frame["x2"] = np.where(X[:, 2] > 0, "up", "down")
    frame.loc[::17, "x5"] = np.nan
    return frame


RAW = FeatureGroups(
    {name: [f"x{d}" for d in columns] for name, columns in COLUMNS.items()}, COSTS,
    shared={"draw": (1.0, ["b", "d"])}, requires={"e": ["c"]},
)  # fmt: skip
MODELS = {
    "squared": lambda: AnytimeRegressor(GROUPS, alpha=1e-3).fit(table(), target("squared")),
    "targets": lambda: AnytimeRegressor(GROUPS, alpha=1e-3).fit(table(), target("targets")),
    "search": lambda: AnytimeRegressorCV(GROUPS, alphas=[1e-3, 1e-1], cv=2).fit(table(), target("squared")),
    "lasso": lambda: GroupLassoPath(GROUPS).fit(table(), target("squared")),
    "poisson": lambda: AnytimeRegressor(GROUPS, loss="poisson", alpha=1e-2).fit(table(), target("poisson")),
    "binary": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(table(), target("binary")),
    "softmax": lambda: AnytimeClassifier(GROUPS, alpha=1e-2).fit(table(), target("softmax")),
    "binary search": lambda: AnytimeClassifierCV(GROUPS, alphas=[1e-2, 1e-1], cv=2).fit(table(), target("binary")),
    "raw": lambda: AnytimeRegressor(RAW, encoding=Encoding(interactions=2)).fit(raw_table(), target("squared")),
    "raw binary": lambda: AnytimeClassifier(RAW, encoding="spline").fit(raw_table(), target("binary")),
}
GENERALISED = ("poisson", "binary", "softmax", "binary search", "raw binary")
EXCLUDE = ["a"]  # so that the set is no prefix of the sequence


@cache
def model_of(name):
    return MODELS[name]()


def data_of(name):
    kind = name.removeprefix("raw ").removesuffix(" search")
    kind = kind if kind in ("targets", "poisson", "binary", "softmax") else "squared"
    return (raw_table() if name.startswith("raw") else table()), target(kind)


@cache
def plan_of(name, refit=False):
    X, y = data_of(name)
    return model_of(name).plan(4.0, exclude=EXCLUDE, time_limit=LONG, **({"X": X, "y": y} if refit else {}))


def responses(model, X):
    methods = ["predict", "predict_proba", "decision_function"] if model.model_.classes is not None else ["predict"]
    return {method: getattr(model, method)(X) for method in methods}


def assert_same(left, right, **tolerance):
    assert left.keys() == right.keys()
    for method, found in left.items():
        if found.dtype.kind in "fc":
            np.testing.assert_allclose(found, right[method], **(tolerance or {"rtol": 1e-12, "atol": 1e-12}))
        else:
            assert (found == right[method]).all()


# -- the models of a plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["squared", "targets", "search"])
def test_the_models_are_those_of_least_squares_on_the_groups(name):
    plan, (X, y) = plan_of(name), data_of(name)
    assert plan.refitted
    assert "a" not in plan.groups
    fixed = AnytimeRegressor(GROUPS, schedule=FixedOrder(plan.groups), alpha=plan.model_.alpha).fit(X, y)
    assert plan.model_.sequence.groups == fixed.sequence_.groups == plan.groups
    np.testing.assert_allclose(plan.model_.sequence.gains, fixed.sequence_.gains, rtol=1e-9)
    assert plan.explained == pytest.approx(fixed.sequence_.explained[-1], rel=1e-9)
    for stage in range(len(plan.groups) + 1):
        ours = plan.model_.scored(X, stage=stage)[0]
        np.testing.assert_allclose(ours, fixed.model_.scored(X, stage=stage)[0], rtol=0, atol=1e-9 * np.abs(y).max())
    available = list(plan.groups[1:])
    np.testing.assert_allclose(
        plan.model_.scored(X, available=available)[0], fixed.model_.scored(X, available=available)[0], atol=1e-8
    )


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", MODELS)
def test_a_refitted_plan_is_the_exact_model_of_its_groups(name):
    plan, (X, y) = plan_of(name, refit=True), data_of(name)
    model = model_of(name)
    assert plan.refitted
    assert plan.explained == pytest.approx(plan.model_.sequence.explained[-1])
    if name == "raw":  # groups of pairs exist only once the encoding is fitted
        assert_same(responses(plan, X), responses(plan_of(name), X), rtol=1e-8)
        return
    kind = {"loss": "poisson"} if name == "poisson" else {}
    simple = AnytimeClassifier if plan.model_.classes is not None else AnytimeRegressor
    fixed = simple(
        model.feature_groups,
        schedule=FixedOrder(plan.groups),
        alpha=model.model_.alpha,
        encoding=model.encoding,
        **kind,
    ).fit(X, y)
    assert_same(responses(plan, X), responses(fixed, X), rtol=1e-7, atol=1e-9)
    assert plan.explained == pytest.approx(fixed.sequence_.explained[-1], rel=1e-8)


@pytest.mark.parametrize("name", GENERALISED)
def test_without_data_the_models_are_those_of_any_subset(name):
    plan, (X, _), model = plan_of(name), data_of(name), model_of(name)
    assert (plan.bound, plan.certificate, plan.optimal, plan.ratio) == (None, None, False, None)
    assert plan.refitted is (plan.groups == model.sequence_.groups[: len(plan.groups)])
    assert_same(responses(plan, X), responses_of(model, X, plan.groups))


def responses_of(model, X, groups):
    methods = ["predict", "predict_proba", "decision_function"] if model.model_.classes is not None else ["predict"]
    return {method: getattr(model, method)(X, available=list(groups)) for method in methods}


@pytest.mark.parametrize("name", GENERALISED)
def test_a_plan_that_is_a_prefix_is_exact(name):
    model, (X, _) = model_of(name), data_of(name)
    plan = model.plan(1e6, time_limit=LONG)
    assert plan.groups == model.sequence_.groups
    assert plan.refitted
    assert plan.explained == pytest.approx(model.sequence_.explained[-1])
    assert_same(responses(plan, X), responses(model, X))
    assert "about" not in repr(plan)


def test_without_moments_the_factor_answers():
    model = AnytimeRegressor(GROUPS, alpha=1e-3).fit(table(), target("targets"))
    whole = model.plans([2, 4, 20], time_limit=LONG)
    model.model_ = replace(model.model_, moments=None)
    for plan, expected in zip(model.plans([2, 4, 20], time_limit=LONG), whole, strict=True):
        assert (plan.groups, plan.optimal) == (expected.groups, True)
        assert plan.bound == pytest.approx(expected.bound)
        assert_same(responses(plan, table()), responses(expected, table()), rtol=1e-8)


@pytest.mark.parametrize("kind", ["squared", "binary"])
def test_a_sequence_that_ended_early_is_chosen_from(kind):
    make = AnytimeRegressor if kind == "squared" else AnytimeClassifier
    model = make(GROUPS, alpha=1e-2, max_groups=3).fit(table(), target(kind))
    model.model_ = replace(model.model_, moments=None)
    plan = model.plan(100, time_limit=LONG)
    assert set(plan.groups) == set(model.sequence_.groups)
    left = next(name for name in COLUMNS if name not in model.sequence_.groups)
    with pytest.raises(ValueError, match=f"'{left}' must be in, but it is unknown to the model"):
        model.plan(100, include=[left])
    if kind == "squared":  # moments know all groups
        assert len(AnytimeRegressor(GROUPS, max_groups=3).fit(table(), target(kind)).plan(100).groups) == 5


@pytest.mark.parametrize("name", ["squared", "binary"])
def test_the_empty_plan_is_the_intercept(name, tmp_path):
    model, (X, _) = model_of(name), data_of(name)
    plan = model.plan(0.1)
    assert (plan.groups, plan.cost, plan.explained, plan.value) == ((), 0.0, 0.0, 0.0)
    assert "nothing" in repr(plan)
    assert_same(responses(plan, X), {m: getattr(model, m)(X, stage=0) for m in responses(plan, X)})
    budgetline.save(plan, tmp_path / "empty")
    assert_same(responses(budgetline.load(tmp_path / "empty"), X), responses(plan, X))


# -- where plans can be used -----------------------------------------------------------------------------------


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_plan_in_a_file_is_an_estimator_of_its_groups(name, refit, tmp_path):
    plan, (X, _) = plan_of(name, refit), data_of(name)
    budgetline.save(plan, tmp_path / "plan")
    found = budgetline.load(tmp_path / "plan")
    assert type(found) is type(model_of(name))
    assert found.sequence_.groups == plan.groups
    assert_same(responses(found, X), responses(plan, X))


@pytest.mark.parametrize("name", ["squared", "binary", "softmax", "raw", "raw binary"])
def test_a_plan_as_a_graph(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    plan, (X, _) = plan_of(name), data_of(name)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        budgetline.to_onnx(plan).SerializeToString(), quiet, providers=["CPUExecutionProvider"]
    )
    if name.startswith("raw"):
        wanted = {put.name: put.type for put in session.get_inputs()}
        fed = {
            column: X[[column]].to_numpy(dtype=str if "string" in wanted[column] else float)
            for column in X.columns
            if column in wanted
        }
    else:
        fed = {"X": X}
    found = dict(zip([put.name for put in session.get_outputs()], session.run(None, fed), strict=True))
    kind = "probabilities" if plan.model_.classes is not None else "prediction"
    expected = plan.predict_proba(X) if plan.model_.classes is not None else plan.predict(X)
    np.testing.assert_allclose(found[kind], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["squared", "binary"])
def test_a_runner_runs_a_plan(name):
    plan, (X, _) = plan_of(name), data_of(name)
    extractors = {group: lambda row, columns=columns: row[columns] for group, columns in COLUMNS.items()}
    for given in (extractors, {group: extractors[group] for group in plan.groups}):
        with AnytimeRunner(plan, given) as runner:
            answer = runner.predict(X[3])
        assert answer.groups == plan.groups
        assert answer.spent == pytest.approx(plan.cost)
        assert answer.value == pytest.approx(plan.predict(X[3:4])[0]) if name == "squared" else plan.predict(X[3:4])[0]


def test_a_plan_has_a_curve():
    plan, (X, y) = plan_of("squared"), data_of("squared")
    curve = budget_curve(plan, X, y)
    assert curve.costs[-1] == pytest.approx(plan.cost)
    shown = plan._repr_html_()
    assert all(group in shown for group in plan.groups)


def test_more_rows_can_be_added_to_a_plan_from_a_file(tmp_path):
    """They refit the groups of the plan."""
    X, y = data_of("squared")
    budgetline.save(plan_of("squared"), tmp_path / "plan")
    found = budgetline.load(tmp_path / "plan").partial_fit(X[:50], y[:50])
    assert found.sequence_.groups == plan_of("squared").groups
    assert found.moments_.n_samples == 200


# -- what is chosen --------------------------------------------------------------------------------------------


def test_a_plan_is_the_best_set():
    model, moments = model_of("squared"), Moments.from_data(table(), target("squared"))
    for budget in (0, 2.5, 4, 9):
        plan = model.plan(budget, time_limit=LONG)
        found = best_set(moments, GROUPS, budget=budget, alpha=1e-3, time_limit=LONG)
        assert (set(plan.groups), plan.cost, plan.optimal) == (set(found.groups), found.cost, True)
        assert plan.explained == plan.value == pytest.approx(found.explained)
        assert plan.certificate.penalties is None
        plan.certificate.verify(moments)
        assert f"Plan({', '.join(plan.groups) or 'nothing'}: cost" in repr(plan)


def test_several_budgets_are_answered_as_one_after_another():
    for name in ("squared", "binary"):
        model = model_of(name)
        several = model.plans(np.array([0.0, 2.5, 4.0]), time_limit=LONG)
        alone = [model.plan(budget, time_limit=LONG) for budget in (0, 2.5, 4)]
        assert [plan.groups for plan in several] == [plan.groups for plan in alone]
        assert model.plans([]) == ()


def test_a_correction_leaves_out_what_noise_explains():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=200)
    model = AnytimeRegressor().fit(X, y)
    assert len(model.plan(100).groups) == 6
    model.model_ = replace(model.model_, penalties=np.full(6, 0.05))
    plan = model.plan(100, time_limit=LONG)
    assert set(plan.groups) == {"0", "1"}
    assert plan.optimal
    lost = 2 * 0.05 / model.sequence_.null_value
    assert plan.value == pytest.approx(plan.explained - lost)
    assert plan.bound == pytest.approx(plan.value)
    assert "optimal, less the correction" in repr(plan)
    assert "minus a correction for noise" in str(plan.certificate)
    plan.certificate.verify(model.moments_)
    forced = model.plan(100, include=["5"], time_limit=LONG)
    assert set(forced.groups) == {"0", "1", "5"}
    assert forced.optimal


def test_a_value_below_zero_is_still_the_best():
    """Where a group that explains next to nothing must be in."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    model = AnytimeRegressor().fit(X, rng.normal(size=200))
    model.model_ = replace(model.model_, penalties=np.full(3, 0.1))
    plan = model.plan(100, include=["0"], time_limit=LONG)
    assert plan.groups == ("0",)
    assert plan.value < plan.bound < 0
    assert plan.optimal
    assert plan.ratio == 1.0
    plan.certificate.verify(model.moments_)


def test_the_correction_of_the_estimator_counts(tmp_path):
    """Noise is left out although the budget would pay for it; a file keeps the plan."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 12))
    y = X[:, 0] + X[:, 1] + 3 * rng.normal(size=100)
    plain, corrected = (AnytimeRegressor(correction=correction).fit(X, y) for correction in (0.0, 2.0))
    assert plain.plan(100).certificate.penalties is None
    plan = corrected.plan(100, time_limit=LONG)
    assert {"0", "1"} <= set(plan.groups)
    assert len(plan.groups) < 12
    np.testing.assert_array_equal(plan.certificate.penalties, corrected.model_.penalties)
    plan.certificate.verify(corrected.moments_)
    budgetline.save(plan, tmp_path / "plan")
    found = budgetline.load(tmp_path / "plan")
    assert found.sequence_.groups == plan.groups
    np.testing.assert_array_equal(found.predict(X), plan.predict(X))
    # what was subtracted is still known
    assert found.plan(100, time_limit=LONG).groups == plan.groups


@pytest.mark.parametrize("name", ["squared", "binary"])
def test_what_is_always_measured_is_in_every_plan(name, tmp_path):
    X, y = data_of(name)
    make = AnytimeRegressor if name == "squared" else AnytimeClassifier
    model = make(GROUPS, alpha=1e-2, start=["d"]).fit(X, y)
    assert [plan.groups for plan in model.plans([2.5, 3.2])] == [("d",), model.plan(3.2).groups]
    with pytest.raises(ValueError, match="'d' must be both in and out"):
        model.plan(5, exclude=["d"])
    plan = model.plan(5, X=X, y=y)
    assert "d" in plan.groups
    budgetline.save(plan, tmp_path / "plan")
    assert budgetline.load(tmp_path / "plan").sequence_.groups == plan.groups


# -- other losses ----------------------------------------------------------------------------------------------


def truth_of(kind, X, y, alpha):
    """Share of deviance of every set of the groups that holds what it requires, refitted from scratch."""
    family = reference_glm.FAMILIES[{"binary": "logistic"}.get(kind, kind)]
    if kind == "poisson":
        Y = y[:, None]
    else:
        indicators = (y[:, None] == np.unique(y)).astype(float)
        Y = indicators[:, 1:] if kind == "binary" else indicators
    Xs, w = standardise(X, Y).Xs, np.full(len(X), 1 / len(X))
    null = reference_glm.fit(family, Xs, Y, w, [], alpha)[1]
    saturated = float(w @ family.saturated(Y))
    found = {}
    for k in range(2 ** len(COLUMNS)):
        groups = [name for g, name in enumerate(COLUMNS) if k >> g & 1]
        if "e" not in groups or "c" in groups:
            columns = [d for name in groups for d in COLUMNS[name]]
            risk = reference_glm.fit(family, Xs, Y, w, columns, alpha)[1]
            found[frozenset(groups)] = (null - risk) / (null - saturated)
    return found


def cost_of(groups):
    return sum(COSTS[name] for name in groups) + (1.0 if {"b", "d"} & set(groups) else 0.0)


def quality(kind, seed):
    """Return the share of the best set's deviance that plans reach, with data and without, and prefixes."""
    X, y = table(seed), target(kind, seed)
    make = AnytimeRegressor if kind == "poisson" else AnytimeClassifier
    model = make(GROUPS, alpha=1e-2, **({"loss": "poisson"} if kind == "poisson" else {})).fit(X, y)
    truth, rows = truth_of(kind, X, y, 1e-2), []
    for budget in (2.0, 4.0, 6.0):
        best = max(value for groups, value in truth.items() if cost_of(groups) <= budget)
        refitted = model.plan(budget, X=X, y=y, time_limit=LONG)
        assert refitted.explained == pytest.approx(truth[frozenset(refitted.groups)], rel=1e-6)
        assert cost_of(refitted.groups) == pytest.approx(refitted.cost)
        assert refitted.cost <= budget
        guessed = model.plan(budget, time_limit=LONG)
        prefix = model.sequence_.groups[: model.sequence_.stage_at(budget)]
        chosen = (refitted.groups, guessed.groups, prefix)
        rows.append([truth[frozenset(groups)] / best for groups in chosen])
        assert rows[-1][0] >= rows[-1][2] - 1e-9  # the sequence is among the candidates
    return rows


@pytest.mark.parametrize("kind", ["binary", "poisson"])
def test_plans_of_other_losses_are_nearly_the_best(kind):
    found = np.array(quality(kind, 0))
    assert found[:, 0].min() > 0.95
    assert found[:, 1].min() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "softmax", "poisson"])
def test_plans_of_other_losses_are_nearly_the_best_in_many_problems(kind):
    found = np.array([row for seed in range(1, 11) for row in quality(kind, seed)])
    print(kind, "mean", found.mean(axis=0), "least", found.min(axis=0))
    assert found[:, 0].min() > 0.95
    assert found[:, 0].mean() > 0.995
    assert found[:, 1].mean() > 0.97


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("kind", ["squared", "binary"])
def test_the_largest_alpha_explains_nothing(kind, groups):
    model = (AnytimeRegressor if kind == "squared" else AnytimeClassifier)(groups, alpha=1e308)
    model.fit(table(), target(kind))
    assert all(plan.explained < 1e-12 for plan in model.plans([1, 100]))
    assert all(gain < 1e-12 for gain in model.next_groups().gains)


def test_a_correction_counts_for_other_losses():
    model = AnytimeClassifier(GROUPS, alpha=1e-2).fit(table(), target("binary"))
    model.model_ = replace(model.model_, penalties=np.full(5, 10.0))
    for data in ({}, {"X": table(), "y": target("binary")}):
        assert model.plan(100, **data).groups == ()
        plan = model.plan(100, include=["a"], **data)
        assert plan.groups == ("a",)
        assert plan.value == pytest.approx(plan.explained - 10 / model.sequence_.null_value)


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"budget": -1}, ValueError, "budget must be"),
        ({"budget": np.nan}, ValueError, "budget must be"),
        ({"budget": "much"}, (TypeError, ValueError), "budget must be"),
        ({"time_limit": -1}, ValueError, "time_limit must be"),
        ({"include": ["q"]}, ValueError, "include: there is no group 'q'"),
        ({"exclude": ["q"]}, ValueError, "exclude: there is no group 'q'"),
        ({"include": ["a"], "exclude": ["a"]}, ValueError, "'a' must be both in and out"),
        ({"budget": 1.0, "include": ["e"]}, ValueError, "must be in cost 3.5, more than the budget of 1"),
        ({"y": [1]}, ValueError, "give X as well"),
        ({"X": table()}, ValueError, "pass a table X and y"),
        ({"X": open_data((table(), target("squared"))), "y": 1}, ValueError, "data in memory"),
        ({"X": table()[:, :3], "y": target("squared")}, ValueError, "features"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        model_of("squared").plan(**{"budget": 5.0, **arguments})


def test_other_refusals():
    with pytest.raises(NotFittedError):
        AnytimeRegressor(GROUPS).plan(3)
    for method in ("predict_proba", "decision_function"):
        with pytest.raises(TypeError, match=f"{method} is for classifiers"):
            getattr(plan_of("squared"), method)(table())
    with pytest.raises(ValueError, match="other classes"):
        model_of("binary").plan(3, X=table(), y=target("softmax"))
