"""Resources of a published stream that are pushed: events of SSE, a WebSocket, and one body without
end.

A client that has an ID goes on behind it; a client that says nothing starts with the next element.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from dotr.streams.connectors.http.server import ErrorResponse
from dotr.streams.connectors.serve.broadcast import HIGH, Chosen, Client, Ending, Framing, Kind, event
from dotr.streams.connectors.serve.elements import ElementFormat
from dotr.streams.connectors.serve.pull import start_of_last
from dotr.streams.connectors.serve.requests import (
    ServedRoute,
    accepted_type,
    bounds_of,
    common_headers,
    count_of,
    is_foreign,
    labels_of,
    negotiated,
    time_of,
)
from dotr.streams.connectors.serve.stream import PublishedStream, StreamState

if TYPE_CHECKING:
    from aiohttp import web

PUSHED: Final = (ElementFormat.JSONLD, ElementFormat.TRIG, ElementFormat.NQUADS)
"""The formats of events and of a WebSocket, the first one where nothing is said."""

CHUNKED: Final = (ElementFormat.JSONLD, ElementFormat.NDJSON, ElementFormat.TRIG, ElementFormat.NQUADS, ElementFormat.JELLY)
"""The formats of a body without end, likewise; Jelly where its library is."""

FRAME_BYTES: Final = 4 << 10
"""Limit of the bytes of a message of a client."""

GRACE_SECONDS: Final = 30.0
"""Time in which a client that is closed takes what its connection holds."""

_EVENT_STREAM: Final = "text/event-stream"
_PARAMETERS: Final = frozenset(("since", "until", "after", "last", "label", "format"))
_RETRY_AFTER: Final = "5"
_STEP: Final = 1_000
_SOCKET_BYTES: Final = 128 << 10
_VERSION: Final = "13"
_CODES: Final = {Ending.END: 1000, Ending.STOP: 1001, Ending.SLOW: 1013}
"""The code with which a WebSocket is closed."""


class _Start(NamedTuple):
    """The place at which a client starts: the number of its first element, and what it chose.
    `gap`: the first ID that is kept, where the one behind which it would go on is not; empty where
    none is."""

    number: int
    chosen: Chosen
    gap: str | None = None


async def events(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with elements as events of SSE."""
    from aiohttp import web

    accepted_type(request, [_EVENT_STREAM])
    start = await _start(stream, request, request.headers.get("Last-Event-ID", ""))
    if await _is_over(stream, start):
        return web.Response(status=204)
    return await _send(stream, request, Kind.EVENTS, _form(request), start, _EVENT_STREAM)


async def chunks(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response with elements as one body, which ends with the stream."""
    form = negotiated(request, CHUNKED if find_spec("pyjelly") else CHUNKED[:-1])
    return await _send(stream, request, Kind.CHUNKS, form, await _start(stream, request), form.media_type)


async def websocket(stream: PublishedStream, request: web.BaseRequest) -> web.StreamResponse:
    """The response of a WebSocket with an element a message."""
    from aiohttp import web

    if is_foreign(stream, request):
        raise ErrorResponse(403, "its Origin is another one: origins of the output names those that may read")
    if request.headers.get("Upgrade", "").lower().strip() != "websocket" or request.method != "GET":
        raise ErrorResponse(426, "it is a WebSocket", Upgrade="websocket")
    if request.headers.get("Sec-WebSocket-Version") != _VERSION:
        raise ErrorResponse(426, "its version of WebSocket is another one", Sec_WebSocket_Version=_VERSION)
    logging.getLogger("aiohttp.websocket").disabled = True  # it writes what a client sends
    framing = Framing(Kind.WEBSOCKET, _form(request))
    start = await _start(stream, request)
    response = web.WebSocketResponse(compress=False, max_msg_size=FRAME_BYTES + 1, timeout=GRACE_SECONDS)
    response.headers.update(common_headers(stream, request))
    with _place(stream, framing, start) as client:
        try:
            writer = await response.prepare(request)
        except web.HTTPException:
            raise ErrorResponse(400, "it is no valid request for a WebSocket") from None
        transport = _transport(request)
        client.start(transport)
        reading = asyncio.ensure_future(_ignore_messages(response))
        running = asyncio.ensure_future(client.run(writer.drain))
        try:
            await asyncio.wait([reading, running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            running.cancel()
            await asyncio.gather(reading, running, return_exceptions=True)
    if running.done() and not running.cancelled() and running.exception() is None:
        _abort_later(transport)
        await response.close(code=_CODES[running.result()])
    return response


async def _ignore_messages(response: web.WebSocketResponse) -> None:
    """Drop messages until the client closes, or sends one that is too long."""
    from aiohttp import WSMsgType

    while (await response.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
        pass


async def _send(
    stream: PublishedStream, request: web.BaseRequest, kind: Kind, form: ElementFormat, start: _Start, media_type: str
) -> web.StreamResponse:
    """The response with elements in its body, until it is closed."""
    from aiohttp import web

    headers = {"Content-Type": media_type, "Vary": "Accept", **common_headers(stream, request), "X-Accel-Buffering": "no"}
    if request.method == "HEAD":
        return web.Response(headers=headers)
    framing = Framing(kind, form, chunked=request.version >= (1, 1))
    response = web.StreamResponse(headers=headers)
    response.force_close()
    with _place(stream, framing, start) as client:
        writer = await response.prepare(request)
        assert writer is not None, "nothing was sent before"
        transport = _transport(request)
        transport.write(framing.opening + (b"" if start.gap is None else framing.chunk(event(start.gap.encode(), name="gap"))))
        client.start(transport)
        ending = await client.run(writer.drain)
    _abort_later(transport)
    closing = framing.closing(ending, is_empty=not client.has_sent)
    if closing is None:  # cut: the end of the chunks is not written
        transport.close()
    else:
        transport.write(closing)
    return response


def _abort_later(transport: asyncio.WriteTransport) -> None:
    asyncio.get_running_loop().call_later(GRACE_SECONDS, transport.abort)


def _form(request: web.BaseRequest) -> ElementFormat:
    return negotiated(request, PUSHED) if "format" in request.query else PUSHED[0]


def _transport(request: web.BaseRequest) -> asyncio.Transport:
    """The connection of a request; its bounds are set."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    assert isinstance(transport, asyncio.Transport)
    transport.set_write_buffer_limits(HIGH)
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return transport


@contextmanager
def _place(stream: PublishedStream, framing: Framing, start: _Start) -> Iterator[Client]:
    """A client with one of the places of a stream; raises `ErrorResponse` (503)."""
    clients, most, kind = stream.counts.clients, stream.destination.clients, framing.kind.value
    if clients.total() >= most:
        raise ErrorResponse(503, f"there are {most:,} clients already", Retry_After=_RETRY_AFTER)
    client = Client(stream.broadcast, framing, start.number, start.chosen)
    clients[kind] += 1
    stream.broadcast.add(client)
    try:
        yield client
    finally:
        stream.broadcast.remove(client)
        clients[kind] -= 1


async def _start(stream: PublishedStream, request: web.BaseRequest, last_id: str = "") -> _Start:
    """The place at which a client starts: behind `last_id`, the one that an EventSource has seen
    last, if it has seen one; raises `ErrorResponse` (400, 410)."""
    query, kept = request.query, stream.kept
    labels, last = labels_of(request), count_of(request, "last")
    since, until = (time_of(stream, request, name) if name in query else None for name in ("since", "until"))
    chosen, stop = Chosen(labels or None, since, until), kept.next if until is None else kept.since(until)
    if last_id:
        found = kept.place_behind(last_id)
        if isinstance(found, int):
            return _Start(min(found, stop), chosen)  # the element at `stop`, if there is one, ends the answer
        first = kept.slice(kept.first, kept.first + 1)
        return _Start(kept.first, chosen, first[0].id if first else "")
    start, stop = bounds_of(stream, request)
    if last is not None:
        start = await start_of_last(kept, start, stop, labels, last)
    elif "after" not in query and since is None:
        start = kept.next
    return _Start(min(start, stop), chosen)


async def _is_over(stream: PublishedStream, start: _Start) -> bool:
    """True if a client that starts there would get no element any more."""
    kept, chosen = stream.kept, start.chosen
    stop = kept.next if chosen.until is None else kept.since(chosen.until)
    if stream.state is not StreamState.ENDED and stop == kept.next:
        return False
    for number in range(start.number, stop, _STEP):
        if any(map(chosen.has, kept.slice(number, min(stop, number + _STEP)))):
            return False
        await asyncio.sleep(0)
    return True


ROUTES: Final[Mapping[str, ServedRoute]] = {
    "events": ServedRoute(events, _PARAMETERS, is_pushed=True),
    "ws": ServedRoute(websocket, _PARAMETERS, is_pushed=True),
    "stream": ServedRoute(chunks, _PARAMETERS),
}
