"""Status of a checkpoint, read from outside: progress from the checkpoint's own files, state by
Spark's state data source.

Nothing is written or locked, so that the run may continue meanwhile. The status is that of the last
written batch; the state may be that of a later one.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from dotr.engine.state.log import Manifest, live_events
from dotr.engine.state.moves import blocks_of_state
from dotr.engine.state.units import UnitsValue
from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.time import Clock, Micros, Unit
from dotr.runtimes.monitoring.progress import InputProgress
from dotr.runtimes.spark.checkpoint.figures import StoredTotals, read_totals
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, CheckpointLayout
from dotr.runtimes.spark.checkpoint.standard_input_spool import copied_lines
from dotr.runtimes.spark.checkpoint.state_moves import moved_states
from dotr.runtimes.spark.exchange.names import bucket_keys
from dotr.runtimes.spark.exchange.positions import END, InputPosition
from dotr.runtimes.spark.figures.progress import last_heartbeat, progress_of
from dotr.streams.connectors.kafka.topics import PartitionJournal
from dotr.streams.connectors.opening import published_streams
from dotr.streams.formats.segments import RECEIVED, last_place, spool_folder
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.state import StateError


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The position in an input: its next record (None: all records are read). For a growing input,
    the position has the number of the file. `is_partition`: the path is a topic and a partition,
    and the position an offset of the broker."""

    input: str
    path: str
    position: InputPosition | None
    is_partition: bool = False


@dataclass(frozen=True, slots=True)
class StoredPort:
    """Stored events of a port, the number of distinct keys among them (None: the port has no key),
    and the number of those that are copies of others in another bucket."""

    layer: int
    label: str
    events: int
    keys: int | None
    copies: int = 0


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """Stored state: number of values, their bytes, and the events by port."""

    values: int
    bytes: int
    ports: tuple[StoredPort, ...]


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """The status of a checkpoint.

    `batch` is the number of the last written batch, and `under_way` that of a planned one not
    written yet. `written_at` is the time of the last batch or migration, in seconds since 1970;
    None where it is unknown. `closed` is the last closed time (µs; the greatest time where the
    stream has `ended`). `heartbeat` is the last one of the clock (µs), None without one. `totals`
    is None where none are stored. `copied_lines` is the number of copied lines of standard input,
    and `received` that of the messages of each input that receives them. `streams` are the
    published ones: their bases, and the numbers of the first kept element and of the next one.
    """

    folder: Location
    layout: CheckpointLayout
    clock: Clock
    batch: int | None
    written_at: float | None
    under_way: int | None
    closed: Micros | None
    ended: bool
    inputs: tuple[InputProgress, ...]
    positions: tuple[ReadPosition, ...]
    totals: StoredTotals | None
    copied_lines: int | None = None
    received: Mapping[str, int] = field(default_factory=dict)
    heartbeat: Micros | None = None
    streams: Sequence[tuple[str, int, int]] = ()

    @property
    def is_moved_state(self) -> bool:
        """True if no batch was written since state was moved for changed rules."""
        return self.batch is not None and self.batch < self.layout.first


def status_of(folder: str) -> CheckpointStatus:
    """The status from the checkpoint's own files. Raises Refused (S111) where there is no
    checkpoint."""
    try:
        checkpoint = Checkpoint(folder)
    except NotADirectoryError:
        raise _no_checkpoint(folder) from None
    layout = checkpoint.layout
    if layout is None:
        raise _no_checkpoint(folder)
    batch, planned = checkpoint.committed_batch(), checkpoint.planned_batch
    try:
        offset = checkpoint.offset(batch)
        at = checkpoint.written_at() if batch is not None or layout.first else None
    except (OSError, ValueError, KeyError, AssertionError, IndexError) as error:
        checkpoint.check()
        hint = "Is the folder whole? A run in progress may have removed it in the meantime: repeat the command."
        raise refuse("S111", f"the checkpoint {folder} cannot be read: {error}", hint=hint) from None
    closed, inputs = progress_of(checkpoint, layout, offset)
    names = [*layout.inputs, *layout.growing]
    others = len(names)
    if layout.has_partitions:
        names += [(name, 0, partition.place) for name, partition in PartitionJournal(checkpoint.home).entries]
    input_positions = () if offset is None else offset.padded(others).positions
    positions = tuple(
        ReadPosition(name, path, None if position.offset == END else position, number >= others)
        for number, ((name, _, path), position) in enumerate(zip(names, input_positions, strict=False))
    )
    unit, dated = layout.clock or (Unit.SECOND.written, False)
    under_way = planned + layout.first if planned is not None and planned != batch else None
    batch = layout.first + (-1 if batch is None else batch)
    ended = offset is not None and offset.ended
    clock = Clock(Unit.from_written(unit), dated, layout.zone)
    totals = read_totals(checkpoint.home)
    last = batch if batch >= 0 else None
    copied = copied_lines(checkpoint.folder)
    received = {name: last_place(spool_folder(checkpoint.folder, name)) for name, _, pattern in layout.growing if pattern == RECEIVED}
    beat = last_heartbeat(checkpoint.folder, offset)
    streams = published_streams(checkpoint.folder)
    return CheckpointStatus(
        checkpoint.home, layout, clock, last, at, under_way, closed, ended, inputs, positions, totals, copied, received, beat, streams
    )


def _no_checkpoint(folder: str) -> Refused:
    hint = "Name the folder that the configuration names as spark.checkpoint; it is there once a run on Spark has begun."
    return refuse("S111", f"there is no checkpoint at {folder}", hint=hint)


def stored_summary(status: CheckpointStatus) -> StoredSummary:
    """The stored state after the last batch. Raises Refused (S112) where it cannot be read."""
    if not status.layout.layers:
        return StoredSummary(0, 0, ())
    if status.is_moved_state:
        try:
            counter = _StateCounter(status)
            moved = Checkpoint(str(status.folder)).folders(status.layout.generation)[1]
            for layer, value in moved_states(moved, status.layout.layers, status.layout.buckets):
                counter.add_value(layer, value)
            return counter.summary()
        except (OSError, ValueError, StateError) as error:
            hint = "Its totals, as the run counted them, are shown with --quick."
            raise refuse("S112", f"the state in {status.folder} cannot be read: {error}", hint=hint) from None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    from dotr.runtimes.spark.checkpoint.state_moves import StoredState
    from dotr.runtimes.spark.start.session import start

    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    before = SparkContext._active_spark_context
    with tempfile.TemporaryDirectory() as scratch:
        try:
            session = start(
                f"{status.layout.pipeline}: status", "local[1]", {"spark.sql.shuffle.partitions": "1"}, Path(scratch) / "spark.log"
            )
            try:
                session.sparkContext.setLogLevel("OFF")
                query = Checkpoint(str(status.folder)).query
                stored = StoredState(session, query)
                layers: dict[int, int] = {}
                for layer in range(status.layout.layers):
                    layers |= dict.fromkeys(_keys(status.layout, layer), layer)

                counter = _StateCounter(status)
                for operator in stored.operators:
                    manifests: dict[int, Manifest] = {}
                    for row in stored.values(operator).toLocalIterator():
                        manifest = counter.add_value(layers[row.key], bytes(row.written))
                        if manifest is not None:
                            manifests[row.key] = manifest
                    segments = stored.segments(operator) if manifests else None
                    for row in segments.toLocalIterator() if segments is not None else ():
                        counter.add_segment(layers[row.key], manifests[row.key], row.log, bytes(row.lines))
                return counter.summary()
            finally:
                if before is None:
                    session.stop()
        except (PySparkException, Py4JError, RuntimeError, OSError, KeyError) as error:
            cause = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            hint = "Its totals, as the run counted them, are shown with --quick."
            raise refuse("S112", f"the state in {status.folder} cannot be read: {cause[:300]}", hint=hint) from None
        except StateError as error:
            hint = "Its totals, as the run counted them, are shown with --quick."
            raise refuse("S112", f"the state in {status.folder} cannot be read: {error}", hint=hint) from None


def _keys(layout: CheckpointLayout, layer: int) -> tuple[int, ...]:
    return bucket_keys(layout.layers * layout.buckets, layout.partitions)[layer * layout.buckets : (layer + 1) * layout.buckets]


class _StateCounter:
    """Counts stored values one by one; each is decoded, counted and released before the next."""

    def __init__(self, status: CheckpointStatus) -> None:
        self._ports = status.totals.ports if status.totals is not None else ()
        units = status.layout.holdings.units if status.layout.holdings is not None else ()
        self._units = {unit.name: f"{unit.kind} {unit.name}" for unit in units}
        self._unit_entries: dict[tuple[int, str], int] = {}
        self._unit_of_log: dict[Manifest, list[str]] = {}
        self._events: dict[tuple[int, int], int] = {}
        self._keys: dict[tuple[int, int], set[str | None]] = {}
        self._buckets = status.layout.buckets
        self._values = self._written = 0

    def add_value(self, layer: int, written: bytes) -> Manifest | None:
        """Count the value of a bucket; returns its manifest where the bucket has logs."""
        self._values += 1
        self._written += len(written)
        units = UnitsValue.decode(written)
        if units is not None:
            return self._add_units(layer, units)
        manifest = Manifest.decode(written)
        if manifest is None:
            for port, blocks in enumerate(blocks_of_state(written, ()).events):
                self._count(layer, port, (event for block in blocks for event in block.events()))
        return manifest

    def _add_units(self, layer: int, value: UnitsValue) -> Manifest | None:
        """Count the entries of units, and note the unit of each log."""
        names = [self._units.get(name, name) for name, _, logs in value.units for _ in range(logs)]
        for name, log in zip(names, value.inside, strict=False):
            self._unit_entries[layer, name] = self._unit_entries.get((layer, name), 0) + len(log)
        if value.manifest is not None:
            self._unit_of_log[value.manifest] = names
        return value.manifest

    def add_segment(self, layer: int, manifest: Manifest, log: int, lines: bytes) -> None:
        """Count a segment of a log."""
        self._values += 1
        self._written += len(lines)
        if manifest in self._unit_of_log:
            name = self._unit_of_log[manifest][log]
            entries = sum(1 for _ in live_events(manifest, [(log, lines)]))
            self._unit_entries[layer, name] = self._unit_entries.get((layer, name), 0) + entries
        elif log < len(manifest.event_counts):
            self._count(layer, log, (event for _, event in live_events(manifest, [(log, lines)])))

    def _count(self, layer: int, index: int, events: Iterable[StoredEvent]) -> None:
        port = self._ports[layer][index] if layer < len(self._ports) and index < len(self._ports[layer]) else None
        keys = None if port is None or port.key is None else self._keys.setdefault((layer, index), set())
        for event in events:
            self._events[layer, index] = self._events.get((layer, index), 0) + 1
            if keys is not None and port is not None and port.key is not None:
                keys.add(event[2][port.key])

    def summary(self) -> StoredSummary:
        """The counts, by layer and label."""
        counts: dict[tuple[int, str], tuple[int, int | None, int]]
        counts = {place: (entries, None, 0) for place, entries in self._unit_entries.items() if entries}
        for (layer, index), events in self._events.items():
            port = self._ports[layer][index] if layer < len(self._ports) and index < len(self._ports[layer]) else None
            name = (layer, f"port {index}" if port is None else port.label)
            so_far, other, copies = counts.get(name, (0, None, 0))
            copies += 0 if port is None else port.copies(events, self._buckets)
            keys = self._keys.get((layer, index))
            counts[name] = so_far + events, other if keys is None else len(keys) + (other or 0), copies
        return StoredSummary(
            self._values, self._written, tuple(StoredPort(layer, label, *each) for (layer, label), each in sorted(counts.items()))
        )
