"""Parsers on 1,250 mutated inputs; `python -m tests.fuzz` runs more."""

from __future__ import annotations

import pytest

from tests import fuzz


def test_mutated_input_raises_only_diagnostics() -> None:
    assert list(fuzz.findings(range(1250), seed=0)) == []


def test_input_depends_on_number_and_seed_only() -> None:
    assert [fuzz.mutated(number, 3) for number in range(40)] == [fuzz.mutated(number, 3) for number in range(40)]
    assert fuzz.mutated(5, 3) != fuzz.mutated(5, 4)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the process dies (-11)"),
        ("bytes(600 << 20)", "MemoryError: "),
    ],
)
def test_failure_of_another_kind_is_a_finding(fault: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOTR_FUZZ_FAULT", fault)
    (found,) = fuzz.findings(range(7, 7 + len(fuzz.PARSERS)), seed=0)
    assert (found.parser, found.what) == ("times", message)
