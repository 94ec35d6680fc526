"""A bucket's state in a worker: one partition, or where that would be large, very many small ones, of which those in use are decoded.

Idea: keys of a rule never meet, so a bucket may be cut into *pages*, each some keys' whole state. A batch goes through the pages that it
touches, one after the other. Those that were used last stay decoded, up to a bound for the whole worker; the others are texts in its
temporary database (`cold`). Texts stay there when their page is decoded; when it is not any more, what is new in it becomes one text more,
and now and then all that counts of it becomes one. A program with timers, where time alone touches every partition, has one page.
Invariant: pages are a function of the logs and of how many they are; nothing that is written depends on which of them are decoded. A page's
texts hold all of it up to some time and nothing later, and of their events those are held that are not too old at the last `SpilledText.closed`.
Cost: of a batch, the pages that it touches and their events; memory, the bound, and what a single page may have beyond a quarter of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar
from zlib import crc32

from dotr.expressions import equality_key
from dotr.layout.event_order import AttributeValues
from dotr.layout.layers import Layer
from dotr.model.time import Micros
from dotr.patterns.events import StoredEvent
from dotr.patterns.state import State
from dotr.state.page_codec import PagePart, decode_parts, encode_part
from dotr.state.spill_db import SpillDatabase, SpilledText, SpilledTexts
from dotr.state.state_log import Consumption, LogDelta, added_since, track_consumption

MAX_PAGES: Final = 1 << 16
"""Pages of a bucket."""

PAGE_EVENTS: Final = 32
"""Events of a page, about; there are more pages when there are four times as many."""

MAX_UNPAGED: Final = 65_536
"""Up to so many events a bucket is one partition."""

MAX_DECODED: Final = 800_000
"""Events that a worker has decoded, in all buckets."""

MAX_TEXTS: Final = 8
"""So many texts of a page become one with what is new in it."""

_LOAD_EVENTS: Final = 200_000

_SWEEP_PAGES: Final = 256

_NEVER: Final = -1 << 62

Work = TypeVar("Work")

PageOf: TypeAlias = Callable[[int, AttributeValues], int]
"""`page_of(port, values)`."""


def pages_for(events: int, pages: int) -> int:
    """How many pages there are to be where there are so many events and pages.

    >>> pages_for(65_536, 1), pages_for(65_537, 1), pages_for(260_000, 2048), pages_for(300_000, 2048), pages_for(100, 2048)
    (1, 4096, 2048, 16384, 1)
    """
    if events <= (MAX_UNPAGED if pages == 1 else MAX_UNPAGED // 8):
        return 1
    if pages > 1 and events <= 4 * PAGE_EVENTS * pages:
        return pages
    return min(MAX_PAGES, 1 << (events // PAGE_EVENTS).bit_length())


def page_of(layer: Layer, buckets: int, pages: int) -> PageOf:
    """Which page an event at a port belongs to: the rest of the hash that its bucket is a part of."""
    positions = [None if port.spread else port.key_position for port in layer.ports]

    def found(port: int, values: AttributeValues) -> int:
        position = positions[port]
        if position is None or (value := values[position]) is None:
            return 0
        return crc32(equality_key(value).encode()) // buckets % pages

    return found


@dataclass(slots=True)
class _DecodedPage:
    """A decoded page. Its texts hold all of it up to the time `known`; they are so many, of so many events. `consumed` is what they lack of
    what is consumed. What was too old when all up to `closed` was closed has gone."""

    state: State
    spilled_until: Micros
    closed: Micros
    text_count: int
    text_events: int
    consumed: list[Consumption] = field(default_factory=list)


class PagedState:
    """The pages of one bucket. `start` makes the state of one."""

    def __init__(self, layer: Layer, start: Callable[[], State], buckets: int, pages: int, cold: Callable[[], SpillDatabase]) -> None:
        self.page_count = pages
        self.page_of = page_of(layer, buckets, pages)
        self._event_counts = [0] * len(layer.ports)
        self.decoded_events = 0
        self._start = start
        self._consumed_at = layer.consumed_ports
        self._only = start() if pages == 1 else None
        self._decoded: dict[int, _DecodedPage] = {}
        self._texts = cold().new_bucket() if pages > 1 else None
        self._retention = max((each for each in layer.retention if each is not None), default=0)
        self._closed = _NEVER
        self._swept: Micros | None = None
        self._added: list[list[tuple[int, Sequence[StoredEvent]]]] = [[] for _ in (*layer.ports, *layer.queues)]
        self._pairs: list[Consumption] = []

    @property
    def single(self) -> State:
        """The state of a bucket of one page."""
        assert self._only is not None
        return self._only

    @property
    def event_counts(self) -> list[int]:
        """How many events each port holds."""
        return list(self._event_counts) if self._only is None else self._only.event_counts

    def set_single(self, state: State) -> None:
        """The state of a bucket of one page."""
        self._only = state

    def visit(self, work: Mapping[int, Work], after: Micros, closed: Micros, most: int) -> Iterator[tuple[int, State, Work]]:
        """Each page with what there is to do with it; what that adds, which is later than `after`, is gathered. Those that are decoded come
        first, while they are."""
        self._closed = after
        for page in [*(page for page in work if page in self._decoded), *sorted(page for page in work if page not in self._decoded)]:
            each = self._load_page(page)
            state, before = each.state, each.state.event_counts
            yield page, state, work[page]
            self._expire(each, before, closed)
            self._gather(each, page, after)
            if self.decoded_events > most + most // 8:
                self._spill(most)
        self._spill(most)

    def drain_additions(self) -> LogDelta:
        """What was added since it was asked last, in the order of time, and at one time of the pages."""
        logs: list[list[StoredEvent]] = []
        for found in self._added:
            found.sort(key=itemgetter(0))
            events = [event for _, some in found for event in some]
            events.sort(key=itemgetter(0))
            logs.append(events)
        self._pairs.sort(key=itemgetter(3))
        new = LogDelta(logs, self._pairs)
        self._added, self._pairs = [[] for _ in logs], []
        return new

    def load(self, log: Iterable[tuple[int, StoredEvent]], consumed: Iterable[Consumption]) -> None:
        """All that logs hold, in a bucket of which nothing is known; each event comes with its port."""
        used: dict[int, dict[tuple[Micros, int], list[int]]] = defaultdict(dict)
        for number, time, ordinal, _ in consumed:
            used[self._consumed_at[number]].setdefault((time, ordinal), []).append(number)
        parts: dict[int, PagePart] = {}
        for many, (port, event) in enumerate(log, 1):
            self._event_counts[port] += 1
            page = self.page_of(port, event.values)
            events, pairs = parts.get(page) or parts.setdefault(page, ({}, []))
            events.setdefault(port, []).append(event)
            if port in used:
                pairs += [(number, event.time, event.ordinal, page) for number in used[port].get(event[:2], ())]
            if many % _LOAD_EVENTS == 0:
                self._append_texts(parts)
                parts = {}
        self._append_texts(parts)

    def apply_additions(self, log: Iterable[tuple[int, StoredEvent]], consumed: Iterable[Consumption], closed: Micros) -> None:
        """What another worker has added; each event comes with its port."""
        parts: dict[int, PagePart] = {}
        for port, event in log:
            page = self.page_of(port, event.values)
            (parts.get(page) or parts.setdefault(page, ({}, [])))[0].setdefault(port, []).append(event)
        for pair in consumed:
            (parts.get(pair[3]) or parts.setdefault(pair[3], ({}, [])))[1].append(pair)
        colder: dict[int, PagePart] = {}
        for page, part in parts.items():
            each = self._decoded.get(page)
            if each is None:
                colder[page] = part
                for port, events in part[0].items():
                    self._event_counts[port] += len(events)
                continue
            before = each.state.event_counts
            _add_part(each.state, *part)
            each.consumed += part[1]
            self._expire(each, before, closed)
        self._append_texts(colder)

    def expire_untouched(self, closed: Micros) -> None:
        """Now and then, by the time of events, forgets what is too old in pages that nothing comes to."""
        if self._swept is None:
            self._swept = closed
        if closed - self._swept <= self._retention // 8:
            return
        self._swept = closed
        for each in self._decoded.values():
            self._expire(each, each.state.event_counts, closed)
            each.consumed = [pair for pair in each.consumed if pair[1] > closed - self._retention]
        gone = [page for page, each in self._decoded.items() if not len(each.state)]
        for page in gone:
            del self._decoded[page]
        self._spilled.replace(gone, [])
        old = [page for page in self._spilled.pages_with_expired(closed + 1 - self._retention) if page not in self._decoded]
        for start in range(0, len(old), _SWEEP_PAGES):
            some = old[start : start + _SWEEP_PAGES]
            left = [_full_text(page, each) for page in some if len((each := self._decode(page, closed)).state)]
            self._spilled.replace(some, left)

    def discard(self) -> None:
        """Nothing of the bucket is needed here any more."""
        self._decoded.clear()
        if self._texts:
            self._texts.drop()

    @property
    def _spilled(self) -> SpilledTexts:
        assert self._texts is not None
        return self._texts

    def _expire(self, each: _DecodedPage, before: Sequence[int], closed: Micros) -> None:
        """Forgets what is too old, and counts what has changed since a page held so many events of each port."""
        each.state.expire(closed + 1)
        each.closed = closed
        held = self._event_counts
        for port, (old, new) in enumerate(zip(before, each.state.event_counts, strict=True)):
            if old != new:
                held[port] += new - old
                self.decoded_events += new - old

    def _gather(self, each: _DecodedPage, page: int, after: Micros) -> None:
        events, consumed = added_since(each.state, after, page)
        for found, some in zip(self._added, events, strict=True):
            if some:
                found.append((page, some))
        each.consumed += consumed
        self._pairs += consumed

    def _load_page(self, page: int) -> _DecodedPage:
        each = self._decoded.pop(page, None)
        if each is None:
            each = self._decode(page, self._closed)
            self.decoded_events += len(each.state)
        self._decoded[page] = each
        return each

    def _decode(self, page: int, closed: Micros) -> _DecodedPage:
        """What is held of a page, and is not too old now that all up to a time is closed; what is too old is not held any more."""
        texts = self._spilled.read(page)
        events, pairs = decode_parts([body for _, body in texts])
        counted = max([closed for closed, _ in texts], default=_NEVER)
        closed = max(closed, counted)
        state = track_consumption(self._start())
        each = _DecodedPage(state, closed, closed, len(texts), sum(map(len, events.values())))
        for port, some in events.items():
            kept = state.stores[port].retention
            first = bisect_left(some, (closed + 1 - kept,))
            if first:
                self._event_counts[port] -= first - bisect_left(some, (counted + 1 - kept,))
                del some[:first]
        _add_part(
            state, {port: some for port, some in events.items() if some}, [pair for pair in pairs if pair[1] > closed - state.retention]
        )
        return each

    def _spill(self, most: int) -> None:
        """The pages whose last use is the longest ago are texts alone again."""
        if self.decoded_events <= most:
            return
        gone: list[int] = []
        texts: list[SpilledText] = []
        for page, each in list(self._decoded.items()):
            size = len(each.state)
            if self.decoded_events <= most - most // 8:
                break
            if size > most // 4:
                continue  # it would be needed again before long, and is dear to make
            del self._decoded[page]
            self.decoded_events -= size
            if size and each.text_count < MAX_TEXTS and each.text_events <= 2 * size:
                texts.append(_text(page, each.closed, _by_port(added_since(each.state, each.spilled_until)), each.consumed))
            else:
                gone.append(page)
                texts += [_full_text(page, each)] if size else []
        self._spilled.replace(gone, texts)

    def _append_texts(self, parts: Mapping[int, PagePart]) -> None:
        """Adds to pages that are not decoded what is later than all in their texts, and counted already."""
        self._spilled.replace((), [_text(page, _NEVER, *part) for page, part in parts.items()])


def _full_text(page: int, each: _DecodedPage) -> SpilledText:
    """All of a page."""
    new = added_since(each.state, None, page)
    return _text(page, each.closed, _by_port(new), new.consumed)


def _by_port(new: LogDelta) -> Mapping[int, Sequence[StoredEvent]]:
    return {port: events for port, events in enumerate(new.events) if events}


def _text(page: int, closed: Micros, events: Mapping[int, Sequence[StoredEvent]], pairs: Sequence[Consumption]) -> SpilledText:
    until = max([closed, *(some[-1][0] for some in events.values()), *(pair[1] for pair in pairs)])
    return SpilledText(page, until, closed, encode_part(events, pairs))


def _add_part(state: State, events: Mapping[int, Sequence[StoredEvent]], pairs: Iterable[Consumption]) -> None:
    """Puts a part into a page; that it was consumed is nothing new."""
    for port, some in events.items():
        state.stores[port].extend(some)
    for number, time, ordinal, _ in pairs:
        set.add(state.consumed[number], (time, ordinal))
