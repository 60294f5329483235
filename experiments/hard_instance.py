"""The paper's hard instance: no sequence matches, at every budget, the best set of more than a quarter of it.

``python experiments/hard_instance.py --write docs/results/hard_instance.md`` (seconds); ``--quick`` runs a tiny
version.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np
from matplotlib.figure import Figure
from page import BLUE, GREEN, GREY, ORANGE, Page, panels, run
from set_functions import greedy_sequence

from budgetline import AnytimeRegressor
from budgetline.sequencing import Doubling

LEAST = 4.0
"""What the paper proves: no algorithm can keep B/m(B) below it."""


@dataclass(frozen=True)
class Effort:
    """Items 1 … ``items``, as many of which the regression has; growth rates of the sequences compared."""

    items: int = 384
    regression: int = 24
    growths: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)


QUICK = Effort(items=96, regression=12, growths=(0.5, 1.0, 2.0))


def before_purchases(costs: np.ndarray) -> np.ndarray:
    """Return B/m(B) just before each item but the first is paid for; m(B) is the most expensive item bought so far."""
    return np.asarray(np.cumsum(costs)[1:] / np.maximum.accumulate(costs)[:-1])


def geometric(growth: float, most: float) -> np.ndarray:
    """Return a sequence of real costs, each ``growth`` times all before it, from 1 to ``most``."""
    costs = [1.0]
    while costs[-1] < most:
        costs.append(max(growth * sum(costs), 1e-9))
    return np.array(costs)


def doubling_order(items: int) -> np.ndarray:
    """Return the costs of the doubling sequence on F(S) = Σ eˣ, computed with F/e^items to stay finite."""
    costs = {x: float(x) for x in range(1, items + 1)}
    steps = int(np.log2(items / 3)) + 3  # 2, 1, then 3·2^k
    sequence = greedy_sequence(
        lambda S: sum(exp(int(x) - items) for x in S), costs, schedule=Doubling(c_min=2), max_groups=steps
    )
    return np.array(sequence.costs)


def regression_orders(items: int) -> dict[str, list[int]]:
    """Return the order of the same instance as least squares: independent columns, Y = Σ e^{i/2} X_i."""
    rng = np.random.default_rng(0)
    i = np.arange(1, items + 1)
    Z = rng.standard_normal((3 * items + 2, items))
    X = np.linalg.qr(Z - Z.mean(axis=0))[0] * np.sqrt(len(Z))  # exactly uncorrelated
    y = X @ np.exp(i / 2)
    found = {}
    for name, schedule in (("greedy", "greedy"), ("doubling", Doubling(c_min=2))):
        for rule in ("forward", "omp"):
            model = AnytimeRegressor(costs=i.astype(float), rule=rule, alpha=0.0, schedule=schedule).fit(X, y)
            found[f"{name}, {rule}"] = (model.order_ + 1).tolist()
    return found


def figure(doubling: np.ndarray, growths: dict[float, float]) -> Figure:
    """Draw B/m(B) against B, and its limit against the growth rate."""
    picture, (left, right) = panels(2)
    for costs, label, style in (
        (geometric(0.5, doubling.max()), "half of what was spent", {"color": GREEN, "linestyle": "-."}),
        (doubling, "as much as was spent (doubling)", {"color": BLUE}),
        (geometric(3.0, doubling.max()), "three times what was spent", {"color": ORANGE, "linestyle": "--"}),
    ):
        spent, best = np.cumsum(costs), np.maximum.accumulate(costs)
        # the ratio rises along B until the next item is paid for, then falls at once
        x = np.repeat(spent, 2)[1:]
        left.plot(x, x / np.repeat(best, 2)[:-1], label=label, **style)
    left.set(
        xscale="log", xlabel="budget B (cost units)", ylabel="B / most expensive item", title="B/m(B) at every budget"
    )
    left.axhline(LEAST, color=GREY, linewidth=0.8)
    left.set_ylim(0, 10)
    left.legend(title="the next item costs …", loc="upper left", alignment="left")
    right.plot(list(growths), list(growths.values()), marker="o", markersize=4, color=BLUE)
    right.axhline(LEAST, color=GREY, linewidth=0.8)
    right.set(
        xlabel="next item's cost / spent before",
        ylabel="worst B/m(B) in the long run",
        title="Doubling is the best growth",
    )
    right.set_ylim(3, None)
    return picture


HEAD = """\
# The hard instance: four times the cost

Made by `python experiments/hard_instance.py --write docs/results/hard_instance.md`.

The items x = 1, 2, 3, … have cost x and value eˣ, so F(S) = Σ eˣ. The best set for a budget B has a value of about e^B,
since item B alone contributes nearly all of this value. At budget B, a sequence is as good as the best set for budget
B/C only if it has bought an item of cost about B/C. The factor C is therefore at least B/m(B), where m(B) is the cost
of the most expensive item bought so far.

**The paper** proves that no sequence keeps B/m(B) below 4 at all budgets, and that doubling attains this bound. It
describes the instance as the linear model Y = Σ eⁱ X_i. For that model, F = Σ e^{2i}/2, which is not the F used in the
proof. This page therefore uses Y = Σ e^{i/2} X_i.
"""


def report(effort: Effort) -> Page:
    """Run everything."""
    doubling = doubling_order(effort.items)
    ratios = before_purchases(doubling)
    growths = {g: float(before_purchases(geometric(g, 1e6))[-1]) for g in effort.growths}
    best = min(growths, key=growths.__getitem__)
    orders = regression_orders(effort.regression)
    page = Page([HEAD])
    page.show("hard_instance", figure(doubling, growths), "B/m(B) of sequences that grow at different rates")
    shown = ", ".join(f"{c:g}" for c in doubling)
    page.add(
        "| method | items in the order bought | B/m(B) just before each purchase |",
        "|---|---|---|",
        f"| doubling, c_min = 2 | {shown} | {', '.join(f'{r:g}' for r in ratios)} |",
        f"| greedy | {effort.items}, … | unbounded: nothing is bought below a budget of {effort.items} |",
        "",
        "- The claim that B/m(B) never exceeds 4 with doubling "
        f"**{'holds' if ratios.max() <= LEAST + 1e-9 else 'does not hold'}** for items up to cost {effort.items}: the "
        f"largest ratio is {ratios.max():g}.",
        "- The claim that no sequence does better than 4 "
        f"**{'holds' if min(growths.values()) >= LEAST - 1e-6 else 'does not hold'}** for sequences in which each item "
        "costs g times the sum of all earlier items. In the long run, the largest B/m(B) of such a sequence is "
        f"2 + g + 1/g, which is smallest at g = 1. Of the rates tried, g = {best:g} is the best ({growths[best]:.3f}).",
        "",
        f"When the instance is written as a regression with {effort.regression} independent columns, the methods "
        "choose these orders:",
        "",
        "| schedule and rule | items in the order bought |",
        "|---|---|",
        *(f"| {name} | {', '.join(map(str, order[:8]))}, … |" for name, order in orders.items()),
        "",
    )
    same = all(orders[f"doubling, {rule}"][:5] == [2, 1, 3, 6, 12] for rule in ("forward", "omp"))
    start = "also starts" if same else "does not start"
    page.add(f"In the regression, doubling {start} with the items 2, 1, 3, 6, 12.", "")
    return page


if __name__ == "__main__":
    run(report, Effort(), QUICK, __doc__)
