"""Messages of brokers and servers, and their elements.

A message is what a transport hands over at once: a record of a Kafka topic, an MQTT publication,
the body of a request. Its records have its place as their offset.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from dotr.model.time import Micros
from dotr.sources import ndjson
from dotr.sources.records import START, InputFile, Record


class Message(NamedTuple):
    """Bytes that a transport hands over, with what the transport says of them.

    - `body`: the bytes.
    - `place`: the number of the message in its input: the offset of Kafka, the ordinal in a spool.
    - `timestamp`: the transport's time in µs since 1970 (Kafka: the record's); None without one.
    - `received`: the time in µs since 1970 at which the message was spooled; None if it was not.
    - `key`, `headers`: as the transport has them.
    - `topic`, `partition`: the source.
    """

    body: bytes
    place: int
    timestamp: Micros | None = None
    received: Micros | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    topic: str = ""
    partition: int = 0


MessageDecoder: TypeAlias = Callable[[Message, bool], list[Record]]
"""`decode(message, elements)`: the records of a message, `elements` with their elements. All have
the place of the message as offset and line."""


def message_decoder(spec: InputFile) -> MessageDecoder:
    """The decoder of messages in the format of an input.

    >>> from dotr.sources.records import Format
    >>> decode = message_decoder(InputFile("a", "", Format.NDJSON))
    >>> decode(Message(b'{"time": 1, "graph": "<http://e/a> a <http://e/B> ."}', 7), False)[0][:4]
    (7, 8, 7, 1000000)
    """

    def decode(message: Message, elements: bool) -> list[Record]:
        place = message.place
        records = ndjson.records(io.BytesIO(message.body), spec, START, elements)
        return [record._replace(offset=place, end=place + 1, line=place) for record in records]

    return decode
