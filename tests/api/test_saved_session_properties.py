"""Random programs and streams: the unchanged rules of a changed program continue in a saved session as in an uninterrupted one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dotr import Event, Session
from dotr.api.events import utc
from dotr.engine.program import CompiledProgram
from dotr.engine.state.migration import StateFate, state_change
from dotr.engine.state.schema import state_schema
from dotr.model.stream import Element
from dotr.model.terms import Triple
from dotr.model.time import Micros
from tests.engine.state import test_state_migration as changing
from tests.support.properties import examples
from tests.support.running import by_time


def advanced(session: Session, instants: Sequence[tuple[Micros, Sequence[tuple[Triple, ...]]]]) -> list[Event]:
    return [event for time, graphs in instants for event in session.advance(utc(time), *graphs)]


@examples(60)
@given(changing.programs(), changing.streams(), st.data())
def test_unchanged_rules_keep_their_state_and_changed_rules_start_without(
    texts: list[list[str]], elements: list[Element], data: st.DataObject
) -> None:
    made: list[CompiledProgram] = [changing.program(changing.with_clock(rules)) for rules in texts[:2]]
    instants = list(by_time(elements).items())
    cut = data.draw(st.integers(1, len(instants) - 1), label="cut")
    first = Session(made[0])
    advanced(first, instants[:cut])
    restored = Session.restored(made[1], first.save())
    fresh = Session(made[1])
    fresh.advance(utc(instants[cut - 1][0]))
    runs = [[*advanced(session, instants[cut:]), *session.finish()] for session in (first, restored, fresh)]
    fates = {verdict.rule: verdict.fate for verdict in state_change(state_schema(made[0]), made[1], 0).verdicts}
    reads = [{rule.name: set(rule.reads) for rule in state_schema(program).rules} for program in made]
    same = {rule.split()[1] for rule in texts[0] if rule in texts[1]} | {"Clock"}
    assert {name for name, fate in fates.items() if fate is StateFate.KEPT} >= same
    kept = {name for name in same if reads[0][name] == reads[1][name] <= same}
    empty = {name for name, fate in fates.items() if fate is StateFate.EMPTY}
    alone = {name for name in empty if reads[1][name] <= empty}

    def of(events: list[Event], rules: set[str]) -> list[Event]:
        return [event for event in events if event.rule in rules]

    assert of(runs[1], kept) == of(runs[0], kept)
    assert of(runs[1], alone) == of(runs[2], alone)
