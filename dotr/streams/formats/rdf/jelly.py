"""Jelly: a frame is a message; a file has frames behind their lengths, a broker's message is one.

Idea: a frame becomes N-Quads (`dotr.streams.formats.rdf.jelly_frames`), whose elements are those of
a TriG message, or of a Turtle document in a stream of triples.
Invariant: tables of names span the frames of a file, so it is read from its start, whatever the
position, and nothing behind a broken frame is read.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import BinaryIO, Final, NamedTuple, cast

from pyoxigraph import RdfFormat, parse

from dotr.errors.diagnostics import refuse
from dotr.evaluation.limits import LIMITS
from dotr.model.places import Span
from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.streams.formats.lines import DAMAGED, STANDARD_INPUT, damage, damaged, open_lines
from dotr.streams.formats.rdf.logs import with_offsets
from dotr.streams.formats.rdf.messages import GraphReader, MessageText
from dotr.streams.records import SHOWN, START, InputFile, Message, Position, Record, beginning, limit_reason
from dotr.syntax.turtle.graphs import parser_message, too_long_error
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_nesting

_BEHIND: Final = "it is behind a frame that cannot be read, and its names may be defined there"
_CUT: Final = "the file ends within it"
_LONGEST_LENGTH: Final = 10
"""Bytes of a length."""

_ROW: Final = b"\x0a"
"""The tag of a row in a frame."""


def check_library(place: Span | None) -> None:
    """Check that frames can be read and written; raises `Refused` (C226) where pyjelly is missing."""
    try:
        import pyjelly  # noqa: F401
    except ImportError:
        why = "Jelly needs the Python package pyjelly, which is not installed"
        raise refuse("C226", why, place, "pip install 'dotr[jelly]'") from None


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records from a position on; `elements`: with their elements."""
    if not position.offset or spec.path == STANDARD_INPUT:
        yield from _records(lines, spec, 0, elements)
        return
    with closing(open_lines(spec.path, START, size=spec.size)) as again:
        yield from _records(again, spec, position.offset, elements)


def _records(lines: BinaryIO, spec: InputFile, first: int, elements: bool) -> Iterator[Record]:
    """Records of a file without those before the offset `first`."""
    decode = _FrameRecords(spec)
    end, number = 0, 0
    try:
        for frame in _frames(lines, spec.record):
            number += 1
            text = MessageText(end, end + frame.size, number, frame.raw)
            if frame.why is _CUT and (broken := damage(lines)):
                yield damaged(end, number, broken, frame.raw)
                return
            end = text.end
            found = [text.unreadable(frame.why, reason=frame.reason)] if frame.why else decode(text, elements)
            for record in with_offsets(found, text):
                if record.offset >= first:
                    yield record
            if frame.why or decode.is_broken:
                rest = beginning(lines.read(SHOWN), SHOWN)
                size = len(rest)
                while piece := lines.read(SHOWN):
                    size += len(piece)
                if size and end >= first:
                    yield MessageText(end, end + size, number + 1, rest).unreadable(_BEHIND)
                return
        if broken := damage(lines):
            raise broken
    except DAMAGED as error:
        yield damaged(end, number + 1, error)


class _Frame(NamedTuple):
    """A frame of a file: its bytes, their number with that of its length, and why it cannot be read."""

    raw: bytes
    size: int
    why: str = ""
    reason: Reason = Reason.UNREADABLE


def _frames(lines: BinaryIO, limit: int) -> Iterator[_Frame]:
    r"""The frames of a file, each behind its length, or the only one without.

    >>> list(_frames(io.BufferedReader(io.BytesIO(b"\0\x02ab\x05c")), 100))[2].why
    'the file ends within it'
    """
    if not _is_delimited(cast(io.BufferedReader, lines).peek(3)):
        raw = lines.read(limit + 1)
        yield _Frame(raw, len(raw)) if len(raw) <= limit else _Frame(raw, len(raw), limit_reason(limit), Reason.LIMIT)
        return
    while head := lines.read(1):
        while head[-1] & 0x80 and len(head) < _LONGEST_LENGTH and (byte := lines.read(1)):
            head += byte
        length = sum([(byte & 0x7F) << 7 * place for place, byte in enumerate(head)])
        if head[-1] & 0x80:
            yield _Frame(head, len(head), "its length is no number" if len(head) == _LONGEST_LENGTH else _CUT)
        elif length > limit:
            yield _Frame(head, len(head), limit_reason(limit), Reason.LIMIT)
        else:
            raw = lines.read(length)
            yield _Frame(raw, len(head) + len(raw), _CUT if len(raw) < length else "")


def _is_delimited(start: bytes) -> bool:
    r"""True if data begins with the length of a frame, False if with the tag of its first row.

    A frame begins with the byte 10. If its length is 10, too, the next byte is not the length of
    its row: its row begins there.

    >>> _is_delimited(b"\x2a\x0a\x28"), _is_delimited(b"\x0a\x28\x0a"), _is_delimited(b"\x0a\x0a\x08")
    (True, False, True)
    """
    return not start.startswith(_ROW) or (len(start) > 2 and start[1:2] == _ROW != start[2:3])


class _FrameRecords:
    """Reader of the records of consecutive frames."""

    def __init__(self, spec: InputFile) -> None:
        from dotr.streams.formats.rdf import jelly_frames  # pyjelly is loaded where an input is in Jelly

        self._decoder = jelly_frames.FrameDecoder(spec.record)
        self._broken = jelly_frames.BrokenFrame
        self._too_long = jelly_frames.FrameTooLong
        self._graph = GraphReader(spec)
        self._dataset = GraphReader(spec, datasets=True, empty_graphs=True)
        self._nesting = spec.nesting
        self.is_broken = False

    def __call__(self, text: MessageText, elements: bool, sent: Micros | None = None) -> list[Record]:
        """Records of a frame; a single unreadable one where it cannot be read."""
        try:
            statements = self._decoder.nquads(text.raw)
        except self._broken as error:
            self.is_broken = True
            return [text.unreadable(str(error), reason=Reason.LIMIT if isinstance(error, self._too_long) else Reason.UNREADABLE)]
        try:
            if statements.count("<<") > self._nesting:
                check_nesting(statements.encode(), self._nesting)
            reader = self._dataset if self._decoder.has_graphs else self._graph
            return reader.records(parse(statements, RdfFormat.N_QUADS), text, elements, sent)
        except SyntaxError as error:
            return [text.unreadable(f"its statement {error.lineno or 1} is no RDF: {parser_message(error)}")]
        except MemoryError:
            return [text.unreadable(str(too_long_error()), reason=Reason.LIMIT)]
        except TextLimitExceeded as error:
            return [text.unreadable(str(error), reason=Reason.LIMIT)]
        except ValueError as error:
            return [text.unreadable(str(error))]


def frame_decoder(spec: InputFile) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of a frame each, with its options; or of several frames behind their
    lengths, as a body may have."""
    clock = spec.graphs.sent_time

    def decode(message: Message, elements: bool) -> list[Record]:
        sent = None if clock is None else message.time_by(clock)
        place, body = message.place, message.body
        found: list[Record] = []
        records = _FrameRecords(spec)
        for frame in _frames(io.BufferedReader(io.BytesIO(body)), spec.record):
            text = MessageText(place, place + 1, place, body)
            if frame.why:
                return [*found, text.unreadable(frame.why, reason=frame.reason)]
            found += records(text._replace(raw=frame.raw), elements, sent)
            if records.is_broken:
                break
        return found

    return decode


def nquads_of(frames: BinaryIO) -> Iterator[str]:
    """The statements of each frame of a file that dotr has written; it ends at a broken one."""
    from dotr.streams.formats.rdf.jelly_frames import BrokenFrame, FrameDecoder

    decoder = FrameDecoder(LIMITS.record)
    with suppress(BrokenFrame):
        for frame in _frames(io.BufferedReader(cast(io.RawIOBase, frames)), LIMITS.record):
            if frame.why:
                return
            yield decoder.nquads(frame.raw)
