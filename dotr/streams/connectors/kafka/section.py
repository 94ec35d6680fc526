"""Kafka inputs of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.model.places import Span
from dotr.model.time import Micros
from dotr.runtimes.pipeline.reading import Config
from dotr.streams.connectors.kafka.channels import OpenedTopics
from dotr.streams.connectors.kafka.client import REFUSED, check_properties
from dotr.streams.connectors.kafka.topics import LATEST, KafkaInput, PartitionOffset
from dotr.streams.connectors.sections import KafkaInputSection
from dotr.streams.failures import InputFailed
from dotr.streams.records import InputFile

NO_PATHS: Final = ("probe", "pkcs11")
"""Values of a property `*.location` that are no path."""


def kafka_input(config: Config, number: int, like: InputFile, idle: Micros | None) -> KafkaInput:
    """The Kafka input of section `number`; raises `Refused` with every problem that can be found
    without a broker."""
    section = config.settings.input[number].kafka
    assert section is not None
    at = ("input", number, "kafka")
    problems = [
        Diagnostic("C204", f"{key} cannot be set: {reason}", config.files.tree.key_span((*at, key)), "Leave it out.")
        for key, reason in REFUSED.items()
        if key in section.properties
    ]
    properties = {"bootstrap.servers": section.servers}
    for key, value in section.properties.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key.endswith(".location") and text not in NO_PATHS:
            text = config.files.path(text, (*at, key))
        properties[key] = text
    starting, ending = section.startingOffsets, section.endingOffsets
    topics = KafkaInput(
        like,
        tuple(properties.items()),
        tuple(dict.fromkeys(map(str.strip, section.subscribe.split(",")))) if section.subscribe else (),
        section.subscribePattern or "",
        tuple((topic, each) for topic, numbers in (section.assign or {}).items() for each in numbers),
        start=starting if isinstance(starting, str) else "earliest",
        start_offsets=_offsets(starting),
        start_time=section.startingTimestamp,
        end="" if ending is None else LATEST,
        end_offsets=_offsets(ending),
        fails_on_loss=section.failOnDataLoss,
        idle=idle,
    )
    if not problems and (reason := check_properties(topics)):
        named = next((key for key in properties if key in reason), None)
        place = config.span(*at) if named is None else config.files.tree.key_span((*at, named))
        hint = "A key with a dot is a property of librdkafka, whose CONFIGURATION.md lists them."
        problems.append(Diagnostic("C227", f"the client cannot be made: {reason}", place, hint))
    if problems:
        raise Refused(problems)
    return topics


def _offsets(given: str | Mapping[str, Mapping[str, int]] | None) -> tuple[PartitionOffset, ...]:
    if given is None or isinstance(given, str):
        return ()
    return tuple(PartitionOffset(topic, int(number), offset) for topic, offsets in given.items() for number, offset in offsets.items())


def open_topics(config: Config, inputs: tuple[KafkaInput, ...]) -> tuple[OpenedTopics, ...]:
    """The inputs with the partitions of their clusters; waits until a broker answers.

    Raises `Refused`, with the place of the input, for what cannot succeed: credentials, a
    certificate, an unknown topic.
    """
    opened: list[OpenedTopics] = []
    problems: list[Diagnostic] = []
    for topics in inputs:
        try:
            opened.append(OpenedTopics(topics))
        except InputFailed as failed:
            problem = failed.diagnostic
            problems.append(Diagnostic(problem.code, problem.message, section_span(config, topics), problem.hint))
    if problems:
        raise Refused(problems)
    return tuple(opened)


def section_span(config: Config, topics: KafkaInput) -> Span:
    """The place of an input in its configuration."""
    number = next(number for number, section in enumerate(config.settings.input) if section.name == topics.name)
    return config.files.tree.key_span(("input", number, "kafka"))


def idle_warnings(config: Config) -> Iterator[Diagnostic]:
    """Warnings (I113) of inputs of brokers and servers that grow and are never idle: while one of
    them, or one of their partitions, is silent, no instant closes."""
    for number, section in enumerate(config.settings.input):
        kafka: KafkaInputSection | None = section.kafka
        if section.idle is not None:
            continue
        if kafka is not None and kafka.endingOffsets is None:
            what, key = f"a partition of input {section.name}", "kafka"
        elif section.mqtt is not None or section.http is not None:
            what, key = f"input {section.name}", "http" if section.mqtt is None else "mqtt"
        else:
            continue
        yield Diagnostic(
            "I113",
            f"no instant closes while {what} is silent",
            config.files.tree.key_span(("input", number, key)),
            "Say how long to wait for it, such as idle: 1 min; or accept it: report: { accept: [I113] }",
            Severity.WARNING,
        )
