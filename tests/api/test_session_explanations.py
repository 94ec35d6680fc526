"""`Session.why_not` and `Session.why`: explanations of the events of a session, and of missing ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dotr import IRI, DotrError, Program, Session

pytestmark = pytest.mark.core

LEAK = """PREFIX : <http://example.org/why#>
query Temp  = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
query Gas   = [ SELECT ?room ?ppm WHERE { ?r :ppm ?ppm ; :in ?room } ]

rule Leak "Gas over 300 ppm within two minutes after more than 75 degrees in the same room."
define Leak = [ dotr_id a :Leak ; :room ?room ; :celsius ?v ; :ppm ?ppm ]
from Gas [ FILTER(?ppm > 300) ]
and last Temp as Hot [ FILTER(?room = Gas.?room && ?v > 75) ] within 2 min from Gas
with Leak.?room = Gas.?room, Leak.?v = Hot.?v, Leak.?ppm = Gas.?ppm
consuming Hot

rule Left define Left = [ [] :room ?room ] from Gas delayed by 1 min with Left.?room = Gas.?room
rule Again define Again = [ [] :room ?room ] from Leak with Again.?room = Leak.?room
"""
PREFIXES = {"": "http://example.org/why#"}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "why.dotr").write_text(LEAK, encoding="utf-8")
    return Program.load(tmp_path / "why.dotr", prefixes=PREFIXES)


def temp(room: str, value: object) -> str:
    return f"[] :celsius {value} ; :in :{room} ."


def gas(room: str, value: object) -> str:
    return f"[] :ppm {value} ; :in :{room} ."


@pytest.fixture
def session(program: Program) -> Session:
    """A session with a reading that is too old at 132, and a firing at 260."""
    session = program.session(record=True)
    session.advance(0, temp("lab", 80))
    session.advance(132, gas("lab", 400))
    session.advance(200, temp("attic", 90))
    session.advance(260, gas("attic", 500))
    return session


def test_why_not_names_the_unsatisfied_clause(session: Session) -> None:
    answer = session.why_not("Leak", at=132)
    assert answer.text == str(answer) == repr(answer)
    assert answer.text == (
        "Leak: 1 anchor, 0 after Hot\n"
        "  Gas at 132, room :lab, ppm 400: nothing for Hot in [12, 132)\n"
        "    Temp at 0, room :lab, v 80: every condition holds; 132 s before Gas, 12 s too far\n"
        "  It fires with `within 132 s`."
    )
    assert answer.data["fired"] is False
    assert answer._repr_html_() == f"<pre>{answer.text}</pre>"


def test_why_not_counts_all_anchors_without_a_time(session: Session) -> None:
    answer = session.why_not("Leak")
    assert answer.text.startswith("Leak: 2 anchors, 1 after Hot, 1 event\n  Gas at 132, ")
    assert answer.data["fired"] is True


@pytest.mark.parametrize(
    ("room", "anchors"),
    [(":lab", 1), (IRI("http://example.org/why#lab"), 1), ("<http://example.org/why#attic>", 1), (":hall", 0)],
)
def test_where_selects_anchors(session: Session, room: object, anchors: int) -> None:
    assert session.why_not("Leak", where={"room": room}).text.startswith(f"Leak: {anchors} anchor")


def test_numbers_select_by_value(session: Session) -> None:
    assert [session.why_not("Leak", where={"ppm": ppm}).text[:14] for ppm in (400, 400.0, "400.0")] == ["Leak: 1 anchor"] * 3


def test_session_can_be_advanced_after_a_question(session: Session) -> None:
    session.why_not("Leak")
    session.advance(300, temp("lab", 99))
    assert [event.rule for event in session.advance(310, gas("lab", 301))] == ["Again", "Leak"]
    assert session.why_not("Leak").text.startswith("Leak: 3 anchors, 2 after Hot, 2 events")


def test_finished_session_answers(program: Program) -> None:
    with program.session(record=True) as session:
        session.advance(0, gas("lab", 400))
    assert session.why_not("Leak").text.startswith("Leak: 1 anchor, 0 after Hot")


def test_session_without_calls_answers(program: Program) -> None:
    assert program.session(record=True).why_not("Leak").text.startswith("Leak: 0 anchors")


def test_times_of_questions_may_be_datetimes(program: Program) -> None:
    session = program.session(record=True)
    session.advance(datetime(2024, 3, 1, 7, tzinfo=UTC), gas("lab", 400))
    session.advance(datetime(2024, 3, 1, 8, tzinfo=UTC), gas("hall", 400))
    assert "Gas at 2024-03-01T07:00:00Z, room :lab" in session.why_not("Leak", at=datetime(2024, 3, 1, 7)).text
    with pytest.raises(DotrError, match="is no time of this session"):
        session.why_not("Leak", at=12)


def test_calls_without_graphs_are_replayed(program: Program) -> None:
    session = program.session(record=True)
    session.advance(10, gas("lab", 400))
    assert [event.rule for event in session.advance(70)] == ["Left"]
    assert session.why_not("Left").text.startswith("Left: 1 anchor, 1 event")


def test_end_of_the_session_is_replayed(program: Program) -> None:
    session = program.session(record=True)
    session.advance(10, gas("lab", 400))
    session.finish()
    assert session.why_not("Left").text.startswith("Left: 1 anchor, 1 event")


def test_pending_delayed_anchor_is_reported_as_waiting(program: Program) -> None:
    session = program.session(record=True)
    session.advance(10, gas("lab", 400))
    session.advance(20)
    assert session.why_not("Left").text == "Left: 1 anchor waits until 70. All is closed up to 20."


def test_time_without_a_graph_is_no_instant(program: Program) -> None:
    session = program.session(record=True)
    session.advance(10, temp("lab", 10))
    session.advance(20)
    assert "at 1 instant" in session.why_not("Leak").text


def test_suggested_questions_are_calls(program: Program) -> None:
    session = program.session(record=True)
    session.advance(10, gas("lab", 400))
    assert session.why_not("Again").text.endswith('There is no event Leak here: session.why_not("Leak")')


# --- why ---


def test_why_leads_to_the_graphs_of_calls(program: Program) -> None:
    session = program.session(record=True)
    session.advance(0, temp("hall", 20), temp("lab", 80))
    events = session.advance(60, gas("lab", 400))
    answer = session.why(next(event for event in events if event.rule == "Leak"))
    assert answer.text.startswith("Leak at 60, urn:dotr:")
    assert "graph 2 of advance(0)" in answer.text
    assert "graph 1 of advance(60)" in answer.text
    assert "graph 1 of advance(0)" not in answer.text
    assert answer.data["kind"] == "event"
    assert answer._repr_html_().startswith("<pre>Leak at 60")


def test_why_explains_each_event(program: Program) -> None:
    """Events of other rules, of delayed anchors and of the end; equal events are identified by their names."""
    session = program.session(record=True)
    events = [*session.advance(0, temp("lab", 80), temp("lab", 90), temp("hall", 76))]
    events += session.advance(60, gas("lab", 400), gas("hall", 500))
    events += session.advance(125)
    events += session.advance(130, gas("hall", 10))
    events += session.finish()
    assert [event.rule for event in events] == ["Again", "Again", "Leak", "Leak", "Left", "Left", "Left"]
    for event in events:
        text = session.why(event).text
        assert text.startswith(f"{event.rule} at {event.time}")
        room = event.values["room"]
        assert isinstance(room, str)
        assert f"room :{room.rpartition('#')[2]}" in text
    assert len({session.why(event).text for event in events}) == 7


def test_why_distinguishes_equal_events(tmp_path: Path) -> None:
    (tmp_path / "r.dotr").write_text(
        "PREFIX : <http://e/> rule R define E = [ dotr_id :room ?room ] from A = [ SELECT ?x ?room WHERE { ?x :in ?room } ] "
        "with E.?room = A.?room",
        encoding="utf-8",
    )
    session = Program.load(tmp_path / "r.dotr", prefixes={"": "http://e/"}).session(record=True)
    one, other = session.advance(1, ":a :in :lab .", ":b :in :lab .")
    assert one.attributes == other.attributes
    found = [session.why(event).text for event in (one, other)]
    for event, text in zip((one, other), found, strict=True):
        (name,) = {line.split()[0] for line in event.graph.split("\n")}
        assert name[1:17] in text
    assert found[0] != found[1]


def test_why_of_another_event_raises(session: Session, program: Program) -> None:
    other = program.session()
    other.advance(0, temp("lab", 80))
    event = other.advance(50, gas("lab", 400))[1]
    with pytest.raises(DotrError, match="this session made no such event of rule Leak at 50"):
        session.why(event)
    with pytest.raises(DotrError, match="keeps no record"):
        other.why(event)


# --- refused questions ---


def test_session_without_a_record_is_refused_with_a_remedy(program: Program) -> None:
    session = program.session()
    session.advance(0, gas("lab", 400))
    with pytest.raises(DotrError, match=r"keeps no record of what it is given: make it with session\(record=True\)"):
        session.why_not("Leak")


def test_restored_session_does_not_explain(session: Session, program: Program) -> None:
    with pytest.raises(DotrError, match="a restored session cannot explain: what it was given before it was saved is not kept"):
        program.restore(session.save()).why_not("Leak")


def test_unknown_names_are_refused_with_the_known_ones(session: Session) -> None:
    with pytest.raises(DotrError, match=r"there is no rule Leek. Did you mean Leak\?"):
        session.why_not("Leek")
    with pytest.raises(DotrError, match=r"there is no rule 5x. The program has Leak, Left, Again."):
        session.why_not("5x")
    with pytest.raises(DotrError, match=r"Gas has no attribute rom. Did you mean room\?"):
        session.why_not("Leak", where={"rom": ":lab"})
    with pytest.raises(ValueError, match=r"'lab' is no term in Turtle: write :name, or '\"lab\"' for a text"):
        session.why_not("Leak", where={"room": "lab"})
    with pytest.raises(DotrError, match="'12' is no time"):
        session.why_not("Leak", at="12")  # type: ignore[arg-type]
