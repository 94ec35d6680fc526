"""Schema of the configuration, as pydantic models. Unknown keys and wrong types are errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, ValidationError, ValidationInfo, field_validator, model_validator

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.evaluation.limits import LIMITS
from dotr.model.places import Span
from dotr.model.terms import Label
from dotr.streams.connectors.registry import (
    CONNECTORS,
    TRANSPORTS,
    HttpInputSection,
    HttpOutputSection,
    KafkaInputSection,
    KafkaOutputSection,
    KafkaTopicSection,
    LdesInputSection,
    MqttInputSection,
    MqttOutputSection,
    ReceivingSection,
    ServeSection,
    SparkInputSection,
    SparkOutputSection,
    SseInputSection,
    WebSocketInputSection,
)
from dotr.streams.formats.content import encoding_name
from dotr.streams.storage import StorageSection
from dotr.streams.time_formats import check_time_format, check_time_zone
from dotr.streams.times import parse_delay
from dotr.syntax.quantities import parse_size
from dotr.syntax.sections import LaterSection, Section
from dotr.syntax.yaml import KeyPath, Tree

_Section = TypeVar("_Section", bound=Section)


def validated(model: type[_Section], data: object, tree: Tree) -> _Section:
    """The section of a document's data; raises `Refused` with all its schema errors."""
    problems = [*_transport_problems(tree), *_rule_problems(tree)] if model is Settings else []
    try:
        section = model.model_validate(data)
    except ValidationError as error:
        problems += schema_problems(error, tree, model)
    if problems:
        raise Refused(sorted(problems, key=lambda problem: problem.span.start if problem.span else 0))
    return section


def _transport_problems(tree: Tree) -> Iterator[Diagnostic]:
    """Problems of inputs and outputs without a transport or a format (C202), or with several (C204)."""
    keys: tuple[Literal["input", "output"], ...] = ("input", "output")
    for key in keys:
        transports = [each for each in TRANSPORTS if each not in CONNECTORS or CONNECTORS[each].has(key)]
        kinds = f"{', '.join(transports[:-1])} or {transports[-1]}"
        sections = tree.data.get(key) if isinstance(tree.data, dict) else None
        for number, section in enumerate(sections if isinstance(sections, list) else ()):
            given = [transport for transport in transports if isinstance(section, dict) and transport in section]
            if key == "input" and isinstance(section, dict) and "format" not in section and "spark" not in section:
                yield Diagnostic("C202", f"input.{number}.format is missing", tree.span((key, number)), "Add it.")
            if isinstance(section, dict) and not given:
                yield Diagnostic("C202", f"{key}.{number}.path is missing", tree.span((key, number)), f"Write one of {kinds}.")
            elif len(given) > 1:
                place = tree.key_span((key, number, given[1]))
                yield Diagnostic("C204", f"{given[0]} and {given[1]} exclude each other", place, f"An {key} has one of {kinds}.")
            elif (
                given and section[given[0]] is None and given[0] in CONNECTORS and (model := CONNECTORS[given[0]].section(key)) is not None
            ):
                needed = [field.alias or name for name, field in model.model_fields.items() if field.is_required()]
                place = tree.key_span((key, number, given[0]))
                hint = f"It needs {' and '.join(needed) or 'listen, or url and poll'}."
                yield Diagnostic("C202", f"{key}.{number}.{given[0]} is empty", place, hint)


def _rule_problems(tree: Tree) -> Iterator[Diagnostic]:
    """The problem that there are no rules (C202, C203), where no output may be of inputs alone."""
    data = tree.data if isinstance(tree.data, dict) else {}
    outputs = data.get("output")
    if any(isinstance(each, dict) and "of" in each for each in (outputs if isinstance(outputs, list) else ())):
        return
    hint = "An output without rules names inputs: of: [NAME]."
    if "rules" not in data:
        yield Diagnostic("C202", "rules is missing", tree.span(()), f"Add it. {hint}")
    elif data["rules"] == []:
        yield Diagnostic("C203", "rules needs at least one entry", tree.span(("rules",)), hint)


class TimeSection(Section):
    """Unit of integer time stamps."""

    unit: Literal["us", "ms", "s", "min", "h", "d"] = Field(
        default="s", description="the unit of integer times, which count from 1970-01-01T00:00:00Z, and of an integer lateness"
    )


class WindowsSection(Section):
    """Windows of continuous queries."""

    origin: int | str = Field(
        default=0, description="a time at which windows of continuous queries close; an integer is in the unit of `time`"
    )


UNION_TAGS: Final = ("(text)", "(list)", "(mapping)")
"""Tags of the members of a union in the locations of pydantic's errors."""


def _section_tag(data: object) -> str:
    return UNION_TAGS[2 if isinstance(data, dict | Section) else 0]


class GraphSection(Section):
    """RDF files whose extension does not tell their format."""

    path: str = Field(min_length=1, description="a file or a glob; .gz too")
    format: Literal["turtle", "ntriples", "n3", "nquads", "trig", "rdfxml", "jsonld"] | None = Field(
        default=None, description="the format; that of the extension if none; a text that begins as another one is read as that"
    )


Graph = Annotated[Annotated[str, Tag(UNION_TAGS[0])] | Annotated[GraphSection, Tag(UNION_TAGS[2])], Discriminator(_section_tag)]


def path_of_graph(graph: str | GraphSection) -> str:
    """The path or glob of an item of `knowledge.graphs`."""
    return graph if isinstance(graph, str) else graph.path


def _checked_by(check: Callable[[Any], object]) -> AfterValidator:
    """The validator of values for which a function raises no ValueError."""

    def checked(value: Any) -> Any:
        check(value)
        return value

    return AfterValidator(checked)


def _check_comment(value: str) -> None:
    if not value.strip():
        raise ValueError("blanks begin no comment")


def _check_delimiter(value: str) -> None:
    if value in '"\r\n':
        raise ValueError("a quote or a line end separates no columns")


ZoneName = Annotated[str, _checked_by(check_time_zone)]
"""The name of a time zone."""

TimeFormat = Annotated[str, Field(min_length=1), _checked_by(check_time_format)]
Encoding = Annotated[str, AfterValidator(encoding_name)]
Comment = Annotated[str, Field(min_length=1), _checked_by(_check_comment)]
Delimiter = Annotated[str, _checked_by(_check_delimiter)]
Size = Annotated[str | int, _checked_by(parse_size)]


class TableSection(Section):
    """Tables whose rows are triples of the background, at every instant."""

    path: str = Field(min_length=1, description="a file or a glob; .gz too")
    format: Literal["csv", "json"] = Field(description="the format of rows (inputs.md)")
    map: str = Field(min_length=1, description="the template that makes the triples of a row, or a file of RML (.ttl)")
    each: str | list[str] | None = Field(
        default=None,
        min_length=1,
        description="json: the path of a list, each item of which is a row; csv: `columns`, each of which is one",
    )
    time_format: TimeFormat | None = Field(default=None, description="the form of dates and date-times of typed cells")
    time_zone: ZoneName | None = Field(default=None, min_length=1, description="the zone of date-times without one; the pipeline's if none")
    delimiter: Delimiter = Field(default=",", min_length=1, max_length=1, description="csv: the separator of columns, one character")
    decimal: Literal[".", ","] = Field(default=".", description="csv: the mark of decimals")
    encoding: Encoding = Field(
        default="utf-8", min_length=1, description="the encoding of the text, such as latin-1; json: utf-8 or utf-16"
    )
    columns: list[str] | None = Field(default=None, min_length=1, description="csv: the columns of rows without a header")
    skip: int = Field(default=0, ge=0, description="csv: lines before the header, or with `columns` before the first row")
    comment: Comment | None = Field(default=None, description="csv: what a line begins with that is no row, such as #")
    max_bytes: Size | None = Field(default=None, description="bytes of a row at most, such as 64 KiB; `limits.record` if none")


class KnowledgeSection(Section):
    """Background knowledge."""

    graphs: list[Graph] = Field(default=[], description="RDF files in any format, .gz too; globs")
    contexts: dict[str, str] = Field(
        default={}, description="the file that stands for each remote context of JSON-LD among them; nothing is fetched"
    )
    tables: list[TableSection] = Field(default=[], description="csv and json files whose rows are triples of the background")
    imports: dict[str, str] = Field(
        default={}, description="the file that stands for each ontology that a graph imports (owl:imports), by IRI; nothing is fetched"
    )
    datalog: list[str] = Field(default=[], description="Datalog files; globs")
    entailment: Literal["none", "rdfs", "owl2rl"] = Field(
        default="none", description="the entailment over the background and every instant (entailment.md)"
    )
    axiomatic: bool = Field(default=False, description="also the axiomatic and reflexive triples of the entailment")
    cache: str | None = Field(default=None, min_length=1, description="a folder for compiled backgrounds; the user's cache folder if none")
    shared: bool = Field(
        default=False, description="`cache` is used whoever may write to it, for example on a disk that several users share (operation.md)"
    )
    inconsistent: Literal["report", "reject"] = Field(
        default="report",
        description="an inconsistent instant: a warning, or all its elements become dead letters",
    )

    @field_validator("shared")
    @classmethod
    def _check_shared(cls, value: bool, given: ValidationInfo) -> bool:
        if value and given.data.get("cache") is None:
            raise ValueError("there is no folder to share: name one as knowledge.cache")
        return value


class LimitsSection(Section):
    """Limits of an instant; beyond one of them its elements become dead letters (reason limit)."""

    triples: int = Field(default=LIMITS.triples, gt=0, description="triples of an instant beyond the background, given and derived")
    rows: int = Field(default=LIMITS.rows, gt=0, description="answers of a query at an instant")
    probes: int = Field(
        default=LIMITS.probes, gt=0, description="triples and rows that a query reads at an instant, and candidates that one anchor tries"
    )
    matches: int = Field(
        default=LIMITS.matches, gt=0, description="the product of the numbers of events that the clauses of a branch chose"
    )
    literal: int = Field(default=LIMITS.literal, gt=0, description="characters of a literal that an expression computes")
    text: int = Field(default=LIMITS.text, gt=0, description="bytes of the terms computed at an instant, report or point")
    nesting: int = Field(default=LIMITS.nesting, gt=0, le=512, description="the depth of brackets in a record; beyond 512 parsers may die")
    record: int = Field(default=LIMITS.record, gt=0, description="bytes of a record, decompressed")
    gap: int = Field(
        default=LIMITS.gap, gt=0, description="ticks, reports or points of a unit between two instants; beyond it, all of these are skipped"
    )


def _list_tag(data: object) -> str:
    return UNION_TAGS[isinstance(data, list | tuple)]


Time = Annotated[
    Annotated[str | None, Tag(UNION_TAGS[0])]
    | Annotated[Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)], Tag(UNION_TAGS[1])],
    Discriminator(_list_tag),
]


class ReplaySection(Section):
    """Replay of files that are there in full: its start, and the distance of its rounds."""

    start: str | int = Field(
        default="now",
        description="the time at which the least time of all inputs with `replay` comes to lie: now, a date-time, or an integer in the "
        "unit of `time`; all their times move by as much",
    )
    every: str | int | None = Field(
        default=None,
        description="the files are read again when they have ended, each time this much later, without end; once if none; an integer is "
        "in the unit of `time`",
    )


class InputSection(Section):
    """Input stream of elements, from one or several files, a broker, or a server of its own."""

    name: str = Field(min_length=1, description="the name in dead letters and messages")
    stream: str | None = Field(
        default=None,
        min_length=1,
        description="the stream of continuous queries that the input feeds, an IRI or a prefixed name; the input's name if none",
    )
    format: Literal["ndjson", "trig", "nquads", "csv", "json", "text", "parquet", "turtle", "ntriples", "jsonld", "jelly", "recording"] = (
        Field(
            default="turtle",
            description="the format of elements (inputs.md), required but for `spark`: there that of the column `graph`, turtle if none; "
            "recording: the elements and heartbeats of a run with `record`",
        )
    )
    path: str = Field(default="", min_length=1, description="a file or a glob; .gz too; - is standard input")
    kafka: KafkaInputSection | None = Field(default=None, description="topics of a Kafka cluster, in place of a path")
    mqtt: MqttInputSection | None = Field(default=None, description="topics of an MQTT broker, in place of a path")
    http: HttpInputSection | None = Field(
        default=None, description="an address that accepts messages, or a URL that is polled, in place of a path"
    )
    sse: SseInputSection | None = Field(default=None, description="a stream of server-sent events, in place of a path")
    ldes: LdesInputSection | None = Field(default=None, description="a Linked Data Event Stream, in place of a path")
    websocket: WebSocketInputSection | None = Field(default=None, description="a WebSocket, in place of a path")
    spark: SparkInputSection | None = Field(default=None, description="a table or stream that Spark reads, in place of a path")
    watch: bool = Field(
        default=False, description="read new files too, until stopped; the path is a glob; spark: read new rows too, until stopped"
    )
    tail: bool = Field(
        default=False,
        description="csv, json (a record a line), ndjson: the files go on: read what is appended, over renames, cuts and new files under "
        "their names; until stopped, unless watch is false",
    )
    settle: str | int | None = Field(
        default=None,
        description="watch: a file unchanged for this long is complete; tail: a file whose name another one has has ended; 1 s if none; "
        "0 s for files renamed into place; an integer is in seconds",
    )
    idle: str | int | None = Field(
        default=None,
        description="watch, standard input, brokers, http: after this long without an element, instants close without waiting for this "
        "input; never, or none: not without it (never: which is no warning); an integer is in seconds",
    )
    spool: Size = Field(
        default="10 GiB",
        description="http, mqtt, sse, websocket, ldes, on Spark: the size, at most, of the copy of what has been received "
        "and is not yet part of a batch; ldes, in process too: of the members whose order is not yet known",
    )
    one_per_instant: bool | Literal["apart"] = Field(
        default=False,
        description="true: every element is an instant: it closes at once, and a second one is a dead letter; apart: elements of one "
        "time are set one microsecond apart, in the input's order",
    )
    rate: int | None = Field(default=None, gt=0, description="the most elements of the input that are read a second; no bound if none")
    lateness: str | int = Field(
        default=0,
        description="the declared delay, such as 30 s: an element may come behind one that is later by as much; "
        "an integer is in the unit of `time`",
    )
    ahead: str | int | None = Field(
        default=None,
        description="of messages: how long, at most, an element's time may be after the timestamp of its message (the broker's, or "
        "that of arrival), such as 1 d; beyond it, a dead letter (ahead); no bound if none; an integer is in the unit of `time`",
    )
    max_bytes: Size | None = Field(
        default=None, description="bytes of a record or message of this input at most, such as 64 KiB; `limits.record` if none"
    )
    pace: float | int | None = Field(
        default=None, gt=0, description="the most seconds of event time that are read a second of the clock; no bound if none"
    )
    replay: ReplaySection | None = Field(
        default=None,
        description="with `pace`: the times of files that are there in full move to another start, such as now, once or in rounds",
    )
    time: Time = Field(
        default=None,
        description="csv, parquet, spark: the column that holds the time, required; json: its path, required; text: $value or a cell "
        'such as $header.at, required; but for spark: a template of such cells ("{Date} {Time}"), or a list, of which the first that is '
        "there counts; "
        "other formats but ndjson: its "
        "predicate, or a path of / and ^ such as sosa:phenomenonTime/time:inXSDDateTime, prov:generatedAtTime if none; in files in trig "
        "and nquads it is in each named graph; $timestamp: the time that Kafka gives; $received: that of arrival "
        "by mqtt, http, sse or websocket",
    )
    times: Literal["one", "latest", "earliest"] = Field(
        default="one",
        description="turtle, ntriples, jsonld, jelly, trig, nquads: the time of an element that has several; one: such an element is "
        "unreadable",
    )
    map: str | None = Field(
        default=None,
        description="csv, json, text, parquet: the template that makes the graph of a record, or a file of RML (.ttl); required; spark: "
        "in place of `graph`",
    )
    graph: str | None = Field(
        default=None, min_length=1, description="spark: the column that holds the graph of an element as text, in place of `map`"
    )
    each: str | list[str] | None = Field(
        default=None,
        min_length=1,
        description="json: the path of a list, each item of which is an element, or the paths of lists side by side; the object if none; "
        "csv, parquet: `columns`, each of which, but those that time and map name, is an element; the row if none",
    )
    time_format: TimeFormat | None = Field(
        default=None,
        description='csv, json, text, parquet: the form of times, such as "%d.%m.%Y %H:%M:%S"; unix, unix_ms, unix_us, unix_ns: numbers '
        "since 1970; ISO 8601 or integers if none",
    )
    time_zone: ZoneName | None = Field(
        default=None,
        min_length=1,
        description="csv, json, text, parquet: the zone of date-times without one, such as Europe/Berlin; the pipeline's if none",
    )
    delimiter: Delimiter = Field(default=",", min_length=1, max_length=1, description="csv: the separator of columns, one character")
    decimal: Literal[".", ","] = Field(default=".", description="csv: the mark of decimals; with a comma, 20,5 is the decimal 20.5")
    encoding: Encoding = Field(
        default="utf-8",
        min_length=1,
        description="csv, text: the encoding of the text, such as latin-1; csv, json, text: utf-16 is read from its start",
    )
    columns: list[str] | None = Field(
        default=None, min_length=1, description="csv: the columns of rows without a header; the first line names them if none"
    )
    skip: int = Field(default=0, ge=0, description="csv: lines of each file before its header, or with `columns` before its first row")
    comment: Comment | None = Field(default=None, description="csv: what a line begins with that is no row, such as #")
    contexts: dict[str, str] | None = Field(
        default=None, description="jsonld: the file that stands for each remote context; no other is used, and nothing is fetched"
    )
    context: str | None = Field(default=None, min_length=1, description="jsonld: the file with the context of messages without one")
    base: str | None = Field(
        default=None,
        min_length=1,
        description="jsonld: the IRI that relative IRIs are resolved against; a message with one is unreadable if none",
    )

    @property
    def received(self) -> ReceivingSection | None:
        """The section of a transport whose messages cannot be read again; None for others."""
        return self.mqtt or self.http or self.sse or self.websocket or self.ldes

    @property
    def goes_on(self) -> bool:
        """True if files are read on until the run is stopped."""
        return self.tail and (self.watch or not self.is_given("watch"))


SHOW_ATTRIBUTES: Final = frozenset(("ndjson", "csv", "parquet"))
"""The formats of outputs in which the attributes of events stand."""


def label_problems(
    names: Sequence[str], labels: Collection[Label], place: Callable[..., Span], inputs: Collection[str] | None = None
) -> Iterator[Diagnostic]:
    """Problems (C268) of a list `events`, or `of` with the names of `inputs`: it is empty, or names
    no event of the program, and no input.

    `place` returns the place of the list, or that of a name by its number from 0 on.
    """
    key, noun, wanted = ("events", "event", "a label") if inputs is None else ("of", "event and no input", "a label or an input")
    known = sorted({*labels, *(inputs or ())})
    if not names:
        yield Diagnostic("C268", f"{key} is an empty list", place(), f"Name {wanted}, or leave {key} out.")
    for number, name in enumerate(names):
        if name not in known:
            hint = did_you_mean(name, known) or f"There are {', '.join(known) or 'none'}."
            yield Diagnostic("C268", f"no {noun} is called {name}", place(number), hint)


class OutputSection(Section):
    """Output stream."""

    format: Literal["ndjson", "trig", "nquads", "jsonld", "jelly", "csv", "parquet"] = Field(
        default="ndjson",
        description="ndjson, trig, nquads, jsonld and jelly can be read as inputs; csv and parquet have a column for each attribute "
        "(operation.md)",
    )
    path: str = Field(
        default="",
        min_length=1,
        description="a file in process (.gz compresses it; /dev/stdout prints it); on Spark a folder with a file for each batch",
    )
    kafka: KafkaOutputSection | None = Field(default=None, description="a topic of a Kafka cluster, in place of a path")
    mqtt: MqttOutputSection | None = Field(default=None, description="a topic of an MQTT broker, in place of a path")
    http: HttpOutputSection | None = Field(default=None, description="an address that batches are posted to, in place of a path")
    serve: ServeSection | None = Field(
        default=None, description="an address at which a server publishes the stream on the Web, in every format, in place of a path"
    )
    spark: SparkOutputSection | None = Field(default=None, description="a table that Spark's executors write, in place of a path")
    by: Literal["driver", "executors"] = Field(
        default="driver",
        description="on Spark, path and kafka: executors: each task writes a file a batch, or its messages (at least once); events are in "
        "order within a task",
    )
    events: list[str] | None = Field(
        default=None, description="the labels of the events that the output has; all but internal ones if none"
    )
    of: list[str] | None = Field(
        default=None,
        description="in place of `events`: labels of events, and names of inputs, whose elements the output has as they were made",
    )


class DeadLetterSection(Section):
    """Destination of dead letters that is no file."""

    kafka: KafkaTopicSection | None = Field(default=None, description="a topic of a Kafka cluster")
    spark: SparkOutputSection | None = Field(default=None, description="a table that Spark's executors write")

    @model_validator(mode="after")
    def _check_transport(self) -> DeadLetterSection:
        if (self.kafka is None) == (self.spark is None):
            raise ValueError("it has one of kafka and spark")
        return self


class SparkSection(Section):
    """Settings of the Spark runtime."""

    master: str | None = Field(default=None, description="local[*] where spark-submit names none")
    checkpoint: str | None = Field(default=None, description="a folder, or a URL; beside the first output where none is named")
    batch: int = Field(default=200_000, gt=0, description="the approximate number of elements of a batch; a long one counts as several")
    trigger: Annotated[str | int, _checked_by(parse_delay)] = Field(
        default="0 s",
        description="inputs that grow: the least time from the start of a batch to that of the next; an integer is in seconds",
    )
    restarts: int = Field(default=3, ge=0, description="the most restarts of a failed Spark query without a completed batch in between")
    archive: Literal["auto", "never"] = Field(
        default="auto",
        description="an archive of Spark's classes in the user's cache, which starts the JVM faster from the third run on; never: none",
    )
    buckets: int | None = Field(
        default=None,
        gt=0,
        description="the number of parts of the state; without it that of the cores, to which the state moves at a start where there are "
        "more, or at most half as many",
    )
    groups: int = Field(
        default=1,
        gt=0,
        description="the number of groups into which rules are dealt, so that one hot key uses as many cores; an event is kept in each "
        "group that reads it",
    )
    conf: dict[str, str | int | bool] = Field(default={}, description="Spark's own configuration")


class MetricsSection(Section):
    """Metrics of a run in progress."""

    prometheus: str | int | None = Field(
        default=None,
        description="the address that serves /metrics, such as 127.0.0.1:9464; a port alone is on loopback; not served if none",
    )

    @field_validator("prometheus")
    @classmethod
    def _check_address(cls, value: str | int | None) -> str | int | None:
        port = str(value).rpartition(":")[2]
        if value is not None and not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
            raise ValueError("an address is HOST:PORT, or a port")
        return value


class ReportSection(Section):
    """Warnings and dead letters on the terminal."""

    accept: list[str] = Field(default=[], description="codes of warnings that are known, such as D502: neither check nor run shows them")
    dead_letters: int = Field(default=3, ge=0, description="the most that are printed for each input and reason; the summary counts all")

    @field_validator("accept")
    @classmethod
    def _check_codes(cls, value: list[str]) -> list[str]:
        if wrong := next((code for code in value if not re.fullmatch(r"[A-Z]\d{3}", code)), None):
            raise ValueError(f"{wrong} is no code; one is a letter and three digits, such as D502")
        return value


DeadLetter = Annotated[
    Annotated[str | None, Tag(UNION_TAGS[0])] | Annotated[DeadLetterSection, Tag(UNION_TAGS[2])], Discriminator(_section_tag)
]


class Settings(Section):
    """Whole configuration of a pipeline."""

    name: str = Field(min_length=1, description="the name of the pipeline, in messages, metrics and checkpoints")
    prefixes: dict[str, str] = Field(
        default={}, description="prefixes of rule files that declare none, and of graphs in inputs: the namespace of each, as a whole IRI"
    )
    time: TimeSection = Field(default=TimeSection.model_construct(), description="integer times")
    time_zone: ZoneName | None = Field(
        default=None,
        min_length=1,
        description="the zone of `time_zone` of inputs and tables, of ticks and windows by calendar, and of `--at`, where none is written, "
        "and the one in which times are shown, such as Europe/Berlin; UTC if none",
    )
    knowledge: KnowledgeSection = Field(default=KnowledgeSection.model_construct(), description="background knowledge")
    rules: list[str] = Field(
        default=[],
        description="rule and query files of any language (.dotr, .rspql, .lars, .epsparql); globs; none where outputs name inputs: `of`",
    )
    windows: WindowsSection = Field(default=WindowsSection.model_construct(), description="windows of continuous queries")
    clock: str | int | None = Field(
        default=None,
        description="inputs that grow, or are replayed with `pace`: the pipeline's time goes on with the machine's, this much behind it, "
        "also while nothing comes; with elements alone if none; an integer is in seconds",
    )
    record: str | None = Field(
        default=None,
        min_length=1,
        description="in process: a file for a recording of the run, its elements and heartbeats, from which --recording repeats it",
    )
    limits: LimitsSection = Field(default=LimitsSection.model_construct(), description="limits of an instant and of a record")
    at_end: Literal["fire", "leave"] = Field(
        default="fire",
        description="the end of a bounded stream: delayed anchors, reports and points under way still come; leave: nothing comes after "
        "the last instant",
    )
    input: list[InputSection] = Field(min_length=1, description="input streams, merged by time")
    output: list[OutputSection] = Field(min_length=1, description="output streams; `events` or `of` chooses those of one")
    dead_letter: DeadLetter = Field(
        default=None,
        description="a file (a folder on Spark) for what cannot be processed, or { kafka: … } or { spark: … }; only counted if none",
    )
    engine: Literal["spark", "local"] = Field(default="spark", description="the runtime of `dotr run`; local: in this process")
    spark: SparkSection = Field(default=SparkSection.model_construct(), description="the Spark runtime")
    storage: StorageSection | None = Field(default=None, description="stores of files that are named by URLs (operation.md)")
    metrics: MetricsSection = Field(default=MetricsSection.model_construct(), description="metrics of a run")
    report: ReportSection = Field(default=ReportSection.model_construct(), description="warnings on the terminal")


_TYPE_MESSAGES: Final = {
    "model_type": ("should be a mapping", "Write key: value, a line each."),
    "model_attributes_type": ("should be a mapping", "Write key: value, a line each."),
    "dict_type": ("should be a mapping", "Write key: value, a line each."),
    "list_type": ("should be a list", "Write [ … ] around it."),
    "string_type": ("should be text", 'Put it in quotes: "…".'),
    "int_type": ("should be a whole number", ""),
    "bool_type": ("should be true or false", ""),
    "too_short": ("needs at least one entry", ""),
    "string_too_short": ("is empty", "Write what it is to be."),
    "string_too_long": ("should be a single character", ""),
}


def schema_problems(error: ValidationError, tree: Tree, model: type[BaseModel]) -> list[Diagnostic]:
    """The schema errors of a document as diagnostics (C201 to C203), by offset.

    `error` is raised by pydantic's validation of `tree.data` against `model`.
    """
    problems: list[Diagnostic] = []
    for item in error.errors(include_url=False):
        location: KeyPath = tuple(part for part in item["loc"] if part not in UNION_TAGS)
        if location and location[-1] in ("str", "int", "bool") and location not in tree.spans:
            location = location[:-1]  # pydantic appends the type of the union's member
        key_path = ".".join(map(str, location))
        match item["type"]:
            case "extra_forbidden":
                key = str(location[-1])
                known = keys_of(model, location[:-1])
                hint = _key_hint(key, known) or f"Known here: {', '.join(known)}."
                if key == "time" and "tables" in location:
                    hint = "A row of a table holds at every instant. What has times is a stream: write it under `input`."
                problems.append(Diagnostic("C201", f"unknown key {key}", tree.key_span(location), hint))
            case "missing":
                problems.append(Diagnostic("C202", f"{key_path} is missing", tree.span(location[:-1]), "Add it."))
            case kind:
                message, hint = _message_and_hint(kind, item["msg"], item["input"], item.get("ctx", {}))
                diagnostic = Diagnostic("C203", f"{key_path} {message}".lstrip(), tree.span(location), hint)
                earlier = next((number for number, d in enumerate(problems) if d.span == diagnostic.span and d.code == "C203"), None)
                if earlier is None:
                    problems.append(diagnostic)
                elif kind == "literal_error":  # a further member of a union
                    problems[earlier] = replace(problems[earlier], message=f"{problems[earlier].message}, or {item['ctx']['expected']}")
    return sorted(problems, key=lambda d: d.span.start if d.span else 0)


def _message_and_hint(kind: str, message: str, value: object, context: Mapping[str, object]) -> tuple[str, str]:
    if kind == "literal_error":
        known = str(context["expected"]).replace("'", "")
        return f"should be {known}", did_you_mean(str(value), known.replace(" or ", ", ").split(", "))
    if value is None and kind in _TYPE_MESSAGES:
        return "is empty", f"It {_TYPE_MESSAGES[kind][0]}."
    if kind == "value_error":
        return f"cannot be used: {message.removeprefix('Value error, ')}", ""
    return _TYPE_MESSAGES.get(kind, (f"cannot be used: {message[:1].lower()}{message[1:]}", ""))


def _key_hint(key: str, known: Mapping[str, str]) -> str:
    """A hint for an unknown key; `known`: the descriptions of the keys that may stand there.

    It is, in this order: a key of which it is the beginning; the key whose name or description has
    most of its words, and the earliest, first one whose name it holds; a misspelt key, of which
    three letters in four are right.

    >>> known = {"path": "a file or a glob", "pace": "seconds of event time", "delimiter": "the separator of columns"}
    >>> [_key_hint(key, known) for key in ("delim", "files", "separator", "pth", "base")]
    ['Did you mean delimiter?', 'Did you mean path?', 'Did you mean delimiter?', 'Did you mean path?', '']
    """

    def words(text: str) -> list[str]:
        return [re.sub("ies$", "y", word).removesuffix("s") for word in re.findall("[a-z]+", text.lower())]

    letters = "".join(words(key))
    begun = [name for name in known if len(letters) > 2 and "".join(words(name)).startswith(letters)]
    found = []
    for number, (name, text) in enumerate(known.items()):
        told = [*words(name), *words(re.sub("^(?!the )[^:]{,50}: ", "", text))]  # "csv: the separator" is about a separator
        places = [told.index(word) for word in {word for word in words(key) if len(word) > 3} if word in told]
        if places:
            found.append((-len(places), "".join(words(name)) not in letters, min(places), number, name))
    close = [*begun, *(name for *_, name in sorted(found))]
    return f"Did you mean {close[0]}?" if close else did_you_mean(key, list(known), 0.75)


def keys_of(model: type[BaseModel], location: KeyPath) -> dict[str, str]:
    """The keys of the section at a location of the schema with their descriptions.

    It is empty where there is no section.

    >>> list(keys_of(Settings, ("output", 0)))
    ['format', 'path', 'kafka', 'mqtt', 'http', 'serve', 'spark', 'by', 'events', 'of']
    """
    current: object = model
    for number, part in enumerate(location):
        if isinstance(part, int) or not (isinstance(current, type) and issubclass(current, BaseModel)):
            continue
        field = current.model_fields.get(part)
        in_list = isinstance(location[number + 1] if number + 1 < len(location) else None, int)
        current = _section_of(field.annotation if field else None, in_list=in_list)
    fields = current.model_fields if isinstance(current, type) and issubclass(current, BaseModel) else {}
    return {field.alias or name: field.description or "" for name, field in fields.items()}


def _section_of(annotation: object, *, in_list: bool) -> object:
    """The section type in an annotation such as `list[InputSection]`; else the annotation itself.

    Of a union of a list and a section, `in_list` selects the section in the list.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    later = [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, LaterSection)]
    if later:
        return later[0].section
    sections = [_section_of(argument, in_list=in_list) for argument in getattr(annotation, "__args__", ())]
    found = [section for section in sections if isinstance(section, type) and issubclass(section, BaseModel)]
    return (found[0] if in_list else found[-1]) if found else annotation


def schema() -> str:
    """The JSON Schema of a configuration: the text of `config.schema.json`."""
    made = Settings.model_json_schema()
    for section in (InputSection, OutputSection, DeadLetterSection):
        for key in CONNECTORS:  # a key has a title where its section is imported later, and none elsewhere
            made["$defs"][section.__name__]["properties"].get(key, {}).pop("title", None)
    return json.dumps(made, indent=2) + "\n"
