"""Receiver of a WebSocket (RFC 6455).

Idea: a text frame is a message. A server of published streams is asked to go on behind the graph of
the last message; of any other one what it sends between two connections is lost, which is a dead
letter. Frames are parsed here, since a library ends the connection at a frame that is too long or
no UTF-8, and would get the same one again.
Bounds: bytes of a message, of which one more than the limit is kept, so that its decoder rejects
it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha1
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from dotr.streams.connectors.web_access import WebAccess
from dotr.streams.connectors.web_receiver import (
    ANSWER_SECONDS,
    NeverAnswered,
    TryAgain,
    WebReceiver,
    checked_text,
    refusal,
)
from dotr.streams.records import Format, Message

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, StreamReader

_CONTINUED: Final = 0
_TEXT: Final = 1
_BINARY: Final = 2
_CLOSE: Final = 8
_PING: Final = 9
_PONG: Final = 10
_CONTROL_BYTES: Final = 125
_PIECE: Final = 1 << 16
_KEY_SUFFIX: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_ENDED: Final = 1000
_UPGRADED: Final = 101
_NOT_KEPT: Final = (400, 410)
"""Status codes of a published stream that does not have the element behind which it is to go on."""

_ALL: Final = 999_999_999
_BODY_BYTES: Final = 4_096


class WebSocketFrame(NamedTuple):
    """A whole message or control frame: its opcode, and its bytes."""

    opcode: int
    payload: bytes


class FrameParser:
    r"""Parser of the frames of a server, piece by piece.

    `most`: bytes of a message; of a longer one `most` + 1 bytes are kept.

    >>> parser = FrameParser(100)
    >>> parser.feed(b"\x81\x02hi\x01"), parser.feed(b"\x01a\x89\x00\x80\x01b")
    ([WebSocketFrame(opcode=1, payload=b'hi')], [WebSocketFrame(opcode=9, payload=b''), WebSocketFrame(opcode=1, payload=b'ab')])
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._data = bytearray()
        self._message = bytearray()
        self._opcode = _CONTINUED  # that of the message whose fragments come
        self._left = 0  # bytes of the payload of a fragment that are still to come
        self._is_last = False

    def feed(self, piece: bytes) -> list[WebSocketFrame]:
        """The messages and control frames that a further piece completes; raises TryAgain for what
        is no frame."""
        data, at, found = self._data, 0, list[WebSocketFrame]()
        data += piece
        size = len(data)
        while True:
            if self._left or self._is_last:  # a fragment is read as it comes
                end = min(size, at + self._left)
                room = max(0, self._most + 1 - len(self._message))
                self._message += data[at : min(end, at + room)]
                self._left -= end - at
                at = end
                if self._left:
                    break
                if self._is_last:
                    found.append(WebSocketFrame(self._opcode, bytes(self._message)))
                    self._message.clear()
                    self._opcode, self._is_last = _CONTINUED, False
            if size - at < 2:
                break
            first, length = data[at], data[at + 1]
            head = at + (2 if length < 126 else 4 if length == 126 else 10)
            opcode, is_last = first & 15, first >= 128
            if first & 0x70 or length & 128:  # extensions, and masks of clients
                raise TryAgain("it sends what is no WebSocket frame")
            if size < head:
                break
            if length >= 126:
                length = int.from_bytes(data[at + 2 : head], "big")
            if opcode >= _CLOSE:
                if opcode > _PONG or length > _CONTROL_BYTES or not is_last:
                    raise TryAgain("it sends what is no WebSocket frame")
                if size - head < length:
                    break
                found.append(WebSocketFrame(opcode, bytes(data[head : head + length])))
                at = head + length
                continue
            if opcode > _BINARY or (opcode == _CONTINUED) != (self._opcode != _CONTINUED):
                raise TryAgain("it sends what is no WebSocket frame")
            if is_last and opcode and size - head >= length <= self._most:  # most frames: whole, and all there
                found.append(WebSocketFrame(opcode, bytes(data[head : head + length])))
                at = head + length
                continue
            self._opcode, self._left, self._is_last, at = opcode or self._opcode, length, is_last, head
        del data[:at]
        return found


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """A frame of a client with at most 125 bytes, which is masked."""
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[number % 4] for number, byte in enumerate(payload))
    return bytes([128 | opcode, 128 | len(payload)]) + mask + masked


class _Upgraded:
    """Parser, as aiohttp has it, that leaves the bytes of a connection as they are."""

    def __init__(self, stream: StreamReader) -> None:
        self._stream = stream

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Add bytes; False: they are not the last ones."""
        self._stream.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        """End the stream."""
        self._stream.feed_eof()


class WebSocketReceiver(WebReceiver):
    """Receiver of a WebSocket.

    `most`: limit of the bytes of a message; `resume`: the server can go on behind the graph of one.
    `_last`: the last message, if its graph is not yet known; `_behind`: the last segment of the
    name of the graph behind which the server is to go on; `_from_first`: it is to begin with the
    first element that it has.
    """

    def __init__(self, name: str, access: WebAccess, most: int, form: Format, resume: bool) -> None:
        super().__init__(name, access)
        self._most, self._format, self._resume = most, form, resume
        self._last: bytes | None = None
        self._behind = ""
        self._from_first = False

    def go_on_behind(self, last: Message) -> None:
        """Go on behind the graph of a message; behind a dead letter, with all that the server has."""
        if last.key is not None:
            self._behind = last.key.decode()
        elif last.why:
            self._from_first = self._resume
        else:
            self._last = last.body

    def _position(self) -> str:
        """The segment behind which the server is to go on; empty where none is known."""
        if self._resume and self._last is not None:
            self._behind = graph_segment(self._last, self._format) or self._behind
        self._last = None
        return self._behind

    async def follow(self, session: ClientSession) -> None:
        """Read the messages of one connection."""
        behind = "" if self._from_first else self._position()
        url = url_behind(self.url, behind, everything=self._from_first)
        key = b64encode(os.urandom(16)).decode()
        headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
        async with self.requested(session, headers, url, (_UPGRADED, *(_NOT_KEPT if behind else ()))) as response:
            if response.status == _UPGRADED:
                self.is_gap = self.is_gap and not behind and not self._from_first
                await self._read(response, key)
                return
            if response.status not in _NOT_KEPT:
                raise refusal(response.status)
            async with asyncio.timeout(ANSWER_SECONDS):
                first = _first_of(await response.content.read(_BODY_BYTES))
        told = f": its first element is {first}" if first else ""
        await self.lost(f"the server no longer has what came behind {behind}{told}")
        self._behind, self._from_first, self.is_gap = "", True, False
        await self.follow(session)

    async def _read(self, response: ClientResponse, key: str) -> None:
        """Read the frames of a connection, whose request has a key."""
        from aiohttp import StreamReader

        accepted = b64encode(sha1(f"{key}{_KEY_SUFFIX}".encode()).digest()).decode()
        if response.headers.get("Sec-WebSocket-Accept", accepted) != accepted:
            raise NeverAnswered("it answers with the key of another WebSocket")
        protocol = response.connection and response.connection.protocol
        if "Sec-WebSocket-Accept" not in response.headers or protocol is None or protocol.transport is None:
            raise TryAgain("its answer is no WebSocket")
        stream = StreamReader(protocol, _PIECE, loop=asyncio.get_running_loop())
        protocol.set_parser(_Upgraded(stream), stream)
        await self.opened()
        frames = FrameParser(self._most)
        while piece := await stream.readany():
            self.steps += 1
            code = await self._take(frames.feed(piece), protocol.transport)
            if code is not None and code != _ENDED:
                raise TryAgain(f"the server has closed the connection ({code or 'without a code'})")
            if code is not None:
                self.ended = True
                break

    async def _take(self, frames: Sequence[WebSocketFrame], transport: asyncio.WriteTransport) -> int | None:
        """Offer the messages of frames, and answer the others; the code of a frame that closes."""
        messages: list[Message] = []
        code: int | None = None
        for opcode, payload in frames:
            if opcode == _TEXT or (opcode == _BINARY and self._format is Format.JELLY):
                message = Message(payload, 0)
                messages.append(message if opcode == _BINARY else checked_text(message, self._most))
            elif opcode == _BINARY:
                messages.append(Message(payload, 0, why="it is a binary frame, and a message is a text frame"))
            elif opcode == _PING:
                transport.write(encode_frame(_PONG, payload))
            elif opcode == _CLOSE:
                transport.write(encode_frame(_CLOSE, payload[:2]))
                code = int.from_bytes(payload[:2], "big")
                break
        await self.deliver(messages)
        if (last := next((each.body for each in reversed(messages) if not each.why), None)) is not None:
            self._last, self._from_first = last, False
        return code


def url_behind(url: str, behind: str, *, everything: bool = False) -> str:
    """The URL of a published stream from an element on, or of all that it has.

    >>> url_behind("ws://h/ws?last=1&format=trig", "7-0"), url_behind("ws://h/ws", "", everything=True), url_behind("ws://h/ws?a", "")
    ('ws://h/ws?format=trig&after=7-0', 'ws://h/ws?last=999999999', 'ws://h/ws?a')
    """
    if not behind and not everything:
        return url
    parts = urlsplit(url)
    pairs = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in ("after", "last")]
    pairs.append(("after", behind) if behind else ("last", str(_ALL)))
    return parts._replace(query=urlencode(pairs, quote_via=quote)).geturl()


_SYNTAX: Final = {Format.TRIG: "TRIG", Format.NQUADS: "N_QUADS", Format.JSONLD: "JSON_LD"}


def graph_segment(message: bytes, form: Format) -> str:
    """The last segment of the name of the last named graph of a message; empty where there is none.

    >>> graph_segment(b"<http://h/s/12-0> { <x:a> <x:b> <x:c> }", Format.TRIG), graph_segment(b"{", Format.TRIG)
    ('12-0', '')
    """
    from pyoxigraph import NamedNode, RdfFormat, parse

    try:
        names = [quad.graph_name for quad in parse(message, getattr(RdfFormat, _SYNTAX[form]))]
    except (SyntaxError, ValueError):
        return ""
    last = next((name.value for name in reversed(names) if isinstance(name, NamedNode)), "")
    return re.split("[/#]", last)[-1]


def _first_of(text: bytes) -> str:
    """The first ID in the text of an answer; empty where it has none."""
    try:
        return str(json.loads(text)["first"])[:100]
    except (ValueError, KeyError, TypeError):
        return ""
