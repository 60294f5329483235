"""Groups in YAML files. Files come from outside: their size is bounded before they are parsed."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from budgetline.messages import CONTROLS, cut, printable, shown

if TYPE_CHECKING:
    from yaml import Node, SafeDumper, SafeLoader

MOST_BYTES = 2**25
"""Largest size of a file."""
NO_NUMBER = re.compile(r".*:|[-+]?0[0-7_]+$|.{400}")
"""YAML 1.1 reads 1:30 as ninety and 010 as eight. Costs and names never mean that: they stay text.

So do numbers that no float can hold.
"""
TAG = "tag:yaml.org,2002:"


def write_yaml(content: object) -> str:
    """Return plain content as YAML; texts that would be read as something else are quoted."""
    yaml = _yaml("writing")
    style = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 100}
    text: str = yaml.dump(content, None, _dumper(yaml), **style)
    return "\n".join(map(printable, text.split("\n")))


def content_of(path: Path) -> bytes:
    """Return the content of a file; of a file that is too large, only the beginning."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def read_groups(data: bytes) -> dict[str, Any]:
    """Return the arguments of ``FeatureGroups`` from YAML; ``FeatureGroups.from_yaml`` describes its form."""
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
    except RecursionError:
        raise ValueError("its lists and mappings are nested too deeply") from None
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
        """Refuses anchors and duplicate keys, and keeps as text what does not look like a number."""

        def compose_node(self, parent: Node, index: object) -> Node:
            event = self.peek_event()
            if getattr(event, "anchor", None) is not None:  # a few lines of aliases can expand to a billion entries
                raise ValueError(f"anchors and aliases (& and *) are not supported (line {event.start_mark.line + 1})")
            return super().compose_node(parent, index)

        def resolve(self, kind: type[Node], value: str, implicit: object) -> str:
            tag = super().resolve(kind, value, implicit)
            odd = tag == f"{TAG}timestamp" or (tag in (f"{TAG}int", f"{TAG}float") and NO_NUMBER.match(value))
            return f"{TAG}str" if odd else tag

        def construct_mapping(self, node: Node, deep: bool = False) -> object:
            """PyYAML silently keeps the last of two equal keys; a group would be lost."""
            found = super().construct_mapping(node, deep)
            if len(found) < len(node.value):
                keys = [self.construct_object(key, deep=True) for key, _ in node.value]
                repeated = next(key for k, key in enumerate(keys) if key in keys[:k])
                raise ValueError(f"duplicate key {shown(repeated)} (line {node.start_mark.line + 1})")
            return found

    return Loader
