"""A published stream: what is kept of it, its clients, and whether it has ended.

Invariant: the run's thread appends elements and ends the stream; all else happens in the server's
event loop, which is notified once for all that was appended since it last looked. Without clients
it is not notified at all, and a reader's request appends what the run has made until then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from threading import Lock
from typing import Final

from dotr.model.time import Clock
from dotr.streams.connectors.http.server import Tokens, required_tokens
from dotr.streams.connectors.serve.broadcast import BEHIND, Broadcast, Ending
from dotr.streams.connectors.serve.descriptions.documents import RdfDocument, read_document
from dotr.streams.connectors.serve.elements import ElementWriter
from dotr.streams.connectors.serve.kept import KeptElement, KeptElements, NewElement
from dotr.streams.connectors.serve.section import ServeDestination
from dotr.streams.sinks.batches import ServedCounts
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.messages import NumberedFiring

_MOST_HELD: Final = 256


class StreamState(Enum):
    """State of a published stream: more may come; its inputs have ended; its run was stopped."""

    OPEN = "open"
    ENDED = "ended"
    STOPPED = "stopped"


class PublishedStream:
    """Stream that an output publishes.

    - `terms`: the format of times, and prefixes; `write`: the writer of elements in this form.
    - `kept`: the elements that are kept.
    - `is_durable`: True if an ID never has two contents, over restarts too.
    - `broadcast`: the clients that elements are pushed to, for the event loop alone.
    """

    def __init__(self, destination: ServeDestination, terms: OutputTerms, kept: KeptElements, *, is_durable: bool = False) -> None:
        self.destination = destination
        self.kept = kept
        self.is_durable = is_durable
        self.tokens: Tokens = required_tokens(destination.tokens, f"output {destination.number}", destination.span)
        self.documents = _documents(destination)
        self.state = StreamState.OPEN
        self.counts = ServedCounts(destination.base)
        self.begin(terms)
        self.broadcast = Broadcast(kept, lambda element, form: self.write.text(element, form), self.counts)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()
        self._holding = Lock()
        self._held: list[NumberedFiring] = []
        self._encode: Callable[[Sequence[NumberedFiring]], Sequence[NewElement]] = lambda held: ()
        self._untold: list[KeptElement] = []
        self._is_due = False

    @property
    def base(self) -> str:
        """The IRI of the stream, with a slash at its end."""
        return self.destination.base

    @property
    def clock(self) -> Clock:
        """The format of times."""
        return self.terms.clock

    def begin(self, terms: OutputTerms) -> None:
        """Write elements in a form that the first message of an input may have told only now."""
        self.terms, self.write = terms, ElementWriter(self.base, terms)

    @property
    def is_served(self) -> bool:
        """True unless its server has ended."""
        return self._loop is None or not self._loop.is_closed()

    def serve_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Notify the clients in an event loop, from now on."""
        self._loop = loop

    def hold(self, firings: Sequence[NumberedFiring], encode: Callable[[Sequence[NumberedFiring]], Sequence[NewElement]]) -> None:
        """Take firings of whole instants, which `encode` makes elements of: at once where there are
        clients, else once a reader asks or they are many, since they cost less together."""
        with self._holding:
            self._held += firings
            self._encode = encode
        if self.broadcast.has_clients or len(self._held) >= _MOST_HELD:
            self.catch_up()

    def catch_up(self) -> None:
        """Append all firings that were taken; callable in any thread."""
        if self._held:
            with self._holding:
                held, self._held = self._held, []
                self.publish(self._encode(held))

    def publish(self, elements: Sequence[NewElement]) -> None:
        """Append elements in the order of their IDs, and notify the clients."""
        self.publish_batch(None, [elements])

    def publish_batch(self, number: int | None, blocks: Iterable[Sequence[NewElement]]) -> None:
        """Append the elements of a batch that is not in the files yet (None: of no batch), and notify the
        clients, who get the last ones even where these have left already, since less is kept."""
        last: deque[NewElement] = deque(maxlen=BEHIND)

        def noted(block: Sequence[NewElement]) -> Sequence[NewElement]:
            last.extend(block)
            return block

        start = self.kept.next
        self.kept.append_batch(number, map(noted, blocks))
        self.counts.elements += self.kept.next - start
        if self.broadcast.has_clients and last:
            fresh = [KeptElement(number, *each) for number, each in enumerate(last, self.kept.next - len(last))]
            with self._lock:
                self._untold += fresh
            if not self._is_due:
                self._is_due = True
                self._call(self._tell)

    def end(self, *, is_stopped: bool) -> None:
        """End the stream: no element comes any more."""
        if self.state is StreamState.OPEN:
            self.catch_up()
            self.state = StreamState.STOPPED if is_stopped else StreamState.ENDED
            self._call(self._tell_end)

    def _call(self, function: Callable[[], None]) -> None:
        if self._loop is not None and self.is_served:
            self._loop.call_soon_threadsafe(function)

    def _tell(self) -> None:
        self._is_due = False
        with self._lock:
            fresh, self._untold = self._untold, []
        behind = fresh[-1].number + 1 if fresh else self.broadcast.next
        self.broadcast.publish([*fresh, *self.kept.slice(behind, self.kept.next)])

    def _tell_end(self) -> None:
        self._tell()
        self.broadcast.end(Ending.STOP if self.state is StreamState.STOPPED else Ending.END)


def _documents(destination: ServeDestination) -> dict[str, RdfDocument]:
    """The documents at /tbox and /shape; /tbox is there, empty, where nothing is said. Raises
    `Refused` (C301)."""
    about, found = destination.about, {"tbox": RdfDocument()}
    for name, reference in (("tbox", about.tbox), ("shape", about.shape)):
        if reference is not None and reference.path:
            found[name] = read_document(reference.path, f"{destination.base}{name}", destination.span)
    return found
