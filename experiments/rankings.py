"""Rankings: softmax within queries against squared error of grades, LightGBM, and cascades.

``python experiments/rankings.py --write docs/results/rankings.md``; ``--quick`` runs a tiny version on generated
queries. MQ2008 is read from the folder that the variable LETOR_DATA names, by default ../shared/data/letor; its prices
are those published for the same kinds of features of MSLR. Settings are chosen on the validation part of every fold.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import lightgbm
import numpy as np
from page import Page, panels, run
from sklearn.datasets import load_svmlight_file

from budgetline import AnytimeRanker, AnytimeRegressor, FeatureGroups
from budgetline.evaluation import Cascade, cascades, ndcg_score

LETOR = Path(os.environ.get("LETOR_DATA", Path(__file__).resolve().parents[2] / "shared" / "data" / "letor"))
SHARES = np.linspace(0.02, 1.0, 50)
"""Budgets, as shares of the cost of all features."""
SHOWN = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FIELDS = ("body", "anchor", "title", "URL", "whole document")
MSLR_KINDS = {
    "term frequency": (20, 20, 10, 10, 20), "inverse document frequency": (50, 50, 20, 20, 50),
    "tf-idf": (50, 20, 10, 10, 50), "length": (1, 1, 1, 1, 1), "BM25": (100, 50, 10, 10, 100),
    "language model, absolute": (100, 50, 10, 10, 100), "language model, Dirichlet": (100, 50, 10, 10, 100),
    "language model, Jelinek-Mercer": (100, 50, 10, 10, 100),
}  # fmt: skip
"""Prices of each kind of feature, by field."""
OTHERS = (1,) * 6
"""Prices of page rank, links and properties of the URL."""


@dataclass(frozen=True)
class Queries:
    """Documents (n, D), their grades and queries."""

    X: np.ndarray
    grades: np.ndarray
    qid: np.ndarray

    def relevant(self) -> Queries:
        """Return the queries that have a relevant document: squared error is better off without the others."""
        kept = np.isin(self.qid, np.unique(self.qid[self.grades > 0]))
        return Queries(self.X[kept], self.grades[kept], self.qid[kept])

    def ndcg(self, scores: np.ndarray, k: int) -> float:
        """Return NDCG at k of scores."""
        return ndcg_score(self.grades, scores, self.qid, k=k)


@dataclass(frozen=True)
class Task:
    """A name, the costs of the features, and folds of queries to learn, choose settings and test on."""

    name: str
    costs: np.ndarray
    folds: list[tuple[Queries, Queries, Queries]]

    @property
    def groups(self) -> FeatureGroups:
        """Every feature is a group."""
        return FeatureGroups([[d] for d in range(self.costs.size)], costs=self.costs.tolist())


@dataclass(frozen=True)
class Effort:
    """How much to run: folds and queries of generated data, ridge constants, trees."""

    folds: int = 5
    queries: int = 600
    alphas: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    trees: int = 300
    letor: bool = True


QUICK = Effort(2, 30, (1e-3, 1e-1), 10, letor=False)


def mq2008() -> Task:
    """Return MQ2008 with its official folds."""
    parts = []
    for k in range(1, 6):
        with gzip.open(LETOR / f"S{k}.txt.gz") as file:
            X, y, q = load_svmlight_file(file, query_id=True, n_features=46)
        parts.append(Queries(X.toarray(), y, q))

    def join(numbers: list[int]) -> Queries:
        own = [parts[n % 5] for n in numbers]
        return Queries(*(np.concatenate([getattr(p, name) for p in own]) for name in ("X", "grades", "qid")))

    folds = [(join([f, f + 1, f + 2]), join([f + 3]), join([f + 4])) for f in range(5)]
    return Task("MQ2008", np.concatenate([*MSLR_KINDS.values(), OTHERS]).astype(float), folds)


def generated(effort: Effort) -> Task:
    """Return queries of 40 to 160 documents with 136 features, priced as those of MSLR.

    Features of a kind share what they measure, and more expensive ones measure it with less noise. Grades come from
    merits within the query.
    """
    costs = np.loadtxt(LETOR / "mslr_feature_cost.txt") if LETOR.exists() else np.resize([50.0, 20, 10, 10, 1], 136)
    folds = []
    for fold in range(effort.folds):
        rng = np.random.default_rng(fold)
        kinds = np.arange(costs.size) // 5
        weights = rng.normal(size=kinds.max() + 1) * (rng.random(kinds.max() + 1) < 0.4)

        def draw(rng: np.random.Generator = rng, kinds: np.ndarray = kinds, weights: np.ndarray = weights) -> Queries:
            sizes = rng.integers(40, 161, effort.queries)
            qid, n = np.repeat(np.arange(sizes.size), sizes), int(sizes.sum())
            latent = rng.normal(size=(n, kinds.max() + 1)) + rng.normal(size=(sizes.size, kinds.max() + 1))[qid]
            X = latent[:, kinds] + rng.normal(size=(n, costs.size)) * (3 / costs**0.35)
            merit = latent @ weights + rng.gumbel(size=n)
            merit -= (np.bincount(qid, merit) / sizes)[qid]
            return Queries(X, np.digitize(merit, np.std(merit) * np.array([0.5, 1.2, 1.9, 2.6])).astype(float), qid)

        folds.append((draw(), draw(), draw()))
    return Task("generated", costs, folds)


def curve(costs: np.ndarray, scores: list[np.ndarray], held: Queries, k: int) -> np.ndarray:
    """Return NDCG at all budgets, from the costs of the stages and the scores of each."""
    at = np.searchsorted(costs, SHARES * costs[-1] * (1 + 1e-9), side="right") - 1
    values = {j: held.ndcg(scores[j], k) for j in np.unique(at)}
    return np.array([values[j] for j in at])


def stage_scores(model: AnytimeRanker | AnytimeRegressor, X: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the costs of all stages, and scores."""
    costs = np.append(0.0, model.sequence_.cumulative_costs)
    return costs, [np.zeros(len(X)), *model.staged_predict(X)]


def chosen(fit: Callable[[float], AnytimeRanker | AnytimeRegressor], validation: Queries, effort: Effort) -> object:
    """Return the model whose constant is best on the validation queries, over all budgets."""
    models = [fit(alpha) for alpha in effort.alphas]
    scores = [curve(*stage_scores(model, validation.X), validation, 5).mean() for model in models]
    return models[int(np.argmax(scores))]


def lambdarank(train: Queries, validation: Queries, effort: Effort) -> lightgbm.Booster:
    """Return LightGBM on all features, stopped by the validation queries."""

    def dataset(queries: Queries) -> lightgbm.Dataset:
        order = np.argsort(queries.qid, kind="stable")
        sizes = np.unique(queries.qid, return_counts=True)[1]
        return lightgbm.Dataset(queries.X[order], queries.grades[order], group=sizes)

    settings = {
        "objective": "lambdarank", "metric": "ndcg", "eval_at": [5], "learning_rate": 0.05, "num_leaves": 15,
        "min_data_in_leaf": 50, "seed": 0, "num_threads": 2, "verbose": -1,
    }  # fmt: skip
    stop = lightgbm.early_stopping(50, verbose=False)
    return lightgbm.train(settings, dataset(train), effort.trees, valid_sets=[dataset(validation)], callbacks=[stop])


@dataclass(frozen=True)
class Found:
    """Curves (folds, budgets) by method and k, LightGBM's NDCG (folds,) by k, and cascades on test queries by share."""

    curves: dict[tuple[str, int], np.ndarray]
    trees: dict[int, np.ndarray]
    cascades: dict[float, np.ndarray]
    """Average cost as a share of all features' cost, NDCG@10, and NDCG@10 of the plain order there and in full."""
    matching: dict[float, np.ndarray]
    """The cheapest cascade that is as good as the plain order at a budget: the part of its cost saved, and NDCG@10 less
    that of the plain order."""


def measured(task: Task, effort: Effort) -> Found:
    """Run all folds."""
    curves: dict[tuple[str, int], list[np.ndarray]] = {}
    trees: dict[int, list[float]] = {5: [], 10: []}
    shares: dict[float, list[list[float]]] = {share: [] for share in SHOWN[:-1]}
    matching: dict[float, list[list[float]]] = {share: [] for share in SHOWN}
    for train, validation, test in task.folds:
        only = train.relevant()

        def squares(alpha: float, own: Queries = only) -> AnytimeRegressor:
            return AnytimeRegressor(task.groups, rule="omp", alpha=alpha).fit(own.X, own.grades)

        def softmax(alpha: float, own: Queries = train) -> AnytimeRanker:
            return AnytimeRanker(task.groups, rule="omp", alpha=alpha).fit(own.X, own.grades, qid=own.qid)

        models = {
            "squared error": chosen(squares, validation, effort), "softmax": chosen(softmax, validation, effort),
        }  # fmt: skip
        for name, model in models.items():
            costs, scores = stage_scores(model, test.X)
            for k in (5, 10):
                curves.setdefault((name, k), []).append(curve(costs, scores, test, k))
        boosted = lambdarank(train, validation, effort).predict(test.X)
        for k in trees:
            trees[k].append(test.ndcg(boosted, k))
        ranker, total = models["softmax"], float(task.costs.sum())
        front = cascades(ranker, validation.X, validation.grades, validation.qid)
        for share, rows in shares.items():
            plain = curves["softmax", 10][-1]
            within = [each for each in front if each.cost <= share * total]
            chosen_one = within[-1].evaluate(ranker, test.X, test.grades, test.qid)
            rows.append([chosen_one.cost / total, chosen_one.value, plain[at(share)], plain[-1]])
        for share, rows in matching.items():
            rows.append(saved(front, share * total, ranker, validation, test))
    return Found(
        {key: np.array(value) for key, value in curves.items()}, {k: np.array(v) for k, v in trees.items()},
        {share: np.array(rows) for share, rows in shares.items()},
        {share: np.array(rows) for share, rows in matching.items()},
    )  # fmt: skip


def at(share: float) -> int:
    """Return the position of a budget."""
    return int(np.argmin(np.abs(SHARES - share)))


def saved(front: list[Cascade], budget: float, model: AnytimeRanker, held: Queries, test: Queries) -> list[float]:
    """Return what a cascade saves on test queries that is as good as the plain order on the held-out ones."""
    stage = int(np.searchsorted(np.cumsum(model.sequence_.costs), budget * (1 + 1e-9), side="right"))
    plain, *others = (Cascade((stage,), ()).evaluate(model, q.X, q.grades, q.qid) for q in (held, test))
    enough = next((each for each in front if each.value >= plain.value and each.cost <= plain.cost), plain)
    found = enough.evaluate(model, test.X, test.grades, test.qid)
    return [1 - found.cost / others[0].cost, found.value - others[0].value]


def plus(values: np.ndarray) -> str:
    """Return a mean with its standard error."""
    return f"{values.mean():+.4f} ± {values.std(ddof=1) / np.sqrt(values.size):.4f}"


def conclusion(task: Task, found: Found) -> str:
    """Say in words what was found."""
    gained = found.curves["softmax", 5].mean(axis=1) - found.curves["squared error", 5].mean(axis=1)
    error = gained.std(ddof=1) / np.sqrt(gained.size)
    verdict = "an NDCG@5 that is not clearly different from the NDCG@5 with"
    if abs(gained.mean()) > 2 * error:
        verdict = f"a {'higher' if gained.mean() > 0 else 'lower'} NDCG@5 than"
    behind = found.curves["softmax", 5][:, -1] - found.trees[5]
    return (
        f"**{task.name}**: averaged over all budgets, the softmax loss within queries gives {verdict} squared error "
        f"on the grades (the difference is {plus(gained)}). With all features, the NDCG@5 of softmax differs from the "
        f"NDCG@5 of LightGBM's lambdarank by {plus(behind)}."
    )


def of_cascades(task: Task, found: Found) -> str:
    """Say in words what cascades save, and what was lost."""
    saved = {f"{share:.0%}": rows.T for share, rows in found.matching.items()}
    met = [budget for budget, (part, change) in saved.items() if part.mean() >= 0.3 and change.mean() >= -0.002]
    missed = [f"{budget} ({plus(change)})" for budget, (_, change) in saved.items() if budget not in met]
    errors = [change.std(ddof=1) / np.sqrt(change.size) for _, change in saved.values()]
    weaker, shorter = [], []
    for share in SHOWN:
        losing = found.curves["softmax", 5][:, at(share)] - found.curves["squared error", 5][:, at(share)]
        if losing.mean() < 0:
            weaker.append(f"{share:.0%} of the cost ({plus(losing)})")
    for share, rows in found.cascades.items():
        losing = rows[:, 1] - rows[:, 2]
        if losing.mean() < -0.002:
            shorter.append(f"{share:.0%} ({plus(losing)})")
    data = "the generated queries" if task.name == "generated" else task.name
    parts = [
        f"On {data}, the target for cascades is to save at least 30% of the cost of the plain order, which computes "
        "the same features for every document, and to lower NDCG@10 by at most 0.002. Cascades meet this target at "
        f"{f'budgets of {in_words(met)}' if met else 'none of the budgets'}.",
        f"They miss it at {in_words(missed)}; the differences in NDCG@10 are given in brackets." if missed else "",
        f"At all budgets, the standard errors of the differences are between {min(errors):.4f} and {max(errors):.4f}.",
    ]
    others = [
        f"Softmax has a lower NDCG@5 than squared error at {in_words(weaker)}." if weaker else "",
        f"At budgets of {in_words(shorter)}, cascades that are chosen to stay within an average cost have a lower "
        "NDCG@10 than the plain order."
        if shorter
        else "",
    ]
    return "\n\n".join(filter(None, (" ".join(filter(None, each)) for each in (parts, others))))


def in_words(names: list[str]) -> str:
    """Write names with commas and an "and"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def section(task: Task, found: Found) -> Iterator[str]:
    """Yield the lines of a data set."""
    sizes = [np.unique(part.qid).size for part in task.folds[0]]
    yield from [
        f"## {task.name}", "",
        f"The data consist of {sum(sizes)} queries with {task.costs.size} features, in {len(task.folds)} folds. "
        "The table shows means over the folds. Differences are softmax minus squared error, ± one standard error of "
        "the paired difference.", "",
        "| budget, share of all | NDCG@5, squared error | NDCG@5, softmax | difference | NDCG@10, difference |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for share in SHOWN:
        old, new = (found.curves[name, 5][:, at(share)] for name in ("squared error", "softmax"))
        ten = found.curves["softmax", 10][:, at(share)] - found.curves["squared error", 10][:, at(share)]
        yield f"| {share:.0%} | {old.mean():.4f} | {new.mean():.4f} | {plus(new - old)} | {plus(ten)} |"
    yield from [
        "", f"With all features, LightGBM's lambdarank has an NDCG@5 of {found.trees[5].mean():.4f} and an NDCG@10 of "
        f"{found.trees[10].mean():.4f}.",
        "", "The next table shows, for each allowed cost, the best cascade of at most three levels whose average cost "
        "on the validation queries is within this limit. Each difference is the NDCG@10 of the cascade minus that of "
        "the plain order, first at the allowed cost and then with all features:", "",
        "| cost allowed | cost on test queries | NDCG@10 | plain order (difference) | difference from all features |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for share, rows in found.cascades.items():
        cost, value, plain, full = rows.T
        differences = f"{value.mean():.4f} | {plain.mean():.4f} ({plus(value - plain)}) | {plus(value - full)} |"
        yield f"| {share:.0%} | {cost.mean():.1%} | {differences}"
    yield from [
        "", "For each budget, the next table shows the cheapest cascade whose NDCG@10 on the validation queries is at "
        "least as high as the NDCG@10 of the plain order. The cost saved and the difference are measured on the test "
        "queries:", "",
        "| plain order at | cost saved | NDCG@10, difference |", "|---|---|---|",
    ]  # fmt: skip
    for share, rows in found.matching.items():
        yield f"| {share:.0%} | {rows[:, 0].mean():.0%} | {plus(rows[:, 1])} |"
    yield ""


def report(effort: Effort) -> Page:
    """Return the page."""
    tasks = [*([mq2008()] if effort.letor and LETOR.exists() else []), generated(effort)]
    results = [measured(task, effort) for task in tasks]
    page = Page(["# Rankings", ""])
    for say in (conclusion, of_cascades):
        page.add(*(line for task, found in zip(tasks, results, strict=True) for line in (say(task, found), "")))
    figure, axes = panels(len(tasks))
    for ax, task, found in zip(axes, tasks, results, strict=True):
        for name, colour in (("softmax", "#0072B2"), ("squared error", "#E69F00")):
            mean = found.curves[name, 5].mean(axis=0)
            ax.plot(SHARES, mean, label=name, color=colour)
        ax.axhline(found.trees[5].mean(), color="#8a8a8a", linestyle=":", label="LightGBM, all features")
        ax.set(title=task.name, xlabel="budget, share of the cost of all features", ylabel="NDCG@5")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    page.show("rankings", figure, "NDCG@5 against the budget, for softmax within queries and for squared error")
    for task, found in zip(tasks, results, strict=True):
        page.add(*section(task, found))
    page.add(
        "The features of MQ2008 have the prices that were published for the same kinds of features in MSLR. Page "
        "rank, links and properties of the URL cost 1 each; the other prices depend on the document field:",
        "",
        f"| kind | {' | '.join(FIELDS)} |",
        "|---" * (1 + len(FIELDS)) + "|",
        *(f"| {kind} | {' | '.join(map(str, prices))} |" for kind, prices in MSLR_KINDS.items()),
        "",
        "Every feature is a group of its own, and the rule is `omp`. The ridge constant is the one with the best "
        "NDCG@5 on the validation queries, averaged over all budgets. With squared error, models are trained only on "
        "queries that have a relevant document, because this gives better results.",
        "",
        "LightGBM uses trees with 15 leaves and a learning rate of 0.05, and the number of trees is chosen on the "
        "validation queries. The grades of the generated queries are linear in the quantities that the features "
        f"measure, which favours linear models. This page is made by `python experiments/{Path(sys.argv[0]).name} "
        "--write docs/results/rankings.md`.",
        "",
    )  # fmt: skip
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
