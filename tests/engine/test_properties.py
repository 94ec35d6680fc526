"""Random programs: the engine agrees with the oracle, and the order of lists has no effect."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from dotr.model.stream import Element
from tests.support.properties import MOST, compiled, examples, oracle, output_signatures, reported, shown
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


@examples(350)
@given(programs(), streams())
def test_programs_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    assert_agreed(text, elements)


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


@examples(60)
@given(programs(), streams(), st.randoms(use_true_random=False))
def test_the_order_of_lists_does_not_matter(text: ProgramText, elements: list[Element], random: Random) -> None:
    """The order of elements, of statements in rule files, of triples and of Datalog rules has no
    effect on outputs, fresh names included.
    """
    shown(text, elements)
    shuffled = list(elements)
    random.shuffle(shuffled)
    forwards = run_engine(compiled(text), elements, text.clock, most=MOST)
    assume(len(forwards.outputs) < MOST)
    backwards = run_engine(compiled(text, backwards=True), shuffled, text.clock)
    assert backwards.outputs == forwards.outputs
