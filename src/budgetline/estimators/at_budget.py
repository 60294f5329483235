"""Methods that predict at a budget, at a stage or from available groups; every estimator with stages has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from budgetline.arrays import Array, Float
from budgetline.devices import like, on_host
from budgetline.model.staged import Available


class PredictsAtBudget:
    """Predictions of the fitted model ``model_``. Comes before scikit-learn's mixins, whose ``score`` has no budget."""

    model_: Any  # an AnytimeModel, or PrefixModels

    def predict(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Array:
        """Predict with the whole sequence, or with the groups that a budget, a stage or ``available`` allows.

        Only the columns that the chosen model uses are read. The others may be NaN, or may be absent from a data frame.
        Columns of a data frame are matched by name, so their order does not matter. An array must have the same columns
        as in ``fit``.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The input samples.
        budget : float, optional
            Use the longest prefix of the sequence whose cost does not exceed this budget.
        stage : int, optional
            Use the first ``stage`` groups. Stage 0 predicts the training mean, or the most frequent class.
        available : collection of group names, or "auto", optional
            Use exactly these groups, which need not be a prefix. For squared error, the prediction comes from the
            least-squares model on these groups, which is exact for every subset. For other losses, only the models of
            prefixes are exact; the models of other subsets are fitted to a summary of the distribution of the training
            rows. Groups that are not in the sequence are ignored, with a warning. With "auto", each row is predicted
            from its own available groups: a group is available unless all its columns are missing (NaN or null) in this
            row. Columns that are absent from X count as missing, and a warning lists them. If a budget or a stage is
            also passed, it limits the groups that are used. Without an encoding, an error is raised if only some of the
            columns of a group are missing in a row. `StagedEstimators` uses the longest prefix whose groups are all
            available, and does not accept "auto".

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            The predicted values or class labels.
        """
        return self._result("predict", X, budget, stage, available)

    def staged_predict(self, X: object) -> Iterator[Array]:
        """Yield the predictions for X after each group is added."""
        return self._staged("predict", X)

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
        """Return R² for regressors, or the accuracy for classifiers; keywords as in ``predict``.

        ``y`` contains the true values or labels, and ``sample_weight`` the sample weights.
        """
        predicted = self.predict(X, budget=budget, stage=stage, available=available)
        measure = accuracy_score if is_classifier(self) else r2_score
        return float(measure(on_host(y), on_host(predicted), sample_weight=on_host(sample_weight)))

    def _result(self, method: str, X: object, budget: float | None, stage: int | None, available: Available) -> Array:
        """Return the result of a method at a budget, at a stage, or from available groups."""
        check_is_fitted(self)
        return like(X, self.model_.result(X, method, budget=budget, stage=stage, available=available))

    def _staged(self, method: str, X: object) -> Iterator[Array]:
        """Yield the result of a method after each group."""
        check_is_fitted(self)
        yield from (like(X, found) for found in self.model_.staged(X, method))

    # notebooks show the order below scikit-learn's diagram

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._order_in_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return {kind: text + self._order_in_html() * (kind == "text/html") for kind, text in bundle.items()}

    def _order_in_html(self) -> str:
        return self.model_.sequence.to_html() if hasattr(self, "model_") else ""


def _offered(method: str) -> Callable[[ClassifiesAtBudget], bool]:
    return lambda self: self._offers(method)


class ClassifiesAtBudget(PredictsAtBudget):
    """Adds probabilities and scores of classes."""

    @available_if(_offered("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return the class probabilities, of shape (n_samples, n_classes); keywords as in ``predict``."""
        return self._result("predict_proba", X, budget, stage, available)

    @available_if(_offered("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return the class log-probabilities, of shape (n_samples, n_classes); keywords as in ``predict``."""
        return self._result("predict_log_proba", X, budget, stage, available)

    @available_if(_offered("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(
        self, X: object, *, budget: float | None = None, stage: int | None = None, available: Available = None
    ) -> Float:
        """Return the log odds of the second class, or one score per class if there are more than two.

        The shape is (n_samples,) for two classes and (n_samples, n_classes) for more. With more than two classes, the
        probabilities are the softmax of the scores. At stage 0, the scores depend only on the class frequencies.
        `StagedEstimators` returns the scores of its estimator; keywords as in ``predict``.
        """
        return self._result("decision_function", X, budget, stage, available)

    @available_if(_offered("predict_proba"))  # type: ignore[untyped-decorator]
    def staged_predict_proba(self, X: object) -> Iterator[Float]:
        """Yield the class probabilities for X after each group is added."""
        return self._staged("predict_proba", X)

    @available_if(_offered("predict_log_proba"))  # type: ignore[untyped-decorator]
    def staged_predict_log_proba(self, X: object) -> Iterator[Float]:
        """Yield the class log-probabilities for X after each group is added."""
        return self._staged("predict_log_proba", X)

    @available_if(_offered("decision_function"))  # type: ignore[untyped-decorator]
    def staged_decision_function(self, X: object) -> Iterator[Float]:
        """Yield the scores for X after each group is added."""
        return self._staged("decision_function", X)

    def _offers(self, method: str) -> bool:
        """Return whether the model has a method; the error of ``StagedEstimators`` names their estimator."""
        return True
