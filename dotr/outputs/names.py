"""Where fresh names come from (semantics.md, section 5).

A name is a hash of the rule, the time, the match with its ordinal among equal ones, and the name's own text in the template: a replay
gives it again, and two firings never share one. Cost: about 2 µs a match, and half of one a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from dotr.model.terms import Label, Term
from dotr.model.time import Micros


def match_digest(rule: str, time: Micros, bound: Sequence[tuple[Label, Micros, Sequence[Term | None]]], ordinal: int) -> bytes:
    r"""What tells a match from every other one: 16 bytes. `bound` holds every bound event: its label, time and attribute values.

    >>> smoke = ("Smoke", 12, ('"A"', None))
    >>> match_digest("R", 12, [smoke], 0).hex()
    '47723c30b656bbe3aafda0fcd8946b07'
    >>> match_digest("R", 12, [smoke], 0) == match_digest("R", 12, [smoke], 1)
    False
    >>> match_digest("R", 12, [smoke], 0) == match_digest("R", 12, [("Smoke", 12, (None, '"A"'))], 0)
    False
    """
    # No name and no canonical term holds a control character, so the text below reads back in one way only.
    parts = [f"{rule}\0{time}\0{ordinal}"]
    for label, when, values in bound:
        parts.append(f"\1{label}\0{when}")
        parts += [value or "" for value in values]
    return blake2b("\0".join(parts).encode(), digest_size=16).digest()
