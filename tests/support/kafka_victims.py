"""Writers of batches into a topic that end themselves by SIGKILL at a chosen moment: the sink alone, and a run on Spark.

    python -m tests.support.kafka_victims sink SERVERS TOPIC FOLDER BATCHES MOMENT BATCH
    python -m tests.support.kafka_victims spark CONFIG MOMENT BATCH

At batch BATCH (from 0 on) the process is killed `before` its transaction, `in` it (its messages are on the broker), while it is
`committing` (a few milliseconds behind the last message), or `after` it, before the checkpoint knows; `never`: at no time. `broker`: it
waits in the transaction until the broker has been killed, then goes on. The sink alone keeps in FOLDER what a checkpoint would.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from dotr.model.stream import DeadLetter, Firing
from dotr.model.time import Clock
from dotr.outputs.writing import StreamFormat
from dotr.sinks.batches import BatchHistory, Check, check_nothing
from dotr.sinks.destinations import KafkaDestination
from dotr.sinks.events import OutputTerms
from dotr.sinks.kafka.transactions import TransactionBatches, transaction_name
from dotr.sinks.messages import MessageFormat, event_encoder

MOMENTS: Final = ("before", "in", "committing", "after", "broker")
WAITING: Final = "waiting"
"""File that appears where a process waits in a transaction; it goes on when it is removed."""


def end_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


class Moment:
    """The moment of the kill, around the writing of one batch."""

    def __init__(self, name: str, batch: int, folder: Path) -> None:
        self.name = name
        self.batch = batch
        self.folder = folder
        self.writes: Callable[[], object] = lambda: None

    def around(self, write: Callable[..., Sequence[DeadLetter]]) -> Callable[..., Sequence[DeadLetter]]:
        """`write_batch` with the kill in it."""

        def writing(sink: Any, number: int, blocks: Iterable[Sequence[Any]], check: Check) -> Sequence[DeadLetter]:
            if number != self.batch:
                return write(sink, number, blocks, check)
            if self.name == "before":
                end_here()
            found = write(sink, number, Interrupted(blocks, partial(self._behind, sink)), check)
            if self.name == "after":
                end_here()
            return found

        return writing

    def _behind(self, sink: TransactionBatches[Any]) -> None:
        """Called behind the last block of the batch, while its transaction is open."""
        if self.name == "in":
            assert sink._producer is not None
            sink._producer.flush(10)
            end_here()
        if self.name == "committing":
            threading.Timer(random.uniform(0.0, 0.1), end_here).start()
        if self.name == "broker":
            self.name = "never"  # the next attempt goes through
            waiting = self.folder / WAITING
            waiting.touch()
            while waiting.exists():
                time.sleep(0.02)


class Interrupted:
    """Blocks with an action behind the last one."""

    def __init__(self, blocks: Iterable[Sequence[Any]], action: Callable[[], None]) -> None:
        self._blocks = blocks
        self._action = action

    def __iter__(self) -> Iterator[Sequence[Any]]:
        empty = True
        for block in self._blocks:
            empty = False
            yield block
        if not empty:
            self._action()


def firings_of(batch: int) -> list[list[Firing]]:
    """The blocks of a batch: up to three, each of up to four firings; some batches have none."""
    choose = random.Random(batch)
    return [
        [
            Firing(
                batch * 1_000_000 + block,
                "R",
                "E",
                (("room", f'"r{choose.randrange(5)}"'),) if choose.random() < 0.7 else (),
                ((f"<http://e/{batch}>", "<http://e/n>", f'"{block}-{number}"'),),
                0,
            )
            for number in range(choose.randrange(1, 5))
        ]
        for block in range(batch % 4)
    ]


def encoder_of(pipeline: str = "victim") -> Callable[[], Any]:
    return partial(event_encoder, MessageFormat(StreamFormat.NDJSON, OutputTerms(Clock(), ["room"], pipeline=pipeline), "room"))


def sink_alone(servers: str, topic: str, folder: Path, batches: int, moment: Moment) -> None:
    """Write batches from where the folder's files say that the last process was."""

    def number(name: str) -> int:
        return int((folder / name).read_text()) if (folder / name).exists() else 0

    written, planned = number("written"), number("planned")
    history = BatchHistory("victim", written, max(written, planned))
    destination = KafkaDestination(topic, (("bootstrap.servers", servers),), "room", exactly_once=True)
    sink = TransactionBatches(destination, transaction_name("victim", "0", topic), encoder_of(), history)
    sink.open(check_nothing)
    write = moment.around(TransactionBatches.write_batch)
    for batch in range(written, batches):
        _put(folder / "planned", batch + 1)
        write(sink, batch, firings_of(batch), check_nothing)
        _put(folder / "written", batch + 1)
    sink.close()


def _put(path: Path, number: int) -> None:
    new = path.with_suffix(".new")
    new.write_text(str(number))
    new.replace(path)


def on_spark(config: str, moment: Moment) -> int:
    """`dotr run`, which is killed at the moment."""
    from dotr.cli import main

    TransactionBatches.write_batch = moment.around(TransactionBatches.write_batch)  # type: ignore[method-assign, assignment]
    return main(["run", config, "--engine", "spark", "--quiet"])


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    if kind == "sink":
        where = Path(words[2])
        sink_alone(words[0], words[1], where, int(words[3]), Moment(words[4], int(words[5]), where))
        sys.stdout.flush()
        os._exit(0)  # what librdkafka still does is of no matter
    sys.exit(on_spark(words[0], Moment(words[1], int(words[2]), Path(words[0]).parent)))
