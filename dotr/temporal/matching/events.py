"""Values of stage two: stored events and matches.

Events and matches are plain tuples: one takes a third of the time of an object of a class with
named fields, and the garbage collector stops to look at it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from dotr.model.event_order import AttributeValues
from dotr.model.terms import Label, Term
from dotr.model.time import Micros
from dotr.temporal.matching.rule_search import TableRow

StoredEvent: TypeAlias = tuple[Micros, int, AttributeValues]
"""An event in the state of stage two: its time in µs since 1970, its ordinal, which distinguishes
events of one stream and instant, and its attributes in the order of the port's names."""


Match: TypeAlias = tuple[int, int, tuple[StoredEvent, ...], AttributeValues]
"""A complete binding of a rule of a layer: the number of the rule, the ordinal, the bound events,
and the values of the composite event's attributes.

The bound events are those of the positive roles, the anchor first and the others in the order
written. The ordinal distinguishes the matches with one event label at one instant. A plain tuple:
`zip` makes those of many rules in a quarter of the time of a class with named fields.
"""


class EnteringBinding(NamedTuple):
    """A binding that enters a stage of rules.

    `rows` are those of the rules that it satisfies so far, `size` is the product of the numbers of
    events chosen on its way (1 where no clause may choose several), and `bound` has the event or
    the value of each later positive role or aggregate of the stages before.
    """

    anchor: StoredEvent
    rows: Sequence[TableRow]
    size: int
    bound: tuple[StoredEvent | Term | None, ...]


SearchStart: TypeAlias = StoredEvent | EnteringBinding
"""Start of a search of matches: an anchor, or a binding that enters a stage."""


def anchor_of(start: SearchStart) -> StoredEvent:
    """The anchor of the matches that a search may find."""
    return start.anchor if isinstance(start, EnteringBinding) else start


# Buffer of the matches of a moment, emitted in parts so that memory stays bounded.
#
# Invariant: matches are emitted between two anchors, or between two rules at one anchor, never within
# one rule's matches of an anchor: so these can be withdrawn. Ordinals continue across parts.

EmitMatches: TypeAlias = Callable[[list[Match]], None]
"""Receives a list of matches; the list is cleared after the call."""

FLUSH_SIZE: Final = 50_000
"""The number of matches at which the buffer is emitted."""


class MatchBuffer:
    """The matches of a moment that are not yet emitted.

    `base` plus the position in `matches` is a match's ordinal. `events` collects, by label, the
    composite events that rules of the same layer read at this moment.
    """

    __slots__ = ("_collected", "_composite_labels", "_emit", "base", "events", "matches")

    def __init__(
        self, matches: list[Match], base: int, emit: EmitMatches | None, composite_labels: list[Label | None] | None = None
    ) -> None:
        self.matches = matches
        self.base = base
        self._emit = emit
        self._composite_labels = composite_labels
        self._collected = 0
        self.events: dict[Label, list[tuple[int, AttributeValues]]] = {}

    def flush(self) -> None:
        """Emits the matches if there are `FLUSH_SIZE` or more."""
        if len(self.matches) >= FLUSH_SIZE:
            self.emit()

    def emit(self) -> None:
        """Emits the matches, however few there are."""
        if self._emit is not None:
            self.collect_events()
            self._collected = 0
            self.base += len(self.matches)
            self._emit(self.matches)
            self.matches.clear()

    def collect_events(self) -> None:
        """Collects the composite events of the matches added since the last call."""
        if self._composite_labels is not None:
            for rule, ordinal, _, values in self.matches[self._collected :]:
                event = self._composite_labels[rule]
                if event is not None:
                    self.events.setdefault(event, []).append((ordinal, values))
            self._collected = len(self.matches)

    def until_full(self, anchors: Iterable[SearchStart]) -> Iterable[SearchStart]:
        """The anchors, up to the one at which the buffer is full."""
        return anchors if self._emit is None else self._until_many(anchors)

    def _until_many(self, anchors: Iterable[SearchStart]) -> Iterator[SearchStart]:
        matches = self.matches
        for anchor in anchors:
            yield anchor
            if len(matches) >= FLUSH_SIZE:
                return


# Events that wait for the delay of their anchors.


class AnchorQueue(deque[StoredEvent]):
    """The events that wait for a constant delay (µs), in the order of time and ties."""

    def __init__(self, delay: Micros) -> None:
        super().__init__()
        self.delay = delay

    def next_due(self) -> Micros | None:
        """The time (µs) at which the next one is due; None: none waits."""
        return self[0][0] + self.delay if self else None

    def last_due(self) -> Micros | None:
        """The time (µs) at which the last one is due; None: none waits."""
        return self[-1][0] + self.delay if self else None

    def pop_due(self, time: Micros) -> list[StoredEvent]:
        """Removes and returns the events due at a time (µs)."""
        due = []
        while self and self[0][0] + self.delay == time:
            due.append(self.popleft())
        return due

    def oldest(self) -> Micros | None:
        """The time (µs) of the oldest event; None: none waits."""
        return self[0][0] if self else None

    def drop_fired(self, oldest: Micros | None, passed: Micros | None) -> None:
        """Removes the events that have fired, where those from `oldest` (µs) on wait and all times
        up to `passed` (µs) are over."""
        while self and (oldest is None or self[0][0] < oldest):
            self.popleft()


ReadTerms: TypeAlias = Callable[[Micros, AttributeValues], tuple[Term | None, ...]]
"""Terms of an event, by its time (µs) and its values."""

DelayOf: TypeAlias = Callable[[Micros, AttributeValues], Micros | None]
"""The delay (µs) of an event by its time (µs) and its values; None: the value is no delay."""


class QueueByValue(AnchorQueue):
    """The events that wait for delays of their own, with a heap by the times at which they are due.

    Invariant: iterated in the order of time and ties, as they arrived, also after a restart. An
    event whose value is no delay does not wait.
    """

    def __init__(self, delay: Micros, delay_of: DelayOf) -> None:
        super().__init__(delay)
        self._delay_of = delay_of
        self._heap: list[tuple[Micros, int, StoredEvent]] = []
        self._arrived = 0

    def extend(self, events: Iterable[StoredEvent]) -> None:
        """Adds events that arrive in the order of time and ties."""
        for event in events:
            self.append(event)

    def append(self, event: StoredEvent) -> None:
        """Adds an event, which is not earlier than those before."""
        delay = self._delay_of(event[0], event[2])
        if delay is not None:
            self._arrived += 1
            heappush(self._heap, (event[0] + delay, self._arrived, event))

    def __iter__(self) -> Iterator[StoredEvent]:
        return iter([event for _, _, event in sorted(self._heap, key=itemgetter(1))])

    def __reversed__(self) -> Iterator[StoredEvent]:
        return reversed(list(self))

    def __len__(self) -> int:
        return len(self._heap)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]

    def next_due(self) -> Micros | None:
        return self._heap[0][0] if self._heap else None

    def last_due(self) -> Micros | None:
        return max([due for due, _, _ in self._heap], default=None)

    def pop_due(self, time: Micros) -> list[StoredEvent]:
        due = []
        while self._heap and self._heap[0][0] == time:
            due.append(heappop(self._heap)[2])
        return due

    def oldest(self) -> Micros | None:
        return min([event[0] for _, _, event in self._heap], default=None)

    def drop_fired(self, oldest: Micros | None, passed: Micros | None) -> None:
        while passed is not None and self._heap and self._heap[0][0] <= passed:
            heappop(self._heap)
