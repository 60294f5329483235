"""What the paper's text says literally and is not so; each with a fixed instance and what holds instead."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import theory_instances as ti


def ratio_of(instance, rule, statement="lemma"):
    return ti.worst_ratio(instance, instance.batch().run(rule)[0], statement)


@pytest.mark.parametrize("closeness", [1e-2, 1e-4, 1e-6])
def test_whitening_without_the_penalty_has_no_bound(closeness):
    """λ = 0.3 and (X_g'X_g)⁻¹ as printed: Lemma 3.1 fails by about λ/((1+λ)·closeness)."""
    instance = ti.printed_whitening_instance(closeness)
    assert instance.batch().gamma == pytest.approx(1)
    assert instance.batch().run("printed")[0].tolist() == [0, 1]
    assert ratio_of(instance, "printed") > 0.2 / closeness
    assert ratio_of(instance, "printed", "theorem") > 5
    assert ratio_of(instance, "omp") <= 1 + ti.ROUNDING


def test_whitening_without_the_penalty_fails_on_random_problems_too():
    rng = np.random.default_rng(0)
    batch = ti.random_batch(rng, 2000, (2, 2, 1))
    batch = replace(batch, alpha=np.full(len(batch), 0.3))
    assert np.max(ti.lemma_ratio(batch, batch.run("printed"))) > 2
    assert np.max(ti.lemma_ratio(batch, batch.run("omp"))) <= 1 + ti.ROUNDING


@pytest.mark.parametrize("rule", ["omp", "forward"])
@pytest.mark.parametrize("rho", [0.1, 0.9, 0.99])
def test_gamma_of_the_raw_covariance_overstates(rule, rho):
    """The paper's (λ* + λ)/(1 + λ) without whitening the groups is wrong by 1 + rho here."""
    batch = ti.raw_covariance_instance(rho).batch()
    np.testing.assert_allclose(batch.gamma_raw / batch.gamma, 1 + rho)
    order = batch.run(rule)
    np.testing.assert_allclose(ti.lemma_ratio(batch, order, batch.gamma_raw), 1 + rho)
    assert ti.lemma_ratio(batch, order) <= 1 + ti.ROUNDING
    if rho > 0.5:
        assert ti.theorem_ratio(batch, order, batch.gamma_raw) > 1.8
    assert ti.theorem_ratio(batch, order) <= 1 + ti.ROUNDING


def test_gamma_formulas_agree_for_whitened_groups():
    """With X_g'X_g/n = I in every group the paper's formula is ours."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        instance = ti.random_instance(rng, (2, 1, 3))
        root = np.zeros_like(instance.sigma)
        for columns in instance.groups:
            block = np.ix_(columns, columns)
            root[block] = np.linalg.inv(np.linalg.cholesky(instance.sigma[block]))
        white = replace(instance, sigma=root @ instance.sigma @ root.T, b=root @ instance.b).batch()
        np.testing.assert_allclose(white.gamma, white.gamma_raw, rtol=1e-6)


@pytest.mark.parametrize("rule", ["no-whiten", "single"])
@pytest.mark.parametrize("closeness", [1e-2, 1e-4])
def test_unwhitened_rules_have_no_bound(rule, closeness):
    instance = ti.unwhitened_instance(closeness)
    assert instance.batch().gamma == pytest.approx(1)
    assert instance.batch().run(rule)[0].tolist() == [1, 0]
    assert ratio_of(instance, rule) > 0.5 / closeness
    assert ratio_of(instance, rule, "theorem") > 0.3 / closeness
    for honest in ("omp", "forward"):
        assert ratio_of(instance, honest) <= 1 + ti.ROUNDING


@pytest.mark.parametrize("rule", ["no-whiten", "single", "omp", "forward"])
def test_the_reference_makes_the_same_choice_from_data(rule):
    instance = ti.unwhitened_instance()
    X, Y = instance.data()
    out = reference.sequence(X, Y, instance.groups, instance.costs, rule=rule, alpha=0)
    assert out["order"] == instance.batch().run(rule)[0].tolist()
