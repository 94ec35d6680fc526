"""RDF text of one message: Turtle, N-Triples, TriG or N-Quads, parsed as a whole.

Invariant: a message is unreadable in a scan exactly if it is unreadable when read, so a scan parses
it too. The depth of brackets is counted before the parser sees the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyoxigraph import QuadParser, RdfFormat, parse

from dotr.languages.turtle.graphs import PrefixHeader, error_location, parser_message, too_long_error
from dotr.languages.turtle.nesting import TextLimitExceeded, check_nesting
from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.sources.graph_messages import EMPTY_MESSAGE, MessageText, graph_records
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


@dataclass
class DocumentReader:
    """Reader of the records of one RDF text after the other, with prefixes and base declared before.

    Texts of Turtle and TriG add to the declarations, of which `added` calls the last ones, where
    there were any.
    """

    spec: InputFile
    header: PrefixHeader = field(default_factory=lambda: PrefixHeader({}))
    added: tuple[Mapping[str, str], str] = field(default=({}, ""))

    def __post_init__(self) -> None:
        self._format = RDF_TEXT[self.spec.format]
        self._lines = self.spec.format in LINE_FORMATS
        self._quads = self.spec.format in (Format.TRIG, Format.NQUADS)

    def records(self, text: MessageText, elements: bool, sent: Micros | None = None) -> list[Record]:
        """Records of a text, of one unreadable record where it cannot be read."""
        spec = self.spec
        skipped = 0
        parser: QuadParser | None = None
        self.added = {}, ""
        try:
            if len(text.raw) > spec.nesting:
                check_nesting(text.raw, spec.nesting)
            content = text.raw.decode().removeprefix(_BOM)
            if self._lines:
                document = _VERSION_LINE.sub("", content) if "VERSION" in content else content
            else:
                document = self.header.prepend_to(content)
                skipped = len(document) - len(content)
            parser = parse(document, self._format)
            if elements or sent is None:
                return graph_records(parser, text, spec.graphs, spec.unit, elements, sent, empty_graphs=self._quads)
            count = 0
            for count, _ in enumerate(parser, 1):  # noqa: B007 (the whole text is to be readable)
                pass
            return [text.record(sent, None) if count else text.unreadable(EMPTY_MESSAGE, reason=Reason.EMPTY)]
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
            if parser is not None and not self._lines and _DECLARES.search(text.raw):
                self.added = parser.prefixes, parser.base_iri or ""


def document_decoder(spec: InputFile) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one RDF text each."""
    records, clock = DocumentReader(spec).records, spec.graphs.sent_time

    def decode(message: Message, elements: bool) -> list[Record]:
        sent = None if clock is None else message.time_by(clock)
        return records(MessageText(message.place, message.place + 1, message.place, message.body), elements, sent)

    return decode
