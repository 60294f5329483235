"""Linear models where search engines and scoring services run: Solr, Elasticsearch, Vespa, PMML.

Coefficients are in the units of the raw columns, so nothing is rescaled by hand. Encoded columns have no place in
these formats: a model with an encoding is refused, and ``to_onnx`` has graphs for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from budgetline.arrays import Float
from budgetline.files import PathName, write_atomically
from budgetline.glm.families import SquaredError
from budgetline.glm.set_families import SetFamily
from budgetline.messages import shown, some
from budgetline.model.anytime import AnytimeModel
from budgetline.persistence.model_file import check_model

CONSTANT, TARGET = "constant", "target"
"""The feature of value 1 whose weight is the intercept, in formats that have none, and the target in PMML."""
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
FEATURE = re.compile(r"[A-Za-z_]\w*(\([\w., ]+\)(\.[\w.]+)?)?", re.ASCII)
"""Names of functions and attributes in Vespa; those and its rank features, such as ``fieldMatch(title).proximity``."""


@dataclass(frozen=True)
class StageWeights:
    """One stage of a model: its name, weights (P, T) of named columns, and intercepts (P,)."""

    name: str
    columns: tuple[str, ...]
    coef: Float
    intercept: Float
    ranks: bool

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the columns and of the constant; rankings do not need the constant."""
        found = dict(zip(self.columns, self.coef[0].tolist(), strict=True))
        return found if self.ranks or not self.intercept[0] else found | {CONSTANT: float(self.intercept[0])}


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
    """Return the linear model of a stage, or of all stages, as text that another system can read.

    Parameters
    ----------
    model
        A fitted model that ``save`` accepts, except `StagedEstimators`. It must not have an encoding.
    path : path, optional
        If passed, the text is also written to this file, completely or not at all.
    format : {"solr", "elasticsearch", "opensearch", "vespa", "pmml"}
        ``"solr"`` writes a ``LinearModel`` for Solr's learning to rank, or a list of such models for all stages.
        ``"elasticsearch"`` and ``"opensearch"`` write the body of a ``_createmodel`` request to the learning-to-rank
        plug-in of these systems, or a list of bodies for all stages. ``"vespa"`` writes a rank profile with one
        function per stage, and ``"pmml"`` writes a ``RegressionModel``.
    stage, budget : int, float, optional
        The stage to write, or the budget that selects it. By default, it is the last stage.
    all_stages : bool
        Whether to write every stage except stage 0, which has no columns. A PMML file can hold only one stage.
    name : str
        The name of the model: letters, digits and underscores. The model of stage 3 is called ``name_stage_3``.

    Notes
    -----
    Features are named after the columns. If the columns have no names, the features are ``x0``, ``x1``, … by position.
    In Vespa, features are attributes, or rank features if they have names such as ``bm25(title)``. A name that the
    format cannot represent raises an error.

    Solr, Elasticsearch and Vespa compute one linear function. It is the ``decision_function`` for two classes, the
    logarithm of the mean for Poisson, and the prediction in all other cases. Models in Solr and Elasticsearch have no
    intercept, so it becomes the weight of a feature ``constant`` whose value must be 1. For rankings and survival
    times, the intercept is omitted, because it does not change the order. Solr and Elasticsearch compute in single
    precision. PMML can represent only linear predictions, not classifiers or Poisson models.

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
    _check_format(fitted, format, name)
    chosen = _stages(fitted, stage, budget, all_stages)
    text = FORMATS[format]([_stage_of(fitted, j, name, format) for j in chosen], fitted, name)
    if path is not None:
        write_atomically(path, text.encode())
    return text


def _stages(model: AnytimeModel, stage: int | None, budget: float | None, all_stages: bool) -> list[int]:
    """Return the stages to write."""
    if all_stages and (stage is not None or budget is not None):
        raise ValueError("all_stages writes every stage: leave out stage and budget")
    last = model.stages.last_stage(budget, stage, None)
    if not last:
        raise ValueError("stage 0 has no columns to score by: choose a later stage or a larger budget")
    return list(range(1, last + 1)) if all_stages else [last]


def _check_format(model: AnytimeModel, format: object, name: object) -> None:
    """Raise an error if a format does not exist, or cannot hold a model or its name."""
    if not isinstance(format, str) or format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {shown(format)}")
    if model.encoding is not None:
        encoded = model.source.labels(model.source.read)
        raise TypeError(f"format {shown(format)} cannot hold the encoding that {some(encoded, 3)} need: use to_onnx")
    if model.n_targets > 1:
        raise TypeError(f"format {shown(format)} holds one score, but the model has {model.n_targets}: use to_onnx")
    if format == "pmml" and not isinstance(model.family, SquaredError | SetFamily):
        raise TypeError(f"PMML holds only linear predictions, but the loss is {shown(model.family.loss)}: use to_onnx")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"name must be letters, digits and underscores, no digit first, got {shown(name)}")


def _stage_of(model: AnytimeModel, stage: int, name: str, format: str) -> StageWeights:
    """Return a stage with the names of its columns, which the format can hold."""
    linear = model.stages.at_stage(stage)
    names, unnamed = model.source.labels(linear.columns), model.layout.names is None
    columns = tuple(f"x{label}" if unnamed else label for label in names)
    ranks = isinstance(model.family, SetFamily)
    found = StageWeights(f"{name}_stage_{stage}", columns, linear.coef[:, linear.columns], linear.intercept, ranks)
    taken = {"vespa": None, "pmml": TARGET}.get(format, None if ranks else CONSTANT)
    for column in columns:
        if column == taken:
            raise ValueError(f"column {shown(column)} has the name that format {shown(format)} needs: rename it")
        if not column.isprintable() or (format == "vespa" and not FEATURE.fullmatch(column)):
            raise ValueError(f"column {shown(column)} has a name that format {shown(format)} cannot hold: rename it")
    return found


def _solr(stages: list[StageWeights], model: AnytimeModel, name: str) -> str:
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


def _elasticsearch(stages: list[StageWeights], model: AnytimeModel, name: str) -> str:
    return _as_json(
        [
            {"model": {"name": stage.name, "model": {"type": "model/linear", "definition": json.dumps(stage.weights)}}}
            for stage in stages
        ]
    )


def _as_json(models: list[dict[str, object]]) -> str:
    return json.dumps(models[0] if len(models) == 1 else models, indent=1) + "\n"


def _vespa(stages: list[StageWeights], model: AnytimeModel, name: str) -> str:
    lines = [f"rank-profile {name} inherits default {{"]
    for stage in stages:
        features = [f"attribute({column})" if NAME.fullmatch(column) else column for column in stage.columns]
        terms = [f"{weight} * {each}" for weight, each in zip(stage.coef[0].tolist(), features, strict=True)]
        expression = " + ".join([str(float(stage.intercept[0])), *terms])
        lines += [f"    function {stage.name}() {{", f"        expression: {expression}", "    }"]
    lines += ["    first-phase {", f"        expression: {stages[-1].name}", "    }", "}"]
    return "\n".join(lines) + "\n"


def _pmml(stages: list[StageWeights], model: AnytimeModel, name: str) -> str:
    """Return a RegressionModel of one stage."""
    if len(stages) != 1:
        raise ValueError("a PMML file holds one stage: leave out all_stages, and pass a stage or a budget")
    (stage,) = stages
    root = Element("PMML", version="4.4", xmlns="http://www.dmg.org/PMML-4_4")
    SubElement(root, "Header", description=f"{model.estimator}, {stage.name}")
    fields = SubElement(root, "DataDictionary")
    found = SubElement(root, "RegressionModel", modelName=stage.name, functionName="regression")
    schema = SubElement(found, "MiningSchema")
    table = SubElement(found, "RegressionTable", intercept=str(float(stage.intercept[0])))
    for column in (*stage.columns, TARGET):
        SubElement(fields, "DataField", name=column, optype="continuous", dataType="double")
    for column, weight in zip(stage.columns, stage.coef[0].tolist(), strict=True):
        SubElement(schema, "MiningField", name=column)
        SubElement(table, "NumericPredictor", name=column, coefficient=str(weight))
    SubElement(schema, "MiningField", name=TARGET, usageType="target")
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


FORMATS: Mapping[str, Callable[[list[StageWeights], AnytimeModel, str], str]] = {
    "solr": _solr,
    "elasticsearch": _elasticsearch,
    "opensearch": _elasticsearch,
    "vespa": _vespa,
    "pmml": _pmml,
}
