"""The verifier accepts what holds, and refuses every certificate that was tampered with, by the name of the field."""

import ast
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from best_sets import best_set
from certifying import certify, problem_of_moments
from truth import make

from budgetline import FeatureGroups, Moments
from budgetline.bounds import verifier
from budgetline.bounds.certificate import Certificate, no_proof
from budgetline.bounds.problem import MOST_ROUNDING, ROUNDINGS, Conditions
from budgetline.bounds.relaxation import WORST_BLOCK, separate
from budgetline.bounds.search import Search, best_sets
from budgetline.budgets import SLACK
from budgetline.moments.columns import scale_of
from budgetline.optimality.certify import certified_budgets

pytestmark = pytest.mark.quick_cases(4)

PROBLEM = make(16, "correlated", J=5, alpha=1e-2)
MOMENTS = Moments.from_data(PROBLEM.X, PROBLEM.Y)
MORE = Moments.from_data(np.hstack([PROBLEM.X, PROBLEM.X[:, :1] ** 2]), PROBLEM.Y)  # a column that is in no group


def unbranched():
    """A certificate of the models of the prefixes alone, so that no bound is exact."""
    problem = problem_of_moments(MOMENTS, PROBLEM.feature_groups, PROBLEM.priced, PROBLEM.alpha)
    every = Conditions.none(problem.prices)
    order = certify(MOMENTS, PROBLEM.feature_groups, PROBLEM.priced, alpha=PROBLEM.alpha, time_limit=0).order.tolist()
    search = Search(problem, certified_budgets(problem.groups, order, None), every, separate(problem, np.inf))
    search.follow(order, np.inf)
    return search.certificate(order)


def planned():
    """A certificate about F less penalties, with several leaves."""
    problem = problem_of_moments(MOMENTS, PROBLEM.feature_groups, PROBLEM.priced, PROBLEM.alpha)
    penalties = 0.01 * problem.gram.null_value * np.arange(1, PROBLEM.J + 1)
    about = Conditions.none(problem.prices)
    budget = 0.6 * float(PROBLEM.costs.sum())
    return best_sets(replace(problem, penalties=penalties), about, [budget], 60.0, False)[0].certificate


# And one with many leaves.
CERTIFICATE = unbranched()
PLANNED = planned()
SOLVED = certify(MOMENTS, PROBLEM.feature_groups, PROBLEM.priced, alpha=PROBLEM.alpha, time_limit=60.0)
J, B = PROBLEM.J, CERTIFICATE.budgets.size
WIDTH = CERTIFICATE.duals.shape[1]


def forged(certificate=CERTIFICATE, proof=None, **changes):
    """A certificate with some fields replaced; ``blocks`` in ``proof`` may be a tuple of matrices."""
    fields = {**(proof or {}), **changes}
    if isinstance(blocks := fields.get("blocks"), tuple):
        fields["blocks"] = np.concatenate([np.empty(0), *map(np.ravel, blocks)])
    return replace(certificate, **fields)


def blocks_of(certificate):
    """The matrices Δ_g of a certificate."""
    sizes = [len(columns) for columns in certificate.feature_groups.columns]
    entries = np.split(certificate.blocks, np.cumsum([size**2 for size in sizes])[:-1])
    return tuple(own.reshape(size, size) for own, size in zip(entries, sizes, strict=True))


def changed(array, index, value):
    """A copy of an array with one entry replaced."""
    copy = np.array(array)
    copy[index] = value
    return copy


def scaled_block(certificate, g, factor):
    return tuple(block * (factor if h == g else 1.0) for h, block in enumerate(blocks_of(certificate)))


def with_groups(columns=None, costs=None, names=None):
    groups = CERTIFICATE.feature_groups
    names = groups.names if names is None else names
    columns = groups.columns if columns is None else columns
    return FeatureGroups(dict(zip(names, columns, strict=True)), groups.costs if costs is None else costs)


# -- arithmetic of the verifier once more, for forgers ---------------------------------------------------------


def quadratic():
    """C and b of standardised columns, group after group, and the group of each column, from the data."""
    columns = [d for group in PROBLEM.groups for d in group]
    X = PROBLEM.X[:, columns]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = PROBLEM.Y - PROBLEM.Y.mean(axis=0)
    label = np.repeat(np.arange(J), [len(group) for group in PROBLEM.groups])
    return X.T @ X / len(X) + PROBLEM.alpha * np.eye(len(columns)), X.T @ Y / len(X), label


def fractional(v, costs, budget, inside, outside):
    """The most value within a budget, bought in fractions; additive costs."""
    left, total = budget * (1 + 1e-12) - costs[inside].sum(), v[inside].sum()
    fits = np.flatnonzero(~inside & ~outside & (costs <= left))
    for g in sorted(fits, key=lambda g: -v[g] / costs[g]):
        share = min(1.0, left / costs[g])
        total, left = total + share * v[g], left - share * costs[g]
    return total if costs[inside].sum() <= budget * (1 + 1e-12) else -np.inf


def what_follows(certificate, blocks=None):
    """The bounds that follow from a proof; NaN counts for nothing and groups without a block are worth nothing."""
    C, b, label = quadratic()
    blocks = blocks_of(certificate) if blocks is None else blocks
    M = C.copy()
    for g, block in enumerate(blocks):
        M[np.ix_(label == g, label == g)] -= block
    terms = []
    for u in certificate.duals:
        q = b - M @ u
        v = np.zeros(J)
        for g, block in enumerate(blocks):
            v[g] = np.sum(q[label == g] * np.linalg.solve(block, q[label == g])) / 2
        terms.append((np.sum(u * (M @ u)) / 2, v))
    own = np.full(certificate.budgets.size, -np.inf)
    proof = certificate
    for k, dual, inside, outside in zip(
        proof.leaf_budget, proof.leaf_dual, proof.leaf_included.astype(bool), proof.leaf_excluded.astype(bool),
        strict=True,
    ):  # fmt: skip
        constant, v = terms[dual]
        own[k] = np.fmax(own[k], constant + fractional(v, PROBLEM.costs, certificate.budgets[k], inside, outside))
    return np.minimum(np.minimum.accumulate(own[::-1])[::-1], certificate.everything)


def one_leaf_each(duals, leaf_dual=None):
    """Fields of a proof with one leaf per budget, about all sets."""
    none = np.zeros((B, J), dtype=bool)
    numbers = np.zeros(B, dtype=np.intp) if leaf_dual is None else leaf_dual
    return {"duals": duals, "leaf_budget": np.arange(B), "leaf_dual": numbers,
            "leaf_included": none, "leaf_excluded": none}  # fmt: skip


def refused(certificate, pattern, moments=MOMENTS):
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=pattern) as raised:
        certificate.verify(moments)
    return str(raised.value)


# -- what holds ------------------------------------------------------------------------------------------------


def test_what_was_found_is_accepted():
    CERTIFICATE.verify(MOMENTS)
    SOLVED.verify(MOMENTS)
    assert len(SOLVED.leaf_dual) > B  # there was branching
    np.testing.assert_allclose(what_follows(CERTIFICATE), CERTIFICATE.bounds, atol=1e-8 * PROBLEM.null_value)
    np.testing.assert_allclose(what_follows(SOLVED), SOLVED.bounds, atol=1e-8 * PROBLEM.null_value)


def test_hand_made_proofs_are_accepted():
    """The verifier does not care who found the proof: any u and any Δ that is small enough will do."""
    C, b, label = quadratic()
    rng = np.random.default_rng(0)
    smallest = np.linalg.eigvalsh(C)[0]
    for _ in range(20):
        blocks = tuple(np.eye(np.sum(label == g)) * smallest * rng.uniform(0.1, 0.9) for g in range(J))
        duals = rng.standard_normal((3, *b.shape))
        numbers = np.concatenate([[0, 1, 2], rng.integers(0, 3, size=B - 3)])
        found = forged(proof={"blocks": blocks, **one_leaf_each(duals, numbers)})
        bounds = what_follows(found, blocks)
        best = np.array([PROBLEM.best_at(budget) for budget in found.budgets])
        assert np.all(bounds >= best)  # the theorem itself
        replace(found, bounds=bounds).verify(MOMENTS)


def test_the_moments_may_be_merged_or_of_more_columns():
    parts = Moments.from_data(PROBLEM.X[:11], PROBLEM.Y[:11]) + Moments.from_data(PROBLEM.X[11:], PROBLEM.Y[11:])
    CERTIFICATE.verify(parts)
    CERTIFICATE.verify(MORE)


@pytest.mark.quick_cases(5)
@pytest.mark.filterwarnings("ignore")  # that a column is hardly more than rounding may be worth a warning
@pytest.mark.parametrize("roundings", [5, 9, 11, 20, 40, 63, 65, 200])
@pytest.mark.parametrize("mean", [1.0, -1500.0])
def test_columns_that_hardly_vary_are_taken_for_what_the_certificate_took_them_for(roundings, mean):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    spread = rng.standard_normal(200)
    X[:, 1] = mean + np.round(spread * roundings) * np.spacing(mean)
    moments = Moments.from_data(X, X[:, 0] + spread + rng.standard_normal(200))
    certify(moments, [[0], [1], [2]], time_limit=60).verify(moments)


def test_thresholds_that_are_stated_twice_agree():
    """The verifier shares no code with what it checks, so it states them; so does docs/developers/mathematics.md."""
    assert verifier.SLACK == SLACK
    assert verifier.ROUNDINGS == ROUNDINGS
    assert verifier.MOST_ROUNDING == MOST_ROUNDING
    assert verifier.SINGULAR < 1 / WORST_BLOCK  # what is made keeps away from what is refused
    mean = np.array([3.0])
    for factor, constant in ((1 - 1e-9, True), (1 + 1e-9, False)):
        deviation = factor * verifier.CONSTANT * np.finfo(np.float64).eps * mean
        assert np.isinf(scale_of(mean, deviation**2)) == constant


def test_the_verifier_uses_numpy_alone():
    tree = ast.parse(Path(verifier.__file__).read_text(encoding="utf-8"))
    skipped = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    inside = {id(node) for block in skipped for node in ast.walk(block)}
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in inside:
            imported |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and id(node) not in inside:
            assert node.level == 0
            imported.add((node.module or "").split(".")[0])
        assert not (isinstance(node, ast.Name) and node.id in ("__import__", "eval", "exec"))
    assert imported == {"__future__", "typing", "numpy"}


# -- what does not: one field at a time ------------------------------------------------------------------------

MIDDLE = B // 2
LEAF = len(SOLVED.leaf_dual) // 2
OTHER_ORDER = CERTIFICATE.order[::-1]
VALUES_OF_OTHER = PROBLEM.curve(tuple(OTHER_ORDER.tolist()))[1][1:]
FIRST = np.arange(J) == 0
COLUMNS = CERTIFICATE.feature_groups.columns
SWAPPED = (COLUMNS[1], COLUMNS[0], *COLUMNS[2:])
CHEAPER = changed(PROBLEM.costs, int(CERTIFICATE.order[0]), PROBLEM.costs.max() * 9)

TAMPERED = {
    "bounds down": (forged(bounds=changed(CERTIFICATE.bounds, MIDDLE, 0.9 * CERTIFICATE.bounds[MIDDLE])), "bound"),
    "bounds up": (forged(bounds=changed(CERTIFICATE.bounds, MIDDLE, 1.1 * CERTIFICATE.bounds[MIDDLE])), "bound"),
    "bounds slightly down": (forged(bounds=CERTIFICATE.bounds * (1 - 1e-6)), "bound"),
    "bounds NaN": (forged(bounds=changed(CERTIFICATE.bounds, MIDDLE, np.nan)), "bound"),
    "bounds inf": (forged(bounds=changed(CERTIFICATE.bounds, MIDDLE, np.inf)), "bound"),
    "bounds short": (forged(bounds=CERTIFICATE.bounds[:-1]), "bounds"),
    "achieved up": (forged(achieved=CERTIFICATE.achieved * 1.01), "achieved"),
    "achieved down": (forged(achieved=CERTIFICATE.achieved * 0.99), "achieved"),
    "achieved NaN": (forged(achieved=changed(CERTIFICATE.achieved, 0, np.nan)), "achieved"),
    "achieved short": (forged(achieved=CERTIFICATE.achieved[1:]), "achieved"),
    "budgets up": (forged(budgets=CERTIFICATE.budgets * 1.01), "budget|achieved"),
    "budgets down": (forged(budgets=CERTIFICATE.budgets * 0.99), "budget|achieved"),
    "budgets reversed": (forged(budgets=CERTIFICATE.budgets[::-1]), "budgets"),
    "budgets negative": (forged(budgets=CERTIFICATE.budgets - 1), "budgets"),
    "budgets NaN": (forged(budgets=changed(CERTIFICATE.budgets, MIDDLE, np.nan)), "budgets"),
    "budgets equal": (forged(budgets=changed(CERTIFICATE.budgets, 1, CERTIFICATE.budgets[0])), "budgets"),
    "budgets empty": (forged(budgets=np.empty(0), achieved=np.empty(0), bounds=np.empty(0)), "budgets"),
    "everything up": (forged(everything=CERTIFICATE.everything * 1.001), "everything"),
    "everything down": (forged(everything=CERTIFICATE.everything * 0.999), "everything"),
    "everything NaN": (forged(everything=np.nan), "everything"),
    "everything inf": (forged(everything=np.inf), "everything"),
    "null_value up": (forged(null_value=CERTIFICATE.null_value * 1.001), "null_value"),
    "null_value down": (forged(null_value=CERTIFICATE.null_value * 0.999), "null_value"),
    "null_value NaN": (forged(null_value=np.nan), "null_value"),
    "gamma up": (forged(gamma=CERTIFICATE.gamma * 1.01), "gamma"),
    "gamma down": (forged(gamma=CERTIFICATE.gamma * 0.99), "gamma"),
    "gamma NaN": (forged(gamma=np.nan), "gamma"),
    "gamma negative": (forged(gamma=-CERTIFICATE.gamma), "gamma"),
    "alpha up": (forged(alpha=PROBLEM.alpha * 1.1), "alpha|everything"),
    "alpha down": (forged(alpha=0.0), "alpha|everything"),
    "order reversed": (forged(order=OTHER_ORDER), "achieved|order|values"),
    "order reversed with its values": (forged(order=OTHER_ORDER, values=VALUES_OF_OTHER), "achieved"),
    "values up": (forged(values=CERTIFICATE.values * 1.01), "values"),
    "values slightly down": (forged(values=CERTIFICATE.values * (1 - 1e-5)), "values"),
    "values NaN": (forged(values=changed(CERTIFICATE.values, 0, np.nan)), "values"),
    "values short": (forged(values=CERTIFICATE.values[:-1]), "values"),
    "values long": (forged(values=np.append(CERTIFICATE.values, CERTIFICATE.values[-1])), "values"),
    "values whole": (forged(values=CERTIFICATE.values.astype(np.intp)), "values"),
    "order repeats": (forged(order=changed(CERTIFICATE.order, 0, CERTIFICATE.order[1])), "order"),
    "order unknown": (forged(order=changed(CERTIFICATE.order, 0, J)), "order"),
    "order negative": (forged(order=changed(CERTIFICATE.order, 0, -1)), "order"),
    "order short": (forged(order=CERTIFICATE.order[:-1], values=CERTIFICATE.values[:-1]), "achieved"),
    "order empty": (forged(order=np.empty(0, dtype=np.intp), values=np.empty(0)), "achieved"),
    "costs": (forged(feature_groups=with_groups(costs=CHEAPER)), "achieved|bound|costs"),
    "costs halved": (forged(feature_groups=with_groups(costs=PROBLEM.costs / 2)), "achieved|bound|costs"),
    "columns swapped": (forged(feature_groups=with_groups(columns=SWAPPED)), "gamma|everything|values|bound|block"),
    "columns by name": (forged(feature_groups=with_groups(columns=(("q",), *COLUMNS[1:]))), "'q'"),
    "excluded": (forged(excluded=FIRST), "everything|excluded"),
    "excluded and included": (forged(excluded=FIRST, included=FIRST), "excluded"),
    "excluded short": (forged(excluded=np.zeros(J - 1, dtype=bool)), "excluded"),
    "included long": (forged(included=np.zeros(J + 1, dtype=bool)), "included"),
    "blocks large": (forged(proof={"blocks": scaled_block(CERTIFICATE, 1, 3e3)}), "block"),
    "blocks negative": (forged(proof={"blocks": scaled_block(CERTIFICATE, 1, -1.0)}), "block"),
    "blocks zero": (forged(proof={"blocks": scaled_block(CERTIFICATE, 1, 0.0)}), "block"),
    "blocks small": (forged(proof={"blocks": scaled_block(CERTIFICATE, 1, 0.5)}), "bound|block"),
    "blocks NaN": (forged(proof={"blocks": scaled_block(CERTIFICATE, 1, np.nan)}), "block"),
    "blocks swapped": (forged(proof={"blocks": blocks_of(CERTIFICATE)[::-1]}), "block|bound"),
    "blocks extra": (forged(proof={"blocks": (*blocks_of(CERTIFICATE), np.eye(1))}), "block"),
    "blocks missing": (forged(proof={"blocks": ()}), "proof|block"),
    "blocks shape": (forged(proof={"blocks": (np.eye(7), *blocks_of(CERTIFICATE)[1:])}), "block"),
    "duals": (forged(proof={"duals": CERTIFICATE.duals * 1.1}), "bound|dual"),
    "duals transposed": (forged(proof={"duals": CERTIFICATE.duals.swapaxes(1, 2)}), "dual"),
    "duals extra": (forged(proof={"duals": np.concatenate([CERTIFICATE.duals] * 2)}), "dual"),
    "duals short": (forged(proof={"duals": CERTIFICATE.duals[:-1]}), "dual"),
    "leaf_dual": (forged(proof={"leaf_dual": CERTIFICATE.leaf_dual[::-1]}), "bound|leaf_dual"),
    "leaf_dual unknown": (forged(proof={"leaf_dual": CERTIFICATE.leaf_dual + 1}), "leaf_dual"),
    "leaf_dual negative": (forged(proof={"leaf_dual": CERTIFICATE.leaf_dual - 1}), "leaf_dual"),
    "leaf_dual short": (forged(proof={"leaf_dual": CERTIFICATE.leaf_dual[:-1]}), "leaf_dual"),
    "leaf_budget": (forged(proof={"leaf_budget": CERTIFICATE.leaf_budget[::-1]}), "bound|leaves"),
    "leaf_budget unknown": (forged(proof={"leaf_budget": CERTIFICATE.leaf_budget + 1}), "leaf_budget"),
    "leaf_budget negative": (forged(proof={"leaf_budget": CERTIFICATE.leaf_budget - 1}), "leaf_budget"),
    "leaf_included": (forged(proof={"leaf_included": ~CERTIFICATE.leaf_included}), "leaves"),
    "leaf_included one": (forged(SOLVED, {"leaf_included": changed(SOLVED.leaf_included, LEAF,
                                          ~SOLVED.leaf_included[LEAF])}), "leaves"),
    "leaf_excluded": (forged(proof={"leaf_excluded": ~CERTIFICATE.leaf_excluded}), "leaves"),
    "leaf_excluded shape": (forged(proof={"leaf_excluded": CERTIFICATE.leaf_excluded[:, 1:]}), "leaves"),
    "weights": (replace(CERTIFICATE, weights=np.full(WIDTH, 2.0)), "values|bound|everything"),
    "weights one": (replace(CERTIFICATE, weights=changed(np.ones(WIDTH), 0, 9.0)), "values|bound|everything"),
    "weights negative": (replace(CERTIFICATE, weights=-np.ones(WIDTH)), "weights"),
    "weights shape": (replace(CERTIFICATE, weights=np.ones(WIDTH + 1)), "weights"),
    "weights nan": (replace(CERTIFICATE, weights=np.full(WIDTH, np.nan)), "weights"),
    "penalties": (replace(CERTIFICATE, penalties=np.full(J, 1e-3 * PROBLEM.null_value)), "values|bound|everything"),
    "penalties of the last": (replace(CERTIFICATE, penalties=changed(np.zeros(J), CERTIFICATE.order[-1], 1.0)),
                              "values|bound"),
    "penalties negative": (replace(CERTIFICATE, penalties=-np.ones(J)), "penalties"),
    "penalties shape": (replace(CERTIFICATE, penalties=np.zeros(J + 1)), "penalties"),
    "penalties nan": (replace(CERTIFICATE, penalties=np.full(J, np.nan)), "penalties"),
    "penalties forgotten": (replace(PLANNED, penalties=None), "values"),
    "penalties halved": (replace(PLANNED, penalties=PLANNED.penalties / 2), "values"),
    "proof trivial": (replace(CERTIFICATE, **no_proof(J)), "bounds"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_refused(name):
    certificate, pattern = TAMPERED[name]
    message = refused(certificate, pattern)
    assert re.match("the certificate does not hold: |loss: ", message), message


def test_the_certificate_of_a_plan_holds_and_has_several_leaves():
    PLANNED.verify(MOMENTS)
    assert len(PLANNED.leaf_dual) > 1


def test_every_field_is_tampered_with():
    names = {name.split()[0] for name in TAMPERED}
    of_groups = {"columns", "costs"}
    assert {f.name for f in fields(Certificate)} - {"feature_groups"} <= names | of_groups


def test_a_block_that_is_not_symmetric_is_refused():
    skewed = [np.array(block) for block in blocks_of(CERTIFICATE)]
    g = max(range(J), key=lambda g: len(skewed[g]))
    assert len(skewed[g]) > 1
    skewed[g][0, 1] *= 1.0001
    refused(forged(proof={"blocks": tuple(skewed)}), "block")


@pytest.mark.parametrize("leaf", range(0, len(SOLVED.leaf_dual), 17))
def test_a_leaf_that_is_dropped_is_missed(leaf):
    """Whatever leaf it is: its budget is no longer covered, unless nothing in it can be bought."""
    proof = SOLVED
    kept = np.arange(len(proof.leaf_dual)) != leaf
    used, numbers = np.unique(proof.leaf_dual[kept], return_inverse=True)
    dropped = {
        "duals": proof.duals[used], "leaf_dual": numbers, "leaf_budget": proof.leaf_budget[kept],
        "leaf_included": proof.leaf_included[kept], "leaf_excluded": proof.leaf_excluded[kept],
    }  # fmt: skip
    refused(forged(SOLVED, dropped), "leaves at budget")


def test_a_leaf_with_another_dual_or_another_budget_is_refused():
    """Where the new bound of the leaf is not below that of the others."""
    rng = np.random.default_rng(0)
    proof, caught = SOLVED, 0
    for _ in range(15):
        leaf = int(rng.integers(len(proof.leaf_dual)))
        other = int(rng.integers(len(proof.duals)))
        for field, value in (("leaf_dual", other), ("leaf_budget", int(rng.integers(B)))):
            tampered = forged(SOLVED, {field: changed(getattr(proof, field), leaf, value)})
            follows = what_follows(tampered)
            if np.abs(follows - SOLVED.bounds).max() > 1e-6 * PROBLEM.null_value or field == "leaf_budget":
                if value == getattr(proof, field)[leaf]:
                    continue
                refused(tampered, "bound|leaves|leaf_dual")
                caught += 1
    assert caught > 12


def test_flipping_one_bit_of_a_leaf_is_refused_or_changes_nothing():
    """A leaf about more sets may do no harm; one about fewer leaves sets out."""
    proof, refusals = SOLVED, 0
    for leaf in range(0, len(proof.leaf_dual), 29):
        for g in range(J):
            for field in ("leaf_included", "leaf_excluded"):
                mask = getattr(proof, field)
                tampered = forged(SOLVED, {field: changed(mask, (leaf, g), ~mask[leaf, g])})
                bought = PROBLEM.costs[proof.leaf_included[leaf] | (np.arange(J) == g)].sum()
                fits = bought <= SOLVED.budgets[proof.leaf_budget[leaf]]
                if mask[leaf, g] or (field == "leaf_excluded" and not fits):
                    continue
                refused(tampered, "leaves|bound")
                refusals += 1
    assert refusals > 10


def test_certificates_of_other_data_are_refused():
    refused(CERTIFICATE, "null_value", Moments.from_data(PROBLEM.X, PROBLEM.Y * 1.01))
    X = PROBLEM.X.copy()
    X[0, 0] += 1.0
    refused(CERTIFICATE, "everything", Moments.from_data(X, PROBLEM.Y))
    refused(CERTIFICATE, "everything|gamma|achieved", Moments.from_data(PROBLEM.X[:, ::-1], PROBLEM.Y))
    refused(CERTIFICATE, "null_value|everything", Moments.from_data(PROBLEM.X[1:], PROBLEM.Y[1:]))
    refused(
        CERTIFICATE, "null_value|everything", Moments.from_data(PROBLEM.X, PROBLEM.Y, np.arange(len(PROBLEM.Y)) + 1.0)
    )
    refused(CERTIFICATE, "null_value|shape", Moments.from_data(PROBLEM.X, np.hstack([PROBLEM.Y, PROBLEM.Y**2])))
    CERTIFICATE.verify(Moments.from_data(3 * PROBLEM.X + 7, PROBLEM.Y + 2))  # other units change nothing


# -- forgeries: consistent, but the bounds are too low --------------------------------------------------------


def too_low(bounds):
    best = np.array([PROBLEM.best_at(budget) for budget in CERTIFICATE.budgets])
    return bool(np.any(best > bounds + 1e-3 * PROBLEM.null_value))


# A forger claims no sequence, so that nothing is achieved that the bounds could be held against.
EMPTY = replace(CERTIFICATE, order=np.empty(0, dtype=np.intp), values=np.empty(0), achieved=np.zeros(B))


def consistent(certificate, **known):
    """The certificate with the bounds that a careless verifier would find, which are too low."""
    bounds = what_follows(certificate, **known)
    assert too_low(bounds)
    return replace(certificate, bounds=bounds)


def test_the_forger_starts_from_what_holds():
    EMPTY.verify(MOMENTS)


def test_delta_too_large_is_refused_however_little():
    """The bound falls as Δ grows; beyond C − Δ ⪰ 0 it is none."""
    C, _, label = quadratic()
    diagonal = np.zeros_like(C)
    for g, block in enumerate(blocks_of(CERTIFICATE)):
        diagonal[np.ix_(label == g, label == g)] = block
    root = np.linalg.inv(np.linalg.cholesky(diagonal))
    largest = np.linalg.eigvalsh(root @ C @ root.T)[0]  # C − tΔ ⪰ 0 up to this t
    for factor, holds in ((1 - 1e-6, True), (1 + 1e-6, False), (1.01, False), (30.0, False)):
        blocks = tuple(block * largest * factor for block in blocks_of(CERTIFICATE))
        tampered = forged(EMPTY, proof={"blocks": blocks})
        tampered = replace(tampered, bounds=np.maximum(what_follows(tampered), 0.0))
        if holds:
            tampered.verify(MOMENTS)
        else:
            refused(tampered, "block")


def test_leaves_that_leave_sets_out_are_refused():
    """One leaf per budget, about sets without the most valuable group."""
    best = int(np.argmax([PROBLEM.values[1 << g] for g in range(J)]))
    out = np.tile(np.arange(J) == best, (B, 1))
    duals = CERTIFICATE.duals[CERTIFICATE.leaf_dual]
    fields_of = {**one_leaf_each(duals, np.arange(B)), "leaf_excluded": out}
    refused(consistent(forged(EMPTY, proof=fields_of)), "leaves")
    # with a second leaf that looks like the missing one, but wants a group more
    more = np.tile((np.arange(J) == best) | (np.arange(J) == (best + 1) % J), (B, 1))
    both = {
        "duals": duals, "leaf_dual": np.tile(np.arange(B), 2), "leaf_budget": np.tile(np.arange(B), 2),
        "leaf_included": np.vstack([np.zeros_like(out), more]),
        "leaf_excluded": np.vstack([out, np.zeros_like(out)]),
    }  # fmt: skip
    refused(replace(forged(EMPTY, proof=both), bounds=what_follows(forged(EMPTY, proof=both))), "leaves")


def test_a_leaf_that_holds_and_bars_a_group_covers_nothing():
    """Contradictory leaves are about no set at all."""
    every = np.ones((B, J), dtype=bool)
    contradiction = {**one_leaf_each(np.zeros((1, *quadratic()[1].shape))), "leaf_included": every,
                     "leaf_excluded": every}  # fmt: skip
    tampered = forged(EMPTY, proof=contradiction)
    refused(replace(tampered, bounds=np.zeros(B)), "leaves")


def test_no_leaves_at_all_are_refused():
    shape = quadratic()[1].shape
    nothing = {
        "duals": np.empty((0, *shape)), "leaf_dual": np.empty(0, dtype=np.intp),
        "leaf_budget": np.empty(0, dtype=np.intp), "leaf_included": np.empty((0, J), dtype=bool),
        "leaf_excluded": np.empty((0, J), dtype=bool),
    }  # fmt: skip
    for bounds in (CERTIFICATE.bounds, np.zeros(B), np.full(B, -np.inf)):
        refused(forged(EMPTY, proof=nothing, bounds=bounds), "leaves|dual|bounds")


def test_groups_without_a_block_are_refused():
    shape = quadratic()[1].shape
    blocks = blocks_of(CERTIFICATE)[:1]
    tampered = forged(EMPTY, proof={"blocks": blocks, **one_leaf_each(np.zeros((1, *shape)))})
    refused(consistent(tampered, blocks=blocks), "block")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_a_leaf_whose_dual_is_not_a_number_is_refused(value):
    """The first leaf is about no group at all, and its bound is 0; the second is about all sets."""
    shape = quadratic()[1].shape
    out = np.zeros((2 * B, J), dtype=bool)
    out[::2] = True
    two = {
        "duals": np.array([np.zeros(shape), np.full(shape, value)]), "leaf_dual": np.tile([0, 1], B),
        "leaf_budget": np.repeat(np.arange(B), 2), "leaf_included": np.zeros_like(out), "leaf_excluded": out,
    }  # fmt: skip
    refused(forged(EMPTY, proof=two, bounds=np.zeros(B)), "dual|bound")


def test_masks_must_be_masks():
    """Of integers, ``~`` and indexing mean something else: F of all groups would be F of the last column."""
    _, b, _label = quadratic()
    last = float(b[-1] @ b[-1] / (1 + PROBLEM.alpha) / 2)
    bounds = np.full(B, last)
    ints = np.zeros(J, dtype=np.intp)
    refused(replace(CERTIFICATE, excluded=ints, everything=last, bounds=bounds, **no_proof(J)), "excluded")
    refused(forged(included=ints), "included")
    refused(forged(included=np.zeros(J)), "included")


@pytest.mark.parametrize("name", ["leaf_included", "leaf_excluded"])
@pytest.mark.parametrize("dtype", [np.intp, np.float64, np.uint8])
def test_masks_of_leaves_must_be_masks(name, dtype):
    refused(forged(SOLVED, {name: getattr(SOLVED, name).astype(dtype)}), "lea")


@pytest.mark.parametrize("name", ["leaf_dual", "leaf_budget"])
def test_numbers_of_leaves_must_be_whole(name):
    refused(forged(SOLVED, {name: getattr(SOLVED, name).astype(float)}), "leaf")
    refused(forged(SOLVED, {name: getattr(SOLVED, name) + 0.25}), "leaf|leaves")


def test_arrays_of_objects_and_complex_numbers_are_refused():
    refused(forged(budgets=CERTIFICATE.budgets.astype(object)), "budgets")
    refused(forged(proof={"duals": CERTIFICATE.duals * 1j}), "dual|bound")
    refused(forged(proof={"duals": CERTIFICATE.duals + 0j}), "dual|bound")


@pytest.mark.parametrize("alpha", [np.nan, np.inf, -1e-4])
def test_alpha_must_be_a_number(alpha):
    refused(forged(alpha=alpha), "alpha")


def test_gamma_of_0_is_a_statement_too():
    refused(forged(gamma=0.0), "gamma")


def test_budgets_are_finite():
    refused(forged(budgets=changed(CERTIFICATE.budgets, -1, np.inf)), "budgets")


def test_the_order_must_go_with_what_is_in_and_out():
    """Groups that must be in are in the order, and those that must not be are not."""
    short = {"order": CERTIFICATE.order[:-1], "values": CERTIFICATE.values[:-1]}
    refused(forged(included=np.arange(J) == CERTIFICATE.order[-1], **short), "included")
    found = best_set(MOMENTS, PROBLEM.feature_groups, PROBLEM.priced, budget=float(PROBLEM.costs.sum()),
                     exclude=["g0"], alpha=PROBLEM.alpha)  # fmt: skip
    found.certificate.verify(MOMENTS)
    values = PROBLEM.curve(tuple(range(J)))[1][1:]
    whole = replace(found.certificate, order=np.arange(J), values=values, achieved=values[-1:])
    refused(whole, "excluded")


def test_a_column_counted_from_the_end_is_refused():
    """Position −1 of the moments is the target."""
    for wrong in (-1, 99):
        columns = ((*COLUMNS[0][:-1], wrong), *COLUMNS[1:])
        refused(forged(feature_groups=with_groups(columns=columns)), f"{wrong}|everything", MORE)


def test_a_negative_column_is_refused_also_where_all_columns_are_grouped():
    columns = tuple(tuple(-1 if d == 0 else d for d in group) for group in COLUMNS)
    refused(forged(feature_groups=with_groups(columns=columns)), "-1")


def test_a_block_that_is_singular_up_to_rounding_is_refused():
    """Its inverse is noise, and the noise may be negative: the bound could be anything."""
    C, b, label = quadratic()
    smallest = np.linalg.eigvalsh(C)[0]
    g = int(np.argmax(np.bincount(label)))
    own = b[label == g]
    rng = np.random.default_rng(0)
    found = 0
    while found < 5:
        A = rng.standard_normal((len(own), len(own) - 1))
        block = A @ A.T * (0.5 * smallest / np.linalg.norm(A, 2) ** 2)
        block = (block + block.T) / 2
        if not np.linalg.eigvalsh(block)[0] > 0:
            continue  # this one is refused anyway
        found += 1
        blocks = tuple(block if h == g else np.eye(np.sum(label == h)) * smallest / 2 for h in range(J))
        tampered = forged(EMPTY, proof={"blocks": blocks, **one_leaf_each(np.zeros((1, *b.shape)))})
        refused(replace(tampered, bounds=np.zeros(B)), "block")


@pytest.mark.filterwarnings("ignore:the moments are ill conditioned")
@pytest.mark.parametrize("distance", [1e-3, 1e-4, 1e-5, 4e-6])
def test_where_digits_are_lost_bounds_may_not_be_lowered_for_it(distance):
    """Bounds are raised by what rounding may take, and one below what follows is refused however little C says."""
    rng = np.random.default_rng(0)
    x, z, other = rng.standard_normal((3, 50))
    X = np.column_stack([x, x + distance * z, other])
    moments = Moments.from_data(X, z + 0.1 * rng.standard_normal(50))
    found = certify(moments, alpha=0.0, time_limit=0.1)
    found.verify(moments)
    nothing = {"order": np.empty(0, dtype=np.intp), "values": np.empty(0)}
    claimed = replace(found, **nothing, achieved=np.zeros(found.budgets.size))
    claimed.verify(moments)
    rounding = 16 * np.finfo(float).eps * 3 / np.linalg.eigvalsh(np.corrcoef(X.T))[0]
    share = 1e-7 + 1.5 * rounding
    lower = replace(claimed, bounds=np.maximum(found.bounds - share * found.null_value, 0.0),
                    everything=found.everything - share * found.null_value)  # fmt: skip
    refused(lower, "bound|everything", moments)
