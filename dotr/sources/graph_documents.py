"""RDF text of one message: Turtle, N-Triples, TriG or N-Quads, parsed as a whole.

Invariant: a message is unreadable in a scan exactly if it is unreadable when read, so a scan parses
it too. The depth of brackets is counted before the parser sees the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pyoxigraph import QuadParser, RdfFormat, parse

from dotr.languages.turtle.graphs import PrefixHeader, error_location, parser_message, too_long_error
from dotr.languages.turtle.nesting import TextLimitExceeded, check_nesting
from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.sources.graph_messages import GraphReader, MessageText
from dotr.sources.records import Format, InputFile, Message, Record

RDF_TEXT: Final[Mapping[Format, RdfFormat]] = {
    Format.TURTLE: RdfFormat.TURTLE,
    Format.NTRIPLES: RdfFormat.N_TRIPLES,
    Format.TRIG: RdfFormat.TRIG,
    Format.NQUADS: RdfFormat.N_QUADS,
}
"""The parser of each format."""

LINE_FORMATS: Final = (Format.NTRIPLES, Format.NQUADS)
"""Formats with a statement a line, without prefixes."""

_BOM: Final = "\ufeff"
_SPACE: Final = r"(?:[ \t\r\n\f]++|#[^\r\n]*+)*+"
_LABEL: Final = r"""(?:"([^"\\\r\n]*)"|'([^'\\\r\n]*)')"""
_VERSION: Final = re.compile(rf"(?:{_BOM})?{_SPACE}(?:(?i:VERSION)|@version){_SPACE}{_LABEL}".encode())
_VERSION_LINE: Final = re.compile(rf"^[ \t]*VERSION[ \t]*{_LABEL}", re.MULTILINE)
_MESSAGES: Final = b"-messages"
_DECLARES: Final = re.compile(rb"(?i)prefix|base")


def is_message_log(start: bytes) -> bool:
    """True if a text begins with a VERSION label of RDF Messages; comments may stand before it.

    >>> is_message_log(b'# a log\\nVERSION "1.2-messages"\\n'), is_message_log(b'@version "1.2" .'), is_message_log(b"MESSAGE")
    (True, False, False)
    """
    found = _VERSION.match(start)
    return found is not None and (found[1] or found[2] or b"").endswith(_MESSAGES)


class DocumentReader:
    """Reader of the records of one RDF text after the other.

    In a message log, prefixes and base go on from text to text: `header` has those declared so far.
    """

    def __init__(self, spec: InputFile, header: PrefixHeader | None = None) -> None:
        quads = spec.format in (Format.TRIG, Format.NQUADS)
        self.header = header
        self._records = GraphReader(spec, datasets=quads, empty_graphs=quads).records
        self._format = RDF_TEXT[spec.format]
        self._lines = spec.format in LINE_FORMATS
        self._nesting = spec.nesting

    def records(self, text: MessageText, elements: bool, sent: Micros | None = None) -> list[Record]:
        """Records of a text: a single unreadable one where it cannot be read."""
        skipped = 0
        parser: QuadParser | None = None
        try:
            if len(text.raw) > self._nesting:
                check_nesting(text.raw, self._nesting)
            document = text.raw.decode().removeprefix(_BOM)
            if self._lines:
                document = _VERSION_LINE.sub("", document) if "VERSION" in document else document
            elif self.header is not None:
                content, document = document, self.header.prepend_to(document)
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
            if self.header is not None and parser is not None and _DECLARES.search(text.raw):
                self.header.declare(parser.prefixes, parser.base_iri or "")


def document_decoder(spec: InputFile) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one RDF text each."""
    records, clock = DocumentReader(spec).records, spec.graphs.sent_time

    def decode(message: Message, elements: bool) -> list[Record]:
        sent = None if clock is None else message.time_by(clock)
        return records(MessageText(message.place, message.place + 1, message.place, message.body), elements, sent)

    return decode
