"""Sessions with a record of their graphs, for explanations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dotr import Event, Program
from dotr.engine.driver import Engine
from dotr.engine.replay import Replay
from dotr.model.stream import Firing

TIMERS = """PREFIX : <http://e/>
rule Tick define Tick = [ [] :at ?t ] from every 4 s as T with Tick.?t = time(T)
rule Late define Late = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?x a :A } ] delayed by 3 s with Late.?x = A.?x
"""


@pytest.fixture
def timers(tmp_path: Path) -> Program:
    (tmp_path / "r.dotr").write_text(TIMERS, encoding="utf-8")
    return Program.load(tmp_path / "r.dotr", prefixes={"": "http://e/"})


def firings(replay: Replay) -> list[Firing]:
    """The firings of a replay."""
    engine = Engine(replay.program, replay.clock)
    found: list[Firing] = []
    for instant in replay.instants():
        found += instant.step(engine)
    if replay.ended:
        found += [each for moment in engine.finish() for each in moment]
    return found


def signatures(found: list[Firing] | list[Event]) -> list[tuple[str, dict[str, str]]]:
    return [(each.rule, dict(each.attributes)) for each in found]


def test_record_has_the_places_of_graphs(timers: Program) -> None:
    session = timers.session(record=True)
    session.advance(1, ":a a :A .", ":b a :A .")
    session.advance(3)
    replay = session.replay()
    assert [[str(place) for place in instant.places] for instant in replay.instants()] == [
        ["graph 1 of advance(1)", "graph 2 of advance(1)"],
        [],
    ]
    assert replay.prefixes == {"": "http://e/"}
    dated = timers.session(record=True)
    dated.advance(datetime(2024, 2, 29, 12, tzinfo=UTC), "")
    (instant,) = dated.replay().instants()
    assert [str(place) for place in instant.places] == ["graph 1 of advance(2024-02-29T12:00:00Z)"]


def test_calls_without_graphs_and_the_end_are_replayed(timers: Program) -> None:
    session = timers.session(record=True)
    events = [*session.advance(-5), *session.advance(1, ":a a :A ."), *session.advance(2), *session.advance(9)]
    assert signatures(firings(session.replay())) == signatures(events)
    assert {event.rule for event in events} == {"Tick", "Late"}
    events += [*session.advance(10, ":b a :A ."), *session.finish()]
    assert signatures(firings(session.replay())) == signatures(events)
    assert events[-1].attributes == {"x": "<http://e/b>"}


def test_refused_call_is_not_recorded(timers: Program) -> None:
    session = timers.session(record=True)
    session.advance(1, ":a a :A .")
    for time, graph in ((1, ""), (2, "no Turtle")):
        with pytest.raises(ValueError, match=r"not after|line"):
            session.advance(time, graph)
    assert len(list(session.replay().instants())) == 1


def test_end_of_a_with_block_does_not_end_the_recorded_stream(timers: Program) -> None:
    with timers.session(record=True) as session:
        session.advance(1, ":a a :A .")
    assert not session.replay().ended
    assert session.finish() == []
    assert not session.replay().ended
