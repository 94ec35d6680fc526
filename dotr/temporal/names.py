"""Fresh names of firings (semantics.md, section 5).

Idea: a name is a hash of the rule, the time, the match with its ordinal among equal ones, and the
name's own text in the template.
Invariant: a replay gives the same name, and two firings never share one.
Cost: about 2 µs per match, 0.5 µs if many rules bind the same events, and 0.5 µs per name.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from dotr.model.terms import Label, Term
from dotr.model.time import Micros


def match_digest(rule: str, time: Micros, bound: Sequence[tuple[Label, Micros, Sequence[Term | None]]], ordinal: int) -> bytes:
    r"""A digest (16 bytes) that identifies a match.

    `bound` holds every bound event: its label, time (µs) and attribute values.

    >>> smoke = ("Smoke", 12, ('"A"', None))
    >>> match_digest("R", 12, [smoke], 0).hex()
    '47723c30b656bbe3aafda0fcd8946b07'
    >>> match_digest("R", 12, [smoke], 0) == match_digest("R", 12, [smoke], 1)
    False
    >>> match_digest("R", 12, [smoke], 0) == match_digest("R", 12, [("Smoke", 12, (None, '"A"'))], 0)
    False
    """
    return digest_of(rule.encode(), match_text(time, bound, ordinal))


def match_text(time: Micros, bound: Sequence[tuple[Label, Micros, Sequence[Term | None]]], ordinal: int) -> bytes:
    """The text of a match without the rule's name, shared by rules that bind the same events
    under the same labels."""
    # No name and no canonical term holds a control character, so the text below reads back in one way only.
    parts = [f"\0{time}\0{ordinal}"]
    for label, when, values in bound:
        parts.append(f"\1{label}\0{when}")
        parts += [value or "" for value in values]
    return "\0".join(parts).encode()


def digest_of(rule: bytes, text: bytes) -> bytes:
    """The digest of a rule's match with this text."""
    return blake2b(rule + text, digest_size=16).digest()
