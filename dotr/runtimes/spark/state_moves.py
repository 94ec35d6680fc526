"""Migration of state to the folder of a new query when rules have changed.

Idea: a task reads each bucket's old state through Spark's state data source and divides it
(`state_migration`); a part is a file named by the new layer and bucket, in a folder per target. The
parts of a bucket are merged into one file. A bucket without stored value in the new query starts
from its file. The old query stays unchanged until dotr.json, which names the current generation, is
replaced atomically when all files are on disk. The first batch of the new query starts at the end
of the old one's last batch, and the numbering continues.
Cost: proportional to the state, once. A task and the driver hold one bucket at a time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dotr.errors.diagnostics import Refused, refuse
from dotr.layout.layers import Layer
from dotr.model.time import Micros
from dotr.patterns.state import StateError, StateSnapshot
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import BucketSize
from dotr.runtimes.spark.spark_errors import CarriedDiagnostics, encode_diagnostics, failure_of
from dotr.runtimes.spark.stored_state import StoredState
from dotr.runtimes.spark.worker_cache import program_of
from dotr.state.state_log import Manifest, log_snapshot
from dotr.state.state_migration import StateChange, StateMigrator, merge_parts, merge_units
from dotr.state.state_schema import StateSchema
from dotr.state.unit_state import UnitsValue

_SCHEMA: Final = "key long, passed long"


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
    def layer_and_bucket(self) -> dict[int, tuple[int, int]]:
        """The layer and bucket of each key; Spark's operator numbers have no fixed relation to
        layers."""
        return {key: divmod(number, len(self.keys) // self.layers) for number, key in enumerate(self.keys)}


class MoveTask:
    """The function of a task that divides old state. The new job and the schemas before and after
    travel as text."""

    def __init__(self, job: str, schemas: str, layer_and_bucket: dict[int, tuple[int, int]]) -> None:
        self._job = job
        self._schemas = schemas
        self._layer_and_bucket = layer_and_bucket

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyarrow import RecordBatch, array

        job = Job.from_json(self._job)
        before, after = map(StateSchema.of_json, json.loads(self._schemas))
        migrator = StateMigrator(before, after, program_of(job), job.clock, job.buckets)
        for batch in batches:
            for key, written, pieces in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                try:
                    passed = _write_parts(migrator, job.moved, self._layer_and_bucket[key], written, pieces)
                except Refused as refused:
                    raise CarriedDiagnostics(encode_diagnostics(refused)) from None
                yield RecordBatch.from_arrays([array([key], "int64"), array([passed], "int64")], ["key", "passed"])


def _write_parts(
    migrator: StateMigrator, folder: str, source: tuple[int, int], written: bytes, segments: Sequence[Mapping[str, Any]] = ()
) -> Micros | None:
    """Write the parts of a bucket's old state; its last time passed (µs)."""
    try:
        units = UnitsValue.decode(written)
        if units is not None:
            for (layer, bucket), moved in migrator.redistribute_units(source[1], units, _Pieces(segments)).items():
                _write(_file(str(_file(folder, layer, bucket).with_suffix("")), *source), moved.encode())
            return units.passed
        manifest = Manifest.decode(written)
        if manifest is None:
            state = StateSnapshot.decode(written)
        else:
            ordered = sorted(segments, key=lambda piece: (piece["log"], piece["place"]))
            state = log_snapshot(manifest, ((piece["log"], piece["lines"]) for piece in ordered))
    except StateError as error:
        raise unreadable_state(error) from None
    for (layer, bucket), part in migrator.redistribute(*source, state).items():
        _write(_file(str(_file(folder, layer, bucket).with_suffix("")), *source), part.encode())
    return state.passed


class _Pieces:
    """The segments of a bucket as they are read from the state of a stopped query."""

    def __init__(self, segments: Sequence[Mapping[str, Any]]) -> None:
        self._lines = {(each["log"], each["place"]): bytes(each["lines"]) for each in segments}

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
    """Write the initial states of the new job's buckets; their sizes. Leftovers of an earlier
    attempt are removed. A job without state has no buckets."""
    folder = Path(job.moved)
    for leftover in (folder, Path(job.run)):
        shutil.rmtree(leftover, ignore_errors=True)
    if not job.layers:
        return []
    folder.mkdir(parents=True)
    program = program_of(job)
    migrator = StateMigrator(change.before, change.after, program, job.clock, job.buckets)
    schemas = json.dumps([change.before.to_json(), change.after.to_json()])
    passed: set[Micros | None] = set()
    moved_keys: set[int] = set()
    stored = StoredState(session, old.query) if old.has_batches and old.layers else None
    for operator in stored.operators if stored else ():
        assert stored is not None
        try:
            done = stored.buckets(operator).mapInArrow(MoveTask(job.to_json(), schemas, old.layer_and_bucket), _SCHEMA).collect()
        except PySparkException as error:
            raise failure_of(str(error), log) from None
        moved_keys |= {row.key for row in done}
        passed |= {row.passed for row in done}
    for key, place in old.layer_and_bucket.items() if old.moved else ():
        if key not in moved_keys:
            passed.add(_write_parts(migrator, job.moved, place, _file(old.moved, *place).read_bytes()))
    sizes: list[BucketSize] = []
    until = max((time for time in passed if time is not None), default=None)
    for layer in program.layout.layers:
        for bucket in range(job.buckets):
            whole = _file(job.moved, layer.number, bucket)
            parts = whole.with_suffix("")
            texts = [part.read_bytes() for part in sorted(parts.glob("*.json"))]
            if layer.units:
                of_units = [UnitsValue.decode(text) for text in texts]
                moved = merge_units([each for each in of_units if each is not None], until)
                text, counts = moved.encode(), unit_counts(layer, moved)
            else:
                state = merge_parts(layer, [StateSnapshot.decode(text) for text in texts], until)
                text, counts = state.encode(), tuple(map(len, state.events))
            _write(whole, text)
            sizes.append(BucketSize(layer.number, bucket, counts, len(text)))
            shutil.rmtree(parts, ignore_errors=True)
    _sync(folder)
    _sync(folder.parent)
    return sizes


def unit_counts(layer: Layer, value: UnitsValue) -> tuple[int, ...]:
    """The entries of logs at each port of a layer of units; a unit with a log for each of its reads
    has them at the ports of these."""
    counts = [0] * len(layer.ports)
    placed = {each.unit.name: each for each in layer.units}
    first = 0
    for name, _, logs in value.units:
        if name in placed and len(placed[name].ports) == logs:
            for port, log in zip(placed[name].ports, value.inside[first : first + logs], strict=True):
                counts[port] = max(counts[port], len(log))
        first += logs
    return tuple(counts)


def moved_states(folder: str) -> Iterator[tuple[int, bytes]]:
    """The layer and the initial state of each bucket."""
    for path in sorted(Path(folder).glob("*-*.json")):
        yield int(path.stem.partition("-")[0]), path.read_bytes()


def initial_state(job: Job, layer: int, bucket: int) -> bytes:
    """The initial state of a bucket without a stored one; empty where no state was moved."""
    return _file(job.moved, layer, bucket).read_bytes() if job.moved else b""


def _file(folder: str, layer: int, bucket: int) -> Path:
    return Path(folder) / f"{layer}-{bucket}.json"


def _write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
