"""Models as ONNX graphs: predictions at any stage or budget, where there is no Python."""

from __future__ import annotations

import numpy as np

from budgetline.arrays import Array, Positions
from budgetline.budgets import SLACK
from budgetline.files import PathName, write_atomically
from budgetline.glm.families import ConvexLoss, Poisson, SquaredError
from budgetline.glm.set_families import Cox, Listwise
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.packages import imported
from budgetline.persistence.model_file import check_model
from budgetline.persistence.onnx_builder import Graph, Proto
from budgetline.persistence.onnx_encoding import KINDS, add_design, inputs_of

MEANS: dict[type, str] = {SquaredError: "", Poisson: "Exp", Listwise: "", Cox: ""}
"""The ONNX node from scores to predictions, by loss; empty: scores are predictions."""


def to_onnx(model: object, path: PathName | None = None) -> Proto:
    """Export a fitted model as an ONNX graph in float64 (an ``onnx.ModelProto``).

    The graph has these inputs:

    - ``X``, double, shape (N, D). Columns that the chosen stage does not use are ignored and may be NaN.
    - With an encoding, ``X`` is replaced by one input of shape (N, 1) for every table column that a stage uses. Each
      input has the name of its column, or ``x0``, ``x1``, … by position if the columns have no names. Numbers are
      doubles: NaN means missing, dates are days since 1970, and "8.90%" is passed as 8.9. Categories are strings:
      ``""`` means missing, Booleans are ``"True"`` and ``"False"``, and whole numbers are written as ``"3"``. Columns
      that the chosen stage does not use may hold any value of their type. If a column cannot be an input, for example
      because it is called ``stage``, an error is raised that names the column.
    - ``stage``, int64 scalar, optional: the number of groups to use, in sequence order. The ONNX runtime raises an
      error if the stage does not exist. Without this input, or if it is negative, the budget determines the stage.
    - ``budget``, double scalar, optional: the graph uses the longest prefix of the sequence that the budget pays for.
      Without this input, it uses the whole sequence.

    For a regressor, the output is ``prediction``, shape (N,) or (N, P). For a classifier, the outputs are ``label``
    (N,), ``probabilities`` (N, P) and ``scores``, which are the values of ``decision_function``. Probabilities and
    labels are calibrated in the same way as in the model. The metadata contain the groups, costs, columns and classes
    as JSON.

    Parameters
    ----------
    model
        A fitted model that ``save`` accepts, except `StagedEstimators`.
    path : path, optional
        If passed, the graph is also written to this file, completely or not at all.

    Examples
    --------
    >>> import numpy as np
    >>> import budgetline
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> graph = budgetline.to_onnx(budgetline.AnytimeRegressor(costs=[1, 2, 5]).fit(X, X[:, 2]), "model.onnx")
    >>> [put.name for put in graph.graph.input], [put.name for put in graph.graph.output]
    (['X', 'stage', 'budget'], ['prediction'])
    """
    fitted = check_model(model, "to_onnx")
    if isinstance(fitted.family, ConvexLoss):
        raise TypeError("loss is a ConvexLoss: its functions cannot be exported, and predictions need them")
    if fitted.classes is None and type(fitted.family) not in MEANS:
        raise TypeError(
            f"loss {shown(fitted.family.loss)} cannot be exported: onnx_graph.MEANS has no node for its mean"
        )
    onnx = imported("onnx", "to_onnx needs onnx", "onnx")
    graph = Graph(onnx)
    scores, chosen = _add_scores(graph, fitted)
    if fitted.classes is not None:
        _add_shaped(graph, fitted, scores, "scores")
        _add_classes(graph, _add_calibrated(graph, fitted, scores, chosen), _labels(fitted.classes))
    else:
        node = MEANS[type(fitted.family)]
        _add_shaped(graph, fitted, graph.node(node, scores) if node else scores, "prediction")
    found = graph.model(_metadata(fitted))
    if path is not None:
        write_atomically(path, found.SerializeToString())
    return found


def _add_table(graph: Graph, model: AnytimeModel, columns: Positions) -> str:
    """Add the inputs and return the columns (N, T) that stages read, of X or, with an encoding, design columns."""
    if model.encoding is not None:
        return add_design(graph, model.encoding, columns)
    graph.input("X", np.float64, ["N", model.layout.n_features])
    return graph.node("Gather", "X", graph.constant(columns, np.int64), axis=1)


def _columns(model: AnytimeModel) -> Positions:
    """Return the columns that stages read. Without stages, return any column: the graph needs an input with N rows."""
    if model.last.columns.size:
        return model.last.columns
    return np.arange(1 if model.encoding is None else model.encoding.ends[1])


def _add_scores(graph: Graph, model: AnytimeModel) -> tuple[str, str]:
    """Add the inputs and return the scores (N, P), and the stage."""
    columns = _columns(model)
    models = [model.stages.at_stage(stage) for stage in range(model.n_stages + 1)]
    table, chosen = _add_table(graph, model, columns), _add_choice(graph, model)
    coef = graph.take([m.coef[:, columns].T for m in models], chosen)  # of (1 + stages, T, P)
    intercept = graph.take([m.intercept for m in models], chosen)
    masks = graph.constant([np.isin(columns, m.columns) for m in models], np.bool_)
    # columns that the stage does not use are zero whatever they hold
    read = graph.node("Where", graph.node("Gather", masks, chosen, axis=0), table, graph.constant(0.0))
    return graph.node("Add", graph.node("MatMul", read, coef), intercept), chosen


def _add_calibrated(graph: Graph, model: AnytimeModel, scores: str, chosen: str) -> str:
    """Return the calibrated scores: the formula of ``Calibration``, with log(1 + e^−|η|) and |η| of scores η."""
    if (calibration := model.calibration) is None:
        return scores
    slopes, above = calibration.slopes[:, 0], calibration.slopes[:, -1]
    linear = graph.node("Mul", scores, graph.take((slopes + above) / 2, chosen))
    if calibration.slopes.shape[1] == 1:
        return linear
    size = graph.node("Abs", scores)
    raised = graph.node("Add", graph.node("Exp", graph.node("Neg", size)), graph.constant(1.0))
    bent = graph.node("Add", graph.node("Mul", size, graph.constant(0.5)), graph.node("Log", raised))
    bent = graph.node("Mul", bent, graph.take(above - slopes, chosen))
    return graph.node("Add", graph.node("Add", linear, bent), graph.take(calibration.offsets, chosen))


def _add_choice(graph: Graph, model: AnytimeModel) -> str:
    """Add the inputs stage and budget, and return the number of the stage to use."""
    stage = graph.input(graph.constant(-1, np.int64, "stage"), np.int64, [])
    budget = graph.input(graph.constant(np.inf, name="budget"), np.float64, [])
    # the last stage within the budget, as in budgets.affordable
    limit = graph.node("Mul", budget, graph.constant(1 + SLACK))
    within = graph.node("LessOrEqual", graph.constant(model.sequence.cumulative_costs), limit)
    affordable = graph.node("ReduceSum", graph.cast(within, graph.whole), keepdims=0)
    asked = graph.node("GreaterOrEqual", stage, graph.constant(0, np.int64))
    return graph.node("Where", asked, stage, affordable)


def _add_shaped(graph: Graph, model: AnytimeModel, found: str, name: str) -> None:
    """Add an output in the shape of the target."""
    if model.target_shape:
        graph.node("Identity", found, name=name)
    else:
        graph.node("Squeeze", found, graph.constant([1], np.int64), name=name)
    graph.output(name, np.float64, model.target_shape)


def _add_classes(graph: Graph, scores: str, labels: Array) -> None:
    """Add the outputs label and probabilities, from calibrated scores."""
    if labels.size == 2:
        both = graph.side_by_side([graph.node("Neg", scores), scores])
        graph.node("Sigmoid", both, name="probabilities")
        above = graph.node("Squeeze", scores, graph.constant([1], np.int64))
        number = graph.cast(graph.node("Greater", above, graph.constant(0.0)), graph.whole)
    else:
        graph.node("Softmax", scores, name="probabilities", axis=1)
        number = graph.node("ArgMax", scores, axis=1, keepdims=0)
    graph.node("Gather", graph.constant(labels, labels.dtype), number, name="label", axis=0)
    graph.output("label", labels.dtype, ())
    graph.output("probabilities", np.float64, labels.shape)


def _labels(classes: Array) -> Array:
    """Return the labels in one of the types that a graph has for them: flags, whole numbers, numbers, texts."""
    labels = classes.tolist()
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64), (str, object)):
        if all(type(label) is kind for label in labels):
            return np.array(labels, dtype=dtype)
    raise TypeError(f"labels such as {shown(labels[0])} cannot be exported: use whole numbers or text")


def _metadata(model: AnytimeModel) -> dict[str, object]:
    """Return what a user of the graph must know to buy the groups: names, costs, and columns, in order."""
    sequence, layout = model.sequence, model.source
    found: dict[str, object] = {
        "estimator": model.estimator,
        "order": sequence.groups,
        "costs": sequence.costs.tolist(),
        "cumulative_costs": sequence.cumulative_costs.tolist(),
        "columns": [layout.columns[g].tolist() for g in sequence.order.tolist()],
        "feature_names": layout.names,
    }
    if model.encoding is not None:
        found |= {"inputs": dict(inputs_of(model.encoding, _columns(model)).values()), "kinds": KINDS}
    return found | ({} if model.classes is None else {"classes": model.classes.tolist()})
