"""WebSockets: the parser of frames, and the receiver beside real servers on loopback."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from dotr.errors.diagnostics import Refused
from dotr.model.time import Clock
from dotr.streams.connectors.serve.kept import Keep
from dotr.streams.connectors.web_access import WebAccess
from dotr.streams.connectors.web_receiver import TryAgain
from dotr.streams.connectors.websocket.source import FrameParser, WebSocketFrame, WebSocketReceiver
from dotr.streams.records import Format, Message
from tests.support.certificates import certificate
from tests.support.event_server import Answer, EventServer, event_server
from tests.support.hostile_server import hostile_server
from tests.support.inbox import MemoryInbox, until
from tests.support.published import published

pytestmark = pytest.mark.core


def source(url: str, most: int = 1000, ca: str = "", *, resume: bool = False) -> WebSocketReceiver:
    return WebSocketReceiver("a", WebAccess(url.partition("?")[0], lambda: url, ca=ca), most, Format.TRIG, resume)


@contextmanager
def received(
    server: EventServer, inbox: MemoryInbox, query: str = "", most: int = 1000, ca: str = "", *, resume: bool = False
) -> Iterator[WebSocketReceiver]:
    receiver = source(server.url(f"/ws{query}", "ws"), most, ca, resume=resume)
    receiver.start(inbox)
    try:
        yield receiver
    finally:
        receiver.stop()


async def frames(request: web.Request, *sent: str | bytes, code: int | None = 1011) -> web.StreamResponse:
    """Send text and binary frames; then close with a code, or keep the connection open."""
    socket = web.WebSocketResponse(timeout=1)
    await socket.prepare(request)
    for each in sent:
        await (socket.send_str(each) if isinstance(each, str) else socket.send_bytes(each))
    if code is None:
        while (await socket.receive()).type not in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
            pass
    else:
        await socket.close(code=code)
    return socket


async def raw(request: web.Request, *pieces: bytes) -> web.StreamResponse:
    """Upgrade, then write bytes that a library would not, and keep the connection open."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    assert request.transport is not None
    for piece in pieces:
        request.transport.write(piece)
        await asyncio.sleep(0.005)
    await socket.receive()
    return socket


def always(send: Callable[[web.Request], Any]) -> Answer:
    """An answer for the first connection, and a silent one for others."""

    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return await (frames(request, code=None) if number else send(request))

    return answer


def frame(opcode: int, payload: bytes, *, last: bool = True) -> bytes:
    """A frame of a server."""
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else b"\x7f" + size.to_bytes(8, "big")
    return bytes([128 * last | opcode]) + length + payload


class TestParser:
    @pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 200_000])
    def test_lengths(self, size: int) -> None:
        assert FrameParser(1 << 20).feed(frame(1, b"x" * size)) == [WebSocketFrame(1, b"x" * size)]

    @pytest.mark.parametrize(
        "text",
        [
            b"\xc1\x00",  # a bit of an extension
            b"\x83\x00",  # an opcode of nothing
            b"\x8b\x00",
            b"\x81\x80\0\0\0\0",  # masked, as clients do
            b"\x80\x00",  # no message goes on
            b"\x01\x01a\x81\x01b",  # a message within a message
            b"\x09\x00",  # a control frame in fragments
            b"\x89\x7e\x00\x7e",  # a long control frame
        ],
    )
    def test_what_is_no_frame(self, text: bytes) -> None:
        with pytest.raises(TryAgain, match="it sends what is no WebSocket frame"):
            FrameParser(100).feed(text)

    def test_longer_messages_are_cut_behind_the_limit(self) -> None:
        whole, parts = frame(1, b"x" * 5000), frame(1, b"y" * 60, last=False) + frame(0, b"", last=False) + frame(0, b"y" * 60)
        found = FrameParser(100).feed(whole + parts + frame(1, b"z"))
        assert found == [WebSocketFrame(1, b"x" * 101), WebSocketFrame(1, b"y" * 101), WebSocketFrame(1, b"z")]

    def test_memory_is_bounded(self) -> None:
        parser = FrameParser(1000)
        assert parser.feed(b"\x81\x7f" + (1 << 40).to_bytes(8, "big")) == []
        for _ in range(100):
            assert parser.feed(b"x" * 10_000) == []
        assert len(parser._data) + len(parser._message) <= 1001

    def test_pieces_give_the_frames_of_the_whole(self) -> None:
        choose = random.Random(5)
        for _ in range(int(os.environ.get("DOTR_EXAMPLES", "200"))):
            text, expected = b"", []
            for _ in range(choose.randint(1, 6)):
                opcode, payload = choose.choice([1, 2]), choose.randbytes(choose.choice([0, 3, 130, 300]))
                cuts = sorted(choose.choices(range(len(payload) + 1), k=choose.randint(0, 3)))
                parts = [payload[one:other] for one, other in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
                for number, part in enumerate(parts):
                    text += frame(opcode if not number else 0, part, last=number == len(parts) - 1)
                    if number < len(parts) - 1 and choose.random() < 0.3:
                        text += frame(9, b"p")
                        expected.append(WebSocketFrame(9, b"p"))
                expected.append(WebSocketFrame(opcode, payload[:251]))
            parser, found, at = FrameParser(250), [], 0
            while at < len(text):
                size = choose.randint(1, 40)
                found += parser.feed(text[at : at + size])
                at += size
            assert found == expected

    def test_random_bytes_end_only_a_connection(self) -> None:
        choose = random.Random(9)
        for _ in range(300):
            parser = FrameParser(100)
            try:
                for _ in range(5):
                    parser.feed(choose.randbytes(70))
            except TryAgain:
                continue


class TestReceiver:
    def test_text_frames_are_messages(self) -> None:
        def send(request: web.Request) -> Any:
            return frames(request, "a", "é" * 400, b"b", "x" * 5000, "", "c", code=None)

        inbox = MemoryInbox()
        with event_server(always(send)) as server, received(server, inbox) as receiver:
            assert inbox.until(6) == [b"a", "é".encode() * 400, b"UNREADABLE", b"x" * 1001, b"", b"c"]
            assert inbox.messages[2].body == b"b"
            until(receiver.is_drained)
            assert receiver.connected

    def test_broken_frames(self) -> None:
        def send(request: web.Request) -> Any:
            return raw(request, frame(1, b"a\xff"), frame(1, b"b")[:1], frame(1, b"b")[1:], frame(9, b"ping"), b"\xff\xff")

        inbox = MemoryInbox()
        with event_server(always(send)) as server, received(server, inbox):
            assert inbox.until(3) == [b"UNREADABLE", b"b", b"LOST"]

    def test_pings_are_answered(self) -> None:
        pongs: list[bytes] = []

        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            socket = web.WebSocketResponse(autoping=False)
            await socket.prepare(request)
            await socket.ping(b"x" * 100)
            pongs.append((await socket.receive()).data)
            await socket.close(code=1000)
            return socket

        with event_server(answer) as server, received(server, MemoryInbox()) as receiver:
            until(lambda: receiver.ended)
        assert pongs == [b"x" * 100]

    @pytest.mark.parametrize(("code", "ends"), [(1000, True), (1001, False), (1013, False)])
    def test_codes(self, code: int, ends: bool) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await frames(request, f"x{number}", code=None if number else code)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox) as receiver:
            assert inbox.until(1 if ends else 3) == ([b"x0"] if ends else [b"x0", b"LOST", b"x1"])
            until(lambda: receiver.ended is ends)
            assert receiver.failure is None

    def test_resume_goes_on_behind_the_graph_of_the_last_message(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            first = int(request.query.get("after", "0-7").partition("-")[0]) + 1
            texts = [f"<http://h/s/{n}-7> {{ <x:s> <x:p> {n} }}" for n in (first, first + 1)]
            return await frames(request, *texts, code=None if number == 2 else 1001)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox, "?last=2&format=trig", resume=True):
            found = inbox.until(6)
        assert [body.partition(b"-")[0].decode()[-1] for body in found] == ["1", "2", "3", "4", "5", "6"]
        assert [each[":path"] for each in server.requests] == [
            "/ws?last=2&format=trig",
            "/ws?format=trig&after=2-7",
            "/ws?format=trig&after=4-7",
        ]

    @pytest.mark.parametrize("status", [410, 400])
    def test_resume_behind_what_has_left_goes_on_with_the_first_that_is_kept(self, status: int) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            if "after" in request.query:
                return web.json_response({"error": "it has left", "first": "5-0"}, status=status)
            return await frames(request, f"<http://h/{5 * number}-0> {{ <x:s> <x:p> 1 }}", code=None if number else 1001)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox, resume=True):
            assert inbox.until(3)[1] == b"LOST"
        assert inbox.messages[1].why == "the server no longer has what came behind 0-0: its first element is 5-0"
        assert [each[":path"] for each in server.requests] == ["/ws", "/ws?after=0-0", "/ws?last=999999999"]

    def test_last_message_of_an_earlier_run(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await frames(request, "<http://h/9-0> { <x:s> <x:p> 1 }", code=None)

        for last, path, found in (
            (Message(b"<http://h/s#7-1> { <x:s> <x:p> 1 }", 3), "/ws?after=7-1", 1),
            (Message(b"", 3, why="lost"), "/ws?last=999999999", 1),
            (Message(b"broken", 3), "/ws", 2),
        ):
            inbox = MemoryInbox(last=last)
            with event_server(answer) as server, received(server, inbox, resume=True):
                assert (inbox.until(found)[:-1], server.requests[0][":path"]) == ([b"LOST"] * (found - 1), path)

    @pytest.mark.parametrize(
        ("response", "told"),
        [
            (lambda: web.Response(status=404), "it answers 404 (Not Found)"),
            (lambda: web.Response(status=410), "it answers 410 (Gone)"),
            (lambda: web.Response(text="a"), "it answers 200 (OK)"),
            (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/in"}), "it redirects to another origin"),
            (lambda: web.Response(status=307, headers={"Location": "in"}), "it redirects more than 5 times"),
            (
                lambda: web.Response(status=101, headers={"Upgrade": "websocket", "Sec-WebSocket-Accept": "a"}),
                "it answers with the key of another WebSocket",
            ),
        ],
    )
    def test_answers_that_no_repetition_changes(self, response: Callable[[], web.Response], told: str) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return response()

        with event_server(answer) as server:
            with pytest.raises(Refused) as refused, received(server, MemoryInbox()):
                pass
            (problem,) = refused.value.diagnostics
            assert (problem.code, problem.message) == ("S165", f"input a: {server.url('/ws', 'ws')}: {told}")

    def test_redirect_within_the_origin_and_errors_that_may_pass(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            if not number:
                return web.Response(status=503)
            if request.path == "/ws":
                return web.Response(status=308, headers={"Location": f"http://{request.host}/there?a=b"})
            return await frames(request, "a", code=None)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox):
            assert inbox.until(1) == [b"a"]
        assert [each[":path"] for each in server.requests] == ["/ws", "/ws", "/there?a=b"]

    @pytest.mark.parametrize("text", [b"x" * 200_000, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000, b"\r\n\r\n", b"HTTP/1.0 101 \r\n\r\n"])
    def test_hostile_answers_are_tried_again(self, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
        def send(connection: Any, head: bytes) -> None:
            connection.sendall(text)

        with hostile_server(send) as server:
            receiver = source(server.url.replace("http", "ws") + "/ws")
            receiver.start(MemoryInbox())
            time.sleep(0.2)
            receiver.stop()
        assert receiver.failure is None
        assert "It is tried again." in caplog.text

    def test_full_inbox_leaves_frames_with_the_server(self) -> None:
        written = 0

        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            nonlocal written
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            for _ in range(1000):
                await socket.send_str("x" * 99_000)
                written += 1
            await socket.receive()
            return socket

        inbox = MemoryInbox(most=3)
        with event_server(answer) as server, received(server, inbox, most=1 << 20) as receiver:
            inbox.until(3)
            time.sleep(0.3)
            assert (len(inbox.messages), written < 200, receiver.is_drained()) == (3, True, False)
            inbox.most = 1 << 20
            inbox.until(1000)


def test_certificates_are_verified(tmp_path: Path) -> None:
    async def answer(number: int, request: web.Request) -> web.StreamResponse:
        return await frames(request, "a", code=None)

    ca, context = certificate(tmp_path)
    inbox = MemoryInbox()
    with event_server(answer, tls=context) as server:
        with pytest.raises(Refused) as refused, received(server, inbox):
            pass
        assert "its certificate is not valid: self-signed certificate" in refused.value.diagnostics[0].message
        with received(server, inbox, ca=ca):
            assert inbox.until(1) == [b"a"]


def test_streams_that_dotr_publishes() -> None:
    """Behind what has left it goes on with the first that is kept; it is closed where the run that serves is stopped, and ends with the
    stream."""
    inbox = MemoryInbox(last=Message(b"<http://h/1000000-0> { <x:s> <x:p> 1 }", 3))
    with published(keep=Keep(elements=1), clock=Clock()) as stream:
        stream.add(range(1, 600))
        receiver = source(f"{stream.address.replace('http', 'ws')}ws?format=trig", resume=True)
        receiver.start(inbox)
        inbox.until(100)
        first = inbox.messages[0].why.split()[-1]
        assert inbox.messages[0].why == f"the server no longer has what came behind 1000000-0: its first element is {first}"
        assert f"/{first}> ".encode() in inbox.messages[1].body
        stream.add([600])
        until(lambda: b"/600000000-0> " in inbox.messages[-1].body)
        assert len(inbox.messages) == 602 - int(first.partition("000000-")[0])
        stream.stream.end(is_stopped=False)
        until(lambda: receiver.ended)
        receiver.stop()
