"""Segments of state logs in Spark's store: entries of a map, of which a batch writes one for each
log that it extends.

Idea: neighbouring segments of similar size are merged, so that they stay few. Segments of the last
few batches are not merged, so that a worker which cached the bucket a few batches ago reads only
the segments that it lacks. Segments whose events are all expired are removed.
Cost: an entry is written once, and once more for each doubling of its segment, without being
parsed; removal needs the manifest alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from dotr.engine.state.log import LogDelta, LogSegment, Manifest, encode_consumption, encode_events, state_digest
from dotr.model.time import Micros
from dotr.temporal.matching.state import StateError

RECENT_BATCHES: Final = 16
"""The number of last batches whose segments are not merged."""

MAX_SEGMENT_BYTES: Final = 2 << 20
"""Most bytes of a merged segment."""

SEGMENT_EVENTS: Final = 20_000
"""Most events of a new segment."""


class SegmentMap(Protocol):
    """A map from log and position to the bytes of a segment."""

    def read(self, log: int, position: int) -> bytes | None:
        """The segment, or None where there is none."""

    def write(self, log: int, position: int, lines: bytes) -> None:
        """Set a segment."""

    def remove(self, log: int, position: int) -> None:
        """Remove an existing segment."""


def read_segments(entries: SegmentMap, segments: Sequence[LogSegment]) -> Iterator[tuple[int, bytes]]:
    """The bytes of segments, each with the number of its log. Raises StateError where one is
    missing."""
    for segment in segments:
        yield segment.log, _read_segment(entries, segment)


def _read_segment(entries: SegmentMap, segment: LogSegment) -> bytes:
    lines = entries.read(segment.log, segment.position)
    if lines is None or len(lines) != segment.size:
        raise StateError(f"a segment of it is missing (log {segment.log}, position {segment.position})")
    return lines


def append_batch(
    entries: SegmentMap,
    before: Manifest | None,
    digest: bytes,
    additions: LogDelta,
    closed: Micros,
    passed: Micros | None,
    oldest: Sequence[Micros | None],
    page_count: int,
    event_counts: Sequence[int],
    set_count: int,
    *,
    ragged: bool = False,
) -> tuple[bytes, Manifest]:
    """Append the additions of a batch, remove expired segments, and merge small ones; returns the
    new digest and manifest.

    `before` and `digest` are those of the batch before (None and b"" at first); `closed`, `passed`
    and `oldest` are times in µs. `ragged`: rows of a log differ in length.
    """
    batch = before.batch + 1 if before else 1
    logs: list[list[LogSegment]] = [[] for _ in oldest]
    for segment in before.segments if before else ():
        logs[segment.log].append(segment)
    written = [digest]
    for log, events in enumerate(additions.events):
        for start in range(0, len(events), SEGMENT_EVENTS):
            part = events[start : start + SEGMENT_EVENTS]
            written.append(_append(entries, logs[log], log, batch, encode_events(part, ragged=ragged), part[-1][0]))
    if additions.consumed:
        until = max(time for _, time, _, _ in additions.consumed)
        written.append(_append(entries, logs[-1], len(logs) - 1, batch, encode_consumption(additions.consumed), until))
    for log_segments, time in zip(logs, oldest, strict=True):
        _remove_expired(entries, log_segments, time)
        _merge(entries, log_segments, batch - RECENT_BATCHES)
    manifest = Manifest(
        batch,
        closed,
        passed,
        tuple(oldest),
        tuple(segment for log_segments in logs for segment in log_segments),
        page_count,
        tuple(event_counts),
        set_count,
        (),
    )
    new_digest = state_digest(*written, manifest.encode())
    recent = ((*before.recent, (before.batch, digest.hex())) if before and before.page_count == page_count else ())[-RECENT_BATCHES:]
    return new_digest, manifest._replace(recent=recent)


def _append(entries: SegmentMap, segments: list[LogSegment], log: int, batch: int, lines: bytes, latest: Micros) -> bytes:
    position = segments[-1].position + 1 if segments else 0
    entries.write(log, position, lines)
    segments.append(LogSegment(log, position, batch, len(lines), latest))
    return lines


def _remove_expired(entries: SegmentMap, segments: list[LogSegment], oldest: Micros | None) -> None:
    expired = [segment for segment in segments if oldest is None or segment.latest < oldest]
    for segment in expired:
        entries.remove(segment.log, segment.position)
        segments.remove(segment)


def _merge(entries: SegmentMap, segments: list[LogSegment], up_to: int) -> None:
    """Merge neighbours of similar size among the segments of batches up to number `up_to`, latest
    first."""
    last = next((index for index in range(len(segments) - 1, 0, -1) if segments[index].batch <= up_to), 0)
    while last:
        older, newer = segments[last - 1], segments[last]
        if older.size > 2 * newer.size or older.size + newer.size > MAX_SEGMENT_BYTES:
            return
        entries.write(older.log, older.position, _read_segment(entries, older) + _read_segment(entries, newer))
        entries.remove(newer.log, newer.position)
        segments[last - 1 : last + 1] = [
            LogSegment(older.log, older.position, newer.batch, older.size + newer.size, max(older.latest, newer.latest)),
        ]
        last -= 1
