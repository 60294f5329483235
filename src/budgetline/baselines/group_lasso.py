"""GroupLassoPath: the groups in the order in which they enter a group lasso, and the models of its prefixes.

The prefixes are either *refitted* by least squares, as those of every other sequence, or *shrunken*: the lasso's own
coefficients just before the next group enters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from budgetline.arrays import Float
from budgetline.baselines.lasso_path import LassoPath, WideGram, lasso_path
from budgetline.data.rows import Rows
from budgetline.encoding import Encoding
from budgetline.encoding.table import TableEncoding
from budgetline.estimators import AnytimeRegressor
from budgetline.estimators.base import Constraints
from budgetline.fitting.interactions import add_pairs
from budgetline.fitting.linear import fit_moments, fit_rows, gram_fits
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.training import Fitted, Fold, MomentsTraining, RowsTraining, Training
from budgetline.glm.families import Family, SquaredError
from budgetline.groups import Layout
from budgetline.groups.prices import Prices
from budgetline.leastsquares.gram import Gram
from budgetline.model.stages import StagedModel, in_user_units
from budgetline.moments.columns import StandardisedColumns, standardised_columns
from budgetline.moments.moments import Moments, moments_of
from budgetline.sequencing.loop import Limits
from budgetline.sequencing.schedules import FixedOrder


class GroupLassoPath(AnytimeRegressor):
    """Feature groups in the order in which they enter a cost-weighted group lasso: the paper's Sparse baseline.

    Solves, for a decreasing grid of λ, on standardised X and centred y,

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖² + λ Σ_g cost_g ‖w_g‖,

    from moments alone, whatever the number of rows; of wide data from the products of the columns of nonzero groups and
    a few passes over X for each λ. The groups are ordered by the first λ at which they are nonzero; of those that enter
    at the same λ, the one that was closest to entering at the previous λ comes first (the gradient with the highest
    norm per cost). Groups that never enter come last, by the same measure at the end of the path; of wide data they are
    left out, unless ``max_groups`` asks for them. Free groups are not penalised and come first, by their gains on their
    own. See ``docs/developers/mathematics.md`` for the mathematics.

    In the penalty, a shared cost is divided evenly among its groups, and the cost of a required group is shared by that
    group and those that require it. If a group enters the path before one that it requires, the required group is moved
    before it.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        None: every column is a group.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups; None: those of ``feature_groups``, else 1 each.
    cost_sensitive : bool
        Whether costs are the weights of the penalty; if not, all weights are 1, also of free groups.
    alpha, encoding
        Ridge constant, and what raw columns become, as in :class:`AnytimeRegressor`.
    refit : bool
        Whether the model of a prefix is refitted by least squares. If not, it is the lasso's own, shrunken: the
        solution at the smallest λ before the next group enters, and at the end of the path after the last. Stages
        between groups that enter at the same λ then repeat the one before.
    max_groups : int or None
        The sequence ends after this many groups, and the path at the first λ at which more have entered. None: all
        groups; of wide data those that enter.
    n_lambdas : int
        Number of values of λ, evenly spaced on a log scale from the largest that matters.
    lambda_ratio : float
        The smallest λ as a fraction of the largest.
    tol : float
        Largest error of the optimality conditions, relative to λ·cost, and of the duality gap, relative to the
        variance of y, at which a solution counts as found.

    Attributes
    ----------
    feature_groups_ : FeatureGroups
        The groups as they were used, with their costs.
    sequence_ : GroupSequence
        ``groups``, ``costs``, ``cumulative_costs``, ``gains``, ``explained``, ``to_frame()``; for the shrunken
        models the gains are without the penalty.
    order_ : int array
        Positions of the groups, in order.
    coef_path_ : array of shape (stages, D) or (stages, P, D)
        Coefficients after each stage, in the units of X and y.
    intercept_path_ : array of shape (stages,) or (stages, P)
    coef_, intercept_
        Those of the last stage.
    model_ : AnytimeModel
        As in :class:`AnytimeRegressor`. If the groups of ``predict(available=...)`` are not a prefix of the sequence,
        least squares answers, also with ``refit=False``.
    lambdas_ : array of shape (L,)
        At most ``n_lambdas``, in the units of y per unit of cost.
    path_coef_ : array of shape (L, D) or (L, P, D)
        The lasso's coefficients at every λ, in the units of X and y.
    path_intercept_ : array of shape (L,) or (L, P)
    dual_gaps_ : array of shape (L,)
        Duality gaps of the objective above.
    entry_lambdas_ : array of shape (groups,)
        The first λ at which each group, as given, is nonzero; infinite for free groups, NaN for those that never
        enter.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

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

    # The path orders the groups, so there are no parameters that choose them.
    rule = "fr"
    schedule = "greedy"
    max_cost = None
    min_gain = 0.0
    start = ()
    correction = 0.0
    loss = "squared_error"

    def __init__(
        self,
        feature_groups: object = None,
        costs: object = None,
        *,
        cost_sensitive: bool = True,
        alpha: float = 1e-5,
        encoding: str | Encoding | None = None,
        refit: bool = True,
        max_groups: int | None = None,
        n_lambdas: int = 100,
        lambda_ratio: float = 1e-3,
        tol: float = 1e-9,
    ) -> None:
        self.feature_groups = feature_groups
        self.costs = costs
        self.cost_sensitive = cost_sensitive
        self.alpha = alpha
        self.encoding = encoding
        self.refit = refit
        self.max_groups = max_groups
        self.n_lambdas = n_lambdas
        self.lambda_ratio = lambda_ratio
        self.tol = tol

    def _learn(self, training: Training, recipe: Recipe) -> Self:
        settings = LassoSettings(self.n_lambdas, self.lambda_ratio, self._tol(), self.refit)
        training, recipe = add_pairs(training, recipe)
        found = training.gathered()
        assert isinstance(found, RowsTraining | MomentsTraining)
        return super()._learn(LassoTraining(found, settings), recipe)

    def _tol(self) -> float:
        return float(self.tol)  # type: ignore[arg-type]


@dataclass(frozen=True)
class LassoTraining:
    """Rows or moments that a path is solved from."""

    given: RowsTraining | MomentsTraining
    settings: LassoSettings
    family: Family = field(default_factory=SquaredError)
    classes: None = None
    small = False
    in_memory = False

    @property
    def layout(self) -> Layout:
        """The columns that are read."""
        return self.given.layout

    @property
    def target_shape(self) -> tuple[int, ...]:
        """Shape of one target."""
        return self.given.target_shape

    def encoded(self, encoding: TableEncoding) -> LassoTraining:
        """Return the data of another encoding."""
        return replace(self, given=self.given.encoded(encoding))

    def gathered(self) -> LassoTraining:
        """Return the data: they are gathered already."""
        return self

    def fit(self, recipe: Recipe) -> Fitted:
        """Solve the path and fit the models of the prefixes of its order."""
        if isinstance(self.given, MomentsTraining):
            total = self.given.total
            found = fit_lasso(total, recipe, self.settings)
            return Fitted(
                found.model, total, recipe.alpha, total, found.doubt, {**self._learned(found), **self.given.learned}
            )
        rows, exponent = self.given.rows.rescaled()
        names = self.layout.names_read
        if not gram_fits(rows, recipe):
            found = fit_wide_lasso(rows, recipe, self.settings, names)
            self._check_claims(found, recipe.alpha, clear=False)
            return Fitted(found.model, rows, recipe.alpha, learned=self._learned(found))
        moments = moments_of(rows, self.target_shape, names)
        found = fit_lasso(moments, recipe, self.settings, rows)
        self._check_claims(found, recipe.alpha, clear=found.doubt <= moments.eps**0.5)
        return Fitted(found.model, rows, recipe.alpha, moments.scaled(exponent), learned=self._learned(found))

    def _check_claims(self, found: LassoFit, alpha: float, *, clear: bool) -> None:
        if self.settings.refit:  # the gains of shrunken models are measured
            assert isinstance(self.given, RowsTraining)
            self.given.check_claims(found.model, alpha, clear)

    def _learned(self, found: LassoFit) -> dict[str, object]:
        path, single = found.path, not self.target_shape
        coef = np.zeros((*found.coef.shape[:-1], self.layout.n_features))
        coef[..., self.layout.read] = found.coef
        return {
            "lambdas_": path.lambdas,
            "path_coef_": coef[:, 0] if single else coef,
            "path_intercept_": found.intercept[:, 0] if single else found.intercept,
            "dual_gaps_": path.gaps,
            "entry_lambdas_": path.entry_lambdas,
        }

    def fixed(self, cv: object) -> object:
        """Return cv."""
        return cv

    def folds(self, recipe: Recipe, cv: object) -> Iterator[Fold]:
        """Return no folds: the path has no constant to choose."""
        raise NotImplementedError


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
