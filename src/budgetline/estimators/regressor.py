"""AnytimeRegressor, and what it shares with AnytimeRegressorCV."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from budgetline.devices import like
from budgetline.estimators.at_budget import PredictsAtBudget
from budgetline.estimators.base import NO_METADATA, AnytimeEstimator, HasAlpha
from budgetline.estimators.reading import CheckedTarget, Columns
from budgetline.fitting import MomentsTraining, Task
from budgetline.glm.families import LOSSES, ConvexLoss
from budgetline.inputs import check_target, check_weight
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.model.held_out_errors import PredictionInterval
from budgetline.model.intervals import predict_interval
from budgetline.model.staged import Available
from budgetline.moments.moments import Moments
from budgetline.moments.passes import Passes


@dataclass(eq=False, repr=False, kw_only=True)
class BaseRegressor(PredictsAtBudget, MultiOutputMixin, RegressorMixin, AnytimeEstimator):  # type: ignore[misc]
    """What AnytimeRegressor and AnytimeRegressorCV share."""

    loss: str | ConvexLoss = "squared_error"
    tol: float | None = None

    model_: AnytimeModel = field(init=False)
    moments_: Moments = field(init=False)

    _parameter_constraints = AnytimeEstimator._parameter_constraints | {
        "loss": [StrOptions(set(LOSSES)), ConvexLoss],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
    }
    __metadata_request__fit: ClassVar = NO_METADATA

    def predict_interval(
        self,
        X: object,
        coverage: float = 0.9,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> PredictionInterval:
        """Return bounds ``lower`` and ``upper`` that contain the target of a row with about this probability.

        Intervals need the held-out errors of ``AnytimeRegressorCV``, which are measured on folds. They cover this share
        of new rows that are like the training rows, whatever the loss. If errors grow with the prediction, so do the
        intervals. A model that learned from a source knows only the mean squared errors of its folds. Its errors are
        assumed to be normal, with the same spread everywhere (``model_.errors.assumption`` names the assumption).
        Bounds are infinite if there are too few rows for the coverage.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            The rows to predict.
        coverage : float in (0, 1)
            Share of new rows whose target lies between the bounds.
        budget, stage
            As in ``predict``.
        available
            As in ``predict``. A set of groups that is not a prefix uses the errors of a stage with about the same gain,
            or less.

        Returns
        -------
        PredictionInterval
            Two arrays with the shape of the predictions.
        """
        check_is_fitted(self)
        found = predict_interval(self.model_, X, coverage, budget, stage, available)
        return PredictionInterval(*(like(X, bound) for bound in found))

    def _target(self, y: object, sample_weight: object, n_rows: int) -> CheckedTarget:
        Y, shape = check_target(y, n_rows)
        task = self._task(shape)
        if shape != task.target_shape:
            column_or_1d(Y, warn=True)  # warns, as scikit-learn's single-output estimators do
        return task, Y, check_weight(sample_weight, n_rows)

    def _check_source(self, passes: Passes) -> None:
        if self.loss != "squared_error":
            super()._check_source(passes)

    def _source_task(self, passes: Passes) -> Task:
        return self._task(passes.source.target_shape)

    def _task(self, shape: tuple[int, ...]) -> Task:
        """Return what is learned; only squared error keeps a single target that comes as a matrix a matrix."""
        family = LOSSES[self.loss]() if isinstance(self.loss, str) else self.loss
        return Task(family, self._tol(), () if self.loss != "squared_error" and shape == (1,) else shape)

    def _tol(self) -> float:
        """Return the tolerance of losses other than squared error, which has none."""
        if self.loss == "squared_error" and self.tol is not None:
            raise ValueError(f"loss='squared_error' is solved exactly: tol={shown(self.tol)} would be ignored")
        return 1e-10 if self.tol is None else self.tol

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.loss != "squared_error":
            tags.target_tags.multi_output = False
            tags.target_tags.positive_only = self.loss == "poisson"
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeRegressor(BaseRegressor, HasAlpha):
    """Linear regression with feature groups that are computed one after another, best value for money first.

    The estimator learns an order of the groups and one ridge model per prefix of it,

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖²    on standardised X and centred y,

    so that there is a prediction at every budget.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        The groups of columns. If None, every column is a group.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups. If None, the costs of ``feature_groups`` are used, or 1 per group if it has none.
    rule : {"forward", "score", "omp", "no-whiten", "single", "static"}
        How the merit of a group is measured. "forward" uses its exact gain (forward regression). "score" uses the gain
        of one Newton step, which is the same for squared error. "omp" uses its gradient, whitened within the group
        (orthogonal matching pursuit). For comparison, "no-whiten" uses the plain gradient, "single" the gradient of the
        best column, and "static" the gain of the group on its own.
    cost_sensitive : bool
        Whether merit is divided by cost.
    schedule : {"greedy", "doubling", "cheapest", "random"} or a schedule such as ``Doubling(c_min=2)``
        Which groups may come next. "greedy" allows any group. With "doubling", no group may cost more than all groups
        before it together, which gives a guarantee at every budget. ``FixedOrder([...])`` is an order of your own.
        "cheapest" (the cheapest group comes first) and "random" are for comparison.
    alpha : float, "auto" or None
        Ridge constant, as in ``sklearn.linear_model.ElasticNet(l1_ratio=0)`` on standardised data. The
        equivalent constant of ``Ridge`` is ``alpha · n``. "auto" chooses the most likely constant for the model of all
        groups, by restricted maximum likelihood (for other losses, by its Laplace approximation). None means "auto"
        with an encoding, and 1e-5 otherwise.
    encoding : {"linear", "spline"}, Encoding or None
        How to encode raw columns: text, categories, flags, dates, numbers and missing values (see
        ``budgetline.Encoding``). If None, X holds numbers, which are used as they are.
    max_cost : float or None
        Leave out groups that would raise the total cost above this.
    max_groups : int or None
        Stop after this many groups.
    min_gain : float
        Stop when no group would explain at least this additional fraction of the variance, after the correction.
    start : names of groups
        Groups that are always bought. They, and the groups that they require, come first even if they gain nothing.
    correction : float
        Choose groups by the gain expected on new rows: the gain on the training rows, less this multiple of what noise
        alone explains in training and costs on new rows. For d columns, noise accounts for σ²d/n, where σ² is the
        residual variance of the model of all groups (for other losses d/n, as in AIC). The value 1 is Mallows' C_p; 0
        is the paper's choice by the gain on the training rows. ``sequence_`` always holds the gains on the training
        rows.
    loss : {"squared_error", "poisson"} or ConvexLoss
        "poisson" is for counts and has a log link; a ``ConvexLoss`` has its own φ. For both, ``explained`` is a share
        of the deviance.
    tol : float or None
        A stage counts as fitted when no entry of the gradient is larger than this, in units of the standard deviation
        of y. None means 1e-10. Squared error is solved exactly and accepts only None.

    Attributes
    ----------
    feature_groups_ : FeatureGroups
        The groups as they were used, with their costs.
    sequence_ : GroupSequence
        The order, with ``groups``, ``costs``, ``cumulative_costs``, ``gains``, ``explained`` and ``to_frame()``.
    order_ : int array
        Positions of the chosen groups, in order.
    coef_path_, intercept_path_ : arrays of shape (stages, D) and (stages,), or (stages, P, D) and (stages, P)
        Coefficients and intercepts of each stage, in the units of X and y. With an encoding, they belong to its design
        columns.
    feature_names_out_ : array of str
        Names of the design columns. With an encoding, these are the columns that it makes from X; otherwise they are
        the columns of X.
    coef_, intercept_
        Coefficients and intercept of the last stage.
    model_ : AnytimeModel
        The fitted model as one object. Files, curves, certificates, runners and reports work with it.
    moments_ : Moments
        Moments of the grouped columns of the training data; ``partial_fit`` adds to them. They exist only for squared
        error, and not if X is too wide for them.
    alpha_ : float
        The ridge constant that ``alpha="auto"`` has chosen.
    n_passes_ : int
        Number of passes over a source.

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

    _parameter_constraints = BaseRegressor._parameter_constraints | HasAlpha._parameter_constraints

    def fit_moments(self, moments: Moments) -> Self:
        """Learn from moments alone, which may have been merged from many places.

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor, Moments
        >>> X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0)
        >>> merged = Moments.from_data(X[:20], y[:20]) + Moments.from_data(X[20:], y[20:])
        >>> AnytimeRegressor().fit_moments(merged).coef_.shape
        (3,)
        """
        self._validate_params()
        self._need_squared_error()
        if not isinstance(moments, Moments):
            raise TypeError(f"moments must be Moments, got {type(moments).__name__}")
        if self.encoding is not None:
            raise ValueError("moments are of numbers, not of raw columns: encoding would be ignored")
        layout = self._column_settings.layout(moments.feature_names, moments.n_features)
        return self._learn(MomentsTraining(layout, (moments.select(layout.read),)), self._recipe(Columns(layout)))

    @available_if(lambda self: self.loss == "squared_error")  # type: ignore[untyped-decorator]
    def partial_fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Add these rows to the rows of earlier calls, and learn from all of them; arguments as in ``fit``.

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor
        >>> X, model = np.random.default_rng(0).normal(size=(100, 3)), AnytimeRegressor()
        >>> for day in (slice(0, 50), slice(50, 100)):
        ...     model = model.partial_fit(X[day], X[day, 1])
        >>> model.moments_.n_samples
        100
        """
        self._validate_params()
        self._need_squared_error()
        model: AnytimeModel | None = getattr(self, "model_", None)
        if model is not None and model.moments is None:
            raise ValueError(
                "this model keeps no moments: X is too wide, or the loss is not squared error. Start with partial_fit "
                "or a source"
            )
        training, recipe = self._from_table(X, y, sample_weight, model)
        if model is not None and not np.array_equal(model.layout.read, training.layout.read):
            raise ValueError("the groups use other columns than those of moments_: fit again from the start")
        return self._learn(training.added_to(None if model is None else model.moments), recipe)

    def _need_squared_error(self) -> None:
        if self.loss != "squared_error":
            raise ValueError(f"moments determine a model of squared error only, not of loss={shown(self.loss)}")
        self._tol()
