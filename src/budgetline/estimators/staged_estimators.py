"""StagedEstimators: any scikit-learn estimator behind a budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import Tags, get_tags, metadata_routing
from sklearn.utils._param_validation import HasMethods

from budgetline.estimators.at_budget import ClassifiesAtBudget
from budgetline.estimators.base import Constraints
from budgetline.estimators.clones import TrainingRows, training_rows
from budgetline.estimators.stage_choice import Order, chosen_stages, given_order, is_model, learned_order
from budgetline.groups import FeatureGroups
from budgetline.model.anytime import AnytimeModel
from budgetline.model.prefixes import PrefixModels
from budgetline.progress import Progress
from budgetline.sequencing.sequence import GroupSequence


@dataclass(eq=False, repr=False)
class StagedEstimators(ClassifiesAtBudget, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn estimator at any budget: one clone per prefix of an order, fitted on the columns bought so far.

    The clones are fitted on the raw columns of the groups, in the order in which the columns appear in X. Data frames
    stay data frames, with their types and categories, and arrays stay arrays. Stage 0, before any group is bought,
    predicts the mean of y or the class frequencies.

    Parameters
    ----------
    estimator : estimator
        The classifier or regressor to clone, such as gradient boosting, a pipeline, or an estimator of this library.
    order : estimator, fitted model, GroupSequence, FixedOrder, or list of group names
        The order in which to buy the groups. A fitted estimator of this library, including another
        ``StagedEstimators``, is used as it is. An unfitted estimator is cloned and fitted first. In cross-validation,
        every fold learns its own order, because cloning a fitted estimator yields an unfitted one. To use the same
        order in all folds, pass ``order.model_``.
    stages : None, int or iterable of budgets
        The prefixes for which a clone is fitted. For any other prefix, the clone of the next shorter
        fitted prefix is used.

        - If None, a clone is fitted for every prefix.
        - If an int, clones are fitted for this many prefixes, including the whole order. The square roots of the costs
          of these prefixes are spread as evenly as possible, so that there are more clones for small budgets, where the
          gains are largest.
        - If an iterable of budgets, a clone is fitted for the longest prefix that each budget can pay for. Nothing is
          bought beyond the largest budget.
    feature_groups
        As in ``AnytimeRegressor``. Pass it only if ``order`` is a list, because a model already has its groups.
    costs
        As in ``AnytimeRegressor``. Pass it only if ``order`` is a list.
    n_jobs : int, optional
        Number of clones to fit in parallel, as in scikit-learn.

    Attributes
    ----------
    estimators_ : tuple of estimators
        The fitted clones.
    stages_ : tuple of int
        The number of groups that each clone uses.
    sequence_ : GroupSequence
        The order of the groups, up to the last group that any clone uses. The gains come from the model that learned
        the order, or are NaN if ``order`` is a list.
    order_estimator_ : estimator
        The clone of ``order`` that learned the order. Available only if ``order`` was an unfitted estimator.
    feature_groups_ : FeatureGroups
        The groups, with their costs.
    classes_ : array of shape (n_classes,)
        The class labels. Available only for classifiers.
    n_features_in_, feature_names_in_
        The number and the names of the columns seen during ``fit``, as in scikit-learn.
    model_ : PrefixModels
        The fitted model, from which the other attributes are taken.

    Notes
    -----
    The linear models of this library can predict from any set of groups and support certificates. ``StagedEstimators``
    predicts only from prefixes of the order: with ``available``, it uses the longest prefix whose groups are all
    available.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from budgetline import AnytimeClassifier, StagedEstimators
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    >>> order = AnytimeClassifier(heart.feature_groups, alpha=1e-2)
    >>> model = StagedEstimators(tree, order, stages=[2, 20, 100]).fit(heart.data, heart.target)
    >>> model.stages_, model.sequence_.groups[:2]
    ((2, 4, 5), ('cp', 'sex'))
    >>> model.predict(heart.data[:3], budget=20).tolist()
    [0, 1, 1]
    """

    estimator: object
    order: object
    stages: object = None
    feature_groups: object = None
    costs: object = None
    n_jobs: int | None = None

    model_: PrefixModels = field(init=False)
    estimators_: tuple[object, ...] = field(init=False)

    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "order": [HasMethods("fit"), AnytimeModel, PrefixModels, GroupSequence, HasMethods("positions"), "array-like"],
        "stages": [None, Integral, "array-like", HasMethods("__iter__")],
        "feature_groups": [FeatureGroups, dict, "array-like", None],
        "costs": [dict, "array-like", None],
        "n_jobs": [Integral, None],
    }
    __metadata_request__fit: ClassVar = {"progress": metadata_routing.UNUSED}

    def fit(self, X: object, y: object, sample_weight: object = None, *, progress: Progress = None) -> Self:
        """Determine the order of the groups, and fit one clone per prefix.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The training data. If they contain missing values or text, ``estimator`` and ``order`` must both support
            them.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target values. Several targets are possible only if the regressor supports them.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights, for estimators that accept them. In a pipeline, they are passed to the last step.
        progress : bool, None or "lines"
            As in ``cross_val_budget_curve``. The progress bar counts clones.
        """
        self._validate_params()
        rows = training_rows(self.estimator, X, y, sample_weight, owner=self)
        model, order = self._learned(X, y, rows, progress)
        self._adopt(model)
        if order is not None:
            self.order_estimator_ = order
        return self

    @classmethod
    def from_model(cls, model: PrefixModels) -> Self:
        """Return a fitted estimator that wraps ``model`` and has the parameters that the model was fitted with."""
        found = cls(**model.settings)  # type: ignore[arg-type]
        found._validate_params()
        found._adopt(model)
        return found

    def _offers(self, method: str) -> bool:
        getattr(self.estimators_[-1] if hasattr(self, "estimators_") else self.estimator, method)
        return True

    def _learned(self, X: object, y: object, rows: TrainingRows, progress: Progress) -> tuple[PrefixModels, object]:
        """Return the fitted model, and the estimator that learned the order, if one was fitted."""
        found = self._order(X, rows)
        layout = found.groups.resolve(rows.names, rows.n_features)
        ends = chosen_stages(self.stages, found.sequence)
        sequence = _cut(found.sequence, ends[-1])
        columns = [layout.columns_of(sequence.order[:end]) for end in ends]
        fitted = rows.clones(self.estimator, columns, self.n_jobs, progress)
        about = (rows.target_shape, rows.classes, rows.table.empty, type(self).__name__, self.get_params(deep=False))
        return PrefixModels(layout, sequence, ends, fitted, rows.null(), *about), found.learned

    def _order(self, X: object, rows: TrainingRows) -> Order:
        if not is_model(self.order):
            return given_order(self.order, self.feature_groups, self.costs, rows.names, rows.n_features)
        for name in ("feature_groups", "costs"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is for an order that is a list of groups: the model of the order has its own")
        return learned_order(self.order, X, rows)

    def _adopt(self, model: PrefixModels) -> None:
        """Keep a model, copy it into the attributes that users read, and remove those of an earlier fit."""
        for name in ("feature_names_in_", "classes_", "order_estimator_"):
            if name in vars(self):
                delattr(self, name)
        self.model_, self.estimators_, self.stages_ = model, model.fitted, model.ends
        self.sequence_, self.feature_groups_ = model.sequence, model.groups
        self.n_features_in_ = model.layout.n_features
        if model.layout.names is not None:
            self.feature_names_in_ = np.asarray(model.layout.names, dtype=object)
        if model.classes is not None:
            self.classes_ = model.classes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        own, order = get_tags(self.estimator), get_tags(self.order) if hasattr(self.order, "fit") else None
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        tags.target_tags, tags.non_deterministic = own.target_tags, own.non_deterministic
        if own.estimator_type == "classifier":
            tags.target_tags.multi_output = False
            if tags.classifier_tags is not None:
                tags.classifier_tags.multi_label = False
        for name in ("sparse", "allow_nan", "categorical", "string"):
            both = getattr(own.input_tags, name) and (order is None or getattr(order.input_tags, name))
            setattr(tags.input_tags, name, both)
        return tags


def _cut(sequence: GroupSequence, stage: int) -> GroupSequence:
    """Return the first steps of a sequence."""
    parts = (sequence.order[:stage], sequence.groups[:stage], sequence.costs[:stage], sequence.gains[:stage])
    return GroupSequence(*parts, sequence.null_value)
