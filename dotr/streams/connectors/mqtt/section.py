"""MQTT inputs and outputs of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote, urlsplit

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.time import Unit
from dotr.runtimes.pipeline.reading import Config
from dotr.streams.connectors.mqtt.broker import Credentials, MqttBroker, TlsFiles
from dotr.streams.connectors.mqtt.source import MqttSource
from dotr.streams.connectors.sections import MqttSection
from dotr.streams.sinks.destinations import MqttDestination
from dotr.streams.times import parse_delay
from dotr.syntax.secrets import Secret, is_variable

_LONGEST_SESSION: Final = 0xFFFF_FFFF
"""Seconds of a session without expiry (MQTT 5)."""


def mqtt_source(config: Config, number: int) -> MqttSource:
    """The subscription of input `number`; raises `Refused` (C204, C301) where it cannot be used."""
    section = config.settings.input[number]
    assert section.mqtt is not None
    broker = _broker(config, ("input", number, "mqtt"), section.mqtt, section.name)
    session = min(parse_delay(section.mqtt.session, Unit.SECOND) // 1_000_000, _LONGEST_SESSION)
    topics = tuple(dict.fromkeys(section.mqtt.topics))
    return MqttSource(section.name, broker, topics, section.mqtt.qos, session, config.span("input", number, "mqtt", "url"))


def mqtt_destination(config: Config, number: int) -> MqttDestination:
    """The topic of output `number`; raises `Refused` (C204, C301) where it cannot be used."""
    mqtt = config.settings.output[number].mqtt
    assert mqtt is not None
    broker = _broker(config, ("output", number, "mqtt"), mqtt, f"output-{number}")
    return MqttDestination(broker, mqtt.topic, mqtt.qos, mqtt.retain, config.span("output", number, "mqtt", "url"))


def _broker(config: Config, at: tuple[str | int, ...], section: MqttSection, name: str) -> MqttBroker:
    """The broker of a section; `name` is that of the input or output, and part of the client ID."""
    parts = urlsplit(section.url)
    problems: list[Diagnostic] = []

    def problem(key: str, message: str, hint: str) -> None:
        problems.append(Diagnostic("C204", message, config.files.tree.key_span((*at, key)), hint))

    if parts.username and section.username is not None:
        problem("username", "the URL names a user, too", "Leave one of the two out.")
    if section.password is not None and section.username is None and not parts.username:
        problem("password", "a password needs a user", "Add username.")
    if section.password is not None and parts.password:
        problem("password", "the URL has a password, too", "Leave one of the two out.")
    if section.is_given("tls") and parts.scheme != "mqtts":
        problem("tls", "certificates are for connections with TLS", "Write mqtts:// in the URL, or leave tls out.")
    if section.tls.key is not None and section.tls.certificate is None:
        problem("tls", "a key needs its certificate", "Add tls.certificate.")
    files: dict[str, str | None] = {}
    for key in ("ca", "certificate", "key"):
        path = getattr(section.tls, key)
        files[key] = path = None if path is None else config.files.path(path, (*at, "tls", key))
        if path is not None:
            problems += _unreadable(path, config, (*at, "tls", key))
    if not problems and (path := files["ca"] or files["certificate"]) is not None:
        try:
            TlsFiles(**files).context()
        except OSError:  # ssl.SSLError
            hint = "Name files in PEM; the key is the certificate's, without a password."
            problems.append(Diagnostic("C301", f"{path} holds no certificate that can be used", config.span(*at, "tls"), hint))
    if problems:
        raise Refused(problems)
    username = unquote(parts.username) if parts.username else section.username
    password = Secret(parts.password) if parts.password and is_variable(parts.password) else section.password
    client_id = section.client_id or f"dotr-{config.settings.name}-{name}"
    return MqttBroker(section.url, client_id, TlsFiles(**files), _credentials(username, password))


def _unreadable(path: str, config: Config, location: tuple[str | int, ...]) -> list[Diagnostic]:
    try:
        with open(path, "rb"):
            return []
    except OSError as error:
        message = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        return [Diagnostic("C301", message, config.span(*location), "Relative paths are relative to the configuration file.")]


def _credentials(username: str | None, password: Secret | None) -> Callable[[], Credentials]:
    """A function that returns the credentials, with the password as it is in the environment at the
    call."""
    return lambda: Credentials(username, None if password is None else password.reveal())
