"""Who classifies best at which budget, and what any-subset predictions are worth, on real data with real prices.

``python experiments/classification.py --write docs/results/classification.md``; ``--quick`` runs a tiny version. Every
sentence about who wins is computed from the numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.utils import Bunch

from budgetline import AnytimeClassifier, FeatureGroups, FixedOrder
from budgetline.datasets import load_heart, load_thyroid

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from core import print_report

Split = tuple[np.ndarray, np.ndarray]
Scores = dict[str, np.ndarray]

ALPHAS = {"heart": 1e-2, "thyroid": 1e-4}
BUDGETS = {"heart": (5.0, 20.0, 100.0, 200.0, 323.97), "thyroid": (5.0, 10.0, 16.0, 60.0, 69.81)}
METRICS = ("AUC", "accuracy")


CHEAPEST = "cheapest first"
METHODS: dict[str, dict[str, Any]] = {
    "forward": {"rule": "forward"},
    "omp": {"rule": "omp"},
    "score": {"rule": "score"},
    "forward, cost-insensitive": {"rule": "forward", "cost_sensitive": False},
    CHEAPEST: {"rule": "omp"},
}
REPLANNED, EVERYTHING = "forward, a new plan for each budget", "all features, whatever the budget"


@dataclass(frozen=True)
class Effort:
    """How much to run. Every ``thin``-th row of thyroid is used."""

    repeats: int = 10
    folds: int = 10
    resamples: int = 200
    subsets: tuple[int, int] = (100, 30)
    thin: int = 1


QUICK = Effort(repeats=1, folds=2, resamples=5, subsets=(3, 2), thin=10)


# -- quality at budgets ----------------------------------------------------------------------------------------


def metrics(y: np.ndarray, p: np.ndarray, classes: np.ndarray) -> tuple[float, float]:
    """Return AUC (for several classes, the mean of the one-vs-rest AUCs) and accuracy."""
    auc = roc_auc_score(y, p[:, 1]) if len(classes) == 2 else roc_auc_score(y, p, multi_class="ovr", labels=classes)
    return float(auc), float(accuracy_score(y, classes[p.argmax(axis=1)]))


def predictions(data: Bunch, name: str, split: Split) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield every method with its probabilities for the held-out rows at each budget."""
    train, test = split
    X, y, held = data.data[train], data.target[train], data.data[test]
    budgets = BUDGETS[name]

    def fitted(**params: Any) -> AnytimeClassifier:
        return AnytimeClassifier(data.feature_groups, alpha=ALPHAS[name], **params).fit(X, y)

    listed = FixedOrder(np.argsort(data.feature_groups.costs, kind="stable"))  # equal prices keep their order
    for method, params in METHODS.items():
        model = fitted(**params, schedule=listed if method == CHEAPEST else "greedy")
        yield method, [model.predict_proba(held, budget=b) for b in budgets]
    yield REPLANNED, [fitted(rule="forward", max_cost=b).predict_proba(held) for b in budgets]
    yield EVERYTHING, [model.predict_proba(held)] * len(budgets)


def heart_scores(data: Bunch, effort: Effort) -> tuple[Scores, float]:
    """Return scores of shape (folds, budgets, metrics) per method, and what their spread is divided by."""
    cv = RepeatedStratifiedKFold(n_splits=effort.folds, n_repeats=effort.repeats, random_state=0)
    scores: dict[str, list[Any]] = {}
    for split in cv.split(data.data, data.target):
        y, classes = data.target[split[1]], np.unique(data.target)
        for method, probabilities in predictions(data, "heart", split):
            scores.setdefault(method, []).append([metrics(y, p, classes) for p in probabilities])
    return {m: np.array(s) for m, s in scores.items()}, np.sqrt(effort.folds * effort.repeats)


def thyroid_scores(data: Bunch, effort: Effort) -> tuple[Scores, Scores]:
    """Return scores of shape (budgets, metrics) on the test rows, and on bootstrap samples of these rows."""
    split = np.flatnonzero(~data.is_test), np.flatnonzero(data.is_test)
    y, classes = data.target[split[1]], np.unique(data.target)
    rng = np.random.default_rng(0)
    samples = [rng.integers(len(y), size=len(y)) for _ in range(effort.resamples)]
    point, boot = {}, {}
    for method, probabilities in predictions(data, "thyroid", split):
        point[method] = np.array([metrics(y, p, classes) for p in probabilities])
        boot[method] = np.array([[metrics(y[s], p[s], classes) for p in probabilities] for s in samples])
    return point, boot


def quality_section(title: str, budgets: tuple[float, ...], mean: Scores, draws: Scores, divisor: float) -> list[str]:
    """Return tables and verdicts; the standard error of a number is the spread of its draws over the divisor."""
    lines = []
    for k, metric in enumerate(METRICS):
        heads = [f"{b:g}" for b in budgets[:-1]] + [f"all ({budgets[-1]:g})"]
        lines += [f"### {title}: {metric}", "", f"| method | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for method, value in mean.items():
            spread = draws[method].std(axis=0, ddof=1) / divisor
            cells = [f"{v:.3f} ± {s:.3f}" for v, s in zip(value[:, k], spread[:, k], strict=True)]
            lines.append(f"| {method} | {' | '.join(cells)} |")
        lines.append("")
        lines += ["| budget | best | within one standard error | behind |", "|---|---|---|---|"]
        lines += [f"| {head} | {verdict(b, k, mean, draws, divisor)} |" for b, head in enumerate(heads)]
        lines.append("")
    return lines


def verdict(b: int, k: int, mean: Scores, draws: Scores, divisor: float) -> str:
    """Return the winners at a budget, as cells; each paired difference has its own standard error."""
    ranked = sorted(METHODS, key=lambda m: -mean[m][b, k])
    best, same, close, behind = ranked[0], [], [], []
    for m in ranked[1:]:
        gap = float(mean[best][b, k] - mean[m][b, k])
        error = float((draws[best] - draws[m])[:, b, k].std(ddof=1) / divisor)
        (same if gap == error == 0 else close if gap <= error else behind).append(f"{m} (−{gap:.3f})")
    names = " = ".join([best, *(s.split(" (")[0] for s in same)])
    return " | ".join([names, "; ".join(close), "; ".join(behind)])


# -- predictions from any subset -------------------------------------------------------------------------------


def random_subsets(names: tuple[str, ...], count: int) -> list[list[str]]:
    """Draw subsets that are neither empty nor everything: first the size, then the groups."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, len(names), size=count)
    return [sorted(rng.choice(names, size, replace=False).tolist()) for size in sizes]


def subset_scores(data: Bunch, alpha: float, splits: list[Split], subsets: list[list[str]]) -> np.ndarray:
    """Return log loss and AUC of null model, refit and ``available=``: means over splits, shape (subsets, 3, 2)."""
    groups, classes = data.feature_groups, np.unique(data.target)
    total = np.zeros((len(subsets), 3, 2))
    for train, test in splits:
        X, y, held, truth = data.data[train], data.target[train], data.data[test], data.target[test]
        model = AnytimeClassifier(groups, rule="omp", alpha=alpha).fit(X, y)
        for s, subset in enumerate(subsets):
            columns = {n: c for n, c in zip(groups.names, groups.columns, strict=True) if n in subset}
            only = FeatureGroups(columns, remainder="drop")
            refit = AnytimeClassifier(only, rule="omp", alpha=alpha).fit(X, y)
            probabilities = (
                model.predict_proba(held, stage=0),
                refit.predict_proba(held),
                model.predict_proba(held, available=subset),
            )
            total[s] += [(log_loss(truth, p, labels=classes), metrics(truth, p, classes)[0]) for p in probabilities]
    return np.asarray(total / len(splits))


def subset_section(results: dict[str, tuple[list[list[str]], np.ndarray]]) -> list[str]:
    """Return the table that compares ``available=`` with a model refitted on exactly the available groups."""
    lines = [
        "| data | subsets | log loss: null | refitted | `available=` | excess: mean | median | worst "
        "| AUC: refitted | `available=` | worst loss of AUC |",
        "|---" * 11 + "|",
    ]
    remarks = []
    for name, (subsets, scores) in results.items():
        loss, auc = scores[:, :, 0], scores[:, :, 1]
        excess, drop = loss[:, 2] - loss[:, 1], auc[:, 1] - auc[:, 2]
        cells = [*loss.mean(axis=0), excess.mean(), np.median(excess), excess.max(), *auc.mean(axis=0)[1:], drop.max()]
        lines.append(f"| {name} | {len(subsets)} | {' | '.join(f'{c:.4f}' for c in cells)} |")
        worst = subsets[int(excess.argmax())]
        kept = (loss[:, 0] - loss[:, 2]).mean() / (loss[:, 0] - loss[:, 1]).mean()
        remarks.append(
            f"- {name}: on average, predicting with `available=` achieves {kept:.1%} of the reduction in log loss that "
            "refitting achieves compared with the null model. The null model is better than these predictions on "
            f"{np.sum(loss[:, 2] > loss[:, 0])} of {len(subsets)} subsets and better than the refitted model on "
            f"{np.sum(loss[:, 1] > loss[:, 0])} subsets. The predictions are better than the refitted model on "
            f"{np.sum(excess < 0)} subsets. The excess is largest if only "
            f"{' and '.join(part for part in (', '.join(worst[:-1]), worst[-1]) if part)} "
            f"{'are' if len(worst) > 1 else 'is'} available."
        )
    return [*lines, "", *remarks]


# -- the report ------------------------------------------------------------------------------------------------

HEAD = """\
# Classification at a budget: heart and thyroid

Made by `python experiments/classification.py --write docs/results/classification.md`.

The prices were published by Turney and are in Canadian dollars. `alpha` is not tuned; it is fixed at 1e-2 for heart and
1e-4 for thyroid. Each budget buys the longest affordable prefix of the learned sequence. *Cheapest first* sorts the
groups by price; groups with equal prices keep the order that they have in the data. Two methods are shown for reference
and are not ranked. One learns a new sequence for each budget (`max_cost`). It is not an anytime method, and it skips
groups that do not fit into the budget. The other is logistic regression on all features (the last stage of the model).
"""


def report(effort: Effort) -> list[str]:
    """Run everything and return the lines of the report."""
    heart, thyroid = load_heart(), load_thyroid()
    for key in ("data", "target", "is_test"):
        thyroid[key] = thyroid[key][:: effort.thin]
    folds, divisor = heart_scores(heart, effort)
    mean = {m: s.mean(axis=0) for m, s in folds.items()}
    lines = [
        HEAD,
        f"## Heart: {effort.repeats} × {effort.folds}-fold stratified cross-validation, {len(heart.target)} patients",
        "",
        f"The tables show means over the {effort.repeats * effort.folds} folds ± standard errors. Because folds of "
        "different repeats share patients, these standard errors are too small for conclusions about new patients. "
        "Methods are compared by paired differences over folds, and a difference of one standard error is not "
        "conclusive.",
        "",
        *quality_section("Heart", BUDGETS["heart"], mean, folds, divisor),
    ]
    point, boot = thyroid_scores(thyroid, effort)
    test = thyroid.target[thyroid.is_test]
    lines += [
        f"## Thyroid: fixed split, {np.sum(~thyroid.is_test)} training and {len(test)} test rows, 3 classes",
        "",
        "Scores are measured on the test rows, and their standard errors are estimated from "
        f"{effort.resamples} bootstrap samples. The AUC is the mean of three one-vs-rest AUCs, one per class. Always "
        f"predicting the largest class gives an accuracy of {np.bincount(test).max() / len(test):.3f}.",
        "",
        *quality_section("Thyroid", BUDGETS["thyroid"], point, boot, 1.0),
    ]
    kept = {
        "heart": (
            heart,
            list(StratifiedKFold(effort.folds, shuffle=True, random_state=0).split(heart.data, heart.target)),
        ),
        "thyroid": (thyroid, [(np.flatnonzero(~thyroid.is_test), np.flatnonzero(thyroid.is_test))]),
    }
    results = {}
    for (name, (data, splits)), count in zip(kept.items(), effort.subsets, strict=True):
        subsets = random_subsets(data.feature_groups.names, count)
        results[name] = subsets, subset_scores(data, ALPHAS[name], splits, subsets)
    return [
        *lines,
        "## Predictions from any subset of groups",
        "",
        "The table compares the held-out log loss of `predict_proba(available=subset)` with the log loss of a model "
        'refitted on exactly these groups, and with the log loss of the class frequencies alone ("null"). Excess is '
        "the log loss with `available=` minus the log loss of the refitted model. Each subset is drawn at random, "
        f"first its size and then its groups. Results for heart are means over {effort.folds} folds, and results for "
        "thyroid are measured on its fixed split. The [page on subsets](subsets.md) has newer results.",
        "",
        *subset_section(results),
        "",
    ]


if __name__ == "__main__":
    print_report(report, Effort(), QUICK, __doc__)
