"""Posts to servers that never come to an end, redirect strangely, or repeat what they were sent."""

from __future__ import annotations

import base64
import html
import io
import json
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from urllib.parse import quote

import pytest

from dotr.streams.connectors.http import http_client
from dotr.streams.connectors.http.http_client import ConnectionLost, NeverAccepted, PostClient, PostResponse
from dotr.streams.sinks.batches import check_nothing
from tests.support.hostile_server import ENDLESS, OK, SILENT, HostileScript, answer, hostile_server, repeated, silent
from tests.support.patience import PATIENCE, on_this_machine

TOKEN = 'S3cret-t0ken"</&+~'


class Stopped(Exception):
    pass


def post(url: str, check: Callable[[], None] = check_nothing, token: str = "", body: bytes = b"x") -> PostResponse:
    client = PostClient(url, token)
    try:
        return client.post(io.BytesIO(body), len(body), {}, check)
    finally:
        client.close()


def stopped_after(seconds: float) -> Callable[[], None]:
    end = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() >= end:
            raise Stopped

    return check


@pytest.mark.parametrize("script", SILENT.values(), ids=list(SILENT))
def test_stop_is_heard_while_there_is_no_answer(script: HostileScript) -> None:
    with hostile_server(script) as server:
        begun = time.monotonic()
        with pytest.raises((Stopped, ConnectionLost), match=r"^$|more than 10,000 lines"):
            post(server.url, stopped_after(0))
        assert time.monotonic() - begun < on_this_machine(1)
        assert len(server.requests) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_stop_is_heard_while_nothing_is_taken(scheme: str) -> None:
    """Neither the body, nor the beginning of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(Stopped):
        post(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}", stopped_after(0), body=bytes(20_000_000))


def test_stop_is_heard_while_a_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = threading.Event()

    def look_up(*_: object) -> list[object]:
        found.wait(PATIENCE)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        with pytest.raises(Stopped):
            post("http://a.example", stopped_after(0))
    finally:
        found.set()


def test_request_that_was_left_is_not_sent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, go_on, over = HTTPConnection.connect, threading.Event(), threading.Event()

    def connect_late(connection: HTTPConnection) -> None:
        go_on.wait(10)
        connect(connection)
        threading.Timer(0.2, over.set).start()

    monkeypatch.setattr(HTTPConnection, "connect", connect_late)
    with hostile_server(answer(b"HTTP/1.1 200 OK")) as server:
        with pytest.raises(Stopped):
            post(server.url, stopped_after(0))
        go_on.set()
        assert over.wait(10)
        assert server.requests == []
        assert not [thread for thread in threading.enumerate() if thread.name == "dotr post"]


def test_request_under_way_is_answered_behind_the_stop() -> None:
    def answer_late(connection: socket.socket, head: bytes) -> None:
        time.sleep(0.15)
        connection.sendall(OK + b"Content-Length: 0\r\n\r\n")

    with hostile_server(answer_late) as server:
        assert post(server.url, stopped_after(0)).status == 200


@pytest.mark.parametrize("script", SILENT.values(), ids=list(SILENT))
def test_whole_answer_has_a_time_limit(script: HostileScript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_SECONDS", 0.2)
    with hostile_server(script) as server:
        with pytest.raises(ConnectionLost, match=r"no answer within 0\.2 s|more than 10,000 lines"):
            post(server.url)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "remote end closed connection without response"),
        (b"HTTP/1.1 200", "its answer is cut off"),
        (OK, "its answer is cut off"),
        (OK + b"Content-Length: 0\r\nX", "its answer is cut off"),
        (b"HTTP/1.1 103 Hints\r\n", "its answer is cut off"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "remote end closed connection without response"),
        (b"X-A: 1\r\n" * 100_000, "x-a: 1"),
    ],
)
def test_answer_that_is_cut_off_is_no_answer(head: bytes, reason: str) -> None:
    with hostile_server(lambda connection, request: connection.sendall(head)) as server, pytest.raises(ConnectionLost) as raised:
        post(server.url)
    assert str(raised.value) == reason


@pytest.mark.parametrize("script", ENDLESS.values(), ids=list(ENDLESS))
def test_status_suffices_where_the_text_does_not_end(script: HostileScript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_TEXT_SECONDS", 0.2)
    with hostile_server(script, answer(b"HTTP/1.1 204 None")) as server:
        client = PostClient(server.url)
        assert [client.post(io.BytesIO(b"x"), 1, {}).status for _ in range(2)] == [200, 204]
        client.close()


def test_long_body_may_take_longer_than_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_SECONDS", 0.2)

    class SlowBody(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            time.sleep(0.1)
            return super().read(size)

    with hostile_server(answer(b"HTTP/1.1 200 OK")) as server:
        client, body = PostClient(server.url), bytes(80_000)
        assert client.post(SlowBody(body), len(body), {}).status == 200
        client.close()


def test_interim_answers_are_no_answer() -> None:
    script = answer(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Made"
    )
    with hostile_server(script) as server:
        assert post(server.url).status == 201


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/é".encode(), "/é"),
        ("/é".encode("latin-1"), "/\ufffd"),
        (b"/a b", "/a b"),
        (b"/a\tb", "/a b"),
        (b"/a\x01b", "/a\x01b"),
        (b"/a\x7f", "/a\x7f"),
        (b"http://[::1", "http://[::1"),
        (b"http://127.0.0.1:70000/", "http://127.0.0.1:70000/"),
        (b"http://127.0.0.1:x/", "http://127.0.0.1:x/"),
    ],
)
def test_redirect_to_no_url_is_a_message(location: bytes, shown: str) -> None:
    with hostile_server(answer(b"HTTP/1.1 307 There\r\nLocation: " + location)) as server:
        with pytest.raises(NeverAccepted) as raised:
            post(server.url)
        assert str(raised.value) == f"it redirects to what is no URL: {shown}"
        assert len(server.requests) == 1


def test_redirect_is_relative_to_the_last_one() -> None:
    redirects = [answer(b"HTTP/1.1 307 There\r\nLocation: " + each) for each in (b"/a/b/c", b"d?e#f", b"?g", b"")]
    with hostile_server(*redirects[:3], answer(b"HTTP/1.1 200 OK")) as server:
        assert post(server.url + "/x/y").status == 200
        assert [head.split(b" ")[1] for head in server.requests] == [b"/x/y", b"/a/b/c", b"/a/b/d?e", b"/a/b/d?g"]
    with hostile_server(redirects[3]) as server, pytest.raises(NeverAccepted, match="more than 5 times"):
        post(server.url)


ESCAPES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "of JSON": lambda text: json.dumps({"authorization": text}),
    "of JSON in PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "of a URL": lambda text: quote(text, safe=""),
    "of HTML": html.escape,
    "of HTML in Go": lambda text: text.replace("+", "&#43;").replace('"', "&#34;"),
    "of hexadecimal HTML": lambda text: "".join(f"&#x{ord(each):X};" for each in text),
    "in capitals": str.upper,
    "in two lines": lambda text: f"{text[:12]}\r\n {text[12:]}",
    "of UTF-16": lambda text: text.encode("utf-16-le").decode("latin-1"),
    "far behind": lambda text: " " * 60_000 + "x" * 190 + text,
    "cut off": lambda text: " " * (65_530 - len("Bearer ")) + text,
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=list(ESCAPES))
def test_repeated_token_is_not_shown(escape: Callable[[str], str]) -> None:
    text = escape(f"Bearer {TOKEN}")
    with hostile_server(answer(b"HTTP/1.1 400 Bad", text.encode())) as server:
        shown = post(server.url, token=TOKEN).text
    assert "s3c" not in shown.lower().replace("&#x", "").replace("\0", "")
    assert "***" in shown or escape is ESCAPES["cut off"]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 307 There\r\nLocation: http://%s.example/",
        b"HTTP/1.1 307 There\r\nLocation: http://[%s",
        b"HTTP/1.1 307 There\r\nLocation: %s://h/a b",
        b"%s 200",
        b"HTTP/1.1 %s",
        b"HTTP/1.1 400 %s\r\nX-Repeated: %s",
        b"HTTP/%s 200 OK",
    ],
)
def test_token_in_headers_and_reason_is_not_shown(head: bytes) -> None:
    token = "S3cret-t0ken"
    with hostile_server(answer(head.replace(b"%s", token.encode()))) as server:
        try:
            shown = str(post(server.url, token=token))
        except (ConnectionLost, NeverAccepted) as error:
            shown = str(error)
    assert "s3cret" not in shown.lower()


def test_password_and_query_are_not_shown() -> None:
    pair = base64.b64encode(b"me:p@ssw0rd").decode()
    text = f"POST /in?key=k3y&other=o%20ther {pair} me:p@ssw0rd p%40ssw0rd k3y o ther a b"
    with hostile_server(answer(b"HTTP/1.1 400 Bad", text.encode())) as server:
        url = server.url.replace("//", "//me:p%40ssw0rd@")
        assert post(f"{url}/in?key=k3y&other=o%20ther").text == "POST /in?*** *** me:*** *** *** *** a b"


def test_accepted_requests_use_one_connection() -> None:
    taken: list[int] = []

    def keep(connection: socket.socket, head: bytes) -> None:
        taken.append(1)
        while True:
            connection.sendall(OK + b"Content-Length: 2\r\n\r\nok")
            if not connection.recv(65_536):
                return

    with hostile_server(keep) as server:
        client = PostClient(server.url)
        assert [client.post(io.BytesIO(), 0, {}).status for _ in range(5)] == [200] * 5
        client.close()
        assert len(taken) == 1


def test_threads_of_left_requests_end() -> None:
    with hostile_server(silent, repeated(b"x", first=OK + b"X: ", pause=0.05)) as server:
        for _ in range(2):
            with pytest.raises(Stopped):
                post(server.url, stopped_after(0))
        deadline = time.monotonic() + 5
        while any(thread.name == "dotr post" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
