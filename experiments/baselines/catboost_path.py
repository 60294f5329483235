"""CatBoostPath."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Protocol, cast

import numpy as np

from budgetline.arrays import Array, Float
from budgetline.estimators.clones import TrainingRows
from budgetline.messages import shown

from .boosted_path import BoostedPath
from .trade_offs import Bought, Columns

TREES = "iterations"
ALSO_TREES = ("n_estimators", "num_boost_round", "num_trees")
"""Other names that CatBoost has for the number of trees."""
DEFAULT_TREES = 1000
SYMMETRIC = "SymmetricTree"


class CatBoostPath(BoostedPath):
    """CatBoost with a penalty for the groups that its trees use, one model per trade-off of gain and cost.

    As :class:`LightGBMPath`, with ``first_feature_use_penalties`` and ``penalties_coefficient``. CatBoost cannot change
    penalties while it runs. So it runs until a tree buys a group, and goes on from there with that group free: one fit
    per purchase. Its penalties are subtracted from the score of a split, which by default is a cosine, not a loss.

    Parameters
    ----------
    estimator : CatBoostRegressor or CatBoostClassifier
        Its settings are kept. Without a ``learning_rate`` CatBoost would choose another whenever it goes on: the one of
        the model without penalties is taken. For results that can be repeated give it ``random_seed=0,
        thread_count=1``; ``verbose=False, allow_writing_files=False`` makes it quiet. Its trees must be symmetric, as
        they are by default.
    feature_groups, costs, n_models
        As in :class:`LightGBMPath`.

    Attributes
    ----------
    trade_offs_, sequence_, model_
        As in :class:`LightGBMPath`; the trade-off is the ``penalties_coefficient``.

    Notes
    -----
    The table must hold numbers; missing ones are CatBoost's business. ``pip install catboost``.

    Examples
    --------
    >>> from catboost import CatBoostClassifier
    >>> from baselines import CatBoostPath
    >>> from budgetline.datasets import load_heart
    >>> heart = load_heart()
    >>> quiet = {"verbose": False, "allow_writing_files": False}
    >>> trees = CatBoostClassifier(iterations=20, depth=3, random_seed=0, thread_count=1, **quiet)
    >>> path = CatBoostPath(trees, heart.feature_groups, n_models=6).fit(heart.data, heart.target)
    >>> bool(path.score(heart.data, heart.target, budget=20) > 0.7)
    True
    """

    library: ClassVar[str] = "catboost"
    power: ClassVar[float] = 0.5

    def _bought(self, X: Float, rows: TrainingRows, columns: Columns, trade_off: float) -> Bought:
        given = self.estimator.get_params()  # type: ignore[attr-defined]
        if (policy := given.get("grow_policy", SYMMETRIC)) != SYMMETRIC:
            raise ValueError(f"CatBoost goes on from trees of grow_policy={shown(SYMMETRIC)} only, got {shown(policy)}")
        trees = next((given[name] for name in (TREES, *ALSO_TREES) if given.get(name)), DEFAULT_TREES)
        settings = {name: value for name, value in given.items() if name not in (TREES, *ALSO_TREES)}
        bought, done = np.zeros(len(columns.layout.groups), dtype=bool), 0
        before: dict[str, _Model] = {}
        while True:
            if trade_off:
                penalties = {"first_feature_use_penalties": columns.penalties(bought)}
                settings |= {"penalties_coefficient": trade_off, **penalties}
            fitted = cast(_Model, type(self.estimator)(**settings, **{TREES: trees - done}))
            fitted.fit(X, rows.target, **rows.weights, **before)
            settings.setdefault("learning_rate", fitted.learning_rate_)
            used = [columns.groups(np.array(each, dtype=np.intp)) for each in columns_of_trees(fitted)]
            first = next((k for k, mask in enumerate(used) if (mask & ~bought).any()), None)
            if not trade_off or first is None or first + 1 >= trees:
                return Bought(trade_off, fitted, np.any([bought, *used], axis=0))
            bought, done = bought | used[first], first + 1
            fitted.shrink(ntree_end=done)
            before = {"init_model": fitted.copy()}  # a copy forgets the trees that were cut off


class _Model(Protocol):
    learning_rate_: float

    def fit(self, X: Float, y: Array, **more: object) -> object: ...

    def shrink(self, ntree_end: int) -> None: ...

    def copy(self) -> _Model: ...

    def save_model(self, fname: str, format: str) -> None: ...


def columns_of_trees(fitted: _Model) -> list[list[int]]:
    """Return the columns on which each tree splits, from the model's own dump."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        fitted.save_model(str(path), format="json")
        dump = json.loads(path.read_text(encoding="utf-8"))
    features = [feature["flat_feature_index"] for feature in dump["features_info"].get("float_features", [])]
    return [[features[split["float_feature_index"]] for split in tree["splits"]] for tree in dump["oblivious_trees"]]
