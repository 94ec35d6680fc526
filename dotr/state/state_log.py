"""State written as logs, so that a batch writes what it adds, whatever is there: a log for each store and queue, one for what is consumed.

Idea: what a partition remembers comes in the order of time and goes in it. So a log is only ever appended to, in pieces; its oldest pieces
go whole once all in them is too old, and what says how much of the rest still counts is one time for each log (`Manifest.oldest`).
Invariant: of a log's events those count that are not older than its `oldest`; what is consumed is never later consumed by the same set, so
that it may stand in a log that is read to the end. Cost: reading and writing are proportional to the events in question.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, count
from typing import Final, NamedTuple, TypeAlias

from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.patterns.events import StoredEvent
from dotr.patterns.state import State, StateError, StateSnapshot

HEAD_VERSION: Final = 3
"""Versions of state up to 2 are whole texts (`StateSnapshot`); this is that of what stands in the same place where there are logs."""

Consumption: TypeAlias = tuple[int, Micros, int, int]
"""What is consumed: the number of the set, the event's time and ordinal, and the page that it was found in."""


class TrackedSet(set[tuple[Micros, int]]):
    """A set of consumed events that keeps what is new in it, until that is written."""

    def __init__(self, events: Iterable[tuple[Micros, int]] = ()) -> None:
        super().__init__(events)
        self.unwritten: list[tuple[Micros, int]] = []

    def update(self, *others: Iterable[tuple[Micros, int]]) -> None:
        for events in map(tuple, others):
            self.unwritten += events
            super().update(events)


class LogSegment(NamedTuple):
    """A stretch of a log: of which log, its place there, the number of the last batch in it, its bytes, and the latest time in it."""

    log: int
    position: int
    batch: int
    size: int
    latest: Micros


class Manifest(NamedTuple):
    """What is told of logs: the number of the batch written last, up to which time all was closed then, `State.passed`, the oldest time
    that counts of each log (None: nothing does), the pieces in order, into how many pages they are divided, about how many events each
    store holds, how many sets of consumed events there are, and the digests of the last few batches by their numbers."""

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
        """Versioned JSON, whose members keep their names and their order: a digest is made of it, and `decode` looks at how it begins."""
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

    def is_outdated(self, passed: Micros | None, oldest: Sequence[Micros | None], pages: int) -> bool:
        """Whether it is another head that tells of this, though nothing was added."""
        if passed != self.passed or pages != self.page_count:
            return True
        return any((time := oldest[piece.log]) is None or piece.latest < time for piece in self.segments)

    @staticmethod
    def decode(written: bytes) -> Manifest | None:
        """The inverse of `encode`; None where a state of an older form, or none, is written. Raises StateError.

        >>> head = Manifest(3, 9, None, (4, None), (LogSegment(0, 1, 3, 120, 8),), 1, (7,), 0, ((3, "a"),))
        >>> Manifest.decode(head.encode()) == head, Manifest.decode(b'{"version":2}'), Manifest.decode(b"")
        (True, None, None)
        """
        if not written.startswith(b'{"version":%d,"number"' % HEAD_VERSION):
            return None
        try:
            data = json.loads(written)
            pieces = tuple(LogSegment(log, place, number, size, until) for log, place, number, size, until in data["pieces"])
            recent = tuple((number, digest) for number, digest in data["recent"])
            held, oldest = tuple(data["held"]), tuple(data["oldest"])
            return Manifest(data["number"], data["closed"], data["passed"], oldest, pieces, data["pages"], held, data["sets"], recent)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"it cannot be read ({error})") from error


class LogDelta(NamedTuple):
    """What a batch has added to the logs: the events of each store, then of each queue; and what was consumed."""

    events: Sequence[Sequence[StoredEvent]]
    consumed: Sequence[Consumption]


def added_since(state: State, after: Micros | None, page: int = 0) -> LogDelta:
    """What a state holds that is later than a time (None: all); what was recorded as consumed is handed over."""
    logs = [*(store.log for store in state.stores), *state.waiting]
    events = [list(log) if after is None else _events_after(log, after) if log and log[-1][0] > after else [] for log in logs]
    pairs: list[Consumption] = []
    for number, used in enumerate(state.consumed):
        fresh: Iterable[tuple[Micros, int]] = used
        if isinstance(used, TrackedSet):
            fresh, used.unwritten = used if after is None else used.unwritten, []
        elif after is not None:
            continue
        pairs += [(number, time, ordinal, page) for time, ordinal in fresh]
    return LogDelta(events, pairs)


def track_consumption(state: State) -> State:
    """The state, which from now on keeps what is consumed until it is written."""
    state.consumed = tuple(map(TrackedSet, state.consumed))
    return state


def _events_after(log: Iterable[StoredEvent], after: Micros) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    for event in reversed(log):  # type: ignore[call-overload]
        if event[0] <= after:
            break
        found.append(event)
    found.reverse()
    return found


def encode_events(events: Sequence[StoredEvent]) -> bytes:
    """Events as a line: each term once, then times, ordinals and the numbers of the terms in turn. The inverse of `events_of`."""
    numbers: defaultdict[Term | None, int] = defaultdict(count().__next__)
    listed = list(map(numbers.__getitem__, chain.from_iterable([values for _, _, values in events])))
    data = [list(numbers), len(events[0].values), [event[0] for event in events], [event[1] for event in events], listed]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def decode_events(lines: bytes) -> Iterator[StoredEvent]:
    """The events of a piece.

    >>> first, second = StoredEvent(5, 0, ('"a"', None)), StoredEvent(7, 1, ('"a"', '"b"'))
    >>> list(events_of(events_line([first, second]) + events_line([second]))) == [first, second, second]
    True
    """
    for line in lines.splitlines():
        terms, width, times, ordinals, listed = json.loads(line)
        values: Iterable[tuple[Term | None, ...]]
        values = zip(*[map(terms.__getitem__, listed)] * width, strict=True) if width else ((),) * len(times)
        yield from map(StoredEvent, times, ordinals, values)


def encode_consumption(pairs: Sequence[Consumption]) -> bytes:
    """The inverse of `pairs_of`."""
    return json.dumps(list(zip(*pairs, strict=True)), separators=(",", ":")).encode() + b"\n"


def decode_consumption(lines: bytes) -> Iterator[Consumption]:
    """What was consumed, in a piece.

    >>> list(pairs_of(pairs_line([(0, 5, 1, 3), (2, 7, 0, 0)]) + pairs_line([(0, 6, 0, 1)])))
    [(0, 5, 1, 3), (2, 7, 0, 0), (0, 6, 0, 1)]
    """
    for line in lines.splitlines():
        yield from zip(*json.loads(line), strict=True)


def live_events(head: Manifest, pieces: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, StoredEvent]]:
    """Of pieces, which come with the numbers of their logs, the events that count, with those numbers. Raises StateError."""
    try:
        for log, lines in pieces:
            oldest = head.oldest[log]
            if oldest is not None:
                for event in decode_events(lines):
                    if event[0] >= oldest:
                        yield log, event
    except (TypeError, ValueError, IndexError) as error:
        raise StateError(f"it cannot be read ({error})") from error


def live_consumption(head: Manifest, pieces: Iterable[bytes]) -> Iterator[Consumption]:
    """Of pieces of the last log, what counts. Raises StateError."""
    oldest = head.oldest[-1]
    try:
        for lines in pieces:
            if oldest is not None:
                yield from (pair for pair in decode_consumption(lines) if pair[1] >= oldest)
    except (TypeError, ValueError, IndexError) as error:
        raise StateError(f"it cannot be read ({error})") from error


def log_snapshot(head: Manifest, pieces: Iterable[tuple[int, bytes]]) -> StateSnapshot:
    """All that logs hold, as one text has it."""
    last = len(head.oldest) - 1
    events: list[list[StoredEvent]] = [[] for _ in range(last)]
    consumed: list[list[tuple[Micros, int]]] = [[] for _ in range(head.set_count)]
    for log, lines in pieces:
        if log == last:
            for number, time, ordinal, _ in live_consumption(head, [lines]):
                consumed[number].append((time, ordinal))
        else:
            events[log] += [event for _, event in live_events(head, [(log, lines)])]
    stores = len(head.event_counts)
    return StateSnapshot(events[:stores], consumed, events[stores:], head.passed)


def state_digest(*parts: bytes) -> bytes:
    """What tells one state from another: of what is written, and where there are logs also of what was written before."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
