"""Where text goes: one file in process, one file a batch on Spark.

Invariant: a file of a folder is there whole or not at all, and writing a batch again writes the same file again. A run never adds to
what an older one has written.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import DotrError, refuse
from dotr.model.places import Span

_DIGITS: Final = 12
_STANDARD: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_PASSING: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


def check_new(path: str, place: Span | None = None) -> None:
    """Raises `Refused` where an older run's output is at the path: a file, or a folder that is not empty."""
    if passing(path):
        return
    target = Path(path)
    try:
        taken = target.is_dir() and any(target.iterdir())
        if taken or (target.exists() and not target.is_dir()):
            hint = "A run does not mix its output with an older one's: use --fresh to remove it first, or another path."
            raise refuse("I201", f"{path} is there already", place, hint)
    except OSError as error:
        raise _unwritable(path, error, place) from None


def _unwritable(path: str, error: OSError, place: Span | None) -> Exception:
    return refuse("I202", _cannot(path, error), place, "Choose a path that can be written.")


def _cannot(path: str, error: OSError) -> str:
    return f"cannot write {path}: {(error.strerror or str(error)).lower()}"


def may_pass(error: OSError) -> bool:
    """Whether the same may succeed another time, with nothing changed in the configuration: the disk is full, or fails.

    >>> may_pass(OSError(errno.ENOSPC, "no space left on device")), may_pass(PermissionError(errno.EACCES, "permission denied"))
    (True, False)
    """
    return error.errno in _PASSING


class WriteFailed(DotrError):
    """Text that could not be written though the path is right: the disk is full, the reader of a pipe has gone."""


class FileSink:
    """A text file, written from its beginning; compressed if its path ends in .gz. Folders above it are made.

    `/dev/stdout`, and what is there but keeps nothing (a named pipe, a device), are written to as they are. Raises `Refused` where the
    file is there already, or cannot be written.
    """

    __slots__ = ("_file", "_made", "_text", "path")

    def __init__(self, path: str, place: Span | None = None) -> None:
        self.path = path
        self._made = not passing(path)
        try:
            if self._made:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                self._file = open(path, "xb")  # noqa: SIM115 (closed by close)
            else:
                self._file = open(os.dup(_STANDARD[path]) if path in _STANDARD else path, "wb")  # noqa: SIM115
        except OSError as error:
            if Path(path).is_file():
                check_new(path, place)
            raise _unwritable(path, error, place) from None
        self._text = self._opened()

    def _opened(self) -> io.TextIOWrapper:
        # Neither time nor path goes into a compressed file: the same output is the same bytes.
        raw = gzip.GzipFile("", "wb", fileobj=self._file, mtime=0) if self.path.endswith(".gz") else self._file
        return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n")

    def write(self, texts: Iterable[str]) -> None:
        """Append texts, which bring their line ends with them; raises `WriteFailed`."""
        try:
            self._text.writelines(texts)
        except OSError as error:
            raise self._unwritten(error) from None

    def flush(self) -> None:
        """Hand on to the operating system what was written; raises `WriteFailed`."""
        try:
            self._text.flush()
        except OSError as error:
            raise self._unwritten(error) from None

    def mark(self) -> int | None:
        """How far the file has been written, to go back to; None: what was handed on cannot be taken back. In a compressed file a member
        ends here. Raises `WriteFailed`."""
        if not self._made:
            return None
        try:
            place = self._settled()
        except OSError as error:
            raise self._unwritten(error) from None
        self._text = self._opened()
        return place

    def back(self, mark: int) -> None:
        """Take away all that was written after a mark; raises `WriteFailed`."""
        try:
            self._settled()
            self._file.seek(mark)
            self._file.truncate()
        except OSError as error:
            raise self._unwritten(error) from None
        self._text = self._opened()

    def _settled(self) -> int:
        """How long the file is when all that was written is there; it has to be opened again."""
        raw = self._text.detach()
        if raw is not self._file:
            raw.close()
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        """Finish the file; raises `WriteFailed`, and closes it nevertheless."""
        try:
            try:
                self._text.close()
            finally:
                self._file.close()
        except OSError as error:
            raise self._unwritten(error) from None

    def discard(self) -> None:
        """Close the file and take it away again, if it was made here."""
        self.close()
        if self._made:
            os.unlink(self.path)

    def _unwritten(self, error: OSError) -> WriteFailed:
        return WriteFailed(_cannot(self.path, error))

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None or not issubclass(kind, WriteFailed):
            self.close()
            return
        with suppress(WriteFailed):  # what has gone wrong is told already
            self.close()


def passing(path: str) -> bool:
    """Whether a path keeps nothing of what is written to it: standard output, a named pipe, a device.

    >>> passing("/dev/stdout"), passing("/dev/null"), passing("out/fire.ndjson")
    (True, True, False)
    """
    return path in _STANDARD or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


class BatchFile:
    """A batch's file in a folder: there whole, once this is left, or not at all; it takes the place of an earlier try of the same batch.
    Where nothing is written there is none. `suffix` is the format's, such as `.ndjson`.

    Raises `Refused` where the folder cannot be written, `WriteFailed` where the disk is full or fails.
    """

    __slots__ = ("_file", "_folder", "_target", "_waiting")

    def __init__(self, folder: str, batch: int, suffix: str) -> None:
        self._folder = Path(folder)
        self._target = self._folder / f"{batch:0{_DIGITS}}{suffix}"
        self._waiting = self._target.with_name(f".{self._target.name}.tmp")
        self._file: io.TextIOWrapper | None = None

    def write(self, texts: Iterable[str]) -> None:
        """Appends texts, which bring their line ends with them."""
        if text := "".join(texts):
            with self._told():
                if self._file is None:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    self._file = open(self._waiting, "w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
                self._file.write(text)

    def __enter__(self) -> BatchFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        file = self._file
        if kind is not None:
            if file is not None:
                with suppress(OSError):  # what has gone wrong is told already
                    file.close()
            return
        with self._told():
            if file is None:
                self._target.unlink(missing_ok=True)
                return
            with file:
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._waiting, self._target)
            directory = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if may_pass(error):
                raise WriteFailed(_cannot(str(self._folder), error)) from None
            raise _unwritable(str(self._folder), error, None) from None
