"""NOT and AGGREGATE over a compiled background: its construction, a worker's memory, and instants.

    python -m benchmarks.negation [--triples 1000000]

Sensors in rooms of four. A sensor works unless it is broken; working sensors are listed by room, and
counted. Over a background in memory and a mapped one, small and large, these instants are closed, in
microseconds of CPU, 500 of them in rounds:

    idle      a triple that no rule reads
    plain     a reading and its class, joined with a sensor by rules of the lowest stratum
    joined    a reading of a working sensor: a rule above NOT derives from it
    taken     a sensor is broken: it does not work, is not listed, and its room has one less
    group     a further sensor in a room: it works, is listed, and the room's count changes
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.background import peak, private, say
from dotr.instant.datalog.background.compiled_cache import CachePolicy, OpenedBackground, open_background
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.background.sources import Sources
from dotr.model.places import Document
from dotr.model.terms import RDF_TYPE, XSD, Term, Triple, iri
from dotr.syntax.datalog import parse_datalog

PREFIX: Final = "http://example.org/building#"
RULES: Final = Document(
    "negation.dlog",
    f"""PREFIX : <{PREFIX}>
[?r, :near, ?room] :- [?r, :from, ?s], [?s, :in, ?room] .
:Working(?s) :- :Sensor(?s), NOT :Broken(?s) .
[?room, :lists, ?s] :- :Working(?s), [?s, :in, ?room] .
[?room, :size, ?n] :- AGGREGATE([?room, :lists, ?s] ON ?room BIND COUNT(?s) AS ?n) .
[?r, :about, ?room] :- [?r, :tells, ?s], :Working(?s), [?s, :in, ?room] .
""",
)


def term(name: str) -> Term:
    return iri(PREFIX + name)


def world(size: int) -> list[Triple]:
    """Half of the triples of the closed background: two triples a sensor are given, two and a quarter are derived."""
    triples = []
    for n in range(size * 4 // 17):
        triples += [(term(f"s{n}"), RDF_TYPE, term("Sensor")), (term(f"s{n}"), term("in"), term(f"room{n // 4}"))]
        if n % 100 == 99:
            triples.append((term(f"s{n}"), RDF_TYPE, term("Broken")))
    return triples


INSTANTS: Final[dict[str, Callable[[str, str], list[Triple]]]] = {
    "idle": lambda r, s: [(term(r), term("val"), f'"1"^^<{XSD}integer>')],
    "plain": lambda r, s: [(term(r), RDF_TYPE, term("Reading")), (term(r), term("from"), term(s))],
    "joined": lambda r, s: [(term(r), term("tells"), term(s))],
    "taken": lambda r, s: [(term(s), RDF_TYPE, term("Broken"))],
    "group": lambda r, s: [(term(r), RDF_TYPE, term("Sensor")), (term(r), term("in"), term(f"room{int(s[1:]) // 4}"))],
}


def instants(kind: str, size: int) -> Iterator[list[Triple]]:
    """Each about another sensor, spread over the building; after the last sensor they begin again."""
    sensors = size * 4 // 17
    for n in count():
        yield INSTANTS[kind](f"r{n}", f"s{n * 7919 % sensors // 100 * 100 + n % 99}" if sensors > 200 else f"s{n % 90}")


def opened(folder: Path, *, stored: bool) -> OpenedBackground:
    sources = Sources((str(folder / "g.nt"),), (RULES,))
    return open_background(sources, parse_datalog(RULES, {}), CachePolicy(folder / "cache" if stored else None, 0))


def timed(knowledge: Knowledge, kind: str, size: int, rounds: int = 7) -> float:
    """The fastest of some rounds over 500 instants."""
    of = [each for each, _ in zip(instants(kind, size), range(500), strict=False)]
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for each in of:
            knowledge.close(each)
        best = min(best, time.process_time() - start)
    return best / len(of) * 1e6


def built(folder: Path) -> None:
    start = time.process_time()
    found = opened(folder, stored=True)
    seconds = time.process_time() - start
    assert found.store is not None
    length = found.store.file.sections["triples"].length
    triples = len(found.store.index)
    say(
        f"build      {triples:,} triples, {length / triples:.1f} bytes each, {found.store.file.size / 1e6:.0f} MB, "
        f"{seconds:.1f} s, peak {peak():,} MB"
    )


def worker(folder: Path, size: int) -> None:
    """Private memory after opening, and after 20,000 instants of each kind, every one about another sensor."""
    start, before = time.perf_counter(), private()
    knowledge = opened(folder, stored=True).knowledge
    milliseconds, at_first = (time.perf_counter() - start) * 1e3, private() - before
    for kind in INSTANTS:
        for each, _ in zip(instants(kind, size), range(20_000), strict=False):
            knowledge.close(each)
    gc.collect()
    say(
        f"worker     open {milliseconds:.0f} ms with the check of its sources, {at_first:.1f} MB private; "
        f"used {private() - before:.1f} MB; process {private():.1f} MB"
    )


def timing(folder: Path, size: int, *, stored: bool) -> None:
    knowledge = opened(folder, stored=stored).knowledge
    say(json.dumps([timed(knowledge, kind, size) for kind in INSTANTS]))


def own_process(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.negation", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n")


def compared(sizes: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        say(f"{'':<24}{''.join(f'{kind:>9}' for kind in INSTANTS)}")
        for size in dict.fromkeys(sizes):
            folder = Path(temporary) / f"{size}"
            folder.mkdir()
            with (folder / "g.nt").open("w", encoding="utf-8") as file:
                file.writelines(f"{s} {p} {o} .\n" for s, p, o in world(size))
            line = own_process("--build", str(folder))
            for stored in [False, True] if size == sizes[0] else [True]:
                found = json.loads(own_process("--timing" if stored else "--memory", str(folder), "--triples", str(size)))
                say(f"{size:>10,} {'mapped' if stored else 'in memory':<13}{''.join(f'{each:9.2f}' for each in found)}")
        say(line)
        say(own_process("--worker", str(folder), "--triples", str(size)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--triples", type=int, default=1_000_000)
    for name in ("build", "worker", "timing", "memory"):
        parser.add_argument(f"--{name}", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        built(options.build)
    elif options.worker:
        worker(options.worker, options.triples)
    elif options.timing or options.memory:
        timing(options.timing or options.memory, options.triples, stored=options.timing is not None)
    else:
        compared([1_000, options.triples])


if __name__ == "__main__":
    main()
