"""Rule-test files and RDF texts read for the oracle (interface.md, A rule test), with no code of the engine except the languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, parse
from pyoxigraph import Triple as TripleTerm

from dotr.engine.spec import RuleSet
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.rules import Rule
from dotr.model.stream import Element
from dotr.model.terms import Label, Term, Triple, blank, iri, literal
from dotr.model.time import Clock, Micros, Unit
from dotr.syntax.datalog import parse_datalog
from tests.oracle.isomorphism import canonical
from tests.oracle.program import ReportedFact, World
from tests.oracle.temporal import Output
from tests.oracle.triple_terms import with_names
from tests.oracle.values import read_moment

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where PyYAML has that: a tenth of the time
UNITS = {"us": Unit.MICROSECOND, "ms": Unit.MILLISECOND, "s": Unit.SECOND, "min": Unit.MINUTE, "h": Unit.HOUR, "d": Unit.DAY}

Signature = tuple[Micros, Label, str | None, str | None]
"""Time, label, canonical attributes and canonical graph; None where a case does not say."""


@dataclass(frozen=True)
class Case:
    """`events`: the labels whose outputs are compared; None: all but internal ones."""

    name: str
    elements: tuple[Element, ...]
    clock: Clock
    expect: tuple[Signature, ...] | None
    facts: tuple[Signature, ...] | None
    events: frozenset[Label] | None = None

    def compared(self, rules: Sequence[Rule], outputs: Iterable[Output]) -> list[Output]:
        """The outputs that the case compares."""
        internal = {rule.event for rule in rules if rule.internal}
        return [each for each in outputs if (each.event not in internal if self.events is None else each.event in self.events)]


@dataclass(frozen=True, eq=False)
class CaseFile:
    """A file of cases; compared by identity, so that results can be cached by file."""

    rules: tuple[Path, ...]
    graphs: tuple[Path, ...]
    datalog: tuple[Path, ...]
    entailment: str
    prefixes: Mapping[str, str]
    unit: Unit
    cases: tuple[Case, ...]


@cache
def read_folder(folder: Path) -> dict[str, CaseFile]:
    """The files of a folder by name, read once."""
    return {path.name: read_cases(path) for path in sorted(folder.glob("*.yaml"))}


def read_cases(path: Path) -> CaseFile:
    data = yaml.load(path.read_text(), _LOADER)
    assert data.keys() <= {"rules", "knowledge", "prefixes", "time", "events", "cases"}
    knowledge, prefixes = data.get("knowledge", {}), data.get("prefixes", {})
    unit = UNITS[data.get("time", {}).get("unit", "s")]

    def time(at: int | str) -> Micros:
        if isinstance(at, int):
            return at * unit.value
        moment = read_moment(at.replace(" ", "T"))
        assert moment is not None
        return int(moment.seconds * 1_000_000)

    def term(text: str) -> Term:
        ((_, _, found),) = read_turtle(f"<urn:s> <urn:p> {text} .", prefixes)
        return found

    def signature(expected: dict[str, object], label: str) -> Signature:
        attributes, graph, at = expected.get("attributes"), expected.get("graph"), expected["at"]
        assert isinstance(at, int | str)
        if label == "fact":
            attributes = attributes or {}
        assert attributes is None or isinstance(attributes, dict)
        return (
            time(at),
            str(expected[label]),
            None if attributes is None else canonical([], {name: term(text) for name, text in attributes.items()}),
            None if graph is None else canonical(read_turtle(str(graph), prefixes)),
        )

    cases = []
    for case in data["cases"]:
        assert case.keys() <= {"name", "stream", "expect", "facts", "events"}
        elements = tuple(Element(time(e["at"]), read_turtle(e["graph"], prefixes)) for e in case["stream"])
        clock = Clock(unit, dated=any(isinstance(e["at"], str) for e in case["stream"]))
        expect = tuple(signature(e, "event") for e in case["expect"]) if "expect" in case else None
        facts = tuple(signature(f, "fact") for f in case["facts"]) if "facts" in case else None
        events = case.get("events", data.get("events"))
        cases.append(Case(case["name"], elements, clock, expect, facts, None if events is None else frozenset(events)))
    return CaseFile(
        tuple(path.parent / name for name in data["rules"]),
        tuple(path.parent / name for name in knowledge.get("graphs", [])),
        tuple(path.parent / name for name in knowledge.get("datalog", [])),
        knowledge.get("entailment", "none"),
        prefixes,
        unit,
        tuple(cases),
    )


def read_world(
    rules: Sequence[tuple[str, str]],
    graphs: Sequence[str] = (),
    datalog: Sequence[tuple[str, str]] = (),
    entailment: str = "none",
    prefixes: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> World:
    """A program from its texts: rule and Datalog files with their names, Turtle graphs."""
    read = compile_rules([Document(name, text) for name, text in rules], prefixes or {})
    assert not read.errors, "\n".join(map(str, read.errors))
    return world(read, graphs, datalog, entailment, prefixes, clock)


def world(
    read: RuleSet,
    graphs: Sequence[str],
    datalog: Sequence[tuple[str, str]],
    entailment: str,
    prefixes: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> World:
    """A program of rules that have been read."""
    return World(
        read.rules,
        read.queries,
        tuple(rule for name, text in datalog for rule in parse_datalog(Document(name, text), prefixes or {})),
        frozenset(t for i, text in enumerate(graphs) for t in apart(read_turtle(text, prefixes or {}), f"g{i}-")),
        entailment,
        clock or Clock(),
    )


def read_turtle(text: str, prefixes: Mapping[str, str]) -> tuple[Triple, ...]:
    header = "".join(f"@prefix {name}: <{namespace}> .\n" for name, namespace in prefixes.items())
    quads = parse(header + text, RdfFormat.TURTLE)
    found = ((read_term(q.subject), read_term(q.predicate), read_term(q.object)) for q in quads)
    return tuple(apart(found, ""))


def read_term(node: object) -> Term:
    if isinstance(node, NamedNode):
        return iri(node.value)
    if isinstance(node, BlankNode):
        return blank(node.value)
    if isinstance(node, TripleTerm):
        return f"<<( {' '.join(map(read_term, node))} )>>"
    assert isinstance(node, Literal)
    direction = f"--{node.direction}" if node.direction else ""
    return literal(node.value, node.datatype.value, (node.language or "") + direction)


def apart(triples: Iterable[Triple], name: str) -> list[Triple]:
    """With blank nodes renamed: the name, and a number by appearance."""
    numbers: dict[Term, Term] = {}

    def renamed(term: Term) -> Term:
        return with_names(term, lambda node: numbers.setdefault(node, blank(f"{name}{len(numbers)}")))

    return [(renamed(s), p, renamed(o)) for s, p, o in triples]


def difference(expected: Sequence[Signature], actual: Sequence[Output | ReportedFact]) -> str:
    """The missing and the unexpected outputs as text; empty if there are none.

    An expected output may leave out the attributes or the graph, alike for all of one label and time.
    """
    forms: dict[tuple[Micros, Label], set[tuple[bool, bool]]] = {}
    for time, label, attributes, graph in expected:
        forms.setdefault((time, label), set()).add((attributes is not None, graph is not None))
    assert all(len(kinds) == 1 for kinds in forms.values()), "one label and time, two ways of saying what is expected"
    found: Counter[Signature] = Counter()
    for item in actual:
        label = item.event if isinstance(item, Output) else item.label
        ((with_attributes, with_graph),) = forms.get((item.time, label), {(True, False)})
        attributes = canonical([], item.attributes) if with_attributes else None
        graph = canonical(item.graph) if with_graph and isinstance(item, Output) else None
        found[(item.time, label, attributes, graph)] += 1
    wanted = Counter(expected)
    lines = [("- expected ", s) for s in (wanted - found).elements()] + [("+ got      ", s) for s in (found - wanted).elements()]
    return "\n".join(
        f"{sign}at {time}: {label}\n{readable(attributes)}\n{readable(graph)}" for sign, (time, label, attributes, graph) in lines
    )


def readable(text: str | None) -> str:
    """A canonical text without the parts that only serve comparison."""
    rows = re.findall(r'(_:\S+) <urn:row:(\d)-(\d)> (_:\S+|".*")$', text or "", re.MULTILINE)
    grouped: dict[str, list[str]] = {}
    for row, _, _, value in sorted(rows):
        grouped.setdefault(row, []).append(value)
    return "\n".join("    " + " ".join(values) for values in sorted(grouped.values()))
