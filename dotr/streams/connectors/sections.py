"""Sections of inputs and outputs that are brokers or servers: Kafka, MQTT, HTTP."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from dotr.streams.connectors.http.addresses import check_post_url, listen_address
from dotr.streams.connectors.mqtt.mqtt_addresses import check_broker_url, check_topic, check_topic_filter
from dotr.streams.times import parse_delay
from dotr.syntax.secrets import Secret
from dotr.syntax.sections import Section

Transport = Literal["path", "kafka", "mqtt", "http"]

TRANSPORTS: Final[tuple[Transport, ...]] = ("path", "kafka", "mqtt", "http")
"""The keys of transports; an input or output has exactly one of them."""


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


class TlsFilesSection(Section):
    """Certificates of a connection with TLS."""

    ca: str | None = Field(
        default=None, min_length=1, description="a file with the certificates of the authorities to trust; the system's if none"
    )
    certificate: str | None = Field(
        default=None, min_length=1, description="a file with the client's own certificate, for brokers that want one"
    )
    key: str | None = Field(default=None, min_length=1, description="the file with the key of `certificate`, where that does not hold it")


class MqttSection(Section):
    """Connection to an MQTT broker (MQTT 5)."""

    url: str = Field(min_length=1, description="mqtt://HOST:PORT, or mqtts://HOST:PORT with TLS; the ports are 1883 and 8883 if none")
    username: str | None = Field(default=None, min_length=1, description="the user")
    password: Secret | None = Field(default=None, description="the password of the user, as ${NAME}")
    tls: TlsFilesSection = Field(default=TlsFilesSection(), description="certificates; `tls.ca: FILE` may be written on one line, too")
    client_id: str | None = Field(
        default=None,
        min_length=1,
        description="the name of the client and its session at the broker, one for each run; made from the names of pipeline and input "
        "(output) if none",
    )
    qos: Literal[0, 1] = Field(default=1, description="1: at least once; 0: at most once")

    @model_validator(mode="before")
    @classmethod
    def _nest_tls_keys(cls, data: object) -> object:
        """`tls.ca: FILE` as `tls: { ca: FILE }`."""
        if not isinstance(data, dict):
            return data
        flat = {key.removeprefix("tls."): value for key, value in data.items() if isinstance(key, str) and key.startswith("tls.")}
        if not flat:
            return data
        nested = data.get("tls")
        rest = {key: value for key, value in data.items() if not (isinstance(key, str) and key.startswith("tls."))}
        return {**rest, "tls": {**(nested if isinstance(nested, dict) else {}), **flat}}

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        check_broker_url(value)
        return value


class MqttInputSection(MqttSection):
    """Subscription of an MQTT broker; its messages are an input in the order of their arrival."""

    topics: list[str] = Field(min_length=1, description="topic filters, such as site/+/temp or $share/GROUP/site/#")
    session: str | int = Field(
        default="1 h",
        description="how long the broker keeps the subscription, and the messages that come meanwhile, while no run is connected; "
        "0 s: not at all; an integer is in seconds",
    )

    @field_validator("topics")
    @classmethod
    def _check_topics(cls, value: list[str]) -> list[str]:
        for topic in value:
            check_topic_filter(topic)
        return value

    @field_validator("session")
    @classmethod
    def _check_session(cls, value: str | int) -> str | int:
        parse_delay(value)
        return value


class MqttOutputSection(MqttSection):
    """Topic of an MQTT broker; an event is a message."""

    topic: str = Field(min_length=1, description="the topic")
    retain: bool = Field(default=False, description="the broker keeps the last event, for those who subscribe later")

    @field_validator("topic")
    @classmethod
    def _check_topic(cls, value: str) -> str:
        check_topic(value)
        return value


class HttpInputSection(Section):
    """Address at which messages are accepted, each by a POST."""

    listen: str | int = Field(description="HOST:PORT/PATH; a port alone is on loopback")
    tokens: Secret | None = Field(
        default=None, description="the tokens of senders, separated by commas or spaces, as ${NAME}; one of them is sent as Bearer token"
    )
    open: bool = Field(default=False, description="accept messages without a token from other machines, too")

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str | int) -> str | int:
        listen_address(value)
        return value


class TlsTrustSection(Section):
    """Authorities to trust in a connection with TLS."""

    ca: str | None = Field(
        default=None, min_length=1, description="a file with the certificates of the authorities to trust; the system's if none"
    )


class HttpOutputSection(Section):
    """Address to which batches are posted."""

    url: str = Field(min_length=1, description="https://HOST/PATH; a password in it is written as ${NAME}")
    token: Secret | None = Field(default=None, description="the token that is sent as Bearer token, as ${NAME}")
    tls: TlsTrustSection = Field(default=TlsTrustSection(), description="the authorities to trust")

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        check_post_url(value)
        return value
