"""Receiver of server-sent events (HTML standard, 9.2).

Idea: the data of an event is a message, whose key is the last ID that the server has given. The
server is asked to go on behind that ID, after a lost connection and in the next run. Without IDs
what it sent meanwhile is lost, which is a dead letter.
Bounds: bytes of an event's data, of which one more than the limit is kept, so that its decoder
rejects it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dotr.model.stream import Reason
from dotr.streams.connectors.web_access import WebAccess
from dotr.streams.connectors.web_receiver import NeverAnswered, WebReceiver, checked_text
from dotr.streams.records import Message

if TYPE_CHECKING:
    from aiohttp import ClientSession

_BOM: Final = b"\xef\xbb\xbf"
_PREFIX: Final = 16
"""Bytes of a line before the data of an event, at most."""

_LONGEST_NAME: Final = 4_096
"""Bytes of an ID or of the name of an event; a longer one is ignored."""

_LEAST_RETRY: Final = 0.1
_LONGEST_RETRY: Final = 60.0
_UNNAMED: Final = "message"
_NO_CONTENT: Final = 204


class ServerEvent(NamedTuple):
    """An event: its data, its name (`message` if it has none), and the last ID so far."""

    data: bytes
    name: str
    id: bytes


class EventParser:
    r"""Parser of a stream of server-sent events, piece by piece.

    - `most`: bytes of an event's data; of longer data `most` + 1 bytes are kept.
    - `id`: the last ID before the stream.
    - `retry`: the wait in ms that the server asks for; None: it has not.

    >>> parser = EventParser(100)
    >>> parser.feed(b"id: 7\r\nevent: a\r\ndata: x\r"), parser.feed(b"\ndata:y\n\n: comment\ndata")
    ([], [ServerEvent(data=b'x\ny', name='a', id=b'7')])
    >>> parser.feed(b": z\n\n")
    [ServerEvent(data=b'z', name='message', id=b'7')]
    """

    def __init__(self, most: int, id: bytes = b"") -> None:
        self.id = id
        self.retry: int | None = None
        self._most = most
        self._rest = bytearray()
        self._after_return = False
        self._is_start = True
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that a further piece of the stream completes."""
        if self._after_return and piece:
            piece, self._after_return = piece.removeprefix(b"\n"), False
        if b"\r" in piece:  # a line ends at CR, LF or both: "a\r" is a line at once, and the LF of a further piece ends none
            self._after_return = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = piece.split(b"\n")
        longest = self._most + _PREFIX
        self._rest += first[: max(0, longest - len(self._rest))]
        if not others:
            return []
        last = others.pop()
        lines = [bytes(self._rest), *others]
        self._rest = bytearray(last[:longest])
        if self._is_start:
            lines[0], self._is_start = lines[0].removeprefix(_BOM), False
        found: list[ServerEvent] = []
        for line in lines:
            if line:
                self._read(line)
            else:
                self._dispatch(found)
        return found

    def _read(self, line: bytes) -> None:
        """Read a line that is not empty."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            room = self._most + 1 - self._size
            if room > 0:
                self._data.append(value[:room])
                self._size += min(len(value), room) + 1  # with the line end behind it
        elif len(value) > _LONGEST_NAME:
            return
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id":
            if b"\0" not in value:
                self.id = value
        elif field == b"retry" and value.isdigit():
            self.retry = int(value)

    def _dispatch(self, found: list[ServerEvent]) -> None:
        """Add the event before an empty line; one without data is none, unless it ends the stream."""
        if self._data or self._name in _CONTROLS:
            found.append(ServerEvent(b"\n".join(self._data), self._name or _UNNAMED, self.id))
        self._data, self._size, self._name = [], 0, ""


_END: Final = "end"
_GAP: Final = "gap"
_CONTROLS: Final = (_END, _GAP)
"""The names of events by which a stream that dotr publishes tells its end, or a gap."""


class SseReceiver(WebReceiver):
    """Receiver of server-sent events.

    - `most`: limit of the bytes of an event's data.
    - `events`: the names of the events that are read.
    """

    def __init__(self, name: str, access: WebAccess, most: int, events: frozenset[str]) -> None:
        super().__init__(name, access)
        self._most = most
        self._events = events
        self._id = b""

    def go_on_behind(self, last: Message) -> None:
        """Go on behind the ID of a message."""
        self._id = last.key or b""

    async def follow(self, session: ClientSession) -> None:
        """Read the events of one connection."""
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-cache"}
        if self._id:
            headers["Last-Event-ID"] = self._id.decode("utf-8", "replace")
        async with self.requested(session, headers) as response:
            if response.status == _NO_CONTENT:
                self.ended = True
                return
            if response.content_type != "text/event-stream" or response.status != 200:
                raise NeverAnswered(f"it answers {response.status} with {response.content_type[:100]}, and not with text/event-stream")
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise NeverAnswered(
                    "it compresses its events, though it is asked not to", "Ask for the events without a proxy that compresses."
                )
            self.is_gap = self.is_gap and not self._id
            await self.opened()
            parser, has_ended = EventParser(self._most, self._id), False
            while not has_ended and (piece := await response.content.readany()):
                self.steps += 1
                messages, has_ended = self._messages(parser.feed(piece))
                await self.deliver(messages)
                self._id = parser.id
                if parser.retry is not None:
                    self.pause = min(max(parser.retry / 1000, _LEAST_RETRY), _LONGEST_RETRY)
            self.ended = has_ended

    def _messages(self, events: list[ServerEvent]) -> tuple[list[Message], bool]:
        """The messages of events; True if one of them ends the stream."""
        messages: list[Message] = []
        for data, name, id in events:
            key = id or None
            if name in self._events:
                messages.append(checked_text(Message(data, 0, key=key, topic="" if name == _UNNAMED else name), self._most))
            elif name == _GAP:
                first = f": its first event is {_shown(data or id)}" if data or id else ""
                missed = f"what came behind {_shown(self._id)}" if self._id else "all that it has sent"
                why = f"the server no longer has {missed}{first}"
                messages.append(Message(b"", 0, key=key, why=why, reason=Reason.LOST))
            elif name == _END:
                return messages, True
        return messages, False


def _shown(id: bytes) -> str:
    return id[:100].decode("utf-8", "replace")
