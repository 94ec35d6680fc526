"""Receiver of the members of a Linked Data Event Stream, in ascending order, one run after the other.

Idea: a run reads the pages that may have changed (`traversal`), and asks for them with their ETags.
A member is a message, whose header has its key: a restart takes the members at the newest key from
the spool. A failed request ends the run, and the next one goes on with what is known of the pages.
Bounds: bytes of a page; bytes of the members that wait for their order.
"""

from __future__ import annotations

import asyncio
import json
import string
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from hashlib import blake2b
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urldefrag

from dotr.errors.diagnostics import DotrError
from dotr.model import dataclass
from dotr.model.stream import Reason
from dotr.model.time import Micros
from dotr.streams.connectors.ldes.pages import (
    LEAST,
    MEDIA_TYPES,
    KeyBound,
    MemberKey,
    PageLink,
    StreamMember,
    StreamPage,
    StreamView,
    message_body,
    order_key,
    read_page,
)
from dotr.streams.connectors.web_access import WebAccess, origin, shown_url
from dotr.streams.connectors.web_receiver import LOG, NeverAnswered, WebReceiver
from dotr.streams.formats.rdf.times import ElementTime
from dotr.streams.records import SHOWN, InputFile, Message, beginning
from dotr.syntax.turtle.nesting import TextLimitExceeded

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

# Runs over the pages of an event stream, which emit its members in ascending order (LDES
# specification, ordered ascending).
#
# Idea: links wait in a queue by the least key that a member behind them may have. Before a page is
# read, all waiting members are emitted whose keys are certainly before it. So pages without a bound
# are read first, and a run without relations to go by is read whole.
# Invariant: the order of members is (time, sequence, IRI); a member is emitted once. Members up to
# the newest one are taken, so that those at its key alone are remembered.
# Memory: the waiting members, at most `limit` bytes; links of all pages that were read.


ORDER: Final = "ldes-order"
"""The header of a message with its member's key, from which a restart goes on."""


def key_text(key: MemberKey) -> str:
    """A key as text for the header of a message.

    >>> key_text((7_000_000,)), key_of_text(key_text((0, Decimal("1.50")))), key_of_text('[2, "b"]')
    ('[7000000]', (0, Decimal('1.50')), (2, 'b'))
    """
    return json.dumps(key, default=str)


def key_of_text(text: str) -> MemberKey:
    """The inverse of `key_text`."""
    parts = json.loads(text)
    return (0, Decimal(parts[1])) if len(parts) > 1 and parts[0] == 0 else tuple(parts)


class Fetched(NamedTuple):
    """Answer to a request for a page: `page` None means that it is what it was, or unreadable."""

    page: StreamPage | None
    etag: str = ""
    immutable: bool = False


class TooManyWaiting(DotrError):
    """The end of a run whose members take more than `spool` until their order is known."""


@dataclass(slots=True)
class _KnownPage:
    """State of a page between two runs; of a page that may change also its members."""

    etag: str = ""
    immutable: bool = False
    links: Sequence[PageLink] = ()
    members: frozenset[str] | None = None


class Traversal:
    """The runs over a stream, from its root page on.

    - `fetch`: returns the page at a URL, which the server may leave out where it has an ETag.
    - `emit`: delivers messages, in order.
    - `since`: the time (µs since 1970) before which members are left out.
    - `limit`: bytes of waiting members, at most.
    """

    def __init__(
        self,
        view: StreamView,
        root: str,
        like: InputFile,
        fetch: Callable[[str, str], Awaitable[Fetched]],
        emit: Callable[[Sequence[Message]], Awaitable[None]],
        *,
        since: Micros | None = None,
        limit: int = 1 << 62,
    ) -> None:
        self._view, self._root, self._like = view, root, like
        self._fetch, self._emit = fetch, emit
        self._since, self._limit = since, limit
        self._timed = view.timestamp is not None
        self._has_own_time = bool(like.graphs.time)
        self._time = ElementTime(like)
        self._pages: dict[str, _KnownPage] = {}
        self._waiting: list[tuple[MemberKey, MemberKey, str, Message]] = []
        self._names = set[str]()
        self._bytes = 0
        self._newest: MemberKey = ()
        self._at_newest = set[str]()
        self._before: MemberKey = ()
        self._rejected = set[bytes]()

    def go_on_behind(self, taken: Iterable[tuple[MemberKey, str]], rejected: Iterable[str]) -> None:
        """Take members of earlier runs, with their keys, as emitted, and others as rejected."""
        for key, iri in taken:
            self._note_taken(key, iri)
        self._before = self._newest
        self._rejected.update(map(_digest, rejected))

    async def run(self) -> bool:
        """Emit what is new; True if no page can change any more. Raises the errors of `fetch`, after
        which a further run goes on, and TooManyWaiting."""
        queue: list[tuple[KeyBound, int, str]] = [(LEAST, 0, self._root)]
        visited = set[str]()
        number = 0
        while queue:
            least, _, url = heappop(queue)
            if url in visited:
                continue
            await self._emit_before(least)
            visited.add(url)
            known = self._pages.setdefault(url, _KnownPage())
            if not known.immutable:
                await self._read(url, known, least)
            for link in known.links:
                if link.url not in visited and not self._is_past(link):
                    number += 1
                    heappush(queue, (link.least, number, link.url))
        await self._emit_before(None)
        return all(self._pages[url].immutable for url in visited)

    def _is_past(self, link: PageLink) -> bool:
        """True if all members behind a link are before `since`, or the newest that was taken."""
        floor = self._newest if self._since is None or not self._timed else max(self._newest, (self._since,))
        return link.most is not None and (link.most.key < floor or (link.most.key == floor and not link.most.after))

    async def _read(self, url: str, known: _KnownPage, least: KeyBound) -> None:
        page, etag, immutable = await self._fetch(url, known.etag)
        known.etag = etag or known.etag
        if page is None:
            return
        names = []
        for member in page.members(self._view):
            names.append(member.iri)
            if member.iri not in self._names:
                await self._consider(member, least, is_new=known.members is not None and member.iri not in known.members)
        known.links = page.links(self._view, self._like.unit, url)
        known.immutable = immutable or page.is_immutable
        # A page that is gone, and comes again, has no new members.
        known.members = None if known.immutable or not page.quads else frozenset(names)

    async def _consider(self, member: StreamMember, least: KeyBound, *, is_new: bool) -> None:
        """Let a member wait for its turn, unless it was taken, or is before `since`.

        `is_new`: the page was there without it. Such a member is late, and so is one that is before
        the `least` key that the page was to have: the order of the input says so.
        """
        try:
            literals = member.times if self._timed else member.sequence
            if not literals:
                raise ValueError(f"it has no {'ldes:timestampPath' if self._timed else 'ldes:sequencePath'} of its stream")
            sequence = self._sequence(member.sequence)
            key: MemberKey = (self._time.of(literals),) if self._timed else sequence
            generated = [] if self._timed else member.generated
            time = key[0] if self._timed else self._time.of(generated) if generated else None
        except ValueError as error:
            await self._reject(member, str(error).replace("prov:generatedAtTime", "ldes:timestampPath"))
            return
        if self._since is not None and isinstance(time, int) and time < self._since:
            return
        if key < self._newest or member.iri in self._at_newest:
            is_late = key > self._before and member.iri not in self._at_newest
            if not (is_late and (is_new or KeyBound(key, after=False) < least)):
                return
        body = message_body(member, () if self._has_own_time else literals if self._timed else generated)
        message = Message(body, 0, key=member.iri.encode(), headers=((ORDER, key_text(key).encode()),))
        self._names.add(member.iri)
        self._bytes += len(body)
        heappush(self._waiting, (key, sequence, member.iri, message))
        if self._bytes > self._limit:
            raise TooManyWaiting(
                f"{len(self._waiting):,} members wait for those before them, and take more than spool ({self._limit:,} bytes)"
            )

    def _sequence(self, literals: Sequence[str]) -> MemberKey:
        return min((order_key(each, self._like.unit, timed=False) for each in literals), default=())

    async def _reject(self, member: StreamMember, why: str) -> None:
        """Emit the dead letter of a member, once."""
        if (digest := _digest(member.iri)) not in self._rejected:
            self._rejected.add(digest)
            await self._emit([Message(message_body(member, ()), 0, key=member.iri.encode(), why=why, reason=Reason.UNREADABLE)])

    async def _emit_before(self, bound: KeyBound | None) -> None:
        """Emit the waiting members that are before a bound; None: all."""
        ready: list[tuple[MemberKey, MemberKey, str, Message]] = []
        while self._waiting and (bound is None or KeyBound(self._waiting[0][0], after=False) < bound):
            ready.append(heappop(self._waiting))
        if ready:
            await self._emit([message for _, _, _, message in ready])
        for key, _, iri, message in ready:
            self._names.discard(iri)
            self._bytes -= len(message.body)
            self._note_taken(key, iri)

    def _note_taken(self, key: MemberKey, iri: str) -> None:
        if key > self._newest:
            self._newest = key
            self._at_newest.clear()
        if key == self._newest:
            self._at_newest.add(iri)


def _digest(iri: str) -> bytes:
    return blake2b(iri.encode(), digest_size=8).digest()


PAGE_BYTES: Final = 64 << 20
"""Limit of the bytes of a page."""

_PAGE_SECONDS: Final = 300.0
_GONE: Final = 410
_UNCHANGED: Final = 304
_UNTYPED: Final = ("", "application/octet-stream", "text/plain")
"""Content types of a page in the format that the input names."""


class LdesReceiver(WebReceiver):
    """Receiver of the members of an event stream.

    - `like`: the settings by which members are read, with the format that pages are asked for in.
    - `poll`: seconds between two runs, at least.
    - `since`: the time (µs since 1970) of the first member; None: all.
    - `allow`: further origins whose pages are read.
    - `spool`: bytes of the members that may wait for their order.
    """

    def __init__(self, like: InputFile, access: WebAccess, poll: float, since: Micros | None, allow: Iterable[str], spool: int) -> None:
        super().__init__(like.input, access)
        self._like, self._since, self._spool = like, since, spool
        self.origins = frozenset(map(origin, allow))
        self._media_type = next(name for name, form in MEDIA_TYPES.items() if form is like.format)
        others = [name for name in MEDIA_TYPES if name != self._media_type]
        self._headers = {"Accept": f"{self._media_type}, {', '.join(f'{name};q=0.9' for name in others)}", "Accept-Encoding": "identity"}
        self._traversal: Traversal | None = None
        self._polling = poll
        self._taken: list[tuple[MemberKey, str]] = []
        self._rejected: list[str] = []
        self._digests: dict[str, bytes] = {}
        self._told = set[str]()
        self._ready: dict[str, Fetched] = {}

    def go_on_behind(self, last: Message) -> None:
        """Use what earlier runs have spooled at the newest key."""
        assert self._inbox is not None
        for messages in self._inbox.earlier():
            self._rejected += [(message.key or b"").decode() for message in messages if message.why and message.key]
            before = max((key for key, _ in self._taken), default=())
            own = [*_keys(messages)]
            if self._taken and (not own or max(key for key, _ in own) < before):
                return
            newest = max([before, *(key for key, _ in own)])
            self._taken = [each for each in (*self._taken, *own) if each[0] == newest]

    async def follow(self, session: ClientSession) -> None:
        """Make one run after the other, until no page can change any more."""
        self._session = session
        if self._traversal is None:
            self._traversal = await self._initialized()
            await self._note_answer()
        while True:
            try:
                self.ended = await self._traversal.run()
            except TooManyWaiting as error:
                raise NeverAnswered(str(error), "Write a larger spool for this input, or a later since.") from None
            if self.ended:
                return
            await asyncio.sleep(self._polling)

    async def _initialized(self) -> Traversal:
        """The traversal from the root page on, to which the URL leads (LDES, initialization run)."""
        page = await self._page(self.url)
        try:
            found = page.views(self.url)
        except ValueError as error:
            raise NeverAnswered(str(error), "Write the URL of the root page of one of them.") from None
        if found is None:
            raise NeverAnswered("it describes no event stream (tree:view)", _WRONG_URL)
        stream, root = found[0], urldefrag(found[1]).url
        own, other = page.described(stream), StreamView(stream)
        if root not in (page.url, self.url):
            if origin(root) not in (origin(self.url), *self.origins):
                raise NeverAnswered("the root page of its stream has another origin", "Write that URL, or the origin under allow.")
            other = (await self._page(root)).described(stream)
        else:
            root = self.url
        view = StreamView(stream, other.timestamp or own.timestamp, other.sequence or own.sequence, max(own.polling, other.polling))
        if view.timestamp is None and view.sequence is None:
            raise NeverAnswered(
                "its stream has neither ldes:timestampPath nor ldes:sequencePath, so its members have no order", _HAS_NO_ORDER
            )
        self._polling = max(self._polling, view.polling)
        traversal = Traversal(view, root, self._like, self._fetch, self.deliver, since=self._since, limit=self._spool)
        traversal.go_on_behind(self._taken, self._rejected)
        return traversal

    async def _page(self, url: str) -> StreamPage:
        """A page by which the traversal begins; it is not asked for again in the first run."""
        fetched = await self._fetch(url, "")
        if fetched.page is None:
            raise NeverAnswered("it answers that nothing has changed, and was asked for the first time", _WRONG_URL)
        self._ready[url] = fetched
        return fetched.page

    async def _fetch(self, url: str, etag: str) -> Fetched:
        """The page at a URL. One that cannot be read is a dead letter, once; one of another origin is
        told, and left out."""
        if (ready := self._ready.pop(url, None)) is not None:
            return ready
        try:
            allowed = origin(url) in (origin(self.url), *self.origins)
        except ValueError:
            allowed = False
        if not allowed:
            if (shown := shown_url(url)) not in self._told and len(self._told) < _MOST_TOLD:
                self._told.add(shown)
                LOG.warning("input %s: the page %s has another origin, and is not read (allow names origins).", self.name, shown)
            return Fetched(StreamPage(url), immutable=True)
        headers = {**self._headers, **({"If-None-Match": etag} if etag else {})}
        asked = quote(url, safe=string.punctuation)  # http://h/é is asked for as http://h/%C3%A9
        async with self.requested(self._session, headers, asked, (_UNCHANGED, _GONE)) as response:
            self.steps += 1
            if self._traversal is not None:  # what is wrong before is an error of the start
                await self._note_answer()
            if response.status == _UNCHANGED:
                return Fetched(None, etag)
            if response.status == _GONE:
                return Fetched(StreamPage(url))
            return await self._read(url, url if str(response.url) == asked else str(response.url), response)

    async def _note_answer(self) -> None:
        if not self.connected:
            self.is_gap = False  # nothing is lost while there is no connection
            await self.opened()

    async def _read(self, url: str, final: str, response: ClientResponse) -> Fetched:
        etag = response.headers.get("ETag", "")
        raw = bytearray()
        async with asyncio.timeout(_PAGE_SECONDS):
            while len(raw) <= PAGE_BYTES and (piece := await response.content.readany()):
                raw += piece
                self.steps += 1
        digest = blake2b(raw, digest_size=16).digest()
        if self._digests.get(url) == digest:
            return Fetched(None, etag)
        self._digests[url] = digest
        if len(raw) > PAGE_BYTES:
            await self._unreadable(url, b"", f"it has more than {PAGE_BYTES:,} bytes", Reason.LIMIT)
            return Fetched(None)
        media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        media_type = self._media_type if media_type in _UNTYPED else media_type
        try:
            page = read_page(bytes(raw), media_type, final, self._like.nesting, self._like.graphs)
        except TextLimitExceeded as error:
            await self._unreadable(url, raw, str(error), Reason.LIMIT)
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            await self._unreadable(url, raw, str(error) or type(error).__name__, Reason.UNREADABLE)
        else:
            directives = [each.strip().lower() for each in response.headers.get("Cache-Control", "").split(",")]
            return Fetched(page, etag, "immutable" in directives)
        return Fetched(None, etag)

    async def _unreadable(self, url: str, raw: bytes | bytearray, why: str, reason: Reason) -> None:
        """Deliver the dead letter of a page; at the beginning there is no stream without it."""
        if self._traversal is None:
            raise NeverAnswered(f"its page {shown_url(url)} cannot be read: {why}", _WRONG_URL)
        body = beginning(bytes(raw[:SHOWN]), min(SHOWN, self._like.record))
        await self.deliver([Message(body, 0, why=f"the page {shown_url(url)} cannot be read: {why}", reason=reason)])


_MOST_TOLD: Final = 100
_WRONG_URL: Final = "Write the URL of an event stream, or of its root page."
_HAS_NO_ORDER: Final = "Ask its publisher for one of them; a page alone can be read with http: { url, poll }."


def _keys(messages: list[Message]) -> Iterator[tuple[MemberKey, str]]:
    """The keys and the IRIs of members among messages."""
    for message in messages:
        for name, value in message.headers:
            if name == ORDER:
                yield key_of_text(value.decode()), (message.key or b"").decode()
