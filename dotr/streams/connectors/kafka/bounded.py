"""Bounded read of a Kafka input, for replays and checks of data.

Each partition is read from its first offset to its end at the time of opening, even if the input is
unbounded. A broker that does not answer is an error: there is no retry.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Final

from dotr.errors.diagnostics import Refused
from dotr.streams.connectors.kafka.channels import OpenedTopics
from dotr.streams.connectors.kafka.client import ClientEvents
from dotr.streams.connectors.kafka.feed import partition_file, record_decoder, with_lost
from dotr.streams.connectors.kafka.reader import PartitionQueue, TopicReader
from dotr.streams.connectors.kafka.time_probe import TimeProbe
from dotr.streams.connectors.kafka.topics import LATEST, KafkaInput
from dotr.streams.failures import InputFailed
from dotr.streams.records import InputFile, Record

_CHUNK: Final = 500
_WAIT_SECONDS: Final = 0.05


class BoundedTopics:
    """A Kafka input up to its present end. Raises `Refused` where the broker does not answer, or
    answers with an error.
    """

    def __init__(self, topics: KafkaInput) -> None:
        try:
            self._opened = OpenedTopics(replace(topics, end=topics.end or LATEST), patient=False)
        except InputFailed as failed:
            raise Refused([failed.diagnostic]) from None

    @property
    def files(self) -> list[InputFile]:
        """The partitions as files of the input."""
        return [partition_file(self._opened.topics, partition.place) for partition in self._opened.partitions]

    def has_date_times(self) -> bool:
        """True if the first readable record has a date-time."""
        probe = TimeProbe(self._opened)
        try:
            while (found := probe.has_date_times()) is None and not probe.is_ended:
                probe.wait(_WAIT_SECONDS)
        finally:
            probe.close()
        return bool(found)

    def records(self, file: InputFile, *, elements: bool = True) -> Generator[Record]:
        """The records of one of the files; raises `Refused` where they cannot be read."""
        partition = next(each for each in self._opened.partitions if each.place == file.path)
        topics = self._opened.topics
        reader = TopicReader(topics, ClientEvents(topics), lambda partition, lost: None)
        queue = PartitionQueue(partition, partition.first)
        decode = record_decoder(file)
        try:
            reader.add(queue)
            while not queue.is_ended:
                start, lost_before = queue.next, len(queue.lost)
                messages = reader.take(queue, _CHUNK)
                queue.next = (messages[-1].offset() or 0) + 1 if queue.messages else queue.fetched
                records = (record for message in messages for record in decode(message, elements))
                yield from with_lost(records, start, queue.next, queue.lost) if queue.lost else records
                if not messages and lost_before == len(queue.lost):
                    reader.fetch(_WAIT_SECONDS)
        except InputFailed as failed:
            raise Refused([failed.diagnostic]) from None
        finally:
            reader.close()
