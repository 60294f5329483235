"""Chromium for tests of pages, where it is installed."""

import shutil
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
NEEDS_BROWSER = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="needs Chromium (apt-get install chromium) and playwright (pip install playwright)",
)


PATIENCE = 240_000
"""Milliseconds after which a state that is waited for is taken as lost; only a failing test waits so long."""


def new_context(browser, width, height, **options):
    """Return a context of a browser that waits patiently and does not animate."""
    size = {"width": width, "height": height}
    context = browser.new_context(viewport=size, reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE)
    return context


@contextmanager
def chromium():
    """Yield a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()
