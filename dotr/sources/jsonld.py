"""JSON-LD documents: a message each."""

from __future__ import annotations

from collections.abc import Callable

from pyoxigraph import RdfFormat, parse

from dotr.languages.turtle.graphs import parser_message
from dotr.languages.turtle.nesting import TextLimitExceeded, check_json_nesting
from dotr.model.stream import Reason
from dotr.sources.graph_messages import GraphReader, MessageText
from dotr.sources.records import InputFile, Message, Record


def document_decoder(spec: InputFile) -> Callable[[Message, bool], list[Record]]:
    """Decoder of messages of one document each."""
    clock, records = spec.graphs.sent_time, GraphReader(spec, datasets=True).records

    def decode(message: Message, elements: bool) -> list[Record]:
        sent = None if clock is None else message.time_by(clock)
        text = MessageText(message.place, message.place + 1, message.place, message.body)
        try:
            check_json_nesting(text.raw, spec.nesting)
            return records(parse(text.raw, RdfFormat.JSON_LD), text, elements, sent)
        except TextLimitExceeded as error:
            return [text.unreadable(str(error), reason=Reason.LIMIT)]
        except SyntaxError as error:
            return [text.unreadable(parser_message(error))]
        except ValueError as error:
            return [text.unreadable(str(error))]

    return decode
