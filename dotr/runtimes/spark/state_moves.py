"""State moves to a new query's folder when rules have changed: read from the old one where it is, put where the new layout looks for it.

Idea: each bucket's old state is read by a task, through Spark's own reader of state, and taken apart; a part is a file, called by the new
layer and bucket that it is for and the old ones that it is from. The parts of a bucket are then made one file. A bucket whose value is
not there yet in the new query begins with its file. All that time the old query is as it was: only dotr.json says which one counts, and
that is written, in one go, when the files are on the disk. The new query's first batch begins where the old one's last ended, and is
numbered on. Cost: once, what the state holds; a task, and the driver, have one bucket in memory at a time.
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
from dotr.model.time import Micros
from dotr.patterns.state import StateError, StateSnapshot
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.rows import BucketSize
from dotr.runtimes.spark.spark_errors import CarriedDiagnostics, failure_of, encode_diagnostics
from dotr.runtimes.spark.stored_state import StoredState
from dotr.runtimes.spark.worker_cache import program_of
from dotr.state.state_log import Manifest, log_snapshot
from dotr.state.state_migration import StateChange, StateMigrator, merge_parts
from dotr.state.state_schema import StateSchema

_SCHEMA: Final = "key long, passed long"


@dataclass(frozen=True, slots=True)
class OldQuery:
    """The query whose state moves: its folder, the folder of files that it began with itself ("": none), how many layers it has, and the
    keys of their buckets, the first layer's first; `ran`: it has come to the end of a batch. Without layers it has no state."""

    query: str
    moved: str
    layers: int
    keys: tuple[int, ...]
    has_batches: bool

    @property
    def layer_and_bucket(self) -> dict[int, tuple[int, int]]:
        """The layer and bucket of each key: Spark numbers its operators as it likes."""
        return {key: divmod(number, len(self.keys) // self.layers) for number, key in enumerate(self.keys)}


class MoveTask:
    """What a task does with old state, by its key. The new job, and what the old and the new state are of, travel as text."""

    def __init__(self, job: str, schemas: str, layer_and_bucket: dict[int, tuple[int, int]]) -> None:
        self._job = job
        self._schemas = schemas
        self._layer_and_bucket = layer_and_bucket

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyarrow import RecordBatch, array  # type: ignore[import-untyped]

        job = Job.from_json(self._job)
        before, after = map(StateSchema.of_json, json.loads(self._schemas))
        mover = StateMigrator(before, after, program_of(job), job.clock, job.buckets)
        for batch in batches:
            for key, written, pieces in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                try:
                    passed = _write_parts(mover, job.moved, self._layer_and_bucket[key], written, pieces)
                except Refused as refused:
                    raise CarriedDiagnostics(encode_diagnostics(refused)) from None
                yield RecordBatch.from_arrays([array([key], "int64"), array([passed], "int64")], ["key", "passed"])


def _write_parts(
    mover: StateMigrator, folder: str, place: tuple[int, int], written: bytes, pieces: Sequence[Mapping[str, Any]] = ()
) -> Micros | None:
    """Writes the parts of a bucket's old state, and says how far it had come."""
    try:
        head = Manifest.decode(written)
        if head is None:
            state = StateSnapshot.decode(written)
        else:
            ordered = sorted(pieces, key=lambda piece: (piece["log"], piece["place"]))
            state = log_snapshot(head, ((piece["log"], piece["lines"]) for piece in ordered))
    except StateError as error:
        raise unreadable_state(error) from None
    for (layer, bucket), part in mover.redistribute(*place, state).items():
        _write(_file(str(_file(folder, layer, bucket).with_suffix("")), *place), part.encode())
    return state.passed


def unreadable_state(error: StateError) -> Refused:
    """State that this release cannot read."""
    hint = "Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint."
    return refuse("S105", f"the state in the checkpoint cannot be used: {error}", hint=hint)


def move_state(session: SparkSession, change: StateChange, old: OldQuery, job: Job, log: Path) -> list[BucketSize]:
    """Writes what the new job's buckets begin with, and says how much that is; what an earlier try has left goes. A job that keeps no state
    has no buckets."""
    folder = Path(job.moved)
    for leftover in (folder, Path(job.run)):
        shutil.rmtree(leftover, ignore_errors=True)
    if not job.layers:
        return []
    folder.mkdir(parents=True)
    program = program_of(job)
    mover = StateMigrator(change.before, change.after, program, job.clock, job.buckets)
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
            passed.add(_write_parts(mover, job.moved, place, _file(old.moved, *place).read_bytes()))
    sizes: list[BucketSize] = []
    until = max((time for time in passed if time is not None), default=None)
    for layer in program.layout.layers:
        for bucket in range(job.buckets):
            whole = _file(job.moved, layer.number, bucket)
            parts = whole.with_suffix("")
            pieces = [StateSnapshot.decode(part.read_bytes()) for part in sorted(parts.glob("*.json"))]
            state = merge_parts(layer, pieces, until)
            text = state.encode()
            _write(whole, text)
            sizes.append(BucketSize(layer.number, bucket, tuple(map(len, state.events)), len(text)))
            shutil.rmtree(parts, ignore_errors=True)
    _sync(folder)
    _sync(folder.parent)
    return sizes


def moved_states(folder: str) -> Iterator[tuple[int, bytes]]:
    """What buckets begin with: each one's layer, and its state."""
    for path in sorted(Path(folder).glob("*-*.json")):
        yield int(path.stem.partition("-")[0]), path.read_bytes()


def initial_state(job: Job, layer: int, bucket: int) -> bytes:
    """What a bucket begins with that has no state of its own yet; nothing where nothing was moved."""
    return _file(job.moved, layer, bucket).read_bytes() if job.moved else b""


def _file(folder: str, layer: int, bucket: int) -> Path:
    return Path(folder) / f"{layer}-{bucket}.json"


def _write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}")
    with waiting.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    waiting.replace(path)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
