"""The instant: the RDF merge of all elements of one time (semantics.md, section 1).

Blank nodes are local to an element. The name of a blank node is a function of the time, the
element's text, its ordinal among equal elements, and the position in the element. So names do not
depend on the order of the elements.

Idea: a name is needed only where a blank node leaves its instant, which is rare. Within the instant
a label of element number and position is enough (`merge_unnamed`); `BlankNames` computes the names
of those that leave.
Example: `_:i2x0` is the label of the first blank node of the third element.
Cost: 1 µs an element of three triples, 2 µs more for names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple

from dotr.model.stream import Firing, Instant, PublishedInputs
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
    return Instant(time, tuple(chain.from_iterable(named_elements(time, elements))))


_INSIDE: Final = "_:i"
"""The prefix of labels of blank nodes within an instant; no name of a blank node begins with it."""


class BlankNames:
    """The names of the blank nodes of an instant, computed when the first one is requested.

    >>> one = (("_:0", "<http://e/p>", '"1"'),)
    >>> unnamed = merge_unnamed(7, [one, one])
    >>> row = unnamed.instant.triples[1]
    >>> row, unnamed.names.of_row(row) == merge(7, [one, one]).triples[1]
    (('_:i1x0', '<http://e/p>', '"1"'), True)
    """

    __slots__ = ("_elements", "_prefixes", "_time")

    def __init__(self, time: Micros, elements: Sequence[tuple[Triple, ...]]) -> None:
        self._time = time
        self._elements = elements
        self._prefixes: dict[int, str] = {}

    def instant(self) -> Instant:
        """The instant with the names of all its blank nodes."""
        return merge(self._time, self._elements)

    def of_row(self, row: tuple[Term | None, ...]) -> tuple[Term | None, ...]:
        """The terms of a row, with names in the place of labels."""
        return tuple([term if term is None else rename_blanks(term, self._name) for term in row])

    def _name(self, blank: Term) -> Term:
        if not blank.startswith(_INSIDE):
            return blank  # a blank node of the background
        element, _, position = blank[len(_INSIDE) :].partition("x")
        if not self._prefixes:
            counts: dict[bytes, int] = {}
            for number, triples in enumerate(self._elements):
                if _has_blanks(triples):
                    self._prefixes[number] = _prefix(self._time, triples, counts)
        return self._prefixes[int(element)] + position


class UnnamedInstant(NamedTuple):
    """An instant whose blank nodes have labels local to it, and their names (None: it has no blank
    nodes).
    """

    instant: Instant
    names: BlankNames | None


def merge_unnamed(time: Micros, elements: Sequence[tuple[Triple, ...]]) -> UnnamedInstant:
    """The instant of a time's elements: `merge` up to the names of blank nodes."""
    merged: list[Triple] = []
    has_blanks = False
    for number, triples in enumerate(elements):
        if triples and triples[0][0] == "_:0":  # fast path: the only blank node is the subject of all triples
            has_blanks = True
            label = f"_:i{number}x0"
            renamed = [(label, p, o) for s, p, o in triples if s == "_:0" and o[1] not in ":<"]
            merged += renamed if len(renamed) == len(triples) else _renamed(label[:-1], triples)
        elif _has_blanks(triples):
            has_blanks = True
            merged += _renamed(f"_:i{number}x", triples)
        else:
            merged += triples
    return UnnamedInstant(Instant(time, tuple(merged)), BlankNames(time, elements) if has_blanks else None)


def named_elements(time: Micros, elements: Iterable[tuple[Triple, ...]]) -> list[tuple[Triple, ...]]:
    """The elements of one time, one by one, with the names of blank nodes that `merge` makes.

    >>> one = (("_:0", "<http://e/p>", '"1"'),)
    >>> [first, second] = named_elements(7, [one, one])
    >>> first != second, first + second == merge(7, [one, one]).triples
    (True, True)
    """
    counts: dict[bytes, int] = {}
    return [tuple(_renamed(_prefix(time, triples, counts), triples)) if _has_blanks(triples) else triples for triples in elements]


def published_firings(
    published: PublishedInputs, time: Micros, inputs: Sequence[str], graphs: Sequence[tuple[Triple, ...]], left_out: Collection[int] = ()
) -> list[Firing]:
    """The elements of published inputs at an instant, in the order of the output.

    Their numbers count the elements of all inputs: by input, then in the order of the input.
    So they depend neither on which input was read first, nor on the inputs that are published.
    Blank nodes have the names that `merge` makes.

    Args:
        time: the time in µs since 1970.
        inputs: the name of the input of each element; graphs: their triples.
        left_out: the positions of elements that are not part of the instant.

    >>> published = PublishedInputs(frozenset(["a"]), ("a", "b"))
    >>> [(each.event, each.number) for each in published_firings(published, 7, ["b", "a", "a"], [(), (), ()], {1})]
    [('a', 0)]
    """
    rank = {name: number for number, name in enumerate(published.order)}
    kept = [number for number in range(len(graphs)) if number not in left_out]
    named = named_elements(time, [graphs[number] for number in kept])
    ordered = sorted(zip([inputs[number] for number in kept], named, strict=True), key=lambda each: rank.get(each[0], len(rank)))
    return [Firing.of_element(time, name, number, graph) for number, (name, graph) in enumerate(ordered) if name in published.names]


def _has_blanks(triples: tuple[Triple, ...]) -> bool:
    """True if an element has a blank node, or a term that may hold one."""
    for subject, _, object_ in triples:  # noqa: SIM110 - a generator would cost twice as much
        if subject[0] == "_" or object_[1] in ":<":
            return True
    return False


def _prefix(time: Micros, triples: tuple[Triple, ...], counts: dict[bytes, int]) -> str:
    """The prefix of the names of an element's blank nodes; `counts` numbers equal elements."""
    text = "\n".join(map(" ".join, triples))
    digest = blake2b(f"{time} {text}".encode(), digest_size=12)
    key = digest.digest()
    count = counts[key] = counts.get(key, -1) + 1
    return f"_:e{digest.hexdigest()}x{count}x"


def _renamed(prefix: str, triples: tuple[Triple, ...]) -> list[Triple]:
    def name(blank: Term) -> Term:
        return prefix + blank[2:]

    return [(prefix + s[2:] if s[0] == "_" else s, p, rename_blanks(o, name) if o[1] in ":<" else o) for s, p, o in triples]
