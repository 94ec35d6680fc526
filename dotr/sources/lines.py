"""Files as streams of lines of bytes, plain or compressed, from any position on."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import BinaryIO, Final

from dotr.errors.diagnostics import refuse
from dotr.model.places import Span
from dotr.sources.gzip_bytes import MAGIC, GzipBytes
from dotr.sources.records import SHOWN, Position, Record

STANDARD_INPUT: Final = "-"
"""The path of standard input: it can be read once, from its beginning on."""

DAMAGED: Final = (OSError, EOFError)
"""What reading a file can raise once it is open."""

LINE_END: Final = ord("\n")

_BUFFER: Final = 1 << 16


def open_lines(path: str, position: Position, place: Span | None = None) -> BinaryIO:
    """The file's bytes from a position on, decompressed where they are gzip; raises `Refused` where it cannot be read.

    A plain file is entered at its offset; a compressed one is read and skipped up to it. `STANDARD_INPUT` is read from where it is.
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


def bounded(lines: BinaryIO, limit: int) -> Iterator[bytes]:
    """The lines of a file, each with its line end. One without is the last, or the beginning of one with more bytes than the limit beside
    its line end: `pass_line` passes its rest."""
    return iter(partial(lines.readline, limit + 1), b"")


def pass_line(lines: BinaryIO) -> tuple[int, bytes]:
    """Read on behind a line's end: how many bytes were passed, and the last of them, as many as are shown of a record."""
    passed, last = 0, b""
    while piece := lines.readline(SHOWN):
        passed += len(piece)
        last = (last + piece)[-SHOWN:]
        if piece.endswith(b"\n"):
            break
    return passed, last


def damage(lines: BinaryIO) -> OSError | EOFError | None:
    """Why a file that has come to its end did so too early; None where it did not."""
    raw = getattr(lines, "raw", None)
    return raw.error if isinstance(raw, GzipBytes) else None


def why_damaged(error: Exception) -> str:
    """The reason of what stands behind a damage."""
    return f"the file cannot be read from here on: {error}"


def damaged(offset: int, line: int, error: Exception, raw: bytes = b"") -> Record:
    """The record of a file that cannot be read any further; `raw` is what could be read of its last line."""
    return Record(offset, offset + len(raw), line, None, None, raw, why_damaged(error))


class StandardBytes(io.RawIOBase):
    """Standard input, of which some may be looked at before it is read."""

    def __init__(self) -> None:
        self.held = b""

    def readable(self) -> bool:
        return True

    def more(self) -> bool:
        """Hold what comes next, too; False: nothing comes any more."""
        come = os.read(0, _BUFFER)
        self.held += come
        return bool(come)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.held[: len(buffer)] if self.held else os.read(0, len(buffer))
        self.held = self.held[len(data) :] if self.held else b""
        buffer[: len(data)] = data
        return len(data)


@lru_cache(maxsize=1)
def standard_bytes() -> StandardBytes:
    """The one standard input of this process."""
    return StandardBytes()
