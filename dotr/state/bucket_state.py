"""What Spark's store has of a bucket, and what a worker that had it before still has.

A bucket of few events is one text, written anew when it changes. One of many is logs (`patterns.logs`), of which a batch writes what it
adds, and a head; a batch that adds nothing and lets nothing go writes nothing. A digest stands beside either: a worker goes on with what it
has decoded if that is of this digest; if it is of one a few batches old it reads what was added since; else it reads all. What it has
decoded it has also forgotten of, up to the end of the batch that it saw last: it is no help where that one is done again.
So a retry, a restart or another worker can only cost time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from dotr.engine.stage_two import StageTwo
from dotr.layout.layers import Layer
from dotr.model.time import Micros
from dotr.patterns.events import StoredEvent
from dotr.patterns.state import State
from dotr.state.paged_state import PagedState, pages_for
from dotr.state.segment_store import SegmentMap, read_pieces, write_batch
from dotr.state.spill_db import SpillDatabase
from dotr.state.state_log import Consumption, Manifest, added, counting, counting_pairs, recording

SMALL: Final = 2_000
"""Up to so many events a bucket is one text; logs become a text again at a quarter of them."""


@dataclass(slots=True)
class LoadedBucket:
    """A bucket in a worker: what it holds is what the store has under the digest, as logs (`head`) or one text, but for what is too old
    after a batch that ended at `closed`."""

    pages: PagedState
    digest: bytes
    head: Manifest | None
    closed: Micros | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a worker keeps after a batch (None: nothing), the digest, and what is written beside it (None: what stands there). `held` says
    how many events each port has, `size` how many bytes all takes."""

    kept: LoadedBucket | None
    digest: bytes
    written: bytes | None = None
    held: tuple[int, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A layer, and among how many buckets its keys are divided; `timed`: time alone may touch any partition."""

    stage: StageTwo
    layer: Layer
    buckets: int
    timed: bool

    def empty(self, pages: int = 1) -> PagedState:
        return PagedState(self.layer, self.stage.start, self.buckets, pages, cold)


@lru_cache(maxsize=1)
def cold() -> SpillDatabase:
    """The worker's."""
    return SpillDatabase()


def opened(place: BucketPlace, digest: bytes, written: bytes, entries: SegmentMap, kept: LoadedBucket | None) -> LoadedBucket:
    """The bucket as the store has it; raises StateError."""
    if kept is not None and kept.digest == digest:
        return kept
    head = Manifest.decode(written)
    if kept is not None:
        if head is not None and kept.head is not None and (kept.head.number, kept.digest.hex()) in head.recent:
            _catch_up(kept.pages, kept.head, head, entries)
            return LoadedBucket(kept.pages, digest, head)
        kept.pages.forget()
    if head is None:
        pages = place.empty()
        if written:
            pages.put_in_place(place.stage.restore(written))
        return LoadedBucket(pages, digest, None)
    pages = place.empty(head.pages)
    last = len(head.oldest) - 1
    consumed = counting_pairs(head, (lines for _, lines in read_pieces(entries, [each for each in head.pieces if each.log == last])))
    events = counting(head, read_pieces(entries, [each for each in head.pieces if each.log < last]))
    if head.pages > 1:
        pages.fill(events, consumed)
    else:
        _add(pages.only, events, consumed, head)
        recording(pages.only)
    return LoadedBucket(pages, digest, head)


def _add(state: State, events: Iterable[tuple[int, StoredEvent]], consumed: Iterable[Consumption], head: Manifest) -> None:
    stores = len(state.stores)
    for log, event in events:
        if log < stores:
            state.stores[log].add((event,))
        else:
            state.waiting[log - stores].append(event)
    for number, time, ordinal, _ in consumed:
        set.add(state.consumed[number], (time, ordinal))
    state.passed = head.passed


def _catch_up(pages: PagedState, before: Manifest, head: Manifest, entries: SegmentMap) -> None:
    """Adds what is newer than what is known."""
    last = len(head.oldest) - 1
    new = [piece for piece in head.pieces if piece.number > before.number]
    consumed = counting_pairs(head, (lines for _, lines in read_pieces(entries, [each for each in new if each.log == last])))
    events = counting(head, read_pieces(entries, [each for each in new if each.log < last]))
    if pages.count > 1:
        pages.follow(events, consumed, head.closed)
        return
    state = pages.only
    _add(state, events, consumed, head)
    state.expire(head.closed + 1)
    for waiting, oldest in zip(state.waiting, head.oldest[len(state.stores) :], strict=False):
        while waiting and (oldest is None or waiting[0].time < oldest):
            waiting.popleft()


def saved(place: BucketPlace, kept: LoadedBucket, closed: Micros, entries: SegmentMap) -> WriteResult:
    """Writes what a batch that ends at a time has made of the bucket, but for the digest and what stands beside it."""
    pages, before = kept.pages, kept.head
    if place.timed:
        closed = pages.only.passed if pages.only.passed is not None else closed
    if pages.count > 1:
        pages.sweep(closed)
        count, passed, held = pages_for(sum(pages.held), pages.count), None, pages.held
        add = pages.gathered()
    else:
        state = pages.only
        if len(state) <= (SMALL if before is None else SMALL // 4):
            return _as_text(kept, entries)
        count, passed, held = 1 if place.timed else pages_for(len(state), 1), state.passed, state.held
        add = added(state, None if before is None else before.closed)
        if before is None:
            recording(state)
    oldest = _oldest(place.layer, pages, closed)
    if before is not None and not (any(add.events) or add.consumed or before.gone(passed, oldest, count)):
        return WriteResult(kept, kept.digest)
    digest, head = write_batch(entries, before, kept.digest, add, closed, passed, oldest, count, held, place.layer.first_consumed[-1])
    written = head.encode()
    size = len(written) + sum(piece.size for piece in head.pieces)
    if count == pages.count:
        return WriteResult(LoadedBucket(pages, digest, head), digest, written, head.held, size)
    pages.forget()  # they are read again, divided anew
    return WriteResult(None, digest, written, head.held, size)


def _as_text(kept: LoadedBucket, entries: SegmentMap) -> WriteResult:
    state = kept.pages.only
    if kept.head is not None:
        for piece in kept.head.pieces:
            entries.remove(piece.log, piece.place)
        state.consumed = tuple(map(set, state.consumed))
    written = state.encode()
    digest = blake2b(written, digest_size=16).digest()
    after = LoadedBucket(kept.pages, digest, None)
    return WriteResult(after, digest) if digest == kept.digest else WriteResult(after, digest, written, tuple(state.held), len(written))


def _oldest(layer: Layer, pages: PagedState, closed: Micros) -> list[Micros | None]:
    """What still counts: of each store, each queue, and of what is consumed."""
    found: list[Micros | None] = [None if kept is None else closed + 1 - kept for kept in layer.retention]
    if pages.count == 1:
        found += [waiting[0].time if waiting else None for waiting in pages.only.waiting]
    return [*found, closed + 1 - max((kept for kept in layer.retention if kept is not None), default=0)]
