"""AnytimeRegressor."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import column_or_1d

from budgetline.data.dask import dask_source, is_dask
from budgetline.estimators.regression import Regression
from budgetline.estimators.streaming import FromMoments, Stream, check_many_passes
from budgetline.groups import Layout
from budgetline.messages import shown
from budgetline.model.generalised import fit_generalised
from budgetline.model.linear import fit_moments, fit_rows, warn_from_moments
from budgetline.model.recipe import Recipe
from budgetline.objectives.families import LOSSES, ConvexLoss, Family, SquaredError
from budgetline.statistics.moments import Moments
from budgetline.statistics.rows_engine import RowsEngine
from budgetline.statistics.source_engine import SourceEngine


class AnytimeRegressor(FromMoments):
    """Linear regression whose feature groups are computed one after another, best value for money first.

    Learns an order of the groups and one ridge model per prefix of it,

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖²    on standardised X and centred y,

    so that a prediction is at hand at every budget. See ``docs/design.md`` for the mathematics.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        None: every column is a group.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups; None: those of ``feature_groups``, else 1 each.
    rule : {"fr", "score", "omp", "no-whiten", "single", "static"}
        How a group's merit is measured: by its exact gain (forward regression), by the gain of one Newton step (the
        same for squared error), or by its gradient, whitened within the group (orthogonal matching pursuit), plain, of
        its best column, or by its gain on its own, whatever was chosen before. The last three are for comparison.
    cost_sensitive : bool
        Whether merit is divided by cost.
    schedule : {"greedy", "doubling", "cheapest", "random"} or a schedule such as ``Doubling(c_min=2)``
        "doubling" never lets the next group cost more than all before it, which gives a guarantee at every budget.
        ``FixedOrder([...])`` is an order of your own; "cheapest" first and "random" are for comparison.
    alpha : float
        Ridge constant, with the meaning it has in ``sklearn.linear_model.ElasticNet(l1_ratio=0)`` on standardised data:
        ``Ridge`` would call it ``alpha · n``.
    max_cost : float or None
        Leave out groups that would bring the total cost above this.
    max_groups : int or None
        Stop after so many groups.
    min_gain : float
        Stop when no group would explain at least this fraction of the variance more.
    loss : {"squared_error", "poisson"} or ConvexLoss
        "poisson" is for counts, with a log link; a :class:`ConvexLoss` brings its own φ. They are fitted by Newton's
        method, and what is explained is deviance.
    tol : float or None
        Largest entry of the gradient, in units of the deviation of y, at which a stage of such a loss counts as fitted;
        None is 1e-10. Squared error is solved exactly and takes none.

    Attributes
    ----------
    feature_groups_ : FeatureGroups
        The groups as they were used, with their costs.
    sequence_ : GroupSequence
        ``groups``, ``costs``, ``cumulative_costs``, ``gains``, ``explained``, ``to_frame()``.
    order_ : int array
        Positions of the chosen groups, in order.
    coef_path_ : array of shape (stages, D) or (stages, P, D)
        Coefficients after each stage, in the units of X and y.
    intercept_path_ : array of shape (stages,) or (stages, P)
    coef_, intercept_
        Those of the last stage.
    staged_model_ : StagedModel
    moments_ : Moments
        What was learned from, of the columns that are in groups; what ``partial_fit`` adds to. Only for squared error,
        and not where X is too wide for them.
    n_passes_ : int
        How often the data of a source were read.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> model = AnytimeRegressor(nhanes.feature_groups).fit(nhanes.data, nhanes.target)
    >>> model.sequence_.groups[:3]
    ('DIQ', 'TCHOL', 'HDL')
    >>> model.predict(nhanes.data[:2], budget=30).round(2).tolist()
    [5.4, 6.29]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Regression._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "loss": [StrOptions(set(LOSSES)), ConvexLoss],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        feature_groups: Any = None,
        costs: Any = None,
        *,
        rule: str = "fr",
        cost_sensitive: bool = True,
        schedule: Any = "greedy",
        alpha: float = 1e-5,
        max_cost: float | None = None,
        max_groups: int | None = None,
        min_gain: float = 0.0,
        loss: Any = "squared_error",
        tol: float | None = None,
    ) -> None:
        self.feature_groups = feature_groups
        self.costs = costs
        self.rule = rule
        self.cost_sensitive = cost_sensitive
        self.schedule = schedule
        self.alpha = alpha
        self.max_cost = max_cost
        self.max_groups = max_groups
        self.min_gain = min_gain
        self.loss = loss
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the sequence and the model of every prefix.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            pandas, polars and pyarrow frames are welcome. Not copied. Dask arrays and frames are read where they are.
        y : array of shape (n,) or (n, P)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        if is_dask(X):
            return self.fit_source(dask_source(X, y, sample_weight))
        data = self._check(X, y, sample_weight, self.alpha)
        family, moments = self._new_family(), None
        if isinstance(family, SquaredError):
            self._refuse_tol()
            model, moments = fit_rows(data.rows, data.recipe, data.used_names)
        else:
            tol = 1e-10 if self.tol is None else self.tol
            engine = RowsEngine.of(data.rows, data.recipe.by_group, family, data.used_names)
            model = fit_generalised(engine, data.recipe, family, tol)
        self._warn_if_rounded(model, data.rows, data.layout, data.names)
        self._keep(model, data.layout, data.names, data.target_shape)
        self._family = family
        self._remember(moments, data.target_shape)
        return self

    def _learn_source(self, stream: Stream, recipe: Recipe, layout: Layout, checkpoint: Any) -> None:
        if self.loss == "squared_error":
            super()._learn_source(stream, recipe, layout, checkpoint)
            return
        if checkpoint is not None:
            raise ValueError(f"loss={shown(self.loss)} takes many passes: a checkpoint is for squared error")
        check_many_passes(stream.source, recipe)
        family = self._new_family()
        moments = stream.moments(stream.source.target_shape)
        engine = SourceEngine(stream.passes, stream.columns, moments, recipe.by_group, family)
        model = fit_generalised(engine, recipe, family, 1e-10 if self.tol is None else self.tol)
        self._warn_if_rounded(model, moments, layout, stream.source.feature_names)
        self._keep(model, layout, stream.source.feature_names, ())  # of one target, also if it came as a matrix
        self._family = family
        self._remember(None, (), stream.passes.count)

    def _need_squared_error(self) -> None:
        if self.loss != "squared_error":
            raise ValueError(f"moments determine a model of squared error only, not of loss={shown(self.loss)}")
        self._refuse_tol()

    def _learn(self, moments: Moments, recipe: Recipe, layout: Layout, names: tuple[str, ...] | None) -> None:
        model, doubt = fit_moments(moments, recipe)
        warn_from_moments(doubt, moments.eps, self.alpha)
        self._warn_if_rounded(model, moments, layout, names)
        self._keep(model, layout, names, moments.target_shape)
        self._family = SquaredError()
        self._remember(moments, moments.target_shape)

    def _new_family(self) -> Family:
        return LOSSES[self.loss]() if isinstance(self.loss, str) else self.loss

    def _refuse_tol(self) -> None:
        if self.tol is not None:
            raise ValueError(f"loss='squared_error' is solved exactly: tol={shown(self.tol)} would be ignored")

    def _target(self, y: Any, n_samples: int) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        Y, shape = super()._target(y, n_samples)
        if self.loss != "squared_error" and shape == (1,):
            column_or_1d(Y, warn=True)  # warns, as scikit-learn's single-output estimators do
            shape = ()
        return Y, shape

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.loss != "squared_error":
            tags.target_tags.multi_output = False
            tags.target_tags.positive_only = self.loss == "poisson"
        return tags
