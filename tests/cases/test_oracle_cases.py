"""Every case of `tests/cases` by the oracle: what was derived by hand is what it says too."""

from __future__ import annotations

import pytest

from tests.oracle.cases import Case, CaseFile, difference, read_folder, read_world
from tests.oracle.program import run
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

FILES = read_folder(TESTS / "cases")
CASES = [pytest.param(file, case, id=f"{name}: {case.name}") for name, file in FILES.items() for case in file.cases]


@pytest.mark.parametrize(("file", "case"), CASES)
def test_case(file: CaseFile, case: Case) -> None:
    world = read_world(
        [(str(path), path.read_text()) for path in file.rules],
        [path.read_text() for path in file.graphs],
        [(str(path), path.read_text()) for path in file.datalog],
        file.entailment,
        file.prefixes,
        case.clock,
    )
    result = run(world, case.elements)
    assert case.expect is None or difference(case.expect, result.outputs) == ""
    assert case.facts is None or difference(case.facts, result.facts) == ""
