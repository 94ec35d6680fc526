"""Migration of state to the folder of a new query when rules or the number of buckets have changed.

Idea: a task reads each bucket's old state through Spark's state data source and divides it
(`dotr.engine.state.migration`); a part is a file named by the old layer and bucket, in a folder of
its target. Then a task merges the parts of each new bucket in order of time into one file. So the
number of buckets may change, too. A bucket without stored value in the new query starts from its
file. The old query stays unchanged until dotr.json, which names the current generation, is replaced
atomically when all files are on disk. The first batch of the new query starts at the end of the old
one's last batch, and the numbering continues.
Cost: proportional to the state, once: about 3 µs of CPU an event in Python. A task holds one bucket
at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dotr.engine.state.migration import StateChange, StateMigrator, merge_blocks
from dotr.engine.state.moves import MovedState, blocks_of_state
from dotr.engine.state.schema import StateSchema
from dotr.engine.state.units import UnitsValue
from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.files.private_files import replace_file
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.runtimes.spark.checkpoint.damage import failure_in
from dotr.runtimes.spark.checkpoint.folder import hadoop_name, remove_folder
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics, encode_diagnostics
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.names import BUCKET, KEY, LINES, LOG, LOG_NUMBER, PLACE, WRITTEN
from dotr.runtimes.spark.exchange.rows import BucketSize, decode_size, encode_size
from dotr.runtimes.spark.exchange.worker_cache import program_of
from dotr.streams.sinks.files import sync_folder
from dotr.temporal.layout.layers import Layer
from dotr.temporal.matching.state import StateError

_DIVIDED: Final = "key long, passed long, parts string"
_JOINED: Final = "size binary"

_Bucket: TypeAlias = tuple[int, int]
"""A layer, and the number of a bucket of it."""


@dataclass(frozen=True, slots=True)
class OldQuery:
    """The query whose state moves.

    `query` is its folder, `moved` the folder of its own initial states ("": none), `layers` its
    number of layers (0: no state), `keys` the keys of its buckets, first layer first, and
    `has_batches` whether it has written a batch.
    """

    query: str
    moved: str
    layers: int
    keys: tuple[int, ...]
    has_batches: bool

    @property
    def buckets(self) -> int:
        """The number of buckets of a layer."""
        return len(self.keys) // self.layers if self.layers else 0

    @property
    def layer_and_bucket(self) -> dict[int, tuple[int, int]]:
        """The layer and bucket of each key; Spark's operator numbers have no fixed relation to
        layers."""
        return {key: divmod(number, self.buckets) for number, key in enumerate(self.keys)}


class StoredSegment(NamedTuple):
    """A segment of a log of a bucket."""

    log: int
    place: int
    lines: bytes


class DivideTask:
    """The function of a task that divides old state. The new job and the schemas before and after
    are JSON text. Rows are those of `StoredState.rows`, or the numbers of buckets that have no
    stored state, but still their initial one in the folder `moved`. A row of the result has the
    layers and buckets for which there is a part, as JSON."""

    def __init__(self, job: str, schemas: str, old: OldQuery) -> None:
        self._job = job
        self._schemas = schemas
        self._old = old

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyarrow import RecordBatch, array

        job, migrator = Job.from_json(self._job), _migrator(self._job, self._schemas, self._old.buckets)
        places = self._old.layer_and_bucket
        for key, written, segments in self._buckets(batches):
            try:
                passed, parts = _write_parts(migrator, job.moved, places[key], written, segments)
            except Refused as refused:
                raise CarriedDiagnostics(encode_diagnostics(refused)) from None
            columns = [array([key], "int64"), array([passed], "int64"), array([json.dumps(parts)], "string")]
            yield RecordBatch.from_arrays(columns, ["key", "passed", "parts"])

    def _buckets(self, batches: Iterator[Any]) -> Iterator[tuple[int, bytes, Sequence[StoredSegment]]]:
        """The key of each bucket, its stored value, and its segments in order."""
        rows = (row for batch in batches for row in zip(*[column.to_pylist() for column in batch.columns], strict=True))
        for key, together in groupby(rows, key=itemgetter(0)):
            (_, *value), *segments = together
            if value:
                log, _, written = value
                assert log == OF_VALUE, "each bucket has a value"
                yield key, written, [StoredSegment(*each) for _, *each in segments]
            else:  # the number of a bucket
                place = self._old.layer_and_bucket[self._old.keys[key]]
                yield self._old.keys[key], _file(self._old.moved, *place).read(), ()


class JoinTask:
    """The function of a task that joins the parts of new buckets, whose numbers are the rows.
    `sources` are the old layers and buckets of the parts of each new layer and bucket; `until` is
    the last time passed (µs)."""

    def __init__(
        self, job: str, schemas: str, sources: Mapping[_Bucket, Sequence[_Bucket]], old_buckets: int, until: Micros | None
    ) -> None:
        self._job = job
        self._sources = sources
        self._schemas = schemas
        self._old_buckets = old_buckets
        self._until = until

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyarrow import RecordBatch, array

        job, migrator = Job.from_json(self._job), _migrator(self._job, self._schemas, self._old_buckets)
        layers = program_of(job).layout.layers
        for batch in batches:
            for number in batch.column(0).to_pylist():
                layer, bucket = divmod(number, job.buckets)
                try:
                    sources = self._sources.get((layer, bucket), ())
                    size = _join_parts(layers[layer], bucket, sources, job.moved, migrator, self._until)
                except StateError as error:
                    raise CarriedDiagnostics(encode_diagnostics(unreadable_state(error))) from None
                yield RecordBatch.from_arrays([array([encode_size(size)], "binary")], ["size"])


def _migrator(job: str, schemas: str, old_buckets: int) -> StateMigrator:
    read = Job.from_json(job)
    before, after = map(StateSchema.of_json, json.loads(schemas))
    return StateMigrator(before, after, program_of(read), read.clock, read.buckets, old_buckets)


def _write_parts(
    migrator: StateMigrator, folder: str, source: tuple[int, int], written: bytes, segments: Sequence[StoredSegment]
) -> tuple[Micros | None, list[_Bucket]]:
    """Write the parts of a bucket's old state; returns its last time passed (µs), and the layers
    and buckets of the parts."""
    try:
        units = UnitsValue.decode(written)
        if units is not None:
            redistributed = migrator.redistribute_units(source[1], units, _ReadOnlySegments(segments))
            for (layer, bucket), moved in redistributed.items():
                _write(_part(folder, layer, bucket, source), moved.encode())
            return units.passed, list(redistributed)
        state = blocks_of_state(written, ((segment.log, segment.lines) for segment in segments))
    except StateError as error:
        raise unreadable_state(error) from None
    divided = migrator.divide(*source, state)
    for (layer, bucket), part in divided.items():
        _write(_part(folder, layer, bucket, source), part.encode())
    return state.passed, list(divided)


def _join_parts(
    layer: Layer, bucket: int, sources: Sequence[_Bucket], folder: str, migrator: StateMigrator, until: Micros | None
) -> BucketSize:
    """Write the initial state of a new bucket from its parts; returns its size."""
    parts = sorted((_part(folder, layer.number, bucket, source) for source in sources), key=str)
    texts = (part.read() for part in parts)
    if layer.units:
        of_units = map(UnitsValue.decode, texts)
        units = migrator.unite_units([each for each in of_units if each is not None], until)
        text, counts = units.encode(), unit_counts(layer, units)
    else:
        of_rules = map(MovedState.decode, texts)
        state = merge_blocks(layer, [each for each in of_rules if each is not None], until, migrator.kept_order(layer.number))
        text, counts = state.encode(), state.event_counts
    _write(_file(folder, layer.number, bucket), text)
    if parts:
        remove_folder(str(parts[0].parent))
    return BucketSize(layer.number, bucket, counts, len(text))


class _ReadOnlySegments:
    """The segments of a bucket in the state of a stopped query, as a `SegmentMap`."""

    def __init__(self, segments: Sequence[StoredSegment]) -> None:
        self._lines = {(each.log, each.place): each.lines for each in segments}

    def read(self, log: int, position: int) -> bytes | None:
        """The segment, or None where there is none."""
        return self._lines.get((log, position))

    def write(self, log: int, position: int, lines: bytes) -> None:
        """Nothing is written."""
        raise AssertionError("the state of a stopped query is read")

    def remove(self, log: int, position: int) -> None:
        """Nothing is removed."""
        raise AssertionError("the state of a stopped query is read")


def unreadable_state(error: StateError) -> Refused:
    """The refusal of state that this release cannot read (S105)."""
    hint = "Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint."
    return refuse("S105", f"the state in the checkpoint cannot be used: {error}", hint=hint)


def move_state(session: SparkSession, change: StateChange, old: OldQuery, job: Job, log: Path) -> list[BucketSize]:
    """Write the initial states of the new job's buckets; returns their sizes, sorted. Leftovers of
    an earlier attempt are removed. A job without state has no buckets."""
    folder = Location.of(job.moved)
    for leftover in (job.moved, job.run):
        remove_folder(leftover)
    if not job.layers:
        return []
    if not folder.is_url:
        folder.path.mkdir(parents=True)
    # A task for each old bucket of a layer: Spark's default of 200 would start a worker's function so often.
    session.conf.set("spark.sql.shuffle.partitions", str(max(1, old.buckets)))
    text, schemas = job.to_json(), json.dumps([change.before.to_json(), change.after.to_json()])
    try:
        divided: list[Any] = []
        stored = StoredState(session, old.query) if old.has_batches and old.layers else None
        for operator in stored.operators if stored else ():
            assert stored is not None
            divided += stored.rows(operator, max(1, old.buckets)).mapInArrow(DivideTask(text, schemas, old), _DIVIDED).collect()
        of_batches = {row.key for row in divided}
        waiting = [number for number, key in enumerate(old.keys) if key not in of_batches] if old.moved else []
        divided += _numbers(session, waiting, job).mapInArrow(DivideTask(text, schemas, old), _DIVIDED).collect() if waiting else []
        sources: dict[_Bucket, list[_Bucket]] = {}
        for row in divided:
            for layer, bucket in json.loads(row.parts):
                sources.setdefault((layer, bucket), []).append(old.layer_and_bucket[row.key])
        until = max((row.passed for row in divided if row.passed is not None), default=None)
        join = JoinTask(text, schemas, sources, old.buckets, until)
        joined = _numbers(session, range(job.layers * job.buckets), job).mapInArrow(join, _JOINED)
        sizes = [decode_size(bytes(row.size)) for row in joined.collect()]
    except PySparkException as error:
        raise failure_in(Location.of(old.query), str(error), log) from None
    if not folder.is_url:
        sync_folder(folder.path)
        sync_folder(folder.path.parent)
    return sorted(sizes)


def _numbers(session: SparkSession, numbers: Sequence[int], job: Job) -> DataFrame:
    """A row for each number, in a task of its own."""
    rows = session.range(0, len(numbers), 1, max(1, len(numbers)))
    return rows.selectExpr(f"element_at(array({','.join(map(str, numbers))}), CAST(id AS INT) + 1) AS number")


def unit_counts(layer: Layer, value: UnitsValue) -> tuple[int, ...]:
    """The number of log entries at each port of a layer of units. Only the logs of a unit that has
    one for each of its ports are counted."""
    counts = [0] * len(layer.ports)
    placed = {each.unit.name: each for each in layer.units}
    first = 0
    for name, _, logs in value.units:
        if name in placed and len(placed[name].ports) == logs:
            for port, log in zip(placed[name].ports, value.inside[first : first + logs], strict=True):
                counts[port] = max(counts[port], len(log))
        first += logs
    return tuple(counts)


def moved_states(folder: str, layers: int, buckets: int) -> Iterator[tuple[int, bytes]]:
    """The layer and the initial state of each bucket."""
    for layer in range(layers):
        for bucket in range(buckets):
            yield layer, _file(folder, layer, bucket).read()


def initial_state(job: Job, layer: int, bucket: int) -> bytes:
    """The initial state of a bucket without a stored one; empty where no state was moved."""
    return _file(job.moved, layer, bucket).read() if job.moved else b""


def _file(folder: str, layer: int, bucket: int) -> Location:
    return Location.of(folder) / f"{layer}-{bucket}.json"


def _part(folder: str, layer: int, bucket: int, source: _Bucket) -> Location:
    """The file of the part of a new bucket that comes from an old one."""
    return _file(f"{folder}/{layer}-{bucket}", *source)


def _write(place: Location, text: bytes) -> None:
    if place.is_url:
        place.put(text)
    else:
        place.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place.path, [text], sync=True)


# Stored state of a running or stopped query, read by Spark's state data source.

OF_VALUE: Final = -1
"""The number of the log of a bucket's stored value, among the rows of its state."""


class StoredState:
    """The state of a query after its last batch. Old checkpoints, with each bucket as one text,
    have no logs."""

    def __init__(self, session: SparkSession, query: str) -> None:
        self._session = session
        self._query = query
        known = (
            session.read.format("state-metadata")
            .load(hadoop_name(Location.of(query)))
            .select("operatorId", "operatorProperties")
            .distinct()
            .collect()
        )
        self._has_logs = {
            row.operatorId: any(each["stateName"] == LOG for each in json.loads(row.operatorProperties)["stateVariables"]) for row in known
        }

    @property
    def operators(self) -> list[int]:
        """The numbers of the stateful operators."""
        return sorted(self._has_logs)

    def values(self, operator: int) -> DataFrame:
        """One row per bucket: `key` and `written`."""
        return self._read(operator, BUCKET).selectExpr(f"key.{KEY} AS key", f"value.{WRITTEN} AS written")

    def segments(self, operator: int) -> DataFrame | None:
        """One row per segment: `key`, `log`, `place` and `lines`; None where there are no logs."""
        if not self._has_logs[operator]:
            return None
        rows = self._read(operator, LOG)
        columns = f"user_map_key.{LOG_NUMBER} AS log", f"user_map_key.{PLACE} AS place", f"user_map_value.{LINES} AS lines"
        return rows.selectExpr(f"key.{KEY} AS key", *columns)

    def rows(self, operator: int, tasks: int) -> DataFrame:
        """All rows of the state of the buckets: `key`, `log`, `place` and `lines`.

        The rows of a bucket are consecutive, in one of `tasks` partitions: first its value, as that
        of the log `OF_VALUE`, then its segments in order.
        """
        found = self.values(operator).selectExpr("key", f"{OF_VALUE} AS log", "CAST(0 AS BIGINT) AS place", "written AS lines")
        segments = self.segments(operator)
        if segments is not None:
            found = found.union(segments)
        return found.repartition(tasks, "key").sortWithinPartitions("key", "log", "place")

    def _read(self, operator: int, variable: str) -> DataFrame:
        reader = self._session.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
        return reader.load(hadoop_name(Location.of(self._query)))
