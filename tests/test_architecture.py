"""Import rule of dotr/ARCHITECTURE.md (`tests/support/imports.py`).

`tests/import_exceptions.txt` lists what does not hold yet, one a line; the list only shrinks: `python -m tests.test_architecture` removes
what holds by now, and adds nothing.
"""

from __future__ import annotations

import sys
from typing import Final

import pytest

from tests.conftest import LONG
from tests.support.imports import DOTR, MOST_ENTRIES, broken, in_circles, permitted
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

EXCEPTIONS: Final = TESTS / "import_exceptions.txt"


def listed() -> set[str]:
    return set(EXCEPTIONS.read_text(encoding="utf-8").splitlines()) if EXCEPTIONS.exists() else set()


def test_nothing_new_breaks_the_import_rule() -> None:
    assert sorted(broken() - listed()) == []


def test_exceptions_that_hold_by_now_are_not_listed() -> None:
    """`python -m tests.test_architecture` removes them."""
    assert sorted(listed() - broken()) == []


def test_every_package_is_in_the_table() -> None:
    found = {p.name.removesuffix(".py") for p in DOTR.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert found == set(permitted())


def test_table_permits_no_circle() -> None:
    assert in_circles((name, other) for name, others in permitted().items() for other in others) == []


def test_files_that_take_long_are_there() -> None:
    """A name that is no file's any more orders nothing, and nobody sees it."""
    assert [name for name in LONG if not any(TESTS.rglob(f"{name}.py"))] == []


def shrink() -> None:
    """Removes from the list what holds by now; a folder's number may fall, and nothing is added to a list that exists."""
    found, before = broken(), listed()
    counts = {line.split(" has ")[0]: int(line.split()[-2]) for line in before if line.endswith(" entries")}
    fewer = {
        line for line in found if line.endswith(" entries") and int(line.split()[-2]) < counts.get(line.split(" has ")[0], MOST_ENTRIES)
    }
    kept = (found & before) | fewer if EXCEPTIONS.exists() else found
    EXCEPTIONS.write_text("".join(f"{line}\n" for line in sorted(kept)), encoding="utf-8")
    sys.stderr.write(f"{len(kept)} exceptions\n")


if __name__ == "__main__":
    shrink()
