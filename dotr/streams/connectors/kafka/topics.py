"""Topics of inputs and outputs, and their partitions: values that are sent between processes as JSON;
the journal of the partitions that a checkpoint reads.

A secret among the properties is written `${NAME}`; the process that creates a client reads its
value.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from dotr.errors.diagnostics import refuse
from dotr.evaluation.files.stores import AppendedLines, Location
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.time import Micros
from dotr.streams.records import InputFile

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

SERIES: Final = -1
"""The number of a partition that is no partition of a topic, but a series of files, named by its
first one."""

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1
"""Special offsets: of the first record, and of the end, as in Spark."""


class PartitionOffset(NamedTuple):
    """An offset in a partition of a topic; it may be `EARLIEST_OFFSET` or `LATEST_OFFSET`."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class KafkaInput:
    """Topics as one input of a configuration.

    - `like`: the specification that all partitions share, with an empty path.
    - `properties`: names and texts of librdkafka's properties.
    - `names`, `pattern` or `assigned`: topics by name, by a regular expression, or single
      partitions. One of the three is given.
    - `start`: `EARLIEST` or `LATEST`, for partitions without an entry in `start_offsets`;
      `start_time` (ms since 1970) replaces both.
    - `end`: `LATEST` for a bounded input, which ends with the last record at the start of the run;
      empty for an unbounded one. `end_offsets` has the ends of single partitions.
    - `fails_on_loss`: True if the run fails where the broker has deleted records before they were
      read.
    - `idle`: the time without a record (µs) after which a partition is idle; None: never.
    """

    like: InputFile
    properties: tuple[tuple[str, str], ...]
    names: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[tuple[str, int], ...] = ()
    start: str = EARLIEST
    start_offsets: tuple[PartitionOffset, ...] = ()
    start_time: int | None = None
    end: str = ""
    end_offsets: tuple[PartitionOffset, ...] = ()
    fails_on_loss: bool = True
    idle: Micros | None = None

    @property
    def name(self) -> str:
        """The name of the input."""
        return self.like.input

    @property
    def servers(self) -> str:
        """The brokers that clients connect to first (`bootstrap.servers`)."""
        return dict(self.properties)["bootstrap.servers"]

    @property
    def is_bounded(self) -> bool:
        """True if the input ends with the last record at the start of the run."""
        return bool(self.end)

    @property
    def subscription(self) -> str:
        """Identity of the input in a checkpoint: the topics, and whether they are bounded.

        >>> from dotr.streams.records import Format
        >>> KafkaInput(InputFile("in", "", Format.NDJSON), (), ("a", "b"), end=LATEST).subscription
        'subscribe a, b; bounded'
        """
        if self.pattern:
            topics = f"subscribePattern {self.pattern}"
        elif self.assigned:
            topics = f"assign {', '.join(f'{topic}/{number}' for topic, number in self.assigned)}"
        else:
            topics = f"subscribe {', '.join(self.names)}"
        return f"{topics}; bounded" if self.is_bounded else topics

    def to_json(self) -> str:
        """Specification as JSON, for another process.

        >>> from dotr.streams.records import Format
        >>> spec = KafkaInput(InputFile("in", "", Format.NDJSON), (("a.b", "c"),), ("t",), start_offsets=(PartitionOffset("t", 0, 5),))
        >>> KafkaInput.from_json(spec.to_json()) == spec
        True
        """
        return json.dumps(
            [
                self.like.to_json(),
                self.properties,
                self.names,
                self.pattern,
                self.assigned,
                self.start,
                self.start_offsets,
                self.start_time,
                self.end,
                self.end_offsets,
                self.fails_on_loss,
                self.idle,
            ]
        )

    @staticmethod
    def from_json(text: str) -> KafkaInput:
        """Inverse of `to_json`."""
        like, properties, names, pattern, assigned, start, starts, at, end, ends, fails, idle = json.loads(text)
        return KafkaInput(
            InputFile.from_json(like),
            tuple((str(name), str(value)) for name, value in properties),
            tuple(names),
            pattern,
            tuple((str(topic), int(number)) for topic, number in assigned),
            start,
            tuple(PartitionOffset(*each) for each in starts),
            at,
            end,
            tuple(PartitionOffset(*each) for each in ends),
            fails,
            idle,
        )


class Partition(NamedTuple):
    """A partition of a topic, with the range of offsets that an input reads: [first, end).

    `identity` is the id of the topic, which a later topic of the same name does not share; empty
    where the broker gives none. `end` is None for an unbounded input.
    """

    topic: str
    number: int
    identity: str
    first: int
    end: int | None = None

    @property
    def place(self) -> str:
        """The text that names the partition, as a dead letter's `file`.

        >>> Partition("sensors", 2, "", 0).place
        'sensors/2'
        """
        return self.topic if self.number == SERIES else f"{self.topic}/{self.number}"

    @property
    def key(self) -> tuple[str, int]:
        """The topic and the number."""
        return self.topic, self.number


class LostRange(NamedTuple):
    """Offsets [first, end) of a partition whose records the broker deleted unread."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class KafkaDestination:
    """A topic of a Kafka cluster.

    - `properties`: names and texts of librdkafka's properties; secrets are `${NAME}`.
    - `key`: the attribute whose value is the key of a message; None: messages have none.
    - `exactly_once`: True if batches are transactions (on Spark); False: they are written at least
      once.
    - `event_time`: True if messages have the time of the event; False: that of the clock.
    """

    topic: str
    properties: tuple[tuple[str, str], ...]
    key: Variable | None = None
    exactly_once: bool = False
    event_time: bool = False
    span: Span | None = None

    def __str__(self) -> str:
        return f"topic {self.topic} of Kafka at {dict(self.properties)['bootstrap.servers']}"


JOURNAL: Final = "partitions.ndjson"


class PartitionJournal:
    """Partitions by number, each with the name of its input, and their deleted ranges.

    An entry is written before an offset refers to it. Its number identifies the partition for the
    life of the checkpoint; the entry has the id of the topic and the first offset to read. Ranges
    that the broker has deleted are entries too, so that a repeated batch is planned with the same
    ranges. The journal is beside `dotr.json`, one JSON list a line.

    `home` is the checkpoint. Raises `Refused` (S114) where the journal is damaged.
    """

    def __init__(self, home: Location) -> None:
        self._written = AppendedLines(home / JOURNAL)
        self.entries: list[tuple[str, Partition]] = []
        self._lost: dict[int, list[LostRange]] = {}
        for number, line in enumerate(self._written.read(), 1):
            if not line.endswith("]"):  # no offset refers to an entry that a crash has cut off
                continue
            try:
                self._read(*json.loads(line))
            except (TypeError, ValueError):
                hint = "Put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)."
                raise refuse(
                    "S114", f"the checkpoint is damaged: {self._written.place}: its line {number} is no entry", None, hint
                ) from None

    def _read(self, kind: str, *members: object) -> None:
        if kind == "partition":
            name, topic, number, identity, first, end = members
            self.entries.append((str(name), Partition(str(topic), _whole(number), str(identity), _whole(first), _whole_or_none(end))))
        elif kind == "lost":
            partition, first, end = map(_whole, members)
            self._lost.setdefault(partition, []).append(LostRange(first, end))
        else:
            raise ValueError(kind)

    def names(self) -> list[str]:
        """The name of the input of each partition, by number."""
        return [name for name, _ in self.entries]

    def number(self, name: str, partition: Partition) -> int:
        """The number of a partition of an input; -1 where it has no entry."""
        return next((n for n, (own, each) in enumerate(self.entries) if own == name and each.key == partition.key), -1)

    def lost(self, number: int) -> tuple[LostRange, ...]:
        """The deleted ranges of a partition, in the order in which they were added."""
        return tuple(self._lost.get(number, ()))

    def add(self, name: str, partitions: Sequence[Partition]) -> None:
        """Number partitions of an input, and write their entries to the disk (fsync)."""
        self._append([["partition", name, each.topic, each.number, each.identity, each.first, each.end] for each in partitions])
        self.entries += [(name, each) for each in partitions]

    def add_lost(self, number: int, lost: LostRange) -> None:
        """Add a deleted range of a partition, and write it to the disk (fsync)."""
        self._append([["lost", number, *lost]])
        self._lost.setdefault(number, []).append(lost)

    def _append(self, entries: Sequence[Sequence[object]]) -> None:
        self._written.append(list(map(json.dumps, entries)))


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(value)
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)
