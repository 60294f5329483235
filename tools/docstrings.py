"""The text of the reference: "As in ``X``" becomes X's own description, and names of objects become links.

An extension of griffe, which reads the docstrings for mkdocstrings. Docstrings stay short, and a reader of a page
finds every parameter described on it.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from griffe import (
    Docstring,
    DocstringAttribute,
    DocstringParameter,
    DocstringSection,
    DocstringSectionAttributes,
    DocstringSectionParameters,
    Extension,
)

sys.path.append(str(Path(__file__).parent))
from site_pages import NAMES, POINTED, linked, without_pointers

ROOMS = ("budgetline", "budgetline.evaluation", "budgetline.optimality")
BORROWED = re.compile(rf"\A[Aa]s in ({NAMES})[.,;:]?\s*")
MENTIONED = re.compile(rf"{POINTED}((?:{NAMES}(?:,\s+|\s+and\s+)?)+)", re.IGNORECASE)
SPAN = re.compile(r"(?<![`\[])(`{1,2})([\w.]+)\1(?!`)")
KINDS = (DocstringSectionParameters, DocstringSectionAttributes)


def sections_of(found: Any) -> list[DocstringSection]:
    """Return the sections of an object's docstring."""
    return Docstring(inspect.getdoc(found) or "").parse("numpy", warnings=False)


def named(name: str, owner: type | None) -> Any:
    """Return the object that a docstring names, a method of the same class or a public object, if there is one."""
    path = name.strip("`").removeprefix("budgetline.").split(".")
    package, *rooms = map(importlib.import_module, ROOMS)
    for root in [owner, package, package.AnytimeClassifier, *rooms]:  # methods of a mixin name those of estimators
        found: Any = root
        for part in path:
            found = getattr(found, part, None)
        if found is not None:
            return found
    return None


def borrowed(item: DocstringParameter | DocstringAttribute, kind: type, owner: type | None) -> dict[str, Any]:
    """Return what an entry says of every name in it; "As in ``X``" becomes the words of X, followed by its own."""
    names, reference = item.name.split(", "), BORROWED.match(item.description)
    if reference is None:
        return dict.fromkeys(names, item)
    source, own = named(reference[1], owner), item.description[reference.end() :]
    entries = entries_of(source, kind, owner)
    if missing := [name for name in names if name not in entries]:
        raise ValueError(f"{reference[1]} does not describe {', '.join(missing)}")
    found = {}
    for name in names:
        text = f"{entries[name].description} {own[:1].upper()}{own[1:]}".strip()
        found[name] = type(item)(name, annotation=entries[name].annotation, description=text, value=item.value)
    return found


def check_own_words(items: list[Any]) -> None:
    """Raise an error if words that follow "As in ``X``" are about one of several names, of which nobody knows."""
    names: dict[str, list[str]] = {}
    for item in items:
        names.setdefault(item.description, []).extend(item.name.split(", "))
    for text, about in names.items():
        if len(about) > 1 and BORROWED.match(text) and BORROWED.sub("", text):
            raise ValueError(f"{', '.join(about)}: which of them is {text!r} about? Give it an entry of its own")


def entries_of(found: Any, kind: type, owner: type | None = None) -> dict[str, Any]:
    """Return the parameters, or attributes, that an object's docstring describes, by name."""
    items = [item for section in sections_of(found) if isinstance(section, kind) for item in section.value]
    check_own_words(items)
    own = {name: entry for item in items for name, entry in borrowed(item, kind, owner).items()}
    others: dict[str, Any] = {}
    for mention in MENTIONED.findall(inspect.getdoc(found) or ""):
        for name in re.findall(NAMES, mention):
            source = named(name, owner)
            if source is not None and source is not found:
                others = {**entries_of(source, kind, owner), **others}
    return {**others, **own}


def complete(found: Any, owner: type | None, sections: list[DocstringSection]) -> list[DocstringSection]:
    """Return sections in which every parameter that is described somewhere is described here."""
    entries = {kind: entries_of(found, kind, owner) for kind in KINDS}
    wanted = {DocstringSectionParameters: parameters_of(found), DocstringSectionAttributes: list(entries[KINDS[1]])}
    made = []
    for kind in KINDS if inspect.isclass(found) else KINDS[:1]:
        names: dict[int, list[str]] = {}
        for name in wanted[kind]:
            if name in entries[kind]:
                names.setdefault(id(entries[kind][name]), []).append(name)
        if items := [_about(entries[kind][about[0]], about) for about in names.values()]:
            made.append(kind(items))
    kept = [section for section in sections if not isinstance(section, tuple(type(m) for m in made))]
    return [*kept[:1], *made, *kept[1:]]


def _about(item: Any, names: list[str]) -> Any:
    """Return an entry under those of its names that it describes: others may have entries of their own elsewhere."""
    return type(item)(", ".join(names), annotation=item.annotation, description=item.description, value=item.value)


def undescribed(found: Any, owner: type | None = None) -> list[str]:
    """Return what the page of a callable says nothing of: empty entries, and parameters that the text does not name."""
    entries = entries_of(found, KINDS[0], owner) | (entries_of(found, KINDS[1]) if inspect.isclass(found) else {})
    text = (inspect.getdoc(found) or "").partition("Examples\n---")[0]
    names = [name for name in parameters_of(found) if name not in entries]
    empty = [name for name, entry in entries.items() if not entry.description.strip()]
    return empty + [name for name in names if not re.search(rf"\b{name}\b", text)]


def parameters_of(found: Any) -> list[str]:
    """Return the names of a callable's parameters."""
    try:
        return [name for name in inspect.signature(found).parameters if name not in ("self", "cls")]
    except (TypeError, ValueError):
        return []


class Complete(Extension):
    """Completes the docstrings of the pages when they are read."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Complete the sections of a class or function, and link the names in them."""
        if obj.is_function:
            for parameter in obj.parameters:  # a default that is made anew is not Python that can be laid out
                parameter.default = "..." if parameter.default == "<factory>" else parameter.default
        if obj.docstring is None or not (obj.is_class or obj.is_function):
            return
        module = sys.modules[obj.module.path]
        owner = getattr(module, obj.parent.name, None) if obj.is_function and obj.parent.is_class else None
        found = getattr(owner or module, obj.name, None)
        obj.docstring.value = without_pointers(obj.docstring.value)
        sections = obj.docstring.parsed
        if found is not None:
            sections[:] = complete(found, owner, sections)
        for section in sections:
            if isinstance(section.value, str):
                section.value = linked(section.value, obj.name)
            elif isinstance(section, KINDS):
                for item in section.value:
                    item.description = linked(item.description, obj.name)
