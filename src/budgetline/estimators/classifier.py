"""AnytimeClassifier."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from budgetline.data.dask import dask_source, is_dask
from budgetline.data.sources import Source
from budgetline.estimators.classification import Classification, family_of
from budgetline.estimators.streaming import check_many_passes, forget, open_stream
from budgetline.model.generalised import fit_generalised
from budgetline.progress import Progress
from budgetline.statistics.passes import ChunkLabels
from budgetline.statistics.rows_engine import RowsEngine
from budgetline.statistics.source_engine import SourceEngine


class AnytimeClassifier(Classification):
    """Classification whose feature groups are computed one after another, best value for money first.

    Learns an order of the groups and, for every prefix of it, a logistic (two classes) or softmax model (more),

        min_W  mean log loss + alpha/2 ‖W‖²    on standardised X, with an intercept that is not penalised.

    Parameters
    ----------
    feature_groups, costs, cost_sensitive, schedule, max_cost, max_groups
        As in :class:`AnytimeRegressor`.
    rule : {"fr", "score", "omp", "no-whiten", "single", "static"}
        "fr" refits the candidates that can win; "score" takes the gain of one Newton step; "omp" the whitened gradient
        (the paper's Algorithm 3), which is the cheapest.
    alpha : float
        Ridge constant: ``LogisticRegression`` would call it 1/(C·n), on standardised data.
    min_gain : float
        Stop when no group would explain at least this fraction of the deviance more, by one Newton step.
    class_weight : dict, "balanced" or None
    tol : float
        Largest entry of the gradient, in units of the deviation of the class indicators, at which a stage counts as
        fitted.

    Attributes
    ----------
    classes_ : array of shape (P,)
    feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, staged_model_
        As in :class:`AnytimeRegressor`; for two classes the scores are log odds of the second one.
    n_passes_ : int
        How often the data of a source were read.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
    >>> model.sequence_.groups[:3]
    ('cp', 'sex', 'age')
    >>> model.predict_proba(heart.data[:2], budget=20).round(2).tolist()
    [[0.53, 0.47], [0.08, 0.92]]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Classification._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
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
        class_weight: Any = None,
        tol: float = 1e-10,
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
        self.class_weight = class_weight
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the sequence and the model of every prefix.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            Dask arrays and frames are read where they are, as :meth:`fit_source` does.
        y : array of shape (n,)
            Labels of any kind.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        if is_dask(X):
            return self.fit_source(dask_source(X, y, sample_weight))
        data, classes, family = self._prepare(X, y, sample_weight, self.alpha)
        engine = RowsEngine.of(data.rows, data.recipe.by_group, family, data.used_names)
        self._finish(fit_generalised(engine, data.recipe, family, self.tol), data, classes)
        forget(self, "n_passes_")
        return self

    def fit_source(self, source: Source, *, client: Any = None, progress: Progress = None) -> Self:
        """Learn from data of any size, read in chunks: a few passes per stage, counted in ``n_passes_``.

        Parameters
        ----------
        source : Source
            See :func:`budgetline.open_source`. Only the columns that are in groups are read.
        client : dask.distributed.Client, optional
            Read the partitions in tasks there. Dask data run on the default client, if there is one.
        progress : bool or None
            Whether to show a progress bar for every pass; None: on a terminal, where tqdm is installed.

        Returns
        -------
        self

        Examples
        --------
        >>> from budgetline import AnytimeClassifier, open_source
        >>> from budgetline.datasets import load_heart
        >>> heart = load_heart()
        >>> model = AnytimeClassifier(heart.feature_groups, rule="score", alpha=1e-2)
        >>> model.fit_source(open_source((heart.data, heart.target), chunk_rows=100)).sequence_.groups[:3]
        ('cp', 'sex', 'age')
        """
        stream, recipe, layout = open_stream(self, source, self.alpha, client, progress)
        check_many_passes(source, recipe)
        if self.class_weight is not None:
            raise ValueError("class_weight is not for sources: give the weights as a column")
        if source.target_shape:
            raise ValueError(
                f"a classifier needs one target, as a vector, the source has a matrix of {source.target_shape[0]}"
            )
        labels = stream.total(ChunkLabels(), np.empty(0, dtype=np.intp)).classes()
        family = family_of(labels.size)
        shape = () if labels.size == 2 else (labels.size,)
        moments = stream.moments(shape, labels)
        engine = SourceEngine(stream.passes, stream.columns, moments, recipe.by_group, family, labels)
        model = fit_generalised(engine, recipe, family, self.tol)
        self._warn_if_rounded(model, moments, layout, source.feature_names)
        self._keep(model, layout, source.feature_names, shape)
        self.classes_, self.n_passes_ = labels, stream.passes.count
        return self
