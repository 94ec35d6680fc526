"""Counts of each rule: anchors, events, and the clause at which the last binding is lost.

The oracle counts by enumeration; the engine counts the same, however its rules are grouped and its
partitions and batches divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from hypothesis import given, note
from hypothesis import strategies as st

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.evaluation.limits import Limits
from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.temporal.matching.rule_counts import RuleCounts
from tests.oracle.temporal import Counts
from tests.support.properties import compiled, examples, oracle
from tests.support.running import Batched, by_time
from tests.support.strategies import PLAIN, ProgramText, programs
from tests.support.strategies_streams import streams
from tests.temporal.matching.test_patterns_limits import limited
from tests.temporal.matching.test_patterns_semantics import CUTS
from tests.temporal.matching.test_rule_templates import HEADER, crowded, dense, rules_of_one_template, thresholds

SECOND = 1_000_000


def counts_of(program: CompiledProgram, elements: Sequence[Element], clock: Clock, *, counted: bool = False) -> dict[str, RuleCounts]:
    """The counts of a run in one process; `counted`: with the bindings left after each clause."""
    names = frozenset(rule.name for rule in program.rules.rules) if counted else frozenset[str]()
    engine = Engine(program, clock, program.stage_two(clock, names))
    for time, graphs in by_time(elements).items():
        engine.step(time, graphs)
    for _ in engine.finish():
        pass
    return engine.rule_counts


def steps_of(program: CompiledProgram) -> dict[str, int]:
    """The number of clauses of each rule, `if` included."""
    return {rule.name: len(rule.clauses) + (rule.condition is not None) for rule in program.rules.rules}


def summaries(counts: Mapping[str, RuleCounts]) -> dict[str, tuple[int, int, int | None]]:
    """Anchors, events, and the furthest clause of a rule that has not fired, though it has anchors; without rules of which only
    delays that are errors are counted."""
    anchored = {name: each for name, each in counts.items() if each.anchors or not each.delay_errors}
    return {
        name: (each.anchors, each.events, each.furthest if each.anchors and not each.events else None) for name, each in anchored.items()
    }


def expected_summaries(counts: Mapping[str, Counts], steps: Mapping[str, int]) -> dict[str, tuple[int, int, int | None]]:
    """The `summaries` of the oracle's counts."""
    found = {}
    for name, number in steps.items():
        each = counts.get(name, Counts())
        if not each.anchors:
            continue
        furthest = next((place for place in range(number) if not each.after[place]), number)
        found[name] = each.anchors, each.events, furthest if each.anchors and not each.events else None
    return found


def check(text: ProgramText, elements: list[Element], cuts: Sequence[Micros] = ()) -> None:
    note(text.rules)
    program = compiled(text)
    expected, steps = oracle(text, elements, program).counts, steps_of(program)
    found = counts_of(program, elements, text.clock, counted=True)
    for name, number in steps.items():
        each = expected.get(name, Counts())
        mine = found.get(name, RuleCounts(after=(0,) * number))
        assert (mine.anchors, mine.events, mine.held_back) == (each.anchors, each.events, each.held_back)
        assert mine.after == tuple(each.after[place] for place in range(number))
        assert mine.errors == +each.errors
    together = counts_of(program, elements, text.clock)
    assert summaries(together) == expected_summaries(expected, steps)
    firsts = {name: each.first_error for name, each in together.items()}
    assert {name: each.errors for name, each in together.items() if each.errors} == {
        n: +each.errors for n, each in expected.items() if +each.errors
    }
    batched = Batched(program, text.clock, 3)
    for after, closed in pairwise([-LAST_MICRO, *sorted(set(cuts)), LAST_MICRO]):
        batched.batch([element for element in elements if after < element.time <= closed], closed)
    assert summaries(batched.rule_counts) == expected_summaries(expected, steps)
    for name, number in steps.items():
        mine = batched.rule_counts.get(name, RuleCounts())
        assert (mine.errors, mine.first_error) == (+expected.get(name, Counts()).errors, firsts.get(name)), number


@examples(40)
@given(programs(PLAIN), streams(), CUTS)
def test_counts_are_those_of_the_oracle(text: ProgramText, elements: list[Element], cuts: list[Micros]) -> None:
    check(text, elements, cuts)


@examples(40)
@given(st.one_of(rules_of_one_template(), thresholds()), st.one_of(streams(), dense(), crowded()))
def test_grouped_rules_are_counted_one_by_one(rules: list[str], elements: list[Element]) -> None:
    check(ProgramText(HEADER + "\n".join(rules), HEADER[: HEADER.index("query")], "", "none"), elements)


@examples(20)
@given(st.one_of(rules_of_one_template(), thresholds()), st.one_of(streams(), dense()), st.integers(0, 6))
def test_limits_do_not_change_anchors(rules: list[str], elements: list[Element], most: int) -> None:
    text = ProgramText(HEADER + "\n".join(rules), HEADER[: HEADER.index("query")], "", "none")
    note(text.rules)
    program = compiled(text)
    within = limited(program, Limits(matches=1 + most // 3, probes=most))
    found, anchors = counts_of(within, elements, text.clock), counts_of(program, elements, text.clock)
    assert {name: each.anchors for name, each in found.items()} == {name: each.anchors for name, each in anchors.items()}
