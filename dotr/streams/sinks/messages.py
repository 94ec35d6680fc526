"""Firings and dead letters as messages of a broker or server: each is one self-contained message.

The message of a firing has an ID, the same in every replay and in every output: its time in µs,
`-`, and its ordinal (`numbering`). Readers drop duplicates by the ID.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Label, Variable
from dotr.model.time import Micros
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.events import OutputTerms, dead_letter_line
from dotr.streams.sinks.files import encoded

T = TypeVar("T")

Headers: TypeAlias = list[tuple[str, str | bytes | None]]

_RDF: Final = (StreamFormat.TRIG, StreamFormat.NQUADS, StreamFormat.JSONLD, StreamFormat.JELLY)
_TEXT: Final = 1 << 16
"""Limit of the bytes of a message that its dead letter contains."""


NumberedFiring: TypeAlias = tuple[Firing, int]
"""A firing with its ordinal, the second part of its ID."""


def numbering(chosen: Container[Label] | None = None) -> Callable[[Iterable[Firing]], list[NumberedFiring]]:
    """A function that adds ordinals to the firings of an output; it takes all firings in the order
    of the output, in consecutive blocks.

    The ordinal of an event is its number among all events of its time, also those that the output
    leaves out. That of an element of an input is its number in its instant; events at its time are
    counted from behind the last element that the output has.

    Args:
        chosen: the labels and inputs that the output has; None: all.

    >>> late, fire = (Firing(12, "R", event, (), (), 0) for event in ("Late", "Fire"))
    >>> [ordinal for _, ordinal in numbering(["Fire"])([fire, late, fire])]
    [0, 2]
    >>> [ordinal for _, ordinal in numbering(["Fire", "in"])([Firing.of_element(12, "in", 4, ()), fire, late, fire])]
    [4, 5, 7]
    """
    last: Micros | None = None
    ordinal = 0

    def number(firings: Iterable[Firing]) -> list[NumberedFiring]:
        nonlocal last, ordinal
        numbered: list[NumberedFiring] = []
        for firing in firings:
            if firing[0] != last:
                last, ordinal = firing[0], 0
            if chosen is None or firing[2] in chosen:
                if not firing[1]:
                    ordinal = firing.number
                numbered.append((firing, ordinal))
            elif not firing[1]:
                continue
            ordinal += 1
        return numbered

    return number


class OutgoingMessage(NamedTuple):
    """Message to be sent.

    - `body`: the bytes; `headers`: names and values.
    - `key`: the key; None without one.
    - `ordinal`: that of its ID (`numbering`), or the number among the dead letters of a batch.
    - `time`: the time of the event in µs since 1970; None where there is none.
    """

    body: bytes
    headers: Headers
    key: bytes | None
    ordinal: int
    time: Micros | None


Encoder: TypeAlias = Callable[[Sequence[T]], Iterator[OutgoingMessage]]
"""Function from a block of items to their messages, in order.

That of dead letters counts them over consecutive blocks, so each batch needs a new encoder."""


class MessageFormat(NamedTuple):
    """Format of the messages of firings; `key` is the attribute whose value is the key, or None."""

    form: StreamFormat
    terms: OutputTerms
    key: Variable | None = None

    @property
    def content_type(self) -> str:
        """The media type of a message."""
        return self.form.media_type


def event_encoder(format: MessageFormat) -> Encoder[NumberedFiring]:
    """A new encoder of firings. A firing without a graph has a message only in NDJSON.

    >>> from dotr.model.time import Clock
    >>> encode = event_encoder(MessageFormat(StreamFormat.CSV, OutputTerms(Clock(), ["room"], pipeline="fire 1"), "room"))
    >>> for message in encode(numbering()([Firing(12_000_000, "R", "Fire", (("room", '"A"'),), (), 0)] * 2)):
    ...     print(message.body, message.headers[0], message.key, message.ordinal)
    b'12,R,Fire,A' ('dotr-id', b'fire%201/12000000-0') b'"A"' 0
    b'12,R,Fire,A' ('dotr-id', b'fire%201/12000000-1') b'"A"' 1
    """
    write, key = format.terms.body_writer(format.form), format.key
    name = quote(format.terms.pipeline, safe="")
    fixed: Headers = [("content-type", format.content_type.encode())]
    if format.form in _RDF:
        fixed.append(("RDF-Message-Content-Type", format.content_type.encode()))

    def encode(firings: Sequence[NumberedFiring]) -> Iterator[OutgoingMessage]:
        shown = firings if format.form is StreamFormat.NDJSON else [each for each in firings if each[0].graph is not None]
        for (firing, ordinal), body in zip(shown, write([firing for firing, _ in shown]), strict=True):
            time = firing.time
            value = None if key is None else next((value for name, value in firing.attributes if name == key), None)
            headers = [("dotr-id", f"{name}/{time}-{ordinal}".encode()), ("dotr-time", b"%d" % time), *fixed]
            yield OutgoingMessage(body, headers, None if value is None else encoded(value), ordinal, time)

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
            yield OutgoingMessage(encoded(dead_letter_line(letter, terms.clock)), headers, None, number, letter.time)

    return encode


def too_long(message: OutgoingMessage, destination: str, most: int) -> DeadLetter:
    """The dead letter of a message beyond the limit of its destination (`most` bytes)."""
    text = message.body[:_TEXT].decode("utf-8", "replace")
    why = f"the message has {len(message.body):,} bytes, and {destination} takes {most:,}"
    return DeadLetter(Reason.LIMIT, destination, "", 0, message.time, text, why)
