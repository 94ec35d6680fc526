"""Partitioner of messages: murmur2 of the key, as in Java's client, or the ordinal without a key.

Cost: a key is hashed once while it is cached (65,536 keys).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from dotr.streams.sinks.messages import OutgoingMessage

_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF
_CACHED_KEYS: Final = 1 << 16


def murmur2(key: bytes) -> int:
    """MurmurHash2 of Kafka's clients, as an unsigned number of 32 bits.

    >>> murmur2(b"21") == (-973932308) & 0xFFFFFFFF, murmur2(b"foobar") == (-790332482) & 0xFFFFFFFF
    (True, True)
    """
    length = len(key)
    whole = length & ~3
    found = _SEED ^ length
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        part = (part ^ part >> 24) * _MULTIPLIER & _MASK
        found = found * _MULTIPLIER & _MASK ^ part
    if whole < length:
        found = (found ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    found = (found ^ found >> 13) * _MULTIPLIER & _MASK
    return found ^ found >> 15


def partitioner(partitions: int) -> Callable[[OutgoingMessage], int]:
    """A function from a message to its partition, of the number of partitions.

    >>> choose = partitioner(3)
    >>> choose(OutgoingMessage(b"", [], None, 4, None)), choose(OutgoingMessage(b"", [], b"foobar", 4, None))
    (1, 0)
    """

    @lru_cache(_CACHED_KEYS)
    def of_key(key: bytes) -> int:
        return (murmur2(key) & 0x7FFFFFFF) % partitions

    return lambda message: message.ordinal % partitions if message.key is None else of_key(message.key)
