"""Client of a server to which bodies are posted: one connection, kept open between requests.

Idea: the standard library's client, since requests are made one behind the other by a thread that
has nothing else to do meanwhile. A redirect is followed within the origin, with the same body.
"""

from __future__ import annotations

import base64
import select
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from dotr.errors.diagnostics import DotrError

_SECONDS: Final = 60.0
"""Longest wait for a connection, and for each part of an answer."""

_ANSWER_BYTES: Final = 1 << 16
_SHOWN: Final = 200
_REDIRECTS: Final = (301, 302, 307, 308)
_MOST_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}


class ConnectionLost(DotrError):
    """A request without an answer: no connection, or one that has ended. It may be sent again."""


class NeverAccepted(DotrError):
    """A request that cannot succeed as it is: a certificate that is not valid, a redirect elsewhere."""


class PostAnswer(NamedTuple):
    """Answer of a server: its status, the beginning of its text, and the seconds it asks to wait."""

    status: int
    text: str
    retry_after: float


@dataclass(frozen=True, slots=True)
class _Origin:
    """Scheme, host and port of a URL."""

    scheme: str
    host: str
    port: int

    @staticmethod
    def of_url(parts: SplitResult) -> _Origin:
        return _Origin(parts.scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0))


class PostClient:
    """Client of one URL. `url` has its user and password, `token` is sent as Bearer token, and `ca`
    is a file of authorities to trust (empty: the system's). Nothing turns verification off.
    """

    def __init__(self, url: str, token: str = "", ca: str = "") -> None:
        self._parts = urlsplit(url)
        self._origin = _Origin.of_url(self._parts)
        self._target = _target(self._parts)
        self._headers = {"User-Agent": "dotr", "Accept": "*/*"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        elif self._parts.username is not None:
            pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._context = ssl.create_default_context(cafile=ca or None) if self._origin.scheme == "https" else None
        self._connection: HTTPConnection | None = None

    def post(self, body: IO[bytes], length: int, headers: Mapping[str, str]) -> PostAnswer:
        """Post a body of so many bytes, from its beginning. Raises ConnectionLost, NeverAccepted."""
        target = self._target
        for _ in range(_MOST_REDIRECTS):
            body.seek(0)
            answer = self._request(target, body, {**self._headers, **headers, "Content-Length": str(length)})
            status, location = answer.status, answer.getheader("Location")
            found = PostAnswer(status, self._text(answer), _seconds(answer.getheader("Retry-After")))
            if status not in _REDIRECTS or location is None:
                return found
            target = self._redirected(location)
        raise NeverAccepted(f"it redirects more than {_MOST_REDIRECTS} times")

    def _request(self, target: str, body: IO[bytes], headers: Mapping[str, str]) -> HTTPResponse:
        connection = self._connected()
        try:
            connection.request("POST", target, body, headers)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise NeverAccepted(f"its certificate is not valid: {error.verify_message}") from None
        except (OSError, HTTPException) as error:
            # A server that refuses a long body may answer before it has read it.
            if connection.sock is not None:
                with suppress(OSError, HTTPException):
                    return connection.getresponse()
            self.close()
            raise ConnectionLost(_reason(error)) from None
        try:
            return connection.getresponse()
        except (OSError, HTTPException) as error:
            self.close()
            raise ConnectionLost(_reason(error)) from None

    def _connected(self) -> HTTPConnection:
        """The open connection, or a new one where the server has ended it meanwhile."""
        if self._connection is not None and (self._connection.sock is None or _is_readable(self._connection.sock)):
            self.close()
        if self._connection is None:
            host, port = self._origin.host, self._origin.port
            if self._context is not None:
                self._connection = HTTPSConnection(host, port, timeout=_SECONDS, context=self._context)
            else:
                self._connection = HTTPConnection(host, port, timeout=_SECONDS)
        return self._connection

    def _text(self, answer: HTTPResponse) -> str:
        """The beginning of an answer's text; an answer that does not end soon ends the connection."""
        try:
            content = answer.read(_ANSWER_BYTES)
            if not answer.isclosed():
                self.close()
        except (OSError, HTTPException):  # the status is there, and decides
            self.close()
            content = b""
        text = " ".join(content[: 4 * _SHOWN].decode("utf-8", "replace").split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def _redirected(self, location: str) -> str:
        """The target of a redirect; raises NeverAccepted where it leaves the origin."""
        try:
            parts = urlsplit(urljoin(self._parts._replace(netloc=self._parts.netloc.rpartition("@")[2]).geturl(), location))
            same = _Origin.of_url(parts) == self._origin
        except ValueError:
            raise NeverAccepted("it redirects to what is no URL") from None
        if not same:
            raise NeverAccepted(f"it redirects to another origin, {parts.scheme}://{parts.netloc.rpartition('@')[2]}")
        return _target(parts)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _target(parts: SplitResult) -> str:
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path


def _is_readable(connection: socket.socket) -> bool:
    """True where a connection that waits for nothing has something to read: its end."""
    return bool(select.select([connection], [], [], 0)[0])


def _seconds(retry_after: str | None) -> float:
    """The seconds of a header Retry-After; 0 for a date, or none."""
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdecimal() else 0.0


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__).lower()
