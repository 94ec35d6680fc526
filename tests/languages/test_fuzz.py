"""A thousand mutated inputs of the parsers (`python -m tests.fuzz` is the long form)."""

from __future__ import annotations

import pytest

from tests import fuzz


def test_whatever_parsers_are_given_they_answer_with_diagnostics() -> None:
    assert list(fuzz.findings(range(1000), seed=0)) == []


def test_an_input_is_a_function_of_its_number_and_the_seed() -> None:
    assert [fuzz.mutated(number, 3) for number in range(40)] == [fuzz.mutated(number, 3) for number in range(40)]
    assert fuzz.mutated(5, 3) != fuzz.mutated(5, 4)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raise KeyError('x')", "KeyError: 'x'"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "the process dies (-11)"),
        ("bytes(600 << 20)", "MemoryError: "),
    ],
)
def test_what_is_no_diagnostic_is_a_finding(what: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOTR_FUZZ_FAULT", what)
    (found,) = fuzz.findings(range(7, 14), seed=0)
    assert (found.number, found.parser, found.what) == (10, "times", said)
