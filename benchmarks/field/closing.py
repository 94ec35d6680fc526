"""Closure of an ontology and its instances under OWL 2 RL, from a file of N-Triples.

`benchmarks/closing.py` measures the same closures without reading. Systems differ in the axioms,
reflexive triples and types of literals that they add, so only triples about the data are counted:
their subject is a name of the ontology, and so is their predicate or, for rdf:type, their class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.closing import INVERSE, nemo_rule, nemo_rules, ontology
from benchmarks.closure import DOMAIN, PREFIX, RANGE, SUBCLASS, SUBPROPERTY, term
from benchmarks.field.measuring import Case, Effort, Start
from benchmarks.field.peers import python
from benchmarks.field.works import Scale, Text, Work
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_TYPE, Triple, iri
from dotr.syntax.datalog import parse_datalog

PEERS: Final = "benchmarks.field.closing_peers"


def says_something(subject: str, predicate: str, thing: str) -> bool:
    """True for a triple about the data, given as texts of N-Triples."""
    name = "<" + PREFIX
    return subject.startswith(name) and (predicate.startswith(name) or (predicate == RDF_TYPE and thing.startswith(name)))


def by_definition(given: Iterable[Triple]) -> int:
    """Number of such triples in the least set closed under the rows of OWL 2 RL that these data need."""
    closed, waiting = set[Triple](), list(given)
    above: dict[tuple[str, str], list[str]] = defaultdict(list)
    for subject, predicate, thing in waiting:
        above[predicate, subject].append(thing)
        if predicate == INVERSE:
            above[predicate, thing].append(subject)
    transitive = {subject for subject, predicate, thing in waiting if (predicate, thing) == (RDF_TYPE, iri(OWL + "TransitiveProperty"))}
    after: dict[tuple[str, str], set[str]] = defaultdict(set)
    before: dict[tuple[str, str], set[str]] = defaultdict(set)
    while waiting:
        triple = subject, predicate, thing = waiting.pop()
        if triple in closed:
            continue
        closed.add(triple)
        if predicate == RDF_TYPE:
            waiting += [(subject, RDF_TYPE, each) for each in above[SUBCLASS, thing]]
            continue
        waiting += [(subject, each, thing) for each in above[SUBPROPERTY, predicate]]
        waiting += [(subject, RDF_TYPE, each) for each in above[DOMAIN, predicate]]
        waiting += [(thing, RDF_TYPE, each) for each in above[RANGE, predicate]]
        waiting += [(thing, each, subject) for each in above[INVERSE, predicate]]
        if predicate in transitive:
            after[predicate, subject].add(thing)
            before[predicate, thing].add(subject)
            waiting += [(subject, predicate, each) for each in after[predicate, thing]]
            waiting += [(each, predicate, thing) for each in before[predicate, subject]]
    return sum(says_something(*triple) for triple in closed)


def restrictions(count: int) -> list[Triple]:
    """As many restrictions on one property, each with an instance; tens of their fillers have one class above them."""
    triples: list[Triple] = []
    for n in range(count):
        restriction, filler = term(f"has_{n}"), term(f"Part_{n}")
        triples += [
            (restriction, iri(OWL + "onProperty"), term("part")),
            (restriction, iri(OWL + "someValuesFrom"), filler),
            (term(f"x{n}"), RDF_TYPE, restriction),
        ]
        if n % 10:
            triples.append((filler, SUBCLASS, term(f"Part_{n - n % 10}")))
    return triples


def devices(count: int) -> list[Triple]:
    """Devices in rooms of one floor; a door leads from each room to one other."""
    triples: list[Triple] = []
    for n in range(count):
        triples += [
            (term(f"d{n}"), term("at"), term(f"r{n}")),
            (term(f"d{n}"), term("floor"), term("ground")),
            (term(f"r{n}"), term("door"), term(f"r{n * 7 % count}")),
        ]
    return triples


def near() -> list[DatalogRule]:
    """Devices of one floor, in rooms with a door between them: one atom is shared by all, another is selective."""
    text = ":near[?a, ?b] :- :at[?a, ?x], :floor[?a, ?f], :at[?b, ?y], :floor[?b, ?f], :door[?x, ?y] ."
    return list(parse_datalog(Document("near.dlog", f"PREFIX : <{PREFIX}>\n{text}"), {}))


def ours(path: str, rules: str) -> Callable[[], int]:
    """dotr's closure in bulk."""
    from dotr.instant.datalog.entailment import Entailment, rule_set

    return _closed_by(path, rule_set(Entailment.OWL2RL))


def ours_by_rule(path: str, rules: str) -> Callable[[], int]:
    """dotr's closure in bulk, by a rule of Datalog."""
    return _closed_by(path, near())


def _closed_by(path: str, rules: Sequence[DatalogRule]) -> Callable[[], int]:
    from dotr.instant.datalog.background.knowledge import close_background, without_collection
    from dotr.instant.datalog.background.loading import load_graphs

    def run() -> int:
        with without_collection():
            closed = close_background(load_graphs([path]), rules)
        count = 0
        for predicate, triples in closed.by_predicate.items():
            if predicate.startswith("<" + PREFIX) or predicate == RDF_TYPE:
                count += sum(says_something(*triple) for triple in triples)
        return count

    return run


def nemo_alone(arguments: tuple[str, str]) -> dict[str, Start]:
    return {"nemo": partial(python, ["nemo-python"], f"{PEERS}:nemo", *arguments)}


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """Closures small enough for owlrl, and larger ones without it."""
    once = Effort(warm_runs=4, warm_seconds=30)
    for size, largest in ((2_000, True), (10_000, False), (200_000, False)):
        if scale is not Scale.FULL and size == 200_000:
            continue
        size = max(200, size // 10) if scale is Scale.HUNDREDTH else size
        triples = ontology(size)
        path = folder / f"given-{size}.nt"
        path.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in triples), encoding="utf-8")
        (folder / "nemo.rules").write_text("\n".join(nemo_rules(ontology(100))), encoding="utf-8")
        arguments = (str(path), str(folder / "nemo.rules"))
        others: dict[str, Start] = {
            "nemo": partial(python, ["nemo-python"], f"{PEERS}:nemo", *arguments),
            "reasonable": partial(python, ["reasonable", "rdflib"], f"{PEERS}:reasonable", *arguments),
        }
        if largest:
            others["owlrl"] = partial(python, ["owlrl", "rdflib"], f"{PEERS}:owlrl", *arguments)
        yield Case(
            name=f"{len(triples):,} triples",
            parameters={"triples": len(triples)},
            unit="given triple",
            units=len(triples),
            expected=by_definition(triples),
            own=("benchmarks.field.closing:ours", *arguments),
            others=others,
            effort=once,
        )
    for count in (1_000, 4_000):
        count = count // 100 if scale is Scale.HUNDREDTH else count
        triples = restrictions(count)
        path = folder / f"restrictions-{count}.nt"
        path.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in triples), encoding="utf-8")
        (folder / "restrictions.rules").write_text("\n".join(nemo_rules(restrictions(20))), encoding="utf-8")
        arguments = (str(path), str(folder / "restrictions.rules"))
        yield Case(
            name=f"{count:,} restrictions on one property",
            parameters={"triples": len(triples)},
            unit="given triple",
            units=len(triples),
            # Each instance is in its own restriction, and in that of the class above the filler (scm-svf1, cax-sco).
            expected=count + sum(n % 10 > 0 for n in range(count)),
            own=("benchmarks.field.closing:ours", *arguments),
            # reasonable has no scm-svf1; nemo takes half a minute for 4,000.
            others=nemo_alone(arguments) if count <= 1_000 else {},
            effort=once,
        )
        triples = devices(count)
        path = folder / f"devices-{count}.nt"
        path.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in triples), encoding="utf-8")
        (folder / "near.rules").write_text("\n".join(map(nemo_rule, near())), encoding="utf-8")
        arguments = (str(path), str(folder / "near.rules"))
        yield Case(
            name=f"{count:,} devices on one floor",
            parameters={"triples": len(triples)},
            unit="given triple",
            units=len(triples),
            expected=len(triples) + count,
            own=("benchmarks.field.closing:ours_by_rule", *arguments),
            others=nemo_alone(arguments) if count <= 1_000 else {},
            effort=once,
        )


def texts() -> Iterator[Text]:
    """The rules of nemo; the others have OWL 2 RL by name."""
    yield Text("nemo: the rows of OWL 2 RL that derive something here", "", "\n".join(nemo_rules(ontology(100))))


WORK: Final = Work(
    name="closing",
    title="Closure under OWL 2 RL, from N-Triples",
    packages=("dotr/instant/datalog", "dotr/evaluation/joins", "dotr/evaluation/codegen", "dotr/evaluation/triples"),
    minutes=3,
    cases=cases,
    axis="triples",
    headlines={"200,215 triples": "a triple of 200,215, closed under OWL 2 RL"},
    texts=texts,
)
