"""GroupLassoPath."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from budgetline.baselines.lasso_stages import LassoFit, LassoSettings, fit_lasso, fit_wide_lasso
from budgetline.encoding import Encoding
from budgetline.encoding.table import TableEncoding
from budgetline.estimators import AnytimeRegressor
from budgetline.estimators.base import Constraints
from budgetline.fitting.interactions import add_pairs
from budgetline.fitting.linear import gram_fits
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.training import Fitted, Fold, MomentsTraining, RowsTraining, Training
from budgetline.groups import Layout
from budgetline.objectives.families import Family, SquaredError
from budgetline.statistics.moments import moments_of


class GroupLassoPath(AnytimeRegressor):
    """Feature groups in the order in which they enter a cost-weighted group lasso: the paper's Sparse baseline.

    Solves, for a decreasing grid of λ, on standardised X and centred y,

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖² + λ Σ_g cost_g ‖w_g‖,

    from moments alone, whatever the number of rows; of wide data from the products of the columns of nonzero groups and
    a few passes over X for each λ. The groups are ordered by the first λ at which they are nonzero; of those that enter
    at the same λ, the one that was closest to entering at the previous λ comes first (the gradient with the highest
    norm per cost). Groups that never enter come last, by the same measure at the end of the path; of wide data they are
    left out, unless ``max_groups`` asks for them. Free groups are not penalised and come first, by their gains on their
    own. See ``docs/design.md`` for the mathematics.

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
