"""Inputs of HTTP: servers, at which a POST has one or several messages, acknowledged once they are
stored; and URLs that are polled.

Idea: aiohttp serves in a thread with an event loop of its own. Requests wait for the inbox
concurrently, and a full inbox is an error response at once, so that no client can block the run.
Bounds: connections, bytes of bodies that are being read, bytes of a body, and the time that a
client may take for headers and body.
Cost: about 0.3 ms a request.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from dotr.errors.diagnostics import DotrError
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.streams.connectors.http.addresses import ListenAddress
from dotr.streams.connectors.http.server import (
    ConnectionLimits,
    ErrorResponse,
    ServerThread,
    Tokens,
    bound,
    check_aiohttp,
    check_headers,
    json_response,
    required_tokens,
)
from dotr.streams.connectors.receivers import QUEUED_BYTES
from dotr.streams.connectors.web_access import WebAccess
from dotr.streams.connectors.web_receiver import TryAgain, WebReceiver, is_silent
from dotr.streams.formats.messages import check_content_type, is_any_content
from dotr.streams.records import Format, Inbox, Message, ReceivingFailed

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, web


CLIENTS: Final = 200
"""Limit of simultaneous connections."""

_IDLE_SECONDS: Final = 30.0
"""Longest wait for the headers of a request, and for the next piece of its body."""

_BODY_SECONDS: Final = 300.0
_STORED_SECONDS: Final = 60.0
_RETRY_AFTER: Final = "1"


@dataclass(frozen=True, slots=True)
class HttpListen:
    """Server of an input.

    - `name`: the name of the input.
    - `most`: limit of the bytes of a body, decompressed.
    - `tokens`: a function that returns the accepted tokens, separated by spaces or commas; None: no
      token is required.
    - `headers`: the names of the headers that the map of the input uses, in lower case.
    """

    name: str
    listen: ListenAddress
    format: Format
    most: int
    tokens: Callable[[], str] | None = None
    headers: frozenset[str] = frozenset()
    span: Span | None = None

    @property
    def address(self) -> str:
        """The URL, the `file` of dead letters."""
        return str(self.listen)

    def receiver(self) -> HttpReceiver:
        """A server, not yet started; raises `Refused` (C226) where aiohttp is missing."""
        check_aiohttp(self.span)
        return HttpReceiver(self)


class HttpReceiver:
    """HTTP server in a separate thread."""

    ended = False

    def __init__(self, source: HttpListen) -> None:
        self._source = source
        self._server = ServerThread(f"dotr input {source.name}")
        self._handler: _RequestHandler | None = None

    @property
    def connected(self) -> bool:
        """True while the server listens."""
        return self._server.connected

    @property
    def failure(self) -> ReceivingFailed | None:
        """The error that has ended the server; None if there is none."""
        why = self._server.failure
        return None if why is None else ReceivingFailed(f"input {self._source.name}: {why}")

    def is_drained(self) -> bool:
        """True if no request comes while the event loop turns a few times. A client that is silent amid a
        body does not count."""
        handler = self._handler
        return not self.connected or handler is None or is_silent(self._server.loop, lambda: handler.steps)

    def start(self, inbox: Inbox) -> None:
        """Listen; raises `Refused` where the address is taken (C228) or the tokens are missing."""
        source, what = self._source, f"input {self._source.name}"
        try:
            self._handler = handler = _RequestHandler(source, required_tokens(source.tokens, what, source.span), inbox)
            listening = bound(source.listen, what, source.span)
        except BaseException:
            self._server.stop()
            raise
        self._server.start(listening, handler.handle, ConnectionLimits(CLIENTS, _IDLE_SECONDS))

    def stop(self) -> None:
        """Stop the server; requests under way have 2 s to be answered."""
        self._server.stop()


class _RequestHandler:
    """Handler of requests; `steps`: the number of requests and pieces so far."""

    def __init__(self, source: HttpListen, tokens: Tokens, inbox: Inbox) -> None:
        self._source = source
        self._tokens = tokens
        self._inbox = inbox
        self._reading = 0
        self.steps = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The response to a request: 202 once the inbox has stored its messages."""
        self.steps += 1
        try:
            count = await self._accept(request)
        except ErrorResponse as error:
            return error.response
        finally:
            self.steps += 1
        return json_response(202, {"messages": count})

    async def _accept(self, request: web.BaseRequest) -> int:
        lines = self._check(request)
        messages = self._messages(request, await self._body(request), lines=lines)
        stored = asyncio.get_running_loop().create_future()
        if not self._inbox.offer(messages, _setter(stored)):
            raise ErrorResponse(429, "the inbox is full; try again later", Retry_After=_RETRY_AFTER)
        try:
            await asyncio.wait_for(stored, _STORED_SECONDS)
        except TimeoutError:
            raise ErrorResponse(503, "it is not on the disk: it may be sent again", Retry_After=_RETRY_AFTER) from None
        return len(messages)

    def _check(self, request: web.BaseRequest) -> bool:
        """Check all but the body; raises `ErrorResponse`. True if each line is a message."""
        source = self._source
        check_headers(request)
        if request.path != source.listen.path:
            raise ErrorResponse(404, "no input has this path")
        if request.method != "POST":
            raise ErrorResponse(405, "messages are sent here by POST", Allow="POST")
        if not self._tokens:
            self._check_site(request)
        elif not self._tokens.has_bearer(request.headers.get("Authorization", "")):
            raise ErrorResponse(401, "it needs a token: Authorization: Bearer TOKEN", WWW_Authenticate="Bearer")
        if request.headers.get("Content-Encoding", "identity").lower() not in ("identity", "gzip", "x-gzip"):
            raise ErrorResponse(415, "its content-encoding is neither gzip nor identity", Accept_Encoding="gzip")
        try:
            lines = is_lines(request.headers.get("Content-Type", ""), source.format, exact=not self._tokens)
        except ValueError as error:
            raise ErrorResponse(415, str(error)) from None
        if (request.content_length or 0) > source.most:
            raise ErrorResponse(413, f"it has more than {source.most:,} bytes")
        return lines

    def _check_site(self, request: web.BaseRequest) -> None:
        """Refuse what a browser sends for a page of another site, where no token shows who sends.

        A page may post a body of text to any address that its browser reaches, and have a name of
        its own resolved to that address.
        """
        if "Origin" in request.headers:
            raise ErrorResponse(403, "it has an Origin: pages in a browser send here only where the input has tokens")
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._source.listen.is_host(hosts[0]):
            listen = self._source.listen
            raise ErrorResponse(403, f"its Host is not the address {listen.authority}: without tokens it must be")

    async def _body(self, request: web.BaseRequest) -> bytes:
        """The decompressed body; raises `ErrorResponse` where it is too long, late or damaged."""
        body = BodyBytes(self._source.most, is_gzip=request.headers.get("Content-Encoding", "identity").lower() != "identity")
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        counted = 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while True:
                    async with asyncio.timeout(_IDLE_SECONDS):
                        piece = await request.content.readany()
                    self.steps += 1
                    if not piece:
                        return body.end()
                    body.add(piece)
                    self._reading += body.size - counted
                    counted = body.size
                    if self._reading > QUEUED_BYTES and self._reading > body.size:
                        raise ErrorResponse(429, "too much is being sent at once", Retry_After=_RETRY_AFTER)
        except TimeoutError:
            raise ErrorResponse(408, "its body did not come in time") from None
        except BodyTooLong as error:
            raise ErrorResponse(413, str(error)) from None
        except ValueError as error:
            raise ErrorResponse(400, str(error)) from None
        finally:
            self._reading -= counted

    def _messages(self, request: web.BaseRequest, body: bytes, *, lines: bool) -> list[Message]:
        try:
            bodies = lines_of(body) if lines else [body] if body else []
        except BodyTooLong as error:
            raise ErrorResponse(413, str(error)) from None
        if not bodies:
            raise ErrorResponse(400, "it has no body")
        headers = tuple(
            (name.decode("latin-1").lower(), value)
            for name, value in request.raw_headers
            if name.decode("latin-1").lower() in self._source.headers
        )
        return [Message(each, 0, headers=headers) for each in bodies]


def _setter(stored: asyncio.Future[None]) -> Callable[[], None]:
    """A function, callable in any thread, that completes a future in its event loop."""
    loop = stored.get_loop()

    def complete() -> None:
        if not stored.done():
            stored.set_result(None)

    return lambda: _in_loop(loop, complete)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


# Bodies of requests: bounded, decompressed, and cut into messages.
#
# Idea: each line of NDJSON is a message, and so is each line of JSON or JSON-LD whose content type is
# one of lines; any other body is one message. Reading ends at the limit, which counts decompressed
# bytes.

MOST_LINES: Final = 100_000
"""Limit of the messages of one body."""

_LINE_TYPES: Final = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/x-ld+ndjson",
)
_ALWAYS_LINES: Final = (Format.NDJSON,)
_LINES_BY_TYPE: Final = (Format.JSON, Format.JSONLD)
_GZIP: Final = 31
"""`wbits` of zlib for gzip."""


class BodyTooLong(DotrError, ValueError):
    """A body beyond its limit of bytes or lines."""


class BodyBytes:
    """Bytes of a body, added piece by piece, decompressed and bounded.

    >>> import gzip
    >>> body = BodyBytes(limit=10, is_gzip=True)
    >>> packed = gzip.compress(b"hello ") + gzip.compress(b"you")
    >>> body.add(packed[:7]); body.add(packed[7:]); body.end()
    b'hello you'
    >>> body.add(gzip.compress(bytes(1_000_000)))
    Traceback (most recent call last):
    dotr.streams.connectors.http.source.BodyTooLong: it has more than 10 bytes
    """

    def __init__(self, limit: int, *, is_gzip: bool = False) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self.size = 0
        self._is_gzip = is_gzip
        self._unpack = zlib.decompressobj(_GZIP) if is_gzip else None

    def add(self, piece: bytes) -> None:
        """Add a piece; raises BodyTooLong, or ValueError where it is not gzip."""
        if not self._is_gzip:
            self._keep(piece)
            return
        try:
            while piece:
                if self._unpack is None or self._unpack.eof:  # a further member
                    self._unpack = zlib.decompressobj(_GZIP)
                self._keep(self._unpack.decompress(piece, self._limit - self.size + 1))
                piece = self._unpack.unused_data
        except zlib.error:
            raise ValueError("it is no gzip") from None

    def _keep(self, piece: bytes) -> None:
        self.size += len(piece)
        self._pieces.append(piece)
        if self.size > self._limit:
            raise BodyTooLong(f"it has more than {self._limit:,} bytes")

    @property
    def beginning(self) -> bytes:
        """The bytes so far, and of a body that is too long one more than its limit."""
        return b"".join(self._pieces)[: self._limit + 1]

    def end(self) -> bytes:
        """The whole body; raises ValueError where gzip data is cut off."""
        if self._unpack is not None and not self._unpack.eof and self.size + len(self._pieces):
            raise ValueError("its gzip data is cut off")
        return b"".join(self._pieces)


def is_lines(content_type: str, form: Format, *, exact: bool = False) -> bool:
    """True if each line of a body is a message; raises ValueError where the content type is that of
    another format, or, if `exact`, not one of the format.

    >>> is_lines("application/json", Format.NDJSON), is_lines("application/x-ndjson", Format.JSON), is_lines("", Format.JSON)
    (True, True, False)
    >>> is_lines("application/octet-stream", Format.TEXT, exact=True)
    False
    >>> is_lines("text/plain", Format.NDJSON, exact=True)
    Traceback (most recent call last):
    ValueError: its content-type, text/plain, does not fit the format ndjson: send it as application/x-ndjson
    """
    written = content_type.partition(";")[0].strip()[:100]
    usual = "application/octet-stream" if form is Format.TEXT else form.media_type  # a page of any site may send text/plain unasked
    if exact and is_any_content(content_type) and written.lower() != usual:
        found = f"its content-type, {written}, does not fit the format {form.value}" if written else "it has no content-type"
        raise ValueError(f"{found}: send it as {usual}")
    if form in _LINES_BY_TYPE and content_type.partition(";")[0].strip().lower() in _LINE_TYPES:
        return True
    try:
        check_content_type("content-type", content_type.encode("utf-8", "replace"), form)
    except ValueError as error:
        raise ValueError(f"{error}: send it as {usual}") from None
    return form in _ALWAYS_LINES


def lines_of(body: bytes) -> Sequence[bytes]:
    r"""The lines of a body that are not blank; raises BodyTooLong where there are too many.

    >>> lines_of(b'{"a": 1}\r\n\n{"a": 2}')
    [b'{"a": 1}\r', b'{"a": 2}']
    """
    if body.count(b"\n") > MOST_LINES:
        raise BodyTooLong(f"it has more than {MOST_LINES:,} lines")
    return [line for line in body.split(b"\n") if line.strip()]


# URLs that are polled: an answer that is not the last one again is a message.
#
# Idea: the headers ETag and Last-Modified of the last answer are sent with each request, so that the
# server need not repeat it (304); without them its bytes are compared. Both are in the headers and
# the body of the last message, from which the next run goes on.

_UNCHANGED: Final = 304
_CONDITIONS: Final = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
"""The header of a request with the value of a header of the last answer."""

_KEPT: Final = ("content-type", *_CONDITIONS)


class PollingReceiver(WebReceiver):
    """Receiver of the answers of a URL.

    - `most`: limit of the bytes of an answer, decompressed.
    - `seconds`: the time from an answer to the next request.
    - `headers`: the names of the headers that the map of the input uses, in lower case.
    """

    def __init__(self, name: str, access: WebAccess, most: int, seconds: float, headers: frozenset[str]) -> None:
        super().__init__(name, access)
        self._most, self._seconds = most, seconds
        self._names = {*_KEPT, *headers}
        self._conditions: dict[str, str] = {}
        self._digest = b""

    def go_on_behind(self, last: Message) -> None:
        """Ask for what differs from a message."""
        headers = {name: value.decode("latin-1") for name, value in last.headers}
        self._conditions = {condition: headers[name] for name, condition in _CONDITIONS.items() if name in headers}
        self._digest = blake2b(last.body).digest()

    async def follow(self, session: ClientSession) -> None:
        """Poll until a request fails."""
        while True:
            async with self.requested(session, {"Accept-Encoding": "gzip", **self._conditions}) as response:
                message = None if response.status == _UNCHANGED else await self._message(response)
            self.steps += 1
            if not self.connected:
                self.is_gap = False
                await self.opened()
            if message is not None:
                if blake2b(message.body).digest() != self._digest:
                    await self.deliver([message])
                self.go_on_behind(message)
            await asyncio.sleep(self._seconds)

    async def _message(self, response: ClientResponse) -> Message:
        """The message of an answer; raises TryAgain where its body is cut off or too slow."""
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding not in ("identity", "gzip", "x-gzip"):
            raise TryAgain("its content-encoding is neither gzip nor identity")
        body = BodyBytes(self._most, is_gzip=encoding != "identity")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while piece := await response.content.readany():
                    body.add(piece)
            found = body.end()
        except BodyTooLong:
            found = body.beginning
        except TimeoutError:
            raise TryAgain(f"its answer takes more than {_BODY_SECONDS:g} s") from None
        except ValueError as error:
            raise TryAgain(f"its answer cannot be read: {error}") from None
        pairs = ((name.decode("latin-1").lower(), value) for name, value in response.raw_headers)
        return Message(found, 0, headers=tuple((name, value) for name, value in pairs if name in self._names))
