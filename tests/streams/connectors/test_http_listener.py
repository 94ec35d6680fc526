"""The server of an HTTP input, over real sockets on loopback: accepted and rejected requests, and limits of clients."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import NamedTuple

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.streams.connectors.http import source as http_listener
from dotr.streams.connectors.http.addresses import listen_address
from dotr.streams.connectors.http.source import HttpListen, HttpReceiver
from dotr.streams.connectors.receivers import MessageQueue
from dotr.streams.records import ElementMap, Format, InputFile, Message, Record
from tests.support.ports import free_port
from tests.support.properties import examples

LINE = b'{"time": 1, "graph": ""}'
MOST = 1_000
ABSENT = "absent"
"""Value of a header that is not sent."""


class Reply(NamedTuple):
    status: int
    body: str
    headers: dict[str, str]


class Server:
    """A server with its inbox."""

    def __init__(self, queue: MessageQueue, port: int, content_type: str = "application/x-ndjson") -> None:
        self.queue = queue
        self.port = port
        self.content_type = content_type

    def post(self, body: bytes | None = LINE, method: str = "POST", path: str = "/in", **headers: str) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        sent = {name.replace("_", "-"): value for name, value in {"Content_Type": self.content_type, **headers}.items() if value != ABSENT}
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode(), dict(answer.getheaders()))
        finally:
            connection.close()

    def received(self) -> list[Record]:
        chunk = self.queue.read(1_000_000)
        return [] if chunk is None else chunk.records

    def raw(self, sent: bytes, *, wait: bool = True) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), 10) as client:
            client.sendall(sent)
            return client.recv(65_536) if wait else b""


@contextmanager
def serving(
    form: Format = Format.NDJSON, *, tokens: Callable[[], str] | None = None, most: int = 10_000, queue: MessageQueue | None = None
) -> Iterator[Server]:
    port = free_port()
    address = listen_address(f"127.0.0.1:{port}/in")
    mapped = ElementMap("t", Document("map", "[] <http://e/v> {v} ."), columns=("t", "v"))
    like = InputFile("posts", str(address), form, map=mapped if form in (Format.JSON, Format.CSV) else None)
    receiver = HttpListen("posts", address, form, MOST, tokens).receiver()
    queue = queue or MessageQueue(like, receiver, most=most)
    receiver.start(queue)
    try:
        yield Server(queue, port)
    finally:
        receiver.stop()
        assert (receiver.connected, receiver.failure) == (False, None)


def test_lines_are_messages_in_order() -> None:
    with serving() as server:
        reply = server.post(b'{"time": 5, "graph": ""}\r\n\n{"time": 6, "graph": ""}', Content_Type="application/x-ndjson")
        assert (reply.status, json.loads(reply.body)) == (202, {"messages": 2})
        assert server.post().status == 202
        assert [(each.line, each.time) for each in server.received()] == [(1, 5_000_000), (2, 6_000_000), (3, 1_000_000)]


@pytest.mark.parametrize(
    ("form", "content_type", "body", "messages"),
    [
        (Format.JSON, "application/json", b'{"t": 1,\n"v": 2}', 1),
        (Format.JSON, "application/x-ndjson", b'{"t": 1, "v": 2}\n{"t": 2, "v": 2}\n', 2),
        (Format.CSV, "text/csv", b"1,2\n2,3\n", 1),
        (Format.TURTLE, "text/turtle; charset=utf-8", b"<http://e/a> a <http://e/A> .\n", 1),
        (Format.NQUADS, "application/n-quads", b"<http://e/a> <http://e/b> <http://e/c> <http://e/g> .\n" * 2, 1),
        (Format.NDJSON, "application/json", b"broken", 1),
        (Format.JSONLD, "application/activity+json", b"{}", 1),
    ],
)
def test_bodies_of_each_format(form: Format, content_type: str, body: bytes, messages: int) -> None:
    with serving(form) as server:
        reply = server.post(body, Content_Type=content_type)
        assert (reply.status, json.loads(reply.body)) == (202, {"messages": messages})


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        (
            {"Content_Type": "text/turtle"},
            415,
            "its content-type, text/turtle, does not fit the format ndjson: send it as application/x-ndjson",
        ),
        ({"Content_Encoding": "br"}, 415, "its content-encoding is neither gzip nor identity"),
        ({"method": "GET"}, 405, "messages are sent here by POST"),
        ({"method": "PUT"}, 405, "messages are sent here by POST"),
        ({"path": "/"}, 404, "no input has this path"),
        ({"path": "/in/x", "method": "GET"}, 404, "no input has this path"),
        ({"body": b""}, 400, "it has no body"),
        ({"body": b"\n \n"}, 400, "it has no body"),
        ({"body": b"x" * 1_001}, 413, "it has more than 1,000 bytes"),
        ({"body": b"xyz", "Content_Encoding": "gzip"}, 400, "it is no gzip"),
        ({"body": gzip.compress(LINE)[:-9], "Content_Encoding": "gzip"}, 400, "its gzip data is cut off"),
        ({"body": gzip.compress(b"x" * 1_000_000), "Content_Encoding": "gzip"}, 413, "it has more than 1,000 bytes"),
        ({"body": gzip.compress(b"x" * 600) * 2, "Content_Encoding": "gzip"}, 413, "it has more than 1,000 bytes"),
        ({f"X_{number}": "x" * 4_000 for number in range(3)}, 431, "its headers have more than 8,192 bytes"),
    ],
)
def test_invalid_request_is_rejected_with_status_and_error(headers: dict[str, str], status: int, error: str) -> None:
    with serving() as server:
        reply = server.post(**headers)  # type: ignore[arg-type]
        assert (reply.status, json.loads(reply.body)) == (status, {"error": error})
        assert server.received() == []
        assert server.post().status == 202


def test_body_of_unknown_length_is_bounded() -> None:
    chunk = b"1f4\r\n" + b"x" * 500 + b"\r\n"
    with serving() as server:
        answer = server.raw(
            b"POST /in HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
            % server.port
            + chunk * 3
        )
        assert answer.startswith(b"HTTP/1.1 413")


def test_compressed_body_is_read() -> None:
    with serving() as server:
        assert server.post(gzip.compress(LINE) + gzip.compress(b"\n" + LINE), Content_Encoding="gzip").status == 202
        assert len(server.received()) == 2


def test_request_without_a_valid_token_is_rejected() -> None:
    with serving(tokens=lambda: "one, two") as server:
        for authorization in ("", "Bearer", "Bearer three", "Bearer one, two", "Basic one", "one", "Bearer \xff"):
            reply = server.post(Authorization=authorization)
            assert (reply.status, reply.headers.get("WWW-Authenticate")) == (401, "Bearer")
        assert [server.post(Authorization=value).status for value in ("Bearer one", "bearer two")] == [202, 202]
        assert server.post(b"x" * 5_000, Authorization="Bearer no").status == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
def test_host_of_loopback_is_accepted_without_a_token(host: str) -> None:
    with serving() as server:
        assert server.post(Host=f"{host}:{server.port}").status == 202


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:{port}", ""])
def test_origin_is_forbidden_without_a_token(origin: str) -> None:
    with serving() as server:
        reply = server.post(Origin=origin.format(port=server.port))
        assert (reply.status, json.loads(reply.body)) == (
            403,
            {"error": "it has an Origin: pages in a browser send here only where the input has tokens"},
        )
        assert server.received() == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "10.0.0.1:{port}", "localhost.e:{port}", ""]
)
def test_foreign_host_is_forbidden_without_a_token(host: str) -> None:
    with serving() as server:
        reply = server.post(Host=host.format(port=server.port))
        assert (reply.status, json.loads(reply.body)) == (
            403,
            {"error": f"its Host is not the address 127.0.0.1:{server.port}: without tokens it must be"},
        )
        assert server.received() == []


def test_request_without_a_host_or_with_two_is_forbidden_without_a_token() -> None:
    with serving() as server:
        head = b"POST /in HTTP/1.0\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n" % len(LINE)
        one = b"Host: 127.0.0.1:%d\r\n" % server.port
        for hosts, statuses in ((b"", (b"403",)), (one + b"Host: evil.example\r\n", (b"403", b"400")), (one, (b"202",))):
            assert server.raw(head + hosts + b"\r\n" + LINE).split()[1] in statuses


@pytest.mark.parametrize(
    ("content_type", "error"),
    [
        ("text/plain", "its content-type, text/plain, does not fit the format ndjson"),
        ("Text/Plain; charset=utf-8", "its content-type, Text/Plain, does not fit the format ndjson"),
        ("application/octet-stream", "its content-type, application/octet-stream, does not fit the format ndjson"),
        ("application/x-www-form-urlencoded", "its content-type, application/x-www-form-urlencoded, does not fit the format ndjson"),
        ("multipart/form-data; boundary=x", "its content-type, multipart/form-data, does not fit the format ndjson"),
        ("", "it has no content-type"),
        (ABSENT, "it has no content-type"),
    ],
)
def test_content_type_must_be_that_of_the_format_without_a_token(content_type: str, error: str) -> None:
    with serving() as server:
        reply = server.post(Content_Type=content_type)
        assert (reply.status, json.loads(reply.body)) == (415, {"error": f"{error}: send it as application/x-ndjson"})
        assert server.received() == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", ABSENT])
def test_request_with_a_token_may_come_from_a_page_of_any_site(content_type: str) -> None:
    with serving(tokens=lambda: "one") as server:
        headers = {"Authorization": "Bearer one", "Origin": "https://a.example", "Host": "b.example", "Content_Type": content_type}
        assert server.post(**headers).status == 202  # type: ignore[arg-type]


def test_answers_do_not_tell_versions() -> None:
    class Failing(MessageQueue):
        def offer(self, messages: Sequence[Message], done: Callable[[], None]) -> bool:
            raise RuntimeError("a fault")

    host = "Host: 127.0.0.1:{port}\r\n"
    requests = [
        "POST /in HTTP/1.1\r\n" + host + "Content-Type: application/x-ndjson\r\nContent-Length: 1\r\n\r\nx",
        "GET /in HTTP/1.1\r\n" + host + "Accept: text/html\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n" + host + "\r\n",
        "POST /in HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\n",
        "POST /in HTTP/1.1\r\n" + host + "X: " + "x" * 20_000 + "\r\n\r\n",
        "\x16\x03\x01 nonsense\r\n\r\n",
        "GET /in HTTP/9.9\r\n\r\n",
        "POST /in HTTP/1.1\r\n" + host + "Expect: nothing\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ]
    with serving(queue=Failing(InputFile("posts", "", Format.NDJSON))) as server:
        answers = [server.raw(each.format(port=server.port).encode("latin-1")) for each in requests]
    for request, answer in zip(requests, answers, strict=True):
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"\r\nServer: dotr" in head, (request, answer)
        assert not any(word in answer.lower() for word in (b"aiohttp", b"python", b"3.1", b"traceback")), (request, answer)
        assert "error" in json.loads(body), (request, answer)
    assert [int(answer.split()[1]) for answer in answers] == [500, 405, 404, 400, 400, 400, 400, 415]


def test_empty_variable_of_tokens_is_refused() -> None:
    with pytest.raises(Refused, match="S124 input posts has no token"), serving(tokens=lambda: " "):
        pass


def test_taken_port_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = listen_address(f"127.0.0.1:{taken.getsockname()[1]}/in")
        receiver = HttpListen("posts", address, Format.NDJSON, MOST).receiver()
        with pytest.raises(Refused, match=r"C228 input posts cannot listen at http://127.0.0.1:\d+/in: address already in use"):
            receiver.start(MessageQueue(InputFile("posts", "", Format.NDJSON)))


def test_full_queue_answers_429_until_it_is_read() -> None:
    with serving(most=3) as server:
        assert [server.post().status for _ in range(5)] == [202, 202, 202, 429, 429]
        assert server.post().headers["Retry-After"] == "1"
        assert len(server.received()) == 3
        assert server.post().status == 202


def test_response_waits_until_the_message_is_stored() -> None:
    kept: list[Callable[[], None]] = []

    class Slow(MessageQueue):
        def offer(self, messages: Sequence[Message], done: Callable[[], None]) -> bool:
            kept.append(done)
            return True

    with serving(queue=Slow(InputFile("posts", "", Format.NDJSON))) as server:
        replies: list[int] = []
        thread = threading.Thread(target=lambda: replies.append(server.post().status))
        thread.start()
        while not kept:
            time.sleep(0.01)
        time.sleep(0.1)
        assert replies == []
        kept[0]()
        thread.join(10)
        assert replies == [202]


def test_slow_and_broken_clients_do_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "_IDLE_SECONDS", 0.5)
    with serving() as server:
        begun = b"POST /in HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n" % server.port
        clients = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(20)]
        for number, client in enumerate(clients):
            client.sendall((b"", b"PO", begun, begun + b"\r\nxx")[number % 4])
        assert b" 400 Bad Request" in server.raw(b"\x16\x03\x01\x00nonsense\r\n\r\n")
        server.raw(begun + b"\r\n", wait=False)
        assert server.post().status == 202
        for number, client in enumerate(clients):  # each is closed, those with a body after a response
            answer = client.recv(1_000)
            assert answer.startswith(b"HTTP/1.1 408" if number % 4 == 3 else b""), (number, answer)
            client.close()
        assert len(server.received()) == 1


def test_connection_beyond_the_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "CLIENTS", 5)
    with serving() as server:
        clients = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(5)]
        time.sleep(0.2)
        assert server.raw(b"POST /in HTTP/1.1\r\n", wait=True).startswith(b"HTTP/1.1 503")
        for client in clients:
            client.close()
        time.sleep(0.2)
        assert server.post().status == 202


def test_messages_of_many_clients_are_all_received() -> None:
    async def send_all(port: int) -> list[int]:
        async with aiohttp.ClientSession() as session:

            async def send(number: int) -> list[int]:
                statuses = []
                for place in range(20):
                    async with session.post(
                        f"http://127.0.0.1:{port}/in",
                        data=b'{"time": %d, "graph": ""}' % (number * 20 + place),
                        headers={"Content-Type": "application/x-ndjson"},
                    ) as answer:
                        statuses.append(answer.status)
                return statuses

            return [status for each in await asyncio.gather(*map(send, range(50))) for status in each]

    with serving() as server:
        assert set(asyncio.run(send_all(server.port))) == {202}
        records = server.received()
        assert sorted(each.time or 0 for each in records) == [number * 1_000_000 for number in range(1_000)]
        assert [each.line for each in records] == list(range(1, 1_001))


def test_message_has_only_headers_of_the_map_and_no_token() -> None:
    port = free_port()
    address = listen_address(f"127.0.0.1:{port}/in")
    source = HttpListen("posts", address, Format.NDJSON, MOST, lambda: "s3cret", frozenset({"x-unit"}))
    kept: list[Message] = []

    class Keeping(MessageQueue):
        def offer(self, messages: Sequence[Message], done: Callable[[], None]) -> bool:
            kept.extend(messages)
            done()
            return True

    receiver = source.receiver()
    queue = Keeping(InputFile("posts", "", Format.NDJSON))
    receiver.start(queue)
    try:
        assert Server(queue, port).post(Authorization="Bearer s3cret", X_Unit="cm", X_Other="no").status == 202
    finally:
        receiver.stop()
    assert [message.headers for message in kept] == [(("x-unit", b"cm"),)]


def test_server_that_was_never_started_stops() -> None:
    HttpReceiver(HttpListen("posts", listen_address("127.0.0.1:1"), Format.NDJSON, MOST)).stop()


BODIES = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([LINE, b"", b" ", b"{", b"\xff", b'{"time": "x"}', b"\r"]), max_size=8).map(b"\n".join),
)


@pytest.fixture(scope="module")
def open_server() -> Iterator[Server]:
    with serving() as server:
        yield server


@given(body=BODIES, packed=st.booleans(), cut=st.integers(0, 3))
@examples(1_000)
def test_every_body_gets_a_response_and_accepted_ones_are_stored(open_server: Server, body: bytes, packed: bool, cut: int) -> None:
    sent = gzip.compress(body) if packed else body
    sent = sent[: len(sent) - cut] if packed else sent
    reply = open_server.post(sent, **({"Content_Encoding": "gzip"} if packed else {}))
    lines = [] if packed and cut else [line for line in body.split(b"\n") if line.strip()]
    assert reply.status == (202 if lines else 400)
    found = open_server.received()
    assert [record.raw.rstrip(b"\r\n") for record in found] == [line.rstrip(b"\r") for line in lines]
