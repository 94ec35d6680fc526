"""Rules of CONTRIBUTING.md for names and prose, counted over the package: one name for one class, docstrings that begin with a noun."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.modules import statements

pytestmark = pytest.mark.core

QUESTION: Final = re.compile(r"(?:What|Where|Who|How|Which|Whether)\b")
MOST_SHARED: Final = 5
MOST_QUESTIONS: Final = 30
LONGEST_LINE: Final = 100


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of modules, classes and functions, private ones too, with their places."""
    for path, node in statements():
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node, clean=False)):
            yield f"{path}:{getattr(node, 'lineno', 1)}", text


def test_classes_do_not_share_names() -> None:
    places = defaultdict(list)
    for path, node in statements():
        if isinstance(node, ast.ClassDef):
            places[node.name].append(str(path))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias":
            assert isinstance(node.target, ast.Name)
            places[node.target.id].append(str(path))
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert len(shared) <= MOST_SHARED, shared


def test_docstrings_begin_with_a_noun() -> None:
    opening = [f"{place} {text.splitlines()[0]}" for place, text in docstrings() if QUESTION.match(text)]
    assert len(opening) <= MOST_QUESTIONS, "\n".join(opening)


def test_docstrings_fit_a_terminal() -> None:
    """Examples, with their output, and lines of tables may be longer, as code is."""
    long = [
        f"{place} {line}"
        for place, text in docstrings()
        for line in text.partition(">>>")[0].splitlines()
        if len(line) > LONGEST_LINE and not line.lstrip().startswith("|")
    ]
    assert long == []
