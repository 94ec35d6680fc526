"""Division of the state of a unit by its keys, and its union."""

from __future__ import annotations

import json
from operator import itemgetter

import pytest

from dotr.engine.state.keyed import ByName, Common, CommonRows, Fields, KeyedLog, KeyedRows, KeyedState, RowGroups, RowsAt, SharedLog
from dotr.engine.state.units import UnitSnapshot
from dotr.temporal.layout.keys import bucket
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import StateError

pytestmark = pytest.mark.core

TERMS = [f"<http://e/{letter}>" for letter in "abcdefgh"]
ROWS = KeyedRows(itemgetter(0))
FORM = KeyedState(
    Fields(
        [Common(max), ROWS, ByName({"at": RowsAt(ROWS), "points": CommonRows()}.__getitem__), RowGroups(lambda _: ROWS), Common()],
        further=1,
    ),
    [KeyedLog(itemgetter(1)), SharedLog(width=2)],
)
REST = [
    7,
    [[term, 1] for term in TERMS],
    {"at": [6, [[term, 2] for term in TERMS]], "points": [1, 5]},
    [["p", 3, [[term, 3] for term in TERMS]], ["q", 4, [[TERMS[0], 4]]]],
]
LOGS: list[list[StoredEvent]] = [
    [(time, 0, ("0", term)) for time, term in enumerate(TERMS)],
    [(5, 0, ("3", *(each for term in TERMS for each in (term, "x")))), (6, 0, ("1",))],
]
STATE = UnitSnapshot(json.dumps(REST), LOGS)


def in_order(state: UnitSnapshot) -> object:
    """A state with sorted rows, and terms of entries."""
    first, rows, named, groups, *further = json.loads(state.rest)
    at, of_point = named["at"]
    keyed, shared = state.entries
    entries = [(time, ordinal, values[:1], sorted(map(str, values[1:]))) for time, ordinal, values in shared]
    groups = sorted([*name, sorted(found)] for *name, found in groups)
    return first, sorted(rows), (at, sorted(of_point)), named["points"], groups, further, list(keyed), entries


def test_parts_have_the_rows_of_their_keys_and_their_union_is_the_state() -> None:
    parts = FORM.divided(STATE, 3, None)
    for number, part in enumerate(parts):
        _, rows, named, _ = json.loads(part.rest)
        own = [term for term in TERMS if bucket(term, 3) == number]
        assert [term for term, _ in rows] == [term for term, _ in named["at"][1]] == [values[1] for _, _, values in part.entries[0]] == own
        assert [values for _, _, values in part.entries[1]] == [("3", *(each for term in own for each in (term, "x"))), ("1",)]
    assert in_order(FORM.united(parts)) == in_order(STATE)


def test_rows_that_an_earlier_division_has_left_are_dropped() -> None:
    parts = [FORM.divided(STATE, 2, (number, 3)) for number in range(3)]
    assert in_order(FORM.united([part for of_bucket in parts for part in of_bucket])) == in_order(STATE)


def test_a_missing_last_field_is_kept_missing() -> None:
    (with_mark,) = FORM.divided(UnitSnapshot(json.dumps([*REST, "mark"]), LOGS), 1, None)
    (without,) = FORM.divided(STATE, 1, None)
    assert (len(json.loads(with_mark.rest)), len(json.loads(without.rest))) == (5, 4)


@pytest.mark.parametrize(
    ("rest", "logs"),
    [
        ("[", LOGS),
        ("{}", LOGS),
        (json.dumps(REST[:3]), LOGS),
        (json.dumps([*REST, 1, 2]), LOGS),
        (json.dumps([7, [["<a>"], 8], *REST[2:]]), LOGS),
        (json.dumps([7, [[8]], *REST[2:]]), LOGS),
        (json.dumps([7, [], {"other": []}, []]), LOGS),
        (json.dumps(REST), LOGS[:1]),
        (json.dumps(REST), [[(1, 0, ())], []]),
    ],
)
def test_another_form_is_refused(rest: str, logs: list[list[StoredEvent]]) -> None:
    with pytest.raises(StateError, match="cannot be read"):
        FORM.divided(UnitSnapshot(rest, logs), 2, None)


def test_parts_at_different_times_are_refused() -> None:
    one, other = FORM.divided(STATE, 2, None)
    late: list[list[StoredEvent]] = [list(other.entries[0]), [(time + 1, ordinal, values) for time, ordinal, values in other.entries[1]]]
    with pytest.raises(StateError, match="different times"):
        FORM.united([one, UnitSnapshot(other.rest, late)])
    with pytest.raises(StateError, match="cannot be read"):
        FORM.united([one, UnitSnapshot(other.rest, [other.entries[0], other.entries[1][:1]])])
