"""What a package index shows, what each extra brings, and what users read who lack an extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OURS = {"docs", "peers", "test"}  # for those who work on the library


# -- metadata --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def metadata():
    """Return the metadata as a build of this tree writes them."""
    return ProjectMetadata(str(ROOT), PluginManager()).core


def test_all_brings_every_extra_for_users():
    (requirement,) = EXTRAS["all"]
    assert set(re.fullmatch(r"budgetline\[(.*)\]", requirement)[1].split(",")) == set(EXTRAS) - OURS - {"all"}


def test_every_link_of_the_long_description_is_absolute(metadata):
    source = metadata.urls["Source"]
    targets = re.findall(r"\]\(([^)\s]+)\)", metadata.readme)
    assert f"{source}/blob/main/docs/quickstart.md" in targets
    assert f"{source}/raw/main/docs/images/gallery/heart.svg" in targets
    assert not [target for target in targets if not target.startswith("https://")]


def test_the_long_description_is_the_readme_but_for_its_links(metadata):
    source = re.escape(metadata.urls["Source"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.sub(rf"\]\({source}/(?:blob|raw)/main/", "](", metadata.readme) == readme
    assert metadata.readme_content_type == "text/markdown"


def test_all_links_of_the_project_lead_to_one_repository(metadata):
    assert {"Source", "Documentation", "Changelog", "Issues"} <= set(metadata.urls)
    assert all(url.startswith(metadata.urls["Source"]) for url in metadata.urls.values())


# -- minimum versions ------------------------------------------------------------------------------------------


def test_the_minimum_of_every_dependency_for_users_is_pinned():
    script = ROOT / "tools" / "minimum_versions.py"
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    declared = [entry for name in set(EXTRAS) - OURS for entry in EXTRAS[name]] + PROJECT["dependencies"]
    floors = {entry.replace(">=", "==") for entry in declared if not entry.startswith("budgetline[")}
    assert sorted(run.stdout.split()) == sorted(floors)
    assert {"numpy", "pandas", "typer"} < {pin.split("==")[0] for pin in floors}


# -- what make demo installs -----------------------------------------------------------------------------------

IMPORTED_AS = {"pyyaml": "yaml", "python-calamine": "python_calamine", "array-api-strict": "array_api_strict"}
BLOCKS = """
import sys
sys.modules |= dict.fromkeys({blocked!r})
for code in {codes!r}:
    exec(code)
"""


def packages_of(extras):
    """Return what extras bring, as it is imported."""
    found = set()
    for requirement in (entry for extra in extras for entry in EXTRAS[extra]):
        name, others = re.match(r"([\w-]+)(?:\[(.*?)\])?", requirement).groups()
        found |= packages_of(others.split(",")) if name == "budgetline" else {IMPORTED_AS.get(name, name)}
    return found


def test_the_first_pages_run_with_what_make_demo_installs(tmp_path):
    rule = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\n$(DEMO):")[2]
    extras = re.search(r"pip install .* '\.\[([\w,]+)\]'", rule)[1]
    brought = packages_of(extras.split(","))
    assert packages_of(["all"]) == brought >= {"pandas", "matplotlib", "jinja2", "typer", "starlette"}
    pages = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    codes = [code for text in texts for code in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
    program = BLOCKS.format(blocked=sorted(packages_of(OURS) - brought), codes=codes)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "('cp', 'sex', 'age'" in run.stdout


# -- without the extras ----------------------------------------------------------------------------------------

PACKAGES = (
    "pandas", "yaml", "matplotlib", "pyarrow", "dask", "distributed", "onnx", "typer", "rich", "polars",
    "starlette", "uvicorn", "skops", "python_calamine", "jinja2", "markupsafe",
)  # fmt: skip
WITHOUT = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
from pathlib import Path
import numpy as np
import budgetline
from budgetline.datasets import load_heart
X = np.random.default_rng(0).normal(size=(30, 3))
model = budgetline.AnytimeRegressor().fit(X, X[:, 0])
source = budgetline.open_data((X, X[:, 0]))
for name, text in (("a.csv", "x,y\\n1,2\\n"), ("a.parquet", "PAR1"), ("groups.yaml", "groups: {{}}"), ("a.xlsx", "")):
    Path(name).write_text(text)
for call in {calls!r}:
    try:
        eval(call)
    except ImportError as error:
        print(error)
    else:
        print("nothing is missing for", call)
"""
NEEDS = {
    "load_heart(as_frame=True)": "pandas",
    "model.sequence_.to_frame()": "pandas",
    "model.sequence_.to_frame('pyarrow')": "arrow",
    "model.sequence_.to_frame('polars')": "polars",
    "budgetline.FeatureGroups.from_yaml('groups.yaml')": "yaml",
    "model.feature_groups_.to_yaml()": "yaml",
    "budgetline.BudgetCurveDisplay.from_estimator(model, X, X[:, 0])": "plot",
    "model.certificate().plot()": "plot",
    "budgetline.make_report(model).write('report.html')": "report",
    "budgetline.open_data('a.csv', 'y')": "arrow",
    "budgetline.open_data('a.parquet', 'y')": "arrow",
    "budgetline.open_data('a.xlsx', 'y')": "excel",
    "model.fit(source, client=object())": "dask",
    "budgetline.to_onnx(model)": "onnx",
    "budgetline.save(budgetline.StagedEstimators(model, model.model_).fit(X, X[:, 0]), 'staged')": "skops",
    "__import__('budgetline.explore.serving', fromlist=['serve']).serve(None, None, None)": "explore",
}


def errors_without(blocked, calls, folder):
    code = WITHOUT.format(blocked=blocked, calls=tuple(calls))
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stderr
    return dict(zip(calls, run.stdout.splitlines(), strict=True))


def test_what_needs_an_extra_names_it(tmp_path):
    said = errors_without(PACKAGES, NEEDS, tmp_path)
    wrong = {call: said[call] for call, extra in NEEDS.items() if f"pip install '.[{extra}]'" not in said[call]}
    assert not wrong
    assert set(NEEDS.values()) | {"cli"} == set(EXTRAS) - OURS - {"all"}


@pytest.mark.slow
def test_frames_that_are_streamed_name_the_extra_for_arrow(tmp_path):
    frames = ("pandas.DataFrame(data)", "polars.DataFrame(data)", "polars.LazyFrame(data)")
    calls = [
        f"(lambda pandas, polars, data: model.fit(budgetline.open_data({frame}, 'y')))"
        "(__import__('pandas'), __import__('polars'), {'x': X[:, 0], 'y': X[:, 1]})"
        for frame in frames
    ]
    said = errors_without(("pyarrow",), calls, tmp_path)
    assert set(said.values()) == {"this needs pyarrow: in a clone of budgetline, pip install '.[arrow]'"}
