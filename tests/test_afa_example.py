"""The adapter to the AFA benchmark: the order is the model's, and so is every prediction, row by row."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_modules import example_module

from budgetline import AnytimeClassifier, Encoding, FeatureGroups
from budgetline.datasets import load_heart

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "afa.py"


@pytest.fixture(scope="module")
def afa():
    yield from example_module("afa")


@pytest.fixture(scope="module")
def heart():
    data = load_heart()
    return data, AnytimeClassifier(data.feature_groups, alpha=1e-2).fit(data.data, data.target)


@pytest.fixture(scope="module")
def three_classes():
    """Rows of four features with unequal costs, the labels 0, 1 and 3 of four classes, and a model with a pair."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.array([0, 1, 3])[np.digitize(X[:, 1] * X[:, 2] + X[:, 0], [-0.5, 0.5])]
    groups = FeatureGroups.singletons(4, [3.0, 1.0, 2.0, 1.0])
    return X, y, AnytimeClassifier(groups, encoding=Encoding("spline", interactions=1), rule="score").fit(X, y)


def observed_columns(order, names, n):
    observed = np.zeros((n, order.n_features), dtype=bool)
    for name in names:
        observed[:, order.columns[name]] = True
    return observed


# -- without torch ---------------------------------------------------------------------------------------------


def test_it_runs_without_torch_and_without_the_benchmark():
    code = (
        f"import sys, runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__'); "
        "sys.exit(bool({'torch', 'afabench'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 12


def test_selections_are_groups_by_their_first_column(afa):
    X = np.random.default_rng(1).normal(size=(60, 5))
    groups = FeatureGroups({"late": [4], "wide": [3, 0], "middle": [1, 2]})
    order = afa.StaticOrder(AnytimeClassifier(groups).fit(X, X[:, 4] > 0), n_classes=2)
    assert order.selections == ("wide", "middle", "late")
    assert order.plan.tolist()[0] == 2
    observed = np.zeros((2, 5), dtype=bool)
    observed[0, [0, 4]] = observed[1, [0, 3]] = True
    assert order.has(observed).tolist() == [[False, False, True], [True, False, False]]


@pytest.mark.parametrize("budget", [0, 0.5, 3.5, 93.3, 150, 210, np.inf])
def test_the_loop_ends_with_what_the_model_predicts_at_the_budget(afa, heart, budget):
    data, model = heart
    order = afa.StaticOrder(model, n_classes=2)
    prices = dict(zip(data.feature_groups.names, data.feature_groups.costs, strict=True))
    found = afa.evaluate(order, data.data, [prices[name] for name in order.selections], budget)
    stage = int(np.sum(model.sequence_.cumulative_costs <= budget + 1e-9))
    assert set(found.selections) == {tuple(order.selections.index(g) for g in model.sequence_.groups[:stage])}
    assert found.cost == pytest.approx(model.sequence_.cumulative_costs[stage - 1] if stage else 0)
    assert np.array_equal(found.predicted, model.predict(data.data, stage=stage))


def test_every_row_is_answered_from_what_it_has(afa, heart):
    data, model = heart
    order = afa.StaticOrder(model, n_classes=2)
    rng = np.random.default_rng(2)
    sets = [set(rng.choice(order.selections, size=k, replace=False)) for k in (0, 1, 3, 5, 9)]
    which = rng.integers(len(sets), size=len(data.data))
    observed = np.vstack([observed_columns(order, sets[k], 1) for k in which])
    masked = np.where(observed, data.data, 0.0)
    found = order.probabilities(masked, observed)
    for row, k in enumerate(which):
        expected = model.predict_proba(data.data[row : row + 1], available=sets[k])
        assert found[row] == pytest.approx(expected[0], rel=1e-12)


def test_pairs_are_used_and_classes_without_rows_have_no_probability(afa, three_classes):
    X, _, model = three_classes
    pair = next(name for name in model.feature_groups_.names if "×" in name)
    order = afa.StaticOrder(model, n_classes=4)
    assert order.selections == ("0", "1", "2", "3")
    both = {"1", "2"}
    found = order.probabilities(X, observed_columns(order, both, len(X)))
    assert found[:, 2].tolist() == [0.0] * len(X)
    allowed = both | ({pair} if set(model.feature_groups_.requires[pair]) <= both else set())
    assert allowed > both
    assert found[:, [0, 1, 3]] == pytest.approx(model.predict_proba(X, available=allowed), rel=1e-12)


def test_what_is_there_or_closed_is_passed_over(afa, three_classes):
    order = afa.StaticOrder(three_classes[2], n_classes=4)
    first, second, third, last = order.plan.tolist()
    observed, closed = np.zeros((4, 4), dtype=bool), np.zeros((4, 4), dtype=bool)
    observed[1, first] = True
    observed[2, first] = closed[2, second] = True
    observed[3, [first, second, third]] = closed[3, last] = True
    assert order.choose(observed, closed).tolist() == [first + 1, second + 1, third + 1, 0]
    assert order.choose(observed).tolist() == [first + 1, second + 1, second + 1, last + 1]


def test_a_group_that_the_sequence_leaves_out_is_neither_bought_nor_used(afa):
    X = np.random.default_rng(3).normal(size=(80, 3))
    model = AnytimeClassifier(max_groups=1).fit(X, X[:, 2] > 0)
    order = afa.StaticOrder(model, n_classes=2)
    assert order.plan.tolist() == [2]
    everything = np.ones((80, 3), dtype=bool)
    assert order.choose(everything).tolist() == [0] * 80
    assert np.array_equal(order.probabilities(X, everything), model.predict_proba(X))


@pytest.mark.parametrize("price", [0, 1e-4, 5e-4, 1e-3, 1e-2, 1.0])
def test_the_soft_budget_is_the_best_trade_of_loss_against_cost(afa, heart, price):
    sequence = heart[1].sequence_
    worth = [0.0]
    for k in range(len(sequence.groups)):
        worth.append(sum(sequence.gains[: k + 1]) - price * sum(sequence.costs[: k + 1]))
    order = afa.StaticOrder(heart[1], n_classes=2, cost_param=price)
    assert worth[len(order.plan)] == pytest.approx(max(worth), abs=1e-12)


def test_what_does_not_fit_is_refused(afa, heart, three_classes):
    with pytest.raises(ValueError, match="labels must be 0 to 1, the model also knows 3"):
        afa.StaticOrder(three_classes[2], n_classes=2)
    with pytest.raises(ValueError, match="cost_param must be a finite number of at least 0, got -1"):
        afa.StaticOrder(heart[1], n_classes=2, cost_param=-1)
    order = afa.StaticOrder(heart[1], n_classes=2)
    n_columns = order.n_features
    with pytest.raises(ValueError, match=f"there are {n_columns} selections, the model has 9 groups with columns"):
        order.choose(np.zeros((1, n_columns), dtype=bool), np.zeros((1, n_columns), dtype=bool))


# -- with torch ------------------------------------------------------------------------------------------------


class TableOfTensors:
    """A data set with the two methods of the benchmark's that a fit needs."""

    def __init__(self, torch, X, y, n_classes, costs):
        self.features = torch.tensor(X, dtype=torch.float32)
        self.labels = torch.eye(n_classes)[torch.tensor(y)]
        self.costs = torch.tensor(costs, dtype=torch.float32)

    def get_all_data(self):
        return self.features, self.labels

    def get_feature_acquisition_costs(self):
        return self.costs


@pytest.fixture(scope="module")
def tensors(afa, three_classes):
    torch = pytest.importorskip("torch")
    X, y, _ = three_classes
    dataset = TableOfTensors(torch, X.reshape(-1, 2, 2), y, 4, [[3.0, 1.0], [2.0, 1.0]])
    return torch, dataset, afa.BudgetlineMethod.fit(dataset, encoding="spline", rule="score")


def test_a_data_set_of_tensors_gives_the_model_of_its_rows(tensors):
    _, dataset, method = tensors
    groups = FeatureGroups.singletons(4, [3, 1, 2, 1])
    rows = dataset.features.numpy().reshape(-1, 4).astype(float)
    expected = AnytimeClassifier(groups, encoding="spline", rule="score").fit(rows, dataset.labels.argmax(1).numpy())
    assert method.order.model.sequence_.groups == expected.sequence_.groups
    assert method.order.n_classes == 4
    assert np.array_equal(method.order.model.coef_, expected.coef_)


def test_episodes_in_torch_follow_the_order(tensors):
    """Imitates the benchmark's evaluation of a batch: act, unmask, predict, until all rows have stopped."""
    torch, dataset, method = tensors
    features, shape = dataset.features[:20], torch.Size([2, 2])
    mask = torch.zeros_like(features, dtype=torch.bool)
    mask[:7].view(7, -1)[:, 3] = True  # some rows begin with a feature
    closed = torch.zeros(20, 4, dtype=torch.bool)
    for _ in range(6):
        masked = torch.where(mask, features, 0.0)
        action = method.act(masked, mask, selection_mask=closed, label=None, feature_shape=shape)
        answer = method.predict(masked, mask, label=None, feature_shape=shape)
        assert (action.shape, action.dtype, answer.shape) == ((20, 1), torch.int64, (20, 4))
        assert torch.equal(method(masked, mask, feature_shape=shape), answer)
        assert answer.sum(dim=1).numpy() == pytest.approx(1, abs=1e-6)
        for row, chosen in enumerate(action[:, 0].tolist()):
            there = mask[row].view(-1).tolist()
            left = [k for k in method.order.plan.tolist() if not there[k]]
            assert chosen == (left[0] + 1 if left else 0)
            if chosen:
                mask[row].view(-1)[chosen - 1] = closed[row, chosen - 1] = True
    assert mask.all()
    expected = method.order.model.predict_proba(features.numpy().reshape(-1, 4).astype(float))
    assert answer.numpy()[:, [0, 1, 3]] == pytest.approx(expected, abs=1e-6)


def test_batches_of_several_dimensions(tensors):
    torch, dataset, method = tensors
    flat, mask = dataset.features[:6].reshape(6, 4), torch.rand(6, 4, generator=torch.manual_seed(0)) < 0.5
    masked = torch.where(mask, flat, 0.0)
    one = method.predict(masked, mask)
    many = method.predict(masked.view(2, 3, 2, 2), mask.view(2, 3, 2, 2), feature_shape=(2, 2))
    assert torch.equal(many.view(6, 4), one)
    assert method.act(masked.view(2, 3, 2, 2), mask.view(2, 3, 2, 2), feature_shape=(2, 2)).shape == (2, 3, 1)
    with pytest.raises(ValueError, match=r"rows have the shape \(3,\), the model has 4 columns"):
        method.predict(flat[:, :3], mask[:, :3])


def test_what_is_saved_answers_the_same(afa, tensors, tmp_path):
    torch, dataset, method = tensors
    method = afa.BudgetlineMethod(method.order)
    method.set_cost_param(0.01)
    method.set_seed(3)
    method.save(tmp_path / "bundle" / "data")
    assert {path.name for path in (tmp_path / "bundle" / "data").iterdir()} == {"model.budgetline", "settings.json"}
    again = afa.BudgetlineMethod.load(tmp_path / "bundle" / "data", torch.device("cpu"))
    mask = torch.rand(30, 2, 2, generator=torch.manual_seed(1)) < 0.5
    masked = torch.where(mask, dataset.features[:30], 0.0)
    assert torch.equal(again.predict(masked, mask, feature_shape=(2, 2)), method.predict(masked, mask, None, (2, 2)))
    assert torch.equal(again.act(masked, mask, None, None, (2, 2)), method.act(masked, mask, None, None, (2, 2)))
    assert (again.cost_param, again.has_builtin_classifier) == (0.01, True)
    assert again.to("cpu").device == torch.device("cpu")
    assert json.loads((tmp_path / "bundle" / "data" / "settings.json").read_text())["n_classes"] == 4
