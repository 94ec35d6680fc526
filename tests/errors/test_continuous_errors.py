"""Messages of continuous queries: each `.rspql` file of `tests/errors` with its `.txt` file beside it.

Run as a program, the module writes the `.txt` files again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.languages.continuous.reading import WindowCode, compile_continuous
from dotr.model.places import Document
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

ERRORS = TESTS / "errors"
CASES = sorted(ERRORS.glob("*.rspql"))


def messages(case: Path) -> str:
    queries = compile_continuous([Document(case.name, case.read_text("utf-8"))], {"": "http://example.org/"})
    return "\n\n".join(map(str, queries.diagnostics)) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_query_file_gives_its_message(case: Path) -> None:
    expected = case.with_suffix(".txt").read_text("utf-8")
    assert messages(case) == expected
    assert f" {case.stem.split('_')[0]} " in expected


FOUND_BY_THE_ENGINE = {WindowCode.OF_THE_BACKGROUND, WindowCode.BACKGROUND_ANSWERS, WindowCode.ONE_PARTITION}


def test_every_code_has_a_case() -> None:
    assert {code.value for code in WindowCode} - {case.stem.split("_")[0] for case in CASES} == FOUND_BY_THE_ENGINE


if __name__ == "__main__":
    for case in CASES:
        case.with_suffix(".txt").write_text(messages(case), "utf-8")
