"""HTTP server with a thread and an event loop of its own, for inputs that listen and streams that
are served.

Idea: aiohttp parses requests and writes responses; all else is a function from a request to its
response, which never raises.
Bounds: connections, and the time and the bytes that the headers of a request take. A connection
beyond the limit is answered 503; or it takes the place of the oldest one that has sent no whole
request, so that clients that say nothing keep nobody out. Handshakes of TLS are bounded likewise,
since a connection is none of the server's before its own has ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dotr.errors.diagnostics import DotrError, refuse
from dotr.model.places import Span
from dotr.streams.connectors.http.addresses import ListenAddress

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import web

Responder: TypeAlias = "Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]"
"""A function from a request to its response."""

HEADER_BYTES: Final = 8_192
"""Limit of the bytes of a request's headers."""

_LINE_BYTES: Final = HEADER_BYTES - 1  # other than that of a header, so that an error tells which it was
_USUAL_BYTES: Final = 8_190
_STOP_SECONDS: Final = 2.0
_BACKLOG: Final = 128
_HANDSHAKES: Final = 128
_FAULT: Final = 500
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    b'{"error": "too many connections"}\n'
)


class ConnectionLimits(NamedTuple):
    """Limits of the connections of a server.

    - `most`: limit of simultaneous connections.
    - `idle`: seconds in which a connection sends the headers of its next request.
    - `gives_way`: True if a connection that has sent no whole request is closed for another one
      beyond the limit.
    - `cancels`: True if the function that handles a request is cancelled where its client leaves.
    """

    most: int
    idle: float
    gives_way: bool = False
    cancels: bool = False


class ServerThread:
    """HTTP server in a separate thread.

    - `connected`: True while it listens.
    - `failure`: the error that has ended it; None if there is none.
    """

    failure: str | None = None

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.connected = False
        self._name = name
        self._stop = asyncio.Event()
        self._thread: threading.Thread | None = None

    def start(self, listening: socket.socket, handle: Responder, limits: ConnectionLimits, tls: SSLContext | None = None) -> None:
        """Answer the requests at a socket that listens; `handle` returns the response to a request."""
        serving = self._serve(listening, handle, limits, tls)
        self._thread = threading.Thread(target=self._run, args=(serving,), daemon=True, name=self._name)
        self._thread.start()
        self.connected = True

    def _run(self, serving: Coroutine[None, None, None]) -> None:
        try:
            self.loop.run_until_complete(serving)
        except Exception as error:  # no request ends the server: this is another failure
            self.failure = f"its server has ended: {type(error).__name__}: {error}"
        finally:
            self.connected = False
            self._end_connections()
            self.loop.close()

    def _end_connections(self) -> None:
        """End the tasks of connections that were made while the server stopped."""
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        if pending:
            self.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))

    async def _serve(self, listening: socket.socket, handle: Responder, limits: ConnectionLimits, tls: SSLContext | None) -> None:
        from aiohttp import web

        silent = logging.Logger("aiohttp", logging.CRITICAL + 1)  # errors of clients are not logged
        manager = web.Server(handle, handler_cancellation=limits.cancels)
        connection = partial(
            _connection_class(limits),
            manager,
            loop=self.loop,
            keepalive_timeout=limits.idle,
            lingering_time=1.0,
            auto_decompress=False,  # whoever reads a body bounds its decompressed length
            access_log=None,  # type: ignore[arg-type]  # there is none
            logger=silent,
            max_line_size=_LINE_BYTES if limits.gives_way else _USUAL_BYTES,
            max_field_size=HEADER_BYTES if limits.gives_way else _USUAL_BYTES,
        )

        handshakes: dict[asyncio.Task[object], None] = {}  # the tasks that accept connections, the oldest first

        def protocol() -> asyncio.Protocol:
            if tls is not None and (accepting := asyncio.current_task()) is not None:
                handshakes[accepting] = None
                accepting.add_done_callback(lambda task: handshakes.pop(task, None))
                if len(handshakes) > _HANDSHAKES:
                    (oldest := next(iter(handshakes))).cancel()
                    del handshakes[oldest]
            is_full = len(manager.connections) >= limits.most and not limits.gives_way
            return _RejectedConnection() if is_full else connection()

        seconds = None if tls is None else limits.idle
        server = await self.loop.create_server(protocol, sock=listening, backlog=_BACKLOG, ssl=tls, ssl_handshake_timeout=seconds)
        try:
            await self._stop.wait()
        finally:
            server.close()
            await manager.shutdown(_STOP_SECONDS)

    def stop(self) -> None:
        """Stop the server; requests under way have 2 s to be answered."""
        thread = self._thread
        if thread is None:
            if not self.loop.is_closed():
                self.loop.close()
        elif thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop.set)
            thread.join()
        self.connected = False


def _connection_class(limits: ConnectionLimits) -> type[web.RequestHandler]:
    """The class of connections, of which aiohttp is imported where a server starts."""
    from aiohttp import web

    class Connection(web.RequestHandler):
        """Connection whose errors are answered as all requests are: aiohttp's own answers tell its
        version."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if limits.gives_way and self._manager is not None:
                # Connections are in the order in which they were made; of 3 that are open, of which the first
                # is answered, the second gives way to a fourth one.
                still = [each for each in self._manager.connections if not each._force_close]
                if len(still) > limits.most:
                    oldest = next((each for each in still if each._current_request is None), self)
                    if oldest is self and isinstance(transport, asyncio.WriteTransport):
                        transport.write(_TOO_MANY)
                    oldest.force_close()

        def handle_error(
            self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
        ) -> web.StreamResponse:
            answer = json_response(*_fault(status, exc))
            answer.force_close()
            return answer

    return Connection


def _fault(status: int, error: BaseException | None) -> tuple[int, dict[str, str]]:
    """Status and content of the answer to a request that could not be read or handled."""
    from aiohttp.http_exceptions import LineTooLong

    if status >= _FAULT:
        return status, {"error": "it could not be handled"}
    if isinstance(error, LineTooLong) and _LINE_BYTES in error.args:
        return 414, {"error": f"its address has more than {_LINE_BYTES:,} bytes"}
    if (isinstance(error, LineTooLong) and HEADER_BYTES in error.args) or "Too many headers" in str(error):
        return 431, {"error": f"its headers have more than {HEADER_BYTES:,} bytes"}
    return status, {"error": "it is no valid HTTP request"}


class _RejectedConnection(asyncio.Protocol):
    """Connection beyond the limit: it receives status 503, and is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_TOO_MANY)
        transport.close()


def json_response(status: int, content: Mapping[str, object], headers: Mapping[str, str] | None = None) -> web.Response:
    """A response with a JSON object, which tells no version of a library."""
    from aiohttp import web

    text = json.dumps(content, ensure_ascii=False) + "\n"
    return web.Response(status=status, text=text, content_type="application/json", headers={"Server": "dotr", **(headers or {})})


class ErrorResponse(DotrError):
    """Response to a request that is not accepted."""

    def __init__(self, status: int, error: str, content: Mapping[str, object] | None = None, **headers: str) -> None:
        super().__init__(error)
        self.status = status
        self.content: Mapping[str, object] = {"error": error, **(content or {})}
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def response(self) -> web.Response:
        """The response: `{"error": …}`."""
        return json_response(self.status, self.content, self.headers)


def check_headers(request: web.BaseRequest) -> None:
    """Check the bytes of the headers; raises `ErrorResponse` (431)."""
    if sum(len(name) + len(value) for name, value in request.raw_headers) > HEADER_BYTES:
        raise ErrorResponse(431, f"its headers have more than {HEADER_BYTES:,} bytes")


class Tokens:
    """Accepted tokens, by their digests, which have one length.

    >>> tokens = Tokens.of("a1 b2")
    >>> tokens.has_bearer("Bearer b2"), tokens.has_bearer("Basic b2"), tokens.has("b3"), bool(Tokens.of(""))
    (True, False, False, False)
    """

    def __init__(self, digests: tuple[bytes, ...]) -> None:
        self._digests = digests

    @classmethod
    def of(cls, text: str) -> Tokens:
        """The tokens of a text, separated by spaces or commas."""
        return cls(tuple([sha256(token.encode()).digest() for token in text.replace(",", " ").split()]))

    def __bool__(self) -> bool:
        return bool(self._digests)

    def has_bearer(self, authorization: str) -> bool:
        """True if a header Authorization has an accepted token."""
        scheme, _, token = authorization.partition(" ")
        return self.has(token.strip()) and scheme.lower() == "bearer"

    def has(self, token: str) -> bool:
        """True for an accepted token. All are compared, so that timing reveals nothing."""
        digest = sha256(token.encode("utf-8", "surrogateescape")).digest()
        return sum(compare_digest(digest, known) for known in self._digests) > 0


def required_tokens(read: Callable[[], str] | None, what: str, span: Span | None) -> Tokens:
    """The tokens that a function returns; none without a function. Raises `Refused` (S124) where the
    text of an input or output (`what`) has no token."""
    tokens = Tokens.of("" if read is None else read())
    if read is not None and not tokens:
        raise refuse("S124", f"{what} has no token: the variable of its tokens is empty", span, "Write a token into it.")
    return tokens


def bound(listen: ListenAddress, what: str, span: Span | None) -> socket.socket:
    """A socket that listens at an address, for an input or output (`what`); raises `Refused`
    (C228)."""
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
        message = f"{what} cannot listen at {listen}: {(error.strerror or str(error)).lower()}"
        raise refuse("C228", message, span, hint) from None
    return listening


def check_aiohttp(span: Span | None) -> None:
    """Check that aiohttp is installed; raises `Refused` (C226)."""
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        hint = "pip install 'dotr[http]'"
        raise refuse("C226", "HTTP needs the Python package aiohttp, which is not installed", span, hint) from None
