"""Distinct queries over one instant: the cost of stage one, beside pyoxigraph on the same triples.

    python -m benchmarks.queries [--queries 20] [--background 100000] [--instants 3000]

Four programs: queries that share a core of three triple patterns and differ in a fourth; queries
that share only the streamed pattern, and join two patterns of the background with it; queries of
which an instant concerns one, with a path, and without. About one answer a query. Prints microseconds of CPU an instant
(pyoxigraph, in the same run: add the instant's triples, evaluate every query, remove the triples).
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyoxigraph import Quad, QuerySolutions, RdfFormat, Store, parse

from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.background.loading import load_graphs
from dotr.instant.stage_one import StageOne
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Instant
from dotr.model.terms import Triple
from dotr.syntax.turtle.graphs import read_graph

PREFIX = "http://example.org/dotr#"
PREFIXES = {"": PREFIX}

SENSORS = 3_500
CORE = "?r :from ?s . ?s :in ?room . ?room :floor ?f"
PROGRAMS: dict[str, Callable[[int], str]] = {
    "one core of three patterns": lambda k: f"SELECT ?r ?room ?x WHERE {{ {CORE} . ?room :attribute{k} ?x }}",
    "one streamed pattern": lambda k: f"SELECT ?r ?x ?y WHERE {{ ?r :from ?s . ?s :leads{k} ?x . ?x :attribute{k} ?y }}",
    "a path beside a pattern": lambda k: f"SELECT ?r ?p ?x WHERE {{ ?r :seen{k} ?s . ?s (:in|:floor)+ ?p . ?p :attribute{k} ?x }}",
    "one query of them all": lambda k: f"SELECT ?r ?s ?x WHERE {{ ?r :seen{k} ?s . ?s :in ?room . ?room :attribute{k} ?x }}",
}
RULE = "rule R{k} define E{k} = [ [] a :E ] from Q{k} = [ {query} ]\n"


def background(size: int, queries: int) -> str:
    """Sensors in rooms on floors, and as many attributes of rooms as are needed for the number of triples."""
    random_ = random.Random(1)
    rooms = SENSORS
    lines = [f":sensor{s} :in :room{s % rooms} ." for s in range(SENSORS)]
    lines += [f":room{r} :floor :floor{r % 10} ." for r in range(rooms)]
    lines += [f":sensor{s} :leads{k} :room{random_.randrange(rooms)} ." for k in range(queries) for s in range(0, SENSORS, 4)]
    lines += [f":room{n % rooms} :attribute{n // rooms % queries} :value{n} ." for n in range(max(0, size - len(lines)))]
    return f"@prefix : <{PREFIX}> .\n" + "\n".join(lines)


def loaded(turtle: str) -> list[Triple]:
    """The triples of the background, read from a file as in a program, so that equal terms are one string."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "background.ttl")
        path.write_text(turtle, encoding="utf-8")
        return load_graphs([path])


def instants(number: int, queries: int) -> list[str]:
    """One reading each: its sensor and its value."""
    random_ = random.Random(2)

    def sensor() -> int:
        return random_.randrange(SENSORS)

    return [f":r{n} :from :sensor{sensor()} ; :seen{random_.randrange(queries)} :sensor{sensor()} ; :value {n} ." for n in range(number)]


def ours(texts: Sequence[str], triples: Sequence[Triple], stream: Sequence[str]) -> tuple[float, int]:
    """Microseconds an instant, and the total number of answers."""
    rules = "".join(RULE.format(k=k, query=text) for k, text in enumerate(texts))
    program = compile_program(ProgramSpec(rules=(Document("queries.dotr", f"PREFIX : <{PREFIX}>\n{rules}"),), prefixes=PREFIXES))
    stage = StageOne(Knowledge.load(triples, ()), program.layout.streams)
    made = [Instant(n, read_graph(text, PREFIXES, 64)) for n, text in enumerate(stream)]
    for instant in made[:100]:
        stage.evaluate(instant)
    start = time.process_time()
    found = 0
    for instant in made:
        for rows in stage.evaluate(instant).facts.values():
            found += len(rows)
    return (time.process_time() - start) / len(made) * 1e6, found


def theirs(texts: Sequence[str], turtle: str, stream: Sequence[str]) -> tuple[float, int]:
    """The same by pyoxigraph, including answers over the background alone."""
    store = Store()
    store.load(turtle.encode(), RdfFormat.TURTLE)
    queries = [f"PREFIX : <{PREFIX}> {text}" for text in texts]
    made = [[Quad(*triple) for triple in parse(f"@prefix : <{PREFIX}> . {text}", RdfFormat.TURTLE)] for text in stream]
    start = time.process_time()
    found = 0
    for quads in made:
        for quad in quads:
            store.add(quad)
        for query in queries:
            solutions = store.query(query)
            assert isinstance(solutions, QuerySolutions)
            found += sum(1 for _ in solutions)
        for quad in quads:
            store.remove(quad)
    return (time.process_time() - start) / len(made) * 1e6, found


def main() -> None:
    """Measure the four programs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--background", type=int, default=100_000)
    parser.add_argument("--instants", type=int, default=3_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    turtle = background(options.background, options.queries)
    triples = loaded(turtle)
    stream = instants(options.instants, options.queries)
    for name, query in PROGRAMS.items():
        texts = [query(k) for k in range(options.queries)]
        mine = sorted(ours(texts, triples, stream) for _ in range(options.runs))
        few = stream[: max(50, options.instants // 20)]
        other, found = theirs(texts, turtle, few)
        assert found == ours(texts, triples, few)[1], "both find the same number of answers"
        print(  # noqa: T201
            f"{options.queries} queries, {name}: {mine[0][0]:.1f} µs an instant (worst {mine[-1][0]:.1f}), "
            f"{mine[0][1] / len(stream):.1f} answers; pyoxigraph {other:.0f} µs"
        )


if __name__ == "__main__":
    main()
