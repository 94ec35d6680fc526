"""Import rule of dotr/ARCHITECTURE.md (`tests/support/imports.py`); units are asked by methods (`tests/support/unit_questions.py`).

`tests/import_exceptions.txt` and `tests/unit_question_exceptions.txt` list what does not hold yet, one a line; the lists only shrink:
`python -m tests.test_architecture` removes what holds by now, and adds nothing.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import LONG
from tests.support.imports import DOTR, MOST_ENTRIES, broken, in_circles, permitted
from tests.support.paths import TESTS
from tests.support.unit_questions import asked, unit_questions

pytestmark = pytest.mark.core

EXCEPTIONS: Final = TESTS / "import_exceptions.txt"
QUESTIONS: Final = TESTS / "unit_question_exceptions.txt"


def listed(path: Path = EXCEPTIONS) -> set[str]:
    return set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()


def test_nothing_new_breaks_the_import_rule() -> None:
    assert sorted(broken() - listed()) == []


def test_exceptions_that_hold_by_now_are_not_listed() -> None:
    """`python -m tests.test_architecture` removes them."""
    assert sorted(listed() - broken()) == []


def test_nothing_new_asks_for_the_class_of_a_unit() -> None:
    assert sorted(unit_questions() - listed(QUESTIONS)) == []


def test_questions_that_are_gone_are_not_listed() -> None:
    """`python -m tests.test_architecture` removes them."""
    assert sorted(listed(QUESTIONS) - unit_questions()) == []


def test_every_way_to_ask_for_a_class_is_counted() -> None:
    text = "isinstance(u, A | x.B)\ntype(u) is C\nmatch u:\n    case D() | E(f): pass\nisinstance(u, (F, G))\nH(u)"
    assert asked(ast.parse(text)) == Counter("ABCDEFG")


def test_every_package_is_in_the_table() -> None:
    found = {p.name.removesuffix(".py") for p in DOTR.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert found == set(permitted())


def test_table_permits_no_circle() -> None:
    assert in_circles((name, other) for name, others in permitted().items() for other in others) == []


def test_files_that_take_long_are_there() -> None:
    """A name that is no file's any more orders nothing, and nobody sees it."""
    assert [name for name in LONG if not any(TESTS.rglob(f"{name}.py"))] == []


def shrink() -> None:
    """Removes from the lists what holds by now; a folder's number may fall, and nothing is added to a list that exists."""
    found, before = broken(), listed()
    counts = {line.split(" has ")[0]: int(line.split()[-2]) for line in before if line.endswith(" entries")}
    fewer = {
        line for line in found if line.endswith(" entries") and int(line.split()[-2]) < counts.get(line.split(" has ")[0], MOST_ENTRIES)
    }
    kept = (found & before) | fewer if EXCEPTIONS.exists() else found
    EXCEPTIONS.write_text("".join(f"{line}\n" for line in sorted(kept)), encoding="utf-8")
    questions = unit_questions()
    left = questions & listed(QUESTIONS) if QUESTIONS.exists() else questions
    QUESTIONS.write_text("".join(f"{line}\n" for line in sorted(left)), encoding="utf-8")
    sys.stderr.write(f"{len(kept)} exceptions, {len(left)} questions\n")


if __name__ == "__main__":
    shrink()
