"""AnytimeClassifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from budgetline.arrays import Array, Mask
from budgetline.devices import like
from budgetline.estimators.at_budget import ClassifiesAtBudget
from budgetline.estimators.base import NO_METADATA, AnytimeEstimator, HasAlpha
from budgetline.estimators.reading import CheckedTarget
from budgetline.fitting import Task
from budgetline.glm.families import Family, Logistic, Softmax
from budgetline.inputs import MOST_CLASSES, check_labels, check_number, check_weight
from budgetline.messages import shown, some, warn
from budgetline.model.anytime import AnytimeModel
from budgetline.model.intervals import predict_set
from budgetline.model.staged import Available, indicators
from budgetline.moments.passes import Passes, labels_of


@dataclass(eq=False, repr=False, kw_only=True)
class BaseClassifier(ClassifiesAtBudget, ClassifierMixin, AnytimeEstimator):  # type: ignore[misc]
    """What AnytimeClassifier and AnytimeClassifierCV share."""

    class_weight: Mapping[Any, float] | str | None = None
    tol: float = 1e-10

    model_: AnytimeModel = field(init=False)
    classes_: Array = field(init=False)

    _parameter_constraints = AnytimeEstimator._parameter_constraints | {
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }
    __metadata_request__fit: ClassVar = NO_METADATA

    def predict_set(
        self,
        X: object,
        coverage: float = 0.9,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> Mask:
        """Return a mask of shape (n_samples, n_classes): the classes in the prediction set of each row.

        A set contains the true class with probability ``coverage``. The method is available only for an
        ``AnytimeClassifierCV`` that was fitted to data in memory, because the sets are based on its held-out errors. A
        set consists of all classes whose probability exceeds a threshold, which is the same for all rows at a stage. If
        a set contains several classes, the row could belong to any of them. If it is empty, the row does not clearly
        resemble any class. If there are only a few distinct probabilities, for example after a single binary group, the
        coverage of the sets is higher than requested.

        Coverage is an average over all rows. For rows of a rare class, the sets may contain the true class far less
        often. If these rows matter as much as the others, fit the model with ``class_weight="balanced"``.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The input samples.
        coverage : float in (0, 1)
            Share of new rows whose set should contain the true class.
        budget, stage
            As in ``predict``.
        available
            As in ``predict``. For groups that are not a prefix, see ``AnytimeRegressorCV.predict_interval``.
        """
        check_is_fitted(self)
        return like(X, predict_set(self.model_, X, coverage, budget, stage, available))

    def _target(self, y: object, sample_weight: object, n_rows: int) -> CheckedTarget:
        classes, codes = check_labels(y, n_rows)
        weight = check_weight(sample_weight, n_rows)
        if isinstance(self.class_weight, dict):
            for label, value in self.class_weight.items():
                check_number(f"class_weight of class {shown(label)}", value, ge=0, finite=True)
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, classes[codes])
            weight = by_class if weight is None else by_class * weight
        mass = np.bincount(codes, weight, classes.size)
        if np.any(mass <= 0):
            raise ValueError(f"class {shown(classes.tolist()[int(np.argmin(mass))])} has no sample of positive weight")
        return self._task(classes), indicators(codes, classes.size), weight

    def _check_source(self, passes: Passes) -> None:
        super()._check_source(passes)
        if self.class_weight is not None:
            raise ValueError("class_weight cannot be used with a source: pass the weights as a column")
        if shape := passes.source.target_shape:
            raise ValueError(f"a classifier needs one target, as a vector; the source has a matrix of {shape[0]}")

    def _source_task(self, passes: Passes) -> Task:
        return self._task(passes.total(labels_of, np.empty(0, dtype=np.intp)).classes())

    def _task(self, classes: Array) -> Task:
        """Return what is learned about classes; warn of more than people have in mind."""
        if classes.size > MOST_CLASSES:
            which = f"y has {classes.size} classes, such as {some(classes.tolist(), 2)}"
            why = "each has coefficients of its own, which takes long"
            warn(f"{which}: {why}; for numbers use AnytimeRegressor (--task regression)", UserWarning)
        return Task(family_of(classes.size), self.tol, () if classes.size == 2 else (classes.size,), classes)


@dataclass(eq=False, repr=False, kw_only=True)
class AnytimeClassifier(BaseClassifier, HasAlpha):
    """Classification with feature groups that are computed one after another, best value for money first.

    The estimator learns an order of the groups. For every prefix of this order, it fits a logistic model (two classes)
    or a softmax model (more than two classes) by solving

        min_W  mean log loss + alpha/2 ‖W‖²    on standardised X, with an intercept that is not penalised.

    Parameters
    ----------
    feature_groups, costs, cost_sensitive, schedule, max_cost, max_groups, start, encoding
        As in ``AnytimeRegressor``.
    rule : {"forward", "score", "omp", "no-whiten", "single", "static"}
        How the merit of a group is measured. "forward" refits the model with each candidate that could still be the
        best. "score" uses the gain of one Newton step. "omp" uses the whitened gradient (the paper's Algorithm 3) and
        is the fastest. The other rules are for comparison.
    alpha : float, "auto" or None
        As in ``AnytimeRegressor``. For classifiers, ``alpha`` corresponds to ``C = 1 / (alpha · n)`` in
        ``LogisticRegression`` on standardised data with n rows.
    correction : float
        As in ``AnytimeRegressor``.
    min_gain : float
        Minimum additional fraction of the deviance that a group must explain, after the correction is subtracted.
        Learning stops when no group reaches this fraction, which is estimated from one Newton step.
    class_weight : dict, "balanced" or None
        Class weights. "balanced" gives all classes the same total weight.
    tol : float
        Tolerance for convergence. A stage has converged when no entry of the gradient exceeds ``tol``, in units of the
        standard deviation of the class indicators.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels, in sorted order.
    coef_path_
        As in ``AnytimeRegressor``. For two classes, the linear score is the log odds of the second class.
    feature_groups_, sequence_, order_, intercept_path_, coef_, intercept_, alpha_, n_passes_, model_
        As in ``AnytimeRegressor``.

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

    _parameter_constraints = BaseClassifier._parameter_constraints | HasAlpha._parameter_constraints


@cache
def family_of(n_classes: int) -> Family:
    """Return the family of a classifier; the same object every time, so that its matrices are made once."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)
