"""Removal of outputs and checkpoint for `--fresh`, after a check that a run made them.

A path in a configuration may be wrong, such as `.` for `out`. So a path is removed only by its
content: a file with the beginning of an output or of dead letters, a folder that has batches only,
or a checkpoint that has dotr.json and entries of a run only.
Invariant: all targets are checked before the first is removed.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import os
import re
import shutil
import socket
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.private_files import TEMPORARY, ForeignFile, open_fixed
from dotr.model.places import Span
from dotr.streams.sinks.files import stores_no_data
from dotr.streams.sinks.parquet import MADE_BY

_BATCH: Final = re.compile(rf"\.?[0-9]{{12}}\.[a-z.]+|\.[0-9]{{12}}\.[a-z.]+{TEMPORARY}")
_OWN_FILE: Final = re.compile(
    r'\{"time": .*"rule": .*"event": .*"attributes": |\{"reason": .*"input": .*"file": |'
    r'\{"time": [^,]*(?:, "input": |\}\n)|time,rule,event[,\r\n]|'
    r"(?:@prefix [^\n]*\n)*<urn:dotr:[0-9a-f]{32}> (?:<http://www\.w3\.org/ns/prov#|[\w-]*:)generatedAtTime"
)
_CHECKPOINT: Final = re.compile(
    r"dotr\.json(\.new)?|spark\.log|query(-[0-9]+)?|moved-[0-9]+|spool|waiting|(watched|progress|inputs|partitions)\.((nd)?json|new)|"
    rf"\.(dotr|watched|progress|inputs)\.(nd)?json{TEMPORARY}"
)
_FOLDER: Final = re.compile(r"query(-[0-9]+)?|moved-[0-9]+|spool|waiting")
_MAGIC: Final = b"\x1f\x8b"
_HEAD_SIZE: Final = 1 << 16
_PARQUET: Final = b"PAR1"
_PARQUET_END: Final = 1 << 20
"""Bytes at the end of a Parquet file that hold the metadata of its makers."""


@dataclass(frozen=True, slots=True)
class Target:
    """A path that a pipeline writes to.

    `purpose` names it in messages, `span` is its place in the configuration; `checkpoint`: the path
    is the checkpoint.
    """

    purpose: str
    path: str
    span: Span | None = None
    checkpoint: bool = False


def remove(targets: Sequence[Target]) -> None:
    """Remove the targets of older runs. Raises `Refused` and removes nothing where a target was not
    made by a run."""
    problems: list[Diagnostic] = []
    for target in targets:
        try:
            _check_removable(target)
        except Refused as refused:
            problems += refused.diagnostics
        except OSError as error:
            problems.append(_failed(target, error))
    if problems:
        raise Refused(problems)
    for target in targets:
        try:
            _remove(Path(target.path))
        except OSError as error:
            raise Refused([_failed(target, error)]) from None


def _failed(target: Target, error: OSError) -> Diagnostic:
    reason = (error.strerror or str(error)).lower()
    return Diagnostic("C302", f"cannot remove {error.filename or target.path}: {reason}", target.span, "Remove it by hand.")


def _check_removable(target: Target) -> None:
    path = Path(target.path)
    if not path.exists() or stores_no_data(target.path):
        return
    if path.is_dir():
        pattern = _CHECKPOINT if target.checkpoint else _BATCH
        foreign = sorted(e.name for e in path.iterdir() if not pattern.fullmatch(e.name) or (e.is_dir() and not _FOLDER.fullmatch(e.name)))
        if foreign:
            raise _foreign(target, f"it holds {foreign[0]}" + (f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""))
        if target.checkpoint and (path / "query").exists() and not (path / "dotr.json").is_file():
            raise _foreign(target, "there is no dotr.json in it")
    elif target.checkpoint:
        raise _foreign(target, "it is no folder")
    elif not _is_own_file(path):
        raise _foreign(target, "it does not begin as such a file does")


def _foreign(target: Target, why: str) -> Refused:
    message = f"--fresh does not remove {target.path}, the {target.purpose}: it was not made by a run ({why})"
    return refuse("C207", message, target.span, "Is the path right? If it is, remove it by hand.")


def _is_own_file(path: Path) -> bool:
    """True where a file is empty, or begins like an output or a file of dead letters."""
    with path.open("rb") as file:
        begin = file.read(_HEAD_SIZE)
    if begin.startswith(_PARQUET):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _PARQUET_END))
            return MADE_BY in file.read()
    if begin[:2] == _MAGIC:
        try:
            with gzip.open(path) as packed:
                begin = packed.read(_HEAD_SIZE)
        except (OSError, EOFError, zlib.error):
            begin = b""  # truncated by a crash
    return not begin or _OWN_FILE.match(begin.decode(errors="replace")) is not None


def _remove(path: Path) -> None:
    if stores_no_data(str(path)) or not os.path.lexists(path):
        return
    if path.is_dir():
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        if not path.is_symlink():
            path.rmdir()
    else:
        path.unlink()


# Locks of a run on its outputs: no other run writes or removes them before this one ends.
#
# Idea: beside each output, the dead letters and the checkpoint is a hidden file, `.fire.ndjson.lock`,
# which is locked with flock(2) and names its holder. The kernel releases a lock when its process
# ends, so the lock file of a killed run locks nothing. On a shared disk the lock holds for the
# machines among which the disk supports flock. Where no lock file can be made, an existing output is
# locked itself; where no lock is possible, the run continues without one.
# Invariant: only lock files are written, no file behind a link, and no other file of that name.

_LOCKED_ERRNOS: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_TRIES: Final = 100
_HOLDER_SIZE: Final = 4_096
_UNKNOWN: Final = "its process is unknown"
_OURS: Final = b'{"pipeline": '
"""The beginning of each lock file that is not empty."""


class Holder(NamedTuple):
    """The run that has a lock. `reloads`: SIGHUP lets it read its rules again."""

    pipeline: str
    process: int
    host: str
    reloads: bool

    @property
    def is_here(self) -> bool:
        """True for a run on this machine."""
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        return f"pipeline {self.pipeline}, process {self.process} on {self.host}"


class OutputLocks:
    """Locks of one run; the end of the `with` releases all of them."""

    def __init__(self) -> None:
        self._locks: list[tuple[int, Path | None]] = []
        self._created_folders: list[Path] = []

    def __enter__(self) -> OutputLocks:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def files(self) -> Sequence[Path]:
        """The lock files."""
        return [path for _, path in self._locks if path is not None]

    def acquire(self, targets: Sequence[Target], pipeline: str) -> list[Diagnostic]:
        """Lock all targets for a pipeline. Where another run has one of them, none is locked and a
        problem (C216) is returned, likewise (C261) where something else has the name of a lock
        file."""
        holders: dict[str, str] = {}
        first: Target | None = None
        for target in targets:
            if stores_no_data(target.path):
                continue
            try:
                holder = self._acquire_one(target, pipeline)
            except ForeignFile as foreign:
                self.release()
                hint = "Remove it if nothing needs it, or write to a folder that no other user can write to. Nothing was removed."
                return [Diagnostic("C261", f"{target.path} cannot be locked: {lock_file(target)} {foreign}", target.span, hint)]
            if holder is not None:
                first = first or target
                holders[target.path] = holder
        if first is None:
            return []
        self.release()
        *paths, last = holders
        named = f"{', '.join(paths)} and {last}" if paths else last
        hint = "Wait for its end, or stop it; or choose other paths. Nothing was removed."
        return [Diagnostic("C216", f"another run is writing to {named}: {holders[first.path]}", first.span, hint)]

    def release(self) -> None:
        """Release all locks and remove their files and the folders made for them."""
        for number, path in self._locks:
            if path is not None:
                with suppress(OSError):
                    if has_name(number, path):
                        path.unlink()  # before the release: others check the name after locking
            os.close(number)
        for folder in reversed(self._created_folders):
            with suppress(OSError):
                folder.rmdir()
        self._locks, self._created_folders = [], []

    def _acquire_one(self, target: Target, pipeline: str) -> str | None:
        """Lock one target; returns its holder where another run has it, else None."""
        path, file = Path(os.path.realpath(target.path)), lock_file(target)
        try:
            if not target.checkpoint:
                self._create_folder(file.parent)
            for _ in range(_TRIES):
                number, is_new = open_fixed(file)
                try:
                    if not try_lock(number):
                        return str(_read_holder(number) or _UNKNOWN)
                except OSError:
                    if is_new:
                        file.unlink()
                    raise
                if has_name(number, file):
                    _check_ours(number)
                    self._locks.append((number, file))
                    os.ftruncate(number, 0)
                    holder = {"pipeline": pipeline, "process": os.getpid(), "host": socket.gethostname(), "reloads": True}
                    os.write(number, json.dumps(holder).encode())
                    return None
                os.close(number)
        except OSError:
            pass
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if not try_lock(number):
                os.close(number)
                return _UNKNOWN
            self._locks.append((number, None))
        return None

    def _create_folder(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self._created_folders.append(each)


def lock_file(target: Target) -> Path:
    """The lock file of a target."""
    path = Path(os.path.realpath(target.path))
    return path.with_name(f".{path.name}.lock")


def _check_ours(number: int) -> None:
    """Raises `ForeignFile`, and closes the file, unless it is empty or begins as a lock file
    does."""
    content = os.pread(number, _HOLDER_SIZE + 1, 0)
    if content.strip(b"\0") and (not content.startswith(_OURS) or len(content) > _HOLDER_SIZE):
        os.close(number)
        raise ForeignFile("is no lock file of dotr")


def try_lock(number: int) -> bool:
    """Lock an open file; False where another process has the lock. Raises OSError where the disk
    supports none."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _LOCKED_ERRNOS:
            return False
        os.close(number)
        raise
    return True


def has_name(number: int, path: Path) -> bool:
    """True if `path` is still the name of the open file; a holder removes the name before it
    releases the lock."""
    try:
        named = os.lstat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(number)
    return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)


def holder_of(target: Target) -> Holder | None:
    """The run that has locked a target; None where there is none, or it is unknown."""
    with suppress(OSError):
        number = os.open(lock_file(target), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not try_lock(number):
            return _read_holder(number)
        os.close(number)
    return None


def _read_holder(number: int) -> Holder | None:
    try:
        holder = json.loads(os.pread(number, _HOLDER_SIZE, 0))
        return Holder(str(holder["pipeline"]), int(holder["process"]), str(holder["host"]), bool(holder.get("reloads")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        os.close(number)
