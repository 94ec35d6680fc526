"""The import rule of dotr/ARCHITECTURE.md: a room imports only from the rooms above it in the table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LONG

pytestmark = pytest.mark.core

DOTR = Path(__file__).parent.parent / "dotr"
ROOMS = re.findall(r"^\| `(\w+)` \|", (DOTR / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, also inside its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case _:
                pass


def broken(path: Path) -> list[str]:
    own = path.relative_to(DOTR).parts[0].removesuffix(".py")
    ours = [name for name in imports(path) if name.startswith("dotr.") and room(name) != own]
    return [f"{path.relative_to(DOTR)} imports {name}" for name in ours if ROOMS.index(room(name)) > ROOMS.index(own)]


def test_rooms_import_only_from_above() -> None:
    files = [path for path in DOTR.rglob("*.py") if not path.relative_to(DOTR).parts[0].startswith("__")]
    assert [message for path in files for message in broken(path)] == []


def test_every_room_is_in_the_table() -> None:
    found = {p.name.removesuffix(".py") for p in DOTR.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert found == set(ROOMS)


def test_files_that_take_long_are_there() -> None:
    """A name that is no file's any more orders nothing, and nobody sees it."""
    assert [name for name in LONG if not (Path(__file__).parent / f"{name}.py").exists()] == []
