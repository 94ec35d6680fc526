"""Random requests to a published stream: none gives a 500 or ends the server, and nothing that is sent comes back."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import suppress
from random import Random
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tests.support.patience import PATIENCE
from tests.support.properties import examples
from tests.support.published import PublishedTest, published

SECRET: Final = "s3cr3t-t0ken"
_NAMES: Final = (
    "",
    "elements",
    "events",
    "ws",
    "stream",
    "sGraph",
    "sgraph",
    "ldes",
    "ldes/0",
    "ldes/1",
    "ldes/x",
    "tbox",
    "shape",
    "1000000-0",
)
_ODD: Final = (
    "1-0",
    "9" * 40,
    "-",
    "..",
    "../../etc/passwd",
    "%2e%2e/",
    "%00",
    "%ff",
    "é",
    "\ud83d",
    "a b",
    "\\",
    "'",
    "<x>",
    "//",
    "?",
    "#",
    SECRET,
)
_PARAMETERS: Final = ("since", "until", "after", "last", "limit", "label", "format", "authorization", "x", SECRET, "%ff", "")
_VALUES: Final = (
    "1",
    "0",
    "-1",
    "1e3",
    "9" * 30,
    "NaN",
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00-23:59",
    "9999-12-31T23:59:59.999999Z",
    "1000000-0",
    "3000000-0",
    "4000000-0",
    "Fire",
    "trig",
    "nquads",
    "jsonld",
    "ndjson",
    "turtle",
    "jelly",
    "csv",
    "%F0%9F%98",
    "%ED%A0%80",
    "a+b",
    SECRET,
)
_HEADERS: Final = (
    "Accept",
    "If-None-Match",
    "Last-Event-ID",
    "Authorization",
    "Origin",
    "Host",
    "Connection",
    "Upgrade",
    "Sec-WebSocket-Version",
    "Sec-WebSocket-Key",
    "Sec-WebSocket-Extensions",
    "Content-Length",
    "Transfer-Encoding",
    "Expect",
    "Range",
    "Cookie",
    "X",
    "",
    "\x00",
    ":",
    " ",
)
_HEADER_VALUES: Final = (
    "*/*",
    "text/html",
    "application/trig;q=0",
    "a/b;q=x,,;",
    "*",
    'W/"a", "b"',
    '"',
    "1000000-0",
    "Bearer " + SECRET,
    "Basic x",
    "http://evil.example",
    "evil.example",
    "null",
    "upgrade",
    "websocket",
    "13",
    "dGhlIHNhbXBsZSBub25jZQ==",
    "x",
    "permessage-deflate; server_max_window_bits=99",
    "0",
    "5",
    "-1",
    "chunked",
    "gzip, chunked",
    "100-continue",
    "bytes=0-5",
    "\xe9",
    "\x7f",
    "x" * 9_000,
    "",
)


def request_of(random: Random, host: str) -> bytes:
    """A random request, which may be broken, or half."""
    if random.random() < 0.05:
        return random.randbytes(random.randrange(200))
    method = random.choice(("GET", "GET", "GET", "HEAD", "OPTIONS", "POST", "PUT", "BREW", "get", "", "GET\t"))
    path = random.choice(("/fire/", "/fire", "/", "", "/other/", "http://h/", "*")) + random.choice((*_NAMES, *_NAMES, *_ODD))
    pairs = [f"{random.choice(_PARAMETERS)}={random.choice(_VALUES)}" for _ in range(random.choice((0, 0, 1, 1, 2, 3)))]
    target = path + ("?" + random.choice("&&;").join(pairs) if pairs else "")
    lines = [f"{method} {target} {random.choice(('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2', ''))}"]
    if random.random() < 0.9:
        lines.append(f"Host: {host}")
    lines += [f"{random.choice(_HEADERS)}: {random.choice(_HEADER_VALUES)}" for _ in range(random.choice((0, 1, 1, 2, 4, 150)))]
    end = random.choice(("\r\n", "\r\n", "\r\n", "\n"))
    sent = (end.join(lines) + end * 2).encode("utf-8", "surrogatepass") + random.choice((b"", b"", b"x" * 5, b"5\r\nabcde\r\n0\r\n\r\n"))
    return sent[: random.randrange(len(sent))] if random.random() < 0.1 else sent


def answer_to(stream: PublishedTest, sent: bytes, wait: float) -> bytes:
    """The first bytes of the answer; none where the request is half."""
    host, _, port = stream.address.removeprefix("http://").partition("/")[0].partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as client:
        client.settimeout(wait)
        with suppress(TimeoutError, ConnectionError):
            client.sendall(sent)
            return client.recv(65_536)
    return b""


def check_random_requests(stream: PublishedTest, seed: int, number: int, wait: float = 0.05) -> None:
    """Send requests; the server answers a plain one behind them."""
    random = Random(seed)
    host = stream.address.removeprefix("http://").partition("/")[0]
    for _ in range(number):
        sent = request_of(random, host)
        answer = answer_to(stream, sent, wait)
        head, _, body = answer.partition(b"\r\n\r\n")
        status = int(head.split(maxsplit=2)[1]) if head.startswith(b"HTTP/") else 0
        assert status < 500 or status == 503, (seed, sent, answer)
        assert SECRET.encode() not in answer, (seed, sent, answer)
        if status >= 400 and body and not sent.startswith(b"HEAD"):
            assert "error" in json.loads(body) if b"application/json" in head else status == 401, (seed, sent, answer)
    assert stream.get("elements").status == 200


@given(st.integers(0, 1 << 32))
@examples(4)
def test_no_request_ends_the_server(seed: int) -> None:
    with published() as stream:
        stream.add([1, 2, 3])
        check_random_requests(stream, seed, 40)


@given(st.integers(0, 1 << 32))
@examples(2)
def test_no_request_without_token_is_told_one(seed: int) -> None:
    with published(tokens=lambda: "other") as stream:
        stream.add([1])
        random, host = Random(seed), stream.address.removeprefix("http://").partition("/")[0]
        for _ in range(40):
            sent = request_of(random, host)
            assert b"http://e/room" not in answer_to(stream, sent, 0.05), (seed, sent)


if __name__ == "__main__":  # python -m tests.streams.connectors.serve.test_random_requests SEED NUMBER
    with published() as fires:
        fires.add([1, 2, 3])
        check_random_requests(fires, int(sys.argv[1]), int(sys.argv[2]))
