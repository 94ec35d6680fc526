"""Imports between modules of the package, and what breaks the rules of dotr/ARCHITECTURE.md: its table of packages, circles, doors of
languages and connectors, the size of folders.

Imports in functions and under TYPE_CHECKING count.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from dotr.model.graphs import components
from tests.support.modules import statements
from tests.support.paths import ROOT

DOTR: Final = ROOT / "dotr"
MOST_ENTRIES: Final = 13
LANGUAGE_DOORS: Final = ("registry", "programs", "forms")
CONNECTOR_DOORS: Final = ("registry", "opening")
DOORS: Final = ("spark.py",)
"""Modules beside the packages that pass on names alone, as `dotr/__init__.py` does."""
_CONNECTORS: Final = "dotr.streams.connectors"
SHARED_CONNECTORS: Final = {
    f"{_CONNECTORS}.kafka": "dotr.runtimes",
    f"{_CONNECTORS}.spark": "dotr.runtimes",
    f"{_CONNECTORS}.http": _CONNECTORS,
}
"""Connectors that another folder imports, too: partitions are inputs of their own, Spark is a runtime, and several connectors speak
HTTP."""


class Import(NamedTuple):
    """An import of one module of the package by another.

    - `file`: the importing file, from the root of the repository.
    - `target`: the dotted name of the imported module.
    - `loads`: the import is executed with the importing module.
    """

    file: PurePosixPath
    target: str
    loads: bool

    @property
    def source(self) -> str:
        """The dotted name of the importing module."""
        return dotted(self.file)

    def __str__(self) -> str:
        return f"{self.file} imports {self.target}"


def dotted(file: PurePosixPath) -> str:
    return str(file.with_suffix("")).removesuffix("/__init__").replace("/", ".")


def package(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def is_below(module: str, folder: str) -> bool:
    return module == folder or module.startswith(f"{folder}.")


def permitted() -> Mapping[str, set[str]]:
    """The packages that each package may import, by the table."""
    found: dict[str, set[str]] = {}
    table = (DOTR / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("| package | may import |\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE)
    for name, text in rows:
        if text.startswith("all above"):
            found[name] = set(found) - {text.removeprefix("all above").removeprefix(" but ")}
        else:
            found[name] = set(text.split(", ")) - {"–"}
    return found


@cache
def imports() -> list[Import]:
    files = {PurePosixPath(path) for path, _ in statements()}
    modules = {dotted(file) for file in files}
    found = []
    for path, node in statements():
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                targets = {f"{module}.{each.name}" if f"{module}.{each.name}" in modules else module for each in names}
            case ast.Import(names=names):
                targets = {each.name for each in names}
            case _:
                continue
        found += [Import(PurePosixPath(path), target, node.col_offset == 0) for target in sorted(targets) if is_below(target, "dotr")]
    return found


def outside_the_table() -> Iterator[str]:
    may = permitted()
    for each in imports():
        own, other = package(each.source), package(each.target)
        if own and not own.startswith("__") and other and own != other and other not in may[own]:
            yield str(each)


def through_no_door() -> Iterator[str]:
    """Imports of a language's or a connector's folder from outside of it."""
    doors = {f"dotr.languages.{name}" for name in LANGUAGE_DOORS} | {f"dotr.streams.connectors.{name}" for name in CONNECTOR_DOORS}
    rooms = [f"dotr.{parent.replace('/', '.')}.{room.name}" for parent in ("languages", "streams/connectors") for room in folders(parent)]
    for each in imports():
        for room in rooms:
            shared = SHARED_CONNECTORS.get(room)
            own = is_below(each.source, room) or each.source in doors or (shared is not None and is_below(each.source, shared))
            if is_below(each.target, room) and not own:
                yield str(each)


def explanations_at_a_start() -> Iterator[str]:
    """Explanations that a run, or a session without them, would load."""
    for each in imports():
        of_a_run = each.loads and package(each.source) in ("runtimes", "api")
        if of_a_run and package(each.target) == "explanations":
            yield str(each)


def passed_on_by_an_init() -> Iterator[str]:
    """Names of other folders in an `__init__` that defines nothing of its own."""
    defined = {PurePosixPath(path) for path, node in statements() if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for each in imports():
        passes_on = each.file.name == "__init__.py" and each.source != "dotr" and each.file not in defined
        if passes_on and not is_below(each.target, each.source):
            yield str(each)


def in_circles(edges: Iterable[tuple[str, str]]) -> list[str]:
    """The nodes of all circles of some edges between different nodes."""
    component = components(edges)
    sizes = Counter(component.values())
    return sorted(node for node, number in component.items() if sizes[number] > 1)


def _edges() -> set[tuple[str, str]]:
    return {(each.source, each.target) for each in imports() if each.source != each.target}


def modules_in_circles() -> Iterator[str]:
    yield from (f"{module} is in a circle of modules" for module in in_circles(_edges()))


def folders_in_circles() -> Iterator[str]:
    """Sub-folders of one folder that import each other."""
    edges: dict[str, set[tuple[str, str]]] = defaultdict(set)
    rooms = {dotted(PurePosixPath(path).parent / "__init__.py") for path, _ in statements()}
    for each in imports():
        above, below = each.source.split("."), each.target.split(".")
        same = next((number for number, pair in enumerate(zip(above, below, strict=False)) if pair[0] != pair[1]), 0)
        first, second = ".".join(above[: same + 1]), ".".join(below[: same + 1])
        if same > 1 and first in rooms and second in rooms:
            edges[".".join(above[:same])].add((first, second))
    for between in edges.values():
        yield from (f"{folder} is in a circle of folders" for folder in in_circles(between))


def folders(parent: str) -> list[PurePosixPath]:
    return sorted(PurePosixPath(each) for each in (DOTR / parent).iterdir() if (each / "__init__.py").exists())


def circles_of_modules() -> int:
    """The number of circles, each with all modules that reach each other."""
    component = components(_edges())
    return sum(size > 1 for size in Counter(component.values()).values())


def folder_entries() -> Mapping[PurePosixPath, int]:
    """The number of modules and folders in each folder of the package, `__init__` apart."""
    entries: dict[PurePosixPath, set[str]] = defaultdict(set)
    for path, _ in groupby(path for path, _ in statements()):
        below = PurePosixPath(path)
        for entry, folder in zip([below, *below.parents], below.parents, strict=False):
            if entry.suffix != ".py" or not (entry.name.startswith("__") or (folder.name == "dotr" and entry.name in DOORS)):
                entries[folder].add(entry.name)
    return {folder: len(names) for folder, names in entries.items() if folder.parts}


def full_folders() -> Iterator[str]:
    yield from (f"{folder} has {size} entries" for folder, size in folder_entries().items() if size > MOST_ENTRIES)


@cache
def broken() -> frozenset[str]:
    checks = (
        outside_the_table,
        through_no_door,
        explanations_at_a_start,
        passed_on_by_an_init,
        modules_in_circles,
        folders_in_circles,
        full_folders,
    )
    return frozenset(line for check in checks for line in check())
