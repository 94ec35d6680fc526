"""Sections of Kafka inputs and outputs: topics that are read, and topics that are written to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import ConfigDict, Field, model_validator

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.time import Micros
from dotr.streams.connectors.kafka.topics import LATEST, KafkaDestination, KafkaInput, PartitionOffset
from dotr.streams.records import InputFile
from dotr.syntax.sections import Section, SectionPlace

_NO_PATHS: Final = ("probe", "pkcs11")
"""Values of a property `*.location` that are no path."""


class KafkaSection(Section):
    """Connection to a Kafka cluster.

    A key with a dot is a property of librdkafka; a secret one is `${NAME}`.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, populate_by_name=False)

    servers: str = Field(alias="bootstrap.servers", min_length=1, description="the brokers to ask first: HOST:PORT, separated by commas")

    @model_validator(mode="after")
    def _check_properties(self) -> KafkaSection:
        for key, value in self.properties.items():
            if "." not in key:
                raise ValueError(f"unknown key {key}")
            if not isinstance(value, str | int | bool):
                raise ValueError(f"{key} is neither text, a number, nor true or false")
        return self

    @property
    def properties(self) -> dict[str, str | int | bool]:
        """The properties of librdkafka, as they are written; secrets are `${NAME}`."""
        return dict(self.model_extra or {})


class KafkaInputSection(KafkaSection):
    """Topics of a Kafka cluster; each partition is an input of its own, in order of offsets."""

    subscribe: str | None = Field(default=None, min_length=1, description="topics, separated by commas")
    subscribePattern: str | None = Field(
        default=None, min_length=1, description="a regular expression that the whole name of a topic matches"
    )
    assign: dict[str, list[int]] | None = Field(default=None, min_length=1, description="partitions by topic, such as { sensors: [0, 2] }")
    startingOffsets: Literal["earliest", "latest"] | dict[str, dict[str, int]] = Field(
        default="earliest",
        description='earliest, latest, or offsets by topic and partition, such as { sensors: { "0": 23 } } (-2 is earliest, -1 latest; '
        "earliest for partitions that are not named); partitions that appear later are read from their first record on",
    )
    startingTimestamp: int | None = Field(
        default=None, ge=0, description="begin with the first records of this time or later, in ms since 1970; in place of startingOffsets"
    )
    endingOffsets: Literal["latest"] | dict[str, dict[str, int]] | None = Field(
        default=None,
        description="latest: the input ends with what is there when the run starts; or offsets by topic and partition, each the one "
        "behind the last record; without it the input grows",
    )
    failOnDataLoss: bool = Field(
        default=True,
        description="records that the broker has deleted unread end the run; false: it goes on behind them, with a dead letter (lost)",
    )

    @model_validator(mode="after")
    def _check_topics(self) -> KafkaInputSection:
        given = [key for key in ("subscribe", "subscribePattern", "assign") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"{' and '.join(given)} exclude each other" if given else "it needs subscribe, subscribePattern or assign")
        if self.startingTimestamp is not None and self.is_given("startingOffsets"):
            raise ValueError("startingTimestamp and startingOffsets exclude each other")
        if self.subscribe is not None and not all(map(str.strip, self.subscribe.split(","))):
            raise ValueError("subscribe has an empty name of a topic")
        if self.subscribePattern is not None:
            try:
                re.compile(self.subscribePattern)
            except re.error as error:
                raise ValueError(f"subscribePattern is no regular expression: {error}") from None
        for numbers in (self.assign or {}).values():
            if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
                raise ValueError("assign lists the numbers of partitions, from 0 on, each once")
        for key, least in (("startingOffsets", -2), ("endingOffsets", -1)):
            offsets = getattr(self, key)
            for partitions in offsets.values() if isinstance(offsets, dict) else ():
                for number, offset in partitions.items():
                    if not number.isascii() or not number.isdecimal() or offset < least:
                        raise ValueError(f'{key} gives offsets by partition, such as {{ sensors: {{ "0": 23 }} }}')
        return self


Delivery = Literal["exactly_once", "at_least_once"]


class KafkaTopicSection(KafkaSection):
    """Topic of a Kafka cluster that is written to."""

    topic: str = Field(min_length=1, description="the topic, which must be there")
    delivery: Delivery | None = Field(
        default=None,
        description="exactly_once: a batch is a transaction, on Spark only, and the default there; at_least_once: a batch that was cut off "
        "is written again",
    )


class KafkaOutputSection(KafkaTopicSection):
    """Topic of a Kafka cluster."""

    key: str | None = Field(
        default=None, min_length=1, description="the attribute whose value, in N-Triples, is the key of a record; no key if none"
    )
    timestamp: Literal["clock", "event"] = Field(
        default="clock",
        description="the time of a record: event needs a topic with retention.ms and message.timestamp.after.max.ms that allow for it",
    )


def kafka_input(section: KafkaInputSection, place: SectionPlace, like: InputFile, idle: Micros | None) -> KafkaInput:
    """The topics of an input, whose records are read like the file `like`.

    `idle` is the time without a record (µs) after which a partition is idle; None: never. Raises
    `Refused` (C204, C227) with every problem that can be found without a broker.
    """
    from dotr.streams.connectors.kafka.client import REFUSED, check_properties

    problems = _refused(section, place, REFUSED)
    properties = _properties(section, place)
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
        span = place.span() if named is None else place.key_span(named)
        hint = "A key with a dot is a property of librdkafka, whose CONFIGURATION.md lists them."
        problems.append(Diagnostic("C227", f"the client cannot be made: {reason}", span, hint))
    if problems:
        raise Refused(problems)
    return topics


def _offsets(given: str | Mapping[str, Mapping[str, int]] | None) -> tuple[PartitionOffset, ...]:
    if given is None or isinstance(given, str):
        return ()
    return tuple(PartitionOffset(topic, int(number), offset) for topic, offsets in given.items() for number, offset in offsets.items())


def kafka_destination(section: KafkaTopicSection, place: SectionPlace, *, on_spark: bool) -> KafkaDestination:
    """The topic of an output, or of dead letters; `on_spark` is the runtime. Raises `Refused` with
    every problem that can be found without a broker.
    """
    from dotr.streams.connectors.kafka.producer import REFUSED, check_properties

    problems = _refused(section, place, REFUSED)
    exactly_once = section.delivery == "exactly_once" or (section.delivery is None and on_spark)
    if exactly_once and not on_spark:
        hint = "Run it on Spark, or write delivery: at_least_once."
        message = "a run in process begins anew when it is killed, and writes nothing exactly once"
        problems.append(Diagnostic("C204", message, place.key_span("delivery"), hint))
    properties = tuple(_properties(section, place).items())
    key, event_time = (section.key, section.timestamp == "event") if isinstance(section, KafkaOutputSection) else (None, False)
    destination = KafkaDestination(section.topic, properties, key, exactly_once, event_time, place.key_span())
    if not problems:
        problem = check_properties(destination)
        if problem is not None:
            problems.append(problem)
    if problems:
        raise Refused(problems)
    return destination


def _refused(section: KafkaSection, place: SectionPlace, reasons: Mapping[str, str]) -> list[Diagnostic]:
    """Problems of the properties that a section cannot set, by the reason."""
    return [
        Diagnostic("C204", f"{key} cannot be set: {reason}", place.key_span(key), "Leave it out.")
        for key, reason in reasons.items()
        if key in section.properties
    ]


def _properties(section: KafkaSection, place: SectionPlace) -> dict[str, str]:
    """The texts of librdkafka's properties; paths among them are relative to the working
    directory."""
    properties = {"bootstrap.servers": section.servers}
    for key, value in section.properties.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key.endswith(".location") and text not in _NO_PATHS:
            text = place.path(text, key)
        properties[key] = text
    return properties
