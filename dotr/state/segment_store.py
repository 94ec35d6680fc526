"""Logs of state in Spark's store: each piece is an entry of a map, and a batch writes one for each log that it adds to.

Idea: pieces of about one length become one, so that there are few; those of the last few batches stay as they are, so that a worker which
was there a few batches ago reads what it has missed and nothing else. Pieces in which nothing counts any more are removed.
Cost: an entry is written once for itself and once for each doubling of its piece, and never parsed for it; to remove, the head is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from dotr.model.time import Micros
from dotr.patterns.state import StateError
from dotr.state.state_log import LogDelta, LogSegment, Manifest, encode_consumption, encode_events, state_digest

RECENT_BATCHES: Final = 16
"""Pieces of so many batches stay as they are."""

MAX_SEGMENT_BYTES: Final = 2 << 20
"""Bytes up to which pieces become one."""

SEGMENT_EVENTS: Final = 20_000
"""Events that are written as one piece."""


class SegmentMap(Protocol):
    """The map: by log and place."""

    def read(self, log: int, place: int) -> bytes | None:
        """An entry; None where it is not there."""

    def write(self, log: int, place: int, lines: bytes) -> None:
        """In the place of what was there."""

    def remove(self, log: int, place: int) -> None:
        """An entry that is there."""


def read_segments(entries: SegmentMap, pieces: Sequence[LogSegment]) -> Iterator[tuple[int, bytes]]:
    """The pieces with the numbers of their logs."""
    for piece in pieces:
        yield piece.log, _read_segment(entries, piece)


def _read_segment(entries: SegmentMap, piece: LogSegment) -> bytes:
    found = entries.read(piece.log, piece.position)
    if found is None or len(found) != piece.size:
        raise StateError(f"a piece of it is not there (log {piece.log}, place {piece.position})")
    return found


def append_batch(
    entries: SegmentMap,
    before: Manifest | None,
    digest: bytes,
    add: LogDelta,
    closed: Micros,
    passed: Micros | None,
    oldest: Sequence[Micros | None],
    pages: int,
    held: Sequence[int],
    sets: int,
) -> tuple[bytes, Manifest]:
    """Appends what a batch has added, removes what has gone, and says what is there then, with its digest."""
    number = before.batch + 1 if before else 1
    logs: list[list[LogSegment]] = [[] for _ in oldest]
    for piece in before.segments if before else ():
        logs[piece.log].append(piece)
    written = [digest]
    for log, events in enumerate(add.events):
        for start in range(0, len(events), SEGMENT_EVENTS):
            part = events[start : start + SEGMENT_EVENTS]
            written.append(_append(entries, logs[log], log, number, encode_events(part), part[-1][0]))
    if add.consumed:
        until = max(time for _, time, _, _ in add.consumed)
        written.append(_append(entries, logs[-1], len(logs) - 1, number, encode_consumption(add.consumed), until))
    for pieces, time in zip(logs, oldest, strict=True):
        _remove_expired(entries, pieces, time)
        _merge(entries, pieces, number - RECENT_BATCHES)
    head = Manifest(
        number, closed, passed, tuple(oldest), tuple(piece for pieces in logs for piece in pieces), pages, tuple(held), sets, ()
    )
    after = state_digest(*written, head.encode())
    recent = ((*before.recent, (before.batch, digest.hex())) if before and before.page_count == pages else ())[-RECENT_BATCHES:]
    return after, head._replace(recent=recent)


def _append(entries: SegmentMap, pieces: list[LogSegment], log: int, number: int, lines: bytes, until: Micros) -> bytes:
    place = pieces[-1].position + 1 if pieces else 0
    entries.write(log, place, lines)
    pieces.append(LogSegment(log, place, number, len(lines), until))
    return lines


def _remove_expired(entries: SegmentMap, pieces: list[LogSegment], oldest: Micros | None) -> None:
    gone = [piece for piece in pieces if oldest is None or piece.latest < oldest]
    for piece in gone:
        entries.remove(piece.log, piece.position)
        pieces.remove(piece)


def _merge(entries: SegmentMap, pieces: list[LogSegment], settled: int) -> None:
    """Joins neighbours of about one length among the pieces of batches up to the number `settled`, from the latest one back."""
    last = next((place for place in range(len(pieces) - 1, 0, -1) if pieces[place].batch <= settled), 0)
    while last:
        older, newer = pieces[last - 1], pieces[last]
        if older.size > 2 * newer.size or older.size + newer.size > MAX_SEGMENT_BYTES:
            return
        entries.write(older.log, older.position, _read_segment(entries, older) + _read_segment(entries, newer))
        entries.remove(newer.log, newer.position)
        pieces[last - 1 : last + 1] = [
            LogSegment(older.log, older.position, newer.batch, older.size + newer.size, max(older.latest, newer.latest)),
        ]
        last -= 1
