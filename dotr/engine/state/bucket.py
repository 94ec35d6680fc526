"""Loading and writing of one bucket's state between Spark's store and the cache of a worker.

Idea: a small bucket is one text, rewritten when it changes. A large bucket is a manifest and logs
(`dotr.engine.state.log`), to which a batch appends its additions; a batch without additions and
without expiry writes nothing. The store holds a digest beside either form. A worker reuses its
cached bucket if the digests are equal, reads only the newer segments if its digest is a few batches
old, and otherwise reads everything.
Invariant: the cache affects the time, never the result. Cached state is already expired to the end
of the last batch, so it cannot be reused when that batch is replayed (`worker.process_batch`
discards it).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from dotr.engine.state.log import Consumption, Manifest, added_since, live_consumption, live_events, track_consumption
from dotr.engine.state.moves import is_moved, restore_moved
from dotr.engine.state.pages import PagedState, SpillDatabase, pages_for, replicated_ports
from dotr.engine.state.segments import SegmentMap, append_batch, read_segments
from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.temporal.layout.layers import Layer
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import StageTwo

_PARTITIONS: Final = 1 << 24
"""Bound of the product of buckets and pages: the ordinals of composite events have 24 bits for it."""

SMALL: Final = 2_000
"""Most events of a bucket that is stored as one text. Logs become one text again below a quarter of
it."""

REWRITE: Final = 64
"""The number of batches after which the logs of a bucket are written anew, where newer events of a
key replace older ones: logs only grow otherwise."""


@dataclass(slots=True)
class LoadedBucket:
    """A bucket in a worker: the stored state under `digest`, without the events that have expired
    at the end of the last batch, `closed` (µs). `manifest` is None where the store holds one text.
    """

    pages: PagedState
    digest: bytes
    manifest: Manifest | None
    closed: Micros | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The outcome of writing a bucket after a batch.

    `bucket` is the state to cache (None: nothing), `written` the text or manifest to store beside
    `digest` (None: unchanged). `event_counts` has the events of each port, `size` the stored bytes.
    """

    bucket: LoadedBucket | None
    digest: bytes
    written: bytes | None = None
    event_counts: tuple[int, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True)
class BucketContext:
    """The layer of a bucket and the number of buckets. `timed`: the layer has timers, so that any
    partition may change without an arrival."""

    stage: StageTwo
    layer: Layer
    buckets: int
    timed: bool

    def pages_for(self, pages: PagedState) -> int:
        """The required number of pages of a bucket. A layer with timers has one."""
        if self.timed:
            return 1
        return min(pages_for(self.paged_events(pages), pages.page_count), 1 << (_PARTITIONS // self.buckets).bit_length() - 1)

    def empty_pages(self, pages: int = 1) -> PagedState:
        """An empty bucket of `pages` pages."""
        return PagedState(self.layer, self.stage.start, self.buckets, pages, spill_database)

    def paged_events(self, pages: PagedState) -> int:
        """The number of events that are divided over pages: all but those at replicated ports."""
        replicated = replicated_ports(self.layer)
        return sum(count for port, count in enumerate(pages.event_counts) if port not in replicated)


@lru_cache(maxsize=1)
def spill_database() -> SpillDatabase:
    """The temporary database of this worker process."""
    return SpillDatabase()


def load_bucket(context: BucketContext, digest: bytes, written: bytes, entries: SegmentMap, cached: LoadedBucket | None) -> LoadedBucket:
    """The bucket in the store.

    `digest` and `written` are the stored value, `entries` the stored segments, and `cached` is this
    worker's bucket of an earlier batch, if any; its pages are reused or discarded. Raises
    StateError where the stored state cannot be read.
    """
    if cached is not None and cached.digest == digest:
        return cached
    manifest = Manifest.decode(written)
    if cached is not None:
        if manifest is not None and cached.manifest is not None and (cached.manifest.batch, cached.digest.hex()) in manifest.recent:
            _catch_up(cached.pages, cached.manifest, manifest, entries)
            return LoadedBucket(cached.pages, digest, manifest)
        cached.pages.discard()
    if manifest is None:
        pages = context.empty_pages()
        if is_moved(written):
            pages.set_single(restore_moved(context.stage.start(), written))
        elif written:
            pages.set_single(context.stage.restore(written))
        return LoadedBucket(pages, digest, None)
    pages = context.empty_pages(manifest.page_count)
    last = len(manifest.oldest) - 1
    consumed = live_consumption(
        manifest, (lines for _, lines in read_segments(entries, [each for each in manifest.segments if each.log == last]))
    )
    events = live_events(manifest, read_segments(entries, [each for each in manifest.segments if each.log < last]))
    if manifest.page_count > 1:
        pages.load(events, consumed)
    else:
        _add_events(pages.single, events, consumed, manifest)
        track_consumption(pages.single)
    return LoadedBucket(pages, digest, manifest)


def _add_events(state: State, events: Iterable[tuple[int, StoredEvent]], consumed: Iterable[Consumption], manifest: Manifest) -> None:
    stores = len(state.stores)
    for log, event in events:
        if log < stores:
            state.stores[log].add((event,))
        else:
            state.waiting[log - stores].append(event)
    for number, time, ordinal, _ in consumed:
        set.add(state.consumed[number], (time, ordinal))
    for waiting, oldest in zip(state.waiting, manifest.oldest[stores:], strict=False):
        waiting.drop_fired(oldest, manifest.passed)
    state.passed = manifest.passed


def _catch_up(pages: PagedState, before: Manifest, manifest: Manifest, entries: SegmentMap) -> None:
    """Add the segments that are newer than the manifest `before`."""
    last = len(manifest.oldest) - 1
    added = [segment for segment in manifest.segments if segment.batch > before.batch]
    consumed = live_consumption(manifest, (lines for _, lines in read_segments(entries, [each for each in added if each.log == last])))
    events = live_events(manifest, read_segments(entries, [each for each in added if each.log < last]))
    if pages.page_count > 1:
        pages.apply_additions(events, consumed, manifest.closed)
        return
    state = pages.single
    _add_events(state, events, consumed, manifest)
    state.expire(manifest.closed + 1)


def write_bucket(context: BucketContext, bucket: LoadedBucket, closed: Micros, entries: SegmentMap) -> WriteResult:
    """Write the state after a batch that ends at `closed` (µs since 1970) to the segments
    `entries`; the caller stores the digest and the text of the result."""
    pages, before = bucket.pages, bucket.manifest
    if context.timed:
        closed = pages.single.passed if pages.single.passed is not None else closed
    if pages.page_count > 1:
        pages.expire_untouched(closed)
        page_count, passed, event_counts = context.pages_for(pages), None, pages.event_counts
        additions = pages.drain_additions()
    else:
        state = pages.single
        if len(state) <= (SMALL if before is None else SMALL // 4):
            return _write_as_text(bucket, entries)
        if before is not None and before.batch % REWRITE == 0 and context.layer.has_standing:
            _remove_segments(before, entries)
            before = None
            for store in state.stores:
                store.drop_replaced(closed + 1)
        page_count, passed, event_counts = context.pages_for(pages), state.passed, state.event_counts
        additions = added_since(state, None if before is None else before.closed)
        if before is None:
            track_consumption(state)
    oldest = _oldest_needed(context.layer, pages, closed)
    if before is not None and not (any(additions.events) or additions.consumed or before.is_outdated(passed, oldest, page_count)):
        return WriteResult(bucket, bucket.digest)
    digest, manifest = append_batch(
        entries, before, bucket.digest, additions, closed, passed, oldest, page_count, event_counts, context.layer.first_consumed[-1]
    )
    written = manifest.encode()
    size = len(written) + sum(segment.size for segment in manifest.segments)
    if page_count == pages.page_count:
        return WriteResult(LoadedBucket(pages, digest, manifest), digest, written, manifest.event_counts, size)
    pages.discard()  # loaded again with another number of pages
    return WriteResult(None, digest, written, manifest.event_counts, size)


def _remove_segments(manifest: Manifest, entries: SegmentMap) -> None:
    for segment in manifest.segments:
        entries.remove(segment.log, segment.position)


def _write_as_text(bucket: LoadedBucket, entries: SegmentMap) -> WriteResult:
    state = bucket.pages.single
    if bucket.manifest is not None:
        _remove_segments(bucket.manifest, entries)
        state.consumed = tuple(map(set, state.consumed))
    written = state.encode()
    digest = blake2b(written, digest_size=16).digest()
    after = LoadedBucket(bucket.pages, digest, None)
    return (
        WriteResult(after, digest)
        if digest == bucket.digest
        else WriteResult(after, digest, written, tuple(state.event_counts), len(written))
    )


def _oldest_needed(layer: Layer, pages: PagedState, closed: Micros) -> list[Micros | None]:
    """The oldest time still needed of each store, of each queue, and of the consumed events."""
    oldest: list[Micros | None] = [None if retention is None else closed + 1 - retention for retention in layer.retention]
    if pages.page_count == 1:
        oldest += [waiting.oldest() for waiting in pages.single.waiting]
    return [*oldest, closed + 1 - layer.whole_retention]
