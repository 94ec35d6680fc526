"""Registry of the kinds of brokers and servers: their sections, and what is made of these without a
connection.

A kind is a folder beside this module. Its `section.py`, and all else, is loaded where a
configuration has such an input or output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias, assert_never

from dotr.errors.diagnostics import Diagnostic
from dotr.streams.records import InputFile, MessageSource
from dotr.syntax.sections import LaterSection, Section, SectionPlace

if TYPE_CHECKING:
    from dotr.streams.connectors.http.section import HttpInputSection, HttpOutputSection
    from dotr.streams.connectors.kafka.section import KafkaInputSection, KafkaOutputSection, KafkaTopicSection
    from dotr.streams.connectors.ldes.section import LdesInputSection
    from dotr.streams.connectors.mqtt.section import MqttInputSection, MqttOutputSection
    from dotr.streams.connectors.serve.section import ServeSection
    from dotr.streams.connectors.spark.section import SparkInputSection, SparkOutputSection
    from dotr.streams.connectors.sse.section import SseInputSection
    from dotr.streams.connectors.websocket.section import WebSocketInputSection
else:

    def _later(kind: str, name: str) -> Any:
        return Annotated[Section, LaterSection(f"dotr.streams.connectors.{kind}.section", name)]

    HttpInputSection, HttpOutputSection = _later("http", "HttpInputSection"), _later("http", "HttpOutputSection")
    KafkaInputSection, KafkaOutputSection = _later("kafka", "KafkaInputSection"), _later("kafka", "KafkaOutputSection")
    KafkaTopicSection = _later("kafka", "KafkaTopicSection")
    LdesInputSection = _later("ldes", "LdesInputSection")
    MqttInputSection, MqttOutputSection = _later("mqtt", "MqttInputSection"), _later("mqtt", "MqttOutputSection")
    ServeSection = _later("serve", "ServeSection")
    SparkInputSection, SparkOutputSection = _later("spark", "SparkInputSection"), _later("spark", "SparkOutputSection")
    SseInputSection = _later("sse", "SseInputSection")
    WebSocketInputSection = _later("websocket", "WebSocketInputSection")

__all__ = [
    "CONNECTORS",
    "TRANSPORTS",
    "Connector",
    "HttpInputSection",
    "HttpOutputSection",
    "KafkaInputSection",
    "KafkaOutputSection",
    "KafkaTopicSection",
    "LdesInputSection",
    "MqttInputSection",
    "MqttOutputSection",
    "ReceivingSection",
    "ServeSection",
    "SparkInputSection",
    "SparkOutputSection",
    "SseInputSection",
    "Transport",
    "WebSocketInputSection",
    "message_source",
    "message_warnings",
]


class Connector(NamedTuple):
    """Kind of broker or server: the annotations of the sections of its inputs and outputs; None where
    it has none."""

    of_inputs: Any
    of_outputs: Any

    def has(self, key: Literal["input", "output"]) -> bool:
        """True if there are such inputs, or outputs."""
        return (self.of_inputs if key == "input" else self.of_outputs) is not None

    def section(self, key: Literal["input", "output"]) -> type[Section] | None:
        """The section of its inputs, or of its outputs."""
        found = self.of_inputs if key == "input" else self.of_outputs
        section: type[Section] | None = None if found is None else found.__metadata__[0].section
        return section


CONNECTORS: Final[Mapping[str, Connector]] = {
    "kafka": Connector(KafkaInputSection, KafkaOutputSection),
    "mqtt": Connector(MqttInputSection, MqttOutputSection),
    "http": Connector(HttpInputSection, HttpOutputSection),
    "sse": Connector(SseInputSection, None),
    "websocket": Connector(WebSocketInputSection, None),
    "ldes": Connector(LdesInputSection, None),
    "serve": Connector(None, ServeSection),
    "spark": Connector(SparkInputSection, SparkOutputSection),
}
"""Kinds by name: that of the folder, and of the key in an input or output; also of the extra that
installs the library, which is http for `sse`, `websocket`, `ldes` and `serve`."""

Transport = Literal["path", "kafka", "mqtt", "http", "sse", "websocket", "ldes", "serve", "spark"]

TRANSPORTS: Final[tuple[Transport, ...]] = ("path", "kafka", "mqtt", "http", "sse", "websocket", "ldes", "serve", "spark")
"""The keys of transports; an input or output has exactly one of those that are of it."""

ReceivingSection: TypeAlias = "MqttInputSection | HttpInputSection | SseInputSection | WebSocketInputSection | LdesInputSection"
"""Sections of inputs whose messages are received, and cannot be read again."""


def message_source(section: ReceivingSection, place: SectionPlace, like: InputFile, pipeline: str, spool: int) -> MessageSource:
    """The source of an input whose messages are received, and read like the file `like`.

    `pipeline` is the name of the configuration, and `spool` the size (bytes) of the spool. Raises
    `Refused` (C204, C205, C301) with every problem of the section that is found without a
    connection.
    """
    from dotr.streams.connectors.http.section import HttpInputSection, http_source
    from dotr.streams.connectors.ldes.section import LdesInputSection, ldes_source
    from dotr.streams.connectors.mqtt.section import MqttInputSection, mqtt_source
    from dotr.streams.connectors.sse.section import SseInputSection, sse_source
    from dotr.streams.connectors.websocket.section import WebSocketInputSection, websocket_source

    match section:
        case HttpInputSection():
            return http_source(section, place, like)
        case MqttInputSection():
            return mqtt_source(section, place, like.input, f"dotr-{pipeline}-{like.input}")
        case SseInputSection():
            return sse_source(section, place, like)
        case LdesInputSection():
            return ldes_source(section, place, like, spool)
        case WebSocketInputSection():
            return websocket_source(section, place, like)
        case _:
            assert_never(section)


def message_warnings(section: ReceivingSection, place: SectionPlace, name: str) -> Iterator[Diagnostic]:
    """Warnings (I114 to I116) of the input `name`, whose messages are received."""
    from dotr.streams.connectors.http.section import HttpInputSection, http_warnings
    from dotr.streams.connectors.ldes.section import LdesInputSection
    from dotr.streams.connectors.mqtt.section import MqttInputSection, mqtt_warnings
    from dotr.streams.connectors.sse.section import SseInputSection
    from dotr.streams.connectors.websocket.section import WebSocketInputSection, websocket_warnings

    match section:
        case HttpInputSection():
            yield from http_warnings(section, place, name)
        case MqttInputSection():
            yield from mqtt_warnings(section, place, name)
        case WebSocketInputSection():
            yield from websocket_warnings(section, place, name)
        case SseInputSection() | LdesInputSection():
            pass
        case _:
            assert_never(section)
