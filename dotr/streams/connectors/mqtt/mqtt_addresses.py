"""URLs, topics and topic filters of MQTT brokers (MQTT 5, section 4.7)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

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
