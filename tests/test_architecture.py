"""Import rule of dotr/ARCHITECTURE.md: a package imports only from the packages above it in the table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LONG
from tests.support.paths import ROOT, TESTS

pytestmark = pytest.mark.core

DOTR = ROOT / "dotr"
PACKAGES = re.findall(r"^\| `(\w+)` \|", (DOTR / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)


def package(module: str) -> str:
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
    ours = [name for name in imports(path) if name.startswith("dotr.") and package(name) != own]
    return [f"{path.relative_to(DOTR)} imports {name}" for name in ours if PACKAGES.index(package(name)) > PACKAGES.index(own)]


def test_packages_import_only_from_above() -> None:
    files = [path for path in DOTR.rglob("*.py") if not path.relative_to(DOTR).parts[0].startswith("__")]
    assert [message for path in files for message in broken(path)] == []


def test_every_package_is_in_the_table() -> None:
    found = {p.name.removesuffix(".py") for p in DOTR.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert found == set(PACKAGES)


def test_files_that_take_long_are_there() -> None:
    """A name that is no file's any more orders nothing, and nobody sees it."""
    assert [name for name in LONG if not any(TESTS.rglob(f"{name}.py"))] == []
