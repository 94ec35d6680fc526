"""Sources of messages in a configuration: subscriptions at a broker, and servers."""

from __future__ import annotations

from typing import assert_never

from dotr.runtimes.pipeline.reading import Config
from dotr.streams.connectors.receivers import MessageSource
from dotr.streams.records import InputFile


def message_source(config: Config, number: int, like: InputFile) -> MessageSource | None:
    """The source of input `number`, whose messages are read like the file `like`; None where the
    input is read, not received.

    Raises `Refused` with every problem of its section that is found without a connection.
    """
    match config.transport("input", number):
        case "path" | "kafka":
            return None
        case "http":
            from dotr.streams.connectors.http.section import http_source

            return http_source(config, number, like)
        case "mqtt":
            from dotr.streams.connectors.mqtt.section import mqtt_source

            return mqtt_source(config, number)
        case other:
            assert_never(other)
