"""`Session.save` and `Program.restore`: a restored session equals an uninterrupted one, even if some rules have changed."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

import pytest

from dotr import DotrError, Event, Program, Session
from dotr.errors.diagnostics import Refused
from tests.support.paths import TESTS

pytestmark = pytest.mark.core

HEADER = "PREFIX : <http://e/>\nquery Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]\n"
RISE = """rule Rise define Rise = [ [] :room ?room ; :by ?by ] from Reading as Now
and last Reading as Before [ FILTER(?room = Now.?room) ] within 9 s from Now
with Rise.?room = Now.?room, Rise.?by = Now.?v - Before.?v
"""
HIGH = """rule High define High = [ [] :room ?room ] from Reading [ FILTER(?v > {}) ]
and last Reading as Low [ FILTER(?v < {}) ] within 20 s from Reading with High.?room = Reading.?room consuming Low
"""
PAIR = """rule Pair define Pair = [ [] :one ?one ; :other ?other ] from Rise
and each Rise as Earlier [ FILTER(?by = Rise.?by) ] within 30 s from Rise with Pair.?one = Rise.?room, Pair.?other = Earlier.?room
"""
QUIET = """rule Quiet define Quiet = [ [] :room ?room ] from Reading delayed by 5 s
and not Reading as Next [ FILTER(?room = Reading.?room) ] within [0, 5 s) from Reading with Quiet.?room = Reading.?room
"""
TICK = "rule Tick define Tick = [ [] :n ?n ] from every 4 s as T and ?n = count(*) of Reading within 8 s from T with Tick.?n = ?n\n"


def program(folder: Path, *rules: str, unit: str = "s") -> Program:
    (folder / "r.dotr").write_text(HEADER + "".join(rules), encoding="utf-8")
    return Program.load(folder / "r.dotr", prefixes={"": "http://e/"}, unit=unit)


def reading(room: str, value: int) -> str:
    return f"[] :room :{room} ; :value {value} ."


STREAM = [(1, "a", 3), (2, "b", 9), (3, "a", 7), (8, "b", 13), (9, "a", 11), (10, "c", 1), (14, "b", 17), (15, "c", 5), (21, "a", 8)]


def run(session: Session, stream: Sequence[tuple[int, str, int]]) -> list[Event]:
    return [event for time, room, value in stream for event in session.advance(time, reading(room, value))]


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_restored_session_equals_an_uninterrupted_one(tmp_path: Path, cut: int) -> None:
    made = program(tmp_path, RISE, HIGH.format(8, 5), PAIR, QUIET, TICK)
    whole = made.session()
    expected = [*run(whole, STREAM), *whole.finish()]
    first = made.session()
    before = run(first, STREAM[:cut])
    again = program(tmp_path, RISE, HIGH.format(8, 5), PAIR, QUIET, TICK).restore(first.save())
    assert before + run(again, STREAM[cut:]) + again.finish() == expected
    assert {event.rule for event in expected} == {"Rise", "High", "Pair", "Quiet", "Tick"}


def test_saving_changes_nothing_and_is_repeatable(tmp_path: Path) -> None:
    made = program(tmp_path, RISE, HIGH.format(8, 5), QUIET)
    one, other = made.session(), made.session()
    for time, room, value in STREAM:
        assert one.advance(time, reading(room, value)) == other.advance(time, reading(room, value))
        saved = one.save()
        assert saved == one.save() == made.restore(saved).save()
    assert one.finish() == other.finish()


def test_time_of_a_call_without_graphs_is_saved(tmp_path: Path) -> None:
    made = program(tmp_path, TICK, QUIET)
    session = made.session()
    session.advance(1, reading("a", 1))
    assert [event.rule for event in session.advance(7)] == ["Tick", "Quiet"]
    restored = made.restore(session.save())
    with pytest.raises(DotrError, match="time 7 is not after 7, the last one"):
        restored.advance(7)
    assert [(event.time, event.rule) for event in restored.advance(13)] == [(8, "Tick"), (12, "Tick")]


def test_restored_session_of_datetimes_continues_with_datetimes(tmp_path: Path) -> None:
    made = program(tmp_path, RISE)
    session = made.session()
    noon = datetime(2024, 2, 29, 12, tzinfo=UTC)
    session.advance(noon, reading("a", 1))
    saved = session.save()
    with pytest.raises(DotrError, match="its first one was a datetime, and this one is an integer"):
        made.restore(saved).advance(2**40, reading("a", 2))
    (event,) = made.restore(saved).advance(noon + timedelta(seconds=1), reading("a", 2))
    assert event.time == noon + timedelta(seconds=1)
    (event,) = program(tmp_path, RISE, unit="ms").restore(saved).advance(noon + timedelta(seconds=1), reading("a", 2))
    assert event.values["by"] == 1


SLOW = """rule Slow define Slow = [ [] :room ?room ; :after ?after ] from Reading as Now delayed by 1 s
and last Reading as Before [ FILTER(?room = Now.?room && elapsed(Before, Now) >= 1.5) ] within 20 s from Now
with Slow.?room = Now.?room, Slow.?after = elapsed(Before, Now)
"""
LONG = """rule Long define Long = [ [] :n ?n ] from Slow and ?n = sum(S.?after) of Slow as S within 30 s from Slow
if elapsed(Slow, Slow) = 0 && ?n > 6 with Long.?n = ?n
"""


@pytest.mark.parametrize("cut", [2, 5, 7])
@pytest.mark.parametrize("unit", ["s", "ms", "date-times"])
def test_elapsed_continues_in_every_form_of_times(tmp_path: Path, unit: str, cut: int) -> None:
    start = datetime(2024, 2, 29, 12, tzinfo=UTC)

    def at(time: int) -> int | datetime:
        return start + timedelta(seconds=time) if unit == "date-times" else 1000 * time if unit == "ms" else time

    def advanced(session: Session, stream: Sequence[tuple[int, str, int]]) -> list[Event]:
        return [event for time, room, value in stream for event in session.advance(at(time), reading(room, value))]

    made = program(tmp_path, SLOW, LONG, unit="ms" if unit == "ms" else "s")
    whole, first = made.session(), made.session()
    expected = [*advanced(whole, STREAM), *whole.finish()]
    before, saved = advanced(first, STREAM[:cut]), first.save()
    again = made.restore(saved)
    assert before + advanced(again, STREAM[cut:]) + again.finish() == expected
    slow = [event for event in expected if event.rule == "Slow"]
    assert [float(event.values["after"]) for event in slow] == [2, 6, 6, 6, 5, 12]
    assert [float(event.values["n"]) for event in expected if event.rule == "Long"] == [8, 14, 20, 25]
    if unit == "date-times":  # which count in no unit
        other = program(tmp_path, SLOW, LONG, unit="ms").restore(saved)
        assert before + advanced(other, STREAM[cut:]) + other.finish() == expected


def test_unused_session_is_saved_as_one(tmp_path: Path) -> None:
    saved = program(tmp_path, RISE).session().save()
    restored = program(tmp_path, QUIET, unit="min").restore(saved)
    assert restored.advance(datetime(2024, 1, 1), reading("a", 1)) == []


def test_finished_session_cannot_be_saved(tmp_path: Path) -> None:
    with program(tmp_path, RISE).session() as session:
        session.advance(1, reading("a", 1))
    with pytest.raises(DotrError, match=r"the session is finished: save it before `finish`, or before its `with` block ends"):
        session.save()


# --- changed rules ---


def test_changed_rule_starts_without_state_and_the_others_keep_theirs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The other rules are in the same layer, in another layer and at other ports, before and after."""
    before = program(tmp_path, RISE, HIGH.format(8, 5), PAIR, QUIET)
    first = before.session()
    run(first, STREAM[:5])
    saved = first.save()
    expected = [event for event in [*run(first, STREAM[5:]), *first.finish()] if event.rule != "High"]
    after = program(tmp_path, TICK, QUIET, HIGH.format(7, 6), PAIR, RISE)
    with caplog.at_level(logging.INFO, "dotr"):
        restored = after.restore(saved)
    assert caplog.messages == ["rule High: Low starts empty: its FILTER has changed", "rule Tick starts empty: it is new"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    events = [*run(restored, STREAM[5:]), *restored.finish()]
    assert [event for event in events if event.rule not in ("High", "Tick")] == expected
    fresh = after.session()
    fresh.advance(9)
    new = [event for event in [*run(fresh, STREAM[5:]), *fresh.finish()] if event.rule in ("High", "Tick")]
    assert [event for event in events if event.rule in ("High", "Tick")] == new
    assert {event.rule for event in new} == {"High", "Tick"}


def test_state_of_a_removed_rule_is_not_restored_when_the_rule_returns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    both, one = program(tmp_path, RISE, HIGH.format(8, 5)), program(tmp_path, RISE)
    first = both.session()
    run(first, STREAM[:6])
    without = one.restore(first.save())
    assert caplog.messages == ["rule High is dropped: the program no longer has the rule"]
    without.advance(11, reading("d", 0))
    back = both.restore(without.save())
    assert "rule High starts empty: it is new" not in caplog.messages  # logged at level INFO
    assert [event.rule for event in back.advance(12, reading("a", 20))] == ["Rise"]
    assert [event.rule for event in first.advance(12, reading("a", 20))] == ["High", "Rise"]


def test_changed_rules_do_not_read_older_events_of_a_shared_store_after_a_second_save(tmp_path: Path) -> None:
    """The store that a changed rule shares with an unchanged one holds events from before the change."""
    first = program(tmp_path, RISE, HIGH.format(8, 5)).session()
    first.advance(1, reading("a", 2))
    after = program(tmp_path, RISE, HIGH.format(8, 4))
    restored = after.restore(after.restore(first.save()).save())
    assert [event.rule for event in restored.advance(3, reading("a", 9))] == ["Rise"]
    restored.advance(4, reading("b", 1))
    assert [event.rule for event in after.restore(restored.save()).advance(5, reading("b", 9))] == ["High", "Rise"]


def test_changed_knowledge_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "r.dotr").write_text(HEADER + RISE, encoding="utf-8")
    (tmp_path / "g.ttl").write_text("<http://e/a> a <http://e/Room> .")
    session = Program.load(tmp_path / "r.dotr", tmp_path / "g.ttl", prefixes={"": "http://e/"}).session()
    session.advance(1, reading("a", 1))
    saved = session.save()
    (tmp_path / "g.ttl").write_text("<http://e/b> a <http://e/Room> .")
    changed = Program.load(tmp_path / "r.dotr", tmp_path / "g.ttl", prefixes={"": "http://e/"})
    assert [event.rule for event in changed.restore(saved).advance(2, reading("a", 2))] == ["Rise"]
    (message,) = caplog.messages
    assert message.startswith("The background knowledge, or a setting of it, has changed: events that are kept")


def test_deleted_graph_file_prevents_neither_save_nor_restore(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "r.dotr").write_text(HEADER + RISE, encoding="utf-8")
    (tmp_path / "g.ttl").write_text("<http://e/a> a <http://e/Room> .")
    made = Program.load(tmp_path / "r.dotr", tmp_path / "g.ttl", prefixes={"": "http://e/"})
    (tmp_path / "g.ttl").unlink()
    session = made.session()
    session.advance(1, reading("a", 1))
    assert [event.rule for event in made.restore(session.save()).advance(2, reading("a", 2))] == ["Rise"]
    assert caplog.messages == []


# --- refused bytes ---


def refusal(made: Program, saved: bytes) -> str:
    with pytest.raises(DotrError) as refused:
        made.restore(saved)
    assert isinstance(refused.value, Refused)
    assert isinstance(refused.value, ValueError)
    return str(refused.value)


def saved_with_digest(body: bytes, version: int = 1) -> bytes:
    return f"dotr session {version} {blake2b(body, digest_size=16).hexdigest()}\n".encode() + body


ANEW = "Restore an intact copy, or begin anew with program.session()."


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    made = program(tmp_path, RISE)
    session = made.session()
    run(session, STREAM)
    saved = session.save()
    for place in range(len(saved)):
        wrong = saved[:place] + bytes([saved[place] ^ 1]) + saved[place + 1 :]
        assert refusal(made, wrong).startswith("C501 the saved session cannot be restored: ")
    damaged = f"C501 the saved session cannot be restored: it is damaged\n{ANEW}"
    assert refusal(made, saved[:-1]) == refusal(made, saved + b"\n") == refusal(made, saved[:30]) == damaged
    assert refusal(made, b"") == refusal(made, b"\x80\x04K\x01.") == f"C501 the saved session cannot be restored: it is none\n{ANEW}"
    assert refusal(made, "text").startswith("C501 the saved session cannot be restored: it is str, not bytes\n")  # type: ignore[arg-type]
    assert made.restore(bytearray(saved)).save() == made.restore(memoryview(saved)).save() == saved  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        zlib.compress(b"\xff"),
        zlib.compress(b"{}"),
        zlib.compress(b"[]\n[]"),
        zlib.compress(json.dumps({"unit": "SECOND", "dated": False, "last": 5, "holdings": []}).encode()),
        zlib.compress(json.dumps({"unit": "SECOND", "dated": 5, "last": "x", "holdings": {}}).encode()),
    ],
)
def test_bytes_of_another_content_are_refused(tmp_path: Path, body: bytes) -> None:
    assert "it is damaged" in refusal(program(tmp_path, RISE), saved_with_digest(body))


def test_states_that_do_not_fit_their_schema_are_refused(tmp_path: Path) -> None:
    made = program(tmp_path, RISE)
    session = made.session()
    run(session, STREAM)
    header, *states = zlib.decompress(session.save().partition(b"\n")[2]).split(b"\n")
    for lines in ([header], [header, *states, *states], [header, states[0].replace(b'"events":[[', b'"events":[[],[')]):
        assert "it is damaged" in refusal(made, saved_with_digest(zlib.compress(b"\n".join(lines))))


def test_another_version_is_refused(tmp_path: Path) -> None:
    made = program(tmp_path, RISE)
    body = made.session().save().partition(b"\n")[2]
    assert refusal(made, saved_with_digest(body, 7)) == (
        "C501 the saved session cannot be restored: it is of version 7, this release reads 1\n"
        "Restore it with the release of dotr that saved it, or begin anew with program.session()."
    )


def test_other_times_are_refused(tmp_path: Path) -> None:
    session = program(tmp_path, RISE).session()
    session.advance(1, reading("a", 1))
    assert refusal(program(tmp_path, RISE, unit="ms"), session.save()) == (
        "C501 the saved session cannot be restored: its times count s, those of this program ms\n"
        'Load the program with unit="s", or begin anew with program.session().'
    )


# --- sessions saved by earlier releases ---


def test_session_saved_in_format_1_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`tests/checkpoints/session-1` is the result of `run(session, STREAM[:5])` and `save` in the first release of the format."""
    made = program(tmp_path, RISE, HIGH.format(8, 5), PAIR, QUIET, TICK)
    session = made.session()
    run(session, STREAM[:5])
    restored = made.restore((TESTS / "checkpoints" / "session-1").read_bytes())
    assert [*run(restored, STREAM[5:]), *restored.finish()] == [*run(session, STREAM[5:]), *session.finish()]
    assert caplog.messages == []
