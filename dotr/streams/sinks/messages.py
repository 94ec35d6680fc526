"""Firings and dead letters as messages of a broker or server: each is one self-contained message.

The message of a firing has an ID, the same in every replay: its time in µs, `-`, and its ordinal
among the firings of that time in the order of the output. Readers drop duplicates by the ID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Variable
from dotr.model.time import Micros
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.events import OutputTerms, dead_letter_line

T = TypeVar("T")

Headers: TypeAlias = list[tuple[str, str | bytes | None]]

_CONTENT_TYPES: Final = {
    StreamFormat.NDJSON: "application/x-ndjson",
    StreamFormat.TRIG: "application/trig",
    StreamFormat.NQUADS: "application/n-quads",
    StreamFormat.CSV: "text/csv",
}
_RDF: Final = (StreamFormat.TRIG, StreamFormat.NQUADS)
_TEXT: Final = 1 << 16
"""Limit of the bytes of a message that its dead letter contains."""


class OutgoingMessage(NamedTuple):
    """Message to be sent.

    - `body`: the bytes; `headers`: names and values.
    - `key`: the key; None without one.
    - `ordinal`: the number among the firings of its time, or among the dead letters of a batch.
    - `time`: the time of the event in µs since 1970; None where there is none.
    """

    body: bytes
    headers: Headers
    key: bytes | None
    ordinal: int
    time: Micros | None


Encoder: TypeAlias = Callable[[Sequence[T]], Iterator[OutgoingMessage]]
"""Function from a block of items to their messages, in order.

It counts ordinals over consecutive blocks, so each batch needs a new encoder."""


class MessageFormat(NamedTuple):
    """Format of the messages of firings; `key` is the attribute whose value is the key, or None."""

    form: StreamFormat
    terms: OutputTerms
    key: Variable | None = None

    @property
    def content_type(self) -> str:
        """The media type of a message."""
        return _CONTENT_TYPES[self.form]


def event_encoder(format: MessageFormat) -> Encoder[Firing]:
    """A new encoder of firings. A firing without a graph has a message only in NDJSON.

    >>> from dotr.model.time import Clock
    >>> encode = event_encoder(MessageFormat(StreamFormat.CSV, OutputTerms(Clock(), ["room"], pipeline="fire 1"), "room"))
    >>> for message in encode([Firing(12_000_000, "R", "Fire", (("room", '"A"'),), (), 0)] * 2):
    ...     print(message.body, message.headers[0], message.key, message.ordinal)
    b'12,R,Fire,A' ('dotr-id', b'fire%201/12000000-0') b'"A"' 0
    b'12,R,Fire,A' ('dotr-id', b'fire%201/12000000-1') b'"A"' 1
    """
    write, key = format.terms.message_writer(format.form), format.key
    name = quote(format.terms.pipeline, safe="")
    fixed: Headers = [("content-type", format.content_type.encode())]
    if format.form in _RDF:
        fixed.append(("RDF-Message-Content-Type", format.content_type.encode()))
    last: Micros | None = None
    ordinal = 0

    def encode(firings: Sequence[Firing]) -> Iterator[OutgoingMessage]:
        nonlocal last, ordinal
        shown = firings if format.form is StreamFormat.NDJSON else [each for each in firings if each.graph is not None]
        texts = iter(write(shown))
        for firing in firings:
            time = firing.time
            ordinal = ordinal + 1 if time == last else 0
            last = time
            if firing.graph is None and format.form is not StreamFormat.NDJSON:
                continue
            text = next(texts)
            value = None if key is None else next((value for name, value in firing.attributes if name == key), None)
            headers = [("dotr-id", f"{name}/{time}-{ordinal}".encode()), ("dotr-time", b"%d" % time), *fixed]
            yield OutgoingMessage(_bytes(text), headers, None if value is None else _bytes(value), ordinal, time)

    return encode


def dead_letter_encoder(terms: OutputTerms) -> Encoder[DeadLetter]:
    """A new encoder of dead letters: each is a JSON object, without a key."""
    number = -1

    def encode(letters: Sequence[DeadLetter]) -> Iterator[OutgoingMessage]:
        nonlocal number
        for letter in letters:
            number += 1
            headers: Headers = [("content-type", b"application/json")]
            if letter.time is not None:
                headers.insert(0, ("dotr-time", b"%d" % letter.time))
            yield OutgoingMessage(_bytes(dead_letter_line(letter, terms.clock)), headers, None, number, letter.time)

    return encode


def too_long(message: OutgoingMessage, destination: str, most: int) -> DeadLetter:
    """The dead letter of a message beyond the limit of its destination (`most` bytes)."""
    text = message.body[:_TEXT].decode("utf-8", "replace")
    why = f"the message has {len(message.body):,} bytes, and {destination} takes {most:,}"
    return DeadLetter(Reason.LIMIT, destination, "", 0, message.time, text, why)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
