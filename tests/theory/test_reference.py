"""The reference itself: against closed formulas, scikit-learn and hand-worked choices."""

import numpy as np
import pytest
import reference
import theory_instances as ti
from sklearn.linear_model import Ridge

RULES = ("omp", "forward", "no-whiten", "single")
INSTANCES = 40


def columns_of(instance, subset):
    return [d for g, columns in enumerate(instance.groups) if subset >> g & 1 for d in columns]


def test_standardise_weights_are_repetitions():
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((20, 3)), rng.standard_normal((20, 2)), rng.integers(0, 4, 20)
    X[:, 1] = 0.1  # its mean is not exactly 0.1
    rows = np.repeat(np.arange(20), w)
    a, b = reference.standardise(X, Y, w), reference.standardise(X[rows], Y[rows])
    for name in ("x_mean", "x_scale", "y_mean"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-13)
    assert a.x_scale[1] == 1
    assert not a.Xs[:, 1].any()
    np.testing.assert_allclose(b.Xs[:, [0, 2]].std(0), 1)
    F = [reference.F(s.Xs, s.Yc, s.w, (0, 1, 2), 0.1) for s in (a, b)]
    np.testing.assert_allclose(*F)


def test_fit_is_ridge():
    rng = np.random.default_rng(1)
    X, Y, w = rng.standard_normal((30, 4)), rng.standard_normal((30, 2)), rng.uniform(0.1, 2, 30)
    s = reference.standardise(X, Y, w)
    ridge = Ridge(alpha=0.2 * w.sum(), fit_intercept=False).fit(s.Xs[:, [0, 2]], s.Yc, sample_weight=w)
    W = reference.fit(s.Xs, s.Yc, w, (2, 0), 0.2)
    np.testing.assert_allclose(W[[0, 2]].T, ridge.coef_, rtol=1e-10)
    assert not W[[1, 3]].any()


def test_fit_has_minimum_norm_and_F_ignores_duplicates():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((10, 2))
    s = reference.standardise(x[:, [0, 1, 0]], x @ [1.0, 2.0])
    W = reference.fit(s.Xs, s.Yc, s.w, range(3), 0)
    np.testing.assert_allclose(W[0], W[2])
    F = [reference.F(s.Xs, s.Yc, s.w, columns, 0) for columns in ((0, 1), (0, 1, 2))]
    np.testing.assert_allclose(F, reference.risk(s.Xs, s.Yc, s.w, (), 0))


def test_more_columns_than_rows_without_a_penalty():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((6, 9)), rng.standard_normal(6)
    out = reference.sequence(X, y, [range(3), range(3, 6), range(6, 9)], [1, 1, 1], alpha=0)
    assert np.all(np.isfinite(out["coefs"]))
    np.testing.assert_allclose(X @ out["coefs"][-1] + out["intercepts"][-1], y)
    np.testing.assert_allclose(sum(out["gains"]), out["R0"])


@pytest.mark.parametrize("targets", [1, 2])
def test_data_have_the_moments_and_tables_agree_with_refits(targets):
    rng = np.random.default_rng(4)
    for _ in range(10):
        instance = ti.random_instance(rng, targets=targets)
        batch = instance.batch()
        s = reference.standardise(*instance.data())
        R0 = reference.risk(s.Xs, s.Yc, s.w, (), instance.alpha)
        np.testing.assert_allclose(s.Xs.T @ s.Xs / len(s.Xs), instance.sigma, atol=1e-12)
        np.testing.assert_allclose(s.Xs.T @ s.Yc / len(s.Xs), instance.b, atol=1e-12)
        for subset in range(2**batch.J):
            columns = columns_of(instance, subset)
            F = reference.F(s.Xs, s.Yc, s.w, columns, instance.alpha)
            np.testing.assert_allclose(batch.F[0, subset], F, rtol=1e-8, atol=1e-13 * R0)
            r = reference.gradient(s.Xs, s.Yc, s.w, columns, instance.alpha)
            np.testing.assert_allclose(batch.r[0, subset], r, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_scores_agree_with_the_formulas(rule):
    rng = np.random.default_rng(5)
    for _ in range(10):
        instance = ti.random_instance(rng, targets=2)
        s = reference.standardise(*instance.data())
        batch = instance.batch()
        table = batch.scores(rule)[0]
        for subset in range(2**batch.J):
            chosen = [g for g in range(batch.J) if subset >> g & 1]
            score = reference.scores(s.Xs, s.Yc, s.w, instance.groups, chosen, rule, instance.alpha)
            outside = ~batch.membership[subset]
            np.testing.assert_allclose(table[subset, outside], score[outside], rtol=1e-7, atol=1e-10)


def test_fr_is_half_the_gradient_in_the_schur_complement():
    rng = np.random.default_rng(6)
    for _ in range(INSTANCES):
        instance = ti.random_instance(rng, targets=2)
        batch = instance.batch()
        C, J = batch.C[0], batch.J
        subset, g = rng.integers(2**J), rng.integers(J)
        if subset >> g & 1:
            continue
        S, columns = columns_of(instance, subset), list(instance.groups[g])
        r = batch.r[0, subset, columns]
        M = C[np.ix_(columns, columns)] - C[np.ix_(columns, S)] @ np.linalg.solve(
            C[np.ix_(S, S)], C[np.ix_(S, columns)]
        )
        gain = batch.F[0, subset | 1 << g] - batch.F[0, subset]
        np.testing.assert_allclose(0.5 * np.trace(r.T @ np.linalg.solve(M, r)), gain, rtol=1e-7, atol=1e-12)


def test_omp_on_a_singular_block_is_the_pseudo_inverse():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((20, 3))
    X = np.column_stack([x, x[:, 0] + x[:, 1], np.full(20, 7.0)])
    s = reference.standardise(X, rng.standard_normal(20))
    groups = [[0, 1, 3, 4], [2]]
    r = reference.gradient(s.Xs, s.Yc, s.w, groups[1], 0)[groups[0]]
    block = s.Xs[:, groups[0]].T @ s.Xs[:, groups[0]] / 20
    expected = np.trace(r.T @ np.linalg.pinv(block, rcond=1e-10, hermitian=True) @ r)
    np.testing.assert_allclose(reference.scores(s.Xs, s.Yc, s.w, groups, [1], "omp", 0)[0], expected)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("schedule", ["greedy", "doubling"])
@pytest.mark.parametrize("rule", RULES)
def test_table_orders_are_the_reference_orders(rule, schedule):
    rng = np.random.default_rng(8)
    for _ in range(INSTANCES):
        instance = ti.random_instance(rng)
        X, Y = instance.data()
        c_min = None if schedule == "greedy" else rng.choice([None, np.median(instance.costs)])
        out = reference.sequence(
            X,
            Y,
            instance.groups,
            instance.costs,
            rule=rule,
            schedule=schedule,
            c_min=c_min,
            alpha=instance.alpha,
        )
        batch = instance.batch()
        order = batch.run(rule, schedule, None if c_min is None else np.array([c_min]))[0]
        assert out["order"] == order.tolist()
        np.testing.assert_allclose(sum(out["gains"]), batch.F[0, -1], rtol=1e-8)


def test_coefficients_are_in_the_users_units():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((25, 4)) * [1, 10, 0.1, 3] + [5, -2, 100, 0]
    Y = np.column_stack([X @ [1.0, 0.2, 30, 0.0], X @ [0.0, 1, 0, 1]]) + 4
    groups = [[0, 2], [1], [3]]
    out = reference.sequence(X, Y, groups, [1, 2, 3], alpha=0)
    np.testing.assert_allclose(out["coefs"][-1], [[1, 0.2, 30, 0], [0, 1, 0, 1]], atol=1e-10)
    np.testing.assert_allclose(out["intercepts"][-1], 4)
    one = reference.sequence(X, Y[:, 0], groups, [1, 2, 3], alpha=0)
    assert one["coefs"].shape == (3, 4)
    residual = Y[:, 0] - X @ one["coefs"][0] - one["intercepts"][0]
    np.testing.assert_allclose(one["gains"][0], one["R0"] - np.mean(residual**2) / 2)


def additive(values):
    return lambda items: float(sum(values[i] for i in items))


def order(values, costs, **options):
    return reference.set_sequence(additive(values), costs, **options)["order"]


def test_ties_go_to_the_cheaper_then_the_earlier():
    costs = {"a": 2.0, "b": 1.0, "c": 1.0}
    assert order({"a": 2 * (1 + 1e-13), "b": 1, "c": 1}, costs) == ["b", "c", "a"]
    assert order({"a": 2 * (1 + 1e-11), "b": 1, "c": 1}, costs) == ["a", "b", "c"]


def test_free_groups_first_worthless_groups_last():
    values = {"none": 0, "big": 9, "free1": 1, "free2": 2, "cheap none": 0, "free none": 0}
    costs = {"none": 5, "big": 1, "free1": 0, "free2": 0, "cheap none": 2, "free none": 0}
    expected = ["free2", "free1", "free none", "big", "cheap none", "none"]
    assert order(values, costs) == expected
    by_score = ["big", "free2", "free1", "free none", "cheap none", "none"]
    assert order(values, costs, cost_sensitive=False) == by_score


def test_max_cost_passes_over_what_does_not_fit():
    values, costs = {"a": 10, "b": 9, "c": 1}, {"a": 2, "b": 3, "c": 1}
    assert order(values, costs, max_cost=3) == ["a", "c"]
    assert order(values, costs, max_cost=0.5) == []
    assert order(values, costs, max_groups=2) == ["a", "b"]


def test_doubling_takes_the_cheapest_when_nothing_is_affordable():
    values, costs = {"a": 1, "b": 2, "c": 100, "d": 50}, {"a": 1, "b": 1, "c": 9, "d": 8}
    assert order(values, costs, schedule="doubling") == ["b", "a", "d", "c"]
    assert order(values, costs, schedule="doubling", c_min=8) == ["d", "b", "c", "a"]
    assert order(values, costs, schedule="doubling-literal") == ["b", "a"]


def test_doubling_as_printed_stops_at_step_two_for_distinct_costs():
    costs = {"a": 1.0, "b": 1.5, "c": 4.0}
    assert order({"a": 1, "b": 5, "c": 9}, costs, schedule="doubling-literal") == ["a"]


def test_sequence_and_set_sequence_agree():
    rng = np.random.default_rng(10)
    for schedule in reference.SCHEDULES:
        instance = ti.random_instance(rng, (2, 1, 2, 1))
        X, Y = instance.data()
        s = reference.standardise(X, Y)

        def explained(items, s=s, instance=instance):
            columns = [d for g in items for d in instance.groups[g]]
            return reference.F(s.Xs, s.Yc, s.w, columns, instance.alpha)

        options = {
            "schedule": schedule,
            "max_cost": 0.8 * instance.costs.sum(),
            "c_min": instance.costs.max(),
        }
        a = reference.sequence(X, Y, instance.groups, instance.costs, alpha=instance.alpha, **options)
        b = reference.set_sequence(explained, dict(enumerate(instance.costs)), **options)
        assert a["order"] == b["order"]
        np.testing.assert_allclose(a["gains"], b["gains"])
