"""Cost of an event that executors write, beside one that the driver writes: rows of a batch as Spark's operators leave them.

    python -m benchmarks.executor_outputs [--events 400000] [--rounds 3] [--format parquet] [--way table]

Each way writes the same batch several times: `driver` collects its rows and writes a file of NDJSON, `table` writes a table by executors,
`files` a file of NDJSON a task. Figures are of the best round behind the first, in µs of CPU an event: of the driver's Python, and of all
processes (the JVM and the workers among them). `rows` is a batch whose rows are only passed to the driver, without outputs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.aarhus import TreeClock
from benchmarks.background import say
from dotr.model.stream import Firing
from dotr.model.time import Clock
from dotr.runtimes.external_sort import blocks, encode_firings
from dotr.runtimes.spark.exchange.rows import RowKind, decode_firings
from dotr.runtimes.spark.start.session import start
from dotr.runtimes.spark.tasks.outputs import ExecutorOutputs
from dotr.streams.connectors.opening import Output
from dotr.streams.connectors.spark.tables import TableDestination
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import BatchHistory, check_nothing
from dotr.streams.sinks.events import FileBatches, OutputTerms
from dotr.streams.sinks.files import PathDestination

if TYPE_CHECKING:
    import pyarrow as pa

_IN_ROW: Final = 5_000
_TASKS: Final = 2


def payloads(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a task: events of the main job's form."""
    import pyarrow as pa

    for batch in batches:
        for number in batch.column(0).to_pylist():
            found = []
            for each in range(_IN_ROW):
                at, name = number * _IN_ROW + each, f"<http://example.org/room/{each % 97}>"
                attributes = (("room", name), ("value", f'"{each}"^^<http://www.w3.org/2001/XMLSchema#integer>'))
                event = f"_:b{at:024x}"
                graph = (
                    (event, "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<http://example.org/Fire>"),
                    (event, "<http://example.org/room>", name),
                    (event, "<http://example.org/value>", attributes[1][1]),
                )
                found.append(Firing(at * 1_000_000, "Heated", "Fire", attributes, graph, 0))
            kind, payload = pa.array([int(RowKind.FIRINGS)], pa.int32()), pa.array([encode_firings(found)], pa.binary())
            yield pa.RecordBatch.from_arrays([kind, payload], names=["kind", "payload"])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--way", action="append", help="rows, driver, table or files; all if none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, terms = Path(name), OutputTerms(Clock())
        session = start("outputs", f"local[{_TASKS}]", {}, folder / "spark.log")
        rows = session.range(0, options.events // _IN_ROW, 1, _TASKS).mapInArrow(payloads, "kind INT, payload BINARY")
        batch = rows.persist()
        batch.count()

        def by(*outputs: Output) -> Callable[[int], object]:
            made = ExecutorOutputs(outputs, None, terms, BatchHistory("a1"), keeps_state=True, shown=3, cut=())
            made.open(session, check_nothing)

            def write(number: int) -> None:
                made.write(batch, number)
                made.release()

            return write

        def by_driver(number: int) -> None:
            firings = [firing for row in batch.collect() for firing in decode_firings(bytes(row.payload))]
            FileBatches([(str(folder / "driver"), StreamFormat.NDJSON)], terms).write_batch(number, list(blocks(firings)), check_nothing)

        def only_rows(number: int) -> None:
            batch.select("kind").collect()

        ways: dict[str, Callable[[int], Any]] = {
            "rows": only_rows,
            "driver": by_driver,
            "table": by(Output(StreamFormat.NDJSON, TableDestination(options.format, path=str(folder / "table")), by_executors=True)),
            "files": by(Output(StreamFormat.NDJSON, PathDestination(str(folder / "files")), by_executors=True)),
        }
        clock = TreeClock()
        for way, write in [each for each in ways.items() if not options.way or each[0] in options.way]:
            best = (float("inf"), float("inf"))
            for number in range(options.rounds + 1):
                before, own, whole = clock.read(), time.thread_time(), time.process_time()
                write(number)
                spent = time.thread_time() - own, clock.read() - before
                spent = spent[0], spent[1] - (time.process_time() - whole - spent[0])  # without the thread of the clock
                best = min(best, spent, key=lambda each: each[1]) if number else best
            say(f"{way:8} driver's Python {best[0] / options.events * 1e6:6.2f} µs, all {best[1] / options.events * 1e6:6.2f} µs an event")
        session.stop()


if __name__ == "__main__":
    main()
