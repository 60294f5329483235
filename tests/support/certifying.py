"""Certificates and problems of moments, by way of the model that is fitted to them."""

import budgetline
from budgetline import AnytimeRegressor, FixedOrder, Moments
from budgetline.optimality.set_values import problem_of
from budgetline.sequencing import GroupSequence


def model_of(moments, feature_groups=None, costs=None, alpha=1e-5, sequence=None):
    """The model of squared error, in the order given or in that of greedy ``forward``."""
    names = sequence.groups if isinstance(sequence, GroupSequence) else sequence
    schedule = "greedy" if names is None else FixedOrder(names)
    return AnytimeRegressor(feature_groups, costs, alpha=alpha, schedule=schedule).fit_moments(moments).model_


def certify(subject, feature_groups=None, costs=None, *, alpha=1e-5, sequence=None, **settings):
    if isinstance(subject, Moments):
        subject = model_of(subject, feature_groups, costs, alpha, sequence)
    return budgetline.certify(subject, **settings)


def problem_of_moments(moments, feature_groups=None, costs=None, alpha=1e-5):
    return problem_of(model_of(moments, feature_groups, costs, alpha))
