"""Plans of estimators: what to buy for a budget that is known."""

from __future__ import annotations

from collections.abc import Iterable

from sklearn.utils.validation import check_is_fitted

from budgetline.data.dask import is_dask
from budgetline.data.sources import Source
from budgetline.encoding.table import TableEncoding
from budgetline.fitting.recipe import Recipe
from budgetline.fitting.training import RowsTraining
from budgetline.inputs import check_table
from budgetline.model.anytime import AnytimeModel
from budgetline.optimality.conditions import GroupNames
from budgetline.optimality.plan import Plan, plan, plans
from budgetline.optimality.planned_models import TrainingData
from budgetline.progress import Progress


class MakesPlans:
    """Finds the best sets of groups for known budgets."""

    model_: AnytimeModel

    def plan(
        self,
        budget: float,
        *,
        include: GroupNames = (),
        exclude: GroupNames = (),
        at_most_one: Iterable[GroupNames] = (),
        time_limit: float = 5.0,
        X: object = None,
        y: object = None,
        sample_weight: object = None,
        progress: Progress = None,
    ) -> Plan:
        """Find the best set of groups for a budget that is known.

        A prefix of the order serves every budget and may leave money unspent; a plan serves one. For squared error the
        set is the best on the training data, less the correction if there is one, and proven if the time suffices. For
        other losses it comes from quadratic models of the risk around fitted stages, and nothing is certified; give the
        data, and the plan is refitted exactly. If the sequence ended early, and the model holds no moments, the set is
        chosen from the groups of the sequence.

        Parameters
        ----------
        budget : float
        include, exclude : names of groups
            Groups that must be in the set (with those that they require), or must not be (nor those that require them).
            The groups of ``start`` are always in.
        at_most_one : lists of names of groups
            Of each list at most one group may be in the set: ``[["mri", "ct"]]``.
        time_limit : float
            Seconds for the search. Fits to the data are not counted.
        X, y, sample_weight
            The training data, in memory: the models of the plan are fitted to them, with the ridge constant and the
            encoding of this model.
        progress : bool or None
            Whether to show a progress bar; None: on a terminal, where tqdm is installed.

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
        about = {"include": include, "exclude": exclude, "at_most_one": at_most_one, "time_limit": time_limit}
        data = self._training_data(X, y, sample_weight)
        return plan(self.model_, budget, **about, data=data, progress=progress)  # type: ignore[arg-type]

    def plans(
        self,
        budgets: Iterable[float],
        *,
        include: GroupNames = (),
        exclude: GroupNames = (),
        at_most_one: Iterable[GroupNames] = (),
        time_limit: float = 5.0,
        X: object = None,
        y: object = None,
        sample_weight: object = None,
        progress: Progress = None,
    ) -> tuple[Plan, ...]:
        """Return the plan for each of several budgets; they share the time. Parameters as in :meth:`plan`."""
        check_is_fitted(self)
        about = {"include": include, "exclude": exclude, "at_most_one": at_most_one, "time_limit": time_limit}
        data = self._training_data(X, y, sample_weight)
        return plans(self.model_, budgets, **about, data=data, progress=progress)  # type: ignore[arg-type]

    def _training_data(self, X: object, y: object, sample_weight: object) -> TrainingData | None:
        """Check the data that a plan is to be fitted to; None if no data are given."""
        if X is None and (y is not None or sample_weight is not None):
            raise ValueError("y and sample_weight are for a plan that is refitted: give X as well")
        if X is None:
            return None
        if isinstance(X, Source) or is_dask(X) or y is None:
            raise ValueError("a plan is refitted to data in memory: give a table X and y")
        if self.model_.encoding is None:
            check_table(X, self.model_.columns)
        return TrainingData(*self._in_memory(X, y, sample_weight, self.model_.encoding))

    def _in_memory(
        self, X: object, y: object, sample_weight: object, known: TableEncoding | None = None
    ) -> tuple[RowsTraining, Recipe]:
        """Check data in memory; return them and what to learn from them."""
        raise NotImplementedError
