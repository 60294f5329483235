"""Ranking data for the experiments: generated in the shape of Yahoo's, or the user's own files.

The Yahoo! Learning to Rank Challenge data need a licence of their own and are not here. If you have them, give
``--data set1.train.txt set1.valid.txt … --costs costs.txt``: svmlight lines ``label qid:Q index:value …`` with indices
from 1 on, and a text file of costs, either one number per line, the k-th for feature k, or lines ``feature cost``
(also with a comma). Features that are constant, or that the file of costs does not name, are left out. The data must
fit in memory as float32: 1.8 GB for 883,000 documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from paper_shapes import make_yahoo, random_by_cost

from budgetline import FeatureGroups, open_data


@dataclass(frozen=True)
class Web:
    """Documents (n, D), their relevance, their queries, and the cost of every feature."""

    data: np.ndarray
    target: np.ndarray
    qid: np.ndarray
    feature_costs: np.ndarray
    name: str

    def groups(self, size: int, seed: int) -> FeatureGroups:
        """Return random groups of features of equal cost, as in the paper."""
        return random_by_cost(self.feature_costs, size, random_state=seed)


def generated(rows: int, seed: int = 0) -> Web:
    """Return data of the Yahoo shape."""
    web = make_yahoo(rows, random_state=seed)
    return Web(web.data, web.target, web.qid, web.feature_costs, "Yahoo shape (generated)")


def read_web(paths: list[Path], costs: Path) -> Web:
    """Read svmlight files with queries, and the costs of their features."""
    prices = read_costs(costs)
    source = open_data([str(path) for path in paths], qid="qid", file_format="svmlight")
    parts = []
    for partition in source.partitions:
        for chunk in partition.chunks(None):
            parts.append(
                (chunk.X.toarray().astype(np.float32), np.asarray(chunk.y, dtype=float), np.asarray(chunk.qid))
            )
    data = np.concatenate([X for X, _, _ in parts])
    target, qid = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    priced = np.array([k for k in range(data.shape[1]) if k + 1 in prices], dtype=int)
    kept = priced[np.ptp(data[:, priced], axis=0) > 0]
    if not kept.size:
        raise ValueError(f"{costs} names no feature of {paths[0]} that varies")
    order = np.argsort(qid, kind="stable")
    feature_costs = np.array([prices[k + 1] for k in kept])
    return Web(data[order][:, kept], target[order], qid[order], feature_costs, ", ".join(path.name for path in paths))


def read_costs(path: Path) -> dict[int, float]:
    """Return the cost of each feature, numbered from 1."""
    prices: dict[int, float] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        cells = line.replace(",", " ").split()
        if not cells or cells[0].startswith("#"):
            continue
        try:
            feature, cost = (len(prices) + 1, float(cells[0])) if len(cells) == 1 else (int(cells[0]), float(cells[1]))
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: expected a cost, or a feature and its cost, got {line!r}"
            ) from None
        if not cost > 0 or feature in prices or len(cells) > 2:
            raise ValueError(f"{path}, line {number}: costs must be positive, one for each feature, got {line!r}")
        prices[feature] = cost
    return prices
