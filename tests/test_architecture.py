"""Import rule of dotr/ARCHITECTURE.md (`tests/support/imports.py`); units are asked by methods (`tests/support/unit_questions.py`)."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.conftest import LONG
from tests.support.imports import DOTR, broken, in_circles, permitted
from tests.support.paths import TESTS
from tests.support.unit_questions import asked, unit_questions

pytestmark = pytest.mark.core


def test_imports_keep_the_rule() -> None:
    assert sorted(broken()) == []


def test_nothing_asks_for_the_class_of_a_unit() -> None:
    assert sorted(unit_questions()) == []


def test_every_way_to_ask_for_a_class_is_counted() -> None:
    text = "isinstance(u, A | x.B)\ntype(u) is C\nmatch u:\n    case D() | E(f): pass\nisinstance(u, (F, G))\nH(u)"
    assert asked(ast.walk(ast.parse(text))) == Counter("ABCDEFG")


def test_every_package_is_in_the_table() -> None:
    found = {p.name.removesuffix(".py") for p in DOTR.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert found == set(permitted())


def test_table_permits_no_circle() -> None:
    assert in_circles((name, other) for name, others in permitted().items() for other in others) == []


def test_files_that_take_long_are_there() -> None:
    """A name that is no file's any more orders nothing, and nobody sees it."""
    assert [name for name in LONG if not any(TESTS.rglob(f"{name}.py"))] == []
