"""Outputs of a configuration: destinations of events and dead letters, and the paths among them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final, assert_never

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean, refuse
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.stream import NO_INPUTS, PublishedInputs
from dotr.model.terms import Label
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.inputs import collect_problems
from dotr.runtimes.pipeline.output_files import Target
from dotr.runtimes.pipeline.sections import DeadLetterSection, label_problems
from dotr.streams.connectors.opening import ChosenEvents, Destination, Output, destination_problems, sent_to
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.records import Format
from dotr.streams.sinks.events import TableFormat, output_format
from dotr.streams.sinks.files import PathDestination
from dotr.streams.sinks.parquet import parquet_problem


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a run; `dead_letters` is None where they are only counted."""

    events: tuple[Output, ...]
    dead_letters: Destination | None = None


def read_outputs(config: Config, problems: list[Diagnostic], *, on_spark: bool) -> Outputs:
    """Read the outputs of a configuration. Problems are added to `problems`, and outputs with
    problems are left out. `on_spark` is the runtime.
    """
    events: list[Output] = []
    dead_letters: Destination | None = None
    for number, section in enumerate(config.settings.output):
        with collect_problems(problems):
            form = output_format(section.format)
            destination = _destination(config, number, on_spark=on_spark)
            if isinstance(form, TableFormat):
                _check_table(config, number, destination)
            if form is StreamFormat.JELLY:
                from dotr.streams.formats.rdf.jelly import check_library

                check_library(config.span("output", number, "format"))
            events.append(Output(form, destination, by_executors=section.by == "executors" or section.spark is not None))
    section_of_letters = config.settings.dead_letter
    with collect_problems(problems):
        match section_of_letters:
            case None:
                pass
            case str(path):
                dead_letters = PathDestination(config.files.path(path, ("dead_letter",)), config.span("dead_letter"))
            case DeadLetterSection():
                sent = section_of_letters
                if sent.kafka is not None:
                    from dotr.streams.connectors.kafka.section import kafka_destination

                    dead_letters = kafka_destination(sent.kafka, config.files.place("dead_letter", "kafka"), on_spark=on_spark)
                elif sent.spark is not None:
                    from dotr.streams.connectors.spark.section import table_destination

                    dead_letters = table_destination(sent.spark, config.files.place("dead_letter", "spark"), on_spark=on_spark)
            case _:
                assert_never(section_of_letters)
    problems += destination_problems([*(output.destination for output in events), *([dead_letters] if dead_letters else [])])
    return Outputs(tuple(events), dead_letters)


def chosen_events(config: Config, program: CompiledProgram, problems: list[Diagnostic]) -> list[ChosenEvents | None]:
    """The events of each output, and the inputs whose elements it has: those that its section names,
    else all events but internal ones; None for all that any output has.

    Problems are added to `problems`: those of the names (C268; C204 for one that is a label and an
    input), and keys of messages that are no attribute of an event (C204).
    """
    chosen: list[ChosenEvents | None] = []
    labels = program.attributes
    inputs = published_inputs(config)
    for number, section in enumerate(config.settings.output):
        at = ("output", number)
        if section.of is not None:
            problems += _name_problems(config, number, section.of, labels, inputs.order)
            own = {*labels, *inputs.names} & {*section.of}
        elif section.events is None:
            own = {*labels} - program.internal
            if not config.settings.rules:
                hint = "Name inputs: of: [NAME]; or leave the output out."
                problems.append(Diagnostic("C204", "without rules there are no events for the output", config.span(*at), hint))
        else:
            own = {*labels} & {*section.events}
            problems += label_problems(section.events, labels, partial(config.span, *at, "events"))
        attributes = tuple(sorted({name for label in own for name in labels.get(label, ())}))
        key = None if section.kafka is None else section.kafka.key
        if key is not None and key not in attributes:
            hint = did_you_mean(key, attributes) or f"There are {', '.join(attributes) or 'none'}."
            problems.append(Diagnostic("C204", f"no event has an attribute {key}", config.span(*at, "kafka", "key"), hint))
        chosen.append(None if len(own) == len(labels) + len(inputs.names) else ChosenEvents(frozenset(own), attributes))
    return chosen


def published_inputs(config: Config) -> PublishedInputs:
    """The inputs whose elements an output has."""
    if all(section.of is None for section in config.settings.output):
        return NO_INPUTS
    own = {each.name for each in config.settings.input if each.format == Format.RECORDING.value}
    order = tuple([each.name for each in config.streams() if each.name not in own])
    named = frozenset([name for section in config.settings.output for name in section.of or ()])
    return PublishedInputs(named.intersection(order), order)


def _name_problems(
    config: Config, number: int, names: Sequence[str], labels: Collection[Label], inputs: Collection[str]
) -> Iterator[Diagnostic]:
    """Problems of the names in the list `of` of an output."""
    section, place = config.settings.output[number], partial(config.span, "output", number, "of")
    yield from label_problems(names, labels, place, inputs)
    if section.events is not None:
        hint = "Write all names in `of`, which takes labels, too."
        yield Diagnostic("C204", "events and of exclude each other", config.files.tree.key_span(("output", number, "events")), hint)
    for at, name in enumerate(names):
        if name in names[:at]:
            yield Diagnostic("C204", f"{name} is named twice", place(at), "Name it once: an output has each element and event once.")
        elif name in inputs and name in labels:
            hint = f"Give the input another name; or write events: [{name}], which is of events alone."
            yield Diagnostic("C204", f"{name} is an input, and a label of events", place(at), hint)
        elif name in inputs and output_format(section.format) in (StreamFormat.CSV, TableFormat.PARQUET):
            hint = "Write format: ndjson, or one of RDF such as trig; or name labels of events alone."
            message = f"{section.format} has a column for each attribute, and an element of the input {name} has none"
            yield Diagnostic("C204", message, config.span("output", number, "format"), hint)


def _check_table(config: Config, number: int, destination: Destination) -> None:
    """Check that a destination can hold a table; raises `Refused`."""
    if not isinstance(destination, PathDestination):
        name = config.settings.output[number].format
        hint = "Write format: ndjson, trig, nquads, jsonld, jelly or csv; or name a file: path."
        raise refuse("C204", f"{name} is a table, and a message holds one event", config.span("output", number, "format"), hint)
    problem = parquet_problem(destination.path, destination.span)
    if problem is not None:
        raise Refused([problem])


def _destination(config: Config, number: int, *, on_spark: bool) -> Destination:
    """The destination of output `number`; raises `Refused` where its section cannot be used."""
    at = ("output", number)
    section = config.settings.output[number]
    transport = config.transport("output", number)
    if section.by == "executors":
        _check_executors(config, number, on_spark=on_spark)
        on_spark = False  # without transactions, unless they are asked for
    if transport == "path":
        return PathDestination(config.files.path(section.path, (*at, "path")), config.span(*at, "path"))
    if transport == "serve" and section.is_given("format"):
        hint = "Leave format out: readers choose one."
        raise refuse("C204", "what is served has every format", config.files.tree.key_span((*at, "format")), hint)
    if transport == "spark" and section.is_given("format"):
        hint = "Write it as spark: { format: … }, where it names a sink of Spark."
        raise refuse("C204", "a table has columns, and no format of dotr's", config.files.tree.key_span((*at, "format")), hint)
    sent = section.kafka or section.mqtt or section.http or section.serve or section.spark
    assert sent is not None
    place = config.files.place(*at, transport)
    return sent_to(sent, place, number, config.settings.name, on_spark=on_spark)


def _check_executors(config: Config, number: int, *, on_spark: bool) -> None:
    """Check that tasks of Spark can write output `number`; raises `Refused` (C204)."""
    section, place = config.settings.output[number], config.files.place("output", number)
    if not on_spark:
        raise refuse("C204", "this run is in process, and has no executors", place.key_span("by"), "Leave by out; or write engine: spark.")
    if section.kafka is not None and section.kafka.delivery == "exactly_once":
        hint = "Write delivery: at_least_once, or leave by out: the driver writes exactly once."
        raise refuse("C204", "what several executors write is no one transaction", place.key_span("kafka", "delivery"), hint)
    if section.kafka is None and (not section.path or section.path.startswith("/dev/")):
        hint = "Leave by out. Executors write files in a folder, and topics of Kafka; a table is theirs in any case."
        raise refuse("C204", "executors do not write this output", place.key_span("by"), hint)


RECORDING: Final = "recording"
"""The purpose of the file that a run is recorded in."""


def targets_of(config: Config) -> tuple[Target, ...]:
    """Paths that a pipeline writes to: outputs in order, dead letters and the recording if
    configured, the checkpoint last.

    Without `spark.checkpoint` the checkpoint is beside the first of these, or beside the
    configuration where there is none.
    """
    targets = [*_paths(config)]
    settings, section = config.settings, config.settings.spark
    if section.checkpoint:
        where = ("spark", "checkpoint")
        return *targets, Target("checkpoint", config.files.path(section.checkpoint, where), config.span(*where), checkpoint=True)
    name = re.sub(r"[^\w.-]+", "-", settings.name) + "-checkpoint"
    path = (Location(targets[0].path).parent / name).text if targets else config.files.path(name, ("name",))
    return *targets, Target("checkpoint", path, config.span("name"), checkpoint=True)


def _paths(config: Config) -> Iterator[Target]:
    """The paths of outputs, dead letters and the recording."""
    settings = config.settings
    for number, section in enumerate(settings.output):
        if config.transport("output", number) == "path":
            where = ("output", number, "path")
            yield Target("output", config.files.path(section.path, where), config.span(*where))
    if isinstance(settings.dead_letter, str):
        yield Target("dead letters", config.files.path(settings.dead_letter, ("dead_letter",)), config.span("dead_letter"))
    if settings.record is not None and not config.recording:
        yield Target(RECORDING, config.files.path(settings.record, ("record",)), config.span("record"))
