"""Pages of the site that are made when it is built: one per public object, the changelog, and heart.csv."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "Estimators": [
        "AnytimeClassifier", "AnytimeClassifierCV", "AnytimeRegressor", "AnytimeRegressorCV", "AnytimeRanker",
        "AnytimeRankerCV", "AnytimeSurvival", "AnytimeSurvivalCV", "StagedEstimators", "GroupLassoPath",
        "model.AnytimeModel", "glm.ConvexLoss",
    ],
    "Groups and tables": ["FeatureGroups", "Encoding"],
    "Sequences and schedules": [
        "sequencing.GroupSequence", "FixedOrder", "sequencing.Doubling", "sequencing.RandomOrder",
        "sequencing.greedy_sequence",
    ],
    "Evaluation": [
        "budget_curve", "cross_val_budget_curve", "compare", "BudgetCurve", "BudgetCurveDisplay", "timeliness",
        "stopping_cost", "evaluation.Effects", "evaluation.effects.Effect", "evaluation.ndcg_score",
        "evaluation.map_score", "evaluation.concordance", "evaluation.cascade", "evaluation.cascades",
        "evaluation.Cascade",
    ],
    "Plans, certificates, what next": [
        "optimality.plan", "optimality.plans", "optimality.Plan", "certify", "Certificate", "optimality.next_groups",
        "optimality.NextGroups",
    ],
    "Reports and files": ["make_report", "Report", "save", "load", "to_onnx", "to_linear_format"],
    "Large data": ["open_data", "data.Source", "Moments"],
    "Runtime": ["AnytimeRunner", "Extractor", "runtime.EarlyExit", "profile_costs"],
    "Data sets": [
        "datasets.load_bank", "datasets.load_heart", "datasets.load_mfeat", "datasets.load_nhanes",
        "datasets.load_thyroid",
    ],
}  # fmt: skip


def objects() -> list[str]:
    """Return all objects of the reference, by their path below ``budgetline``."""
    return [name for names in SECTIONS.values() for name in names]


def path_of(name: str) -> str:
    """Return the path of an object's page; two that differ in case only, as files of a Mac do, get two names."""
    twin = name[0].isupper() or name.rpartition(".")[2][0].isupper()
    return f"api/{name}{'-class' if twin and name.lower() in objects() else ''}.md"


def summary_of(name: str) -> str:
    """Return the first sentence of an object's documentation."""
    paragraph = (object_of(name).__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())


def object_of(name: str) -> Any:
    """Return an object of the reference."""
    module, _, last = f"budgetline.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def page_of(name: str) -> str:
    """Return the page of an object: of a class, methods and properties follow; fields are parameters already."""
    found = object_of(name)
    members = [m for m in dir(found) if inspect.isclass(found) and is_shown(found, m)]
    options = {"heading_level": 1, "show_root_full_path": False, "members": members}
    module = sys.modules.get(f"budgetline.{name}")  # a function may have the name of its module
    path = f"{module.__name__}.{found.__name__}" if module else f"budgetline.{name}"
    return f"::: {path}\n    options: {json.dumps(options)}\n"


def is_shown(cls: type, member: str) -> bool:
    """Return whether a member of a class has a section: public methods and properties of ours."""
    if member.startswith("_") or re.fullmatch(r"set_.*_request|get_metadata_routing", member):
        return False
    kind = inspect.getattr_static(cls, member)
    return isinstance(kind, (property, classmethod, staticmethod)) or inspect.isfunction(kind)


def api_pages() -> dict[str, str]:
    """Return the texts of the pages of the reference, by their paths."""
    index = ["# API", "", "Import from `budgetline` where no other module is named.", ""]
    pages = {}
    for section, names in SECTIONS.items():
        index += [f"## {section}", "", "| object | |", "|---|---|"]
        for name in names:
            pages[path_of(name)] = page_of(name)
            index.append(f"| [`{name}`]({path_of(name).removeprefix('api/')}) | {summary_of(name)} |")
        index.append("")
    return {"api/index.md": "\n".join(index), **pages}


def heart_csv() -> str:
    """Return the heart data as a file of 303 patients and their diagnosis."""
    heart = importlib.import_module("budgetline.datasets").load_heart(as_frame=True)
    text = io.StringIO()
    heart.data.assign(ill=heart.target).to_csv(text, index=False)
    return text.getvalue()


def on_config(config: Any) -> Any:
    """Put the pages of the reference into the navigation."""
    for entry in config.nav:
        if "API" in entry:
            parts = [{part: [{name: path_of(name)} for name in names]} for part, names in SECTIONS.items()]
            entry["API"] = ["api/index.md", *parts]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those of docs/."""
    made = {"project/changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "heart.csv": heart_csv()}
    for path, text in {**api_pages(), **made}.items():
        files.append(File.generated(config, path, content=text))
    return files
