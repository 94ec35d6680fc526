"""Objects at URLs as inputs: what is there, and its bytes from any offset on.

Idea: an input is opened several times before its first record, for its header, its encoding and its
times. So the first block of an object, with its size and tag, is kept for a second: the openings
that follow each other take one request. Further blocks double in length while they follow each
other.
Invariant: all bytes of one opening are of one version of the object.
An object that is not there, or was replaced while it is read, is an unreadable input, as a file is.
Any other error of a store ends the run (`InputFailed`), whose next start goes on: what the store
holds is no dead letter.
"""

from __future__ import annotations

import errno
import io
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dotr.errors.diagnostics import InputFailed
from dotr.evaluation.files.interface import StoredRange
from dotr.evaluation.files.stores import Location, Stored

_FIRST_BLOCK: Final = 1 << 17
_LARGEST_BLOCK: Final = 1 << 23
_SECONDS: Final = 1.0
_MOST: Final = 64
_begun: Final[OrderedDict[str, tuple[float, StoredRange]]] = OrderedDict()
"""The first blocks of the latest objects, each with the time of its request."""


def looked_at(path: str) -> Stored:
    """The object at a URL, as it was a second ago at most. Raises FileNotFoundError where there is
    none, and `InputFailed` where the store fails."""
    part = _beginning(path)
    return Stored(Location(path), part.size, part.tag)


def _beginning(path: str) -> StoredRange:
    """The first block of an object, as it was a second ago at most."""
    now = time.monotonic()
    at, part = _begun.pop(path, (now - _SECONDS, None))
    if part is None or now >= at + _SECONDS:
        with store_failures(path):
            at, part = now, Location(path).part(0, _FIRST_BLOCK)
    _begun[path] = at, part
    if len(_begun) > _MOST:
        _begun.popitem(last=False)
    return part


@contextmanager
def store_failures(path: str) -> Iterator[None]:
    """Context in which an error of a store is `InputFailed`, but for that of an object that is not
    there, or was replaced."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            raise
        hint = "The same command goes on, or begins anew, once the store answers and permits it."
        raise InputFailed("I141", f"cannot read {path}: {error.strerror or error}", hint) from None


class ObjectBytes(io.RawIOBase):
    """Raw stream of the first `size` bytes of an object at a URL; None: of all.

    Raises FileNotFoundError where there is none, an OSError where it was replaced, and
    `InputFailed` where the store fails.
    """

    def __init__(self, path: str, size: int | None = None) -> None:
        self._path = path
        self._block, whole, self._tag = _beginning(path)
        self._size = whole if size is None else min(size, whole)
        self._at = self._start = 0
        self._length = _FIRST_BLOCK

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of `io.FileIO`; nothing is read."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at >= self._size:
            return 0
        if not self._start <= self._at < self._start + len(self._block):
            follows = self._at == self._start + len(self._block)
            self._length = min(2 * self._length, _LARGEST_BLOCK) if follows else _FIRST_BLOCK
            with store_failures(self._path):
                end = min(self._at + self._length, self._size)
                self._block, self._start = Location(self._path).part(self._at, end, self._tag).data, self._at
        data = memoryview(self._block)[self._at - self._start : self._size - self._start][: len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
