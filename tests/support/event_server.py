"""A server on loopback whose GET requests a test answers by a coroutine: streams of events, frames, documents."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web

from tests.support.http_server import answering
from tests.support.ports import free_port

Answer: TypeAlias = Callable[[int, web.Request], Awaitable[web.StreamResponse]]
"""`answer(number, request)`: the response to a request, counted from 0."""


@dataclass
class EventServer:
    """A server and the headers of the requests that came, with the path as `:path`."""

    port: int
    secure: bool
    requests: list[dict[str, str]] = field(default_factory=list)

    def url(self, path: str = "/in", scheme: str = "http") -> str:
        return f"{scheme}{'s' if self.secure else ''}://127.0.0.1:{self.port}{path}"


@contextmanager
def event_server(answer: Answer, *, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[EventServer]:
    """Serve while the context is open; then all connections are closed."""
    server = EventServer(port or free_port(), tls is not None)

    async def handle(request: web.Request) -> web.StreamResponse:
        number = len(server.requests)
        server.requests.append({**request.headers, ":path": request.path_qs})
        return await answer(number, request)

    with answering(handle, server.port, tls, cancels=True):
        yield server


async def events(request: web.Request, *texts: str | bytes, close: bool = True) -> web.StreamResponse:
    """Send texts as a stream of events, each in a piece of its own; then end it, or keep it open."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for text in texts:
        await response.write(text if isinstance(text, bytes) else text.encode())
        await asyncio.sleep(0.005)
    if not close:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    return response
