"""TriG reader: the file is cut into statements for pyoxigraph; a broken one costs at most its graph
(`dotr.streams.formats.rdf.quads`).

Idea: a scanner of the tokens that can contain the end mark of a statement (IRIs, strings, comments,
names, braces) cuts the text into directives, blocks and triples. Recovery: a broken statement ends
where it would end if it were valid; an unclosed block, detected at a second `{`, ends before the
line of that brace; unclosed long quotes end with their line.
Invariant: a statement has the prefixes declared before it. A reader that starts in the middle scans
the file up to there, once in a process.
Cost: about 10 µs a line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import BinaryIO, Final

from pyoxigraph import RdfFormat, parse

from dotr.model.stream import Reason
from dotr.streams.formats.lines import (
    BOM,
    DAMAGED,
    LINE_END,
    STANDARD_INPUT,
    damage,
    damage_reason,
    file_version,
    open_lines,
    rest_behind_delimiter,
    skip_line,
)
from dotr.streams.formats.rdf.cuts import TextCut
from dotr.streams.formats.rdf.quads import Statement, assemble, quad_parts, statement
from dotr.streams.formats.rdf.times import ElementTime
from dotr.streams.records import InputFile, Position, Record, beginning, limit_reason
from dotr.syntax.lexemes import COMMENT, DOUBLE, IRI, LONG, OPEN_IRI, SINGLE, STRING
from dotr.syntax.turtle.graphs import PrefixHeader, error_location, parser_message, too_long_error
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_nesting

_NAME: Final = r"[^\s<>\"'{}()\[\];,#\\|]"
_TOKEN: Final = re.compile(
    (
        rf"(?P<skip>[ \t\r\n\f]++|{COMMENT})|(?P<iri>{IRI})|(?P<long>\"\"\"|''')|{STRING}"
        r"|\{\||\|\}"
        r"|(?P<open>\{)|(?P<close>\})"
        r"|(?P<number>[+-]?\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
        r"|(?P<dot>\.)"
        rf"|(?P<message>(?:MESSAGE|@message(?<![\"']@message))(?!{_NAME}))"
        rf"|(?P<word>(?>(?:{_NAME}++|\\.)+))"
        r"|."
    ).encode(),
    re.DOTALL,
)
_LONG: Final = {quotes.encode(): re.compile(text.encode(), re.DOTALL) for quotes, text in LONG.items()}
"""Text in long quotes up to the closing quotes, or to the end of a line."""

_LONG_PIECE: Final = {
    b'"""': re.compile(rb'(?>(?:[^"\\]++|\\.|"(?!""|"?\Z))*)', re.DOTALL),
    b"'''": re.compile(rb"(?>(?:[^'\\]++|\\.|'(?!''|'?\Z))*)", re.DOTALL),
}
"""Text in long quotes in a piece of a line, up to a possible part of the closing quotes."""

_QUOTES: Final = (b'"', b"'", b"<")

_RUN: Final = re.compile(rf"(?:{OPEN_IRI}|\"{DOUBLE}|'{SINGLE})\\?".encode(), re.DOTALL)
"""Possible text of an unclosed IRI or string."""

_COMMENT: Final = re.compile(rb"[^\r\n]*+")
_PIECE: Final = 1 << 16


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records from a position on; `elements`: with their elements."""
    declared = _declared(spec.path)
    reader = _StatementReader(declared, position.offset, spec)
    if declared.until < position.offset:
        with open_lines(spec.path, Position(declared.until, 1)) as earlier:
            for cut in _cut(earlier, Position(declared.until, 1), spec.record, []):
                if cut.offset >= position.offset:
                    break
                if cut.directive:
                    reader.read(cut)
        declared.advance(position.offset)
    rest: list[Record] = []
    return chain(assemble(filter(None, map(reader.read, _cut(lines, position, spec.record, rest))), spec, elements), rest)


class _Declarations:
    """Declarations of a file up to the offset `until`, each with the offset of its end."""

    __slots__ = ("_log", "until")

    def __init__(self) -> None:
        self.until = 0
        self._log: list[tuple[int, dict[str, str], str]] = []

    def at(self, offset: int) -> tuple[dict[str, str], str]:
        """Prefixes and base at an offset, from the declarations up to `until`."""
        prefixes: dict[str, str] = {}
        base = ""
        for end, more, changed in self._log:
            if end > offset:
                break
            prefixes.update(more)
            base = changed or base
        return prefixes, base

    def add(self, end: int, prefixes: dict[str, str], base: str) -> None:
        """Add the declarations of the statement that ends at this offset."""
        if end > self.until:
            self._log.append((end, prefixes, base))

    def advance(self, end: int) -> None:
        """Record that the declarations up to this offset are complete."""
        if end > self.until:
            self.until = end


def _declared(path: str) -> _Declarations:
    if path == STANDARD_INPUT:
        return _Declarations()
    return _declarations_of(path, *file_version(path))


@lru_cache(256)
def _declarations_of(path: str, *version: int | str) -> _Declarations:
    return _Declarations()


class _StatementReader:
    """Parser of consecutive statements, with the prefixes declared so far."""

    def __init__(self, declared: _Declarations, offset: int, spec: InputFile) -> None:
        self._declared = declared
        self._nesting = spec.nesting
        self._inside = ElementTime(spec).written
        self._header = PrefixHeader(*declared.at(offset))

    def read(self, cut: TextCut) -> Statement | None:
        """Parse a statement; None for a statement without quads."""
        try:
            return self._read(cut)
        finally:
            self._declared.advance(cut.end)

    def _read(self, cut: TextCut) -> Statement | None:
        why, failed = cut.why, cut.reason
        if not why:
            skipped = 0
            try:
                if len(cut.raw) > self._nesting:
                    check_nesting(cut.raw, self._nesting)
                text = cut.raw.decode()
                document = self._header.prepend_to(text)
                skipped = len(document) - len(text)
                parser = parse(document, RdfFormat.TRIG)
                quads = [quad_parts(quad) for quad in parser]
                if cut.directive:
                    self._header.declare(parser.prefixes, parser.base_iri or "")
                    self._declared.add(cut.end, parser.prefixes, parser.base_iri or "")
                return statement(cut.offset, cut.end, cut.line, cut.raw, quads, inside=self._inside) if quads else None
            except SyntaxError as error:
                why = parser_message(error) + error_location(error, skipped, cut.line)
            except UnicodeDecodeError as error:
                why = f"it is not UTF-8 (byte {error.start})"
            except MemoryError:
                why, failed = str(too_long_error()), Reason.LIMIT
            except TextLimitExceeded as error:
                why, failed = str(error), Reason.LIMIT
        return Statement(cut.offset, cut.end, cut.line, cut.raw, None, why=why, reason=failed)


def _cut(lines: BinaryIO, position: Position, limit: int, rest: list[Record]) -> Iterator[TextCut]:
    """Statements of a text, in order.

    At a delimiter of messages the text ends: the record from the statement with the delimiter on is
    appended to `rest`.
    """
    scanner = _Scanner(position, limit)
    waiting: deque[bytes] = deque()
    try:
        while True:
            if scanner.delimiter is not None:
                rest.append(rest_behind_delimiter(lines, *scanner.delimiter, b"".join(waiting)))
                return
            if waiting:
                yield from scanner.line(waiting.popleft())
                continue
            raw = lines.readline(limit + 1)
            if not raw:
                if broken := damage(lines):
                    raise broken
                if not scanner.quoting() or (scanner.dropped and not lines.seekable()):
                    yield from scanner.rest()
                    return
                if scanner.dropped:
                    yield scanner.end_at_quotes()
                    lines.seek(scanner.offset)
                else:
                    waiting.extend(scanner.lines_to_rescan())
                    yield scanner.end_at_quotes()
            elif raw[-1] == LINE_END:
                yield from scanner.line(raw)
            elif len(raw) > limit:
                yield from _long_line(scanner, raw, lines, limit)
            elif broken := damage(lines):
                yield from scanner.rest()
                yield TextCut(scanner.offset, scanner.offset + len(raw), scanner.number, raw, damage_reason(broken))
                return
            else:
                yield from scanner.line(raw)
    except DAMAGED as error:
        yield from scanner.rest()
        yield TextCut(scanner.offset, scanner.offset, scanner.number, b"", damage_reason(error))


def _long_line(scanner: _Scanner, raw: bytes, lines: BinaryIO, limit: int) -> Iterator[TextCut]:
    """Statements that end in a line beyond the limit of a record; a statement beyond the limit ends
    with the line.
    """
    more = True
    while raw:
        yield from scanner.line(raw, lengthy=True, more=more)
        if scanner.delimiter is not None:
            return
        if scanner.over or scanner.size + len(scanner.carry) > limit:
            yield scanner.end_long_line(skip_line(lines)[0] if more else 0, within=more or scanner.over)
            return
        if not more:
            return
        piece = lines.readline(max(_PIECE, len(scanner.carry)))
        more = bool(piece) and piece[-1] != LINE_END
        raw = scanner.carry + piece


class _Scanner:
    """State of the scan.

    - `offset`, `number`: of the next line, or of the next piece of a line.
    - `size`: bytes of the current statement; beyond the limit only its beginning is kept.
    - `dropped`: True if the lines behind the opening line of long quotes exceed the limit and are
      not kept; otherwise they are `lines_to_rescan` if the quotes are never closed.
    - `carry`: a line beyond the limit of a record is scanned in pieces; `carry` is the end of a
      piece, possibly an incomplete token.
    - `over`: True if a statement beyond the limit ends before `carry`.
    - `delimiter`: set where a delimiter of messages has ended the scan: offset and line of the
      statement with the delimiter, the text from there on, and the offset of the text's end.
    """

    def __init__(self, position: Position, limit: int) -> None:
        self.offset, self.number = position
        self.carry = b""
        self.over = False
        self.delimiter: tuple[int, int, bytes, int] | None = None
        self._commented = False  # the next piece of a line begins in a comment
        self._limit = limit
        self._reset()

    def _reset(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0
        self._at = (0, 0)
        self._depth = 0
        self._kind = b""
        self._close_quotes()

    def _close_quotes(self) -> None:
        self._long = b""
        self._behind: tuple[int, int, int, int] | None = None  # behind the opening line: offset, number, `size` and number of pieces
        self.dropped = False

    def quoting(self) -> bool:
        """True if the text ends within long quotes."""
        if self._long and self._behind is None:  # opened in a long line, which is the last one
            self._behind = self.offset, self.number, self.size, len(self._pieces)
        return bool(self._long)

    def line(self, raw: bytes, *, lengthy: bool = False, more: bool = False) -> Iterator[TextCut]:
        """Statements that end in the next line. `lengthy`: the line is a piece of a long one, and
        `more`: it is not the last piece.
        """
        start, number = self.offset, self.number
        self.carry = b""
        at = len(BOM) if start == 0 and raw.startswith(BOM) else 0
        begin = at  # of the current statement in this line
        if self._commented:
            passed = _COMMENT.match(raw)
            assert passed is not None
            at = passed.end()
            self._commented = more and at == len(raw)
        while at < len(raw):
            if self._long:
                inside = (_LONG_PIECE if more else _LONG)[self._long].match(raw, at)
                assert inside is not None
                at = inside.end()
                if not raw.startswith(self._long, at):
                    if more:
                        self.carry = raw[at:]
                    break
                at += 3
                self._close_quotes()
                continue
            found = _TOKEN.match(raw, at)
            assert found is not None
            kind, token = found.lastgroup, found[0]
            if lengthy and self._unfinished(raw, found, more):
                if kind == "skip":
                    self._commented = token.startswith(b"#")
                else:
                    self.carry = raw[at:]
                break
            place, at = at, found.end()
            if kind == "skip":
                continue
            if not self._kind:
                self._kind, begin = token.lower(), place
                self._at = (start + begin, number)
            over = False
            if kind == "long":
                self._long = token
            elif kind == "open":
                if self._depth and self._at[1] < number:
                    yield self._end(start, "a block begins inside of it: is a } missing before?")
                    at = begin = 0
                    continue
                self._depth = 1
            elif kind == "close":
                over = True
            elif kind == "message":
                self.offset = start + len(raw)
                self.delimiter = *self._at, b"".join(self._pieces) + raw[begin:], self.offset
                self._reset()
                return
            elif not self._depth:
                if kind == "iri":
                    over = self._kind in (b"prefix", b"base")
                else:
                    over = kind == "dot" or (kind == "word" and token.endswith(b".") and not token.endswith(b"\\."))
            if over:
                if self._kind == b"." and not self._pieces:  # a stray dot behind a block is accepted
                    self._reset()
                else:
                    self._append(raw[begin:at])
                    if lengthy and self.size > self._limit:
                        self.over, self.carry, begin = True, raw[at:], at
                        break
                    yield self._end(start + at)
                begin = at
        end = len(raw) - len(self.carry)
        if self._kind:
            self._append(raw[begin:end])
        self.offset = start + end
        if not more and not self.over:
            self.number = number + 1
            if self._long and self._behind is None:
                self._behind = self.offset, self.number, self.size, len(self._pieces)

    def _unfinished(self, raw: bytes, found: re.Match[bytes], more: bool) -> bool:
        """True if a token may continue in the next piece of a long line, or exceeds the limit of a
        record.
        """
        end = found.end()
        if found[0] in _QUOTES:
            run = _RUN.match(raw, found.start())
            assert run is not None
            end = run.end()
            self.over = end - found.start() > self._limit
        return self.over or (more and end == len(raw))

    def _append(self, piece: bytes) -> None:
        """Add a line, or its part, to the current statement."""
        before, self.size = self.size, self.size + len(piece)
        if before > self._limit:
            self.dropped = self._behind is not None
            return
        self._pieces.append(piece)
        if self.size > self._limit:
            if self._behind is not None:
                del self._pieces[self._behind[3] :]
                self.dropped = True
            else:
                self._pieces = [beginning(b"".join(self._pieces), self._limit)]

    def _end(self, end: int, why: str = "") -> TextCut:
        offset, number = self._at
        raw, directive = b"".join(self._pieces), self._kind in (b"prefix", b"base", b"@prefix", b"@base")
        reason = Reason.UNREADABLE
        if self.size > self._limit:
            raw, why, reason = beginning(raw, self._limit), limit_reason(self._limit), Reason.LIMIT
        self._reset()
        return TextCut(offset, end, number, raw, why, reason, directive)

    def rest(self) -> Iterator[TextCut]:
        """Unfinished statement at the end of the file."""
        if self._kind:
            yield self._end(self.offset, "it is not finished at the end of the file")

    def end_long_line(self, passed: int, *, within: bool) -> TextCut:
        """End a statement beyond the limit with its line, `passed` bytes behind `carry`.

        `within`: the line was not scanned to its end.
        """
        if not self._kind:
            self._kind, self._at = b"...", (self.offset, self.number)
        self._append(self.carry)
        self.offset += len(self.carry) + passed
        self.number, self.carry, self.over, self._commented = self.number + within, b"", False, False
        return self._end(self.offset)

    def lines_to_rescan(self) -> list[bytes]:
        """Lines behind the one that opened the long quotes."""
        assert self._behind is not None
        return self._pieces[self._behind[3] :]

    def end_at_quotes(self) -> TextCut:
        """End a statement with the line that opened its long quotes; the following lines are to be
        scanned again.
        """
        assert self._behind is not None
        self.offset, self.number, self.size, taken = self._behind
        del self._pieces[taken:]
        return self._end(self.offset, "its long quotes are never closed")
