"""From moments to the group lasso and its two staged models: the paper's Sparse baseline.

The order is that of first entry along the path. Its prefixes are either *refitted* by least squares, as every other
sequence is, or *shrunken*: the lasso's own coefficients just before the next group enters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float
from budgetline.baselines.lasso_path import LassoPath, lasso_path
from budgetline.data.rows import Rows
from budgetline.model.linear import fit_moments, fit_rows
from budgetline.model.recipe import Recipe
from budgetline.model.stages import StagedModel, in_user_units
from budgetline.objectives.gram import Gram
from budgetline.sequencing.schedules import FixedOrder
from budgetline.statistics.moments import Moments


@dataclass(frozen=True, eq=False)
class LassoFit:
    """A staged model in the order of first entry, and the path it comes from.

    Attributes
    ----------
    model : StagedModel
    path : LassoPath
        In standardised columns, group after group.
    coef, intercept : arrays of shape (L, P, D) and (L, P)
        The path in the user's units.
    doubt : float
        Estimated relative error of the least-squares coefficients from these moments.
    """

    model: StagedModel
    path: LassoPath
    coef: Float
    intercept: Float
    doubt: float


def fit_lasso(
    moments: Moments, recipe: Recipe, grid: tuple[int, float], tol: float, *, refit: bool, rows: Rows | None = None
) -> LassoFit:
    """Solve the path for ``grid`` = (number of λ, smallest over largest) and fit all prefixes of its order.

    ``rows`` are the data of the moments, if available: they are read only if the moments are too ill conditioned to
    refit the prefixes. The weights of the penalty are the costs, or 1 if the recipe is not cost sensitive; shared costs
    are divided among their groups. Groups that another group requires are moved before it.
    """
    gram = Gram.of(moments, recipe.by_group, recipe.alpha)
    weights = recipe.prices.spread() if recipe.cost_sensitive else np.ones_like(recipe.prices.own)
    path = lasso_path(gram, recipe.sizes, weights, grid, tol)
    ordered = replace(recipe, schedule=FixedOrder(recipe.prices.completed(path.order.tolist())))
    model, doubt = fit_moments(moments, ordered)
    if rows is not None and doubt > moments.eps**0.5:
        model, _ = fit_rows(rows, ordered, moments.feature_names)
    coef, intercept = in_user_units(path.coefs, recipe.by_group, *moments.standardisation())
    if not refit:
        model = _shrunken(model, path, coef, intercept, moments)
    return LassoFit(model, path, coef, intercept, doubt)


def _shrunken(refitted: StagedModel, path: LassoPath, coef: Float, intercept: Float, moments: Moments) -> StagedModel:
    """Give stage j the solution at the smallest λ before another group enters; after the last entry, the path's end.

    Stages between groups that enter at the same λ repeat the last. Free groups are in from the start and not penalised:
    stages before the last of them are the refitted ones.
    """
    # a group that was moved before one that requires it enters later than those that follow
    later = np.append(path.entries[refitted.sequence.order[1:]], path.lambdas.size)
    last = np.minimum.accumulate(later[::-1])[::-1] - 1
    free = last < 0  # a free group is still to come
    coef_path, intercept_path = refitted.coef_path.copy(), refitted.intercept_path.copy()
    coef_path[~free], intercept_path[~free] = coef[last[~free]], intercept[last[~free]]
    errors = moments.mean_squared_error(coef_path, intercept_path).sum(axis=1)
    gains = -np.diff(errors / 2, prepend=refitted.sequence.null_value)
    sequence = replace(refitted.sequence, gains=gains)
    return replace(refitted, sequence=sequence, coef_path=coef_path, intercept_path=intercept_path)
