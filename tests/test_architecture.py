"""The shape of the code: imports point one way, the public names are pinned, and nothing grows too large."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import budgetline
import budgetline.datasets

ROOT = Path(budgetline.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LAYERS = (
    "arrays",
    "messages",
    "packages",
    "devices",
    "progress",
    "threads",
    "files",
    "codec",
    "tables",
    "inputs",
    "budgets",
    "groups",
    "encoding",
    "data",
    "moments",
    "leastsquares",
    "glm",
    "sequencing",
    "model",
    "evaluation",
    "fitting",
    "bounds",
    "optimality",
    "estimators",
    "baselines",
    "runtime",
    "persistence",
    "report",
    "public",
    "explore",
    "cli",
)
MAY_IMPORT = {layer: set(LAYERS[: k + 1]) for k, layer in enumerate(LAYERS)} | {
    "datasets": {"datasets", "groups", "inputs", "messages", "packages", "arrays"},
    "cli": {*LAYERS, "datasets"},
    "__main__": {"cli"},
}
OPTIONAL = ("dask", "distributed", "pandas", "yaml", "polars", "pyarrow", "matplotlib", "onnx", "onnxruntime")
OPTIONAL += ("skops", "torch", "cupy", "jinja2", "markupsafe")
SERVER = ("starlette", "uvicorn")
COMMAND_LINE = ("typer", "click", "rich")
RUN_CODE_OF_OTHERS = {
    "budgetline.runtime.extractors",  # users' functions, whose failures are results
    "budgetline.runtime.profiling",  # the same, whose failures end the profile
    "budgetline.estimators.clones",  # users' estimators, whose errors get a note and are raised again
    "budgetline.explore.worker",  # whatever a table does to a fit, the page goes on
    "budgetline.messages",  # the repr of a value, in the middle of an error message
    "budgetline.moments.sums",  # a caller's iterator; its error comes after the results before it
    "budgetline.threads",  # what helpers are given to do; an error is raised again where it was asked for,
    "budgetline.persistence.staged_record",  # skops, which raises many kinds of errors for forged parts
}
WRITE_IN_FULL = {
    "budgetline.messages",
    "budgetline.persistence.plain_settings",  # of floats, which read back as the same
    "budgetline.report.report",
    "budgetline.report.formatting",
    "budgetline.data.sources",  # of what is hashed
    "budgetline.encoding.table",
    "budgetline.moments.tallies",
}
MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_WITH_ANY = 205
MOST_PUBLIC_NAMES = 36


def module_name(path):
    parts = ("budgetline", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


@cache
def tree_of(name):
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def imports_of(name):
    """Yield every module imported, at the top or inside a function, with relative imports resolved."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([base] if base else [])])
            submodules = [f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in MODULES]
            yield from submodules or [base]


def own_imports_of(name):
    return {imported for imported in imports_of(name) if imported in MODULES and imported != name}


def layer_of(name):
    return name.split(".")[1] if "." in name else ""


def test_every_module_is_in_a_layer():
    assert len(MODULES) > 20
    assert {layer_of(name) for name in MODULES} - {""} == set(MAY_IMPORT)


@pytest.mark.parametrize("name", [name for name in MODULES if name != "budgetline"])
def test_imports_point_left(name):
    own = {i for i in imports_of(name) if i == "budgetline" or i.startswith("budgetline.")}
    wrong = {i for i in own if layer_of(i) not in MAY_IMPORT[layer_of(name)]}
    assert not wrong, f"{name} may import {sorted(MAY_IMPORT[layer_of(name)])}, not {sorted(wrong)}"


def test_there_is_no_cycle():
    graph = {name: own_imports_of(name) for name in MODULES}
    assert sum(map(len, graph.values())) > 20
    done: set[str] = set()
    while ready := [n for n in graph if n not in done and graph[n] <= done]:
        done.update(ready)
    assert done == set(graph), f"cycle among {sorted(set(graph) - done)}"


@pytest.mark.parametrize("name", MODULES)
def test_names_are_nouns_and_pickle_is_not_used(name):
    assert not {"utils", "util", "helpers", "common", "misc"} & set(name.split("."))
    assert not {"pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal"} & {
        i.split(".")[0] for i in imports_of(name)
    }


@pytest.mark.parametrize("name", MODULES)
def test_optional_packages_are_imported_late(name):
    top = {i for node in tree_of(name).body if isinstance(node, ast.Import) for i in (a.name for a in node.names)}
    top |= {node.module for node in tree_of(name).body if isinstance(node, ast.ImportFrom)}
    assert not {i.split(".")[0] for i in top if i} & set(OPTIONAL)


@pytest.mark.parametrize("name", MODULES)
def test_only_the_server_imports_its_packages(name):
    if name != "budgetline.explore.server":
        assert not {i.split(".")[0] for i in imports_of(name)} & set(SERVER)
        assert "budgetline.explore.server" not in own_imports_of(name) or name == "budgetline.explore.serving"


@pytest.mark.parametrize("name", MODULES)
def test_only_the_command_line_imports_its_packages(name):
    if layer_of(name) != "cli":
        assert not {i.split(".")[0] for i in imports_of(name)} & set(COMMAND_LINE)


WITHOUT_OPTIONAL = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL + COMMAND_LINE!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocker())
import numpy as np
from scipy import sparse
import budgetline, budgetline.datasets
X = np.random.default_rng(0).normal(size=(20, 3))
model = budgetline.AnytimeRegressor([[0, 2], [1]], costs=[1, 2]).fit(X, X[:, 1])
assert model.predict(sparse.csr_array(X), budget=2).shape == (20,)
assert budgetline.AnytimeRegressorCV(cv=2).fit(X, X[:, 1]).coef_.shape == (3,)
assert budgetline.datasets.load_heart().data.shape[0] == 303
source = budgetline.open_data((X, X[:, 1]), chunk_rows=7)
assert budgetline.AnytimeRegressor().fit(source).n_passes_ == 1
assert budgetline.budget_curve(model, X, X[:, 1]).values[-1] > 0.9
assert budgetline.compare({{"a": budgetline.AnytimeRegressor()}}, X, X[:, 1], cv=2).curves["a"].values[-1] > 0.9
assert not set({(*OPTIONAL, *COMMAND_LINE, "budgetline.cli")!r}) & set(sys.modules)
"""


def test_the_core_needs_no_optional_package():
    run = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_OPTIONAL], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# -- public names --------------------------------------------------------------------------------------------

PUBLIC = {
    "budgetline": {
        "AnytimeClassifier",
        "AnytimeClassifierCV",
        "AnytimeRanker",
        "AnytimeRankerCV",
        "AnytimeRegressor",
        "AnytimeRegressorCV",
        "AnytimeRunner",
        "AnytimeSurvival",
        "AnytimeSurvivalCV",
        "BudgetCurve",
        "BudgetCurveDisplay",
        "Certificate",
        "CoverageDisplay",
        "Encoding",
        "Extractor",
        "FeatureGroups",
        "FixedOrder",
        "GroupLassoPath",
        "Moments",
        "ReliabilityDisplay",
        "Report",
        "StagedEstimators",
        "budget_curve",
        "certify",
        "compare",
        "cross_val_budget_curve",
        "load",
        "make_report",
        "open_data",
        "profile_costs",
        "save",
        "stopping_cost",
        "timeliness",
        "to_linear_format",
        "to_onnx",
    },
    "budgetline.baselines": {"GroupLassoPath"},
    "budgetline.data": {"Source", "open_data"},
    "budgetline.glm": {"ConvexLoss"},
    "budgetline.sequencing": {"Doubling", "FixedOrder", "GroupSequence", "RandomOrder"},
    "budgetline.datasets": {"load_bank", "load_heart", "load_mfeat", "load_nhanes", "load_thyroid"},
}
OBJECTS = [(module, name) for module, names in PUBLIC.items() for name in sorted(names)]


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_pinned(module):
    found = importlib.import_module(module)
    assert set(found.__all__) == PUBLIC[module]
    assert len(found.__all__) == len(PUBLIC[module]) <= MOST_PUBLIC_NAMES
    visible = {n for n, v in vars(found).items() if not n.startswith("_") and not inspect.ismodule(v)}
    assert visible == PUBLIC[module]


def test_the_version_is_that_of_the_package():
    project = (ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{budgetline.__version__}"' in project


def sections(docstring):
    return re.findall(r"^ *(\w[\w ]*)\n *-{3,}$", docstring or "", re.MULTILINE)


@pytest.mark.parametrize(("module", "name"), OBJECTS)
def test_public_objects_have_a_runnable_example(module, name):
    doc = inspect.getdoc(getattr(importlib.import_module(module), name))
    assert "Examples" in sections(doc)
    assert ">>> " in doc.split("Examples\n", 1)[1]


@pytest.mark.parametrize(("module", "name"), OBJECTS)
def test_public_methods_are_documented(module, name):
    found = getattr(importlib.import_module(module), name)
    members = vars(found).items() if inspect.isclass(found) else []
    bare = [n for n, m in members if not n.startswith("_") and callable(m) and not inspect.getdoc(m)]
    assert not bare


@pytest.mark.parametrize("name", ["AnytimeRegressor", "AnytimeRegressorCV"])
@pytest.mark.parametrize("section", ["Parameters", "Attributes", "Examples"])
def test_estimators_have_every_section(name, section):
    assert section in sections(inspect.getdoc(getattr(budgetline, name)))


# -- size and hygiene ----------------------------------------------------------------------------------------


def types_of(name):
    """Yield the classes and type aliases of a module, without leading underscores."""
    for node in tree_of(name).body:
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (t.id for t in targets if isinstance(t, ast.Name) and re.fullmatch(r"[A-Z][a-z]\w*", t.id))


def test_no_type_and_no_module_has_the_name_of_another():
    places = {}
    for name in MODULES:
        for kind in types_of(name):
            places.setdefault(kind, []).append(name)
    assert {kind: names for kind, names in places.items() if len(names) > 1} == {}
    modules = Counter(name.rpartition(".")[2] for name in MODULES if MODULES[name].name != "__init__.py")
    assert [name for name, times in modules.items() if times > 1] == []


def test_only_fit_model_and_files_make_a_model():
    calls = {
        name
        for name in MODULES
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "AnytimeModel"
    }
    assert calls == {"budgetline.fitting.fit_model", "budgetline.persistence.restored_model"}


@pytest.mark.parametrize("name", MODULES)
def test_functions_stay_small(name):
    functions = [n for n in ast.walk(tree_of(name)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {f.name: size for f in functions if (size := f.end_lineno - f.lineno + 1) > MOST_LINES_OF_A_FUNCTION}
    assert not long


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_a_docstring_and_ignore_types_by_code(name):
    text = MODULES[name].read_text(encoding="utf-8")
    assert ast.get_docstring(tree_of(name))
    assert not re.findall(r"#\s*type:\s*ignore(?!\[[a-z-]+(?:,\s*[a-z-]+)*\])", text)
    assert not re.findall(r"#\s*noqa(?!:)", text)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in RUN_CODE_OF_OTHERS])
def test_exceptions_are_not_swallowed(name):
    handlers = [n for n in ast.walk(tree_of(name)) if isinstance(n, ast.ExceptHandler)]
    assert all(h.type is not None for h in handlers), "bare except"
    broad = [h.lineno for h in handlers if isinstance(h.type, ast.Name) and h.type.id in ("Exception", "BaseException")]
    assert not broad


PROTOCOLS = {"_parameter_constraints", "_exit"}  # scikit-learn's, for subclasses; os._exit


def test_few_types_are_unknown():
    lines = [line for path in FILES for line in path.read_text(encoding="utf-8").splitlines()]
    assert sum(bool(re.search(r"\bAny\b", line)) for line in lines) < MOST_LINES_WITH_ANY


@pytest.mark.parametrize("name", MODULES)
def test_nothing_private_of_others_is_touched(name):
    nodes = list(ast.walk(tree_of(name)))
    attributes = [n for n in nodes if isinstance(n, ast.Attribute) and re.match("_[a-z]", n.attr)]

    def mine(node):
        by_name = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        return by_name or (isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super")

    own = {n.attr for n in attributes if mine(n)} | {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    foreign = [
        f"{ast.unparse(n)}, line {n.lineno}" for n in attributes if not mine(n) and n.attr not in own | PROTOCOLS
    ]
    assert not foreign


@pytest.mark.parametrize("name", MODULES)
def test_values_come_into_messages_by_one_door(name):
    # budgetline.messages.shown and some bound them; a repr can be as long as the value likes
    nodes = list(ast.walk(tree_of(name)))
    in_texts = [n.lineno for n in nodes if isinstance(n, ast.FormattedValue) and n.conversion in (ord("r"), ord("a"))]
    in_formats = [n.lineno for n in nodes if isinstance(n, ast.Constant) and "%r" in str(n.value)]
    by_name = [n.lineno for n in nodes if isinstance(n, ast.Name) and n.id in ("repr", "ascii")]
    assert not in_texts
    assert not in_formats
    assert not by_name or name in WRITE_IN_FULL
