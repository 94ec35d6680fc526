"""Readers of files of RDF messages.

A Turtle or N-Triples file is one message. A file of any RDF text that begins with a VERSION label
of RDF Messages is a log of messages.

Invariant: a message has the prefixes and the base declared before it. A reader that starts in the
middle of a log cuts it from the last indexed start of a message before that position. Record n of
the message at offset m has the offset m + n, which is inside the message.
Cost: that of the parser, and of the cuts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import lru_cache
from io import BufferedReader
from itertools import chain
from typing import BinaryIO, Final, NamedTuple

from pyoxigraph import RdfFormat, parse

from dotr.model.stream import Reason
from dotr.streams.formats.lines import (
    BOM,
    DAMAGED,
    LINE_END,
    STANDARD_INPUT,
    bounded_lines,
    damage,
    damage_reason,
    file_version,
    open_lines,
    rest_behind_delimiter,
    skip_line,
)
from dotr.streams.formats.rdf import trig
from dotr.streams.formats.rdf.cuts import DELIMITER_LINE, message_cuts
from dotr.streams.formats.rdf.documents import LINE_FORMATS, DocumentReader, is_message_log
from dotr.streams.formats.rdf.messages import MessageText
from dotr.streams.formats.rdf.quads import Statement, assemble, quad_parts, statement
from dotr.streams.formats.rdf.times import ElementTime
from dotr.streams.records import SHOWN, START, InputFile, Position, Record, beginning, limit_reason
from dotr.syntax.turtle.graphs import error_location, parser_message, too_long_error
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_nesting

# N-Quads reader: a line is a statement, and a broken line costs at most its graph
# (`dotr.streams.formats.rdf.quads`).


def nquads_records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records from a position on; `elements`: with their elements."""
    rest: list[Record] = []
    return chain(assemble(_statements(lines, spec, position, rest), spec, elements), rest)


def _statements(lines: BinaryIO, spec: InputFile, position: Position, rest: list[Record]) -> Iterator[Statement]:
    """Statements of a text; the record from a delimiter of messages on is appended to `rest`."""
    end, line = position.offset, position.line - 1
    limit, nesting, inside = spec.record, spec.nesting, ElementTime(spec).written
    try:
        for raw in bounded_lines(lines, limit):
            offset, end = end, end + len(raw)
            line += 1
            if raw[-1] != LINE_END:
                if len(raw) > limit:
                    passed, last = skip_line(lines)
                    end += passed
                    yield Statement(offset, end, line, beginning(raw, limit), None, why=limit_reason(limit), reason=Reason.LIMIT, last=last)
                    continue
                if broken := damage(lines):
                    yield Statement(offset, end, line, raw, None, why=damage_reason(broken))
                    return
            try:
                if raw.count(b"<<") > nesting:
                    check_nesting(raw, nesting)
                quads = [quad_parts(quad) for quad in parse(raw if offset else raw.removeprefix(BOM), RdfFormat.N_QUADS)]
            except SyntaxError as error:
                if DELIMITER_LINE.match(raw):
                    rest.append(rest_behind_delimiter(lines, offset, line, raw, end))
                    return
                yield Statement(offset, end, line, raw, None, why=parser_message(error) + error_location(error, line=line))
            except MemoryError:
                yield Statement(offset, end, line, raw, None, why=str(too_long_error()), reason=Reason.LIMIT)
            except TextLimitExceeded as error:
                yield Statement(offset, end, line, raw, None, why=str(error), reason=Reason.LIMIT)
            else:
                if quads:
                    yield statement(offset, end, line, raw, quads, inside=inside)
        if broken := damage(lines):
            raise broken
    except DAMAGED as error:
        yield Statement(end, end, line + 1, b"", None, why=damage_reason(error))


def graph_of(raw: bytes) -> str | None:
    """Graph of the first readable statement in the complete lines of a text; None without one."""
    for line in raw.splitlines()[:-1]:
        try:
            quads = [quad_parts(quad) for quad in parse(line, RdfFormat.N_QUADS)]
        except SyntaxError:
            continue
        if quads and (graph := statement(0, 0, 0, line, quads).graph) is not None:
            return graph
    return None


_INDEX_BYTES: Final = 1 << 20


def graph_file_records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records of a Turtle or N-Triples file from a position on; `elements`: with their elements."""
    if _is_log(lines, spec):
        return _log_records(lines, spec, position, elements)
    return _whole_file(lines, spec, elements) if position.offset == 0 else iter(())


def trig_file_records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records of a TriG file, or of a log in TriG."""
    return (_log_records if _is_log(lines, spec) else trig.records)(lines, spec, position, elements)


def nquads_file_records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records of an N-Quads file, or of a log in N-Quads."""
    return (_log_records if _is_log(lines, spec) else nquads_records)(lines, spec, position, elements)


def _is_log(lines: BinaryIO, spec: InputFile) -> bool:
    if spec.path == STANDARD_INPUT:
        assert isinstance(lines, BufferedReader)
        return is_message_log(lines.peek(SHOWN))
    return _log_of(spec.path).is_log


def _whole_file(lines: BinaryIO, spec: InputFile, elements: bool) -> Iterator[Record]:
    """The record of a file that is one message."""
    limit = spec.record
    raw, size, broken = b"", 0, None
    try:
        while piece := lines.read(SHOWN if size > limit else limit + 1 - size):
            size += len(piece)
            raw = raw + piece if len(raw) <= limit else raw
        broken = damage(lines)
    except DAMAGED as error:
        broken = error
    text = MessageText(0, size, 1, raw)
    if size > limit:
        yield text._replace(raw=beginning(raw, limit)).unreadable(limit_reason(limit), reason=Reason.LIMIT)
    elif broken is not None:
        yield text.unreadable(damage_reason(broken))
    else:
        yield from with_offsets(DocumentReader(spec).records(text, elements), text)


def with_offsets(records: list[Record], text: MessageText) -> Iterator[Record]:
    """The records of a message in a file, with distinct offsets inside the message: m, m + 1, …"""
    if len(records) == 1:
        yield records[0]
        return
    last = len(records) - 1
    for number, record in enumerate(records):
        start = text.offset + number
        yield record._replace(offset=start, end=text.end if number == last else start + 1)


class _MessageStart(NamedTuple):
    """The start of a message, with the prefixes and the base declared before it."""

    position: Position
    prefixes: Mapping[str, str]
    base: str


class _Log:
    """The known structure of a file: if it is a log, with a sparse index of starts of messages."""

    def __init__(self, is_log: bool) -> None:
        self.is_log = is_log
        self._starts = [_MessageStart(START, {}, "")]

    def before(self, offset: int) -> _MessageStart:
        """The last indexed start at or before an offset."""
        return self._starts[bisect_right(self._starts, offset, key=lambda each: each.position.offset) - 1]

    def add(self, position: Position, reader: DocumentReader) -> None:
        """Index the start of a message, unless the last one is less than 1 MiB before it."""
        if position.offset > self._starts[-1].position.offset + _INDEX_BYTES:
            self._starts.append(_MessageStart(position, dict(reader.prefixes), reader.base))


def is_log(file: InputFile) -> bool:
    """True if a file begins with a label of RDF Messages."""
    return _log_of(file.path).is_log


def _log_of(path: str) -> _Log:
    return _known_log(path, *file_version(path))


@lru_cache(256)
def _known_log(path: str, *version: int | str) -> _Log:
    with closing(open_lines(path, START)) as lines:
        try:
            return _Log(is_message_log(lines.read(SHOWN)))
        except DAMAGED:  # the reader reports the damage
            return _Log(is_log=False)


def _log_records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records of a log from a position on, which may be inside a message."""
    if spec.path == STANDARD_INPUT:
        yield from _records(lines, spec, START, _Log(is_log=True), 0, elements)
        return
    log = _log_of(spec.path)
    if position.offset == 0:
        yield from _records(lines, spec, position, log, 0, elements)
        return
    start = log.before(position.offset)
    with closing(open_lines(spec.path, start.position, size=spec.size)) as earlier:
        yield from _records(earlier, spec, start.position, log, position.offset, elements)


def _records(lines: BinaryIO, spec: InputFile, position: Position, log: _Log, first: int, elements: bool) -> Iterator[Record]:
    """Records from the start of a message on, without those before the offset `first`."""
    start = log.before(position.offset)
    reader = DocumentReader(spec, start.prefixes, start.base, in_log=True)
    for cut in message_cuts(lines, position, spec.record, one_per_line=spec.format in LINE_FORMATS):
        text = MessageText(cut.offset, cut.end, cut.line, cut.raw, cut.line)
        log.add(Position(cut.offset, cut.line), reader)
        if cut.end <= first:
            reader.declare(text)
            continue
        if cut.why:
            reader.declare(text)
            yield text.unreadable(cut.why, reason=cut.reason)
            continue
        records = reader.records(text, elements)
        if cut.last and records[0].reason is Reason.EMPTY:  # a delimiter at the end makes no message
            return
        for record in with_offsets(records, text):
            if record.offset >= first:
                yield record
