"""Rule tests: a stream, and the output and the facts that it must lead to (interface.md, A rule test)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError
from pyoxigraph import CanonicalizationAlgorithm, Dataset, RdfFormat, parse

from dotr.config import (
    Files,
    KnowledgeSection,
    Section,
    TimeSection,
    Tree,
    existing,
    read_config,
    read_document,
    read_tree,
    schema_problems,
)
from dotr.diagnostics import Diagnostic, Refused, refuse
from dotr.engine.instants import merge
from dotr.engine.program import Program, compile_program
from dotr.engine.session import Engine
from dotr.expressions.times import written
from dotr.io.times import parse_time
from dotr.languages.turtle.graphs import read_graph
from dotr.model.places import Span
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import Clock, Micros, Unit


class ElementSection(Section):
    """An element of a test's stream."""

    at: int | str
    graph: str = ""


class ExpectedSection(Section):
    """An expected output: of an event, a graph up to the names of blank and generated nodes, or all of its attributes."""

    at: int | str
    event: str | None = None
    rule: str | None = None
    graph: str | None = None
    attributes: dict[str, str] | None = None


class FactSection(Section):
    """An expected fact of interest, with all of its attributes."""

    at: int | str
    fact: str
    attributes: dict[str, str] = Field(default={})


class CaseSection(Section):
    """One case."""

    name: str = Field(min_length=1)
    stream: list[ElementSection]
    expect: list[ExpectedSection] | None = None
    facts: list[FactSection] | None = None


class TestSection(Section):
    """A file of cases over one program."""

    config: str | None = None
    rules: list[str] = Field(default=[])
    knowledge: KnowledgeSection = KnowledgeSection()
    prefixes: dict[str, str] = Field(default={})
    time: TimeSection = TimeSection()
    cases: list[CaseSection] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case went; `difference` is empty where it passed."""

    file: str
    case: str
    difference: str


def run_tests(paths: Sequence[str]) -> Iterator[Outcome]:
    """Run the tests in these files, or in all .yaml files below these folders; raises `Refused` for a file that is no rule test."""
    for path in paths:
        files = sorted(map(str, Path(path).rglob("*.yaml"))) if Path(path).is_dir() else existing(path, None)
        if not files:
            raise refuse("C301", f"there is no rule test below {path}", None, "A rule test is a .yaml file.")
        for file in files:
            yield from run_file(file)


def read_file(path: str) -> tuple[TestSection, Tree]:
    """A file of cases; raises `Refused` with every problem of its form."""
    tree = read_tree(read_document(path))
    try:
        return TestSection.model_validate(tree.data), tree
    except ValidationError as error:
        raise Refused(schema_problems(error, tree, TestSection)) from None


def check_file(path: str) -> list[Diagnostic]:
    """The problems of a file of cases and of the program it tests; may raise them as `Refused` instead."""
    section, tree = read_file(path)
    return list(_program(section, tree, path)[0].warnings)


def run_file(path: str) -> Iterator[Outcome]:
    """The outcomes of one file's cases."""
    section, tree = read_file(path)
    program, prefixes, unit = _program(section, tree, path)
    for number, case in enumerate(section.cases):
        yield Outcome(path, case.name, _Case(program, prefixes, unit, tree, number).difference(case))


def _program(section: TestSection, tree: Tree, path: str) -> tuple[Program, Mapping[str, str], Unit]:
    """The program under test, the prefixes of the file's graphs, and the unit of its times."""
    if section.config is None:
        if not section.rules:
            raise refuse("C202", "rules is missing", tree.place(()), "Name the rule files, or a `config` that does.")
        spec = Files(tree, Path(path).parent).program(section.rules, section.knowledge, section.prefixes, section.time)
        return compile_program(spec), section.prefixes, spec.unit
    if section.rules or "knowledge" in section.model_fields_set or "time" in section.model_fields_set:
        raise refuse("C204", "a test has either `config`, or `rules`, `knowledge` and `time` of its own", tree.place(("config",)))
    config = read_config(existing(str(Path(path).parent / section.config), tree.place(("config",)))[0])
    spec = config.program()
    return compile_program(spec), {**spec.prefixes, **section.prefixes}, spec.unit


@dataclass(frozen=True, slots=True)
class _Seen:
    """An output or a fact, made comparable: graphs with generated names made alike, attributes as terms."""

    time: Micros
    kind: str
    rule: str
    attributes: Mapping[Variable, Term]
    graph: frozenset[str] | None

    def answers(self, wanted: _Wanted) -> bool:
        return (
            self.time == wanted.time
            and wanted.kind in (None, self.kind)
            and wanted.rule in (None, self.rule)
            and wanted.attributes in (None, self.attributes)
            and wanted.graph in (None, self.graph)
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a test expects: None where it does not say."""

    time: Micros
    kind: str | None
    rule: str | None
    attributes: Mapping[Variable, Term] | None
    graph: frozenset[str] | None


class _Case:
    """Runs one case; places of errors are those of case number `number` in the tree."""

    def __init__(self, program: Program, prefixes: Mapping[str, str], unit: Unit, tree: Tree, number: int) -> None:
        self.program = program
        self.prefixes = prefixes
        self.unit = unit
        self.tree = tree
        self.number = number

    def difference(self, case: CaseSection) -> str:
        """What the case's output and facts differ in from what it expects; empty where they do not."""
        times = [self._time(element.at, "stream", k) for k, element in enumerate(case.stream)]
        dated = any(isinstance(element.at, str) and not element.at.lstrip("-").isdigit() for element in case.stream)
        clock = Clock(self.unit, dated)
        elements: dict[Micros, list[tuple[Triple, ...]]] = {}
        for k, (time, element) in enumerate(zip(times, case.stream, strict=True)):
            elements.setdefault(time, []).append(self._graph(element.graph, "stream", k))
        engine = Engine(self.program, clock)
        outputs: list[_Seen] = []
        facts: list[_Seen] = []
        for time in sorted(elements):
            instant = merge(time, elements[time])
            firings, _ = engine.step(instant)
            outputs += [_Seen(f.time, f.event, f.rule, dict(f.attributes), comparable(f.graph)) for f in firings]
            if case.facts is not None:
                facts += [_Seen(time, e.type, "", e.attributes, None) for e in self.program.facts_of_interest(instant)]
        parts = []
        if case.expect is not None:
            parts.append(_compare([self._expected(e, k) for k, e in enumerate(case.expect)], outputs, clock))
        if case.facts is not None:
            parts.append(_compare([self._fact(f, k) for k, f in enumerate(case.facts)], facts, clock))
        return "\n".join(part for part in parts if part)

    def _expected(self, expected: ExpectedSection, k: int) -> _Wanted:
        attributes = None if expected.attributes is None else self._attributes(expected.attributes, "expect", k)
        graph = None if expected.graph is None else comparable(self._graph(expected.graph, "expect", k))
        return _Wanted(self._time(expected.at, "expect", k), expected.event, expected.rule, attributes, graph)

    def _fact(self, fact: FactSection, k: int) -> _Wanted:
        return _Wanted(self._time(fact.at, "facts", k), fact.fact, None, self._attributes(fact.attributes, "facts", k), None)

    def _place(self, *rest: str | int) -> Span:
        return self.tree.place(("cases", self.number, *rest))

    def _time(self, at: int | str, part: str, k: int) -> Micros:
        try:
            return parse_time(at, self.unit)
        except ValueError as error:
            raise refuse("C205", f"{at!r} is no time: {error}", self._place(part, k, "at")) from None

    def _graph(self, text: str, part: str, k: int) -> tuple[Triple, ...]:
        try:
            return read_graph(text, self.prefixes)
        except (SyntaxError, ValueError) as error:
            raise refuse("C206", f"this graph cannot be read: {error}", self._place(part, k, "graph")) from None

    def _attributes(self, attributes: Mapping[str, str], part: str, k: int) -> dict[Variable, Term]:
        found: dict[Variable, Term] = {}
        for name, text in attributes.items():
            try:
                ((_, _, found[name.removeprefix("?")]),) = read_graph(f"<x:s> <x:p> {text} .", self.prefixes)
            except (SyntaxError, ValueError):
                raise refuse("C206", f"{text} is no RDF term", self._place(part, k, "attributes", name), "Write it as in Turtle.") from None
        return found


def comparable(graph: Sequence[Triple]) -> frozenset[str]:
    """A graph's triples with its blank and generated nodes named canonically: equal for isomorphic graphs alone.

    >>> comparable([("<urn:dotr:1>", "<x:p>", "_:a")]) == comparable([("_:z", "<x:p>", "_:y")])
    True
    """
    lines = "".join(f"{s} {p} {o} .\n" for s, p, o in ([_unnamed(term) for term in triple] for triple in graph))
    dataset = Dataset(parse(lines, RdfFormat.N_TRIPLES))
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return frozenset(f"{q.subject} {q.predicate} {q.object} ." for q in dataset)


def _unnamed(term: Term) -> Term:
    return f"_:g{term[10:-1]}" if term.startswith("<urn:dotr:") else term


def _compare(wanted: Sequence[_Wanted], seen: Sequence[_Seen], clock: Clock) -> str:
    """A diff of what no pairing of expected and actual can bring together."""
    partner: dict[int, int] = {}

    def pair(w: int, tried: set[int]) -> bool:
        for s, actual in enumerate(seen):
            if s not in tried and actual.answers(wanted[w]):
                tried.add(s)
                if s not in partner or pair(partner[s], tried):
                    partner[s] = w
                    return True
        return False

    missing = [wanted[w] for w in range(len(wanted)) if not pair(w, set())]
    extra = [actual for s, actual in enumerate(seen) if s not in partner]
    lines = [(item.time, 0, "- expected " + _shown(item, clock)) for item in missing]
    lines += [(item.time, 1, "+ got      " + _shown(item, clock)) for item in extra]
    return "\n".join(line for _, _, line in sorted(lines))


def _shown(item: _Wanted | _Seen, clock: Clock) -> str:
    parts = [f"at {written(item.time, clock)}", item.kind or "", f"by {item.rule}" if item.rule else ""]
    if item.attributes is not None:
        parts.append("{" + ", ".join(f"{name}: {term}" for name, term in sorted(item.attributes.items())) + "}")
    if item.graph is not None:
        parts += ["\n" + "\n".join(f"      {line}" for line in sorted(item.graph))]
    return " ".join(part for part in parts if part)
