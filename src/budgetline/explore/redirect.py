"""Opening a browser without the token on its command line, which every local user can read."""

from __future__ import annotations

import os
import webbrowser
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}"><title>budgetline explore</title></head>
<body><p><a href="{url}">budgetline explore</a></p></body></html>
"""


class Redirect:
    """A private file that leads the browser to an address. Remove it after use."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None

    def open(self, url: str) -> bool:
        """Write the page, and open it in a browser; return whether that was possible."""
        try:
            self._folder = TemporaryDirectory(prefix="budgetline-", ignore_cleanup_errors=True)  # for the owner alone
            page = Path(self._folder.name, "open.html")
            with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(PAGE.format(url=escape(url)))
        except OSError:
            return False
        return webbrowser.open(page.as_uri())

    def remove(self) -> None:
        """Remove the page, if it is still there."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
