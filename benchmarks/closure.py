"""Closure of an instant, in microseconds: the cases for which `dotr.instant.datalog` was built.

    python -m benchmarks.closure

A timing is the best of several rounds, after the first instants, which compile the delta rules.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Sequence
from time import process_time

from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import RDF_TYPE, RDFS, Triple, iri
from dotr.syntax.datalog import parse_datalog

PREFIX = "http://example.org/building#"
SUBCLASS, DOMAIN, RANGE, SUBPROPERTY = (iri(RDFS + name) for name in ("subClassOf", "domain", "range", "subPropertyOf"))


def term(name: str) -> str:
    return f"<{PREFIX}{name}>"


def building(rooms: int) -> list[Triple]:
    """A class hierarchy, domains and ranges, and rooms in floors in buildings."""
    schema = [
        ("Temp", SUBCLASS, "Reading"),
        ("Reading", SUBCLASS, "Observation"),
        ("Observation", SUBCLASS, "Event"),
        ("is_from_sensor", RANGE, "Sensor"),
        ("Sensor", SUBCLASS, "Device"),
        ("has_val", DOMAIN, "Reading"),
        ("is_at_location", DOMAIN, "Located"),
        ("is_at_location", RANGE, "Location"),
    ]
    triples = [(term(s), p, term(o)) for s, p, o in schema]
    for room in range(rooms):
        triples.append((term(f"loc{room}"), term("is_in_room"), term(f"room{room}")))
        triples.append((term(f"room{room}"), term("part_of"), term(f"floor{room % 100}")))
    triples += [(term(f"floor{floor}"), term("part_of"), term("building")) for floor in range(100)]
    return triples


RULES = """
:is_in_room(?a, ?b) :- :is_at_location(?a, ?c), :is_in_room(?c, ?b) .
:inside(?a, ?b) :- :is_in_room(?a, ?b) .
:inside(?a, ?c) :- :inside(?a, ?b), :part_of(?b, ?c) .
"""


def datalog(text: str) -> list[DatalogRule]:
    return list(parse_datalog(Document("bench.dlog", text), {"": PREFIX}))


def measure(knowledge: Knowledge, graphs: Sequence[Sequence[Triple]]) -> tuple[float, float]:
    """Microseconds and new triples an instant."""
    found = sum(len(knowledge.close(graph).delta) for graph in graphs) / len(graphs)
    best = float("inf")
    for _ in range(15):
        start = process_time()
        for graph in graphs:
            knowledge.close(graph)
        best = min(best, process_time() - start)
    return best / len(graphs) * 1e6, found


def readings(count: int, first: int = 0) -> list[list[Triple]]:
    return [
        [
            (term(f"r{n}"), RDF_TYPE, term("Temp")),
            (term(f"r{n}"), term("has_val"), f'"{60 + n % 20}"^^<http://www.w3.org/2001/XMLSchema#integer>'),
            (term(f"r{n}"), term("is_from_sensor"), term(f"s{n}")),
            (term(f"s{n}"), term("is_at_location"), term(f"loc{n % 50}")),
        ]
        for n in range(first, first + count)
    ]


def report(name: str, knowledge: Knowledge, graphs: Sequence[Sequence[Triple]]) -> None:
    micros, found = measure(knowledge, graphs)
    sys.stdout.write(f"{name:<70} {micros:8.2f} µs  {found:6.1f} new\n")


def timed(name: str, triples: Sequence[Triple], rules: Sequence[DatalogRule]) -> Knowledge:
    start = process_time()
    knowledge = Knowledge.load(triples, rules)
    sys.stdout.write(f"{name:<70} {process_time() - start:8.2f} s   {len(triples)} loaded, {knowledge.derived} derived\n")
    return knowledge


def idle_rules(four: Sequence[Sequence[Triple]], count: int = 100_000) -> None:
    """Rules that no triple triggers: time to read and compile them, their memory, their cost to instants."""
    rules = [*rule_set(Entailment.RDFS), *datalog(RULES)]
    text = "\n".join(f":p{n}(?a, ?b) :- :q{n}(?a, ?c), :r{n}(?c, ?b) ." for n in range(count // 5))
    text += "\n" + "\n".join(f":D{n}(?a) :- :C{n}(?a) ." for n in range(count - count // 5))
    one = Knowledge.load(building(50), [*rules, *datalog(":D(?a) :- :C(?a) .")])
    start = process_time()
    idle = datalog(text)
    read = process_time()
    many = Knowledge.load(building(50), [*rules, *idle])
    compiled = process_time()
    sys.stdout.write(f"{count:,} idle rules: read in {(read - start) / count * 1e6:.1f} µs a rule, ")
    sys.stdout.write(f"compiled in {(compiled - read) / count * 1e6:.1f} µs a rule\n")
    best = [float("inf"), float("inf")]
    for _ in range(100):
        for number, knowledge in enumerate((one, many)):
            start = process_time()
            for graph in four:
                knowledge.close(graph)
            best[number] = min(best[number], (process_time() - start) / len(four) * 1e6)
    sys.stdout.write(
        f"{'4 triples beside 1 idle rule, and beside so many':<70} {best[0]:8.2f} µs {best[1]:8.2f} µs, x {best[1] / best[0]:.2f}\n"
    )
    start = process_time()
    for n in range(2000):
        many.close([(term("a"), term(f"q{n}"), term("b"))])
    sys.stdout.write(f"{'a rule at its first use':<70} {(process_time() - start) / 2000 * 1e6:8.2f} µs\n")
    del many, idle
    gc.collect()
    tracemalloc.start()
    held = Knowledge.load(building(50), [*rules, *datalog(text)])
    gc.collect()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sys.stdout.write(
        f"{'memory of an idle rule; at most while they are compiled':<70} {kept / count / 1024:8.2f} KB {peak / count / 1024:8.2f} KB\n"
    )
    del held


def main() -> None:
    rdfs, owl = list(rule_set(Entailment.RDFS)), list(rule_set(Entailment.OWL2RL))
    rules = datalog(RULES)
    four = readings(500)
    one = [[(term(f"r{n}"), term("seen"), term("x"))] for n in range(500)]
    small = Knowledge.load(building(50), [*rdfs, *rules])
    report("1 triple, nothing derived", small, one)
    report("4 triples, RDFS and three rules", small, four)
    report("the same under OWL 2 RL", Knowledge.load(building(50), [*owl, *rules]), four)
    twenty = [[triple for graph in four[n : n + 5] for triple in graph] for n in range(0, 500, 5)]
    report("20 triples", small, twenty)
    big = timed("closing 200k triples under RDFS and three rules", building(100_000), [*rdfs, *rules])
    report("4 triples over it", big, four)
    things = [(term(f"r{n}"), RDF_TYPE, term("Temp")) for n in range(50_000)]
    things += [(term(f"r{n}"), term("is_from_sensor"), term(f"s{n}")) for n in range(50_000)]
    timed("closing 100k instance triples under RDFS", [*building(50), *things], rdfs)
    timed("closing 100k instance triples under OWL 2 RL", [*building(50), *things], owl)
    idle_rules(four)


if __name__ == "__main__":
    main()
