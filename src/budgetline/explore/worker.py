"""The worker: a thread that computes for the newest state, and drops work on older ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from threading import Thread
from traceback import print_exc

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

PLAN_SECONDS = 1.0
"""Time limit of the search for a plan; a newer state waits until the search ends."""


class Cancelled(Exception):
    """There is a newer state: the work on this one is not needed any more."""


class Worker:
    """Computes the results of the newest state and puts them on the board: the order, then what follows from it."""

    def __init__(self, data: Data, board: Board) -> None:
        self._data, self._board = data, board
        self._sample: tuple[str, Sample] | None = None
        self._learned: Learned | None = None
        self._revision = -1
        self._jobs = SimpleQueue[tuple[State, int] | None]()
        Thread(target=self._run, name="budgetline-explore", daemon=True).start()

    def work_on(self, state: State, revision: int) -> None:
        """Ask for the results of a state; work on older ones ends soon."""
        if revision > self._revision:
            self._revision = revision
            self._jobs.put((state, revision))

    def close(self) -> None:
        """End the thread, soon."""
        self._revision += 1
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            state, revision = job

            def check(mine: int = revision) -> None:
                if self._revision != mine:
                    raise Cancelled

            try:
                check()
                self._work(state, revision, check)
            except Cancelled:
                continue
            except Exception:  # a bug: the next job may still be done
                print_exc()

    def _work(self, state: State, revision: int, check: Check) -> None:
        keys, tell = keys_of(state), partial(self._board.tell, revision)
        self._board.begin(revision, keys)
        if state.target is None or not state.groups:
            self._put_everywhere(revision, keys, {"error": None, "empty": True})
            return
        try:
            learned = self._learn(state, revision, keys, check)
        except Cancelled:
            raise
        except Exception as error:  # whatever a table does to a fit, the page goes on
            self._put_everywhere(revision, dict.fromkeys(PARTS), {"error": sentence_of(error)})
            return
        if state.budget is not None and not self._board.has("budget", keys["budget"]):
            self._board.put("budget", revision, None, budget_part(learned, searching=True))

        def planned() -> Part:
            tell("searching for the best groups within the budget", 0, 1)
            return budget_part(learned, plan_of(learned, PLAN_SECONDS))

        made: dict[str, Callable[[], Part]] = {
            "next": partial(next_part, learned),
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

    def _put_everywhere(self, revision: int, keys: Mapping[str, object], part: Part) -> None:
        """End a revision for which nothing could be learned."""
        self._learned = None
        for name in PARTS:
            self._board.put(name, revision, keys[name], part)
        self._board.end(revision)

    def _learn(self, state: State, revision: int, keys: Mapping[str, object], check: Check) -> Learned:
        """Return what was learned, and put the order on the board; nothing is learned twice in a row."""
        last = self._learned
        before = last.model.sequence.groups if last is not None and last.state.target == state.target else None
        if last is not None and keys_of(last.state)["order"] == keys["order"]:
            learned = replace(last, state=state)
        else:
            tell = partial(self._board.tell, revision)
            tell("reading the table", 0, 1)

            def show(model: AnytimeModel) -> None:
                self._board.put("order", revision, None, preliminary_part(model, before))

            learned = learn(self._read(str(state.target)), state, check, tell, show)
            check()
        self._learned = learned
        self._fill("order", revision, keys, lambda: order_part(learned, before))
        return learned

    def _read(self, target: str) -> Sample:
        """Return the rows; those of the newest target are kept."""
        if self._sample is None or self._sample[0] != target:
            self._sample = (target, self._data.read(target))
        return self._sample[1]

    def _fill(self, name: str, revision: int, keys: Mapping[str, object], make: Callable[[], Part]) -> None:
        """Put a part on the board, unless the one that is there is right."""
        if not self._board.has(name, keys[name]):
            self._board.put(name, revision, keys[name], make())


def keys_of(state: State) -> dict[str, object]:
    """Return what each part of the results depends on."""
    order = (state.target, state.task, state.groups, state.shared, state.metric, state.unit)
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
