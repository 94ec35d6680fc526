"""Files as streams of lines of bytes, plain or compressed, from any position on."""

from __future__ import annotations

import io
import os
import select
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol, TypeAlias

from dotr.errors.diagnostics import InputFailed, Refused, refuse
from dotr.evaluation.files.stores import Location
from dotr.model.places import Span
from dotr.model.stream import Reason
from dotr.streams.objects import ObjectBytes, looked_at
from dotr.streams.records import SHOWN, InputFile, Message, Position, Record, beginning, limit_reason

if TYPE_CHECKING:
    from zlib import _Decompress


STANDARD_INPUT: Final = "-"
"""Path of standard input, which can be read only once, from its beginning."""

DAMAGED: Final = (OSError, EOFError)
"""Errors of reading an open file."""

BOM: Final = b"\xef\xbb\xbf"
"""Byte order mark of UTF-8, which may be in front of the first line."""

LINE_END: Final = ord("\n")

_BUFFER: Final = 1 << 16


def open_lines(path: str, position: Position, place: Span | None = None, size: int | None = None) -> BinaryIO:
    """Open a file as bytes from a position on, decompressed if gzip; raises `Refused` (I101) where
    it cannot be read, and `InputFailed` (I141) where a store fails.

    A plain file is opened at its offset; a compressed file is decompressed up to the offset.
    `STANDARD_INPUT` starts at its current position. Of a file its first `size` bytes are read;
    None: as many as there are now. The caller closes the file.
    """
    if path == STANDARD_INPUT:
        waiting = io.BufferedReader(standard_bytes(), _BUFFER)
        return io.BufferedReader(GzipBytes(waiting), _BUFFER) if waiting.peek(2)[:2] == MAGIC else waiting
    try:
        file: BinaryIO = io.BufferedReader(_opened(path, size), _BUFFER)
        try:
            if file.read(2) == MAGIC:
                file.seek(0)
                file = io.BufferedReader(GzipBytes(file), _BUFFER)
                left = position.offset
                while left and (skipped := len(file.read(min(left, 1 << 20)))):
                    left -= skipped
            else:
                file.seek(position.offset)
        except BaseException:
            file.close()
            raise
    except DAMAGED as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise refuse("I101", f"cannot read {path}: {reason}", place, "Is the input's path right, and may you read it?") from None
    except InputFailed as failed:
        if place is None:
            raise
        raise Refused([replace(failed.diagnostic, span=place)]) from None
    return file


class _FirstBytes:
    """The bytes of an open file up to an offset."""

    __slots__ = ("_descriptor", "_end")

    def __init__(self, descriptor: int, end: int) -> None:
        self._descriptor, self._end = descriptor, end

    def readinto(self, buffer: memoryview) -> int:
        """As of `io.FileIO`."""
        left = self._end - os.lseek(self._descriptor, 0, os.SEEK_CUR)
        return os.readv(self._descriptor, [buffer if len(buffer) <= left else buffer[: max(0, left)]])

    def readall(self) -> bytes:
        """As of `io.FileIO`."""
        left = self._end - os.lseek(self._descriptor, 0, os.SEEK_CUR)
        return os.read(self._descriptor, max(0, left))


def _opened(path: str, size: int | None) -> io.RawIOBase:
    """A file without the bytes behind the first `size`; None: behind its present ones.

    The two methods of the object are replaced: readers of a subclass take 600 instructions a line
    more to ask whether it is closed.
    """
    if Location(path).is_url:
        return ObjectBytes(path, size)
    raw = io.FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # a pipe is not waited for
    status = os.fstat(raw.fileno())
    if S_ISREG(status.st_mode):
        first = _FirstBytes(raw.fileno(), status.st_size if size is None else size)
        raw.readinto, raw.readall = first.readinto, first.readall  # type: ignore[method-assign,assignment]
    return raw


FileVersion: TypeAlias = tuple[int | str, ...]
"""The properties of a file that change with its bytes."""


def file_version(path: str) -> FileVersion:
    """The version of a file. Raises OSError where there is none, and `InputFailed` where a store
    fails."""
    if Location(path).is_url:
        stored = looked_at(path)
        return stored.size, stored.tag
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def file_size(file: InputFile) -> int:
    """The number of bytes of a file that are read. Raises as `file_version`."""
    if file.size is not None:
        return file.size
    return looked_at(file.path).size if Location(file.path).is_url else os.path.getsize(file.path)


def bounded_lines(lines: BinaryIO, limit: int) -> Iterator[bytes]:
    """Lines of a file, line ends included.

    A line without a line end is the last line, or the first `limit` + 1 bytes of a longer one; then
    the caller skips its rest by `skip_line`.
    """
    return iter(partial(lines.readline, limit + 1), b"")


def skip_line(lines: BinaryIO) -> tuple[int, bytes]:
    """Skip to the end of a line; returns the number of bytes skipped, and the last `SHOWN`."""
    passed, last = 0, b""
    while piece := lines.readline(SHOWN):
        passed += len(piece)
        last = (last + piece)[-SHOWN:]
        if piece.endswith(b"\n"):
            break
    return passed, last


def line_start(lines: BinaryIO, offset: int) -> int:
    r"""The offset of the start of the line with the byte at an offset.

    >>> [line_start(io.BytesIO(b"ab\ncd\n"), offset) for offset in (0, 2, 3, 5, 6)]
    [0, 0, 3, 3, 6]
    """
    end, size = offset, 1  # mostly the byte before is a line end
    while end > 0:
        start = max(0, end - size)
        lines.seek(start)
        if (at := lines.read(end - start).rfind(b"\n")) >= 0:
            return start + at + 1
        end, size = start, _BUFFER
    return 0


def damage(lines: BinaryIO) -> OSError | EOFError | None:
    """The error that has ended a compressed file early, or None."""
    raw = getattr(lines, "raw", None)
    return raw.error if isinstance(raw, DerivedBytes) else None


def damage_reason(error: Exception) -> str:
    """Reason of the record in the place of the damaged part of a file."""
    return f"the file cannot be read from here on: {error}"


def damaged(offset: int, line: int, error: Exception, raw: bytes = b"") -> Record:
    """Record of a file that cannot be read further; `raw` is the readable part of the last line."""
    return Record(offset, offset + len(raw), line, None, None, raw, damage_reason(error))


READABLE: Final = Record(0, 0, 0, None, None, b"")[6:]
"""The further fields of a readable record."""


class ReadLine(Protocol):
    """Reader of a line, or of a message of a transport: its record; None where it has none."""

    def __call__(self, raw: bytes, offset: int, end: int, line: int, elements: bool, message: Message | None = None) -> Record | None:
        """The record of the bytes [offset, end); `line` is its number."""


def line_records(lines: BinaryIO, position: Position, limit: int, read: ReadLine, elements: bool) -> Iterator[Record]:
    """The records of lines from a position on, and of those that are too long, or damaged."""
    end, line = position.offset, position.line - 1
    try:
        for raw in bounded_lines(lines, limit):
            offset, end = end, end + len(raw)
            line += 1
            if raw[-1] != LINE_END:
                if len(raw) > limit:
                    end += skip_line(lines)[0]
                    yield Record(offset, end, line, None, None, beginning(raw, limit), limit_reason(limit), reason=Reason.LIMIT)
                    continue
                if broken := damage(lines):
                    yield damaged(offset, line, broken, raw)
                    return
            if (record := read(raw, offset, end, line, elements)) is not None:
                yield record
        if broken := damage(lines):
            raise broken
    except DAMAGED as error:
        yield damaged(end, line + 1, error)


def rest_behind_delimiter(lines: BinaryIO, offset: int, line: int, raw: bytes, end: int, waiting: bytes = b"") -> Record:
    """The unreadable record from a delimiter of messages on, in a file without a label of RDF
    Messages.

    It begins with the statement with the delimiter: `raw` is the text from `offset` to `end`, and
    `waiting` the lines already read behind it.
    """
    raw, end = raw + waiting, end + len(waiting)
    try:
        while piece := lines.read(SHOWN):
            end += len(piece)
            raw = raw if len(raw) > SHOWN else raw + piece
    except DAMAGED:  # the damage ends the record too
        pass
    why = "it has a delimiter of RDF messages, and the file does not begin with a VERSION label that ends in -messages"
    return Record(offset, end, line, None, None, beginning(raw, SHOWN), why)


class StandardBytes(io.RawIOBase):
    """Standard input as a raw stream, with a buffer for reading ahead."""

    def __init__(self) -> None:
        self.buffered = b""
        self._waits = False

    def readable(self) -> bool:
        return True

    def is_drained(self) -> bool:
        """True if a thread waits for bytes, and the pipe has none."""
        return self._waits and not select.select([0], [], [], 0)[0]

    def read_ahead(self) -> bool:
        """Read ahead into the buffer; False at the end of the input."""
        data = os.read(0, _BUFFER)
        self.buffered += data
        return bool(data)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self.buffered:
            self._waits = True
            select.select([0], [], [])  # bytes leave the pipe only when `is_drained` is False
            self._waits = False
        data = self.buffered[: len(buffer)] if self.buffered else os.read(0, len(buffer))
        self.buffered = self.buffered[len(data) :] if self.buffered else b""
        buffer[: len(data)] = data
        return len(data)


@lru_cache(maxsize=1)
def standard_bytes() -> StandardBytes:
    """Standard input of this process, a single object."""
    return StandardBytes()


# Decompressed bytes of a gzip file, up to the first damage.
#
# Idea: zlib decompresses the file in chunks, and a copy of its state before the current chunk is
# kept. In a damaged chunk, bisection finds the longest prefix that decompresses. The bytes of that
# prefix are returned, then the end of the file, with the reason as `error`. (The gzip module would
# discard buffered bytes before the damage.)
# Cost: that of zlib. Memory: at most 64 states of 50 kB each, from which a backward seek resumes.

MAGIC: Final = b"\x1f\x8b"

_CHUNK: Final = 1 << 14
_PIECE: Final = 1 << 16
_MOST_STATES: Final = 64
_SPACING: Final = 1 << 22
_TRUNCATED: Final = "compressed file ended before the end-of-stream marker was reached"


class _Decompression(NamedTuple):
    """State between two chunks: bytes returned, bytes of the file read, and the decompressor (None
    between two gzip members).
    """

    returned: int
    read: int
    member: _Decompress | None


class DerivedBytes(io.RawIOBase):
    """Raw stream of bytes that are computed of those of a file, which it closes.

    `error` is the reason of an early end, or None.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | EOFError | None = None
        self._returned = 0
        self._unread = b""

    def _next(self, most: int) -> bytes:
        """The next bytes, about `most`; empty at the end."""
        raise NotImplementedError

    def _move_back(self, offset: int) -> None:
        """Move to an offset at or before the given one."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def tell(self) -> int:
        return self._returned

    def close(self) -> None:
        self._file.close()
        super().close()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset: forward by reading, backward from an earlier state."""
        if whence == io.SEEK_CUR:
            offset += self._returned
        elif whence == io.SEEK_END:
            raise io.UnsupportedOperation("the length is not known")
        if offset < self._returned:
            self._move_back(offset)
        while self._returned < offset and self.read(min(_PIECE, offset - self._returned)):
            pass
        return self._returned

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._unread or self._next(len(buffer))
        self._unread = data[len(buffer) :]
        data = data[: len(buffer)]
        buffer[: len(data)] = data
        self._returned += len(data)
        return len(data)


class GzipBytes(DerivedBytes):
    """Raw stream of the decompressed bytes of a file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._spacing = _SPACING
        self._states = [_Decompression(0, 0, None)]
        self._resume(self._states[0])

    def _resume(self, state: _Decompression) -> None:
        self._returned, self._read, member = state
        self._member = member and member.copy()
        self._chunk = b""
        self._unread = b""
        self._pieces: Iterator[bytes] = iter(())
        self._before = state
        self.error = None

    def _move_back(self, offset: int) -> None:
        state = next(state for state in reversed(self._states) if state.returned <= offset)
        self._file.seek(state.read)
        self._resume(state)

    def _next(self, most: int) -> bytes:
        """Next bytes; empty at the end, and at damage."""
        while True:
            for piece in self._pieces:
                if piece:
                    return piece
            if self.error is not None:
                return b""
            if not self._chunk and not self._read_chunk():
                return b""
            try:
                if (data := self._decompressed(most)) is not None:
                    return data
            except zlib.error as error:
                self._pieces = iter(list(self._before_damage()))
                self.error = OSError(str(error))

    def _read_chunk(self) -> bool:
        """Read the next chunk; False at the end of the file."""
        try:
            chunk = self._file.read(_CHUNK) if self.seekable() else self._file.read1(_CHUNK)  # type: ignore[attr-defined]
        except OSError as error:
            self.error = error
            return False
        if not chunk:
            if self._member is not None:
                self.error = EOFError(_TRUNCATED)
            return False
        self._chunk = chunk
        self._before = _Decompression(self._returned, self._read, self._member and self._member.copy())
        self._read += len(chunk)
        self._full_chunk = chunk
        if self._returned - self._states[-1].returned >= self._spacing and self.seekable():
            self._states.append(self._before)
            if len(self._states) > _MOST_STATES:
                del self._states[1::2]
                self._spacing *= 2
        return True

    def _decompressed(self, most: int) -> bytes | None:
        """At most `most` bytes of the current chunk; None where it has yielded none."""
        if self._member is None:
            self._chunk = self._chunk.lstrip(b"\0") if self._before.read or self._returned else self._chunk  # padding between members
            if not self._chunk:
                return None
            self._member = zlib.decompressobj(wbits=31)
        data = self._member.decompress(self._chunk, most)
        if self._member.eof:
            self._chunk, self._member = self._member.unused_data, None
        else:
            self._chunk = self._member.unconsumed_tail
        return data or None

    def _before_damage(self) -> Iterator[bytes]:
        """Bytes of the damaged chunk before the damage, without those already returned."""
        good, bad = 0, len(self._full_chunk)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                for _ in _pieces(self._before.member, self._full_chunk[:middle]):
                    pass
                good = middle
            except zlib.error:
                bad = middle
        skip = self._returned - self._before.returned
        for piece in _pieces(self._before.member, self._full_chunk[:good]):
            yield piece[skip:]
            skip = max(0, skip - len(piece))


def _pieces(member: _Decompress | None, chunk: bytes) -> Iterator[bytes]:
    """Decompressed pieces of a chunk, from the state `member` on, which is copied."""
    member = member and member.copy()
    while chunk:
        if member is None:
            chunk = chunk.lstrip(b"\0")
            if not chunk:
                return
            member = zlib.decompressobj(wbits=31)
        yield member.decompress(chunk, _PIECE)
        chunk, member = (member.unused_data, None) if member.eof else (member.unconsumed_tail, member)
