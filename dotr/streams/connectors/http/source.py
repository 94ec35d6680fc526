"""HTTP server of an input: a POST has one or several messages, acknowledged once they are stored.

Idea: aiohttp serves in a thread with an event loop of its own. Requests wait for the inbox
concurrently, and a full inbox is an error response at once, so that no client can block the run.
Bounds: connections, bytes of bodies that are being read, bytes of a body, and the time that a
client may take for headers and body.
Cost: about 0.3 ms a request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from dotr.errors.diagnostics import DotrError, Refused, refuse
from dotr.model.places import Span
from dotr.streams.connectors.http.addresses import ListenAddress
from dotr.streams.connectors.receivers import QUEUED_BYTES
from dotr.streams.formats.messages import check_content_type, is_any_content
from dotr.streams.records import Format, Inbox, Message, ReceivingFailed

if TYPE_CHECKING:
    from aiohttp import web


CLIENTS: Final = 200
"""Limit of simultaneous connections."""

_HEADER_BYTES: Final = 8_192
_IDLE_SECONDS: Final = 30.0
"""Longest wait for the headers of a request, and for the next piece of its body."""

_BODY_SECONDS: Final = 300.0
_STORED_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.02
_TURNS: Final = 8
"""Turns of the event loop within which a request that waits in a new connection is begun: five."""

_BACKLOG: Final = 128
_RETRY_AFTER: Final = "1"
_FAULT: Final = 500
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    b'{"error": "too many connections"}\n'
)


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
        try:
            import aiohttp  # noqa: F401
        except ImportError:
            hint = "pip install 'dotr[http]'"
            raise refuse("C226", "HTTP needs the Python package aiohttp, which is not installed", self.span, hint) from None
        return HttpReceiver(self)


class HttpReceiver:
    """HTTP server in a separate thread."""

    failure: Refused | ReceivingFailed | None = None

    def __init__(self, source: HttpListen) -> None:
        self._source = source
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._handler: _RequestHandler | None = None
        self.connected = False

    def is_drained(self) -> bool:
        """True if no request comes while the event loop turns a few times: it then reads what waits in
        its sockets, also in new connections. A client that is silent amid a body does not count."""
        if not self.connected or self._handler is None:
            return True
        looking = self._handler.is_idle()
        try:
            turning = asyncio.run_coroutine_threadsafe(looking, self._loop)
        except RuntimeError:  # the loop has just ended
            looking.close()
            return True
        try:
            return turning.result(_LOOK_SECONDS)
        except (TimeoutError, CancelledError):
            turning.cancel()
            return False

    def start(self, inbox: Inbox) -> None:
        """Listen; raises `Refused` where the address is taken (C228) or the tokens are missing."""
        try:
            self._handler = handler = _RequestHandler(self._source, _digests(self._source), inbox)
            listening = _bound(self._source)
        except BaseException:
            self._loop.close()
            raise
        self._thread = threading.Thread(target=self._run, args=(handler, listening), daemon=True, name=f"dotr input {self._source.name}")
        self._thread.start()
        self.connected = True

    def _run(self, handler: _RequestHandler, listening: socket.socket) -> None:
        try:
            self._loop.run_until_complete(self._serve(handler, listening))
        except Exception as error:  # no request ends the server: this is another failure
            self.failure = ReceivingFailed(f"input {self._source.name}: its server has ended: {type(error).__name__}: {error}")
        finally:
            self.connected = False
            self._end_connections()
            self._loop.close()

    def _end_connections(self) -> None:
        """End the tasks of connections that were made while the server stopped."""
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        if pending:
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))

    async def _serve(self, handler: _RequestHandler, listening: socket.socket) -> None:
        from aiohttp import web

        silent = logging.Logger("aiohttp", logging.CRITICAL + 1)  # errors of clients are not logged
        # `BodyBytes` decompresses bodies, since it bounds their length.
        manager = web.Server(handler.handle)
        connection = partial(
            _connection_class(),
            manager,
            loop=self._loop,
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=1.0,
            auto_decompress=False,
            access_log=None,  # type: ignore[arg-type]  # there is none
            logger=silent,
        )

        def protocol() -> asyncio.Protocol:
            return connection() if len(manager.connections) < CLIENTS else _RejectedConnection()

        server = await self._loop.create_server(protocol, sock=listening, backlog=_BACKLOG)
        try:
            await self._stop.wait()
        finally:
            server.close()
            await manager.shutdown(_STOP_SECONDS)

    def stop(self) -> None:
        """Stop the server; requests under way have 2 s to be answered."""
        thread = self._thread
        if thread is None:
            if not self._loop.is_closed():
                self._loop.close()
        elif thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join()
        self.connected = False


def _connection_class() -> type[web.RequestHandler]:
    """The class of connections, of which aiohttp is imported where a server starts."""
    from aiohttp import web

    class Connection(web.RequestHandler):
        """Connection whose errors are answered as all requests are: aiohttp's own answers tell its
        version."""

        def handle_error(
            self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
        ) -> web.StreamResponse:
            answer = _response(status, {"error": "it is no valid HTTP request" if status < _FAULT else "it could not be handled"}, {})
            answer.force_close()
            return answer

    return Connection


class _RejectedConnection(asyncio.Protocol):
    """Connection beyond the limit: it receives status 503, and is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_TOO_MANY)
        transport.close()


def _digests(source: HttpListen) -> tuple[bytes, ...]:
    """Digests of the tokens, all of one length; raises `Refused` (S124) where there is none."""
    if source.tokens is None:
        return ()
    tokens = source.tokens().replace(",", " ").split()
    if not tokens:
        raise refuse(
            "S124", f"input {source.name} has no token: the variable of its tokens is empty", source.span, "Write a token into it."
        )
    return tuple(sha256(token.encode()).digest() for token in tokens)


def _bound(source: HttpListen) -> socket.socket:
    """The socket of the server, bound; raises `Refused` (C228)."""
    listen = source.listen
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        hint = "Is another run, or another program, there already? Choose another address."
        message = f"input {source.name} cannot listen at {source.address}: {(error.strerror or str(error)).lower()}"
        raise refuse("C228", message, source.span, hint) from None
    return listening


class _ErrorResponse(Exception):
    """Response to a request that is not accepted."""

    def __init__(self, status: int, error: str, **headers: str) -> None:
        super().__init__(error)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class _RequestHandler:
    """Handler of requests."""

    def __init__(self, source: HttpListen, digests: tuple[bytes, ...], inbox: Inbox) -> None:
        self._source = source
        self._digests = digests
        self._inbox = inbox
        self._reading = 0
        self._steps = 0

    async def is_idle(self) -> bool:
        """True if no request goes on while the event loop turns."""
        before = self._steps
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return self._steps == before

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The response to a request: 202 once the inbox has stored its messages."""
        self._steps += 1
        try:
            count = await self._accept(request)
        except _ErrorResponse as error:
            return _response(error.status, {"error": str(error)}, error.headers)
        finally:
            self._steps += 1
        return _response(202, {"messages": count}, {})

    async def _accept(self, request: web.BaseRequest) -> int:
        lines = self._check(request)
        messages = self._messages(request, await self._body(request), lines=lines)
        stored = asyncio.get_running_loop().create_future()
        if not self._inbox.offer(messages, _setter(stored)):
            raise _ErrorResponse(429, "the inbox is full; try again later", Retry_After=_RETRY_AFTER)
        try:
            await asyncio.wait_for(stored, _STORED_SECONDS)
        except TimeoutError:
            raise _ErrorResponse(503, "it is not on the disk: it may be sent again", Retry_After=_RETRY_AFTER) from None
        return len(messages)

    def _check(self, request: web.BaseRequest) -> bool:
        """Check all but the body; raises `_ErrorResponse`. True if each line is a message."""
        source = self._source
        if sum(len(name) + len(value) for name, value in request.raw_headers) > _HEADER_BYTES:
            raise _ErrorResponse(431, f"its headers have more than {_HEADER_BYTES:,} bytes")
        if request.path != source.listen.path:
            raise _ErrorResponse(404, "no input has this path")
        if request.method != "POST":
            raise _ErrorResponse(405, "messages are sent here by POST", Allow="POST")
        if not self._digests:
            self._check_site(request)
        elif not self._has_token(request.headers.get("Authorization", "")):
            raise _ErrorResponse(401, "it needs a token: Authorization: Bearer TOKEN", WWW_Authenticate="Bearer")
        if request.headers.get("Content-Encoding", "identity").lower() not in ("identity", "gzip", "x-gzip"):
            raise _ErrorResponse(415, "its content-encoding is neither gzip nor identity", Accept_Encoding="gzip")
        try:
            lines = is_lines(request.headers.get("Content-Type", ""), source.format, exact=not self._digests)
        except ValueError as error:
            raise _ErrorResponse(415, str(error)) from None
        if (request.content_length or 0) > source.most:
            raise _ErrorResponse(413, f"it has more than {source.most:,} bytes")
        return lines

    def _check_site(self, request: web.BaseRequest) -> None:
        """Refuse what a browser sends for a page of another site, where no token shows who sends.

        A page may post a body of text to any address that its browser reaches, and have a name of
        its own resolved to that address.
        """
        if "Origin" in request.headers:
            raise _ErrorResponse(403, "it has an Origin: pages in a browser send here only where the input has tokens")
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._source.listen.is_host(hosts[0]):
            listen = self._source.listen
            raise _ErrorResponse(403, f"its Host is not the address {listen.authority}: without tokens it must be")

    def _has_token(self, authorization: str) -> bool:
        """True for an accepted token. All are compared, so that timing reveals nothing."""
        scheme, _, token = authorization.partition(" ")
        digest = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found = [compare_digest(digest, known) for known in self._digests]
        return scheme.lower() == "bearer" and any(found)

    async def _body(self, request: web.BaseRequest) -> bytes:
        """The decompressed body; raises `_ErrorResponse` where it is too long, late or damaged."""
        body = BodyBytes(self._source.most, is_gzip=request.headers.get("Content-Encoding", "identity").lower() != "identity")
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        counted = 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while True:
                    async with asyncio.timeout(_IDLE_SECONDS):
                        piece = await request.content.readany()
                    self._steps += 1
                    if not piece:
                        return body.end()
                    body.add(piece)
                    self._reading += body.size - counted
                    counted = body.size
                    if self._reading > QUEUED_BYTES and self._reading > body.size:
                        raise _ErrorResponse(429, "too much is being sent at once", Retry_After=_RETRY_AFTER)
        except TimeoutError:
            raise _ErrorResponse(408, "its body did not come in time") from None
        except BodyTooLong as error:
            raise _ErrorResponse(413, str(error)) from None
        except ValueError as error:
            raise _ErrorResponse(400, str(error)) from None
        finally:
            self._reading -= counted

    def _messages(self, request: web.BaseRequest, body: bytes, *, lines: bool) -> list[Message]:
        try:
            bodies = lines_of(body) if lines else [body] if body else []
        except BodyTooLong as error:
            raise _ErrorResponse(413, str(error)) from None
        if not bodies:
            raise _ErrorResponse(400, "it has no body")
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


def _response(status: int, content: dict[str, int | str], headers: dict[str, str]) -> web.StreamResponse:
    from aiohttp import web

    text = json.dumps(content, ensure_ascii=False) + "\n"
    return web.Response(status=status, text=text, content_type="application/json", headers={"Server": "dotr", **headers})


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
_USUAL: Final = {
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.TEXT: "application/octet-stream",  # a page of any site may send text/plain unasked
    Format.TURTLE: "text/turtle",
    Format.NTRIPLES: "application/n-triples",
    Format.TRIG: "application/trig",
    Format.NQUADS: "application/n-quads",
    Format.JSONLD: "application/ld+json",
}
"""The media type of each format."""

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
        if self.size > self._limit:
            raise BodyTooLong(f"it has more than {self._limit:,} bytes")
        self._pieces.append(piece)

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
    if exact and is_any_content(content_type) and written.lower() != _USUAL[form]:
        found = f"its content-type, {written}, does not fit the format {form.value}" if written else "it has no content-type"
        raise ValueError(f"{found}: send it as {_USUAL[form]}")
    if form in _LINES_BY_TYPE and content_type.partition(";")[0].strip().lower() in _LINE_TYPES:
        return True
    try:
        check_content_type("content-type", content_type.encode("utf-8", "replace"), form)
    except ValueError as error:
        raise ValueError(f"{error}: send it as {_USUAL[form]}") from None
    return form in _ALWAYS_LINES


def lines_of(body: bytes) -> Sequence[bytes]:
    r"""The lines of a body that are not blank; raises BodyTooLong where there are too many.

    >>> lines_of(b'{"a": 1}\r\n\n{"a": 2}')
    [b'{"a": 1}\r', b'{"a": 2}']
    """
    if body.count(b"\n") > MOST_LINES:
        raise BodyTooLong(f"it has more than {MOST_LINES:,} lines")
    return [line for line in body.split(b"\n") if line.strip()]
