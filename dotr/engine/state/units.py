"""Stored state of the units of one bucket: continuous queries, LARS files and EP-SPARQL units.

Idea: the state of a unit consists of logs, whose entries are added and expire in the order of time,
and a small rest. Few entries are written inside the value, with the rest. Of many, a batch appends
its new entries to segments, as for rules (`dotr.engine.state.segments`), and the value lists the
segments. Invariant: the value and its segments have the whole state of every unit, by name; only
the division into segments depends on the batches.
Cost: proportional to the new entries of a batch, and to the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from dotr.engine.state.log import LogDelta, Manifest, live_events, state_digest
from dotr.engine.state.segments import SegmentMap, append_batch, read_segments
from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import StateError

FORM: Final = 1
"""Version of the value's form."""

INSIDE: Final = 2_000
"""Most entries that are written inside the value. Segments are replaced by entries inside below a
quarter of it."""


class NoSegments:
    """The segments of a value that has all entries inside."""

    def read(self, log: int, position: int) -> bytes | None:
        """Always None."""
        return None

    def write(self, log: int, position: int, lines: bytes) -> None:
        """Not supported."""
        raise AssertionError("a value with all entries inside has no segments")

    def remove(self, log: int, position: int) -> None:
        """Not supported."""
        raise AssertionError("a value with all entries inside has no segments")


NO_SEGMENTS: Final = NoSegments()


class UnitSnapshot(NamedTuple):
    """The state of a unit: its rest, and the entries of each of its logs."""

    rest: str
    entries: Sequence[Sequence[StoredEvent]]


@dataclass(frozen=True, slots=True)
class UnitsValue:
    """The stored value of a bucket.

    - `passed`: the last instant, in µs; None before the first.
    - `units`: each unit's name, its rest, and the number of its logs, which follow each other.
    - `inside`: the entries of all logs; empty where there is a `manifest` of segments.
    """

    passed: Micros | None
    units: Sequence[tuple[str, str, int]]
    inside: Sequence[Sequence[StoredEvent]]
    manifest: Manifest | None

    def encode(self) -> bytes:
        """Versioned JSON; `decode` tests its beginning."""
        manifest = None if self.manifest is None else self.manifest.encode().decode()
        data = {"units": FORM, "passed": self.passed, "rest": self.units, "logs": self.inside, "segments": manifest}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @staticmethod
    def decode(written: bytes) -> UnitsValue | None:
        """The inverse of `encode`; None for a value of rules. Raises StateError.

        >>> value = UnitsValue(9, [("Q", "{}", 1)], [[(5, 0, ("<a>",))]], None)
        >>> UnitsValue.decode(value.encode()) == value, UnitsValue.decode(b'{"version":2}')
        (True, None)
        """
        if not written.startswith(b'{"units":'):
            return None
        try:
            data = json.loads(written)
            if data["units"] != FORM:
                raise StateError(f"its version is {data['units']}, this release reads {FORM}")
            inside = [[(time, ordinal, tuple(row)) for time, ordinal, row in log] for log in data["logs"]]
            manifest = None if data["segments"] is None else Manifest.decode(data["segments"].encode())
            return UnitsValue(data["passed"], [(name, rest, logs) for name, rest, logs in data["rest"]], inside, manifest)
        except (KeyError, TypeError, ValueError) as error:
            raise error if isinstance(error, StateError) else StateError(f"it cannot be read ({error})") from error

    def snapshots(self, segments: SegmentMap) -> Mapping[str, UnitSnapshot]:
        """The state of each unit by name. Raises StateError where a segment is missing."""
        logs = self.inside
        if self.manifest is not None:
            found: list[list[StoredEvent]] = [[] for _ in self.manifest.event_counts]
            for log, event in live_events(self.manifest, read_segments(segments, self.manifest.segments)):
                found[log].append(event)
            logs = found
        first, snapshots = 0, dict[str, UnitSnapshot]()
        for name, rest, count in self.units:
            snapshots[name] = UnitSnapshot(rest, logs[first : first + count])
            first += count
        return snapshots


class WrittenUnits(NamedTuple):
    """The outcome of writing the units of a bucket: the digest and the value to store, with all
    stored bytes."""

    digest: bytes
    value: UnitsValue
    text: bytes
    size: int


class UnitPart(NamedTuple):
    """A unit to be written after a batch: its name, its rest, the time of the first entry of each
    log (None: it is empty), and the entries of each log that are new since the batch before, or
    all."""

    name: str
    rest: str
    oldest: Sequence[Micros | None]
    entries: Sequence[Sequence[StoredEvent]]


def has_segments(before: UnitsValue | None, entries: int) -> bool:
    """True if a number of entries is to be written as segments, after the value `before`.

    >>> has_segments(None, 2_000), has_segments(None, 2_001)
    (False, True)
    """
    return entries > (INSIDE if before is None or before.manifest is None else INSIDE // 4)


def write_units(
    before: UnitsValue | None,
    digest: bytes,
    parts: Sequence[UnitPart],
    passed: Micros | None,
    segments: SegmentMap,
    *,
    inside: bool,
) -> WrittenUnits:
    """Write the units of a bucket after a batch up to the instant `passed` (µs).

    Args:
        before: the value before, with its `digest`.
        parts: all units. With `inside`, or where `before` has no segments, with all their entries;
            else with those later than `before.passed`.
        segments: those of the bucket.
        inside: all entries are written inside the value.
    """
    start = digest
    rests = [(part.name, part.rest, len(part.oldest)) for part in parts]
    manifest = before.manifest if before is not None else None
    entries = [log for part in parts for log in part.entries]
    if inside:
        for segment in manifest.segments if manifest is not None else ():
            segments.remove(segment.log, segment.position)
        value = UnitsValue(passed, rests, entries, None)
        text = value.encode()
        return WrittenUnits(blake2b(text, digest_size=16).digest(), value, text, len(text))
    oldest = [*(time for part in parts for time in part.oldest), None]
    closed = passed if passed is not None else 0
    if manifest is None or any(entries) or manifest.is_outdated(passed, oldest, 1):
        digest, manifest = append_batch(
            segments, manifest, digest, LogDelta(entries, ()), closed, passed, oldest, 1, [0] * (len(oldest) - 1), 0, ragged=True
        )
    value = UnitsValue(passed, rests, (), manifest)
    text = value.encode()
    if before is not None and text == before.encode():
        return WrittenUnits(start, value, text, len(text))
    return WrittenUnits(state_digest(digest, text), value, text, len(text) + sum(segment.size for segment in manifest.segments))
