"""GroupLassoPath."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from budgetline.baselines.lasso_stages import LassoFit, fit_lasso
from budgetline.data.dask import dask_source, is_dask
from budgetline.estimators.regression import Regression
from budgetline.estimators.streaming import FromMoments
from budgetline.groups import Layout
from budgetline.model.linear import warn_from_moments
from budgetline.model.recipe import Recipe
from budgetline.statistics.moments import Moments, moments_of

Float = NDArray[np.float64]


class GroupLassoPath(FromMoments):
    """Feature groups in the order in which a cost-weighted group lasso lets them in: the paper's Sparse baseline.

    Solves, for a decreasing grid of λ, on standardised X and centred y,

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖² + λ Σ_g cost_g ‖w_g‖,

    from moments alone, whatever the number of rows. The groups are ordered by the first λ at which they are not zero;
    of those that enter at the same λ, the one comes first that was nearest to entering at the λ before (the gradient
    of highest norm per cost). Groups that never enter come last, by the same measure at the end of the path. Free
    groups are not penalised and come first, by what they gain on their own. See ``docs/design.md`` for the
    mathematics.

    A cost that groups share is divided evenly among them in the penalty, and what a group requires counts as shared by
    those that require it and itself. The path may let a group in before one that it requires: the required group is
    then moved before it.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        None: every column is a group.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups; None: those of ``feature_groups``, else 1 each.
    cost_sensitive : bool
        Whether the costs weigh the penalty; if not, all groups weigh 1, free ones too.
    alpha : float
        Ridge constant, as in :class:`AnytimeRegressor`.
    refit : bool
        Whether the model of a prefix is refitted by least squares. If not, it is the lasso's own, shrunken: the
        solution at the smallest λ before the next group enters, and at the end of the path after the last. Stages
        between groups that enter at the same λ then repeat the one before.
    n_lambdas : int
        Number of values of λ, in equal ratios from the largest that matters.
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
        ``groups``, ``costs``, ``cumulative_costs``, ``gains``, ``explained``, ``to_frame()``; of the shrunken models
        the gains are without the penalty.
    order_ : int array
        Positions of the groups, in order.
    coef_path_ : array of shape (stages, D) or (stages, P, D)
        Coefficients after each stage, in the units of X and y.
    intercept_path_ : array of shape (stages,) or (stages, P)
    coef_, intercept_
        Those of the last stage.
    staged_model_ : StagedModel
        Answers ``predict(available=...)``; groups that are no prefix of the sequence are answered by least squares,
        also with ``refit=False``.
    lambdas_ : array of shape (n_lambdas,)
        In the units of y per unit of cost.
    path_coef_ : array of shape (n_lambdas, D) or (n_lambdas, P, D)
        The lasso's coefficients at every λ, in the units of X and y.
    path_intercept_ : array of shape (n_lambdas,) or (n_lambdas, P)
    dual_gaps_ : array of shape (n_lambdas,)
        Duality gaps of the objective above.
    entry_lambdas_ : array of shape (groups,)
        The first λ at which each group, as given, is not zero; infinite for free groups, NaN for those that never
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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "feature_groups": Regression._parameter_constraints["feature_groups"],
        "costs": Regression._parameter_constraints["costs"],
        "cost_sensitive": ["boolean"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "refit": ["boolean"],
        "n_lambdas": [Interval(Integral, 1, None, closed="left")],
        "lambda_ratio": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    # The path orders all groups: what would choose among them, or end the sequence, is not a parameter.
    rule = "fr"
    schedule = "greedy"
    max_cost = None
    max_groups = None
    min_gain = 0.0

    def __init__(
        self,
        feature_groups: Any = None,
        costs: Any = None,
        *,
        cost_sensitive: bool = True,
        alpha: float = 1e-5,
        refit: bool = True,
        n_lambdas: int = 100,
        lambda_ratio: float = 1e-3,
        tol: float = 1e-9,
    ) -> None:
        self.feature_groups = feature_groups
        self.costs = costs
        self.cost_sensitive = cost_sensitive
        self.alpha = alpha
        self.refit = refit
        self.n_lambdas = n_lambdas
        self.lambda_ratio = lambda_ratio
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the path and fit the model of every prefix of its order.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            pandas, polars and pyarrow frames are welcome. Not copied; D × D moments are.
        y : array of shape (n,) or (n, P)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        if is_dask(X):
            return self.fit_source(dask_source(X, y, sample_weight))
        data = self._check(X, y, sample_weight, self.alpha)
        rows, exponent = data.rows.rescaled()
        moments = moments_of(rows, (rows.Y.shape[1],), data.used_names)
        grid = (self.n_lambdas, self.lambda_ratio)
        fitted = fit_lasso(moments, data.recipe, grid, self.tol, refit=self.refit, rows=rows)
        self._warn_if_rounded(fitted.model, data.rows, data.layout, data.names)
        self._keep_path(fitted, data.layout, data.names, data.target_shape)
        self._remember(moments.scaled(exponent), data.target_shape)
        return self

    def _learn(self, moments: Moments, recipe: Recipe, layout: Layout, names: tuple[str, ...] | None) -> None:
        fitted = fit_lasso(moments, recipe, (self.n_lambdas, self.lambda_ratio), self.tol, refit=self.refit)
        warn_from_moments(fitted.doubt, moments.eps, self.alpha)
        self._warn_if_rounded(fitted.model, moments, layout, names)
        self._keep_path(fitted, layout, names, moments.target_shape)
        self._remember(moments, moments.target_shape)

    def _keep_path(
        self, fitted: LassoFit, layout: Layout, names: tuple[str, ...] | None, target_shape: tuple[int, ...]
    ) -> None:
        """Copy the staged model and the path into the attributes that users read."""
        self._keep(fitted.model, layout, names, target_shape)
        path = fitted.path
        coef = np.zeros((*fitted.coef.shape[:-1], layout.n_features))
        coef[..., np.sort(layout.used)] = fitted.coef
        single = not target_shape
        self.lambdas_ = path.lambdas
        self.path_coef_ = coef[:, 0] if single else coef
        self.path_intercept_ = fitted.intercept[:, 0] if single else fitted.intercept
        self.dual_gaps_ = path.gaps
        self.entry_lambdas_ = path.entry_lambdas
