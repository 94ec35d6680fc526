"""Client that posts bodies to a server over one connection, kept open between requests.

Idea: the standard library's client suffices, since one request is made after the other. A request
is made in a thread of its own, because a call that waits for a name, a connection or a byte cannot
be interrupted: meanwhile the caller's thread calls `check`, so that a stop is heard, and compares
the clock. A redirect is followed within the origin, with the same body.
Bounds: seconds without progress of a request, of a whole answer, of its text; bytes of the text.
Cost: a thread, about 0.1 ms a request.
"""

from __future__ import annotations

import base64
import json
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http.client import SWITCHING_PROTOCOLS, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader
from typing import IO, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from dotr.errors.diagnostics import DotrError
from dotr.model import dataclass
from dotr.streams.connectors.web_access import origin, redirect_of
from dotr.streams.sinks.batches import Check, check_nothing

MASK: Final = "***"

_NAMED: Final = {'"': "quot", "&": "amp", "'": "apos", "<": "lt", ">": "gt"}
_BETWEEN: Final = r"[\s\0\ufffd]*"
"""Pattern of the text that may stand between two characters: white space, or what is left of UTF-16."""


class Redaction:
    r"""Function that replaces secrets in a text of a server by `***`: a token, a password, the query
    of the URL.

    A secret is found in the escapes of JSON, HTML and URLs too, in either case of its letters, and
    with white space between its characters, since a server may escape, fold or wrap what it
    repeats.

    - `secrets`: the secrets; empty ones are ignored.

    >>> redacted = Redaction(['s3"cret/1', ""])
    >>> redacted('{"got": "Bearer s3\\"cret\\/1"}, S3%22cret%2f1, s3&quot;cret&#47;1, s3 cret')
    '{"got": "Bearer ***"}, ***, ***, s3 cret'
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        given = sorted(filter(None, set(secrets)), key=lambda secret: (-len(secret), secret))
        self._pattern = re.compile("|".join(map(_pattern_of, given)), re.IGNORECASE) if given else None

    def __call__(self, text: str) -> str:
        """The text without the secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)


def _pattern_of(secret: str) -> str:
    return _BETWEEN.join(map(_forms_of, secret))


def _forms_of(character: str) -> str:
    """A pattern of all forms of a character."""
    code, utf_8 = ord(character), quote(character, safe="") if not character.isascii() else f"%{ord(character):02x}"
    literal = [character, f"\\{character}", utf_8, utf_8.replace("%", "%25"), json.dumps(character)[1:-1]]
    forms = [*map(re.escape, literal), f"&#0*{code};?", f"&#x0*{code:x};?", rf"\\u0*{code:x}", rf"\\x{code:02x}"]
    if character in _NAMED:
        forms.append(f"&{_NAMED[character]};?")
    if character == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(dict.fromkeys(forms))})"


_SECONDS: Final = 60.0
"""Longest wait for a connection, for the server to take a further piece of the body, and for the
headers of the answer, all of them together."""

_TEXT_SECONDS: Final = 5.0
"""Longest wait for the text of an answer, whose status is known."""

_POLL_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 0.3
"""Time that a request under way still has to be answered when the run is stopped."""

ACCEPTED: Final = range(200, 300)
"""Status codes of an accepted request."""

_RESPONSE_BYTES: Final = 1 << 16
_MOST_LINES: Final = 10_000
"""Limit of the lines of an answer: of its headers, those of interim answers, its chunks and trailer."""

_SHOWN: Final = 200
_REDIRECTS: Final = (301, 302, 307, 308)
_MOST_REDIRECTS: Final = 5
_LEAST_SECRET: Final = 3
"""Length of the shortest query, and value of one, that is redacted: a shorter one is no secret."""


class ConnectionLost(DotrError):
    """A request without a response: the connection failed, or no answer came in time. It may be
    sent again."""


class NeverAccepted(DotrError):
    """A permanent error: an invalid certificate, or a redirect to another origin."""


class PostResponse(NamedTuple):
    """Response of a server: status, beginning of its text (empty if it accepts), and the seconds of
    its Retry-After."""

    status: int
    text: str
    retry_after: float


class PostClient:
    """Client of one URL; TLS always verifies the certificate.

    - `url`: with user and password, which are sent by Basic authentication.
    - `token`: sent as Bearer token, in place of the password; empty: none.
    - `ca`: a file with the certificates of the trusted authorities; empty: the system's.
    """

    def __init__(self, url: str, token: str = "", ca: str = "") -> None:
        parts = urlsplit(url)
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._origin = origin(self._url)
        self._headers = {"User-Agent": "dotr", "Accept": "*/*"}
        queried = [parts.query, *(value for _, value in parse_qsl(parts.query))]
        secrets = [token, *(each for each in queried if len(each) >= _LEAST_SECRET)]
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        elif parts.username is not None:
            password = unquote(parts.password or "")
            pair = base64.b64encode(f"{unquote(parts.username)}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {pair}"
            secrets += [password, parts.password or "", pair]
        self._redacted = Redaction(secrets)
        self._context = ssl.create_default_context(cafile=ca or None) if parts.scheme == "https" else None
        self._connection: HTTPConnection | None = None

    def post(self, body: IO[bytes], length: int, headers: Mapping[str, str], check: Check = check_nothing) -> PostResponse:
        """Post a body of `length` bytes, from its start.

        Raises ConnectionLost, NeverAccepted, and what `check` raises, which is called several times
        a second.
        """
        url = self._url
        for _ in range(_MOST_REDIRECTS):
            body.seek(0)
            sent = {**self._headers, **headers, "Content-Length": str(length)}
            exchange = _Exchange(self._connected(), _target(urlsplit(url)), body, sent)
            answer = self._finished(exchange, check)
            if answer.status not in _REDIRECTS or answer.location is None:
                text = "" if answer.status in ACCEPTED else self._shown(answer.text)
                return PostResponse(answer.status, text, _seconds(answer.retry_after))
            url = self._redirected(url, answer.location)
        raise NeverAccepted(f"it redirects more than {_MOST_REDIRECTS} times")

    def _finished(self, exchange: _Exchange, check: Check) -> _Answer:
        """The answer of an exchange, once it has one."""
        exchange.start()
        try:
            while not exchange.done.wait(_POLL_SECONDS):
                try:
                    check()
                except BaseException:
                    if exchange.done.wait(_STOP_SECONDS):
                        break
                    raise
                if time.monotonic() >= exchange.deadline:
                    exchange.is_late = True
                    break
        finally:
            if not exchange.is_reusable:
                exchange.end()
                self._connection = None
        try:
            return exchange.answer()
        except ssl.SSLCertVerificationError as error:
            raise NeverAccepted(f"its certificate is not valid: {error.verify_message}") from None
        except (OSError, HTTPException) as error:
            raise ConnectionLost(self._reason(error)) from None

    def _connected(self) -> HTTPConnection:
        """The open connection, or a new one if the server has closed it."""
        if self._connection is not None and (self._connection.sock is None or _is_readable(self._connection.sock)):
            self.close()
        if self._connection is None:
            _, host, port = self._origin
            if self._context is not None:
                self._connection = HTTPSConnection(host, port, timeout=2 * _SECONDS, context=self._context)
            else:
                self._connection = HTTPConnection(host, port, timeout=2 * _SECONDS)
            self._connection.response_class = _FinalResponse
        return self._connection

    def _redirected(self, url: str, location: str) -> str:
        """The URL of a redirect from `url`; raises NeverAccepted where it leaves the origin."""
        try:
            found = redirect_of(url, location)
            same = origin(found) == self._origin
        except ValueError:
            written = location.encode("latin-1", "replace").decode("utf-8", "replace")
            raise NeverAccepted(f"it redirects to what is no URL: {self._shown(written)}") from None
        if not same:
            parts = urlsplit(found)
            raise NeverAccepted(f"it redirects to another origin, {self._shown(f'{parts.scheme}://{parts.netloc}')}")
        return found

    def _shown(self, text: str) -> str:
        """The beginning of a text of the server, on one line and without secrets."""
        text = " ".join(self._redacted(text).split())
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def _reason(self, error: Exception) -> str:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return self._shown(text or type(error).__name__).lower()

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Lines:
    """File of a response whose lines are counted; `is_blank` is True if the last one was blank."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._left = _MOST_LINES
        self.is_blank = False

    def readline(self, size: int = -1) -> bytes:
        """The next line; raises HTTPException where there are too many."""
        self._left -= 1
        if self._left < 0:
            raise HTTPException(f"its answer has more than {_MOST_LINES:,} lines before its text")
        line = self._file.readline(size)
        self.is_blank = line in (b"\r\n", b"\n")
        return line

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


class _FinalResponse(HTTPResponse):
    """Response behind all interim ones: 103 (Early Hints) is no answer, as 100 (Continue) is none.
    Headers that are cut off are no answer either."""

    def begin(self) -> None:
        lines = _Lines(self.fp)
        self.fp = lines  # type: ignore[assignment]
        super().begin()
        while self.status < 200 and self.status != SWITCHING_PROTOCOLS and lines.is_blank:
            self.headers = None  # type: ignore[assignment]  # so that it begins again, with the next response
            super().begin()
        if not lines.is_blank:
            raise HTTPException("its answer is cut off")


@dataclass(frozen=True, slots=True)
class _Answer:
    """Status, headers and the beginning of the text of a response."""

    status: int
    location: str | None
    retry_after: str | None
    text: str = ""


class _Exchange:
    """Request and response in a thread of their own, which the caller may leave behind.

    - `done`: set when the thread has ended.
    - `deadline`: time of the monotonic clock at which the caller should wait no longer; it moves
      with each piece of the body.
    - `is_late`: True if the caller has waited until then.
    - `is_reusable`: True if the connection can be used for another request.
    """

    def __init__(self, connection: HTTPConnection, target: str, body: IO[bytes], headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._target = target
        self._body = body
        self._headers = headers
        self._socket: socket.socket | None = None
        self._is_ended = False
        self._answer: _Answer | None = None
        self._error: Exception | None = None
        self.done = threading.Event()
        self.is_late = self.is_reusable = False
        self.deadline = time.monotonic() + _SECONDS

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, daemon=True, name="dotr post").start()

    def answer(self) -> _Answer:
        """The answer, without a text where that did not come in time; raises the error of the
        request, TimeoutError where there is none yet."""
        if self._answer is not None:
            return self._answer
        if self._error is None or self.is_late:
            raise TimeoutError(f"no answer within {_SECONDS:g} s")
        raise self._error

    def end(self) -> None:
        """End the connection: the thread reads and sends no more."""
        self._is_ended = True
        connected = self._socket
        if connected is not None:
            with suppress(OSError):  # that of a TLS socket would first forget its keys, and send in plain text
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def read(self, size: int = -1) -> bytes:
        """A piece of the body, for the client."""
        if self._is_ended:
            raise ConnectionAbortedError
        self.deadline = time.monotonic() + _SECONDS
        return self._body.read(size)

    def _run(self) -> None:
        reusable = False
        try:
            reusable = self._exchange()
        except Exception as error:  # `answer` raises it in the caller's thread
            self._error = error
        finally:
            if reusable and not self._is_ended:
                self.is_reusable = True
            else:
                self._connection.close()
            self.done.set()

    def _exchange(self) -> bool:
        """Send the request and read its answer; True if the connection can be used again."""
        connection = self._connection
        if connection.sock is None:
            connection.connect()
        self._socket = connection.sock
        if self._is_ended:
            return False
        try:
            connection.request("POST", self._target, self, self._headers)
        except (OSError, HTTPException) as error:
            # A server that rejects a long body may respond before it has read it.
            try:
                response = connection.getresponse()
            except (OSError, HTTPException):
                raise error from None
        else:
            self.deadline = time.monotonic() + _SECONDS
            response = connection.getresponse()
        self.deadline = time.monotonic() + _TEXT_SECONDS
        self._answer = _Answer(response.status, response.getheader("Location"), response.getheader("Retry-After"))
        try:
            content = response.read(_RESPONSE_BYTES)
        except (OSError, HTTPException):  # the status is known, and suffices
            return False
        whole = response.isclosed()
        if not whole:
            content = content[: -_RESPONSE_BYTES // 8]  # without a secret that is cut off
        text = content.decode("utf-8", "replace")
        self._answer = _Answer(self._answer.status, self._answer.location, self._answer.retry_after, text)
        return whole


def _target(parts: SplitResult) -> str:
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path


def _is_readable(connection: socket.socket) -> bool:
    """True if an idle connection is readable, which means that the server has closed it."""
    return bool(select.select([connection], [], [], 0)[0])


def _seconds(retry_after: str | None) -> float:
    """The seconds of a header Retry-After; 0 for a date, or without the header."""
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdecimal() else 0.0
