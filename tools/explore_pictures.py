"""Make the pictures of docs/without_code/explore.md: ``python tools/explore_pictures.py``.

They show a session about the heart data: the first question, a price that changes the order, and a budget.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from PIL import Image

from budgetline.datasets import load_heart

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from browser import chromium
from explore_browser import Explorer, served

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "explore"
EXACT = 64
"""Colours of a picture that are kept as they are."""
NAMES = {
    "age": "age",
    "trestbps": "blood pressure",
    "chol": "cholesterol",
    "thalach": "heart rate in the scan",
    "oldpeak": "ST depression",
    "ca": "vessels seen",
}
GROUPS = """groups:
  questions: {columns: [age, sex, chest pain], cost: 3}
  blood pressure: {columns: [blood pressure], cost: 1}
  blood test: {columns: [cholesterol, blood sugar], cost: 10.37}
  resting ECG: {columns: [resting ECG], cost: 15.5}
  exercise test: {columns: [angina in the test, ST depression, ST slope], cost: 89.3}
  thallium scan: {columns: [heart rate in the scan, thallium], cost: 103.9}
  fluoroscopy: {columns: [vessels seen], cost: 100.9}
"""


def raw_heart() -> pd.DataFrame:
    """Return the heart data as a clinic would keep them: words, not 0/1 columns."""
    heart = load_heart()
    frame = pd.DataFrame(heart.data, columns=heart.feature_names)
    table = frame[list(NAMES)].rename(columns=NAMES)
    table.loc[frame["ca=missing"] == 1, "vessels seen"] = None

    def words(column: str, levels: dict[str, str], other: str) -> pd.Series:
        found = pd.Series(other, index=frame.index)
        for level, word in levels.items():
            found[frame[f"{column}{level}"] == 1] = word
        return found

    table["sex"] = words("sex", {"": "male"}, "female")
    table["chest pain"] = words("cp", {"=1": "typical", "=2": "atypical", "=3": "other"}, "none")
    table["blood sugar"] = words("fbs", {"": "high"}, "normal")
    table["resting ECG"] = words("restecg", {"=1": "ST-T wave", "=2": "hypertrophy"}, "normal")
    table["angina in the test"] = words("exang", {"": "yes"}, "no")
    table["ST slope"] = words("slope", {"=2": "flat", "=3": "down"}, "up")
    table["thallium"] = words("thal", {"=6": "fixed defect", "=7": "reversible defect", "=missing": ""}, "normal")
    order = ["disease", "age", "sex", "chest pain", "blood pressure", "cholesterol", "blood sugar", "resting ECG"]
    table["disease"] = ["yes" if y else "no" for y in heart.target]
    return table[[*order, *(name for name in table if name not in order)]]


def with_few_colours(picture: Image.Image) -> Image.Image:
    """Return a picture of 256 colours: the most frequent ones as they are, and others that cover the rest."""
    pixels = np.asarray(picture)
    found, which, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    others = picture.quantize(256 - EXACT, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = np.concatenate([found[np.argsort(-counts)[:EXACT]], np.reshape(others, (-1, 3))]).astype(int)
    distance = ((found[:, None].astype(int) - palette) ** 2).sum(axis=2)
    small = Image.fromarray(distance.argmin(axis=1).astype(np.uint8)[which].reshape(pixels.shape[:2]), "P")
    small.putpalette(palette.astype(np.uint8).tobytes())
    return small


def keep(explorer: Explorer, name: str) -> None:
    """Save what is on the screen, in a small file."""
    explorer.page.evaluate("document.activeElement?.blur()")
    shot = Image.open(BytesIO(explorer.page.screenshot())).convert("RGB")
    with_few_colours(shot).save(FOLDER / f"{name}.png", optimize=True)


def main() -> None:
    """Walk through a session and keep three pictures of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name:
        raw_heart().to_csv(Path(name) / "heart.csv", index=False)
        with served(name, "heart.csv", "--reset", "--unit", "dollars") as address, chromium() as browser:
            explorer = Explorer(browser, address, 1200, 860, color_scheme="light")
            page = explorer.page
            keep(explorer, "1_target")
            explorer.predict("disease")
            groups = {"name": "groups.yaml", "mimeType": "text/yaml", "buffer": GROUPS.encode()}
            page.locator("#import-file").set_input_files(groups)
            explorer.settled()
            explorer.price("thallium scan", 25)
            explorer.settled("order", "compare")
            page.evaluate("scrollTo(0, document.querySelector('#groups').offsetTop - 80)")
            keep(explorer, "2_prices")
            explorer.field("Budget in dollars, as a number").fill("120")
            explorer.settled("order", "plan", "next", "compare")
            page.evaluate("scrollTo(0, document.querySelector('#budget').offsetTop - 70)")
            keep(explorer, "3_budget")
            explorer.context.close()


if __name__ == "__main__":
    main()
