"""Outputs of a configuration: destinations of events and dead letters, and the paths among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, assert_never

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean, refuse
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.inputs import collect_problems
from dotr.runtimes.pipeline.output_files import Target
from dotr.runtimes.pipeline.sections import DeadLetterSection, label_problems
from dotr.streams.connectors.kafka.section import kafka_destination
from dotr.streams.connectors.opening import ChosenEvents, Destination, Output, sent_to
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
            events.append(Output(form, destination))
    section_of_letters = config.settings.dead_letter
    with collect_problems(problems):
        match section_of_letters:
            case None:
                pass
            case str(path):
                dead_letters = PathDestination(config.files.path(path, ("dead_letter",)), config.span("dead_letter"))
            case DeadLetterSection():
                dead_letters = kafka_destination(section_of_letters.kafka, config.files.place("dead_letter", "kafka"), on_spark=on_spark)
            case _:
                assert_never(section_of_letters)
    return Outputs(tuple(events), dead_letters)


def chosen_events(config: Config, program: CompiledProgram, problems: list[Diagnostic]) -> list[ChosenEvents | None]:
    """The events of each output: those that its section names, else all but internal ones; None for
    all.

    Problems are added to `problems`: those of the names (C268), and keys of messages that are no
    attribute of an event (C204).
    """
    chosen: list[ChosenEvents | None] = []
    labels = program.attributes
    for number, section in enumerate(config.settings.output):
        at = ("output", number)
        if section.events is None:
            own = labels.keys() - program.internal
        else:
            own = labels.keys() & section.events
            problems += label_problems(section.events, labels, partial(config.span, *at, "events"))
        attributes = tuple(sorted({name for label in own for name in labels[label]}))
        key = None if section.kafka is None else section.kafka.key
        if key is not None and key not in attributes:
            hint = did_you_mean(key, attributes) or f"There are {', '.join(attributes) or 'none'}."
            problems.append(Diagnostic("C204", f"no event has an attribute {key}", config.span(*at, "kafka", "key"), hint))
        chosen.append(None if len(own) == len(labels) else ChosenEvents(frozenset(own), attributes))
    return chosen


def _check_table(config: Config, number: int, destination: Destination) -> None:
    """Check that a destination can hold a table; raises `Refused`."""
    if not isinstance(destination, PathDestination):
        name = config.settings.output[number].format
        hint = "Write format: ndjson, trig, nquads or csv; or name a file: path."
        raise refuse("C204", f"{name} is a table, and a message holds one event", config.span("output", number, "format"), hint)
    problem = parquet_problem(destination.path, destination.span)
    if problem is not None:
        raise Refused([problem])


def _destination(config: Config, number: int, *, on_spark: bool) -> Destination:
    """The destination of output `number`; raises `Refused` where its section cannot be used."""
    at = ("output", number)
    section = config.settings.output[number]
    transport = config.transport("output", number)
    if transport == "path":
        return PathDestination(config.files.path(section.path, (*at, "path")), config.span(*at, "path"))
    sent = section.kafka or section.mqtt or section.http
    assert sent is not None
    place = config.files.place(*at, transport)
    return sent_to(sent, place, number, config.settings.name, on_spark=on_spark)


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
    path = str(Path(targets[0].path).parent / name) if targets else config.files.path(name, ("name",))
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
