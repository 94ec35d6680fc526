"""Server of published streams: one an address, with a stream at each of its paths.

Idea: a request passes the same checks whatever it asks for (headers, host, method, token,
parameters), then the function of its resource makes the response. Both are pure of the run: they
read what is kept.
Guarantee: nothing that a reader sends reaches a file's name, a log or another reader; a fault in an
answer is a status 500 of that request alone.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dotr.streams.connectors.http.server import ConnectionLimits, ErrorResponse, ServerThread, bound, check_aiohttp, check_headers
from dotr.streams.connectors.serve import pull, push
from dotr.streams.connectors.serve.descriptions import resources
from dotr.streams.connectors.serve.requests import (
    METHODS,
    ServedRoute,
    check_host,
    check_parameters,
    check_token,
    common_headers,
    options_response,
    path_of,
)
from dotr.streams.connectors.serve.section import ServeDestination
from dotr.streams.connectors.serve.stream import PublishedStream

if TYPE_CHECKING:
    from aiohttp import web

IDLE_SECONDS: Final = 30.0
STALLED_SECONDS: Final = 60.0
"""Longest time that a reader takes no byte of its answer; then its connection ends."""

_CONNECTIONS: Final = 256
"""Connections beside those of the clients that elements are pushed to."""

_ERRORS: Final = 400


ROUTES: Final[Mapping[str, ServedRoute]] = {**resources.ROUTES, **pull.ROUTES, **push.ROUTES}
"""The resources of a stream by the name behind its path; `ID` and `ldes/N` are patterns."""


class StreamServer:
    """Server of the streams at one address; it listens from its creation on, and answers from
    `start` on."""

    def __init__(self, destinations: Sequence[ServeDestination]) -> None:
        """`destinations` are those of one address. Raises `Refused` (C226, C228)."""
        first = destinations[0]
        check_aiohttp(first.span)
        self._listening = bound(first.listen, f"output {first.number}", first.span)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections have it of the socket that listens
            self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(STALLED_SECONDS * 1_000))
        clients = sum(each.clients for each in destinations)
        self._limits = ConnectionLimits(clients + _CONNECTIONS, IDLE_SECONDS, gives_way=True, cancels=True)
        self._tls = None if first.tls is None else first.tls.context()
        self._thread = ServerThread(f"dotr server of {first.listen.authority}")
        self._streams: dict[str, PublishedStream] = {}

    def start(self, streams: Sequence[PublishedStream]) -> None:
        """Answer requests for streams."""
        for stream in streams:
            self._streams[stream.destination.path] = stream
            stream.serve_in(self._thread.loop)
        self._thread.start(self._listening, self._handle, self._limits, self._tls)

    @property
    def failure(self) -> str | None:
        """The error that has ended the server; None if there is none."""
        return self._thread.failure

    def stop(self) -> None:
        """Stop the server; requests under way have 2 s to be answered."""
        self._thread.stop()
        self._listening.close()

    def _stream(self, path: str) -> tuple[PublishedStream, str]:
        """The stream at a path, and the name behind its own path; raises `ErrorResponse` (404).

        `/fire/12-0` is 12-0 of the stream at /fire, or fire/12-0 of the one at the root.
        """
        prefix, rest = path, ""
        while True:
            if (stream := self._streams.get(prefix)) is not None:
                return stream, rest
            if not prefix:
                raise ErrorResponse(404, "no stream has this path")
            prefix, _, name = prefix.rpartition("/")
            rest = f"{name}/{rest}" if rest else name

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        stream: PublishedStream | None = None
        try:
            check_headers(request)
            stream, name = self._stream(path_of(request))
            response = await self._answer(stream, name, request)
        except ErrorResponse as error:
            response = error.response
        if stream is not None:
            if response.status >= _ERRORS:
                stream.counts.refusals[response.status] += 1
            if not response.prepared:
                for key, value in common_headers(stream, request).items():
                    response.headers.setdefault(key, value)
        return response

    async def _answer(self, stream: PublishedStream, name: str, request: web.BaseRequest) -> web.StreamResponse:
        if not stream.tokens:
            check_host(stream, request)
        if request.method not in METHODS:
            raise ErrorResponse(405, "a stream is read, by GET or HEAD", Allow=", ".join(METHODS))
        if request.method == "OPTIONS":
            return options_response(stream, request)
        if request.can_read_body:
            answer = ErrorResponse(400, "it has a body, and a stream is read without one").response
            answer.force_close()
            return answer
        route = ROUTES.get(name) or ROUTES["ldes/N" if name.startswith("ldes/") else "ID"]
        if not route.is_told:
            check_token(stream, request, is_pushed=route.is_pushed)
        check_parameters(route, request)
        stream.catch_up()
        return await route.handle(stream, request)
