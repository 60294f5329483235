"""The long description of the package: README.md, with links that also lead somewhere outside the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^]]*)\]\((?!https?://|#)(?P<target>[^)\s]+)\)")


class Readme(MetadataHookInterface):
    """Sets ``readme``; links to files become links into the repository under ``project.urls.Source``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the long description to the metadata."""
        source = metadata["urls"]["Source"]
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")

        def absolute(link: re.Match[str]) -> str:
            place = "raw" if link["image"] else "blob"
            return f"{link['image']}[{link['text']}]({source}/{place}/main/{link['target']})"

        metadata["readme"] = {"content-type": "text/markdown", "text": LINK.sub(absolute, text)}
