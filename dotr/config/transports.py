"""Sections of inputs and outputs that are brokers or servers: Kafka, MQTT, HTTP."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from dotr.config.secrets import Secret
from dotr.config.section import Section

Transport = Literal["path", "kafka", "mqtt", "http"]

TRANSPORTS: Final[tuple[Transport, ...]] = ("path", "kafka", "mqtt", "http")
"""The keys of an input or output of which exactly one is given."""

PropertyValue = Annotated[str | int | bool, Field(union_mode="left_to_right")]


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


class DeadLetterSection(Section):
    """Destination of dead letters that is no file."""

    kafka: KafkaTopicSection = Field(description="a topic of a Kafka cluster")


class MqttSection(Section):
    """Connection to an MQTT broker."""

    url: str = Field(min_length=1, description="mqtt://HOST:PORT, or mqtts:// with TLS")
    username: str | None = Field(default=None, min_length=1, description="the user")
    password: Secret | None = Field(default=None, description="the password, as ${NAME}")


class MqttInputSection(MqttSection):
    """Subscription of an MQTT broker."""

    topics: list[str] = Field(min_length=1, description="topic filters, such as site/+/temp")


class MqttOutputSection(MqttSection):
    """Topic of an MQTT broker."""

    topic: str = Field(min_length=1, description="the topic")


class HttpInputSection(Section):
    """Address at which messages are accepted."""

    listen: str = Field(min_length=1, description="HOST:PORT/PATH; a port alone is on loopback")


class HttpOutputSection(Section):
    """Address to which batches are posted."""

    url: str = Field(min_length=1, description="https://HOST/PATH")
