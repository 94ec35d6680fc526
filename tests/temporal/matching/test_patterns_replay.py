"""Stage two alone over recorded programs, whose facts and expected output are computed once.

Programs, streams and the oracle's answers are those of the property tests. A replay places and
compiles the rules again, then evaluates the recorded facts: about a millisecond, fast enough for
every mutant of `dotr/temporal/matching` (`./mutate`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dotr.engine.driver import Engine
from dotr.engine.multi_query import share_queries
from dotr.engine.program import CompiledProgram
from dotr.instant.instants import BlankNames, merge
from dotr.instant.stage_one import InstantFacts, StageOne, TickStream
from dotr.model.event_order import AttributeValues, sort_by_tie
from dotr.model.rules import FactSource
from dotr.model.stream import Element, Firing, Instant
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import lay_out
from tests.support.properties import compiled, oracle, output_signatures
from tests.support.running import by_time, in_batches, outputs
from tests.support.strategies import CORE, PLAIN, ProgramText, programs
from tests.support.strategies_streams import SECOND, streams
from tests.temporal.matching.test_rule_templates import HEADER, crowded, dense, rules_of_one_template, thresholds

REPLAYS = int(os.environ.get("DOTR_REPLAYS", "20"))

Facts = Mapping[FactSource, Sequence[AttributeValues]]


class Recorded(StageOne):
    """Stage one that replays recorded facts."""

    def __init__(self, program: CompiledProgram, streams: Sequence[FactSource], facts: Mapping[Micros, Facts], ticks: Facts) -> None:
        super().__init__(program.knowledge, ())
        numbers = {source: number for number, source in enumerate(streams)}
        self.ticks = [TickStream(numbers[s], s.period, sort_by_tie(s.attributes, list(rows))) for s, rows in ticks.items() if s.period]
        self.recorded = {
            time: {numbers[s]: sort_by_tie(s.attributes, list(rows)) for s, rows in found.items()} for time, found in facts.items()
        }

    def evaluate(self, instant: Instant, names: BlankNames | None = None) -> InstantFacts:
        return InstantFacts(self.recorded[instant.time], ())


@dataclass(frozen=True)
class Scenario:
    """A program, its facts by time and source in no order, its ticks, and the oracle's output."""

    text: ProgramText
    program: CompiledProgram
    facts: Mapping[Micros, Facts]
    ticks: Facts
    expected: Counter[tuple[object, ...]]

    @property
    def elements(self) -> list[Element]:
        return [Element(time, ()) for time in self.facts]

    def replayed(self) -> CompiledProgram:
        """The program with a new stage two."""
        layout = lay_out(share_queries(self.program.rules.rules))
        stage_one = Recorded(self.program, layout.streams, self.facts, self.ticks)
        return CompiledProgram(self.program.spec, self.program.rules, self.program.knowledge, layout, stage_one, ())


def recorded(text: ProgramText, elements: Sequence[Element]) -> Scenario:
    program = compiled(text)
    expected = output_signatures(oracle(text, elements, program).outputs)
    sources = program.layout.streams
    facts = {}
    for time, graphs in by_time(elements).items():
        found = program.stage_one.evaluate(merge(time, graphs)).facts
        facts[time] = {sources[number]: tuple(reversed(rows)) for number, rows in found.items()}
    ticks = {sources[each.stream]: tuple(reversed(each.rows)) for each in program.stage_one.ticks}
    return Scenario(text, program, facts, ticks, expected)


class _Enough(Exception):
    """Ends the drawing of examples; Hypothesis stops at a failure."""


def many(texts: st.SearchStrategy[ProgramText], inputs: st.SearchStrategy[list[Element]], number: int) -> list[Scenario]:
    """Scenarios drawn by the strategies, the same in every run; those without a firing are left
    out."""
    made: list[Scenario] = []

    @settings(
        max_examples=4 * number,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(texts, inputs)
    def collect(text: ProgramText, elements: list[Element]) -> None:
        if len(made) == number:
            raise _Enough
        scenario = recorded(text, elements)
        if scenario.expected:
            made.append(scenario)

    with suppress(_Enough):
        collect()
    return made


def joined(rules: list[str]) -> ProgramText:
    return ProgramText(HEADER + "\n".join(rules), HEADER[: HEADER.index("query")], "", "none")


KINDS: dict[str, Callable[[], list[Scenario]]] = {
    "plain": lambda: many(programs(PLAIN), streams(), 2 * REPLAYS),
    "general": lambda: many(programs(CORE), streams(), REPLAYS // 2),
    "alike": lambda: many(rules_of_one_template().map(joined), dense(), REPLAYS),
    "thresholds": lambda: many(thresholds().map(joined), crowded(), REPLAYS // 2),
}


@cache
def scenarios(kind: str) -> list[Scenario]:
    return KINDS[kind]()


@pytest.fixture
def made(request: pytest.FixtureRequest) -> list[Scenario]:
    """The scenarios of a kind, in a fixture so that the test's time excludes their recording."""
    return scenarios(request.param)


def engine(program: CompiledProgram, elements: Sequence[Element], clock: Clock) -> list[Firing]:
    run = Engine(program, clock)
    firings = [firing for element in elements for firing in run.step(element.time, [])[0]]
    return firings + [firing for firings in run.finish() for firing in firings]


@pytest.mark.parametrize("made", KINDS, indirect=True)
def test_replay_equals_the_oracle(made: list[Scenario]) -> None:
    assert len(made) > REPLAYS // 3
    for number, scenario in enumerate(made):
        program = scenario.replayed()
        one = engine(program, scenario.elements, scenario.text.clock)
        assert output_signatures(outputs(one)) == scenario.expected, scenario.text.rules
        cuts = [SECOND * (number % 9), 9 * SECOND // 2]
        assert in_batches(program, scenario.elements, scenario.text.clock, 1 + number % 4, cuts) == one, scenario.text.rules
