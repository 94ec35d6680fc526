"""Division of the state of a continuous query over buckets, and its union, where their number
changes.

Idea: every bucket of a keyed query has an entry for each time at which elements arrived, with their
number and with the triples of its own subjects (`dotr.languages.continuous.evaluation.shares`). So
a part has the same entries with fewer triples, and a union has the triples of all parts. The rows
of the last report, and the whole state of a query that had one partition, are copied to all
buckets: each run selects its share when it is restored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dotr.engine.state.units import UnitSnapshot
from dotr.languages.continuous.evaluation.run import SHARES
from dotr.temporal.layout.keys import bucket
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import StateError

_ROWS, _CONSUMED = 3, 4
"""The positions, in the rest of a state, of the rows of the last report and of the consumed triples."""


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
    """An entry reduced to the triples whose subjects belong to a bucket. Its values are the number
    of elements, then the terms of the triples."""
    time, ordinal, (counted, *terms) = entry
    own = [term for at in range(0, len(terms), 3) if bucket(terms[at], buckets) == number for term in terms[at : at + 3]]
    return time, ordinal, (counted, *own)


def united_query(parts: Sequence[UnitSnapshot]) -> UnitSnapshot:
    """The state of a bucket of a query, united from its parts, which have different keys. Raises
    StateError where the parts are at different times."""
    rests = [json.loads(part.rest) for part in parts]
    rest = list(rests[0])
    rest[_ROWS] = [row for each in rests for row in each[_ROWS]]
    blocks = zip(*(each[_CONSUMED] for each in rests), strict=True)
    rest[_CONSUMED] = [sorted({_as_value(consumed) for block in of_block for consumed in block}) for of_block in blocks]
    if not _has_shares(parts[0]):
        return UnitSnapshot(json.dumps(rest), parts[0].entries)
    try:
        of_logs = zip(*(part.entries for part in parts), strict=True)
        logs = [[_united_entry(entries) for entries in zip(*of_log, strict=True)] for of_log in of_logs]
    except ValueError as error:
        raise StateError(f"it cannot be read ({error})") from error
    return UnitSnapshot(json.dumps(rest), logs)


def _as_value(consumed: Sequence[Any]) -> tuple[Any, ...]:
    """A consumed triple as a hashable value: its window, its time and its terms."""
    window, time, triple = consumed
    return window, time, tuple(triple)


def _united_entry(entries: Sequence[StoredEvent]) -> StoredEvent:
    """The entry with the triples of the entries of all parts."""
    first, ordinal, (counted, *_) = entries[0]
    if any(time != first or values[0] != counted for time, _, values in entries):
        raise StateError("the buckets of a query have reached different times")
    return first, ordinal, (counted, *(term for _, _, values in entries for term in values[1:]))
