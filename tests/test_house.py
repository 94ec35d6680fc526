"""The import rule of dotr/ARCHITECTURE.md: a room imports only from the rooms above it in the table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

DOTR = Path(__file__).parent.parent / "dotr"
ROOMS = re.findall(r"^\| `(\w+)` \|", (DOTR / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_rooms_import_only_from_above() -> None:
    broken = []
    for path in DOTR.rglob("*.py"):
        own = path.relative_to(DOTR).parts[0].removesuffix(".py")
        if own.startswith("__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                if name.startswith("dotr.") and room(name) != own and ROOMS.index(room(name)) > ROOMS.index(own):
                    broken.append(f"{path.relative_to(DOTR)} imports {name}")
    assert not broken


def test_every_room_is_in_the_table() -> None:
    found = {p.name.removesuffix(".py") for p in DOTR.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert found == set(ROOMS)
