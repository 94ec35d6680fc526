"""Marks of files: the identity of a file, and of its bytes as far as they were read.

Idea: a file with the size, time of change, inode and device of its mark is unchanged. In any other
file the last 1,024 bytes before the mark's offset decide, so that a file that was copied, touched
or remounted is unchanged too.
The mark of an object at a URL has its size and tag, which alone decide.
Not seen: other bytes of the same size and time of change; other bytes before the last 1,024.
Cost: one `stat` of an unchanged file, or one request.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from stat import S_ISREG
from typing import Any, Final, NamedTuple

from dotr.evaluation.files.stores import Location, Stored
from dotr.streams.objects import looked_at

COMPARED: Final = 1_024
"""Bytes before the offset that are compared."""


class FileMark(NamedTuple):
    """Mark of a file that was read up to an offset.

    - `size`: bytes of the file; `modified`: its time of change (ns since 1970).
    - `inode`, `device`: its numbers in the file system.
    - `offset`: bytes that were read; in a compressed file those of the file itself.
    - `digest`: of the last `COMPARED` bytes before the offset; of an object its tag.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"12:00,20.5"), file.flush()
    ...     mark = mark_of_path(file.name)
    ...     before = mark.offset, mark.has_changed(file.name)
    ...     _ = file.write(b"12:01,20.7"), file.flush()
    ...     before, mark.has_changed(file.name), mark.is_continued_by(file.name)
    ((10, False), True, True)
    """

    size: int
    modified: int
    inode: int
    device: int
    offset: int
    digest: str

    def has_changed(self, path: str) -> bool:
        """True if there are other bytes than those of the mark under a path: more, fewer, or
        different ones. A path without a file has not changed, nor has a file that cannot be read.

        Bytes are read only where the size is the same and the time of change, inode or device is
        not.
        """
        try:
            if Location(path).is_url:
                return (now := _present_object(path)) is not None and now != self
            status = os.stat(path)
            if self.is_of(status):
                return False
            return status.st_size != self.size or not self.is_continued_by(path)
        except OSError:
            return False

    def is_of(self, status: os.stat_result) -> bool:
        """True if size, time of change, inode and device of a file are those of the mark."""
        return (status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev) == self[:4]

    def is_continued_by(self, path: str) -> bool:
        """True if the file of a path has the bytes of the mark before the offset, and perhaps
        further ones; False for a folder or a pipe. Raises OSError where it cannot be read.
        """
        if Location(path).is_url:
            return mark_of_object(looked_at(path)) == self
        status = os.stat(path)
        if not S_ISREG(status.st_mode) or status.st_size < self.offset:
            return False
        descriptor = unblocked(path)
        try:
            return _digest(descriptor, self.offset) == self.digest
        finally:
            os.close(descriptor)

    def to_json(self) -> list[int | str]:
        """The members as a list for JSON."""
        return list(self)

    @staticmethod
    def of_json(members: Sequence[Any]) -> FileMark:
        """Inverse of `to_json`; raises TypeError or ValueError for other data.

        >>> mark = FileMark(10, 1_700_000_000_000_000_000, 7, 1, 10, "ab")
        >>> FileMark.of_json(mark.to_json()) == mark
        True
        """
        size, modified, inode, device, offset, digest = members
        return FileMark(int(size), int(modified), int(inode), int(device), int(offset), str(digest))


class FoundFile(NamedTuple):
    """A file of an input: its path, and its mark as of when it was found (None: unknown). With
    `change`, a sentence on a change of that file, it stands for this sentence, and is not read.
    """

    path: str
    mark: FileMark | None = None
    change: str = ""

    @staticmethod
    def at(path: str) -> FoundFile:
        """The file that is there now."""
        return FoundFile(path, mark_of_path(path))

    def changed(self) -> FoundFile | None:
        """The change of the file since it was marked; None where it has not changed, or where its
        change is known."""
        if self.mark is None or self.change:
            return None
        if Location(self.path).is_url:
            return None if (now := _present_object(self.path)) is None else self.changed_to(now)
        return self.changed_to(mark_of_path(self.path)) if self.mark.has_changed(self.path) else None

    def changed_to(self, now: FileMark) -> FoundFile | None:
        """The change of the file to one with another mark; None where that is the same, or the
        change is known."""
        if self.mark is None or self.change:
            return None
        if now == self.mark:  # no file could be read then, and none can be now
            return None
        there = "no file is" if now == NO_FILE else f"{now.size:,} are"
        read = f"{self.mark.offset:,} bytes of it are read, {there} there now"
        way_out = _WAY_OUT if Location(self.path).is_url else f"{_WAY_OUT}, or set tail: true, which reads on"
        return self._replace(change=f"the file has changed since it was opened: {read}; {way_out}")

    def to_json(self) -> list[object]:
        """The members as a list for JSON, without trailing defaults."""
        return list(self[: 3 if self.change else 1 if self.mark is None else 2])

    @staticmethod
    def of_json(path: str, mark: Sequence[Any] | None = None, change: str = "") -> FoundFile:
        """The file of the members as JSON has them; raises TypeError or ValueError for other data.

        >>> found = FoundFile("a.csv", FileMark(3, 5, 7, 1, 3, "ab"))
        >>> FoundFile.of_json(*found.to_json()) == found, FoundFile("a.csv").to_json()
        (True, ['a.csv'])
        """
        return FoundFile(str(path), None if mark is None else FileMark.of_json(mark), str(change))


NO_FILE: Final = FileMark(0, 0, 0, 0, 0, "")
"""The mark of what is no file, or cannot be read."""

_WAY_OUT: Final = "write what comes later to a file of another name"


def changes(files: Iterable[FoundFile]) -> list[FoundFile]:
    """The changes of files since they were marked."""
    return [change for file in files if (change := file.changed()) is not None]


def mark_of_path(path: str, offset: int | None = None) -> FileMark:
    """The mark of the file of a path that is read up to an offset (None: its present size);
    `NO_FILE` where there is none that can be read. Raises `InputFailed` where a store fails."""
    try:
        if Location(path).is_url:
            return mark_of_object(looked_at(path))
        descriptor = unblocked(path)
        try:
            status = os.fstat(descriptor)
            read = status.st_size if offset is None else offset
            mark = FileMark(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev, read, _digest(descriptor, read))
            return mark if S_ISREG(status.st_mode) else NO_FILE
        finally:
            os.close(descriptor)
    except OSError:
        return NO_FILE


def _present_object(path: str) -> FileMark | None:
    """The mark of the object at a URL; None where there is none that can be looked at."""
    with suppress(OSError):
        return None if (stored := Location(path).look()) is None else mark_of_object(stored)
    return None


def mark_of_object(stored: Stored) -> FileMark:
    """The mark of an object, all of which is read."""
    return FileMark(stored.size, 0, 0, 0, stored.size, stored.tag)


def unblocked(path: str, flags: int = os.O_RDONLY) -> int:
    """A file, opened; a pipe that is in its place is not waited for. Raises OSError where it cannot
    be."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def bytes_of(path: str, start: int, end: int) -> bytes | None:
    """The bytes [start, end) of a file, as far as they are there; None where it cannot be read."""
    try:
        with open(path, "rb", opener=unblocked) as file:
            file.seek(start)
            return file.read(end - start)
    except OSError:
        return None


def _digest(descriptor: int, offset: int) -> str:
    start = max(0, offset - COMPARED)
    return digest_of(os.pread(descriptor, offset - start, start))


def digest_of(read: bytes) -> str:
    """The digest of the last `COMPARED` of the bytes that were read."""
    return blake2b(read[-COMPARED:], digest_size=16).hexdigest()
