"""A run holds what it writes to: no other run writes there, or removes it, as long as this one goes on.

Idea: beside each output, the dead letters and the checkpoint stands a hidden file, `.fire.ndjson.lock`, which the run has locked
(flock(2)). The kernel lets go of a lock when its process ends, however it ends, so a file that a killed run left behind holds nothing; on a
disk of several machines it holds as far as that disk's flock does. The file says who holds it. Where none can be made beside it, what is
there already is locked itself, and where no lock can be had at all the run goes on without.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.runtimes.removal import Target
from dotr.sinks.files import passing

_LOCKED_ERRNOS: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_TRIES: Final = 100
_HOLDER_SIZE: Final = 4_096


class OutputLocks:
    """What a run holds; all of it is let go at the end of the `with`."""

    def __init__(self) -> None:
        self._locks: list[tuple[int, Path | None]] = []
        self._created_folders: list[Path] = []

    def __enter__(self) -> OutputLocks:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self, targets: Sequence[Target], pipeline: str) -> list[Diagnostic]:
        """Hold the targets; a problem where another run holds any of them, and then none is held."""
        others: dict[str, str] = {}
        first: Target | None = None
        for target in targets:
            if passing(target.path):
                continue
            found = self._acquire_one(target, pipeline)
            if found is not None:
                first = first or target
                others[target.path] = found
        if first is None:
            return []
        self.release()
        *paths, last = others
        named = f"{', '.join(paths)} and {last}" if paths else last
        hint = "Wait for its end, or stop it; or choose other paths. Nothing was removed."
        return [Diagnostic("C216", f"another run is writing to {named}: {others[first.path]}", first.place, hint)]

    def release(self) -> None:
        """Let go of everything, and leave no file behind."""
        for number, path in self._locks:
            if path is not None:
                with suppress(OSError):
                    path.unlink()  # while it is held: who opens it meanwhile looks whether it still stands there
            os.close(number)
        for folder in reversed(self._created_folders):
            with suppress(OSError):
                folder.rmdir()
        self._locks, self._created_folders = [], []

    def _acquire_one(self, target: Target, pipeline: str) -> str | None:
        """Hold one target; who holds it, if another does."""
        path = Path(os.path.realpath(target.path))
        beside = path.with_name(f".{path.name}.lock")
        try:
            if not target.checkpoint:
                self._create_folder(beside.parent)
            for _ in range(_TRIES):
                number = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                try:
                    if not _try_lock(number):
                        return _holder(number)
                except OSError:
                    if not beside.stat().st_size:
                        beside.unlink()
                    raise
                if _has_name(number, beside):
                    self._locks.append((number, beside))
                    os.ftruncate(number, 0)
                    os.write(number, json.dumps({"pipeline": pipeline, "process": os.getpid(), "host": socket.gethostname()}).encode())
                    return None
                os.close(number)
        except OSError:
            pass
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if not _try_lock(number):
                os.close(number)
                return "its process cannot be told"
            self._locks.append((number, None))
        return None

    def _create_folder(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self._created_folders.append(each)


def _try_lock(number: int) -> bool:
    """Whether the lock could be had; raises OSError where the disk has none."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED_ERRNOS:
            return False
        os.close(number)
        raise
    return True


def _has_name(number: int, path: Path) -> bool:
    """Whether the open file still has its name: its holder removes it before the lock."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(number)
    return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)


def _holder(number: int) -> str:
    try:
        holder = json.loads(os.pread(number, _HOLDER_SIZE, 0))
        return f"pipeline {holder['pipeline']}, process {holder['process']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "its process cannot be told"
    finally:
        os.close(number)
