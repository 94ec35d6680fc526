"""Writers of batches into a topic that end themselves by SIGKILL at a chosen moment: the sink alone, and a run on Spark.

    python -m tests.support.kafka_victims sink MOMENTS SERVERS TOPIC FOLDER BATCHES
    python -m tests.support.kafka_victims spark MOMENTS CONFIG

MOMENTS are a list such as `broker:4,in:7`: a moment and a batch, counted from 0. The process is killed `before` the transaction of the
batch, `in` it (its messages are on the broker), while it is `committing` (a few milliseconds after the last message), or `after` it, before
the checkpoint is written. `broker`: the process waits in the transaction until the broker is killed, then continues. The sink alone keeps
the data of a checkpoint in FOLDER.
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
from dotr.streams.connectors.kafka.producing import TransactionBatches, transaction_name
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import BatchHistory, Check, check_nothing
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.messages import MessageFormat
from tests.support.outputs import numbering_encoder

MOMENTS: Final = ("before", "in", "committing", "after", "broker")
WAITING: Final = "waiting"
"""File that exists while a process waits in a transaction; the process continues when it is removed."""


def end_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


class Moments:
    """The moments of kills, around the writing of batches."""

    def __init__(self, text: str, folder: Path) -> None:
        pairs = [each.split(":") for each in text.split(",") if each]
        self._moments = {int(batch): name for name, batch in pairs}
        self._folder = folder

    def around(self, write: Callable[..., Sequence[DeadLetter]]) -> Callable[..., Sequence[DeadLetter]]:
        """`write_batch`, killed at its moment."""

        def writing(sink: Any, number: int, blocks: Iterable[Sequence[Any]], check: Check) -> Sequence[DeadLetter]:
            name = self._moments.pop(number, None)
            if name is None:
                return write(sink, number, blocks, check)
            if name == "before":
                end_here()
            found = write(sink, number, Interrupted(blocks, partial(self._behind, name, sink)), check)
            if name == "after":
                end_here()
            if name == "committing":
                time.sleep(60)  # the timer ends this process; without the wait, fast transactions pass the moment of the next process
            return found

        return writing

    def _behind(self, name: str, sink: TransactionBatches[Any]) -> None:
        """Called after the last block of the batch, while its transaction is open."""
        if name == "in":
            assert sink._producer is not None
            sink._producer.flush(10)
            end_here()
        if name == "committing":
            threading.Timer(random.uniform(0.0, 0.1), end_here).start()
        if name == "broker":
            waiting = self._folder / WAITING
            waiting.touch()
            while waiting.exists():
                time.sleep(0.02)


class Interrupted:
    """Blocks with an action after the last one, executed the first time that they are read to their end."""

    def __init__(self, blocks: Iterable[Sequence[Any]], action: Callable[[], None]) -> None:
        self._blocks = blocks
        self._action = action

    def __iter__(self) -> Iterator[Sequence[Any]]:
        empty = True
        for block in self._blocks:
            empty = False
            yield block
        if not empty:
            action, self._action = self._action, lambda: None
            action()


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
    return partial(numbering_encoder, MessageFormat(StreamFormat.NDJSON, OutputTerms(Clock(), ["room"], pipeline=pipeline), "room"))


def sink_alone(servers: str, topic: str, folder: Path, batches: int, moments: Moments) -> None:
    """Write batches, continuing at the batch that the folder's files record."""

    def number(name: str) -> int:
        return int((folder / name).read_text()) if (folder / name).exists() else 0

    written, planned = number("written"), number("planned")
    history = BatchHistory("victim", written, max(written, planned))
    destination = KafkaDestination(topic, (("bootstrap.servers", servers),), "room", exactly_once=True)
    sink = TransactionBatches(destination, transaction_name("victim", "0", topic), encoder_of(), history)
    sink.open(check_nothing)
    write = moments.around(TransactionBatches.write_batch)
    for batch in range(written, batches):
        _put(folder / "planned", batch + 1)
        write(sink, batch, firings_of(batch), check_nothing)
        _put(folder / "written", batch + 1)
    sink.close()


def _put(path: Path, number: int) -> None:
    new = path.with_suffix(".new")
    new.write_text(str(number))
    new.replace(path)


def on_spark(config: str, moments: Moments) -> int:
    """`dotr run`, which is killed at the moments."""
    from dotr.commands import main

    write = TransactionBatches.write_batch
    TransactionBatches.write_batch = moments.around(write)  # type: ignore[method-assign, assignment]
    try:
        return main(["run", config, "--engine", "spark", "--quiet"])
    finally:
        TransactionBatches.write_batch = write  # type: ignore[method-assign]


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    if kind == "sink":
        where = Path(words[3])
        sink_alone(words[1], words[2], where, int(words[4]), Moments(words[0], where))
        sys.stdout.flush()
        os._exit(0)  # without waiting for threads of librdkafka
    sys.exit(on_spark(words[1], Moments(words[0], Path(words[1]).parent)))
