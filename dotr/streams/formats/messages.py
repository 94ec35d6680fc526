"""Decoders of the messages of brokers and servers.

A message is the unit of a transport: a record of a Kafka topic, an MQTT publication, the body of a
request. Its records have its place as their offset and line.
Invariant: a scan gives the same records with the same `judged_time` as a full reading.
Cost: about 1 µs a message, without the parser's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never, cast

from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.streams.formats.json import lines as ndjson
from dotr.streams.formats.json import records as json_records
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import CONTENT_TYPES, SHOWN, Format, InputFile, LaterModule, Message, Record, beginning, limit_reason

if TYPE_CHECKING:
    from dotr.streams.formats.csv import rows as csv_rows
    from dotr.streams.formats.csv import text
    from dotr.streams.formats.rdf import documents as graph_documents
    from dotr.streams.formats.rdf import jelly, jsonld, messages
else:
    csv_rows, text, graph_documents, jelly, jsonld, messages = (
        LaterModule(f"dotr.streams.formats.{name}")
        for name in ("csv.rows", "csv.text", "rdf.documents", "rdf.jelly", "rdf.jsonld", "rdf.messages")
    )

__all__ = ["Message", "MessageDecoder", "item_decoder", "message_decoder"]

MessageDecoder: TypeAlias = Callable[[Message, bool], list[Record]]
"""`decode(message, elements)`: the records of a message, with their elements if `elements`. All
have the place of the message as offset and line."""

ItemDecoder: TypeAlias = Callable[[Message, bool], Iterable[Record]]
"""A decoder whose records of a long message are made when they are requested."""

_LONG: Final = 1 << 12
"""Length (bytes) of a message that may have many items."""

_ANY_CONTENT: Final = ("application/octet-stream", "text/plain")
"""Media types of any format."""

_CONTENT_HEADERS: Final = ("rdf-message-content-type", "content-type")


def message_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> MessageDecoder:
    """The decoder of messages in the format of an input, whose path is not used.

    It is called with the messages in their order. Where the format allows it, only graphs of
    messages that pass `time_filter` are parsed. An element more than `spec.ahead` after its
    message's own timestamp is an unreadable record, whose time does not count for lateness.

    >>> decode = message_decoder(InputFile("a", "", Format.NDJSON))
    >>> decode(Message(b'{"time": 1, "graph": "<http://e/a> a <http://e/B> ."}', 7), False)[0][:4]
    (7, 8, 7, 1000000)
    >>> decode(Message(b"{}", 8, headers=(("content-type", b"text/turtle"),)), False)[0].why
    'its content-type, text/turtle, does not fit the format ndjson'
    """
    return cast(MessageDecoder, _message_decoder(spec, time_filter, list))


def item_decoder(spec: InputFile, time_filter: TimeFilter = EVERY_TIME) -> ItemDecoder:
    """A `message_decoder` whose records of a long JSON message are made one by one, when they are
    requested, so that other inputs are read in between."""
    return _message_decoder(spec, time_filter, iter if spec.format is Format.JSON else list)


def _message_decoder(spec: InputFile, time_filter: TimeFilter, collect: Callable[[Iterable[Record]], Iterable[Record]]) -> ItemDecoder:
    bound = spec.ahead  # an element that is ahead must not advance the filter's greatest time
    read, limit = _decoder(spec, time_filter if bound is None else EVERY_TIME), spec.record
    clock = spec.graphs.sent_time if spec.map is None else spec.map.sent_time

    def decode_timed(message: Message, elements: bool) -> Iterable[Record]:
        """The records, with the transport's time where one cannot be read."""
        records = decode(message, elements)
        if clock is not None and (not isinstance(records, list) or any(each.judged_time is None for each in records)):
            with suppress(ValueError):  # the transport has no time either
                sent = message.time_by(clock)
                return collect(each._replace(stamp=sent) if each.judged_time is None else each for each in records)
        return records

    def decode(message: Message, elements: bool) -> Iterable[Record]:
        body, place = message.body, message.place
        if len(body) > limit:
            return [Record(place, place + 1, place, None, None, beginning(body, limit), limit_reason(limit), reason=Reason.LIMIT)]
        if message.why:
            return [Record(place, place + 1, place, None, None, beginning(body, SHOWN), message.why, reason=message.reason)]
        if not body:
            return [messages.MessageText(place, place + 1, place, body).empty()]
        try:
            for name, value in message.headers:
                if name.lower() in _CONTENT_HEADERS:
                    check_content_type(name, value, spec.format)
            if len(body) <= _LONG:
                return list(read(message, elements))
            records = collect(read(message, elements))
            if len(body) > SHOWN:
                return collect(each if each.time is not None else each._replace(raw=beginning(each.raw, SHOWN)) for each in records)
            return records
        except ValueError as error:
            why = str(error)
        except Refused as refused:  # the header of a CSV message
            why = refused.diagnostics[0].message
        return [messages.MessageText(place, place + 1, place, body).unreadable(why)]

    def decode_bounded(message: Message, elements: bool) -> Iterable[Record]:
        """The records, without those that are ahead."""
        records, sent = decode_timed(message, elements), message.sent
        if sent is None or bound is None:
            return records
        ahead = sent + bound
        return collect(_ahead(each, sent, bound) if (time := each.judged_time) is not None and time > ahead else each for each in records)

    return decode_timed if bound is None else decode_bounded


def _ahead(record: Record, sent: Micros, bound: Micros) -> Record:
    """A record whose time is too long after the timestamp of its message, which becomes
    unreadable."""
    from dotr.evaluation.expressions.values.times import iso  # a planner without dead letters needs no expressions

    time = record.judged_time
    assert time is not None
    why = f"its time is {(time - sent) / 1_000_000:,.15g} s after the timestamp of its message, {iso(sent)}, "
    why += f"more than its input's ahead of {bound / 1_000_000:,.15g} s"
    return record._replace(time=None, element=None, raw=beginning(record.raw, SHOWN), why=why, stamp=time, reason=Reason.AHEAD)


def _decoder(spec: InputFile, time_filter: TimeFilter) -> Callable[[Message, bool], Iterable[Record]]:
    """The decoder of a format; it raises ValueError or `Refused` for an unreadable message."""
    match spec.format:
        case Format.NDJSON:
            return ndjson.line_decoder(spec, time_filter)
        case Format.JSON:
            return json_records.object_decoder(spec, time_filter)
        case Format.TEXT:
            return text.value_decoder(spec, time_filter)
        case Format.CSV:
            return csv_rows.row_decoder(spec, time_filter)
        case Format.TURTLE | Format.NTRIPLES | Format.TRIG | Format.NQUADS:
            return graph_documents.document_decoder(spec)
        case Format.JSONLD:
            return jsonld.document_decoder(spec)
        case Format.JELLY:
            return jelly.frame_decoder(spec)
        case Format.PARQUET | Format.RECORDING:
            raise ValueError(f"{spec.format.value} is read from files alone")
        case _:
            assert_never(spec.format)


def is_any_content(content_type: str) -> bool:
    """True if a content type may be that of any format, or is empty.

    >>> [is_any_content(text) for text in ("", "Text/Plain; charset=utf-8", "text/turtle")]
    [True, True, False]
    """
    return content_type.partition(";")[0].strip().lower() in ("", *_ANY_CONTENT)


@lru_cache(256)
def check_content_type(header: str, value: bytes, form: Format) -> None:
    """Raise ValueError where the value of a header is the media type of another format.

    >>> check_content_type("content-type", b"Application/TriG; version=1.2-messages", Format.TRIG)
    >>> check_content_type("content-type", b"text/turtle", Format.JSON)
    Traceback (most recent call last):
    ValueError: its content-type, text/turtle, does not fit the format json
    """
    content_type = value.decode("utf-8", "replace")
    written = content_type.partition(";")[0].strip()
    media_type, known = written.lower(), CONTENT_TYPES[form]
    if media_type not in known and not is_any_content(content_type):
        if "+json" in known and media_type.endswith("+json"):
            return
        raise ValueError(f"its {header}, {written[:100]}, does not fit the format {form.value}")
