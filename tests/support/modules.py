"""Statements of the package's modules, parsed once for all tests of a process that count over them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from tests.support.paths import ROOT

Statement: TypeAlias = ast.stmt | ast.Module

_BODIES: Final = ("body", "orelse", "handlers", "finalbody", "cases")
_KINDS: Final = (ast.Call, ast.MatchClass, ast.Compare, ast.FunctionDef, ast.Constant)


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of each module of `dotr`, by its path from the root of the repository, in the order of the paths."""
    files = sorted((ROOT / "dotr").rglob("*.py"))
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in files}


@cache
def statements() -> list[tuple[Path, Statement]]:
    """The modules and statements of `dotr`, those in functions too, with their paths from the root of the repository. Expressions hold no
    statement and are not entered."""
    found: list[tuple[Path, Statement]] = []
    for path, tree in trees().items():
        waiting: list[Statement] = [tree]
        while waiting:
            node = waiting.pop()
            found.append((path, node))
            inner = [each for name in _BODIES for each in getattr(node, name, ())]
            waiting += reversed(inner)
    return found


@cache
def nodes() -> dict[Path, list[ast.AST]]:
    """The calls, class patterns, comparisons, functions and texts of each module, from one walk of its tree."""
    return {path: [node for node in ast.walk(tree) if isinstance(node, _KINDS)] for path, tree in trees().items()}
