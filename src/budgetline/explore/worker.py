"""The worker: threads that compute for the newest state, and drop work on older ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Condition, Thread
from time import perf_counter, thread_time
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
from budgetline.optimality import Plan

J = TypeVar("J")
PLAN_SECONDS = (0.1, 2.0)
"""How long plans are searched for: a short time first, where that may suffice for a proof, then longer."""


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
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, job: J | None) -> None:
        """Take another job, None: none; the one in work is not needed any more."""
        with self._news:
            self._job, self._number = job, self._number + 1
            self._news.notify()

    def close(self) -> None:
        """End the thread, soon."""
        with self._news:
            self._closed, self._number = True, self._number + 1
            self._news.notify()

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
        self._order: tuple[str, ...] | None = None
        self._target: str | None = None
        self._learned: Learned | None = None
        self._planned: tuple[object, Plan] | None = None
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
            self._order, self._learned = None, None
            self._board.end(revision)
            return
        try:
            learned = self._learn(state, revision, keys, check)
            if not self._board.has("budget", keys["budget"]):
                plan = self._plan_of(keys)
                self._put_budget(learned, revision, plan, searching=plan is None and state.budget is not None)
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
        began, busy, tell = perf_counter(), thread_time(), partial(self._board.tell, revision)
        before = self._order if self._target == state.target else None
        if self._learned is not None and keys_of(self._learned.state)["order"] == keys["order"]:
            learned = replace(self._learned, state=state)
        else:
            tell("reading the table", 0, 1)
            known, show = self._settings(state), partial(self._show, state, revision, before)
            learned = learn(self._read(state), state, known, check, tell, show)
            check()
        self._order, self._target, self._learned = learned.model.sequence.groups, state.target, learned

        def part() -> Part:
            made = order_part(learned, before)
            return made | {"seconds": perf_counter() - began, "cpu_seconds": thread_time() - busy}

        self._fill("order", revision, keys, part)
        return learned

    def _show(self, state: State, revision: int, before: tuple[str, ...] | None, model: AnytimeModel) -> None:
        """Put an order on the board that is not judged yet."""
        self._board.put("order", revision, None, preliminary_part(model, state, before))

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
        last = self._learned.state
        same = (last.target, last.task, last.loss, last.encoding) == (
            state.target, state.task, state.loss, state.encoding
        )  # fmt: skip
        return self._learned.plain if same and state.alpha is None and last.alpha is None else None

    # -- the slow lane -----------------------------------------------------------------------------------------

    def _work_on(self, job: tuple[Learned, int], check: Check) -> None:
        learned, revision = job
        keys, tell = keys_of(learned.state), partial(self._board.tell, revision)
        check()
        self._guarded("effects", revision, keys, partial(effects_part, learned))
        if learned.state.budget is not None and self._plan_of(keys) is None:
            self._search(learned, revision, check)
        check()
        self._guarded("compare", revision, keys, partial(compare_part, learned, check, tell))
        self._board.end(revision)

    def _search(self, learned: Learned, revision: int, check: Check) -> None:
        """Search the plan for the budget, and put what is found on the board."""
        limits = PLAN_SECONDS if learned.model.squared_error else PLAN_SECONDS[-1:]
        for seconds in limits:
            check()
            self._board.tell(revision, "searching the best groups for the budget", 0, 1)
            try:
                plan = plan_of(learned, seconds)
            except Exception as error:
                self._board.put("budget", revision, None, budget_part(learned) | {"error": sentence_of(error)})
                return
            check()
            over = plan.optimal or seconds == limits[-1]
            self._put_budget(learned, revision, plan, searching=not over)
            if over:
                self._planned = (keys_of(learned.state)["budget"], plan)
                return

    def _put_budget(self, learned: Learned, revision: int, plan: Plan | None, *, searching: bool) -> None:
        """Put what the budget buys; while the plan is searched, that is for this revision only."""
        key = None if searching else keys_of(learned.state)["budget"]
        self._board.put("budget", revision, key, budget_part(learned, plan, searching=searching))

    def _plan_of(self, keys: Mapping[str, object]) -> Plan | None:
        """Return the plan, if its search has ended."""
        known = self._planned
        return known[1] if known is not None and known[0] == keys["budget"] else None

    def _guarded(self, name: str, revision: int, keys: Mapping[str, object], make: Callable[[], Part]) -> None:
        """Put a part on the board, or what is wrong with it."""
        try:
            with hold_warnings():
                self._fill(name, revision, keys, make)
        except Cancelled:
            raise
        except Exception as error:
            self._board.put(name, revision, None, {"error": sentence_of(error)})

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
