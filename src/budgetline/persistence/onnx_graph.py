"""Models as ONNX graphs: predictions at any stage or budget, where there is no Python."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from budgetline.arrays import Array
from budgetline.budgets import SLACK
from budgetline.files import PathName, write_atomically
from budgetline.messages import shown
from budgetline.model.anytime import AnytimeModel
from budgetline.objectives.families import ConvexLoss, Poisson
from budgetline.persistence.model_file import check_model

Proto = Any
"""Something of onnx, which is optional and has no types."""
OPSET, IR_VERSION = 17, 8
"""Of 2022, which every runtime of today reads; nothing newer is needed."""
WHOLE = 7
"""The number of the type int64 in a graph."""


def to_onnx(model: Any, path: PathName | None = None) -> Proto:
    """Export a fitted model as an ONNX graph in float64, an ``onnx.ModelProto``.

    Inputs of the graph:

    - ``X``, double, shape (N, D). Columns that the chosen stage does not use are ignored: they may be NaN.
    - ``stage``, int64 scalar, optional: use the first ``stage`` groups. A stage that does not exist is an error of the
      runtime. Without it, or if it is negative, the budget decides.
    - ``budget``, double scalar, optional: use the longest prefix of the sequence that costs no more. Without it, the
      whole sequence.

    Outputs: ``prediction`` of a regressor, shape (N,) or (N, P); ``label`` (N,), ``probabilities`` (N, P) and
    ``scores``, as of ``decision_function``, of a classifier. Groups, costs, columns and classes are in the metadata, as
    JSON.

    Parameters
    ----------
    model : as in :func:`save`
    path : path, optional
        Also write the graph there, in full or not at all.

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
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'budgetline[onnx]'") from error
    graph = _Graph(onnx)
    _add_scores(graph, fitted)
    if fitted.classes is not None:
        _add_classes(graph, fitted, _labels(fitted.classes))
    else:
        mean = graph.node("Exp", "all_scores") if isinstance(fitted.family, Poisson) else "all_scores"
        _add_shaped(graph, fitted, mean, "prediction")
    found = graph.model(fitted.layout.n_features, _metadata(fitted))
    if path is not None:
        write_atomically(path, found.SerializeToString())
    return found


class _Graph:
    """A graph under construction: nodes, constants and outputs."""

    def __init__(self, onnx: Proto) -> None:
        self._onnx = onnx
        self._nodes: list[Proto] = []
        self._constants: list[Proto] = []
        self._outputs: list[Proto] = []

    def constant(self, name: str, values: ArrayLike, dtype: DTypeLike) -> str:
        """Add a constant; texts are an array of objects."""
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: int) -> str:
        """Add a node with one output, which has its name."""
        output = name or f"{kind}{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def output(self, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        """Declare an output of N rows."""
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, kind, ["N", *shape]))

    def model(self, n_features: int, metadata: dict[str, object]) -> Proto:
        """Return the graph as a model. An input that has a constant of its name may be left out."""
        onnx = self._onnx
        kinds, values = onnx.TensorProto, onnx.helper.make_tensor_value_info
        inputs = [values("X", kinds.DOUBLE, ["N", n_features])]
        inputs += [values("stage", kinds.INT64, []), values("budget", kinds.DOUBLE, [])]
        graph = onnx.helper.make_graph(self._nodes, "budgetline", inputs, self._outputs, self._constants)
        opset = onnx.helper.make_opsetid("", OPSET)
        found = onnx.helper.make_model(graph, producer_name="budgetline", opset_imports=[opset], ir_version=IR_VERSION)
        onnx.helper.set_model_props(found, {f"budgetline.{key}": json.dumps(value) for key, value in metadata.items()})
        return found


def _add_scores(graph: _Graph, model: AnytimeModel) -> None:
    """Add the nodes from X, stage and budget to ``all_scores`` (N, P)."""
    columns = model.last.columns
    if columns.size == 0:  # a product with no columns is not well supported: read one that never counts
        columns = np.zeros(1, dtype=np.intp)
    models = [model.stages.at_stage(stage) for stage in range(model.n_stages + 1)]
    graph.constant("stage", -1, np.int64)
    graph.constant("budget", np.inf, np.float64)
    graph.constant("cumulative_costs", model.sequence.cumulative_costs, np.float64)
    graph.constant("columns", columns, np.int64)
    graph.constant("coefs", [m.coef[:, columns].T for m in models], np.float64)  # (1 + stages, T, P)
    graph.constant("intercepts", [m.intercept for m in models], np.float64)
    graph.constant("masks", [np.isin(columns, m.columns) for m in models], np.bool_)
    graph.constant("none", 0, np.int64)
    graph.constant("zero", 0.0, np.float64)
    graph.constant("slack", 1 + SLACK, np.float64)
    # the last stage within the budget, as in budgets.affordable
    within = graph.node("LessOrEqual", "cumulative_costs", graph.node("Mul", "budget", "slack"))
    affordable = graph.node("ReduceSum", graph.node("Cast", within, to=WHOLE), keepdims=0)
    chosen = graph.node("Where", graph.node("GreaterOrEqual", "stage", "none"), "stage", affordable)
    # its columns, the others as zero whatever they hold, times its coefficients
    coef, intercept, mask = (graph.node("Gather", part, chosen, axis=0) for part in ("coefs", "intercepts", "masks"))
    read = graph.node("Where", mask, graph.node("Gather", "X", "columns", axis=1), "zero")
    graph.node("Add", graph.node("MatMul", read, coef), intercept, name="all_scores")


def _add_shaped(graph: _Graph, model: AnytimeModel, found: str, name: str) -> None:
    """Add an output in the shape of the target."""
    if model.target_shape:
        graph.node("Identity", found, name=name)
    else:
        graph.node("Squeeze", found, graph.constant("second_axis", [1], np.int64), name=name)
    graph.output(name, np.float64, model.target_shape)


def _add_classes(graph: _Graph, model: AnytimeModel, labels: Array) -> None:
    graph.constant("classes", labels, labels.dtype)
    _add_shaped(graph, model, "all_scores", "scores")
    if labels.size == 2:
        both = graph.node("Concat", graph.node("Neg", "all_scores"), "all_scores", axis=1)
        graph.node("Sigmoid", both, name="probabilities")
        number = graph.node("Cast", graph.node("Greater", "scores", "zero"), to=WHOLE)
    else:
        graph.node("Softmax", "all_scores", name="probabilities", axis=1)
        number = graph.node("ArgMax", "all_scores", axis=1, keepdims=0)
    graph.node("Gather", "classes", number, name="label", axis=0)
    graph.output("label", labels.dtype, ())
    graph.output("probabilities", np.float64, labels.shape)


def _labels(classes: Array) -> Array:
    """Return the labels in one of the types that a graph has for them: flags, whole numbers, numbers, texts."""
    labels = classes.tolist()
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64), (str, object)):
        if all(type(label) is kind for label in labels):
            return np.array(labels, dtype=dtype)
    raise TypeError(f"labels such as {shown(labels[0])} cannot be exported: use whole numbers or texts")


def _metadata(model: AnytimeModel) -> dict[str, object]:
    """Return what a user of the graph must know to buy the groups: names, costs, and columns, in order."""
    sequence, layout = model.sequence, model.layout
    found: dict[str, object] = {
        "estimator": model.estimator,
        "order": sequence.groups,
        "costs": sequence.costs.tolist(),
        "cumulative_costs": sequence.cumulative_costs.tolist(),
        "columns": [layout.columns[g].tolist() for g in sequence.order.tolist()],
        "feature_names": layout.names,
    }
    return found | ({} if model.classes is None else {"classes": model.classes.tolist()})
