"""The instant: the RDF merge of all elements of one time (semantics.md, section 1).

Blank nodes are local to an element. The name of a blank node is a function of the time, the
element's text, a number among equal elements, and its position in the element, so the name does not
depend on the order of the elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from dotr.model.stream import Instant
from dotr.model.terms import Term, Triple, rename_blanks
from dotr.model.time import Micros


def merge(time: Micros, elements: Iterable[tuple[Triple, ...]]) -> Instant:
    """The instant of a time's elements, whose blank nodes are `_:0`, `_:1`, … in order of
    appearance.

    >>> one = (("_:0", "<http://e/p>", '"1"'),)
    >>> instant = merge(7, [one, one])
    >>> len(set(instant.triples))
    2
    >>> merge(7, [one, one]) == instant
    True
    """
    merged: list[Triple] = []
    counts: dict[bytes, int] = {}
    for triples in elements:
        for subject, _, object_ in triples:
            if subject[0] == "_" or object_[1] in ":<":  # a blank node, a triple term, or at worst a literal that begins like one
                merged += _named(time, triples, counts)
                break
        else:
            merged += triples
    return Instant(time, tuple(merged))


def named_elements(time: Micros, elements: Iterable[tuple[Triple, ...]]) -> list[tuple[Triple, ...]]:
    """The elements of one time, each by itself, with the names of blank nodes that `merge` gives.

    >>> one = (("_:0", "<http://e/p>", '"1"'),)
    >>> [first, second] = named_elements(7, [one, one])
    >>> first != second, first + second == merge(7, [one, one]).triples
    (True, True)
    """
    counts: dict[bytes, int] = {}
    found: list[tuple[Triple, ...]] = []
    for triples in elements:
        has_blanks = any(subject[0] == "_" or object_[1] in ":<" for subject, _, object_ in triples)
        found.append(tuple(_named(time, triples, counts)) if has_blanks else tuple(triples))
    return found


def _named(time: Micros, triples: tuple[Triple, ...], counts: dict[bytes, int]) -> list[Triple]:
    text = "\n".join(map(" ".join, triples))
    digest = blake2b(f"{time} {text}".encode(), digest_size=12)
    key = digest.digest()
    count = counts[key] = counts.get(key, -1) + 1
    prefix = f"_:e{digest.hexdigest()}x{count}x"

    def name(blank: Term) -> Term:
        return prefix + blank[2:]

    return [(prefix + s[2:] if s[0] == "_" else s, p, rename_blanks(o, name) if o[1] in ":<" else o) for s, p, o in triples]
