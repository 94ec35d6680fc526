"""Keys that Spark spreads evenly.

Idea: a stateful operator has as many partitions as the cores it was made for, and Spark puts a key into the partition that its
hash names. With few keys chance decides whether two share a core, so the keys are chosen: the key of a bucket is the next whole
number whose hash falls to partition `bucket mod partitions`.
Source: MurmurHash3_x86_32 (Appleby), as Spark applies it to a long, with seed 42.
"""

from __future__ import annotations

from functools import lru_cache

_MASK = 0xFFFFFFFF


def _mix(hashed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    hashed ^= word * 0x1B873593 & _MASK
    hashed = (hashed << 13 | hashed >> 19) & _MASK
    return (hashed * 5 + 0xE6546B64) & _MASK


def hash_partition(key: int, partitions: int) -> int:
    """The partition of a non-negative key, as Spark's hash partitioning decides it."""
    hashed = _mix(_mix(42, key & _MASK), key >> 32)
    hashed ^= 8
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    hashed ^= hashed >> 16
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % partitions


@lru_cache(maxsize=16)
def bucket_keys(buckets: int, partitions: int) -> tuple[int, ...]:
    """One key for each bucket, all different, that Spark spreads in turn over its partitions.

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
