"""Our orders and classifiers as a method of the AFA benchmark (AFA: active feature acquisition).

The benchmark (https://github.com/Linusaronsson/AFA-Benchmark) shows a method rows whose features are masked. The method
says what to acquire next, or to stop, and predicts from what it has seen. Here the order is the one that a classifier
learned, the same for every row, and predictions come from exactly the groups that a row has.

``python examples/afa.py`` runs a loop like the benchmark's, on the heart data, with NumPy alone. Inside the benchmark:

1. Put this file where Python finds it, and add a line to ``REGISTERED_CLASSES`` in ``afabench/common/registry.py``:
   ``"BudgetlineMethod": "afa.BudgetlineMethod"``.
2. In a training script, save a bundle:
   ``save_bundle(BudgetlineMethod.fit(train_dataset, encoding="spline", rule="score"), path, metadata={...})``.
3. Evaluate it like any other method; it has a classifier of its own. ``soft_budget_param`` is the loss (nats) that a
   unit of cost must save. The same bundle also serves as a classifier for other methods.

Nothing of the benchmark is imported, and PyTorch only when tensors are made. The interface is that of the benchmark's
commit a07c8a3. Rows that have the same groups are answered together; every other set of groups takes milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from sklearn.model_selection import train_test_split

from budgetline import AnytimeClassifier, FeatureGroups, load, save
from budgetline.datasets import load_heart

if TYPE_CHECKING:
    import torch

Array = np.ndarray
MODEL_FILE, SETTINGS_FILE = "model.budgetline", "settings.json"

# -- the method, in NumPy --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StaticOrder:
    """A learned order as an acquisition policy, and its models as classifier.

    A *selection* is what is acquired at once. Selections are the groups that have columns, numbered by their first
    column. That is how the benchmark numbers features, patches of images and groups of features.

    Parameters
    ----------
    model : AnytimeClassifier
        Fitted on an array of shape (n, D), with the labels 0, 1, …, ``n_classes`` − 1. Labels may be missing.
    n_classes : int
    cost_param : float, optional
        Stop after the groups for which (training loss saved) − ``cost_param`` · (cost) is largest. None: never stop.
    """

    model: AnytimeClassifier
    n_classes: int
    cost_param: float | None = None

    def __post_init__(self) -> None:
        strange = sorted(set(self.model.classes_.tolist()) - set(range(self.n_classes)))
        if strange:
            raise ValueError(f"labels must be 0 to {self.n_classes - 1}, the model also knows {strange[0]!r}")
        if self.cost_param is not None and not 0 <= self.cost_param < np.inf:
            raise ValueError(f"cost_param must be a finite number of at least 0, got {self.cost_param!r}")

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return self.model.n_features_in_

    @cached_property
    def columns(self) -> dict[str, list[int]]:
        """Columns of every group."""
        found = self.model.model_.source.columns
        return {name: at.tolist() for name, at in zip(self.model.feature_groups_.names, found, strict=True)}

    @cached_property
    def selections(self) -> tuple[str, ...]:
        """Names of the groups that can be acquired; their positions are the numbers of the selections."""
        first = {name: min(columns) for name, columns in self.columns.items() if columns}
        return tuple(sorted(first, key=first.__getitem__))

    @cached_property
    def plan(self) -> Array:
        """Selections in the order in which they are acquired, as far as ``cost_param`` lets them be."""
        sequence, end = self.model.sequence_, None
        if self.cost_param is not None:
            worth = np.cumsum(sequence.gains) - self.cost_param * sequence.cumulative_costs
            end = int(np.argmax([0.0, *worth]))
        number = {name: k for k, name in enumerate(self.selections)}
        return np.array([number[name] for name in sequence.groups[:end] if name in number], dtype=np.intp)

    def has(self, observed: Array) -> Array:
        """Return which selections rows have, shape (n, K), from the columns that they have, (n, D).

        A group of which a row has only some columns counts as not acquired.
        """
        return np.column_stack([observed[:, self.columns[name]].all(axis=1) for name in self.selections])

    def choose(self, observed: Array, closed: Array | None = None) -> Array:
        """Return what each row acquires next, shape (n,): 0 to stop, k + 1 for selection k.

        ``observed`` (n, D) marks the columns that rows have; ``closed`` (n, K) selections that were made or are
        forbidden.
        """
        taken = self.has(observed)
        if closed is not None:
            if closed.shape != taken.shape:
                raise ValueError(
                    f"there are {closed.shape[-1]} selections, the model has {taken.shape[1]} groups with columns: fit "
                    "it with one group for each selection"
                )
            taken = taken | closed
        actions = np.zeros(len(observed), dtype=np.int64)
        for k in self.plan[::-1]:
            actions[~taken[:, k]] = k + 1
        return actions

    def probabilities(self, features: Array, observed: Array) -> Array:
        """Return class probabilities, shape (n, n_classes), of rows (n, D) from the columns that they have, (n, D)."""
        answers, labels = np.zeros((len(features), self.n_classes)), self.model.classes_.astype(np.intp)
        patterns, which = np.unique(self.has(observed), axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == k)
            there = self._usable({self.selections[j] for j in np.flatnonzero(pattern)})
            answers[np.ix_(rows, labels)] = self.model.predict_proba(features[rows], available=there)
        return answers

    def _usable(self, names: set[str]) -> set[str]:
        """Add pairs of columns, groups that cost nothing, where both are there; leave out what the model never uses."""
        requires = self.model.feature_groups_.requires
        pairs = {name for name, columns in self.columns.items() if not columns and names.issuperset(requires[name])}
        return (names | pairs).intersection(self.model.sequence_.groups)


# -- the benchmark's interface, in PyTorch ---------------------------------------------------------------------


class Dataset(Protocol):
    """What :meth:`BudgetlineMethod.fit` needs of the benchmark's data sets."""

    def get_all_data(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features (n, …) and labels as indicators (n, n_classes)."""

    def get_feature_acquisition_costs(self) -> torch.Tensor:
        """Return the cost of every feature, in the shape of the features of one row."""


class BudgetlineMethod:
    """A learned order with its classifier, as the benchmark's ``AFAMethod`` and ``AFAClassifier``.

    Parameters
    ----------
    order : StaticOrder
    device : torch.device or str
        Where answers are put. They are computed by NumPy, on the CPU.
    """

    _class_version = "1.0.0"  # the benchmark writes it into bundles

    def __init__(self, order: StaticOrder, device: torch.device | str = "cpu") -> None:
        self.order = order
        self._device = device

    @classmethod
    def fit(
        cls,
        dataset: Dataset,
        groups: FeatureGroups | None = None,
        *,
        device: torch.device | str = "cpu",
        **settings: object,
    ) -> Self:
        """Learn the order and the classifier from a data set of the benchmark.

        ``groups`` are of the flattened features, one group for each selection of the unmasker, with its costs; None:
        every feature is a group, at the cost that the data set states. ``settings`` are those of AnytimeClassifier.
        """
        features, labels = (tensor.detach().cpu().numpy() for tensor in dataset.get_all_data())
        costs = dataset.get_feature_acquisition_costs().detach().cpu().numpy().astype(float).ravel()
        flat = features.reshape(len(features), -1).astype(float)
        groups = FeatureGroups.singletons(flat.shape[1], costs) if groups is None else groups
        model = AnytimeClassifier(groups, **settings).fit(flat, labels.argmax(axis=-1))
        return cls(StaticOrder(model, labels.shape[-1]), device)

    def act(
        self,
        masked_features: torch.Tensor,
        feature_mask: torch.Tensor,
        selection_mask: torch.Tensor | None = None,
        label: torch.Tensor | None = None,
        feature_shape: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Return the next action of every row, shape (…, 1): 0 to stop, k + 1 for selection k."""
        batch, (observed,) = self._flat(feature_shape, feature_mask)
        closed = None
        if selection_mask is not None:
            closed = selection_mask.cpu().numpy().reshape(len(observed), -1).astype(bool)
        return self._tensor(self.order.choose(observed.astype(bool), closed)).reshape(*batch, 1)

    def predict(
        self,
        masked_features: torch.Tensor,
        feature_mask: torch.Tensor,
        label: torch.Tensor | None = None,
        feature_shape: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Return class probabilities, shape (…, n_classes), from the features that every row has."""
        batch, (features, observed) = self._flat(feature_shape, masked_features, feature_mask)
        answers = self.order.probabilities(features.astype(float), observed.astype(bool))
        return self._tensor(answers.astype(np.float32)).reshape(*batch, self.order.n_classes)

    __call__ = predict  # what the benchmark calls of a classifier

    def save(self, path: Path) -> None:
        """Write the model and two settings to a folder, without pickle."""
        path.mkdir(parents=True, exist_ok=True)
        save(self.order.model, path / MODEL_FILE)
        settings = {"n_classes": self.order.n_classes, "cost_param": self.order.cost_param}
        (path / SETTINGS_FILE).write_text(json.dumps(settings), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> Self:
        """Read what :meth:`save` wrote."""
        settings = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
        return cls(StaticOrder(load(path / MODEL_FILE), **settings), device)

    def to(self, device: torch.device | str) -> Self:
        """Put answers on this device."""
        self._device = device
        return self

    @property
    def device(self) -> torch.device:
        """Where answers are put."""
        import torch

        return torch.device(self._device)

    @property
    def has_builtin_classifier(self) -> bool:
        """Whether :meth:`predict` answers: yes."""
        return True

    @property
    def cost_param(self) -> float | None:
        """The loss that a unit of cost must save."""
        return self.order.cost_param

    def set_cost_param(self, cost_param: float) -> None:
        """Set the loss that a unit of cost must save."""
        self.order = replace(self.order, cost_param=float(cost_param))

    def set_seed(self, seed: int | None) -> None:
        """Do nothing: nothing here is random."""

    def _flat(self, shape: Sequence[int] | None, *tensors: torch.Tensor) -> tuple[tuple[int, ...], list[Array]]:
        """Return the shape of the batch, and the tensors as arrays (n, D)."""
        width = 1 if shape is None else len(shape)
        found = tuple(tensors[0].shape)
        batch, row = found[: len(found) - width], found[len(found) - width :]
        if int(np.prod(row)) != self.order.n_features or (shape is not None and row != tuple(shape)):
            raise ValueError(f"rows have the shape {row}, the model has {self.order.n_features} columns")
        return batch, [tensor.detach().cpu().numpy().reshape(-1, self.order.n_features) for tensor in tensors]

    def _tensor(self, values: Array) -> torch.Tensor:
        import torch

        return torch.as_tensor(values, device=self.device)


# -- a loop like the benchmark's -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Episodes:
    """How an evaluation ended: per row what was predicted, what it cost, and which selections were made, in order."""

    predicted: Array
    cost: Array
    selections: tuple[tuple[int, ...], ...]


def evaluate(order: StaticOrder, features: Array, costs: Sequence[float], budget: float = np.inf) -> Episodes:
    """Let every row acquire one selection at a time, until it stops or the next one would exceed the budget.

    ``costs`` are those of the selections. Features that have not been acquired are zero, as in the benchmark.
    """
    columns = [order.columns[name] for name in order.selections]
    observed, closed = np.zeros(features.shape, dtype=bool), np.zeros((len(features), len(columns)), dtype=bool)
    spent, made = np.zeros(len(features)), [[] for _ in features]
    active = np.arange(len(features))
    while active.size:
        actions = order.choose(observed[active], closed[active])
        fits = [a > 0 and spent[row] + costs[a - 1] <= budget for row, a in zip(active, actions, strict=True)]
        active, actions = active[fits], actions[fits]
        for row, k in zip(active, actions - 1, strict=True):
            observed[row, columns[k]] = closed[row, k] = True
            spent[row] += costs[k]
            made[row].append(int(k))
    answers = order.probabilities(np.where(observed, features, 0.0), observed)
    return Episodes(answers.argmax(axis=1), spent, tuple(map(tuple, made)))


def main() -> None:
    """Print what the loop finds on the heart data, under hard and soft budgets."""
    heart = load_heart()
    X, X_test, y, y_test = train_test_split(
        heart.data, heart.target, test_size=100, stratify=heart.target, random_state=0
    )
    order = StaticOrder(AnytimeClassifier(heart.feature_groups, alpha=1e-2).fit(X, y), n_classes=2)
    prices = dict(zip(heart.feature_groups.names, heart.feature_groups.costs.tolist(), strict=True))
    costs = [prices[name] for name in order.selections]
    print("hard budget   spent  groups  accuracy")
    for budget in (0, 5, 100, 200, 325):
        found = evaluate(order, X_test, costs, budget)
        right = (found.predicted == y_test).mean()
        print(f"{budget:11}  {found.cost.mean():6.2f}  {len(found.selections[0]):6}  {right:8.2f}")
    print("\ncost_param    spent  groups  accuracy")
    for price in (1e-2, 1e-3, 5e-4, 1e-4):
        found = evaluate(replace(order, cost_param=price), X_test, costs)
        right = (found.predicted == y_test).mean()
        print(f"{price:10}   {found.cost.mean():6.2f}  {len(found.selections[0]):6}  {right:8.2f}")


if __name__ == "__main__":
    main()
