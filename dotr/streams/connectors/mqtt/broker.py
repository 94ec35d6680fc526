"""Brokers of MQTT: their addresses, certificates and credentials."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from dotr.model.places import Span
from dotr.streams.connectors.mqtt.mqtt_addresses import PORTS


class Credentials(NamedTuple):
    """Name and password of a user, which `repr` hides.

    >>> Credentials("dotr", "x7")
    Credentials(…)
    """

    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


def no_credentials() -> Credentials:
    """The credentials of an anonymous user."""
    return Credentials()


class TlsFiles(NamedTuple):
    """Paths of certificates.

    - `ca`: of the trusted authorities; None: the system's.
    - `certificate`, `key`: of the client; None: it has none.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        """Context that verifies certificate and host name; raises OSError for a missing file."""
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


SYSTEM_TRUST: Final = TlsFiles()


@dataclass(frozen=True, slots=True)
class MqttBroker:
    """Address of a broker, and the credentials of a client.

    - `url`: `mqtt://HOST:PORT`, or `mqtts://` with TLS; a user in it is ignored.
    - `client_id`: the name of the session; the broker ends a connection when another client of the
      same name connects.
    - `tls_files`: paths of certificates, where the URL has TLS.
    - `credentials`: a function that returns name and password, called at each connection.

    >>> broker = MqttBroker("mqtts://dotr:${PASSWORD}@broker", "dotr")
    >>> broker.host, broker.port, broker.tls, broker.address
    ('broker', 8883, True, 'mqtts://broker:8883')
    """

    url: str
    client_id: str
    tls_files: TlsFiles = SYSTEM_TRUST
    credentials: Callable[[], Credentials] = field(default=no_credentials, repr=False, compare=False)

    @property
    def host(self) -> str:
        """The host in the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port in the URL, or the default of its scheme."""
        parts = urlsplit(self.url)
        return parts.port or PORTS[parts.scheme]

    @property
    def tls(self) -> bool:
        """True if the connection uses TLS."""
        return urlsplit(self.url).scheme == "mqtts"

    @property
    def address(self) -> str:
        """URL without user and password, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class MqttDestination:
    """Topic of an MQTT broker; `retain`: the broker keeps the last message for later
    subscribers."""

    broker: MqttBroker
    topic: str
    qos: int = 1
    retain: bool = False
    span: Span | None = None

    def __str__(self) -> str:
        return f"topic {self.topic} of {self.broker.address}"
