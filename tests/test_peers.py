"""The adapters solve the problems they say, what is bought fits into the budget, and the driver reports everything."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
import compare_peers  # noqa: E402
from peers import PEERS  # noqa: E402
from peers.choices import ORDERS, SETS, SINGLE_TARGET, Training, filled, prefix  # noqa: E402
from peers.problem import Problem, lambda_grid, standardised, triangle  # noqa: E402


def have(package):
    return importlib.util.find_spec(package) is not None


def problem(n=200, seed=0, most=None):
    rng = np.random.default_rng(seed)
    sizes, costs = np.array([2, 3, 1, 4]), np.array([1.0, 2.0, 0.5, 3.0])
    X = rng.standard_normal((n, 10)) @ (np.eye(10) + 0.3 * rng.standard_normal((10, 10))) + rng.uniform(-3, 3, 10)
    y = X @ rng.standard_normal(10) + 2 * rng.standard_normal(n) + 5
    return Problem(X, y, sizes, costs, most)


def run(name, problem):
    peer = PEERS[name]
    return peer.run(problem, peer.prepare(problem), lambda **_: None)


def explained(answer, problem):
    return 1 - np.mean((problem.y - answer.fitted()) ** 2) / problem.y.var()


# -- adapters --------------------------------------------------------------------------------------------------


# Of skglm only the solver, below: compiling takes long.
@pytest.mark.parametrize("name", [n for n in PEERS if not n.startswith("skglm") and PEERS[n].path != "one model"])
def test_paths_end_at_least_squares(name):
    if not have(PEERS[name].package):
        pytest.skip(f"{PEERS[name].package} is not installed")
    data = problem()
    answer = run(name, data)
    best = LinearRegression().fit(data.X, data.y).score(data.X, data.y)
    # A lasso path ends at a thousandth of its largest penalty.
    assert best - 0.01 < explained(answer, data) < best + 1e-9
    assert (answer.groups, answer.columns) == (4, 10)


def test_one_model_is_ridge():
    data = problem()
    A, t = standardised(data)
    expected = Ridge(alpha=1e-5 * len(t)).fit(A, t).predict(A) + data.y.mean()
    np.testing.assert_allclose(run("sklearn Ridge", data).fitted(), expected, rtol=1e-8)


@pytest.mark.slow  # skglm compiles its solvers
@pytest.mark.parametrize("package", ["celer", "skglm", "spams"])
def test_solvers_meet_the_optimality_conditions(package):
    """At the optimum the gradient of a group is λ cost w/‖w‖ where it is in, and no longer than λ cost elsewhere."""
    if not have(package):
        pytest.skip(f"{package} is not installed")
    module = importlib.import_module(f"peers.{package}")
    data = problem()
    A, t = standardised(data)
    for rows, target in ((A, t), triangle(A, t)):
        value = lambda_grid(rows, target, data)[25]
        w = module.solver(data, rows, target, tol=1e-12)(value)
        r = A.T @ (t - A @ w) / len(t)
        seen = set()
        for end, size, cost in zip(np.cumsum(data.sizes), data.sizes, data.costs, strict=True):
            here = slice(end - size, end)
            norm = np.linalg.norm(w[here])
            seen.add(bool(norm))
            if norm:
                np.testing.assert_allclose(r[here], value * cost * w[here] / norm, atol=1e-4 * value * cost)
            else:
                assert np.linalg.norm(r[here]) <= value * cost * (1 + 1e-4)
        assert True in seen


def test_the_triangle_has_the_moments_of_the_data():
    A, t = standardised(problem())
    R, z = triangle(A, t)
    assert R.shape == (11, 10)
    np.testing.assert_allclose(R.T @ R / len(z), A.T @ A / len(t), atol=1e-10)
    np.testing.assert_allclose(R.T @ z / len(z), A.T @ t / len(t), atol=1e-10)


def test_the_grid_starts_where_everything_is_zero():
    data = problem()
    A, t = standardised(data)
    grid = lambda_grid(A, t, data)
    assert np.all(np.diff(grid) < 0)
    b = A.T @ t / len(t)
    norms = [np.linalg.norm(g) for g in np.split(b, np.cumsum(data.sizes)[:-1])]
    ratio = grid[0] / max(norm / cost for norm, cost in zip(norms, data.costs, strict=True))
    assert 0.9 < ratio < 1


def test_printed_and_ours_agree_on_a_first_part():
    data = problem(most=2)
    assert explained(run("printed, FR", data), data) == pytest.approx(explained(run("ours", data), data), abs=1e-6)


# -- choices ---------------------------------------------------------------------------------------------------


def training(classes=2):
    data = problem(150, seed=1)
    A, t = standardised(data)
    y = t if classes == 0 else np.digitize(t, np.quantile(t, np.arange(1, classes) / classes))
    return Training(A, y, data.sizes, data.costs, data.costs.sum() * np.array([0.1, 0.25, 0.5]), 1e-2, classes > 0)


def test_prefix_stops_and_fill_passes_over():
    costs = np.array([1.0, 5.0, 2.0])
    assert prefix([0, 1, 2], costs, 3.0) == [0]
    assert filled([0, 1, 2], costs, 3.0) == [0, 2]
    assert prefix([2, 0, 1], costs, 8.0) == [2, 0, 1]
    assert prefix([1], costs, 4.9) == filled([1], costs, 4.9) == []


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("name", [*ORDERS, *SETS])
def test_choices_are_distinct_groups_within_the_budget(name, classes):
    package, method = ({**ORDERS, **SETS})[name]
    if not have(package):
        pytest.skip(f"{package} is not installed")
    train = training(classes)
    if name in SINGLE_TARGET and not train.single:
        pytest.skip(f"{name} takes one target")
    if name in SETS:
        chosen = method(train)
        assert all(train.costs[g].sum() <= b * (1 + 1e-9) for g, b in zip(chosen, train.budgets, strict=True))
        assert all(len(set(g)) == len(g) for g in chosen)
    else:
        assert sorted(method(train)) == [0, 1, 2, 3]


def test_one_strong_group_comes_first_for_all_that_know_no_costs():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((300, 6))
    A = (A - A.mean(axis=0)) / A.std(axis=0)
    y = 3 * A[:, 4] + rng.standard_normal(300)
    train = Training(A, y, np.full(3, 2), np.ones(3), np.array([1.0]), 1e-2, False)
    for name, (package, method) in ORDERS.items():
        if have(package) and name not in ("cheapest first", "score"):
            assert method(train)[0] == 2, name


# -- the driver ------------------------------------------------------------------------------------------------


def driver(*arguments):
    command = [sys.executable, "-W", "error", str(ROOT / "benchmarks" / "compare_peers.py"), "--quick", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.slow
def test_quick_run(tmp_path):
    page = tmp_path / "peers.md"
    done = driver("--shapes", "agricultural", "--peers", "ours", "sklearn OMP", "celer, triangle", "--write", str(page))
    assert done.returncode == 0, done.stderr
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    assert len(rows) == 4
    assert all("failed" not in row for row in rows), rows
    ends = [float(row.split("|")[-2]) for row in rows[1:]]
    assert max(ends) - min(ends) < 0.01
    assert "Goal: faster than every peer that computes a path of groups: **" in page.read_text()


@pytest.mark.slow
def test_a_limit_that_is_not_met_is_reported_with_how_far_it_came():
    done = driver("--shapes", "agricultural", "--peers", "ours", "printed, FR", "--limit", "0.001")
    assert done.returncode == 0, done.stderr
    assert "> 0.001 s" in done.stdout


def test_a_missing_package_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(compare_peers, "installed", lambda peer: False)
    found = compare_peers.measure("SPAMS", tmp_path, 1.0)
    assert found == {"failed": "not installed: spams-bin"}
    row = compare_peers.cells("SPAMS", PEERS["SPAMS"], found, 1.0)
    assert len(row) == len(compare_peers.COLUMNS)
    assert "not installed: spams-bin" in row


def test_the_reason_of_a_failure_is_kept():
    assert compare_peers.reason(1, "Traceback\nValueError: no") == "failed (exit 1): ValueError: no"
    assert compare_peers.reason(-9, "") == "failed (SIGKILL): no message"
    assert compare_peers.facts_in('hello\n{"a": 1}\n') == [json.loads('{"a": 1}')]
