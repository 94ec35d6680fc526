"""Logs of state: a batch appends its additions, whatever the size of the state.

Idea: stored events arrive in order of time and expire in order of time. So each store, each queue
and the consumed events are an append-only log, cut into segments; a segment is removed when all its
events are expired, and one time for each log (`Manifest.oldest`) separates the live events from
expired ones.
Invariant: the live events of a log are those not older than its `oldest`. A set consumes an event
at most once, so the order of the log of consumption has no meaning.
Cost: reading and writing are proportional to the events read and written.
Source: segments and manifest as in a log-structured merge tree (O'Neil et al. 1996), without
sorting.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, count, islice
from typing import Final, NamedTuple, TypeAlias

from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import State, StateError, StateSnapshot

HEAD_VERSION: Final = 3
"""Format version of a manifest. Versions up to 2 are whole texts (`StateSnapshot`), stored in the
same place."""

Consumption: TypeAlias = tuple[int, Micros, int, int]
"""A consumed event: number of the set, time and ordinal of the event, page of the event."""


class TrackedSet(set[tuple[Micros, int]]):
    """A set of consumed events that notes its additions (`unwritten`) until they are written."""

    def __init__(self, events: Iterable[tuple[Micros, int]] = ()) -> None:
        super().__init__(events)
        self.unwritten: list[tuple[Micros, int]] = []

    def update(self, *others: Iterable[tuple[Micros, int]]) -> None:
        """Add events and note them as unwritten."""
        for events in map(tuple, others):
            self.unwritten += events
            super().update(events)


class LogSegment(NamedTuple):
    """A segment: the number of its log, its position there, the last batch in it, its bytes, and
    the latest time in it (µs)."""

    log: int
    position: int
    batch: int
    size: int
    latest: Micros


class Manifest(NamedTuple):
    """The description of a bucket's logs.

    `batch` is the number of the last batch, `closed` its last closed time, and `passed` that of
    `State.passed` (µs). `oldest` is the oldest live time of each log (None: no live events).
    `segments` are in order of log and position. `page_count` is the number of pages, `event_counts`
    the events of each store, `set_count` the number of sets of consumed events, and `recent` the
    digests of the last few batches by number.
    """

    batch: int
    closed: Micros
    passed: Micros | None
    oldest: tuple[Micros | None, ...]
    segments: tuple[LogSegment, ...]
    page_count: int
    event_counts: tuple[int, ...]
    set_count: int
    recent: tuple[tuple[int, str], ...]

    def encode(self) -> bytes:
        """Versioned JSON with fixed names and order of members: it is digested, and `decode` tests
        its beginning."""
        return json.dumps(
            {
                "version": HEAD_VERSION,
                "number": self.batch,
                "closed": self.closed,
                "passed": self.passed,
                "oldest": self.oldest,
                "pieces": [[each.log, each.position, each.batch, each.size, each.latest] for each in self.segments],
                "pages": self.page_count,
                "held": self.event_counts,
                "sets": self.set_count,
                "recent": self.recent,
            },
            separators=(",", ":"),
        ).encode()

    def is_outdated(self, passed: Micros | None, oldest: Sequence[Micros | None], page_count: int) -> bool:
        """True if a batch without additions changes the manifest: by time, by number of pages, or
        by an expired segment."""
        if passed != self.passed or page_count != self.page_count:
            return True
        return any((time := oldest[segment.log]) is None or segment.latest < time for segment in self.segments)

    @staticmethod
    def decode(written: bytes) -> Manifest | None:
        """The inverse of `encode`; None for an empty text or one of an older version. Raises
        StateError.

        >>> manifest = Manifest(3, 9, None, (4, None), (LogSegment(0, 1, 3, 120, 8),), 1, (7,), 0, ((3, "a"),))
        >>> Manifest.decode(manifest.encode()) == manifest, Manifest.decode(b'{"version":2}'), Manifest.decode(b"")
        (True, None, None)
        """
        if not written.startswith(b'{"version":%d,"number"' % HEAD_VERSION):
            return None
        try:
            data = json.loads(written)
            segments = tuple(LogSegment(log, place, number, size, until) for log, place, number, size, until in data["pieces"])
            recent = tuple((number, digest) for number, digest in data["recent"])
            event_counts, oldest = tuple(data["held"]), tuple(data["oldest"])
            return Manifest(
                data["number"], data["closed"], data["passed"], oldest, segments, data["pages"], event_counts, data["sets"], recent
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"it cannot be read ({error})") from error


class LogDelta(NamedTuple):
    """Additions of a batch: the events of each store, then of each queue; and the consumption."""

    events: Sequence[Sequence[StoredEvent]]
    consumed: Sequence[Consumption]


def added_since(state: State, after: Micros | None, page: int = 0) -> LogDelta:
    """The events of a state later than `after` (µs; None: all), and the consumption noted in it,
    which is cleared."""
    state.make_logs()
    logs = [*(store.log for store in state.stores), *state.waiting]
    events = [list(log) if after is None else _events_after(log, after) if log and log[-1][0] > after else [] for log in logs]
    pairs: list[Consumption] = []
    for number, consumed in enumerate(state.consumed):
        additions: Iterable[tuple[Micros, int]] = consumed
        if isinstance(consumed, TrackedSet):
            additions, consumed.unwritten = consumed if after is None else consumed.unwritten, []
        elif after is not None:
            continue
        pairs += [(number, time, ordinal, page) for time, ordinal in additions]
    return LogDelta(events, pairs)


def track_consumption(state: State) -> State:
    """Note the consumption of a state from now on; returns the state."""
    state.consumed = tuple(map(TrackedSet, state.consumed))
    return state


def _events_after(log: Iterable[StoredEvent], after: Micros) -> list[StoredEvent]:
    later: list[StoredEvent] = []
    for event in reversed(log):  # type: ignore[call-overload]
        if event[0] <= after:
            break
        later.append(event)
    later.reverse()
    return later


def encode_events(events: Sequence[StoredEvent], *, ragged: bool = False) -> bytes:
    """Events as a line of JSON; the inverse of `decode_events`.

    Example: events (5, 0, "a") and (7, 1, "a") become [["a"], 1, [5, 7], [0, 1], [0, 0]]: distinct
    terms, arity, times, ordinals, and the numbers of the terms. `ragged`: rows of the log differ in
    length, and the number of terms of each row is in the place of the arity.
    """
    numbers: defaultdict[Term | None, int] = defaultdict(count().__next__)
    listed = list(map(numbers.__getitem__, chain.from_iterable([values for _, _, values in events])))
    arity = [len(values) for _, _, values in events] if ragged else len(events[0][2])
    data = [list(numbers), arity, [event[0] for event in events], [event[1] for event in events], listed]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def decode_events(lines: bytes) -> Iterator[StoredEvent]:
    """The events of a segment.

    >>> first, second = (5, 0, ('"a"', None)), (7, 1, ('"a"', '"b"'))
    >>> list(decode_events(encode_events([first, second]) + encode_events([second]))) == [first, second, second]
    True
    >>> short = (9, 0, ())
    >>> list(decode_events(encode_events([first, short], ragged=True))) == [first, short]
    True
    """
    for line in lines.splitlines():
        terms, arity, times, ordinals, listed = json.loads(line)
        values: Iterable[tuple[Term | None, ...]]
        if isinstance(arity, list):
            taken = map(terms.__getitem__, listed)
            values = [tuple(islice(taken, length)) for length in arity]
        else:
            values = zip(*[map(terms.__getitem__, listed)] * arity, strict=True) if arity else ((),) * len(times)
        yield from zip(times, ordinals, values, strict=False)


def encode_consumption(pairs: Sequence[Consumption]) -> bytes:
    """Consumption as a line of JSON; the inverse of `decode_consumption`."""
    return json.dumps(list(zip(*pairs, strict=True)), separators=(",", ":")).encode() + b"\n"


def decode_consumption(lines: bytes) -> Iterator[Consumption]:
    """The consumption in a segment.

    >>> list(decode_consumption(encode_consumption([(0, 5, 1, 3), (2, 7, 0, 0)]) + encode_consumption([(0, 6, 0, 1)])))
    [(0, 5, 1, 3), (2, 7, 0, 0), (0, 6, 0, 1)]
    """
    for line in lines.splitlines():
        yield from zip(*json.loads(line), strict=True)


def live_events(manifest: Manifest, segments: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, StoredEvent]]:
    """The live events of segments, each with the number of its log. Raises StateError."""
    try:
        for log, lines in segments:
            oldest = manifest.oldest[log]
            if oldest is not None:
                for event in decode_events(lines):
                    if event[0] >= oldest:
                        yield log, event
    except (TypeError, ValueError, IndexError) as error:
        raise StateError(f"it cannot be read ({error})") from error


def live_consumption(manifest: Manifest, segments: Iterable[bytes]) -> Iterator[Consumption]:
    """The live consumption in segments of the last log. Raises StateError."""
    oldest = manifest.oldest[-1]
    try:
        for lines in segments:
            if oldest is not None:
                yield from (pair for pair in decode_consumption(lines) if pair[1] >= oldest)
    except (TypeError, ValueError, IndexError) as error:
        raise StateError(f"it cannot be read ({error})") from error


def log_snapshot(manifest: Manifest, segments: Iterable[tuple[int, bytes]]) -> StateSnapshot:
    """The state in the logs, as one snapshot."""
    last = len(manifest.oldest) - 1
    events: list[list[StoredEvent]] = [[] for _ in range(last)]
    consumed: list[list[tuple[Micros, int]]] = [[] for _ in range(manifest.set_count)]
    for log, lines in segments:
        if log == last:
            for number, time, ordinal, _ in live_consumption(manifest, [lines]):
                consumed[number].append((time, ordinal))
        else:
            events[log] += [event for _, event in live_events(manifest, [(log, lines)])]
    stores = len(manifest.event_counts)
    return StateSnapshot(events[:stores], consumed, events[stores:], manifest.passed)


def state_digest(*parts: bytes) -> bytes:
    """A digest of the written parts; for logs these include the digest of the batch before."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
