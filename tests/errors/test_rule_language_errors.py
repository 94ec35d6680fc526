"""Messages of the rule language: each `.dotr` file of `tests/errors` with its `.txt` file beside it.

Run as a program, the module writes the `.txt` files again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.languages.codes import RuleCode
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

ERRORS = TESTS / "errors"
CASES = sorted(ERRORS.glob("*.dotr"))
FOUND_BY_THE_ENGINE = {
    RuleCode.BACKGROUND_ALONE,
    RuleCode.ONE_PARTITION,
    RuleCode.NEVER_TICKS,
    RuleCode.TOO_MUCH_OF_THE_BACKGROUND,
    RuleCode.EVERY_EVENT_EVERYWHERE,
}
FOUND_IN_THE_DATA = {RuleCode.NEVER_AS_TYPED}
FOUND_WITH_THE_OUTPUTS = {RuleCode.UNREAD_INTERNAL}


def messages(case: Path) -> str:
    rules = compile_rules([Document(case.name, case.read_text("utf-8"))], {"": "http://example.org/"})
    return "\n\n".join(map(str, rules.diagnostics)) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_rule_file_gives_its_message(case: Path) -> None:
    expected = case.with_suffix(".txt").read_text("utf-8")
    assert messages(case) == expected
    assert f" {case.stem.split('_')[0]} " in expected


def test_every_rule_code_has_a_case() -> None:
    without = FOUND_BY_THE_ENGINE | FOUND_IN_THE_DATA | FOUND_WITH_THE_OUTPUTS
    assert {code.value for code in RuleCode} - {case.stem.split("_")[0] for case in CASES} == without


if __name__ == "__main__":
    for case in CASES:
        case.with_suffix(".txt").write_text(messages(case), "utf-8")
