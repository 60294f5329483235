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
        """Return prediction intervals that contain the target of a row with a probability of about ``coverage``.

        The method is available only for ``AnytimeRegressorCV``, because the intervals are based on the held-out errors
        of its folds. If new rows resemble the training rows, the intervals contain about this share of their targets,
        whatever the loss. If the errors grow with the prediction, so does the width of the intervals. A model that was
        fitted to a source stores only the mean squared errors of its folds. In this case, the intervals rely on the
        assumption that errors are normal with constant variance, which ``model_.errors.assumption`` states. The bounds
        are infinite if there are too few rows for the requested coverage.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The input samples.
        coverage : float in (0, 1)
            Share of new rows whose target should lie between the bounds.
        budget, stage
            As in ``predict``.
        available
            As in ``predict``. If the groups are not a prefix, the held-out errors of a stage with about the same or a
            smaller gain are used.

        Returns
        -------
        PredictionInterval
            The arrays ``lower`` and ``upper``, of the same shape as the predictions.
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

    The estimator learns an order of the groups. For every prefix of this order, it fits a ridge model by solving

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖²    on standardised X and centred y.

    It can therefore predict at any budget.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        The groups of columns. If None, every column is a group of its own.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups. If None, the costs of ``feature_groups`` are used, or a cost of 1 per group if it has none.
    rule : {"forward", "score", "omp", "no-whiten", "single", "static"}
        How the merit of a group is measured. "forward" uses its exact gain (forward regression). "score" uses the gain
        of one Newton step, which is the same for squared error. "omp" uses its gradient, whitened within the group
        (orthogonal matching pursuit). For comparison, "no-whiten" uses the plain gradient, "single" the gradient of the
        best column, and "static" the gain of the group on its own.
    cost_sensitive : bool
        Whether to divide the merit of a group by its cost.
    schedule : {"greedy", "doubling", "cheapest", "random"} or a schedule such as ``Doubling(c_min=2)``
        Which groups may come next. "greedy" allows any group. With "doubling", no group may cost more than all groups
        before it together, which gives an approximation guarantee at every budget. ``FixedOrder([...])`` sets an order
        of your own. "cheapest" (always the cheapest remaining group) and "random" are for comparison.
    alpha : float, "auto" or None
        Ridge constant, as in ``sklearn.linear_model.ElasticNet(l1_ratio=0)`` on standardised data. The equivalent
        ``alpha`` of ``Ridge`` is ``alpha · n`` for n rows. "auto" estimates the constant for the model of all groups:
        for squared error by restricted maximum likelihood, and for other losses by Laplace's approximation of the
        restricted likelihood. None means "auto" if there is an encoding, and 1e-5 otherwise.
    encoding : {"linear", "spline"}, Encoding or None
        How to encode raw columns: text, categories, Booleans, dates, numbers and missing values (see
        ``budgetline.Encoding``). If None, X must be numeric and is used as it is.
    max_cost : float or None
        Maximum total cost. Groups that would exceed it are left out.
    max_groups : int or None
        Maximum number of groups in the sequence.
    min_gain : float
        Minimum additional fraction of the variance that a group must explain, after the correction is subtracted.
        Learning stops when no group reaches this fraction.
    start : names of groups
        Groups that are always bought. These groups and the groups that they require come first, even if they do not
        improve the model.
    correction : float
        Multiple of the expected overfitting that is subtracted from every gain on the training rows before groups are
        chosen. The expected overfitting has two parts: the apparent gain from fitting noise in the training rows, and
        the additional loss that this fitted noise causes on new rows. For d columns and squared error, the sum of both
        parts is σ²d/n, where σ² is the residual variance of the full model (with all groups). For other losses, the sum
        is d/n, as in AIC. The value 1 corresponds to Mallows' C_p. With 0, nothing is subtracted, as in the paper.
        ``sequence_`` always reports the gains on the training rows, without the correction.
    loss : {"squared_error", "poisson"} or ConvexLoss
        "poisson" is for counts and uses a log link. A ``ConvexLoss`` is defined by a function φ of your own. With
        either of them, ``explained`` is the share of the deviance that the model explains.
    tol : float or None
        Tolerance for convergence. A stage has converged when no entry of the gradient exceeds ``tol``, in units of the
        standard deviation of y. None means 1e-10. For squared error, the solution is exact, and only None is accepted.

    Attributes
    ----------
    feature_groups_ : FeatureGroups
        The groups that the model was fitted with, and their costs.
    sequence_ : GroupSequence
        The order, with ``groups``, ``costs``, ``cumulative_costs``, ``gains``, ``explained`` and ``to_frame()``.
    order_ : int array
        Positions of the chosen groups, in order.
    coef_path_ : array of shape (n_stages, n_features)
        Coefficients of each stage, in the units of X and y. If there are several targets or more than two classes,
        there is a second axis with one entry per target or class. With an encoding, the coefficients refer to the
        design columns.
    intercept_path_ : array of shape (n_stages,)
        Intercept of each stage, in the units of y. If there are several targets or more than two classes, there is a
        second axis with one entry per target or class.
    feature_names_out_ : array of str
        Names of the design columns. With an encoding, these are the columns that the encoding creates from X; otherwise
        they are the columns of X.
    coef_
        Coefficients of the last stage.
    intercept_
        Intercept of the last stage.
    model_ : AnytimeModel
        The fitted model as a single object. Saved files, curves, certificates, runners and reports are created from it.
    moments_ : Moments
        Moments of the training data, for the columns that belong to groups; ``partial_fit`` updates them. Available
        only for squared error, and only if X is not too wide to compute them.
    alpha_ : float
        The ridge constant that was estimated from the data. Available only if ``alpha`` is "auto", or if
        ``alpha`` is None and there is an encoding.
    n_passes_ : int
        Number of passes over the source. Available only if the model was fitted to a source.

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
        """Fit the model to ``moments`` instead of rows; the moments of several parts of the data can be merged first.

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
            raise ValueError("moments are computed from numbers, not from raw columns: encoding would be ignored")
        layout = self._column_settings.layout(moments.feature_names, moments.n_features)
        return self._learn(MomentsTraining(layout, (moments.select(layout.read),)), self._recipe(Columns(layout)))

    @available_if(lambda self: self.loss == "squared_error")  # type: ignore[untyped-decorator]
    def partial_fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Add rows to the rows of earlier calls, and refit the model on all of them; arguments as in ``fit``.

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
