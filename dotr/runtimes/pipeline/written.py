"""Events and dead letters that runs have written, read again from the outputs of a configuration.

Idea: each format yields events with what it has of them: NDJSON all, tables the text of cells, RDF
the graph. `WrittenOutput.expected` brings a firing of a replay into the same form, so that equal
events are equal values. A text that is no event, or cut off in the middle, is left to its reader:
the last line without an end is passed over, since a run may be writing it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from functools import cached_property, partial
from itertools import groupby
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from pyoxigraph import DefaultGraph, Quad, RdfFormat, parse

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.expressions import has_terms
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import PROV, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.outputs import chosen_events, read_outputs
from dotr.streams.connectors.kafka.topics import KafkaDestination, KafkaInput
from dotr.streams.connectors.opening import ChosenEvents, Destination
from dotr.streams.formats.rdf import jelly
from dotr.streams.formats.writing import StreamFormat, ntriples, plain_text
from dotr.streams.records import Format, InputFile
from dotr.streams.sinks.events import OutputFormat, TableFormat
from dotr.streams.sinks.files import PathDestination, stores_no_data
from dotr.streams.sinks.parquet import column_names
from dotr.streams.times import parse_time

_RDF: Final = {
    StreamFormat.TRIG: RdfFormat.TRIG,
    StreamFormat.NQUADS: RdfFormat.N_QUADS,
    StreamFormat.JSONLD: RdfFormat.JSON_LD,
    StreamFormat.JELLY: RdfFormat.N_QUADS,
}
_FIXED: Final = ("time", "rule", "event", "graph")
_TIME: Final = f"{PROV}generatedAtTime"
_RULE: Final = f"{PROV}wasGeneratedBy"
UNREADABLE: Final = "(no event)"
"""The name of the rule of a text that is no event."""

ELEMENT: Final = "(element)"
"""The name of the rule of an element of an input."""

_Files: TypeAlias = Callable[[], Iterator[tuple[str, BinaryIO]]]
"""A function that opens files or messages, each with its name."""


class WrittenEvent(NamedTuple):
    """An event in an output.

    - `time`: in µs since 1970; `rule`: the name of its rule.
    - `content`: what the output has of it beside these, to compare it.
    - `attributes`: its attributes as texts; None: the format has none.
    - `place`: its file and line, or partition and offset.
    """

    time: Micros
    rule: str
    content: str
    attributes: Mapping[Variable, str] | None = None
    place: str = ""


@dataclass(frozen=True)
class WrittenOutput:
    """An output that can be read.

    Attributes:
        name: its path, or its topic.
        form: its format.
        clock: the form of its times.
        chosen: the events that it has; None: all.
        attributes: the attributes of these events, sorted.
        files: opens its files or messages.
    """

    name: str
    form: OutputFormat
    clock: Clock
    chosen: ChosenEvents | None
    attributes: tuple[Variable, ...]
    files: _Files = field(compare=False)

    @property
    def has_attributes(self) -> bool:
        """True if its events have attributes."""
        return self.form not in _RDF

    def has(self, event: WrittenEvent, where: Iterable[tuple[Variable, Term]]) -> bool:
        """True if an event has attributes that equal terms: by SPARQL's `=`, in a table as text."""
        values = event.attributes or {}
        if self.form is StreamFormat.NDJSON:
            return has_terms(values, where)
        return all(values.get(name) == plain_text(term) for name, term in where)

    def events(self, rule: str = "") -> Iterator[WrittenEvent]:
        """The events in the order in which they are written; `rule`: others than those of this rule
        may be left out."""
        required = json.dumps(rule, ensure_ascii=False).encode() if rule and self.form is StreamFormat.NDJSON else b""
        between = ", row " if self.form is TableFormat.PARQUET else ":"
        for name, file in self.files():
            if isinstance(self.form, StreamFormat) and self.form in _RDF:
                for part in _documents(file, self.form):
                    yield from self._graphs(name, part, _RDF[self.form])
                continue
            passed = 0
            for number, row in self._rows(file):
                if isinstance(row, bytes) and required not in row:
                    continue
                try:
                    event = self._event(row, f"{name}{between}{number}")
                except (ValueError, LookupError, TypeError, AttributeError):
                    cells = row.values() if isinstance(row, dict) else row
                    text = row.decode(errors="replace").rstrip("\n") if isinstance(row, bytes) else ",".join(map(str, cells))
                    event = WrittenEvent(passed, UNREADABLE, text, None, f"{name}{between}{number}")
                passed = event.time
                yield event

    def expected(self, firing: Firing) -> WrittenEvent | None:
        """A firing as the output has it; None if the output leaves it out."""
        if self.chosen is not None and firing.event not in self.chosen.labels:
            return None
        if firing.graph is None and self.form is not StreamFormat.NDJSON:
            return None
        graph = ntriples(firing.graph)
        if not firing.rule and self.form is StreamFormat.NDJSON:
            return WrittenEvent(firing.time, ELEMENT, graph)
        if self.form in _RDF:
            return WrittenEvent(firing.time, firing.rule or ELEMENT, _graph_content(parse(graph.encode(), RdfFormat.N_TRIPLES)))
        text = str if self.form is StreamFormat.NDJSON else plain_text
        attributes = {name: text(term) for name, term in firing.attributes}
        return WrittenEvent(firing.time, firing.rule, _content(firing.event, attributes, "" if self.form is StreamFormat.CSV else graph))

    # --- formats ---

    @cached_property
    def _columns(self) -> Mapping[str, Variable]:
        """The attributes by their columns in a table."""
        return dict(zip(column_names(self.attributes), self.attributes, strict=True))

    def _rows(self, file: BinaryIO) -> Iterator[tuple[int, Any]]:
        """The rows of a file with their numbers: lines of NDJSON, the cells of tables by column."""
        match self.form:
            case StreamFormat.NDJSON:
                yield from enumerate(_whole_lines(file), 1)
            case StreamFormat.CSV:
                rows = csv.reader(line.decode() for line in _whole_lines(file))
                header = next(rows, [])
                columns = [*header[:3], *column_names(header[3:])]
                for row in rows:
                    yield rows.line_num, dict(zip(columns, row, strict=True)) if len(row) == len(columns) else row
            case _:
                from pyarrow import parquet

                batches = parquet.ParquetFile(file).iter_batches()
                yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)

    def _event(self, row: Any, place: str) -> WrittenEvent:
        """The event of a row; raises an error of Python where a text is none."""
        if isinstance(row, bytes):
            found = json.loads(row)
            if found.keys() == {"time", "graph"}:
                return WrittenEvent(parse_time(found["time"], self.clock.unit), ELEMENT, str(found["graph"]), None, place)
            attributes = {str(name): str(term) for name, term in found["attributes"].items()}
        else:
            found = row
            attributes = {self._columns.get(column, column): cell for column, cell in row.items() if column not in _FIXED and cell}
        time = found["time"].isoformat() if isinstance(found["time"], datetime) else found["time"]
        content = _content(found["event"], attributes, "" if self.form is StreamFormat.CSV else found["graph"])
        return WrittenEvent(parse_time(time, self.clock.unit), found["rule"], content, attributes, place)

    def _graphs(self, name: str, file: BinaryIO | bytes | str, form: RdfFormat) -> Iterator[WrittenEvent]:
        """The named graphs, each after its time and its rule; one that is cut off is left out."""
        with suppress(SyntaxError):
            for graph, quads in groupby(parse(file, form), _named_graph):
                both = list(quads)
                told = {quad.predicate.value: quad.object.value for quad in both if isinstance(quad.graph_name, DefaultGraph)}
                if _TIME in told:
                    rule = unquote(told.get(_RULE, "").removeprefix("urn:dotr:rule:")) or ELEMENT
                    content = _graph_content(quad for quad in both if not isinstance(quad.graph_name, DefaultGraph))
                    yield WrittenEvent(parse_time(told[_TIME], self.clock.unit), rule, content, None, f"{name}, {graph}")


def _named_graph(quad: Quad) -> Any:
    return quad.subject if isinstance(quad.graph_name, DefaultGraph) else quad.graph_name


def _content(event: str, attributes: Mapping[Variable, str], graph: str) -> str:
    present = {name: value for name, value in sorted(attributes.items()) if value}
    return json.dumps([event, present, graph], ensure_ascii=False)


def _graph_content(quads: Iterable[Quad]) -> str:
    return "\n".join(sorted(f"{quad.subject} {quad.predicate} {quad.object} ." for quad in quads))


def _documents(file: BinaryIO, form: StreamFormat) -> Iterator[BinaryIO | bytes | str]:
    """The RDF documents of a file."""
    match form:
        case StreamFormat.JSONLD:
            yield from _whole_lines(file)
        case StreamFormat.JELLY:
            yield from jelly.nquads_of(file)
        case _:
            yield file


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines with their ends; one that is cut off is left out."""
    try:
        yield from (line for line in file if line.endswith(b"\n"))
    except EOFError:  # a compressed file that is being written
        return


def written_outputs(config: Config, program: CompiledProgram, clock: Clock) -> tuple[list[WrittenOutput], list[str]]:
    """The outputs that can be read, and the names of the others, with the reason.

    Raises:
        Refused: an output has a problem, or a broker does not answer.
    """
    problems: list[Diagnostic] = []
    sections = read_outputs(config, problems, on_spark=True).events
    events = chosen_events(config, program, problems)
    if problems:
        raise Refused(problems)
    outputs: list[WrittenOutput] = []
    others: list[str] = []
    for number, (output, chosen) in enumerate(zip(sections, events, strict=True), 1):
        name, files = _files_of(output.destination, output.format)
        if files is None:
            others.append(name or f"output {number}, which is sent")
            continue
        names = {name for names in program.attributes.values() for name in names} if chosen is None else chosen.attributes
        outputs.append(WrittenOutput(name, output.format, clock, chosen, tuple(sorted(names)), files))
    return outputs, others


def written_dead_letters(config: Config, clock: Clock) -> Iterator[DeadLetter] | None:
    """The dead letters of a run; None: there is no place where they can be read."""
    problems: list[Diagnostic] = []
    destination = read_outputs(config, problems, on_spark=True).dead_letters
    if problems:
        raise Refused(problems)
    files = None if destination is None else _files_of(destination, StreamFormat.NDJSON)[1]
    return None if files is None else _dead_letters(files, clock)


def _dead_letters(files: _Files, clock: Clock) -> Iterator[DeadLetter]:
    for _, file in files():
        for line in _whole_lines(file):
            try:
                found = json.loads(line)
                time = None if found["time"] is None else parse_time(found["time"], clock.unit)
                letter = DeadLetter(
                    Reason(found["reason"]), found["input"], found["file"], found["line"], time, str(found.get("text", "")), found["error"]
                )
            except (ValueError, LookupError, TypeError):
                continue
            yield letter


def _files_of(destination: Destination, form: OutputFormat) -> tuple[str, _Files | None]:
    """The name of a destination, and its files or messages; None with the reason after the name."""
    match destination:
        case PathDestination(path):
            if stores_no_data(path):
                return f"{path}, which keeps no data", None
            files = _stored(Location(path), form.value)
            return (path, partial(_files, files)) if files is not None else (f"{path}, which is not there", None)
        case KafkaDestination(topic) if form is StreamFormat.NDJSON or form in _RDF:
            return f"topic {topic}", partial(_messages, destination)
        case _:
            return "", None


def _stored(output: Location, suffix: str) -> list[Location] | None:
    """The files of an output: one, or one for each batch, in their order; None where there is nothing."""
    if output.look() is not None:
        return [output]
    found = [each.location for each in output.glob(f"*.{suffix}")]
    return found if found or (not output.is_url and output.path.is_dir()) else None


def _files(files: Sequence[Location]) -> Iterator[tuple[str, BinaryIO]]:
    for each in files:
        with each.open() as file:
            yield str(each), gzip.GzipFile(fileobj=file) if each.suffix == ".gz" else file  # type: ignore[misc]


def _messages(destination: KafkaDestination) -> Iterator[tuple[str, BinaryIO]]:
    """The messages of a topic, up to its present end."""
    from dotr.streams.connectors.kafka.channels import BoundedTopics

    reading = tuple((key, value) for key, value in destination.properties if key.startswith(_CONNECTING))
    topics = BoundedTopics(KafkaInput(InputFile("", "", Format.NDJSON), reading, (destination.topic,)))
    for file in topics.files:
        for offset, value in topics.values(file):
            yield f"{file.path}:{offset}", io.BytesIO(value + b"\n")


_CONNECTING: Final = ("bootstrap.", "security.", "sasl.", "ssl.", "enable.ssl", "client.", "socket.", "broker.")
"""Properties of a client that writes that one that reads needs, too."""
