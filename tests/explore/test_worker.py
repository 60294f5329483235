"""The worker: what is on the board at the end belongs to the newest state, whatever was cancelled."""

import asyncio
import json
from threading import Event

from budgetline.explore import worker as module
from budgetline.explore.board import Board
from budgetline.explore.edits import changed_by, read_edit
from budgetline.explore.session import opening_state
from budgetline.explore.worker import Worker

PATIENCE = 240
"""Seconds after which a test that waits has failed."""


def settle(board, revision):
    """Wait for all results of a revision, and return them."""
    serial, parts = 0, {}
    while True:
        news = json.loads(asyncio.run(board.wait(serial, 30)))
        serial, parts = news["serial"], parts | news["parts"]
        if news["revision"] >= revision and not news["computing"]:
            assert all(news["current"].values())
            return parts


def test_an_order_that_was_shown_and_cancelled_does_not_stay(data, monkeypatch):
    first, raised = (
        changed_by(opening_state(data), [read_edit(edit) for edit in edits], data)
        for edits in (
            [{"kind": "set_target", "column": "ill"}],
            [{"kind": "set_target", "column": "ill"}, {"kind": "set_costs", "costs": {"town": 50}}],
        )
    )
    shown, cancelled, learn = Event(), Event(), module.learn

    def stopped(sample, state, check, tell, show):
        def show_and_wait(model):
            show(model)
            shown.set()
            cancelled.wait(PATIENCE)

        return learn(sample, state, check, tell, show_and_wait if state == raised else show)

    monkeypatch.setattr(module, "learn", stopped)
    board = Board()
    worker = Worker(data, board)
    try:
        worker.work_on(first, 0)
        before = settle(board, 0)["order"]["steps"]
        worker.work_on(raised, 1)
        assert shown.wait(PATIENCE)
        worker.work_on(first, 2)
        cancelled.set()
        after = settle(board, 2)["order"]
        assert not after["preliminary"]
        assert [(step["group"], step["cost"]) for step in after["steps"]] == [(s["group"], s["cost"]) for s in before]
    finally:
        cancelled.set()
        worker.close()
