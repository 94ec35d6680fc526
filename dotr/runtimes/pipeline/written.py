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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import unquote

from pyoxigraph import DefaultGraph, Quad, RdfFormat, parse

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.evaluation.expressions import term_in
from dotr.model.algebra import Call, Const, Var
from dotr.model.stream import Firing
from dotr.model.terms import PROV, TRUE, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.outputs import chosen_events
from dotr.streams.connectors.opening import ChosenEvents
from dotr.streams.formats.writing import StreamFormat, ntriples, plain_text
from dotr.streams.records import Format, InputFile
from dotr.streams.sinks.events import OutputFormat, TableFormat, output_format
from dotr.streams.sinks.files import stores_no_data
from dotr.streams.sinks.parquet import column_names
from dotr.streams.times import parse_time

_RDF: Final = {StreamFormat.TRIG: RdfFormat.TRIG, StreamFormat.NQUADS: RdfFormat.N_QUADS}
_FIXED: Final = ("time", "rule", "event", "graph")
_RULE: Final = "urn:dotr:rule:"
UNREADABLE: Final = "(no event)"
"""The name of the rule of a text that is no event."""


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


class WrittenDeadLetter(NamedTuple):
    """A dead letter of a run: its reason, and the input, file, line, time and text of its element."""

    reason: str
    input: str
    file: str
    line: int
    time: str | int | None
    error: str
    text: str = ""

    def __str__(self) -> str:
        """Return the reason and the place: `idle, readings/1:353`."""
        return f"{self.reason}, {self.file}:{self.line}" if self.line else f"{self.reason}, {self.file}"


@dataclass(frozen=True)
class WrittenOutput:
    """An output that can be read.

    Attributes:
        name: its path, or its topic.
        form: its format.
        clock: the form of its times.
        chosen: the events that it has; None: all.
        attributes: the attributes of these events, sorted.
        texts: yields its files or messages, each with its name.
    """

    name: str
    form: OutputFormat
    clock: Clock
    chosen: ChosenEvents | None
    attributes: tuple[Variable, ...]
    texts: Callable[[], Iterator[tuple[str, BinaryIO]]] = field(compare=False)

    @property
    def has_attributes(self) -> bool:
        """True if its events have attributes."""
        return self.form not in _RDF

    def has(self, event: WrittenEvent, name: Variable, term: Term) -> bool:
        """True if an attribute of an event equals a term: by SPARQL's `=`, in a table as text."""
        value = (event.attributes or {}).get(name)
        if self.form is not StreamFormat.NDJSON or value is None:
            return value == plain_text(term)
        return term_in(Call("=", (Var(name), Const(term))), lambda _: value) == TRUE

    def events(self, rule: str = "") -> Iterator[WrittenEvent]:
        """The events in the order in which they are written; `rule`: others than those of this rule
        may be left out."""
        for name, file in self.texts():
            match self.form:
                case StreamFormat.NDJSON:
                    yield from self._lines(name, file, json.dumps(rule, ensure_ascii=False).encode() if rule else b"")
                case StreamFormat.CSV:
                    yield from self._rows(name, file)
                case TableFormat.PARQUET:
                    yield from self._table(name, file)
                case form:
                    yield from self._graphs(name, file, _RDF[form])

    def expected(self, firing: Firing) -> WrittenEvent | None:
        """A firing as the output has it; None if the output leaves it out."""
        if self.chosen is not None and firing.event not in self.chosen.labels:
            return None
        if firing.graph is None and self.form is not StreamFormat.NDJSON:
            return None
        if self.form is StreamFormat.NDJSON:
            content = _content(firing.event, dict(firing.attributes), ntriples(firing.graph))
        elif isinstance(self.form, TableFormat) or self.form is StreamFormat.CSV:
            cells = {name: plain_text(value) for name, value in firing.attributes}
            content = _content(firing.event, cells, ntriples(firing.graph) if isinstance(self.form, TableFormat) else "")
        else:
            triples = parse(ntriples(firing.graph).encode(), RdfFormat.N_TRIPLES)
            content = _graph_content(triples)
        return WrittenEvent(firing.time, firing.rule, content)

    # --- formats ---

    def _time(self, value: Any) -> Micros:
        return parse_time(value, self.clock.unit)

    def _lines(self, name: str, file: BinaryIO, required: bytes) -> Iterator[WrittenEvent]:
        passed = 0
        for number, line in enumerate(_whole_lines(file), 1):
            if required not in line:
                continue
            place = f"{name}:{number}"
            try:
                found = json.loads(line)
                passed = self._time(found["time"])
                attributes = {str(key): str(value) for key, value in found["attributes"].items()}
                yield WrittenEvent(passed, found["rule"], _content(found["event"], attributes, found["graph"]), attributes, place)
            except (ValueError, KeyError, TypeError, AttributeError):
                yield WrittenEvent(passed, UNREADABLE, line.decode(errors="replace").rstrip("\n"), None, place)

    def _rows(self, name: str, file: BinaryIO) -> Iterator[WrittenEvent]:
        rows = csv.reader(line.decode() for line in _whole_lines(file))
        header = next(rows, [])
        passed = 0
        for row in rows:
            place = f"{name}:{rows.line_num}"
            try:
                passed = self._time(row[0])
                cells = {key: cell for key, cell in zip(header[3:], row[3:], strict=True) if cell}
                yield WrittenEvent(passed, row[1], _content(row[2], cells, ""), cells, place)
            except (ValueError, IndexError):
                yield WrittenEvent(passed, UNREADABLE, ",".join(row), None, place)

    def _table(self, name: str, file: BinaryIO) -> Iterator[WrittenEvent]:
        from pyarrow import parquet

        names = dict(zip(column_names(self.attributes), self.attributes, strict=True))
        number = 0
        for batch in parquet.ParquetFile(file).iter_batches():
            for row in batch.to_pylist():
                number += 1
                time = row["time"] if isinstance(row["time"], int) else row["time"].isoformat()
                cells = {names.get(key, key): cell for key, cell in row.items() if key not in _FIXED and cell}
                content = _content(row["event"], cells, row["graph"])
                yield WrittenEvent(self._time(time), row["rule"], content, cells, f"{name}, row {number}")

    def _graphs(self, name: str, file: BinaryIO, form: RdfFormat) -> Iterator[WrittenEvent]:
        """The named graphs, each after its time and its rule; a text that is cut off ends them."""
        time: Micros | None = None
        rule, graph, triples = "", None, list[Quad]()

        def event() -> Iterator[WrittenEvent]:
            if time is not None:
                yield WrittenEvent(time, rule, _graph_content(triples), None, f"{name}, {graph}")

        try:
            for quad in parse(file, form):
                if not isinstance(quad.graph_name, DefaultGraph):
                    triples.append(quad)
                    continue
                if quad.subject != graph:
                    yield from event()
                    graph, time, triples = quad.subject, None, []
                if quad.predicate.value == f"{PROV}generatedAtTime":
                    time = self._time(quad.object.value)
                elif quad.object.value.startswith(_RULE):
                    rule = unquote(quad.object.value.removeprefix(_RULE))
        except SyntaxError:
            return
        yield from event()


def _content(event: str, attributes: Mapping[Variable, str], graph: str) -> str:
    present = {name: value for name, value in sorted(attributes.items()) if value}
    return json.dumps([event, present, graph], ensure_ascii=False)


def _graph_content(quads: Iterable[Quad]) -> str:
    return "\n".join(sorted(f"{quad.subject} {quad.predicate} {quad.object} ." for quad in quads))


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines with their ends; one that is cut off is left out."""
    try:
        yield from (line for line in file if line.endswith(b"\n"))
    except EOFError:  # a compressed file that is being written
        return


def written_outputs(config: Config, program: CompiledProgram, clock: Clock) -> tuple[list[WrittenOutput], list[str]]:
    """The outputs that can be read, and the names of the others, with the reason.

    Raises:
        Refused: an output names an event that the program does not have, or a broker does not
            answer.
    """
    problems: list[Diagnostic] = []
    outputs: list[WrittenOutput] = []
    others: list[str] = []
    for number, chosen in enumerate(chosen_events(config, program, problems)):
        section = config.settings.output[number]
        form = output_format(section.format)
        attributes = tuple(sorted({name for names in program.attributes.values() for name in names}))
        if section.kafka is not None and (form is StreamFormat.NDJSON or form in _RDF):
            name, texts = f"topic {section.kafka.topic}", _messages(config, number)
        elif config.transport("output", number) == "path":
            name = config.files.path(section.path, ("output", number, "path"))
            if stores_no_data(name) or not Path(name).exists():
                others.append(f"{name}, {'which keeps no data' if stores_no_data(name) else 'which is not there'}")
                continue
            texts = _files(name, form.value)
        else:
            others.append(f"output {number + 1}, which is sent")
            continue
        outputs.append(WrittenOutput(name, form, clock, chosen, attributes if chosen is None else chosen.attributes, texts))
    if problems:
        raise Refused(problems)
    return outputs, others


def _files(path: str, suffix: str) -> Callable[[], Iterator[tuple[str, BinaryIO]]]:
    """The files of an output: one, or one for each batch, in their order."""

    def texts() -> Iterator[tuple[str, BinaryIO]]:
        root = Path(path)
        for each in sorted(root.glob(f"*.{suffix}")) if root.is_dir() else [root]:
            with gzip.open(each) if each.suffix == ".gz" else each.open("rb") as file:
                yield str(each), file  # type: ignore[misc]

    return texts


def _messages(config: Config, number: int | None) -> Callable[[], Iterator[tuple[str, BinaryIO]]]:
    """The messages of an output's topic, or of the topic of dead letters, up to its present end."""

    def texts() -> Iterator[tuple[str, BinaryIO]]:
        from dotr.streams.connectors.kafka.channels import BoundedTopics
        from dotr.streams.connectors.kafka.section import kafka_destination
        from dotr.streams.connectors.kafka.topics import KafkaInput

        settings = config.settings
        section = settings.dead_letter if number is None else settings.output[number]
        assert section is not None
        assert not isinstance(section, str)
        assert section.kafka is not None
        at = ("dead_letter",) if number is None else ("output", number)
        destination = kafka_destination(
            section.kafka.model_copy(update={"delivery": None}), config.files.place(*at, "kafka"), on_spark=False
        )
        reading = tuple((key, value) for key, value in destination.properties if key.startswith(_CONNECTING))
        topics = BoundedTopics(KafkaInput(InputFile("", "", Format.NDJSON), reading, (destination.topic,)))
        for file in topics.files:
            for offset, value in topics.values(file):
                yield f"{file.path}:{offset}", io.BytesIO(value + b"\n")

    return texts


_CONNECTING: Final = ("bootstrap.", "security.", "sasl.", "ssl.", "enable.ssl", "client.", "socket.", "broker.")
"""Properties of a client that writes that one that reads needs, too."""


def written_dead_letters(config: Config) -> Iterator[WrittenDeadLetter] | None:
    """The dead letters of a run; None: there is no place where they can be read."""
    section = config.settings.dead_letter
    if section is None:
        return None
    if isinstance(section, str):
        path = config.files.path(section, ("dead_letter",))
        if stores_no_data(path) or not Path(path).exists():
            return None
        return _dead_letters(_files(path, "ndjson"))
    return _dead_letters(_messages(config, None))


def _dead_letters(texts: Callable[[], Iterator[tuple[str, BinaryIO]]]) -> Iterator[WrittenDeadLetter]:
    for _, file in texts():
        for line in _whole_lines(file):
            try:
                found = json.loads(line)
                reason, input, file, number = (found[key] for key in ("reason", "input", "file", "line"))
                letter = WrittenDeadLetter(reason, input, file, number, found["time"], found.get("error", ""), str(found.get("text", "")))
            except (ValueError, KeyError, TypeError):
                continue
            yield letter
