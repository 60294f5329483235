"""Groups in YAML files. Files come from outside: their size and depth are bounded before they are parsed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from budgetline.messages import CONTROLS, cut, printable, shown

if TYPE_CHECKING:
    from yaml import Node, SafeDumper, SafeLoader

MOST_BYTES = 2**25
"""Largest size of a file."""
MOST_REPEATED = 10**6
"""Number of entries that aliases may add."""
MOST_LEVELS = 50
"""Depth of nested lists and mappings; groups need four."""
TOO_DEEP = f"it has more than {MOST_LEVELS} levels of nested lists and mappings"
NO_NUMBER = re.compile(r".*:|[-+]?0[0-7_]+$")
"""YAML 1.1 reads 1:30 as ninety and 010 as eight. Costs and names never mean that: they stay text."""
TAG = "tag:yaml.org,2002:"


def write_yaml(content: object) -> str:
    """Return plain content as YAML; texts that would be read as something else are quoted."""
    yaml = _yaml("writing")
    style = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 100}
    text: str = yaml.dump(content, None, _dumper(yaml), **style)
    return "\n".join(map(printable, text.split("\n")))


def content_of(path: Path) -> bytes:
    """Return the content of a file, as far as it is not too large."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def read_groups(data: bytes) -> dict[str, Any]:
    """Return the arguments of ``FeatureGroups`` from YAML; see ``FeatureGroups.from_yaml`` for its form."""
    content = _parse_yaml(data)
    if not isinstance(content, dict) or not isinstance(content.get("groups"), dict):
        raise ValueError("expected a mapping with the key 'groups' (name -> columns, cost)")
    if unknown := sorted(map(str, content.keys() - {"groups", "remainder", "shared"})):
        raise ValueError(f"unknown key {shown(unknown[0])}; known are 'groups', 'shared' and 'remainder'")
    shared = content.get("shared", {})
    if not isinstance(shared, dict):
        raise ValueError(f"'shared' must be a mapping name -> {{cost: number, groups: [...]}}, got {shown(shared)}")
    for name, entry in content["groups"].items():
        if not isinstance(entry, dict) or "columns" not in entry:
            raise ValueError(f"group {shown(name)} needs 'columns: [...]' (and optionally 'cost: number')")
        if unknown := sorted(map(str, entry.keys() - {"columns", "cost", "requires"})):
            raise ValueError(f"group {shown(name)} has the unknown key {shown(unknown[0])}")
    for name, entry in shared.items():
        if not isinstance(entry, dict) or set(entry) != {"cost", "groups"}:
            raise ValueError(f"shared cost {shown(name)} needs 'cost: number' and 'groups: [...]', and nothing else")
    groups = content["groups"].items()
    return {
        "groups": {name: entry["columns"] for name, entry in groups},
        "costs": {name: entry.get("cost", 1.0) for name, entry in groups},
        "remainder": content.get("remainder", "error"),
        "shared": {name: (entry["cost"], entry["groups"]) for name, entry in shared.items()},
        "requires": {name: entry["requires"] for name, entry in groups if "requires" in entry},
    }


def _parse_yaml(data: bytes) -> object:
    """Return the content of a YAML file in which no key is given twice."""
    yaml = _yaml("reading")
    if len(data) > MOST_BYTES:
        raise ValueError(f"too large for a file of groups, which may have at most {MOST_BYTES} bytes")
    try:
        return _loader(yaml)(data.decode("utf-8")).get_single_data()
    except yaml.YAMLError as error:
        raise ValueError(f"not valid YAML: {cut(' '.join(str(error).split()))}") from error


def _yaml(doing: str) -> ModuleType:
    try:
        return import_module("yaml")
    except ImportError as error:
        raise ImportError(f"{doing} YAML needs PyYAML: pip install 'budgetline[yaml]'") from error


def _dumper(yaml: Any) -> type[SafeDumper]:
    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        """Puts texts with control characters in quotes, where they can be escaped."""

        def represent_text(self, text: str) -> Node:
            return self.represent_scalar(f"{TAG}str", text, style='"' if CONTROLS.search(text) else None)

    Dumper.add_representer(str, Dumper.represent_text)
    return Dumper


def _loader(yaml: Any) -> type[SafeLoader]:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses duplicate keys, and keeps as text what does not look like a number."""

        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.extents: dict[Node, tuple[int, int]] = {}
            self.level = 0

        def get_single_node(self) -> Node:
            root = super().get_single_node()
            size, levels = self.extents.get(root, (0, 0))
            if levels > MOST_LEVELS:
                raise ValueError(TOO_DEEP)
            if size - len(self.extents) > MOST_REPEATED:
                raise ValueError(f"its aliases expand to more than {MOST_REPEATED} entries")
            return root

        def compose_node(self, parent: Node, index: object) -> Node:
            is_alias = self.check_event(yaml.AliasEvent)
            self.level += 1
            if self.level > MOST_LEVELS:
                raise ValueError(TOO_DEEP)
            node = super().compose_node(parent, index)
            self.level -= 1
            if not is_alias:
                self.extents[node] = _extent(node, self.extents)
            elif node not in self.extents:
                raise ValueError(f"an entry that holds itself (line {node.start_mark.line + 1})")
            return node

        def resolve(self, kind: type[Node], value: str, implicit: object) -> str:
            tag = super().resolve(kind, value, implicit)
            return f"{TAG}str" if tag in (f"{TAG}int", f"{TAG}float") and NO_NUMBER.match(value) else tag

        def construct_mapping(self, node: Node, deep: bool = False) -> object:
            """PyYAML silently keeps the last of two equal keys; a group would be lost."""
            own = [(key, value) for key, value in node.value if key.tag != f"{TAG}merge"]
            keys = [self.construct_object(key, deep=True) for key, _ in own]
            for (_, value), key in zip(own, keys, strict=True):
                if key == "cost" and value.tag in (f"{TAG}bool", f"{TAG}timestamp"):
                    value.tag = f"{TAG}str"  # the error shows the key as written
            counts = Counter(key for key in keys if isinstance(key, Hashable))
            if repeated := [key for key, count in counts.items() if count > 1]:
                raise ValueError(f"duplicate key {shown(repeated[0])} (line {node.start_mark.line + 1})")
            return super().construct_mapping(node, deep)

        def construct_object(self, node: Node, deep: bool = False) -> object:
            try:
                return super().construct_object(node, deep)
            except ValueError as error:  # an impossible date, an integer of thousands of digits
                if not isinstance(node, yaml.ScalarNode):
                    raise
                line = node.start_mark.line + 1
                raise ValueError(f"{shown(node.value)} cannot be read (line {line}): {error}") from error

    return Loader


def _extent(node: Node, known: dict[Node, tuple[int, int]]) -> tuple[int, int]:
    """Return how many entries a node stands for, itself included, and their levels."""
    entries = node.value if isinstance(node.value, list) else []
    parts = [known[part] for entry in entries for part in (entry if isinstance(entry, tuple) else (entry,))]
    return 1 + sum(size for size, _ in parts), 1 + max((levels for _, levels in parts), default=0)
