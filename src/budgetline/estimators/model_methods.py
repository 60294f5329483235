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

        Every prefix and an evenly spaced grid of budgets are certified. The bounds are valid even if the time runs out
        early; parameters as in ``budgetline.certify``.
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
        """Find the best set of groups for a known budget.

        The order serves every budget and may leave money unspent; a plan serves one budget. For squared error, the plan
        is the best set on the training data, after the correction if there is one. This is proven if the time suffices.
        For other losses, the set comes from quadratic models of the risk around fitted stages, without a proof. If you
        pass the data, the plan is refitted exactly. A model without moments considers only the groups of its sequence.

        Parameters
        ----------
        budget : float
            The largest total cost of the set.
        include : names of groups
            Groups that must be in the set, together with the groups that they require. The groups of ``start`` are
            always in the set.
        exclude : names of groups
            Groups that must not be in the set. Groups that require them are excluded, too.
        time_limit : float
            Time limit of the search in seconds. It does not include refits to the data.
        X, y, sample_weight
            The training data, in memory. The models of the plan are fitted to them, with the ridge constant and the
            encoding of this model.
        progress : bool or None
            Whether to show a progress bar. If None, it is shown only on a terminal.

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
        """Return the plans for several budgets, which share the time limit. Parameters as in ``plan``.

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
        """Rank the groups to buy next, given any available groups, by gain per cost; free groups come first.

        For squared error, the gains on the training data are exact. For other losses, they are estimated from what the
        model keeps of the distribution of the training rows. These estimates are close to the gains of refits and rank
        the groups in about the same order. Groups are evaluated one by one, each with the groups that it requires. Two
        groups that share a cost may be worth more together.

        Parameters
        ----------
        available : collection of group names
            The available groups, which need not be a prefix. Groups that they require count as available, too.
        budget : float, optional
            Leave out groups that would now cost more than this.
        X : table of shape (n, D), optional
            For classifiers: rows with the columns of the available groups. Groups are then ranked by the chance per
            cost that buying them changes the decision (mean over rows). Groups that cannot change it follow, ranked by
            gain per cost.

        Returns
        -------
        NextGroups
            A table with ``groups``, ``along``, ``costs``, ``gains``, ``chances`` and ``to_frame()``. Groups that are
            not in the sequence appear only if the model has moments.

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
        """Return the effect of every column on the score at a stage or a budget, by default at the last stage.

        The effect of a column is a curve for numbers and one value per category for categories. The effect of a pair of
        columns is a table. The score is the output of ``decision_function``. For regression, it is the output of
        ``predict`` (before the exponential of ``loss="poisson"``).

        Pointwise bands show the uncertainty from the noise of the rows, for these groups in this order. They do not
        account for the fact that other rows might have led to other groups. The ridge counts as a prior.
        """
        check_is_fitted(self)
        return effects_of(self.model_, stage=stage, budget=budget)

    def coef_errors(self, *, stage: int | None = None, budget: float | None = None) -> Float:
        """Return the standard errors of the coefficients at a stage or a budget, by default at the last stage.

        They have the shape of ``coef_``. Like the bands of ``effects``, they take the choice of the groups as given.
        With ``alpha=0``, they are the classical standard errors of least squares and maximum likelihood.

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
