"""One bucket's batch in a worker: its state is opened, stepped, and written as far as it has changed."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Protocol, TypeAlias

from dotr.model.time import LAST_MICRO, Micros
from dotr.patterns.state import StateError
from dotr.runtimes.spark.bucket_steps import closed_by, place_of, step_bucket
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import BucketSize, RowKind, SparkRow, fallback_lines, size_payload
from dotr.runtimes.spark.state_moves import begun, unreadable
from dotr.state.bucket_state import LoadedBucket, load_bucket, write_bucket
from dotr.state.paged_state import MAX_DECODED
from dotr.state.segment_store import SegmentMap

Live: TypeAlias = MutableMapping[tuple[Job, int], LoadedBucket]
"""What a worker has of buckets, by job and number."""


class Store(SegmentMap, Protocol):
    """What Spark's store has of one bucket: a value beside the entries."""

    def value(self) -> tuple[bytes, bytes] | None:
        """The digest, and what stands beside it; None: nothing yet."""

    def set_value(self, digest: bytes, written: bytes) -> None:
        """In the place of what was there."""


def through_batch(
    job: Job, layer: int, bucket: int, lines: Sequence[SparkRow], store: Store, live: Live, decoded: int = MAX_DECODED
) -> list[SparkRow]:
    """The rows that a batch's rows for a bucket lead to. Up to so many events stay decoded in `live`."""
    place = place_of(job, layer)
    name = (job, layer * job.buckets + bucket)
    digest, written = store.value() or (b"", begun(job, layer, bucket))
    known, closed = live.pop(name, None), closed_by(lines)
    if known is not None and known.closed is not None and known.closed >= closed and _goes_on(lines, closed):
        known.pages.discard()  # the batch is done again, and what was too old after it is not before it
        known = None
    try:
        kept = load_bucket(place, digest, written, store, known)
    except StateError as error:
        raise unreadable(error) from None
    after = None if kept.manifest is None else kept.manifest.closed
    most = decoded // (1 + sum(other.pages.page_count > 1 for other in live.values()))
    out = step_bucket(job, layer, bucket, kept.pages, lines, after, most)
    done = write_bucket(place, kept, closed, store)
    if done.written is not None:
        store.set_value(done.digest, done.written)
        out.append(SparkRow(-1 - bucket, RowKind.STATE, done.size, size_payload(BucketSize(layer, bucket, done.event_counts, done.size))))
    if done.bucket is not None:
        done.bucket.closed = closed
        live[name] = done.bucket
    return [*out, *(line._replace(key=-1 - bucket) for line in fallback_lines())]


def _goes_on(lines: Sequence[SparkRow], closed: Micros) -> bool:
    """Whether there is anything to do in a batch: not where it only has dead letters, and ends when the one before did."""
    return closed == LAST_MICRO or any(line.kind != RowKind.CLOSED for line in lines)
