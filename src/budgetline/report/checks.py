"""What :func:`make_report` is given: errors for what does not fit together."""

from __future__ import annotations

import numpy as np

from budgetline.data import Source
from budgetline.evaluation.resampling import Samples
from budgetline.inputs import check_number
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, as_model, as_staged
from budgetline.model.prefixes import PrefixModels
from budgetline.moments import Moments
from budgetline.optimality import Certificate
from budgetline.optimality.quadratic import design_groups

SAME_DATA = 1e-6
"""Values of R(∅) that differ by less, relatively, are of the same data."""


def check_arguments(
    model: object, rows: Samples, metric: object, extras: tuple[object, object], **texts: object
) -> None:
    """Raise an error unless the arguments of a report fit together; ``extras``: certificate, plan_seconds."""
    (certificate, plan_seconds), X, y = extras, rows.X, rows.y
    check_number("plan_seconds", plan_seconds, "number of seconds", ge=0)
    if isinstance(X, Moments | Source):
        raise TypeError(f"X must be a table in memory, to draw folds from, not {type(X).__name__}")
    if X is not None and isinstance(model, AnytimeModel | PrefixModels):
        kind = type(model).__name__
        raise TypeError(f"with X and y, give the estimator instead of its {kind}: every fold is fitted")
    if (X is None) != (y is None):
        raise ValueError("give both X and y, or neither")
    if X is None and not isinstance(as_staged(model), AnytimeModel):
        raise ValueError("the report of StagedEstimators needs X and y, to evaluate its stages")
    for name, given in (("sample_weight", rows.weight), ("groups", rows.groups)):
        if X is None and given is not None:
            raise ValueError(f"{name} needs X and y")
    if X is None and metric not in (None, "explained"):
        raise ValueError(f"metric={shown(metric)} needs X and y: without them, only 'explained' is available")
    for name, text in texts.items():
        if not (isinstance(text, str) and text.strip()):
            raise ValueError(f"{name} must be a non-empty string, got {shown(text)}")
    if certificate is not None:
        check_certificate(certificate, as_model(model))


def check_certificate(certificate: object, model: AnytimeModel) -> None:
    """Raise an error unless a certificate is about the sequence of a model."""
    if not isinstance(certificate, Certificate):
        raise TypeError(f"certificate must be a Certificate, such as model.certificate(), not {shown(certificate)}")
    theirs, ours, null_value = certificate.feature_groups, design_groups(model), model.sequence.null_value
    shared = (theirs.shared, theirs.requires) != (ours.shared, ours.requires)
    differences = {
        f"is about sets {certificate.condition} only": bool(certificate.condition),
        "is about what groups explain less a correction": certificate.penalties is not None,
        "has other groups": theirs.names != ours.names or theirs.columns != ours.columns,
        "has other costs": shared or not np.array_equal(theirs.costs, ours.costs),
        "has another order": not np.array_equal(certificate.order, model.sequence.order),
        f"has alpha={certificate.alpha:g}, the model {model.alpha:g}": certificate.alpha != model.alpha,
        f"is about loss {shown(certificate.loss)}": (certificate.loss == "squared_error") != model.squared_error,
        "is about other data": not abs(certificate.null_value - null_value) <= SAME_DATA * null_value,
    }
    if found := [name for name, differs in differences.items() if differs]:
        raise ValueError(f"the certificate is not of this model: it {found[0]}")
