"""Two indexes that share no triple, read as one.

Idea: a table looks a key up in both indexes and concatenates the two lists; nothing is copied
before a look-up.
Invariant: equal to a `TripleIndex` of the triples of both.
Cost: a look-up costs two, and the concatenation if both indexes have the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import chain
from typing import Any, cast

from dotr.evaluation.triples.index import Edges, Ends, TripleIndex
from dotr.model.terms import Term, Triple


class _JointEnds(Mapping[Any, "list[Any]"]):
    """Lists by key, of two tables."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Mapping[Any, list[Any]], second: Mapping[Any, list[Any]]) -> None:
        self._first, self._second = first, second

    def get(self, key: Any, default: Any = None) -> Any:
        first, second = self._first.get(key), self._second.get(key)
        if first is None:
            return default if second is None else second
        return first if second is None else first + second

    def __getitem__(self, key: Any) -> list[Any]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return cast("list[Any]", found)

    def __contains__(self, key: object) -> bool:
        return key in self._first or key in self._second

    def __iter__(self) -> Iterator[Any]:
        return chain(self._first, (key for key in self._second if key not in self._first))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _JointTables(Mapping[Term, Ends]):
    """The tables of predicates of two indexes."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Mapping[Term, Ends], second: Mapping[Term, Ends]) -> None:
        self._first, self._second = first, second

    def get(self, predicate: Term, default: Any = None) -> Any:
        first, second = self._first.get(predicate), self._second.get(predicate)
        if first is None:
            return default if second is None else second
        return first if second is None else cast(Ends, _JointEnds(first, second))

    def __getitem__(self, predicate: Term) -> Ends:
        found = self.get(predicate)
        if found is None:
            raise KeyError(predicate)
        return cast(Ends, found)

    def __contains__(self, predicate: object) -> bool:
        return predicate in self._first or predicate in self._second

    def __iter__(self) -> Iterator[Term]:
        return chain(self._first, (predicate for predicate in self._second if predicate not in self._first))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _JointTriples(Set[Triple]):
    """The triples of both, for membership and iteration."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Set[Triple], second: Set[Triple]) -> None:
        self._first, self._second = first, second

    def __contains__(self, triple: object) -> bool:
        return triple in self._first or triple in self._second

    def __iter__(self) -> Iterator[Triple]:
        return chain(self._first, self._second)

    def __len__(self) -> int:
        return len(self._first) + len(self._second)


class JointIndex(TripleIndex):
    """The triples of two indexes that share none; read-only.

    >>> both = JointIndex(TripleIndex([("<a>", "<p>", "<b>")]), TripleIndex([("<a>", "<p>", "<c>"), ("<a>", "<q>", "<b>")]))
    >>> both.by_subject["<p>"]["<a>"], both.by_object["<q>"].get("<b>"), len(both), ("<a>", "<p>", "<c>") in both
    (['<b>', '<c>'], ['<a>'], 3, True)
    >>> list(both.match("<a>", None, "<b>")), both.edges_to["<b>"]
    ([('<a>', '<p>', '<b>'), ('<a>', '<q>', '<b>')], [('<a>', '<p>'), ('<a>', '<q>')])
    """

    __slots__ = ("_first", "_second")

    def __init__(self, first: TripleIndex, second: TripleIndex) -> None:
        self._first, self._second = first, second
        self.has_edges = True
        self.by_subject = cast("dict[Term, Ends]", _JointTables(first.by_subject, second.by_subject))
        self.by_object = cast("dict[Term, Ends]", _JointTables(first.by_object, second.by_object))
        self.triples = cast("set[Triple]", _JointTriples(first.triples, second.triples))

    def add(self, triple: Triple) -> bool:
        """Raises `TypeError`: triples are added to one of the two."""
        raise TypeError("a joint index is read-only")

    @property
    def edges_from(self) -> Edges:
        """Subject -> (predicate, object) without hidden predicates."""
        return cast(Edges, _JointEnds(cast(Any, self._first.edges_from), cast(Any, self._second.edges_from)))

    @property
    def edges_to(self) -> Edges:
        """Object -> (subject, predicate) without hidden predicates."""
        return cast(Edges, _JointEnds(cast(Any, self._first.edges_to), cast(Any, self._second.edges_to)))

    def all_from(self, subject: Term) -> list[tuple[Term, Term]]:
        """(predicate, object) of a subject, hidden predicates included."""
        return self._first.all_from(subject) + self._second.all_from(subject)

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        """(subject, predicate) of an object, hidden predicates included."""
        return self._first.all_to(object) + self._second.all_to(object)

    def all_links(self, subject: Term, object: Term) -> list[Term]:
        """Predicates from a subject to an object, hidden ones included."""
        return self._first.all_links(subject, object) + self._second.all_links(subject, object)

    def links(self, subject: Term, object: Term) -> list[Term]:
        """The visible predicates from a subject to an object."""
        return self._first.links(subject, object) + self._second.links(subject, object)
