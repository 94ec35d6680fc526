"""The key of a compiled background changes with the code that compiles it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import dotr
from dotr.engine import static_answers as answers
from dotr.instant import queries
from dotr.instant.datalog.background import compiled_cache as cache
from dotr.instant.datalog.background import sources
from dotr.syntax import datalog

PACKAGE: Final = Path(dotr.__file__).parent


def _file(module: str) -> Path | None:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


def _imports(path: Path) -> Iterator[Path]:
    """The files of the package that a module imports, at any place of its text."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.partition(".")[0] == "dotr" and (found := _file(name)) is not None:
                yield found


def _reached(*modules: str) -> set[str]:
    """The modules that some modules import, transitively, as paths within the package."""
    stack = [path for module in modules if (path := _file(module)) is not None]
    assert len(stack) == len(modules)
    found: set[Path] = set()
    while stack:
        path = stack.pop()
        if path not in found:
            found.add(path)
            stack += _imports(path)
    return {path.relative_to(PACKAGE).as_posix() for path in found} - {"__init__.py"}


def _covered(place: str) -> bool:
    return any(place == name or place.startswith(f"{name}/") for name in sources.CODE)


@pytest.mark.parametrize("name", sources.CODE)
def test_listed_sources_exist(name: str) -> None:
    path = PACKAGE / name
    assert path.is_file() if path.suffix else any(path.rglob("*.py"))


def test_listed_folders_have_code_and_datalog_only() -> None:
    for name in sources.CODE:
        kinds = {path.suffix for path in (PACKAGE / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert kinds <= {".py", ".dlog"}


def test_code_folders_of_the_background_are_listed() -> None:
    """The list has the code that closes and stores the background, reads Datalog, and answers
    queries over it.
    """
    reached = _reached(cache.__name__, datalog.__name__, queries.__name__)
    assert "instant/datalog/closure/instant.py" in reached
    assert "model/datalog.py" in reached
    assert {place for place in reached if not _covered(place)} == set()


def test_store_of_answers_does_not_compute_answers() -> None:
    """The store looks answers up by the text of a query; its callers compute the answers."""
    own = {path.relative_to(PACKAGE).as_posix() for path in _imports(Path(answers.__file__))}
    assert {place for place in own if not _covered(place)} <= {"__init__.py", "engine/spec.py", "engine/__init__.py"}


def test_change_of_the_listed_sources_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for number in range(len(sources.CODE) + 1):
        monkeypatch.setattr(sources, "CODE", sources.CODE[:number])
        sources._code_digest.cache_clear()
        found.add(sources._code_digest())
        monkeypatch.undo()
    sources._code_digest.cache_clear()
    assert len(found) == len(sources.CODE) + 1
