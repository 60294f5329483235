"""Fitting from sources and from moments: one pass for squared error, a few per stage for other losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from budgetline.data.sources import Source
from budgetline.estimators.base import SequenceEstimator
from budgetline.estimators.regression import Regression
from budgetline.groups import Layout
from budgetline.inputs import check_table
from budgetline.model.recipe import Recipe
from budgetline.progress import Progress
from budgetline.statistics.moments import Moments, moments_of
from budgetline.statistics.passes import ChunkMoments, Passes, sum_over


@dataclass(frozen=True)
class Stream:
    """A source as one estimator reads it: only the columns of its groups, pass after pass."""

    passes: Passes
    columns: NDArray[np.intp] | None
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, source: Any, layout: Layout, client: Any, progress: Progress) -> Stream:
        """Read the columns that the groups use, in the order of the source."""
        used = np.sort(layout.used)
        names = None if source.feature_names is None else tuple(source.feature_names[d] for d in used)
        return cls(Passes(source, client, progress), None if used.size == source.n_features else used, names)

    @property
    def source(self) -> Source:
        """What is read."""
        return self.passes.source

    def total(self, statistic: Any, columns: NDArray[np.intp] | None) -> Any:
        """Make one pass of several."""
        return _not_none(self.passes.total(statistic, columns))

    def moments(self, target_shape: tuple[int, ...], classes: Any = None) -> Moments:
        """Return the moments of the columns read, from one pass of several."""
        found: Moments = self.total(ChunkMoments(self.names, target_shape, classes), self.columns)
        return found

    def moments_alone(self, target_shape: tuple[int, ...], checkpoint: Any) -> Moments:
        """Return the moments of the columns read, from the only pass."""
        source, client, progress = self.source, self.passes.client, self.passes.progress
        statistic = ChunkMoments(self.names, target_shape)
        found: Moments = _not_none(
            sum_over(source, statistic, self.columns, client=client, progress=progress, checkpoint=checkpoint)
        )
        return found


def _not_none(found: Any) -> Any:
    if found is None:
        raise ValueError("the source holds no rows of positive weight")
    return found


def open_stream(
    estimator: SequenceEstimator, source: Any, alpha: float, client: Any, progress: Progress
) -> tuple[Stream, Recipe, Layout]:
    """Check settings and source, and resolve the groups against its columns."""
    estimator._validate_params()
    if not isinstance(source, Source):
        raise TypeError(f"a Source is needed, got {type(source).__name__}: make one with budgetline.open_source")
    recipe, layout = estimator._recipe(source.feature_names, source.n_features, alpha)
    return Stream.of(source, layout, client, progress), recipe, layout


def check_many_passes(source: Source, recipe: Recipe) -> None:
    """Raise an error, before the first pass, if a source cannot be read several times or would be far too often."""
    if recipe.rule == "fr":
        raise ValueError("rule='fr' refits every candidate, each a pass over the source: use rule='score' or 'omp'")
    if source.once:
        raise ValueError("several passes are needed, an iterator can be read once: give a function that starts one")


def forget(estimator: Any, *names: str) -> None:
    """Remove attributes of an earlier fit of another kind."""
    for name in names:
        vars(estimator).pop(name, None)


def _of_squared_error(estimator: Any) -> bool:
    return bool(getattr(estimator, "loss", "squared_error") == "squared_error")


class FromMoments(Regression):
    """A regressor that can learn from moments alone, however they were brought together.

    Attributes
    ----------
    moments_ : Moments
        What was learned from, of the columns that are in groups.
    n_passes_ : int
        How often the data of a source were read.
    """

    alpha: float

    def fit_moments(self, moments: Moments) -> Self:
        """Learn from moments alone, which may have been merged from many places.

        Parameters
        ----------
        moments : Moments

        Returns
        -------
        self

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
        if not isinstance(moments, Moments):
            raise TypeError(f"moments must be Moments, got {type(moments).__name__}")
        recipe, layout = self._recipe(moments.feature_names, moments.n_features, self.alpha)
        self._learn(moments.select(np.sort(layout.used)), recipe, layout, moments.feature_names)
        return self

    def fit_source(
        self, source: Source, *, client: Any = None, progress: Progress = None, checkpoint: Any = None
    ) -> Self:
        """Learn from data of any size, read in chunks.

        Squared error takes one pass and memory for a chunk and D × D moments. Other losses take a few passes per
        stage; their number is kept in ``n_passes_``.

        Parameters
        ----------
        source : Source
            See :func:`budgetline.open_source`. Only the columns that are in groups are read.
        client : dask.distributed.Client, optional
            Read the partitions in tasks there. Dask data run on the default client, if there is one.
        progress : bool or None
            Whether to show a progress bar; None: on a terminal, where tqdm is installed.
        checkpoint : path, optional
            A folder for the moments of partitions of files: a pass that was interrupted goes on where it stopped. Files
            that have changed, and those whose moments are damaged (with a warning), are read again.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor, open_source
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> AnytimeRegressor().fit_source(open_source((X, X[:, 1]), chunk_rows=100)).coef_.round(3).tolist()
        [-0.0, 1.0, -0.0]
        """
        stream, recipe, layout = open_stream(self, source, self.alpha, client, progress)
        self._learn_source(stream, recipe, layout, checkpoint)
        return self

    @available_if(_of_squared_error)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to those of earlier calls, and learn from all of them.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        y : array of shape (n,) or (n, P)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self

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
        known = getattr(self, "moments_", None)
        if known is None and hasattr(self, "staged_model_"):
            raise ValueError("X was too wide for moments: start with partial_fit or fit_source, which keep them")
        if known is not None:
            check_table(self, X, reset=False)
        data = self._check(X, y, sample_weight, self.alpha)
        if known is not None and not np.array_equal(self._columns_read, np.sort(data.layout.used)):
            raise ValueError("the groups use other columns than those that moments_ are of: fit again from the start")
        more = moments_of(data.rows, data.target_shape, data.used_names, single=False)
        self._learn(more if known is None else known + more, data.recipe, data.layout, data.names)
        return self

    def _remember(self, moments: Moments | None, target_shape: tuple[int, ...], passes: int | None = None) -> None:
        """Keep the moments and the number of passes of this fit, and forget those of an earlier one."""
        forget(self, "moments_", "n_passes_")
        if moments is not None:
            self.moments_ = replace(moments, target_shape=target_shape)
        if passes is not None:
            self.n_passes_ = passes

    def _learn_source(self, stream: Stream, recipe: Recipe, layout: Layout, checkpoint: Any) -> None:
        """Fit from a stream, of which squared error needs the moments only."""
        self._need_squared_error()
        moments = stream.moments_alone(stream.source.target_shape, checkpoint)
        self._learn(moments, recipe, layout, stream.source.feature_names)
        self.n_passes_ = 1

    def _need_squared_error(self) -> None:
        """Raise an error if moments do not determine the model."""

    def _learn(self, moments: Moments, recipe: Recipe, layout: Layout, names: tuple[str, ...] | None) -> None:
        """Fit from the moments of the grouped columns, in the order of the table."""
        raise NotImplementedError
