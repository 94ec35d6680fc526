"""Feed of one partition: the records of its messages, and one for each deleted range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from dotr.model.stream import Reason
from dotr.streams.connectors.kafka.reader import PartitionQueue, TopicReader
from dotr.streams.connectors.kafka.topics import KafkaInput, LostRange, Partition
from dotr.streams.formats.messages import Message, item_decoder
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.merge.feeds import FeedRecords, InputPoint
from dotr.streams.records import SHOWN, InputFile, Record, SentTime, beginning

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

RecordDecoder = Callable[["KafkaMessage", bool], Iterable[Record]]

_NO_TIMESTAMP: Final = 0

_REGISTERED: Final = 5
"""Length of the header of a schema registry: a byte 0, and the number of the schema in four bytes."""


def partition_file(topics: KafkaInput, place: str) -> InputFile:
    """A partition as a file of the input: its path is `topic/partition`."""
    return replace(topics.like, path=place)


def record_decoder(file: InputFile, time_filter: TimeFilter = EVERY_TIME) -> RecordDecoder:
    """The decoder of a client's messages: `decode(message, elements)`, called in their order.

    Where the format allows it, only the graphs of `time_filter` times are parsed.
    """
    decode_message = item_decoder(file, time_filter)
    clock = file.graphs.sent_time if file.map is None else file.map.sent_time
    plain = file.map is None and clock is None and file.ahead is None  # key, time stamp and topic are not used

    def decode(message: KafkaMessage, elements: bool) -> Iterable[Record]:
        value, offset = message.value(), message.offset()
        assert isinstance(offset, int)
        if not value or not value[0]:
            kind, milliseconds = message.timestamp()
            stamp = None if clock is not SentTime.TIMESTAMP or kind == _NO_TIMESTAMP else milliseconds * 1_000
            if value is None:
                return [Record(offset, offset + 1, offset, None, None, b"", f"it has no value{_key_text(message.key())}", stamp)]
            if value[_REGISTERED:][:1] == b"{":
                value = value[_REGISTERED:]
            elif len(value) >= _REGISTERED:
                schema = int.from_bytes(value[1:_REGISTERED], "big")
                why = f"it has a schema registry's header (schema {schema}): Avro or Protobuf, which no format here reads"
                return [Record(offset, offset + 1, offset, None, None, beginning(value, SHOWN), why, stamp)]
        headers = message.headers()
        if plain:
            bare = Message(value, offset) if headers is None else Message(value, offset, headers=tuple(headers))  # type: ignore[arg-type]
            return decode_message(bare, elements)
        kind, milliseconds = message.timestamp()
        return decode_message(
            Message(
                value,
                offset,
                None if kind == _NO_TIMESTAMP else milliseconds * 1_000,
                None,
                message.key(),
                tuple(headers or ()),  # type: ignore[arg-type]
                message.topic() or "",
                message.partition() or 0,
            ),
            elements,
        )

    return decode


def _key_text(key: str | bytes | None) -> str:
    """The key of a record without a value, for the reason of its dead letter.

    >>> _key_text(b"room-7"), _key_text(None)
    (': it is the tombstone of the key room-7', '')
    """
    text = key.decode(errors="backslashreplace") if isinstance(key, bytes) else key
    return "" if text is None else f": it is the tombstone of the key {text}"


def time_decoder(file: InputFile) -> RecordDecoder:
    """The decoder of a scan, which needs only times and positions. Where elements have the broker's
    time stamp, a message is one record, and its content is not parsed."""
    decode_record = record_decoder(file)
    clock = file.graphs.sent_time if file.map is None else file.map.sent_time
    if clock is not SentTime.TIMESTAMP:
        return decode_record

    def decode(message: KafkaMessage, elements: bool) -> Iterable[Record]:
        value, offset = message.value(), message.offset()
        kind, milliseconds = message.timestamp()
        if not value or not value[0] or offset is None or kind == _NO_TIMESTAMP:
            return decode_record(message, elements)
        return [Record(offset, offset + 1, offset, milliseconds * 1_000, None, value)]

    return decode


def lost_record(lost: LostRange) -> Record:
    """The unreadable record of a deleted range, whose dead letter has the reason `lost`."""
    why = f"the records {lost.first} to {lost.end - 1} were deleted by the broker before they were read"
    return Record(lost.first, lost.end, lost.first, None, None, b"", why, reason=Reason.LOST)


def with_lost(records: Iterable[Record], start: int, end: int, lost: Iterable[LostRange]) -> Iterator[Record]:
    """Records of the offsets [start, end), merged with one record for each deleted range that
    overlaps them.

    >>> [record.offset for record in with_lost([], 3, 9, [LostRange(0, 2), LostRange(1, 5), LostRange(9, 12)])]
    [3]
    """
    ranges = [LostRange(max(each.first, start), each.end) for each in lost if each.end > start and each.first < end]
    for record in records:
        while ranges and ranges[0].first <= record.offset:
            yield lost_record(ranges.pop(0))
        yield record
    for each in ranges:
        yield lost_record(each)


class KafkaFeed:
    """A partition as a feed, whose positions are (0, offset, offset)."""

    def __init__(
        self, reader: TopicReader, partition: Partition, start: int, lost: tuple[LostRange, ...] = (), *, elements: bool = True
    ) -> None:
        self._reader = reader
        self._queue = PartitionQueue(partition, start, lost)
        self._elements = elements
        self._file = partition_file(reader.topics, partition.place)
        self._decode = record_decoder(self._file, TimeFilter()) if elements else time_decoder(self._file)
        self._rest: Iterator[Record] | None = None
        reader.add(self._queue)

    @property
    def ended(self) -> bool:
        """True if the partition is bounded and every message was read."""
        return self._queue.is_ended and self._rest is None

    @property
    def end(self) -> InputPoint:
        """Position behind the last record returned."""
        return InputPoint(0, self._queue.next, self._queue.next)

    @property
    def is_at_end(self) -> bool:
        """True if every record that the broker has reported was fetched and taken."""
        return self._queue.is_at_end and not self._queue.messages

    def is_behind(self) -> bool:
        """True if the broker may hold records that were not fetched: the feed is then not idle."""
        return self._reader.events.is_connected and not self._queue.is_at_end

    def is_drained(self) -> bool:
        """True if nothing was left after an empty read, or no broker can be reached."""
        return self._reader.is_settled and not self.is_behind()

    def read(self, most: int) -> FeedRecords | None:
        """At most `most` records with elements, or the records of as many messages in a scan; None
        where none has arrived."""
        if self._rest is not None and (records := self._taken(most)):
            return FeedRecords(0, self._file, records)
        queue = self._queue
        messages = self._reader.take(queue, most)
        decode, elements = self._decode, self._elements
        self._rest = chain.from_iterable([decode(message, elements) for message in messages])
        start = queue.next
        queue.next = (messages[-1].offset() or 0) + 1 if queue.messages else queue.fetched
        if queue.lost and queue.lost[0].first < queue.next:
            self._rest = with_lost(self._rest, start, queue.next, queue.lost)
            queue.lost = [each for each in queue.lost if each.first >= queue.next]
        records = self._taken(most)
        return FeedRecords(0, self._file, records) if records else None

    def _taken(self, most: int) -> list[Record]:
        """The next of the records that are being decoded: a long message has many."""
        assert self._rest is not None
        records = list(islice(self._rest, most if self._elements else None))
        if not self._elements or len(records) < most:
            self._rest = None
        return records

    def close(self) -> None:
        """Stop reading the partition; the shared client stays open."""
        self._reader.remove(self._queue)
