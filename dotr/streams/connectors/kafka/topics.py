"""Topics of an input, and their partitions: values that are sent between processes as JSON.

A secret among the properties is written `${NAME}`; the process that creates a client reads its
value.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from dotr.model.time import Micros
from dotr.streams.records import InputFile

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

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
        return f"{self.topic}/{self.number}"

    @property
    def key(self) -> tuple[str, int]:
        """The topic and the number."""
        return self.topic, self.number


class LostRange(NamedTuple):
    """Offsets [first, end) of a partition whose records the broker deleted unread."""

    first: int
    end: int
