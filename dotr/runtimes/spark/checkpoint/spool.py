"""Spool: a folder of the checkpoint to which a thread copies what cannot be read a second time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.private_files import remove_leftovers, replace_file
from dotr.model.time import Micros
from dotr.runtimes.monitoring.totals import RunFailed
from dotr.streams.formats.segments import DRAINED

_MARK_MICROS: Final = 100_000
"""Least time between two marks, in µs."""


class Spool(ABC):
    """A spool; `failure` is the error that ended its thread. `marks`: it tells the planner up to when
    its source was left empty.

    `what` begins the message of such an error. Raises `RunFailed` where the folder cannot be
    written.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self.failure: Refused | RunFailed | None = None
        self.marks = False
        self._marked = 0
        self._folder = folder
        self._what = what
        self._thread = threading.Thread(target=self._run, name="dotr-spool", daemon=True)
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)

    @abstractmethod
    def _copy(self) -> None:
        """Copy until the spool is closed. Raises `Refused` or OSError."""

    @abstractmethod
    def close(self) -> None:
        """End the thread."""

    def _mark(self, machine: Micros, is_drained: Callable[[], bool]) -> None:
        """Tell the planner that all that had come at a time of the machine (µs) is spooled, if so."""
        if self.marks and machine >= self._marked + _MARK_MICROS and is_drained():
            replace_file(self._folder / DRAINED, [b"%d" % machine])
            self._marked = machine

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Context in which an OSError is raised as `RunFailed`."""
        try:
            yield
        except OSError as error:
            where, why = error.filename or self._folder, (error.strerror or str(error)).lower()
            raise RunFailed(f"{self._what} to {where}: {why} (once that is mended, the same command goes on)") from None

    def _run(self) -> None:
        try:
            with self._writing():
                self._copy()
        except (Refused, RunFailed) as error:
            self.failure = error
