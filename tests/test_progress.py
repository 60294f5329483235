"""Long work announces its steps to whoever watches, also from other threads."""

import io
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from budgetline import AnytimeClassifierCV, AnytimeRegressor, AnytimeRegressorCV, progress
from budgetline.cli.printing import Printer
from budgetline.progress import announce, announced, make_bar, watching
from budgetline.threads import map_in_threads

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = X @ [3.0, 2.0, 1.0, 0.5] + RNG.normal(size=60)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def steps():
    found = []
    with watching(lambda *step: found.append(step)):
        yield found


def on_terminal(monkeypatch):
    """Return a terminal on which nothing is shown by itself."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "SECONDS_PER_STATUS", 1e9)
    monkeypatch.setenv("COLUMNS", "60")
    return screen


def test_a_fit_announces_every_group(steps):
    AnytimeRegressor(max_groups=3).fit(X, Y)
    assert steps == [("group", k, 3) for k in (1, 2, 3)]


def test_a_search_announces_its_folds(steps):
    AnytimeRegressorCV(cv=3, alphas=[0.1, 1.0], corrections=[0.0]).fit(X, Y)
    assert [step for step in steps if step[0] == "group"][-4:] == [("group", k, 4) for k in (1, 2, 3, 4)]
    assert {step for step in steps if step[0] != "group"} == {
        *(("fold", k, None) for k in (1, 2, 3)), ("setting", 1, 2), ("setting", 2, 2)
    }  # fmt: skip


def test_a_search_in_threads_counts_the_fits_that_are_done(steps):
    AnytimeClassifierCV(cv=3, alphas=[0.1, 1.0], corrections=[0.0]).fit(X, Y > 0)
    assert max(step for step in steps if step[0] == "fold fit") == ("fold fit", 6, 6)


def test_threads_announce_to_whoever_watches_where_they_were_started(steps):
    def work(k):
        announce("part", k, 40)

    with threadpool_limits(4):
        map_in_threads(work, range(40), "item")
    assert sorted(step[1] for step in steps if step[0] == "part") == list(range(40))
    assert max(step for step in steps if step[0] == "item") == ("item", 40, 40)


def test_nobody_is_told_afterwards():
    found = []
    with watching(lambda *step: found.append(step)):
        assert list(announced("ab", "letter")) == ["a", "b"]
    announce("letter", 3, None)
    assert found == [("letter", 1, 2), ("letter", 2, 2)]


def test_one_line_of_a_terminal_is_rewritten(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with make_bar(True, "learning", None) as bar:
        bar.hear("fold", 2, None)
        bar.hear("group", 14, 1081)
        bar.show()
        bar.hear("group", 15, 1081)
        bar.show()
    start, first, second, last = terminal.getvalue().split("\r")
    assert start == f"{progress.CLEAR}learning, 0 s"
    assert first == f"{progress.CLEAR}learning: fold 2, group 14 of 1,081, 0 s"
    assert second == first.replace("14", "15")
    assert last == progress.CLEAR


def test_a_long_line_is_cut_to_the_width_of_the_terminal(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with make_bar(True, "learning " * 20, None) as bar:
        bar.show()
    assert len(terminal.getvalue().split("\r")[0]) == len(progress.CLEAR) + 59


def test_commands_show_steps_on_terminals_and_in_logs_but_not_if_quiet(monkeypatch):
    heard = []
    on_terminal(monkeypatch)
    monkeypatch.setattr(progress.Lines, "hear", lambda self, *step: heard.append((self._rewritten, step)))
    with Printer(as_json=False, quiet=False).waiting("learning"):
        announce("group", 1, 2)
    with Printer(as_json=False, quiet=True).waiting("learning"):
        announce("group", 2, 2)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Printer(as_json=False, quiet=False).waiting("learning"):
        announce("group", 1, 3)
    assert heard == [(True, ("group", 1, 2)), (False, ("group", 1, 3))]
