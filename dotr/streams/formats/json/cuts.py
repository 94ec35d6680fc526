"""Cuts of a JSON file into objects: some a line, or consecutive in a document or an array.

Idea: where the first line consists of complete objects, a cut is a line, and a broken object costs
only its line. Any other file is a document: objects, perhaps as items of arrays, over any number of
lines; brackets outside of strings are counted, as in a line with more bytes than an object may
have. Objects are bounded: only the beginning of a longer one is kept. A record separator (RFC 7464)
ends an object, broken or not.
Cost: a document takes one search for each bracket, about 0.2 µs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from dotr.streams.formats.lines import BOM, bounded_lines, skip_line

_CHUNK: Final = 1 << 16
_BETWEEN: Final = {b"{": re.compile(rb"[\s,\[\]\x1e]*"), b"[": re.compile(rb"[\s,\x1e]*")}
"""Separators of two objects, or two arrays."""

_INSIDE: Final = re.compile(rb'(?>(?:[^"{}\[\]\x1e]++|"(?>(?:[^"\\\x1e]++|\\[^\x1e])*)")*)(?>(?:"[^"\x1e]*+(?=\x1e))?)')
"""Text up to the next bracket outside of strings, a string without an end, or a record separator."""

_BLANK: Final = b" \t\r\n\x1e"


class JsonCut(NamedTuple):
    """A part of a file for one object: the bytes [offset, end), from line `line` on.

    `too_long`: it exceeds the limit, and `raw` is only its beginning.
    """

    offset: int
    end: int
    line: int
    raw: bytes
    too_long: bool = False


def has_object_per_line(lines: BinaryIO, limit: int, opening: bytes = b"{") -> bool:
    """True if the first line that is not empty begins and ends as objects do, or as arrays where
    `opening` is their bracket."""
    for raw in bounded_lines(lines, limit):
        text = raw.removeprefix(BOM).strip(_BLANK)
        if text:
            return text.startswith(opening) and text.endswith(b"}" if opening == b"{" else b"]")
    return True


class _RestOfLine:
    """A line with more bytes than the limit, of which `raw` was read, as a file."""

    def __init__(self, raw: bytes, lines: BinaryIO) -> None:
        self._raw, self._lines = raw, lines
        self.size = 0

    def read(self, most: int) -> bytes:
        """The next bytes; the line's end is the end of the file."""
        raw = self._raw
        self._raw = b"" if not raw or raw.endswith(b"\n") else self._lines.readline(most)
        self.size += len(raw)
        return raw


def line_cuts(lines: BinaryIO, offset: int, line: int, limit: int, *, objects: bool = False) -> Iterator[JsonCut]:
    r"""Cuts of lines that are not empty, from an offset and its line on; `limit` in bytes.

    `objects`: a line with more bytes than the limit that begins with an object is cut into its
    objects.

    >>> from io import BytesIO
    >>> [cut.raw for cut in line_cuts(BytesIO(b'{"a": 1}{"b": 2}\n{"d": 4}{"e": 55555555}\n'), 0, 1, 16, objects=True)]
    [b'{"a": 1}{"b": 2}\n', b'{"d": 4}', b'{"e": 55555555}']
    """
    end = offset
    for raw in bounded_lines(lines, limit):
        offset, end = end, end + len(raw)
        if not raw.endswith(b"\n") and len(raw) > limit:
            if objects and raw.removeprefix(BOM).lstrip(_BLANK).startswith(b"{"):
                rest = _RestOfLine(raw, lines)
                yield from document_cuts(rest, offset, line, limit)
                end = offset + rest.size
            else:
                end += skip_line(lines)[0]
                yield JsonCut(offset, end, line, raw, too_long=True)
        elif raw.strip(b" \t\r\n"):
            yield JsonCut(offset, end, line, raw)
        line += 1


def whole_cut(lines: BinaryIO, offset: int, line: int, limit: int) -> Iterator[JsonCut]:
    """The rest of a file as one cut; `raw` is its beginning where it is too long."""
    raw, size = b"", 0
    while piece := lines.read(_CHUNK):
        size += len(piece)
        raw = raw + piece if len(raw) <= limit else raw
    if size:
        yield JsonCut(offset, offset + size, line, raw, size > limit)


def document_cuts(lines: BinaryIO | _RestOfLine, offset: int, line: int, limit: int, opening: bytes = b"{") -> Iterator[JsonCut]:
    r"""Cuts around the objects of a document, or around its outermost arrays where `opening` is
    their bracket.

    >>> from io import BytesIO
    >>> [cut.raw for cut in document_cuts(BytesIO(b'[ {"a": "}"},\n{"b": [{}]}, 5, {"c":'), 0, 1, 100)]
    [b'{"a": "}"}', b'{"b": [{}]}', b'5, ', b'{"c":']
    >>> [cut.raw for cut in document_cuts(BytesIO(b'\x1e{"a": 1}\n\x1e{"b": \n\x1e{"c": 3}\n'), 0, 1, 100)]
    [b'{"a": 1}', b'{"b": \n', b'{"c": 3}']
    """
    buffer, base, ended = b"", offset, False

    def more() -> bool:
        nonlocal buffer, ended
        chunk = b"" if ended else lines.read(max(_CHUNK, len(buffer)))  # as much again: each byte is copied a few times
        ended = not chunk
        buffer += chunk
        return not ended

    while True:
        between = _BETWEEN[opening].match(buffer)
        assert between is not None
        if between.end() == len(buffer):
            line, base, buffer = line + buffer.count(b"\n"), base + len(buffer), b""
            if not more():
                return
            if base == 0:
                buffer, base = (buffer[3:], 3) if buffer.startswith(BOM) else (buffer, 0)
            continue
        skipped = between.end()
        line, base, buffer = line + buffer.count(b"\n", 0, skipped), base + skipped, buffer[skipped:]
        first, start = line, base
        if not buffer.startswith(opening):  # no object: up to the next one
            while (at := buffer.find(opening)) < 0 and len(buffer) <= limit and more():
                pass
            at = len(buffer) if at < 0 else at
            yield JsonCut(start, start + at, first, buffer[:at], too_long=at > limit)
            line, base, buffer = line + buffer.count(b"\n", 0, at), base + at, buffer[at:]
            continue
        at, depth, beginning = 0, 0, b""
        while True:
            inside = _INSIDE.match(buffer, at)
            assert inside is not None
            at = inside.end()
            mark = buffer[at : at + 1]
            if mark in (b"", b'"'):
                if len(beginning) + at > limit or len(buffer) > limit:  # keep only the beginning
                    beginning = beginning or buffer[: limit + 1]
                    line, base, buffer, at = line + buffer.count(b"\n", 0, at), base + at, buffer[at:], 0
                    if len(buffer) > limit:  # a string longer than the limit
                        line, base, buffer = line + buffer.count(b"\n", 0, len(buffer) - 1), base + len(buffer) - 1, b'"'
                if more():
                    continue
                at, depth = len(buffer), 0
            elif mark == b"\x1e":
                depth = 0
            else:
                at += 1
                depth += 1 if mark in b"{[" else -1
            if depth == 0:
                raw, end = beginning or buffer[:at], base + at
                too_long = bool(beginning) or len(raw) > limit
                yield JsonCut(start, end, first, raw, too_long)
                line, base, buffer = line + buffer.count(b"\n", 0, at), end, buffer[at:]
                break
