"""JSON-LD documents: each is a message; a file is one document, or has one a line.

Invariant: a document is unreadable in a scan exactly if it is unreadable in a full reading, so a
scan parses it too. The depth of brackets is checked and contexts are inlined before parsing:
nothing is ever fetched (`dotr.syntax.turtle.jsonld`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import BinaryIO, Final

from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.streams.formats.json.cuts import JsonCut, line_cuts, whole_cut
from dotr.streams.formats.json.records import reason_text
from dotr.streams.formats.lines import BOM, DAMAGED, STANDARD_INPUT, bounded_lines, damage, damaged, open_lines
from dotr.streams.formats.rdf.logs import with_offsets
from dotr.streams.formats.rdf.messages import GraphReader, MessageText
from dotr.streams.records import START, InputFile, Message, Position, Record, beginning, limit_reason
from dotr.syntax.turtle.graphs import parser_message, too_long_error
from dotr.syntax.turtle.jsonld import context_inliner, parse_jsonld
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_json_nesting

_EMPTY_GRAPH: Final = re.compile(r'"@graph"\s*:\s*\[\s*\]')


def records(lines: BinaryIO, spec: InputFile, position: Position, elements: bool) -> Iterator[Record]:
    """Records from a position on; `elements`: with their elements."""
    cuts: Callable[..., Iterator[JsonCut]] = line_cuts
    if spec.path != STANDARD_INPUT:
        with closing(open_lines(spec.path, START)) as start:
            cuts = line_cuts if has_document_per_line(start, spec.record) else whole_cut
        if position.offset and _is_inside_a_document(spec.path, position):
            with closing(open_lines(spec.path, START, size=spec.size)) as again:
                yield from _records(again, spec, START, position.offset, cuts, elements)
            return
    yield from _records(lines, spec, position, position.offset, cuts, elements)


def _is_inside_a_document(path: str, position: Position) -> bool:
    """True if a position is that of a later element of a line's document, not of the line."""
    with closing(open_lines(path, Position(position.offset - 1, 1))) as before:
        try:
            return before.read(1) != b"\n"
        except DAMAGED:  # the reader reports the damage
            return False


def has_document_per_line(lines: BinaryIO, limit: int) -> bool:
    """True if each line is a document; False if the file is one document.

    The first line that is not empty decides: it is a document, or it is broken and the next line
    begins like a document.
    """
    filled = (text for raw in bounded_lines(lines, limit) if (text := raw.removeprefix(BOM).rstrip()))
    try:
        first = next(filled, b"{}")
        try:
            json.loads(first)
        except (ValueError, RecursionError):
            return first not in (b"{", b"[") and next(filled, b"{").startswith((b"{", b"["))
    except DAMAGED:  # the reader reports the damage
        pass
    return True


def _records(
    lines: BinaryIO, spec: InputFile, position: Position, first: int, cuts: Callable[..., Iterator[JsonCut]], elements: bool
) -> Iterator[Record]:
    """Records from the start of a document on, without those before the offset `first`."""
    reader = _JsonDocumentReader(spec)
    end, line = position
    try:
        for cut in cuts(lines, *position, spec.record):
            end, line = cut.end, cut.line + cut.raw.count(b"\n")
            if end <= first:
                continue
            if end == cut.offset + len(cut.raw) and not cut.raw.endswith((b"}", b"]", b"\n")) and (broken := damage(lines)):
                yield damaged(cut.offset, cut.line, broken, cut.raw)
                return
            text = MessageText(cut.offset, end, cut.line, cut.raw)
            if cut.too_long:
                yield text._replace(raw=beginning(cut.raw, spec.record)).unreadable(limit_reason(spec.record), reason=Reason.LIMIT)
                continue
            for record in with_offsets(reader.records(text, elements), text):
                if record.offset >= first:
                    yield record
        if broken := damage(lines):
            raise broken
    except DAMAGED as error:
        yield damaged(end, line, error)


class _JsonDocumentReader:
    """Reader of the records of consecutive documents."""

    def __init__(self, spec: InputFile) -> None:
        self._graphs = GraphReader(spec, datasets=True)
        self._empty_graphs = GraphReader(spec, datasets=True, empty_graphs=True)
        self._base = spec.graphs.base
        self._inlined = context_inliner(spec.graphs.contexts, spec.graphs.context, self._base)
        self._nesting = spec.nesting

    def records(self, text: MessageText, elements: bool, sent: Micros | None = None) -> list[Record]:
        """Records of a document; a single unreadable one where it cannot be parsed."""
        document = ""
        try:
            document = text.raw.decode().removeprefix(BOM.decode())
            check_json_nesting(document, self._nesting)
            reader = self._empty_graphs if _EMPTY_GRAPH.search(document) else self._graphs
            return reader.records(parse_jsonld(self._inlined(document), self._base), text, elements, sent)
        except TextLimitExceeded as error:
            return [text.unreadable(str(error), reason=Reason.LIMIT)]
        except MemoryError:
            return [text.unreadable(str(too_long_error()), reason=Reason.LIMIT)]
        except SyntaxError as error:
            return [text.unreadable(reason_of_document(document, error))]
        except AttributeError:  # the text cannot be encoded as UTF-8
            return [text.unreadable("it has half of a surrogate pair, which is no character")]
        except (ValueError, RecursionError) as error:
            return [text.unreadable(reason_text(error))]


def reason_of_document(document: str, error: SyntaxError) -> str:
    """Reason why the parser rejects a document.

    It is one of several where the context has several errors: the parser's order of terms is
    random.
    """
    try:
        json.loads(document)
    except (ValueError, RecursionError) as broken:
        return reason_text(broken)
    return parser_message(error)


def document_decoder(spec: InputFile) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one document each."""
    clock, records = spec.graphs.sent_time, _JsonDocumentReader(spec).records

    def decode(message: Message, elements: bool) -> list[Record]:
        sent = None if clock is None else message.time_by(clock)
        text = MessageText(message.place, message.place + 1, message.place, message.body)
        return [text.record(sent, None)] if sent is not None and not elements else records(text, elements, sent)

    return decode
