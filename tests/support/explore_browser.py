"""``budgetline explore`` in a real browser: a server of its own, and what a user sees and does on the page."""

import os
import subprocess
import sys
from contextlib import contextmanager
from tempfile import TemporaryFile

from browser import PATIENCE, new_context

RESULTS = {
    "order": "#order-result",
    "plan": "#plan-result",
    "next": "#next-result",
    "compare": "#compare-result",
    "effects": "#effects",
}
"""What each result is shown in."""


@contextmanager
def served(folder, *arguments):
    """Run ``budgetline explore`` in a folder, and give the address that it prints."""
    command = [sys.executable, "-m", "budgetline", "explore", *arguments, "--no-open"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            address = process.stdout.readline().strip()
            if not address:
                errors.seek(0)
                raise RuntimeError(errors.read())
            yield address
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE / 1000)


class Explorer:
    """A page of a session; ``trouble`` collects errors of the console and requests to other places.

    What holds one of the ``expected`` texts is no trouble.
    """

    def __init__(self, browser, address, width=1300, height=900, **options):
        self.context = new_context(browser, width, height, accept_downloads=True, **options)
        self.trouble, self.expected = [], []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self._note(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self._note(f"error: {error}"))
        own = address.split("#")[0]
        self.page.on("request", lambda r: None if r.url.startswith((own, "blob:")) else self._note(r.url))
        self.page.goto(address)
        self.page.wait_for_selector("#columns tr", state="attached")

    def _note(self, text):
        if not any(part in text for part in self.expected):
            self.trouble.append(text)

    def settled(self, *results):
        """Wait until all edits are answered and these results belong to what is on the screen.

        Every action on the page puts its edits into the queue before its event ends, so none is missed.
        """
        for name in results or ("order",):
            self.page.wait_for_selector(f"body[data-pending='0'] {RESULTS[name]}[data-fresh=true]", state="attached")

    def button(self, name):
        """Return the button of this name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def field(self, label):
        """Return the field of this label."""
        return self.page.get_by_label(label, exact=True)

    def predict(self, column):
        """Choose the target, and wait for the first order."""
        self.button(f"Predict {column}").click()
        self.settled()

    def select(self, *groups):
        """Tick groups."""
        for name in groups:
            self.field(f"Select {name}").check()

    def price(self, group, cost, key="Enter"):
        """Type a cost."""
        self.field(f"Cost of {group}").fill(str(cost))
        self.page.keyboard.press(key)

    def groups(self):
        """Return what the table of groups shows: columns and cost by name."""
        rows = self.page.locator("#group-rows tr").evaluate_all(
            """rows => rows.map(row => [
                row.querySelector(".name-field").value,
                [...row.querySelectorAll(".chip")].map(chip => chip.textContent),
                Number(row.querySelector(".cost-field").value),
            ])"""
        )
        return {name: (columns, cost) for name, columns, cost in rows}

    def order(self):
        """Return the groups in the order that is shown."""
        return self.page.locator("#steps th").all_text_contents()

    def download(self, name, folder):
        """Press a button that downloads, and return where the file is."""
        with self.page.expect_download() as found:
            self.page.locator("#downloads button").filter(has=self.page.get_by_text(name, exact=True)).click()
        path = folder / found.value.suggested_filename
        found.value.save_as(path)
        return path
