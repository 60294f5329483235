"""What early exit saves, whether it beats a fixed budget, and whether its probabilities are right: heart and thyroid.

``python experiments/early_exit.py --write docs/results/early_exit.md``; ``--quick`` runs a tiny version. Every sentence
about who is better is computed from the numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split
from sklearn.utils import Bunch

from budgetline import AnytimeClassifier, AnytimeRunner
from budgetline.datasets import load_heart, load_thyroid
from budgetline.runtime import EarlyExit

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from core import print_report

Chance = Callable[[int, np.ndarray], np.ndarray]

ALPHAS = {"Heart": 1e-2, "Thyroid": 1e-4}
THRESHOLDS = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
FIGURES = ("cost", "groups", "accuracy", "AUC", "differ", "accuracy, mixed", "differ, mixed")
EDGES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0)
REGRESSION, PLAIN = "regression", "unconditional"


@dataclass(frozen=True)
class Effort:
    """How much to run: (repeats, folds) of cross-validation, splits for calibration, and patients in the runner."""

    folds: dict[str, tuple[int, int]]
    splits: dict[str, int]
    patients: int = 20
    thin: int = 1


FULL = Effort({"Heart": (10, 10), "Thyroid": (2, 5)}, {"Heart": 40, "Thyroid": 4})
QUICK = Effort({"Heart": (1, 2), "Thyroid": (1, 2)}, {"Heart": 2, "Thyroid": 1}, patients=3, thin=10)


def stage_scores(model: AnytimeClassifier, X: np.ndarray) -> np.ndarray:
    """Return the scores (stages, n, P)."""
    return np.stack([s.reshape(len(s), -1) for s in model.staged_decision_function(X)])


def decisions(scores: np.ndarray) -> np.ndarray:
    """Return the position of the class that the scores (…, P) predict."""
    return (scores[..., 0] > 0).astype(int) if scores.shape[-1] == 1 else scores.argmax(axis=-1)


def unconditional(scores: np.ndarray) -> Chance:
    """Use the changes by the remaining groups on the sample (stages, m, P), without regressing on the score."""
    left = scores[-1] - scores

    def chance(stage: int, own: np.ndarray) -> np.ndarray:
        changed = [(decisions(s + left[stage - 1]) != decisions(s)).sum() for s in own]
        return (1 + np.array(changed)) / (1 + left.shape[1])

    return chance


def sample(scores: np.ndarray, most: int = 2000) -> np.ndarray:
    """Return at most the given number of inputs, as EarlyExit.learn does."""
    rows = np.random.default_rng(0).permutation(scores.shape[1])[:most]
    return scores[:, rows]


# -- what it saves -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """A model and its predictions for held-out patients: scores (stages, n, P), probabilities (stages, n, classes)."""

    model: AnytimeClassifier
    truth: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray

    @property
    def costs(self) -> np.ndarray:
        """Cost of every stage."""
        return np.asarray(self.model.sequence_.cumulative_costs)

    def figures(self, chance: np.ndarray, below: float) -> list[float]:
        """Return FIGURES if every run stops at the first stage whose chance (stages − 1, n) is below the threshold."""
        stops = first_below(chance, below)
        everyone = np.arange(self.truth.size)
        full = decisions(self.scores[-1])
        decided = decisions(self.scores[stops, everyone])
        right = np.array([self.model.classes_[decisions(s)] == self.truth for s in self.scores]).mean(axis=1)
        differ = np.array([decisions(s) != full for s in self.scores]).mean(axis=1)
        cost = float(self.costs[stops].mean())
        return [
            cost, float(1 + stops.mean()), float((self.model.classes_[decided] == self.truth).mean()),
            auc(self.truth, self.probabilities[stops, everyone], self.model.classes_), float((decided != full).mean()),
            float(np.interp(cost, self.costs, right)), float(np.interp(cost, self.costs, differ)),
        ]  # fmt: skip


def first_below(chance: np.ndarray, below: float) -> np.ndarray:
    """Return for every run the first stage (from 0) at which it stops."""
    return np.vstack([chance < below, np.ones((1, chance.shape[1]), dtype=bool)]).argmax(axis=0)


def auc(truth: np.ndarray, p: np.ndarray, classes: np.ndarray) -> float:
    """Return the AUC; for several classes, the mean of the one-vs-rest AUCs."""
    binary = len(classes) == 2
    return float(
        roc_auc_score(truth, p[:, 1]) if binary else roc_auc_score(truth, p, multi_class="ovr", labels=classes)
    )


def savings(data: Bunch, name: str, effort: Effort) -> tuple[dict[str, np.ndarray], int]:
    """Return FIGURES of shape (folds, thresholds, figures) per estimator, and how many runs were checked."""
    repeats, n_splits = effort.folds[name]
    found: dict[str, list[list[list[float]]]] = {REGRESSION: [], PLAIN: []}
    checked = 0
    cv = RepeatedStratifiedKFold(n_splits=n_splits, n_repeats=repeats, random_state=0)
    for train, test in cv.split(data.data, data.target):
        X, held = data.data[train], data.data[test]
        model = AnytimeClassifier(data.feature_groups, alpha=ALPHAS[name]).fit(X, data.target[train])
        fold = Fold(model, data.target[test], stage_scores(model, held), np.stack([*model.staged_predict_proba(held)]))
        ways: dict[str, Chance] = {
            REGRESSION: EarlyExit.fit(model, X).chance,
            PLAIN: unconditional(sample(stage_scores(model, X))),
        }
        for way, estimate in ways.items():
            chance = np.stack([estimate(j + 1, s) for j, s in enumerate(fold.scores[:-1])])
            found[way].append([fold.figures(chance, below) for below in THRESHOLDS])
            if way == REGRESSION and not checked:
                checked = check_runner(fold, X, held[: effort.patients], chance)
    return {way: np.array(figures) for way, figures in found.items()}, checked


def check_runner(fold: Fold, X: np.ndarray, patients: np.ndarray, chance: np.ndarray) -> int:
    """Run patients one by one, and compare the runner's stops and probabilities with the arrays here."""
    groups = fold.model.feature_groups_

    def reader(columns: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda patient: patient[list(columns)]

    extractors = {name: reader(c) for name, c in zip(groups.names, groups.columns, strict=True)}
    for below in THRESHOLDS[1:]:
        stops = first_below(chance, below)
        with AnytimeRunner(fold.model, extractors, early_exit=EarlyExit.fit(fold.model, X, threshold=below)) as runner:
            for i, patient in enumerate(patients):
                answer = runner.predict(patient)
                early = stops[i] + 1 < len(fold.scores)
                assert (answer.stage, answer.reason) == (stops[i] + 1, "decided" if early else "complete")
                assert np.allclose(answer.probabilities, fold.probabilities[stops[i], i], rtol=1e-9, atol=1e-12)
    return len(patients) * len(THRESHOLDS[1:])


def savings_section(figures: np.ndarray, costs: float) -> list[str]:
    """Return the table of one data set: mean over folds, differences to a fixed budget with their standard error."""
    heads = ("cost", "of all", "groups", "accuracy", "AUC", "decisions that differ", "fixed budget: accuracy", "differ")
    lines = [f"| method | {' | '.join(heads)} | exit better by |", "|---" * (len(heads) + 2) + "|"]
    mean = dict(zip(FIGURES, figures.mean(axis=0).T, strict=True))
    for t, below in enumerate(THRESHOLDS):
        gain, error = paired(figures[:, t, 2] - figures[:, t, 5])
        cells = [
            f"{mean['cost'][t]:.1f}", f"{mean['cost'][t] / costs:.0%}", f"{mean['groups'][t]:.1f}",
            f"{mean['accuracy'][t]:.4f}", f"{mean['AUC'][t]:.4f}", f"{mean['differ'][t]:.2%}",
            f"{mean['accuracy, mixed'][t]:.4f}", f"{mean['differ, mixed'][t]:.2%}", f"{gain:+.4f} ± {error:.4f}",
        ]  # fmt: skip
        lines.append(f"| {f'exit below {below:g}' if below else 'no early exit'} | {' | '.join(cells)} |")
    return lines


def paired(gaps: np.ndarray) -> tuple[float, float]:
    """Return the mean difference over folds, and its standard error."""
    return float(gaps.mean().round(12)) + 0.0, float(gaps.std(ddof=1) / np.sqrt(gaps.size))  # no "−0"


def savings_verdict(figures: np.ndarray) -> str:
    """Say at which thresholds early exit is more accurate than a fixed budget of the same mean cost."""
    better, worse, open_ = [], [], []
    for t, below in enumerate(THRESHOLDS):
        gain, error = paired(figures[:, t, 2] - figures[:, t, 5])
        if np.abs(figures[:, t, 0] - figures[:, 0, 0]).max() > 0:
            (better if gain > 2 * error else worse if gain < -2 * error else open_).append(f"{below:g}")
    found = {"more accurate": better, "less accurate": worse, "equally accurate (within two standard errors)": open_}
    above = [f"{below:g}" for t, below in enumerate(THRESHOLDS) if below and figures[:, t, 4].mean() >= below]
    kept = (
        f"At a threshold of {listed(above, 'or')}, the share of decisions that differ is above the threshold"
        if above
        else "The share of decisions that differ is always below the threshold"
    )
    verdict = ", and ".join(f"{what} at {listed(at, 'or')}" for what, at in found.items() if at)
    verdict = verdict.replace(" at ", " at a threshold of ", 1)
    return f"Compared with a fixed budget of the same mean cost, early exit is {verdict}. {kept}."


def listed(values: list[str], word: str) -> str:
    """Return values as in "a, b and c"."""
    *first, last = values
    return f"{', '.join(first)} {word} {last}" if first else last


def lowest_differ(found: dict[str, np.ndarray]) -> list[str]:
    """Return the table of decisions that differ at a given cost, with and without the regression."""
    lines = ["| method | " + " | ".join(f"below {t:g}" for t in THRESHOLDS[1:]) + " |", "|---" * len(THRESHOLDS) + "|"]
    for way, figures in found.items():
        mean = figures.mean(axis=0)
        lines.append(f"| {way} | " + " | ".join(f"{m[0]:.1f}: {m[4]:.2%}" for m in mean[1:]) + " |")
    return lines


# -- whether it is honest ------------------------------------------------------------------------------------------


def calibration(data: Bunch, name: str, effort: Effort) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return estimated probabilities, whether the decision changed, and the slopes of the first stages (first score).

    The model is fitted to half of the rows, early exit to the same rows or another quarter. The rest is held out.
    """
    estimates: dict[str, list[np.ndarray]] = {}
    changed, slopes = [], []
    for seed in range(effort.splits[name]):
        train, rest = train_test_split(
            np.arange(len(data.target)), stratify=data.target, test_size=0.5, random_state=seed
        )
        other, test = train_test_split(rest, stratify=data.target[rest], test_size=0.5, random_state=seed)
        model = AnytimeClassifier(data.feature_groups, alpha=ALPHAS[name]).fit(data.data[train], data.target[train])
        evaluated = stage_scores(model, data.data[test])
        changed += [decisions(s) != decisions(evaluated[-1]) for s in evaluated[:-1]]
        for where, rows in (("training rows", train), ("other rows", other)):
            learned = EarlyExit.fit(model, data.data[rows])
            plain = unconditional(sample(stage_scores(model, data.data[rows])))
            for way, estimate in ((REGRESSION, learned.chance), (PLAIN, plain)):
                estimates.setdefault(f"{way}, {where}", []).extend(
                    estimate(j + 1, s) for j, s in enumerate(evaluated[:-1])
                )
            if where == "training rows":
                slopes.append(np.array([change.slope[0, 0] for change in learned.changes[:4]]))
    return {k: np.concatenate(v) for k, v in estimates.items()}, np.concatenate(changed), np.mean(slopes, axis=0)


def calibration_section(estimates: dict[str, np.ndarray], changed: np.ndarray) -> list[str]:
    """Return the table of estimated against observed rates of change."""
    heads = [f"{a:g}–{b:g}" for a, b in pairwise(EDGES)]
    lines = [f"| method | mean | log loss | Brier | {' | '.join(heads)} |", "|---" * (len(heads) + 4) + "|"]
    for way, p in estimates.items():
        loss, brier = scores_of(p, changed)
        cells = []
        for a, b in pairwise(EDGES):
            inside = (p >= a) & ((p < b) | (b == 1.0))
            cells.append(f"{p[inside].mean():.3f} → {changed[inside].mean():.3f}" if inside.any() else "")
        lines.append(f"| {way} | {p.mean():.4f} | {loss:.4f} | {brier:.4f} | {' | '.join(cells)} |")
    return lines


def scores_of(p: np.ndarray, changed: np.ndarray) -> tuple[float, float]:
    """Return log loss and Brier score of estimated chances."""
    likely = np.where(changed, p, 1 - np.minimum(p, 1 - 1e-9))
    return float(-np.log(likely).mean()), float(((p - changed) ** 2).mean())


def calibration_verdict(estimates: dict[str, np.ndarray], changed: np.ndarray) -> str:
    """Say which way of estimating has the lowest log loss."""
    loss = {way: scores_of(p, changed)[0] for way, p in estimates.items()}
    best = min(loss, key=loss.__getitem__)
    rate = f"The observed rate of changed decisions is {changed.mean():.4f}."
    return f"{rate} The method with the lowest log loss is **{best}**."


HEAD = """\
# Early exit: heart and thyroid

Made by `python experiments/early_exit.py --write docs/results/early_exit.md`.

`EarlyExit` stops the run for a patient at the first stage at which the estimated probability that the remaining groups
would change the decision is below a threshold. The prices were published by Turney and are in Canadian dollars. `alpha`
is fixed at 1e-2 for heart and at 1e-4 for thyroid. `EarlyExit` is fitted on the training rows of the model, as most
users would do. All figures are measured on held-out rows and are means over folds ± standard errors. Because folds of
different repeats share patients, the standard errors are too small for conclusions about new patients.

The fixed budget does not take the values of the individual patient into account. Each patient gets one of two
neighbouring prefixes of the same sequence, chosen at random so that the mean cost equals the mean cost of early exit.
"Decisions that differ" is the share of decisions that differ from the decisions of the model with all groups. The AUC
is computed from the probabilities at the exits, pooled over all stages. With a threshold below 1/(1 + number of
training rows), no run ever stops early.
"""

HONEST = """\
## Is the estimated probability honest?

The model is fitted on half of the rows. `EarlyExit` is fitted on the same rows ("training rows") or on another quarter
of the rows ("other rows"). The last quarter is held out, and every stage except the last is evaluated on it. Each cell
covers the estimates that lie in the interval of its column. It shows their mean and, after the arrow, how often the
decision actually changed.

"Regression" is the method of `EarlyExit`, which regresses the final score on the score so far and draws residuals from
the rows it was fitted on. "Unconditional" ignores the score so far: it adds to every score the changes that the
remaining groups caused in these rows.
"""


def report(effort: Effort) -> list[str]:
    """Run everything and return the lines of the report."""
    sets = {"Heart": load_heart(), "Thyroid": load_thyroid()}
    thyroid = sets["Thyroid"]
    thyroid.data, thyroid.target = thyroid.data[:: effort.thin], thyroid.target[:: effort.thin]
    lines = [HEAD]
    for name, data in sets.items():
        found, checked = savings(data, name, effort)
        repeats, folds = effort.folds[name]
        how = f"{repeats} × {folds}-fold stratified cross-validation, {len(data.target)} rows"
        lines += [f"## {name}: {how}", "", *savings_section(found[REGRESSION], data.feature_groups.costs.sum()), ""]
        lines += [savings_verdict(found[REGRESSION]), ""]
        same = f"All {checked} runs stopped at the same stages, with the same probabilities."
        lines += [f"As a check, the predictions were repeated with `AnytimeRunner`. {same}", ""]
        lines += [
            "The next table shows the mean cost and the share of decisions that differ, for estimates with and without "
            "the regression that is described below.",
            "",
            *lowest_differ(found),
            "",
        ]
    lines += [HONEST]
    for name, data in sets.items():
        estimates, changed, slopes = calibration(data, name, effort)
        lines += [f"### {name}: {effort.splits[name]} random splits", "", *calibration_section(estimates, changed), ""]
        lines += [calibration_verdict(estimates, changed), ""]
        if len(np.unique(data.target)) == 2:
            steps = listed([f"{slope:.2f}" for slope in slopes], "and")
            earlier = "the log odds after one, two, three and four groups"
            lines += [f"When the final log odds are regressed on {earlier}, the slopes are {steps}.", ""]
    return lines


if __name__ == "__main__":
    print_report(report, FULL, QUICK, __doc__)
