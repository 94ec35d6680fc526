"""State of a bucket in a worker: one partition, or many small pages of which the recent ones are
decoded.

Idea: in a layer, a match has events of one partition key, beside those of replicated ports. So a
large bucket is cut into *pages*, each the whole state of some keys. A batch visits the pages that
it touches, one after the other. The most recently used pages stay decoded, up to a bound for the
worker; the others are texts in its temporary database (`dotr.engine.state.pages`). The texts stay
when a page is decoded. When the page is spilled again, its additions become one more text; at
`MAX_TEXTS` texts a page gets one text instead. A layer with timers, where every partition may
change without an arrival, has one page.
Invariant: pages are a function of the logs and of the number of pages; nothing that is written
depends on which of them are decoded. The texts of a page hold all its events up to some time and
none later, without those that were expired at the last `SpilledText.closed`.
Cost: the pages that a batch touches, and their events. Memory: the bound, plus any single page
above a quarter of it, and the events of replicated ports (`shared_stores`).
"""

from __future__ import annotations

import marshal
import os
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import count, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from dotr.engine.state.log import Consumption, LogDelta, added_since, track_consumption
from dotr.evaluation.expressions import equality_key
from dotr.model import dataclass
from dotr.model.event_order import AttributeValues, tie_key
from dotr.model.terms import Term
from dotr.model.time import LAST_MICRO, Micros
from dotr.temporal.layout.layers import Layer
from dotr.temporal.matching.event_store import BorrowedStore, PortStore, StandingStore
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import State

if TYPE_CHECKING:
    from sqlite3 import Connection

# Temporary database of a worker for decoded state beyond its memory bound.
#
# Idea: Spark's store holds the state as logs in order of time; this database holds it in order of
# pages, so that one page can be read alone. The database is derived from the logs, and deleted with
# the worker. SQLite keeps a few megabytes in memory and the rest in an unnamed file. Texts are only
# appended to a page; they are neighbours on disk, since rows are in the order of the primary key.
#
# Example: with `_NUMBERS` = 2^40, text number 7 of page 3 has the key 3 * 2^40 + 7; the texts of page
# 3 are the range from 3 * 2^40 to 4 * 2^40 - 1.


_KIBIBYTES: Final = 16_384

_BLOCK: Final = 16_384
"""Bytes of a database page: some neighbouring texts."""

_NUMBERS: Final = 1 << 40
"""More texts than a bucket ever writes."""


class SpilledText(NamedTuple):
    """A part of a page, as `page_codec.encode_part` writes it. Its events are not later than
    `until`, and those of it and of the page's earlier texts are expired as of `closed` (µs)."""

    page: int
    until: Micros
    closed: Micros
    body: bytes


class SpillDatabase:
    """A temporary SQLite database."""

    def __init__(self) -> None:
        import sqlite3  # imported here, since some builds of Python lack it

        folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
        with suppress(OSError):
            if folders[0] and os.access(folders[0], os.W_OK):
                os.environ.setdefault("SQLITE_TMPDIR", folders[0])
        self._database = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"page_size = {_BLOCK}", f"cache_size = -{_KIBIBYTES}"):
            self._database.execute(f"PRAGMA {setting}")
        self._numbers = count()

    def new_bucket(self) -> SpilledTexts:
        """An empty table for a bucket."""
        return SpilledTexts(self._database, f"bucket{next(self._numbers)}")


class SpilledTexts:
    """The texts of a bucket by page, those of one page in order of insertion."""

    def __init__(self, database: Connection, table: str) -> None:
        self._database = database
        self._count = count()
        self._insert = f"INSERT INTO {table} VALUES (?, ?, ?, ?)"
        self._read = f"SELECT closed, body FROM {table} WHERE place BETWEEN ? AND ? ORDER BY place"
        self._delete = f"DELETE FROM {table} WHERE place BETWEEN ? AND ?"
        self._old = f"SELECT place / {_NUMBERS} AS page FROM {table} GROUP BY page HAVING min(until) < ?"
        self._drop = f"DROP TABLE IF EXISTS {table}"
        database.execute(f"CREATE TABLE {table} (place INTEGER PRIMARY KEY, until INTEGER, closed INTEGER, body BLOB)")

    def read(self, page: int) -> Sequence[tuple[Micros, bytes]]:
        """`closed` and `body` of the texts of a page."""
        return self._database.execute(self._read, _key_range(page)).fetchall()

    def replace(self, removed_pages: Iterable[int], texts: Iterable[SpilledText]) -> None:
        """Remove all texts of some pages, then add texts, at most one to a page."""
        number = next(self._count)
        self._database.execute("BEGIN")
        self._database.executemany(self._delete, map(_key_range, removed_pages))
        self._database.executemany(self._insert, [(page * _NUMBERS + number, *text) for page, *text in texts])
        self._database.execute("COMMIT")

    def pages_with_expired(self, oldest: Micros) -> Sequence[int]:
        """The pages with a text whose events are all older than a time."""
        return [page for (page,) in self._database.execute(self._old, (oldest,))]

    def drop(self) -> None:
        """Drop the table."""
        self._database.execute(self._drop)


def _key_range(page: int) -> tuple[int, int]:
    return page * _NUMBERS, (page + 1) * _NUMBERS - 1


# Events of replicated ports in a bucket of many pages: stored once, and read by every page.
#
# Idea: the pages are stepped through the whole batch one after the other. So the events of a batch at
# a replicated port are stored before the first page is stepped, and expire after the last one.
# Matchers read no event later than the present (`PositionalStage.replicated`).
# Invariant: the written log of a port is that of a bucket of one page.
# Cost: the events are in memory once a bucket, whatever the number of pages.


def replicated_ports(layer: Layer) -> frozenset[int]:
    """The numbers of the ports whose events are in every bucket, and in no page."""
    return frozenset(number for number, port in enumerate(layer.ports) if port.is_replicated)


class SharedStores:
    """The stores of a bucket's replicated ports, taken from `stores`, those of an empty partition
    of the layer."""

    def __init__(self, layer: Layer, stores: Sequence[PortStore]) -> None:
        self._stores = {number: stores[number] for number in sorted(replicated_ports(layer))}
        self._layer = layer

    def __contains__(self, port: int) -> bool:
        return port in self._stores

    def __bool__(self) -> bool:
        return bool(self._stores)

    @property
    def borrowed(self) -> Mapping[int, PortStore]:
        """The stores as stores of a page, which neither adds nor expires events."""
        return {number: BorrowedStore(store) for number, store in self._stores.items()}

    @property
    def event_counts(self) -> Mapping[int, int]:
        """The number of events of each replicated port."""
        return {number: len(store) for number, store in self._stores.items()}

    def add_arrivals(self, port: int, time: Micros, arrivals: Sequence[tuple[int, AttributeValues]], after: Micros) -> list[StoredEvent]:
        """Store the arrivals at a port at `time`, in a batch of times later than `after` (both µs);
        returns the events in tie order."""
        stored = [(time, ordinal, values) for ordinal, values in arrivals]
        if len(stored) > 1 and isinstance(self._layer.ports[port].stream, str):
            names = self._layer.ports[port].attributes
            stored.sort(key=lambda event: tie_key(names, event[2]))
        self._stores[port].keep(stored, after + 1)
        return stored

    def load(self, port: int, event: StoredEvent) -> None:
        """Store an event of the written log; calls are in the order of the log."""
        self._stores[port].add((event,))

    def expire(self, closed: Micros) -> None:
        """Remove the events that no moment later than `closed` (µs) can read."""
        for store in self._stores.values():
            store.expire(closed + 1)


MAX_PAGES: Final = 1 << 16
"""Most pages of a bucket."""

PAGE_EVENTS: Final = 32
"""Intended events per page; a bucket gets another number of pages at four times as many."""

MAX_UNPAGED: Final = 65_536
"""Most events of a bucket of one page."""

MAX_DECODED: Final = 800_000
"""Most decoded events of a worker, over all its buckets."""

MAX_TEXTS: Final = 8
"""Texts of a page at which they are replaced by one."""

_LOAD_EVENTS: Final = 200_000

_SWEEP_PAGES: Final = 256

_NEVER: Final = -1 << 62

Work = TypeVar("Work")

PageOf: TypeAlias = Callable[[int, AttributeValues], int]
"""`page_of(port, values)`: the page of an event."""


def pages_for(events: int, page_count: int) -> int:
    """The number of pages for a number of events, given the present number of pages.

    >>> pages_for(65_536, 1), pages_for(65_537, 1), pages_for(260_000, 2048), pages_for(300_000, 2048), pages_for(100, 2048)
    (1, 4096, 2048, 16384, 1)
    """
    if events <= (MAX_UNPAGED if page_count == 1 else MAX_UNPAGED // 8):
        return 1
    if page_count > 1 and events <= 4 * PAGE_EVENTS * page_count:
        return page_count
    return min(MAX_PAGES, 1 << (events // PAGE_EVENTS).bit_length())


def page_of(layer: Layer, buckets: int, page_count: int) -> PageOf:
    """A function from a port and an event's values to the event's page: the quotient of the hash
    whose remainder is the bucket, modulo the number of pages."""
    positions = [None if port.spread else port.key_position for port in layer.ports]

    def page(port: int, values: AttributeValues) -> int:
        position = positions[port]
        if position is None or (value := values[position]) is None:
            return 0
        return crc32(equality_key(value).encode()) // buckets % page_count

    return page


@dataclass(slots=True)
class _DecodedPage:
    """A decoded page. Its `text_count` texts hold `text_events` events, all up to the time
    `spilled_until`; `consumed` is the consumption that is not in a text yet. Events are expired as
    of `closed`."""

    state: State
    spilled_until: Micros
    closed: Micros
    text_count: int
    text_events: int
    consumed: list[Consumption] = field(default_factory=list)


class PagedState:
    """The pages of one bucket. `start` makes the empty state of a page, with the given stores in
    the place of new ones: those of replicated ports, which all pages share."""

    def __init__(
        self,
        layer: Layer,
        start: Callable[[Mapping[int, PortStore]], State],
        buckets: int,
        page_count: int,
        spill_database: Callable[[], SpillDatabase],
    ) -> None:
        self.page_count = page_count
        self.page_of = page_of(layer, buckets, page_count)
        self._event_counts = [0] * len(layer.ports)
        self.decoded_events = 0
        self._start = start
        self._consumed_at = layer.consumed_ports
        self._only = start({}) if page_count == 1 else None
        self._shared = SharedStores(layer, start({}).stores) if page_count > 1 and replicated_ports(layer) else None
        self._borrowed = {} if self._shared is None else self._shared.borrowed
        self._decoded: dict[int, _DecodedPage] = {}
        self._texts = spill_database().new_bucket() if page_count > 1 else None
        self._retention = max((each for each in layer.retention if each is not None and each < LAST_MICRO), default=LAST_MICRO)
        self._whole_retention = layer.whole_retention
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
        """The number of events of each port."""
        if self._only is not None:
            return self._only.event_counts
        counts = list(self._event_counts)
        for port, events in self._shared.event_counts.items() if self._shared is not None else ():
            counts[port] = events
        return counts

    @property
    def has_shared_ports(self) -> bool:
        """True if the events of some ports are in no page."""
        return self._shared is not None

    def share(self, port: int, time: Micros, arrivals: Sequence[tuple[int, AttributeValues]], after: Micros) -> bool:
        """Store the arrivals at a replicated port, in a batch of times later than `after` (µs).
        False for any other port, whose arrivals belong to pages."""
        if self._shared is None or port not in self._shared:
            return False
        self._added[port].append((0, self._shared.add_arrivals(port, time, arrivals, after)))
        return True

    def set_single(self, state: State) -> None:
        """Replace the state of a bucket of one page."""
        self._only = state

    def visit(self, jobs: Mapping[int, Work], after: Micros, closed: Micros, max_decoded: int) -> Iterator[tuple[int, State, Work]]:
        """Yield each page of `jobs` with its state and job; the caller updates the state.

        Additions, which are later than `after`, are collected for `drain_additions`; events are
        then expired as of `closed`. Decoded pages come first. More than `max_decoded` decoded
        events are spilled.
        """
        self._closed = after
        for page in [*(page for page in jobs if page in self._decoded), *sorted(page for page in jobs if page not in self._decoded)]:
            each = self._load_page(page)
            state, before = each.state, each.state.event_counts
            yield page, state, jobs[page]
            self._expire(each, before, closed)
            self._gather(each, page, after)
            if self.decoded_events > max_decoded + max_decoded // 8:
                self._spill(max_decoded)
        self._spill(max_decoded)
        if self._shared is not None:
            self._shared.expire(closed)

    def drain_additions(self) -> LogDelta:
        """The additions since the last call, in order of time, and of pages within one time."""
        logs: list[list[StoredEvent]] = []
        for additions in self._added:
            additions.sort(key=itemgetter(0))
            events = [event for _, page_events in additions for event in page_events]
            events.sort(key=itemgetter(0))
            logs.append(events)
        self._pairs.sort(key=itemgetter(3))
        delta = LogDelta(logs, self._pairs)
        self._added, self._pairs = [[] for _ in logs], []
        return delta

    def load(self, log: Iterable[tuple[int, StoredEvent]], consumed: Iterable[Consumption]) -> None:
        """Fill an empty bucket from its logs: pairs of port and event, in the order of each log."""
        sets_of: dict[int, dict[tuple[Micros, int], list[int]]] = defaultdict(dict)
        for number, time, ordinal, _ in consumed:
            sets_of[self._consumed_at[number]].setdefault((time, ordinal), []).append(number)
        parts: dict[int, PagePart] = {}
        for many, (port, event) in enumerate(log, 1):
            if self._shared is not None and port in self._shared:
                self._shared.load(port, event)
                continue
            self._event_counts[port] += 1
            page = self.page_of(port, event[2])
            events, pairs = parts.get(page) or parts.setdefault(page, ({}, []))
            events.setdefault(port, []).append(event)
            if port in sets_of:
                pairs += [(number, *event[:2], page) for number in sets_of[port].get(event[:2], ())]
            if many % _LOAD_EVENTS == 0:
                self._append_texts(parts)
                parts = {}
        self._append_texts(parts)

    def apply_additions(self, log: Iterable[tuple[int, StoredEvent]], consumed: Iterable[Consumption], closed: Micros) -> None:
        """Add the events and consumption that another worker has written up to `closed`."""
        parts: dict[int, PagePart] = {}
        for port, event in log:
            if self._shared is not None and port in self._shared:
                self._shared.load(port, event)
                continue
            page = self.page_of(port, event[2])
            (parts.get(page) or parts.setdefault(page, ({}, [])))[0].setdefault(port, []).append(event)
        for pair in consumed:
            (parts.get(pair[3]) or parts.setdefault(pair[3], ({}, [])))[1].append(pair)
        spilled: dict[int, PagePart] = {}
        for page, part in parts.items():
            each = self._decoded.get(page)
            if each is None:
                spilled[page] = part
                for port, events in part[0].items():
                    self._event_counts[port] += len(events)
                continue
            before = each.state.event_counts
            _add_part(each.state, *part)
            each.consumed += part[1]
            self._expire(each, before, closed)
        self._append_texts(spilled)
        if self._shared is not None:
            self._shared.expire(closed)

    def expire_untouched(self, closed: Micros) -> None:
        """Expire old events of untouched pages, once in an eighth of the retention."""
        if self._shared is not None:
            self._shared.expire(closed)
        if self._swept is None:
            self._swept = closed
        if closed - self._swept <= self._retention // 8:
            return
        self._swept = closed
        for each in self._decoded.values():
            self._expire(each, each.state.event_counts, closed)
            each.consumed = [pair for pair in each.consumed if pair[1] > closed - self._whole_retention]
        removed = [page for page, each in self._decoded.items() if not len(each.state)]
        for page in removed:
            del self._decoded[page]
        self._spilled.replace(removed, [])
        old = [page for page in self._spilled.pages_with_expired(closed + 1 - self._retention) if page not in self._decoded]
        for start in range(0, len(old), _SWEEP_PAGES):
            chunk = old[start : start + _SWEEP_PAGES]
            left = [_full_text(page, each) for page in chunk if len((each := self._decode(page, closed)).state)]
            self._spilled.replace(chunk, left)

    def discard(self) -> None:
        """Release the pages and their texts; the bucket is not used again."""
        self._decoded.clear()
        if self._texts:
            self._texts.drop()

    @property
    def _spilled(self) -> SpilledTexts:
        assert self._texts is not None
        return self._texts

    def _expire(self, each: _DecodedPage, before: Sequence[int], closed: Micros) -> None:
        """Expire old events of a page, and update the counts from `before`, the page's former
        events of each port."""
        each.state.expire(closed + 1)
        each.closed = closed
        counts = self._event_counts
        for port, (old, new) in enumerate(zip(before, each.state.event_counts, strict=True)):
            if old != new:
                counts[port] += new - old
                self.decoded_events += new - old

    def _gather(self, each: _DecodedPage, page: int, after: Micros) -> None:
        events, consumed = added_since(each.state, after, page)
        for additions, new_events in zip(self._added, events, strict=True):
            if new_events:
                additions.append((page, new_events))
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
        """A page from its texts, without the events that are expired as of `closed`."""
        texts = self._spilled.read(page)
        events, pairs = decode_parts([body for _, body in texts])
        counted = max([closed for closed, _ in texts], default=_NEVER)
        closed = max(closed, counted)
        state = track_consumption(self._start(self._borrowed))
        for store in state.stores:
            if isinstance(store, StandingStore):
                store.most = sys.maxsize  # texts and counts of a page are those of all its events
        each = _DecodedPage(state, closed, closed, len(texts), sum(map(len, events.values())))
        for port, port_events in events.items():
            retention = state.stores[port].retention
            first = bisect_left(port_events, (closed + 1 - retention,))
            if first:
                self._event_counts[port] -= first - bisect_left(port_events, (counted + 1 - retention,))
                del port_events[:first]
        _add_part(
            state,
            {port: port_events for port, port_events in events.items() if port_events},
            [pair for pair in pairs if pair[1] > closed - state.retention],
        )
        return each

    def _spill(self, max_decoded: int) -> None:
        """Spill the least recently used pages until at most `max_decoded` events are decoded."""
        if self.decoded_events <= max_decoded:
            return
        removed: list[int] = []
        texts: list[SpilledText] = []
        for page, each in list(self._decoded.items()):
            size = len(each.state)
            if self.decoded_events <= max_decoded - max_decoded // 8:
                break
            if size > max_decoded // 4:
                continue  # a large page is costly to decode and likely needed again
            del self._decoded[page]
            self.decoded_events -= size
            if size and each.text_count < MAX_TEXTS and each.text_events <= 2 * size:
                texts.append(_text(page, each.closed, _by_port(added_since(each.state, each.spilled_until)), each.consumed))
            else:
                removed.append(page)
                texts += [_full_text(page, each)] if size else []
        self._spilled.replace(removed, texts)

    def _append_texts(self, parts: Mapping[int, PagePart]) -> None:
        """Append parts to pages that are not decoded; the events are counted already."""
        self._spilled.replace((), [_text(page, _NEVER, *part) for page, part in parts.items()])


def _full_text(page: int, each: _DecodedPage) -> SpilledText:
    """One text of a whole page."""
    delta = added_since(each.state, None, page)
    return _text(page, each.closed, _by_port(delta), delta.consumed)


def _by_port(delta: LogDelta) -> Mapping[int, Sequence[StoredEvent]]:
    return {port: events for port, events in enumerate(delta.events) if events}


def _text(page: int, closed: Micros, events: Mapping[int, Sequence[StoredEvent]], pairs: Sequence[Consumption]) -> SpilledText:
    until = max([closed, *(port_events[-1][0] for port_events in events.values()), *(pair[1] for pair in pairs)])
    return SpilledText(page, until, closed, encode_part(events, pairs))


def _add_part(state: State, events: Mapping[int, Sequence[StoredEvent]], pairs: Iterable[Consumption]) -> None:
    """Add a part to a page without noting its consumption as new."""
    for port, port_events in events.items():
        state.stores[port].extend(port_events)
    for number, time, ordinal, _ in pairs:
        set.add(state.consumed[number], (time, ordinal))


# Binary form of page parts for a worker's temporary database.
#
# Idea: columns of times, ordinals and each attribute, with equal terms interned, so that C loops of
# the standard library build the events. `marshal` takes a third of the time of JSON. Its format
# depends on the version of Python and is unsafe for foreign input: the texts live in an unnamed file
# of this process and are deleted with it. State and checkpoints are JSON.
# Cost: proportional to the events, about 0.4 µs each to read or write.

PagePart: TypeAlias = tuple[dict[int, list[StoredEvent]], list[Consumption]]
"""A part of a page: events by port, in order of time, and consumed events."""


def encode_part(events: Mapping[int, Sequence[StoredEvent]], pairs: Sequence[Consumption]) -> bytes:
    """A part of one page as bytes; each port has at least one event."""
    interned: dict[Term | None, Term | None] = {}
    ports: list[Any] = []
    for port, stored in events.items():
        times, ordinals, values = zip(*stored, strict=True)
        ports.append((port, times, ordinals, *[tuple(map(interned.setdefault, column, column)) for column in zip(*values, strict=True)]))
    return marshal.dumps((ports, list(pairs)))


def decode_parts(bodies: Iterable[bytes]) -> PagePart:
    """The union of parts of one page, which are in order of time.

    >>> first, second = (5, 0, ('"a"', None)), (7, 1, ('"a"', '"b"'))
    >>> bodies = encode_part({0: [first], 1: [first]}, [(0, 5, 0, 3)]), encode_part({}, []), encode_part({0: [second] * 2}, [(1, 7, 1, 3)])
    >>> decode_parts(bodies) == ({0: [first, second, second], 1: [first]}, [(0, 5, 0, 3), (1, 7, 1, 3)])
    True
    """
    columns_of: dict[int, list[list[Any]]] = {}
    pairs: list[Consumption] = []
    interned: dict[Term | None, Term | None] = {}
    for number, body in enumerate(bodies):
        ports, consumed = marshal.loads(body)
        pairs += consumed
        for port, times, ordinals, *columns in ports:
            if number:  # the first part, often the largest, is already interned
                columns = [map(interned.setdefault, column, column) for column in columns]
            if port not in columns_of:
                columns_of[port] = list(map(list, (times, ordinals, *columns)))
            else:
                for so_far, column in zip(columns_of[port], (times, ordinals, *columns), strict=True):
                    so_far += column
    return {
        port: list(zip(times, ordinals, zip(*columns, strict=True) if columns else repeat(()), strict=bool(columns)))
        for port, (times, ordinals, *columns) in columns_of.items()
    }, pairs
