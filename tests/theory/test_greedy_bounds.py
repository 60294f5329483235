"""Lemma 3.1 and Theorem 3.2 with γ = λ_min(Δ^{-1/2} C Δ^{-1/2}), for omp and forward, against every subset."""

import numpy as np
import pytest
import theory_instances as ti

pytestmark = pytest.mark.quick_cases(1)

RANDOM = 250  # problems per group structure and number of targets
CLIMBERS = 64
STEPS = 250
CLIMB_SIZES = ((1, 1), (1, 1, 1, 1, 1), (2, 1, 2, 1))

STATEMENTS = {
    "lemma": ti.lemma_ratio,
    "theorem": ti.theorem_ratio,
    "theorem, exponent": lambda batch, order: ti.theorem_ratio(batch, order, measure="exponent"),
}


def random_batches(seed):
    rng = np.random.default_rng(seed)
    for sizes in ti.GROUP_SIZES:
        for targets in (1, 2):
            yield ti.random_batch(rng, RANDOM, sizes, targets)


def test_one_step_inequalities():
    """½ omp ≤ gain ≤ ½ omp/γ, and a set gains at most 1/γ times the sum of its groups' ½ omp."""
    for batch in random_batches(1):
        scores = np.where(batch.membership, 0.0, batch.scores("omp"))  # r is zero on chosen groups
        gain, scale = batch.scores("forward") / 2, batch.F[:, -1, None, None]
        assert np.all(scores / 2 <= gain + 1e-9 * scale)
        gamma = batch.gamma[:, None, None]
        assert np.all(gamma * gain <= scores / 2 + 1e-9 * scale)
        subsets = np.arange(2**batch.J)
        joint = batch.F[:, subsets[:, None] | subsets] - batch.F[:, :, None]  # [G, S]
        assert np.all(gamma * joint <= scores @ batch.membership.T / 2 + 1e-9 * scale)


def test_explained_is_monotone_and_gamma_at_most_one():
    for batch in random_batches(2):
        assert np.all(batch.scores("forward") >= -1e-9 * batch.F[:, -1, None, None])
        assert np.all(batch.gamma > 0)
        assert np.all(batch.gamma <= 1 + 1e-12)


@pytest.mark.parametrize("rule", ["omp", "forward"])
def test_bounds_hold_on_random_problems(rule):
    for batch in random_batches(3):
        order = batch.run(rule)
        for name, ratio in STATEMENTS.items():
            assert np.max(ratio(batch, order)) <= 1 + ti.ROUNDING, name


@pytest.mark.parametrize("statement", ["lemma", pytest.param("theorem, exponent", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", ["omp", "forward"])
def test_bounds_hold_and_are_sharp_under_attack(rule, statement):
    ratio = STATEMENTS[statement]
    rng = np.random.default_rng(4)
    ends = []
    for sizes in CLIMB_SIZES:
        genes = ti.random_genes(rng, CLIMBERS, sizes)
        result = ti.climb(rng, genes, sizes, STEPS, lambda batch: ratio(batch, batch.run(rule)))
        assert result.visited <= 1 + ti.ROUNDING
        assert np.median(result.end) > 2 * np.median(result.start)
        ends.append(np.max(result.end))
    assert max(ends) > 0.99


@pytest.mark.parametrize("rho", [0.1, 0.9, 0.999])
def test_lemma_is_attained(rho):
    """Two features correlated rho, b along the least eigenvector: equality, so no larger γ will do."""
    sigma = np.array([[1, rho], [rho, 1]])
    instance = ti.Instance(sigma, np.array([[1.0], [-1.0]]), ((0,), (1,)), np.ones(2), 0.0)
    assert ti.worst_ratio(instance, [0, 1], "lemma") == pytest.approx(1, abs=1e-8)


def test_equality_when_nothing_is_explained():
    """F(S) = 0 everywhere: the theorem reads 0 ≥ 0, so it must be ≥ and not the paper's >."""
    instance = ti.Instance(np.eye(2), np.zeros((2, 1)), ((0,), (1,)), np.ones(2), 0.1)
    batch = instance.batch()
    assert not batch.F.any()
