"""The checkpoint: its owner and its fixed properties.

`dotr.json` is beside Spark's folder `query`. It names the pipeline and the program, the input files
in the order of the offsets, the numbers of the state's layout, and the schema of the state. A
checkpoint of another pipeline or of other inputs is refused, since its state would be misread. The
file begins with a checksum of its other members: without one, a changed bit would be taken for
another program or another layout.

A checkpoint at a URL (`home`) holds what a start anywhere needs. What may be lost, such as the
watermarks and Spark's log, is in a folder of the driver's machine (`folder`); on a disk both are
one.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from dotr.engine.program import CompiledProgram
from dotr.engine.state.migration import StateChange, state_change
from dotr.engine.state.schema import StateSchema, state_schema
from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.files.caches import scratch_folder
from dotr.evaluation.files.private_files import remove_leftovers, replace_file, without_links
from dotr.evaluation.files.stores import Location, absolute
from dotr.evaluation.files.trust import make_trusted_folder
from dotr.languages.programs import fingerprint
from dotr.model import dataclass
from dotr.model.stream import DeadLetter
from dotr.model.time import LAST_MICRO
from dotr.runtimes.monitoring.totals import RunFailed
from dotr.runtimes.pipeline.build import Pipeline
from dotr.runtimes.spark.checkpoint.damage import check_logs
from dotr.runtimes.spark.checkpoint.figures import INPUTS
from dotr.runtimes.spark.exchange.positions import BEGINNING, Offset
from dotr.streams.connectors.opening import needs_identity
from dotr.streams.formats.segments import RECEIVED
from dotr.streams.merge.file_marks import FileMark, FoundFile, changes
from dotr.streams.merge.folders import TAILED, GrowingInput
from dotr.streams.records import Format, InputFile
from dotr.streams.sinks.batches import BatchHistory
from dotr.streams.sinks.files import is_transient

NAME: Final = "dotr.json"
JOB_FOLDER: Final = "dotr-job"
"""The folder of a bundle's files in the working directory of each process (`dotr bundle`)."""
_CHECKSUM: Final = "checksum"
FORMAT: Final = 2
PLACES_FORMAT: Final = 3
"""The format where a rule may have roles in several layers: the schema has a layer and a port for each
role, not one layer for each rule (`StateSchema.has_places`)."""
READABLE_FORMATS: Final = (1, FORMAT, PLACES_FORMAT)
"""Readable formats. Format 1 has no state schema, so that only the unchanged program can use its
state."""


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """Fixed properties of a checkpoint.

    `pipeline` is the name, `program` the fingerprint, `inputs` are (name, delay in µs, file), and
    `growing` the growing inputs as (name, delay, pattern; none for standard input, and
    `message_segments.RECEIVED` for messages). The state has
    `layers` (0: no state), `buckets` per layer and Spark `partitions`. `clock` is the time unit and
    whether times are date-times. `holdings` is the schema of the state (None in format 1). Each
    migration of state begins a new `generation` of the query, at the offset `start`, with the batch
    number `first`. `topics` are the Kafka inputs as (name, delay, subscription). `identity` is the
    ID by which outputs know the checkpoint; empty where none needs it. `marks` are those of the
    input files when they were planned (None: unknown), and `changed` the files as (name, file)
    whose change is a dead letter already. `zone` is that in which times are shown. `replay` is the
    move of the inputs with `replay`: its distance, and that of its rounds (µs). `tables` are the
    inputs that Spark reads, in place of all others, as (name, delay, identity).
    """

    pipeline: str
    program: str
    inputs: tuple[tuple[str, int, str], ...]
    layers: int
    buckets: int
    partitions: int
    growing: tuple[tuple[str, int, str], ...] = ()
    clock: tuple[str, bool] | None = None
    holdings: StateSchema | None = None
    generation: int = 0
    start: Offset | None = None
    first: int = 0
    topics: tuple[tuple[str, int, str], ...] = ()
    identity: str = ""
    marks: tuple[FileMark | None, ...] = ()
    changed: tuple[tuple[str, str], ...] = ()
    zone: str = ""
    replay: tuple[int, int] | None = None
    tables: tuple[tuple[str, int, str], ...] = ()

    @property
    def has_partitions(self) -> bool:
        """True if partitions of topics, or series of files, are numbered behind the other inputs."""
        return bool(self.topics) or any(pattern.startswith(TAILED) for _, _, pattern in self.growing)

    def to_json(self) -> dict[str, object]:
        """The members of `dotr.json` under fixed names."""
        return {
            "pipeline": self.pipeline,
            "program": self.program,
            "inputs": self.inputs,
            "layers": self.layers,
            "buckets": self.buckets,
            "partitions": self.partitions,
            "growing": self.growing,
            "clock": self.clock,
            "holdings": None if self.holdings is None else self.holdings.to_json(),
            "generation": self.generation,
            "start": None if self.start is None else self.start.to_json(),
            "first": self.first,
            **({"topics": self.topics} if self.topics else {}),
            **({"identity": self.identity} if self.identity else {}),
            **({"marks": self.marks} if self.marks else {}),
            **({"changed": self.changed} if self.changed else {}),
            **({"zone": self.zone} if self.zone else {}),
            **({"replay": self.replay} if self.replay else {}),
            **({"tables": self.tables} if self.tables else {}),
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> CheckpointLayout:
        """The inverse of `to_json`, also for older releases. Raises KeyError, TypeError or
        ValueError."""
        inputs, growing, topics, tables = (
            tuple((str(name), int(delay), str(path)) for name, delay, path in data.get(key, ()))
            for key in ("inputs", "growing", "topics", "tables")
        )
        return CheckpointLayout(
            pipeline=str(data["pipeline"]),
            program=str(data["program"]),
            inputs=inputs,
            layers=int(data["layers"]),
            buckets=int(data["buckets"]),
            partitions=int(data["partitions"]),
            growing=growing,
            clock=(str(data["clock"][0]), bool(data["clock"][1])) if data.get("clock") else None,
            holdings=StateSchema.of_json(data["holdings"]) if data.get("holdings") else None,
            generation=int(data.get("generation", 0)),
            start=None if data.get("start") is None else Offset.of_json(data["start"]),
            first=int(data.get("first", 0)),
            topics=topics,
            identity=str(data.get("identity", "")),
            marks=tuple(None if mark is None else FileMark.of_json(mark) for mark in data.get("marks", ())),
            changed=tuple((str(name), str(path)) for name, path in data.get("changed", ())),
            zone=str(data.get("zone", "")),
            replay=(int(data["replay"][0]), int(data["replay"][1])) if data.get("replay") else None,
            tables=tables,
        )


_MEMBERS: Final = {
    "format",
    *CheckpointLayout(
        "",
        "",
        (),
        0,
        0,
        0,
        topics=(("", 0, ""),),
        identity="-",
        marks=(None,),
        changed=(("", ""),),
        zone="-",
        replay=(0, 0),
        tables=(("", 0, ""),),
    ).to_json(),
}
"""The members of `dotr.json` beside the checksum, over all releases."""


class Checkpoint:
    """A checkpoint; `layout` is None where it is new. Raises Refused (S102, S114, S104) where it is
    unusable."""

    def __init__(self, place: str) -> None:
        self.home = Location.of(place)
        self.folder = scratch_folder(str(self.home)) if self.home.is_url else self.home.path
        self._tag = ""
        try:
            self.layout = self._read()
        except OSError as error:
            if self.home.is_url:
                raise unreachable(self.home, error) from None
            raise

    @property
    def query(self) -> str:
        """Spark's folder of the current generation."""
        return self.folders(0 if self.layout is None else self.layout.generation)[0]

    def folders(self, generation: int) -> tuple[str, str]:
        """Spark's folder of a generation, and the folder of its initial states."""
        home = self.home if self.home.is_url else self.folder.absolute()
        return str(home / (f"query-{generation}" if generation else "query")), str(home / f"moved-{generation}")

    @property
    def scratch(self) -> str:
        """The folder of the driver's machine for what may be lost; empty where that is the
        checkpoint."""
        return str(self.folder) if self.home.is_url else ""

    @property
    def log(self) -> Path:
        """The log file of Spark."""
        return self.folder / "spark.log"

    def _read(self) -> CheckpointLayout | None:
        file, written = self.home / NAME, b""
        try:
            if self.home.is_url:  # the tag of the version that is read, or of an older one, whose replacement is refused
                self._tag = "" if (found := file.look()) is None else found.tag
            written = file.read()
            data = json.loads(written.decode())
        except FileNotFoundError:
            if any(_is_there(self.home / name) for name in ("query", "offsets")):
                why = "there is no dotr.json in it: it was not made by dotr, or that file is lost"
                raise self._refused(
                    why, "Put the file back from a copy, remove the folder by hand, or name another spark.checkpoint."
                ) from None
            return None
        except OSError as error:
            if self.home.is_url:
                raise
            raise self._refused(f"its dotr.json cannot be read: {error}") from None
        except ValueError as error:
            if not written.strip(b"\0"):
                raise self._damaged("holds nothing but zeros" if written else "is empty") from None
            if any(name in written for name in (b'"checksum"', b'"pipeline"')):
                raise self._damaged("is cut or changed (it is no JSON)") from None
            raise self._refused(f"its dotr.json cannot be read: {error}") from None
        is_checked = isinstance(data, dict) and _CHECKSUM in data
        if is_checked and data.pop(_CHECKSUM) != _checksum(data):
            raise self._damaged("is changed (it does not match its checksum)")
        if not isinstance(data, dict) or not isinstance(data.get("format"), int):
            raise self._refused("its dotr.json is not one of dotr: it has no format")
        if data["format"] not in READABLE_FORMATS:
            raise self._refused(
                f"it is of a later release (its format is not {', '.join(map(str, READABLE_FORMATS[:-1]))} or {READABLE_FORMATS[-1]})"
            )
        if not is_checked and (unknown := data.keys() - _MEMBERS):  # also a checksum whose name is changed
            raise self._damaged(f"is changed (it has a member {min(unknown)!r}, which no release has written)")
        try:
            return CheckpointLayout.of_json(data)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError) as error:
            raise self._refused(f"its dotr.json cannot be read: {type(error).__name__}: {error}") from None

    @property
    def planned_batch(self) -> int | None:
        """Spark's number of the last planned batch."""
        return last_number(Location.of(self.query) / "offsets")

    def offset(self, number: int | None = None) -> Offset | None:
        """The offset at the end of a batch, by Spark's number (None: the last written one); None
        before the first batch."""
        last = self.committed_batch() if number is None else number
        if last is None:
            return self.layout.start if self.layout else None
        if self.layout is not None and self.layout.tables:
            return offset_of_watermark(Location.of(self.query) / "offsets" / str(last))
        return Offset.of_log(Location.of(self.query) / "offsets" / str(last))

    def committed_batch(self) -> int | None:
        """Spark's number of the last written batch."""
        return last_number(Location.of(self.query) / "commits")

    def written_at(self) -> float | None:
        """The time of the last written batch, or else of the last move of state, in seconds since
        1970; at a URL that at which the batch began, which Spark's log has. Raises OSError and
        ValueError."""
        number = self.committed_batch()
        if not self.home.is_url:
            written = self.folder / NAME if number is None else Path(self.query) / "commits" / str(number)
            return written.stat().st_mtime
        if number is None:
            return None
        settings = (Location.of(self.query) / "offsets" / str(number)).read().splitlines()[1]
        return int(json.loads(settings)["batchTimestampMs"]) / 1000

    def batch_history(self, identity: str, last_written: int | None = None) -> BatchHistory:
        """The batches written and planned so far, numbered over all generations.

        `identity` is the checkpoint's ID, `last_written` the number of the last written batch where
        the user has given it (`--last-written`).
        """
        if self.layout is None:
            return BatchHistory(identity, last_written=last_written)
        first, committed, planned = self.layout.first, self.committed_batch(), self.planned_batch
        written = first + (0 if committed is None else committed + 1)
        return BatchHistory(identity, written, max(written, first + (0 if planned is None else planned + 1)), last_written)

    def state_change(self, program: CompiledProgram) -> StateChange:
        """The change of the state for a program. Raises Refused where the meaning of the state is
        unknown."""
        stored = self.layout
        assert stored is not None
        before = stored.holdings
        if stored.tables and stored.program != fingerprint(program.spec):
            raise self._refused(
                "it belongs to another program: rules, knowledge or settings have changed since, and where Spark reads the inputs, the "
                "state is in Spark's operators and does not move",
                "Put them back, and the run goes on. Or start over with --fresh (it removes this pipeline's output and checkpoint, and "
                "the tables are read from their beginning), or name another spark.checkpoint.",
            )
        if before is not None and before.is_of_whole_programs:
            raise refuse(
                "S134",
                f"the checkpoint {self.home} keeps the state of a program with queries as one value, which is not read any more",
                hint="Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint.",
            )
        if before is None:
            if stored.program != fingerprint(program.spec):
                raise self._refused(
                    "it belongs to another program: rules, knowledge or settings have changed since, and the release that made it did not "
                    "write down which state is whose (a run of the unchanged program does)"
                )
            before = state_schema(program)
        offset = self.offset()
        return state_change(before, program, BEGINNING if offset is None else offset.time)

    def preview(self, required: CheckpointLayout, program: CompiledProgram) -> StateChange:
        """The change that a restart would make. Raises Refused where a restart would be refused."""
        stored = self.layout
        assert stored is not None
        change = self.state_change(program)
        self._continued(stored, required, change)
        return change

    def next_generation(self, layout: CheckpointLayout, layers: int) -> CheckpointLayout:
        """The layout of the next generation, with `layers` layers, which starts at the query's
        position."""
        last = self.committed_batch()
        return replace(
            layout,
            layers=layers,
            generation=layout.generation + 1,
            start=self.offset(),
            first=layout.first + (0 if last is None else last + 1),
        )

    def resized(self, layout: CheckpointLayout, buckets: int) -> CheckpointLayout:
        """The layout of a start with another number of buckets, and Spark partitions: that of a
        next generation."""
        stored = self.layout
        assert stored is not None
        if layout.generation == stored.generation:
            layout = self.next_generation(layout, layout.layers)
        return replace(layout, buckets=buckets, partitions=buckets)

    def remove_leftovers(self) -> None:
        """Remove the folders of a next generation that never became the current one."""
        for folder in self.folders(self.layout.generation + 1 if self.layout else 1):
            remove_folder(folder)

    def switch(self, layout: CheckpointLayout) -> None:
        """Make a generation the current one, and remove the earlier ones."""
        self._write(layout)
        for generation in range(layout.generation):
            for folder in self.folders(generation):
                remove_folder(folder)

    def changes(self) -> list[DeadLetter]:
        """The dead letters of files that have changed since they were planned, and are not watched;
        none while a batch is under way, which comes first."""
        layout, letters = self.layout, []
        if layout is not None and self.planned_batch == self.committed_batch():
            watched = {name for name, _, _ in layout.growing}
            for (name, _, path), mark in zip(layout.inputs, layout.marks, strict=False):
                if name not in watched and (name, path) not in layout.changed:
                    letters += [
                        InputFile(name, path, Format.CSV).found(each).dead_letter_of_change for each in changes([FoundFile(path, mark)])
                    ]
        return letters

    def changes_written(self, letters: Sequence[DeadLetter]) -> None:
        """Store that dead letters of changes are written, as a batch that is none of the query's."""
        layout = self.layout
        assert layout is not None
        told = tuple((letter.input, letter.file) for letter in letters)
        self._write(replace(layout, first=layout.first + 1, changed=(*layout.changed, *told)))

    def _refused(self, why: str, hint: str = "") -> Exception:
        hint = hint or "Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint."
        return refuse("S102", f"the checkpoint {self.home} cannot be used: {why}", hint=hint)

    def _damaged(self, why: str) -> Refused:
        hint = "Put the file back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."
        return refuse("S114", f"the checkpoint is damaged: {self.home / NAME} {why}", hint=hint)

    def check(self) -> None:
        """Check the logs that the next start reads. Raises Refused (S114) where one is damaged."""
        if self.layout is not None:
            check_logs(Location.of(self.query))

    def create(self) -> None:
        """Create the folder and the log file."""
        try:
            if self.home.is_url:
                make_trusted_folder(self.folder)
                (self.folder / INPUTS).unlink(missing_ok=True)  # of a run here, where others may have run elsewhere since
            else:
                self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder)
            open(self.log, "a", opener=without_links).close()
        except OSError as error:
            raise self._unwritable(error, self.folder) from None

    def _unwritable(self, error: OSError, place: Location | Path) -> Exception:
        if is_transient(error):
            return RunFailed(f"the checkpoint {place} cannot be written: {error.strerror or error}")
        hint = "Name another folder as spark.checkpoint."
        if self.home.is_url and place == self.folder:
            hint = "It is the folder of this machine for what may be lost: name a folder that is yours alone as TMPDIR."
        return refuse("S103", f"the checkpoint {place} cannot be written: {error.strerror or error}", hint=hint)

    def claim(self, required: CheckpointLayout, change: StateChange | None = None) -> CheckpointLayout:
        """The layout to run with: the stored one, or `required`, which is then stored. Where the
        change moves state, the stored layout stays until `switch`."""
        stored = self.layout
        if stored is None:
            self._write(required)
            return required
        assert change is not None, "there is a checkpoint"
        now = self._continued(stored, required, change)
        if change.moves:
            return self.next_generation(now, required.layers)
        if now != stored:
            self._write(now)
        return now

    def _continued(self, stored: CheckpointLayout, required: CheckpointLayout, change: StateChange) -> CheckpointLayout:
        """The stored layout with permitted changes. Raises Refused where the pipeline, the time
        unit or the inputs differ."""
        if stored.pipeline != required.pipeline:
            raise self._refused(f"it belongs to the pipeline {stored.pipeline}, this one is {required.pipeline}")
        if stored.clock is not None and required.clock is not None and stored.clock[0] != required.clock[0]:
            raise self._refused("the time unit (time.unit) is another one than when it was made, and all its times are in that")
        if stored.replay != required.replay:
            raise self._refused("its replay has another start or rounds of another length (replay) than when it was made")
        if stored.tables != required.tables:
            if not (changed := sorted({*stored.tables}.symmetric_difference(required.tables))):
                raise self._refused("its inputs stand in another order than when it was made", "Put them back into it.")
            how = "has another table, time, map, lateness or clock than when it was made, or is another one"
            raise self._refused(f"the input {changed[0][0]} {how}")
        names = {name for name, _, _ in (*stored.growing, *required.growing)}
        fixed = tuple(entry for entry in stored.inputs if entry[0] not in names)
        _check_inputs(self, fixed, [entry for entry in required.inputs if entry[0] not in names])
        self._check_growing(stored, required)
        new = tuple(entry for entry in required.growing if entry not in stored.growing)
        self._check_topics(stored, required)
        if new and stored.has_partitions:
            raise self._refused(f"the input {new[0][0]} was not there when it was made, and its partitions are numbered behind the others")
        topics = (*stored.topics, *[entry for entry in required.topics if entry not in stored.topics])
        marks = dict(zip(required.inputs, required.marks, strict=False))  # those of now, where an older release has stored none
        return replace(
            stored,
            marks=stored.marks or tuple(map(marks.get, stored.inputs)),
            growing=(*stored.growing, *new),
            topics=topics,
            program=required.program,
            holdings=change.after,
            identity=stored.identity or required.identity,
        )

    def _check_growing(self, stored: CheckpointLayout, required: CheckpointLayout) -> None:
        """Refuse a growing input with another delay or pattern, and any addition to an ended
        stream."""
        before = {name: (delay, pattern) for name, delay, pattern in stored.growing}
        delays = {name: delay for name, delay, _ in stored.inputs}
        for name, delay, pattern in required.growing:
            if before.get(name, (delay, pattern)) != (delay, pattern) or delays.get(name, delay) != delay:
                raise self._refused(f"the input {name} has another path or lateness than when it was made")
        known = {path for _, _, path in stored.inputs}
        further = any(path not in known for _, _, path in required.inputs)
        offset = self.offset() if required.growing or (stored.growing and further) else None
        if offset is not None and offset.ended:
            raise refuse(
                "S106",
                f"the stream in the checkpoint {self.home} has ended, and nothing can be added to it",
                hint="Its inputs came to an end in a run without watch, and all instants closed. Start over with --fresh, or name another "
                "spark.checkpoint.",
            )

    def _check_topics(self, stored: CheckpointLayout, required: CheckpointLayout) -> None:
        """Refuse a Kafka input with another delay or subscription, one that is missing, and a new
        one where the stream has ended."""
        now = {name: (delay, subscription) for name, delay, subscription in required.topics}
        for name, delay, subscription in stored.topics:
            if name not in now:
                raise self._refused(f"the input {name}, which it reads from Kafka, is missing")
            if now[name] != (delay, subscription):
                raise self._refused(f"the input {name} has other topics, another end or another lateness than when it was made")
        offset = self.offset() if required.topics != stored.topics else None
        if offset is not None and offset.ended:
            raise refuse(
                "S106",
                f"the stream in the checkpoint {self.home} has ended, and nothing can be added to it",
                hint="Start over with --fresh, or name another spark.checkpoint.",
            )

    def _write(self, layout: CheckpointLayout) -> None:
        try:
            has_places = layout.holdings is not None and layout.holdings.has_places
            data = {"format": PLACES_FORMAT if has_places else FORMAT, **layout.to_json()}
            text = json.dumps({_CHECKSUM: _checksum(data), **data}, indent=1).encode()
            file = self.home / NAME
            if self.home.is_url:
                tag = file.put_unchanged(text, self._tag) if self._tag else file.put_new(text)
                if tag is None:
                    raise refuse("S185", f"another run has changed the checkpoint {self.home} meanwhile", hint="Stop one of the two.")
                self._tag = tag
            else:
                replace_file(file.path, [text], sync=True)
        except OSError as error:
            raise self._unwritable(error, self.home) from None
        self.layout = layout


def _checksum(data: Mapping[str, object]) -> str:
    """The checksum of the other members of `dotr.json`, whatever its white space."""
    return blake2b(json.dumps(json.loads(json.dumps(data)), sort_keys=True).encode(), digest_size=16).hexdigest()


def _check_inputs(checkpoint: Checkpoint, stored: Sequence[tuple[str, int, str]], required: Sequence[tuple[str, int, str]]) -> None:
    changed = [
        path
        for _, _, path in dict.fromkeys([*stored, *required])
        if ([e for e in stored if e[2] == path] != [e for e in required if e[2] == path])
    ]
    if changed:
        listed = ", ".join(dict.fromkeys(changed[:3])) + (", …" if len(changed) > 3 else "")
        raise checkpoint._refused(f"the input files are not those that it was made for ({listed})")


def last_number(log: Location) -> int | None:
    """The last batch number in one of Spark's logs. Raises OSError where a store does not answer."""
    return max((int(name) for name in _listed(log) if name.isdecimal()), default=None)


def _listed(folder: Location) -> list[str]:
    if folder.is_url:
        return [each.location.name for each in folder.list()]
    return os.listdir(folder.path) if folder.path.is_dir() else []


def _is_there(folder: Location) -> bool:
    return any(True for _ in folder.list()) if folder.is_url else folder.path.exists()


def hadoop_name(place: Location) -> str:
    """The name under which Spark finds a place: Hadoop calls its own store of S3 `s3a`, and a path
    alone would be one of the cluster's default file system, such as HDFS.

    >>> hadoop_name(Location.of("s3://lake/fires/query")), hadoop_name(Location.of("/out/query"))
    ('s3a://lake/fires/query', 'file:///out/query')
    """
    return re.sub("^s3://", "s3a://", str(place)) if place.is_url else f"file://{absolute(str(place))}"


def remove_folder(folder: str) -> None:
    """Remove a folder of a checkpoint, if it is there. On a disk, errors are ignored."""
    place = Location.of(folder)
    if place.is_url:
        place.remove_below()
    else:
        shutil.rmtree(place.path, ignore_errors=True)


def unreachable(home: Location, error: OSError) -> Refused:
    """The refusal of a checkpoint whose store does not answer, or answers with an error."""
    hint = "Is the name right, does the store run, and may this user read and write there? storage has the settings of stores."
    refusal = refuse("S104", f"the checkpoint {home} cannot be reached: {(error.strerror or str(error)).lower()}", hint=hint)
    assert isinstance(refusal, Refused)
    return refusal


def offset_of_watermark(log: Location) -> Offset:
    """The offset of a batch whose rows Spark reads: the watermark in a file of Spark's log, before
    which all closed instants are, and no positions. Raises OSError, and ValueError, TypeError,
    KeyError or IndexError for a damaged file."""
    watermark = int(json.loads(log.read().decode().splitlines()[1])["batchWatermarkMs"])
    time = min(watermark * 1_000, LAST_MICRO + 1) - 1
    return Offset(time if watermark else BEGINNING, ())


def common_path(path: str) -> str:
    """The path of an input for all machines: an absolute one; a file of a bundle stays relative, since
    each container has its copy in a working directory of its own.

    >>> common_path("dotr-job/data/a.csv"), common_path("/data/a.csv")
    ('dotr-job/data/a.csv', '/data/a.csv')
    """
    return path if path.startswith(JOB_FOLDER + os.sep) else absolute(path)


def required_layout(pipeline: Pipeline) -> CheckpointLayout:
    """The layout that a pipeline requires; buckets and partitions are set once there is a
    session."""
    inputs = tuple((file.input, file.delay, common_path(file.path)) for file in pipeline.inputs)
    growing = tuple((each.like.input, each.like.delay, _pattern_of(each)) for each in pipeline.growing)
    topics = tuple((each.name, each.like.delay, each.subscription) for each in pipeline.topic_inputs)
    clock = pipeline.program.spec.unit.written, pipeline.clock.dated
    layout = pipeline.program.layout
    program, operators = fingerprint(pipeline.program.spec), layout.stateful_operators
    identity = secrets.token_hex(8) if any(needs_identity(each) for each in pipeline.destinations) else ""
    marks = tuple(file.mark for file in pipeline.inputs)
    zone = pipeline.clock.zone
    clocked = "" if pipeline.clock_delay is None else " with a clock"
    moves = [file.replayed for file in pipeline.inputs if file.replayed is not None]
    replay = (moves[0].shift, max(move.every for move in moves)) if moves else None
    return CheckpointLayout(
        pipeline.name,
        program,
        inputs,
        operators,
        0,
        0,
        growing,
        clock,
        topics=topics,
        identity=identity,
        marks=marks,
        zone=zone,
        replay=replay,
        tables=tuple([(each.name, each.like.delay, f"{each.identity}{clocked}") for each in pipeline.tables]),
    )


def _pattern_of(growing: GrowingInput) -> str:
    if growing.source is not None:
        return RECEIVED
    return growing.pattern and f"{TAILED if growing.tail else ''}{absolute(growing.pattern)}"
