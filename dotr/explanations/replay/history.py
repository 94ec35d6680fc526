"""Recorded events of a replay: facts of queries, composite events and ticks.

Invariant: the events of a stream are in the order of time, those of one time in the tie order
(semantics.md, section 4).
Cost: a range of times is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from dotr.model.event_order import AttributeValues, tie_key
from dotr.model.rules import EventSource, FactSource, Role, Source
from dotr.model.terms import Term, Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.layout.layers import PortStream
from dotr.temporal.layout.retention import AnchorDelay, anchor_delay
from dotr.temporal.matching.events import DelayOf
from dotr.temporal.matching.matcher.emitter import compile_delay


class RecordedEvent(NamedTuple):
    """A recorded event of a stream.

    - `stream`: the number of a stream of facts, or the label of composite events.
    - `time`: in µs since 1970, without the delay of an anchor.
    - `number`: its place among the events of its stream and time, in the tie order, from 0 on.
    - `names`, `values`: its attributes, sorted by name; None where unbound.
    """

    stream: PortStream
    time: Micros
    number: int
    names: tuple[Variable, ...]
    values: AttributeValues

    @property
    def attributes(self) -> dict[Variable, Term]:
        """The bound attributes, hidden ones included.

        >>> RecordedEvent(0, 0, 0, ("room", "v"), ("<http://e/lab>", None)).attributes
        {'room': '<http://e/lab>'}
        """
        return {name: value for name, value in zip(self.names, self.values, strict=True) if value is not None}


class _Stream:
    """Events of one stream.

    - `times`: the times of `events`, for bisection.
    - `has_occurred`: True after the first event, also when it is discarded.
    - `ordinals`: composite events by time and by their ordinal in the engine.
    """

    __slots__ = ("events", "has_occurred", "names", "ordinals", "times")

    def __init__(self, names: tuple[Variable, ...]) -> None:
        self.names = names
        self.has_occurred = False
        self.times: list[Micros] = []
        self.events: list[RecordedEvent] = []
        self.ordinals: dict[tuple[Micros, int], RecordedEvent] = {}


class History:
    """Events by stream.

    Args:
        streams: the number of the stream of each query.
        events: the sorted attributes of each composite event, by label.

    Attributes:
        passed: the time of the last instant in µs since 1970; None before the first.
    """

    def __init__(self, streams: Mapping[FactSource, int], events: Mapping[str, tuple[Variable, ...]]) -> None:
        self.passed: Micros | None = None
        self._numbers = streams
        self._streams: dict[PortStream, _Stream] = {number: _Stream(source.attributes) for source, number in streams.items()}
        self._streams |= {label: _Stream(names) for label, names in events.items()}

    def stream_of(self, source: Source) -> PortStream:
        """The stream of a source; raises `KeyError` for a query that is not recorded."""
        match source:
            case FactSource():
                return self.number_of(source)
            case EventSource(event, _):
                return event

    def number_of(self, source: FactSource) -> int:
        """The number of the stream of a query; raises `KeyError` for one that is not recorded."""
        return self._numbers[source]

    @property
    def labels(self) -> list[str]:
        """The labels of the composite events that are recorded."""
        return [stream for stream in self._streams if isinstance(stream, str)]

    def record(self, stream: PortStream, time: Micros, events: Sequence[tuple[int, AttributeValues]]) -> None:
        """Append the events of a stream at a time, each with its ordinal in the engine.

        Args:
            stream: the stream.
            time: in µs since 1970, not before that of any recorded event.
            events: for a stream of facts all facts of the time, in the tie order. Composite events
                of one time may be recorded in several calls, and are sorted here.
        """
        into = self._streams[stream]
        names = into.names
        into.has_occurred = into.has_occurred or bool(events)
        if isinstance(stream, int):
            into.events += [RecordedEvent(stream, time, number, names, values) for number, (_, values) in enumerate(events)]
            into.times += [time] * len(events)
            return
        start = bisect_left(into.times, time)
        earlier = {each.number: ordinal for (at, ordinal), each in into.ordinals.items() if at == time} if start < len(into.times) else {}
        known = [(earlier[each.number], each.values) for each in into.events[start:]]
        ordered = sorted([*known, *events], key=lambda event: tie_key(names, event[1]))
        into.events[start:] = [RecordedEvent(stream, time, number, names, values) for number, (_, values) in enumerate(ordered)]
        into.times[start:] = [time] * len(ordered)
        into.ordinals.update({(time, ordinal): each for (ordinal, _), each in zip(ordered, into.events[start:], strict=True)})

    def find(self, stream: PortStream, time: Micros, ordinal: int) -> RecordedEvent:
        """The event at a time (µs since 1970) with an ordinal of the engine; raises
        `LookupError`."""
        into = self._streams[stream]
        if isinstance(stream, str):
            return into.ordinals[time, ordinal]
        return into.events[bisect_left(into.times, time) + ordinal]

    def between(self, stream: PortStream, earliest: Micros, latest: Micros) -> Sequence[RecordedEvent]:
        """The events of a stream from `earliest` to `latest` (µs since 1970, both included), in the
        order of time and ties.
        """
        into = self._streams[stream]
        return into.events[bisect_left(into.times, earliest) : bisect_right(into.times, latest)]

    def has_occurred(self, stream: PortStream) -> bool:
        """True if the stream has had an event, discarded or not."""
        return self._streams[stream].has_occurred

    def last_before(self, stream: PortStream, time: Micros) -> RecordedEvent | None:
        """The latest event of a stream before a time (µs since 1970); None: there is none."""
        into = self._streams[stream]
        place = bisect_left(into.times, time)
        return into.events[place - 1] if place else None

    def count(self) -> int:
        """The number of events of all streams."""
        return sum(len(each.events) for each in self._streams.values())

    def middle(self) -> Micros:
        """The median time of the longest stream, in µs since 1970."""
        longest = max(self._streams.values(), key=lambda each: len(each.times))
        return longest.times[len(longest.times) // 2]

    def discard_before(self, before: Micros) -> None:
        """Remove the events before a time (µs since 1970)."""
        for each in self._streams.values():
            end = bisect_left(each.times, before)
            if end:
                if each.ordinals:
                    for key in [key for key in each.ordinals if key[0] < before]:
                        del each.ordinals[key]
                del each.times[:end], each.events[:end]


def anchor_delay_of(anchor: Role, event: RecordedEvent, clock: Clock) -> Micros | None:
    """The delay (µs) of an event as an anchor; None: its value of `delayed by` is no delay."""
    if anchor.delayed_by is None:
        return anchor.delay
    delay_of = _compiled_delay(anchor_delay(anchor), tuple(event.names), clock)
    return delay_of(event.time, event.values)


@lru_cache(maxsize=64)
def _compiled_delay(delay: AnchorDelay, names: tuple[Variable, ...], clock: Clock) -> DelayOf:
    return compile_delay(delay, names, clock)
