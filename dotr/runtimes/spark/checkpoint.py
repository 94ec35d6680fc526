"""The checkpoint folder: whose it is, and what must stay as it was when it was made.

`dotr.json` stands beside the folder that Spark keeps (`query`). It names the pipeline and the program, the input files in the
order in which offsets list them, and the numbers that state is laid out by. A checkpoint of another program is refused: its state
would be read as ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from dotr.diagnostics import refuse
from dotr.runtimes.spark.planning import Offset

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """What a checkpoint holds fast: the pipeline's name, the program's fingerprint, the inputs as (name, delay, file), and how many
    buckets and Spark partitions the state has. `growing` are the inputs that files appear in, as (name, delay, pattern), and standard
    input, without a pattern; `clock` is how times are written: the unit, and whether as date-times."""

    pipeline: str
    program: str
    inputs: tuple[tuple[str, int, str], ...]
    layers: int
    buckets: int
    partitions: int
    growing: tuple[tuple[str, int, str], ...] = ()
    clock: tuple[str, bool] | None = None


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
        return str(self.folder.absolute() / "query")

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    def _read(self) -> Layout | None:
        file = self.folder / "dotr.json"
        try:
            data = json.loads(file.read_text())
        except FileNotFoundError:
            if (self.folder / "query").exists() or (self.folder / "offsets").exists():
                raise self._refused("it was not made by dotr") from None
            return None
        except (OSError, ValueError) as error:
            raise self._refused(f"its dotr.json cannot be read: {error}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise self._refused(f"it is of another release (its format is not {FORMAT})")
        inputs, growing = (
            tuple((str(name), int(delay), str(path)) for name, delay, path in data.get(key, ())) for key in ("inputs", "growing")
        )
        clock = (str(data["clock"][0]), bool(data["clock"][1])) if data.get("clock") else None
        return Layout(data["pipeline"], data["program"], inputs, data["layers"], data["buckets"], data["partitions"], growing, clock)

    def position(self) -> Offset | None:
        """How far the query came: the last offset whose batch is written; None before the first."""
        committed = [int(name) for name in _names(Path(self.query) / "commits") if name.isdecimal()]
        if not committed:
            return None
        lines = (Path(self.query) / "offsets" / str(max(committed))).read_text().splitlines()
        return Offset.of_json(json.loads(lines[-1]))

    def _refused(self, why: str) -> Exception:
        return refuse(
            "S102",
            f"the checkpoint {self.folder} cannot be used: {why}",
            hint="Start over with --fresh (it removes this pipeline's output and checkpoint), or name another spark.checkpoint.",
        )

    def make(self) -> None:
        """Makes the folder, for the log."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.log.open("a").close()
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> Exception:
        hint = "Name another folder as spark.checkpoint."
        return refuse("S103", f"the checkpoint {self.folder} cannot be written: {error.strerror or error}", hint=hint)

    def claim(self, wanted: Layout) -> Layout:
        """The layout to run with: that of the folder where it has one, else `wanted`, which it then holds."""
        kept = self.layout
        if kept is None:
            self._write(wanted)
            return wanted
        if kept.pipeline != wanted.pipeline:
            raise self._refused(f"it belongs to the pipeline {kept.pipeline}, this one is {wanted.pipeline}")
        if kept.program != wanted.program:
            raise self._refused("it belongs to another program: rules, knowledge or settings have changed since")
        names = {name for name, _, _ in (*kept.growing, *wanted.growing)}
        fixed = tuple(entry for entry in kept.inputs if entry[0] not in names)
        _same_inputs(self, fixed, [entry for entry in wanted.inputs if entry[0] not in names])
        self._same_growing(kept, wanted)
        new = tuple(entry for entry in wanted.growing if entry not in kept.growing)
        if new:
            kept = replace(kept, growing=(*kept.growing, *new))
            self._write(kept)
        return kept

    def _same_growing(self, kept: Layout, wanted: Layout) -> None:
        """What grows, or did, may have other files now, and may have stopped; its delay and pattern are what they were."""
        before = {name: (delay, pattern) for name, delay, pattern in kept.growing}
        delays = {name: delay for name, delay, _ in kept.inputs}
        for name, delay, pattern in wanted.growing:
            if before.get(name, (delay, pattern)) != (delay, pattern) or delays.get(name, delay) != delay:
                raise self._refused(f"the input {name} has another path or lateness than when it was made")
        known = {path for _, _, path in kept.inputs}
        further = any(path not in known for _, _, path in wanted.inputs)
        position = self.position() if wanted.growing or (kept.growing and further) else None
        if position is not None and position.ended:
            raise refuse(
                "S106",
                f"the stream in the checkpoint {self.folder} has ended, and nothing can be added to it",
                hint="Its inputs came to an end in a run without watch, and all instants closed. Start over with --fresh, or name another "
                "spark.checkpoint.",
            )

    def _write(self, layout: Layout) -> None:
        try:
            new = self.folder / "dotr.json.new"
            with new.open("w") as file:
                json.dump({"format": FORMAT, **asdict(layout)}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.folder / "dotr.json")
        except OSError as error:
            raise self._unwritable(error) from None
        self.layout = layout


def _same_inputs(checkpoint: Checkpoint, kept: Sequence[tuple[str, int, str]], wanted: Sequence[tuple[str, int, str]]) -> None:
    changed = [
        path for _, _, path in dict.fromkeys([*kept, *wanted]) if ([e for e in kept if e[2] == path] != [e for e in wanted if e[2] == path])
    ]
    if changed:
        listed = ", ".join(dict.fromkeys(changed[:3])) + (", …" if len(changed) > 3 else "")
        raise checkpoint._refused(f"the input files are not those that it was made for ({listed})")


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []
