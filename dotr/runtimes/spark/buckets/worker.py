"""A bucket's batch in a worker: load the state, run stage two, write the changed state."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence, Set
from functools import lru_cache, partial
from typing import TypeAlias

from dotr.engine.state.bucket import LoadedBucket, load_bucket, write_bucket
from dotr.engine.state.pages import MAX_DECODED
from dotr.engine.state.units import UnitPart, UnitsValue, has_segments, write_units
from dotr.engine.unit_layer import UnitEnd, UnitPort, unit_steps
from dotr.engine.unit_runs import UnitContext, engine_unit
from dotr.model import dataclass
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.buckets.bucket_steps import (
    BucketResults,
    BucketStore,
    UnderWay,
    bucket_context,
    closed_by,
    due_rows,
    in_order,
    instants_of,
    passed_by,
    spans_of,
    step_bucket,
    unit_rows,
)
from dotr.runtimes.spark.checkpoint.state_moves import initial_state, unreadable_state
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import BucketSize, RowKind, SparkRow, encode_inconsistencies, encode_size, fallback_rows
from dotr.runtimes.spark.exchange.worker_cache import program_of, without_garbage_collection
from dotr.temporal.layout.layers import MadeStream, PlacedUnit
from dotr.temporal.layout.spread import BucketShare
from dotr.temporal.matching.rule_counts import RuleCounts, added_counts
from dotr.temporal.matching.state import StateError

# Units of continuous queries, LARS and EP-SPARQL on Spark: a bucket's batch, from its rows to its
# state.
#
# Idea: a unit has one partition, or, with a key, a part in every bucket. Units of a layer do not read
# each other, so a bucket steps its units one after the other through the whole batch. The events of a
# unit are sent to the buckets that read them, as composite events are. At the end of the stream the
# rows of `under_way` follow.
# Cost: proportional to the arrivals, reports and points of the batch, and to what
# `dotr.engine.state.units` writes.


_MAX_CONTRADICTED_SHOWN = 3
"""Reports with contradictions of a bucket's batch that are shown, at most."""


@dataclass(slots=True)
class LoadedUnits:
    """The units of a bucket in a worker, with the state that is stored as `value` under
    `digest`."""

    units: list[UnitPort]
    digest: bytes
    value: UnitsValue | None


_CACHE: dict[tuple[Job, int, int], LoadedUnits] = {}
"""The units of a worker, by job, layer and bucket. A batch that changes them changes their digest too,
so a repeated batch finds another digest than the stored one, and reads the stored state again."""


def units_of(job: Job, layer: int, bucket: int) -> list[PlacedUnit]:
    """The units of a layer with a partition in a bucket: all that are spread, and its share of the
    others."""
    return [placed for placed in program_of(job).layout.layers[layer].units if placed.is_spread or placed.partition % job.buckets == bucket]


@lru_cache(maxsize=1)
def _context(job: Job) -> UnitContext:
    return program_of(job).unit_context(job.clock)


def process_units(job: Job, layer: int, bucket: int, rows: Sequence[SparkRow], store: BucketStore, initial: bytes) -> list[SparkRow]:
    """Process a batch's rows in a bucket of units, and write the state of the units to `store`.

    Args:
        initial: the encoded state for a bucket without a stored one; empty: the units start anew.

    Returns the rows for the sink and for the layers above. Raises StateError where the stored state
    is unreadable.
    """
    placed = units_of(job, layer, bucket)
    if not placed:
        return []
    with without_garbage_collection():
        loaded = _load(job, layer, bucket, placed, store, initial)
        results = BucketResults(job, layer, bucket)
        contradicted: list[tuple[Micros, str]] = []
        under_way_rows: list[SparkRow] = []
        passed = None if loaded.value is None else loaded.value.passed
        spans, closed, under_way = spans_of(rows), closed_by(rows), UnderWay(job, rows)
        arrived = list(in_order(instants_of(line.payload) for line in rows if line.kind == RowKind.CHUNK))
        longest = program_of(job).longest_gap
        for unit in loaded.units:
            end = UnitEnd()
            for time, step in unit_steps(unit, passed, arrived, spans, closed, partial(under_way.is_fed, unit.unit.name), end, longest):
                results.add(time, step.firings, step.events, step.failed)
                if step.contradicted is not None:
                    contradicted.append(step.contradicted)
            if closed == LAST_MICRO:
                under_way_rows += unit_rows(job, unit.unit.name, end.under_way, end.over)
        last = max([*([passed] if passed is not None else []), *(each for _, each in spans)], default=None)
        size = _write(loaded, last, store)
        _CACHE[job, layer, bucket] = loaded
    counts_of_units: dict[str, RuleCounts] = {}
    for unit in loaded.units:
        counts_of_units = added_counts(counts_of_units, unit.take_counts())
    out = [*results.lines(counts_of_units, len(contradicted)), *under_way_rows]
    out += due_rows(job, bucket, [unit.run.next_due() for unit in loaded.units] if closed != LAST_MICRO else ())
    if contradicted:
        shown = contradicted[:_MAX_CONTRADICTED_SHOWN]
        out.append(SparkRow(-1 - bucket, RowKind.INCONSISTENT, 0, encode_inconsistencies(shown)))
    if size is not None:
        counts = [0] * len(program_of(job).layout.layers[layer].ports)
        for unit in loaded.units:
            for port, count in zip(unit.placed.ports, unit.run.event_counts, strict=True):
                counts[port] = max(counts[port], count)
        out.append(SparkRow(-1 - bucket, RowKind.STATE, size, encode_size(BucketSize(layer, bucket, tuple(counts), size))))
    return out


def _load(job: Job, layer: int, bucket: int, placed: Sequence[PlacedUnit], store: BucketStore, initial: bytes) -> LoadedUnits:
    digest, written = store.value() or (b"", initial)
    cached = _CACHE.pop((job, layer, bucket), None)
    if cached is not None and cached.digest == digest and digest:
        return cached
    for other in [key for key in _CACHE if key[0] != job]:
        del _CACHE[other]
    above = program_of(job).events_read_above[layer]
    units = [_port(job, layer, bucket, each, above) for each in placed]
    value = UnitsValue.decode(written) if written else None
    if written and value is None:
        raise StateError("it is none of units")
    if value is not None:
        snapshots = value.snapshots(store)
        for unit in units:
            if unit.unit.name in snapshots:
                snapshot = snapshots[unit.unit.name]
                try:
                    unit.run.restore(snapshot.rest, snapshot.entries)
                except (KeyError, TypeError, ValueError) as error:
                    raise StateError(f"it cannot be read ({error})") from error
    return LoadedUnits(units, digest, value)


def _port(job: Job, layer: int, bucket: int, placed: PlacedUnit, above: Set[MadeStream]) -> UnitPort:
    """A unit of a bucket before the first instant."""
    if not placed.is_spread:
        return UnitPort(placed, engine_unit(placed.unit).run(_context(job)), above)
    run = engine_unit(placed.unit).run(_context(job), BucketShare(bucket, job.buckets))
    return UnitPort(placed, run, above, (layer << 24 | bucket) << 32)


def _write(loaded: LoadedUnits, passed: Micros | None, store: BucketStore) -> int | None:
    """Write the units; returns the number of stored bytes, None where nothing has changed."""
    before = loaded.value
    inside = not has_segments(before, sum(unit.run.entry_count for unit in loaded.units))
    appends = not inside and before is not None and before.manifest is not None
    after = before.passed if appends and before is not None else None
    parts = [UnitPart(unit.unit.name, unit.run.to_json(), unit.run.oldest(), unit.run.entries(after)) for unit in loaded.units]
    written = write_units(before, loaded.digest, parts, passed, store, inside=inside)
    if written.digest == loaded.digest:
        return None
    loaded.digest, loaded.value = written.digest, written.value
    store.set_value(written.digest, written.text)
    return written.size


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
