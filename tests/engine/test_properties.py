"""Random programs: the engine agrees with the oracle. Programs of the whole rule language are in `tests/api/test_random_programs.py`."""

from __future__ import annotations

from hypothesis import given

from dotr.model.stream import Element
from tests.support.properties import compiled, examples, oracle, output_signatures, reported, shown
from tests.support.running import run_engine
from tests.support.strategies import STRATIFIED, ProgramText, programs, programs_of_expressions, programs_of_queries
from tests.support.strategies_streams import streams


def assert_agreed(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    program = compiled(text)
    expected = oracle(text, elements, program)
    found = run_engine(program, elements, text.clock)
    assert output_signatures(found.outputs) == output_signatures(expected.outputs)
    assert reported(found) == reported(expected)


@examples(100)
@given(programs_of_queries(), streams())
def test_queries_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)


@examples(100)
@given(programs_of_expressions(), streams())
def test_expressions_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)


@examples(80)
@given(programs(STRATIFIED), streams())
def test_stratified_programs_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)


@examples(20)
@given(programs(STRATIFIED, entailments=("rdfs", "owl2rl")), streams(longest=3))
def test_stratified_programs_under_entailment_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)


@examples(40)
@given(programs(entailments=("rdfs", "owl2rl")), streams(longest=4))
def test_programs_under_entailment_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)
