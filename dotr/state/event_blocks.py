"""Blocks of stored events as columns, so that state moves without an object for each event.

Idea: a segment of a log (`state_log.encode_events`) lists each distinct term once, and for each
event its time, ordinal and the numbers of its terms. The bucket of an event is that of one term, so
terms are hashed, not events; parts of a block, and the union of blocks in the order of time, are
made of such lists.
Example: [["<a>", "<b>"], 1, [5, 7, 9], [0, 0, 0], [0, 1, 0]] are the events (5, 0, <a>),
(7, 0, <b>) and (9, 0, <a>); the part of the bucket of <a> is [["<a>"], 1, [5, 9], [0, 0], [0, 0]].
Cost: linear in the events.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, repeat
from typing import Final, NamedTuple

from dotr.layout.event_order import AttributeValues
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.patterns.events import StoredEvent

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
        """The block of a line that `state_log.encode_events` has written. Raises ValueError or TypeError.

        >>> EventBlock.decode(b'[["<a>","<b>"],1,[5,7],[0,1],[0,1]]')
        EventBlock(terms=['<a>', '<b>'], times=[5, 7], ordinals=[0, 1], columns=[[0, 1]])
        """
        terms, arity, times, ordinals, numbers = json.loads(line)
        return EventBlock(terms, times, ordinals, [numbers[place::arity] for place in range(arity)])

    @staticmethod
    def of_events(events: Sequence[StoredEvent]) -> EventBlock:
        """The block of some events of one length."""
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

    def chosen(self, places: Sequence[int]) -> EventBlock:
        """The events at some places, in their order.

        >>> EventBlock(["<a>", "<b>"], [5, 7, 9], [0, 1, 2], [[0, 1, 0]]).chosen([0, 2])
        EventBlock(terms=['<a>', '<b>'], times=[5, 9], ordinals=[0, 2], columns=[[0, 0]])
        """

        def of(column: Sequence[int]) -> list[int]:
            return list(map(column.__getitem__, places))

        return EventBlock(self.terms, of(self.times), of(self.ordinals), [of(column) for column in self.columns])

    def since(self, time: Micros) -> EventBlock:
        """The events from a time on (µs)."""
        first = bisect_left(self.times, time)
        if not first:
            return self
        return EventBlock(self.terms, self.times[first:], self.ordinals[first:], [column[first:] for column in self.columns])

    def buckets(self, key: int | None, bucket_of: Callable[[AttributeValues, Micros], int]) -> Sequence[int]:
        """The bucket of each event.

        Args:
            key: the place of the term that decides on it; None: the values of the whole event do.
            bucket_of: the bucket of a row, at a time in µs.

        >>> EventBlock(["<a>", "<b>"], [5, 7, 9], [0, 0, 0], [[0, 1, 0]]).buckets(0, lambda row, time: len(row[0]) + (row[0] == "<b>"))
        [3, 4, 3]
        """
        if key is None:
            return list(map(bucket_of, self.rows(), self.times))
        column = self.columns[key]
        found: dict[int, int] = {}
        for number in dict.fromkeys(column):
            row: list[Term | None] = [None] * len(self.columns)
            row[key] = self.terms[number]
            found[number] = bucket_of(tuple(row), self.times[0])
        return list(map(found.__getitem__, column))


def joined(blocks: Sequence[EventBlock]) -> EventBlock:
    """Blocks one behind the other as one, whose times may be in any order.

    >>> joined([EventBlock(["<a>"], [5], [0], [[0]]), EventBlock(["<b>", "<a>"], [3, 7], [0, 0], [[0, 1]])])
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


def united(blocks: Sequence[EventBlock], tie_order: Callable[[AttributeValues], object] | None) -> EventBlock:
    """The events of blocks in the order of time, each once: equal time and ordinal are one event.

    Args:
        blocks: blocks of one log, each in order of time, so that sorting merges them.
        tie_order: the order of events of one time; None: any.

    >>> one, other = EventBlock(["<a>"], [5, 9], [0, 0], [[0, 0]]), EventBlock(["<b>"], [5, 7], [1, 0], [[0, 0]])
    >>> united([other, one, one], lambda row: row)
    EventBlock(terms=['<b>', '<a>'], times=[5, 5, 7, 9], ordinals=[0, 1, 0, 0], columns=[[1, 0, 0, 1]])
    """
    whole = joined([block for block in blocks if block.times])
    if not whole.times:
        return whole
    order = sorted(range(len(whole.times)), key=whole.times.__getitem__)
    first: dict[tuple[Micros, int], int] = {}
    for place, moment in zip(
        order, zip(map(whole.times.__getitem__, order), map(whole.ordinals.__getitem__, order), strict=True), strict=True
    ):
        first.setdefault(moment, place)
    whole = whole.chosen(list(first.values()))
    return whole if tie_order is None else whole.chosen(_in_tie_order(whole, tie_order))


def _in_tie_order(block: EventBlock, tie_order: Callable[[AttributeValues], object]) -> list[int]:
    """The places of a block's events in order of time and ties."""
    places: list[int] = []
    rows, times, end = list(block.rows()), block.times, len(block.times)
    start = 0
    while start < end:
        after = start + 1
        while after < end and times[after] == times[start]:
            after += 1
        if after - start == 1:
            places.append(start)
        else:
            places += sorted(range(start, after), key=lambda place: (tie_order(rows[place]), block.ordinals[place]))
        start = after
    return places


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
