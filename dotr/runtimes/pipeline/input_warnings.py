"""Warnings of inputs by brokers and servers that `dotr check` gives without a connection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.runtimes.pipeline.reading import Config
from dotr.streams.connectors.http.addresses import listen_address
from dotr.streams.connectors.kafka.section import idle_warnings
from dotr.streams.connectors.mqtt.mqtt_addresses import overlap, unshared


def input_warnings(config: Config) -> Iterator[Diagnostic]:
    """Warnings of all inputs: inputs whose silence delays all others (I113), MQTT inputs whose
    quality of service permits loss (I114), topic filters that match more than is meant (I115), and
    HTTP inputs without tokens (I116)."""
    yield from idle_warnings(config)
    for number, section in enumerate(config.settings.input):
        if section.mqtt is not None:
            yield from _loss_warnings(config, number)
            yield from _topic_warnings(config, number)
        if section.http is not None:
            yield from _token_warnings(config, number)


def _token_warnings(config: Config, number: int) -> Iterator[Diagnostic]:
    section = config.settings.input[number]
    http = section.http
    assert http is not None
    if http.tokens is None:
        address = listen_address(http.listen)
        who = "every process of this machine" if address.is_loopback else f"everybody who reaches {address.authority}"
        yield Diagnostic(
            "I116",
            f"input {section.name} accepts messages without a token: {who} can send",
            config.span("input", number, "http", "listen"),
            "Write tokens: ${NAME} beside it, or accept it: report: { accept: [I116] }",
            Severity.WARNING,
        )


def _loss_warnings(config: Config, number: int) -> Iterator[Diagnostic]:
    section = config.settings.input[number]
    mqtt = section.mqtt
    assert mqtt is not None
    if mqtt.qos == 0:
        yield Diagnostic(
            "I114",
            f"input {section.name} has qos 0, without guarantee: messages that arrive while the connection is lost are lost",
            config.files.tree.key_span(("input", number, "mqtt", "qos")),
            "Leave it out (1: at least once), or accept it: report: { accept: [I114] }",
            Severity.WARNING,
        )


def _topic_warnings(config: Config, number: int) -> Iterator[Diagnostic]:
    mqtt = config.settings.input[number].mqtt
    assert mqtt is not None
    at = ("input", number, "mqtt", "topics")
    for each, topic in enumerate(mqtt.topics):
        if unshared(topic) == "#":
            yield Diagnostic(
                "I115",
                f"{topic} brings every topic of the broker",
                config.span(*at, each),
                "Name the topics meant, such as site/#; or accept it: report: { accept: [I115] }",
                Severity.WARNING,
            )
    for (_, one), (place, other) in combinations(enumerate(mqtt.topics), 2):
        if overlap(unshared(one), unshared(other)):
            yield Diagnostic(
                "I115",
                f"{one} and {other} have topics in common, of which a broker may send each message twice",
                config.span(*at, place),
                "Name each topic once; or accept it: report: { accept: [I115] }",
                Severity.WARNING,
            )
