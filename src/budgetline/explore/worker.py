"""The worker: threads that compute for the newest state, and drop work on older ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Condition, Thread
from time import thread_time
from traceback import print_exc
from typing import Generic, TypeVar

from budgetline.estimators.unattended import Estimator
from budgetline.explore.board import PARTS, Board
from budgetline.explore.fits import Check, Learned, learn
from budgetline.explore.results import (
    Part,
    budget_part,
    compare_part,
    effects_part,
    next_part,
    order_part,
    plan_of,
    preliminary_part,
)
from budgetline.explore.session_data import Data, Sample
from budgetline.explore.state import State
from budgetline.messages import cut, hold_warnings, printable
from budgetline.model.anytime import AnytimeModel

J = TypeVar("J")
PLAN_SECONDS = 2.0
"""How long a plan is searched for, unless it is proven to be the best before."""


class Cancelled(Exception):
    """There is a newer state: the work on this one is not needed any more."""


class Lane(Generic[J]):
    """A thread that works on the newest job; a job that has a successor is told so when it checks."""

    def __init__(self, name: str, work: Callable[[J, Check], None]) -> None:
        self._work = work
        self._news = Condition()
        self._job: J | None = None
        self._number = 0
        self._closed = False
        Thread(target=self._run, name=name, daemon=True).start()

    def put(self, job: J | None) -> None:
        """Take another job, None: none; the one in work is not needed any more."""
        with self._news:
            self._job, self._number = job, self._number + 1
            self._news.notify()

    def close(self) -> None:
        """End the thread, soon."""
        self._closed = True
        self.put(None)

    def _run(self) -> None:
        while True:
            with self._news:
                while self._job is None and not self._closed:
                    self._news.wait()
                if self._closed or self._job is None:
                    return
                job, number, self._job = self._job, self._number, None

            def check(mine: int = number) -> None:
                if self._number != mine:
                    raise Cancelled

            try:
                self._work(job, check)
            except Cancelled:
                continue
            except Exception:  # a bug: the next job may still be done
                print_exc()


class Worker:
    """Computes the results of the newest state and puts them on the board.

    One lane learns the order and what follows from it at once. The other does what may take longer, so that a newer
    state never waits for it: effects, the plan for the budget, the comparison.
    """

    def __init__(self, data: Data, board: Board) -> None:
        self._data, self._board = data, board
        self._sample: tuple[str, Sample] | None = None
        self._learned: Learned | None = None
        self._revision = -1
        self._quick = Lane("budgetline-explore-quick", self._work)
        self._slow = Lane("budgetline-explore-slow", self._work_on)

    def work_on(self, state: State, revision: int) -> None:
        """Ask for the results of a state; work on older ones ends soon."""
        if revision > self._revision:
            self._revision = revision
            self._slow.put(None)
            self._quick.put((state, revision))

    def close(self) -> None:
        """End the threads."""
        self._slow.close()
        self._quick.close()

    # -- the quick lane ----------------------------------------------------------------------------------------

    def _work(self, job: tuple[State, int], check: Check) -> None:
        state, revision = job
        keys = keys_of(state)
        self._board.begin(revision, keys)
        if state.target is None or not state.groups:
            for name in PARTS:
                self._board.put(name, revision, keys[name], {"error": None, "empty": True})
            self._learned = None
            self._board.end(revision)
            return
        try:
            learned = self._learn(state, revision, keys, check)
            if not self._board.has("budget", keys["budget"]):
                searching = state.budget is not None
                part = budget_part(learned, searching=searching)
                self._board.put("budget", revision, None if searching else keys["budget"], part)
            self._fill("next", revision, keys, partial(next_part, learned))
        except Cancelled:
            raise
        except Exception as error:  # whatever a table does to a fit, the page goes on
            failed: Part = {"error": sentence_of(error)}
            for name in PARTS:
                more = {"preliminary": False, "steps": [], "curve": None, "training": None} if name == "order" else {}
                self._board.put(name, revision, None, failed | more)
            self._learned = None
            self._board.end(revision)
            return
        check()
        self._slow.put((learned, revision))

    def _learn(self, state: State, revision: int, keys: Mapping[str, object], check: Check) -> Learned:
        """Return what was learned, and put the order on the board; nothing is learned twice in a row."""
        began, last = thread_time(), self._learned
        before = last.model.sequence.groups if last is not None and last.state.target == state.target else None
        if last is not None and keys_of(last.state)["order"] == keys["order"]:
            learned = replace(last, state=state)
        else:
            tell = partial(self._board.tell, revision)
            tell("reading the table", 0, 1)

            def show(model: AnytimeModel) -> None:
                self._board.put("order", revision, None, preliminary_part(model, before))

            learned = learn(self._read(state), state, self._settings(state), check, tell, show)
            check()
        self._learned = learned
        cpu = {"cpu_seconds": thread_time() - began}
        self._fill("order", revision, keys, lambda: order_part(learned, before) | cpu)
        return learned

    def _read(self, state: State) -> Sample:
        """Return the rows; those of the newest target are kept."""
        assert state.target is not None
        if self._sample is None or self._sample[0] != state.target:
            self._sample = (state.target, self._data.read(state.target))
        return self._sample[1]

    def _settings(self, state: State) -> Estimator | None:
        """Return an estimator with the settings that were chosen last, if they are for the same kind of model."""
        if self._learned is None:
            return None
        kinds = [(s.target, s.task, s.loss, s.encoding, s.alpha) for s in (self._learned.state, state)]
        return self._learned.plain if kinds[0] == kinds[1] and state.alpha is None else None

    # -- the slow lane -----------------------------------------------------------------------------------------

    def _work_on(self, job: tuple[Learned, int], check: Check) -> None:
        learned, revision = job
        keys, tell = keys_of(learned.state), partial(self._board.tell, revision)

        def planned() -> Part:
            tell("searching the best groups for the budget", 0, 1)
            return budget_part(learned, plan_of(learned, PLAN_SECONDS))

        made: dict[str, Callable[[], Part]] = {
            "effects": partial(effects_part, learned),
            "budget": planned,
            "compare": partial(compare_part, learned, check, tell),
        }
        for name, make in made.items():
            check()
            try:
                with hold_warnings():
                    self._fill(name, revision, keys, make)
            except Cancelled:
                raise
            except Exception as error:
                part = {"error": sentence_of(error)}
                self._board.put(name, revision, None, budget_part(learned) | part if name == "budget" else part)
        self._board.end(revision)

    def _fill(self, name: str, revision: int, keys: Mapping[str, object], make: Callable[[], Part]) -> None:
        """Put a part on the board, unless the one that is there is right."""
        if not self._board.has(name, keys[name]):
            self._board.put(name, revision, keys[name], make())


def keys_of(state: State) -> dict[str, object]:
    """Return what each part of the results depends on."""
    order = (
        state.target, state.task, state.loss, state.groups, state.shared, state.start, state.encoding, state.alpha,
        state.rule, state.metric, state.unit,
    )  # fmt: skip
    return {
        "order": order,
        "budget": (order, state.budget),
        "next": (order, state.available),
        "effects": (order, state.budget),
        "compare": (order, state.today),
    }


def sentence_of(error: BaseException) -> str:
    """Return the message of an error as one line."""
    return cut(printable(" ".join(str(error).split()))) or type(error).__name__
