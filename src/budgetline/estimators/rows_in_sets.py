"""Estimators whose losses are over sets of rows: AnytimeRanker and AnytimeSurvival, and their searches."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted

from budgetline.arrays import Array, Float, Positions
from budgetline.data.sources import Source
from budgetline.estimators.at_budget import PredictsAtBudget
from budgetline.estimators.base import AnytimeEstimator, HasAlpha
from budgetline.estimators.cross_validation import HasSearch
from budgetline.estimators.reading import CheckedTarget
from budgetline.evaluation.rankings import ndcg_score
from budgetline.evaluation.survival import concordance, has_baseline, survival_function
from budgetline.fitting import Task
from budgetline.glm.set_families import Cox, Listwise, SetFamily
from budgetline.inputs import check_grades, check_queries, check_survival, check_weight
from budgetline.messages import hold_warnings, shown, warn
from budgetline.model.anytime import AnytimeModel
from budgetline.model.staged import Available
from budgetline.moments.passes import Passes


@dataclass(eq=False, repr=False, kw_only=True)
class SetsEstimator(PredictsAtBudget, AnytimeEstimator):
    """What estimators with losses over sets share. Their targets are pairs: values, and queries or strata."""

    tol: float = 1e-10

    model_: AnytimeModel = field(init=False)

    _ordered: ClassVar[str]
    _parameter_constraints = AnytimeEstimator._parameter_constraints | {
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def family(self) -> SetFamily:
        """Return the loss."""
        raise NotImplementedError

    def _learn_sets(self, X: object, y: object, of: object, sample_weight: object, groups: object) -> Self:
        """Learn from values y of rows and ``of``, their queries or strata; warn only once of endless coefficients."""
        with hold_warnings() as held:
            self._fit(X, None if y is None else (y, of), sample_weight, None, None, groups)
        for text, category in held:
            if category is not ConvergenceWarning:
                warn(text, category)
        if ConvergenceWarning in {category for _, category in held}:
            what = f"scores may order all {self._ordered}, so that coefficients grow almost without end"
            warn(f"{what}: raise alpha", ConvergenceWarning)
        return self

    def _training_data(self, X: object, y: object, sample_weight: object) -> None:
        if X is not None or y is not None or sample_weight is not None:
            name = type(self).__name__
            raise TypeError(f"plans of {name} are not refitted: fit {name}(schedule=FixedOrder(plan.groups))")

    def _check_source(self, passes: Passes) -> None:
        raise TypeError(f"{type(self).__name__} learns from rows in memory: rows at risk are in all chunks")

    def _target(self, y: object, sample_weight: object, n_rows: int) -> CheckedTarget:
        assert isinstance(y, tuple)
        values, of = y
        weight, family = check_weight(sample_weight, n_rows), self.family()
        return Task(family, self.tol), family.encode(values, of, n_rows, weight), weight


@dataclass(eq=False, repr=False, kw_only=True)
class BaseRanker(SetsEstimator):
    """What AnytimeRanker and AnytimeRankerCV share."""

    _ordered: ClassVar = "documents as their grades do"

    def fit(  # type: ignore[override]
        self, X: object, y: object = None, sample_weight: object = None, *, qid: object = None, group: object = None
    ) -> Self:
        """Learn the order of the groups, and fit a ranking model for every prefix of this order.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Source
            A table of shape (n_samples, n_features) with one row per document, or a source that was opened with
            ``qid``. Fitting to a source requires ``rule="score"`` or ``rule="omp"`` and is not available for
            ``AnytimeRankerCV``. If a query lies in several chunks, an error is raised.
        y : array-like of shape (n_samples,)
            Non-negative relevance grades. The gain of a grade is 2^grade − 1. Queries without a relevant document carry
            no information about the order.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the queries. All documents of a query must have the same weight.
        qid : array-like of shape (n_samples,)
            Query identifier of each row. The rows can be in any order.
        group : array-like of int, optional
            Number of rows in each query, as an alternative to ``qid``. In this case, the rows of each query must be
            adjacent.
        """
        if isinstance(X, Source) and (qid is not None or group is not None):
            raise ValueError("a source holds its own queries: open it with qid, and pass neither qid nor group")
        queries = qid if group is None else _queries_of(qid, group, y)
        return self._learn_sets(X, y, queries, sample_weight, queries)

    def _check_source(self, passes: Passes) -> None:
        AnytimeEstimator._check_source(self, passes)
        if self._n_folds() is not None:
            raise TypeError(f"{type(self).__name__} searches on rows in memory: use AnytimeRanker for a source")

    def _source_task(self, passes: Passes) -> Task:
        return Task(self.family(), self.tol)

    def score(  # type: ignore[override]
        self,
        X: object,
        y: object,
        sample_weight: None = None,
        *,
        qid: object = None,
        k: int | None = 10,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> float:
        """Return the NDCG at ``k``, averaged over queries; keywords as in ``predict``.

        ``y`` contains the grades, and ``qid`` the query of each row. ``sample_weight`` must be None.
        """
        if sample_weight is not None:
            raise ValueError("NDCG accepts no sample_weight: it is a mean over queries")
        scores: Array = self.predict(X, budget=budget, stage=stage, available=available)
        return ndcg_score(check_grades(y, len(scores)), scores, check_queries(qid, len(scores)), k=k)

    def family(self) -> SetFamily:
        """Return the loss, a softmax loss within queries."""
        return Listwise()


def _queries_of(qid: object, group: object, y: object) -> Positions:
    """Return the query of every row, from numbers of rows."""
    if qid is not None:
        raise ValueError("qid and group say the same: pass one of them")
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or np.any(sizes < 1):
        raise ValueError(f"group must be numbers of rows ≥ 1, got {shown(group)}")
    if y is not None and (total := int(sizes.sum())) != (n_rows := _num_samples(y)):
        raise ValueError(f"group must be numbers of rows that add up to {n_rows}, these add up to {total}")
    return np.repeat(np.arange(sizes.size), sizes)


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeRanker(BaseRanker, HasAlpha):
    """Ranking of documents within queries, with feature groups that are computed one after another.

    The estimator learns an order of the groups. For every prefix of this order, it fits a linear score that minimises a
    softmax loss within queries,

        min_w  mean over queries of [log Σ_i exp(w'x_i) − Σ_i p_i w'x_i] + ridge,   p_i ∝ 2^grade − 1,

    which is a convex surrogate for NDCG. ``predict`` returns scores; within a query, the document with the highest
    score ranks first. The loss is divided by the number of documents, so that ``alpha`` does not depend on the number
    of queries.

    Parameters
    ----------
    feature_groups, costs, cost_sensitive, schedule, max_cost, max_groups, start, encoding
        As in ``AnytimeRegressor``.
    rule : {"forward", "score", "omp", "no-whiten", "single", "static"}
        As in ``AnytimeClassifier``. Gradients are whitened with the covariance within queries.
    min_gain
        As in ``AnytimeClassifier``.
    alpha : float, "auto" or None
        Ridge constant, on standardised data. "auto" estimates the constant for the model with all groups, using the
        Laplace approximation to the restricted likelihood. None means "auto" if there is an encoding, and 1e-5
        otherwise.
    correction : float
        Multiple of the expected overfitting that is subtracted from every gain on the training rows before groups are
        chosen. The expected overfitting has two parts: the apparent gain from fitting noise in the training rows, and
        the additional loss that this fitted noise causes on new rows.
    tol : float
        Tolerance for convergence. A stage has converged when no entry of the gradient exceeds ``tol``. ``tol`` is
        measured in units of the standard deviation of the loss derivatives with respect to the scores, before any group
        is bought.

    Attributes
    ----------
    intercept_path_
        As in ``AnytimeRegressor``. The intercepts make the mean score zero and do not change the ranking.
    feature_groups_, sequence_, order_, coef_path_, coef_, intercept_, alpha_, model_
        As in ``AnytimeRegressor``.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    >>> grades = (X[:, 1] + rng.normal(size=200) > 1).astype(int)
    >>> model = AnytimeRanker(costs=[1, 2, 5]).fit(X, grades, qid=qid)
    >>> model.sequence_.groups[0], round(model.score(X, grades, qid=qid, k=5, budget=2), 2)
    ('1', 0.76)
    """

    _parameter_constraints = BaseRanker._parameter_constraints | HasAlpha._parameter_constraints


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeRankerCV(BaseRanker, HasSearch):  # type: ignore[misc]
    """AnytimeRanker with ``alpha`` and ``correction`` chosen by cross-validation over queries and over all budgets.

    Queries are never split across folds: an error is raised if ``cv`` would split one. Parameters and attributes as in
    ``AnytimeRanker`` and ``AnytimeRegressorCV``.

    Attributes
    ----------
    alpha_
        As in ``AnytimeRegressorCV``.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRankerCV
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    >>> grades = (X[:, 1] + rng.normal(size=200) > 1).astype(int)
    >>> AnytimeRankerCV(costs=[1, 2, 5]).fit(X, grades, qid=qid).sequence_.groups[0]
    '1'
    """

    alphas: ArrayLike = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)

    _parameter_constraints = BaseRanker._parameter_constraints | HasSearch._parameter_constraints
    _plain: ClassVar = AnytimeRanker


@dataclass(eq=False, repr=False, kw_only=True)
class BaseSurvival(SetsEstimator):
    """What AnytimeSurvival and AnytimeSurvivalCV share."""

    ties: str = "efron"

    _ordered: ClassVar = "events as their times do"
    _parameter_constraints = SetsEstimator._parameter_constraints | {"ties": [StrOptions({"efron", "breslow"})]}

    def fit(  # type: ignore[override]
        self,
        X: object,
        time: object = None,
        event: object = None,
        sample_weight: object = None,
        *,
        strata: object = None,
    ) -> Self:
        """Learn the order of the groups, and fit a risk score for every prefix of this order.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The training data, held in memory.
        time : array-like of shape (n_samples,)
            Non-negative times of events or censoring. If ``event`` is not passed, this must be a structured array with
            one field of event indicators and one field of times, as in scikit-survival.
        event : array-like of shape (n_samples,), optional
            Whether the event occurred at ``time``. If not, the row is censored at that time.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights.
        strata : array-like of shape (n_samples,), optional
            Strata of the rows. Rows are compared only within the same stratum.
        """
        y = time if event is None else (time, event)
        return self._learn_sets(X, y, strata, sample_weight, None)

    def predict_survival_function(
        self,
        X: object,
        times: ArrayLike | None = None,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> Float:
        """Return the probability that no event has occurred by each time, of shape (n_samples, n_times).

        The baseline hazard is Breslow's estimate for the last stage that the budget pays for. If the ``available``
        groups are not a prefix, it is the estimate for the last stage whose gain does not exceed the gain of these
        groups.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The input samples.
        times : float or array-like of shape (n_times,), optional
            Times at which to evaluate the function. By default, these are the ``event_times_``. If there are T > 500
            event times, only the 500 at positions ``np.linspace(0, T - 1, 500).round()`` are used.
        budget, stage, available : optional
            As in ``predict``.
        """
        check_is_fitted(self)
        return survival_function(self.model_, X, times, budget=budget, stage=stage, available=available)

    def score(  # type: ignore[override]
        self,
        X: object,
        y: object,
        sample_weight: None = None,
        *,
        strata: ArrayLike | None = None,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> float:
        """Return Harrell's concordance index, within ``strata`` if they are passed; keywords as in ``predict``.

        ``y`` is a pair (time, event) or a structured array, and ``sample_weight`` must be None.
        """
        if sample_weight is not None:
            what = "concordance accepts no sample_weight: it is a share of pairs of rows"
            raise ValueError(f"{what}. Times and events are one argument, score(X, (time, event))")
        scores: Array = self.predict(X, budget=budget, stage=stage, available=available)
        if strata is None and not has_baseline(self.model_):
            raise ValueError(f"this {type(self).__name__} was fitted with strata: pass those of these rows, strata=…")
        return concordance(*check_survival(y, len(scores)), scores, strata)

    def family(self) -> SetFamily:
        """Return the loss, which is based on Cox's partial likelihood."""
        return Cox(self.ties == "efron")


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeSurvival(BaseSurvival, HasAlpha):
    """Cox's proportional hazards model for survival times, with feature groups that are computed one after another.

    The estimator learns an order of the groups. For every prefix of this order, it fits a linear log hazard by
    maximising the partial likelihood, with a ridge penalty. ``predict`` returns risk scores: a higher score means that
    an event is expected earlier. A row whose columns all equal their training means has a score of 0.

    Parameters
    ----------
    feature_groups, costs, cost_sensitive, schedule, max_cost, max_groups, start, encoding
        As in ``AnytimeRegressor``.
    rule : {"forward", "score", "omp", "no-whiten", "single", "static"}
        As in ``AnytimeClassifier``. Gradients are whitened with the covariance within risk sets.
    min_gain, alpha, correction, tol
        As in ``AnytimeRanker``.
    ties : {"efron", "breslow"}
        The method for handling tied event times.

    Attributes
    ----------
    feature_groups_, sequence_, order_, coef_path_, intercept_path_, coef_, intercept_, alpha_, model_
        As in ``AnytimeRanker``.
    event_times_, cumulative_hazards_ : arrays of shape (n_times,) and (1 + n_stages, n_times)
        The event times, and Breslow's estimate of the cumulative baseline hazard of every stage at these times.
        Available only if the model was fitted without strata. If there are more than 5,000 event times, a time is kept
        only if the hazard of at least one stage has risen by at least 0.1 % since the last time that was kept.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> died, left = rng.exponential(np.exp(-X[:, 1])), rng.exponential(2.0, size=300)
    >>> model = AnytimeSurvival(costs=[1, 2, 5]).fit(X, np.minimum(died, left), died <= left)
    >>> model.sequence_.groups[0], model.predict_survival_function(X[:2], [0.5, 1.0], budget=2).round(2).tolist()
    ('1', [[0.67, 0.41], [0.77, 0.56]])
    """

    _parameter_constraints = BaseSurvival._parameter_constraints | HasAlpha._parameter_constraints


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeSurvivalCV(BaseSurvival, HasSearch):
    """AnytimeSurvival with ``alpha`` and ``correction`` chosen by cross-validation over all budgets.

    If ``cv`` is an integer or None, events are spread evenly over the folds. Parameters and attributes as in
    ``AnytimeSurvival`` and ``AnytimeRegressorCV``.

    Attributes
    ----------
    alpha_
        As in ``AnytimeRegressorCV``.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeSurvivalCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> died, left = rng.exponential(np.exp(-X[:, 1])), rng.exponential(2.0, size=300)
    >>> AnytimeSurvivalCV(costs=[1, 2, 5]).fit(X, np.minimum(died, left), died <= left).sequence_.groups[0]
    '1'
    """

    alphas: ArrayLike = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)

    _parameter_constraints = BaseSurvival._parameter_constraints | HasSearch._parameter_constraints
    _plain: ClassVar = AnytimeSurvival

    def fit(  # type: ignore[override]
        self,
        X: object,
        time: object = None,
        event: object = None,
        sample_weight: object = None,
        *,
        strata: object = None,
        groups: object = None,
    ) -> Self:
        """Choose settings by cross-validation, then refit on all rows; other arguments as in ``AnytimeSurvival.fit``.

        Parameters
        ----------
        groups : array-like of shape (n_samples,), optional
            Group labels of the rows (not feature groups), such as patient identifiers. If ``cv`` is an integer or None,
            rows with the same label are kept in the same fold.
        """
        return self._learn_sets(X, time if event is None else (time, event), strata, sample_weight, groups)
