"""Calls in the package that open, list, replace or remove a file of this machine, whatever its name: those of `os`, `shutil` and `glob`,
`open`, and methods of `pathlib.Path` that a `Location` does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.imports import DOTR

_OF_MODULES: Final = {
    "os": {"open", "replace", "rename", "remove", "unlink", "scandir", "listdir", "walk", "truncate", "rmdir", "link", "symlink"},
    "shutil": {"rmtree", "copy", "copyfile", "copytree", "move"},
    "glob": {"glob", "iglob"},
    "gzip": {"open"},
    "io": {"open", "FileIO"},
}
_OF_PATHS: Final = {"read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "unlink", "hardlink_to", "symlink_to"}
_OF_FILES: Final = {"open", "replace_file", "create_file", "open_fixed"}


def posix_calls(root: Path = DOTR) -> Iterator[tuple[str, int, str]]:
    """The module, the line and the name of each call."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (name := _name(node.func)):
                yield str(path.relative_to(root)), node.lineno, name


def _name(called: ast.expr) -> str:
    match called:
        case ast.Name(id=name) if name in _OF_FILES:
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in _OF_MODULES.get(module, ()):
            return f"{module}.{name}"
        case ast.Attribute(attr=name) if name in _OF_PATHS:
            return name
    return ""
