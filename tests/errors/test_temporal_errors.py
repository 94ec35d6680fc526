"""Messages of EP-SPARQL: each `.epsparql` file of `tests/errors` with its `.txt` file beside it.

Run as a program, the module writes the `.txt` files again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.languages.epsparql.reading import TemporalCode, compile_temporal
from dotr.model.places import Document
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

ERRORS = TESTS / "errors"
CASES = sorted(ERRORS.glob("*.epsparql"))


def messages(case: Path) -> str:
    units = compile_temporal([Document(case.name, case.read_text("utf-8"))], {"": "http://example.org/"})
    return "\n\n".join(map(str, units.diagnostics)) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_unit_file_gives_its_message(case: Path) -> None:
    expected = case.with_suffix(".txt").read_text("utf-8")
    assert messages(case) == expected
    assert f" {case.stem.split('_')[0]} " in expected


FOUND_BY_THE_ENGINE = {
    TemporalCode.UNKNOWN_LABEL,
    TemporalCode.UNKNOWN_ATTRIBUTE,
    TemporalCode.OF_THE_BACKGROUND,
    TemporalCode.NOT_BASIC,
    TemporalCode.ONE_PARTITION_KEY,
}


def test_every_code_has_a_case() -> None:
    assert {code.value for code in TemporalCode} - {case.stem.split("_")[0] for case in CASES} == FOUND_BY_THE_ENGINE


if __name__ == "__main__":
    for case in CASES:
        case.with_suffix(".txt").write_text(messages(case), "utf-8")
