"""Detection of the kind of times of a Kafka input, date-times or integers, by its first readable
record.

Each message is decoded with integers as µs, and again as days: an integer has two times, a
date-time one.
"""

from __future__ import annotations

from dataclasses import replace

from dotr.model.time import Unit
from dotr.streams.connectors.kafka.channels import OpenedTopics
from dotr.streams.connectors.kafka.client import ClientEvents
from dotr.streams.connectors.kafka.feed import RecordDecoder, partition_file, record_decoder
from dotr.streams.connectors.kafka.reader import PartitionQueue, TopicReader

_CHUNK = 100


class TimeProbe:
    """A separate client that reads, without blocking, until it has found a time other than 0."""

    def __init__(self, opened: OpenedTopics) -> None:
        topics = replace(opened.topics, fails_on_loss=False)  # the run itself reports deleted ranges
        self._reader = TopicReader(topics, ClientEvents(topics), lambda partition, lost: None)
        self._queues: list[tuple[PartitionQueue, RecordDecoder, RecordDecoder]] = []
        self._found: bool | None = None
        for partition in opened.partitions:
            file = partition_file(topics, partition.place)
            fine, coarse = (record_decoder(replace(file, unit=unit)) for unit in (Unit.MICROSECOND, Unit.DAY))
            queue = PartitionQueue(partition, partition.first)
            self._queues.append((queue, fine, coarse))
            self._reader.add(queue)

    def has_date_times(self) -> bool | None:
        """True for a date-time, False for an integer, None where no record has decided yet."""
        for queue, fine, coarse in self._queues:
            for message in self._reader.take(queue, _CHUNK):
                for one, other in zip(fine(message, True), coarse(message, True), strict=True):
                    if one.time != other.time:
                        return False
                    if one.time:  # not midnight of 1970-01-01, which may be an integer too
                        return True
        return None

    def wait(self, seconds: float) -> None:
        """Wait `seconds` at most for a first message."""
        self._reader.fetch(seconds)

    @property
    def is_ended(self) -> bool:
        """True if every partition is bounded and was taken to its end."""
        return all(
            queue.partition.end is not None and not queue.messages and queue.fetched >= queue.partition.end for queue, _, _ in self._queues
        )

    def close(self) -> None:
        """Close the client."""
        self._reader.close()
