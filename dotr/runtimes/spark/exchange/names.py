"""Names stored by Spark in a checkpoint: state variables, their columns, and the key column.

State is found by these names: they never change, whatever the names in the code.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

SOURCE: Final = "dotr"
"""The format name of the source."""

KEY: Final = "key"
"""The column of a bucket's key."""

BUCKET: Final = "bucket"
"""A value: the digest, and the text or manifest of a bucket."""
DIGEST: Final = "digest"
WRITTEN: Final = "written"
BUCKET_VALUE: Final = f"{DIGEST} binary, {WRITTEN} binary"

LOG: Final = "log"
"""A map: the segments of a bucket's logs, by log and position."""
LOG_NUMBER: Final = "log"
PLACE: Final = "place"
LINES: Final = "lines"
LOG_KEY: Final = f"{LOG_NUMBER} int, {PLACE} long"
LOG_VALUE: Final = f"{LINES} binary"


# Bucket keys that Spark distributes evenly over partitions.
#
# Idea: a stateful operator has as many partitions as cores, and Spark assigns a key to a partition by
# hash. With few keys, two would often share a core by chance. So the key of a bucket is the next
# integer whose hash falls into partition `bucket mod partitions`.
# Source: MurmurHash3_x86_32 (Appleby), as Spark applies it to a long, with seed 42.

_MASK = 0xFFFFFFFF


def _mix(hashed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    hashed ^= word * 0x1B873593 & _MASK
    hashed = (hashed << 13 | hashed >> 19) & _MASK
    return (hashed * 5 + 0xE6546B64) & _MASK


def hash_partition(key: int, partitions: int) -> int:
    """The partition of a non-negative key by Spark's hash partitioning."""
    hashed = _mix(_mix(42, key & _MASK), key >> 32)
    hashed ^= 8
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    hashed ^= hashed >> 16
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % partitions


@lru_cache(maxsize=16)
def bucket_keys(buckets: int, partitions: int) -> tuple[int, ...]:
    """Distinct keys of the buckets, which Spark assigns to its partitions in turn.

    >>> [hash_partition(key, 3) for key in bucket_keys(5, 3)]
    [0, 1, 2, 0, 1]
    """
    keys: list[int] = []
    spare: dict[int, list[int]] = {number: [] for number in range(partitions)}
    candidate = 0
    for bucket in range(buckets):
        candidates = spare[bucket % partitions]
        while not candidates:
            spare[hash_partition(candidate, partitions)].append(candidate)
            candidate += 1
        keys.append(candidates.pop(0))
    return tuple(keys)
