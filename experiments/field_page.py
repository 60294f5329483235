"""The field page: tables, sentences and figures from the scores that ``field.py`` keeps. Nothing is fitted here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from field_drawings import Drawing
from page import Page

LINEAR, SPLINE, PAIRS, TREES = "linear", "spline", "spline + pairs", "trees"
FAMILIES = (LINEAR, SPLINE, PAIRS, TREES)
PLAN, IMPORTANCE, NETWORK, REFIT = "plan", "trees, own importance", "network, permutation", "refitted"
COMMAND = "python experiments/field.py --write docs/results/field.md"

# Printed in notebooks/spam.ipynb of github.com/iancovert/dynamic-selection (e2b6f74): one run on one split.
GDFS_AUC = (82.74, 88.83, 92.62, 95.25, 95.76, 96.27, 96.36, 96.61, 96.66, 96.92, 97.99, 97.95, 97.97)
GDFS_ACCURACY = (78.48, 82.28, 85.76, 90.54, 90.87, 91.20, 90.98, 91.85, 92.50, 92.17, 93.37, 93.26, 93.80)
AFA_F1 = {5: ("GDFS", 0.43), 16: ("GDFS", 0.47), 29: ("DIME", 0.48)}
"""Read from a figure of the AFA benchmark, at an average number of features per row."""
OWN = "LightGBM with its own feature ranking"
SHOWN = {"spam": (1, 5, 10, 25), "physionet": (5, 16, 29)}
"""Budgets of the table of all data."""


@dataclass(frozen=True)
class Results:
    """The scores of one data set."""

    name: str
    record: dict[str, Any]

    @property
    def budgets(self) -> tuple[float, ...]:
        """Numbers of columns, or shares of the total cost."""
        return tuple(self.record["budgets"])

    @property
    def metric(self) -> str:
        """The metric by which models are chosen."""
        return str(self.record["metric"])

    @property
    def splits(self) -> list[dict[str, Any]]:
        """The scores of each split, by family."""
        return list(self.record["splits"])

    def of(self, family: str, metric: str | None = None) -> np.ndarray:
        """Return the test scores of a family, shape (splits, budgets)."""
        return np.array([split[family]["test"][metric or self.metric] for split in self.splits])

    def has(self, family: str) -> bool:
        """Return whether a family was fitted."""
        return family in self.splits[0]

    @property
    def choices(self) -> list[str]:
        """The family with the best mean over budgets on the validation rows of each split."""
        families = [family for family in FAMILIES if self.has(family)]
        means = [[np.mean(split[f]["validation"][self.metric]) for f in families] for split in self.splits]
        return [families[int(np.argmax(each))] for each in means]

    def ours(self, metric: str | None = None) -> np.ndarray:
        """Return the test scores of the family chosen on each split."""
        of = metric or self.metric
        return np.array([s[c]["test"][of] for s, c in zip(self.splits, self.choices, strict=True)])

    def places(self) -> list[int]:
        """Return the positions of the budgets in the table of all data."""
        return [k for k, b in enumerate(self.budgets) if b in SHOWN.get(self.name, self.budgets)]

    def label(self, k: int) -> str:
        """Return a budget in words."""
        budget = self.budgets[k]
        return f"{budget:g}" if self.name in GROUPLESS else f"{budget:.0%}"


GROUPLESS = ("spam", "physionet", "bank", "bank without duration")


# -- numbers as text -------------------------------------------------------------------------------------------


def error(values: np.ndarray) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0


def mean_of(values: np.ndarray, digits: int = 3, scale: float = 1.0) -> str:
    """Write the mean over splits and its standard error."""
    return f"{scale * values.mean():.{digits}f} ± {scale * error(values):.{digits}f}"


def signed(value: float, digits: int = 2) -> str:
    """Write a difference."""
    return f"{value:+.{digits}f}".replace("-", "−")


def paired(values: np.ndarray, digits: int = 2) -> str:
    """Write the mean of differences, in points, and its standard error."""
    return f"{signed(100 * values.mean(), digits)} ± {100 * error(values):.{digits}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table."""
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows), ""]


def listed(names: Iterable[str]) -> str:
    """Count names in words, the most frequent first."""
    (first, most), *others = Counter(names).most_common()
    shown = [f"{first} (on {most} split{'s' if most > 1 else ''})"]
    return in_words([*shown, *(f"{name} (on {count})" for name, count in others)])


def in_words(names: Sequence[str]) -> str:
    """Write names with commas and an "and"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


# -- sections --------------------------------------------------------------------------------------------------


def page_of(known: dict[str, Any]) -> Page:
    """Return the page of all scores that are known."""
    results = {name: Results(name, record) for name, record in known.items()}
    first = next(iter(results.values()))
    page = Page(
        ["# Compared with published methods", "", f"Made by `{COMMAND}`.", ""], measured=first.record["measured"]
    )
    if "spam" in results:
        alt = "AUROC on Spam against the number of features: budgetline and the published per-row method GDFS"
        page.show("field", front(results["spam"]), alt)
    page.add(*INTRODUCTION)
    page.add(*in_short(results))
    if "spam" in results:
        page.add(*spam_section(results["spam"]))
    if "physionet" in results:
        page.add(*physionet_section(results["physionet"]))
    if "bank" in results:
        page.add(*bank_section([results[name] for name in ("bank", "bank without duration") if name in results]))
    side_by_side(page, list(results.values()))
    page.add(*LIMITS)
    seconds = sum(record["seconds"] for record in known.values())
    page.add(f"Together, all fits took {seconds / 60:.0f} minutes on one core.", "")
    others = {where: [n for n, r in known.items() if r["measured"] == where] for where in elsewhere(known)}
    page.add(
        *(line for where, names in others.items() for line in (f"The {in_words(names)} results were m{where[1:]}", ""))
    )
    return page


def elsewhere(known: dict[str, Any]) -> list[str]:
    """Return the machines of data sets that were fitted on another machine than the first one."""
    places = list(dict.fromkeys(record["measured"] for record in known.values()))
    return places[1:]


INTRODUCTION = [
    "Four families of models buy the same features for every row: *linear* and *spline* models (`encoding=`), "
    "*spline + pairs* (`interactions=20`), and *trees* (`StagedEstimators` with LightGBM, which use the order "
    "learned by the spline + pairs model). *budgetline* stands for the family that is chosen on each split without "
    "looking at the test rows: all four are fitted on the training rows, and the family with the best validation "
    "score, averaged over all budgets, is used. The test rows are used only once, at the end.",
    "",
    "*Static* methods also buy the same features for every row. *Per-row* methods choose the next feature of a row "
    "based on the values bought so far for that row. Every feature of spam, physionet and bank costs 1.",
    "",
]

LIMITS = [
    "## What to keep in mind",
    "",
    "- No published results of static methods are available for spam, physionet and bank: the papers' repositories do "
    "not contain any. It is therefore an open question whether budgetline is as good as the best static method. For "
    "the neural network, only one way of choosing features was tried: permutation importance, which is a weak method. "
    "Stronger methods (CAE, SAGE) were not tried. LightGBM with its own feature ranking is the stronger baseline.",
    "- The results of GDFS on spam come from one run of a notebook on one split. budgetline is scored on the same "
    "split. In the first figure, the band spans the lowest to the highest score of budgetline on five splits. The "
    "band is wider than most of the differences between the methods.",
    "- The constants of the encodings were chosen earlier, on spam, physionet, bank and other data, partly on rows "
    "that are test rows on this page ([raw tables](raw_tables.md)). Everything else is chosen separately on each "
    "split. LightGBM's settings are the same for all data sets and were not tuned.",
    "- The random splits overlap, so the standard errors over splits are somewhat too small.",
    "",
]


def in_short(results: dict[str, Results]) -> list[str]:
    """Return the comparisons in words, one line per data set."""
    lines = ["## Comparisons", ""]
    if spam := results.get("spam"):
        auc, accuracy = 100 * spam.ours()[0] - GDFS_AUC, 100 * spam.ours("accuracy")[0] - GDFS_ACCURACY
        five = 100 * spam.ours().mean(axis=0) - GDFS_AUC
        easy = float((auc - five).mean())
        lines += [
            "- **Spam**, published split: compared with the published per-row method GDFS, budgetline's AUROC is "
            f"{ahead(auc, spam)} Its accuracy is {ahead(accuracy, spam)}",
            "- **Spam**, mean over five splits: compared with GDFS on the published split, budgetline's AUROC is "
            f"{ahead(five, spam)} The published split is {'easier' if easy > 0 else 'harder'} for budgetline than the "
            f"average split: averaged over the budgets, the AUROC is {abs(easy):.2f} points "
            f"{'higher' if easy > 0 else 'lower'}.",
            f"- **Spam**, static methods: {against(spam, IMPORTANCE, OWN)} "
            f"{against(spam, NETWORK, 'a neural network with features ranked by permutation importance')}",
        ]
    if physionet := results.get("physionet"):
        parts = []
        for budget, (method, value) in AFA_F1.items():
            own = physionet.ours("F1")[:, physionet.budgets.index(budget)]
            parts.append(f"{own.mean():.3f} ± {error(own):.3f} at k = {budget} ({method}: about {value:.2f})")
        lines.append(
            f"- **PhysioNet 2012**: budgetline's F1 is {in_words(parts)}. The published figures are for per-row "
            "methods and were read from a plot."
        )
    for name in ("bank", "bank without duration"):
        if found := results.get(name):
            compared = against(found, IMPORTANCE, OWN)
            lines.append(f"- **{name.capitalize()}**: no published figures are known. {compared}")
    return [*lines, *([f"- **Models**: {winners(list(results.values()))}"]), ""]


def ahead(gaps: np.ndarray, results: Results) -> str:
    """Say at how many budgets budgetline is ahead, and at which it is not."""
    lost = [f"k = {results.budgets[k]:g} ({signed(gaps[k])})" for k in np.flatnonzero(gaps < 0)]
    text = f"higher at {int((gaps > 0).sum())} of {gaps.size} budgets, by "
    if lost:
        return f"{text}up to {gaps.max():.2f} points, and lower at {in_words(lost)}."
    return f"{text}{gaps.min():.2f} to {gaps.max():.2f} points."


def against(results: Results, family: str, named: str) -> str:
    """Say how budgetline compares with another method on the same splits."""
    if not results.has(family):
        return ""
    gaps = results.ours() - results.of(family)
    errors = np.array([error(gaps[:, k]) for k in range(gaps.shape[1])])
    means = gaps.mean(axis=0)
    better, worse = int((means > 2 * errors).sum()), int((means < -2 * errors).sum())
    first = f"{'better' if better else 'worse'} than {named} at {better or worse} of {means.size} budgets"
    second = f" and significantly worse at {worse}" if better and worse else ""
    found = f"budgetline is significantly {first}{second}"
    if not better and not worse:
        found = f"budgetline is not significantly better or worse than {named} at any of the {means.size} budgets"
    return f"{found}; the mean difference is {paired(gaps.mean(axis=1))} points of {results.metric}."


def winners(all_results: list[Results]) -> str:
    """Say which family is best on which data."""
    best: dict[str, list[str]] = {}
    for results in all_results:
        families = [family for family in FAMILIES if results.has(family)]
        means = [results.of(family).mean() for family in families]
        best.setdefault(families[int(np.argmax(means))], []).append(results.name)
    *most, last = [f"{family} on {in_words(names)}" for family, names in best.items()]
    return f"the family with the best mean over budgets is {'; '.join([*most, f'and {last}' if most else last])}."


def spam_section(spam: Results) -> list[str]:
    """Return the tables of spam."""
    auc, accuracy = 100 * spam.ours()[0], 100 * spam.ours("accuracy")[0]
    rows = []
    for k, budget in enumerate(spam.budgets):
        five = 100 * spam.ours()[:, k]
        own = [f"{auc[k]:.2f}", signed(auc[k] - GDFS_AUC[k]), f"{100 * spam.of(REFIT)[0, k]:.2f}"]
        hits = [f"{GDFS_ACCURACY[k]:.2f}", f"{accuracy[k]:.2f}", signed(accuracy[k] - GDFS_ACCURACY[k])]
        rows.append([f"{budget:g}", f"{GDFS_AUC[k]:.2f}", *own, *hits, mean_of(five, 2)])
    head = ["k", "GDFS", "budgetline", "difference", "refitted"]
    head += ["GDFS, accuracy", "budgetline, accuracy", "difference, accuracy", "5 splits"]
    ten = [k for k, budget in enumerate(spam.budgets) if budget <= 10]
    families = [f for f in (*FAMILIES, PLAN, IMPORTANCE, NETWORK) if spam.has(f)]
    by_family = []
    for f in families:
        values = 100 * spam.of(f)
        cells = [mean_of(values[:, k], 2) for k in spam.places()]
        by_family.append([f, *cells, mean_of(values[:, ten].mean(axis=1), 2)])
    chosen = f"On all five splits, including the published one, the family chosen is {spam.choices[0]}."
    if len(set(spam.choices)) > 1:
        chosen = f"On the published split, the family chosen is {spam.choices[0]}. "
        chosen += f"The families chosen on the five splits are {listed(spam.choices)}."
    return [
        "## Spam",
        "",
        "The data (4,601 emails, 57 features) and the split are from Covert et al., *Learning to Maximize Mutual "
        "Information for Dynamic Feature Selection*, ICML 2023. The rows are shuffled with "
        "`numpy.random.default_rng(0)`; the first fifth is used for testing, the second for validation, and the rest "
        "for training.",
        "",
        "GDFS chooses k features *per row*; budgetline buys the same k features for all rows. All scores are "
        f"percentages. The columns labelled accuracy show accuracy, and the other columns show AUROC. {chosen}",
        "",
        *table(head, rows),
        "*Refitted* means that the chosen model is refitted on the training and validation rows together, as one "
        "would do in practice. GDFS, by contrast, needs the validation rows to decide when to stop training. *5 "
        "splits* is the mean AUROC ± standard error over five splits, which follow the recipe of Covert et al. with "
        "seeds 0 to 4. GDFS results were published for only one split.",
        "",
        "The next table shows the AUROC of all models (mean over the five splits ± standard error). The last column "
        "is the average over k = 1 to 10.",
        "",
        *table(["model", *(f"k = {spam.label(k)}" for k in spam.places()), "1 to 10"], by_family),
        "*Plan* uses splines and knows the budget in advance, so each budget has its own set of features. *Trees, own "
        "importance* is LightGBM with its own feature ranking (by gain). *Network, permutation* follows a "
        "static baseline of Covert et al.: a neural network with two hidden layers of 128 units, with features ranked "
        "by their permutation importance on the validation rows. It differs from the original in two ways: it is "
        "implemented in scikit-learn, and its columns are standardised.",
        "",
    ]


def physionet_section(results: Results) -> list[str]:
    """Return the table of physionet."""
    rows, extra = [], [f for f in (IMPORTANCE, PLAN) if results.has(f)]
    for k, budget in enumerate(results.budgets):
        method, value = AFA_F1.get(int(budget), ("", 0.0))
        own = [mean_of(results.ours(metric)[:, k]) for metric in ("F1", "F1, tuned", "macro F1", "AUC")]
        others = [mean_of(results.of(f, "F1")[:, k]) for f in (REFIT, *extra)]
        rows.append([f"{budget:g}", f"{method} about {value:.2f}" if method else "", *own, *others])
    names = ["k", "published F1", "budgetline, F1", "F1, tuned", "macro F1", "AUC", "F1, refitted"]
    names += [f"{f}, F1" for f in extra]
    return [
        "## PhysioNet 2012",
        "",
        "The data (12,000 stays, 41 features, 14 % deaths) and the protocol are from the AFA benchmark (Schütz et "
        "al., arXiv 2508.14734). Five splits are drawn with Python's `random` and the seeds 42 to 46: 60 % of the "
        "rows are used for training, 20 % for validation and 20 % for testing. The families chosen are "
        f"{listed(results.choices)}. Apart from the published F1, all scores are means over the five splits ± "
        "standard error.",
        "",
        *table(names, rows),
        "The protocol of this page differs from the benchmark's in these points:",
        "",
        "- The published values were read from a figure. In that figure, k is the *average* number of features per "
        "row (a soft budget), whereas budgetline buys exactly k features.",
        "- The benchmark trains its networks with balanced class weights and computes F1 from the predicted class. "
        "*F1* on this page uses the corresponding decision rule: death is predicted if its probability is above the "
        "share of deaths in the training rows. *Tuned* uses the threshold with the best F1 on the validation rows.",
        "- The benchmark's code of August 2025 computes the F1 of the rarer class; its code of January 2026 computes "
        "the mean F1 of both classes (*macro*). Since the published values are below .5, they must be the F1 of the "
        "rarer class.",
        "- The splits follow the code of January 2026. The code of August 2025 used torch to split the rows.",
        "- The benchmark fills missing values with column means over all rows, including the test rows, and "
        "standardises the columns in the same way. budgetline uses no information from the test rows.",
        "",
    ]


def bank_section(found: list[Results]) -> list[str]:
    """Return the table of bank."""
    rows, extra = [], [f for f in (IMPORTANCE, PLAN) if found[0].has(f)]
    for results in found:
        for k, budget in enumerate(results.budgets):
            own = [mean_of(results.ours(metric)[:, k]) for metric in ("AUC", "F1", "F1, tuned", "macro F1")]
            others = [mean_of(results.of(f)[:, k]) for f in extra]
            rows.append([results.name, f"{budget:g}", *own, *others])
    names = ["data", "k", "budgetline, AUC", "F1", "F1, tuned", "macro F1"]
    names += [f"{f}, AUC" for f in extra]
    chosen = ", and ".join(f"{listed(results.choices)} for {results.name}" for results in found)
    return [
        "## Bank marketing",
        "",
        "The data contain 45,211 calls and 16 columns; in 12 % of the calls, the customer said yes. As on PhysioNet, "
        "the budgets and splits follow the AFA benchmark. Its table of results is not available, so there are no "
        "published scores to compare with. `duration` is known only after the call; *bank without duration* leaves "
        "it out. The splits are shuffled, although the rows are in chronological order. The families chosen are "
        f"{chosen}.",
        "",
        *table(names, rows),
    ]


# -- all data --------------------------------------------------------------------------------------------------


def side_by_side(page: Page, all_results: list[Results]) -> None:
    """Add the table and the figure of linear, spline and tree models on all data."""
    page.add(
        "## Linear, spline and tree models side by side",
        "",
        "The figure shows how much better each family is than the linear model on the same test rows, averaged over "
        "budgets and splits. Whiskers show one standard error. One point is 0.01 of the metric.",
        "",
    )
    page.show(
        "field_models",
        models_drawing(all_results),
        "Gain of spline, pair and tree models over linear ones, by data set",
    )
    families = [f for f in FAMILIES if any(r.has(f) for r in all_results)]
    rows = []
    for results in all_results:
        for k in results.places():
            values = {f: results.of(f)[:, k] for f in families if results.has(f)}
            first, second = sorted(values, key=lambda f: -round(values[f].mean(), 5))[:2]
            means = {f: f"{v.mean():.3f}" for f, v in values.items()}
            cells = [f"**{means[f]}**" if f == first else means.get(f, "–") for f in families]
            lead = values[first] - values[second]
            verdict = f"{first}: {paired(lead)} over {second}" if lead.mean() > 5e-5 else f"{first}, {second}: equal"
            rows.append([results.name, results.metric, results.label(k), *cells, verdict])
    page.add(
        "In the table, budgets are numbers of columns or shares of the total cost. The last column shows the lead of "
        "the best model over the second best in points, ± the standard error of the paired difference.",
        "",
        *table(["data", "metric", "budget", *families, "best, and its lead"], rows),
        "All models are fitted on the training rows only (60 % of the data). Each model buys features in its own "
        "order, except for the trees, which use the order of spline + pairs. Spam, physionet and bank use the five "
        "splits described above; NHANES, thyroid and mfeat use five folds; heart uses five folds, repeated four times.",
        "",
        "On mfeat (649 columns), no pairs are tried, trees use the order of the spline model, and budgetline's models "
        "minimise squared error on 0/1 indicators of the classes. On thyroid, the first purchase (the blood panel) "
        "costs 77 % of the total, so smaller budgets buy nothing.",
        "",
    )


# -- figures ---------------------------------------------------------------------------------------------------


def front(spam: Results) -> str:
    """Draw published methods and budgetline on spam."""
    title = "Spam: AUROC by number of features bought"
    drawing = Drawing((620, 340), (50, 62, 432, 292), (np.log(0.9), np.log(27)), (78, 100), title)
    for value in (80, 85, 90, 95, 100):
        drawing.segment(drawing.box[0], drawing.up(value), drawing.box[2], drawing.up(value), "grid")
        drawing.text(drawing.box[0] - 8, drawing.up(value) + 4, f"{value}", "soft", "end")
    for value in (1, 2, 3, 4, 5, 7, 10, 15, 25):
        drawing.text(drawing.across(np.log(value)), drawing.box[3] + 18, f"{value}", "soft", "middle")
    drawing.text(drawing.box[2], drawing.box[3] + 38, "features bought →", "soft", "end")
    drawing.text(16, 46, "% on the published test rows; the band is budgetline on five random splits", "soft")
    xs, ours = np.log(spam.budgets).tolist(), 100 * spam.ours()
    drawing.band(xs, ours.min(axis=0), ours.max(axis=0), "ours")
    lines = [
        (100 * spam.of(LINEAR)[0], "other dots", "budgetline, linear", "same features for all"),
        (np.array(GDFS_AUC), "peer dash", "GDFS (ICML 2023)", "features per row"),
        (ours[0], "ours thick", f"budgetline, {spam.choices[0]}", "same features for all"),
    ]
    places = spread([drawing.up(values[-1]) for values, *_ in lines], 36.0, drawing.box[1] + 4)
    for (values, kind, name, how), y in zip(lines, places, strict=True):
        drawing.line(xs, values, kind)
        colour = kind.split()[0]
        drawing.segment(drawing.across(xs[-1]) + 3, drawing.up(values[-1]), drawing.box[2] + 12, y, f"line {colour}")
        drawing.text(drawing.box[2] + 18, y + 2, name, colour)
        drawing.text(drawing.box[2] + 18, y + 17, how, "soft")
    return drawing.svg()


def spread(places: list[float], gap: float, top: float) -> list[float]:
    """Return places in the same order from the top, at least a gap apart."""
    moved, last = dict[int, float](), top - gap
    for k in np.argsort(places, kind="stable").tolist():
        last = max(places[k] - gap, last + gap)
        moved[k] = last
    return [moved[k] for k in range(len(places))]


def models_drawing(all_results: list[Results]) -> str:
    """Draw the gain of splines, pairs and trees over the linear model."""
    looks = {SPLINE: ("green", "circle"), PAIRS: ("ours", "square"), TREES: ("peer", "triangle")}
    gains = {(r.name, f): 100 * (r.of(f) - r.of(LINEAR)).mean(axis=1) for r in all_results for f in looks if r.has(f)}
    ends = [v.mean() + s * error(v) for v in gains.values() for s in (-1, 1)]
    low, high = np.floor(min(0.0, *ends)) - 0.3, np.ceil(max(0.0, *ends)) + 0.3
    height = 96 + 40 * len(all_results)
    drawing = Drawing(
        (760, height + 24),
        (226, 70, 736, height - 18),
        (low, high),
        (0, 1),
        "What splines, pairs and trees gain over a linear model",
    )
    step = max(1, int(np.ceil((high - low) / 10)))
    for value in range(int(np.ceil(low)), int(high) + 1):
        if value % step == 0:
            x = drawing.across(value)
            drawing.segment(x, drawing.box[1], x, drawing.box[3], "zero" if value == 0 else "grid")
            drawing.text(
                x, drawing.box[3] + 18, f"{value:+d}".replace("-", "−") if value else "linear", "soft", "middle"
            )
    drawing.text(drawing.box[2], drawing.box[3] + 36, "points of the metric (0.01), better →", "soft", "end")
    for k, (family, (kind, shape)) in enumerate(looks.items()):
        drawing.mark(236 + 150 * k, 50, kind, shape)
        drawing.text(248 + 150 * k, 54, {TREES: "trees (LightGBM)"}.get(family, family))
    for row, results in enumerate(all_results):
        y = drawing.box[1] + 20 + 40 * row
        drawing.text(214, y + 4, f"{results.name} ({results.metric})", "", "end")
        for offset, (family, (kind, shape)) in zip((-10, 0, 10), looks.items(), strict=True):
            if (results.name, family) in gains:
                values = gains[results.name, family]
                x, e = values.mean(), error(values)
                drawing.segment(drawing.across(x - e), y + offset, drawing.across(x + e), y + offset, f"line {kind}")
                drawing.mark(drawing.across(x), y + offset, kind, shape)
    return drawing.svg()
