"""Outputs that post batches, over real sockets: requests, retries, and permanent errors."""

from __future__ import annotations

import io
import ssl
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from dotr.model.stream import Firing
from dotr.model.time import Clock
from dotr.streams.connectors.http import sink as http_posts
from dotr.streams.connectors.http.addresses import HttpDestination
from dotr.streams.connectors.http.http_client import ConnectionLost, NeverAccepted, PostClient
from dotr.streams.connectors.http.sink import PostedBatches, PostedEvents
from dotr.streams.formats.messages import message_decoder
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.records import Format, InputFile, Message
from dotr.streams.sinks.batches import check_nothing
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.files import WriteFailed
from tests.support.http_server import Posted, PostServer, post_server
from tests.support.ports import free_port

TERMS = OutputTerms(Clock(), ("room",), {}, "fire alarm")
SECOND = 1_000_000


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduces all waits to a hundredth."""
    wait = http_posts._wait
    monkeypatch.setattr(http_posts, "_wait", lambda seconds, check: wait(seconds / 100, check))


def firing(time: int, room: str = "a") -> Firing:
    return Firing(time * SECOND, "R", "Fire", (("room", f'"{room}"'),), (("<http://e/f>", "<http://e/at>", f'"{room}"'),), 0)


def destination(server: PostServer, path: str = "/in", token: str = "") -> HttpDestination:
    url = server.url + path
    return HttpDestination(url, 0, lambda: url, (lambda: token) if token else None)


def post(client: PostClient, body: bytes = b"x", times: int = 1) -> int:
    try:
        return max(client.post(io.BytesIO(body), len(body), {}).status for _ in range(times))
    finally:
        client.close()


class TestBatches:
    def test_batch_is_a_request_with_its_key(self) -> None:
        with post_server() as server:
            sink = PostedBatches(destination(server, token="s3cret"), StreamFormat.NDJSON, TERMS, "1d")
            assert sink.open(check_nothing) is None
            sink.write_batch(7, [[firing(1), firing(2)], [firing(3)]], check_nothing)
            sink.write_batch(8, [], check_nothing)
            sink.write_batch(9, [[firing(4)]], check_nothing)
            sink.close()
            assert [each.key for each in server.accepted] == ["fire%20alarm/0/7", "fire%20alarm/0/9"]
            assert [each.body.count(b"\n") for each in server.accepted] == [3, 1]
            headers = server.accepted[0].headers
            assert headers["Content-Type"] == "application/x-ndjson"
            assert headers["Authorization"] == "Bearer s3cret"
            assert headers["dotr-run"] == "1d"

    @pytest.mark.parametrize("form", list(StreamFormat))
    def test_repeated_batch_is_the_same_request(self, form: StreamFormat) -> None:
        with post_server() as server:
            for _ in range(2):
                sink = PostedBatches(destination(server), form, TERMS, "1d")
                sink.open(check_nothing)
                sink.write_batch(7, [[firing(1), firing(2)]], check_nothing)
                sink.close()
            one, other = server.accepted
            assert one.body
            assert (one.body, one.key, one.headers["Content-Type"]) == (other.body, other.key, other.headers["Content-Type"])

    @pytest.mark.parametrize("form", [StreamFormat.JSONLD, StreamFormat.JELLY])
    def test_body_is_read_as_a_message_of_its_content_type(self, form: StreamFormat) -> None:
        """All elements of a batch, also of an event that a batch in process has alone."""
        decode = message_decoder(InputFile("in", "", Format(form.value)))

        def times(request: Posted) -> list[int | None]:
            content = request.headers["Content-Type"].encode()
            return [record.time for record in decode(Message(request.body, 0, headers=(("content-type", content),)), True)]

        with post_server() as server:
            sink = PostedBatches(destination(server), form, TERMS, "1d")
            sink.open(check_nothing)
            sink.write_batch(7, [[firing(1), firing(2)], [], [firing(3)]], check_nothing)
            sink.close()
            with PostedEvents(destination(server), form, TERMS, check_nothing) as posted:
                posted.write_items([firing(4)])
                posted.flush()
            assert list(map(times, server.accepted)) == [[firing(number).time for number in (1, 2, 3)], [firing(4).time]]

    def test_csv_has_its_header_in_each_batch(self) -> None:
        with post_server() as server:
            sink = PostedBatches(destination(server), StreamFormat.CSV, TERMS, "1d")
            sink.open(check_nothing)
            for number in range(2):
                sink.write_batch(number, [[firing(number)]], check_nothing)
            sink.close()
            assert [each.body.startswith(b"time,rule,event") for each in server.accepted] == [True, True]

    @pytest.mark.parametrize("status", [429, 500, 502, 503, 599, None])
    def test_transient_error_is_retried(self, status: int | None, caplog: pytest.LogCaptureFixture) -> None:
        with post_server(lambda number, request: 200 if number > 2 else status) as server:
            sink = PostedBatches(destination(server), StreamFormat.NDJSON, TERMS, "1d")
            sink.open(check_nothing)
            sink.write_batch(7, [[firing(1)]], check_nothing)
            sink.write_batch(8, [[firing(2)]], check_nothing)
            sink.close()
            assert [each.key[-1] for each in server.requests] == ["7", "7", "7", "7", "8"]
            assert len({each.body for each in server.requests[:4]}) == 1
        assert len(caplog.messages) == 2
        assert caplog.messages[0].startswith(f"{server.url}/in does not accept batch 7 now (")

    def test_wait_doubles_with_each_retry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waits: list[float] = []
        monkeypatch.setattr(http_posts, "_wait", lambda seconds, check: waits.append(seconds))
        answers = {8: web.Response(status=503, headers={"Retry-After": "30"}), 1: web.Response(status=429, headers={"Retry-After": "3"})}
        with post_server(lambda number, request: 200 if number == 9 else answers.get(number, 503)) as server:
            sink = PostedBatches(destination(server), StreamFormat.NDJSON, TERMS, "")
            sink.open(check_nothing)
            sink.write_batch(0, [[firing(1)]], check_nothing)
            sink.close()
        assert waits == [1, 3, 4, 8, 16, 32, 60, 60, 60]

    @pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 409, 413])
    def test_permanent_error_ends_the_run(self, status: int) -> None:
        with post_server(lambda number, request: web.Response(status=status, text="no\x1b[1m  thanks" if status != 304 else "")) as server:
            sink = PostedBatches(destination(server), StreamFormat.NDJSON, TERMS, "1d")
            sink.open(check_nothing)
            with pytest.raises(WriteFailed, match=rf"/in does not accept batch 7: it answers {status}"):
                sink.write_batch(7, [[firing(1)]], check_nothing)
            sink.close()
            assert len(server.requests) == 1

    def test_unreachable_server_is_retried_until_it_starts(self) -> None:
        port = free_port()
        url = f"http://127.0.0.1:{port}/in"
        sink = PostedBatches(HttpDestination(url, 0, lambda: url), StreamFormat.NDJSON, TERMS, "1d")
        sink.open(check_nothing)
        thread = threading.Thread(target=lambda: sink.write_batch(0, [[firing(1)]], check_nothing))
        thread.start()
        time.sleep(0.1)
        with post_server(port=port) as server:
            thread.join(20)
            assert [each.key for each in server.accepted] == ["fire%20alarm/0/0"]
        sink.close()

    def test_next_batch_is_sent_to_a_restarted_server(self) -> None:
        port = free_port()
        url = f"http://127.0.0.1:{port}/in"
        sink = PostedBatches(HttpDestination(url, 0, lambda: url), StreamFormat.NDJSON, TERMS, "1d")
        sink.open(check_nothing)
        keys = []
        for number in range(3):
            with post_server(port=port) as server:
                sink.write_batch(number, [[firing(1)]], check_nothing)
                sink.write_batch(number + 10, [[firing(1)]], check_nothing)
                keys += [each.key.rpartition("/")[2] for each in server.requests]
        sink.close()
        assert keys == ["0", "10", "1", "11", "2", "12"]

    def test_wait_ends_when_the_run_is_stopped(self) -> None:
        class Stopped(Exception):
            pass

        def stopped() -> None:
            raise Stopped

        with post_server(lambda number, request: 503) as server:
            sink = PostedBatches(destination(server), StreamFormat.NDJSON, TERMS, "1d")
            sink.open(check_nothing)
            with pytest.raises(Stopped):
                sink.write_batch(7, [[firing(1)]], stopped)
            sink.close()

    def test_long_batch_is_posted_completely(self) -> None:
        with post_server() as server:
            sink = PostedBatches(destination(server), StreamFormat.NDJSON, TERMS, "1d")
            sink.open(check_nothing)
            sink.write_batch(7, ([firing(time, "x" * 1_000)] * 100 for time in range(100)), check_nothing)
            sink.close()
            assert len(server.accepted[0].body.splitlines()) == 10_000


class TestRunInProcess:
    def test_instant_is_a_request_whose_key_has_its_time(self) -> None:
        with post_server() as server:
            with PostedEvents(destination(server), StreamFormat.NDJSON, TERMS, check_nothing) as sink:
                sink.write_items([firing(1, "a"), firing(1, "b")])
                sink.write_items([firing(1, "c")])
                assert server.requests == []
                sink.write_items([firing(2), firing(3)])
                assert [each.key for each in server.accepted] == ["fire%20alarm/0/1000000", "fire%20alarm/0/2000000"]
                sink.flush()
                assert len(server.accepted) == 3
                sink.flush()
                sink.write_items([firing(3, "z")])
            assert [(each.key[15:], each.body.count(b"\n")) for each in server.accepted] == [
                ("1000000", 3),
                ("2000000", 1),
                ("3000000", 1),
                ("3000000-2", 1),
            ]

    def test_complete_instants_are_posted_if_the_run_ends_with_an_error(self) -> None:
        with post_server() as server:
            with suppress(ValueError), PostedEvents(destination(server), StreamFormat.TRIG, TERMS, check_nothing) as sink:
                sink.write_items([firing(1)])
                raise ValueError("broken")
            assert len(server.accepted) == 1

    def test_stop_while_the_server_rejects_a_batch_ends_the_run(self) -> None:
        def stop() -> None:
            raise KeyboardInterrupt

        with post_server(lambda number, request: 503) as server:
            with PostedEvents(destination(server), StreamFormat.NDJSON, TERMS, stop) as sink:
                sink.write_items([firing(1)])
                with pytest.raises(WriteFailed, match=r"stopped before .*/in accepted batch 1000000"):
                    sink.flush()
            assert len(server.requests) == 1


class TestClient:
    def test_redirects_within_the_origin_are_followed_with_the_body(self) -> None:
        def script(number: int, request: Posted) -> web.Response | int:
            if request.path in ("/a?b=c", "/x"):
                return web.Response(
                    status=307 if request.path == "/x" else 301, headers={"Location": "/x" if request.path != "/x" else "y"}
                )
            return 200

        with post_server(script) as server:
            assert post(PostClient(server.url + "/a?b=c")) == 200
            assert [(each.path, each.body) for each in server.requests] == [("/a?b=c", b"x"), ("/x", b"x"), ("/y", b"x")]

    @pytest.mark.parametrize("elsewhere", ["http://127.0.0.2/in", "https://127.0.0.1/in", "//e.example/in", "http://127.0.0.1:1/in"])
    def test_redirects_to_another_origin_are_not_followed(self, elsewhere: str) -> None:
        with post_server(lambda number, request: web.Response(status=308, headers={"Location": elsewhere})) as server:
            with pytest.raises(NeverAccepted, match="it redirects to another origin, http"):
                post(PostClient(server.url, token="s3cret"))
            assert len(server.requests) == 1

    def test_cycle_of_redirects_ends(self) -> None:
        script = lambda number, request: web.Response(status=308, headers={"Location": "/"})  # noqa: E731
        with post_server(script) as server, pytest.raises(NeverAccepted, match="it redirects more than 5 times"):
            post(PostClient(server.url))

    def test_user_and_password_of_the_url_are_sent(self) -> None:
        with post_server() as server:
            assert post(PostClient(server.url.replace("//", "//me:p%40ss@"))) == 200
            assert server.requests[0].headers["Authorization"] == "Basic bWU6cEBzcw=="

    def test_endless_response_is_read_only_partly(self) -> None:
        with post_server(lambda number, request: web.Response(status=200, body=bytes(10_000_000))) as server:
            assert post(PostClient(server.url), times=3) == 200

    def test_early_rejection_of_a_long_body_is_received(self) -> None:
        import socket

        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()

            def answer_early() -> None:
                connection, _ = listening.accept()
                connection.recv(10)
                connection.sendall(b"HTTP/1.1 413 Too long\r\nContent-Length: 0\r\n\r\n")
                time.sleep(0.2)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 20):
                    pass
                connection.close()

            threading.Thread(target=answer_early, daemon=True).start()
            assert post(PostClient(f"http://127.0.0.1:{listening.getsockname()[1]}/"), bytes(5_000_000)) == 413

    def test_refused_connection_is_reported(self) -> None:
        with pytest.raises(ConnectionLost, match="connection refused"):
            post(PostClient(f"http://127.0.0.1:{free_port()}/"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of 127.0.0.1 that no authority has signed."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem -out cert.pem"
    words = [*command.split(), "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return folder


def test_certificate_is_verified(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with post_server(tls=context) as server:
        with pytest.raises(NeverAccepted, match="its certificate is not valid: self-signed certificate"):
            post(PostClient(server.url))
        assert post(PostClient(server.url, ca=str(certificate / "cert.pem"))) == 200
        other = PostClient(server.url.replace("127.0.0.1", "localhost"), ca=str(certificate / "cert.pem"))
        with pytest.raises(NeverAccepted, match="its certificate is not valid: "):
            post(other)
        sink = PostedBatches(replace(destination(server), ca=""), StreamFormat.NDJSON, TERMS, "1d")
        sink.open(check_nothing)
        with pytest.raises(WriteFailed, match="does not accept batch 1: its certificate is not valid"):
            sink.write_batch(1, [[firing(1)]], check_nothing)
        sink.close()
