"""Messages of LARS files: each `.lars` file of `tests/errors` with its `.txt` file beside it.

Run as a program, the module writes the `.txt` files again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.languages.lars.reading import LarsCode, compile_lars
from dotr.model.places import Document
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

ERRORS = TESTS / "errors"
CASES = sorted(ERRORS.glob("*.lars"))


def messages(case: Path) -> str:
    files = compile_lars([Document(case.name, case.read_text("utf-8"))], {"": "http://example.org/"})
    return "\n\n".join(map(str, files.diagnostics)) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_lars_file_gives_its_message(case: Path) -> None:
    expected = case.with_suffix(".txt").read_text("utf-8")
    assert messages(case) == expected
    assert f" {case.stem.split('_')[0]} " in expected


def test_every_code_has_a_case() -> None:
    assert {code.value for code in LarsCode} - {case.stem.split("_")[0] for case in CASES} == {LarsCode.ONE_PARTITION}


if __name__ == "__main__":
    for case in CASES:
        case.with_suffix(".txt").write_text(messages(case), "utf-8")
