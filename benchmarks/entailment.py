"""Cost of equal names and of schema in the stream: `python -m benchmarks.entailment`."""

from __future__ import annotations

import sys
from resource import RUSAGE_SELF, getrusage
from time import process_time

from benchmarks.closure import building, measure, readings, report, term
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.terms import OWL, RDF_TYPE, RDFS, Triple, iri

SAME = iri(OWL + "sameAs")


def clique(tag: str, size: int, each: int) -> list[Triple]:
    """Equal names, with triples of their own."""
    triples = [(term(f"{tag}0"), SAME, term(f"{tag}{n}")) for n in range(1, size)]
    return triples + [(term(f"{tag}{n}"), term(f"p{m}"), term(f"{tag}{n}_{m}")) for n in range(size) for m in range(each)]


def loaded(name: str, triples: list[Triple]) -> Knowledge:
    start = process_time()
    knowledge = Knowledge.load(triples, rule_set(Entailment.OWL2RL))
    seconds, peak = process_time() - start, getrusage(RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{name:<70} {seconds:8.3f} s   {len(knowledge.background):,} triples, process at {peak:.0f} MB\n")
    return knowledge


def instant(name: str, knowledge: Knowledge, triples: list[Triple]) -> None:
    """Seconds of one instant: the least of a few repeats."""
    best = float("inf")
    for _ in range(5):
        start = process_time()
        found = len(knowledge.close(triples).delta)
        best = min(best, process_time() - start)
    sys.stdout.write(f"{name:<70} {best * 1e3:8.3f} ms  {found:,} new\n")


def main() -> None:
    empty = Knowledge.load([(term("f"), RDF_TYPE, iri(OWL + "FunctionalProperty"))], rule_set(Entailment.OWL2RL))
    for size in (10, 100, 1_000):
        one = loaded(f"background: {size:,} equal names, 4 triples each", clique("a", size, 4))
        instant("  a triple of one of them", one, [(term("a1"), term("p0"), term("new"))])
        instant("  one more name", one, [(term("a1"), SAME, term("new"))])
        instant("  a triple of another", one, [(term("z"), term("p0"), term("new"))])
        two = Knowledge.load([*clique("a", size, 4), *clique("b", size, 4)], rule_set(Entailment.OWL2RL))
        instant("  an instant that joins two such", two, [(term("a1"), SAME, term("b1"))])
        instant(f"  {size:,} values of a functional property", empty, [(term("x"), term("f"), term(f"v{n}")) for n in range(size)])
    rdfs, owl = (Knowledge.load(building(50), rule_set(each)) for each in (Entailment.RDFS, Entailment.OWL2RL))
    four = readings(500)
    schema = (term("Temp"), iri(RDFS + "subClassOf"), term("Measured"))
    for name, knowledge in (("RDFS", rdfs), ("OWL 2 RL", owl)):
        report(f"4 triples, {name}", knowledge, four)
        report(f"4 triples and a subclass axiom of the stream's own, {name}", knowledge, [[*graph, schema] for graph in four])
        assert measure(knowledge, four[:1])[1] == len(knowledge.close(four[0]).delta), "an instant leaves something behind"


if __name__ == "__main__":
    main()
