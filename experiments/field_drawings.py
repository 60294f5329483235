"""Figures of the field page as plain SVG: small files, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

STYLE = """
text{font:13px system-ui,-apple-system,Segoe UI,Roboto,sans-serif;fill:#24292f}
.title{font-size:16px;font-weight:600}.soft{fill:#57606a}.ground{fill:#fff}.grid{stroke:#d8dee4}.zero{stroke:#57606a}
.ours{stroke:#0969da;fill:#0969da}.peer{stroke:#bc4c00;fill:#bc4c00}.other{stroke:#6e7781;fill:#6e7781}
.green{stroke:#1a7f37;fill:#1a7f37}.line{fill:none;stroke-width:2}.thick{stroke-width:3.5}.band{stroke:none;opacity:.18}
text.ours,text.peer,text.other,text.green{stroke:none}.dash{stroke-dasharray:6 4}.dots{stroke-dasharray:2 4}
@media (max-width:450px){text{font-size:16px}.title{font-size:18px}}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9da7b3}.ground{fill:#161b22}.grid{stroke:#30363d}
.zero{stroke:#9da7b3}.ours{stroke:#58a6ff;fill:#58a6ff}.peer{stroke:#f0883e;fill:#f0883e}
.other{stroke:#9da7b3;fill:#9da7b3}.green{stroke:#3fb950;fill:#3fb950}.line{fill:none}}
"""
"""Colours by class: a page cannot reach into an image, the reader's preference can. Text is larger on a phone."""


@dataclass
class Drawing:
    """Parts of an SVG; ``x`` and ``y`` are the values at the edges of the plot, ``box`` is where it lies."""

    size: tuple[float, float]
    box: tuple[float, float, float, float]
    x: tuple[float, float]
    y: tuple[float, float]
    title: str
    parts: list[str] = field(default_factory=list)

    def across(self, value: float) -> float:
        """Return where a value lies from left to right."""
        left, _, right, _ = self.box
        return left + (right - left) * (value - self.x[0]) / (self.x[1] - self.x[0])

    def up(self, value: float) -> float:
        """Return where a value lies from the top down."""
        _, top, _, bottom = self.box
        return bottom - (bottom - top) * (value - self.y[0]) / (self.y[1] - self.y[0])

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """Write text at a place of the picture."""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def segment(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a line between places of the picture."""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def mark(self, x: float, y: float, kind: str, shape: str = "circle") -> None:
        """Draw a mark at a place of the picture."""
        if shape == "circle":
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"/>')
        elif shape == "square":
            self.parts.append(f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" class="{kind}"/>')
        else:
            corners = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y + 5:.1f} {x - 6:.1f},{y + 5:.1f}"
            self.parts.append(f'<polygon points="{corners}" class="{kind}"/>')

    def line(self, xs: Sequence[float], ys: np.ndarray, kind: str) -> None:
        """Draw values against values."""
        points = " ".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self.parts.append(f'<polyline points="{points}" class="line {kind}"/>')

    def band(self, xs: Sequence[float], low: np.ndarray, high: np.ndarray, kind: str) -> None:
        """Shade what lies between values."""
        edge = [*zip(xs, high, strict=True), *reversed(list(zip(xs, low, strict=True)))]
        points = " ".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in edge)
        self.parts.append(f'<polygon points="{points}" class="band {kind}"/>')

    def svg(self) -> str:
        """Return the picture."""
        width, height = self.size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img"'
        )
        ground = f'<rect class="ground" width="{width:g}" height="{height:g}" rx="6"/>'
        title = f'<text x="16" y="26" class="title">{escape(self.title)}</text>'
        return f"{head}><style>{STYLE}</style>{ground}{title}\n" + "\n".join(self.parts) + "\n</svg>\n"
