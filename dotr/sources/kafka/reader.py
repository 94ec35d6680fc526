"""Reader of the partitions of an input: one client, and a bounded queue for each partition.

Idea: `consume` without a time-out hands over what the client has fetched in the background, and the
messages are put into the queues of their partitions. A partition whose queue is full is paused, so
that one input never holds more than 10,000 messages, whichever partition the merge waits for.
Invariant: messages of a partition are given in the order of their offsets, each once; offsets that
are missing between two are marks of transactions, aborted or compacted records, and nothing else:
the client never rewinds by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from dotr.sources.kafka.client import ClientEvents, consumer, error_text, kafka, lasting_failure
from dotr.sources.kafka.cluster import another_topic, data_lost
from dotr.sources.kafka.topics import KafkaInput, LostRange, Partition

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

MOST_WAITING: Final = 10_000
"""Messages of an input that wait in its queues, at most (about: a chunk is taken whole)."""

_CHUNK: Final = 2_000
_LEAST: Final = 200
_SECONDS: Final = 5.0

OnLoss = Callable[[Partition, LostRange], None]
"""Called with a range that the broker has lost, before reading goes on behind it; raises where it
does not."""


class PartitionQueue:
    """The messages of a partition that were fetched and not yet taken.

    - `next`: the offset from which on messages have not been taken.
    - `fetched`: the offset from which on messages have not been fetched.
    - `is_at_end`: nothing is behind what was fetched, as far as the broker has told.
    - `lost`: ranges that were lost before, in their order; a range at `next` is given first.
    """

    __slots__ = ("fetched", "is_assigned", "is_at_end", "is_paused", "lost", "messages", "next", "partition")

    def __init__(self, partition: Partition, start: int, lost: tuple[LostRange, ...] = ()) -> None:
        self.partition = partition
        self.next = self.fetched = start
        self.messages: deque[KafkaMessage] = deque()
        self.is_assigned = False
        self.is_at_end = False
        self.is_paused = False
        self.lost = [each for each in lost if each.end > start]

    @property
    def is_ended(self) -> bool:
        """True if the partition is bounded and all of it was taken."""
        return self.partition.end is not None and self.next >= self.partition.end


class TopicReader:
    """A client that reads partitions of an input without blocking.

    `on_loss` decides on ranges that the broker has lost: it raises, or notes the range so that it
    is known later. Raises `InputFailed` for errors that stay, and `Refused` where no client can be
    made.
    """

    def __init__(self, topics: KafkaInput, events: ClientEvents, on_loss: OnLoss, most: int = MOST_WAITING, **further: int) -> None:
        self.topics = topics
        self.events = events
        self._on_loss = on_loss
        self._most = most
        self._consumer = consumer(topics, events, **further)
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._numbered: dict[int, PartitionQueue] | None = None
        self._limit = most
        self._eof = kafka().KafkaError._PARTITION_EOF
        self._reset = kafka().KafkaError._AUTO_OFFSET_RESET

    def add(self, queue: PartitionQueue) -> None:
        """Begin to read a partition."""
        self._queues[queue.partition.key] = queue
        self._number()
        self._limit = max(_LEAST, self._most // len(self._queues))
        if not queue.is_ended:
            self._assign(queue, queue.fetched)

    def remove(self, queue: PartitionQueue) -> None:
        """Read the partition no further."""
        if self._queues.pop(queue.partition.key, None) is not None:
            self._unassign(queue)
            self._number()

    def _number(self) -> None:
        """Find the queues of a single topic by their numbers alone, which is a third cheaper."""
        same = len({topic for topic, _ in self._queues}) == 1
        self._numbered = {number: queue for (_, number), queue in self._queues.items()} if same else None

    def close(self) -> None:
        """Close the client."""
        self._queues.clear()
        self._consumer.close()

    def _assign(self, queue: PartitionQueue, offset: int) -> None:
        """Read a partition from an offset on, or from behind a range that is known to be lost."""
        lost = next((each for each in queue.lost if each.first <= offset < each.end), None)
        queue.fetched = offset if lost is None else lost.end
        queue.is_paused = False
        queue.is_assigned = True
        self._consumer.incremental_assign([self._place(queue, queue.fetched)])

    def _unassign(self, queue: PartitionQueue) -> None:
        if queue.is_assigned:
            queue.is_assigned = False
            self._consumer.incremental_unassign([self._place(queue)])

    def _place(self, queue: PartitionQueue, offset: int = -1001):  # type: ignore[no-untyped-def]
        return kafka().TopicPartition(queue.partition.topic, queue.partition.number, offset)

    def take(self, queue: PartitionQueue, most: int) -> list[KafkaMessage]:
        """At most so many messages of a partition; empty where none is there now."""
        if not queue.messages:
            self.fetch()
        messages = queue.messages
        if len(messages) <= most:
            taken = list(messages)
            messages.clear()
        else:
            taken = [messages.popleft() for _ in range(most)]
        if queue.is_paused and 2 * len(messages) < self._limit:
            queue.is_paused = False
            self._consumer.resume([self._place(queue)])
        return taken

    def fetch(self, seconds: float = 0.0) -> bool:
        """Put what the client has fetched into the queues; waits so long for a first message. False
        where there was nothing."""
        self.events.check()
        found = self._consumer.consume(_CHUNK, 0)
        if not found and seconds:
            first = self._consumer.poll(seconds)
            if first is not None:
                found = [first, *self._consumer.consume(_CHUNK, 0)]
        queues, numbered = self._queues, self._numbered
        for message in found:
            number = message.partition()
            queue = queues.get((message.topic(), number)) if numbered is None else numbered.get(number)  # type: ignore[arg-type]
            if message.error() is not None:
                self._handle_error(queue, message)
                continue
            offset: int = message.offset()  # type: ignore[assignment]
            if queue is None or offset < queue.fetched:
                continue  # fetched before the partition was left
            queue.fetched = offset + 1
            queue.is_at_end = False
            end = queue.partition.end
            if end is not None and offset + 1 >= end:
                self._unassign(queue)
                queue.is_at_end = True
                if offset >= end:
                    queue.fetched = end
                    continue
            queue.messages.append(message)
            if len(queue.messages) > self._limit and not queue.is_paused and not queue.is_at_end:
                queue.is_paused = True
                self._consumer.pause([self._place(queue)])
        if found:
            self.events.is_connected = True
        return bool(found)

    def _handle_error(self, queue: PartitionQueue | None, message: KafkaMessage) -> None:
        error = message.error()
        assert error is not None
        code = error.code()
        if code == self._eof:
            if queue is not None and (message.offset() or 0) >= queue.fetched:
                queue.is_at_end = True
                end = queue.partition.end
                if end is not None and (message.offset() or 0) >= end:  # the rest was marks of transactions
                    queue.fetched = end
                    self._unassign(queue)
                else:
                    queue.fetched = message.offset() or 0
            return
        failure = lasting_failure(self.topics, error)
        if failure is not None:
            raise failure
        if queue is not None and code == self._reset:
            self._handle_range(queue)
        else:
            self.events.reason = error_text(self.topics, error)

    def _handle_range(self, queue: PartitionQueue) -> None:
        """The broker does not have the offset that was asked for."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._place(queue), timeout=_SECONDS)
        except kafka().KafkaException:
            low, high = 0, queue.fetched  # no answer: the same offset is asked for again
        at = queue.fetched
        if at > high:
            raise another_topic(self.topics, queue.partition, f"offset {at:,} was the next one, and it ends at {high:,}")
        self._unassign(queue)
        end = queue.partition.end
        if at < low:
            lost = LostRange(at, low if end is None else min(low, end))
            if self.topics.fails_on_loss:
                raise data_lost(self.topics, queue.partition, *lost)
            self._on_loss(queue.partition, lost)
            queue.lost.append(lost)
            if lost.end == end:
                queue.fetched, queue.is_at_end = lost.end, True
                return
        self._assign(queue, at)
