"""Files as streams of lines of bytes, plain or compressed, from any position on."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import BinaryIO, Final

from dotr.errors.diagnostics import refuse
from dotr.model.places import Span
from dotr.streams.formats.gzip_bytes import MAGIC, GzipBytes
from dotr.streams.records import SHOWN, Position, Record, beginning

STANDARD_INPUT: Final = "-"
"""Path of standard input, which can be read only once, from its beginning."""

DAMAGED: Final = (OSError, EOFError)
"""Errors of reading an open file."""

LINE_END: Final = ord("\n")

_BUFFER: Final = 1 << 16


def open_lines(path: str, position: Position, place: Span | None = None) -> BinaryIO:
    """Open a file as bytes from a position on, decompressed if gzip; raises `Refused` (I101) where
    it cannot be read.

    A plain file is opened at its offset; a compressed file is decompressed up to the offset.
    `STANDARD_INPUT` starts at its current position. The caller closes the file.
    """
    if path == STANDARD_INPUT:
        waiting = io.BufferedReader(standard_bytes(), _BUFFER)
        return io.BufferedReader(GzipBytes(waiting), _BUFFER) if waiting.peek(2)[:2] == MAGIC else waiting
    try:
        file: BinaryIO = open(path, "rb", _BUFFER)  # noqa: SIM115 (the reader closes it)
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
    return file


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


def damage(lines: BinaryIO) -> OSError | EOFError | None:
    """The error that has ended a compressed file early, or None."""
    raw = getattr(lines, "raw", None)
    return raw.error if isinstance(raw, GzipBytes) else None


def damage_reason(error: Exception) -> str:
    """Reason of the record in the place of the damaged part of a file."""
    return f"the file cannot be read from here on: {error}"


def damaged(offset: int, line: int, error: Exception, raw: bytes = b"") -> Record:
    """Record of a file that cannot be read further; `raw` is the readable part of the last line."""
    return Record(offset, offset + len(raw), line, None, None, raw, damage_reason(error))


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

    def readable(self) -> bool:
        return True

    def read_ahead(self) -> bool:
        """Read ahead into the buffer; False at the end of the input."""
        data = os.read(0, _BUFFER)
        self.buffered += data
        return bool(data)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.buffered[: len(buffer)] if self.buffered else os.read(0, len(buffer))
        self.buffered = self.buffered[len(data) :] if self.buffered else b""
        buffer[: len(data)] = data
        return len(data)


@lru_cache(maxsize=1)
def standard_bytes() -> StandardBytes:
    """Standard input of this process, a single object."""
    return StandardBytes()
