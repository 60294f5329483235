"""What a report says of a certificate."""

from __future__ import annotations

import numpy as np

from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality import Certificate
from budgetline.optimality.certificate import SHOWN
from budgetline.report.content import BOUND, CertifiedShare, CertifiedShares, Curve

SAME_DATA = 1e-6
"""Values of R(∅) that differ by less, relatively, are of the same data."""


def check_certificate(certificate: object, model: AnytimeModel) -> None:
    """Raise an error unless a certificate is about the sequence of a model."""
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be a Certificate, such as model.certificate(), not {shown(certificate)}")
    theirs, ours, null_value = certificate.feature_groups, model.groups, model.sequence.null_value
    shared = (theirs.shared, theirs.requires) != (ours.shared, ours.requires)
    differences = {
        f"is about sets {certificate.condition} only": bool(certificate.condition),
        "has other groups": theirs.names != ours.names or theirs.columns != ours.columns,
        "has other costs": shared or not np.array_equal(theirs.costs, ours.costs),
        "has another order": not np.array_equal(certificate.order, model.sequence.order),
        f"has alpha={certificate.alpha:g}, the model {model.alpha:g}": certificate.alpha != model.alpha,
        f"is about loss {shown(certificate.loss)}": (certificate.loss == "squared_error") != model.squared_error,
        "is about other data": not abs(certificate.null_value - null_value) <= SAME_DATA * null_value,
    }
    if found := [name for name, differs in differences.items() if differs]:
        raise ValueError(f"the certificate is not of this model: it {found[0]}")


def certified_shares(certificate: Certificate, total: float, metric: str) -> CertifiedShares:
    """Return what is certified up to a total cost, with the curve of the bound if it is on the metric."""
    scale = certificate.null_value if certificate.null_value > 0 else 1.0
    shares = SHOWN if total > 0 else (1.0,)
    budgets = tuple(share * total for share in shares)
    achieved, bounds, ratios = np.transpose([certificate.at(budget) for budget in budgets])
    return CertifiedShares(
        shares,
        budgets,
        tuple((achieved / scale).tolist()),
        tuple((bounds / scale).tolist()),
        tuple(ratios.tolist()),
        CertifiedShare(*map(float, certificate.timeliness(total))),
        certificate.notes,
        _bound(certificate, total) if metric == "explained" and certificate.proof.blocks else None,
    )


def _bound(certificate: Certificate, total: float) -> Curve:
    """Return the bound up to the total cost; at its end there is no next budget, so the last value is repeated."""
    bound = certificate.curve()
    inside = bound.costs < total
    inside[0] = True
    costs, values = bound.costs[inside].tolist(), bound.values[inside].tolist()
    if total > 0:
        costs, values = [*costs, total], [*values, values[-1]]
    return Curve(BOUND, "upper bound on any set of groups, training data", tuple(costs), tuple(values), ())
