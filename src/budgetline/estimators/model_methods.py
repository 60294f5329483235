"""Methods of estimators that call functions of the fitted model: what to buy, and how good the order is."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from budgetline.arrays import Float
from budgetline.bounds.problem import GroupNames
from budgetline.data.sources import Source
from budgetline.evaluation.effects import Effects, coef_errors_of, effects_of
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality import Certificate, NextGroups, certify
from budgetline.optimality.next_groups import next_groups
from budgetline.optimality.plan import Plan, TrainingData, plan, plans
from budgetline.progress import Progress


class ModelMethods:
    """Adds certificates, plans, what to buy next, and effects."""

    model_: AnytimeModel

    def certificate(
        self, budgets: ArrayLike | None = None, *, time_limit: float = 5.0, progress: Progress = None
    ) -> Certificate:
        """Prove how close the order is to optimal at every budget, on the training data.

        Parameters as in ``budgetline.certify``. Every prefix and an even grid of budgets are certified; the bounds
        are valid whenever the time ends.
        """
        check_is_fitted(self)
        return certify(self.model_, budgets=budgets, time_limit=time_limit, progress=progress)

    def plan(
        self,
        budget: float,
        *,
        include: GroupNames = (),
        exclude: GroupNames = (),
        time_limit: float = 5.0,
        X: object = None,
        y: object = None,
        sample_weight: object = None,
        progress: Progress = None,
    ) -> Plan:
        """Find the best set of groups for a budget that is known.

        A prefix of the order serves every budget and may leave money unspent; a plan serves one. For squared error the
        set is the best on the training data, less the correction if there is one, and proven if the time suffices. For
        other losses it comes from quadratic models of the risk around fitted stages, without a proof; with the data,
        the plan is refitted exactly. A model without moments plans with the groups of its sequence.

        Parameters
        ----------
        budget : float
            The largest total cost of the set.
        include : names of groups
            Groups that must be in the set, with those that they require. The groups of ``start`` are always in.
        exclude : names of groups
            Groups that must not be in the set, nor those that require them.
        time_limit : float
            Seconds for the search. Fits to the data are not counted.
        X, y, sample_weight
            The training data, in memory: the models of the plan are fitted to them, with the ridge constant and the
            encoding of this model.
        progress : bool or None
            Whether to show a progress bar; None: on a terminal.

        Examples
        --------
        >>> from budgetline import AnytimeClassifier
        >>> from budgetline.datasets import load_heart
        >>> heart = load_heart()
        >>> model = AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(heart.data, heart.target)
        >>> model.plan(100, exclude=["age"], time_limit=60)
        Plan(cp, sex, trestbps, exercise: cost 92.3, explains about 39.2%, an approximation, not certified)
        >>> model.plan(100, exclude=["age"], time_limit=60, X=heart.data, y=heart.target)
        Plan(cp, sex, trestbps, exercise: cost 92.3, explains 38.3%, not certified)
        """
        check_is_fitted(self)
        data, wanted = self._training_data(X, y, sample_weight), {"include": include, "exclude": exclude}
        return plan(self.model_, budget, **wanted, time_limit=time_limit, data=data, progress=progress)

    def plans(
        self,
        budgets: Iterable[float],
        *,
        include: GroupNames = (),
        exclude: GroupNames = (),
        time_limit: float = 5.0,
        X: object = None,
        y: object = None,
        sample_weight: object = None,
        progress: Progress = None,
    ) -> tuple[Plan, ...]:
        """Return the plans for several budgets, which share the time. Parameters as in ``plan``.

        Examples
        --------
        >>> from budgetline import AnytimeRegressor
        >>> from budgetline.datasets import load_heart
        >>> heart = load_heart()
        >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
        >>> [plan.cost for plan in model.plans([3, 100], time_limit=60)]
        [3.0, 93.3]
        """
        check_is_fitted(self)
        data, wanted = self._training_data(X, y, sample_weight), {"include": include, "exclude": exclude}
        return plans(self.model_, budgets, **wanted, time_limit=time_limit, data=data, progress=progress)

    def next_groups(
        self, available: Collection[str] = (), *, budget: float | None = None, X: object = None
    ) -> NextGroups:
        """Rank what to buy next, given any available groups: by gain per cost, free groups first.

        For squared error the gains are exact, on the training data. For other losses they are estimated from what the
        model keeps of the distribution of the training rows: close to those of refits, in about their order. Groups
        are evaluated one by one, each with the groups that it requires: two that share a cost may be worth more.

        Parameters
        ----------
        available : collection of group names
            The available groups, in or out of order. Groups that they require count as available, too.
        budget : float, optional
            Leave out what costs more than this now.
        X : table of shape (n, D), optional
            For classifiers, rows with the columns of the available groups: rank by the chance per cost that a purchase
            changes the decision (mean over rows); what cannot change it follows, by gain.

        Returns
        -------
        NextGroups
            A table with ``groups``, ``along``, ``costs``, ``gains``, ``chances`` and ``to_frame()``. Groups that the
            sequence does not hold are in it only if the model has moments.

        Examples
        --------
        >>> from budgetline import AnytimeRegressor
        >>> from budgetline.datasets import load_heart
        >>> heart = load_heart()
        >>> model = AnytimeRegressor(heart.feature_groups).fit(heart.data, heart.target)
        >>> model.next_groups(["cp", "ecg"], budget=95).groups[:3]
        ('sex', 'age', 'trestbps')
        """
        check_is_fitted(self)
        return next_groups(self.model_, available, budget=budget, X=X)

    def effects(self, *, stage: int | None = None, budget: float | None = None) -> Effects:
        """Return what every column does to the score at a stage, or at a budget; without both at the last stage.

        Numbers have a curve, categories a value each, pairs of columns a table. The score is that of
        ``decision_function``, for regression that of ``predict`` (before the exponential of ``loss="poisson"``).

        Pointwise bands say what the noise of the rows leaves open if the groups are these and in this order: that
        other rows might have led to other groups is not counted. The ridge counts as a prior.
        """
        check_is_fitted(self)
        return effects_of(self.model_, stage=stage, budget=budget)

    def coef_errors(self, *, stage: int | None = None, budget: float | None = None) -> Float:
        """Return the standard errors of the coefficients at a stage, or at a budget; without both at the last stage.

        They have the shape of ``coef_``, and the same conditions as the bands of ``effects``: the choice of the groups
        is taken as given. With ``alpha=0`` they are the classical ones of least squares and maximum likelihood.

        Examples
        --------
        >>> import numpy as np
        >>> from budgetline import AnytimeRegressor
        >>> x = np.arange(30.0)
        >>> model = AnytimeRegressor(alpha=0.0).fit(x[:, None], 2 * x + np.where(x % 2, 1, -1))
        >>> model.coef_.round(3).tolist(), model.coef_errors().round(3).tolist()
        ([2.007], [0.022])
        """
        check_is_fitted(self)
        return coef_errors_of(self.model_, stage=stage, budget=budget)

    def _training_data(self, X: object, y: object, sample_weight: object) -> TrainingData | None:
        """Check the data that a plan is to be fitted to; None if no data are passed."""
        if X is None and (y is not None or sample_weight is not None):
            raise ValueError("y and sample_weight are for a plan that is refitted: give X as well")
        if X is None:
            return None
        if isinstance(X, Source) or y is None:
            raise ValueError("a plan is refitted to data in memory: give a table X and y")
        return self._from_table(X, y, sample_weight, self.model_)

    def _from_table(
        self, X: object, y: object, sample_weight: object, known: AnytimeModel | None = None
    ) -> TrainingData:
        """Check data in memory; return them and what to learn from them."""
        raise NotImplementedError
