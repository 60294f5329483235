"""AnytimeClassifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight

from budgetline.arrays import Array, Float
from budgetline.encoding.table import TableEncoding
from budgetline.estimators.advice import advising
from budgetline.estimators.base import AnytimeEstimator, Constraints, HasAlpha, refuse_groups
from budgetline.estimators.scores import ScoresAtBudget
from budgetline.fitting import Recipe
from budgetline.fitting.training import RowsTraining, SourceTraining
from budgetline.glm.families import Family, Logistic, Softmax
from budgetline.inputs import MOST_CLASSES, check_labels, check_number
from budgetline.messages import shown, some, warn
from budgetline.model.staged import Available
from budgetline.moments.passes import ChunkLabels, Passes
from budgetline.progress import Progress


@dataclass(eq=False, repr=False, kw_only=True)
class BaseClassifier(ScoresAtBudget, ClassifierMixin, AnytimeEstimator):  # type: ignore[misc]
    """What AnytimeClassifier and AnytimeClassifierCV share."""

    class_weight: Mapping[Any, float] | str | None = None
    tol: float = 1e-10

    classes_: Array = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        **AnytimeEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def _fit(
        self, X: object, y: object, sample_weight: object, client: object, progress: Progress, groups: object = None
    ) -> Self:
        """Learn from a table or a source; ``groups`` are labels of rows that stay together in the folds of a search."""
        self._validate_params()
        source = self._source_of(X, y, sample_weight, client, None)
        with advising(self.encoding):
            if source is not None:
                refuse_groups(groups)
                return self._fit_source(Passes(source, client, progress))
            training, recipe = self._in_memory(X, y, sample_weight)
            return self._learn(training, recipe.grouped(groups))

    def decision_function(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return scores: log odds of the second class, or one score per class whose softmax is the probability.

        Keywords as in :meth:`AnytimeRegressor.predict`; stage 0 is the model of the class frequencies alone.

        Returns
        -------
        array of shape (n,) for two classes, (n, P) for more
        """
        return self._answer("decision_function", X, budget, stage, available)

    def predict_proba(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return probabilities of the classes, shape (n, P); keywords as in :meth:`decision_function`."""
        return self._answer("predict_proba", X, budget, stage, available)

    def predict_log_proba(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return log probabilities of the classes, shape (n, P); keywords as in :meth:`decision_function`."""
        return self._answer("predict_log_proba", X, budget, stage, available)

    def predict(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Array:
        """Return the most probable class, shape (n,); keywords as in :meth:`decision_function`."""
        return self._answer("predict", X, budget, stage, available)

    def staged_decision_function(self, X: object) -> Iterator[Float]:
        """Yield the scores after each group."""
        return self._staged("decision_function", X)

    def staged_predict_proba(self, X: object) -> Iterator[Float]:
        """Yield the probabilities after each group."""
        return self._staged("predict_proba", X)

    def staged_predict_log_proba(self, X: object) -> Iterator[Float]:
        """Yield the log probabilities after each group."""
        return self._staged("predict_log_proba", X)

    def staged_predict(self, X: object) -> Iterator[Array]:
        """Yield the most probable classes after each group."""
        return self._staged("predict", X)

    def _in_memory(
        self, X: object, y: object, sample_weight: object, known: TableEncoding | None = None
    ) -> tuple[RowsTraining, Recipe]:
        rows, recipe, layout, shape = self._check(X, y, sample_weight, known)
        classes, _ = check_labels(y, rows.n_rows)
        warn_if_many(classes)
        return RowsTraining(rows, layout, family_of(classes.size), self.tol, shape, classes), recipe

    def _fit_source(self, passes: Passes) -> Self:
        source = passes.source
        self._check_many_passes(source)
        if self.class_weight is not None:
            raise ValueError("class_weight cannot be used with a source: give the weights as a column")
        if source.target_shape:
            raise ValueError(
                f"a classifier needs one target, as a vector; the source has a matrix of {source.target_shape[0]}"
            )
        passes, recipe, layout = self._laid_out(passes)
        labels = passes.total(ChunkLabels(), np.empty(0, dtype=np.intp))
        classes = labels.classes()
        warn_if_many(classes)
        shape = () if classes.size == 2 else (classes.size,)
        return self._learn(SourceTraining(passes, layout, family_of(classes.size), self.tol, shape, classes), recipe)

    def _target(self, y: object, n_samples: int) -> tuple[Float, tuple[int, ...]]:
        classes, codes = check_labels(y, n_samples)
        if classes.size == 2:
            return codes[:, None].astype(np.float64), ()
        return np.eye(classes.size)[codes], (classes.size,)

    def _weight(self, y: object, sample_weight: object, n_samples: int) -> Float | None:
        weight = super()._weight(y, sample_weight, n_samples)
        classes, codes = check_labels(y, n_samples)
        if isinstance(self.class_weight, dict):
            for label, value in self.class_weight.items():
                check_number(f"class_weight of class {shown(label)}", value, ge=0, finite=True)
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, classes[codes])
            weight = by_class if weight is None else by_class * weight
        mass = np.bincount(codes, weight, classes.size)
        if np.any(mass <= 0):
            raise ValueError(f"class {shown(classes.tolist()[int(np.argmin(mass))])} has no sample of positive weight")
        return weight


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeClassifier(BaseClassifier, HasAlpha):
    """Classification with feature groups that are computed one after another, best value for money first.

    Learns an order of the groups and, for every prefix of it, a logistic (two classes) or softmax model (more),

        min_W  mean log loss + alpha/2 ‖W‖²    on standardised X, with an intercept that is not penalised.

    Parameters
    ----------
    feature_groups, costs, cost_sensitive, schedule, max_cost, max_groups, start, encoding
        As in :class:`AnytimeRegressor`.
    rule : {"fr", "score", "omp", "no-whiten", "single", "static"}
        "fr" refits the candidates that can win; "score" uses the gain of one Newton step; "omp" the whitened gradient
        (the paper's Algorithm 3), which is the fastest.
    alpha : float, "auto" or None
        Ridge constant: ``LogisticRegression`` would call it 1/(C·n), on standardised data. "auto" chooses the likeliest
        constant for the model of all groups, by the Laplace approximation of its likelihood. None is "auto" with an
        encoding, else 1e-5.
    min_gain : float
        Stop when no group would explain at least this additional fraction of the deviance, by one Newton step and after
        the correction.
    correction : float
        Choose groups by the gain that can be expected on new rows: subtract this multiple of d/n for d parameters,
        which is what noise alone would explain and cost (1 is AIC). 0 is the paper's choice by the training rows.
    class_weight : dict, "balanced" or None
    tol : float
        Largest entry of the gradient, in units of the deviation of the class indicators, at which a stage counts as
        fitted.

    Attributes
    ----------
    classes_ : array of shape (P,)
    feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, model_
        As in :class:`AnytimeRegressor`; for two classes the scores are log odds of the second one.
    alpha_ : float
        The ridge constant that ``alpha="auto"`` has chosen.
    n_passes_ : int
        Number of passes over a source.

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

    _parameter_constraints: ClassVar[Constraints] = {
        **BaseClassifier._parameter_constraints,
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
    ) -> Self:
        """Learn the sequence and the model of every prefix; arguments as in :meth:`AnytimeRegressor.fit`.

        A source is read in chunks, a few passes per stage, counted in ``n_passes_``. ``y`` are labels of any kind.

        Examples
        --------
        >>> from budgetline import AnytimeClassifier, open_source
        >>> from budgetline.datasets import load_heart
        >>> heart = load_heart()
        >>> model = AnytimeClassifier(heart.feature_groups, rule="score", alpha=1e-2)
        >>> model.fit(open_source((heart.data, heart.target), chunk_rows=100)).sequence_.groups[:3]
        ('cp', 'sex', 'age')
        """
        return self._fit(X, y, sample_weight, client, progress)


def warn_if_many(classes: Array) -> None:
    """Warn of more classes than people have in mind."""
    if classes.size > MOST_CLASSES:
        which = f"y has {classes.size} classes, such as {some(classes.tolist(), 2)}"
        advice = "each has coefficients of its own, which takes long; for numbers use AnytimeRegressor"
        warn(f"{which}: {advice}", UserWarning)


@cache
def family_of(n_classes: int) -> Family:
    """Return the family of a classifier; the same object every time, so that its matrices are made once."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)
