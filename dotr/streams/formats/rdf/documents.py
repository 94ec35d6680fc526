"""RDF text of one message: Turtle, N-Triples, TriG or N-Quads, parsed as a whole.

A scan parses a message too, unless it has the transport's time. The depth of brackets is checked
before the text is parsed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Final

from pyoxigraph import QuadParser, RdfFormat, parse

from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.streams.formats.rdf.cuts import message_cuts
from dotr.streams.formats.rdf.messages import GraphReader, MessageText
from dotr.streams.records import START, Format, InputFile, Message, Record
from dotr.syntax.lexemes import COMMENT
from dotr.syntax.turtle.graphs import PrefixHeader, error_location, parser_message, too_long_error
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_nesting

RDF_TEXT: Final[Mapping[Format, RdfFormat]] = {
    Format.TURTLE: RdfFormat.TURTLE,
    Format.NTRIPLES: RdfFormat.N_TRIPLES,
    Format.TRIG: RdfFormat.TRIG,
    Format.NQUADS: RdfFormat.N_QUADS,
}
"""The parser of each format."""

LINE_FORMATS: Final = (Format.NTRIPLES, Format.NQUADS)
"""Formats with one statement a line, and no prefixes."""

_BOM: Final = "\ufeff"
_SPACE: Final = rf"(?>(?:[ \t\r\n\f]++|{COMMENT})*)"
_LABEL: Final = r"""(?:"([^"\\\r\n]*)"|'([^'\\\r\n]*)')"""
_VERSION: Final = re.compile(rf"(?:{_BOM})?{_SPACE}(?:(?i:VERSION)|@version){_SPACE}{_LABEL}".encode())
_VERSION_LINE: Final = re.compile(rf"^[ \t]*VERSION[ \t]*{_LABEL}", re.MULTILINE)
_MESSAGES: Final = b"-messages"
_DECLARES: Final = re.compile(rb"(?i)prefix|base")


def is_message_log(start: bytes) -> bool:
    """True if a text begins with a VERSION label of RDF Messages; after comments, if any.

    >>> is_message_log(b'# a log\\nVERSION "1.2-messages"\\n'), is_message_log(b'@version "1.2" .'), is_message_log(b"MESSAGE")
    (True, False, False)
    """
    found = _VERSION.match(start)
    return found is not None and (found[1] or found[2] or b"").endswith(_MESSAGES)


class DocumentReader:
    """Reader of the records of consecutive RDF texts.

    `in_log`: the texts are messages of a log, in which `prefixes` and `base` apply to all later
    texts; otherwise the texts are independent.
    """

    def __init__(self, spec: InputFile, prefixes: Mapping[str, str] | None = None, base: str = "", *, in_log: bool = False) -> None:
        quads = spec.format in (Format.TRIG, Format.NQUADS)
        self.prefixes = dict(prefixes or {})
        self.base = base
        self._lines = spec.format in LINE_FORMATS
        self._header = PrefixHeader(self.prefixes, base) if in_log and not self._lines else None
        self._records = GraphReader(spec, datasets=quads, empty_graphs=quads).records
        self._format = RDF_TEXT[spec.format]
        self._nesting = spec.nesting

    def declare(self, text: MessageText) -> None:
        """Add the declarations of a text whose records are skipped."""
        if self._header is not None and _DECLARES.search(text.raw):
            self.records(text, elements=False)

    def records(self, text: MessageText, elements: bool, sent: Micros | None = None) -> list[Record]:
        """Records of a text; a single unreadable one where it cannot be parsed."""
        skipped = 0
        parser: QuadParser | None = None
        try:
            if len(text.raw) > self._nesting:
                check_nesting(text.raw, self._nesting)
            document = text.raw.decode().removeprefix(_BOM)
            if self._lines:
                document = _VERSION_LINE.sub("", document) if "VERSION" in document else document
            elif self._header is not None:
                content, document = document, self._header.prepend_to(document)
                skipped = len(document) - len(content)
            parser = parse(document, self._format)
            return self._records(parser, text, elements, sent)
        except SyntaxError as error:
            return [text.unreadable(parser_message(error) + error_location(error, skipped, text.first_line))]
        except UnicodeDecodeError as error:
            return [text.unreadable(f"it is not UTF-8 (byte {error.start})")]
        except MemoryError:
            return [text.unreadable(str(too_long_error()), reason=Reason.LIMIT)]
        except TextLimitExceeded as error:
            return [text.unreadable(str(error), reason=Reason.LIMIT)]
        except ValueError as error:
            return [text.unreadable(str(error))]
        finally:
            if self._header is not None and parser is not None and _DECLARES.search(text.raw):
                self.prefixes |= parser.prefixes
                self.base = parser.base_iri or self.base
                self._header.declare(parser.prefixes, self.base)


def document_decoder(spec: InputFile) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one RDF text each; a text that is a log must have one message."""
    records, clock = DocumentReader(spec).records, spec.graphs.sent_time
    one_per_line = spec.format in LINE_FORMATS

    def decode(message: Message, elements: bool) -> list[Record]:
        sent = None if clock is None else message.time_by(clock)
        body = message.body
        text = MessageText(message.place, message.place + 1, message.place, body)
        if sent is not None and not elements:
            return [text.record(sent, None)]
        if _MESSAGES in body and is_message_log(body):
            cuts = list(message_cuts(io.BytesIO(body), START, len(body), one_per_line=one_per_line))
            if cuts and cuts[-1].last and len(cuts) > 1 and records(text._replace(raw=cuts[-1].raw), False)[0].reason is Reason.EMPTY:
                cuts.pop()
            if len(cuts) > 1 or cuts[0].why:
                return [text.unreadable(cuts[0].why or f"it holds {len(cuts):,} RDF messages, and a message of a broker is one")]
            text = text._replace(raw=cuts[0].raw)
        return records(text, elements, sent)

    return decode
