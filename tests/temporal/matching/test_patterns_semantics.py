"""Stage two over the whole rule language equals the oracle, for any partitions, batches and limits."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from dotr.engine.program import CompiledProgram
from dotr.evaluation.limits import Limits
from dotr.model.stream import Element
from dotr.model.time import Micros
from tests.oracle.temporal import Output
from tests.support.properties import MOST, compiled, examples, oracle, output_signatures, shown
from tests.support.running import by_time, cut_into_stages, in_batches, outputs, run_engine
from tests.support.strategies import PLAIN, Features, ProgramText, programs
from tests.support.strategies_streams import SECOND, streams
from tests.temporal.matching.test_patterns_limits import LIMITS, check_random

INSTANT = Features(plain=True, instant=True)

CUTS = st.lists(st.integers(-8, 60).map(lambda halves: halves * SECOND // 2), max_size=6)
"""Where batches end, which need not be at an instant."""


FURTHER = st.integers(0, 1 << 32).flatmap(lambda number: LIMITS if number % 2 else CUTS)
"""What else a program is tried with: limits, or ends of batches. Hypothesis would draw one of two booleans most of the time."""


@examples(300)
@given(programs(PLAIN), streams(), FURTHER)
def test_engine_equals_the_oracle(text: ProgramText, elements: list[Element], further: list[Micros] | Limits) -> None:
    """Also with the state encoded and restored after every instant. A program is compiled once for all that is asked of it, since that and
    its generation take most of the time.
    """
    shown(text, elements)
    program = compiled(text)
    if isinstance(further, Limits):
        check_random(program, text, elements, further)
    found = run_engine(program, elements, text.clock, most=MOST)
    assume(len(found.outputs) <= MOST)
    if not isinstance(further, Limits):
        check_batches(program, text, elements, further, list(found.outputs))
    expected = oracle(text, elements, program)  # skips what names decide, unlike the checks before
    assert output_signatures(found.outputs) == output_signatures(expected.outputs)
    assert run_engine(program, elements, text.clock, reload=True) == found


def check_batches(program: CompiledProgram, text: ProgramText, elements: list[Element], cuts: list[Micros], expected: list[Output]) -> None:
    """Partitions and batches give the outputs of one process. Fresh names are equal as well, and rules may be cut. A batch may end at a
    time without an instant."""
    assert outputs(in_batches(program, elements, text.clock, 1, cuts)) == expected
    assert outputs(in_batches(program, elements, text.clock, 7, cuts)) == expected
    if (cut := cut_into_stages(program)) is not None:
        assert outputs(in_batches(cut, elements, text.clock, 3, cuts)) == expected


@examples(100)
@given(programs(INSTANT), streams())
def test_rules_of_one_instant_need_no_state(text: ProgramText, elements: list[Element]) -> None:
    """A new engine per instant gives the output of one engine for all, consumption included."""
    shown(text, elements)
    program = compiled(text)
    assert program.layout.stateful_operators == 0
    found = run_engine(program, elements, text.clock)
    assert output_signatures(found.outputs) == output_signatures(oracle(text, elements, program).outputs)
    alone = [run_engine(program, [Element(time, each) for each in graphs], text.clock) for time, graphs in by_time(elements).items()]
    assert [output for each in alone for output in each.outputs] == list(found.outputs)
