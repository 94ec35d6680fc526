"""Brokers of MQTT: their addresses, certificates and credentials; topics and topic filters (MQTT 5,
section 4.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from dotr.model import dataclass
from dotr.model.places import Span

if TYPE_CHECKING:
    from ssl import SSLContext


PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
"""Default ports, by scheme."""

SHARED: Final = "$share/"
_LONGEST_TOPIC: Final = 65_535


def check_broker_url(url: str) -> None:
    """Check the URL of a broker; raises ValueError, which does not show a password.

    >>> check_broker_url("mqtts://dotr:${PASSWORD}@broker")
    >>> check_broker_url("http://broker")
    Traceback (most recent call last):
    ValueError: the URL of a broker is mqtt://HOST:PORT, or mqtts://HOST:PORT with TLS
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("the URL of a broker is mqtt://HOST:PORT, or mqtts://HOST:PORT with TLS")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("the URL of a broker ends with the port: topics have a key of their own")


def check_topic_filter(topic: str) -> None:
    """Check a topic filter; raises ValueError.

    >>> for each in ("site/+/temp", "#", "$share/dotr/site/#"):
    ...     check_topic_filter(each)
    >>> check_topic_filter("site/#/temp")
    Traceback (most recent call last):
    ValueError: in a topic filter # stands alone at the end, behind a /: site/#/temp
    >>> check_topic_filter("site/temp+")
    Traceback (most recent call last):
    ValueError: in a topic filter + stands alone between two /: site/temp+
    >>> check_topic_filter("$share/site")
    Traceback (most recent call last):
    ValueError: a shared subscription is $share/GROUP/FILTER: $share/site
    """
    _check_text(topic)
    filtered = topic
    if topic.startswith(SHARED):
        group, _, filtered = topic.removeprefix(SHARED).partition("/")
        if not group or not filtered or "+" in group or "#" in group:
            raise ValueError(f"a shared subscription is $share/GROUP/FILTER: {topic}")
    *levels, last = filtered.split("/")
    if any("#" in level for level in levels) or ("#" in last and last != "#"):
        raise ValueError(f"in a topic filter # stands alone at the end, behind a /: {topic}")
    if any("+" in level and level != "+" for level in (*levels, last)):
        raise ValueError(f"in a topic filter + stands alone between two /: {topic}")


def check_topic(topic: str) -> None:
    """Check a topic to publish to; raises ValueError.

    >>> check_topic("events/fire")
    >>> check_topic("events/+")
    Traceback (most recent call last):
    ValueError: events are published to one topic, without the wildcards + and #: events/+
    """
    _check_text(topic)
    if "+" in topic or "#" in topic:
        raise ValueError(f"events are published to one topic, without the wildcards + and #: {topic}")


def _check_text(topic: str) -> None:
    if not topic or "\0" in topic or len(topic.encode(errors="replace")) > _LONGEST_TOPIC:
        raise ValueError("a topic has 1 to 65,535 bytes, none of which is 0")


def unshared(topic: str) -> str:
    """The topic filter of a subscription, without its group if it is shared.

    >>> unshared("$share/dotr/site/+/temp"), unshared("site/#")
    ('site/+/temp', 'site/#')
    """
    return topic.split("/", 2)[2] if topic.startswith(SHARED) else topic


def overlap(one: str, other: str) -> bool:
    """True if some topic matches both filters.

    >>> overlap("site/+/temp", "site/a/#"), overlap("site/#", "site"), overlap("#", "$SYS/uptime")
    (True, True, False)
    >>> overlap("site/+", "site/a/temp"), overlap("site/a", "site/b")
    (False, False)
    """
    first, second = one.split("/"), other.split("/")
    if {first[0], second[0]} & {"#", "+"} and "$" in (first[0][:1], second[0][:1]):
        return False  # a leading wildcard does not match topics that begin with $
    for left, right in zip(first, second, strict=False):
        if "#" in (left, right):
            return True
        if left != right and "+" not in (left, right):
            return False
    longer = max(first, second, key=len)
    least = min(len(first), len(second))
    return len(longer) == least or longer[least:] == ["#"]


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

    def context(self) -> SSLContext:
        """Context that verifies certificate and host name; raises OSError for a missing file."""
        import ssl  # a configuration, which is read without connecting, needs none

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
