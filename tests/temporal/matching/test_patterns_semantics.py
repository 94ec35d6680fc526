"""Stage two over the whole rule language equals the oracle, for any partitions and batches."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from dotr.model.stream import Element
from dotr.model.time import Micros
from tests.support.properties import MOST, compiled, examples, oracle, output_signatures, shown
from tests.support.running import by_time, cut_into_stages, in_batches, outputs, run_engine
from tests.support.strategies import Features, ProgramText, programs
from tests.support.strategies_streams import SECOND, streams

PLAIN = Features(plain=True)
INSTANT = Features(plain=True, instant=True)

CUTS = st.lists(st.integers(-8, 60).map(lambda halves: halves * SECOND // 2), max_size=6)
"""Where batches end, which need not be at an instant."""


@examples(300)
@given(programs(PLAIN), streams())
def test_engine_equals_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    """Also with the state encoded and restored after every instant."""
    shown(text, elements)
    program = compiled(text)
    expected = oracle(text, elements, program)
    found = run_engine(program, elements, text.clock)
    assert output_signatures(found.outputs) == output_signatures(expected.outputs)
    assert run_engine(program, elements, text.clock, reload=True) == found


@examples(100)
@given(programs(PLAIN), streams(), CUTS)
def test_partitions_and_batches_equal_one_process(text: ProgramText, elements: list[Element], cuts: list[Micros]) -> None:
    """Fresh names are equal as well, and rules may be cut. A batch may end at a time without an instant."""
    shown(text, elements)
    program = compiled(text)
    expected = list(run_engine(program, elements, text.clock, most=MOST).outputs)
    assume(len(expected) <= MOST)
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
