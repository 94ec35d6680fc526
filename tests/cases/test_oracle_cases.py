"""Every case of `tests/cases` by the oracle: what was derived by hand is what it says too."""

from __future__ import annotations

from functools import cache

import pytest

from dotr.engine.spec import RuleSet
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from tests.oracle.cases import Case, CaseFile, difference, read_folder, world
from tests.oracle.program import run
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

FILES = read_folder(TESTS / "cases")
CASES = [pytest.param(file, case, id=f"{name}: {case.name}") for name, file in FILES.items() for case in file.cases]


@cache
def rules_of(file: CaseFile) -> RuleSet:
    """The rules of a file, read once for all of its cases."""
    read = compile_rules([Document(str(path), path.read_text()) for path in file.rules], file.prefixes)
    assert not read.errors, "\n".join(map(str, read.errors))
    return read


@pytest.mark.parametrize(("file", "case"), CASES)
def test_case(file: CaseFile, case: Case) -> None:
    made = world(
        rules_of(file),
        [path.read_text() for path in file.graphs],
        [(str(path), path.read_text()) for path in file.datalog],
        file.entailment,
        file.prefixes,
        case.clock,
    )
    result = run(made, case.elements)
    assert case.expect is None or difference(case.expect, case.compared(made.rules, result.outputs)) == ""
    assert case.facts is None or difference(case.facts, result.facts) == ""
