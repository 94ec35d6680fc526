"""Polled URLs: which answers are messages, beside a real server on loopback."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web

from dotr.errors.diagnostics import Refused
from dotr.streams.connectors.http.source import PollingReceiver
from dotr.streams.connectors.web_access import WebAccess
from dotr.streams.records import Message
from tests.support.event_server import EventServer, event_server
from tests.support.inbox import MemoryInbox, until

pytestmark = pytest.mark.core


@contextmanager
def polled(server: EventServer, inbox: MemoryInbox, most: int = 1000, headers: frozenset[str] = frozenset()) -> Iterator[PollingReceiver]:
    url = server.url()
    receiver = PollingReceiver("a", WebAccess(url, lambda: url), most, 0.01, headers)
    receiver.start(inbox)
    try:
        yield receiver
    finally:
        receiver.stop()


def test_bytes_that_are_the_last_ones_again_are_no_message() -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return web.Response(body=[b"a", b"a", b"b", b"a", b""][min(number, 4)])

    inbox = MemoryInbox()
    with event_server(answer) as server, polled(server, inbox) as receiver:
        assert inbox.until(4) == [b"a", b"b", b"a", b""]
        until(lambda: len(server.requests) > 8)
        assert receiver.connected
        until(receiver.is_drained)
        assert len(inbox.messages) == 4


def test_conditions_are_sent() -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        tag = f'"{min(number, 3) // 2}"'
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304)
        return web.Response(body=tag.encode(), headers={"ETag": tag, "Last-Modified": "Sat, 28 Nov 2026 00:00:00 GMT"})

    inbox = MemoryInbox()
    with event_server(answer) as server, polled(server, inbox):
        assert inbox.until(2) == [b'"0"', b'"1"']
        until(lambda: len(server.requests) > 5)
    assert [each.get("If-None-Match") for each in server.requests[:5]] == [None, '"0"', '"0"', '"1"', '"1"']
    assert server.requests[1]["If-Modified-Since"] == "Sat, 28 Nov 2026 00:00:00 GMT"
    assert len(inbox.messages) == 2


def test_last_message_of_an_earlier_run() -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"a" if number < 3 else b"b")

    inbox = MemoryInbox(last=Message(b"a", 3, headers=(("etag", b'"x"'),)))
    with event_server(answer) as server, polled(server, inbox):
        assert inbox.until(1) == [b"b"]
    assert server.requests[0]["If-None-Match"] == '"x"'


def test_headers_of_answers() -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return web.Response(text="a", content_type="text/turtle", headers={"X-Sensor": "s1", "X-Other": "b"})

    inbox = MemoryInbox()
    with event_server(answer) as server, polled(server, inbox, headers=frozenset(["x-sensor"])):
        inbox.until(1)
    assert dict(inbox.messages[0].headers) == {"content-type": b"text/turtle; charset=utf-8", "x-sensor": b"s1"}


def test_compressed_and_long_answers() -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        body = [gzip.compress(b"a"), gzip.compress(b"x" * 100_000), b"no gzip", gzip.compress(b"b")][min(number, 3)]
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    inbox = MemoryInbox()
    with event_server(answer) as server, polled(server, inbox):
        assert inbox.until(3) == [b"a", b"x" * 1001, b"b"]


def test_errors_are_tried_again_or_end_the_run() -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return web.Response(status=503) if not number else web.Response(text="a") if number < 3 else web.Response(status=403)

    inbox = MemoryInbox()
    with event_server(answer) as server:
        with polled(server, inbox) as receiver:
            assert inbox.until(1) == [b"a"]
            until(lambda: receiver.failure is not None)
            assert "it answers 403 (Forbidden)" in str(receiver.failure)
            assert not receiver.connected
        with pytest.raises(Refused, match="it answers 403"), polled(server, inbox):
            pass
