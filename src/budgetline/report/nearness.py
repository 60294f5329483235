"""From a certificate to what a report says of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality import Certificate
from budgetline.report.content import BOUND, Bounded, Content, Curve, Nearness

SHARES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Shares of the whole cost at which a report tells how near the order comes to the best."""
SAME_DATA = 1e-6
"""R(∅) of the same data, found in another way, differs by less than this share of it."""


def check_certificate(certificate: Any, inner: AnytimeModel) -> None:
    """Raise an error unless a certificate is about the sequence of a fitted model; None is fine."""
    if certificate is None:
        return
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be a Certificate, such as model.certificate(), not {shown(certificate)}")
    theirs, ours = certificate.feature_groups, inner.groups
    null_value = float(inner.sequence.null_value)
    squared = inner.squared_error
    shared = (theirs.shared, theirs.requires) != (ours.shared, ours.requires)
    differences = {
        f"is about sets {certificate.condition} only": bool(certificate.condition),
        "has other groups": theirs.names != ours.names or theirs.columns != ours.columns,
        "has other costs": shared or not np.array_equal(theirs.costs, ours.costs),
        "has another order": not np.array_equal(certificate.order, inner.sequence.order),
        f"has alpha={certificate.alpha:g}, the model {inner.alpha:g}": certificate.alpha != inner.alpha,
        f"is about loss {shown(certificate.loss)}": (certificate.loss == "squared_error") != squared,
        "is about other data": not abs(certificate.null_value - null_value) <= SAME_DATA * null_value,
    }
    if found := next((name for name, differs in differences.items() if differs), None):
        raise ValueError(f"the certificate is not of this model: it {found}")


def nearness_of(certificate: Certificate, content: Content) -> Nearness:
    """Return what is proven at shares of the whole cost of a report, and over all budgets."""
    total, scale = content.total_cost, certificate.null_value if certificate.null_value > 0 else 1.0
    shares = SHARES if total > 0 else (1.0,)
    budgets = tuple(share * total for share in shares)
    found = [certificate.at(budget) for budget in budgets]
    return Nearness(
        shares=shares,
        budgets=budgets,
        achieved=tuple(float(entry.achieved) / scale for entry in found),
        bounds=tuple(float(entry.bound) / scale for entry in found),
        ratios=tuple(entry.ratio for entry in found),
        timeliness=Bounded(*map(float, certificate.timeliness(total))),
        notes=certificate.notes,
        curve=_curve(certificate, content, scale),
    )


def _curve(certificate: Certificate, content: Content, scale: float) -> Curve | None:
    """Return the bound up to the whole cost of the report, None where it says nothing about its curves."""
    if content.measure.name != "explained" or not certificate.proof.blocks:
        return None
    total, bound = content.total_cost, certificate.curve()
    inside = bound.costs < total
    inside[0] = True
    costs, values = bound.costs[inside].tolist(), bound.values[inside].tolist()
    if total > 0:  # a bound holds up to its budget: at the end there is no next one to show
        costs, values = [*costs, total], [*values, values[-1]]
    return Curve(BOUND, "no set of groups can be above, on the training data", tuple(costs), tuple(values), ())
