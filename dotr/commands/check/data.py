"""Check of a configuration against its data: `dotr check --data`.

Idea: the first records of each input are read as in a run. Differences from what the rules and the
configuration expect are warnings. Nothing is written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, assert_never

from dotr.commands.check.sample import (
    InputSample,
    MixedValues,
    ObjectTexts,
    clock_format,
    sample_files,
    sample_partitions,
    sample_standard_input,
    time_uses,
)
from dotr.engine.program import CompiledProgram
from dotr.engine.stream_terms import MOST_TERMS, ObjectSource, StreamObjects, StreamTerms, TermDependencies
from dotr.errors.diagnostics import Diagnostic, Refused, Severity, refuse
from dotr.evaluation.expressions.kinds import TermKind, term_kind
from dotr.evaluation.expressions.values.times import format_time
from dotr.languages.programs import warnings_on_streams
from dotr.model import dataclass
from dotr.model.algebra import Const, Select, Var
from dotr.model.places import Document, Span
from dotr.model.rules import FactSource, Window
from dotr.model.stream import Element
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, CellType, Fresh, TemplateSlot, TemplateTerm
from dotr.model.terms import XSD, Prefixes, Term, Triple
from dotr.model.time import LAST_MICRO, UNITS, Clock, Micros, Unit
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.inputs import Inputs, bounded_topics, present_files, read_inputs
from dotr.runtimes.pipeline.sections import InputSection
from dotr.runtimes.pipeline.spark_tables import SparkInput
from dotr.streams.formats.csv.map import header_of
from dotr.streams.formats.json.records import member_paths
from dotr.streams.formats.mapping.maps import cells_of_time, time_cells, written_name
from dotr.streams.records import InputFile, Record
from dotr.streams.time_formats import date_form, drain_repeated_hours
from dotr.streams.times import other_unit
from dotr.syntax import scan
from dotr.syntax.rendering import duration_text, term_text, turtle_text
from dotr.syntax.turtle.parser import parse_template
from dotr.temporal.layout.retention import roles, scope_of

_MOST_LISTED: Final = 10


@dataclass(frozen=True, slots=True)
class DataChecked:
    """Warnings about data, and a line about each input.

    `dated`: whether times are date-times; None without a record.
    """

    warnings: tuple[Diagnostic, ...]
    lines: tuple[str, ...]
    dated: bool | None = None


def check_data(config: Config, program: CompiledProgram, most: int) -> DataChecked:
    """Read the first records of each input of a configuration.

    Args:
        config: the configuration.
        program: its compiled program.
        most: the number of records that are read of each input.

    Raises:
        Refused: an input cannot be read.
    """
    problems: list[Diagnostic] = []
    inputs = read_inputs(config, problems)
    if problems:
        raise Refused(problems)
    warnings: list[Diagnostic] = []
    lines: list[str] = []
    samples: list[InputSample] = []
    streamed: dict[str, frozenset[Term]] = {}
    tables = sample_tables(config, program, inputs.tables, most) if inputs.tables else {}
    for number, section in enumerate(config.settings.input):
        drain_repeated_hours()
        if section.name in tables:
            sample, told = tables[section.name]
            lines += told
            reason = "" if sample.files else "none"
        else:
            sample = InputSample(StreamTerms(()), most)
            reason = _read(sample, section, inputs)
            lines += [f"Input {section.name}: {reason}"] if reason else []
        if reason:
            continue
        samples.append(sample)
        if len(sample.terms.terms) < MOST_TERMS:
            streamed[section.name] = frozenset(sample.terms.terms)
        checked = _CheckedInput(config, section, number, sample, program)
        warnings += checked.warnings()
        files = [file for file in inputs.files if file.input == section.name]
        warnings += wrong_lists_of_times(config, number, files, most, Severity.ERROR)
        warnings += _midnights(config, number, files, sample)
        for repeated in drain_repeated_hours()[:1]:
            warnings.append(replace(repeated.warning(), span=config.span("input", number, "time_zone")))
        lines.append(checked.line())
    if any(sample.count for sample in samples):
        complete = len(samples) == len(config.settings.input) and all(sample.ended for sample in samples)
        warnings += _missing_terms(program, samples, complete=complete)
        warnings += warnings_on_streams(program, streamed, _nearest, complete=complete)
    read = [sample for sample in samples if sample.count]
    dated = any(sample.zoned.count or sample.zoneless.count for sample in read) if read else None
    return DataChecked(tuple(warnings), tuple(lines), dated)


def _read(sample: InputSample, section: InputSection, inputs: Inputs) -> str:
    """Read the available records of an input; returns the reason if there are none, else empty."""
    standard = next((each.like for each in inputs.growing if each.standard and each.like.input == section.name), None)
    if standard is not None:
        if sys.stdin is None or sys.stdin.isatty():
            return "standard input is a terminal and was not read: send it some records (cat FILE | dotr check --data …)."
        sample_standard_input(sample, standard)
        return "" if sample.files and (sample.count or sample.unreadable.count) else "standard input has no records now."
    topics = next((each for each in inputs.topics if each.name == section.name), None)
    if topics is not None:
        bounded = bounded_topics(topics)
        sample_partitions(sample, bounded.files, bounded.records)
        return "" if sample.count or sample.unreadable.count else "its topics have no records."
    if any(each.source is not None and each.like.input == section.name for each in inputs.growing):
        return "its messages are received in a run, and none are there to be read now."
    files = [file for file in present_files(inputs) if file.input == section.name]
    if not files:
        return f"no file matches {section.path} yet."
    sample_files(sample, files)
    return "" if sample.count or sample.unreadable.count else f"{files[0].path} has no records."


@dataclass(frozen=True, slots=True)
class _CheckedInput:
    """An input with its sample."""

    config: Config
    section: InputSection
    number: int
    sample: InputSample
    program: CompiledProgram

    @property
    def prefixes(self) -> Prefixes:
        """The prefixes of the program's rules."""
        return self.program.rules.prefixes

    def _warning(self, code: str, message: str, hint: str, *key: str) -> Diagnostic:
        """A warning with the place of a key of the input, or of the input."""
        tree = self.config.files.tree
        span = self.config.span("input", self.number, *key)
        if key and key[0] not in self.section.model_fields_set:
            span = tree.span(("input", self.number, "name"))
        return Diagnostic(code, f"input {self.section.name}: {message}", span, hint, Severity.WARNING)

    def _counted(self, number: int) -> str:
        """A number of records, with the noun."""
        noun = "row" if self.section.format in ("csv", "parquet") or self.section.spark else "record"
        return f"{number:,} {noun}{'' if number == 1 else 's'}"

    @property
    def _lateness(self) -> str:
        """The declared lateness as text."""
        declared = self.section.lateness
        return declared if isinstance(declared, str) and not declared.isdecimal() else f"{declared} {self._unit}"

    @property
    def _unit(self) -> str:
        return self.config.settings.time.unit

    def warnings(self) -> Iterator[Diagnostic]:
        """The warnings about the input."""
        sample, total = self.sample, self.sample.count + self.sample.unreadable.count
        if sample.unreadable.count:
            message = f"{sample.unreadable.count:,} of {self._counted(total)} cannot be read; {sample.unreadable.first}: {sample.reason}"
            yield self._warning("I112", message, "Each becomes a dead letter.")
        if sample.late or sample.repeated:
            yield self._of_lateness()
        if sample.far.count:
            told, hint = other_unit(sample.far_unit, UNITS[self._unit], mapped=self.section.map is not None)
            yield self._warning("I106", f"integer times {told} ({sample.far.first})", hint)
        yield from self._of_zones()
        yield from self._of_ties()
        if sample.mixed is not None and not self.section.one_per_instant:
            yield self._of_mixed_values(sample.mixed)
        for predicate, texts in sorted(sample.texts.items()):
            if texts.numbers * 2 > texts.count:
                yield self._of_texts(predicate, texts)
            if texts.count and texts.numerals * 2 > texts.objects:
                yield self._of_few_texts(predicate, texts)

    def _of_lateness(self) -> Diagnostic:
        sample = self.sample
        if self.section.one_per_instant is True:
            message = (
                f"one_per_instant loses {sample.late + sample.repeated:,} of {self._counted(sample.count)}: {sample.late:,} behind "
                f"a later one, {sample.repeated:,} of the same time"
            )
            return self._warning("I107", message, "Leave one_per_instant out, and write a lateness.", "one_per_instant")
        if (outliers := sample.outliers()) is not None:
            bulk, lost = outliers
            enough = self._lateness if bulk <= sample.declared else duration_text(bulk)
            come, whose, alone = ("comes", "its", "this one") if lost.count == 1 else ("come", "their", f"these {lost.count:,}")
            late = f"{lost.count:,} of {self._counted(sample.count)} {come} {lost.longest // Unit.DAY.value:,} days late"
            message = f"{late} (first: {lost.first}): {whose} clock was not set? lateness: {enough} loses {alone} alone"
            hint = "Correct their times, or accept the loss: report: { accept: [I107] }."
            hint = hint if bulk <= sample.declared else f"Write lateness: {enough}. {hint}"
            return self._warning("I107", message, hint, "lateness")
        needed = duration_text(sample.behind)
        message = f"lateness: {self._lateness} loses {sample.late:,} of {self._counted(sample.count)}, {needed} none"
        hint = f"Write lateness: {needed} to lose none of them; instants close that much later."
        if self.section.one_per_instant == "apart":
            hint = (
                f"Elements that are set apart have no lateness: sort them by time, or write lateness: {needed} in place of one_per_instant."
            )
        return self._warning("I107", message, hint, "lateness")

    def _of_zones(self) -> Iterator[Diagnostic]:
        zoned, zoneless = self.sample.zoned, self.sample.zoneless
        default = self.config.settings.time_zone
        if not zoneless.count or self.section.time_zone is not None:
            return
        if self.section.map is not None and default is not None:
            if not zoned.count:
                return  # the pipeline names their zone
            hint = f"Those without one are read in {default}, the time_zone of the pipeline: name another for this input, or accept it."
        elif self.section.format in ("csv", "json", "text", "parquet"):
            hint = "Name their zone, as in time_zone: Europe/Berlin or time_zone: UTC; without it they are read as UTC."
        else:
            hint = "They are read as UTC; write the zone into the times, as in 2024-03-01T07:00:00Z or …+01:00."
        if zoned.count:
            message = f"times without a zone ({zoneless.count:,}, as in {zoneless.first}) and with one ({zoned.count:,}, {zoned.first})"
            yield self._warning("I109", message, hint, "time")
        else:
            yield self._warning("I110", f"its times have no zone ({zoneless.first})", hint, "time")

    def _of_ties(self) -> Iterator[Diagnostic]:
        """Records of one key with one time, whose order is lost; or, where they are set apart, the
        windows that just miss one of them."""
        sample, accept = self.sample, "or accept it: report: { accept: [I120] }"
        dated = sample.zoned.count or sample.zoneless.count or self._has_zone
        if not self.section.one_per_instant and dated and sample.ties:
            message = f"{sample.ties:,} of {self._counted(sample.count)} share their time with one before, and are about the same thing"
            hint = f"They are one instant, without an order. If theirs matters, write one_per_instant: apart; {accept}"
            yield self._warning("I120", message, hint, "path")
        windows = [
            (rule.name, scope)
            for rule in self.program.rules.rules
            for clause in rule.clauses
            if isinstance(scope := scope_of(clause), Window) and scope.interval.high_closed
        ]
        for rule, window in windows if self.section.one_per_instant == "apart" else ():
            missed = sum(time - window.interval.high in sample.times for time in sample.tied)
            if missed:
                length = duration_text(window.interval.high)
                message = (
                    f"rule {rule} looks back {length}, and {missed:,} of what is set apart just misses something that is {length} before"
                )
                yield self._warning("I120", message, f"Write a window that is longer than {length} by 1 ms; {accept}", "one_per_instant")

    def _of_mixed_values(self, mixed: MixedValues) -> Diagnostic:
        said = " and ".join(term_text(predicate, self.prefixes) for predicate in mixed.predicates[:2])
        subject, at = term_text(mixed.subject, self.prefixes), format_time(mixed.time, self._clock)
        message = f"{mixed.places} both say {said} of {subject} at {at}: their values mix"
        hint = "Name the part in the subject, as in :{host}-{cpu}, or use []; or accept it: report: { accept: [I119] }"
        return self._warning("I119", message, hint, "map")

    def _of_texts(self, predicate: Term, texts: ObjectTexts) -> Diagnostic:
        name = term_text(predicate, self.prefixes)
        many = "all its" if texts.numbers == texts.count else f"{texts.numbers:,} of {texts.count:,}"
        message = f'text that looks like a number: {name} "{texts.example}" ({many} texts)'
        cast = "or cast it where a query reads it: xsd:decimal(?value)"
        if texts.comma:
            if self.section.format == "csv" and self.section.decimal != ",":
                return self._warning("I108", message, 'Write decimal: ",".', "map")
            hint = 'A number has a dot: correct the data, or cast it where a query reads it: xsd:decimal(REPLACE(?value, ",", "."))'
            return self._warning("I108", message, hint, "map")
        if self.section.format in ("csv", "text"):
            cell = "{column}" if self.section.format == "csv" else "{$value}"
            return self._warning("I108", message, f"Write its cell in the map without quotes, as in {cell}; {cast}", "map")
        if self.section.format in ("json", "parquet"):
            return self._warning("I108", message, f"Write its cell in the map with a type, as in {{path:decimal}}; {cast}", "map")
        return self._warning("I108", message, f"Write it without quotes in the data; {cast}")

    def _of_few_texts(self, predicate: Term, texts: ObjectTexts) -> Diagnostic:
        """A warning of texts among the objects of a predicate that are numbers for the most part."""
        name, verb = term_text(predicate, self.prefixes), "is" if texts.count == 1 else "are"
        message = f"{texts.count:,} of {texts.objects:,} values of {name} {verb} text ({texts.first})"
        cell, accept = self._cell_of(predicate), "or accept it: report: { accept: [I118] }"
        if cell is None:
            hint = f"A condition with such a value is an error. Test it in a query, FILTER(isNumeric(?value)), correct the data, {accept}"
            return self._warning("I118", message, hint)
        hint = f"Write {{{cell}:decimal?}}, which leaves such a text out, or {{{cell}:decimal}}, which rejects its element; {accept}"
        return self._warning("I118", message, hint, "map")

    def _cell_of(self, predicate: Term) -> str | None:
        """The cell without a type that the map gives as the object of a predicate."""
        if self.section.map is None:
            return None
        document = Document(f"map of input {self.section.name}", self.section.map)
        template = parse_template(Span(document, 0, len(self.section.map)), self.config.settings.prefixes, cells=True)
        found = [each for _, each_predicate, each in template.triples if each_predicate == Const(predicate)]
        return next((each.column for each in found if isinstance(each, Cell) and each.type is None), None)

    def line(self) -> str:
        """A line about the input: its records, their times, and the least lateness without late
        records."""
        sample, total = self.sample, self.sample.count + self.sample.unreadable.count
        files = "" if self.section.path == "-" or self.section.spark else f" of {sample.files:,} file{'' if sample.files == 1 else 's'}"
        first = "the first " if sample.full else ""
        text = f"Input {self.section.name}: {first}{self._counted(total)}{files}"
        if not sample.count:
            return f"{text}, none of them readable."
        clock = self._clock
        text += f", from {format_time(sample.least, clock)} to {format_time(sample.greatest, clock)}; "
        if self.section.spark is not None:
            return f"{text[:-2]}."  # which of them are late depends on Spark's batches
        if self.section.one_per_instant is True:
            return f"{text}one_per_instant loses {f'{sample.late + sample.repeated:,}' if sample.late or sample.repeated else 'none'}."
        needed = duration_text(sample.behind) if sample.behind else "0 s"
        if sample.late:
            return f"{text}lateness: {self._lateness} loses {sample.late:,}, {needed} none."
        declared_longer = needed != self._lateness and bool(self.section.lateness) and self.section.lateness != "0 s"
        return f"{text}lateness: {self._lateness} loses none{f', {needed} neither' if declared_longer else ''}."

    @property
    def _clock(self) -> Clock:
        """The form of the input's times."""
        dated = bool(self.sample.zoned.count or self.sample.zoneless.count or self._has_zone)
        return Clock(UNITS[self._unit], dated, self.config.settings.time_zone or "")

    @property
    def _has_zone(self) -> bool:
        return self.section.time_zone is not None or self.section.time_format is not None


# Times that are put together of several cells.


def wrong_lists_of_times(config: Config, number: int, files: Sequence[InputFile], most: int, severity: Severity) -> Iterator[Diagnostic]:
    """Problems (I124) of a list of times of which an entry never counts, or is a time of day: what is
    meant is probably a date and its time of day."""
    entries = config.settings.input[number].time
    if not isinstance(entries, list) or not files:
        return
    uses = time_uses(files, entries, most)
    for use, following in pairwise(uses):
        always = use.looked and use.present == use.looked
        if not always and not following.clock:
            continue
        wrong = f"{following.written} is a time of day ({following.clock})" if following.clock else f"{following.written} never counts"
        message = f"time is the first of a list that is there: {use.written} is there in every record ({use.looked:,}), and {wrong}"
        if not always:
            message = f"time is the first of a list that is there, and {wrong}"
        template = " ".join(_template(each) for each in (use.written, following.written))
        hint = f"Date and time of day are one text: time: {_in_quotes(template)}."
        hint += "" if following.clock else f" Else leave {following.written} out."
        yield Diagnostic("I124", message, config.span("input", number, "time"), hint, severity)
        return


def _template(time: str) -> str:
    """A time as part of a template.

    >>> _template("Date"), _template("{Date}"), _template('"a{b}"')
    ('{Date}', '{Date}', '{"a{b}"}')
    """
    (text,) = time_cells(time)
    return text.pattern % tuple([f"{{{cell}}}" for cell in text.cells])


def _in_quotes(template: str) -> str:
    """A template in quotes of YAML, of which it has none itself.

    >>> print(_in_quotes("{day} {hour}"), _in_quotes('{"a.b"}'))
    "{day} {hour}" '{"a.b"}'
    """
    return f"'{template}'" if '"' in template else f'"{template}"'


def check_lists_of_times(config: Config) -> list[Diagnostic]:
    """The warnings (I124) of all inputs, by the first records of their files."""
    inputs = read_inputs(config, [])
    return [
        problem
        for number, section in enumerate(config.settings.input)
        for problem in wrong_lists_of_times(
            config, number, [file for file in inputs.files if file.input == section.name], _FIRST, Severity.WARNING
        )
    ]


_FIRST: Final = 100
"""Records of a list of times that are read where no data are checked."""


def _midnights(config: Config, number: int, files: Sequence[InputFile], sample: InputSample) -> Iterator[Diagnostic]:
    """A warning (I125) of records that share the midnights of their days, beside a column with times
    of day."""
    section, map_ = config.settings.input[number], files[0].map if files else None
    form = section.time_format or ""
    if map_ is None or not isinstance(section.time, str) or map_.is_dated != bool(form) or not date_form(form) or set(form) & set("HIM"):
        return
    names = list[str]()
    if section.format == "csv":
        names = [written_name(name) for name in header_of(files[0])[0]]
    elif section.format == "json":
        names = member_paths(files[0])
    days = len(sample.times)
    if not days or sample.count < 2 * days:
        return
    for use in time_uses(files[:1], [name for name in names if name not in cells_of_time(files[0])], _FIRST):
        if use.clock and use.present == use.looked:
            each_day = sample.count // days
            many = f"{each_day:,}" if each_day * days == sample.count else f"{each_day:,} and more"
            message = f"input {section.name}: {many} records of each day share the time 00:00, beside a column {use.written}"
            template = _in_quotes(f"{_template(section.time)} {{{use.written}}}")
            hint = f'Write time: {template} and time_format: "{form} {clock_format(use.clock)}".'
            yield Diagnostic("I125", message, config.span("input", number, "time"), hint, Severity.WARNING)
            return


def _missing_terms(program: CompiledProgram, samples: Sequence[InputSample], *, complete: bool) -> Iterator[Diagnostic]:
    """Warning for each predicate and class of a query that occurs in no record."""
    streamed = frozenset[Term]().union(*[sample.terms.terms for sample in samples])
    if any(len(sample.terms.terms) >= MOST_TERMS for sample in samples):
        return
    prefixes = program.rules.prefixes
    dependencies = TermDependencies(program)
    texts = sorted(term_text(term, prefixes) for term in streamed)
    by_predicate = program.knowledge.background.by_subject
    known = sorted({*streamed, *by_predicate} if len(by_predicate) < MOST_TERMS else streamed)
    reported: set[Term] = set()
    for query, span in _queries(program):
        for term in dependencies.missing(query, streamed):
            if term in reported:
                continue
            reported.add(term)
            text = term_text(term, prefixes)
            records = "record" if complete else "record that was read"
            closest = _nearest(term, known, prefixes)
            listed = ", ".join(texts[:_MOST_LISTED]) + (f" and {len(texts) - _MOST_LISTED:,} more" if len(texts) > _MOST_LISTED else "")
            hint = f"Did you mean {closest}?" if closest else f"They bring {listed}."
            place = _place_of(text, term, (*program.spec.rules, *program.spec.datalog)) or span
            yield Diagnostic("I111", f"a query asks for {text}, and no {records} brings it", place, hint, Severity.WARNING)


def _queries(program: CompiledProgram) -> Iterator[tuple[Select, Span]]:
    """The queries of a program, each with the place that names it."""
    found: dict[Select, Span] = {shared.query: shared.span for shared in program.rules.queries}
    for rule in program.rules.rules:
        for role in roles(rule):
            if isinstance(role.source, FactSource) and role.source.period is None:
                found.setdefault(role.source.query, role.span)
    return iter(found.items())


def _nearest(term: Term, known: Iterable[Term], prefixes: Prefixes) -> str:
    """The known term that is spelt most like another: of the same local name, or nearly so; empty
    if none is.

    >>> _nearest("<http://e/Smok>", ["<http://e/Smoke>", "<http://e/Heat>"], {"": "http://e/"})
    ':Smoke'
    >>> _nearest("<http://e/speed>", ["<http://other/Speed>"], {})
    '<http://other/Speed>'
    """
    local = _local_name(term).lower()
    by_name: dict[str, Term] = {}
    for each in known:
        if each != term:
            by_name.setdefault(_local_name(each).lower(), each)
    close = get_close_matches(local, by_name, n=1, cutoff=0.7)
    return term_text(by_name[close[0]], prefixes) if close else ""


def _local_name(term: Term) -> str:
    """The part of an IRI behind its last `#`, `/` or `:`."""
    return re.split("[#/:]", term.strip("<>"))[-1]


def _place_of(text: str, term: Term, documents: Iterable[Document]) -> Span | None:
    """The first place of a term in rule files or Datalog files, outside of comments."""
    for document in documents:
        for found in scan.tokens(Span(document, 0, len(document.text))):
            if found[0] in (text, term):
                return Span(document, *found.span())
    return None


# Objects of predicates that are known without reading data.


def objects_of_inputs(config: Config) -> StreamObjects:
    """Sources of objects in a configuration's inputs: the maps of CSV inputs. With other inputs the
    result is not complete."""
    sources: list[ObjectSource] = []
    is_complete = True
    for section in config.settings.input:
        if section.format != "csv" or section.map is None:
            is_complete = False
            continue
        document = Document(f"map of input {section.name}", section.map)
        try:
            template = parse_template(Span(document, 0, len(section.map)), config.settings.prefixes, cells=True)
        except Refused:  # reported by the check of the input
            is_complete = False
            continue
        for _, predicate, value in template.triples:
            if isinstance(predicate, Const):
                sources.append(ObjectSource(predicate.term, _kind_of_slot(value), f"by the map of input {section.name}", _remedy(value)))
            else:
                is_complete = False
    return StreamObjects(tuple(dict.fromkeys(sources)), is_complete)


def objects_of_graphs(graphs: Iterable[Sequence[Triple]]) -> StreamObjects:
    """Sources of objects in the graphs of a test."""
    objects = dict.fromkeys((predicate, term_kind(value)) for graph in graphs for _, predicate, value in graph)
    return StreamObjects(
        tuple([ObjectSource(predicate, kind, "in the streams of the cases") for predicate, kind in objects]), is_complete=True
    )


def _kind_of_slot(slot: TemplateSlot) -> TermKind | None:
    match slot:
        case Const(term):
            return term_kind(term)
        case CellIri():
            return TermKind.IRI
        case Blank():
            return TermKind.BLANK
        case CellLiteral(_, datatype, language):
            return TermKind.STRING if datatype == XSD + "string" and not language else None
        case TemplateTerm():
            return TermKind.TRIPLE
        case Cell(_, kind):
            return None if kind is None else _KINDS.get(kind, TermKind.OTHER)
        case Var() | Fresh():
            return None
        case _:
            assert_never(slot)


_KINDS: Final = {
    **dict.fromkeys((CellType.DECIMAL, CellType.INTEGER, CellType.DOUBLE), TermKind.NUMBER),
    CellType.BOOLEAN: TermKind.BOOLEAN,
    CellType.IRI: TermKind.IRI,
    CellType.STRING: TermKind.STRING,
}
"""The kinds of the terms of typed cells; dates and times are other literals."""


def _remedy(slot: TemplateSlot) -> str:
    match slot:
        case Cell(column, CellType.STRING):
            return f"write {{{column}}} or {{{column}:decimal}} there"
        case CellLiteral((Cell(column),), _, _):
            return f'write {{{column}}} or "{{{column}}}"^^xsd:decimal there'
        case _:
            return ""


# First rows of inputs that Spark reads, for `dotr check --data`: their columns, and the triples of
# one of them.


def sample_tables(
    config: Config, program: CompiledProgram, tables: Sequence[SparkInput], most: int
) -> Mapping[str, tuple[InputSample, list[str]]]:
    """A sample of each input by its name, with lines about its columns and its first row.

    `most`: the number of rows that are read of each. Raises `Refused`: without Spark (S101), and
    with the problems of all tables, columns and maps.
    """
    from dotr.runtimes.spark.start.installation import java_problem, pyspark_problem

    if (problem := java_problem() or pyspark_problem()) is not None:
        raise refuse(
            "S101", f"Spark, which reads the inputs, cannot run here: {problem}", hint="Install Java 17 or later, and dotr[spark]."
        )
    from dotr.runtimes.frames.reading import read_record
    from dotr.runtimes.frames.run import open_tables
    from dotr.runtimes.frames.stream import selected
    from dotr.runtimes.spark.exchange.errors import failure_of
    from dotr.runtimes.spark.exchange.jvm_errors import JVM_ERRORS, error_text
    from dotr.runtimes.spark.start.session import reading_session

    settings = config.settings
    conf = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.spark.conf.items()}
    found: dict[str, tuple[InputSample, list[str]]] = {}
    try:
        with reading_session(f"{settings.name}: check", settings.spark.master, conf) as session:
            is_batch = True
            try:
                opened = open_tables(session, program, tables, streaming=False)
            except Refused:
                opened, is_batch = open_tables(session, program, tables, streaming=tables[0].streaming), not tables[0].streaming
            for each, stream, source in zip(tables, opened.streams, opened.sources, strict=True):
                sample, columns = InputSample(StreamTerms(()), most), ", ".join([f"{name} {kind}" for name, kind in stream.df.dtypes])
                lines = [f"Input {each.name}: the columns of {each.named} are {columns}."]
                found[each.name] = sample, lines
                if not is_batch:
                    lines.append(f"Input {each.name}: its rows are read in a run, and none are there to be read now.")
                    continue
                rows = selected(stream.df, source).select("time", "record").limit(most + 1).collect()
                like = replace(each.like, path=each.named, map=None, delay=LAST_MICRO // 2)

                records = _records(rows, partial(read_record, source))
                sample.read(like, iter(records))
                sample.ended = len(rows) <= most
                sample.zoned.count = sample.count if source.is_dated else 0
                clock = Clock(like.unit, source.is_dated, like.zone)
                lines += _example(records, clock, like)
    except JVM_ERRORS as error:
        raise failure_of(error_text(error), Path("spark.log")) from None
    return found


def _records(rows: Iterable[tuple[Micros | None, str | None]], read: Callable[[str | None], tuple[Triple, ...]]) -> list[Record]:
    """The records of rows, each its time and its text, which `read` makes triples."""
    records = []
    for number, (time, text) in enumerate(rows, 1):
        element, why = None, "its time is NULL or out of range"
        if time is not None:
            try:
                element = Element(time, read(text))
            except ValueError as error:
                why = str(error)
        records.append(Record(number, number + 1, number, time if element else None, element, b"", "" if element else why))
    return records


def _example(records: Iterable[Record], clock: Clock, like: InputFile) -> list[str]:
    """The line of the first readable row: its time and its triples."""
    element = next((each.element for each in records if each.element is not None), None)
    if element is None:
        return []
    text = turtle_text(element.triples, {"xsd": XSD, **dict(like.prefixes)})
    return [f"Input {like.input}: its first row is, at {format_time(element.time, clock)}: {text}"]
