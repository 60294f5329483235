"""Survival times with priced tests: SUPPORT2 and GBSG2, compared with Cox on all columns and with boosted trees.

``python experiments/survival.py --write docs/results/survival.md``; ``--quick`` runs a tiny version. The tables are
read from the folder that the variable SURVIVAL_DATA names, by default ../shared/data/survival; without it, patients are
generated. Laboratory tests cost what the clinical laboratory fee schedule of Medicare (United States, 2020 to 2025) has
for them, in whole dollars; what is asked or measured at the bed costs 1.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from page import Page, panels, run
from sklearn.model_selection import RepeatedStratifiedKFold

from budgetline import AnytimeSurvival, AnytimeSurvivalCV, FeatureGroups, budget_curve
from budgetline.evaluation import concordance

SURVIVAL = Path(os.environ.get("SURVIVAL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data" / "survival"))
SHARES = (0.1, 0.25, 0.5, 1.0)
SUPPORT2 = {  # group: (columns, dollars, what it is)
    "age": (["age"], 1, "asked"), "sex": (["sex"], 1, "asked"), "race": (["race"], 1, "asked"),
    "education": (["edu"], 1, "asked"), "income": (["income"], 1, "asked"),
    "disease": (["dzgroup", "dzclass"], 1, "the chart"),
    "comorbidities": (["num.co", "diabetes", "dementia"], 1, "the chart"),
    "cancer": (["ca"], 1, "the chart"), "day in hospital": (["hday"], 1, "the chart"),
    "coma score": (["scoma"], 1, "at the bed"), "blood pressure": (["meanbp"], 1, "at the bed"),
    "heart rate": (["hrt"], 1, "at the bed"), "respiration": (["resp"], 1, "at the bed"),
    "temperature": (["temp"], 1, "at the bed"), "urine": (["urine"], 1, "at the bed"),
    "white cells": (["wblc"], 8, "85025, blood count"), "blood gases": (["pafi", "ph"], 26, "82803, blood gases"),
    "albumin": (["alb"], 5, "82040"), "bilirubin": (["bili"], 5, "82247"), "creatinine": (["crea"], 5, "82565"),
    "sodium": (["sod"], 5, "84295"), "glucose": (["glucose"], 4, "82947"), "urea": (["bun"], 4, "84520"),
}  # fmt: skip


@dataclass(frozen=True)
class Patients:
    """A table, times and events, and groups with prices."""

    name: str
    X: pd.DataFrame
    time: np.ndarray
    event: np.ndarray
    groups: FeatureGroups


@dataclass(frozen=True)
class Effort:
    """Folds, most patients, and trees; tables of less than 2,000 rows are split into folds ``repeats`` times."""

    folds: int = 5
    repeats: int = 4
    most: int | None = None
    trees: int = 300


QUICK = Effort(2, 1, 200, 5)


def tables(effort: Effort) -> Iterator[Patients]:
    """Yield the tables that are there, or generated patients."""
    if not SURVIVAL.exists():
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(300, 4)), columns=["age", "pulse", "urea", "scan"])
        died, left = rng.exponential(np.exp(-X["age"] - X["scan"])), rng.exponential(2.0, 300)
        costs = {"age": 1.0, "pulse": 1.0, "urea": 4.0, "scan": 100.0}
        groups = FeatureGroups({name: [name] for name in costs}, costs=costs)
        yield Patients("generated", X, np.minimum(died, left), died <= left, groups)
        return
    support = pd.read_csv(SURVIVAL / "support2.csv.gz", index_col=0).sample(frac=1, random_state=0)
    support = support.iloc[: effort.most]
    columns = [column for own, _, _ in SUPPORT2.values() for column in own]
    costs = {name: float(price) for name, (_, price, _) in SUPPORT2.items()}
    groups = FeatureGroups({name: own for name, (own, _, _) in SUPPORT2.items()}, costs=costs)
    yield Patients(
        "SUPPORT2", support[columns], support["d.time"].to_numpy(float), support["death"].to_numpy() == 1, groups
    )
    gbsg = pd.read_csv(SURVIVAL / "gbsg2.csv").iloc[: effort.most]
    prices = {
        "age": 1,
        "menostat": 1,
        "horTh": 1,
        "tsize": 20,
        "tgrade": 20,
        "pnodes": 60,
        "progrec": 100,
        "estrec": 100,
    }
    groups = FeatureGroups({name: [name] for name in prices}, costs={name: float(p) for name, p in prices.items()})
    yield Patients("GBSG2", gbsg[list(prices)], gbsg["time"].to_numpy(float), gbsg["cens"].to_numpy() == 1, groups)


def cox_gradient(time: np.ndarray, event: np.ndarray) -> object:
    """Return the objective of boosted trees: gradient and Hessian of Cox's partial likelihood, by Breslow."""
    order = np.argsort(-time, kind="stable")
    ends = np.searchsorted(-time[order], -time, side="right") - 1  # the last row at risk at each time

    def objective(_: object, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raised = np.exp(scores - scores.max())
        at_risk = np.cumsum(raised[order])[ends]
        one, two = (np.where(event, 1 / at_risk**p, 0.0)[order] for p in (1, 2))
        # rows at risk at an event are all with a time that is not earlier
        later = np.searchsorted(-time[order], -time, side="left")
        sums = [np.append(np.cumsum(part[::-1])[::-1], 0.0)[later] for part in (one, two)]
        return raised * sums[0] - event, np.maximum(raised * sums[0] - raised**2 * sums[1], 1e-6)

    return objective


def boosted(train: Patients, test: pd.DataFrame, trees: int) -> np.ndarray:
    """Return risk scores of LightGBM with Cox's loss, on all columns."""

    def ready(X: pd.DataFrame) -> pd.DataFrame:
        return X.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else c.astype(kinds[c.name]))

    kinds = {
        name: pd.CategoricalDtype(sorted(c.dropna().unique()))
        for name, c in train.X.items()
        if not pd.api.types.is_numeric_dtype(c)
    }
    model = lightgbm.LGBMRegressor(
        n_estimators=trees, learning_rate=0.03, num_leaves=8, min_child_samples=40, subsample=0.8, subsample_freq=1,
        colsample_bytree=0.8, random_state=0, n_jobs=2, verbose=-1, objective=cox_gradient(train.time, train.event),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.fit(ready(train.X), train.event.astype(float)).predict(ready(test)))


def measured(patients: Patients, effort: Effort) -> dict[str, np.ndarray]:
    """Return concordances (folds, budgets) of the order, and (folds,) of the others."""
    methods = ("order", "cheapest first", "Cox, all columns", "boosted trees")
    found: dict[str, list[object]] = {name: [] for name in methods}
    repeats = effort.repeats if len(patients.X) < 2_000 else 1
    cv = RepeatedStratifiedKFold(n_splits=effort.folds, n_repeats=repeats, random_state=0)
    budgets = np.array(SHARES) * patients.groups.prices.total
    for rows, held in cv.split(patients.X, patients.event):
        train = Patients("", patients.X.iloc[rows], patients.time[rows], patients.event[rows], patients.groups)
        X, truth = patients.X.iloc[held], (patients.time[held], patients.event[held])
        search = AnytimeSurvivalCV(patients.groups, encoding="spline", rule="score", alphas=(1e-3, 1e-2, 1e-1))
        search.fit(train.X, train.time, train.event)
        cheapest = search.chosen().set_params(schedule="cheapest").fit(train.X, train.time, train.event)
        for name, model in zip(methods, (search, cheapest), strict=False):
            curve = budget_curve(model, X, truth, metric="concordance")
            found[name].append([curve.at(b, interpolation="step") for b in budgets])
        linear = AnytimeSurvival(patients.groups, encoding="linear", rule="omp", alpha=1e-4)
        found["Cox, all columns"].append(linear.fit(train.X, train.time, train.event).score(X, truth))
        found["boosted trees"].append(concordance(*truth, boosted(train, X, effort.trees)))
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def conclusion(name: str, found: dict[str, np.ndarray]) -> str:
    """Say in words what was found, and what was lost."""
    order, cheapest = (found[way].mean(axis=0) for way in ("order", "cheapest first"))
    ahead = [
        f"{words} (by {plus(gap)})"
        for other, words in (("Cox, all columns", "Cox on all columns"), ("boosted trees", "boosted trees"))
        if (gap := found[other] - found["order"][:, -1]).mean() > 0.0005
    ]
    cheaper = [
        f"{share:.0%} of the cost (by {plus(gap)})"
        for share, gap in zip(SHARES, (found["cheapest first"] - found["order"]).T, strict=True)
        if gap.mean() > 0.0005
    ]
    lost = [f"With all groups, the learned order is worse than {' and '.join(ahead)}."] if ahead else []
    if cheaper:
        lost.append(
            f"The learned order is worse than the order from cheapest to most expensive at {' and at '.join(cheaper)}."
        )
    return (
        f"**{name}**: with {SHARES[1]:.0%} of the cost, the learned order reaches a concordance of {order[1]:.3f}, and "
        f"the order from cheapest to most expensive reaches {cheapest[1]:.3f}. With all groups, the concordance is "
        f"{order[-1]:.3f}. A linear Cox model on all columns reaches {found['Cox, all columns'].mean():.3f}, and "
        f"boosted trees with Cox's loss reach {found['boosted trees'].mean():.3f}. "
        f"{' '.join(lost) or 'The learned order is not worse than any of the other methods.'}"
    )


def plus(values: np.ndarray) -> str:
    """Return a mean with its standard error."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(values.size):.3f}"


def report(effort: Effort) -> Page:
    """Return the page."""
    results = [(patients, measured(patients, effort)) for patients in tables(effort)]
    page = Page(["# Survival times with priced tests", ""])
    for patients, found in results:
        page.add(conclusion(patients.name, found), "")
    figure, axes = panels(max(len(results), 2))
    for ax, (patients, found) in zip(axes, results, strict=False):
        for name, colour in (
            ("order", "#0072B2"),
            ("cheapest first", "#56B4E9"),
        ):
            ax.plot(SHARES, found[name].mean(axis=0), marker="o", label=name, color=colour)
        for name, style in (("Cox, all columns", "--"), ("boosted trees", ":")):
            ax.axhline(found[name].mean(), color="#8a8a8a", linestyle=style, label=name)
        ax.set(title=patients.name, xlabel="share of the cost of all groups", ylabel="concordance")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    page.show("survival", figure, "Concordance against the share of the cost that is spent")
    head = " | ".join(f"{share:.0%}" for share in SHARES)
    for patients, found in results:
        page.add(
            f"## {patients.name}", "",
            f"The data contain {len(patients.X):,} patients, {patients.event.mean():.0%} of whom had an event, and "
            f"{len(patients.groups)} groups of columns with a total cost of {patients.groups.prices.total:g}. The "
            f"results are means over {len(found['order'])} folds, ± one standard error.", "",
            f"| concordance | {head} |", "|---" * (len(SHARES) + 1) + "|",
        )  # fmt: skip
        for name, values in found.items():
            cells = (
                values
                if values.ndim == 2
                else np.column_stack([np.full((len(values), len(SHARES) - 1), np.nan), values])
            )
            shown = [
                "" if np.isnan(c).any() else f"{c.mean():.3f} ± {c.std(ddof=1) / np.sqrt(len(c)):.3f}" for c in cells.T
            ]
            page.add(f"| {name} | {' | '.join(shown)} |")
        page.add("")
    prices = ", ".join(f"{price} for {name} ({what})" for name, (_, price, what) in SUPPORT2.items() if price > 1)
    page.add(
        f"The prices of SUPPORT2, in dollars, are {prices} and 1 for everything else. The numbers in brackets are "
        "codes of Medicare's clinical laboratory fee schedule (United States, 2020 to 2025), whose prices are rounded "
        "to whole dollars. A single analysis of blood gases measures both pH and PaO2/FiO2.",
        "",
        "The prices for GBSG2 are guesses: 1 for each question that the patient is asked, 20 each for the size and "
        "the grade of the tumour, 60 for the nodes, and 100 for each receptor.",
        "",
        "For the learned order, alpha and the correction are chosen by cross-validation on the training rows. On "
        "GBSG2, cross-validation with five folds is repeated four times, so the standard errors are a little too "
        "small. The boosted trees are LightGBM with 300 trees of 8 leaves and a learning rate of 0.03; they are not "
        "tuned. This page is made by `python experiments/survival.py --write docs/results/survival.md`.",
        "",
    )
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
