"""Families of losses over sets of rows: rankings within queries, and survival times.

=============  ======================  ====================================================================
family         targets of a row        risk, per row of weight 1
=============  ======================  ====================================================================
Listwise       grade, query            Σ_q [log Σ_{i∈q} e^{η_i} − Σ_i p_i η_i],   p_i ∝ 2^grade − 1
Cox            time, event, stratum    Σ_{events i} [log Σ_{j: T_j ≥ T_i} e^{η_j} − η_i]
=============  ======================  ====================================================================

There is no intercept: scores say which row of a set comes first. The mathematics of both is in ``row_sets.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from budgetline.arrays import Float
from budgetline.glm.row_sets import RowSets, query_sets, risk_sets
from budgetline.inputs import check_grades, check_queries, check_survival


class SetFamily:
    """What losses over sets share: one score, which is the prediction."""

    loss: ClassVar[str]

    def sets(self, Y: Float, weight: Float) -> RowSets:
        """Return the sets of rows with targets (n, P) and weights (n,) that sum to one."""
        raise NotImplementedError

    def encode(self, y: object, of: object, n_samples: int, weight: Float | None = None) -> Float:
        """Check targets, and the queries or strata ``of`` their rows; return them as numbers (n, …)."""
        raise NotImplementedError

    def start(self, mean: Float) -> Float:
        return np.zeros(1)

    def external(self, V: Float) -> Float:
        return V

    def prediction(self, scores: Float) -> Float:
        return scores

    def excess(self, scores: Float, Y: Float, weight: Float) -> Float:
        """Return the risks (K,) of scores (n, K) of K models, minus the smallest possible risk, for weights (n,)."""
        sets = self.sets(Y, weight / weight.sum())
        return np.array([sets.at(column).risk for column in scores[sets.order].T]) - sets.saturated

    def slopes(self, scores: Float, Y: Float, weight: Float) -> Float:
        """Return residuals and second derivatives by the score of each row, per weight, at scores (n,): (n, 2)."""
        share = weight / weight.sum()
        sets, found = self.sets(Y, share), np.zeros((len(Y), 2))
        point = sets.at(scores[sets.order])
        found[sets.order] = np.column_stack([point.residual, point.weight]) / share[sets.order, None]
        return found


class Listwise(SetFamily):
    """Softmax within queries, whose targets are shares of the gains 2^grade − 1: a convex substitute for NDCG."""

    loss = "listwise"

    def encode(self, y: object, of: object, n_samples: int, weight: Float | None = None) -> Float:
        return np.column_stack([check_grades(y, n_samples), check_queries(of, n_samples, weight)])

    def sets(self, Y: Float, weight: Float) -> RowSets:
        return query_sets(Y[:, 0], Y[:, 1], weight)


@dataclass(frozen=True)
class Cox(SetFamily):
    """Cox's partial likelihood, with Efron's or Breslow's approximation for tied events."""

    efron: bool = True
    loss = "cox"

    def encode(self, y: object, of: object, n_samples: int, weight: Float | None = None) -> Float:
        time, event = check_survival(y, n_samples)
        stratum = np.zeros(n_samples) if of is None else check_queries(of, n_samples, name="strata")
        return np.column_stack([time, event, stratum])

    def sets(self, Y: Float, weight: Float) -> RowSets:
        return risk_sets(Y[:, 0], Y[:, 1] > 0, Y[:, 2], weight, efron=self.efron)

    def hazards(self, scores: Float, Y: Float, weight: Float, times: Float) -> Float:
        """Return Breslow's cumulative baseline hazards (K, T) of K models at ascending times, from scores (n, K).

        At the time of an event the hazard rises by the weight of the events over Σ w e^η of those at risk. Rows of all
        strata count as one.
        """
        found = np.zeros((scores.shape[1], times.size))
        sets = risk_sets(Y[:, 0], Y[:, 1] > 0, np.zeros(len(Y)), weight / weight.sum(), efron=False)
        last = np.append(sets.firsts[1:], len(sets.order)) - 1
        when = Y[sets.order[last], 0][::-1]  # ascending, as times are
        for k, eta in enumerate(scores[sets.order].T):
            rises = sets.rises(eta)[::-1]
            position = np.searchsorted(when, times, side="right")
            found[k] = np.append(0.0, np.cumsum(rises))[position]
        return found
