"""Pipeline: a compiled program with its inputs and outputs, the argument of every runtime."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.evaluation.files.stores import Location
from dotr.languages.programs import compile_program
from dotr.model import dataclass
from dotr.model.stream import NO_INPUTS, PublishedInputs
from dotr.model.time import UNITS, Clock, Micros
from dotr.runtimes.monitoring.dead_letter_log import WARNINGS_PER_KIND
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.inputs import (
    FirstHasDates,
    Inputs,
    check_first_times,
    checkpoint_clock,
    clock_of_inputs,
    clock_of_present,
    files_of,
    open_topics,
    read_inputs,
    spool_problems,
    wait_until_stable,
    with_replays,
)
from dotr.runtimes.pipeline.output_files import OutputLocks, Target, remove
from dotr.runtimes.pipeline.outputs import RECORDING, chosen_events, published_inputs, read_outputs, targets_of
from dotr.runtimes.pipeline.sections import GraphSection
from dotr.runtimes.pipeline.spark_tables import SparkInput, refused_in_process
from dotr.streams.connectors.opening import Destination, Output, renewed_streams
from dotr.streams.connectors.registry import message_warnings
from dotr.streams.formats.content import whole_reason
from dotr.streams.formats.mapping.maps import shapes_of
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.merge.file_marks import mark_of_path
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.records import Format, InputFile
from dotr.streams.sinks.events import OutputTerms, TableFormat
from dotr.streams.sinks.files import check_new, stores_no_data
from dotr.streams.storage import check_stores, hadoop_settings_of, store_settings
from dotr.streams.times import parse_delay

if TYPE_CHECKING:
    from dotr.streams.connectors.kafka.channels import OpenedTopics
    from dotr.streams.connectors.kafka.topics import KafkaInput


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of a run on Spark.

    - `master`: None leaves it to spark-submit.
    - `batch_elements`: approximate number of elements of a batch.
    - `restarts`: restarts of a failed query without a batch in between.
    - `trigger_interval`: least time in µs between the starts of two batches of growing inputs.
    - `archive`: True if the archive of Spark's classes is used.
    - `buckets`: the number of buckets of the state; None: that of the cores.
    - `groups`: the number of groups of rules.
    - `storage`: the settings of stores as JSON; empty: none.
    """

    master: str | None
    checkpoint: str
    batch_elements: int
    conf: Mapping[str, str]
    restarts: int = 3
    trigger_interval: Micros = 0
    archive: bool = False
    buckets: int | None = None
    groups: int = 1
    storage: str = ""


@dataclass(frozen=True)
class Pipeline:
    """A compiled program with its inputs and outputs.

    `inputs`: existing files; `growing`: watched folders and standard input; `rates`: greatest
    number of records a second, and `paces`: of seconds of event time, by name of input; `topics`:
    the Kafka inputs `topic_inputs`, opened; `dead_letter_warnings`: number of dead letters of a
    kind that are logged; `notices`: notices on the inputs; `clock_pending`: the format of times
    depends on the first message, which a runtime waits for (`with_clock`); `clock_delay`:
    heartbeats follow the machine's time by so many µs (None: there are none); `recording`: the
    file that the run is recorded in (None: it is not), with the names of the `streams` that the
    inputs feed; `published`: the inputs whose elements are part of outputs; `tables`: the inputs
    that Spark reads, in place of all others.
    """

    name: str
    program: CompiledProgram
    inputs: tuple[InputFile, ...]
    outputs: tuple[Output, ...]
    dead_letters: Destination | None
    clock: Clock
    spark: SparkSettings
    growing: tuple[GrowingInput, ...] = ()
    rates: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[OpenedTopics, ...] = ()
    topic_inputs: tuple[KafkaInput, ...] = ()
    dead_letter_warnings: int = WARNINGS_PER_KIND
    notices: Sequence[Diagnostic] = ()
    clock_pending: bool = False
    paces: Mapping[str, float] = field(default_factory=dict)
    clock_delay: Micros | None = None
    replay_start: Micros | None = None
    recording: str | None = None
    streams: Mapping[str, str] = field(default_factory=dict)
    published: PublishedInputs = NO_INPUTS
    tables: tuple[SparkInput, ...] = ()

    @property
    def is_live(self) -> bool:
        """True if inputs are read as time goes on: some grow, or have a rate or a pace."""
        return bool(self.growing or self.rates or self.paces or self.topics)

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """The destinations of events, then that of dead letters."""
        events = tuple(output.destination for output in self.outputs)
        return events if self.dead_letters is None else (*events, self.dead_letters)

    @property
    def output_terms(self) -> OutputTerms:
        """The format of times, the attributes and the prefixes of all outputs."""
        return OutputTerms(self.clock, self.program.all_attributes, self.program.rules.prefixes, self.name)


def build(config: Config, *, fresh: bool, on_spark: bool, wait: bool = True, locks: OutputLocks | None = None) -> Pipeline:
    """Compile a configuration's program and find its files; raises `Refused` with every problem
    found.

    `fresh`: remove outputs and checkpoint of older runs, after all checks; without it an existing
    output is refused in process, while on Spark the checkpoint decides. `wait`: wait for files that
    are being written and, where the time format is unknown otherwise, for the first record.
    `locks`: acquires locks on all targets before they are read.
    """
    settings = config.settings
    check_stores(config.files.tree)
    problems: list[Diagnostic] = []
    inputs = read_inputs(config, problems)
    if on_spark:
        problems += [problem for each in inputs.growing if each.standard for problem in spool_problems(config, each)]
    elif inputs.tables:
        problems += refused_in_process(inputs.tables, "this run is in process")
    outputs = read_outputs(config, problems, on_spark=on_spark)
    problems += _recording_problems(config, on_spark=on_spark)
    targets = targets_of(config)
    if on_spark and targets[-1].location.is_url:
        problems += _disk_problems(config, inputs)
    problems += _path_conflicts(config, targets)
    if locks is not None and not problems:
        problems += locks.acquire(targets, settings.name)
    if not fresh and not on_spark and not problems:
        problems += _existing_outputs(targets)
    try:
        program = _compiled(config, on_spark=on_spark)
    except Refused as refused:
        raise Refused([*refused.diagnostics, *problems]) from None
    chosen = chosen_events(config, program, problems)
    if problems:
        raise Refused(problems)
    events = tuple([replace(output, chosen=own) for output, own in zip(outputs.events, chosen, strict=True)])
    program.stage_one.expect(shapes_of([*inputs.files, *(each.like for each in inputs.growing), *(each.like for each in inputs.topics)]))
    topics = open_topics(config, inputs.topics) if wait else ()
    if wait:
        check_first_times(config, inputs, topics)
    told = [*_unread_knowledge(config), *([] if on_spark or not (inputs.growing or inputs.topics) else _late_outputs(targets))]
    notices = [each for each in told if each.code not in settings.report.accept]
    if fresh:
        if on_spark:
            notices += renewed_streams(events, Path(targets[-1].path))
        remove(targets)
    if inputs.growing and wait:
        wait_until_stable(inputs)
    inputs = replace(inputs, files=tuple([replace(file, mark=mark_of_path(file.path)) for file in inputs.files]))
    inputs = with_replays(config, inputs, targets[-1].path if on_spark else None)
    unit = UNITS[settings.time.unit]
    clock = checkpoint_clock(targets[-1].path) if on_spark else None
    if clock is None and wait and inputs.clock is not None:
        clock = clock_of_present(inputs, unit, notices, unit_given=settings.time.is_given("unit"))
    received = not inputs.files and any(each.source is not None for each in inputs.growing)
    pending = clock is None and wait and (received or bool(inputs.tables))
    clock = clock or (clock_of_inputs(inputs, unit, notices, topics) if wait and not pending else Clock(unit, dated=False))
    clock = replace(clock, zone=program.spec.time_zone)
    conf = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.spark.conf.items()}
    conf = {**hadoop_settings_of(settings.storage, config.files.tree), **conf}
    section = settings.spark
    trigger = parse_delay(section.trigger)
    archive, widths = section.archive == "auto", (section.buckets, section.groups)
    stores = store_settings(settings.storage)
    storage = json.dumps(stores) if stores else ""
    spark = SparkSettings(section.master, targets[-1].path, section.batch, conf, section.restarts, trigger, archive, *widths, storage)
    return Pipeline(
        settings.name,
        program,
        inputs.files,
        events,
        outputs.dead_letters,
        clock,
        spark,
        inputs.growing,
        inputs.rates,
        topics,
        inputs.topics,
        settings.report.dead_letters,
        notices,
        pending,
        paces=inputs.paces,
        clock_delay=inputs.clock,
        replay_start=inputs.replay_start,
        recording=next((each.path for each in targets if each.purpose == RECORDING), None),
        streams={each.name: each.fed for each in config.streams()},
        published=published_inputs(config),
        tables=inputs.tables,
    )


def _recording_problems(config: Config, *, on_spark: bool) -> Iterator[Diagnostic]:
    """Problems (C204) of recordings on Spark."""
    if on_spark and config.recording:
        yield Diagnostic("C204", "a recording is read in process, and this run is on Spark", None, "Run with --engine local.")
    for number, section in enumerate(config.settings.input):
        if on_spark and section.format == Format.RECORDING.value:
            place = config.span("input", number, "format")
            yield Diagnostic("C204", "a recording is read in process, and this run is on Spark", place, "Write engine: local.")
    if on_spark and config.settings.record is not None:
        hint = "Write engine: local; or leave record out: the checkpoint on Spark keeps what cannot be read again."
        yield Diagnostic("C204", "record is of a run in process, and this one is on Spark", config.files.tree.key_span(("record",)), hint)


def _disk_problems(config: Config, inputs: Inputs) -> Iterator[Diagnostic]:
    """Problems (C204) of inputs that are copied to the checkpoint's disk before they are read, and
    of outputs that are kept on it, where the checkpoint is at a URL."""
    copied = {each.like.input for each in inputs.growing if each.source is not None or each.standard or each.tail}
    why = "a checkpoint at a URL has no disk for it"
    for number, section in enumerate(config.settings.input):
        if section.name in copied:
            place = config.span("input", number, config.transport("input", number))
            hint = "Send it through Kafka, or read it by a spark: input; or name a mounted folder as spark.checkpoint."
            yield Diagnostic("C204", f"the input {section.name} is copied before it is read, and {why}", place, hint)
    for number, output in enumerate(config.settings.output):
        if output.serve is not None:
            hint = "Name a mounted folder as spark.checkpoint, or write to files or Kafka and serve from there."
            yield Diagnostic("C204", f"what is served is kept, and {why}", config.span("output", number, "serve"), hint)


def _compiled(config: Config, *, on_spark: bool) -> CompiledProgram:
    # On Spark even the smallest background is compiled: no worker reads and closes it again.
    spec = replace(config.program(), cut=True, groups=config.settings.spark.groups) if on_spark else config.program()
    return compile_program(spec, config.cache_policy(0) if on_spark else config.cache_policy())


def rebuilt(config: Config, before: Pipeline, *, on_spark: bool) -> Pipeline:
    """The pipeline of a run that goes on with the program, the limits and the prefixes of a changed
    configuration, over its inputs and outputs of before.

    Raises `Refused` with every problem found, in process also (C204) where the columns of an output
    have changed.
    """
    problems: list[Diagnostic] = []
    program = _compiled(config, on_spark=on_spark)
    chosen = chosen_events(config, program, problems)
    outputs = tuple([replace(output, chosen=own) for output, own in zip(before.outputs, chosen, strict=True)])
    made = replace(before, program=program, outputs=outputs, dead_letter_warnings=config.settings.report.dead_letters)
    for number, (old, new) in enumerate(zip(before.outputs, outputs, strict=True)):
        columns = [output.own_terms(each.output_terms).attributes for output, each in ((old, before), (new, made))]
        if not on_spark and new.format in (StreamFormat.CSV, TableFormat.PARQUET) and columns[0] != columns[1]:
            hint = "Stop the run and start it again with another output; or write ndjson, whose lines name their attributes."
            message = f"the columns of an output that is open have changed: {', '.join(columns[0])} are {', '.join(columns[1])} now"
            problems.append(Diagnostic("C204", message, config.span("output", number), hint))
    inputs = read_inputs(config, problems) if on_spark else Inputs(())
    if problems:
        raise Refused(problems)
    likes = {file.input: file for file in inputs.files}
    likes |= {each.like.input: each.like for each in inputs.growing} | {each.name: each.like for each in inputs.topics}

    def now(file: InputFile) -> InputFile:
        like = likes.get(file.input, file)
        return replace(file, prefixes=like.prefixes, nesting=like.nesting, record=like.record)

    for opened in before.topics:
        opened.topics = replace(opened.topics, like=now(opened.topics.like))
    program.stage_one.expect(
        shapes_of([*before.inputs, *(each.like for each in before.growing), *(each.like for each in before.topic_inputs)])
    )
    return replace(
        made,
        inputs=tuple(map(now, before.inputs)),
        growing=tuple([replace(each, like=now(each.like)) for each in before.growing]),
        topic_inputs=tuple([replace(each, like=now(each.like)) for each in before.topic_inputs]),
    )


def with_clock(pipeline: Pipeline, received: FirstHasDates) -> Pipeline:
    """The pipeline with the format of times of its first record, for which the call waits.

    `received` returns the format of times of the messages received so far, as for
    `clock_of_inputs`.
    """
    notices: list[Diagnostic] = []
    clock = clock_of_inputs(Inputs(pipeline.inputs, pipeline.growing), pipeline.clock.unit, notices, pipeline.topics, received)
    return replace(pipeline, clock=replace(clock, zone=pipeline.clock.zone), clock_pending=False)


def _path_conflicts(config: Config, targets: Sequence[Target]) -> list[Diagnostic]:
    """Problems of targets that overlap each other, an input or the working directory (C206)."""
    used_paths = {config.path: "the configuration", os.getcwd(): "the working directory"}
    settings = config.settings
    knowledge = settings.knowledge
    lists: tuple[tuple[str, Sequence[str | GraphSection]], ...] = (
        ("rules", settings.rules),
        ("knowledge.datalog", knowledge.datalog),
        ("knowledge.graphs", knowledge.graphs),
        ("knowledge.tables", [GraphSection(path=table.path) for table in knowledge.tables]),
    )
    for location, patterns in lists:
        keys = tuple(location.split("."))
        used_paths |= {path: f"named by {location}" for path, _, _ in config.files.matching_files(patterns, keys, [])}
    for iri, named in knowledge.imports.items():
        used_paths[config.files.path(named, ("knowledge", "imports", iri))] = "named by knowledge.imports"
    used_paths |= {config.recording: "the recording that is read"} if config.recording else {}
    for number, section in enumerate(settings.input):
        with suppress(Refused):
            used_paths |= dict.fromkeys(files_of(config, section, number), f"the input {section.name}")
    known = [(_resolved(path), path, what) for path, what in used_paths.items()]
    problems: list[Diagnostic] = []
    accepted: list[tuple[Path, Target]] = []
    for target in targets:
        if stores_no_data(target.path):
            continue
        path, conflict = _resolved(target.path), ""
        for other, name, what in known:
            if not conflict and (other == path or path in other.parents):
                conflict = f"is {what}" if other == path else f"holds {name}, {what}"
        for other, earlier in accepted:
            if not conflict and (other == path or path in other.parents or other in path.parents):
                conflict = f"and the {earlier.purpose} {earlier.path} stand in each other's way"
        if conflict:
            hint = "Choose a path that nothing else has."
            problems.append(Diagnostic("C206", f"the {target.purpose} {target.path} {conflict}", target.span, hint))
        else:
            accepted.append((path, target))
    return problems


def _resolved(path: str) -> Path:
    """The place that a path or URL leads to, as parts that can be compared: S3 has two schemes."""
    location = Location(path)
    return Path(path.replace("s3a://", "s3://", 1)) if location.is_url else location.path.resolve()


def _late_outputs(targets: Sequence[Target]) -> Iterator[Diagnostic]:
    """Warnings (I142) of outputs at URLs of a run in process whose inputs grow."""
    for target in targets:
        if not target.checkpoint and Location(target.path).is_url:
            message = f"{target.path} is written as a whole, when the run ends, and its inputs grow"
            hint = "Write engine: spark, which writes an object for each batch; or name a file of this machine."
            yield Diagnostic("I142", message, target.span, f"{hint} Or accept it: report: {{ accept: [I142] }}", Severity.WARNING)


def _existing_outputs(targets: Sequence[Target]) -> list[Diagnostic]:
    """Problems of existing outputs; plain cases are joined to one problem."""
    problems: list[Diagnostic] = []
    existing: list[str] = []
    for target in targets:
        try:
            if not target.checkpoint:
                check_new(target.path, target.span)
        except Refused as refused:
            problems += refused.diagnostics
            existing.append(target.path)
    if len(existing) < 2 or {problem.code for problem in problems} != {"I201"}:
        return problems
    return [replace(problems[0], message=f"{', '.join(existing[:-1])} and {existing[-1]} are there already")]


def check_files(config: Config, lines: list[str]) -> list[Diagnostic]:
    """Problems of a configuration's inputs and outputs that a check without a run can detect; adds
    a line to `lines` for each file that tasks cannot divide.
    """
    problems: list[Diagnostic] = []
    on_spark = config.settings.engine == "spark"
    inputs = read_inputs(config, problems)
    whole = [(file, whole_reason(file)) for file in inputs.files if on_spark]
    lines += [f"input {file.input}: one task on Spark reads {file.path}, since {reason}" for file, reason in whole if reason]
    if not on_spark:
        problems += refused_in_process(inputs.tables, "this run is in process")
    read_outputs(config, problems, on_spark=on_spark)
    problems += _recording_problems(config, on_spark=on_spark)
    return [*problems, *_path_conflicts(config, targets_of(config)), *_input_warnings(config)]


def _input_warnings(config: Config) -> Iterator[Diagnostic]:
    """Warnings of a background without rules (C278), of graphs of mappings (I127), and of all
    inputs: inputs whose silence delays all others (I113), MQTT inputs whose quality of service
    permits loss (I114), topic filters that match more than is meant (I115), HTTP inputs without
    tokens (I116)."""
    yield from _idle_warnings(config)
    yield from config.warnings
    yield from _unread_knowledge(config)
    for number, section in enumerate(config.settings.input):
        if (received := section.received) is not None:
            yield from message_warnings(received, config.files.place("input", number, config.transport("input", number)), section.name)


def _unread_knowledge(config: Config) -> Iterator[Diagnostic]:
    """The warning (C278) of a background that no rule reads, and no instant can contradict."""
    knowledge = config.settings.knowledge
    if not config.settings.rules and knowledge.entailment != "owl2rl" and (knowledge.graphs or knowledge.datalog or knowledge.tables):
        hint = "Leave knowledge out, or add the rules that read it."
        place = config.files.tree.key_span(("knowledge",))
        yield Diagnostic("C278", "without rules nothing reads the background knowledge", place, hint, Severity.WARNING)


def _idle_warnings(config: Config) -> Iterator[Diagnostic]:
    """Warnings (I113) of inputs of brokers and servers, and of files that go on, which are never
    idle: while one of them, or one of their partitions or files, is silent, no instant closes."""
    for number, section in enumerate(config.settings.input):
        transport = config.transport("input", number)
        if (
            section.idle is not None
            or config.settings.clock is not None
            or (transport == "path" and not section.goes_on)
            or (section.kafka is not None and section.kafka.endingOffsets is not None)
            or (section.spark is not None and not section.watch)
        ):
            continue
        part = "a partition of " if section.kafka is not None else "a file of " if section.tail else ""
        silent = f"{part}input {section.name}"
        wait = "Let" if section.spark is not None else "Say how long to wait for it, such as idle: 1 min; or let"
        yield Diagnostic(
            "I113",
            f"no instant closes while {silent} is silent",
            config.files.tree.key_span(("input", number, transport)),
            f"{wait} time go on without it: clock: 10 s; or accept it: report: {{ accept: [I113] }}",
            Severity.WARNING,
        )
