"""AnytimeRegressor, and what it shares with AnytimeRegressorCV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

from budgetline.arrays import Float
from budgetline.encoding.table import TableEncoding
from budgetline.estimators.advice import advising
from budgetline.estimators.base import AnytimeEstimator, Constraints, HasAlpha, refuse_groups
from budgetline.estimators.scores import ScoresAtBudget
from budgetline.files import PathName
from budgetline.fitting import Recipe
from budgetline.fitting.training import AddedRows, MomentsTraining, RowsTraining, SourceTraining
from budgetline.glm.families import LOSSES, ConvexLoss, Family, SquaredError
from budgetline.inputs import check_table
from budgetline.messages import shown
from budgetline.model.staged import Available
from budgetline.moments.moments import Moments
from budgetline.moments.passes import Passes
from budgetline.progress import Progress


@dataclass(eq=False, repr=False, kw_only=True)
class BaseRegressor(ScoresAtBudget, MultiOutputMixin, RegressorMixin, AnytimeEstimator):  # type: ignore[misc]
    """What AnytimeRegressor and AnytimeRegressorCV share."""

    loss: str | ConvexLoss = "squared_error"
    tol: float | None = None

    moments_: Moments = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        **AnytimeEstimator._parameter_constraints,
        "loss": [StrOptions(set(LOSSES)), ConvexLoss],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
    }

    def _fit(
        self,
        X: object,
        y: object,
        sample_weight: object,
        client: object,
        progress: Progress,
        checkpoint: PathName | None,
        groups: object = None,
    ) -> Self:
        """Learn from a table or a source; ``groups`` are labels of rows that stay together in the folds of a search."""
        self._validate_params()
        family, tol = self._family(), self._tol()
        source = self._source_of(X, y, sample_weight, client, checkpoint)
        with advising(self.encoding):
            if source is not None:
                refuse_groups(groups)
                return self._fit_source(family, tol, Passes(source, client, progress), checkpoint)
            training, recipe = self._in_memory(X, y, sample_weight)
            return self._learn(training, recipe.grouped(groups))

    def fit_moments(self, moments: Moments) -> Self:
        """Learn from moments alone, which may have been merged from many places.

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor, Moments
        >>> X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0)
        >>> merged = Moments.of(X[:20], y[:20]) + Moments.of(X[20:], y[20:])
        >>> AnytimeRegressor().fit_moments(merged).coef_.shape
        (3,)
        """
        self._validate_params()
        self._need_squared_error()
        parts = self._parts_of(moments)
        layout = self._source_layout(parts[0].feature_names, parts[0].n_features)
        recipe = self._recipe(layout)
        return self._learn(MomentsTraining(layout, tuple(part.select(layout.read) for part in parts)), recipe)

    @available_if(lambda self: self.loss == "squared_error")  # type: ignore[untyped-decorator]
    def partial_fit(self, X: object, y: object, sample_weight: object = None) -> Self:
        """Add rows, given as in :meth:`fit`, to those of earlier calls, and learn from all of them.

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
        known = self._known_parts()
        encoding = self.model_.encoding if known is not None else None
        if known is not None and encoding is None:
            check_table(X, self.model_.columns)
        rows, recipe, layout, shape = self._check(X, y, sample_weight, encoding)
        if known is not None and not np.array_equal(self.model_.layout.read, layout.read):
            raise ValueError("the groups use other columns than those of moments_: fit again from the start")
        family, tol = SquaredError(), self._tol()
        return self._learn(AddedRows(rows, layout, family, tol, shape, known=known, cv=self._dealt_by()), recipe)

    def predict(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Predict with the whole sequence, or with what a budget, a stage or the available groups allow.

        Only the columns that the chosen model uses are read: the others may be NaN, or missing from a data frame.
        Columns of a frame are found by their names, in any order; arrays have the columns of ``fit``.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        budget : float, optional
            Use the longest prefix of the sequence that costs no more.
        stage : int, optional
            Use the first ``stage`` groups; 0 is the training mean.
        available : collection of group names, or "auto", optional
            Use exactly these groups, in or out of order. For squared error this is the least-squares model on them,
            exact for every subset; for other losses the prefixes are exact, and any other subset is fitted to what
            the model knows of the distribution of the training rows. Groups not in the sequence add nothing.
            With "auto", each row is answered from the groups that it has: those whose columns are not all missing (NaN
            or null). Columns that X lacks count as missing, and a warning names them. A budget or a stage then limits
            these groups. Without an encoding, a group that a row has only in part is an error.

        Returns
        -------
        array of shape (n,) or (n, P)
        """
        return self._answer("predict", X, budget, stage, available)

    def staged_predict(self, X: object) -> Iterator[Float]:
        """Yield the predictions after each group, shape (n,) or (n, P)."""
        return self._staged("predict", X)

    def _fit_source(self, family: Family, tol: float, passes: Passes, checkpoint: PathName | None) -> Self:
        if not isinstance(family, SquaredError):
            self._check_many_passes(passes.source)
        passes, recipe, layout = self._laid_out(passes)
        source = passes.source
        if isinstance(family, SquaredError):
            training = SourceTraining(passes, layout, family, tol, source.target_shape)
            return self._learn(replace(training, n_folds=self._n_folds(), checkpoint=checkpoint), recipe)
        if checkpoint is not None:
            raise ValueError(f"loss={shown(self.loss)} takes many passes: a checkpoint is for squared error")
        shape = () if source.target_shape == (1,) else source.target_shape  # one target may come as a matrix
        return self._learn(SourceTraining(passes, layout, family, tol, shape), recipe)

    def _in_memory(
        self, X: object, y: object, sample_weight: object, known: TableEncoding | None = None
    ) -> tuple[RowsTraining, Recipe]:
        rows, recipe, layout, shape = self._check(X, y, sample_weight, known)
        return RowsTraining(rows, layout, self._family(), self._tol(), shape), recipe

    def _parts_of(self, moments: Moments) -> tuple[Moments, ...]:
        """Return the moments that a user gives, as parts."""
        if not isinstance(moments, Moments):
            raise TypeError(f"moments must be Moments, got {type(moments).__name__}")
        return (moments,)

    def _known_parts(self) -> tuple[Moments, ...] | None:
        """Return the moments of earlier calls of ``partial_fit``, None before the first."""
        if not hasattr(self, "model_"):
            return None
        if self.model_.moments is None:
            raise ValueError("X was too wide for moments, or loss another: start with partial_fit or a source")
        return (self.model_.moments,)

    def _dealt_by(self) -> object:
        """Return how ``partial_fit`` deals rows to folds; None without folds."""
        return None

    def _n_folds(self) -> int | None:
        """Return the number of folds for the rows of a source; None without folds."""
        return None

    @property
    def _moments_suffice(self) -> bool:
        return self.loss == "squared_error"

    def _need_squared_error(self) -> None:
        if self.loss != "squared_error":
            raise ValueError(f"moments determine a model of squared error only, not of loss={shown(self.loss)}")
        self._tol()

    def _family(self) -> Family:
        return LOSSES[self.loss]() if isinstance(self.loss, str) else self.loss

    def _tol(self) -> float:
        """Return the tolerance of losses other than squared error, which has none."""
        if self.loss == "squared_error" and self.tol is not None:
            raise ValueError(f"loss='squared_error' is solved exactly: tol={shown(self.tol)} would be ignored")
        return 1e-10 if self.tol is None else self.tol

    def _target(self, y: object, n_samples: int) -> tuple[Float, tuple[int, ...]]:
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


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeRegressor(BaseRegressor, HasAlpha):
    """Linear regression with feature groups that are computed one after another, best value for money first.

    Learns an order of the groups and one ridge model per prefix of it,

        min_w 1/(2n) ‖y − Xw‖² + alpha/2 ‖w‖²    on standardised X and centred y,

    so that there is a prediction at every budget.

    Parameters
    ----------
    feature_groups : FeatureGroups, mapping, list of column lists, labels, or None
        None: every column is a group.
    costs : mapping name -> cost, sequence, or None
        Costs of the groups; None: those of ``feature_groups``, else 1 each.
    rule : {"fr", "score", "omp", "no-whiten", "single", "static"}
        How a group's merit is measured: "fr" by its exact gain (forward regression), "score" by the gain of one Newton
        step (the same for squared error), "omp" by its gradient, whitened within the group (orthogonal matching
        pursuit). For comparison: the plain gradient, that of the best column, the gain of the group on its own.
    cost_sensitive : bool
        Whether merit is divided by cost.
    schedule : {"greedy", "doubling", "cheapest", "random"} or a schedule such as ``Doubling(c_min=2)``
        With "doubling" no group costs more than all before it, which gives a guarantee at every budget.
        ``FixedOrder([...])`` is an order of your own; "cheapest" first and "random" are for comparison.
    alpha : float, "auto" or None
        Ridge constant, with the meaning it has in ``sklearn.linear_model.ElasticNet(l1_ratio=0)`` on standardised data:
        ``Ridge`` would call it ``alpha · n``. "auto" chooses the likeliest constant for the model of all
        groups, by restricted maximum likelihood (for other losses by its Laplace approximation). None is "auto" with an
        encoding, else 1e-5.
    encoding : {"linear", "spline"}, Encoding or None
        What raw columns become: text, categories, flags, dates, numbers and gaps, see :class:`budgetline.Encoding`. All
        that a column becomes stays in its group. None: X holds numbers, which are used as they are.
    max_cost, max_groups : float or None, int or None
        Leave out groups that would bring the total cost above this; stop after this many groups.
    min_gain : float
        Stop when no group would explain at least this additional fraction of the variance, after the correction.
    start : names of groups
        Groups that are always measured: they come first, with those that they require, whatever they gain.
    correction : float
        Choose groups by the gain that can be expected on new rows: subtract this multiple of what noise alone would
        explain and cost, σ²d/n for d columns (1 is Mallows' C_p; for ``loss="poisson"`` and others d/n, as AIC). 0 is
        the paper's choice by the gain on the training rows. σ² is the residual variance of the model of all groups, or,
        if it has fewer than 20 degrees of freedom left, the estimate of restricted maximum likelihood. The gains in
        ``sequence_`` are those on the training rows.
    loss : {"squared_error", "poisson"} or ConvexLoss
        "poisson" is for counts, with a log link; a :class:`ConvexLoss` brings its own φ. They are fitted by Newton's
        method, and ``explained`` is a share of deviance.
    tol : float or None
        Largest entry of the gradient, in units of the deviation of y, at which a stage of such a loss counts as fitted;
        None is 1e-10. Squared error is solved exactly and accepts only None.

    Attributes
    ----------
    feature_groups_ : FeatureGroups
        The groups as they were used, with their costs.
    sequence_ : GroupSequence
        ``groups``, ``costs``, ``cumulative_costs``, ``gains``, ``explained``, ``to_frame()``.
    order_ : int array
        Positions of the chosen groups, in order.
    coef_path_, intercept_path_ : arrays of shape (stages, D) and (stages,), or (stages, P, D) and (stages, P)
        Coefficients after each stage, in the units of X and y, or of the design columns of an encoding.
    feature_names_out_ : array of str
        Names of the design columns: with an encoding what the columns of X have become, otherwise these columns.
    coef_, intercept_
        Those of the last stage.
    model_ : AnytimeModel
        All of this as one record, which files, curves, certificates, runners and reports work with.
    moments_ : Moments
        Moments of the columns in groups that the model was fitted on; ``partial_fit`` adds to them. Only for squared
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

    _parameter_constraints: ClassVar[Constraints] = {
        **BaseRegressor._parameter_constraints,
        **HasAlpha._parameter_constraints,
    }

    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        client: object = None,
        progress: Progress = None,
        checkpoint: PathName | None = None,
    ) -> Self:
        """Learn the sequence and the model of every prefix.

        From a source, squared error takes one pass and memory for a chunk and D × D moments. Other losses take a few
        passes per stage; their number is kept in ``n_passes_``. Only the columns that are in groups are read.

        Parameters
        ----------
        X : array, sparse matrix, data frame or Source
            A table has shape (n, D) and is not copied; pandas, polars and pyarrow frames are accepted. Dask arrays and
            frames are read where they are. A source comes from :func:`budgetline.open_source`, with its targets.
        y : array of shape (n,) or (n, P)
        sample_weight : array of shape (n,), optional
        client : dask.distributed.Client, optional
            Read the partitions of a source in tasks there. Dask data run on the default client, if there is one.
        progress : bool or None
            Whether to show a progress bar for a source; None: on a terminal, where tqdm is installed.
        checkpoint : path, optional
            A folder for the moments of partitions of files: an interrupted pass continues where it stopped. Files
            that have changed, and those whose moments are damaged (with a warning), are read again.

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor, open_source
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> AnytimeRegressor().fit(open_source((X, X[:, 1]), chunk_rows=100)).coef_.round(3).tolist()
        [-0.0, 1.0, -0.0]
        """
        return self._fit(X, y, sample_weight, client, progress, checkpoint)
