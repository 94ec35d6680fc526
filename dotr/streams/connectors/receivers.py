"""Receivers: connections whose messages are pushed by a sender, and cannot be read a second time.

Idea: a receiver (a server, a subscription) runs in threads of its own, and offers its messages to
an inbox. On Spark the inbox is a spool in the checkpoint, which confirms a message once it is on
the disk. In process it is a bounded queue, which is read as a feed. A receiver acknowledges a
message to its sender once the inbox has confirmed it. Where the inbox is full, the receiver makes
the sender wait, or rejects the message.
Invariant: the messages of an input are numbered from 1 in the order in which the inbox accepted
them, and their times of reception never decrease.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from dotr.model.time import Micros, Unit
from dotr.streams.formats.messages import item_decoder
from dotr.streams.merge.feeds import BEGIN, FeedRecords, InputPoint
from dotr.streams.records import Inbox, InputFile, Message, Receiver, Record

QUEUED_MESSAGES: Final = 10_000
"""Limit of the queued messages of an input in process."""

QUEUED_BYTES: Final = 256 << 20
"""Limit of the bytes of queued messages; a longer message is queued alone."""


_LONGEST_WAIT_SECONDS: Final = 60.0


def wait_before(tries: int) -> float:
    """Seconds to wait before the next attempt to connect, after `tries` failed ones.

    >>> [wait_before(tries) for tries in (0, 1, 2, 3, 7, 100)]
    [0.0, 1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return 0.0 if not tries else min(_LONGEST_WAIT_SECONDS, float(1 << min(tries - 1, 10)))


def deliver(inbox: Inbox, messages: Sequence[Message], seconds: float) -> bool:
    """Offer messages to an inbox, all or none, and wait until they are stored.

    Returns:
        False where the inbox is full, or has not stored the messages within `seconds`.
    """
    kept = threading.Event()
    return inbox.offer(messages, kept.set) and kept.wait(seconds)


class ReceptionClock:
    """Clock of an inbox in µs since 1970; it never goes back.

    >>> clock = ReceptionClock(latest=7, now=iter([5, 9]).__next__)
    >>> clock.read(), clock.read()
    (7, 9)
    """

    def __init__(self, latest: Micros = 0, now: Callable[[], Micros] = lambda: time.time_ns() // 1_000) -> None:
        self.latest = latest
        self._now = now

    def read(self) -> Micros:
        """The present time, or the last one returned where that is later."""
        self.latest = max(self.latest, self._now())
        return self.latest


class MessageQueue:
    """Inbox in memory, and the feed that reads it, of an input in process.

    >>> from dotr.streams.records import Format
    >>> queue = MessageQueue(InputFile("a", "http://localhost/in", Format.NDJSON))
    >>> kept = []
    >>> queue.offer([Message(b'{"time": 1, "graph": ""}', 0)], lambda: kept.append("yes")), kept
    (True, ['yes'])
    >>> [(record.line, record.time) for record in queue.read(10).records], queue.read(10)
    ([(1, 1000000)], None)
    """

    last: Message | None = None

    def __init__(self, like: InputFile, receiver: Receiver | None = None, *, most: int = QUEUED_MESSAGES) -> None:
        self._file = like
        self._decode = item_decoder(like)
        self._rest: Iterator[Record] = iter(())
        self._receiver = receiver
        self._most = most
        self._waiting: deque[tuple[Message, Callable[[], None] | None]] = deque()
        self._kept_once_read = False
        self._bytes = 0
        self._place = 0
        self._clock = ReceptionClock()
        self._changed = threading.Condition()
        self.ended = False

    @property
    def end(self) -> InputPoint:
        """Always the beginning: a message cannot be read a second time."""
        return BEGIN

    @property
    def name(self) -> str:
        """The name of the input."""
        return self._file.input

    @property
    def connected(self) -> bool:
        """True while messages can arrive."""
        return self._receiver is not None and self._receiver.connected

    def start(self) -> None:
        """Start the receiver; raises `Refused` where that cannot succeed."""
        if self._receiver is not None:
            self._receiver.start(self)

    def earlier(self) -> Iterator[list[Message]]:
        """No messages: in process nothing is kept."""
        return iter(())

    def keep_once_read(self) -> None:
        """Confirm messages when they are read from the queue, in place of when they are queued.

        For senders that store a message until it is acknowledged, and send it again to the next
        run: the queued messages of a killed run are then not lost.
        """
        self._kept_once_read = True

    def _has_capacity(self, messages: int, size: int) -> bool:
        waiting = len(self._waiting)
        return not waiting or (waiting + messages <= self._most and self._bytes + size <= QUEUED_BYTES)

    def offer(self, messages: Sequence[Message], kept: Callable[[], None]) -> bool:
        """Queue all of some messages, or none."""
        size = sum(len(message.body) for message in messages)
        with self._changed:
            if not self._has_capacity(len(messages), size):
                return False
            received = self._clock.read()
            last = len(messages) - 1
            for number, message in enumerate(messages):
                self._place += 1
                placed = message._replace(place=self._place, received=received)
                self._waiting.append((placed, kept if self._kept_once_read and number == last else None))
            self._bytes += size
        if not self._kept_once_read:
            kept()
        return True

    def wait_for_capacity(self, seconds: float, size: int = 0) -> bool:
        """Wait, `seconds` at most, for space for a message of `size` bytes; True if there is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._has_capacity(1, size), seconds)

    def read(self, most: int) -> FeedRecords | None:
        """The records of queued messages, about `most`; None where none has arrived.

        Raises the error that ended the receiver, once the queue is empty.
        """
        records: list[Record] = []
        has_ended = self.has_ended
        while len(records) < most:
            records += islice(self._rest, most - len(records))
            if len(records) == most or (message := self._next()) is None:
                break
            decoded = self._decode(message, True)
            if isinstance(decoded, list):
                records += decoded
            else:  # the items of a long message
                self._rest = iter(decoded)
        if not records and self._receiver is not None:
            if self._receiver.failure is not None:
                raise self._receiver.failure
            self.ended = has_ended
        return FeedRecords(0, self._file, records) if records else None

    @property
    def has_ended(self) -> bool:
        """True if no message comes behind those that are queued."""
        return self._receiver is not None and self._receiver.ended

    def is_drained(self) -> bool:
        """True if, after an empty read, nothing waits in the receiver's socket either."""
        return (self._receiver is None or self._receiver.is_drained()) and not self._waiting

    def _next(self) -> Message | None:
        if not self._waiting:
            return None
        with self._changed:
            message, kept = self._waiting.popleft()
            self._bytes -= len(message.body)
            self._changed.notify_all()
        if kept is not None:
            kept()
        return message

    def first_has_dates(self) -> bool | None:
        """True if the first readable message has date-times; None where none has arrived.

        False where the queue is full of unreadable messages, so that it is read and others can
        arrive. Raises the error that ended the receiver.
        """
        if self._receiver is not None and self._receiver.failure is not None:
            raise self._receiver.failure
        with self._changed:
            waiting = [message for message, _ in self._waiting]
            is_full = not self._has_capacity(1, 0)
        found = next((dates for message in waiting if (dates := has_dates(self._file, message)) is not None), None)
        return False if found is None and is_full else found

    def close(self) -> None:
        """Stop the receiver."""
        if self._receiver is not None:
            self._receiver.stop()


def has_dates(like: InputFile, message: Message) -> bool | None:
    """True if the elements of a message have date-times, False for integers, None where none is
    readable.

    >>> from dotr.streams.records import Format
    >>> like = InputFile("a", "", Format.NDJSON)
    >>> integer, date = b'{"time": 7, "graph": ""}', b'{"time": "2026-01-01T00:00:00Z", "graph": ""}'
    >>> [has_dates(like, Message(body, 1)) for body in (integer, date, b"{")]
    [False, True, None]
    """
    fine, coarse = (item_decoder(replace(like, unit=unit, ahead=None))(message, True) for unit in (Unit.MICROSECOND, Unit.DAY))
    return dates_of(fine, coarse)


def dates_of(fine: Iterable[Record], coarse: Iterable[Record]) -> bool | None:
    """True for date-times, False for integers, None where no record is readable, from two
    decodings.

    `fine` are the records decoded with integers as µs, `coarse` those with integers as days: an
    integer has two different times, and a date-time the same one.
    """
    found: bool | None = None
    for one, other in zip(fine, coarse, strict=True):
        if one.time != other.time:
            return False
        if one.time:  # not midnight of 1970-01-01, which may be an integer too
            return True
        found = found if one.time is None else False
    return found
