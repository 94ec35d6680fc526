"""Spool: a folder of the checkpoint to which a thread copies what cannot be read a second time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.private_files import remove_leftovers
from dotr.runtimes.monitoring.totals import RunFailed


class Spool(ABC):
    """A spool; `failure` is the error that ended its thread.

    `what` begins the message of such an error. Raises `RunFailed` where the folder cannot be
    written.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self.failure: Refused | RunFailed | None = None
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
