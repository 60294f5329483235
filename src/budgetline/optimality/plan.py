"""Plan: what to buy for a budget that is known, and the model of it."""

from __future__ import annotations

from dataclasses import dataclass

from budgetline.arrays import Array, Float
from budgetline.devices import like
from budgetline.messages import printable
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality.certificate import Certificate
from budgetline.tables import rounded_down


@dataclass(frozen=True, eq=False)
class Plan:
    """The best set of groups for a budget that is known, and the models fitted on it.

    The order of a model serves every budget, so that it can be interrupted; a plan serves one. Estimators make plans:
    :meth:`AnytimeRegressor.plan`. A plan works wherever a fitted model does: in ``save``, ``to_onnx``,
    :class:`AnytimeRunner`, curves and reports. A plan that was saved is loaded as the estimator it came from, with the
    groups of the plan as its sequence.

    For squared error the set maximises, over all sets that the budget can pay for, F on the training data, less the
    correction if the model was fitted with one; ``bound`` is proven by ``certificate``. For other losses the set comes
    from quadratic models of the risk around fitted stages. It is a good set, not always the best, and nothing is
    certified: ``bound`` and ``certificate`` are None.

    Attributes
    ----------
    groups : tuple of str
        In the order in which they are bought.
    cost : float
    explained : float
        F/R(∅): the share of the training risk that the set explains; an estimate where ``refitted`` is False.
    value : float
        What was maximised, as a share of R(∅): ``explained`` less the correction of the groups.
    bound : float or None
        No set that is allowed and affordable has a value above this.
    optimal : bool
        Whether ``value`` reaches ``bound``, up to rounding.
    certificate : Certificate or None
        The proof of ``bound``. What it certifies is F less the correction.
    refitted : bool
        Whether the models are the minimisers of the loss on their groups: always for squared error, for other losses if
        the data were given or the groups are a prefix of the sequence. Otherwise they are those of
        ``predict(available=...)``: approximations.
    model_ : AnytimeModel
        The sequence of the groups of the plan; its last stage is the model of the plan.

    Examples
    --------
    >>> from budgetline import AnytimeRegressor
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
    >>> plan = model.plan(200, time_limit=60)
    >>> plan
    Plan(cp, sex, age, trestbps, exercise, fluoroscopy: cost 194.2, explains 52.0%, optimal)
    >>> plan.predict(heart.data[:2]).round(2).tolist()
    [0.28, 1.31]
    """

    groups: tuple[str, ...]
    cost: float
    explained: float
    value: float
    bound: float | None
    optimal: bool
    certificate: Certificate | None
    refitted: bool
    model_: AnytimeModel

    @property
    def ratio(self) -> float | None:
        """Value over bound: the certified share of the optimum; None if nothing is certified.

        Where the bound is not positive: 1 if the plan is optimal, otherwise 0.
        """
        if self.bound is None:
            return None
        return max(0.0, min(1.0, self.value / self.bound)) if self.bound > 0 else float(self.optimal)

    def predict(self, X: object) -> Array:
        """Predict from the groups of the plan; columns of other groups are not read."""
        return self._answer("predict", X)

    def predict_proba(self, X: object) -> Float:
        """Return probabilities of the classes, shape (n, P), from the groups of the plan."""
        return self._answer("predict_proba", X)

    def decision_function(self, X: object) -> Float:
        """Return the scores of a classifier, shape (n,) for two classes, (n, P) for more."""
        return self._answer("decision_function", X)

    def _answer(self, method: str, X: object) -> Array:
        if method != "predict" and self.model_.classes is None:
            raise TypeError(f"{method} is for classifiers; this plan is of an {self.model_.estimator}: use predict")
        watch = self.model_.watch()
        scores = self.model_.scores(X, watch=watch)
        watch.warn()
        return like(X, self.model_.respond(scores, method))

    def __repr__(self) -> str:
        groups = ", ".join(map(printable, self.groups)) or "nothing"
        about = "" if self.refitted else "about "
        return f"Plan({groups}: cost {self.cost:.6g}, explains {about}{self.explained:.1%}, {self._quality()})"

    def _quality(self) -> str:
        """Return in words how good the set is."""
        if self.certificate is None or self.ratio is None:
            return "not certified" if self.refitted else "an approximation, not certified"
        how = "optimal" if self.optimal else f"at least {rounded_down(self.ratio, 4):.2%} of the optimum"
        if condition := self.certificate.condition:
            how += f" of sets {condition}"
        return how if self.certificate.penalties is None else f"{how}, less the correction"

    def _repr_html_(self) -> str:
        return self.model_.sequence._repr_html_()
