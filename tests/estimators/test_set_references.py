"""Coefficients of rankers and Cox models are those of other libraries, with all columns and no ridge."""

import json

import numpy as np
import pytest
from statsmodels.discrete.conditional_models import ConditionalLogit
from survival_tables import REFERENCES, SUPPORT2, survival_table

from budgetline import AnytimeRanker, AnytimeSurvival

KNOWN = json.loads(REFERENCES.read_text())
NO_SUPPORT2 = pytest.mark.skipif(not SUPPORT2.exists(), reason="SUPPORT2 is not in the folder SURVIVAL_DATA")
CASES = [
    pytest.param(table, ties, package, marks=NO_SUPPORT2 if table == "support2" else [])
    for table in ("rossi", "gbsg2", "support2")
    for ties, package in (("efron", "lifelines"), ("efron", "scikit-survival"), ("breslow", "scikit-survival"))
]


@pytest.mark.parametrize(("table", "ties", "package"), CASES)
def test_cox_coefficients_are_those_of_lifelines_and_scikit_survival(table, ties, package):
    X, time, event = survival_table(table)
    known = KNOWN[table]
    assert [list(X.columns), len(X), int(event.sum())] == [known["columns"], known["rows"], known["events"]]
    model = AnytimeSurvival(alpha=0.0, ties=ties, rule="omp").fit(X, time, event)
    theirs = np.array(known[f"{package}, {ties}"])
    np.testing.assert_allclose(model.coef_, theirs, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.coef_ * X.std(), theirs * X.std(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_one_relevant_document_per_query_is_a_conditional_logit(seed):
    rng = np.random.default_rng(seed)
    X, qid, truth = rng.normal(size=(1200, 4)), np.repeat(np.arange(150), 8), np.array([1.0, 0.5, 0.0, -0.5])
    chosen = (X @ truth + rng.gumbel(size=1200)).reshape(150, 8).argmax(axis=1)
    y = (np.arange(8) == chosen[:, None]).ravel().astype(int)
    known = ConditionalLogit(y, X, groups=qid).fit(method="newton", tol=1e-12, disp=False)
    model = AnytimeRanker(alpha=0.0, rule="omp").fit(X, y, qid=qid)
    np.testing.assert_allclose(model.coef_, known.params, rtol=0, atol=1e-6)
    log_likelihood = 150 * np.log(1 / 8) + len(y) * model.sequence_.gains.sum()
    assert log_likelihood == pytest.approx(known.llf, abs=1e-6)
