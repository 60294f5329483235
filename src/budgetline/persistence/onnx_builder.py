"""An ONNX graph under construction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from budgetline.messages import shown

Proto = Any
"""Something of onnx, which is optional and has no types."""
OPSET, ML_OPSET, IR_VERSION = 17, 2, 8
"""Of 2022, which every runtime of today reads; nothing newer is needed."""
OPTIONAL = ("stage", "budget")
"""Inputs that are also constants, their defaults."""
ML = "ai.onnx.ml"
"""The domain of the nodes that know texts."""


class Graph:
    """Inputs, constants, nodes and outputs. Names that a user does not see begin with ``/``."""

    def __init__(self, onnx: Proto) -> None:
        self._onnx = onnx
        self._inputs: list[Proto] = []
        self._constants: list[Proto] = []
        self._nodes: list[Proto] = []
        self._outputs: list[Proto] = []
        self.double: int = onnx.TensorProto.DOUBLE
        self.whole: int = onnx.TensorProto.INT64

    def input(self, name: str, dtype: DTypeLike, shape: Sequence[int | str], about: str = "") -> str:
        """Declare an input; texts are objects. One that has a constant of its name may be left out."""
        self._inputs.append(self._value(name, dtype, shape, about))
        return name

    def constant(self, values: ArrayLike, dtype: DTypeLike = np.float64, name: str = "") -> str:
        """Add a constant; texts are an array of objects."""
        name = name or f"/constant{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def node(self, kind: str, *inputs: str, name: str = "", domain: str = "", **attributes: object) -> str:
        """Add a node with one output, which has its name."""
        output = name or f"/{kind}{len(self._nodes)}"
        make = self._onnx.helper.make_node
        self._nodes.append(make(kind, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def cast(self, found: str, kind: int) -> str:
        """Convert to ``double`` or ``whole``."""
        return self.node("Cast", found, to=kind)

    def take(self, values: ArrayLike, where: str) -> str:
        """Gather rows of a constant array of numbers."""
        return self.node("Gather", self.constant(values), where, axis=0)

    def side_by_side(self, parts: Sequence[str]) -> str:
        """Join tables of the same number of rows."""
        return self.node("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]

    def output(self, name: str, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        """Declare an output of N rows."""
        self._outputs.append(self._value(name, dtype, ["N", *shape]))

    def model(self, metadata: dict[str, object]) -> Proto:
        """Return the graph as a model, with metadata as JSON."""
        helper = self._onnx.helper
        self._check_names()
        graph = helper.make_graph(self._nodes, "budgetline", self._inputs, self._outputs, self._constants)
        domains = {"": OPSET} | ({ML: ML_OPSET} if any(node.domain == ML for node in self._nodes) else {})
        opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        found = helper.make_model(graph, producer_name="budgetline", opset_imports=opsets, ir_version=IR_VERSION)
        helper.set_model_props(found, {f"budgetline.{key}": json.dumps(value) for key, value in metadata.items()})
        return found

    def _value(self, name: str, dtype: DTypeLike, shape: Sequence[int | str], about: str = "") -> Proto:
        helper = self._onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape, about)

    def _check_names(self) -> None:
        """Raise if an input has the name of something else: a graph has one space of names."""
        inner = [part.name for part in (*self._nodes, *self._constants) if part.name not in OPTIONAL]
        uses = Counter([put.name for put in self._inputs] + inner)
        for put in self._inputs:
            if not put.name or uses[put.name] > 1:
                raise ValueError(f"column {shown(put.name)} cannot be exported, as the graph needs its name: rename it")
