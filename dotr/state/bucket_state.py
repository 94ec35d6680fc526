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
from dotr.state.segment_store import SegmentMap, append_batch, read_segments
from dotr.state.spill_db import SpillDatabase
from dotr.state.state_log import Consumption, Manifest, added_since, live_consumption, live_events, track_consumption

SMALL: Final = 2_000
"""Up to so many events a bucket is one text; logs become a text again at a quarter of them."""


@dataclass(slots=True)
class LoadedBucket:
    """A bucket in a worker: what it holds is what the store has under the digest, as logs (`head`) or one text, but for what is too old
    after a batch that ended at `closed`."""

    pages: PagedState
    digest: bytes
    manifest: Manifest | None
    closed: Micros | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a worker keeps after a batch (None: nothing), the digest, and what is written beside it (None: what stands there). `held` says
    how many events each port has, `size` how many bytes all takes."""

    bucket: LoadedBucket | None
    digest: bytes
    written: bytes | None = None
    event_counts: tuple[int, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A layer, and among how many buckets its keys are divided; `timed`: time alone may touch any partition."""

    stage: StageTwo
    layer: Layer
    buckets: int
    timed: bool

    def empty_pages(self, pages: int = 1) -> PagedState:
        return PagedState(self.layer, self.stage.start, self.buckets, pages, spill_database)


@lru_cache(maxsize=1)
def spill_database() -> SpillDatabase:
    """The worker's."""
    return SpillDatabase()


def load_bucket(place: BucketPlace, digest: bytes, written: bytes, entries: SegmentMap, kept: LoadedBucket | None) -> LoadedBucket:
    """The bucket as the store has it; raises StateError."""
    if kept is not None and kept.digest == digest:
        return kept
    head = Manifest.decode(written)
    if kept is not None:
        if head is not None and kept.manifest is not None and (kept.manifest.batch, kept.digest.hex()) in head.recent:
            _catch_up(kept.pages, kept.manifest, head, entries)
            return LoadedBucket(kept.pages, digest, head)
        kept.pages.discard()
    if head is None:
        pages = place.empty_pages()
        if written:
            pages.set_single(place.stage.restore(written))
        return LoadedBucket(pages, digest, None)
    pages = place.empty_pages(head.page_count)
    last = len(head.oldest) - 1
    consumed = live_consumption(head, (lines for _, lines in read_segments(entries, [each for each in head.segments if each.log == last])))
    events = live_events(head, read_segments(entries, [each for each in head.segments if each.log < last]))
    if head.page_count > 1:
        pages.load(events, consumed)
    else:
        _add_events(pages.single, events, consumed, head)
        track_consumption(pages.single)
    return LoadedBucket(pages, digest, head)


def _add_events(state: State, events: Iterable[tuple[int, StoredEvent]], consumed: Iterable[Consumption], head: Manifest) -> None:
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
    new = [piece for piece in head.segments if piece.batch > before.batch]
    consumed = live_consumption(head, (lines for _, lines in read_segments(entries, [each for each in new if each.log == last])))
    events = live_events(head, read_segments(entries, [each for each in new if each.log < last]))
    if pages.page_count > 1:
        pages.apply_additions(events, consumed, head.closed)
        return
    state = pages.single
    _add_events(state, events, consumed, head)
    state.expire(head.closed + 1)
    for waiting, oldest in zip(state.waiting, head.oldest[len(state.stores) :], strict=False):
        while waiting and (oldest is None or waiting[0].time < oldest):
            waiting.popleft()


def write_bucket(place: BucketPlace, kept: LoadedBucket, closed: Micros, entries: SegmentMap) -> WriteResult:
    """Writes what a batch that ends at a time has made of the bucket, but for the digest and what stands beside it."""
    pages, before = kept.pages, kept.manifest
    if place.timed:
        closed = pages.single.passed if pages.single.passed is not None else closed
    if pages.page_count > 1:
        pages.expire_untouched(closed)
        count, passed, held = pages_for(sum(pages.event_counts), pages.page_count), None, pages.event_counts
        add = pages.drain_additions()
    else:
        state = pages.single
        if len(state) <= (SMALL if before is None else SMALL // 4):
            return _write_as_text(kept, entries)
        count, passed, held = 1 if place.timed else pages_for(len(state), 1), state.passed, state.event_counts
        add = added_since(state, None if before is None else before.closed)
        if before is None:
            track_consumption(state)
    oldest = _oldest_needed(place.layer, pages, closed)
    if before is not None and not (any(add.events) or add.consumed or before.is_outdated(passed, oldest, count)):
        return WriteResult(kept, kept.digest)
    digest, head = append_batch(entries, before, kept.digest, add, closed, passed, oldest, count, held, place.layer.first_consumed[-1])
    written = head.encode()
    size = len(written) + sum(piece.size for piece in head.segments)
    if count == pages.page_count:
        return WriteResult(LoadedBucket(pages, digest, head), digest, written, head.event_counts, size)
    pages.discard()  # they are read again, divided anew
    return WriteResult(None, digest, written, head.event_counts, size)


def _write_as_text(kept: LoadedBucket, entries: SegmentMap) -> WriteResult:
    state = kept.pages.single
    if kept.manifest is not None:
        for piece in kept.manifest.segments:
            entries.remove(piece.log, piece.position)
        state.consumed = tuple(map(set, state.consumed))
    written = state.encode()
    digest = blake2b(written, digest_size=16).digest()
    after = LoadedBucket(kept.pages, digest, None)
    return (
        WriteResult(after, digest)
        if digest == kept.digest
        else WriteResult(after, digest, written, tuple(state.event_counts), len(written))
    )


def _oldest_needed(layer: Layer, pages: PagedState, closed: Micros) -> list[Micros | None]:
    """What still counts: of each store, each queue, and of what is consumed."""
    found: list[Micros | None] = [None if kept is None else closed + 1 - kept for kept in layer.retention]
    if pages.page_count == 1:
        found += [waiting[0].time if waiting else None for waiting in pages.single.waiting]
    return [*found, closed + 1 - max((kept for kept in layer.retention if kept is not None), default=0)]
