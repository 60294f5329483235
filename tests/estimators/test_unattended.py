"""The defaults for tables that nobody has looked at bound the time of a search by rows, groups and scores."""

import numpy as np
import pytest

from budgetline.estimators.unattended import FEW_PAIRS, MOST_PAIRS, MUCH_WORK, unattended


def chosen(n_groups, y, task="classification"):
    return unattended(None, n_groups, y, task=task, encoding="spline", folds=5)


@pytest.mark.parametrize(("classes", "scores"), [(2, 1), (3, 3), (8, 8)])
def test_every_score_counts_as_work(classes, scores):
    rows = MUCH_WORK // (20 * scores)
    at_limit, beyond = (np.arange(rows + more) % classes for more in (0, 1))
    assert chosen(20, at_limit).rule == "forward"
    assert chosen(20, at_limit).search_rows is None
    assert chosen(20, at_limit).interactions == (0, MOST_PAIRS)
    long = chosen(20, beyond)
    assert long.rule == "score"
    assert 0 < long.search_rows <= max(4_000, rows)
    assert long.interactions == (0, FEW_PAIRS)


def test_squared_error_is_never_shortened():
    assert chosen(500, np.arange(100_000.0), task="regression").rule == "forward"
