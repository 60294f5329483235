"""StagedEstimators: any scikit-learn estimator behind a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import ClassVar, Self

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags, get_tags, metadata_routing
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from budgetline.arrays import Array, Float
from budgetline.data.sources import Source
from budgetline.devices import like, on_host
from budgetline.estimators.base import Constraints
from budgetline.estimators.stage_choice import Order, chosen_stages, given_order, is_listed, learned_order
from budgetline.groups import FeatureGroups
from budgetline.inputs import check_labels, check_table, check_target, check_weight, column_names
from budgetline.model.anytime import AnytimeModel
from budgetline.model.prefixes import PrefixModels, PrefixTable, prefix_columns
from budgetline.model.staged import Available
from budgetline.progress import Progress, counted
from budgetline.sequencing.sequence import GroupSequence


def _estimator_has(method: str) -> Callable[[StagedEstimators], bool]:
    """Return a check whether the estimator has a method, as scikit-learn's meta-estimators have it."""

    def has(self: StagedEstimators) -> bool:
        getattr(self.estimators_[-1] if hasattr(self, "estimators_") else self.estimator, method)
        return True

    return has


@dataclass(eq=False, repr=False)
class StagedEstimators(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Estimators of any kind behind a budget: one clone per prefix of an order, on the columns bought so far.

    The clones see the raw columns of the groups, in the order of the table: a data frame stays a frame, with its types
    and categories, an array stays an array. Stage 0, which has bought nothing, is the mean or the class frequencies.

    Parameters
    ----------
    estimator : estimator
        A classifier or a regressor: gradient boosting, a pipeline, an estimator of this library, …. It is cloned.
    order : estimator, AnytimeModel, GroupSequence, FixedOrder, or list of group names
        What to buy in which order. A fitted estimator of this library is used as it is; one that is not fitted is
        cloned and fitted first. Clones of a fitted estimator are not fitted, so that every fold of a cross-validation
        learns its own order; ``order.model_`` is the same in all folds.
    stages : None, int, "auto" or iterable of budgets
        Which prefixes get a clone; the others are answered by the longest of these inside them.

        - None: all.
        - int: so many, the whole order among them. The square roots of their costs are spread as evenly as the groups
          allow: small budgets, where most is gained, get more of them.
        - budgets: what each of them can pay for. Nothing is bought beyond the largest.
        - "auto": those that explain at least 1 % more, of all that the order explains on its training data, than the
          last one chosen, and the whole order.
    feature_groups, costs
        As in :class:`AnytimeRegressor`, for an order that is a list; a model has its own.
    n_jobs : int, optional
        How many clones are fitted at once, as everywhere in scikit-learn.

    Attributes
    ----------
    estimators_ : tuple of estimators
        The fitted clones.
    stages_ : tuple of int
        How many groups each of them has bought.
    sequence_ : GroupSequence
        The order, up to the last clone. Gains are those of the model that learned it, NaN for a list.
    order_ : estimator
        The clone of ``order`` that learned it, if one was fitted.
    feature_groups_ : FeatureGroups
    classes_ : array of shape (P,)
        For classifiers.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    model_ : PrefixModels
        The record that all of this is in.

    Notes
    -----
    A linear model answers for any set of groups, comes with certificates, and in microseconds; this one answers for
    prefixes. ``available`` is answered by the longest prefix inside it.

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
        "order": [HasMethods("fit"), AnytimeModel, GroupSequence, HasMethods("positions"), "array-like"],
        "stages": [None, Integral, str, "array-like", HasMethods("__iter__")],
        "feature_groups": [FeatureGroups, dict, "array-like", None],
        "costs": [dict, "array-like", None],
        "n_jobs": [Integral, None],
    }
    __metadata_request__fit: ClassVar = {"progress": metadata_routing.UNUSED}

    def fit(self, X: object, y: object, sample_weight: object = None, *, progress: Progress = None) -> Self:
        """Find the order and fit one clone per prefix.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
            Missing values and text are the estimator's business, and that of the order.
        y : array of shape (n,), or (n, P) for regressors that take several targets
        sample_weight : array of shape (n,), optional
            For estimators that take weights; of a pipeline, for its last step.
        progress : bool, None or "lines"
            As in :func:`cross_val_budget_curve`, counting clones.
        """
        self._validate_params()
        if isinstance(X, Source):
            raise TypeError("X must be a table in memory, not a Source")
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        table, names = check_table(X, estimator=self), column_names(X)
        n, D = table.shape
        weight = check_weight(sample_weight, n)
        target, classes, shape = self._target(y, n)
        found = self._order(X, target, weight, names, D)
        layout = found.groups.resolve(names, D)
        ends = chosen_stages(self.stages, found.sequence)
        sequence = _cut(found.sequence, ends[-1])
        empty = table.head(0) if isinstance(table, nw.DataFrame) else None
        seen = PrefixTable(table, np.arange(D), names, empty)
        weights = self._weights(weight)
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(_fitted)(clone(self.estimator), seen.take(prefix_columns(layout, sequence, end)), target, weights)
            for end in counted(ends, progress, "clones")
        )
        null = DummyRegressor() if classes is None else DummyClassifier()
        null.fit(np.zeros((n, 1)), target, sample_weight=weight)
        about = (shape, classes, empty, type(self).__name__, self.get_params(deep=False))
        self._adopt(PrefixModels(layout, sequence, ends, tuple(fitted), null, *about), found.learned)
        return self

    @classmethod
    def from_model(cls, model: PrefixModels) -> Self:
        """Return a fitted estimator that holds a model, with the settings that the model was learned with."""
        found = cls(**model.settings)  # type: ignore[arg-type]
        found._validate_params()
        found._adopt(model, None)
        return found

    def predict(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Array:
        """Predict with the last clone, or with what a budget, a stage or the available groups allow.

        Only the columns of the groups that the chosen clone has bought are read: the others may be NaN, or missing from
        a data frame. Columns of a frame are found by their names, in any order; arrays have the columns of ``fit``.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n, D)
        budget : float, optional
            Use the longest prefix of the sequence that costs no more and has a clone.
        stage : int, optional
            Use the longest prefix of at most so many groups that has a clone; 0 is the mean or the class frequencies.
        available : collection of group names, optional
            Use the longest prefix inside these groups that has a clone.

        Returns
        -------
        array of shape (n,) or (n, P)
        """
        return self._answer("predict", X, budget, stage, available)

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return probabilities of the classes, shape (n, P); keywords as in :meth:`predict`."""
        return self._answer("predict_proba", X, budget, stage, available)

    @available_if(_estimator_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return log probabilities of the classes, shape (n, P); keywords as in :meth:`predict`."""
        return self._answer("predict_log_proba", X, budget, stage, available)

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return the scores of the estimator; keywords as in :meth:`predict`. Stage 0 has the log odds of classes."""
        return self._answer("decision_function", X, budget, stage, available)

    def staged_predict(self, X: object) -> Iterator[Array]:
        """Yield the predictions after each group; those of stages without a clone are the ones before."""
        return self._staged("predict", X)

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def staged_predict_proba(self, X: object) -> Iterator[Float]:
        """Yield the probabilities after each group, as :meth:`staged_predict` does."""
        return self._staged("predict_proba", X)

    def score(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> float:
        """Return R², or the share of labels predicted correctly; keywords as in :meth:`predict`."""
        measure = accuracy_score if is_classifier(self) else r2_score
        answer = on_host(self._answer("predict", X, budget, stage, available))
        return float(measure(on_host(y), answer, sample_weight=on_host(sample_weight)))

    def _answer(self, method: str, X: object, budget: float | None, stage: int | None, available: Available) -> Array:
        check_is_fitted(self)
        return like(X, self.model_.answer(X, method, budget=budget, stage=stage, available=available))

    def _staged(self, method: str, X: object) -> Iterator[Array]:
        check_is_fitted(self)
        answers = self.model_.stage_answers(self.model_.table(X))
        next(answers)  # stage 0
        yield from (like(X, respond(method)) for respond in answers)

    def _target(self, y: object, n: int) -> tuple[Array, Array | None, tuple[int, ...]]:
        """Return y as the clones see it, the classes, and the shape of one target."""
        if is_classifier(self.estimator):
            classes, codes = check_labels(y, n)
            return classes[codes], classes, () if classes.size == 2 else (classes.size,)
        Y, shape = check_target(y, n)
        return (Y if shape else Y[:, 0]), None, shape

    def _order(self, X: object, y: Array, weight: Float | None, names: tuple[str, ...] | None, D: int) -> Order:
        if is_listed(self.order):
            return given_order(self.order, self.feature_groups, self.costs, names, D)
        for name in ("feature_groups", "costs"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is for an order that is a list of groups: the model of the order has its own")
        return learned_order(self.order, X, y, {} if weight is None else {"sample_weight": weight})

    def _weights(self, weight: Float | None) -> dict[str, Float]:
        """Return the parameters of the clones' ``fit``: weights by the name that the estimator has for them."""
        if weight is None:
            return {}
        prefix, last = "", self.estimator
        while hasattr(last, "steps"):
            step, last = last.steps[-1]
            prefix += f"{step}__"
        if not has_fit_parameter(last, "sample_weight"):
            raise ValueError(f"{type(last).__name__} takes no sample_weight: leave it out, or take another estimator")
        return {f"{prefix}sample_weight": weight}

    def _adopt(self, model: PrefixModels, learned: object) -> None:
        """Keep a model, copy it into the attributes that users read, and remove those of an earlier fit."""
        for name in ("feature_names_in_", "classes_", "order_"):
            if name in vars(self):
                delattr(self, name)
        self.model_, self.estimators_, self.stages_ = model, model.fitted, model.ends
        self.sequence_, self.feature_groups_ = model.sequence, model.groups
        self.n_features_in_ = model.layout.n_features
        if model.layout.names is not None:
            self.feature_names_in_ = np.asarray(model.layout.names, dtype=object)
        if model.classes is not None:
            self.classes_ = model.classes
        if learned is not None:
            self.order_ = learned

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

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        order = self.sequence_.to_html() if hasattr(self, "model_") else ""
        return {kind: text + order * (kind == "text/html") for kind, text in bundle.items()}


def _fitted(estimator: object, X: object, y: Array, weights: dict[str, Float]) -> object:
    """Fit a clone; at the top of the module, so that other processes find it."""
    found: object = estimator.fit(X, y, **weights)  # type: ignore[attr-defined]
    return found


def _cut(sequence: GroupSequence, stage: int) -> GroupSequence:
    """Return the first steps of a sequence."""
    parts = (sequence.order[:stage], sequence.groups[:stage], sequence.costs[:stage], sequence.gains[:stage])
    return GroupSequence(*parts, sequence.null_value)
