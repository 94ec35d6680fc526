"""Import rule of dotr/ARCHITECTURE.md: a package imports only from the packages above it in the table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.conftest import LONG
from tests.support.modules import statements
from tests.support.paths import ROOT, TESTS

pytestmark = pytest.mark.core

DOTR = ROOT / "dotr"
PACKAGES = re.findall(r"^\| `(\w+)` \|", (DOTR / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)


def package(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports."""
    match node:
        case ast.ImportFrom(module=str(module)):
            return [module]
        case ast.Import(names=names):
            return [alias.name for alias in names]
    return []


def broken() -> Iterator[str]:
    """The imports, also inside functions, of packages below one's own."""
    for path, node in statements():
        below = path.relative_to("dotr")
        own = below.parts[0].removesuffix(".py")
        if not own.startswith("__"):
            for name in imported(node):
                if name.startswith("dotr.") and package(name) != own and PACKAGES.index(package(name)) > PACKAGES.index(own):
                    yield f"{below} imports {name}"


def test_packages_import_only_from_above() -> None:
    assert list(broken()) == []


def test_every_package_is_in_the_table() -> None:
    found = {p.name.removesuffix(".py") for p in DOTR.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert found == set(PACKAGES)


def test_files_that_take_long_are_there() -> None:
    """A name that is no file's any more orders nothing, and nobody sees it."""
    assert [name for name in LONG if not any(TESTS.rglob(f"{name}.py"))] == []
