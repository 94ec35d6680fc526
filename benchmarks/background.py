"""Cost of a compiled background, and of instants over it, as it grows.

    python -m benchmarks.background growing [--largest 10000000]

From 1,000 triples on, builds a compiled background, opens it in a process of its own, as a worker does, and measures
closure and queries, from parsed input to facts, in rounds over the same 500 instants (*again*) or
others (*anew*). *Irrelevant* triples have predicates that no rule reads; *relevant* ones fill the
tables that every instant looks up. `benchmarks.closing` measures the closure of a background.
Seconds and microseconds are of CPU.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.closure import building, readings, term
from dotr.engine.program import CompiledProgram
from dotr.languages.programs import compile_program
from dotr.model.stream import Instant
from dotr.model.terms import RDF_TYPE, XSD, Triple
from dotr.runtimes.pipeline.config import read_config

PREFIX = "http://example.org/building#"
RULES = """\
PREFIX : <http://example.org/building#>
rule R define Out = [ [] a :Out ; :room ?room ]
from A = [ SELECT ?r ?room WHERE { ?r a :Event ; :is_from_sensor ?s ; :has_val ?v . ?s :inside ?room . FILTER(?v > 60) } ]
with Out.?room = A.?room
"""
DATALOG = """\
PREFIX : <http://example.org/building#>
:is_in_room(?a, ?b) :- :is_at_location(?a, ?c), :is_in_room(?c, ?b) .
:inside(?a, ?b) :- :is_in_room(?a, ?b) .
:inside(?a, ?c) :- :inside(?a, ?b), :part_of(?b, ?c) .
"""
SCENARIO = """\
PREFIX : <http://example.org/building#>
query A = [ SELECT ?s ?v ?room WHERE { ?s :read_val ?v . ?s :in_room ?room . FILTER(?v > 60) } ]
rule R define Out = [ [] a :Out ; :room ?room ] from A with Out.?room = A.?room
"""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def irrelevant(count: int) -> Iterator[Triple]:
    """Old readings: predicates, sensors and classes that no rule or query reads, rdf:type among them."""
    for n in range(count // 4):
        reading, sensor = term(f"old{n}"), term(f"idle{n // 3}")
        yield reading, RDF_TYPE, term(f"Old{n % 10}")
        yield reading, term("old_val"), f'"{n % 1000}"^^<{XSD}integer>'
        yield reading, term("old_sensor"), sensor
        yield sensor, term("old_place"), term(f"place{n % 1000}")


def relevant(count: int) -> Iterator[Triple]:
    """Rooms of locations, for the closure and the join of every instant; each instant finds as many answers as before."""
    for n in range(max(50, count // 2)):
        yield term(f"loc{n}"), term("is_in_room"), term(f"room{n % 50}")
    for n in range(count // 2):
        yield term(f"sensor{n}"), term("in_room"), term(f"room{n % 50}")


def write_world(folder: Path, kind: str, size: int) -> Path:
    """The configuration of a background of about so many triples."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "kb.nt").open("w", encoding="utf-8") as file:
        given = building(50) + [(term(f"sensor{n}"), term("in_room"), term(f"room{n % 5}")) for n in range(10)]
        for source in (given, relevant(size) if kind == "relevant" else irrelevant(size)):
            file.writelines(f"{s} {p} {o} .\n" for s, p, o in source)
    (folder / "kb.dlog").write_text(DATALOG)
    (folder / "a.ndjson").write_text("")
    for name, rules in (("graphs", RULES), ("scenario", SCENARIO)):
        (folder / f"{name}.dotr").write_text(rules)
        config = {
            "name": name,
            "prefixes": {"": PREFIX},
            "knowledge": {"graphs": ["kb.nt"], "datalog": ["kb.dlog"], "entailment": "rdfs", "cache": "cache"},
            "rules": [f"{name}.dotr"],
            "input": [{"name": "a", "format": "ndjson", "path": "a.ndjson"}],
            "output": [{"path": "out.ndjson"}],
        }
        (folder / f"{name}.yaml").write_text(json.dumps(config))
    return folder


def program(folder: Path, name: str, stored: bool) -> CompiledProgram:
    """The program, over the compiled background or, as small ones are, over one in memory."""
    config = read_config(str(folder / f"{name}.yaml"))
    return compile_program(config.program(), config.cache_policy(0 if stored else sys.maxsize))


def instants(kind: str, count: int, places: int, seed: int = 0) -> list[Instant]:
    choose = random.Random(seed)
    if kind == "one":
        values = [f'"{61 + n % 20}"^^<{XSD}integer>' for n in range(20)]
        return [Instant(n, ((term(f"sensor{choose.randrange(places)}"), term("read_val"), values[n % 20]),)) for n in range(count)]
    four = readings(count, seed * count)
    for n, graph in enumerate(four):
        graph[1] = (graph[1][0], graph[1][1], f'"{61 + n % 20}"^^<{XSD}integer>')
        graph[3] = (graph[3][0], graph[3][1], term(f"loc{choose.randrange(places)}"))
    if kind == "four":
        return [Instant(n, tuple(graph)) for n, graph in enumerate(four)]
    return [Instant(n, tuple(triple for graph in four[n : n + 5] for triple in graph)) for n in range(0, count, 5)]


def rounds(programs: Sequence[tuple[CompiledProgram, Sequence[Sequence[Instant]]]], count: int) -> list[float]:
    """Microseconds an instant of each program's best round; the programs take turns, so that changes of the machine's speed affect all, and
    each takes its lists of instants in turn."""
    best = [float("inf")] * len(programs)
    for program, lists in programs:
        for instant in lists[-1][:20]:
            program.stage_one.evaluate(instant)
    for turn in range(count):
        for number, (program, lists) in enumerate(programs):
            facts, given = program.stage_one.evaluate, lists[turn % len(lists)]
            start = time.process_time()
            for instant in given:
                facts(instant)
            best[number] = min(best[number], (time.process_time() - start) / len(given) * 1e6)
    return best


def peak() -> int:
    """Megabytes that this process has had in memory at most."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def private() -> float:
    """Megabytes of its own that this process has written; mapped pages that it has read are shared with other processes."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty")) / 1024


def places(kind: str, size: int) -> dict[str, int]:
    """Number of sensors or locations in the instants."""
    grown = kind == "relevant"
    return {"one": size // 2 if grown else 10, "four": max(50, size // 2) if grown else 50, "twenty": max(50, size // 2) if grown else 50}


def worker(folder: Path, kind: str, size: int) -> None:
    """Measurements of a worker that opens a background and processes 40,000 instants."""
    from dotr.instant.datalog.background.compiled_store import CompiledStore

    path = max((folder / "cache").glob("*.dotrkb"), key=lambda each: each.stat().st_size)
    start = time.perf_counter()
    CompiledStore(path)
    found = {"open": (time.perf_counter() - start) * 1e3}
    before = private()
    compiled = program(folder, "graphs", True)
    found["opened"] = private() - before
    for seed in range(200):
        for instant in instants("four", 200, places(kind, size)["four"], seed):
            compiled.stage_one.evaluate(instant)
    gc.collect()
    found["used"] = private() - before
    found["process"] = private()
    say(json.dumps(found))


def timing(folder: Path, kind: str, sizes: Sequence[int]) -> None:
    """Instants over backgrounds of all sizes, beside one in memory."""
    for name, of in (("one", "scenario"), ("four", "graphs"), ("twenty", "graphs")):
        backgrounds = [
            (size, program(folder / f"{kind}{size}", of, stored)) for size, stored in ((sizes[0], False), *((s, True) for s in sizes))
        ]
        lists = [(each, [instants(name, 500, places(kind, size)[name], seed) for seed in range(30)]) for size, each in backgrounds]
        again = rounds([(each, of[:1]) for each, of in lists], 30)
        anew = rounds([(each, of) for each, of in lists], 30)
        for what, found in (("again", again), ("anew", anew)):
            grown = f"x {found[-1] / found[1]:.2f}, exponent {math.log(found[-1] / found[1]) / math.log(sizes[-1] / sizes[0]):.3f}"
            say(f"{kind:<11} {name:<7} {what:<6} {'  '.join(f'{each:7.2f}' for each in found)}   {grown}")


def growing(largest: int) -> None:
    sizes = [size for size in (1_000, 100_000, 1_000_000, 10_000_000) if size <= largest]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        heads = "triples   derived      terms       MB B/triple  B/term  build s  peak MB  open ms  private MB: opened, used, process"
        say(f"{'':<23}{heads}")
        for kind in ("irrelevant", "relevant"):
            for size in sizes:
                world = write_world(folder / f"{kind}{size}", kind, size)
                built = own_process("build", str(world))
                found = json.loads(own_process("worker", str(world), kind, str(size)))
                memory = "  ".join(f"{found[each]:.1f}" for each in ("opened", "used", "process"))
                say(f"{kind:<11} {size:>10,} {built} {found['open']:8.2f}  {memory}")
        say(f"\nµs an instant                 1,000 in memory, then stored: {', '.join(f'{size:,}' for size in sizes)}")
        for kind in ("irrelevant", "relevant"):
            say(own_process("timing", str(folder), kind, *map(str, sizes)))


def build_one(folder: Path) -> None:
    """Builds the store of a world; prints what it takes."""
    start = time.process_time()
    store = program(folder, "graphs", True).store
    seconds = time.process_time() - start
    assert store is not None
    sizes = {name: section.length for name, section in store.file.sections.items()}
    terms = sum(sizes[name] for name in ("ends", "high", "buckets", "marks", "numbers")) / store.summary.terms
    say(
        f"{len(store.index):>10,} {store.summary.derived:>9,} {store.summary.terms:>10,} {store.file.size / 1e6:8.1f} "
        f"{sizes['triples'] / len(store.index):8.2f} {terms:7.2f} {seconds:8.1f} {peak():8,}"
    )


def own_process(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.background", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    grow = commands.add_parser("growing")
    grow.add_argument("--largest", type=int, default=1_000_000)
    for name in ("worker", "build", "timing"):
        commands.add_parser(name).add_argument("arguments", nargs="+")
    options = parser.parse_args()
    match options.command:
        case "growing":
            growing(options.largest)
        case "worker":
            folder, kind, size = options.arguments
            worker(Path(folder), kind, int(size))
        case "timing":
            folder, kind, *sizes = options.arguments
            timing(Path(folder), kind, [int(size) for size in sizes])
        case _:
            build_one(Path(options.arguments[0]))


if __name__ == "__main__":
    main()
