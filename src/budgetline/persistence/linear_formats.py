"""Linear models where search engines and scoring services run: Solr, Elasticsearch, Vespa, PMML.

Coefficients are in the units of the raw columns, so nothing is rescaled by hand. Encoded columns have no place in
these formats: a model with an encoding is refused, and ``to_onnx`` has graphs for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from budgetline.arrays import Float
from budgetline.files import PathName, write_atomically
from budgetline.glm.set_families import SetFamily
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence.model_file import check_model

CONSTANT = "constant"
"""The feature of value 1 whose weight is the intercept, in formats that have none."""
PMML = "http://www.dmg.org/PMML-4_4"


@dataclass(frozen=True)
class StageWeights:
    """One stage of a model: its name, weights (P, T) of named columns, and intercepts (P,)."""

    name: str
    columns: tuple[str, ...]
    coef: Float
    intercept: Float

    @property
    def weights(self) -> dict[str, float]:
        """Weights by column, and that of the constant if there is one."""
        found = dict(zip(self.columns, self.coef[0].tolist(), strict=True))
        return found | ({CONSTANT: float(self.intercept[0])} if self.intercept[0] else {})


def to_linear_format(
    model: object,
    path: PathName | None = None,
    *,
    format: str,
    stage: int | None = None,
    budget: float | None = None,
    all_stages: bool = False,
    name: str = "budgetline",
) -> str:
    """Return the linear model of a stage, or of all stages, as text that another system reads.

    Parameters
    ----------
    model : as in ``save``
        A model without an encoding.
    path : path, optional
        Also write the text there, in full or not at all.
    format : {"solr", "elasticsearch", "vespa", "pmml"}
        ``"solr"``: a ``LinearModel`` of Solr's learning to rank; of all stages, a list of them. ``"elasticsearch"``:
        the body of ``_createmodel`` of the learning-to-rank plug-in of Elasticsearch and OpenSearch; of all stages, a
        list of bodies. ``"vespa"``: a rank profile with one function per stage. ``"pmml"``: a ``RegressionModel``.
    stage, budget : int, float, optional
        Which stage; default: the last one.
    all_stages : bool
        Write every stage but stage 0. PMML files hold one stage.
    name : str
        Name of the model, which ends in ``_stage_3`` for stage 3.

    Notes
    -----
    The models of Solr and Elasticsearch have no intercept. If a loss has one, it is the weight of a feature
    ``constant`` whose value must be 1. Rankings and survival models are written without: a constant changes no order.
    Solr, Elasticsearch and Vespa score with one linear function, so classifiers become their ``decision_function``.

    Examples
    --------
    >>> import json
    >>> import numpy as np
    >>> import budgetline
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = budgetline.AnytimeRegressor(alpha=0).fit(X, 3 + 2 * X[:, 0] + X[:, 1])
    >>> text = budgetline.to_linear_format(model, format="solr")
    >>> {column: round(weight, 6) for column, weight in json.loads(text)["params"]["weights"].items()}
    {'x0': 2.0, 'x1': 1.0, 'constant': 3.0}
    """
    fitted = check_model(model, "to_linear_format")
    _check_format(fitted, format)
    last = fitted.stages.last_stage(budget, stage, None)
    chosen = range(1, fitted.n_stages + 1) if all_stages else [last]
    text = FORMATS[format](fitted, [_stage_of(fitted, j, name) for j in chosen], name)
    if path is not None:
        write_atomically(path, text.encode())
    return text


def _check_format(model: AnytimeModel, format: str) -> None:
    """Raise an error if a format does not exist or cannot hold a model."""
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {shown(format)}")
    if model.encoding is not None:
        encoded = model.source.labels(model.source.read)
        raise TypeError(f"format {shown(format)} holds no encoding, which {some(encoded, 3)} need: use to_onnx")
    if model.n_targets > 1 and format != "pmml":
        raise TypeError(f"format {shown(format)} holds one score, the model has {model.n_targets}: use to_onnx")


def _stage_of(model: AnytimeModel, stage: int, name: str) -> StageWeights:
    """Return a stage with the labels of its columns."""
    linear = model.stages.at_stage(stage)
    labels = tuple(model.source.labels(linear.columns))
    if model.layout.names is None:
        labels = tuple(f"x{d}" for d in linear.columns.tolist())
    intercept = np.zeros_like(linear.intercept) if isinstance(model.family, SetFamily) else linear.intercept
    return StageWeights(f"{name}_stage_{stage}", labels, linear.coef[:, linear.columns], intercept)


def _solr(model: AnytimeModel, stages: list[StageWeights], name: str) -> str:
    return _as_json(
        [
            {
                "class": "org.apache.solr.ltr.model.LinearModel",
                "name": stage.name,
                "features": [{"name": column} for column in stage.weights],
                "params": {"weights": stage.weights},
            }
            for stage in stages
        ]
    )


def _elasticsearch(model: AnytimeModel, stages: list[StageWeights], name: str) -> str:
    return _as_json(
        [
            {"model": {"name": stage.name, "model": {"type": "model/linear", "definition": json.dumps(stage.weights)}}}
            for stage in stages
        ]
    )


def _as_json(models: list[dict[str, object]]) -> str:
    return json.dumps(models[0] if len(models) == 1 else models, indent=1) + "\n"


def _vespa(model: AnytimeModel, stages: list[StageWeights], name: str) -> str:
    """Return a rank profile; columns are attributes, unless their names are rank features such as ``bm25(title)``."""
    lines = [f"rank-profile {name} inherits default {{"]
    for stage in stages:
        terms = [str(float(stage.intercept[0]))]
        for column, weight in zip(stage.columns, stage.coef[0].tolist(), strict=True):
            feature = f"attribute({column})" if re.fullmatch(r"[A-Za-z_]\w*", column, re.ASCII) else column
            terms.append(f"{weight} * {feature}")
        lines += [f"    function {stage.name}() {{", f"        expression: {' + '.join(terms)}", "    }"]
    lines += ["    first-phase {", f"        expression: {stages[-1].name}()", "    }", "}"]
    return "\n".join(lines) + "\n"


def _pmml(model: AnytimeModel, stages: list[StageWeights], name: str) -> str:
    """Return a RegressionModel of one stage."""
    if len(stages) != 1:
        raise ValueError("a PMML file holds one stage: leave all_stages out, and name a stage or budget")
    stage, classes = stages[0], None if model.classes is None else [str(c) for c in model.classes.tolist()]
    if classes is None and model.family.loss not in PMML_MEANS:
        raise TypeError(f"PMML has no mean for the loss {shown(model.family.loss)}")
    if classes is None and model.n_targets > 1:
        raise TypeError("PMML holds one target, the model has several: use to_onnx")
    if model.calibration is not None:
        raise TypeError(
            "PMML has no calibrated probabilities, and this model is calibrated: use to_onnx, or fit with "
            "calibration=None"
        )
    root = ElementTree.Element("PMML", version="4.4", xmlns=PMML)
    ElementTree.SubElement(root, "Header", description=f"{model.estimator}, {stage.name}")
    fields = ElementTree.SubElement(root, "DataDictionary")
    for column in stage.columns:
        ElementTree.SubElement(fields, "DataField", name=column, optype="continuous", dataType="double")
    kind = {"optype": "continuous", "dataType": "double"} if classes is None else {
        "optype": "categorical", "dataType": "string"
    }  # fmt: skip
    target = ElementTree.SubElement(fields, "DataField", {"name": "target", **kind})
    for label in classes or ():
        ElementTree.SubElement(target, "Value", value=label)
    normal = PMML_MEANS[model.family.loss] if classes is None else "logit" if len(classes) == 2 else "softmax"
    regression = ElementTree.SubElement(
        root, "RegressionModel", modelName=stage.name, normalizationMethod=normal,
        functionName="regression" if classes is None else "classification",
    )  # fmt: skip
    schema = ElementTree.SubElement(regression, "MiningSchema")
    for column in stage.columns:
        ElementTree.SubElement(schema, "MiningField", name=column)
    ElementTree.SubElement(schema, "MiningField", name="target", usageType="target")
    for labels, coef, intercept in _tables(stage, classes):
        table = ElementTree.SubElement(regression, "RegressionTable", {"intercept": str(intercept), **labels})
        for column, weight in zip(stage.columns, coef, strict=True):
            ElementTree.SubElement(table, "NumericPredictor", name=column, coefficient=str(weight))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _tables(stage: StageWeights, classes: list[str] | None) -> list[tuple[dict[str, str], list[float], float]]:
    """Return the class, the weights and the intercept of every regression table; two classes need the second alone."""
    coef, intercept = stage.coef.tolist(), stage.intercept.tolist()
    if classes is None:
        return [({}, coef[0], intercept[0])]
    if len(classes) == 2:
        none = [0.0] * len(stage.columns)
        return [
            ({"targetCategory": classes[1]}, coef[0], intercept[0]), ({"targetCategory": classes[0]}, none, 0.0)
        ]  # fmt: skip
    return [({"targetCategory": label}, w, c) for label, w, c in zip(classes, coef, intercept, strict=True)]


PMML_MEANS: Mapping[str, str] = {"squared_error": "none", "poisson": "exp", "listwise": "none", "cox": "none"}
FORMATS: Mapping[str, Callable[[AnytimeModel, list[StageWeights], str], str]] = {
    "solr": _solr,
    "elasticsearch": _elasticsearch,
    "vespa": _vespa,
    "pmml": _pmml,
}
