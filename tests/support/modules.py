"""Statements of the package's modules, parsed once for all tests of a process that count over them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from tests.support.paths import ROOT

Statement: TypeAlias = ast.stmt | ast.Module

_BODIES: Final = ("body", "orelse", "handlers", "finalbody", "cases")


@cache
def statements() -> list[tuple[Path, Statement]]:
    """The modules and statements of `dotr`, those in functions too, with their paths from the root of the repository. Expressions hold no
    statement and are not entered."""
    found: list[tuple[Path, Statement]] = []
    for path in sorted((ROOT / "dotr").rglob("*.py")):
        below = path.relative_to(ROOT)
        waiting: list[Statement] = [ast.parse(path.read_text(encoding="utf-8"))]
        while waiting:
            node = waiting.pop()
            found.append((below, node))
            inner = [each for name in _BODIES for each in getattr(node, name, ())]
            waiting += reversed(inner)
    return found
