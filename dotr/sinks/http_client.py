"""Client that posts bodies to a server over one connection, kept open between requests.

Idea: the standard library's client suffices, since one thread makes the requests one after the
other. A redirect is followed within the origin, with the same body.
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
"""Longest wait for a connection, and for each part of a response."""

_RESPONSE_BYTES: Final = 1 << 16
_SHOWN: Final = 200
_REDIRECTS: Final = (301, 302, 307, 308)
_MOST_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}


class ConnectionLost(DotrError):
    """A request without a response, as the connection failed. It may be sent again."""


class NeverAccepted(DotrError):
    """A permanent error: an invalid certificate, or a redirect to another origin."""


class PostResponse(NamedTuple):
    """Response of a server: status, beginning of its text, and the seconds of its Retry-After."""

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
    """Client of one URL; TLS always verifies the certificate.

    - `url`: with user and password, which are sent by Basic authentication.
    - `token`: sent as Bearer token, in place of the password; empty: none.
    - `ca`: a file with the certificates of the trusted authorities; empty: the system's.
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

    def post(self, body: IO[bytes], length: int, headers: Mapping[str, str]) -> PostResponse:
        """Post a body of `length` bytes, from its start; raises ConnectionLost, NeverAccepted."""
        target = self._target
        for _ in range(_MOST_REDIRECTS):
            body.seek(0)
            response = self._request(target, body, {**self._headers, **headers, "Content-Length": str(length)})
            status, location = response.status, response.getheader("Location")
            found = PostResponse(status, self._text(response), _seconds(response.getheader("Retry-After")))
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
            # A server that rejects a long body may respond before it has read it.
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
        """The open connection, or a new one if the server has closed it."""
        if self._connection is not None and (self._connection.sock is None or _is_readable(self._connection.sock)):
            self.close()
        if self._connection is None:
            host, port = self._origin.host, self._origin.port
            if self._context is not None:
                self._connection = HTTPSConnection(host, port, timeout=_SECONDS, context=self._context)
            else:
                self._connection = HTTPConnection(host, port, timeout=_SECONDS)
        return self._connection

    def _text(self, response: HTTPResponse) -> str:
        """The beginning of a response's text; the connection of a longer response is closed."""
        try:
            content = response.read(_RESPONSE_BYTES)
            if not response.isclosed():
                self.close()
        except (OSError, HTTPException):  # the status is known, and suffices
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
    """True if an idle connection is readable, which means that the server has closed it."""
    return bool(select.select([connection], [], [], 0)[0])


def _seconds(retry_after: str | None) -> float:
    """The seconds of a header Retry-After; 0 for a date, or without the header."""
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdecimal() else 0.0


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__).lower()
