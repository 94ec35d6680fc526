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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.caches import scratch_folder
from dotr.evaluation.files.private_files import TEMPORARY, ForeignFile, open_fixed
from dotr.evaluation.files.stores import Location
from dotr.evaluation.files.trust import make_trusted_folder
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.streams.sinks.files import stores_no_data
from dotr.streams.sinks.parquet import MADE_BY

if TYPE_CHECKING:
    from dotr.evaluation.files.lease import Lease

_BATCH: Final = re.compile(rf"\.?[0-9]{{12}}(-[0-9]{{5,}})?\.[a-z.]+|\.[0-9]{{12}}(-[0-9]{{5,}})?\.[a-z.]+{TEMPORARY}")
_OWN_FILE: Final = re.compile(
    r'\{"time": .*"rule": .*"event": .*"attributes": |\{"reason": .*"input": .*"file": |'
    r'\{"time": [^,]*(?:, "input": |\}\n)|time,rule,event[,\r\n]|'
    r'\{"time": [^,]*, "graph": "(?:"\}\n|(?:<[^ ]*|_:e[0-9a-f]{24}x[0-9x]+) <[^ ]*> [<"_\\])|'  # an element, in N-Triples
    r"(?:@prefix [^\n]*\n)*<urn:dotr:[0-9a-f]{32}> (?:<http://www\.w3\.org/ns/prov#|[\w-]*:)generatedAtTime"
)
_CHECKPOINT: Final = re.compile(
    r"dotr\.json(\.new)?|spark\.log|query(-[0-9]+)?|moved-[0-9]+|spool|serve|waiting|(watched|progress|inputs|partitions)\.((nd)?json|new)|"
    rf"\.(dotr|watched|progress|inputs)\.(nd)?json{TEMPORARY}"
)
_FOLDER: Final = re.compile(r"query(-[0-9]+)?|moved-[0-9]+|spool|serve|waiting")
LEASE: Final = "lease.json"
"""The object in a checkpoint at a URL that says which run writes to it."""
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

    @property
    def location(self) -> Location:
        """The path as a location, which may be a URL."""
        return Location.of(self.path)


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
            if target.location.is_url:
                _remove_remote(target.location)
            else:
                _remove(Path(target.path))
        except OSError as error:
            raise Refused([_failed(target, error)]) from None


def _failed(target: Target, error: OSError) -> Diagnostic:
    reason = (error.strerror or str(error)).lower()
    return Diagnostic("C302", f"cannot remove {error.filename or target.path}: {reason}", target.span, "Remove it by hand.")


def _check_removable(target: Target) -> None:
    if target.location.is_url:
        _check_removable_remote(target)
        return
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
    elif not _is_own_file(Location(target.path)):
        raise _foreign(target, "it does not begin as such a file does")


def _check_removable_remote(target: Target) -> None:
    """As `_check_removable`, at a URL."""
    if not target.checkpoint and target.location.look() is not None and not _is_own_file(target.location):
        raise _foreign(target, "it does not begin as such a file does")
    names, pattern = _entries(target.location), _CHECKPOINT if target.checkpoint else _BATCH
    foreign = sorted(name for name in names if not pattern.fullmatch(name) and not (target.checkpoint and name == LEASE))
    if foreign:
        raise _foreign(target, f"it holds {foreign[0]}" + (f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""))
    if target.checkpoint and "query" in names and "dotr.json" not in names:
        raise _foreign(target, "there is no dotr.json in it")


def _entries(folder: Location) -> set[str]:
    """The names of the files and folders in a folder at a URL."""
    return {each.location.text[len(folder.text) + 1 :].partition("/")[0] for each in folder.list(recursive=True)}


def _remove_remote(location: Location) -> None:
    """Remove a file, or all in a folder, at a URL but the lease of a checkpoint, and dotr.json
    last: what is left is a checkpoint."""
    if location.look() is not None:
        location.remove()
    for name in sorted(_entries(location) - {LEASE}, key="dotr.json".__eq__):
        if (location / name).look() is not None:
            (location / name).remove()
        else:
            (location / name).remove_below()


def _foreign(target: Target, why: str) -> Refused:
    message = f"--fresh does not remove {target.path}, the {target.purpose}: it was not made by a run ({why})"
    return refuse("C207", message, target.span, "Is the path right? If it is, remove it by hand.")


def _is_own_file(location: Location) -> bool:
    """True where a file is empty, or begins like an output or a file of dead letters."""
    with location.open() as file:
        begin = file.read(_HEAD_SIZE)
        if begin.startswith(_PARQUET):
            file.seek(max(0, file.seek(0, os.SEEK_END) - _PARQUET_END))
            return MADE_BY in file.read()
    if begin[:2] == _MAGIC:
        try:
            with location.open() as file, gzip.open(file) as packed:
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
# locked itself; where no lock is possible, the run continues without one. What is at a URL has a
# lease (`evaluation.files.lease`) too, and its lock file is in a folder of the machine: a lease whose
# ID is in a lock file that nobody has locked is that of a run that was killed here.
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

    @staticmethod
    def of(members: Mapping[str, Any]) -> Holder:
        """The holder that the object of a lease names."""
        pipeline, host, process = (str(members.get(name, "")) for name in ("pipeline", "host", "process"))
        return Holder(pipeline, int(process) if process.isdecimal() else 0, host, bool(members.get("reloads")))

    @property
    def is_here(self) -> bool:
        """True for a run on this machine."""
        return self.host == socket.gethostname()

    def __str__(self) -> str:
        return f"pipeline {self.pipeline}, process {self.process} on {self.host}"


class OutputLocks:
    """Locks of one run; the end of the `with` releases all of them. `tell` receives a line where a
    lease is waited for."""

    def __init__(self, tell: Callable[[str], None] = lambda line: None) -> None:
        self._tell = tell
        self._locks: list[tuple[int, Path | None]] = []
        self._leases: dict[str, Lease] = {}
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
        for target in sorted(targets, key=lambda each: each.location.is_url):
            if stores_no_data(target.path) or (holders and target.location.is_url):  # a lease may have to be waited for
                continue
            try:
                holder = self._acquire_one(target, pipeline)
            except ForeignFile as foreign:
                self.release()
                hint = "Remove it if nothing needs it, or write to a folder that no other user can write to. Nothing was removed."
                file = lease_place(target) if target.location.is_url else lock_file(target)
                return [Diagnostic("C261", f"{target.path} cannot be locked: {file} {foreign}", target.span, hint)]
            except OSError as error:
                self.release()
                reason = (error.strerror or str(error)).lower()
                hint = "Is the name right, does the store run, and may this user write there? storage has the settings of stores."
                return [Diagnostic("S104", f"{target.path} cannot be reached: {reason}", target.span, hint)]
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
        for lease in self._leases.values():
            lease.release()
        self._leases = {}
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

    def confirm(self) -> None:
        """Renew the leases before a batch is committed. Raises Refused (S185) where another run has
        taken one over, and RunFailed where one could not be renewed for too long."""
        if not self._leases:
            return
        from dotr.evaluation.files.lease import LeaseLost
        from dotr.runtimes.monitoring.totals import RunFailed

        for path, lease in self._leases.items():
            try:
                lease.confirm()
            except LeaseLost as lost:
                if lost.taken:
                    hint = "Stop one of the two runs. Was this one suspended? The other one goes on from its last batch."
                    raise refuse("S185", f"the lease of {path} {lost}: this run ends before its next batch", hint=hint) from None
                raise RunFailed(f"the lease of {path} {lost} (the same command goes on)") from None

    def _acquire_one(self, target: Target, pipeline: str) -> str | None:
        """Lock one target; returns its holder where another run has it, else None. Raises OSError
        where a store does not answer."""
        if target.location.is_url:
            return self._acquire_lease(target, pipeline)
        path, file = Path(os.path.realpath(target.path)), lock_file(target)
        try:
            if not target.checkpoint:
                self._create_folder(file.parent)
            return self._lock(file, pipeline)[0]
        except OSError:
            pass
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if not try_lock(number):
                os.close(number)
                return _UNKNOWN
            self._locks.append((number, None))
        return None

    def _lock(self, file: Path, pipeline: str) -> tuple[str | None, int]:
        """Lock a lock file; returns its holder where another run has it, and its descriptor. Raises
        OSError."""
        for _ in range(_TRIES):
            number, is_new = open_fixed(file)
            try:
                if not try_lock(number):
                    return str(_read_holder(number) or _UNKNOWN), number
            except OSError:
                if is_new:
                    file.unlink()
                raise
            if has_name(number, file):
                _check_ours(number)
                self._locks.append((number, file))
                if not _lease_in(number):  # that of a killed run is needed until this one has the lease
                    _write_holder(number, _members(pipeline))
                return None, number
            os.close(number)
        raise BlockingIOError(errno.EAGAIN, "its lock file is replaced again and again")

    def _acquire_lease(self, target: Target, pipeline: str) -> str | None:
        """As `_acquire_one`, at a URL."""
        from dotr.evaluation.files.lease import Lease, LeaseHeld

        def tell(holder: Mapping[str, object], seconds: float) -> None:
            ended = "which may have ended without giving it back"
            self._tell(f"{target.path} has a lease of the {Holder.of(holder)}, {ended}: waiting up to {seconds:g} s.")

        file, number, dead = lock_file(target), -1, ""
        with suppress(OSError):  # the lease alone is the lock then
            make_trusted_folder(file.parent)
            held, number = self._lock(file, pipeline)
            if held is not None:
                return held
            dead = _lease_in(number)
        try:
            lease = self._leases[target.path] = Lease(lease_place(target), _members(pipeline), dead, tell)
        except LeaseHeld as found:
            return str(Holder.of(found.holder))
        if number >= 0:
            _write_holder(number, {**_members(pipeline), "lease": lease.id})
        return None

    def _create_folder(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self._created_folders.append(each)


def lease_place(target: Target) -> Location:
    """The object of the lease of a target at a URL."""
    location = target.location
    return location / LEASE if target.checkpoint else location.parent / f".{location.name}.lease"


def lock_file(target: Target) -> Path:
    """The lock file of a target."""
    if target.location.is_url:
        return scratch_folder(str(target.location)) / "run.lock"
    path = Path(os.path.realpath(target.path))
    return path.with_name(f".{path.name}.lock")


def _members(pipeline: str) -> dict[str, object]:
    """The text of a lock, which names this process."""
    return {"pipeline": pipeline, "process": os.getpid(), "host": socket.gethostname(), "reloads": True}


def _write_holder(number: int, members: Mapping[str, object]) -> None:
    os.ftruncate(number, 0)
    os.pwrite(number, json.dumps(members).encode(), 0)


def _lease_in(number: int) -> str:
    """The ID of a lease in an open lock file; empty where there is none."""
    try:
        return str(json.loads(os.pread(number, _HOLDER_SIZE, 0)).get("lease", ""))
    except ValueError:
        return ""


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
    if target.location.is_url:
        from dotr.evaluation.files.lease import read_holder

        with suppress(OSError, ForeignFile):
            holder = Holder.of(read_holder(lease_place(target)) or {})
            return None if holder.is_here or not holder.pipeline else holder  # one of this machine has no lock: it has ended
    return None


def _read_holder(number: int) -> Holder | None:
    try:
        holder = json.loads(os.pread(number, _HOLDER_SIZE, 0))
        return Holder(str(holder["pipeline"]), int(holder["process"]), str(holder["host"]), bool(holder.get("reloads")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        os.close(number)
