"""Rule tests: streams with expected outputs and facts of interest (interface.md, A rule test)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from dotr.config import (
    ConfigFiles,
    KnowledgeSection,
    Location,
    Section,
    TimeSection,
    Tree,
    matching_files,
    read_config,
    read_document,
    read_tree,
    schema_problems,
)
from dotr.engine.driver import Engine
from dotr.engine.instants import merge
from dotr.engine.program import CompiledProgram, compile_program
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.expressions.times import format_time
from dotr.joins.limits import LIMITS
from dotr.languages.turtle.graphs import Misread, read_graph
from dotr.model.places import Span
from dotr.model.stream import Firing, Reason
from dotr.model.terms import WELL_KNOWN, Triple
from dotr.model.time import Clock, Micros, Unit
from dotr.sources.times import parse_time
from dotr.workbench.difference import Item, comparable, comparable_attributes, difference


class ElementSection(Section):
    """Element of a test's stream."""

    at: int | str
    graph: str = ""


class ExpectedSection(Section):
    """Expected output: event, rule, graph (up to blank and generated nodes), or all attributes;
    None matches any."""

    at: int | str
    event: str | None = None
    rule: str | None = None
    graph: str | None = None
    attributes: dict[str, str] | None = None


class FactSection(Section):
    """Expected fact of interest, with all of its attributes."""

    at: int | str
    fact: str
    attributes: dict[str, str] = Field(default={})


class CaseSection(Section):
    """Case of a test file."""

    name: str = Field(min_length=1)
    stream: list[ElementSection]
    expect: list[ExpectedSection] | None = None
    facts: list[FactSection] | None = None


class TestSection(Section):
    """Test file: cases over one program."""

    config: str | None = None
    rules: list[str] = Field(default=[])
    knowledge: KnowledgeSection = KnowledgeSection()
    prefixes: dict[str, str] = Field(default={})
    time: TimeSection = TimeSection()
    cases: list[CaseSection] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a case: `difference` is empty where it passed. `problems` are those of a file that
    cannot be run."""

    file: str
    case: str
    difference: str
    problems: tuple[Diagnostic, ...] = ()


def run_tests(paths: Sequence[str]) -> Iterator[Outcome]:
    """Run the tests in these files, or in all YAML files with `cases` below these folders."""
    for path in paths:
        try:
            files = _test_files(path)
        except Refused as refused:
            yield Outcome(path, "", "", refused.diagnostics)
            continue
        for file in files:
            try:
                yield from run_file(file)
            except Refused as refused:
                yield Outcome(file, "", "", refused.diagnostics)


def _test_files(path: str) -> list[str]:
    if not Path(path).is_dir():
        return matching_files(path, None, "Is the path right? Relative paths are relative to the working directory.")
    tests = []
    for file in sorted(str(f) for kind in ("*.yaml", "*.yml") for f in Path(path).rglob(kind)):
        try:
            if is_test(read_tree(read_document(file)).data):
                tests.append(file)
        except Refused:
            tests.append(file)  # reported when the file is run
    if not tests:
        raise refuse("C301", f"there is no rule test below {path}", None, "A rule test is a .yaml file with `cases`.")
    return tests


def is_test(data: object) -> bool:
    """True where a YAML document is a rule test."""
    return isinstance(data, dict) and "cases" in data


@dataclass(frozen=True, slots=True)
class TestFile:
    """Parsed test file: its section, its program's specification and the prefixes of its graphs."""

    section: TestSection
    tree: Tree
    spec: ProgramSpec
    prefixes: Mapping[str, str]

    @property
    def expected_prefixes(self) -> Mapping[str, str]:
        """Prefixes of expectations and differences, with the well-known ones, such as xsd:."""
        return {**WELL_KNOWN, **self.prefixes}


def read_file(path: str) -> tuple[TestFile, list[Diagnostic]]:
    """Parse a test file; returns the problems of the files that it names, too. Raises `Refused`
    with its own problems."""
    document = read_document(path)
    hint = "A rule test is a .yaml file with `cases`; a configuration is run by `dotr run`."
    if Path(path).suffix in (".dotr", ".dlog"):
        raise refuse("C202", f"{path} is no rule test", None, hint)
    tree = read_tree(document)
    if not is_test(tree.data):
        raise refuse("C202", f"{path} is no rule test: it has no cases", tree.span(()) if tree.data is not None else None, hint)
    try:
        section = TestSection.model_validate(_with_terms(tree.data, tree))
    except ValidationError as error:
        raise Refused(schema_problems(error, tree, TestSection)) from None
    if section.config is None:
        if not section.rules:
            raise refuse("C202", "rules is missing", tree.span(()), "Name the rule files, or a `config` that does.")
        spec, problems = ConfigFiles(tree, Path(path).parent).spec(section.rules, section.knowledge, section.prefixes, section.time)
        return TestFile(section, tree, spec, section.prefixes), problems
    own = [key for key in ("rules", "knowledge", "time") if key in section.model_fields_set]
    if own:
        message = f"a test has either `config`, or {', '.join(f'`{key}`' for key in own)} of its own"
        raise refuse("C204", message, tree.key_span((own[0],)), "Leave one of the two out.")
    config = read_config(matching_files(str(Path(path).parent / section.config), tree.span(("config",)))[0])
    spec, problems = config.spec()
    return TestFile(section, tree, spec, {**spec.prefixes, **section.prefixes}), problems


def _with_terms(data: object, tree: Tree, location: Location = ()) -> object:
    """Document with attribute values as spelled in YAML: `m: 3.0` is the term 3.0."""
    match data:
        case dict():
            return {key: _with_terms(value, tree, (*location, key)) for key, value in data.items()}
        case list():
            return [_with_terms(value, tree, (*location, number)) for number, value in enumerate(data)]
        case _:
            return tree.scalar_text.get(location, data) if location[-2:-1] == ("attributes",) else data


def run_file(path: str) -> Iterator[Outcome]:
    """Run the cases of a file; raises `Refused` with the problems of the file or its program."""
    file, problems = read_file(path)
    program = None
    if not problems:
        try:
            program = compile_program(file.spec)
        except Refused as refused:
            problems += refused.diagnostics
    cases = read_cases(file, problems)
    if problems or program is None:
        raise Refused(dict.fromkeys(problems))
    for case in cases:
        yield Outcome(path, case.name, case.run(program, file.expected_prefixes))


@dataclass(frozen=True, slots=True)
class Case:
    """Parsed case: elements by time (µs since 1970), the locations of their entries in the document
    by time, and expected outputs and facts (None: not compared)."""

    name: str
    clock: Clock
    elements: Mapping[Micros, Sequence[tuple[Triple, ...]]]
    locations: Mapping[Micros, Sequence[Location]]
    outputs: Sequence[Item] | None
    facts: Sequence[Item] | None

    def run(self, program: CompiledProgram, prefixes: Mapping[str, str]) -> str:
        """Run the case; returns its differences with the instants left out, empty where it passes.

        A case fails in any event where a query or a rule fails, even if it expects nothing.
        """
        engine = Engine(program, self.clock)
        broken: list[str] = []
        left_out: list[str] = []
        outputs: list[Item] = []
        facts: list[Item] = []

        def output(firings: Sequence[Firing]) -> list[Item]:
            return [Item(f.time, f.event, f.rule, comparable_attributes(dict(f.attributes)), comparable(f.graph)) for f in firings]

        for time in sorted(self.elements):
            graphs = self.elements[time]
            firings, closed = engine.step(time, graphs)
            stage_one = closed.facts
            outputs += output(firings)
            at = f"! at {format_time(time, self.clock)}"
            broken += [
                f"{at} the query of rule {', '.join(program.readers(streams))} fails: {error}" for streams, error in stage_one.failed
            ]
            failing = [each for each in closed.rejected if each.reason is Reason.FAILED]
            broken += [f"{at} element {each.element + 1} of the instant is left out, it fails: {each.why}" for each in failing]
            if stage_one.exceeded:
                left_out.append(f"{at} the instant is left out, it goes over a limit: {stage_one.exceeded}")
            elif stage_one.inconsistencies and stage_one.rejected:
                left_out.append(f"{at} the instant is left out, it is inconsistent: {stage_one.inconsistencies[0]}")
            if self.facts is not None:
                without = {each.element for each in failing}
                events = program.facts_of_interest(merge(time, [graph for k, graph in enumerate(graphs) if k not in without]))
                facts += [Item(time, event.type, None, comparable_attributes(event.attributes), None) for event in events]
        for firings in engine.finish():
            outputs += output(firings)
        for dead_letter in engine.failed:
            (broken if dead_letter.reason is Reason.FAILED else left_out).append(
                f"! at {format_time(dead_letter.time or 0, self.clock)} {dead_letter.why}"
            )
        parts = [] if self.outputs is None else [difference(self.outputs, outputs, self.clock, prefixes)]
        parts += [] if self.facts is None else [difference(self.facts, facts, self.clock, prefixes)]
        differs = broken or any(parts)
        return "\n".join([*broken, *left_out, *filter(None, parts)]) if differs else ""


def read_cases(file: TestFile, problems: list[Diagnostic]) -> list[Case]:
    """Parse the cases of a file; adds unreadable graphs, times and terms to `problems`."""
    return [_CaseReader(file, number, problems).case(case) for number, case in enumerate(file.section.cases)]


class _CaseReader:
    """Parser of case number `number` of a file."""

    def __init__(self, file: TestFile, number: int, problems: list[Diagnostic]) -> None:
        self.file = file
        self.number = number
        self.unit: Unit = file.spec.unit
        self.problems = problems

    def case(self, case: CaseSection) -> Case:
        """Parse the case."""
        elements: dict[Micros, list[tuple[Triple, ...]]] = {}
        locations: dict[Micros, list[Location]] = {}
        for k, element in enumerate(case.stream):
            time = self.time(element.at, "stream", k)
            elements.setdefault(time, []).append(self.graph(element.graph, "stream", k))
            locations.setdefault(time, []).append(("cases", self.number, "stream", k))
        if case.expect is None and case.facts is None:
            self.problem("C202", f"case {case.name} expects nothing", (), "Add `expect` (an empty list for no output), or `facts`.")
        dated = any(isinstance(element.at, str) and not element.at.lstrip("+-").isdecimal() for element in case.stream)
        return Case(
            case.name,
            Clock(self.unit, dated),
            elements,
            locations,
            None if case.expect is None else [self.expected(expected, k) for k, expected in enumerate(case.expect)],
            None if case.facts is None else [self.fact(fact, k) for k, fact in enumerate(case.facts)],
        )

    def expected(self, expected: ExpectedSection, k: int) -> Item:
        """Parse expected output number `k`."""
        attributes = None if expected.attributes is None else self.attributes(expected.attributes, "expect", k)
        graph = None if expected.graph is None else comparable(self.graph(expected.graph, "expect", k))
        return Item(self.time(expected.at, "expect", k), expected.event, expected.rule, attributes, graph)

    def fact(self, fact: FactSection, k: int) -> Item:
        """Parse expected fact number `k`."""
        return Item(self.time(fact.at, "facts", k), fact.fact, None, self.attributes(fact.attributes, "facts", k), None)

    def problem(self, code: str, message: str, location: tuple[str | int, ...], hint: str) -> None:
        """Report a problem at a location in the case."""
        self.problems.append(Diagnostic(code, message, self.place(location), hint))

    def place(self, location: tuple[str | int, ...]) -> Span:
        return self.file.tree.span(("cases", self.number, *location))

    def time(self, at: int | str, part: str, k: int) -> Micros:
        """Time of item `k` of a part in µs since 1970; 0 after a problem."""
        try:
            return parse_time(at, self.unit)
        except ValueError as error:
            self.problem("C205", f"this is no time: {error}", (part, k, "at"), "Write an integer, or a date-time: 2024-05-14T08:00:00")
            return 0

    def graph(self, text: str, part: str, k: int) -> tuple[Triple, ...]:
        """Graph of item `k` of a part; empty after a problem."""
        prefixes = self.file.prefixes if part == "stream" else self.file.expected_prefixes
        try:
            return read_graph(text, prefixes, LIMITS.nesting)
        except ValueError as error:
            declared = ", ".join(f"{prefix}:" for prefix in self.file.prefixes) or "none"
            hint = f"Declared under `prefixes`: {declared}." if "prefix" in str(error) else "Write it as Turtle."
            self.problem("C208", f"this graph cannot be read: {error}", (part, k, "graph"), hint)
            return ()

    def attributes(self, attributes: Mapping[str, str], part: str, k: int) -> frozenset[str]:
        """Canonical attributes of item `k` of a part, without the unreadable ones."""
        names = {name: name.removeprefix("?") for name in attributes}
        if len(set(names.values())) < len(names):
            self.problem(
                "C203", "an attribute is given twice", (part, k, "attributes"), "Write it once, with or without the question mark."
            )
        readable = [name for name, text in attributes.items() if self.is_term(text, name, part, k)]
        text = "".join(f"<x:s> <x:{n}> {attributes[name]} .\n" for n, name in enumerate(readable))
        graph = read_graph(text, self.file.expected_prefixes, LIMITS.nesting)
        return comparable_attributes({names[readable[int(predicate[3:-1])]]: term for _, predicate, term in graph})

    def is_term(self, text: str, name: str, part: str, k: int) -> bool:
        """True where a text is one RDF term; reports a problem otherwise."""
        try:
            ((_, predicate, _),) = read_graph(f"<x:s> <x:p> {text} .", self.file.expected_prefixes, LIMITS.nesting)
        except ValueError as error:
            why = error.why if isinstance(error, Misread) else str(error)
            reason = why if "prefix" in why else "write it as in Turtle"
            self.problem("C208", f"{text} is no RDF term: {reason}", (part, k, "attributes", name), _suggestion(text))
            return False
        return predicate == "<x:p>"


_DATES: Final = (
    ("date", "date", re.compile(r"-?\d{4,}-\d\d-\d\d")),
    ("date-time", "dateTime", re.compile(r"-?\d{4,}-\d\d-\d\dT\S*")),
    ("time", "time", re.compile(r"\d\d:\d\d:\d\d\S*")),
)


def _suggestion(text: str) -> str:
    """Hint with probable intentions for a text that is no term.

    >>> print(_suggestion("roomA"), _suggestion("2024-05-14"))
    For the text: "'roomA'". For a name: ":roomA". For a date: '"2024-05-14"^^xsd:date'.
    """
    for what, datatype, form in _DATES:
        if form.fullmatch(text):
            return f"For a {what}: '\"{text}\"^^xsd:{datatype}'."
    if text in ("True", "TRUE", "False", "FALSE"):
        return f"Write {text.lower()}."
    if re.fullmatch(r"[\w.+-]+", text):
        name = f' For a name: ":{text}".' if text[0].isalpha() else ""
        return f"For the text: \"'{text}'\".{name}"
    return 'For example ":roomA", 5, "\'text\'".'
