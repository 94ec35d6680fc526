"""Sections of MQTT inputs and outputs: subscriptions at a broker, and topics that are published to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator, model_validator

from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.model.places import Span
from dotr.model.time import Unit
from dotr.streams.connectors.mqtt.broker import (
    Credentials,
    MqttBroker,
    MqttDestination,
    TlsFiles,
    check_broker_url,
    check_topic,
    check_topic_filter,
    overlap,
    unshared,
)
from dotr.streams.times import parse_delay
from dotr.syntax.secrets import Secret, is_variable
from dotr.syntax.sections import Section, SectionPlace

if TYPE_CHECKING:
    from dotr.streams.connectors.mqtt.source import MqttSource

_LONGEST_SESSION: Final = 0xFFFF_FFFF
"""Seconds of a session without expiry (MQTT 5)."""


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
    tls: TlsFilesSection = Field(
        default=TlsFilesSection.model_construct(), description="certificates; `tls.ca: FILE` may be written on one line, too"
    )
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


def mqtt_source(section: MqttInputSection, place: SectionPlace, name: str, client: str) -> MqttSource:
    """The subscription of the input `name`; `client` is the client ID where the section has none.
    Raises `Refused` (C204, C301) where it cannot be used."""
    from dotr.streams.connectors.mqtt.source import MqttSource

    session = min(parse_delay(section.session, Unit.SECOND) // 1_000_000, _LONGEST_SESSION)
    topics = tuple(dict.fromkeys(section.topics))
    return MqttSource(name, _broker(section, place, client), topics, section.qos, session, place.span("url"))


def mqtt_destination(section: MqttOutputSection, place: SectionPlace, client: str) -> MqttDestination:
    """The topic of an output; `client` is the client ID where the section has none. Raises `Refused`
    (C204, C301) where it cannot be used."""
    return MqttDestination(_broker(section, place, client), section.topic, section.qos, section.retain, place.span("url"))


def mqtt_warnings(section: MqttInputSection, place: SectionPlace, name: str) -> Iterator[Diagnostic]:
    """Warnings of the input `name`: a quality of service that permits loss (I114), topic filters that
    match more than is meant (I115)."""
    if section.qos == 0:
        yield Diagnostic(
            "I114",
            f"input {name} has qos 0, without guarantee: messages that arrive while the connection is lost are lost",
            place.key_span("qos"),
            "Leave it out (1: at least once), or accept it: report: { accept: [I114] }",
            Severity.WARNING,
        )
    for number, topic in enumerate(section.topics):
        if unshared(topic) == "#":
            yield Diagnostic(
                "I115",
                f"{topic} brings every topic of the broker",
                place.span("topics", number),
                "Name the topics meant, such as site/#; or accept it: report: { accept: [I115] }",
                Severity.WARNING,
            )
    for (_, one), (number, other) in combinations(enumerate(section.topics), 2):
        if overlap(unshared(one), unshared(other)):
            yield Diagnostic(
                "I115",
                f"{one} and {other} have topics in common, of which a broker may send each message twice",
                place.span("topics", number),
                "Name each topic once; or accept it: report: { accept: [I115] }",
                Severity.WARNING,
            )


def _broker(section: MqttSection, place: SectionPlace, client: str) -> MqttBroker:
    """The broker of a section; `client` is the client ID where the section has none."""
    parts = urlsplit(section.url)
    problems: list[Diagnostic] = []

    def problem(key: str, message: str, hint: str) -> None:
        problems.append(Diagnostic("C204", message, place.key_span(key), hint))

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
        files[key] = path = None if path is None else place.path(path, "tls", key)
        if path is not None:
            problems += _unreadable(path, place.span("tls", key))
    if not problems and (path := files["ca"] or files["certificate"]) is not None:
        try:
            TlsFiles(**files).context()
        except OSError:  # ssl.SSLError
            hint = "Name files in PEM; the key is the certificate's, without a password."
            problems.append(Diagnostic("C301", f"{path} holds no certificate that can be used", place.span("tls"), hint))
    if problems:
        raise Refused(problems)
    username = unquote(parts.username) if parts.username else section.username
    password = Secret(parts.password) if parts.password and is_variable(parts.password) else section.password
    return MqttBroker(section.url, section.client_id or client, TlsFiles(**files), _credentials(username, password))


def _unreadable(path: str, span: Span) -> list[Diagnostic]:
    try:
        with open(path, "rb"):
            return []
    except OSError as error:
        message = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        return [Diagnostic("C301", message, span, "Relative paths are relative to the configuration file.")]


def _credentials(username: str | None, password: Secret | None) -> Callable[[], Credentials]:
    """A function that returns the credentials, with the password as it is in the environment at the
    call."""
    return lambda: Credentials(username, None if password is None else password.reveal())
