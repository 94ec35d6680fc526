"""Text sinks: one file in process, one file per batch on Spark.

Invariant: a batch's file is complete or absent, and a batch written again gives the same file. A
run never appends to the output of an older run.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from dotr.errors.diagnostics import DotrError, refuse
from dotr.evaluation.files.private_files import create_file, temporary_path
from dotr.model.places import Span

_DIGITS: Final = 12
_STANDARD: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_TRANSIENT: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


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
        filled = target.is_dir() and any(target.iterdir())
        if filled or (target.exists() and not target.is_dir()):
            hint = "A run does not mix its output with an older one's: use --fresh to remove it first, or another path."
            raise refuse("I201", f"{path} is there already", place, hint)
    except OSError as error:
        raise _unwritable(path, error, place) from None


def _unwritable(path: str, error: OSError, place: Span | None) -> Exception:
    return refuse("I202", _failure(path, error), place, "Choose a path that can be written.")


def _failure(path: str, error: OSError) -> str:
    return f"cannot write {path}: {(error.strerror or str(error)).lower()}"


def is_transient(error: OSError) -> bool:
    """True for a write error that may pass without a change of the configuration: a full or failing
    disk.

    >>> is_transient(OSError(errno.ENOSPC, "no space left on device")), is_transient(PermissionError(errno.EACCES, "permission denied"))
    (True, False)
    """
    return error.errno in _TRANSIENT


class WriteFailed(DotrError):
    """Failure of a write to a valid destination: a full disk, a pipe without a reader."""


class FileSink:
    """A text file, written from its beginning, gzip-compressed if its path ends in `.gz`. Missing
    parent folders are created.

    `/dev/stdout`, named pipes and devices are written to directly. Raises `Refused` where the file
    exists or cannot be written.
    """

    __slots__ = ("_file", "_regular", "_text", "path")

    def __init__(self, path: str, place: Span | None = None) -> None:
        self.path = path
        self._regular = not stores_no_data(path)
        try:
            if self._regular:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = open(path, "xb")  # noqa: SIM115 (closed by close)
            else:
                self._file = open(os.dup(_STANDARD[path]) if path in _STANDARD else path, "wb")  # noqa: SIM115
        except OSError as error:
            if Path(path).is_file():
                check_new(path, place)
            raise _unwritable(path, error, place) from None
        self._text = self._open_text()

    def _open_text(self) -> io.TextIOWrapper:
        # Without time and path in the gzip header, equal output has equal bytes.
        raw = gzip.GzipFile("", "wb", fileobj=self._file, mtime=0) if self.path.endswith(".gz") else self._file
        return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n")

    def write(self, texts: Iterable[str]) -> None:
        """Append texts, which include line ends; raises `WriteFailed`."""
        try:
            self._text.writelines(texts)
        except OSError as error:
            raise self._unwritten(error) from None

    def flush(self) -> None:
        """Pass buffered text to the operating system; raises `WriteFailed`."""
        try:
            self._text.flush()
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
        self._text = self._open_text()
        return offset

    def truncate(self, mark: int) -> None:
        """Truncate the file to a mark; raises `WriteFailed`."""
        try:
            self._flushed_length()
            self._file.seek(mark)
            self._file.truncate()
        except OSError as error:
            raise self._unwritten(error) from None
        self._text = self._open_text()

    def _flushed_length(self) -> int:
        """Length of the file in bytes, after a flush; the caller reopens the text layer."""
        raw = self._text.detach()
        if raw is not self._file:
            raw.close()
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        """Finish and close the file; raises `WriteFailed` after the file is closed."""
        try:
            try:
                self._text.close()
            finally:
                self._file.close()
        except OSError as error:
            raise self._unwritten(error) from None

    def discard(self) -> None:
        """Close the file, and remove the file if this sink created it."""
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
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def batch_path(folder: str, batch: int, suffix: str) -> Path:
    """The path of a batch's file.

    >>> str(batch_path("out", 7, ".ndjson"))
    'out/000000000007.ndjson'
    """
    return Path(folder) / f"{batch:0{_DIGITS}}{suffix}"


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Context in which write errors are `WriteFailed` if they may pass, else `Refused`."""
    try:
        yield
    except OSError as error:
        if is_transient(error):
            raise WriteFailed(_failure(str(path), error)) from None
        raise _unwritable(str(path), error, None) from None


class BatchFile:
    """File of one batch in a folder: a context, at whose exit the file is complete, or absent after
    an error.

    A file of an earlier attempt is replaced. A batch without text has no file. `suffix` is the
    format's, such as `.ndjson`.

    Raises `Refused` where the folder cannot be written, `WriteFailed` where the disk is full or
    fails.
    """

    __slots__ = ("_file", "_folder", "_target", "_temporary")

    def __init__(self, folder: str, batch: int, suffix: str) -> None:
        self._folder = Path(folder)
        self._target = batch_path(folder, batch, suffix)
        self._temporary = temporary_path(self._target)
        self._file: io.TextIOWrapper | None = None

    def write(self, texts: Iterable[str]) -> None:
        """Append texts, which include line ends; raises `Refused` or `WriteFailed`."""
        if text := "".join(texts):
            with write_errors(self._folder):
                if self._file is None:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    file = create_file(self._temporary)
                    self._file = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="\n")
                self._file.write(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        file = self._file
        if kind is not None:
            if file is not None:
                with suppress(OSError):  # the first error is reported
                    file.close()
                with suppress(OSError):
                    self._temporary.unlink()
            return
        with write_errors(self._folder):
            if file is None:
                self._target.unlink(missing_ok=True)
                return
            with file:
                file.flush()
                os.fsync(file.fileno())
            replace_durably(self._temporary, self._target)
