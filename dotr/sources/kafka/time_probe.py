"""Probe of the times of a Kafka input: date-times or integers, by its first readable record."""

from __future__ import annotations

from dataclasses import replace

from dotr.model.time import Unit
from dotr.sources.kafka.channels import OpenedTopics
from dotr.sources.kafka.client import ClientEvents
from dotr.sources.kafka.feed import RecordDecoder, partition_file, record_decoder
from dotr.sources.kafka.reader import PartitionQueue, TopicReader

_CHUNK = 100


class TimeProbe:
    """A client of its own that reads until a time is known, without blocking."""

    def __init__(self, opened: OpenedTopics) -> None:
        topics = replace(opened.topics, fails_on_loss=False)  # a loss is told when the run reads
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
        """True if a record has a date-time, False for an integer; None: not known yet, or ever."""
        for queue, fine, coarse in self._queues:
            for message in self._reader.take(queue, _CHUNK):
                for one, other in zip(fine(message, True), coarse(message, True), strict=True):
                    if one.time != other.time:
                        return False
                    if one.time:  # not midnight of 1970-01-01, which may be an integer too
                        return True
        return None

    def wait(self, seconds: float) -> None:
        """Wait so long for a first message."""
        self._reader.fetch(seconds)

    @property
    def is_ended(self) -> bool:
        """True if nothing follows."""
        return all(
            queue.partition.end is not None and not queue.messages and queue.fetched >= queue.partition.end for queue, _, _ in self._queues
        )

    def close(self) -> None:
        """Close the client."""
        self._reader.close()
