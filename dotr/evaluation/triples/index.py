"""Set of triples, indexed for joins: the background, and the delta of an instant.

Idea: two nested dictionaries, predicate -> subject -> objects and predicate -> object -> subjects,
and one set for membership. Almost every triple pattern has a constant predicate, so one or two
look-ups answer it.

Invariant: `by_subject`, `by_object` and `triples` hold the same triples, each once; none of the
lists is empty.

Cost: a look-up and a membership test take constant time. Access by a variable predicate needs two
further dictionaries (`edges_from`, `edges_to`), which are built at the first use and maintained
from then on.

Entailment keeps auxiliary relations under *hidden* predicates, IRIs that start with
`urn:dotr:hidden:`. They are invisible to queries: `edges_from`, `edges_to`, `links`, `visible`,
`predicates` and `match` without a predicate leave them out. Variable predicates of rule sets match
them: `all_from`, `all_to` and `all_links` include them, as do iteration, `len` and `in`.

Generated code (`dotr.evaluation.joins.compile`) reads the dictionaries directly; only `add` changes
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, TypeAlias, TypeVar, overload

from dotr.model.terms import Term, Triple

# Lazy read-only sequences that concatenate and filter without copying.


Item = TypeVar("Item")


class LazySequence(Sequence[Item]):
    """Sequence whose `+` with another sequence, on either side, concatenates without copying."""

    __slots__ = ()

    def __add__(self, other: Sequence[Item]) -> Collection[Item]:
        return _Concatenation(self, other) if other else self

    def __radd__(self, other: Sequence[Item]) -> Collection[Item]:
        return _Concatenation(other, self) if other else self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(other) == len(self) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class _Concatenation(Collection[Item]):
    """Two sequences, one after the other, neither copied."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Sequence[Item], second: Sequence[Item]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def __iter__(self) -> Iterator[Item]:
        return chain(self._first, self._second)

    def __contains__(self, item: object) -> bool:
        return item in self._first or item in self._second


class FilteredSequence(LazySequence[Item]):
    """A sequence of distinct items without the `excluded` ones, all of which it contains.

    >>> rest = FilteredSequence(FilteredSequence(range(5), {3}), {1})
    >>> list(rest), len(rest), 3 in rest, 4 in rest, rest[-1], list([7] + rest)
    ([0, 2, 4], 3, False, True, 4, [7, 0, 2, 4])
    """

    __slots__ = ("_excluded", "_source")

    def __init__(self, source: Sequence[Item], excluded: Collection[Item]) -> None:
        self._source, self._excluded = source, excluded

    def __iter__(self) -> Iterator[Item]:
        excluded = self._excluded
        return (item for item in self._source if item not in excluded)

    def __len__(self) -> int:
        return len(self._source) - len(self._excluded)

    def __contains__(self, item: object) -> bool:
        return item not in self._excluded and item in self._source

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        return list(self)[index]


HIDDEN: Final = "<urn:dotr:hidden:"
"""Prefix of the predicate of every auxiliary relation."""

UNSEEN: Final = (HIDDEN, "_")
"""Prefixes of the hidden predicates: auxiliary relations, and blank nodes (generalised triples)."""

Ends: TypeAlias = dict[Term, list[Term]]
"""The triples of one predicate: one end to the other ends."""

Edges: TypeAlias = dict[Term, list[tuple[Term, Term]]]
"""Subject to (predicate, object), or object to (subject, predicate)."""

NO_ENDS: Final[Ends] = {}
NO_TERMS: Final[list[Term]] = []
NO_EDGES: Final[list[tuple[Term, Term]]] = []
"""Shared empty results of look-ups; never written to."""


def is_hidden(predicate: Term) -> bool:
    """True for a predicate that only the rows of a rule set see: an auxiliary relation of
    entailment, or a blank node.

    >>> [is_hidden(each) for each in ("<urn:dotr:hidden:member>", "_:b", "<http://example.org/member>")]
    [True, True, False]
    """
    return predicate.startswith(UNSEEN)


def is_auxiliary(predicate: Term) -> bool:
    """True for the predicate of an auxiliary relation, those of literals as subjects included."""
    return predicate.startswith(HIDDEN)


class TripleIndex:
    """A set of triples that only grows.

    `triples`: the first triples, in the order of insertion.
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
    """Set for membership, without an order. Iteration over the index is by first appearance."""
    known_absent: AbstractSet[Term] = frozenset()
    """Some terms that are subjects of no triple: a fast check before `triples` of a mapped index.
    Empty in memory.
    """
    has_edges: bool
    """True once the access by variable predicate has been built."""

    def __init__(self, triples: Iterable[Triple] = ()) -> None:
        self.by_subject = {}
        self.by_object = {}
        self.triples = set()
        self.has_edges = False
        for triple in triples:
            self.add(triple)

    @classmethod
    def from_groups(cls, groups: Mapping[Term, Iterable[Triple]], triples: set[Triple]) -> TripleIndex:
        """Index of triples grouped by predicate, each once.

        `triples`: the set of all of them; the index takes ownership of it.
        """
        index = cls()
        index.triples = triples
        for predicate, group in groups.items():
            fill(index.by_subject.setdefault(predicate, {}), 0, group)
            fill(index.by_object.setdefault(predicate, {}), 2, group)
        return index

    def add(self, triple: Triple) -> bool:
        """Adds a triple; False for a triple that is already present."""
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
        """Adds a triple to the access by variable predicate; call only with `has_edges`."""
        subject, predicate, object = triple
        hidden = predicate.startswith(UNSEEN)
        (self._hidden_from if hidden else self._from).setdefault(subject, []).append((predicate, object))
        (self._hidden_to if hidden else self._to).setdefault(object, []).append((subject, predicate))

    @property
    def edges_from(self) -> Edges:
        """Subject -> (predicate, object) without hidden predicates; built at the first use."""
        if not self.has_edges:
            self._build_edges()
        return self._from

    @property
    def edges_to(self) -> Edges:
        """Object -> (subject, predicate) without hidden predicates; built at the first use."""
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
        """(predicate, object) of a subject, hidden predicates included."""
        edges = self.edges_from.get(subject, NO_EDGES)
        return edges + self._hidden_from.get(subject, NO_EDGES) if self._hidden_from else edges

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        """(subject, predicate) of an object, hidden predicates included."""
        edges = self.edges_to.get(object, NO_EDGES)
        return edges + self._hidden_to.get(object, NO_EDGES) if self._hidden_to else edges

    def all_links(self, subject: Term, object: Term) -> list[Term]:
        """Predicates from a subject to an object, hidden ones included."""
        links = self.links(subject, object)
        return links + [p for p, o in self._hidden_from.get(subject, NO_EDGES) if o == object] if self._hidden_from else links

    def predicates(self) -> Iterator[Term]:
        """The visible predicates."""
        return (predicate for predicate in self.by_subject if not predicate.startswith(UNSEEN))

    def visible_count(self) -> int:
        """Number of triples without those of hidden predicates.

        >>> index = TripleIndex([("<s>", "<p>", "<o>"), ("<s>", "<urn:dotr:hidden:p>", "<o>")])
        >>> index.visible_count()
        1
        """
        hidden = [ends for predicate, ends in self.by_subject.items() if is_hidden(predicate)]
        return len(self) - sum(len(objects) for ends in hidden for _, objects in ends.items())

    def visible(self) -> Iterator[Triple]:
        """All triples without those of hidden predicates."""
        for predicate in self.predicates():
            yield from self._of_predicate(predicate)

    def match(self, subject: Term | None, predicate: Term | None, object: Term | None) -> Iterator[Triple]:
        """The triples with these terms; None matches any term. Cost: proportional to the matches.

        >>> index = TripleIndex([("<s>", "<p>", "<o>"), ("<s>", "<urn:dotr:hidden:p>", "<o>")])
        >>> len(list(index.match("<s>", None, None)))
        1
        >>> len(list(index.match("<s>", "<urn:dotr:hidden:p>", None)))
        1
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
        """The visible predicates from a subject to an object, searched from the end with fewer
        edges.
        """
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
    """Adds triples of one predicate to its table; `end` is 0 for subject to objects, 2 for object
    to subjects.
    """
    other = 2 - end
    get = ends.get
    for triple in triples:
        others = get(triple[end])
        if others is None:
            ends[triple[end]] = [triple[other]]
        else:
            others.append(triple[other])


def _append(ends: Ends, end: Term, other: Term) -> None:
    others = ends.get(end)
    if others is None:
        ends[end] = [other]
    else:
        others.append(other)
