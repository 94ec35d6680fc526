"""A bucket's batch in a worker: load the state, run stage two, write the changed state."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TypeAlias

from dotr.engine.state.bucket import LoadedBucket, load_bucket, write_bucket
from dotr.engine.state.pages import MAX_DECODED
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.buckets.bucket_steps import BucketStore, bucket_context, closed_by, passed_by, step_bucket
from dotr.runtimes.spark.buckets.unit_steps import process_units
from dotr.runtimes.spark.checkpoint.state_moves import initial_state, unreadable_state
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import BucketSize, RowKind, SparkRow, encode_size, fallback_rows
from dotr.runtimes.spark.exchange.worker_cache import program_of
from dotr.temporal.matching.state import StateError

BucketCache: TypeAlias = MutableMapping[tuple[Job, int], LoadedBucket]
"""The loaded buckets of a worker, by job and number."""


def process_batch(
    job: Job, layer: int, bucket: int, rows: Sequence[SparkRow], store: BucketStore, cache: BucketCache, max_decoded: int = MAX_DECODED
) -> list[SparkRow]:
    """Process a batch's rows in one bucket, and write its state.

    `rows` are the rows of the bucket, `store` its stored state, and `cache` this worker's loaded
    buckets, of which at most `max_decoded` events stay decoded. Returns firings, totals, bucket
    size and fallbacks as rows. Raises Refused where the stored state is unreadable.
    """
    if program_of(job).layout.layers[layer].units:
        try:
            out = process_units(job, layer, bucket, rows, store, initial_state(job, layer, bucket))
        except StateError as error:
            raise unreadable_state(error) from None
        return [*out, *(line._replace(key=-1 - bucket) for line in fallback_rows())]
    context = bucket_context(job, layer)
    name = (job, layer * job.buckets + bucket)
    passed = closed_by(rows) if context.timed else passed_by(job, rows)
    if passed is None:
        return []
    digest, written = store.value() or (b"", initial_state(job, layer, bucket))
    cached, closed = cache.pop(name, None), closed_by(rows)
    if cached is not None and cached.closed is not None and cached.closed >= closed and _has_work(rows, closed):
        cached.pages.discard()  # a replayed batch needs events that expired at its end
        cached = None
    try:
        loaded = load_bucket(context, digest, written, store, cached)
    except StateError as error:
        raise unreadable_state(error) from None
    after = None if loaded.manifest is None else loaded.manifest.closed
    share = max_decoded // (1 + sum(other.pages.page_count > 1 for other in cache.values()))
    out = step_bucket(job, layer, bucket, loaded.pages, rows, after, share)
    result = write_bucket(context, loaded, passed, store)
    if result.written is not None:
        store.set_value(result.digest, result.written)
        out.append(
            SparkRow(-1 - bucket, RowKind.STATE, result.size, encode_size(BucketSize(layer, bucket, result.event_counts, result.size)))
        )
    if result.bucket is not None:
        result.bucket.closed = closed
        cache[name] = result.bucket
    return [*out, *(line._replace(key=-1 - bucket) for line in fallback_rows())]


def _has_work(rows: Sequence[SparkRow], closed: Micros) -> bool:
    """True if a batch changes the bucket: it has arrivals, or the stream ends."""
    return closed == LAST_MICRO or any(line.kind != RowKind.CLOSED for line in rows)
