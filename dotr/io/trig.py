"""TriG: the file is cut into statements, each of which pyoxigraph reads; a broken one costs no more than its graph (`dotr.io.quads`).

Idea: a scanner that knows only what a statement's end can hide in (IRIs, strings, comments, names, braces) cuts the text into directives,
blocks and triples. Recovery: a broken statement ends where it would end if it were none; a block that a second `{` says was never closed
ends before the line of that brace; long quotes that are never closed end with their line.
Invariant: prefixes are those declared before a statement, also when reading starts in the middle: the file is cut up to there then,
once in a process.
Cost: about 10 µs a line.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO, Final

from pyoxigraph import RdfFormat, parse

from dotr.io.lines import DAMAGED, STANDARD_INPUT, open_lines
from dotr.io.quads import Statement, assemble, quad_parts, statement
from dotr.io.records import InputFile, Position, Record
from dotr.languages.turtle.graphs import Header, reason

_BOM: Final = b"\xef\xbb\xbf"
_TOKEN: Final = re.compile(
    rb"(?P<skip>[ \t\r\n\f]+|#[^\r\n]*)"
    rb"|(?P<iri><[^\x00-\x20<>\"{}|^`]*>)"
    rb"|(?P<long>\"\"\"|''')"
    rb"|\"(?:[^\"\\\r\n]|\\.)*\"|'(?:[^'\\\r\n]|\\.)*'"
    rb"|\{\||\|\}"
    rb"|(?P<open>\{)|(?P<close>\})"
    rb"|(?P<number>[+-]?\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    rb"|(?P<dot>\.)"
    rb"|(?P<word>(?:[^\s<>\"'{}()\[\];,#\\|]|\\.)+)"
    rb"|.",
    re.DOTALL,
)
_LONG_END: Final = {
    b'"""': re.compile(rb'(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL),
    b"'''": re.compile(rb"(?:[^'\\]|\\.|'(?!''))*'''", re.DOTALL),
}


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """The records from a position on; their elements too, if asked for."""
    declared = _declared(spec.path)
    reader = _Reader(declared, position.offset)
    if declared.until < position.offset:
        with open_lines(spec.path, Position(declared.until, 1)) as earlier:
            for cut in _cut(earlier, Position(declared.until, 1)):
                if cut.offset >= position.offset:
                    break
                if cut.directive:
                    reader.read(cut)
        declared.pass_by(position.offset)
    return assemble(filter(None, map(reader.read, _cut(lines, position))), spec.unit, elements)


class _Declared:
    """The declarations of a file, as far as this process has cut it: what holds from which offset on."""

    __slots__ = ("_states", "until")

    def __init__(self) -> None:
        self.until = 0
        self._states: list[tuple[int, dict[str, str], str]] = [(0, {}, "")]

    def at(self, offset: int) -> tuple[dict[str, str], str]:
        """The prefixes and the base at an offset, as far as is known."""
        _, prefixes, base = self._states[bisect_right(self._states, offset, key=lambda state: state[0]) - 1]
        return prefixes, base

    def note(self, end: int, prefixes: dict[str, str], base: str) -> None:
        """These hold behind a statement."""
        if end > self.until and (prefixes, base) != self._states[-1][1:]:
            self._states.append((end, prefixes, base))

    def pass_by(self, end: int) -> None:
        """What ends here was cut."""
        if end > self.until:
            self.until = end


def _declared(path: str) -> _Declared:
    if path == STANDARD_INPUT:
        return _Declared()
    status = os.stat(path)
    return _remembered(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(256)
def _remembered(path: str, *version: int) -> _Declared:
    return _Declared()


class _Cut:
    """A statement as the scanner saw it."""

    __slots__ = ("directive", "end", "line", "offset", "raw", "why")

    def __init__(self, offset: int, line: int, raw: bytes, directive: bool, why: str = "") -> None:
        self.offset = offset
        self.end = offset + len(raw)
        self.line = line
        self.raw = raw
        self.directive = directive
        self.why = why


class _Reader:
    """Reads statements one after the other, with the prefixes declared so far."""

    def __init__(self, declared: _Declared, offset: int) -> None:
        self._declared = declared
        self._prefixes, self._base = declared.at(offset)
        self._before = Header(self._prefixes, self._base).before

    def read(self, cut: _Cut) -> Statement | None:
        """The statement; None where it says nothing of a graph."""
        try:
            return self._read(cut)
        finally:
            self._declared.pass_by(cut.end)

    def _read(self, cut: _Cut) -> Statement | None:
        why = cut.why
        if not why:
            try:
                parser = parse(self._before(cut.raw.decode()), RdfFormat.TRIG)
                quads = [quad_parts(quad) for quad in parser]
                if cut.directive:
                    self._prefixes = self._prefixes | parser.prefixes
                    self._base = parser.base_iri or self._base
                    self._before = Header(self._prefixes, self._base).before
                    self._declared.note(cut.end, self._prefixes, self._base)
                return statement(cut.offset, cut.end, cut.line, cut.raw, quads) if quads else None
            except SyntaxError as error:
                why = reason(error)
            except UnicodeDecodeError as error:
                why = f"it is not UTF-8 (byte {error.start})"
        return Statement(cut.offset, cut.end, cut.line, cut.raw, None, why=why)


def _cut(lines: BinaryIO, position: Position) -> Iterator[_Cut]:
    """The statements of a text, in order."""
    scanner = _Scanner(position)
    waiting: deque[bytes] = deque()
    try:
        while True:
            raw = waiting.popleft() if waiting else lines.readline()
            if raw:
                yield from scanner.line(raw)
            elif scanner.long is not None:  # never closed: go on behind the line where it was opened
                waiting.extend(scanner.give_up())
                if scanner.cut is not None:
                    yield scanner.cut
            else:
                yield from scanner.rest()
                return
    except DAMAGED as error:
        yield from scanner.rest()
        yield _Cut(scanner.offset, scanner.number, b"", False, f"the file cannot be read from here on: {error}")


class _Scanner:
    """Where the scanning of a text stands: `offset` and `number` are those of the next line."""

    def __init__(self, position: Position) -> None:
        self.offset, self.number = position
        self.long: bytes | None = None
        self.cut: _Cut | None = None
        self._opened = 0  # which of the taken lines opened the long quotes
        self._reset()

    def _reset(self) -> None:
        self._taken: list[bytes] = []
        self._at = (0, 0)
        self._depth = 0
        self._kind = b""

    def line(self, raw: bytes) -> Iterator[_Cut]:
        """The statements that end in the next line."""
        start, number = self.offset, self.number
        self.offset += len(raw)
        self.number += 1
        at = len(_BOM) if start == 0 and raw.startswith(_BOM) else 0
        begin = at  # of the statement in this line
        while at < len(raw):
            if self.long is not None:
                closed = _LONG_END[self.long].match(raw, at)
                if closed is None:
                    break
                self.long, at = None, closed.end()
                continue
            found = _TOKEN.match(raw, at)
            assert found is not None
            kind, token, at = found.lastgroup, found[0], found.end()
            if kind == "skip":
                continue
            if not self._kind:
                self._kind, begin = token.lower(), found.start()
                self._at = (start + begin, number)
            over = False
            if kind == "long":
                self.long, self._opened = token, len(self._taken)
            elif kind == "open":
                if self._depth and self._taken:
                    yield self._ended(b"", "a block begins inside of it: is a } missing before?")
                    at = begin = 0
                    continue
                self._depth = 1
            elif kind == "close":
                over = True
            elif not self._depth:
                if kind == "iri":
                    over = self._kind in (b"prefix", b"base")
                else:
                    over = kind == "dot" or (kind == "word" and token.endswith(b".") and not token.endswith(b"\\."))
            if over:
                if self._kind == b"." and not self._taken:  # as some write behind a block
                    self._reset()
                else:
                    yield self._ended(raw[begin:at])
                begin = at
        if self._kind:
            self._taken.append(raw[begin:])

    def _ended(self, last: bytes, why: str = "") -> _Cut:
        offset, number = self._at
        cut = _Cut(offset, number, b"".join([*self._taken, last]), self._kind in (b"prefix", b"base", b"@prefix", b"@base"), why)
        self._reset()
        return cut

    def rest(self) -> Iterator[_Cut]:
        """What is left at the end."""
        if self._kind:
            yield self._ended(b"", "it is not finished at the end of the file")

    def give_up(self) -> list[bytes]:
        """Ends a statement with the line where its long quotes were opened; returns the lines behind it, to be scanned again."""
        again = self._taken[self._opened + 1 :]
        del self._taken[self._opened + 1 :]
        self.offset -= sum(map(len, again))
        self.number -= len(again)
        self.long = None
        self.cut = self._ended(b"", "its long quotes are never closed")
        return again
