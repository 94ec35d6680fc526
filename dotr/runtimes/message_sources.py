"""Sources of messages in a configuration: what receives them from a broker, or as a server."""

from __future__ import annotations

from typing import assert_never

from dotr.config import Config
from dotr.errors.diagnostics import refuse
from dotr.sources.receivers import MessageSource


def message_source(config: Config, number: int) -> MessageSource | None:
    """The source of input `number`; None where its elements are not received.

    Raises `Refused` with every problem of its section that is found without a connection.
    """
    match config.transport("input", number):
        case "path":
            return None
        case "http":
            from dotr.runtimes.http_inputs import http_source

            return http_source(config, number)
        case "mqtt":
            from dotr.runtimes.mqtt_sections import mqtt_source

            return mqtt_source(config, number)
        case "kafka":
            place = config.span("input", number, "kafka")
            raise refuse("C204", "inputs by kafka cannot be read yet", place, "Name files: path.")
        case other:
            assert_never(other)
