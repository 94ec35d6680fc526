"""Files of RDF messages: Turtle and N-Triples files are a message each, and a file of any RDF text
that begins with a VERSION label of RDF Messages is a log of messages.

Invariant: a message has the prefixes and the base declared before it. A reader that starts in the
middle cuts the log from the last message that this process has noted before. Record n of the
message at an offset has that offset plus n, which is inside the message.
Cost: that of the parser, and of the cuts.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import lru_cache
from io import BufferedReader
from typing import BinaryIO, Final, NamedTuple

from dotr.errors.diagnostics import refuse
from dotr.model.places import Span
from dotr.model.stream import Reason
from dotr.sources import nquads, trig
from dotr.sources.graph_documents import LINE_FORMATS, DocumentReader, is_message_log
from dotr.sources.graph_messages import MessageText
from dotr.sources.lines import DAMAGED, STANDARD_INPUT, damage, damage_reason, open_lines
from dotr.sources.message_cuts import message_cuts
from dotr.sources.records import SHOWN, START, InputFile, Position, Record, beginning, limit_reason

_NOTED_BYTES: Final = 1 << 20


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
    return (_log_records if _is_log(lines, spec) else nquads.records)(lines, spec, position, elements)


def check_is_log(file: InputFile, place: Span | None) -> None:
    """Raise `Refused` where a TriG or N-Quads file with a predicate of times is no log: its times are
    those of its graphs.
    """
    if file.path != STANDARD_INPUT and not _log_of(file.path).found:
        hint = "Leave time out: in such a file each graph has its prov:generatedAtTime beside it."
        raise refuse("C204", f"time belongs to logs of RDF messages, and {file.path} is none", place, hint)


def _is_log(lines: BinaryIO, spec: InputFile) -> bool:
    if spec.path == STANDARD_INPUT:
        assert isinstance(lines, BufferedReader)
        return is_message_log(lines.peek(SHOWN))
    return _log_of(spec.path).found


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
        yield from spread(DocumentReader(spec).records(text, elements), text)


def spread(records: list[Record], text: MessageText) -> Iterator[Record]:
    """The records of a message in a file, each with an offset of its own inside the message."""
    if len(records) == 1:
        yield records[0]
        return
    last = len(records) - 1
    for number, record in enumerate(records):
        start = text.offset + number
        yield record._replace(offset=start, end=text.end if number == last else start + 1)


class _Noted(NamedTuple):
    """The start of a message, and what has been declared before it."""

    position: Position
    prefixes: Mapping[str, str]
    base: str


class _Log:
    """A file as far as this process has cut it: whether it is a log, and starts of messages."""

    def __init__(self, found: bool) -> None:
        self.found = found
        self._noted = [_Noted(START, {}, "")]

    def before(self, offset: int) -> _Noted:
        """The last noted start at or before an offset."""
        return self._noted[bisect_right(self._noted, offset, key=lambda noted: noted.position.offset) - 1]

    def note(self, position: Position, reader: DocumentReader) -> None:
        """Note the start of a message, a while after the last one noted."""
        if position.offset > self._noted[-1].position.offset + _NOTED_BYTES:
            self._noted.append(_Noted(position, dict(reader.prefixes), reader.base))


def is_log(file: InputFile) -> bool:
    """True if a file begins with a label of RDF Messages."""
    return _log_of(file.path).found


def _log_of(path: str) -> _Log:
    status = os.stat(path)
    return _known_log(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(256)
def _known_log(path: str, *version: int) -> _Log:
    with closing(open_lines(path, START)) as start:
        try:
            return _Log(is_message_log(start.read(SHOWN)))
        except DAMAGED:  # told by the reader
            return _Log(found=False)


def _log_records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records of a log from a position on, which may be inside of a message."""
    if spec.path == STANDARD_INPUT:
        yield from _records(lines, spec, START, _Log(found=True), 0, elements)
        return
    log = _log_of(spec.path)
    if position.offset == 0:
        yield from _records(lines, spec, position, log, 0, elements)
        return
    noted = log.before(position.offset)
    with closing(open_lines(spec.path, noted.position)) as earlier:
        yield from _records(earlier, spec, noted.position, log, position.offset, elements)


def _records(lines: BinaryIO, spec: InputFile, position: Position, log: _Log, first: int, elements: bool) -> Iterator[Record]:
    """Records from the start of a message on, those before the offset `first` left out."""
    noted = log.before(position.offset)
    reader = DocumentReader(spec, noted.prefixes, noted.base, in_log=True)
    for cut in message_cuts(lines, position, spec.record, a_line_each=spec.format in LINE_FORMATS):
        text = MessageText(cut.offset, cut.end, cut.line, cut.raw, cut.line)
        log.note(Position(cut.offset, cut.line), reader)
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
        for record in spread(records, text):
            if record.offset >= first:
                yield record
