"""``budgetline show``, ``curve``, ``compare`` and ``report``: what a model is worth at every budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.base import clone

from budgetline.cli import options
from budgetline.cli.data import Files, Table, features_of, in_memory
from budgetline.cli.errors import Refused, refusing
from budgetline.cli.fitting import Settings, model_record, task_of
from budgetline.cli.screens import STYLES, Screen, budget_rows, in_line
from budgetline.cli.writing import check_output, saying
from budgetline.data import Source
from budgetline.evaluation import BudgetCurve, Comparison, budget_curve, cross_val_budget_curve
from budgetline.evaluation import compare as compare_methods
from budgetline.messages import printable, shown
from budgetline.persistence import load
from budgetline.report import make_report
from budgetline.report.formatting import amount, count, number, with_error
from budgetline.sequencing import RandomOrder


def show(model: options.Model, as_json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Show what a model holds: its sequence, what each budget buys, its curve and its settings."""
    screen = Screen(as_json, quiet)
    found = load(model)
    curve = BudgetCurve.of(found)
    record = model_record(found)
    what = in_line(map(str, record.get("classes", [])))
    task = f"{record['task']} ({what})" if what and len(what) < 40 else record["task"]
    groups = f"{record['columns']} columns in {len(found.feature_groups_)} groups"
    screen.say(f"{model}: {record['estimator']}, {task}")
    screen.say(f"{groups}, total cost {amount(record['total_cost'])}\n")
    screen.sequence(found.sequence_)
    if record["not_in_sequence"]:
        screen.say(f"not in the sequence: {in_line(record['not_in_sequence'])}")
    for name, entry in record["shared"].items():
        screen.say(f"shared: {shown(name)} {amount(entry['cost'])}, by {in_line(entry['groups'])}")
    for name, required in record["requires"].items():
        screen.say(f"{printable(name)} requires {in_line(required)}")
    screen.say("\nWhat each budget buys, on the data that the model learned from:\n")
    screen.budgets(curve)
    screen.say("\nExplained, against cost:\n")
    screen.curve(curve)
    screen.say()
    screen.paragraph("Settings: " + ", ".join(f"{k} {v}" for k, v in record["settings"].items() if v is not None))
    if "alpha_" in record:
        screen.say(f"alpha {record['alpha_']:g} was chosen by cross-validation")
    screen.document({"model": str(model), **record, "budgets": budget_rows(curve)})


def curve(
    model: options.Model,
    data: options.Data,
    target: options.Target = None,
    metric: options.Metric = None,
    cv: options.Folds = None,
    weight: options.Weight = None,
    qid: options.Query = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what each budget buys on other data; with --cv, learn anew on K folds of these data and judge that."""
    screen = Screen(as_json, quiet)
    found = load(model)
    files = Files(data, file_format, zero_based)
    source = source_for(found, files, target, screen, weight=weight, qid=qid)
    measure = metric or "explained"
    if cv is None:
        screen.note("judging the model on these rows: they should not be those it learned from")
        with refusing():
            judged = budget_curve(found, source, metric=measure)
    else:
        table = in_memory(files, source, screen, "cross-validation")
        with refusing():
            judged = cross_val_budget_curve(
                clone(found),
                table.X,
                table.y,
                metric=measure,
                cv=cv,
                sample_weight=table.weight,
                qid=table.qid,
                progress=screen.progress,
            )
    _print_curve(judged, screen)
    screen.document({"model": str(model), "metric": judged.metric, "folds": len(judged.folds), **_columns(judged)})


def compare(
    data: options.Data,
    target: options.Target = None,
    groups: options.Groups = None,
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Of fr, omp, score, static, no-whiten, single, doubling, costs-ignored, cheapest, random.",
        ),
    ] = None,
    cv: Annotated[int, typer.Option(metavar="K", min=2, help="Number of folds.")] = 5,
    metric: options.Metric = None,
    alpha: Annotated[float, typer.Option(min=0, help="Ridge constant.")] = 1e-5,
    task: Annotated[options.Task, typer.Option(help="What to learn; auto looks at the target.")] = options.Task.auto,
    weight: options.Weight = None,
    qid: options.Query = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare ways to order the groups on the same folds, to see whether the learned order is worth it."""
    screen = Screen(as_json, quiet)
    files = Files(data, file_format, zero_based)
    features = features_of(files, groups, {"--target": target, "--weight": weight, "--qid": qid}, screen)
    source = files.source(target, features.names, weight=weight, qid=qid)
    table = in_memory(files, source, screen, "a comparison")
    chosen = task_of(task, [table.y], target, screen)
    methods = _methods(rules, chosen, alpha, features.groups)
    with refusing():
        found = compare_methods(
            methods,
            table.X,
            table.y,
            metric=metric or "explained",
            cv=cv,
            interpolation="step",
            sample_weight=table.weight,
            qid=table.qid,
            progress=screen.progress,
        )
    _print_comparison(found, cv, screen)
    summary = {name: {k: v for k, v in row.items() if k != "stop_cost"} for name, row in found.summary().items()}
    screen.document({"metric": found.metric, "folds": cv, "methods": summary})


def report(
    model: options.Model,
    data: Annotated[str | None, typer.Argument(metavar="[DATA]", help="The data that the model learned from.")] = None,
    target: options.Target = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help=".html, .md or .json. Default: report.html.")
    ] = None,
    unit: Annotated[str, typer.Option(help="What costs are counted in: dollars, seconds, …")] = "cost units",
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    metric: options.Metric = None,
    cv: Annotated[int, typer.Option(metavar="K", min=2, help="Number of folds.")] = 5,
    baselines: Annotated[bool, typer.Option(help="Whether to compare with other ways to order the groups.")] = True,
    certify: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Prove for so long how near the order comes to the best."),
    ] = None,
    weight: options.Weight = None,
    file_format: options.FileFormat = None,
    zero_based: options.ZeroBased = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a report to look at: the curve with a slider, the sequence, and whether the order is worth it."""
    screen = Screen(as_json, quiet)
    place = Path("report.html") if output is None and not as_json else output
    files = None if data is None else Files(data, file_format, zero_based)
    if place is not None:
        check_output(place, ".html", ".md", ".json", inputs=[model, *(files.found[0] if files else ())])
    found = load(model)
    table = Table(None, None, None, None)  # type: ignore[arg-type]
    if files is not None:
        table = in_memory(files, source_for(found, files, target, screen, weight=weight), screen, "a report")
    elif target is not None or weight is not None:
        raise Refused("--target and --weight are columns of DATA: give it, too")
    with refusing():
        proven = None if certify is None else found.certificate(time_limit=certify, progress=screen.progress)
        summary = make_report(
            found,
            table.X,
            table.y,
            metric=metric,
            cv=cv,
            baselines=baselines,
            sample_weight=table.weight,
            title=title,
            unit=unit,
            progress=screen.progress,
            certificate=proven,
        )
    if place is not None:
        with saying(place):
            summary.write(place)
        screen.note(f"wrote {place}")
    screen.say(printable(summary.headline))
    if data is None:
        screen.note("without DATA the report shows the training curve alone; with it, cross-validated values")
    screen.document(summary.to_dict())


# -- parts ---------------------------------------------------------------------------------------------------------


def source_for(model: Any, files: Files, target: str | None, screen: Screen, **names: str | None) -> Source:
    """Open data with the columns of a model, and find the target."""
    check_kind(model, files)
    if not files.named:
        return files.source(target, n_features=int(model.n_features_in_), **names)
    features = list(model.feature_names_in_)
    if target is None:
        taken = {*features, *names.values()}
        others = [name for name in files.numeric if name not in taken]
        if len(others) != 1:
            raise Refused(f"say which column of {files.place} is the target: --target NAME")
        target = others[0]
        screen.note(f"the target is {shown(target)}, the one column that the model does not know")
    if missing := [name for name in features if name not in files.numeric]:
        raise Refused(f"column {shown(missing[0])} of the model is not in {files.place}")
    return files.source(target, features, None, **names)


def check_kind(model: Any, files: Files) -> None:
    """Raise an error if the data have names and the model has none, or the other way round."""
    known = hasattr(model, "feature_names_in_")
    if known and not files.named:
        raise Refused(f"the model knows its columns by name, and those of {files.place} have none")
    if files.named and not known:
        raise Refused(f"the model knows its columns by position: it takes svmlight files, not {files.place}")


def _methods(rules: str | None, task: options.Task, alpha: float, groups: Any) -> dict[str, Any]:
    """Return the estimators to compare, by name."""
    classes = task is options.Task.classification
    default = f"fr,{'score' if classes else 'omp'},costs-ignored,cheapest,random"
    found: dict[str, Any] = {}
    known = [*(rule.value for rule in options.Rule), "doubling", "costs-ignored", "cheapest", "random"]
    for name in map(str.strip, (rules or default).split(",")):
        if name not in known:
            raise Refused(f"--rules: {shown(name)} is not one of {', '.join(known)}")
        if name in [rule.value for rule in options.Rule]:
            settings = Settings(task, rule=options.Rule(name), alpha=alpha)
        elif name == "costs-ignored":
            settings = Settings(task, alpha=alpha, costs_ignored=True)
        else:
            settings = Settings(task, schedule=options.Schedule(name), alpha=alpha)
        found[name] = settings.estimator(groups)
        if name == "random":
            found[name].set_params(schedule=RandomOrder(0))
    return found


def _print_comparison(found: Comparison, cv: int, screen: Screen) -> None:
    style = STYLES.get(found.metric, "general")
    cells = []
    for name, row in found.summary().items():
        worth = with_error(row["timeliness"], row["error"], style)
        cells.append([name, worth, number(row["final"], style), f"{row['fit_seconds']:.3g}"])
    screen.table(["method", "mean over budgets", f"final {found.metric}", "fit seconds"], cells, left={0})
    screen.say(f"\n{found.metric} on held-out rows, {count(cv, 'fold')}: its mean over all budgets from 0 to the whole")
    screen.say("cost (± standard error), and its value when everything is bought.")


def _print_curve(judged: BudgetCurve, screen: Screen) -> None:
    style = STYLES.get(judged.metric, "general")
    if judged.groups:
        steps = zip(judged.groups, judged.costs.tolist(), judged.values.tolist(), strict=True)
        cells = [[group or "(before any group)", amount(cost), number(value, style)] for group, cost, value in steps]
        screen.table(["group", "cost", judged.metric], cells, left={0})
    else:
        errors = [None] * len(judged) if judged.errors is None else judged.errors.tolist()
        points = zip(judged.costs.tolist(), judged.values.tolist(), errors, strict=True)
        cells = [[amount(cost), with_error(value, error, style)] for cost, value, error in points]
        screen.table(["cost", f"{judged.metric}, mean of {len(judged.folds)} folds"], cells)
    screen.say()
    screen.curve(judged)


def _columns(judged: BudgetCurve) -> dict[str, Any]:
    found = judged.to_dict()
    return {("value" if key == judged.metric else key): entries for key, entries in found.items()}
