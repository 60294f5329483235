"""Pairs of columns of rankings are found in memory; streams refuse them before they read."""

import pandas as pd
import pytest
from set_references import ranking

from budgetline import AnytimeRanker, Encoding, open_data


def test_pairs_of_a_streamed_ranking_are_refused():
    X, y, qid = ranking()
    frame = pd.DataFrame(X).add_prefix("x").assign(y=y, q=qid).sort_values("q")
    model = AnytimeRanker(rule="omp", alpha=1e-3, encoding=Encoding("spline", interactions=3))
    with pytest.raises(ValueError, match="set interactions=0"):
        model.fit(open_data(frame, target="y", qid="q", chunk_rows=60))
