"""A server on loopback that records POST requests and answers them by a script."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web

from tests.support.ports import free_port


@dataclass(frozen=True)
class Posted:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


Script: TypeAlias = Callable[[int, Posted], web.Response | int | None]
"""`script(number, request)`: the status of the answer to a request, or None to close the connection."""


@dataclass
class PostServer:
    """The received requests: all, and the accepted ones."""

    url: str
    requests: list[Posted] = field(default_factory=list)
    accepted: list[Posted] = field(default_factory=list)

    def text(self) -> str:
        """The bodies of the accepted requests, concatenated; a repeated key counts once."""
        once = {each.key: each.body for each in self.accepted}
        return b"".join(once.values()).decode()


@contextmanager
def post_server(script: Script = lambda number, request: 200, *, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[PostServer]:
    """Serve while the context is open."""
    port = port or free_port()
    server = PostServer(f"{'https' if tls else 'http'}://127.0.0.1:{port}")

    async def handle(request: web.Request) -> web.StreamResponse:
        posted = Posted(request.path_qs, dict(request.headers), await request.read())
        number = len(server.requests)
        server.requests.append(posted)
        answer = script(number, posted)
        if answer is None:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        answer = web.Response(status=answer) if isinstance(answer, int) else answer
        if answer.status in range(200, 300):
            server.accepted.append(posted)
        return answer

    with answering(handle, port, tls):
        yield server


@contextmanager
def answering(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]], port: int, tls: ssl.SSLContext | None = None, *, cancels: bool = False
) -> Iterator[None]:
    """Answer all requests to a port by a coroutine while the context is open, in a thread. `cancels`: it ends when its client leaves."""
    loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{any:.*}", handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=cancels)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
