"""The best set for a budget from moments, as tests ask for it: a plan of a model of these moments, valued in F."""

from dataclasses import replace

from budgetline import AnytimeRegressor


def best_set(moments, feature_groups=None, costs=None, *, budget, alpha=1e-5, **settings):
    """Return the plan for a budget, or a tuple of plans for a list of budgets; value and bound are F, not shares."""
    model = AnytimeRegressor(feature_groups, costs, alpha=alpha).fit_moments(moments)
    unit = model.sequence_.null_value or 1.0
    several = budget if hasattr(budget, "__len__") and not isinstance(budget, str) else None
    found = model.plans([budget] if several is None else several, **settings)
    valued = tuple(replace(plan, value=plan.value * unit, bound=plan.bound * unit) for plan in found)
    return valued[0] if several is None else valued
