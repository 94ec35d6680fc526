"""A set of triples, indexed for joins: the shape of the background, and of what an instant adds to it.

Idea: two nested dictionaries, predicate -> subject -> objects and predicate -> object -> subjects, and one set for membership. Almost
every triple pattern has a constant predicate, so this answers each with one or two look-ups.
Invariant: `by_subject`, `by_object` and `triples` hold the same triples, each once; none of their lists is empty.
Cost: a look-up and a membership test cost the same whatever the size. Access by a variable predicate needs two further dictionaries
(`edges_from`, `edges_to`), which are built at the first use and kept up to date from then on.

Entailment keeps auxiliary relations under *hidden* predicates, IRIs that start with `urn:dotr:hidden:`. A query finds them nowhere:
`edges_from`, `edges_to`, `links`, `visible`, `predicates` and `match` with no predicate pass over them. The closure's own rules find
them through variable predicates too: `all_from`, `all_to` and `all_links` hold them. Iteration, `len` and `in` count them.

What the dictionaries hold is read directly by generated code (`dotr.joins.compile`); nobody but `add` changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from dotr.model.terms import Term, Triple

HIDDEN: Final = "<urn:dotr:hidden:"
"""How the term of every hidden predicate starts."""

Ends: TypeAlias = dict[Term, list[Term]]
"""The triples of one predicate: one end to the other ends."""

Edges: TypeAlias = dict[Term, list[tuple[Term, Term]]]
"""Subject to (predicate, object), or object to (subject, predicate)."""

NO_ENDS: Final[Ends] = {}
NO_TERMS: Final[list[Term]] = []
NO_EDGES: Final[list[tuple[Term, Term]]] = []
"""Shared empties for look-ups that miss; never written to."""


def is_hidden(predicate: Term) -> bool:
    """Whether a predicate is an auxiliary relation of entailment.

    >>> is_hidden("<urn:dotr:hidden:member>"), is_hidden("<http://example.org/member>")
    (True, False)
    """
    return predicate.startswith(HIDDEN)


class TripleIndex:
    """A set of triples that only grows.

    >>> index = TripleIndex([("<s>", "<p>", "<o>")])
    >>> index.add(("<s>", "<p>", "<o>")), index.add(("<s>", "<p>", "<o2>"))
    (False, True)
    >>> index.by_subject["<p>"]["<s>"], index.by_object["<p>"]["<o2>"]
    (['<o>', '<o2>'], ['<s>'])
    >>> list(index.match(None, "<p>", "<o>")), ("<s>", "<p>", "<x>") in index, len(index)
    ([('<s>', '<p>', '<o>')], False, 2)
    """

    __slots__ = ("_from", "_hidden_from", "_hidden_to", "_to", "by_object", "by_subject", "has_edges", "triples")

    by_subject: dict[Term, Ends]
    """Predicate -> subject -> objects."""
    by_object: dict[Term, Ends]
    """Predicate -> object -> subjects."""
    triples: set[Triple]
    """For membership. Its order is none: iterate over the index instead, which goes by first appearance."""
    known_absent: AbstractSet[Term] = frozenset()
    """Some terms that are subjects of no triple: asking here first is cheaper where `triples` is on disk. None where it is not."""
    has_edges: bool
    """Whether the access by variable predicate has been built."""

    def __init__(self, triples: Iterable[Triple] = ()) -> None:
        self.by_subject = {}
        self.by_object = {}
        self.triples = set()
        self.has_edges = False
        for triple in triples:
            self.add(triple)

    @classmethod
    def from_groups(cls, groups: Mapping[Term, Iterable[Triple]], triples: set[Triple]) -> TripleIndex:
        """The index of triples that are grouped by predicate, each once; `triples`, which becomes its own, are all of them."""
        index = cls()
        index.triples = triples
        for predicate, group in groups.items():
            fill(index.by_subject.setdefault(predicate, {}), 0, group)
            fill(index.by_object.setdefault(predicate, {}), 2, group)
        return index

    def add(self, triple: Triple) -> bool:
        """Adds a triple; False if it was known."""
        if triple in self.triples:
            return False
        self.triples.add(triple)
        subject, predicate, object = triple
        ends = self.by_subject.get(predicate)
        if ends is None:
            self.by_subject[predicate] = {subject: [object]}
            self.by_object[predicate] = {object: [subject]}
        else:
            _append(ends, subject, object)
            _append(self.by_object[predicate], object, subject)
        if self.has_edges:
            self.extend_edges(triple)
        return True

    def extend_edges(self, triple: Triple) -> None:
        """Keeps the access by variable predicate up to date, where it has been built (`has_edges`)."""
        subject, predicate, object = triple
        hidden = predicate.startswith(HIDDEN)
        (self._hidden_from if hidden else self._from).setdefault(subject, []).append((predicate, object))
        (self._hidden_to if hidden else self._to).setdefault(object, []).append((subject, predicate))

    @property
    def edges_from(self) -> Edges:
        """Subject -> (predicate, object), hidden predicates left out; built at the first use."""
        if not self.has_edges:
            self._build_edges()
        return self._from

    @property
    def edges_to(self) -> Edges:
        """Object -> (subject, predicate), hidden predicates left out; built at the first use."""
        if not self.has_edges:
            self._build_edges()
        return self._to

    def _build_edges(self) -> None:
        self._from: Edges = {}
        self._to: Edges = {}
        self._hidden_from: Edges = {}
        self._hidden_to: Edges = {}
        self.has_edges = True
        for triple in self:
            self.extend_edges(triple)

    def all_from(self, subject: Term) -> list[tuple[Term, Term]]:
        """(predicate, object) of a subject, hidden predicates among them."""
        edges = self.edges_from.get(subject, NO_EDGES)
        return edges + self._hidden_from.get(subject, NO_EDGES) if self._hidden_from else edges

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        """(subject, predicate) of an object, hidden predicates among them."""
        edges = self.edges_to.get(object, NO_EDGES)
        return edges + self._hidden_to.get(object, NO_EDGES) if self._hidden_to else edges

    def all_links(self, subject: Term, object: Term) -> list[Term]:
        """The predicates from a subject to an object, hidden ones among them."""
        links = self.links(subject, object)
        return links + [p for p, o in self._hidden_from.get(subject, NO_EDGES) if o == object] if self._hidden_from else links

    def predicates(self) -> Iterator[Term]:
        """The predicates in use, hidden ones left out."""
        return (predicate for predicate in self.by_subject if not predicate.startswith(HIDDEN))

    def visible_count(self) -> int:
        """The number of triples that queries see: all but those of hidden predicates.

        >>> TripleIndex([("<s>", "<p>", "<o>"), ("<s>", "<urn:dotr:hidden:p>", "<o>")]).visible_count()
        1
        """
        hidden = [ends for predicate, ends in self.by_subject.items() if is_hidden(predicate)]
        return len(self) - sum(len(objects) for ends in hidden for _, objects in ends.items())

    def visible(self) -> Iterator[Triple]:
        """All triples but those of hidden predicates."""
        for predicate in self.predicates():
            yield from self._of_predicate(predicate)

    def match(self, subject: Term | None, predicate: Term | None, object: Term | None) -> Iterator[Triple]:
        """The triples with these terms; None stands for any term. Costs what it finds, and no more.

        >>> index = TripleIndex([("<s>", "<p>", "<o>"), ("<s>", "<urn:dotr:hidden:p>", "<o>")])
        >>> len(list(index.match("<s>", None, None))), len(list(index.match("<s>", "<urn:dotr:hidden:p>", None)))
        (1, 1)
        """
        if predicate is not None:
            if subject is not None and object is not None:
                triple = (subject, predicate, object)
                return iter((triple,) if triple in self.triples else ())
            if subject is not None:
                return ((subject, predicate, o) for o in self.by_subject.get(predicate, NO_ENDS).get(subject, NO_TERMS))
            if object is not None:
                return ((s, predicate, object) for s in self.by_object.get(predicate, NO_ENDS).get(object, NO_TERMS))
            return self._of_predicate(predicate)
        if subject is not None and object is not None:
            return ((subject, p, object) for p in self.links(subject, object))
        if subject is not None:
            return ((subject, p, o) for p, o in self.edges_from.get(subject, NO_EDGES))
        if object is not None:
            return ((s, p, object) for s, p in self.edges_to.get(object, NO_EDGES))
        return self.visible()

    def links(self, subject: Term, object: Term) -> list[Term]:
        """The visible predicates from a subject to an object, found from the end that has fewer triples."""
        outgoing = self.edges_from.get(subject, NO_EDGES)
        incoming = self.edges_to.get(object, NO_EDGES)
        if len(outgoing) <= len(incoming):
            return [p for p, o in outgoing if o == object]
        return [p for s, p in incoming if s == subject]

    def _of_predicate(self, predicate: Term) -> Iterator[Triple]:
        for subject, objects in self.by_subject.get(predicate, NO_ENDS).items():
            for object in objects:
                yield subject, predicate, object

    def __contains__(self, triple: object) -> bool:
        return triple in self.triples

    def __len__(self) -> int:
        return len(self.triples)

    def __iter__(self) -> Iterator[Triple]:
        """Every triple, by predicate, then subject, in order of first appearance."""
        for predicate in self.by_subject:
            yield from self._of_predicate(predicate)


def fill(ends: Ends, end: int, triples: Iterable[Triple]) -> None:
    """Adds triples of one predicate to a table of it; `end` is 0 for the subject, 2 for the object."""
    other = 2 - end
    get = ends.get
    for triple in triples:
        known = get(triple[end])
        if known is None:
            ends[triple[end]] = [triple[other]]
        else:
            known.append(triple[other])


def _append(ends: Ends, end: Term, other: Term) -> None:
    known = ends.get(end)
    if known is None:
        ends[end] = [other]
    else:
        known.append(other)
