"""What should we ask and measure first to predict long-term blood sugar (``make demo``).

NHANES 2017–2018: 5,018 adults, 22 survey components (questionnaires, examinations, laboratory tests), each with a
published cost of inconvenience. One fifth of the people is held out.
"""

from sklearn.model_selection import train_test_split

from budgetline import AnytimeRegressor, AnytimeRegressorCV, FeatureGroups, budget_curve, compare
from budgetline.datasets import load_nhanes


def main() -> None:
    """Fit, print the sequence, and print what each budget buys."""
    nhanes = load_nhanes()
    X, X_test, y, y_test = train_test_split(nhanes.data, nhanes.target, test_size=0.2, random_state=0)
    components = nhanes.feature_groups
    titles = [nhanes.group_titles[name] for name in components.names]
    groups = FeatureGroups(dict(zip(titles, components.columns, strict=True)), components.costs)
    model = AnytimeRegressorCV(groups).fit(X, y)

    print(f"HbA1c of {len(y):,} adults, {X.shape[1]} columns in {len(groups)} groups; ", end="")
    print(f"alpha {model.alpha_:g} chosen by cross-validation.\n")
    print("The order in which to ask and measure:\n")
    print(model.sequence_)

    total = float(model.sequence_.costs.sum())
    curve = budget_curve(model, X_test, y_test, metric="r2")
    print(f"\nWhat each budget buys ({len(y_test):,} people held out):\n")
    print("budget  spent  groups      R²  last group bought")
    for budget in (0, 20, 40, 80, 160, 320, total):
        stage = model.sequence_.stage_at(budget)
        spent = model.sequence_.cumulative_costs[stage - 1] if stage else 0.0
        last = model.sequence_.groups[stage - 1] if stage else "none: the training mean"
        print(f"{budget:6g}  {spent:5g}  {stage:6d}  {curve.at(budget):6.3f}  {last}")

    print("\nIs the order worth it? The mean of the explained fraction over all budgets, 5 folds:\n")
    methods = {
        "greedy, exact gains (fr)": {},
        "greedy, by gradient (omp)": {"rule": "omp"},
        "costs ignored": {"cost_sensitive": False},
        "cheapest first": {"schedule": "cheapest"},
        "at random": {"schedule": "random"},
    }
    estimators = {name: AnytimeRegressor(groups, alpha=model.alpha_, **how) for name, how in methods.items()}
    print(compare(estimators, nhanes.data, nhanes.target, reading="step"))


if __name__ == "__main__":
    main()
