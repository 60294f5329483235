"""Random rankings and survival times, and their losses summed set by set."""

import numpy as np


def ranking(n_queries=30, n_documents=12, n_columns=6, seed=0):
    """Return X, grades and queries in a mixed order; the first half of the columns matters, the first one most."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    X = rng.normal(size=(n, n_columns)) @ (np.eye(n_columns) + 0.2 * rng.normal(size=(n_columns, n_columns)))
    merit = X[:, : n_columns // 2] @ np.linspace(1.0, 0.4, n_columns // 2) + rng.gumbel(size=n)
    return (
        X,
        np.clip(np.round(merit / 1.5), 0, 3).astype(int),
        rng.permutation(np.repeat(np.arange(n_queries), n_documents)),
    )


def survival(n=300, n_columns=6, seed=0, ties=True):
    """Return X, times, some of them tied, and events; the first half of the columns matters, the first one most."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_columns)) @ (np.eye(n_columns) + 0.2 * rng.normal(size=(n_columns, n_columns)))
    died = rng.exponential(np.exp(-X[:, : n_columns // 2] @ np.linspace(1.0, 0.4, n_columns // 2)))
    left = rng.exponential(2.0, size=n)
    time = np.minimum(died, left)
    return X, np.ceil(10 * time) if ties else time, died <= left


def listwise(eta, relevance, query, weight):
    total = 0.0
    for q in np.unique(query):
        own = query == q
        gain = 2.0 ** relevance[own] - 1
        if gain.sum() > 0:
            total += weight[own][0] * (np.log(np.exp(eta[own]).sum()) - gain / gain.sum() @ eta[own])
    return total


def partial_likelihood(eta, time, event, stratum, weight, efron):
    total, counted = 0.0, weight > 0
    raised = weight * counted.sum() * np.exp(eta)
    for s in np.unique(stratum):
        for t in np.unique(time[(stratum == s) & event & counted]):
            died = (stratum == s) & (time == t) & event & counted
            at_risk, tied, m = raised[(stratum == s) & (time >= t)].sum(), raised[died].sum(), died.sum()
            for k in range(m):
                total += weight[died].sum() / m * np.log(at_risk - (k / m * tied if efron else 0.0))
            total -= weight[died] @ eta[died]
    return total
