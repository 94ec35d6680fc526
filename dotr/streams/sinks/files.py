"""Text sinks: one file in process, one file per batch on Spark.

Invariant: a batch's file is complete or absent, and a batch written again gives the same file. A
run never appends to the output of an older run. At a URL a file is a temporary one of this machine,
until one put writes it whole.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Self

from dotr.errors.diagnostics import Diagnostic, DotrError, Refused, refuse
from dotr.evaluation.files.private_files import create_file, temporary_path
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.places import Span

_DIGITS: Final = 12
_PIECE: Final = 1 << 20
_PUT_AT_ONCE: Final = 1 << 26
"""Bytes of a file up to which a store is asked to put it if there is none; a larger one comes in parts."""

_STANDARD: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_TRANSIENT: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EAGAIN}


@dataclass(frozen=True, slots=True)
class PathDestination:
    """A file in process, or on Spark a folder with a file for each batch.

    `span` is its place in the configuration, in all destinations.
    """

    path: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.path


def check_new(path: str, place: Span | None = None) -> None:
    """Check that no older output is at a path: no file, and no folder with entries.

    Raises `Refused` where there is older output, or where the path cannot be examined.
    """
    if stores_no_data(path):
        return
    target = Path(path)
    try:
        if (location := Location(path)).is_url:
            filled = is_file = location.look() is not None or next(location.list(recursive=True), None) is not None
        else:
            filled = target.is_dir() and any(target.iterdir())
            is_file = not filled and target.exists() and not target.is_dir()
        if filled or is_file:
            hint = "A run does not mix its output with an older one's: use --fresh to remove it first, or another path."
            raise refuse("I201", f"{path} is there already", place, hint)
    except OSError as error:
        raise Refused([_unwritable(path, error, place)]) from None


def _unwritable(path: str, error: OSError, place: Span | None) -> Diagnostic:
    """The problem (I202) of an output that cannot be written."""
    hint = "Choose a path that can be written."
    if Location(path).is_url:
        hint = "Is the URL right, and may you write there? `storage` in the configuration says where a store is, and as whom it is used."
    return Diagnostic("I202", _failure(path, error), place, hint)


def _failure(path: str, error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"cannot write {path}: {reason[:1].lower()}{reason[1:]}"


def is_transient(error: OSError) -> bool:
    """True for a write error that may pass without a change of the configuration: a full or failing
    disk, a store that does not answer.

    >>> is_transient(OSError(errno.ENOSPC, "no space left on device")), is_transient(PermissionError(errno.EACCES, "permission denied"))
    (True, False)
    """
    return error.errno in _TRANSIENT


class WriteFailed(DotrError):
    """Failure of a write to a valid destination: a full disk, a pipe without a reader."""


def encoded(text: str) -> bytes:
    r"""A text in UTF-8; half of a surrogate pair is its escape.

    >>> encoded("é"), encoded("\ud800")
    (b'\xc3\xa9', b'\\ud800')
    """
    return text.encode("utf-8", "backslashreplace")


class FileSink:
    """A file, written from its beginning, gzip-compressed if its path ends in `.gz`. Missing
    parent folders are created. At a URL it is there once the sink is closed.

    `/dev/stdout`, named pipes and devices are written to directly. Raises `Refused` where the file
    exists or cannot be written.
    """

    __slots__ = ("_file", "_packed", "_regular", "_unfinished", "path")

    def __init__(self, path: str, place: Span | None = None) -> None:
        self.path = path
        self._regular = not stores_no_data(path)
        self._unfinished: UnfinishedFile | None = None
        try:
            if Location(path).is_url:
                check_new(path, place)
                self._unfinished = UnfinishedFile(Location(path), is_new=True)
                self._file: BinaryIO = self._unfinished.file
            elif self._regular:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = open(path, "xb")  # noqa: SIM115 (closed by close)
            else:
                self._file = open(os.dup(_STANDARD[path]) if path in _STANDARD else path, "wb")  # noqa: SIM115
        except OSError as error:
            if self._unfinished is None and Path(path).is_file():
                check_new(path, place)
            raise Refused([_unwritable(path, error, place)]) from None
        self._packed = self._open_packed()

    def _open_packed(self) -> BinaryIO | io.BufferedWriter:
        """The file, or its compressor, to which bytes are written."""
        if not self.path.endswith(".gz"):
            return self._file
        # Without time and path in the gzip header, equal output has equal bytes.
        return io.BufferedWriter(gzip.GzipFile("", "wb", fileobj=self._file, mtime=0))

    def write(self, texts: Iterable[str]) -> None:
        """Append texts, which include line ends; raises `WriteFailed`."""
        self.write_bytes(encoded("".join(texts)))

    def write_bytes(self, data: bytes) -> None:
        """Append bytes; raises `WriteFailed`."""
        try:
            self._packed.write(data)
        except OSError as error:
            raise self._unwritten(error) from None

    def flush(self) -> None:
        """Pass buffered bytes to the operating system; raises `WriteFailed`."""
        try:
            self._packed.flush()
        except OSError as error:
            raise self._unwritten(error) from None

    def mark(self) -> int | None:
        """Byte offset of the end of the file, for `truncate`; None for a pipe or device.

        A compressed file ends a gzip member here. Raises `WriteFailed`.
        """
        if not self._regular:
            return None
        try:
            offset = self._flushed_length()
        except OSError as error:
            raise self._unwritten(error) from None
        self._packed = self._open_packed()
        return offset

    def truncate(self, mark: int) -> None:
        """Truncate the file to a mark; raises `WriteFailed`."""
        try:
            self._flushed_length()
            self._file.seek(mark)
            self._file.truncate()
        except OSError as error:
            raise self._unwritten(error) from None
        self._packed = self._open_packed()

    def _flushed_length(self) -> int:
        """Length of the file in bytes, after a flush; the caller opens the compressor again."""
        if self._packed is not self._file:
            self._packed.close()
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        """Finish and close the file; raises `WriteFailed` after the file is closed."""
        try:
            try:
                if self._packed is not self._file:
                    self._packed.close()
                unfinished, self._unfinished = self._unfinished, None  # a recording is closed twice
                if unfinished is not None:
                    unfinished.complete()
            finally:
                self._file.close()
        except OSError as error:
            raise self._unwritten(error) from None

    def discard(self) -> None:
        """Close the file, and remove the file if this sink created it."""
        if self._unfinished is not None:
            self._unfinished.discard()
            return
        self.close()
        if self._regular:
            os.unlink(self.path)

    def _unwritten(self, error: OSError) -> WriteFailed:
        return WriteFailed(_failure(self.path, error))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None or not issubclass(kind, WriteFailed):
            self.close()
            return
        with suppress(WriteFailed):  # the first error is reported
            self.close()


def stores_no_data(path: str) -> bool:
    """True for a path that stores no data: standard output, a named pipe, a device.

    >>> stores_no_data("/dev/stdout"), stores_no_data("/dev/null"), stores_no_data("out/fire.ndjson")
    (True, True, False)
    """
    return path in _STANDARD or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def replace_durably(temporary: Path, target: Path) -> None:
    """Rename a complete, synced file to its target, which is replaced atomically and durably."""
    os.replace(temporary, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk: those of new, renamed and removed files."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def batch_file(folder: str, batch: int, suffix: str) -> Location:
    """The file of a batch.

    >>> str(batch_file("out", 7, ".ndjson")), str(batch_file("s3://lake/out", 7, ".csv"))
    ('out/000000000007.ndjson', 's3://lake/out/000000000007.csv')
    """
    return Location(folder) / f"{batch:0{_DIGITS}}{suffix}"


@contextmanager
def write_errors(path: Path | Location) -> Iterator[None]:
    """Context in which write errors are `WriteFailed` if they may pass, else `Refused`. A store was
    asked at the start, so that all its later errors may pass."""
    try:
        yield
    except OSError as error:
        if is_transient(error) or Location(str(path)).is_url:
            raise WriteFailed(_failure(str(path), error)) from None
        raise Refused([_unwritable(str(path), error, None)]) from None


class UnfinishedFile:
    """A file that is not there until it is complete: beside its target under a temporary name, or for
    a URL a nameless one of this machine. `is_new`: nothing at a URL is replaced. Its methods raise
    OSError."""

    __slots__ = ("_is_new", "_target", "_temporary", "file")

    def __init__(self, target: Location, *, is_new: bool = False) -> None:
        self._target, self._is_new = target, is_new
        self._temporary: Path | None = None
        if target.is_url:
            self.file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (closed by complete or discard)
            return
        target.path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = temporary_path(target.path)
        self.file = create_file(self._temporary)

    def complete(self) -> None:
        """Give the file its name, in place of the one that has it."""
        with self.file as file:
            file.flush()
            if self._temporary is None:
                self._put(file)
            else:
                os.fsync(file.fileno())
        if self._temporary is not None:
            replace_durably(self._temporary, self._target.path)

    def _put(self, file: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if self._is_new and size <= _PUT_AT_ONCE:
            is_there = self._target.put_new(file.read()) is None
        else:
            is_there = self._is_new and self._target.look() is not None
            if not is_there:
                self._target.put(iter(partial(file.read, _PIECE), b""))
        if is_there:
            raise FileExistsError(errno.EEXIST, "another run has written it meanwhile")

    def discard(self) -> None:
        """Remove the file; errors are ignored."""
        with suppress(OSError):
            self.file.close()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink()


class BatchFile:
    """File of one batch in a folder: a context, at whose exit the file is complete, or absent after
    an error.

    A file of an earlier attempt is replaced. A batch without text has no file. `suffix` is the
    format's, such as `.ndjson`.

    Raises `Refused` where the folder cannot be written, `WriteFailed` where the disk is full or
    fails.
    """

    __slots__ = ("_file", "_folder", "_target")

    def __init__(self, folder: str, batch: int, suffix: str) -> None:
        self._folder = Location(folder)
        self._target = batch_file(folder, batch, suffix)
        self._file: UnfinishedFile | None = None

    def write(self, texts: Iterable[str]) -> None:
        """Append texts, which include line ends; raises `Refused` or `WriteFailed`."""
        self.write_bytes(encoded("".join(texts)))

    def write_bytes(self, data: bytes) -> None:
        """Append bytes; raises `Refused` or `WriteFailed`."""
        if data:
            with write_errors(self._folder):
                if self._file is None:
                    self._file = UnfinishedFile(self._target)
                self._file.file.write(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        file = self._file
        if kind is not None:
            if file is not None:
                file.discard()
            return
        with write_errors(self._folder):
            if file is None:
                self._target.remove()
            else:
                file.complete()
