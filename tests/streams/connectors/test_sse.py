"""Server-sent events: the parser of the HTML standard, and the receiver beside real servers on loopback."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from dotr.errors.diagnostics import Refused
from dotr.model.stream import Reason
from dotr.model.time import Clock
from dotr.streams.connectors.serve.kept import Keep
from dotr.streams.connectors.sse.source import EventParser, SseReceiver
from dotr.streams.connectors.web_access import WebAccess
from dotr.streams.records import Message
from tests.support.certificates import certificate
from tests.support.event_server import EventServer, event_server, events
from tests.support.inbox import MemoryInbox, until
from tests.support.ports import free_port
from tests.support.published import published

pytestmark = pytest.mark.core


def source(server: EventServer, names: Sequence[str] = ("message",), most: int = 1000, ca: str = "") -> SseReceiver:
    url = server.url()
    return SseReceiver("a", WebAccess(url, lambda: url, ca=ca), most, frozenset(names))


@contextmanager
def received(server: EventServer, inbox: MemoryInbox, names: Sequence[str] = ("message",), most: int = 1000) -> Iterator[SseReceiver]:
    receiver = source(server, names, most)
    receiver.start(inbox)
    try:
        yield receiver
    finally:
        receiver.stop()


class TestParser:
    def feed(self, text: bytes, most: int = 100) -> list[tuple[str, bytes, bytes]]:
        return [(each.name, each.id, each.data) for each in EventParser(most).feed(text)]

    @pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
    def test_line_ends(self, end: str) -> None:
        text = "data: a\ndata:b\ndata\nid: 1\n\ndata: c\n\n".replace("\n", end).encode()
        assert self.feed(text) == [("message", b"1", b"a\nb\n"), ("message", b"1", b"c")]

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
            (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),  # one byte order mark alone is left out
            (b": a\n:\ndata: b\n\n", [b"b"]),
            (b"data:  a\n\n", [b" a"]),
            (b"data\n\n", [b""]),
            (b"data: a\n", []),  # it is not complete
            (b"event: a\n\ndata: b\n\n", [b"b"]),  # the name is that of no event
            (b"other: a\ndata : b\nDATA: c\ndata: d\n\n", [b"d"]),
            (b"data:a:b\n\n", [b"a:b"]),
        ],
    )
    def test_fields(self, text: bytes, found: list[bytes]) -> None:
        assert [data for name, _, data in self.feed(text) if name == "message"] == found

    def test_last_id_stays_until_there_is_another_one(self) -> None:
        text = b"id: 1\n\ndata: a\n\nid: 2\0\ndata: b\n\nid\ndata: c\n\n"
        assert self.feed(text) == [("message", b"1", b"a"), ("message", b"1", b"b"), ("message", b"", b"c")]

    def test_waits(self) -> None:
        parser = EventParser(10)
        parser.feed(b"retry: 20\nretry: x\nretry: -1\nretry: 1.5\n")
        assert parser.retry == 20

    def test_longer_data_than_the_limit_is_cut_behind_it(self) -> None:
        found = self.feed(b"data: " + b"x" * 5000 + b"\n\ndata: y\n\n" + b"data: 123\n" * 50 + b"\ndata: z\n\n", 100)
        assert [len(data) > 100 for _, _, data in found] == [True, False, True, False]
        assert max(len(data) for _, _, data in found) <= 102

    def test_memory_is_bounded_without_a_line_end(self) -> None:
        parser = EventParser(1000)
        for _ in range(1000):
            assert parser.feed(b"data" + b"x" * 1000) == []
        assert len(parser._rest) <= 1016

    def test_pieces_give_the_events_of_the_whole(self) -> None:
        choose = random.Random(7)
        words = [b"data", b"id", b"event", b"retry", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"\0", b"a", b"7", "é".encode(), b"\xff"]
        words.append(b"\xef\xbb\xbf")
        for _ in range(int(os.environ.get("DOTR_EXAMPLES", "400"))):
            text = b"".join(choose.choices(words, k=choose.randint(1, 60)))
            whole, pieces = EventParser(5), EventParser(5)
            expected, found, at = whole.feed(text), [], 0
            while at < len(text):
                size = choose.randint(1, 5)
                found += pieces.feed(text[at : at + size])
                at += size
            assert (found, pieces.id, pieces.retry) == (expected, whole.id, whole.retry), text

    def test_random_bytes_end_nothing(self) -> None:
        choose, parser = random.Random(3), EventParser(100)
        for _ in range(200):
            parser.feed(choose.randbytes(500))
        assert [each.data for each in parser.feed(b"\n\ndata: a\n\n")][-1:] == [b"a"]


class TestReceiver:
    def test_ids_go_on_behind_a_lost_connection(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            first = 1 + int(request.headers.get("Last-Event-ID", "0"))
            return await events(request, *(f"id: {n}\ndata: x{n}\n\n" for n in range(first, first + 2)), close=number < 2)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox) as receiver:
            assert inbox.until(6) == [b"x1", b"x2", b"x3", b"x4", b"x5", b"x6"]
            until(lambda: receiver.connected)
            assert receiver.is_drained()
            assert [each.key for each in inbox.messages] == [b"1", b"2", b"3", b"4", b"5", b"6"]
        assert [each.get("Last-Event-ID") for each in server.requests] == [None, "2", "4"]

    def test_gap_without_ids_is_told_once_a_connection(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request, "retry: 100\n", f"data: x{number}\n\n", close=number < 2)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox):
            assert inbox.until(5) == [b"x0", b"LOST", b"x1", b"LOST", b"x2"]

    def test_last_message_of_an_earlier_run(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request, "data: x\n\n", close=False)

        with_id, without = MemoryInbox(last=Message(b"", 7, key="é 1".encode())), MemoryInbox(last=Message(b"", 7))
        with event_server(answer) as server:
            with received(server, with_id):
                assert with_id.until(1) == [b"x"]
            with received(server, without):
                assert without.until(2) == [b"LOST", b"x"]
        assert [each.get("Last-Event-ID") for each in server.requests] == ["é 1", None]

    def test_names_choose_events(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request, "event: a\ndata: 1\n\ndata: 2\n\nevent: b\ndata: 3\n\nevent: message\ndata: 4\n\n", close=False)

        for names, expected in ((["message"], [(b"2", ""), (b"4", "")]), (["a", "b"], [(b"1", "a"), (b"3", "b")])):
            inbox = MemoryInbox()
            with event_server(answer) as server, received(server, inbox, names):
                inbox.until(2)
                assert [(each.body, each.topic) for each in inbox.messages] == expected

    @pytest.mark.parametrize("end", ["event: end\ndata: x\n\n", "event: end\n\n", "204"])
    def test_end(self, end: str) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            if number or end == "204":
                return web.Response(status=204)
            return await events(request, "data: a\n\n" + end + "data: b\n\n", close=False)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox) as receiver:
            until(lambda: receiver.ended)
            assert inbox.messages == ([] if end == "204" else [Message(b"a", 0)])
            until(lambda: receiver.is_drained() and not receiver.connected)
            assert receiver.failure is None
        assert len(server.requests) == 1

    def test_end_and_gap_are_messages_where_they_are_named(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request, "event: end\ndata: a\n\nevent: gap\ndata: b\n\n", close=False)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox, ["end", "gap"]):
            assert inbox.until(2) == [b"a", b"b"]

    def test_gap_is_told_with_its_ids(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            if not number:
                return await events(request, "event: gap\ndata: 5\n\n", "id: 5\ndata: a\n\n")
            return await events(request, "event: gap\ndata: 9\n\n", "id: 9\ndata: b\n\n", close=False)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox):
            assert inbox.until(4) == [b"LOST", b"a", b"LOST", b"b"]
        assert inbox.messages[0].why == "the server no longer has all that it has sent: its first event is 5"
        assert inbox.messages[2].why == "the server no longer has what came behind 5: its first event is 9"

    @pytest.mark.parametrize("status", [500, 503, 429, 408])
    def test_errors_that_may_pass_are_tried_again(self, status: int) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request, "data: a\n\n", close=False) if number else web.Response(status=status)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox):
            assert inbox.until(1) == [b"a"]

    @pytest.mark.parametrize(
        ("response", "told"),
        [
            (lambda: web.Response(status=404), "it answers 404 (Not Found)"),
            (lambda: web.Response(status=401, text="s3cret"), "it answers 401 (Unauthorized)"),
            (lambda: web.Response(text="a"), "it answers 200 with text/plain, and not with text/event-stream"),
            (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/in"}), "it redirects to another origin"),
            (lambda: web.Response(status=302, headers={"Location": "https://127.0.0.1/in"}), "it redirects to another origin"),
            (lambda: web.Response(status=307, headers={"Location": "in"}), "it redirects more than 5 times"),
            (lambda: web.Response(status=307, headers={"Location": "http://[/"}), "it redirects to what is no URL"),
        ],
    )
    def test_answers_that_no_repetition_changes(self, response: Callable[[], web.Response], told: str) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return response()

        with event_server(answer) as server:
            with pytest.raises(Refused) as refused, received(server, MemoryInbox()):
                pass
            (problem,) = refused.value.diagnostics
            assert (problem.code, problem.message) == ("S165", f"input a: {server.url()}: {told}")

    def test_permanent_error_behind_the_start_ends_the_receiver(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return web.Response(status=403) if number else await events(request, "data: a\n\n")

        with event_server(answer) as server, received(server, MemoryInbox()) as receiver:
            until(lambda: receiver.failure is not None)
            assert str(receiver.failure) == f"input a: {server.url()}: it answers 403 (Forbidden) (correct the URL, or the credentials)"

    def test_redirect_within_the_origin(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            if request.path == "/in":
                return web.Response(status=308, headers={"Location": "/there?a=b"})
            return await events(request, "data: a\n\n", close=False)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox):
            assert inbox.until(1) == [b"a"]
        assert [each[":path"] for each in server.requests] == ["/in", "/there?a=b"]

    def test_server_that_is_not_there_yet(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request, "data: a\n\n", close=False)

        inbox, port = MemoryInbox(), free_port()
        with received(EventServer(port, secure=False), inbox) as receiver:
            assert not receiver.connected
            assert receiver.is_drained()
            with event_server(answer, port=port):
                assert inbox.until(1) == [b"a"]

    def test_servers_that_close_at_once_are_not_asked_without_pause(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request)

        with event_server(answer) as server, received(server, MemoryInbox()):
            time.sleep(0.5)
            assert len(server.requests) == 2  # one more at once, the next one a second later

    def test_full_inbox_leaves_events_with_the_server(self) -> None:
        written = 0

        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            nonlocal written
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for _ in range(1000):
                await response.write(b"data: " + b"x" * 99_000 + b"\n\n")
                written += 1
            return response

        inbox = MemoryInbox(most=3)
        with event_server(answer) as server, received(server, inbox, most=1 << 20) as receiver:
            inbox.until(3)
            time.sleep(0.3)
            assert len(inbox.messages) == 3
            assert written < 200  # what sockets hold
            assert not receiver.is_drained()
            inbox.most = 1 << 20
            inbox.until(1000)

    def test_events_over_the_limit_and_broken_text(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            long, broken = b"data: " + b"y" * 100_000 + b"\n\n", b"data: a\xff\n\n"
            return await events(request, b"data: 1\n\n", long, broken, b"data: 2\n\n", close=False)

        inbox = MemoryInbox()
        with event_server(answer) as server, received(server, inbox):
            assert inbox.until(4) == [b"1", b"y" * 1001, b"UNREADABLE", b"2"]
        assert (inbox.messages[2].reason, inbox.messages[2].body) == (Reason.UNREADABLE, b"a\xff")

    def test_stop_does_not_wait_for_a_silent_server(self) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            await asyncio.sleep(60)
            return web.Response()

        with event_server(answer) as server:
            receiver = source(server)
            receiver._tried.set()  # the start does not wait
            receiver.start(MemoryInbox())
            until(lambda: bool(server.requests))
            begun = time.monotonic()
            receiver.stop()
            assert time.monotonic() - begun < 5

    def test_certificates_are_verified(self, tmp_path: Path) -> None:
        async def answer(number: int, request: web.Request) -> web.StreamResponse:
            return await events(request, "data: a\n\n", close=False)

        ca, context = certificate(tmp_path)
        inbox = MemoryInbox()
        with event_server(answer, tls=context) as server:
            for name, host in (("", "127.0.0.1"), (ca, "localhost")):
                url = server.url().replace("127.0.0.1", host)
                receiver = SseReceiver("a", WebAccess(url, lambda url=url: url, ca=name), 9, frozenset(["message"]))  # type: ignore[misc]
                with pytest.raises(Refused, match="its certificate is not valid"):
                    receiver.start(inbox)
            receiver = source(server, ca=ca)
            receiver.start(inbox)
            assert inbox.until(1) == [b"a"]
            receiver.stop()

    def test_streams_that_dotr_publishes(self) -> None:
        """Behind an ID that has left there is a gap; a client that is too slow is closed, and goes on."""
        inbox = MemoryInbox(last=Message(b"", 3, key=b"1000000-0"), most=5)
        with published(keep=Keep(elements=1), clock=Clock()) as stream:
            stream.add(range(1, 600))
            url = f"{stream.address}events?format=trig"
            receiver = SseReceiver("a", WebAccess(url, lambda: url), 1 << 20, frozenset(["message"]))
            receiver.start(inbox)
            inbox.until(5)
            first = inbox.messages[0].why.split()[-1]
            assert inbox.messages[0].why == f"the server no longer has what came behind 1000000-0: its first event is {first}"
            assert inbox.messages[1].key == first.encode()
            assert inbox.messages[1].topic == ""
            inbox.most = 1 << 20
            stream.add(range(600, 700))
            until(lambda: inbox.messages[-1].key == b"699000000-0")
            assert [each.key for each in inbox.messages[1:]] == [f"{at}000000-0".encode() for at in range(int(first[:-8]), 700)]
            stream.stream.end(is_stopped=False)
            until(lambda: receiver.ended)
            receiver.stop()
