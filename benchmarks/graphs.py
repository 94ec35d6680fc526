"""Cost of an element of an output in each RDF format, and of reading it; Jelly beside pyjelly alone.

    python -m benchmarks.graphs [--elements 5000]

CPU time of this process in µs an element, the least of five runs, and bytes an element. An element has four triples, and
three stand beside it: time, rule and number. Reading makes records with their elements; of pyjelly it makes statements of its own.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyjelly.integrations.generic.parse import parse_jelly_grouped
from pyjelly.integrations.generic.serialize import grouped_stream_to_file

from dotr.model.terms import RDF_TYPE, XSD
from dotr.model.time import Clock
from dotr.streams.formats.rdf.jelly_frames import FrameEncoder, delimited, frames
from dotr.streams.formats.rdf.named_graphs import NamedGraph, TrigWriter, jsonld_texts, nquads_texts
from dotr.streams.formats.reading import Reader
from dotr.streams.records import Format, InputFile

CLOCK = Clock(dated=True)


def graphs(count: int) -> list[NamedGraph]:
    """The elements that are written."""
    made: list[NamedGraph] = []
    for number in range(count):
        event, room = f"<urn:dotr:{number}>", f"<http://example.org/building#room{number % 7}>"
        value = f'"{number}"^^<{XSD}integer>'
        triples = (
            (event, RDF_TYPE, "<http://example.org/building#Fire>"),
            (event, "<http://example.org/building#at_room>", room),
            (event, "<http://example.org/building#value>", value),
            (event, "<http://example.org/building#name>", '"a name"'),
        )
        made.append(NamedGraph(f"<http://example.org/fire/{number}000000-0>", number * 1_000_000, "R", triples, number))
    return made


def stream(elements: list[NamedGraph]) -> bytes:
    """The elements as a file in Jelly, whose frames share their names."""
    encoder = FrameEncoder(CLOCK)
    return b"".join([delimited(encoder.frame(each)) for each in elements])


def least(run: Callable[[], object]) -> float:
    """The least CPU time of five runs, in seconds."""
    times: list[float] = []
    for _ in range(5):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print a line a format."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--elements", type=int, default=5000)
    count: int = parser.parse_args().elements
    elements = graphs(count)
    writers: dict[str, Callable[[], bytes]] = {
        "trig": lambda: "".join(TrigWriter(CLOCK, {"": "http://example.org/building#"})(elements)).encode(),
        "nquads": lambda: "".join(nquads_texts(elements, CLOCK)).encode(),
        "jsonld": lambda: "\n".join(jsonld_texts(elements, CLOCK)).encode(),
        "jelly": lambda: stream(elements),
        "jelly, a frame a message": lambda: b"".join(map(delimited, frames(elements, CLOCK))),
    }
    sinks = list(parse_jelly_grouped(io.BytesIO(stream(elements))))
    packed = io.BytesIO()
    grouped_stream_to_file(iter(sinks), packed)

    def show(name: str, size: int, write: float, read: float) -> None:
        sys.stdout.write(f"{name:25} {size / count:6.0f} bytes  write {write / count * 1e6:6.1f} µs  read {read / count * 1e6:6.1f} µs\n")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "elements")
        for name, write in writers.items():
            form = name.split(",")[0]
            path.write_bytes(write())
            show(name, path.stat().st_size, least(write), least(partial(_read, path, form)))
    show(
        "jelly, by pyjelly alone",
        len(packed.getvalue()),
        least(lambda: grouped_stream_to_file(iter(sinks), io.BytesIO())),
        least(lambda: [list(sink) for sink in parse_jelly_grouped(io.BytesIO(packed.getvalue()))]),
    )


def _read(path: Path, form: str) -> int:
    with Reader(InputFile("in", str(path), Format(form), record=1 << 40)) as reader:
        return sum(record.element is not None for record in reader.records())


if __name__ == "__main__":
    main()
