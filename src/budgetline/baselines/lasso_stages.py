"""From data to the group lasso and its two staged models: the paper's Sparse baseline.

The order is that of first entry along the path. Its prefixes are either *refitted* by least squares, as every other
sequence is, or *shrunken*: the lasso's own coefficients just before the next group enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from budgetline.arrays import Float
from budgetline.baselines.lasso_path import LassoPath, lasso_path
from budgetline.baselines.wide_gram import WideGram
from budgetline.data.rows import Rows
from budgetline.fitting.linear import fit_moments, fit_rows
from budgetline.fitting.recipe import Recipe
from budgetline.groups.prices import Prices
from budgetline.model.stages import StagedModel, in_user_units
from budgetline.objectives.gram import Gram
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import FixedOrder
from budgetline.statistics.columns import StandardisedColumns, standardised_columns
from budgetline.statistics.moments import Moments


@dataclass(frozen=True)
class LassoSettings:
    """What a path is solved with: number of λ, smallest over largest λ, tolerance, whether to refit the prefixes."""

    n_lambdas: int
    lambda_ratio: float
    tol: float
    refit: bool

    def path(self, gram: Gram | WideGram, recipe: Recipe) -> LassoPath:
        """Solve the path. Weights are the costs, or 1 if the recipe is not cost sensitive; shared costs are divided."""
        weights = recipe.prices.spread() if recipe.cost_sensitive else np.ones_like(recipe.prices.own)
        grid = self.n_lambdas, self.lambda_ratio
        return lasso_path(gram, recipe.sizes, weights, grid, self.tol, recipe.limits.max_groups)


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
        Estimated relative error of the least-squares coefficients; 0 if they come from the data.
    """

    model: StagedModel
    path: LassoPath
    coef: Float
    intercept: Float
    doubt: float = 0.0


def fit_lasso(moments: Moments, recipe: Recipe, settings: LassoSettings, rows: Rows | None = None) -> LassoFit:
    """Solve the path from moments and fit all prefixes of its order.

    ``rows`` are the data of the moments, if available: they are read only if the moments are too ill conditioned to
    refit the prefixes. Groups that another group requires are moved before it.
    """
    path = settings.path(Gram.of(moments, recipe.by_group, recipe.alpha, recipe.weights), recipe)
    ordered = replace(recipe, schedule=FixedOrder(recipe.prices.completed(path.order.tolist())))
    model, doubt = fit_moments(moments, ordered)
    if rows is not None and doubt > moments.eps**0.5:
        model, *_ = fit_rows(rows, ordered, moments.feature_names)
    coef, intercept = in_user_units(path.coefs, recipe.by_group, *moments.standardisation(recipe.weights))
    if not settings.refit:
        model = _shrunken(model, path, coef, intercept)
        model = _with_gains(model, model.mean_squared_errors(moments))
    return LassoFit(model, path, coef, intercept, doubt)


def fit_wide_lasso(rows: Rows, recipe: Recipe, settings: LassoSettings, names: Sequence[str] | None = None) -> LassoFit:
    """Solve the path from the columns of a wide table and fit the prefixes of its order, without a D × D matrix.

    The sequence ends with the groups that enter, unless the recipe has a limit.
    """
    A, targets, y_mean = standardised_columns(rows, names, recipe.weights)
    path = settings.path(WideGram.of(A, targets, recipe.by_group, recipe.alpha), recipe)
    most = recipe.limits.max_groups
    entered = max(1, np.count_nonzero(path.entries < path.lambdas.size))
    order = recipe.prices.completed(path.order[: most or entered].tolist())[:most]
    model = _refitted(rows, recipe, order, A, names)
    coef, intercept = in_user_units(path.coefs, recipe.by_group, A.mean, A.scale, y_mean)
    if not settings.refit:
        model = _shrunken(model, path, coef, intercept)
        table = rows.table[:, model.at_stage(model.n_stages).columns]
        errors = model.mean_over_rows(table, rows.weight, lambda scores, part: (scores - rows.Y[part, None]) ** 2)
        model = _with_gains(model, errors)
    return LassoFit(model, path, coef, intercept)


def _refitted(
    rows: Rows, recipe: Recipe, order: list[int], A: StandardisedColumns, names: Sequence[str] | None
) -> StagedModel:
    """Fit the prefixes of an order as if the table had no other columns than theirs."""
    columns = [recipe.columns[g] for g in order]
    chosen, ends = np.concatenate(columns), np.cumsum([c.size for c in columns])
    part = replace(rows, columns=chosen if rows.columns is None else rows.columns[chosen])
    small = replace(
        recipe,
        columns=tuple(np.split(np.arange(chosen.size), ends[:-1])),
        names=tuple(recipe.names[g] for g in order),
        prices=Prices.of(np.ones(len(order))),
        schedule=FixedOrder(range(len(order))),
        limits=Limits(),
        weights=None if recipe.weights is None else recipe.weights[chosen],
    )
    model, *_ = fit_rows(part, small, None if names is None else [names[d] for d in chosen])
    sequence = replace(model.sequence, order=np.array(order), costs=recipe.prices.steps(order))
    mean, scale = A.mean.copy(), A.scale.copy()
    mean[chosen], scale[chosen] = model.mean, model.scale
    wide = model.embedded(chosen, mean.size)
    return replace(wide, sequence=sequence, names=recipe.names, mean=mean, scale=scale)


def _shrunken(refitted: StagedModel, path: LassoPath, coef: Float, intercept: Float) -> StagedModel:
    """Give stage j the solution at the smallest λ before another group enters; after the last entry, the path's end.

    Stages between groups that enter at the same λ repeat the last. Free groups are in from the start and not penalised:
    stages before the last of them are the refitted ones.
    """
    order = refitted.sequence.order
    never = np.min(np.delete(path.entries, order), initial=path.lambdas.size)
    # a group that was moved before one that requires it enters later than those that follow
    last = np.minimum.accumulate(np.append(path.entries[order[1:]], never)[::-1])[::-1] - 1
    free = last < 0  # a free group is still to come
    coef_path, intercept_path = refitted.coef_path.copy(), refitted.intercept_path.copy()
    coef_path[~free], intercept_path[~free] = coef[last[~free]], intercept[last[~free]]
    return replace(refitted, coef_path=coef_path, intercept_path=intercept_path)


def _with_gains(model: StagedModel, errors: Float) -> StagedModel:
    """Give the sequence the gains that mean squared errors (1 + stages, P) show."""
    return replace(model, sequence=replace(model.sequence, gains=-np.diff(errors.sum(axis=1)) / 2))
