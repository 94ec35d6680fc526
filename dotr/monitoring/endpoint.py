"""The address that Prometheus scrapes while a run goes on: the standard library's server in a thread, on loopback unless told otherwise."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from dotr.errors.diagnostics import refuse
from dotr.model.places import Span
from dotr.monitoring.exposition import CONTENT_TYPE, exposition
from dotr.monitoring.latest_figures import Figures

LOOPBACK: Final = "127.0.0.1"


def address_of(text: str | int) -> tuple[str, int]:
    """A host and a port; without a host it is loopback. Raises ValueError where it is none.

    >>> address_of(9464), address_of("0.0.0.0:9464"), address_of("[::1]:9464")
    (('127.0.0.1', 9464), ('0.0.0.0', 9464), ('::1', 9464))
    """
    host, _, port = str(text).rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"{text} is no address")
    return host.strip("[]") or LOOPBACK, int(port)


@contextmanager
def served(text: str | int, read: Callable[[], Figures], place: Span | None = None) -> Iterator[int]:
    """While it holds, /metrics answers with what `read` gives; the port that it is at (port 0: a free one). Raises `Refused` where it
    cannot be had."""
    host, port = address_of(text)
    try:
        server = _Server((host, port), read)
    except OSError as error:
        hint = "Is another run there already? Choose another metrics.prometheus."
        raise refuse("C215", f"metrics cannot be served at {text}: {(error.strerror or str(error)).lower()}", place, hint) from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True, name="dotr metrics")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], read: Callable[[], Figures]) -> None:
        self.read = read
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _MetricsPage)

    def server_bind(self) -> None:
        """As of every TCP server; HTTPServer's own would ask the name service for our name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no news."""


class _MetricsPage(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "There is /metrics here, and nothing else")
            return
        page = exposition(self.server.read()).encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """A scrape is no news either."""
