"""The pictures of the gallery: every page's code draws its own (``python examples/pictures.py [PAGE …]``).

The report needs Chromium for a picture of its page, as the tests do.
"""

import contextlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib

ROOT = Path(__file__).parents[1]
PAGES, PICTURES = ROOT / "docs" / "gallery", ROOT / "docs" / "images" / "gallery"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
STYLE = {
    "svg.hashsalt": "budgetline", "svg.fonttype": "none", "font.size": 11, "figure.facecolor": "white",
    "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip


def draw(page: Path) -> None:
    """Run the code of a page in an empty folder, and keep the picture that it writes."""
    namespace = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for code in BLOCK.findall(page.read_text(encoding="utf-8")):
            exec(compile(code, str(page), "exec"), namespace)
        if Path("report.html").exists():
            photograph(Path("report.html"), Path("report.png"))
        for picture in (*Path().glob("*.svg"), *Path().glob("*.png")):
            shutil.copy(picture, PICTURES / picture.name)


def photograph(page: Path, picture: Path) -> None:
    """Write the first screen of a page as a picture."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        view = browser.new_page(viewport={"width": 1100, "height": 800})
        view.goto(page.resolve().as_uri())
        view.screenshot(path=picture)
        browser.close()


def main(names: list[str]) -> None:
    """Draw the pictures of all pages, or of those named."""
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # matplotlib then writes no date
    matplotlib.use("agg")
    matplotlib.rcParams.update(STYLE)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for page in sorted(PAGES.glob("*.md")):
        if page.stem != "index" and (not names or page.stem in names):
            draw(page)


if __name__ == "__main__":
    main(sys.argv[1:])
