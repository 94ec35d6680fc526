"""Rule tests that are ready to run: a program, and cases, which are streams with expected outputs
and facts of interest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Final

from dotr.commands.test.difference import Discrepancy, Item, comparable, comparable_attributes, discrepancies
from dotr.commands.test.files import CaseSection, ElementSection, ExpectedSection, FactSection, RecordingSection, TestFile, read_file
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace, InputProgress, RejectedElement, Replay, ReplayedInstant
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import LIMITS
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.instant.instants import merge
from dotr.languages.programs import compile_program
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.stream import Fact, FedGraph, Firing, Instant, Reason, fed_stream, stream_name
from dotr.model.terms import Label, Triple
from dotr.model.time import LAST_MICRO, Clock, Micros, Unit
from dotr.runtimes.pipeline.sections import label_problems
from dotr.streams.times import parse_time
from dotr.syntax.rendering import near_streams
from dotr.syntax.turtle.graphs import Misread, read_graph


@dataclass(frozen=True, slots=True)
class CaseRun:
    """Result of a case.

    - `broken`: a line for each query, rule and element that fails, which makes the case fail.
    - `left_out`: a line for each instant that is left out.
    - `outputs`, `facts`: the differences from the expectations.
    - `has_answers`: some query has an answer.
    """

    broken: tuple[str, ...]
    left_out: tuple[str, ...]
    outputs: tuple[Discrepancy, ...]
    facts: tuple[Discrepancy, ...]
    has_answers: bool

    @property
    def passed(self) -> bool:
        """True if nothing fails, and all is as expected."""
        return not (self.broken or self.outputs or self.facts)


@dataclass(frozen=True, slots=True)
class Case:
    """Parsed case.

    - `line`: where it begins in the file, from 1 on.
    - `elements`: the triples of each element by time (µs since 1970); none at that of a heartbeat.
    - `places`: the places of the elements by time, in the same order.
    - `outputs`, `facts`: the expectations; None: not compared.
    - `notes`: remarks on elements of a recording that are left out.
    - `compared`: the labels whose events are compared; None: all but internal events.
    - `apart`: the greatest distance (µs) by which an element of a recording was set apart. An event
      may be later than its expectation by as much, which has the time of the file.
    - `ends`: what is under way at the end of the stream fires; not at that of a stopped run's
      recording.
    """

    name: str
    line: int
    clock: Clock
    elements: Mapping[Micros, Sequence[tuple[Triple, ...]]]
    places: Mapping[Micros, Sequence[ElementPlace]]
    outputs: Sequence[Item] | None
    facts: Sequence[Item] | None
    notes: tuple[str, ...] = ()
    compared: frozenset[Label] | None = None
    apart: Micros = 0
    ends: bool = True

    def run(self, program: CompiledProgram, prefixes: Mapping[str, str]) -> CaseRun:
        """Run the case; terms of differences are written with these prefixes.

        A case fails in any event where a query or a rule fails, even if it expects nothing.
        """
        engine = Engine(program, self.clock)
        broken: list[str] = []
        left_out: list[str] = []
        outputs: list[Item] = []
        facts: list[Item] = []
        has_answers = False

        def output(firings: Sequence[Firing]) -> list[Item]:
            return [
                Item(f.time, f.event, f.rule, comparable_attributes(dict(f.attributes)), comparable(f.graph or ()))
                for f in firings
                if (f.event not in program.internal if self.compared is None else f.event in self.compared)
            ]

        for time in sorted(self.elements):
            graphs = self.elements[time]
            if not graphs:
                for firings in engine.advance(time):
                    outputs += output(firings)
                continue
            firings, closed = engine.step(time, graphs)
            stage_one = closed.facts
            has_answers = has_answers or any(stage_one.facts.values())
            outputs += output(firings)
            at = f"! at {format_time(time, self.clock)}"
            broken += [
                f"{at} the query of rule {', '.join(program.readers(streams))} fails: {error}" for streams, error in stage_one.failed
            ]
            failing = [each for each in closed.rejected if each.reason is Reason.FAILED]
            broken += [
                f"{at} element {each.element + 1} of the instant is left out, it fails: {each.why} ({self.places[time][each.element]})"
                for each in failing
            ]
            if stage_one.exceeded:
                left_out.append(f"{at} the instant is left out, it goes over a limit: {stage_one.exceeded}")
            elif stage_one.inconsistencies and stage_one.rejected:
                left_out.append(f"{at} the instant is left out, it is inconsistent: {stage_one.inconsistencies[0]}")
            if self.facts is not None:
                without = {each.element for each in failing}
                events = program.facts_of_interest(merge(time, [graph for k, graph in enumerate(graphs) if k not in without]))
                facts += [Item(time, event.type, None, comparable_attributes(event.attributes), None) for event in events]
        for firings in engine.finish() if self.ends else ():
            outputs += output(firings)
        for dead_letter in engine.failed:
            (broken if dead_letter.reason is Reason.FAILED else left_out).append(
                f"! at {format_time(dead_letter.time or 0, self.clock)} {dead_letter.why}"
            )
        return CaseRun(
            tuple(broken),
            tuple(left_out),
            () if self.outputs is None else discrepancies(self.outputs, outputs, self.clock, prefixes, self.apart),
            () if self.facts is None else discrepancies(self.facts, facts, self.clock, prefixes, self.apart),
            has_answers,
        )


@dataclass(frozen=True)
class LoadedTest:
    """Rule test that is ready to run: its file, its compiled program and its cases."""

    file: TestFile
    program: CompiledProgram
    cases: Sequence[Case]

    @property
    def has_static_answers(self) -> bool:
        """True if a query has static answers, which follow from the background alone."""
        return any(plan.static for plan in self.program.stage_one.plans)

    @cached_property
    def static_facts(self) -> Sequence[Fact]:
        """Static facts: those of the background alone, which hold at every instant."""
        return self.program.facts_of_interest(Instant(0, ()))

    def run(self, number: int) -> CaseRun:
        """Run a case, by its number from 0 on."""
        return self.cases[number].run(self.program, self.file.expected_prefixes)

    def replay(self, number: int) -> Replay:
        """A replay of a case, by its number from 0 on.

        The place of an element is the line of its entry in `stream`, or its place in a recording.
        """
        case = self.cases[number]

        def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
            for time in sorted(case.elements):
                yield ReplayedInstant(time, case.elements[time], case.places[time])

        def progress() -> Sequence[InputProgress]:
            return () if case.ends else [InputProgress("", max(case.elements, default=None), ended=False)]

        prefixes = {**self.file.prefixes, **self.program.rules.prefixes}
        return Replay(self.file.path, self.program, case.clock, prefixes, read, progress, case=case.name)


def load_test(path: str, *, update: bool = False) -> LoadedTest:
    """Read a rule test and compile its program; raises `Refused` with all of their problems.

    `update`: expectations of events that are not compared are no problem, since they are rewritten.
    """
    file, problems = read_file(path)
    program = None
    if not problems:
        try:
            program = compile_program(file.spec, CachePolicy.default())
        except Refused as refused:
            problems += refused.diagnostics
    cases = read_cases(file, problems)
    if program is not None:
        problems += unplaced_elements(file, program)
        problems += wrong_lists_of_events(file, program)
        problems += () if update else uncompared_events(file, program)
    if problems or program is None:
        raise Refused(dict.fromkeys(problems))
    return LoadedTest(file, program, cases)


@dataclass(slots=True)
class _CaseStream:
    """Elements of a case and their places, by time in µs since 1970."""

    elements: dict[Micros, list[tuple[Triple, ...]]]
    places: dict[Micros, list[ElementPlace]]
    dated: bool = False
    notes: tuple[str, ...] = ()
    apart: Micros = 0
    ends: bool = True

    def advance(self, time: Micros) -> None:
        """Add a heartbeat, which stands behind all elements of its time."""
        self.elements.setdefault(time, [])
        self.places.setdefault(time, [])

    def add(self, time: Micros, triples: tuple[Triple, ...], place: ElementPlace) -> None:
        """Add an element."""
        self.elements.setdefault(time, []).append(triples)
        self.places.setdefault(time, []).append(place)


def unplaced_elements(file: TestFile, program: CompiledProgram) -> Iterator[Diagnostic]:
    """A problem (C237) for each case with an element without a stream, if units read several
    streams; at its first such element.
    """
    names = sorted(stream.name for stream in program.layout.fed_streams)
    for number, case in enumerate(file.section.cases) if len(names) > 1 else ():
        if isinstance(case.stream, RecordingSection):
            continue
        unplaced = [k for k, element in enumerate(case.stream) if element.stream is None]
        if unplaced:
            span = file.tree.span(("cases", number, "stream", unplaced[0]))
            hint = f'Write stream: "<…>" beside `at`, one of {", ".join(names)}.'
            yield Diagnostic("C237", "an element that names no stream, where units read several", span, hint)


def compared_labels(file: TestFile, case: CaseSection) -> frozenset[Label] | None:
    """The labels whose events a case compares, its own or the file's; None: all but internal ones."""
    named = file.section.events if case.events is None else case.events
    return None if named is None else frozenset(named)


def wrong_lists_of_events(file: TestFile, program: CompiledProgram) -> Iterator[Diagnostic]:
    """Problems (C268) of lists `events` of a file and its cases."""
    cases = [(("cases", number), case.events) for number, case in enumerate(file.section.cases)]
    for at, events in [((), file.section.events), *cases]:
        if events is not None:
            yield from label_problems(events, program.attributes, partial(_place, file, *at, "events"))


def uncompared_events(file: TestFile, program: CompiledProgram) -> Iterator[Diagnostic]:
    """A problem (C269) for each expectation of an event that its case does not compare."""
    event_of = {rule.name: rule.event for rule in program.rules.rules}
    for number, case in enumerate(file.section.cases):
        compared = compared_labels(file, case)
        for k, expected in enumerate(case.expect or ()):
            for key, label in (("event", expected.event), ("rule", event_of.get(expected.rule or "", expected.rule))):
                if label is not None and (label in program.internal if compared is None else label not in compared):
                    reason = "it is internal" if compared is None else "`events` does not name it"
                    hint = f"Name {label} in `events` of the case or the file, or leave the entry out, as dotr test --update does."
                    yield Diagnostic("C269", f"{label} is not compared: {reason}", _place(file, "cases", number, "expect", k, key), hint)
                    break


def _place(file: TestFile, *location: str | int) -> Span:
    return file.tree.span(location)


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
        if case.expect is None and case.facts is None:
            self.problem("C202", f"case {case.name} expects nothing", (), "Add `expect` (an empty list for no output), or `facts`.")
        stream = self.recorded(case.stream) if isinstance(case.stream, RecordingSection) else self.listed(case.stream)
        return Case(
            case.name,
            self.place(()).line_column[0],
            Clock(self.unit, stream.dated, self.file.spec.time_zone),
            stream.elements,
            stream.places,
            None if case.expect is None else [self.expected(expected, k) for k, expected in enumerate(case.expect)],
            None if case.facts is None else [self.fact(fact, k) for k, fact in enumerate(case.facts)],
            stream.notes,
            compared_labels(self.file, case),
            stream.apart,
            stream.ends,
        )

    def listed(self, elements: Sequence[ElementSection]) -> _CaseStream:
        """Elements that the case lists."""
        stream = _CaseStream({}, {}, any(isinstance(each.at, str) and not each.at.lstrip("+-").isdecimal() for each in elements))
        for k, element in enumerate(elements):
            if element.graph is None and element.stream is None:
                stream.advance(self.time(element.at, ("stream", k, "at")))
                continue
            place = ElementPlace(self.file.path, self.place(("stream", k)).line_column[0])
            graph = self.graph(element.graph or "", "stream", k)
            if element.stream is not None:
                graph = self.on_stream(element.stream, graph, k)
            stream.add(self.time(element.at, ("stream", k, "at")), graph, place)
        return stream

    def on_stream(self, text: str, graph: tuple[Triple, ...], k: int) -> tuple[Triple, ...]:
        """The graph of element number `k` on the stream that it names."""
        inputs = self.file.spec.inputs
        name = fed_stream(text, self.file.prefixes, inputs)
        if name is not None:
            return FedGraph.on(name, graph)
        known = sorted({each.fed for each in inputs} | {each.name for each in inputs})
        hint = near_streams(stream_name(text, self.file.prefixes), known, self.file.prefixes)
        self.problem("C237", f"there is no stream {text}", ("stream", k, "stream"), hint)
        return graph

    def recorded(self, recording: RecordingSection) -> _CaseStream:
        """Elements of the recording that the case names."""
        from dotr.commands.test.recordings import read_recording

        begin = -LAST_MICRO if recording.begin is None else self.time(recording.begin, ("stream", "from"))
        end = LAST_MICRO if recording.end is None else self.time(recording.end, ("stream", "to"))
        stream = _CaseStream({}, {})
        if begin > end:
            self.problem("C205", "`from` is after `to`", ("stream", "from"), "Both ends belong to the part of the recording.")
            return stream
        try:
            read = read_recording(self.file, self.number, recording, begin, end)
        except Refused as refused:
            self.problems += refused.diagnostics
            return stream
        stream.ends = read.ends
        for time in read.heartbeats:
            stream.advance(time)
        for element in read.elements:
            stream.add(element.time, element.triples, element.place)
        stream.dated, stream.notes, stream.apart = read.dated, read.notes, read.apart
        return stream

    def expected(self, expected: ExpectedSection, k: int) -> Item:
        """Parse expected output number `k`."""
        attributes = None if expected.attributes is None else self.attributes(expected.attributes, "expect", k)
        graph = None if expected.graph is None else comparable(self.graph(expected.graph, "expect", k))
        return Item(self.time(expected.at, ("expect", k, "at")), expected.event, expected.rule, attributes, graph)

    def fact(self, fact: FactSection, k: int) -> Item:
        """Parse expected fact number `k`."""
        return Item(self.time(fact.at, ("facts", k, "at")), fact.fact, None, self.attributes(fact.attributes, "facts", k), None)

    def problem(self, code: str, message: str, location: tuple[str | int, ...], hint: str) -> None:
        """Report a problem at a location in the case."""
        self.problems.append(Diagnostic(code, message, self.place(location), hint))

    def place(self, location: tuple[str | int, ...]) -> Span:
        return self.file.tree.span(("cases", self.number, *location))

    def time(self, at: int | str, location: tuple[str | int, ...]) -> Micros:
        """Time at a location in the case, in µs since 1970; 0 after a problem."""
        try:
            return parse_time(at, self.unit)
        except ValueError as error:
            self.problem("C205", f"this is no time: {error}", location, "Write an integer, or a date-time: 2024-05-14T08:00:00")
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
