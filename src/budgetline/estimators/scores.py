"""The ``score`` method of estimators that predict at a budget."""

from __future__ import annotations

from typing import Protocol

from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from budgetline.arrays import Array
from budgetline.devices import on_host
from budgetline.model.staged import Available


class Predicts(Protocol):
    """Has ``predict``; subclasses of users may not accept all keywords."""

    def predict(self, X: object, **choice: object) -> Array:
        """Return predictions."""


class ScoresAtBudget:
    """Adds ``score`` with the keywords of ``predict``; must come before scikit-learn's mixins, whose score has none."""

    def score(
        self: Predicts,
        X: object,
        y: object,
        sample_weight: object = None,
        *,
        budget: float | None = None,
        stage: int | None = None,
        available: Available = None,
    ) -> float:
        """Return R², or the share of labels predicted correctly; keywords as in ``predict``."""
        choice = {"budget": budget, "stage": stage, "available": available}
        predicted = self.predict(X, **{name: value for name, value in choice.items() if value is not None})
        measure = accuracy_score if is_classifier(self) else r2_score
        arrays = (on_host(y), on_host(predicted))
        return float(measure(*arrays, sample_weight=on_host(sample_weight)))
