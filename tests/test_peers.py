"""The adapters solve the problems they say, what is bought fits into the budget, and the driver reports everything."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
import compare_peers  # noqa: E402
import logistic_data  # noqa: E402
import peers_page  # noqa: E402
from peers import adelie  # noqa: E402
from peers.choices import ORDERS, SETS, SINGLE_TARGET, Training, filled, prefix  # noqa: E402
from peers.problem import Problem, explained, lambda_grid, standardised, triangle, violation  # noqa: E402
from peers.registry import MODULE_OF, PEERS  # noqa: E402

ADELIE = ROOT / adelie.ENVIRONMENT / "bin" / "python"


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


def share(answer, problem):
    return 1 - np.mean((problem.y - answer.fitted()) ** 2) / problem.y.var()


# -- adapters --------------------------------------------------------------------------------------------------


# Of skglm only the solver, below: compiling takes long.
@pytest.mark.parametrize(
    "name",
    [n for n, p in PEERS.items() if p.loss == "squared" and p.package != "skglm" and p.path != "one model"],
)
def test_paths_end_at_least_squares(name):
    if not have(PEERS[name].package):
        pytest.skip(f"{PEERS[name].package} is not installed")
    data = problem()
    answer = run(name, data)
    best = LinearRegression().fit(data.X, data.y).score(data.X, data.y)
    # A lasso path ends at a thousandth of its largest penalty.
    assert best - 0.01 < share(answer, data) < best + 1e-9
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


def test_our_lasso_meets_the_optimality_conditions_to_its_tolerance():
    for name in ("ours, lasso", "ours, lasso, given"):
        assert run(name, problem()).checks()["violation"] < 1e-8


def test_the_violation_of_a_path_is_that_of_its_worst_group():
    data = Problem(np.empty((5, 3)), np.empty(5), np.array([2, 1]), np.array([1.0, 2.0]))
    lambdas, coefs = np.array([1.0, 0.5]), np.array([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0]])
    exact = np.array([[0.6, 0.8, 2.0], [0.3, 0.4, -1.0]])
    assert violation(data, data.costs, lambdas, coefs, exact) == pytest.approx(0, abs=1e-15)
    # The second group is out and allowed 2; the first is in and off by 0.1 of 0.5.
    for wrong, expected in (([[0, 0, 0.1], [0, 0, 0]], 0.05), ([[0, 0, 0.1], [0.1, 0, 0]], 0.2)):
        found = violation(data, data.costs, lambdas, coefs, exact + np.array(wrong))
        assert found == pytest.approx(expected)


def classes(n=200):
    data = problem(n)
    return Problem(data.X, (data.y > 5).astype(float), data.sizes, np.ones(4))


@pytest.mark.parametrize("name", ["ours, logistic", "sklearn logistic"])
def test_logistic_models_end_at_the_ridge_solution(name):
    data = classes()
    A = standardised(data)[0]
    best = LogisticRegression(C=1 / (1e-4 * len(A)), tol=1e-10, max_iter=1000).fit(A, data.y)
    np.testing.assert_allclose(run(name, data).fitted(), best.predict_proba(A)[:, 1], atol=1e-3)


def test_the_share_of_the_deviance():
    y, p = np.array([0.0, 1, 1, 0, 1]), np.array([0.2, 0.7, 0.9, 0.4, 0.5])
    assert explained(y, p, "logistic") == pytest.approx(1 - log_loss(y, p) / log_loss(y, np.full(5, 0.6)))
    assert explained(y, np.full(5, 0.6), "logistic") == pytest.approx(0)


SCRIPT = """
import sys
from pathlib import Path
sys.path.append(sys.argv[1])
from one_peer import say
from peers.adelie import PEERS
from peers.problem import Problem
peer, problem = PEERS[sys.argv[2]], Problem.load(Path(sys.argv[3]))
seen = []
answer = peer.run(problem, peer.prepare(problem), lambda **facts: seen.append(facts), tol=1e-16)
say(fitted=answer.fitted().tolist(), groups=answer.groups, models=answer.models, noted=len(seen), **answer.checks())
"""


@pytest.mark.slow  # a process each, and a tight tolerance
@pytest.mark.skipif(not ADELIE.exists(), reason="adelie has no environment: make peers")
@pytest.mark.parametrize("name", adelie.PEERS)
def test_adelie_solves_its_problem(name, tmp_path):
    logistic = PEERS[name].loss == "logistic"
    data = classes() if logistic else problem()
    data.save(tmp_path)
    command = [str(ADELIE), "-c", SCRIPT, str(ROOT / "benchmarks"), name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["violation"] < 1e-4
    assert found["models"] == found["noted"] == (100 if logistic else 99)
    if not logistic:
        np.testing.assert_allclose(found["fitted"], run("ours, lasso", data).fitted(), atol=1e-5)


def test_where_adelie_would_have_stopped():
    assert adelie.early_exit(np.array([0.0, 0.5, 0.91, 0.95]), [1.0, 2.0, 3.0, 4.0]) == {
        "exit_models": 3,
        "exit_seconds": 3.0,
    }
    assert adelie.early_exit(np.array([0.0, 0.5]), [1.0, 2.0]) == {}


def test_a_first_part_has_all_classes():
    data = classes()
    rare = Problem(data.X, (np.arange(200) == 150).astype(float), data.sizes, data.costs)
    assert set(rare.head(20).y) == {0, 1}


@pytest.mark.parametrize("name", logistic_data.DATA)
def test_logistic_data(name):
    X, y, groups = logistic_data.DATA[name][1](900, 3)
    assert X.shape == (900, 328)
    assert sorted(np.concatenate(groups)) == list(range(328))
    assert len(groups) == 57
    assert set(y) == {0, 1}
    np.testing.assert_array_equal(X, logistic_data.DATA[name][1](900, 3)[0])
    assert y.sum() == {"rare": 9, "agricultural": y.sum()}.get(name, 450)


def test_separable_data_are_separable():
    X, y, _ = logistic_data.separable(2_000)
    assert LogisticRegression(C=1e4, max_iter=10_000).fit(X, y).score(X, y) == 1


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
    assert share(run("printed, FR", data), data) == pytest.approx(share(run("ours", data), data), abs=1e-6)


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


@pytest.mark.quick_cases(6)
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
    assert 0 < float(rows[3].split("|")[-3]) < 0.1, "the error of celer's path"
    assert max(ends) - min(ends) < 0.01
    assert "The goal, to be faster than every peer that computes a path of groups, is **" in page.read_text()


@pytest.mark.slow
def test_a_limit_that_is_not_met_is_reported_with_how_far_it_came():
    done = driver("--shapes", "agricultural", "--peers", "ours", "printed, FR", "--limit", "0.001")
    assert done.returncode == 0, done.stderr
    assert "> 0.001 s" in done.stdout


def test_a_missing_package_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(compare_peers, "installed", lambda peer: False)
    found = compare_peers.measure("SPAMS", tmp_path, 1.0)
    assert found == {"failed": "not installed: spams-bin (`make peers`)"}
    row = peers_page.cells(PEERS["SPAMS"], found, 1.0)
    assert len(row) == len(peers_page.COLUMNS)
    assert "not installed: spams-bin (`make peers`)" in row


def test_a_missing_environment_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(compare_peers, "ROOT", tmp_path)
    assert compare_peers.measure("adelie", tmp_path, 1.0) == {"failed": "not installed: adelie (`make peers`)"}
    assert "adelie not installed" in peers_page.versions({})


def test_each_shape_gets_the_peers_that_it_is_for():
    every = list(PEERS)
    tall, wide, logistic = (
        compare_peers.names_for(compare_peers.SHAPES[s], every) for s in ("yahoo", "wide", "logistic-rare")
    )
    assert tall[0] == wide[0] == "ours"
    assert set(tall) - set(wide) == {n for n in tall if PEERS[n].tall} >= {"adelie, Gram", "celer, triangle"}
    assert logistic == ["ours, logistic", "sklearn logistic", "adelie, logistic"]
    assert MODULE_OF["adelie, logistic"] == "peers.adelie"


def test_the_verdict_says_what_preparation_changes():
    rivals = {"a": {"wall": 0.5, "preparation": 2.0}, "b": {"wall": 3.0, "preparation": 0.0}, "c": {"failed": "> 9 s"}}
    (line, _) = peers_page.verdict("a path", rivals, 1.0, 0.0)
    assert line == (
        "The goal, to be faster than every peer that computes a path, is **missed**. These peers are faster: a. With "
        "preparation counted, none of them is faster. The fastest peer takes 0.5 times as long as budgetline."
    )
    assert "**met**. The fastest peer takes 3 times" in peers_page.verdict("a path", {"b": rivals["b"]}, 1.0, 0.0)[0]
    assert (
        "With preparation counted, these are still faster: a."
        in peers_page.verdict("a path", {"a": rivals["a"]}, 1.0, 3.0)[0]
    )
    assert "**met**" in peers_page.verdict("a path", {"c": rivals["c"]}, 1.0, 0.0)[0]


def test_there_is_no_verdict_without_a_comparison():
    assert peers_page.verdict("a path", {}, 1.0, 0.0) == []
    (line, _) = peers_page.verdict("a path", {"d": {"failed": "not installed: d"}}, 1.0, 0.0)
    assert line == (
        "The goal, to be faster than every peer that computes a path, is **not checked**. "
        "These peers could not be measured: d."
    )


def test_the_page_explains_only_what_was_measured():
    def head(loss, *names):
        few = Problem(np.empty((1, 1)), np.empty(1), np.ones(1), np.ones(1))
        text = peers_page.head([peers_page.Section("", loss, few, {name: {} for name in ("ours", *names)}, 1.0)])
        return " ".join(text.split())

    plain, with_adelie = head("squared"), head("squared", "adelie, Gram of the raw table")
    assert not any(word in plain for word in ("adelie", "logistic", 'the raw table"'))
    assert "adelie needs NumPy below 2" in with_adelie
    assert "logistic" not in with_adelie
    logistic = head("logistic", "adelie, logistic")
    assert "In the logistic data, every group costs 1." in logistic
    assert "By default it would stop once 90 % of the deviance is explained." in logistic


def test_the_reason_of_a_failure_is_kept():
    assert compare_peers.reason(1, "Traceback\nValueError: no") == "failed (exit 1): ValueError: no"
    assert compare_peers.reason(-9, "") == "failed (SIGKILL): no message"
    assert compare_peers.facts_in('hello\n{"a": 1}\n') == [json.loads('{"a": 1}')]
