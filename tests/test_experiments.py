"""Every experiment runs from start to end on little data, and what it says follows from the numbers it shows."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "experiments"
SHARED = {
    "page",
    "ranking",
    "field_drawings",
    "field_page",
    "paper_shapes",
    "paper_curves",
    "exact_search",
    "set_functions",
}
SCRIPTS = sorted(path.stem for path in EXPERIMENTS.glob("*.py") if path.stem not in SHARED)
QUICKEST = {"hard_instance"}
VERDICT = re.compile(r"\*\*(holds|does not hold|undecided|equal)\*\* \(([+-][\d.]+) ± ([\d.]+)\)")


def run(script, *options):
    command = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore::DeprecationWarning",
        "-W",
        "ignore:alpha=:UserWarning",  # small alphas fit the noise of tiny data
        str(EXPERIMENTS / f"{script}.py"),
        "--quick",
        *map(str, options),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def rows_of(text, head):
    """Return the cells of the tables whose head begins so."""
    found, inside = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith(f"| {head} |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            found.append(cells)
    return found


def number(cell):
    return float(cell.split(" ")[0].replace(",", "").rstrip("%"))


@pytest.mark.parametrize("script", [s if s in QUICKEST else pytest.param(s, marks=pytest.mark.slow) for s in SCRIPTS])
def test_quick_run(script, tmp_path):
    """All checks of a script share one run of it."""
    done = run(script, "--write", tmp_path / f"{script}.md")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert (tmp_path / f"{script}.md").read_text().strip() == text.strip()
    assert f"python experiments/{script}.py --write docs/results/{script}.md" in text
    assert re.search(r"Measured on \d{4}-\d\d-\d\d: .* cores, Python .*budgetline \d", text)
    check_figures(text, tmp_path)
    text = text.replace("−", "-").replace(" %", "%")
    check_verdicts(text)
    CHECKS.get(script, check_table)(text)


def check_figures(text, folder):
    """Figures are the ones that the page shows; SVG with labels, and without a date."""
    drawn = {path.name for path in folder.glob("*.svg")}
    assert drawn == set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text))
    for name in drawn:
        assert (folder / name).stat().st_size < 1_000_000
        root = ElementTree.parse(folder / name).getroot()
        assert root.tag.endswith("svg")
        assert len([node for node in root.iter() if node.tag.endswith("text")]) > 5
        assert "<dc:date>" not in (folder / name).read_text()


def check_verdicts(text):
    """Verdicts follow from the numbers next to them."""
    for word, gap, error in VERDICT.findall(text):
        gap, error = float(gap), float(error)
        if word == "equal":
            assert gap == error == 0
        elif word == "undecided":
            assert abs(gap) <= 2 * error + 2e-4  # both are rounded
        else:
            assert (gap if word == "holds" else -gap) >= 2 * error - 2e-4


# -- one by one ----------------------------------------------------------------------------------------------


def check_tables(text):
    """Claims agree with the table."""
    head = next(line for line in text.splitlines() if line.startswith("| method |"))
    names = [cell.strip() for cell in head.strip("|").split("|")]
    tables = [dict(zip(names, row, strict=True)) for row in rows_of(text, "method")]
    first = next(row for row in tables if row["method"] == "linear")
    for ordering, claim in rows_of(text, "ordering")[:8]:
        above, below = ordering.split(" > ")
        assert number(first[above]) - number(first[below]) == pytest.approx(float(VERDICT.search(claim)[2]), abs=2e-4)


def check_figure2(text):
    """Ratios are those of the seconds."""
    rows = rows_of(text, "method")
    assert len(rows) == 3
    for _, _, *cells in rows:
        omp, forward, ratio, own_omp, own_fr, own_ratio, moments, gain_omp, gain_fr = map(float, cells)
        assert forward / omp == pytest.approx(ratio, rel=0.02)
        assert own_fr / own_omp == pytest.approx(own_ratio, rel=0.02)
        assert omp / own_omp == pytest.approx(gain_omp, rel=0.02)
        assert forward / own_fr == pytest.approx(gain_fr, rel=0.02)
        assert moments > 0
    assert "choose the same sequences **holds**" in text


def check_figure3(text):
    """Stopping costs rise to the total."""
    rows = rows_of(text, "method")
    costs, shares = [number(row[2]) for row in rows], [number(row[3]) for row in rows]
    assert [float(row[1]) for row in rows] == [0.95, 0.96, 0.97, 0.98, 0.99, 1.0]
    assert costs == sorted(costs)
    assert costs[-1] == 16_950
    assert shares == pytest.approx([100 * cost / 16_950 for cost in costs], abs=0.1)
    last = re.search(r"The last percent takes (\d+)% of the total cost", text)
    assert float(last[1]) == pytest.approx(100 - shares[-2], abs=1)


def check_figure4(text):
    """Gaps are those of the table."""
    rows = {row[0]: row[1:] for row in rows_of(text, "method")}
    gaps = [float(gap) for _, gap, _ in VERDICT.findall(text)]
    expected = [number(a) - number(b) for a, b in zip(rows["CS-G-OMP"], rows["No-Whiten"], strict=True)]
    assert gaps == pytest.approx(expected, abs=2e-4)


def check_figure5(text):
    """Gaps are those of the table, and accuracy and NDCG are shares."""
    rows = {row[0]: row[1:] for row in rows_of(text, "method")}
    assert set(rows) == {"CS-G-FR", "CS-G-OMP", "Single", "Sparse"}
    assert all(0 < number(row[column]) < 1 for row in rows.values() for column in (1, 3))
    claims = rows_of(text, "claim")
    assert len(claims) == 5
    for claim, *cells in claims:
        above, below = claim.split(" > ")
        for cell, a, b in zip(cells, rows[above], rows[below], strict=True):
            assert float(VERDICT.search(cell)[2]) == pytest.approx(number(a) - number(b), abs=2e-4)


def check_doubling(text):
    """Doubling protects small budgets."""
    rows = {row[0].split(",")[0]: row[1:] for row in rows_of(text, "method") if "worst" in row[0]}
    assert rows["greedy"][0] == rows["doubling"][0]  # equal costs: the same
    assert number(rows["doubling"][-1]) > number(rows["greedy"][-1])


def check_hard_instance(text):
    """Doubling attains four, and nothing less is attained."""
    doubling = next(row for row in rows_of(text, "method") if row[0].startswith("doubling"))
    items = np.array([float(cell) for cell in doubling[1].split(", ")])
    ratios = [float(cell) for cell in doubling[2].split(", ")]
    assert items.tolist() == [2, 1, 3, 6, 12, 24, 48, 96]
    assert ratios == pytest.approx((np.cumsum(items)[1:] / np.maximum.accumulate(items)[:-1]).tolist())
    assert max(ratios) == ratios[-1] == 4
    assert "**does not hold**" not in text


def check_correlation(text):
    """Means, extremes and verdicts agree."""
    rows = rows_of(text, "share")
    for _, redundancy, _, mean, largest, verdict in rows:
        assert 0 <= float(redundancy) <= 1
        assert float(mean) <= float(largest)
        assert float(VERDICT.search(verdict)[2]) == pytest.approx(float(mean), abs=1e-4)
    assert float(rows[0][1]) < float(rows[-1][1])  # repeated groups are more redundant


def check_real(text):
    """Sentences, verdicts and tables agree."""
    names = ["NHANES", "heart (logistic)", "mfeat (1 per feature)"]
    first = {row[0]: row[1:] for row in rows_of(text.split("### Step interpolation")[0], "finding")}
    for finding, cells in first.items():
        sentence = next(line for line in text.splitlines() if line.startswith(f"- **{finding}**"))
        for name, cell in zip(names, cells, strict=True):
            word = VERDICT.search(cell)[1]
            assert re.search(rf"(\*\* |\. It |is |are ){word} on [^.]*{re.escape(name)}", sentence)
    for name, cells in zip(names, zip(*first.values(), strict=True), strict=True):
        table = {row[0]: row[1:] for row in rows_of(text.split(f"## {name}\n")[-1].split("\n## ")[0], "method")}
        assert set(table) >= {"CS-G-FR", "CS-G-OMP", "No-Whiten", "Single", "G-OMP", "Sparse", "FR Oracle", "Random"}
        gap = number(table["CS-G-FR"][0]) - number(table["CS-G-OMP"][0])
        assert float(VERDICT.search(cells[0])[2]) == pytest.approx(gap, abs=2e-4)


def check_bands(text):
    """The share of all effects is the mean of theirs, and a band covers most."""
    rows = rows_of(text, "task")
    assert len(rows) == 6
    for *_, mean, first, second, third, fourth, fifth in rows:
        shares = [number(cell) for cell in (first, second, third, fourth, fifth)]
        assert number(mean) == pytest.approx(sum(shares) / 5, abs=0.6)
        assert number(mean) > 50


def check_table(text):
    """There is one, of numbers."""
    rows = rows_of(text, "method")
    assert len(rows) > 3
    assert any(re.match(r"[\d.]+", cell) for row in rows for cell in row[1:])


def check_certificates(text):
    """Free duals certify less, nothing more than what is known, and the goal is counted from the table."""
    rows = [row for row in rows_of(text, "data") if "×" in row[1]]
    cells = [re.fullmatch(r"([\d.]+), \(([\d.]+)\), \[([\d.]+)\]", cell) for row in rows for cell in row[4:7]]
    found = [tuple(map(float, cell.groups())) for cell in cells]
    assert len(found) == 3 * len(rows) > 0
    assert all(free <= certified + 1e-3 and certified <= known + 1e-3 <= 1.001 for certified, free, known in found)
    reached = re.search(r"reached in (\d+) of (\d+) cases", text)
    assert int(reached[2]) == len(found)
    assert abs(int(reached[1]) - sum(certified >= 0.95 for certified, _, _ in found)) <= 1  # rounded
    gains = [float(row[4]) for row in rows_of(text, "data") if row[1].endswith("groups")]
    assert min(gains) >= 0


def check_data(text):
    """A row per data set has numbers."""
    rows = rows_of(text, "data") + rows_of(text, "table")
    assert rows
    assert all(re.search(r"\d\.\d", " ".join(row)) for row in rows)


def check_zoo(text):
    """A row per table has a score for every budget and for all columns, of all three ways."""
    for _, budgets, own, _, linear, boosting, *_ in rows_of(text, "table"):
        for scores in (own, linear, boosting):
            assert len(scores.split()) == len(budgets.split("/"))
            assert all(-1 <= float(score) <= 1 for score in scores.split())


def check_correction(text):
    """Differences are those of the means, and the verdicts follow from them."""
    rows = rows_of(text, "choice")
    verdicts = {row[0]: row[1:] for row in rows if len(row) == 3}
    first, *others = [row for row in rows if len(row) > 3 and not row[0].startswith("plans")]
    assert len(others) == 5
    for way, mean, less, *_ in others:
        gap, error = map(float, less.split(" ± "))
        assert number(mean) - number(first[1]) == pytest.approx(gap, abs=2e-4)
        better, worse = verdicts[way]
        if abs(abs(gap) - error) > 2e-4:  # both are rounded
            assert ("diabetes" in better) == (gap > error)
            assert ("diabetes" in worse) == (gap < -error)


def check_field(text):
    """The best of each row is the one in bold, and its lead is its distance to the next."""
    for _, _, _, *cells, lead in rows_of(text, "data"):
        values = sorted((float(cell.strip("*")) for cell in cells if cell != "–"), reverse=True)
        assert [float(cell.strip("*")) for cell in cells if cell.startswith("**")] == values[:1]
        gap = 0.0 if lead.endswith("equal") else float(re.search(r": ([+-][\d.]+) ±", lead)[1])
        assert 100 * (values[0] - values[1]) == pytest.approx(gap, abs=0.11)  # values are rounded


def check_rankings(text):
    """Differences are those of the means, and lower cost allows no more spending."""
    for _, old, new, gap, _ in rows_of(text, "budget, share of all"):
        assert number(new) - number(old) == pytest.approx(number(gap), abs=2e-4)
    rows = rows_of(text, "cost allowed")
    assert rows
    for _, _, value, plain, _ in rows:
        gap = float(re.search(r"\(([+-][\d.]+) ±", plain)[1])
        assert number(value) - number(plain) == pytest.approx(gap, abs=2e-4)
    saved = [number(row[1]) for row in rows_of(text, "plain order at")]
    assert saved
    assert all(0 <= part < 100 for part in saved)


def check_survival(text):
    """Methods with budgets have four concordances, the others one; what is quoted is in the tables."""
    rows = rows_of(text, "concordance")
    assert len(rows) >= 4
    for _, *cells in rows:
        values = [number(cell) for cell in cells if cell]
        assert len(values) in (1, 4)
        assert all(0 < value < 1 for value in values)
    for quoted in re.findall(r"the learned order reaches a concordance of ([\d.]+)", text):
        assert quoted in [row[2].split(" ")[0] for row in rows if row[0] == "order"]


CHECKS = {
    "rankings": check_rankings,
    "survival": check_survival,
    "bands": check_bands,
    "field": check_field,
    "correction": check_correction,
    "certificates": check_certificates,
    "correlation": check_correlation,
    "doubling": check_doubling,
    "figure2": check_figure2,
    "figure3": check_figure3,
    "figure4": check_figure4,
    "figure5": check_figure5,
    "hard_instance": check_hard_instance,
    "real": check_real,
    "tables": check_tables,
    "zoo": check_zoo,
    **dict.fromkeys(("alpha", "calibration", "intervals", "raw_tables", "subsets"), check_data),
}


# -- the user's own ranking data -----------------------------------------------------------------------------


@pytest.fixture
def ranking(tmp_path):
    """Write data in Yahoo's format: two svmlight files with queries, and a file of costs."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 30)).round(3)
    X[:, 7] = 0  # a feature that never occurs, as there are some in Yahoo's files
    y = np.clip(np.round(3 * X[:, 0] + X[:, 1] + rng.normal(0, 0.3, 600)), 0, 4)
    qid = np.repeat(np.arange(1, 61), 10)
    for name, rows in (("train", slice(400)), ("test", slice(400, None))):
        dump_svmlight_file(X[rows], y[rows], str(tmp_path / f"{name}.txt"), zero_based=False, query_id=qid[rows])
    costs = rng.choice([1, 5, 20], 30)
    (tmp_path / "costs.txt").write_text("".join(f"{cost}\n" for cost in costs))
    return tmp_path, X, y, qid, costs


@pytest.mark.slow
@pytest.mark.parametrize("script", ["tables", "figure5"])
def test_ranking_data_of_the_user(script, ranking):
    folder = ranking[0]
    done = run(script, "--data", folder / "train.txt", folder / "test.txt", "--costs", folder / "costs.txt")
    assert done.returncode == 0, done.stderr
    assert "train.txt, test.txt" in done.stdout
    assert "n = 600" in done.stdout
    assert "Agricultural shape" not in done.stdout
    assert VERDICT.search(done.stdout)


def test_ranking_data_are_read_as_they_are(ranking, monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import ranking as module

    folder, X, y, qid, costs = ranking
    web = module.read_web([folder / "train.txt", folder / "test.txt"], folder / "costs.txt")
    kept = np.arange(30) != 7
    np.testing.assert_allclose(web.data, X[:, kept], rtol=1e-6)
    np.testing.assert_array_equal(web.target, y)
    np.testing.assert_array_equal(web.qid, qid)
    np.testing.assert_array_equal(web.feature_costs, costs[kept])
    (folder / "named.txt").write_text("# feature, cost\n3, 2.5\n1 1\n")
    some = module.read_web([folder / "train.txt"], folder / "named.txt")
    np.testing.assert_allclose(some.data, X[:400][:, [0, 2]], rtol=1e-6)
    assert some.feature_costs.tolist() == [1.0, 2.5]
    for text, message in (("1\ntwo\n", "line 2: expected a cost"), ("1\n-3\n", "line 2: costs must be positive")):
        (folder / "bad.txt").write_text(text)
        with pytest.raises(ValueError, match=message):
            module.read_web([folder / "train.txt"], folder / "bad.txt")
    (folder / "plain.txt").write_text("1 1:0.5\n0 2:0.25\n")
    with pytest.raises(ValueError, match="qid"):
        module.read_web([folder / "plain.txt"], folder / "costs.txt")


@pytest.mark.slow
def test_data_without_costs_are_refused(ranking):
    done = run("tables", "--data", ranking[0] / "train.txt")
    assert done.returncode == 2
    assert "--data and --costs go together" in done.stderr
