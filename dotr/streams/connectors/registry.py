"""Registry of the kinds of brokers and servers: their sections, and what is made of these without a
connection.

A kind is a folder beside this module. Its `section.py` is loaded with every configuration, all else
where a configuration has such an input or output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from dotr.errors.diagnostics import Diagnostic
from dotr.streams.connectors.http.section import HttpInputSection, HttpOutputSection, http_source, http_warnings
from dotr.streams.connectors.kafka.section import KafkaInputSection, KafkaOutputSection
from dotr.streams.connectors.mqtt.section import MqttInputSection, MqttOutputSection, mqtt_source, mqtt_warnings
from dotr.streams.records import InputFile, MessageSource
from dotr.syntax.sections import Section, SectionPlace

__all__ = [
    "CONNECTORS",
    "TRANSPORTS",
    "Connector",
    "HttpInputSection",
    "HttpOutputSection",
    "KafkaInputSection",
    "KafkaOutputSection",
    "MqttInputSection",
    "MqttOutputSection",
    "Transport",
    "message_source",
    "message_warnings",
]


class Connector(NamedTuple):
    """Kind of broker or server: the sections of its inputs and outputs."""

    input: type[Section]
    output: type[Section]


CONNECTORS: Final[Mapping[str, Connector]] = {
    "kafka": Connector(KafkaInputSection, KafkaOutputSection),
    "mqtt": Connector(MqttInputSection, MqttOutputSection),
    "http": Connector(HttpInputSection, HttpOutputSection),
}
"""Kinds by name: that of the folder, of the key in an input or output, and of the extra that installs
the library."""

Transport = Literal["path", "kafka", "mqtt", "http"]

TRANSPORTS: Final[tuple[Transport, ...]] = ("path", "kafka", "mqtt", "http")
"""The keys of transports; an input or output has exactly one of them."""

ReceivingSection: TypeAlias = MqttInputSection | HttpInputSection
"""Sections of inputs whose messages are received, and cannot be read again."""


def message_source(section: ReceivingSection, place: SectionPlace, like: InputFile, pipeline: str) -> MessageSource:
    """The source of an input whose messages are received, and read like the file `like`.

    `pipeline` is the name of the configuration. Raises `Refused` (C204, C301) with every problem of
    the section that is found without a connection.
    """
    match section:
        case HttpInputSection():
            return http_source(section, place, like)
        case MqttInputSection():
            return mqtt_source(section, place, like.input, f"dotr-{pipeline}-{like.input}")
        case _:
            assert_never(section)


def message_warnings(section: ReceivingSection, place: SectionPlace, name: str) -> Iterator[Diagnostic]:
    """Warnings (I114 to I116) of the input `name`, whose messages are received."""
    match section:
        case HttpInputSection():
            yield from http_warnings(section, place, name)
        case MqttInputSection():
            yield from mqtt_warnings(section, place, name)
        case _:
            assert_never(section)
