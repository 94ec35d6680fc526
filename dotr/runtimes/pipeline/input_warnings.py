"""Warnings of inputs by brokers and servers that `dotr check` gives without a connection."""

from __future__ import annotations

from collections.abc import Iterator

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.runtimes.pipeline.config import Config
from dotr.streams.connectors.registry import message_warnings


def input_warnings(config: Config) -> Iterator[Diagnostic]:
    """Warnings of all inputs: inputs whose silence delays all others (I113), MQTT inputs whose
    quality of service permits loss (I114), topic filters that match more than is meant (I115), and
    HTTP inputs without tokens (I116)."""
    yield from _idle_warnings(config)
    for number, section in enumerate(config.settings.input):
        received = section.mqtt or section.http
        if received is not None:
            yield from message_warnings(received, config.files.place("input", number, config.transport("input", number)), section.name)


def _idle_warnings(config: Config) -> Iterator[Diagnostic]:
    """Warnings (I113) of inputs of brokers and servers that grow and are never idle: while one of
    them, or one of their partitions, is silent, no instant closes."""
    for number, section in enumerate(config.settings.input):
        transport = config.transport("input", number)
        if section.idle is not None or transport == "path" or (section.kafka is not None and section.kafka.endingOffsets is not None):
            continue
        silent = f"input {section.name}" if section.kafka is None else f"a partition of input {section.name}"
        yield Diagnostic(
            "I113",
            f"no instant closes while {silent} is silent",
            config.files.tree.key_span(("input", number, transport)),
            "Say how long to wait for it, such as idle: 1 min; or accept it: report: { accept: [I113] }",
            Severity.WARNING,
        )
