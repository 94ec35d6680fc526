"""Elements pushed of a published stream, over real sockets on loopback: events of SSE, a WebSocket, one body without end."""

from __future__ import annotations

import asyncio
import base64
import json
import selectors
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, cast

import aiohttp
import pytest

from dotr.streams.connectors.serve import broadcast
from dotr.streams.connectors.serve.elements import ElementFormat, ElementWriter
from dotr.streams.connectors.serve.kept import Keep
from dotr.streams.records import Format, InputFile
from tests.streams.formats.test_io_formats import records_of_file
from tests.support.browser import chromium, running_browser
from tests.support.mosquitto import wait_until
from tests.support.npm_packages import node
from tests.support.patience import PATIENCE
from tests.support.published import PublishedTest, published

FORMATS: Final = {"jsonld": ElementFormat.JSONLD, "trig": ElementFormat.TRIG, "nquads": ElementFormat.NQUADS}
LONG: Final = f'<http://e/room> <http://e/text> "{"x" * 20_000}" .'


NONE: Final[Mapping[str, str]] = {}


class Event(NamedTuple):
    """An event of SSE; a comment has its text as its name."""

    id: str
    name: str
    data: str


class Reader:
    """A client of a resource, which reads when a test says so."""

    def __init__(self, stream: PublishedTest, path: str, headers: Mapping[str, str] = NONE, *, window: int = 0) -> None:
        authority, _, prefix = stream.address.removeprefix("http://").partition("/")
        self.connection = HTTPConnection(authority, timeout=PATIENCE)
        if window:
            self.connection._create_connection = lambda address, *_: _narrow(address, window)  # type: ignore[attr-defined]
        self.connection.request("GET", f"/{prefix}{path}", headers={**headers})
        self.answer: HTTPResponse = self.connection.getresponse()

    def event(self) -> Event | None:
        """The next event; None at the end."""
        id = name = ""
        data: list[str] = []
        while line := self.answer.readline():
            field, _, value = line.decode().rstrip("\n").partition(": ")
            match field:
                case "":
                    return Event(id, name, "\n".join(data))
                case "id":
                    id = value
                case "event":
                    name = value
                case "data":
                    data.append(value)
                case _:
                    name = field
        return None

    def ids(self, number: int) -> list[str]:
        """The IDs of the next events, which have no name."""
        found = [self.event() for _ in range(number)]
        assert all(each is not None and not each.name for each in found), found
        return [each.id for each in found if each is not None]

    def error(self, status: int) -> dict[str, str]:
        """The content of an error."""
        assert self.answer.status == status
        content: dict[str, str] = json.loads(self.answer.read())
        return content

    def close(self) -> None:
        self.answer.close()
        self.connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def _narrow(address: tuple[str, int], window: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    found.connect(address)
    return found


def wait_for_clients(stream: PublishedTest, number: int) -> None:
    """Wait until so many clients take part."""
    wait_until(lambda: sum(map(len, stream.stream.broadcast._clients.values())) == number, "they do not come, or not leave")


def ids(*times: int) -> list[str]:
    return [f"{each * 1_000_000}-0" for each in times]


def text_of(stream: PublishedTest, id: str, form: ElementFormat) -> str:
    """The text of a kept element."""
    found = stream.stream.kept.find(id)
    assert isinstance(found, tuple)
    assert len(found) > 1
    return ElementWriter(stream.stream.base, stream.stream.terms).text(found, form).decode()


@pytest.fixture
def fires() -> Iterator[PublishedTest]:
    """Five events, at 1 to 5 s; those at 2 and 4 s are smoke."""
    with published() as stream:
        for at in range(1, 6):
            stream.add([at], event="Smoke" if at in (2, 4) else "Fire")
        yield stream


@pytest.mark.core
def test_an_event_has_its_id_and_no_name(fires: PublishedTest) -> None:
    for name, form in FORMATS.items():
        with Reader(fires, f"events?since=0&format={name}") as reader:
            assert reader.answer.headers["Content-Type"] == "text/event-stream"
            for id in ids(1, 2, 3, 4, 5):
                assert reader.event() == Event(id, "", text_of(fires, id, form).rstrip("\n"))
    with Reader(fires, "events?last=1") as reader:
        event = reader.event()
        assert event is not None
        assert json.loads(event.data)["@id"] == f"{fires.stream.base}5000000-0"


@pytest.mark.core
def test_nothing_said_is_from_now_on(fires: PublishedTest) -> None:
    with Reader(fires, "events") as reader:
        wait_for_clients(fires, 1)
        fires.add([7, 8])
        fires.add([9])
        assert reader.ids(3) == ids(7, 8, 9)


@pytest.mark.core
@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ("after=2000000-0", (3, 4, 5, 7)),
        ("since=1970-01-01T00:00:04Z", (4, 5, 7)),
        ("since=1970-01-01T00:00:06Z", (7,)),
        ("last=2", (4, 5, 7)),
        ("last=9", (1, 2, 3, 4, 5, 7)),
        ("label=Smoke&since=0", (2, 4)),
        ("label=Smoke&label=Fire&last=3", (3, 4, 5, 7)),
        ("label=Smoke&last=1", (4,)),
        ("after=1000000-0&since=3&label=Fire", (3, 5, 7)),
        ("after=1000000-0&last=2", (4, 5, 7)),
        ("since=2&until=5", (2, 3, 4)),
        ("last=1&until=3", (2,)),
        ("until=8", (7,)),
    ],
)
def test_parameters_choose_elements(fires: PublishedTest, parameters: str, found: Sequence[int]) -> None:
    with Reader(fires, f"events?{parameters}") as reader, Reader(fires, f"stream?{parameters}") as body:
        assert reader.answer.status == 200
        fires.add([7, 9])
        fires.stream.end(is_stopped=False)
        events = []
        while (event := reader.event()) is not None:
            events.append(event)
        times = [*found, *((9,) if "until" not in parameters and "label=Smoke" not in parameters.replace("label=Smoke&label", "") else ())]
        assert [each.id for each in events[:-1]] == ids(*times)
        assert events[-1] == Event("", "end", "")
        assert [each["@id"].rpartition("/")[2] for each in json.loads(body.answer.read())] == ids(*times)


@pytest.mark.core
def test_one_whose_last_element_is_kept_is_not_kept_waiting(fires: PublishedTest) -> None:
    for parameters in ("until=3", "until=3&since=3", "after=4000000-0&until=3"):
        with Reader(fires, f"stream?{parameters}") as body, upgraded(fires, f"ws?{parameters}") as connection:
            assert json.loads(body.answer.read()) == []
            assert frame(connection) == (8, struct.pack("!H", 1000))
        with Reader(fires, f"events?{parameters}", {"Last-Event-ID": "4000000-0"}) as reader:
            assert reader.answer.status == 204


@pytest.mark.core
def test_one_goes_on_behind_the_id_that_it_has_seen_last(fires: PublishedTest) -> None:
    with Reader(fires, "events?after=1000000-0&last=1", {"Last-Event-ID": "3000000-0"}) as reader:
        assert reader.ids(2) == ids(4, 5)
    with Reader(fires, "stream?last=1", {"Last-Event-ID": "3000000-0", "Accept": "application/x-ndjson"}) as reader:  # which is of SSE
        assert json.loads(reader.answer.readline())["id"] == "5000000-0"


@pytest.mark.core
def test_ids_that_are_not_kept() -> None:
    with published(keep=Keep(elements=1)) as stream:
        for path in ("events", "stream"):
            with Reader(stream, f"{path}?after=1000000-0") as reader:
                assert "after is no ID" in reader.error(400)["error"]
        with Reader(stream, "events", {"Last-Event-ID": "1000000-0"}) as reader:
            assert reader.event() == Event("", "gap", "")
            stream.add(range(1, 252))
            assert reader.ids(251) == ids(*range(1, 252))
        for path in ("events", "stream"):
            with Reader(stream, f"{path}?after=1000000-0") as reader:
                assert reader.error(410)["first"] == "251000000-0"
        for id in ("1000000-0", "999000000-0", "nonsense", "251000000-7"):
            with Reader(stream, "events?after=1000000-0", {"Last-Event-ID": id}) as reader:
                assert reader.event() == Event("", "gap", "251000000-0")
                assert reader.ids(1) == ["251000000-0"]


@pytest.mark.core
@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("events?limit=5", 400, "after, format, label, last, since, until"),
        ("events?after=99-0", 400, "after is no ID"),
        ("events?after=x", 400, "after is no ID"),
        ("events?since=tomorrow", 400, "since is neither"),
        ("events?until=", 400, "until is neither"),
        ("events?last=0", 400, "last is no whole number"),
        ("events?format=turtle", 400, "jsonld, trig, nquads"),
        ("events?format=ndjson", 400, "jsonld, trig, nquads"),
        ("ws?format=ndjson", 400, "jsonld, trig, nquads"),
        ("stream?format=turtle", 400, "jsonld, ndjson, trig, nquads"),
        ("stream?authorization=x", 400, "unknown parameter"),
    ],
)
def test_other_requests_are_refused(fires: PublishedTest, path: str, status: int, said: str) -> None:
    with Reader(fires, path, _upgrade()) as reader:
        assert said in reader.error(status)["error"]


@pytest.mark.core
def test_what_is_not_accepted(fires: PublishedTest) -> None:
    with Reader(fires, "events", {"Accept": "text/html"}) as reader:
        assert "text/event-stream" in reader.error(406)["error"]
    with Reader(fires, "stream", {"Accept": "text/turtle"}) as reader:
        assert "application/x-ndjson" in reader.error(406)["error"]
    with Reader(fires, "stream?format=ndjson&last=1", {"Accept": "text/html"}) as reader:
        assert reader.answer.headers["Content-Type"] == "application/x-ndjson"


@pytest.mark.core
def test_head_is_answered_and_takes_no_place(fires: PublishedTest) -> None:
    authority, _, prefix = fires.address.removeprefix("http://").partition("/")
    for path, status, content in (
        ("events", 200, "text/event-stream"),
        ("stream", 200, "application/ld+json"),
        ("ws", 426, "application/json"),
    ):
        connection = HTTPConnection(authority, timeout=PATIENCE)
        connection.request("HEAD", f"/{prefix}{path}")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Type"].partition(";")[0], answer.read()) == (status, content, b"")
        connection.close()
    assert fires.stream.counts.clients.total() == 0


@pytest.mark.core
def test_the_end_is_told_and_whoever_returns_learns_it(fires: PublishedTest) -> None:
    with Reader(fires, "events?last=1") as reader, Reader(fires, "stream?last=1") as body, Reader(fires, "stream") as empty:
        wait_for_clients(fires, 3)
        fires.stream.end(is_stopped=False)
        assert reader.ids(1) == ids(5)
        assert [reader.event(), reader.event()] == [Event("", "end", ""), None]
        assert [each["@id"] for each in json.loads(body.answer.read())] == [f"{fires.stream.base}5000000-0"]
        assert json.loads(empty.answer.read()) == []
    for path, header in (
        ("events", {}),
        ("events", {"Last-Event-ID": "5000000-0"}),
        ("events?after=5000000-0", {}),
        ("events?since=9", {}),
    ):
        with Reader(fires, path, header) as reader:
            assert (reader.answer.status, reader.answer.read()) == (204, b"")
    with Reader(fires, "events", {"Last-Event-ID": "3000000-0"}) as reader:
        assert reader.ids(2) == ids(4, 5)
        assert reader.event() == Event("", "end", "")


@pytest.mark.core
def test_a_stop_tells_no_end(fires: PublishedTest) -> None:
    with Reader(fires, "events?last=1") as reader, Reader(fires, "stream?last=1") as body:
        wait_for_clients(fires, 2)
        fires.stream.end(is_stopped=True)
        assert reader.ids(1) == ids(5)
        assert reader.event() is None
        with pytest.raises(IncompleteRead):
            body.answer.read()
    with Reader(fires, "events", {"Last-Event-ID": "5000000-0"}) as reader:  # who returns before the server is gone is not sent away
        assert (reader.answer.status, reader.event()) == (200, None)


@pytest.mark.core
def test_places_are_for_all_three_and_come_free(fires: PublishedTest) -> None:
    with published(clients=2) as stream:
        stream.add([1])
        first, second = Reader(stream, "events"), Reader(stream, "stream")
        wait_for_clients(stream, 2)
        for path in ("events", "stream", "ws"):
            with Reader(stream, path, _upgrade()) as reader:
                assert int(reader.answer.headers["Retry-After"]) > 0
                assert "2 clients" in reader.error(503)["error"]
        assert stream.get("elements").status == 200
        first.close()
        wait_until(lambda: stream.stream.counts.clients.total() == 1)
        with Reader(stream, "events?last=1") as reader:
            assert reader.ids(1) == ids(1)
        second.close()
        wait_until(lambda: not stream.stream.counts.clients.total())
        assert not stream.stream.broadcast.has_clients


@pytest.mark.core
def test_tokens_are_parameters_of_what_a_page_opens_alone() -> None:
    with published(tokens=lambda: "secret") as stream:
        stream.add([1])
        for path in ("events", "ws", "stream"):
            with Reader(stream, path, _upgrade()) as reader:
                assert reader.answer.headers["WWW-Authenticate"] == "Bearer"
                assert "secret" not in reader.error(401)["error"]
        with Reader(stream, "stream?authorization=secret") as reader:
            assert reader.error(401)
        with Reader(stream, "events?last=1&authorization=secret") as reader:
            assert reader.ids(1) == ids(1)
            assert reader.answer.headers["Cache-Control"] == "private, no-cache"
        with Reader(stream, "stream?last=1&format=ndjson", {"Authorization": "Bearer secret"}) as reader:
            assert json.loads(reader.answer.readline())["id"] == "1000000-0"


@pytest.mark.core
def test_a_comment_tells_that_the_connection_is_alive(fires: PublishedTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "HEARTBEAT", 0.02)
    with Reader(fires, "events") as reader:
        assert [reader.event(), reader.event()] == [Event("", ":", "")] * 2


@pytest.mark.core
def test_a_body_without_end_is_read_as_files_are(fires: PublishedTest, tmp_path: Path) -> None:
    found = {}
    for form, media_type in (
        (Format.TRIG, "application/trig"),
        (Format.NQUADS, "application/n-quads"),
        (Format.NDJSON, "application/x-ndjson"),
    ):
        with Reader(fires, f"stream?since=0&until=6&format={form.value}") as reader:
            assert reader.answer.headers["Content-Type"] == media_type
            if form is Format.TRIG:
                wait_for_clients(fires, 1)
                fires.add([6])
            text = reader.answer.read()
        records = records_of_file(tmp_path, text, partial(_input_file, form))
        found[form] = [each.element for each in records]
    assert found[Format.TRIG] == found[Format.NQUADS] == found[Format.NDJSON]
    assert [each.time for each in found[Format.TRIG] if each is not None] == [at * 1_000_000 for at in range(1, 6)]


def _input_file(form: Format, path: Path) -> InputFile:
    return InputFile("in", str(path), form)


# WebSocket


def _upgrade() -> dict[str, str]:
    key = base64.b64encode(b"k" * 16).decode()
    return {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}


@contextmanager
def upgraded(stream: PublishedTest, path: str = "ws", window: int = 0) -> Iterator[socket.socket]:
    """A connection behind the handshake of a WebSocket, of raw frames."""
    host, _, port = stream.address.removeprefix("http://").partition("/")[0].partition(":")
    prefix = stream.address.removeprefix("http://").partition("/")[2]
    connection = _narrow((host, int(port)), window) if window else socket.create_connection((host, int(port)))
    connection.settimeout(PATIENCE)
    headers = "".join(f"{name}: {value}\r\n" for name, value in _upgrade().items())
    with connection:
        connection.sendall(f"GET /{prefix}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += (byte := connection.recv(1))
            assert byte
        assert answer.startswith(b"HTTP/1.1 101"), answer
        yield connection


def exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += (piece := connection.recv(size - len(found)))
        assert piece, "it has ended"
    return found


def frame(connection: socket.socket) -> tuple[int, bytes]:
    """Opcode and content of the next frame of a server."""
    first, size = exactly(connection, 2)
    assert first & 0x80
    if size == 126:
        (size,) = struct.unpack("!H", exactly(connection, 2))
    elif size == 127:
        (size,) = struct.unpack("!Q", exactly(connection, 8))
    return first & 0x0F, exactly(connection, size)


def masked(opcode: int, content: bytes) -> bytes:
    """A frame of a client, with a mask of zeros."""
    size = struct.pack("!B", 0x80 | len(content)) if len(content) < 126 else struct.pack("!BH", 0x80 | 126, len(content))
    return bytes([0x80 | opcode]) + size + bytes(4) + content


def code(content: bytes) -> int:
    return int.from_bytes(content[:2], "big")


@pytest.mark.core
def test_an_element_is_a_text_frame(fires: PublishedTest) -> None:
    for name, form in FORMATS.items():
        with upgraded(fires, f"ws?after=2000000-0&format={name}") as connection:
            for id in ids(3, 4, 5):
                assert frame(connection) == (1, text_of(fires, id, form).encode())


@pytest.mark.core
def test_lengths_of_frames(fires: PublishedTest) -> None:
    for length in (1, 65_000, 66_000):
        fires.add([10 + length], graph=f'<http://e/a> <http://e/b> "{"y" * length}" .')
    with upgraded(fires, "ws?last=3") as connection:
        for id in ids(11, 65_010, 66_010):
            assert frame(connection) == (1, text_of(fires, id, ElementFormat.JSONLD).encode())


@pytest.mark.core
def test_what_clients_send_is_not_read(fires: PublishedTest) -> None:
    with upgraded(fires) as connection, upgraded(fires) as half, upgraded(fires) as closes:
        wait_for_clients(fires, 3)
        connection.sendall(masked(1, b"x" * 4_096) + masked(2, b"\xff") + masked(9, b"?"))
        half.sendall(masked(1, b"x" * 999)[:500])
        closes.sendall(masked(8, struct.pack("!H", 1000)))
        assert frame(connection) == (10, b"?")
        assert frame(closes) == (8, struct.pack("!H", 1000))
        wait_for_clients(fires, 2)
        fires.add([9])
        for each in (connection, half):
            assert frame(each) == (1, text_of(fires, "9000000-0", ElementFormat.JSONLD).encode())
        connection.sendall(masked(1, b"x" * 4_097))
        opcode, content = frame(connection)
        assert (opcode, code(content)) == (8, 1009)
        wait_for_clients(fires, 1)


@pytest.mark.core
@pytest.mark.parametrize(("sent", "found"), [(b"\xff\xff\xff\xff", 1002), (b"\x83\x80\x00\x00\x00\x00", 1002), (masked(1, b"\xff"), 1007)])
def test_frames_that_are_none_close(fires: PublishedTest, sent: bytes, found: int) -> None:
    with upgraded(fires) as connection:
        wait_for_clients(fires, 1)
        connection.sendall(sent)
        opcode, content = frame(connection)
        assert (opcode, code(content)) == (8, found)
    wait_for_clients(fires, 0)


@pytest.mark.core
def test_a_ping_tells_that_the_connection_is_alive(fires: PublishedTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "HEARTBEAT", 0.02)
    with upgraded(fires) as connection:
        assert [frame(connection), frame(connection)] == [(9, b"")] * 2


@pytest.mark.core
@pytest.mark.parametrize(("is_stopped", "found"), [(False, 1000), (True, 1001)])
def test_the_code_tells_end_and_stop(fires: PublishedTest, is_stopped: bool, found: int) -> None:
    with upgraded(fires) as connection:
        wait_for_clients(fires, 1)
        fires.stream.end(is_stopped=is_stopped)
        opcode, content = frame(connection)
        assert (opcode, code(content)) == (8, found)
    if not is_stopped:
        with upgraded(fires, "ws?last=1") as connection:
            assert frame(connection)[0] == 1
            assert frame(connection) == (8, struct.pack("!H", 1000))


@pytest.mark.core
def test_a_page_of_another_site_is_refused() -> None:
    with published(origins=frozenset(("https://map.example",))) as stream:
        authority = stream.address.removeprefix("http://").partition("/")[0]
        for origin, status in (
            ("https://map.example", 101),
            (f"http://{authority}", 101),
            ("https://other.example", 403),
            ("null", 403),
            (f"https://{authority}", 403),
        ):
            with Reader(stream, "ws", {"Origin": origin, **_upgrade()}) as reader:
                assert reader.answer.status == status, origin


@pytest.mark.core
def test_what_a_client_sends_is_in_no_log(fires: PublishedTest, caplog: pytest.LogCaptureFixture) -> None:
    with Reader(fires, "ws", {"Sec-WebSocket-Protocol": "secret", **_upgrade()}) as reader:
        assert reader.answer.status == 101
    wait_for_clients(fires, 0)
    assert "secret" not in caplog.text


@pytest.mark.core
@pytest.mark.parametrize(
    ("change", "status"),
    [({"Upgrade": "h2c"}, 426), ({"Sec-WebSocket-Version": "12"}, 426), ({"Sec-WebSocket-Key": "x"}, 400), ({"Connection": "close"}, 400)],
)
def test_what_is_no_handshake(fires: PublishedTest, change: Mapping[str, str], status: int) -> None:
    with Reader(fires, "ws", {**_upgrade(), **change}) as reader:
        assert reader.error(status)["error"]
    wait_for_clients(fires, 0)


# Slow clients, many clients, returning clients


@pytest.mark.core
def test_who_does_not_read_is_closed_and_the_others_have_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "SLOW_SECONDS", 0.05)
    with (
        published(keep=Keep(elements=250)) as stream,
        Reader(stream, "events", window=4_096) as events,
        Reader(stream, "stream", window=4_096) as body,
        upgraded(stream, window=4_096) as messages,
        Reader(stream, "events?format=nquads") as reader,
    ):
        wait_for_clients(stream, 4)
        for at in range(1, 301):
            stream.add([at], graph=LONG)
            assert reader.ids(1) == ids(at)
        wait_for_clients(stream, 1)
        assert stream.stream.counts.slow == {"events": 1, "stream": 1, "ws": 1}
        found = []
        while (event := events.event()) is not None:
            found.append(event)
        assert found[-1] == Event("", "slow", "")
        assert [each.id for each in found[:-1]] == ids(*range(1, len(found)))
        with pytest.raises(IncompleteRead) as cut:
            body.answer.read()
        assert not cut.value.partial.endswith(b"]\n")
        opcodes = []
        while (each := frame(messages))[0] != 8:
            opcodes.append(each[0])
        assert (code(each[1]), set(opcodes)) == (1013, {1})


@pytest.mark.core
def test_a_hundred_clients_have_all_beside_one_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "SLOW_SECONDS", 0.05)
    monkeypatch.setattr(broadcast, "BEHIND", 9)
    with published() as stream, ExitStack() as stack, selectors.DefaultSelector() as waiting:
        sizes: dict[int, int] = {}
        stack.enter_context(Reader(stream, "stream", window=4_096))
        for _ in range(100):
            connection = stack.enter_context(upgraded(stream, "ws?format=nquads"))
            waiting.register(connection, selectors.EVENT_READ)
            sizes[connection.fileno()] = 0
        wait_for_clients(stream, 101)
        expected = 0
        for at in range(1, 71):
            stream.add([at], graph=LONG[:8_000] + LONG[-3:])
            expected += len(text_of(stream, f"{at * 1_000_000}-0", ElementFormat.NQUADS)) + 4  # the head of its frame
            while not all(size == expected for size in sizes.values()):
                for key, _ in waiting.select(PATIENCE):
                    sizes[key.fd] += len(cast("socket.socket", key.fileobj).recv(1 << 20))
        wait_for_clients(stream, 100)
        assert stream.stream.counts.slow == {"stream": 1}
        assert stream.stream.counts.clients == {"ws": 100, "stream": 0}


@pytest.mark.core
def test_readers_that_break_and_return_miss_nothing_that_they_are_not_told() -> None:
    random = Random(34)
    with published(keep=Keep(elements=400)) as stream:
        added = 0
        seen: dict[str, list[str]] = {"events": [], "stream": [], "ws": []}
        told = 0
        for _ in range(40):
            number = random.choice((0, 1, 3, 60, 300))
            stream.add([*range(added + 1, added + number + 1)])
            added += number
            path = random.choice([*seen])
            found = seen[path]
            wanted = min(random.choice((0, 2, 90)), added - (int(found[-1][:-8]) if found else 0))
            if not wanted:
                continue
            behind = f"?after={found[-1]}" if found else "?since=0"
            if path == "events":
                with Reader(stream, "events" if found else "events?since=0", {"Last-Event-ID": found[-1]} if found else NONE) as reader:
                    event = reader.event()
                    assert event is not None
                    if event.name == "gap":
                        told += 1
                        found.clear()
                        found.append(event.data)
                        assert reader.ids(1) == found
                    else:
                        found += [event.id, *reader.ids(wanted - 1)]
            elif path == "stream":
                with Reader(stream, f"stream{behind}", {"Accept": "application/x-ndjson"}) as reader:
                    if reader.answer.status == 410:
                        told += 1
                        found.clear()
                        continue
                    found += [json.loads(reader.answer.readline())["id"] for _ in range(wanted)]
            elif stream.get(f"elements{behind}").status == 410:
                told += 1
                found.clear()
            else:
                with upgraded(stream, f"ws{behind}") as connection:
                    found += [json.loads(frame(connection)[1])["@id"].rpartition("/")[2] for _ in range(wanted)]
            if found:
                first = int(found[0][:-8])
                assert found == ids(*range(first, first + len(found)))
        assert told


# Clients that others wrote


@pytest.mark.curl
def test_curl_reads_events_as_they_come(fires: PublishedTest) -> None:
    with subprocess.Popen(["curl", "-sN", f"{fires.address}events?last=1&format=trig"], stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout is not None
        wait_for_clients(fires, 1)
        fires.add([7])
        assert curl.stdout.readline() == "id: 5000000-0\n"
        fires.stream.end(is_stopped=False)
        rest = curl.stdout.read()
        assert rest.endswith("event: end\ndata: \n\n")
        assert rest.count("\nid: ") == 1
    assert curl.returncode == 0


SCRIPT: Final = """
import { EventSource } from "eventsource";
import WebSocket from "ws";
const [address] = process.argv.slice(1);
const tell = (...what) => console.log(JSON.stringify(what));
const source = new EventSource(address + "events?last=2");
source.onmessage = (event) => tell("event", event.lastEventId, JSON.parse(event.data)["@id"]);
source.addEventListener("end", () => tell("end"));
source.onerror = () => { if (source.readyState === EventSource.CLOSED) tell("closed"); };
const socket = new WebSocket(address.replace("http", "ws") + "ws?last=2");
socket.on("message", (data, isBinary) => tell("message", isBinary, JSON.parse(data)["@id"]));
socket.on("close", (code) => tell("code", code));
"""


@pytest.mark.npm
def test_node_reads_events_and_messages(npm: Path, fires: PublishedTest) -> None:
    with node(SCRIPT, fires.address) as process:
        wait_for_clients(fires, 2)
        fires.add([7])
        fires.stream.end(is_stopped=False)
        out, err = process.communicate(timeout=PATIENCE)
    assert not err
    told = [json.loads(line) for line in out.splitlines()]
    base = fires.stream.base
    assert [each for each in told if each[0] == "event"] == [["event", id, f"{base}{id}"] for id in ids(4, 5, 7)]
    assert [each for each in told if each[0] == "message"] == [["message", False, f"{base}{id}"] for id in ids(4, 5, 7)]
    assert [each for each in told if each[0] not in ("event", "message")].count(["code", 1000]) == 1
    assert [each for each in told if each[0] in ("end", "closed")] == [["end"], ["closed"]]  # 204 ends it


PAGE: Final = """<!doctype html><title>reader</title><script>
window.found = [];
const source = new EventSource("ADDRESS");
source.onmessage = (event) => found.push(event.lastEventId);
source.addEventListener("gap", (event) => found.push("gap " + event.data));
source.addEventListener("end", () => found.push("end"));
</script>"""


@pytest.mark.browser
@pytest.mark.skipif(chromium() is None, reason="needs Chromium")
def test_an_event_source_of_a_browser_returns_by_itself(tmp_path: Path) -> None:
    with published(origins=frozenset(("*",)), keep=Keep(elements=1)) as stream:
        stream.add([1, 2])
        (tmp_path / "page.html").write_text(PAGE.replace("ADDRESS", f"{stream.address}events?since=0"))
        with running_browser() as browser, browser.page(tmp_path / "page.html") as page:
            page.wait("found.length === 2")
            wait_for_clients(stream, 1)
            loop = stream.stream._loop
            assert loop is not None
            (client,) = stream.stream.broadcast._all()
            loop.call_soon_threadsafe(client.end, broadcast.Ending.SLOW, 0)
            wait_for_clients(stream, 0)
            stream.add([3])
            page.wait("found.length === 3")
            assert page.evaluate("found.join()") == ",".join(ids(1, 2, 3))  # behind its last ID, though its address says since=0
            stream.stream.end(is_stopped=False)
            page.wait("source.readyState === EventSource.CLOSED")
            assert page.evaluate("found.join()") == ",".join([*ids(1, 2, 3), "end"])


@pytest.mark.core
def test_a_python_client_reads_messages_and_events(fires: PublishedTest) -> None:
    async def read() -> tuple[list[str], int | None, str]:
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"{fires.address}ws?last=2&format=nquads") as messages:
                fires.stream.end(is_stopped=False)
                texts = [message.data async for message in messages]
            async with session.get(f"{fires.address}stream?since=0&format=nquads") as answer:
                return texts, messages.close_code, await answer.text()

    texts, closed, body = asyncio.run(read())
    assert texts == [text_of(fires, id, ElementFormat.NQUADS) for id in ids(4, 5)]
    assert closed == 1000
    assert body.startswith('VERSION "1.2-messages"\n')
    assert body.count("MESSAGE\n") == 5
