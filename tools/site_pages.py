"""Pages of the site that are made when it is built: one per public object, the changelog, and files to download."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from contextlib import redirect_stdout
from functools import cached_property
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
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
    ],
    "Evaluation": [
        "budget_curve", "cross_val_budget_curve", "compare", "BudgetCurve", "BudgetCurveDisplay",
        "ReliabilityDisplay", "CoverageDisplay", "timeliness",
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


GUIDES = {
    "Estimators": [("Fit", "guide/fitting.md"), ("Predict", "guide/predicting.md")],
    "Groups and tables": [("Groups and costs", "guide/groups.md"), ("Raw tables", "guide/raw_tables.md")],
    "Sequences and schedules": [("Fit", "guide/fitting.md")],
    "Evaluation": [("Evaluate", "guide/evaluating.md")],
    "Plans, certificates, what next": [
        ("Plans and certificates", "guide/plans.md"), ("What next?", "guide/next_groups.md"),
    ],
    "Reports and files": [("Reports, files, ONNX", "deploy/files.md")],
    "Large data": [("Large data", "deploy/large_data.md")],
    "Runtime": [("Deadlines", "deploy/deadlines.md")],
    "Data sets": [("Gallery", "gallery/index.md")],
}  # fmt: skip
"""The pages of the guide on each section."""


INTERNAL = {
    "ConvexLoss": "all",
    "FixedOrder": "all",
    "Doubling": "all",
    "RandomOrder": "all",
    "AnytimeModel": [
        "encode_target", "labels_of", "mean_over_rows", "null_result", "respond", "result", "results", "scored",
        "stage_results", "staged", "table",
    ],
    "FeatureGroups": ["resolve"],
    "Encoding": ["check_columns", "of"],
    "Source": ["encoded", "reading"],
    "Moments": ["mean_squared_error", "scaled", "select", "standardisation", "varying"],
    "EarlyExit": ["check"],
}  # fmt: skip
"""Methods that only the library calls."""
ROUTING = re.compile(r"set_.*_request|get_metadata_routing")
"""Methods that scikit-learn adds."""


def objects() -> list[str]:
    """Return all objects of the reference, by their path below ``budgetline``."""
    return [name for names in SECTIONS.values() for name in names]


def path_of(name: str) -> str:
    """Return the path of an object's page; two that differ in case only, as files of a Mac do, get two names."""
    twin = name[0].isupper() or name.rpartition(".")[2][0].isupper()
    return f"api/{name}{'-class' if twin and name.lower() in objects() else ''}.md"


def see_also(name: str) -> str:
    """Return a line of links: the pages of the guide on an object, and its neighbours in the reference."""
    section = next(part for part, names in SECTIONS.items() if name in names)
    depth = "../" * path_of(name).count("/")
    pages = [f"[{title}]({depth}{path})" for title, path in GUIDES[section]]
    others = [f"[`{other}`]({depth}{path_of(other)})" for other in SECTIONS[section] if other != name]
    return f"**See also**: {', '.join(pages + others)}."


NAMES = r"`+[\w.]+`+"
POINTED = r"(?:parameters and attributes|arguments|keywords|parameters) as in\s+"
POINTER = re.compile(rf"[;,.]? ?(?:other )?{POINTED}(?:{NAMES}(?:,\s+|\s+and\s+)?)+", re.IGNORECASE)


def without_pointers(text: str) -> str:
    """Return a docstring without "parameters as in ``X``": its page shows these parameters."""
    return POINTER.sub("", text)


def summary_of(name: str) -> str:
    """Return the first sentence of an object's documentation."""
    paragraph = (object_of(name).__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(without_pointers(paragraph).split())


def object_of(name: str) -> Any:
    """Return an object of the reference."""
    module, _, last = f"budgetline.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def page_of(name: str) -> str:
    """Return the page of an object: of a class, methods and properties follow; fields are parameters already."""
    found = object_of(name)
    members = [m for m in dir(found) if inspect.isclass(found) and is_shown(found, m)]
    options = {"heading_level": 1, "show_root_full_path": False, "members": members}
    if not members:
        options |= {"inherited_members": False, "summary": False}
    return f"::: {identifier_of(name)}\n    options: {json.dumps(options)}\n\n{see_also(name)}\n"


def identifier_of(name: str) -> str:
    """Return what links to an object's page name it by; a function may have the name of its module."""
    module = sys.modules.get(f"budgetline.{name}")
    return f"budgetline.{name}" + (f".{name.rpartition('.')[2]}" if module else "")


def names_linked() -> dict[str, str]:
    """Return the names in prose that become links: those without a dot, and of classes also the last part."""
    names = objects()
    classes = {last: name for name in names if (last := name.rpartition(".")[2])[0].isupper()}
    return {**classes, **{name: name for name in names}}


DOWNLOADS = ("heart.csv", "heart.yaml", "bank.csv")
SPAN = re.compile(r"(?<![`\[])(`{1,2})([A-Za-z][\w.]+)\1(?!`)")
CODE = re.compile(r"(^```.*?^```$|^#.*?$|^>>> .*?$|^ {4,}.*?$|\[[^\]]*\][(\[][^)\]]*[)\]])", re.DOTALL | re.MULTILINE)


def linked(text: str, here: str = "", top: str = "../") -> str:
    """Turn code spans that name an object of the reference, or a file to download, into links.

    Only the first of each, outside code and headings. ``top`` leads from the page to the first one of the site.
    """
    names, done = names_linked(), {here}

    def link(span: re.Match[str]) -> str:
        name = span[2].removeprefix("budgetline.")
        if (name not in names and name not in DOWNLOADS) or name in done:
            return span[0]
        done.add(name)
        if name in DOWNLOADS:
            return f"[`{name}`]({top}{name})"
        return f"[`{name.rpartition('.')[2]}`][{identifier_of(names[name])}]"

    return "".join(part if i % 2 else SPAN.sub(link, part) for i, part in enumerate(CODE.split(text)))


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:
    """Link the names of objects in a page that is not of the reference."""
    path = page.file.src_uri
    return markdown if path.startswith("api/") else linked(markdown, top="../" * path.count("/"))


FIGURE = re.compile(r"<td(?=[^>]*>[<>≤≥~±−+-]?(?:&[lg]t;)? ?[.\d][^<]{0,24}</td>)")
WORDS = re.compile(r"<td(?=[^>]*>[^<]{40,}</td>)")
INLINE = re.compile(r"(?<!<pre>)(?<!</span>)<code>([^<]*)</code>")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
PICTURE = re.compile(r'(?<!">)<img [^>]*src="([^":]+)"[^>]*/?>')


def on_page_content(html: str, **kwargs: Any) -> str:
    """Keep figures, options and columns of words from breaking on narrow screens, and let pictures be enlarged."""
    html = WORDS.sub('<td class="words"', FIGURE.sub('<td class="figure"', html))
    html = PICTURE.sub(r'<a href="\1">\g<0></a>', html)
    return INLINE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)


def is_shown(cls: type, member: str) -> bool:
    """Return whether a member of a class has a section: public methods, whatever offers them, and properties."""
    if member.startswith("_") or ROUTING.fullmatch(member):
        return False
    if member in INTERNAL.get(cls.__name__, ()) or INTERNAL.get(cls.__name__) == "all":
        return False
    kind = inspect.getattr_static(cls, member)
    return isinstance(kind, (property, cached_property)) or callable(getattr(cls, member))


def api_pages() -> dict[str, str]:
    """Return the texts of the pages of the reference, by their paths."""
    paper = "*The paper* is [Hu et al. (2016)](../project/citing.md)."
    index = ["# API", "", f"Import objects from `budgetline` unless another module is named. {paper}", ""]
    pages = {}
    for section, names in SECTIONS.items():
        index += [f"## {section}", "", "| object | what it is |", "|---|---|"]
        for name in names:
            pages[path_of(name)] = page_of(name)
            index.append(f"| [`{name}`]({path_of(name).removeprefix('api/')}) | {summary_of(name)} |")
        index.append("")
    return {"api/index.md": "\n".join(index), **pages}


def downloads() -> dict[str, str]:
    """Return the files that the pages work with: what ``budgetline demo`` writes, and the calls of a bank."""
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        importlib.import_module("budgetline.cli").main(["demo", "--data", f"{folder}/heart.csv", "--quiet"])
        files = {name: Path(folder, name).read_text(encoding="utf-8") for name in ("heart.csv", "heart.yaml")}
    bank = importlib.import_module("budgetline.datasets").load_bank().frame
    return {**files, "bank.csv": bank.to_csv(index=False)}


def on_config(config: Any) -> Any:
    """Put the pages of the reference and of the results into the navigation."""
    results = sorted(f"results/{page.name}" for page in (ROOT / "docs" / "results").glob("[!R]*.md"))
    for entry in config.nav:
        for part in entry.get("Benchmarks", ()):
            if "All results" in part:
                part["All results"] = ["results/README.md", *results]
        if "API" in entry:
            parts = [{part: [{name: path_of(name)} for name in names]} for part, names in SECTIONS.items()]
            entry["API"] = ["api/index.md", *parts]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages to those of docs/."""
    made = {"project/changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")}
    for path, text in {**api_pages(), **made, **downloads()}.items():
        files.append(File.generated(config, path, content=text))
    return files
