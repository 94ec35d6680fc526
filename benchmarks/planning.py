"""CPU time of what one process does on Spark, for any number of cores: cuts from granules, tasks as text, the sink; and of the scans.

    python -m benchmarks.planning [--records 4000000]

Cuts: batches of 200,000 records in 16 tasks over 1, 10 and 100 inputs of one size, from an index in files, as the planner reads it; the
goal is 1,000,000 records a second on one core. Scans: one file of 300,000 records, in one range; the goal is 2 µs a record.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Firing
from dotr.model.time import Clock
from dotr.runtimes.spark.exchange.positions import Cut, InputPosition, Offset
from dotr.runtimes.spark.exchange.rows import RowKind, encode_firings
from dotr.runtimes.spark.exchange.task import Task
from dotr.runtimes.spark.planning.granules import Granule, Piece, PieceLink, records_of_granule, scan_range
from dotr.runtimes.spark.planning.index_files import IndexFiles
from dotr.runtimes.spark.planning.indexed_plan import indexed_plan
from dotr.runtimes.spark.sink import Sink
from dotr.streams.connectors.opening import Output, event_batches
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.records import START, ElementMap, Format, InputFile
from dotr.streams.sinks.batches import BatchHistory, check_nothing
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.files import PathDestination

BATCH, TASKS, PIECES, BYTES = 200_000, 16, 8, 100
SCANNED = 300_000
EVENTS = 100_000


def write_index(files: IndexFiles, inputs: int, records: int) -> None:
    """Inputs of one record a microsecond each, in pieces."""
    size = records_of_granule(BATCH, TASKS, inputs)
    each = records // inputs
    starts = [*range(0, each, size)]
    share = -(-len(starts) // PIECES)
    for number in range(inputs):
        for piece, at in enumerate(range(0, len(starts), share)):
            own = starts[at : at + share]
            granules = tuple(Granule(start * BYTES, start + 1, size, start + size - 1) for start in own)
            behind = starts[at + share : at + share + 1]
            link = PieceLink(piece + 1, behind[0] * BYTES, behind[0] + 1) if behind else None
            files.write(number, piece, Piece(granules, link))


def cpu(function: Callable[[], object]) -> float:
    """CPU seconds of a call, the least of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def plan_all(files: IndexFiles, inputs: int) -> int:
    """Plan to the end; the number of cuts."""
    start = Offset.start(inputs)
    return sum(1 for _ in indexed_plan(files.read, files.base(), [0] * inputs, start, BATCH // TASKS))


def task_texts(inputs: int) -> int:
    """Tasks of a batch as text, as the planner writes them and a task reads them; their characters."""
    positions = tuple(InputPosition(10**9 + number, 10**7, 10**15) for number in range(inputs))
    start = Offset(10**15, positions)
    cut = Cut(10**15 + 1, tuple(each._replace(offset=each.offset + 5_000) for each in positions), (2 * 10**9,) * inputs, 5_000)
    texts = [Task.of_cut(start, cut, 10**15 + 2).to_json() for _ in range(TASKS)]
    return sum(len(text) for text in texts) + len(json.dumps(start.to_json()))


def sink_seconds(folder: Path, events: int) -> float:
    """CPU seconds of the sink for a batch of firings of one triple from two buckets, written into one file."""
    firings = []
    for number in range(events):
        name = f"<http://e/{number}>"
        firings.append(Firing(number, "R", "Out", (("x", name),), ((name, "<http://e/p>", f'"{number}"'),), 0))
    rows = [(int(RowKind.FIRINGS), encode_firings(firings[bucket::2])) for bucket in range(2)]
    output = Output(StreamFormat.NDJSON, PathDestination(str(folder)))
    [files] = event_batches([output], OutputTerms(Clock(), ("x",)), BatchHistory("x"))
    files.open(check_nothing)

    def write(number: int, found: Iterable[Sequence[Firing]], letters: Iterable[DeadLetter]) -> Sequence[DeadLetter]:
        return files.write_batch(number, found, check_nothing)

    sink = Sink(write, lambda totals: None, lambda letter: letter, Clock())
    start = time.process_time()
    sink.process(0, rows)
    return time.process_time() - start


def scanned_files(folder: Path) -> list[InputFile]:
    """A file of each format that has ranges."""
    lines = [json.dumps({"time": n // 3, "graph": f":r{n} a :Temp ; :value {n % 97} ; :sensor :s{n % 31} ."}) for n in range(SCANNED)]
    (folder / "s.ndjson").write_text("\n".join(lines) + "\n")
    rows = [
        f"2014-08-{1 + n // 86_400:02}T{n // 3_600 % 24:02}:{n // 60 % 60:02}:{n % 60:02},urn:x:{n % 31},{n % 97}" for n in range(SCANNED)
    ]
    (folder / "s.csv").write_text("t,id,v\n" + "\n".join(rows) + "\n")
    return [
        InputFile("a", str(folder / "s.ndjson"), Format.NDJSON),
        InputFile("b", str(folder / "s.csv"), Format.CSV, map=ElementMap("t", Document("map", "<{id}> <urn:v> {v} ."))),
    ]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory() as folder:
        for inputs in (1, 10, 100):
            files = IndexFiles(Path(folder) / "index")
            files.begin(Offset.start(inputs))
            write_index(files, inputs, records)
            cuts = plan_all(files, inputs)
            seconds = cpu(lambda inputs=inputs, files=files: plan_all(files, inputs))  # type: ignore[misc]
            sys.stdout.write(f"cuts from granules, {inputs:3} inputs: {records / seconds:12,.0f} records a second ({cuts} cuts)" + "\n")
        for inputs in (1, 100):
            seconds = cpu(lambda inputs=inputs: task_texts(inputs))  # type: ignore[misc]
            sys.stdout.write(f"tasks as text, {inputs:3} inputs: {seconds / TASKS * 1e6:8.1f} µs a task\n")
        seconds = min(sink_seconds(Path(folder) / f"out{number}", EVENTS) for number in range(3))
        sys.stdout.write(f"sink: {seconds / EVENTS * 1e6:5.2f} µs an event of one triple, ndjson\n")
        for file in scanned_files(Path(folder)):
            seconds = cpu(lambda file=file: scan_range(file, START, (0,), 0, 3_125))  # type: ignore[misc]
            sys.stdout.write(f"scan of {file.format.value:6}: {seconds / SCANNED * 1e6:5.2f} µs a record" + "\n")


if __name__ == "__main__":
    main()
