"""The checkpoint folder: whose it is, and what must stay as it was when it was made.

`dotr.json` stands beside the folder that Spark keeps (`query`). It names the pipeline and the program, the input files in the
order in which offsets list them, the numbers that state is laid out by, and what each place in the state is of. A checkpoint of
another pipeline, or of other inputs, is refused: its state would be read as ours.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import refuse
from dotr.monitoring.totals import RunFailed
from dotr.runtimes.pipeline import Pipeline
from dotr.runtimes.spark.checkpoint_damage import check_logs
from dotr.runtimes.spark.planner import BEGINNING, Offset
from dotr.sinks.files import may_pass
from dotr.state.state_migration import StateChange, state_change
from dotr.state.state_schema import StateSchema, state_schema

FORMAT: Final = 2
READABLE_FORMATS: Final = (1, 2)
"""Format 1 has no holdings: what its state is of is known only to who has the program."""


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """What a checkpoint holds fast: the pipeline's name, the program's fingerprint, the inputs as (name, delay, file), and how many layers,
    buckets and Spark partitions the state has; without layers there is none. `growing` are the inputs that files appear in, as (name,
    delay, pattern), and standard input, without a pattern; `clock` is how times are written: the unit, and whether as date-times.
    `state_schema` say what the state is of. Each time state moves there is another `generation` of the query: it begins at the offset `start`,
    and its first batch is written under the number `first`."""

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
    start: dict[str, object] | None = None
    first: int = 0

    def to_json(self) -> dict[str, object]:
        """The members of `dotr.json`, which keep their names whatever the fields are called."""
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
            "start": self.start,
            "first": self.first,
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> CheckpointLayout:
        """The inverse of `to_json`, also of what an older release wrote; raises KeyError, TypeError or ValueError."""
        inputs, growing = (
            tuple((str(name), int(delay), str(path)) for name, delay, path in data.get(key, ())) for key in ("inputs", "growing")
        )
        start = data.get("start")
        if start is not None:
            Offset.of_json(start)  # raises where it is no offset
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
            start=start,
            first=int(data.get("first", 0)),
        )


class Checkpoint:
    """A folder; `layout` is what it was made for, None where it is new."""

    def __init__(self, folder: str) -> None:
        if "://" in folder and not folder.startswith("file://"):
            raise refuse("S104", f"the checkpoint {folder} is not a folder of this machine", hint="Name a local or mounted folder.")
        self.folder = Path(folder.removeprefix("file://"))
        self.layout = self._read()

    @property
    def query(self) -> str:
        """The folder that Spark keeps."""
        return self.folders(0 if self.layout is None else self.layout.generation)[0]

    def folders(self, generation: int) -> tuple[str, str]:
        """The folder that Spark keeps of a generation, and that of what its buckets begin with."""
        folder = self.folder.absolute()
        return str(folder / (f"query-{generation}" if generation else "query")), str(folder / f"moved-{generation}")

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def _read(self) -> CheckpointLayout | None:
        file = self.folder / "dotr.json"
        try:
            data = json.loads(file.read_text())
        except FileNotFoundError:
            if (self.folder / "query").exists() or (self.folder / "offsets").exists():
                why = "there is no dotr.json in it: it was not made by dotr, or that file is lost"
                raise self._refused(
                    why, "Put the file back from a copy, remove the folder by hand, or name another spark.checkpoint."
                ) from None
            return None
        except (OSError, ValueError) as error:
            raise self._refused(f"its dotr.json cannot be read: {error}") from None
        if not isinstance(data, dict) or not isinstance(data.get("format"), int):
            raise self._refused("its dotr.json is none: it has no format")
        if data["format"] not in READABLE_FORMATS:
            raise self._refused(f"it is of a later release (its format is not {' or '.join(map(str, READABLE_FORMATS))})")
        try:
            return CheckpointLayout.of_json(data)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError) as error:
            raise self._refused(f"its dotr.json cannot be read: {type(error).__name__}: {error}") from None

    @property
    def planned_batch(self) -> int | None:
        """Spark's number of the last batch that was planned."""
        return last_number(Path(self.query) / "offsets")

    def position(self, number: int | None = None) -> Offset | None:
        """How far the query came with a batch (where none is named: the last that is written); None before the first."""
        last = self.committed_batch() if number is None else number
        if last is None:
            start = self.layout.start if self.layout else None
            return Offset.of_json(start) if start else None
        lines = (Path(self.query) / "offsets" / str(last)).read_text().splitlines()
        return Offset.of_json(json.loads(lines[-1]))

    def committed_batch(self) -> int | None:
        """Spark's number of the last batch that is written."""
        return last_number(Path(self.query) / "commits")

    def state_change(self, program: CompiledProgram) -> StateChange:
        """What a program makes of the state; raises `Refused` where it is not known whose that is."""
        stored = self.layout
        assert stored is not None
        before = stored.holdings
        if before is None:
            if stored.program != program.spec.fingerprint:
                raise self._refused(
                    "it belongs to another program: rules, knowledge or settings have changed since, and the release that made it did not "
                    "write down which state is whose (a run of the unchanged program does)"
                )
            before = state_schema(program)
        position = self.position()
        return state_change(before, program, BEGINNING if position is None else position.time)

    def preview(self, required: CheckpointLayout, program: CompiledProgram) -> StateChange:
        """What a restart would do; raises `Refused` where it would be refused."""
        stored = self.layout
        assert stored is not None
        change = self.state_change(program)
        self._continued(stored, required, change)
        return change

    def next_generation(self, layout: CheckpointLayout, layers: int) -> CheckpointLayout:
        """The layout of the next generation, with so many layers: it takes over from where the query is."""
        last, position = self.committed_batch(), self.position()
        return replace(
            layout,
            layers=layers,
            generation=layout.generation + 1,
            start=None if position is None else position.to_json(),
            first=layout.first + (0 if last is None else last + 1),
        )

    def switch(self, layout: CheckpointLayout) -> None:
        """From now on the generation counts; what was before it goes."""
        self._write(layout)
        for generation in range(layout.generation):
            for folder in self.folders(generation):
                shutil.rmtree(folder, ignore_errors=True)

    def _refused(self, why: str, hint: str = "") -> Exception:
        hint = hint or "Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint."
        return refuse("S102", f"the checkpoint {self.folder} cannot be used: {why}", hint=hint)

    def check(self) -> None:
        """Raises `Refused` where a log that the next start reads is damaged."""
        if self.layout is not None:
            check_logs(Path(self.query))

    def create(self) -> None:
        """Makes the folder, for the log."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.log.open("a").close()
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> Exception:
        if may_pass(error):
            return RunFailed(f"the checkpoint {self.folder} cannot be written: {error.strerror or error}")
        hint = "Name another folder as spark.checkpoint."
        return refuse("S103", f"the checkpoint {self.folder} cannot be written: {error.strerror or error}", hint=hint)

    def claim(self, required: CheckpointLayout, change: StateChange | None = None) -> CheckpointLayout:
        """The layout to run with: that of the folder where it has one, else `wanted`, which it then holds. Where the change moves state,
        the folder holds what it held until `switch`."""
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
        """What the folder holds, where it is this pipeline's and has its inputs, with what may be new."""
        if stored.pipeline != required.pipeline:
            raise self._refused(f"it belongs to the pipeline {stored.pipeline}, this one is {required.pipeline}")
        if stored.clock is not None and required.clock is not None and stored.clock[0] != required.clock[0]:
            raise self._refused("the time unit (time.unit) is another one than when it was made, and all its times are in that")
        names = {name for name, _, _ in (*stored.growing, *required.growing)}
        fixed = tuple(entry for entry in stored.inputs if entry[0] not in names)
        _check_inputs(self, fixed, [entry for entry in required.inputs if entry[0] not in names])
        self._check_growing(stored, required)
        new = tuple(entry for entry in required.growing if entry not in stored.growing)
        return replace(stored, growing=(*stored.growing, *new), program=required.program, holdings=change.after)

    def _check_growing(self, stored: CheckpointLayout, required: CheckpointLayout) -> None:
        """What grows, or did, may have other files now, and may have stopped; its delay and pattern are what they were."""
        before = {name: (delay, pattern) for name, delay, pattern in stored.growing}
        delays = {name: delay for name, delay, _ in stored.inputs}
        for name, delay, pattern in required.growing:
            if before.get(name, (delay, pattern)) != (delay, pattern) or delays.get(name, delay) != delay:
                raise self._refused(f"the input {name} has another path or lateness than when it was made")
        known = {path for _, _, path in stored.inputs}
        further = any(path not in known for _, _, path in required.inputs)
        position = self.position() if required.growing or (stored.growing and further) else None
        if position is not None and position.ended:
            raise refuse(
                "S106",
                f"the stream in the checkpoint {self.folder} has ended, and nothing can be added to it",
                hint="Its inputs came to an end in a run without watch, and all instants closed. Start over with --fresh, or name another "
                "spark.checkpoint.",
            )

    def _write(self, layout: CheckpointLayout) -> None:
        try:
            new = self.folder / "dotr.json.new"
            with new.open("w") as file:
                json.dump({"format": FORMAT, **layout.to_json()}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.folder / "dotr.json")
        except OSError as error:
            raise self._unwritable(error) from None
        self.layout = layout


def _check_inputs(checkpoint: Checkpoint, stored: Sequence[tuple[str, int, str]], required: Sequence[tuple[str, int, str]]) -> None:
    changed = [
        path
        for _, _, path in dict.fromkeys([*stored, *required])
        if ([e for e in stored if e[2] == path] != [e for e in required if e[2] == path])
    ]
    if changed:
        listed = ", ".join(dict.fromkeys(changed[:3])) + (", …" if len(changed) > 3 else "")
        raise checkpoint._refused(f"the input files are not those that it was made for ({listed})")


def last_number(log: Path) -> int | None:
    """The number of the last batch in one of Spark's logs."""
    return max((int(name) for name in _listed(log) if name.isdecimal()), default=None)


def _listed(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


def required_layout(pipeline: Pipeline) -> CheckpointLayout:
    """What the checkpoint has to hold; buckets and partitions are known once there is a session."""
    inputs = tuple((file.input, file.delay, os.path.abspath(file.path)) for file in pipeline.inputs)
    growing = tuple((each.like.input, each.like.delay, each.pattern and os.path.abspath(each.pattern)) for each in pipeline.growing)
    clock = pipeline.program.spec.unit.written, pipeline.clock.dated
    layout = pipeline.program.layout
    return CheckpointLayout(pipeline.name, pipeline.program.spec.fingerprint, inputs, layout.stateful_operators, 0, 0, growing, clock)
