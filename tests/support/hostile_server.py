"""A server on loopback that answers as no server should: silent, byte by byte, without end, or with strange headers.

A *script* receives the connection after the head and body of a request have been read, with the head. The connection is closed behind it.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

OK = b"HTTP/1.1 200 OK\r\n"

HostileScript: TypeAlias = Callable[[socket.socket, bytes], None]


@dataclass
class HostileServer:
    """Address of the server, and the heads of the requests so far."""

    url: str
    requests: list[bytes] = field(default_factory=list)


def repeated(piece: bytes, *, first: bytes = b"", pause: float = 0.0) -> HostileScript:
    """A script that sends `piece` without end, `pause` seconds apart."""

    def send(connection: socket.socket, head: bytes) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(piece)
            if pause:
                threading.Event().wait(pause)

    return send


def silent(connection: socket.socket, head: bytes) -> None:
    """Wait until the client ends the connection."""
    connection.recv(1)


SILENT: dict[str, HostileScript] = {
    "silence": silent,
    "a header byte by byte": repeated(b"x", first=OK + b"X-Long: ", pause=0.05),
    "headers without end, slowly": repeated(b"X-More: 1\r\n", first=OK, pause=0.5),
    "a status line byte by byte": repeated(b"1", first=b"HTTP/1.1 2", pause=0.05),
    "100 Continue for ever": repeated(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 Continue for ever, slowly": repeated(b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.05),
    "103 Early Hints for ever": repeated(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", pause=0.001),
}
"""Scripts that never come to the end of the headers."""

ENDLESS: dict[str, HostileScript] = {
    "a body byte by byte": repeated(b"x", first=OK + b"Content-Length: 1000\r\n\r\n", pause=0.05),
    "a body without end": repeated(b"x" * 1000, first=OK + b"\r\n"),
    "a body that stops": repeated(b"x", first=OK + b"Content-Length: 9\r\n\r\n", pause=60),
    "chunks byte by byte": repeated(b"1\r\nx\r\n", first=OK + b"Transfer-Encoding: chunked\r\n\r\n", pause=0.05),
    "a chunk's length without end": repeated(b"0", first=OK + b"Transfer-Encoding: chunked\r\n\r\n", pause=0.001),
    "a trailer without end": repeated(b"X-T: 1\r\n", first=OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", pause=0.001),
}
"""Scripts that answer 200, and never come to the end of the body."""


def answer(head: bytes, body: bytes = b"") -> HostileScript:
    """A script that sends a status line with headers, and a body."""
    sent = head + b"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    return lambda connection, request: connection.sendall(sent)


def _request(connection: socket.socket) -> bytes:
    """The head of a request, whose body has been read."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: *([0-9]+)", head)
    left = int(found[1]) - len(body) if found else 0
    while left > 0 and (piece := connection.recv(min(left, 1 << 20))):
        left -= len(piece)
    return head


@contextmanager
def hostile_server(*scripts: HostileScript) -> Iterator[HostileServer]:
    """Answer each connection by its script, the last one also all further ones."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = HostileServer(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def serve(connection: socket.socket, script: HostileScript) -> None:
            with connection, suppress(OSError):
                head = _request(connection)
                if head:
                    server.requests.append(head)
                    script(connection, head)

        def accept() -> None:
            number = 0
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    script = scripts[min(number, len(scripts) - 1)]
                    threading.Thread(target=serve, args=(connection, script), daemon=True).start()
                    number += 1

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            listening.shutdown(socket.SHUT_RDWR)
