"""Sections of inputs and outputs that are brokers or servers: Kafka, MQTT, HTTP."""

from __future__ import annotations

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
    """Topics of a Kafka cluster; each partition is an input of its own, in the order of its offsets."""

    subscribe: str | None = Field(default=None, min_length=1, description="topics, separated by commas")


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
