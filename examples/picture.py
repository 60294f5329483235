"""The picture in the guide: what each budget buys on the NHANES data (``python examples/picture.py``)."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from sklearn.model_selection import RepeatedKFold

from budgetline import AnytimeRegressor, BudgetCurveDisplay, cross_val_budget_curve
from budgetline.datasets import load_nhanes

METHODS = {
    "the learned order": {},
    "cheapest first": {"schedule": "cheapest"},
    "costs ignored": {"cost_sensitive": False},
    "a random order": {"schedule": "random"},
}


def main(path: Path = Path("docs/images/nhanes.svg")) -> None:
    """Draw the curves and write the file."""
    matplotlib.rcParams.update({"svg.hashsalt": "budgetline", "font.size": 11, "svg.fonttype": "none"})
    nhanes = load_nhanes(drop="DIQ")  # without the questions about diabetes itself
    folds = RepeatedKFold(n_splits=5, n_repeats=4, random_state=0)
    curves = {
        name: cross_val_budget_curve(
            AnytimeRegressor(nhanes.feature_groups, alpha=0.1, **how), nhanes.data, nhanes.target, cv=folds, metric="r2"
        )
        for name, how in METHODS.items()
    }
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    BudgetCurveDisplay(curves).plot(ax=axes)
    axes.set(xlabel="budget per person (published cost of inconvenience)", ylabel="R² on people held out")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
