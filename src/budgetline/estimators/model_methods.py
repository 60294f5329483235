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
        """Certify how close to optimal the order is at every budget, on the training data.

        All prefixes and an evenly spaced grid of budgets are certified. The bounds are valid even if the time limit is
        reached; parameters as in ``budgetline.certify``.
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

        The learned order has to work for every budget, so it may leave money unspent at a particular one. A plan is
        made for one budget only. For squared error, the plan is the best set on the training data, after the correction
        (if any) is subtracted. The search proves this if it finishes within the time limit. For other losses, the set
        is found with quadratic approximations of the risk around fitted stages, and it is not proven to be optimal. If
        you pass the training data, the models of the plan are refitted exactly. If the model has no moments, only the
        groups of its sequence are considered.

        Parameters
        ----------
        budget : float
            Maximum total cost of the set.
        include : names of groups
            Groups that must be in the set, along with the groups that they require. The groups in ``start`` are always
            included.
        exclude : names of groups
            Groups that must not be in the set. Groups that require any of them are also excluded.
        time_limit : float
            Time limit for the search, in seconds. The time needed to refit the models is not included.
        X, y, sample_weight
            The training data, held in memory. If they are passed, the models of the plan are refitted to them with the
            ridge constant and the encoding of this model.
        progress : bool or None
            Whether to show a progress bar. If None, it is shown only in a terminal.

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
        """Find the best sets of groups for several budgets, within one overall time limit. Parameters as in ``plan``.

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
        """Rank the remaining groups by gain per cost, given the groups that are available; free groups come first.

        For squared error, the gains on the training data are exact. For other losses, they are estimated from the
        summary of the training rows that the model stores. These estimates are close to the gains from refitting and
        rank the groups in about the same order. Each group is evaluated on its own, together with the groups that it
        requires. Two groups that share a cost may be worth more if they are bought together.

        Parameters
        ----------
        available : collection of group names
            The available groups, which need not be a prefix of the sequence. The groups that they require also count as
            available.
        budget : float, optional
            Maximum cost of a purchase, in addition to the cost of the available groups. Groups that cost more are left
            out.
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features), optional
            Only for classifiers: rows with the columns of the available groups. The groups are then ranked by the
            probability that buying them changes the predicted class (averaged over the rows), divided by their cost.
            Groups that cannot change the predicted class follow, ranked by gain per cost.

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

        The effect of a numeric column is a curve, and the effect of a categorical column is one value per category. The
        effect of a pair of columns is a table. For classifiers, the score is the output of ``decision_function``. For
        other estimators, it is the output of ``predict``; with ``loss="poisson"``, it is the logarithm of this output.

        Pointwise bands show the uncertainty due to noise in the training rows, given the chosen groups and their order.
        They do not account for the fact that a different training sample might have led to different groups. The ridge
        penalty is treated as a prior.
        """
        check_is_fitted(self)
        return effects_of(self.model_, stage=stage, budget=budget)

    def coef_errors(self, *, stage: int | None = None, budget: float | None = None) -> Float:
        """Return the standard errors of the coefficients at a stage or a budget, by default at the last stage.

        They have the same shape as ``coef_``. Like the bands of ``effects``, they do not account for the uncertainty in
        the choice of the groups. With ``alpha=0``, they are the classical standard errors of least squares or maximum
        likelihood.

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
            raise ValueError("a plan is refitted to data in memory: pass a table X and y")
        return self._from_table(X, y, sample_weight, self.model_)

    def _from_table(
        self, X: object, y: object, sample_weight: object, known: AnytimeModel | None = None
    ) -> TrainingData:
        """Check data in memory; return them and what to learn from them."""
        raise NotImplementedError
