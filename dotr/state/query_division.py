"""Division of the state of a continuous query over buckets, and its union, where their number changes.

Idea: every bucket of a keyed query has an entry for each time at which elements came, with their
number and with the triples of its own subjects (`dotr.engine.query_shares`). So a part has the same
entries with fewer triples, and a union has the triples of all. A bucket takes its own rows of the
last report by itself, and of state that was kept whole, in one partition, its share.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dotr.engine.query_run import SHARES
from dotr.layout.keys import bucket
from dotr.patterns.events import StoredEvent
from dotr.patterns.state import StateError
from dotr.state.unit_state import UnitSnapshot

_ROWS, _USED = 3, 4
"""The places of the rows of the last report, and of the triples used up, in the rest of a state."""


def divided_query(state: UnitSnapshot, buckets: int) -> Sequence[UnitSnapshot]:
    """The parts of the state of a query by bucket."""
    if not _has_shares(state):
        return [state] * buckets
    return [
        UnitSnapshot(state.rest, [[_own(entry, number, buckets) for entry in log] for log in state.entries]) for number in range(buckets)
    ]


def _has_shares(state: UnitSnapshot) -> bool:
    return SHARES in json.loads(state.rest)


def _own(entry: StoredEvent, number: int, buckets: int) -> StoredEvent:
    """An entry with the triples alone whose subjects are a bucket's: a number, and triples behind it."""
    counted, *terms = entry[2]
    own = [term for at in range(0, len(terms), 3) if bucket(terms[at], buckets) == number for term in terms[at : at + 3]]
    return (*entry[:2], (counted, *own))


def united_query(parts: Sequence[UnitSnapshot]) -> UnitSnapshot:
    """The state of a bucket of a query as that of its parts, which have different keys. Raises
    StateError where they are not of one time."""
    rests = [json.loads(part.rest) for part in parts]
    rest = list(rests[0])
    rest[_ROWS] = [row for each in rests for row in each[_ROWS]]
    blocks = zip(*(each[_USED] for each in rests), strict=True)
    rest[_USED] = [sorted({_as_value(used) for block in of_block for used in block}) for of_block in blocks]
    if not _has_shares(parts[0]):
        return UnitSnapshot(json.dumps(rest), parts[0].entries)
    try:
        of_logs = zip(*(part.entries for part in parts), strict=True)
        logs = [[_together(entries) for entries in zip(*of_log, strict=True)] for of_log in of_logs]
    except ValueError as error:
        raise StateError(f"it cannot be read ({error})") from error
    return UnitSnapshot(json.dumps(rest), logs)


def _as_value(used: Sequence[Any]) -> tuple[Any, ...]:
    """A triple that was used up: its window, its time and its terms."""
    window, time, triple = used
    return window, time, tuple(triple)


def _together(entries: Sequence[StoredEvent]) -> StoredEvent:
    """One entry with the triples of all."""
    first = entries[0]
    if any(entry[0] != first[0] or entry[2][0] != first[2][0] for entry in entries):
        raise StateError("the buckets of a query have come to different times")
    return (*first[:2], (first[2][0], *(term for entry in entries for term in entry[2][1:])))
