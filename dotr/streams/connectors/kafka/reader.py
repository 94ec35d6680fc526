"""Reader of the partitions of an input: one client, and a bounded queue for each partition.

Idea: `consume` without a time-out returns the messages that the client has fetched in the
background, and each is put into the queue of its partition. A partition whose queue is full is
paused, so that an input holds 10,000 messages at most, whichever partition the merge waits for.
Invariant: the messages of a partition are returned once each, in the order of their offsets. Gaps
between offsets are only transaction markers, aborted records and compacted ones, since the client
never rewinds by itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from dotr.streams.connectors.kafka.client import ClientEvents, consumer, error_text, kafka, permanent_failure
from dotr.streams.connectors.kafka.cluster import another_topic, data_lost
from dotr.streams.connectors.kafka.topics import KafkaInput, LostRange, Partition

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

MOST_WAITING: Final = 10_000
"""Limit of the messages in all queues of an input; a fetched chunk may exceed it."""

_CHUNK: Final = 2_000
_LEAST: Final = 200
_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 1.0
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that goes on while the machine sleeps."""

OnLoss = Callable[[Partition, LostRange], None]
"""Callback for a range that the broker has deleted. Reading resumes behind the range when it
returns, and ends if it raises."""


class PartitionQueue:
    """The messages of a partition that were fetched and not yet taken.

    - `next`: the offset of the next message to take.
    - `fetched`: the offset of the next message to fetch.
    - `is_at_end`: True if all records that the broker has reported are fetched.
    - `lost`: the deleted ranges at `next` or later, in order; one at `next` precedes the messages.
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
        """True if the partition is bounded and every message was taken."""
        return self.partition.end is not None and self.next >= self.partition.end


class TopicReader:
    """A client that reads partitions of an input without blocking.

    `on_loss` is called for each range that the broker has deleted: it records the range, or raises.
    `most` limits the messages in all queues; `further` properties override those of the input.
    Raises `InputFailed` for permanent errors, and `Refused` where no client can be created.
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
        self._fetched_at = self._settled_at = 0.0
        self._eof = kafka().KafkaError._PARTITION_EOF
        self._reset = kafka().KafkaError._AUTO_OFFSET_RESET

    def add(self, queue: PartitionQueue) -> None:
        """Start reading a partition into its queue, from `queue.fetched` on."""
        self._queues[queue.partition.key] = queue
        self._index_by_number()
        self._limit = max(_LEAST, self._most // len(self._queues))
        if not queue.is_ended:
            self._assign(queue, queue.fetched)

    def remove(self, queue: PartitionQueue) -> None:
        """Stop reading the partition."""
        if self._queues.pop(queue.partition.key, None) is not None:
            self._unassign(queue)
            self._index_by_number()

    def _index_by_number(self) -> None:
        """Index the queues of a single topic by partition number alone: a third cheaper."""
        same = len({topic for topic, _ in self._queues}) == 1
        self._numbered = {number: queue for (_, number), queue in self._queues.items()} if same else None

    def close(self) -> None:
        """Close the client."""
        self._queues.clear()
        self._consumer.close()

    def _assign(self, queue: PartitionQueue, offset: int) -> None:
        """Read a partition from an offset, or from the end of a deleted range that holds it."""
        lost = next((each for each in queue.lost if each.first <= offset < each.end), None)
        queue.fetched = offset if lost is None else lost.end
        queue.is_paused = False
        queue.is_assigned = True
        self._consumer.incremental_assign([self._topic_partition(queue, queue.fetched)])

    def _unassign(self, queue: PartitionQueue) -> None:
        if queue.is_assigned:
            queue.is_assigned = False
            self._consumer.incremental_unassign([self._topic_partition(queue)])

    def _topic_partition(self, queue: PartitionQueue, offset: int = -1001):  # type: ignore[no-untyped-def]
        return kafka().TopicPartition(queue.partition.topic, queue.partition.number, offset)

    def take(self, queue: PartitionQueue, most: int) -> list[KafkaMessage]:
        """The next messages of a partition, at most `most`; empty where none has arrived."""
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
            self._consumer.resume([self._topic_partition(queue)])
        return taken

    @property
    def is_settled(self) -> bool:
        """False shortly after a pause of this process: what was sent meanwhile is still on its way,
        though the ends of partitions were reached before the pause."""
        return self._fetched_at >= self._settled_at

    def fetch(self, seconds: float = 0.0) -> bool:
        """Move the messages that the client has fetched into the queues, after waiting `seconds` at
        most for a first one. False where there was none."""
        self.events.check()
        now = time.clock_gettime(_CLOCK)
        if now - self._fetched_at > _PAUSE_SECONDS:
            self._settled_at = now + _PAUSE_SECONDS
        self._fetched_at = now
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
                continue  # fetched before the partition was removed or assigned anew
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
                self._consumer.pause([self._topic_partition(queue)])
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
                if end is not None and (message.offset() or 0) >= end:  # the rest are transaction markers
                    queue.fetched = end
                    self._unassign(queue)
                else:
                    queue.fetched = message.offset() or 0
            return
        failure = permanent_failure(self.topics, error)
        if failure is not None:
            raise failure
        if queue is not None and code == self._reset:
            self._handle_range(queue)
        else:
            self.events.reason = error_text(self.topics, error)

    def _handle_range(self, queue: PartitionQueue) -> None:
        """Handle an offset that the broker lacks: report a deleted range, and resume behind it."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._topic_partition(queue), timeout=_SECONDS)
        except kafka().KafkaException:
            low, high = 0, queue.fetched  # no response: the same offset is requested again
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
