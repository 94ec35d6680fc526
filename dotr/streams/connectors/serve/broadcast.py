r"""Broadcast of a published stream to the clients of push.

Idea: a client is a number, that of the next element it takes. Elements on their way are kept once
for all clients, until each that has caught up has taken them; one that starts further back reads
the kept elements piece by piece, as its socket takes them. So none is taken twice and none is left
out, wherever the two meet.
Invariant: all before a client's `position` is with its socket, or not chosen. A client that loses
an element is closed. Everything happens in one event loop, and nothing waits for a client.
Bounds: a client that is `BEHIND` elements or bytes behind, and has as much left to take a second
later, is closed as slow; its connection holds 64 KiB and one piece. So one goes on that takes a
batch larger than the bound as fast as the machine allows.
Cost: one write for each client and turn of the loop; texts are made once for each format.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from dotr.model import dataclass
from dotr.model.terms import Label
from dotr.model.time import Micros
from dotr.streams.connectors.serve.elements import ElementFormat
from dotr.streams.connectors.serve.kept import KeptElement, KeptElements
from dotr.streams.sinks.batches import ServedCounts

BEHIND: Final = 1_000
"""Number of elements that a client may be behind."""

BEHIND_BYTES: Final = 4 << 20
"""Bytes that a client may be behind, of the lines of its elements; also of the texts that are kept."""

HIGH: Final = 64 << 10
"""Bytes in the buffer of a connection, beyond which it takes no further piece."""

HEARTBEAT: Final = 15.0
SLOW_SECONDS: Final = 1.0
_PIECE: Final = 64
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_SHORT: Final = 126
_LONG: Final = 1 << 16


class Kind(Enum):
    """The protocols of push."""

    EVENTS = "events"
    WEBSOCKET = "ws"
    CHUNKS = "stream"


class Ending(Enum):
    """Reasons for which a client is closed: the stream has ended, or what the client asked for; the
    run was stopped; or the client is slow."""

    END = "end"
    STOP = "stop"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Framing:
    """The form of elements on a connection. `chunked`: True for the chunks of HTTP 1.1."""

    kind: Kind
    form: ElementFormat
    chunked: bool = False

    def frame(self, id: str, text: bytes, *, first: bool = False) -> bytes:
        r"""An element with the text of its format; `first`: the first one of its connection.

        >>> Framing(Kind.EVENTS, ElementFormat.NQUADS).frame("12-0", b"<a> .\n<b> .\n")
        b'id: 12-0\ndata: <a> .\ndata: <b> .\n\n'
        >>> Framing(Kind.CHUNKS, ElementFormat.JSONLD, chunked=True).frame("12-0", b"{}")
        b'4\r\n,\n{}\r\n'
        """
        if self.kind is Kind.EVENTS:
            return self.chunk(event(text, id=id))
        if self.kind is Kind.WEBSOCKET:
            return _websocket_frame(0x81, text)
        match self.form:
            case ElementFormat.JSONLD:
                text = text if first else b",\n" + text
            case ElementFormat.TRIG | ElementFormat.NQUADS:  # a message of a log, and the delimiter that ends it
                text = text.rstrip(b"\n") + b"\nMESSAGE\n"
            case ElementFormat.NDJSON:
                text = text.rstrip(b"\n") + b"\n"
        return self.chunk(text)

    @property
    def opening(self) -> bytes:
        """The bytes before the first element."""
        log = b'VERSION "1.2-messages"\n'
        starts = {ElementFormat.JSONLD: b"[\n", ElementFormat.TRIG: log, ElementFormat.NQUADS: log}
        return self.chunk(starts.get(self.form, b"")) if self.kind is Kind.CHUNKS else b""

    def closing(self, ending: Ending, *, is_empty: bool) -> bytes | None:
        """The bytes that tell a client why its body ends; None where it is cut. `is_empty`: it had no
        element."""
        if self.kind is Kind.EVENTS:
            return b"" if ending is Ending.STOP else self.chunk(event(b"", name=ending.value))
        if ending is not Ending.END:
            return None
        return self.chunk((b"]\n" if is_empty else b"\n]\n") if self.form is ElementFormat.JSONLD else b"")

    @property
    def heartbeat(self) -> bytes:
        """The bytes that show a client that the connection lives."""
        return {Kind.EVENTS: self.chunk(b":\n\n"), Kind.WEBSOCKET: _websocket_frame(0x89, b""), Kind.CHUNKS: b""}[self.kind]

    def chunk(self, data: bytes) -> bytes:
        """Data of a body, as the connection has it."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.chunked and data else data


def event(data: bytes, *, id: str = "", name: str = "") -> bytes:
    r"""An event of SSE.

    >>> event(b"12-0", name="gap")
    b'event: gap\ndata: 12-0\n\n'
    """
    lines = [f"{field}: {value}".encode() for field, value in (("event", name), ("id", id)) if value]
    lines += [b"data: " + line for line in _LINE_END.split(data.rstrip(b"\n"))]
    return b"\n".join(lines) + b"\n\n"


def _websocket_frame(first: int, data: bytes) -> bytes:
    """A frame of RFC 6455, unmasked: `first` has FIN and the opcode.

    >>> _websocket_frame(0x81, b"a" * 300)[:5]
    b'\\x81~\\x01,a'
    """
    size = len(data)
    if size < _SHORT:
        return bytes((first, size)) + data
    return (bytes((first, 126)) + size.to_bytes(2, "big") if size < _LONG else bytes((first, 127)) + size.to_bytes(8, "big")) + data


class Chosen(NamedTuple):
    """The elements that a client asked for: of some labels (all: None), since a time, until a
    time."""

    labels: frozenset[Label] | None = None
    since: Micros | None = None
    until: Micros | None = None

    def has(self, element: KeptElement) -> bool:
        """True for a chosen element; `until` is not judged."""
        return (self.labels is None or element.label in self.labels) and (self.since is None or element.time >= self.since)


class Texts:
    """Texts of elements in their formats, of which the latest are kept."""

    def __init__(self, render: Callable[[KeptElement, ElementFormat], bytes]) -> None:
        self._render = render
        self._texts: OrderedDict[tuple[int, ElementFormat], bytes] = OrderedDict()
        self._size = 0

    def text(self, element: KeptElement, form: ElementFormat) -> bytes:
        """The text of an element."""
        text = self._texts.get((element.number, form))
        if text is None:
            text = self._texts[element.number, form] = self._render(element, form)
            self._size += len(text)
            while self._size > BEHIND_BYTES:
                self._size -= len(self._texts.popitem(last=False)[1])
        return text


class Broadcast:
    """The clients of a stream, in an event loop.

    - `next`: the number of the next element for the clients.
    - `has_clients`: True if elements are to be announced, which any thread may ask.
    """

    def __init__(self, kept: KeptElements, render: Callable[[KeptElement, ElementFormat], bytes], counts: ServedCounts) -> None:
        self.next = kept.next
        self.counts = counts
        self.has_clients = False
        self.text = Texts(render).text
        self._kept = kept
        self._passing: list[KeptElement] = []  # the last ones before `next`: all that a client that has caught up lacks
        self._clients: dict[Framing, set[Client]] = {}
        self._ending: Ending | None = None
        self._beat: asyncio.TimerHandle | None = None

    def add(self, client: Client) -> None:
        """Add a client, which misses nothing from now on."""
        if not self.has_clients:
            self.has_clients = True  # before `next` is read, so that what is appended behind it is announced
            self.next = self._kept.next
            self._beat = asyncio.get_running_loop().call_later(HEARTBEAT, self._send_heartbeats)
        self._clients.setdefault(client.framing, set()).add(client)
        client.has_caught_up = client.position >= self.next
        if self._ending is not None:
            client.end(self._ending, self.next)

    def remove(self, client: Client) -> None:
        """Remove a client."""
        self._clients[client.framing].remove(client)
        if not self._clients[client.framing]:
            del self._clients[client.framing]
        if not self._clients and self._beat is not None:
            self.has_clients = False
            self._passing.clear()
            self._beat.cancel()

    def _all(self) -> list[Client]:
        return [client for clients in self._clients.values() for client in clients]

    def piece(self, position: int) -> Sequence[KeptElement]:
        """The next elements from a number on, before `next`: some, or none where they have left."""
        first = self.next - len(self._passing)
        if position >= first:
            return self._passing[position - first : position - first + _PIECE]
        return self._kept.slice(position, min(position + _PIECE, self.next))

    def bytes_behind(self, position: int) -> int:
        """The bytes of the lines from a number on."""
        return sum([len(each.line) for each in self._passing[max(0, position - self.next + len(self._passing)) :]])

    def _forget(self) -> None:
        """Drop the elements that no client lacks, of those that have caught up before.

        With 5 to 8 and clients at 7 and 9, 7 and 8 stay. A client at 2 reads what is kept.
        """
        needed = min([client.position for client in self._all() if client.has_caught_up], default=self.next)
        del self._passing[: max(0, needed - self.next + len(self._passing))]

    def publish(self, elements: Sequence[KeptElement]) -> None:
        """Send new elements, with one write to each client that has taken all before them."""
        start = self.next
        self._forget()
        for element in elements if self.has_clients else ():
            if element.number > self.next:  # some before it have left already
                self._passing.clear()
            if element.number >= self.next:  # others were kept before the first client came
                self._passing.append(element)
                self.next = element.number + 1
        number = self.next - start
        fresh = self._passing[-number:] if 0 < number <= min(_PIECE, len(self._passing)) else []
        for framing, clients in self._clients.items():
            frames: bytes | None = None
            written = 0
            for client in clients:
                if not fresh or not client.is_ready(start):
                    client.take()
                    continue
                if frames is None:
                    frames = b"".join([framing.frame(each.id, self.text(each, framing.form)) for each in fresh])
                client.write(frames, self.next)
                written += len(frames)
            self.counts.bytes[framing.kind.value] += written

    def _send_heartbeats(self) -> None:
        self._beat = asyncio.get_running_loop().call_later(HEARTBEAT, self._send_heartbeats)
        self._forget()
        for client in self._all():
            if not client.is_full:
                client.write(client.framing.heartbeat, client.position)

    def end(self, ending: Ending) -> None:
        """End all clients: with END once they have all elements."""
        self._ending = ending
        for client in self._all():
            if client.ending is None or ending is Ending.STOP:
                client.end(ending, self.next)


class Client:
    """A client of push, which is the place in the stream that it has reached.

    - `position`: the number of the next element that it takes.
    - `has_caught_up`: True once it has taken all elements that there were.
    - `is_choosy`: True if its elements are not those of the other clients with its framing.
    - `has_sent`: True once it has taken an element.
    - `ending`: the reason for which it is closed; None if it goes on.
    """

    def __init__(self, broadcast: Broadcast, framing: Framing, position: int, chosen: Chosen) -> None:
        self.framing = framing
        self.position = position
        self.ending: Ending | None = None
        self.has_caught_up = False
        self.is_choosy = True
        self.has_sent = False
        self._broadcast = broadcast
        self._transport: asyncio.WriteTransport | None = None
        self._chosen = chosen
        self._end = position
        self._more = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """True if the connection takes nothing at present."""
        transport = self._transport
        return transport is None or transport.is_closing() or transport.get_write_buffer_size() > HIGH

    def is_ready(self, position: int) -> bool:
        """True if it takes the elements from a position on, as all others with its framing do."""
        transport = self._transport
        return (
            self.position == position
            and not self.is_choosy
            and transport is not None
            and not transport.get_write_buffer_size()
            and not transport.is_closing()
        )

    def start(self, transport: asyncio.WriteTransport) -> None:
        """Send the first piece, on the connection of the client."""
        self._transport = transport
        self.take()

    def write(self, data: bytes, position: int) -> None:
        """Send all before a position."""
        self.position = position
        if data and self._transport is not None:
            self._transport.write(data)

    def take(self) -> None:
        """Send the next piece, unless the connection is full."""
        framing, chosen = self.framing, self._chosen
        frames: list[bytes] = []
        size, position = 0, self.position
        if not self.is_full and self.ending in (None, Ending.END):
            elements = self._broadcast.piece(position)
            if position < self._broadcast.next and (not elements or elements[0].number != position):
                self.end(Ending.SLOW, position)
                return
            for element in elements:
                if chosen.until is not None and element.time >= chosen.until:
                    self.end(Ending.END, position)
                    break
                position = element.number + 1
                if chosen.has(element):
                    chosen = self._chosen = chosen._replace(since=None)  # those behind it are not earlier
                    frames.append(framing.frame(element.id, self._broadcast.text(element, framing.form), first=not self.has_sent))
                    self.has_sent, self.is_choosy = True, chosen != Chosen()
                    size += len(frames[-1])
                    if size > HIGH:
                        break
            self.write(b"".join(frames), position)
            self._broadcast.counts.bytes[framing.kind.value] += sum(map(len, frames))
        if self.position < self._broadcast.next:
            self._more.set()
        else:
            self.has_caught_up = True

    def end(self, ending: Ending, position: int) -> None:
        """End the client: with END at a position, else at once."""
        if ending is Ending.SLOW:
            self._broadcast.counts.slow[self.framing.kind.value] += 1
        self.ending, self._end = ending, position
        self._more.set()

    async def run(self, drain: Callable[[], Awaitable[None]]) -> Ending:
        """Send what remains, as often as the connection takes more: `drain` waits until then.

        Returns the reason for which the client is to be closed.
        """
        loop = asyncio.get_running_loop()
        behind: tuple[float, int] | None = None  # since when it is too far behind, for a second at most, and the bytes left then
        draining: asyncio.Future[None] | None = None
        try:
            while True:
                await self._more.wait()
                if self.ending in (Ending.SLOW, Ending.STOP) or (self.ending is Ending.END and self.position >= self._end):
                    return self.ending
                if behind is None and self._is_behind():
                    behind = loop.time(), self._bytes_left()
                if draining is None:
                    draining = asyncio.ensure_future(drain())
                await asyncio.wait([draining], timeout=SLOW_SECONDS)
                if draining.done():
                    draining.result()
                    draining = None
                if self.ending is None:
                    self._more.clear()
                self.take()
                if behind is not None and (not self._is_behind() or loop.time() - behind[0] >= SLOW_SECONDS):
                    if self._is_behind() and self._bytes_left() >= behind[1] and self.ending is None:
                        self.end(Ending.SLOW, self.position)
                    behind = None
        finally:
            if draining is not None:
                draining.cancel()
                await asyncio.gather(draining, return_exceptions=True)

    def _bytes_left(self) -> int:
        """The bytes that its socket has not taken: in its connection, and of the lines behind them."""
        transport = self._transport
        return self._broadcast.bytes_behind(self.position) + (0 if transport is None else transport.get_write_buffer_size())

    def _is_behind(self) -> bool:
        """True if it is too far behind, having caught up before."""
        behind = self._broadcast.next - self.position
        return self.has_caught_up and (behind > BEHIND or self._broadcast.bytes_behind(self.position) > BEHIND_BYTES)
