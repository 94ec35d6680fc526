"""Files of the index of the inputs, in the checkpoint: tasks of the driver's process write them,
and the planner waits for the pieces that it needs.

Invariant: a file is complete or absent. An index belongs to one start of the query: its base is the
offset from which on the inputs are indexed, and the next start makes a new one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import DotrError, refuse
from dotr.evaluation.files.private_files import replace_file
from dotr.runtimes.spark.exchange.errors import CarriedDiagnostics
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.planning.granules import Piece

FOLDER: Final = "index"
"""The folder of the index, inside the checkpoint."""

BEAT_SECONDS: Final = 2.0
"""Interval between heartbeats of the driver's process, in seconds."""

_AWAITED: Final = "awaited"
_SILENCE_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.02


class PlanStopped(DotrError):
    """Raised by a wait of a plan that is cancelled."""


def index_folder(job: Job) -> Path:
    """The folder of a job's index: in the checkpoint, which all machines can read and write, or of
    the driver's machine, where tasks return what they find."""
    return job.folder / FOLDER


class IndexFiles:
    """The files of one index.

    `is_stopped` ends a wait with `PlanStopped`.
    """

    def __init__(self, folder: Path, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self._folder = folder
        self._is_stopped = is_stopped

    def begin(self, base: Offset) -> None:
        """Start a new index, whose inputs are indexed from the offset `base` on."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self.beat()
        self._write("base.json", base.to_text())

    def remove(self) -> None:
        """Remove the index."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def beat(self) -> None:
        """Write a heartbeat of the process that starts the scans."""
        (self._folder / "beat").touch()

    def base(self) -> Offset:
        """The offset from which on the inputs are indexed; waits for it."""
        return Offset.of_text(self._wait_for("base.json"))

    def write(self, number: int, piece: int, found: Piece) -> None:
        """Write a piece of an input."""
        self._write(f"{number}-{piece}.json", found.to_json())

    def read(self, number: int, piece: int) -> Piece:
        """A piece of an input; waits for it. Raises `CarriedDiagnostics` where scanning has failed,
        and Refused (S151) without a heartbeat."""
        return Piece.of_json(self._wait_for(f"{number}-{piece}.json"))

    def read_now(self, number: int, piece: int) -> Piece | None:
        """A piece of an input; None where it is not written yet."""
        try:
            return Piece.of_json((self._folder / f"{number}-{piece}.json").read_text())
        except FileNotFoundError:
            return None

    def release(self, number: int, piece: int) -> None:
        """Remove a piece that no plan needs any more."""
        (self._folder / f"{number}-{piece}.json").unlink(missing_ok=True)

    def fail(self, diagnostics: str) -> None:
        """End all waits with the (encoded) `diagnostics` of scans that have failed."""
        self._write("failed", diagnostics)

    def _write(self, name: str, text: str) -> None:
        replace_file(self._folder / name, [text.encode()], sync=True)

    def is_awaited(self) -> bool:
        """True if a plan waits for a piece now."""
        return (self._folder / _AWAITED).exists()

    def _wait_for(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            pass
        awaited = self._folder / _AWAITED
        try:
            with suppress(OSError):  # the wait is bounded all the same
                awaited.touch()
            return self._wait_until_written(name)
        finally:
            with suppress(OSError):
                awaited.unlink()

    def _wait_until_written(self, name: str) -> str:
        path = self._folder / name
        silent_since = time.monotonic()
        beat = 0.0
        while True:
            try:
                return path.read_text()
            except FileNotFoundError:
                pass
            if self._is_stopped():
                raise PlanStopped
            failed = self._folder / "failed"
            if failed.exists():
                raise CarriedDiagnostics(failed.read_text())
            last, beat = beat, self._last_beat()
            if beat != last:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > _SILENCE_SECONDS:
                message = f"the index {path} is not made: the process that lets tasks scan has been silent for {_SILENCE_SECONDS:g} s"
                raise refuse("S151", message, hint="The same command goes on from the checkpoint.")
            time.sleep(_POLL_SECONDS)

    def _last_beat(self) -> float:
        try:
            return (self._folder / "beat").stat().st_mtime
        except OSError:
            return 0.0
