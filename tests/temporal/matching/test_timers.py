"""Ticks and delayed anchors: in sessions, and through written states."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dotr import Program
from dotr.api.session import Session
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.instant.instants import merge
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.time import Clock, Unit
from dotr.temporal.matching.state import StateError

pytestmark = pytest.mark.core

HEADER = "PREFIX : <http://e/>\n"
OPEN = ":x a :Open ; :door :d ."
LEFT = """
rule Left define Left = [ [] :left ?door ; :since ?t ]
from Open = [ SELECT ?door WHERE { ?o a :Open ; :door ?door } ] delayed by 10 min
with Left.?door = Open.?door, Left.?t = time(Open)
"""
TICK = """
rule Tick define Ticked = [ [] :at ?t ] from every 10 min as Tick with Ticked.?t = time(Tick)
"""
ROOMS = """
rule Rooms define Seen = [ [] :room ?room ; :n ?n ]
from every 10 min for [ SELECT ?room WHERE { ?room a :Room } ] as Tick
and ?n = count(*) of Read = [ SELECT ?room WHERE { ?r :in ?room FILTER(?room = Tick.?room) } ] within [0, 10 min) from Tick
with Seen.?room = Tick.?room, Seen.?n = ?n
"""
AGAIN = """
rule Again define Left = [ [] :left ?door ; :since ?t ]
from Left as Before delayed by 5 min
with Left.?door = Before.?door, Left.?t = time(Before)
"""


def program(text: str, tmp_path: Path | None = None, background: str = "") -> CompiledProgram:
    graphs: tuple[str, ...] = ()
    if tmp_path is not None:
        path = tmp_path / "background.ttl"
        path.write_text(f"@prefix : <http://e/> .\n{background}")
        graphs = (str(path),)
    return compile_program(ProgramSpec((Document("t.dotr", HEADER + text),), (), graphs, prefixes={"": "http://e/"}, unit=Unit.MINUTE))


def times(session: Session, *advances: tuple[int, ...] | tuple[int, str]) -> list[list[object]]:
    return [[event.time for event in session.advance(*advance)] for advance in advances]


def test_delayed_anchor_fires_when_time_passes() -> None:
    session = Session(program(LEFT))
    assert times(session, (0, OPEN), (9,), (10,), (11,)) == [[], [], [10], []]
    assert session.finish() == []


def test_delayed_anchor_fires_with_the_next_instant_at_the_latest() -> None:
    session = Session(program(LEFT))
    assert times(session, (0, OPEN), (60, "")) == [[], [10]]


def test_session_end_fires_due_anchors_once() -> None:
    session = Session(program(LEFT + AGAIN))
    assert times(session, (0, OPEN), (12,)) == [[], [10]]
    (event,) = session.finish()  # the delayed anchor of 10; its event anchors another at 15, after the last time
    assert (event.time, event.attributes["t"]) == (15, '"10"^^<http://www.w3.org/2001/XMLSchema#integer>')
    assert session.finish() == []


def test_ticks_end_at_the_last_time() -> None:
    """At 15 are the door of 5 and the reminder of 10; neither reminds again after the end."""
    session = Session(program(LEFT + AGAIN))
    assert times(session, (0, OPEN), (5, OPEN), (12,)) == [[], [], [10]]
    assert [event.time for event in session.finish()] == [15, 15]


def test_ticks_fire_from_the_first_to_the_last_time_inclusive() -> None:
    session = Session(program(TICK))
    assert times(session, (10,), (11,), (40, ""), (49, OPEN), (50,)) == [[10], [], [20, 30, 40], [], [50]]
    assert session.finish() == []
    assert times(Session(program(TICK)), (-15, ""), (-1,), (0,)) == [[], [-10], [0]]
    assert times(Session(program(TICK)), (-20, ""), (-19,)) == [[-20], []]


def test_ticks_are_no_facts_of_instants(tmp_path: Path) -> None:
    rooms = program(ROOMS, tmp_path, ":a a :Room . :b a :Room .")
    assert [warning.code for warning in rooms.warnings if warning.code == "D501"] == []
    read = merge(0, [(("<http://e/c>", "<http://e/in>", "<http://e/a>"),)])
    assert [event.type for event in rooms.facts_of_interest(read)] == ["Read"]
    session = Session(rooms)
    session.advance(1, ":r :in :a . :c a :Room .")
    assert [(event.attributes["room"], event.attributes["n"][1]) for event in session.advance(10)] == [
        ("<http://e/b>", "0"),
        ("<http://e/a>", "1"),
    ]


def test_program_with_delays_or_ticks_is_timed(tmp_path: Path) -> None:
    assert program(LEFT).timed
    assert program(TICK).timed
    assert program(ROOMS, tmp_path, ":a a :Room .").timed
    assert not program(ROOMS).timed  # no room, no tick
    assert not program("define B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x").timed


def test_waiting_anchors_are_part_of_the_state() -> None:
    (layer,) = program(LEFT).stage_two(Clock())
    (other,) = program(TICK).stage_two(Clock())
    state = layer.start()
    layer.step(state, 5, {0: [(0, ("<http://e/d>",)), (1, (None,))]})
    state.passed = 7
    written = state.encode()
    again = layer.restore(written)
    assert (again.encode(), len(again), again.passed) == (written, 2, 7)
    assert layer.next_due(again) == 600_000_005
    assert len(layer.step(again, 600_000_005, {}).firings) == 2
    assert (layer.next_due(again), len(again)) == (None, 0)
    with pytest.raises(StateError, match="another program"):
        other.restore(written)


DAYS = """
rule Day define Day = [ [] :at ?t ] from every day in "Europe/Berlin" as Day with Day.?t = time(Day)
rule Hour define Hour = [ [] :at ?t ] from every hour in "Asia/Kathmandu" as hour with Hour.?t = time(hour)
rule Week define Week = [ [] :room ?room ]
from every monday at 06:30 in "America/New_York" for [ SELECT ?room WHERE { ?room a :Room } ] as monday with Week.?room = monday.?room
"""


def test_ticks_by_the_calendar_of_a_zone(tmp_path: Path) -> None:
    """In minutes from 2026-03-28T22:59Z on: Berlin's day has 23 hours, Kathmandu is 5:45 ahead, New York 4 hours behind."""
    session = Session(program(DAYS, tmp_path, ":a a :Room . :b a :Room ."))
    begin = 29_578_979
    advanced = [event for advance in (0, 60, 2_500) for event in session.advance(begin + advance)]
    told = [(event.type, event.time - begin) for event in advanced if isinstance(event.time, int)]
    assert [time for label, time in told if label == "Day"] == [1, 1 + 23 * 60]
    assert [time for label, time in told if label == "Hour"] == list(range(16, 2_501, 60))
    assert [time for label, time in told if label == "Week"] == [2_131, 2_131]  # Monday 2026-03-30, 06:30 in summer time


@pytest.mark.parametrize("seed", range(3))
def test_ticks_by_calendar_go_on_in_a_restored_session(seed: int, tmp_path: Path) -> None:
    source, begin = random.Random(seed), 29_578_979
    compiled = Program.load(text_file(tmp_path, HEADER + DAYS), prefixes={"": "http://e/"}, unit="min")
    steps = sorted(source.sample(range(begin, begin + 5_000), 20))
    whole, parts = compiled.session(), compiled.session()
    for step in steps:
        expected = [(event.type, event.time) for event in whole.advance(step)]
        if source.random() < 0.5:
            parts = compiled.restore(parts.save())
        assert [(event.type, event.time) for event in parts.advance(step)] == expected


def test_words_of_calendars_are_labels_and_names() -> None:
    ticks = 'every day at 06:00 in "UTC" for [ SELECT ?s { ?s ?p ?o } ] as monday'
    words = program(f"rule day define month = [ [] :at ?at ] from {ticks} with month.?at = time(monday)")
    assert [rule.name for rule in words.rules.rules] == ["day"]


def text_file(folder: Path, text: str) -> Path:
    path = folder / "days.dotr"
    path.write_text(text)
    return path
