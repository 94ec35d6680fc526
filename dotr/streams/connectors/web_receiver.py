"""Receiver that follows a server on the Web in a thread: it connects, reads what comes, and connects
again.

Idea: an event loop runs one connection after the other. A lost one is tried again at once, then
after 1, 2, 4 … 60 s, without end. What a repetition would not change, such as wrong credentials or
a certificate that cannot be verified, ends the receiver. While the inbox is full, the socket is not
read, so that the server waits.
Bounds: seconds until the headers of an answer; redirects; what a reader of a connection keeps.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from dotr.errors.diagnostics import DotrError, Refused, refuse
from dotr.model.stream import Reason
from dotr.streams.connectors.http.server import check_aiohttp
from dotr.streams.connectors.receivers import wait_before
from dotr.streams.connectors.web_access import Origin, WebAccess, origin, redirect_of
from dotr.streams.records import Inbox, Message, ReceivingFailed

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

LOG: Final = logging.getLogger("dotr")

ANSWER_SECONDS: Final = 30.0
"""Longest wait for a connection, and for the headers of an answer, all of them together."""

_START_SECONDS: Final = 10.0
"""Longest wait of a run's start for the outcome of the first attempt."""

_STEADY_SECONDS: Final = 10.0
"""A connection that lasted at least this long is made again without a delay."""

_LONGEST_WAIT_SECONDS: Final = 60.0
_CAPACITY_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 0.02
_TURNS: Final = 8
"""Turns of an event loop within which a request that waits in a new connection is begun: five."""

_OFFERED_AT_ONCE: Final = 1_000
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_MOST_REDIRECTS: Final = 5
_LATER: Final = (408, 425, 429)
"""Status codes below 500 of a server that may answer a repeated request."""


class NeverAnswered(DotrError):
    """A permanent error of a connection. `hint` is the way out."""

    def __init__(self, message: str, hint: str = "Correct the URL, or the credentials.") -> None:
        super().__init__(message)
        self.hint = hint


class TryAgain(DotrError):
    """An error of a connection that may pass; `seconds`: the least wait that the server asks for."""

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


class WebReceiver(ABC):
    """Receiver of what a server sends, over one connection after the other.

    - `connected`: True while a connection is open.
    - `ended`: True once the server has said that nothing more comes.
    - `pause`: the wait before a connection that the server asks for; None: it has not.
    - `steps`: the number of pieces read.
    - `origins`: those that redirects may lead to, beside the input's own.
    - `is_gap`: True where what is sent while no connection is open is lost.
    """

    def __init__(self, name: str, access: WebAccess) -> None:
        check_aiohttp(access.span)
        self.name = name
        self.access = access
        self.connected = self.ended = False
        self.failure: Refused | ReceivingFailed | None = None
        self.pause: float | None = None
        self.steps = 0
        self.is_gap = False
        self.url = ""
        self.credentials: dict[str, str] = {}
        self.origins: frozenset[Origin] = frozenset()
        self._inbox: Inbox | None = None
        self._is_offering = False
        self._tried = threading.Event()
        self._opened_at: float | None = None
        self._is_loss_logged = False
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"dotr input {name}")

    @abstractmethod
    async def follow(self, session: ClientSession) -> None:
        """Connect once, and offer what comes until the connection ends.

        Raises NeverAnswered, TryAgain, and errors of the connection.
        """

    def go_on_behind(self, last: Message) -> None:  # noqa: B027 (a server may have no way to go on)
        """Use the last message of earlier runs, behind which the server is to go on."""

    def start(self, inbox: Inbox) -> None:
        """Start, and wait a while for the outcome of the first attempt; raises `Refused` (S165) for a
        permanent error, S124 where the environment lacks a secret."""
        self._inbox = inbox
        try:
            self.url, self.credentials = self.access.request()
        except BaseException:
            self._loop.close()
            raise
        if inbox.last is not None:
            self.is_gap = True
            self.go_on_behind(inbox.last)
        self._thread.start()
        self._tried.wait(_START_SECONDS)
        if isinstance(self.failure, Refused):
            self.stop()
            raise self.failure

    def stop(self) -> None:
        """End the connection and the thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(lambda: None if self._task is None else self._task.cancel())
        if self._thread.is_alive():
            self._thread.join()

    def is_drained(self) -> bool:
        """True if nothing comes while the event loop turns a few times."""
        return not self.connected or (is_silent(self._loop, lambda: self.steps) and not self._is_offering)

    async def opened(self) -> None:
        """Note that the server answers; what is lost between two connections is a dead letter."""
        if self.is_gap:
            await self.lost("the connection was lost, and what the server sent meanwhile has not come")
        self.connected = self.is_gap = True
        self._opened_at = time.monotonic()
        if self._is_loss_logged:
            LOG.warning("input %s: %s answers again.", self.name, self.access.shown)
            self._is_loss_logged = False
        self._tried.set()

    async def lost(self, why: str, key: bytes | None = None) -> None:
        """Offer the dead letter of messages that are lost."""
        await self.deliver([Message(b"", 0, key=key, why=why, reason=Reason.LOST)])

    async def deliver(self, messages: Sequence[Message]) -> None:
        """Offer messages to the inbox, and wait while it is full."""
        inbox, at, most = self._inbox, 0, _OFFERED_AT_ONCE
        assert inbox is not None
        self._is_offering = True
        while at < len(messages):
            block = messages[at : at + most]
            if inbox.offer(block, _ignore):
                at, most = at + len(block), _OFFERED_AT_ONCE
            elif len(block) > 1:
                most = len(block) // 2
            else:
                await asyncio.to_thread(inbox.wait_for_capacity, _CAPACITY_SECONDS, len(block[0].body))
                await asyncio.sleep(_RETRY_SECONDS)  # a failed inbox reports capacity at once
        self._is_offering = False

    @asynccontextmanager
    async def requested(
        self, session: ClientSession, headers: dict[str, str], url: str = "", accepted: Collection[int] = (304,)
    ) -> AsyncIterator[ClientResponse]:
        """The answer to a GET, behind redirects within the origins: of status 2xx, or an accepted
        one. The credentials are those of the input's own origin, and are sent to no other.

        Raises NeverAnswered or TryAgain for any other status.
        """
        from yarl import URL

        url = url or self.url
        for _ in range(_MOST_REDIRECTS):
            own = self.credentials if origin(url) == origin(self.url) else {}
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await session.get(URL(url, encoded=True), headers={**own, **headers}, allow_redirects=False)
            async with response:
                if response.status in _REDIRECTS and (location := response.headers.get("Location")) is not None:
                    url = redirected(url, location, self.origins)
                    continue
                if response.status not in (*range(200, 300), *accepted):
                    raise refusal(response.status, response.headers.get("Retry-After", ""))
                if response.connection is not None and response.connection.transport is not None:
                    _keep_alive(response.connection.transport)
                try:
                    yield response
                finally:
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()  # it is not read to its end: TLS would wait for the server
                return
        raise NeverAnswered(f"it redirects more than {_MOST_REDIRECTS} times")

    def _run(self) -> None:
        try:
            self._task = self._loop.create_task(self._follow_all())
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        except Exception as error:
            self.failure = ReceivingFailed(f"input {self.name}: {self.access.shown}: its thread has ended ({type(error).__name__})")
        finally:
            self.connected = False
            self._tried.set()
            self._loop.run_until_complete(self._settled())
            self._loop.close()

    async def _settled(self) -> None:
        """Wait until what waits for capacity has ended, and closed connections are gone."""
        await self._loop.shutdown_default_executor()
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def _follow_all(self) -> None:
        from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        tries = 0
        secure = urlsplit(self.url).scheme in ("https", "wss")
        async with ClientSession(
            connector=TCPConnector(ssl=self.access.tls() if secure else True),
            timeout=ClientTimeout(total=None),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            headers={"User-Agent": "dotr"},
        ) as session:
            while True:
                least, problem = 0.0, "the server has ended the connection"
                self._opened_at = None
                try:
                    await self.follow(session)
                except NeverAnswered as error:
                    self._fail(str(error), error.hint)
                except TryAgain as error:
                    least, problem = error.seconds, str(error)
                except (ClientError, OSError, EOFError, ValueError) as error:
                    if (untrusted := _untrusted(error)) is not None:
                        self._fail(*untrusted)
                    problem = _reason(error)
                self.connected = False
                if self.ended or self.failure is not None:
                    return
                lasted = 0.0 if self._opened_at is None else time.monotonic() - self._opened_at
                if lasted >= _STEADY_SECONDS:
                    tries = 0
                if not self._is_loss_logged or tries % 16 == 0:
                    self._is_loss_logged = True
                    LOG.warning("input %s: %s: %s. It is tried again.", self.name, self.access.shown, problem)
                self._tried.set()
                # A server that answers is asked again when it says; else the waits grow.
                wait = self.pause if self.pause is not None and lasted else max(wait_before(tries), self.pause or 0.0)
                await asyncio.sleep(max(wait, least))
                tries += 1

    def _fail(self, message: str, hint: str) -> None:
        if self._tried.is_set():
            way_out = f"{hint[:1].lower()}{hint[1:].removesuffix('.')}"
            self.failure = ReceivingFailed(f"input {self.name}: {self.access.shown}: {message} ({way_out})")
        else:
            self.failure = refuse("S165", f"input {self.name}: {self.access.shown}: {message}", self.access.span, hint)


def is_silent(loop: asyncio.AbstractEventLoop, steps: Callable[[], int]) -> bool:
    """True if the steps of an event loop in another thread stay the same while it turns a few times: it
    then reads what waits in its sockets, also in new connections."""

    async def stays() -> bool:
        before = steps()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return steps() == before

    looking = stays()
    try:
        turning = asyncio.run_coroutine_threadsafe(looking, loop)
    except RuntimeError:  # the loop has just ended
        looking.close()
        return True
    try:
        return turning.result(_LOOK_SECONDS)
    except (TimeoutError, CancelledError):
        turning.cancel()
        return False


def checked_text(message: Message, most: int) -> Message:
    r"""The message, or the dead letter of one that is no UTF-8. One with more than `most` bytes is cut,
    and left to its decoder.

    >>> checked_text(Message(b"\xff", 0), 9).why, checked_text(Message("é".encode(), 0), 9).why
    ('it is no UTF-8', '')
    """
    if not message.body.isascii() and len(message.body) <= most:
        try:
            message.body.decode()
        except UnicodeDecodeError:
            return message._replace(why="it is no UTF-8")
    return message


def redirected(url: str, location: str, origins: Collection[Origin] = ()) -> str:
    """The URL of a redirect from a URL; raises NeverAnswered where it leaves the origin for none of
    `origins`.

    >>> redirected("http://h/a?b", "/c"), redirected("http://h:80/a", "http://H/c")
    ('http://h/c', 'http://H/c')
    """
    hint = "Write the URL that the server redirects to, if it is trusted."
    try:
        found = redirect_of(url, location)
        same = origin(found) in (origin(url), *origins)
    except ValueError:
        raise NeverAnswered("it redirects to what is no URL", hint) from None
    if not same:
        raise NeverAnswered("it redirects to another origin", hint)
    return found


def refusal(status: int, retry_after: str = "") -> NeverAnswered | TryAgain:
    """The error of an answer with a status that is no success.

    >>> refusal(404), refusal(503, "7").seconds, type(refusal(429)).__name__
    (NeverAnswered('it answers 404 (Not Found)'), 7.0, 'TryAgain')
    """
    phrase = next((f" ({each.phrase})" for each in HTTPStatus if each == status), "")
    if status >= 500 or status in _LATER:
        seconds = float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else 0.0
        return TryAgain(f"it answers {status}{phrase}", min(seconds, _LONGEST_WAIT_SECONDS))
    return NeverAnswered(f"it answers {status}{phrase}")


def _untrusted(error: Exception) -> tuple[str, str] | None:
    """Message and hint of a certificate that cannot be verified; None for other errors."""
    import ssl

    cause = getattr(error, "certificate_error", getattr(error, "os_error", error))
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return None
    why = cause.verify_message or "it cannot be verified"
    return f"its certificate is not valid: {why}", "Name the certificate of its authority as tls.ca, or the host that it is for."


def _reason(error: Exception) -> str:
    """The text of an error of a connection, without anything that the server has sent."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, TimeoutError):
        return f"no answer within {ANSWER_SECONDS:g} s"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    return f"the connection was lost ({type(error).__name__})"


def _keep_alive(connection: asyncio.BaseTransport) -> None:
    """Have the system probe a silent connection, so that one without a peer ends within minutes."""
    sock = connection.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _ignore() -> None:
    """Nothing: a server that sends expects no acknowledgement."""
