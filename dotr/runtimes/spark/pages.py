"""A bucket's state in a worker: one partition, or where that would be large, very many small ones, of which those in use are decoded.

Idea: keys of a rule never meet, so a bucket may be cut into *pages*, each some keys' whole state. A batch goes through the pages that it
touches, one after the other. Those that were used last stay decoded, up to a bound for the whole worker; the others are texts in its
temporary database (`cold`). A program with timers, where time alone touches every partition, has one page.
Invariant: pages are a function of the logs and of how many they are; nothing that is written depends on which of them are decoded.
Cost: of a batch, the pages that it touches and their events; memory, the bound, and what a single page may have beyond a quarter of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar
from zlib import crc32

from dotr.expressions import equality_key
from dotr.model.time import Micros
from dotr.patterns.happened import Happened
from dotr.patterns.layout import Layer
from dotr.patterns.logs import Added, Pair, added, events_line, events_of, pairs_line, pairs_of, recording
from dotr.patterns.state import State
from dotr.patterns.ties import Values
from dotr.runtimes.spark.cold import Cold

MOST: Final = 1 << 16
"""Pages of a bucket."""

USUAL: Final = 32
"""Events of a page, about; there are more pages when there are four times as many."""

ALONE: Final = 65_536
"""Up to so many events a bucket is one partition."""

DECODED: Final = 800_000
"""Events that a worker has decoded, in all buckets."""

_GATHERED: Final = 200_000

Work = TypeVar("Work")

Part: TypeAlias = tuple[dict[int, list[Happened]], list[Pair]]
"""Some of what a page holds: events by port, and what is consumed."""

PageOf: TypeAlias = Callable[[int, Values], int]
"""`page_of(port, values)`."""


def pages_for(events: int, pages: int) -> int:
    """How many pages there are to be where there are so many events and pages.

    >>> pages_for(65_536, 1), pages_for(65_537, 1), pages_for(260_000, 2048), pages_for(300_000, 2048), pages_for(100, 2048)
    (1, 4096, 2048, 16384, 1)
    """
    if events <= (ALONE if pages == 1 else ALONE // 8):
        return 1
    if pages > 1 and events <= 4 * USUAL * pages:
        return pages
    return min(MOST, 1 << (events // USUAL).bit_length())


def page_of(layer: Layer, buckets: int, pages: int) -> PageOf:
    """Which page an event at a port belongs to: the rest of the hash that its bucket is a part of."""
    positions = [None if port.spread else port.key_position for port in layer.ports]

    def found(port: int, values: Values) -> int:
        position = positions[port]
        if position is None or (value := values[position]) is None:
            return 0
        return crc32(equality_key(value).encode()) // buckets % pages

    return found


class Pages:
    """The pages of one bucket. `start` makes the state of one; `consumed_at` is the port of each set of consumed events."""

    def __init__(self, layer: Layer, start: Callable[[], State], buckets: int, pages: int, cold: Callable[[], Cold]) -> None:
        self.count = pages
        self.page_of = page_of(layer, buckets, pages)
        self._held = [0] * len(layer.ports)
        self.decoded = 0
        self._start = start
        self._consumed_at = layer.consumed_ports
        self._hot: dict[int, State] = {}
        self._cold = cold() if pages > 1 else None
        self._bucket = self._cold.bucket() if self._cold else 0
        self._retention = max((each for each in layer.retention if each is not None), default=0)
        self._swept: Micros | None = None
        self._added: list[list[Happened]] = [[] for _ in (*layer.ports, *layer.queues)]
        self._pairs: list[Pair] = []
        if pages == 1:
            self._hot[0] = start()

    @property
    def only(self) -> State:
        """The state of a bucket of one page."""
        return self._hot[0]

    @property
    def held(self) -> list[int]:
        """How many events each port holds."""
        return list(self._held) if self.count > 1 else self.only.held

    def put_in_place(self, state: State) -> None:
        """The state of a bucket of one page."""
        self._hot[0] = state

    def through(self, work: Mapping[int, Work], after: Micros | None, closed: Micros, most: int) -> Iterator[tuple[int, State, Work]]:
        """Each page with what there is to do with it; what that adds which is later than `after` is gathered."""
        for page, each in work.items():
            state = self._warm(page)
            before = state.held
            yield page, state, each
            state.expire(closed + 1)
            self._account(before, state.held)
            self._gather(added(state, after, page))
            if self.decoded > most + most // 8:
                self._cool(most)
        self._cool(most)

    def gathered(self) -> Added:
        """What was added since it was asked last, in the order of time."""
        for events in self._added:
            events.sort(key=_time)
        found = Added(self._added, self._pairs)
        self._added, self._pairs = [[] for _ in self._added], []
        return found

    def fill(self, log: Iterable[tuple[int, Happened]], consumed: Iterable[Pair]) -> None:
        """All that logs hold, in a bucket of which nothing is known; each event comes with its port."""
        assert self._cold is not None
        used: dict[int, dict[tuple[Micros, int], list[int]]] = defaultdict(dict)
        for number, time, ordinal, _ in consumed:
            used[self._consumed_at[number]].setdefault((time, ordinal), []).append(number)
        parts: dict[int, Part] = {}
        for many, (port, event) in enumerate(log, 1):
            self._held[port] += 1
            page = self.page_of(port, event.values)
            events, pairs = parts.get(page) or parts.setdefault(page, ({}, []))
            events.setdefault(port, []).append(event)
            if port in used:
                pairs += [(number, event.time, event.ordinal, page) for number in used[port].get(event[:2], ())]
            if many % _GATHERED == 0:
                self._put(parts)
                parts = {}
        self._put(parts)

    def follow(self, log: Iterable[tuple[int, Happened]], consumed: Iterable[Pair], closed: Micros) -> None:
        """What another worker has added; each event comes with its port."""
        parts: dict[int, Part] = {}
        for port, event in log:
            page = self.page_of(port, event.values)
            (parts.get(page) or parts.setdefault(page, ({}, [])))[0].setdefault(port, []).append(event)
        for pair in consumed:
            (parts.get(pair[3]) or parts.setdefault(pair[3], ({}, [])))[1].append(pair)
        colder: dict[int, Part] = {}
        for page, part in parts.items():
            state = self._hot.get(page)
            if state is None:
                colder[page] = part
                for port, events in part[0].items():
                    self._held[port] += len(events)
                continue
            before = state.held
            _add(state, *part)
            state.expire(closed + 1)
            self._account(before, state.held)
        if colder:
            self._put(colder)

    def sweep(self, closed: Micros) -> None:
        """Now and then, by the time of events, forgets what is too old in pages that nothing comes to."""
        if self._swept is None:
            self._swept = closed
        if closed - self._swept <= self._retention // 8:
            return
        self._swept = closed
        for page, state in list(self._hot.items()):
            before = state.held
            state.expire(closed + 1)
            self._account(before, state.held)
            if not len(state) and self.count > 1:
                del self._hot[page]
        if self._cold:
            for body in self._cold.expire(self._bucket, closed + 1 - self._retention):
                for port, events in _parts(body)[0].items():
                    self._held[port] -= len(events)

    def forget(self) -> None:
        """Nothing of the bucket is needed here any more."""
        self._hot.clear()
        if self._cold:
            self._cold.forget(self._bucket)

    def _account(self, before: Sequence[int], after: Sequence[int]) -> None:
        held = self._held
        for port, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                held[port] += new - old
                self.decoded += new - old

    def _gather(self, new: Added) -> None:
        for all_of, some in zip(self._added, new.events, strict=True):
            if some:
                all_of += some
        self._pairs += new.consumed

    def _warm(self, page: int) -> State:
        state = self._hot.pop(page, None)
        if state is None:
            state = recording(self._start())
            assert self._cold is not None
            for body in self._cold.take(self._bucket, page):
                _add(state, *_parts(body))
            self.decoded += len(state)
        self._hot[page] = state
        return state

    def _cool(self, most: int) -> None:
        """The pages whose last use is the longest ago become texts."""
        if self.decoded <= most or not self._cold:
            return
        texts: list[tuple[int, Micros, bytes]] = []
        for page, state in list(self._hot.items()):
            if self.decoded <= most - most // 8:
                break
            if len(state) > most // 4:
                continue  # it would be needed again before long, and is dear to make
            del self._hot[page]
            self.decoded -= len(state)
            if len(state):
                pairs = [(number, *pair, page) for number, used in enumerate(state.consumed) for pair in used]
                texts.append(_text(page, {port: list(store.log) for port, store in enumerate(state.stores) if store.log}, pairs))
        self._cold.put(self._bucket, texts)

    def _put(self, parts: Mapping[int, Part]) -> None:
        assert self._cold is not None
        self._cold.put(self._bucket, [_text(page, events, pairs) for page, (events, pairs) in parts.items()])


def _time(event: Happened) -> Micros:
    return event[0]


def _text(page: int, events: Mapping[int, Sequence[Happened]], pairs: Sequence[Pair]) -> tuple[int, Micros, bytes]:
    """A part as `Cold.put` wants it; the inverse of `_parts`."""
    lines = [b"%d %b" % (port, events_line(some)) for port, some in events.items()]
    until = max([some[-1][0] for some in events.values()], default=0)
    if pairs:
        lines.append(b"- " + pairs_line(pairs))
        until = max(until, max(time for _, time, _, _ in pairs))
    return page, until, b"".join(lines)


def _parts(body: bytes) -> Part:
    events: dict[int, list[Happened]] = {}
    pairs: list[Pair] = []
    for line in body.splitlines():
        log, _, rest = line.partition(b" ")
        if log == b"-":
            pairs += pairs_of(rest)
        else:
            events[int(log)] = list(events_of(rest))
    return events, pairs


def _add(state: State, events: Mapping[int, Sequence[Happened]], pairs: Iterable[Pair]) -> None:
    """Puts a part into a page; that it was consumed is nothing new."""
    for port, some in events.items():
        add = state.stores[port].add
        for event in some:
            add((event,))
    for number, time, ordinal, _ in pairs:
        set.add(state.consumed[number], (time, ordinal))
