"""Partitions of bounded topics as inputs of an index that tasks make: their numbers, ranges of
offsets and first positions, from the journal alone.

Idea: a partition with an end is a file whose records have known positions, so that a range may
start at any offset. Floors of idle inputs, ranges that the broker has lost, and partitions that
appear after instants have closed are left to the planner of growing inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dotr.model.time import Micros
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import BEGINNING, ORDINARY_BYTES, InputPosition, Offset
from dotr.runtimes.spark.exchange.task import RangePartition
from dotr.runtimes.spark.exchange.worker_cache import topics_of
from dotr.runtimes.spark.planning.granules import Granule, Piece, PieceLink, range_starts
from dotr.streams.connectors.kafka.topics import Partition, PartitionJournal
from dotr.streams.records import Record


class IndexedTopics:
    """The partitions of a job's topics, numbered behind its other inputs, without a call to the
    broker. Raises `Refused` (S114) where the journal is damaged.
    """

    def __init__(self, job: Job) -> None:
        self._first = len(job.inputs)
        self._topics = {each.name: each for each in topics_of(job)}
        journal = PartitionJournal(job.home) if job.topics else None
        self._entries: Sequence[tuple[str, Partition]] = () if journal is None else journal.entries
        self._has_lost = journal is not None and any(journal.lost(number) for number in range(len(journal.entries)))

    @property
    def delays(self) -> tuple[Micros, ...]:
        """The delay of each partition, in µs."""
        return tuple(self._topics[name].like.delay for name, _ in self._entries)

    @property
    def records(self) -> list[int]:
        """The number of offsets of each partition."""
        return [(each.end or 0) - each.first for _, each in self._entries]

    def can_be_indexed(self, offsets: Iterable[Offset]) -> bool:
        """True if the index of tasks can replace the planner of growing inputs, from these ends of
        batches on."""
        bounded = all(each.is_bounded and each.fails_on_loss and each.idle is None for each in self._topics.values())
        if not bounded or self._has_lost or any(name not in self._topics or each.end is None for name, each in self._entries):
            return False
        return all(self._is_plain(offset) for offset in offsets)

    def _is_plain(self, offset: Offset) -> bool:
        """True if an offset has no floors and, unless it is before all instants, a position in each
        partition."""
        if any(position.floors for position in offset.positions):
            return False
        return offset.time == BEGINNING or len(offset.positions) >= self._first + len(self._entries)

    def padded(self, offset: Offset) -> Offset:
        """The offset with first positions for the inputs and partitions that it lacks."""
        offset = offset.padded(self._first)
        new = [each for _, each in self._entries][len(offset.positions) - self._first :]
        return replace(offset, positions=(*offset.positions, *[InputPosition(each.first, each.first, BEGINNING) for each in new]))

    def partition(self, number: int) -> RangePartition | None:
        """The partition with the number of an input; None for files."""
        if number < self._first:
            return None
        name, each = self._entries[number - self._first]
        return RangePartition(name, each.topic, each.number, each.end)


def offset_range_starts(partition: RangePartition, start: int, first_bytes: int) -> tuple[int, ...]:
    """The offsets at which the ranges of a partition start, from an offset on. They have the
    lengths of those of a file whose records are of ordinary length.

    >>> offset_range_starts(RangePartition("k", "t", 0, 100), 10, 4 * 512)
    (10, 14, 22, 38, 70)
    """
    return range_starts(start, partition.end or 0, max(1, first_bytes // ORDINARY_BYTES))


def piece_of_partition(records: Iterator[Record], starts: Sequence[int], piece: int, size: int, *, apart: bool = False) -> Piece:
    """The piece of a range of offsets, whose records are given; granules have about `size` records.

    A granule starts with a message. The first one starts with the range, whose first offset may
    have no record, but the mark of a transaction:

    >>> records = [Record(offset, offset + 1, offset, 10 * offset, None, b"") for offset in (4, 5, 5, 7)]
    >>> piece_of_partition(iter(records), (3, 8), 0, 2)
    Piece(granules=(Granule(offset=3, line=3, weight=3, greatest=50, ties=0), \
Granule(offset=7, line=7, weight=1, greatest=70, ties=0)), link=PieceLink(piece=1, offset=8, line=8))
    """
    found: list[Granule] = []
    begin = last = starts[piece]
    weight, greatest, ties = 0, BEGINNING, 0
    for record in records:
        if weight >= size and record.offset > last:
            found.append(Granule(begin, begin, weight, greatest, ties * apart))
            begin, weight, greatest, ties = record.offset, 0, BEGINNING, 0
        last = record.offset
        time = record.judged_time
        if time is not None and time >= greatest:
            ties = ties + 1 if time == greatest else 1
            greatest = time
        weight += 1 + len(record.raw) // ORDINARY_BYTES
    found.append(Granule(begin, begin, weight, greatest, ties * apart))
    if piece + 1 == len(starts):
        return Piece(tuple(found), None)
    return Piece(tuple(found), PieceLink(piece + 1, starts[piece + 1], starts[piece + 1]))


def end_of_range(partition: RangePartition, starts: Sequence[int], piece: int) -> int:
    """The offset before which a range ends."""
    return starts[piece + 1] if piece + 1 < len(starts) else max(partition.end or 0, starts[piece])
