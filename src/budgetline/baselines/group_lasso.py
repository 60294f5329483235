"""GroupLassoPath: the groups in the order in which they enter a group lasso, and the models of its prefixes.

The prefixes are either *refitted* by least squares, as those of every other sequence, or *shrunken*: the lasso's own
coefficients just before the next group enters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from budgetline.arrays import Float
from budgetline.baselines.lasso_path import LassoPath, WideGram, lasso_path
from budgetline.estimators import AnytimeRegressor
from budgetline.estimators.base import Constraints
from budgetline.fitting import Fold, MomentsTraining, Recipe, RowsTraining, Training
from budgetline.fitting.interactions import add_pairs
from budgetline.fitting.linear import gram_fits
from budgetline.fitting.moments_training import held_out_errors
from budgetline.leastsquares.gram import Gram
from budgetline.model.stages import StagedModel, in_user_units
from budgetline.model.subsets import LinearSubset
from budgetline.moments.columns import standardised_columns
from budgetline.moments.moments import moments_of
from budgetline.sequencing.schedules import FixedOrder


@dataclass(eq=False, repr=False, kw_only=True)
class GroupLassoPath(AnytimeRegressor):
    """Baseline that orders the groups by a group lasso path with cost-weighted penalties ("Sparse" in the paper).

    For each λ on a decreasing grid, the estimator solves

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖² + λ Σ_g cost_g ‖w_g‖,

    where X is standardised and y is centred. The path is computed from moments alone or, if X is wide, from the columns
    of X. The groups are ordered by the first λ at which their coefficients are nonzero. If several groups enter at the
    same λ, the group that was closest to entering at the previous λ comes first: its gradient has the largest norm per
    unit of cost. Groups that never enter come last, ordered by the same measure at the end of the path. If X is wide,
    they are left out unless ``max_groups`` exceeds the number of groups that enter. Free groups are not penalised. They
    come first, ordered by the gain that each achieves on its own.

    In the penalty, a shared cost is divided evenly among the groups that share it, and the cost of a required group is
    divided among this group and the groups that require it. A required group is moved before the groups that require
    it.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        The groups of columns. If None, every column is a group.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups. If None, the costs of ``feature_groups`` are used, or a cost of 1 per group if it has
        none.
    cost_sensitive : bool
        Whether to weight the penalty of each group by its cost. If False, all weights are 1, even for free groups.
    alpha, encoding
        As in `AnytimeRegressor`.
    refit : bool
        Whether to refit the model of each prefix by least squares. If False, the model is the shrunken solution of the
        lasso itself, at the smallest λ before the next group enters or, for the last group, at the end of the path.
    max_groups : int or None
        Maximum number of groups in the sequence. The path ends at the first λ at which more than this number of groups
        have entered. If None, the sequence contains all groups or, if X is wide, all groups that enter.
    n_lambdas : int
        Number of values of λ, evenly spaced on a log scale. The grid starts at the smallest λ at which no group enters.
    lambda_ratio : float
        Ratio of the smallest λ to the largest.
    tol : float
        Tolerance for convergence. A solution is accepted if the violations of the optimality conditions, relative to
        λ·cost, and the duality gap, relative to the variance of y, do not exceed ``tol``.

    Attributes
    ----------
    sequence_
        As in `AnytimeRegressor`. The gains of shrunken models are computed without the penalty.
    model_
        As in `AnytimeRegressor`. If the groups passed to ``predict(available=...)`` are not a prefix of the sequence,
        the prediction is based on least squares, even with ``refit=False``.
    order_, coef_path_, intercept_path_, coef_, intercept_, feature_groups_
        As in `AnytimeRegressor`.
    lambdas_ : array of shape (L,)
        The values of λ, in the units of y per unit of cost. There are at most ``n_lambdas`` of them.
    path_coef_ : array of shape (L, D) or (L, P, D)
        The lasso's coefficients at every λ, in the units of X and y.
    path_intercept_ : array of shape (L,) or (L, P)
        The lasso's intercepts at every λ.
    dual_gaps_ : array of shape (L,)
        The duality gap of the objective above, at every λ.
    entry_lambdas_ : array of shape (groups,)
        The first λ at which the coefficients of each group are nonzero, in the order of ``feature_groups_``. It is
        infinite for free groups and NaN for groups that never enter.

    Examples
    --------
    >>> from budgetline import GroupLassoPath
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> model = GroupLassoPath(nhanes.feature_groups).fit(nhanes.data, nhanes.target)
    >>> model.sequence_.groups[:3]
    ('DIQ', 'HSQ', 'DUQ')
    >>> model.predict(nhanes.data[:2], budget=30).round(2).tolist()
    [5.66, 6.34]
    """

    alpha: float = 1e-5
    refit: bool = True
    n_lambdas: int = 100
    lambda_ratio: float = 1e-3
    tol: float = 1e-9

    # The path orders the groups, so there are no parameters that choose them.
    rule: str = field(init=False, default="forward")
    schedule: str = field(init=False, default="greedy")
    max_cost: None = field(init=False, default=None)
    min_gain: float = field(init=False, default=0.0)
    start: tuple[str, ...] = field(init=False, default=())
    correction: float = field(init=False, default=0.0)
    loss: str = field(init=False, default="squared_error")

    _parameter_constraints: ClassVar[Constraints] = {
        "feature_groups": AnytimeRegressor._parameter_constraints["feature_groups"],
        "costs": AnytimeRegressor._parameter_constraints["costs"],
        "cost_sensitive": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "encoding": AnytimeRegressor._parameter_constraints["encoding"],
        "refit": ["boolean"],
        "max_groups": AnytimeRegressor._parameter_constraints["max_groups"],
        "n_lambdas": [Interval(Integral, 1, None, closed="left")],
        "lambda_ratio": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def _learn(self, training: Training, recipe: Recipe) -> Self:
        """Solve the path, and learn the models of the prefixes of its order."""
        training, recipe = add_pairs(training, recipe)
        training, exponent = training.gathered(), 0
        if isinstance(training, RowsTraining):
            rows, exponent = training.rows.rescaled()
            training = replace(training, rows=rows)
            training = _reduced(training) if gram_fits(rows, recipe) else training
        assert isinstance(training, RowsTraining | MomentsTraining)
        path, coef, intercept = self._path(training, recipe)
        order = recipe.prices.completed(path.order[: self._most(path, training)].tolist())
        super()._learn(training, replace(recipe, schedule=FixedOrder(order[: self.max_groups])))
        stages, moments = self.model_.stages, self.model_.moments
        if not self.refit:
            stages = _shrunken(stages, path, coef, intercept)
            gains = -np.diff(_squared_errors(stages, training)) / 2
            stages = replace(stages, sequence=replace(stages.sequence, gains=gains))
        learned = {
            **self.model_.learned,
            "lambdas_": path.lambdas,
            "path_coef_": coef if training.task.target_shape else coef[:, 0],
            "path_intercept_": intercept if training.task.target_shape else intercept[:, 0],
            "dual_gaps_": path.gaps,
            "entry_lambdas_": path.entry_lambdas,
        }
        moments = None if moments is None else moments.scaled(exponent)
        self._adopt(replace(self.model_, stages=stages, moments=moments, learned=learned))
        return self

    def _path(self, training: RowsTraining | MomentsTraining, recipe: Recipe) -> tuple[LassoPath, Float, Float]:
        """Return the path, and its coefficients (L, P, D) and intercepts (L, P) in the units of X and y."""
        gram: Gram | WideGram
        if isinstance(training, MomentsTraining):
            standardisation = training.total.standardisation(recipe.weights)
            gram = Gram.of(training.total, recipe.by_group, recipe.alpha, recipe.weights)
        else:
            A, targets, y_mean = standardised_columns(training.rows, training.layout.names_read, recipe.weights)
            standardisation = A.mean, A.scale, y_mean
            gram = WideGram.of(A, targets, recipe.by_group, recipe.alpha)
        weights = recipe.prices.spread() if recipe.cost_sensitive else np.ones(recipe.sizes.size)
        grid = self.n_lambdas, self.lambda_ratio
        path = lasso_path(gram, recipe.sizes, weights, grid, self._tol(), self.max_groups)
        read, n_features = training.layout.read, training.layout.n_features
        coef = np.zeros((*path.coefs.shape[:-1], n_features))
        coef[..., read], intercept = in_user_units(path.coefs, recipe.by_group, *standardisation)
        return path, coef, intercept

    def _most(self, path: LassoPath, training: Training) -> int | None:
        """Return the number of groups in the order; of a wide table, without a limit, the groups that enter."""
        entered = max(1, int(np.count_nonzero(path.entries < path.lambdas.size)))
        return self.max_groups or (entered if isinstance(training, RowsTraining) else None)

    def _tol(self) -> float:
        return float(self.tol)


def _reduced(training: RowsTraining) -> MomentsTraining:
    """Return the moments of rows; models that they do not determine are fitted on the rows."""
    moments = moments_of(training.rows, training.task.target_shape, training.layout.names_read)
    return MomentsTraining(training.layout, (moments,), by_rows=lambda: Fold(training, held_out_errors(moments)))


def _squared_errors(stages: StagedModel, training: RowsTraining | MomentsTraining) -> Float:
    """Return the mean squared errors (1 + stages,) on the training data, summed over the targets."""
    read = training.layout.read
    if isinstance(training, MomentsTraining):
        errors = replace(stages, coef_path=stages.coef_path[..., read]).mean_squared_errors(training.total)
    else:
        rows, used = training.rows, np.searchsorted(read, stages.at_stage(stages.n_stages).columns)
        errors = stages.mean_over_rows(rows.table[:, used], rows.weight, lambda s, part: (s - rows.Y[part, None]) ** 2)
    return np.asarray(errors.sum(axis=1))


def _shrunken(refitted: StagedModel, path: LassoPath, coef: Float, intercept: Float) -> StagedModel:
    """Give stage j the solution at the smallest λ before another group enters; after the last entry, the path's end.

    Stages between groups that enter at the same λ repeat the last. Free groups are in from the start and not penalised:
    stages before the last of them are the refitted ones.
    """
    order = refitted.sequence.order
    never = np.min(np.delete(path.entries, order), initial=path.lambdas.size)
    # a group that was moved before one that requires it enters later than those that follow
    last = np.minimum.accumulate(np.append(path.entries[order[1:]], never)[::-1])[::-1] - 1
    penalised = last >= 0  # no free group is still to come
    coef_path, intercept_path = refitted.coef_path.copy(), refitted.intercept_path.copy()
    coef_path[penalised], intercept_path[penalised] = coef[last[penalised]], intercept[last[penalised]]
    # the errors of least squares are not those of the path
    assert isinstance(refitted.subset, LinearSubset)
    subset = replace(refitted.subset, n_rows=0.0)
    return replace(refitted, coef_path=coef_path, intercept_path=intercept_path, subset=subset)
