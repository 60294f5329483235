"""AnytimeClassifier and AnytimeClassifierCV."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from budgetline.estimators.base import Checked, SequenceEstimator
from budgetline.estimators.selection import check_alphas, choose_alpha, held_out_losses, mean_explained
from budgetline.estimators.streaming import forget, open_stream, refuse_once
from budgetline.generalised import fit_generalised, fit_generalised_source
from budgetline.inputs import check_known, check_labels
from budgetline.objectives.families import Family, Logistic, Softmax
from budgetline.plan import Plan
from budgetline.progress import Progress
from budgetline.staged import StagedModel
from budgetline.statistics.chunks import Rows
from budgetline.statistics.columns import standardised_columns
from budgetline.statistics.distributed import dask_source, is_dask
from budgetline.statistics.passes import ChunkLabels
from budgetline.statistics.sources import Source

Float = NDArray[np.float64]


class Classification(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Labels, probabilities and decisions: logistic for two classes, softmax for more."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SequenceEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    class_weight: Any
    tol: float

    def decision_function(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Return scores: log odds of the second class, or one score per class, softmax of which is the probability.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            Only the columns that the chosen model uses are read.
        budget : float, optional
            Use the longest prefix of the sequence that costs no more.
        stage : int, optional
            Use the first ``stage`` groups; 0 is the model of the class frequencies alone.
        available : collection of group names, optional
            Use exactly these groups. If they are a prefix of the sequence, the model fitted on them; otherwise the
            minimiser of a quadratic model of the risk around a fitted stage.

        Returns
        -------
        array of shape (n,) for two classes, (n, P) for more
        """
        return self._respond(self._scores(X, budget, stage, available), "decision_function")

    def predict_proba(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Return probabilities of the classes, shape (n, P); keywords as in :meth:`decision_function`."""
        return self._respond(self._scores(X, budget, stage, available), "predict_proba")

    def predict_log_proba(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> Float:
        """Return log probabilities of the classes, shape (n, P); keywords as in :meth:`decision_function`."""
        return self._respond(self._scores(X, budget, stage, available), "predict_log_proba")

    def predict(
        self,
        X: Any,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Collection[str] | None = None,
    ) -> NDArray[Any]:
        """Return the most probable class, shape (n,); keywords as in :meth:`decision_function`."""
        return self._respond(self._scores(X, budget, stage, available), "predict")

    def staged_decision_function(self, X: Any) -> Iterator[Float]:
        """Yield the scores after each group."""
        yield from (self._respond(scores, "decision_function") for scores in self._staged_scores(X))

    def staged_predict_proba(self, X: Any) -> Iterator[Float]:
        """Yield the probabilities after each group."""
        yield from (self._respond(scores, "predict_proba") for scores in self._staged_scores(X))

    def staged_predict_log_proba(self, X: Any) -> Iterator[Float]:
        """Yield the log probabilities after each group."""
        yield from (self._respond(scores, "predict_log_proba") for scores in self._staged_scores(X))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield the most probable classes after each group."""
        yield from (self._respond(scores, "predict") for scores in self._staged_scores(X))

    def _respond(self, scores: Float, method: str) -> NDArray[Any]:
        answers: dict[str, Callable[[Float], NDArray[Any]]] = {
            "decision_function": self._shaped,
            "predict_proba": self._probabilities,
            "predict_log_proba": _log_probabilities,
            "predict": self._labels,
        }
        return answers[method](scores)

    def _encoded(self, y: Any, n_samples: int) -> Float:
        labels = check_known(y, n_samples, self.classes_)
        return labels[:, None].astype(np.float64) if self.classes_.size == 2 else np.eye(self.classes_.size)[labels]

    def _probabilities(self, scores: Float) -> Float:
        return self._family.prediction(np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores)

    def _labels(self, scores: Float) -> NDArray[Any]:
        numbers = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[numbers])

    @property
    def _family(self) -> Family:
        check_is_fitted(self)
        return Logistic() if self.classes_.size == 2 else Softmax(self.classes_.size)

    def _target(self, y: Any, n_samples: int) -> tuple[Float, tuple[int, ...]]:
        classes, codes = check_labels(y, n_samples)
        if classes.size == 2:
            return codes[:, None].astype(np.float64), ()
        return np.eye(classes.size)[codes], (classes.size,)

    def _prepare(self, X: Any, y: Any, sample_weight: Any, alpha: float) -> tuple[Checked, NDArray[Any], Family]:
        """Check everything; fold the class weights into the sample weights."""
        data = self._check(X, y, sample_weight, alpha)
        classes, codes = check_labels(y, data.rows.n_rows)
        if isinstance(self.class_weight, dict):
            for label, value in self.class_weight.items():
                if not 0 <= value < np.inf:
                    raise ValueError(f"class_weight of class {label!r} must be finite and not negative, got {value!r}")
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, classes[codes])
            weight = by_class if data.rows.weight is None else by_class * data.rows.weight
            data = replace(data, rows=replace(data.rows, weight=weight))
        mass = np.bincount(codes, data.rows.weight, classes.size)
        if np.any(mass <= 0):
            raise ValueError(f"class {classes.tolist()[int(np.argmin(mass))]!r} has no sample of positive weight")
        return data, classes, Logistic() if classes.size == 2 else Softmax(classes.size)

    def _finish(self, model: StagedModel, data: Checked, classes: NDArray[Any]) -> None:
        self._keep(model, data.layout, data.names, data.target_shape)
        self.classes_ = classes


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
    sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, staged_model_
        As in :class:`AnytimeRegressor`; for two classes the scores are log odds of the second one.

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
        self._finish(fit_generalised(data.rows, data.plan, family, self.tol, data.used_names), data, classes)
        forget(self, "n_passes_")
        return self

    def fit_source(self, source: Source, *, client: Any = None, progress: Progress = None) -> Self:
        """Learn from data of any size, read in chunks: two to four passes per stage, counted in ``n_passes_``.

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
        stream, plan, layout = open_stream(self, source, self.alpha, client, progress)
        refuse_once(source)
        if source.target_shape:
            raise ValueError(f"a classifier needs one target, the source has {source.target_shape[0]}")
        if plan.rule == "fr":
            raise ValueError("rule='fr' refits every candidate, each a pass over the source: use rule='score' or 'omp'")
        labels = stream.total(ChunkLabels(), np.empty(0, dtype=np.intp)).classes()
        if self.class_weight is not None:
            raise ValueError("class_weight is not for sources: give the weights as a column")
        family: Family = Logistic() if labels.size == 2 else Softmax(labels.size)
        shape = () if labels.size == 2 else (labels.size,)
        evaluate = partial(stream.model_sums, family, labels)
        model = fit_generalised_source(evaluate, stream.moments(shape, labels), plan, family, self.tol)
        self._keep(model, layout, source.feature_names, shape)
        self.classes_, self.n_passes_ = labels, stream.passes
        return self


class AnytimeClassifierCV(Classification):
    """AnytimeClassifier with ``alpha`` chosen by cross-validation, over all budgets at once.

    The score of a fold is the mean over budgets, spread evenly up to the total cost, of the explained fraction of the
    held-out log loss, 1 − loss/loss(training frequencies).

    Parameters
    ----------
    feature_groups, costs, rule, cost_sensitive, schedule, max_cost, max_groups, min_gain, class_weight, tol
        As in :class:`AnytimeClassifier`.
    alphas : sequence of float
    cv : int, splitter, iterable or None
        As everywhere in scikit-learn; None is 5 stratified folds.
    one_standard_error : bool
        Take the largest ``alpha`` within one standard error of the best mean score.

    Attributes
    ----------
    alpha_ : float
    cv_scores_ : array of shape (n_alphas, n_folds)
    classes_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, staged_model_
        Of the model fitted on all data with ``alpha_``.

    Examples
    --------
    >>> from budgetline import AnytimeClassifierCV
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> search = AnytimeClassifierCV(heart.feature_groups, alphas=[1e-4, 1e-2, 1], rule="omp")
    >>> search.fit(heart.data, heart.target).alpha_
    0.01
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Classification._parameter_constraints,
        "alphas": ["array-like"],
        "cv": ["cv_object"],
        "one_standard_error": ["boolean"],
    }

    def __init__(
        self,
        feature_groups: Any = None,
        costs: Any = None,
        *,
        rule: str = "fr",
        cost_sensitive: bool = True,
        schedule: Any = "greedy",
        alphas: Any = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        cv: Any = None,
        one_standard_error: bool = False,
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
        self.alphas = alphas
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.max_cost = max_cost
        self.max_groups = max_groups
        self.min_gain = min_gain
        self.class_weight = class_weight
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose ``alpha`` and fit on all data.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        data, classes, family = self._prepare(X, y, sample_weight, alpha=0.0)
        rows = data.rows
        codes = rows.Y[:, 0].astype(np.intp) if rows.Y.shape[1] == 1 else rows.Y.argmax(axis=1)
        alphas = check_alphas(self.alphas)
        standardised_columns(rows, data.used_names)  # an X that is not finite is refused before any fold is fitted
        splits = list(check_cv(self.cv, codes, classifier=True).split(np.zeros((rows.n_rows, 1)), codes))
        for k, (train, _) in enumerate(splits):
            weight = None if rows.weight is None else rows.weight[train]
            mass = np.bincount(codes[train], weight, classes.size)
            if np.any(mass <= 0):
                missing = classes.tolist()[int(np.argmin(mass))]
                raise ValueError(f"class {missing!r} is missing in the training set of fold {k}; use fewer folds")
        plans = [replace(data.plan, alpha=float(a)) for a in alphas]
        scores = np.array([[self._held_out(rows, plan, family, *split) for split in splits] for plan in plans])
        best = choose_alpha(alphas, scores, self.one_standard_error)
        self._finish(fit_generalised(rows, plans[best], family, self.tol, data.used_names), data, classes)
        self.cv_scores_, self.alpha_ = scores, float(alphas[best])
        return self

    def _held_out(
        self, rows: Rows, plan: Plan, family: Family, train: NDArray[np.intp], test: NDArray[np.intp]
    ) -> float:
        """Fit on the rows ``train``; return the mean over budgets of the explained fraction on ``test``."""
        model = fit_generalised(rows.take(train), plan, family, self.tol)
        return mean_explained(plan, model.sequence, held_out_losses(model, family, rows.take(test)))


def _log_probabilities(scores: Float) -> Float:
    """Return log probabilities (n, P) from scores, one for two classes."""
    if scores.shape[1] == 1:
        return -np.logaddexp(0, np.hstack([scores, -scores]))
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
