"""Cascades: rank the documents of a query in levels. Each level computes more groups for fewer documents.

After the groups of a stage, only the best documents of every query go on to the next one. A plain order pays for all
groups of a stage for every document; a cascade pays for the late ones only where they can change the top.

Cascades are found on held-out queries by a beam search: from plain orders, one level is added at a time, at some stage
and with some number of documents kept, to the cascades that are not both worse and more expensive than another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from budgetline.arrays import Float, Mask, Positions
from budgetline.budgets import SLACK
from budgetline.evaluation.held_out import HeldOut
from budgetline.evaluation.rankings import ndcg_score, ranked
from budgetline.inputs import check_integer, check_number
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel, Staged

MOST_STAGES, BEAM = 16, 24
"""Stages that a search considers, spread evenly over the costs, and cascades that get another level."""


@dataclass(frozen=True)
class Cascade:
    """A ranking cascade: each level scores documents with one stage, and only the best go on to the next level.

    Attributes
    ----------
    stages : tuple of int
        The stage of each level, in ascending order.
    keep : tuple of int
        The number of documents per query that go on to the next level, for every level except the last.
    cost : float
        The mean cost per document on the queries that were used to choose the cascade.
    value : float
        NDCG on the same queries.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRanker
    >>> from budgetline.evaluation import Cascade
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 3)), np.repeat(np.arange(20), 20)
    >>> grades = (X.sum(axis=1) + rng.normal(size=400) > 2).astype(int)
    >>> model = AnytimeRanker(costs=[1, 5, 20]).fit(X, grades, qid=qid)
    >>> Cascade(stages=(1, 3), keep=(10,)).evaluate(model, X, grades, qid, k=5).cost  # 1 + 25 / 2
    13.5
    """

    stages: tuple[int, ...]
    keep: tuple[int, ...]
    cost: float = np.nan
    value: float = np.nan

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(check_integer("stage", stage, ge=0) for stage in self.stages))
        object.__setattr__(self, "keep", tuple(check_integer("keep", number, ge=1) for number in self.keep))
        if not self.stages or len(self.keep) != len(self.stages) - 1 or np.any(np.diff(self.stages) <= 0):
            shape = f"stages {shown(self.stages)} and keep {shown(self.keep)}"
            raise ValueError(f"stages must ascend, and keep needs one number for each but the last, got {shape}")

    def scores(self, model: object, X: object, qid: object) -> Float:
        """Return scores that rank the documents of each query as the cascade does.

        Documents that reach a later level rank above all documents that do not.

        Parameters
        ----------
        model : AnytimeRanker
            The model whose stages score the documents.
        X : array or data frame, shape (n, D)
            The documents.
        qid : array of shape (n,)
            The query ID of each document.

        Returns
        -------
        array of shape (n,)
            The score of each document.
        """
        return _ScoresByQuery.of(model, X, None, qid, self.stages).ranked(self.stages, self.keep)[0]

    def evaluate(self, model: object, X: object, y: object, qid: object, k: int | None = 10) -> Cascade:
        """Return the cascade with its cost and NDCG@k on other queries; parameters as in ``cascades``."""
        return _ScoresByQuery.of(model, X, y, qid, self.stages).evaluated(self.stages, self.keep, k)


def cascade(
    model: object,
    X: object,
    y: object,
    qid: object,
    *,
    budget: float,
    k: int | None = 10,
    levels: int = 3,
    keep: Sequence[int] | None = None,
) -> Cascade:
    """Return the best cascade whose mean cost per document is within ``budget``; other parameters as in ``cascades``.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline import AnytimeRanker
    >>> from budgetline.evaluation import cascade
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(800, 3)), np.repeat(np.arange(40), 20)
    >>> grades = (X[:, 0] + X[:, 1] + X[:, 2] + rng.normal(size=800) > 2).astype(int)
    >>> model = AnytimeRanker(costs=[1, 5, 20]).fit(X[:400], grades[:400], qid=qid[:400])
    >>> found = cascade(model, X[400:], grades[400:], qid[400:], budget=15, k=5)
    >>> found.stages, found.keep, found.cost <= 15
    ((1, 3), (10,), True)
    """
    limit = check_number("budget", budget, "cost", ge=0) * (1 + SLACK)
    return [each for each in cascades(model, X, y, qid, k=k, levels=levels, keep=keep) if each.cost <= limit][-1]


def cascades(
    model: object,
    X: object,
    y: object,
    qid: object,
    *,
    k: int | None = 10,
    levels: int = 3,
    keep: Sequence[int] | None = None,
) -> list[Cascade]:
    """Find the cascades of a ranking model that are better than every cheaper cascade, sorted by cost.

    Costs and NDCG are measured on held-out queries.

    Parameters
    ----------
    model : fitted AnytimeRanker, AnytimeRankerCV, or another model with one score
        The model that scores the documents.
    X : table of shape (n, D)
        The documents of held-out queries, on which the model was not trained.
    y : array of shape (n,)
        The relevance grade of each document.
    qid : array of shape (n,)
        The query ID of each document.
    k : int or None
        The cutoff rank of the NDCG that the search maximises. If None, all ranks count.
    levels : int
        Maximum number of levels of a cascade.
    keep : sequence of int, optional
        Candidates for the number of documents that go on to the next level. By default, k, 2k, 4k and so on.

    Examples
    --------
    Compare NDCG at each mean cost per document with the budget curve of the model without a cascade:

    >>> import numpy as np
    >>> from budgetline import AnytimeRanker, BudgetCurve, budget_curve
    >>> from budgetline.evaluation import cascades
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(800, 3)), np.repeat(np.arange(40), 20)
    >>> grades = (X.sum(axis=1) + rng.normal(size=800) > 2).astype(int)
    >>> model = AnytimeRanker(costs=[1, 5, 20]).fit(X[:400], grades[:400], qid=qid[:400])
    >>> found = cascades(model, X[400:], grades[400:], qid[400:], k=5)
    >>> curve = BudgetCurve([each.cost for each in found], [each.value for each in found], "ndcg@5")
    >>> plain = budget_curve(model, X[400:], grades[400:], metric="ndcg@5", qid=qid[400:])
    >>> bool((curve.at(plain.costs) >= plain.values).all())
    True
    """
    table = _ScoresByQuery.of(model, X, y, qid)
    longest = int(np.bincount(table.query).max())
    counts = _numbers_kept(keep, k, longest)
    chosen = _spread(table.costs)
    found = [table.evaluated((stage,), (), k) for stage in chosen]
    beam = found
    for _ in range(check_integer("levels", levels, ge=1) - 1):
        more = {new for each in beam for new in _one_level_more(each, chosen, counts)}
        more -= {(each.stages, each.keep) for each in found}
        found = _front(found + [table.evaluated(*new, k) for new in sorted(more)])
        beam = [found[j] for j in np.unique(np.linspace(0, len(found) - 1, BEAM).round().astype(int))]
    return _front(found)


def _numbers_kept(keep: Sequence[int] | None, k: int | None, longest: int) -> list[int]:
    if keep is not None:
        return sorted(check_integer("keep", number, ge=1) for number in keep)
    first = k or max(1, longest // 8)
    return [first * 2**j for j in range(12) if first * 2**j < longest]


def _spread(costs: Float) -> list[int]:
    """Return stages whose costs are spread evenly, the first and the last among them."""
    at = np.linspace(costs[0], costs[-1], MOST_STAGES)
    nearest = np.abs(costs[:, None] - at).argmin(axis=0)
    first = np.arange(min(costs.size, MOST_STAGES // 2))
    found: list[int] = np.unique(np.concatenate([first, nearest, [costs.size - 1]])).tolist()
    return found


def _one_level_more(
    known: Cascade, stages: Sequence[int], counts: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the cascades with one more level before the last one, which keeps fewer than those before it."""
    found = []
    for stage in stages:
        place = int(np.searchsorted(known.stages, stage))
        if stage == 0 or stage in known.stages or place == len(known.stages):
            continue
        most = known.keep[place - 1] if place else np.inf
        least = known.keep[place] if place < len(known.keep) else 0
        for count in counts:
            if least < count < most:
                levels = (*known.stages[:place], stage, *known.stages[place:])
                found.append((levels, (*known.keep[:place], count, *known.keep[place:])))
    return found


def _front(found: Sequence[Cascade]) -> list[Cascade]:
    """Return the cascades that are better than every cheaper one, by cost."""
    best: list[Cascade] = []
    for each in sorted(found, key=lambda c: (c.cost, -c.value, len(c.stages))):
        if not best or each.value > best[-1].value:
            best.append(each)
    return best


def within_level(scores: Float) -> Float:
    """Return numbers from 0 to below 1 in the order of scores (n,); equal ones stay equal."""
    ranks = np.unique(scores, return_inverse=True)[1]
    return np.asarray(ranks / (ranks.max(initial=0) + 1))


def check_ranks(model: Staged) -> AnytimeModel:
    """Return a model that has one score; raise an error for any other."""
    if not isinstance(model, AnytimeModel) or model.n_targets != 1 or model.classes is not None:
        raise TypeError(f"a cascade needs a model that predicts one score, which {model.estimator} does not")
    return model


@dataclass(frozen=True)
class _ScoresByQuery:
    """Scores (n, 1 + stages) of all stages, the query (n,) of every document, costs (1 + stages,) and grades (n,)."""

    values: Float
    query: Positions
    costs: Float
    grades: Float | None

    @classmethod
    def of(cls, fitted: object, X: object, y: object, qid: object, stages: Sequence[int] = ()) -> _ScoresByQuery:
        """Return the scores of a model on documents."""
        held = HeldOut.of(fitted, X, y, qid=qid)
        model = check_ranks(held.model)
        if held.qid is None:
            raise ValueError("a cascade needs qid, the query of every row")
        for stage in stages:
            check_integer("stage", stage, le=model.n_stages)
        grades = None if y is None else np.asarray(held.y, dtype=np.float64)
        query = np.unique(held.qid, return_inverse=True)[1]
        return cls(held.all_scores, query, np.append(0.0, model.sequence.cumulative_costs), grades)

    def ranked(self, stages: Sequence[int], keep: Sequence[int]) -> tuple[Float, float]:
        """Return scores whose order is that of a cascade, and the average cost of a document."""
        n = self.query.size
        final, alive, paid = np.zeros(n), np.ones(n, dtype=bool), np.full(n, self.costs[stages[0]])
        for level, stage in enumerate(stages):
            scores = self.values[alive, stage]
            final[alive] = level + within_level(scores)  # above those that left earlier
            if level < len(keep):
                alive[np.flatnonzero(alive)[~_best(scores, self.query[alive], keep[level])]] = False
                paid[alive] += self.costs[stages[level + 1]] - self.costs[stage]
        return final, float(paid.mean())

    def evaluated(self, stages: tuple[int, ...], keep: tuple[int, ...], k: int | None) -> Cascade:
        """Return a cascade with its average cost and its NDCG."""
        if self.grades is None:
            raise ValueError("evaluating a cascade needs y, the grade of every row, but y is None")
        scores, cost = self.ranked(stages, keep)
        return Cascade(stages, keep, cost, ndcg_score(self.grades, scores, self.query, k=k))


def _best(scores: Float, query: Positions, number: int) -> Mask:
    """Return which documents are among the best of their query; of equal scores the first ones are."""
    order, rank = ranked(scores, query)
    found = np.empty(order.size, dtype=bool)
    found[order] = rank < number
    return found
