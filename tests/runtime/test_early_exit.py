"""Early exit: its probabilities against a count by hand, and runs that stop when it says so."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from budgetline import AnytimeClassifier, AnytimeRegressor, AnytimeRunner, Extractor, FixedOrder
from budgetline.runtime import EarlyExit

GROUPS = [[0, 1], [2], [3, 4], [5]]


def data(classes, n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    scores = X @ rng.standard_normal((6, classes)) * 0.8 + rng.gumbel(size=(n, classes))
    return X, np.array(["a", "b", "c", "d"])[scores.argmax(axis=1)]


@pytest.fixture(scope="module", params=[2, 3, 4])
def fitted(request):
    X, y = data(request.param)
    return AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, y), X


@pytest.fixture(scope="module")
def binary():
    X, y = data(2)
    return AnytimeClassifier(GROUPS, alpha=1e-2).fit(X, y), X


def extractors(groups=GROUPS, failing=(), **options):
    def reader(g):
        def read(row):
            if g in failing:
                raise OSError("no answer")
            return row[groups[g]]

        return Extractor(read, **options)

    return {f"group{g}": reader(g) for g in range(len(groups))}


def named(groups=GROUPS):
    return {f"group{g}": columns for g, columns in enumerate(groups)}


def decision(score):
    return int(score[0] > 0) if len(score) == 1 else int(np.argmax(score))


def counted(model, X, stage, score):
    """Regress with scikit-learn, then count one by one."""
    staged = [np.reshape(s, (len(X), -1)) for s in model.staged_decision_function(X)]
    own, final = staged[stage - 1], staged[-1]
    # scores of classes add up to zero, so that one of them says nothing new
    regressors = own if own.shape[1] == 1 else own[:, :-1]
    regression = LinearRegression().fit(regressors, final)
    used_up = 1 + np.linalg.matrix_rank(regressors - regressors.mean(axis=0))
    left = (final - regression.predict(regressors)) * np.sqrt(len(X) / (len(X) - used_up))
    expected = regression.predict(score[None, : regressors.shape[1]])[0]
    changed = sum(decision(expected + one) != decision(score) for one in left)
    return (1 + changed) / (1 + len(X))


def test_chance_against_a_count(fitted):
    model, X = fitted
    early_exit = EarlyExit.fit(model, X)
    for stage, scores in enumerate(model.staged_decision_function(X), 1):
        scores = scores.reshape(len(X), -1)[:25]
        expected = [counted(model, X, stage, score) for score in scores]
        # a residual on the very border may fall to either side
        np.testing.assert_allclose(early_exit.chance(stage, scores), expected, atol=1.5 / (1 + len(X)))
        assert np.mean(np.isclose(early_exit.chance(stage, scores), expected)) > 0.9


def test_nothing_remains_after_the_last_stage(fitted):
    model, X = fitted
    *_, final = model.staged_decision_function(X)
    chance = EarlyExit.fit(model, X).chance(len(GROUPS), final.reshape(len(X), -1))
    np.testing.assert_array_equal(chance, 1 / (1 + len(X)))


def test_many_inputs_as_one_by_one(fitted, monkeypatch):
    model, X = fitted
    early_exit = EarlyExit.fit(model, X)
    scores = next(model.staged_decision_function(X)).reshape(len(X), -1)
    together = early_exit.chance(1, scores)
    monkeypatch.setattr("budgetline.runtime.early_exit.BLOCK", 1)
    np.testing.assert_array_equal(early_exit.chance(1, scores), together)
    np.testing.assert_array_equal([early_exit.chance(1, s[None])[0] for s in scores], together)


def test_honest_where_the_assumption_holds():
    """Independent normal columns, one per group, so jointly normal scores: the estimate is the probability."""
    rng = np.random.default_rng(1)
    X = rng.normal([0.3, 0.0], [1.0, 0.8], size=(4000, 2))
    y = X @ [1.7, 1.0] + rng.logistic(size=len(X)) > 0
    model = AnytimeClassifier([[0], [1]], alpha=1e-3, schedule=FixedOrder(["0", "1"])).fit(X, y)
    early_exit = EarlyExit.fit(model, X, n_samples=len(X))
    at = np.array([-2.0, -0.7, -0.1, 0.1, 0.4, 1.5])
    (own, _), (first, second) = model.coef_path_[:, 0] if model.coef_path_.ndim == 3 else model.coef_path_
    x = (at - np.ravel(model.intercept_path_[0])) / own
    expected = np.ravel(model.intercept_path_[1]) + first * x
    positive = norm.cdf(expected / (0.8 * abs(second)))
    np.testing.assert_allclose(early_exit.chance(1, at[:, None]), np.where(at > 0, 1 - positive, positive), atol=0.03)


def test_a_sample_of_the_rows(binary):
    model, X = binary
    assert [change.rest.shape for change in EarlyExit.fit(model, X, n_samples=50).changes] == [(50, 1)] * len(GROUPS)
    one, same = (EarlyExit.fit(model, X, n_samples=50, random_state=3) for _ in range(2))
    for left, right in zip(one.changes, same.changes, strict=True):
        np.testing.assert_array_equal(left.rest, right.rest)


def test_a_model_teaches_what_its_estimator_does(binary):
    model, X = binary
    one, other = EarlyExit.fit(model, X), EarlyExit.fit(model.model_, X)
    for left, right in zip(one.changes, other.changes, strict=True):
        np.testing.assert_array_equal(left.rest, right.rest)
        np.testing.assert_array_equal(left.slope, right.slope)


def test_few_rows_never_decide(binary):
    model, X = binary
    early_exit = EarlyExit.fit(model, X[:2], threshold=0.3)
    assert not early_exit.decided(1, np.array([[50.0]]))


# -- runs ----------------------------------------------------------------------------------------------------------


def test_runs_stop_where_the_chance_is_low(fitted):
    model, X = fitted
    model = AnytimeClassifier(named(), alpha=1e-2).fit(X, model.predict(X))
    early_exit = EarlyExit.fit(model, X, threshold=0.05)
    staged = [s.reshape(len(X), -1) for s in model.staged_decision_function(X)]
    reasons = set()
    with AnytimeRunner(model, extractors(), early_exit=early_exit) as runner:
        for i in range(60):
            low = [j for j in range(1, len(GROUPS)) if early_exit.chance(j, staged[j - 1][[i]])[0] < 0.05]
            answer = runner.predict(X[i])
            assert answer.stage == (low[0] if low else len(GROUPS))
            assert answer.reason == ("decided" if low else "complete")
            assert answer.value == model.predict(X[[i]], stage=answer.stage)[0]
            np.testing.assert_allclose(answer.probabilities, model.predict_proba(X[[i]], stage=answer.stage)[0])
            assert answer.spent == answer.stage  # every group costs 1, and no other was begun
            reasons.add(answer.reason)
    assert reasons == {"decided", "complete"}


@pytest.mark.parametrize("mode", ["thread", "async"])
def test_other_modes_stop_at_the_same_stage(binary, mode):
    X = binary[1]
    model = AnytimeClassifier(named(), alpha=1e-2).fit(X, binary[0].predict(X))
    early_exit = EarlyExit.fit(model, X, threshold=0.05)
    with (
        AnytimeRunner(model, extractors(mode=mode), early_exit=early_exit) as there,
        AnytimeRunner(model, extractors(), early_exit=early_exit) as here,
    ):
        for row in X[:20]:
            one, other = there.predict(row), here.predict(row)
            assert (one.stage, one.reason, one.value) == (other.stage, other.reason, other.value)


def test_many_inputs_stop_when_all_are_decided(binary):
    X = binary[1]
    model = AnytimeClassifier(named(), alpha=1e-2).fit(X, binary[0].predict(X))
    early_exit = EarlyExit.fit(model, X, threshold=0.05)
    with AnytimeRunner(model, extractors(), early_exit=early_exit) as runner:
        alone = [runner.predict(row).stage for row in X[:40]]
        quick = X[:40][np.array(alone) == 1]
        assert 0 < len(quick) < 40
        assert (runner.predict_many(quick).stage, runner.predict_many(quick).reason) == (1, "decided")
        stages = [j for j in range(1, len(GROUPS)) if early_exit.decided(j, stage_scores(model, X[:40], j))]
        assert runner.predict_many(X[:40]).stage == (stages[0] if stages else len(GROUPS))


def stage_scores(model, X, stage):
    return model.decision_function(X, stage=stage).reshape(len(X), -1)


def test_off_by_default_and_at_thresholds_that_nothing_reaches(binary):
    X = binary[1]
    model = AnytimeClassifier(named(), alpha=1e-2).fit(X, binary[0].predict(X))
    least = 1 / (1 + len(X))
    for early_exit in (None, EarlyExit.fit(model, X, threshold=least)):
        with AnytimeRunner(model, extractors(), early_exit=early_exit) as runner:
            assert {runner.predict(row).reason for row in X[:40]} == {"complete"}


def test_a_high_threshold_stops_after_the_first_group(binary):
    X = binary[1]
    model = AnytimeClassifier(named(), alpha=1e-2).fit(X, binary[0].predict(X))
    with AnytimeRunner(model, extractors(), early_exit=EarlyExit.fit(model, X, threshold=0.999)) as runner:
        answer = runner.predict(X[0])
        assert (answer.stage, answer.reason) == (1, "decided")


def test_no_exit_while_a_group_in_between_is_missing(binary):
    X = binary[1]
    model = AnytimeClassifier(named(), alpha=1e-2).fit(X, binary[0].predict(X))
    first = int(model.order_[0])
    early_exit = EarlyExit.fit(model, X, threshold=0.999)  # would stop at once
    with AnytimeRunner(model, extractors(failing=[first]), early_exit=early_exit) as runner:
        answer = runner.predict(X[0])
    assert (answer.stage, answer.reason) == (0, "complete")
    assert len(answer.groups) == len(GROUPS) - 1
    # also where the groups that are there came as known
    last = model.sequence_.groups[-1]
    with AnytimeRunner(model, extractors(failing=[first]), early_exit=early_exit) as runner:
        answer = runner.predict(X[0], known={last: X[0][named()[last]]})
    assert answer.reason == "complete"


def test_known_groups_may_decide(binary):
    X = binary[1]
    model = AnytimeClassifier(named(), alpha=1e-2).fit(X, binary[0].predict(X))
    first = model.sequence_.groups[0]
    with AnytimeRunner(model, extractors(), early_exit=EarlyExit.fit(model, X, threshold=0.999)) as runner:
        answer = runner.predict(X[0], known={first: X[0][named()[first]]})
    assert (answer.stage, answer.reason, answer.spent) == (1, "decided", 0.0)


# -- what is refused -----------------------------------------------------------------------------------------------


def test_another_model_is_refused(binary):
    model, X = binary
    shorter = AnytimeClassifier(GROUPS, alpha=1e-2, max_groups=2).fit(X, model.predict(X))
    three = AnytimeClassifier(GROUPS, alpha=1e-2).fit(*data(3))
    regressor = AnytimeRegressor(GROUPS).fit(X, X[:, 0])
    for other in (shorter, three, regressor):
        names = {str(name): None for name in other.feature_groups_.names}
        with pytest.raises(ValueError, match="early_exit was learned from another model"):
            AnytimeRunner(other, names, early_exit=EarlyExit.fit(model, X))


def test_only_classifiers_of_this_library(binary):
    model, X = binary
    with pytest.raises(TypeError, match="early exit is for classifiers, got AnytimeRegressor"):
        EarlyExit.fit(AnytimeRegressor(GROUPS).fit(X, X[:, 0]), X)
    with pytest.raises(TypeError, match=r"LogisticRegression.*a fitted estimator of budgetline is needed"):
        EarlyExit.fit(LogisticRegression().fit(X, model.predict(X)), X)


def test_pipelines_are_refused(binary):
    model, X = binary
    with pytest.raises(TypeError, match=r"got Pipeline; .*without a pipeline"):
        EarlyExit.fit(make_pipeline(StandardScaler(), model).fit(X, model.predict(X)), X)


@pytest.mark.parametrize("below", [0, 1, -0.1, 1.5, np.nan, True, "0.1", None])
def test_thresholds_out_of_range(binary, below):
    with pytest.raises(ValueError, match="threshold must be a number > 0 and < 1"):
        EarlyExit.fit(*binary, threshold=below)


@pytest.mark.parametrize("n_samples", [0, -1, 1.5, True, None])
def test_sample_sizes_that_are_none(binary, n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer ≥ 1"):
        EarlyExit.fit(*binary, n_samples=n_samples)
