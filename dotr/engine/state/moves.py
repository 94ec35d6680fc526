"""State of a bucket of rules while it is moved, and the file that holds it until the bucket starts.

Idea: a bucket that has no stored value yet starts from a file. Its first line has the number of
lines of each store and queue, and the consumed events; each further line is a block of events, as
in a segment.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, islice, repeat
from typing import Final, NamedTuple

from dotr.engine.state.log import Manifest, live_consumption
from dotr.model.event_order import AttributeValues
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import State, StateError, StateSnapshot

# Blocks of stored events as columns, so that state moves without an object for each event.
#
# Idea: a segment of a log (`state_log.encode_events`) lists each distinct term once, and for each
# event its time, ordinal and the numbers of its terms. The bucket of an event is that of one term, so
# terms are hashed, not events; parts of a block, and the union of blocks in the order of time, are
# made of such lists.
# Example: [["<a>", "<b>"], 1, [5, 7, 9], [0, 0, 0], [0, 1, 0]] are the events (5, 0, <a>),
# (7, 0, <b>) and (9, 0, <a>); the part of the bucket of <a> is [["<a>"], 1, [5, 9], [0, 0], [0, 0]].
# Cost: linear in the events.

BLOCK_EVENTS: Final = 20_000
"""Most events of a block that is written."""


class EventBlock(NamedTuple):
    """Events of one log in order of time: the distinct terms, the times (µs), the ordinals, and for
    each attribute the number of its term in each event."""

    terms: Sequence[Term | None]
    times: Sequence[Micros]
    ordinals: Sequence[int]
    columns: Sequence[Sequence[int]]

    @staticmethod
    def decode(line: bytes) -> EventBlock:
        """The block of a line that `state_log.encode_events` has written. Raises ValueError or
        TypeError.

        >>> EventBlock.decode(b'[["<a>","<b>"],1,[5,7],[0,1],[0,1]]')
        EventBlock(terms=['<a>', '<b>'], times=[5, 7], ordinals=[0, 1], columns=[[0, 1]])
        """
        terms, arity, times, ordinals, numbers = json.loads(line)
        return EventBlock(terms, times, ordinals, [numbers[column::arity] for column in range(arity)])

    @staticmethod
    def of_events(events: Sequence[StoredEvent]) -> EventBlock:
        """The block of events whose rows have the same length."""
        numbers: defaultdict[Term | None, int] = defaultdict(count().__next__)
        columns = [list(map(numbers.__getitem__, column)) for column in zip(*[event[2] for event in events], strict=True)]
        return EventBlock(list(numbers), [event[0] for event in events], [event[1] for event in events], columns)

    def encode(self) -> bytes:
        """The inverse of `decode`: a line."""
        numbers: defaultdict[int, int] = defaultdict(count().__next__)
        listed = list(map(numbers.__getitem__, chain.from_iterable(zip(*self.columns, strict=True))))
        terms = list(map(self.terms.__getitem__, numbers))
        data = [terms, len(self.columns), self.times, self.ordinals, listed]
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"

    def events(self) -> Iterator[StoredEvent]:
        """The events."""
        return zip(self.times, self.ordinals, self.rows(), strict=False)

    def rows(self) -> Iterator[AttributeValues]:
        """The values of each event."""
        term = self.terms.__getitem__
        return zip(*[map(term, column) for column in self.columns], strict=True) if self.columns else repeat((), len(self.times))

    def chosen(self, positions: Sequence[int]) -> EventBlock:
        """The events at `positions`, in that order.

        >>> EventBlock(["<a>", "<b>"], [5, 7, 9], [0, 1, 2], [[0, 1, 0]]).chosen([0, 2])
        EventBlock(terms=['<a>', '<b>'], times=[5, 9], ordinals=[0, 2], columns=[[0, 0]])
        """

        def of(column: Sequence[int]) -> list[int]:
            return list(map(column.__getitem__, positions))

        return EventBlock(self.terms, of(self.times), of(self.ordinals), [of(column) for column in self.columns])

    def mapped(self, columns: Sequence[int]) -> EventBlock:
        """The events with other columns, each given by its number now; -1: no event has a value.

        >>> list(EventBlock(["<a>", "<b>"], [5, 7], [0, 0], [[0, 1]]).mapped([-1, 0]).rows())
        [(None, '<a>'), (None, '<b>')]
        """
        absent = [len(self.terms)] * len(self.times)
        return self._replace(terms=[*self.terms, None], columns=[absent if each < 0 else self.columns[each] for each in columns])

    def since(self, time: Micros) -> EventBlock:
        """The events from a time on (µs)."""
        first = bisect_left(self.times, time)
        if not first:
            return self
        return EventBlock(self.terms, self.times[first:], self.ordinals[first:], [column[first:] for column in self.columns])

    def buckets_by(self, key: int, bucket_of: Callable[[Term | None], int]) -> Sequence[int]:
        """The bucket of each event, which is that of its term in the column `key`.

        >>> EventBlock(["<a>", "<b>"], [5, 7, 9], [0, 0, 0], [[0, 1, 0]]).buckets_by(0, lambda term: 4 if term == "<b>" else 3)
        [3, 4, 3]
        """
        column, terms = self.columns[key], self.terms
        found = {number: bucket_of(terms[number]) for number in dict.fromkeys(column)}
        return list(map(found.__getitem__, column))


def concatenated(blocks: Sequence[EventBlock]) -> EventBlock:
    """The concatenation of blocks, whose times may be in any order.

    >>> concatenated([EventBlock(["<a>"], [5], [0], [[0]]), EventBlock(["<b>", "<a>"], [3, 7], [0, 0], [[0, 1]])])
    EventBlock(terms=['<a>', '<b>'], times=[5, 3, 7], ordinals=[0, 0, 0], columns=[[0, 1, 0]])
    """
    if len(blocks) == 1:
        return blocks[0]
    numbers: defaultdict[Term | None, int] = defaultdict(count().__next__)
    columns: list[list[int]] = [[] for _ in blocks[0].columns] if blocks else []
    for block in blocks:
        number = list(map(numbers.__getitem__, block.terms)).__getitem__
        for column, more in zip(columns, block.columns, strict=True):
            column.extend(map(number, more))
    times = list(chain.from_iterable(block.times for block in blocks))
    return EventBlock(list(numbers), times, list(chain.from_iterable(block.ordinals for block in blocks)), columns)


def united(blocks: Sequence[EventBlock], tie_order: Callable[[AttributeValues], object] | None, *, overlap: bool = True) -> EventBlock:
    """The union of blocks in the order of time; equal time and ordinal are one event.

    Args:
        blocks: blocks of one log, each in order of time, so that sorting merges them.
        tie_order: the order of events of one time; None: any.
        overlap: an event may be in several blocks.

    >>> one, other = EventBlock(["<a>"], [5, 9], [0, 0], [[0, 0]]), EventBlock(["<b>"], [5, 7], [1, 0], [[0, 0]])
    >>> united([other, one, one], lambda row: row)
    EventBlock(terms=['<b>', '<a>'], times=[5, 5, 7, 9], ordinals=[0, 1, 0, 0], columns=[[1, 0, 0, 1]])
    >>> united([one, other], None, overlap=False).times
    [5, 5, 7, 9]
    """
    whole = concatenated([block for block in blocks if block.times])
    if not whole.times:
        return whole
    order = sorted(range(len(whole.times)), key=whole.times.__getitem__)
    if overlap:
        first: dict[tuple[Micros, int], int] = {}
        times, ordinals = map(whole.times.__getitem__, order), map(whole.ordinals.__getitem__, order)
        for position, moment in zip(order, zip(times, ordinals, strict=True), strict=True):
            first.setdefault(moment, position)
        order = list(first.values())
    whole = whole.chosen(order)
    return whole if tie_order is None else whole.chosen(_in_tie_order(whole, tie_order))


def _in_tie_order(block: EventBlock, tie_order: Callable[[AttributeValues], object]) -> list[int]:
    """The positions of a block's events in order of time and ties."""
    positions: list[int] = []
    rows, times, end = list(block.rows()), block.times, len(block.times)
    start = 0
    while start < end:
        after = start + 1
        while after < end and times[after] == times[start]:
            after += 1
        if after - start == 1:
            positions.append(start)
        else:
            positions += sorted(range(start, after), key=lambda position: (tie_order(rows[position]), block.ordinals[position]))
        start = after
    return positions


def lines_of(block: EventBlock) -> Iterator[bytes]:
    """A block as lines of at most `BLOCK_EVENTS` events."""
    for start in range(0, len(block.times), BLOCK_EVENTS):
        end = start + BLOCK_EVENTS
        yield EventBlock(
            block.terms, block.times[start:end], block.ordinals[start:end], [column[start:end] for column in block.columns]
        ).encode()


def blocks_of(lines: Iterable[bytes]) -> list[EventBlock]:
    """The blocks of some lines."""
    return [EventBlock.decode(line) for line in lines]


FORM: Final = 1
"""Version of the form of a file."""

_BEGINNING: Final = b'{"moved":'


class MovedState(NamedTuple):
    """The state of a partition as blocks: of each store, of each set of consumed events, and of
    each queue; and `State.passed` (µs)."""

    events: Sequence[Sequence[EventBlock]]
    consumed: Sequence[Sequence[tuple[Micros, int]]]
    waiting: Sequence[Sequence[EventBlock]]
    passed: Micros | None

    @staticmethod
    def of_snapshot(state: StateSnapshot) -> MovedState:
        """The state of a snapshot as blocks."""

        def blocks(logs: Sequence[Sequence[StoredEvent]]) -> list[list[EventBlock]]:
            return [[EventBlock.of_events(log)] if log else [] for log in logs]

        return MovedState(blocks(state.events), state.consumed, blocks(state.waiting), state.passed)

    @property
    def snapshot(self) -> StateSnapshot:
        """The state as lists of events."""

        def events(logs: Sequence[Sequence[EventBlock]]) -> list[list[StoredEvent]]:
            return [[event for block in log for event in block.events()] for log in logs]

        return StateSnapshot(events(self.events), self.consumed, events(self.waiting), self.passed)

    @property
    def event_counts(self) -> tuple[int, ...]:
        """The number of events of each store."""
        return tuple(sum(len(block.times) for block in log) for log in self.events)

    def encode(self) -> bytes:
        """The lines of a file; `decode` tests their beginning."""
        lines = [[[line for block in log for line in lines_of(block)] for log in logs] for logs in (self.events, self.waiting)]
        head = {
            "moved": FORM,
            "passed": self.passed,
            "consumed": [sorted(pairs) for pairs in self.consumed],
            "lines": [[len(log) for log in logs] for logs in lines],
        }
        first = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        return b"".join([first, *(line for logs in lines for log in logs for line in log)])

    @staticmethod
    def decode(written: bytes) -> MovedState | None:
        """The inverse of `encode`; None for state of another form. Raises StateError.

        >>> state = MovedState([[EventBlock(["<a>"], [5], [0], [[0]])], []], [[(5, 0)]], [[]], 9)
        >>> MovedState.decode(state.encode()) == state, MovedState.decode(b'{"version":2}')
        (True, None)
        """
        if not written.startswith(_BEGINNING):
            return None
        try:
            lines = iter(written.splitlines())
            head = json.loads(next(lines))
            if head["moved"] != FORM:
                raise StateError(f"its form is {head['moved']}, this release reads {FORM}")
            events, waiting = ([blocks_of(islice(lines, number)) for number in numbers] for numbers in head["lines"])
            return MovedState(events, [[(time, ordinal) for time, ordinal in pairs] for pairs in head["consumed"]], waiting, head["passed"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise error if isinstance(error, StateError) else StateError(f"it cannot be read ({error})") from error


def is_moved(written: bytes) -> bool:
    """True for the text of a file of moved state.

    >>> is_moved(MovedState([], [], [], None).encode()), is_moved(b"")
    (True, False)
    """
    return written.startswith(_BEGINNING)


def blocks_of_state(written: bytes, segments: Iterable[tuple[int, bytes]]) -> MovedState:
    """The state of a bucket of rules from its stored value.

    Args:
        written: the value: a text, a manifest, or the text of a file of moved state.
        segments: those of a manifest, each with the number of its log, in the order of positions.

    Raises:
        StateError: the value cannot be read.
    """
    moved = MovedState.decode(written)
    if moved is not None:
        return moved
    manifest = Manifest.decode(written)
    if manifest is None:
        return MovedState.of_snapshot(StateSnapshot.decode(written))
    last = len(manifest.oldest) - 1
    logs: list[list[EventBlock]] = [[] for _ in range(last)]
    consumed: list[list[tuple[Micros, int]]] = [[] for _ in range(manifest.set_count)]
    try:
        for log, lines in segments:
            if log == last:
                for number, time, ordinal, _ in live_consumption(manifest, [lines]):
                    consumed[number].append((time, ordinal))
            elif (oldest := manifest.oldest[log]) is not None:
                logs[log] += [live for block in blocks_of(lines.splitlines()) if (live := block.since(oldest)).times]
    except (IndexError, TypeError, ValueError) as error:
        raise error if isinstance(error, StateError) else StateError(f"it cannot be read ({error})") from error
    stores = len(manifest.event_counts)
    return MovedState(logs[:stores], consumed, logs[stores:], manifest.passed)


def restore_moved(state: State, written: bytes) -> State:
    """Fill the empty `state` with moved state, and return it. Raises StateError where the moved
    state is that of another layer."""
    moved = MovedState.decode(written)
    assert moved is not None, "the text is that of a file of moved state"
    counts = (moved.events, state.stores), (moved.consumed, state.consumed), (moved.waiting, state.waiting)
    if any(len(moved_slots) != len(slots) for moved_slots, slots in counts):
        raise StateError("it belongs to another program")
    for store, blocks in zip(state.stores, moved.events, strict=True):
        if events := list(_events(blocks)):
            store.extend(events)
    for consumed, pairs in zip(state.consumed, moved.consumed, strict=True):
        consumed.update(pairs)
    for waiting, blocks in zip(state.waiting, moved.waiting, strict=True):
        waiting.extend(_events(blocks))
        waiting.drop_fired(waiting.oldest(), moved.passed)
    state.passed = moved.passed
    return state


def _events(blocks: Iterable[EventBlock]) -> Iterator[StoredEvent]:
    return (event for block in blocks for event in block.events())
