"""Random programs, each compiled once: the engine agrees with the oracle, and has one more property of several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, TypeAlias

from hypothesis import assume, given

from dotr import Event, Session
from dotr.api.events import utc
from dotr.engine.program import CompiledProgram
from dotr.model.stream import Element
from dotr.model.terms import Triple
from dotr.model.time import Micros
from tests.api.test_recorded_session import firings, signatures
from tests.explanations.test_rule_evaluation import assert_counted, assert_evaluated_alike
from tests.oracle.program import Result
from tests.support.properties import MOST, compiled, examples, oracle, output_signatures, reported, scattered, shown
from tests.support.running import by_time, run_engine
from tests.support.strategies import ProgramText, programs
from tests.support.strategies_streams import streams


@dataclass(frozen=True, slots=True)
class RandomRun:
    """A program, its stream, what the engine finds, and a source of further choices."""

    text: ProgramText
    program: CompiledProgram
    elements: list[Element]
    found: Result
    random: Random

    @property
    def instants(self) -> list[tuple[Micros, list[tuple[Triple, ...]]]]:
        return list(by_time(self.elements).items())


Property: TypeAlias = Callable[[RandomRun], None]


def order_of_lists_has_no_effect(run: RandomRun) -> None:
    """The order of elements, of statements in rule files, of triples and of Datalog rules has none on outputs, fresh names included."""
    shuffled = list(run.elements)
    run.random.shuffle(shuffled)
    assert run_engine(compiled(run.text, backwards=True), shuffled, run.text.clock).outputs == run.found.outputs


def advanced(session: Session, instants: Sequence[tuple[Micros, Sequence[tuple[Triple, ...]]]]) -> list[Event]:
    return [event for time, graphs in instants for event in session.advance(utc(time), *graphs)]


def saved_and_restored_session_is_uninterrupted(run: RandomRun) -> None:
    """Saved at any instants."""
    whole = Session(run.program)
    expected = [*advanced(whole, run.instants), *whole.finish()]
    session, events = Session(run.program), []
    for instant in run.instants:
        events += advanced(session, [instant])
        if run.random.random() < 0.5:
            session = Session.restored(run.program, session.save())
    assert events + session.finish() == expected


def replay_of_a_session_gives_its_events(run: RandomRun) -> None:
    session = Session(run.program, record=True)
    events = [*advanced(session, run.instants), *session.finish()]
    assert signatures(firings(session.replay())) == signatures(events)


def session_explains_each_event_and_each_rule(run: RandomRun) -> None:
    session = Session(run.program, record=True)
    events = [*advanced(session, run.instants), *session.finish()]
    for event in events[:5]:
        assert re.match(rf"{re.escape(event.type)} (\(rule {re.escape(event.rule)}\) )?at ", session.why(event).text)
    counts = Counter(event.rule for event in events)
    for rule in run.program.rules.rules:
        funnel = session.why_not(rule.name).data["funnel"]
        assert isinstance(funnel, dict)
        assert funnel["events"] == counts[rule.name]


def internal_events_are_hidden_and_nothing_else(run: RandomRun) -> None:
    """Some events of the program are internal: rules read them as before, and a session has them where they are wanted."""
    events = sorted({rule.event for rule in run.program.rules.rules})
    internal = {event for event in events if run.random.random() < 0.5}
    rules = re.sub(
        r"(?i)\b(define) +(F\d)", lambda found: f"{found[1]} internal {found[2]}" if found[2] in internal else found[0], run.text.rules
    )
    program = compiled(replace(run.text, rules=rules))
    assert program.internal == internal
    whole = Session(run.program)
    expected = [*advanced(whole, run.instants), *whole.finish()]
    for wanted in (False, True):
        session = Session(program)
        found = [event for time, graphs in run.instants for event in session.advance(utc(time), *graphs, internal=wanted)]
        found += session.finish(internal=wanted)
        assert found == [event for event in expected if wanted or event.type not in internal]


def rules_are_evaluated_as_by_the_engine(run: RandomRun) -> None:
    assert_evaluated_alike(run.program, run.text, run.elements, run.found.outputs)


def answers_count_the_events_of_the_engine(run: RandomRun) -> None:
    assert_counted(run.program, run.text, run.elements, run.found.outputs)


PROPERTIES: Final[Sequence[Property | None]] = (
    *[order_of_lists_has_no_effect] * 6,
    *[saved_and_restored_session_is_uninterrupted] * 12,
    *[replay_of_a_session_gives_its_events] * 4,
    *[session_explains_each_event_and_each_rule] * 3,
    *[internal_events_are_hidden_and_nothing_else] * 2,
    *[None] * 7,
)
"""The further properties of which a program is tried with one; None: with none."""

PROPERTIES_OF_ONE_ANSWER: Final[Sequence[Property | None]] = (
    *[rules_are_evaluated_as_by_the_engine] * 12,
    *[answers_count_the_events_of_the_engine] * 6,
    *[None] * 16,
)
"""The same for a program with one answer, whatever names its blank nodes have."""


@examples(350)
@given(programs(), streams())
def test_programs_agree_with_the_oracle(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    program = compiled(text)
    found = run_engine(program, elements, text.clock, most=MOST)
    assume(len(found.outputs) <= MOST)
    run = RandomRun(text, program, elements, found, scattered(text, elements))
    if (further := run.random.choice(PROPERTIES)) is not None:
        further(run)
    expected = oracle(text, elements, program)
    assert output_signatures(found.outputs) == output_signatures(expected.outputs)
    assert reported(found) == reported(expected)
    if (further := run.random.choice(PROPERTIES_OF_ONE_ANSWER)) is not None:
        further(run)
