"""The held triples as a `TripleIndex`, for joins and queries.

Idea: the tables read the closure's cells: `by_subject[p].get(s)` makes a list of the objects whose
cells have a sufficient horizon. Lists are made at a look-up, and nothing else is copied.

Invariant: equal to a `TripleIndex` of the triples with a horizon of at least `least`.
Cost: a look-up costs its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, TypeAlias, TypeVar, cast

from dotr.evaluation.triples.index import Edges, Ends, TripleIndex, is_hidden
from dotr.model.terms import Term, Triple
from dotr.temporal.horizons.facts import NOW, CellEnds, HeldFacts, HorizonCell
from dotr.temporal.horizons.rules import NEVER

Key = TypeVar("Key")
Item = TypeVar("Item")
Lists: TypeAlias = Mapping[Key, "list[Item]"]


class _HeldEnds(Mapping[Any, "list[Any]"]):
    """Lists of the items of a key whose cells have a horizon of at least `least`; no list is empty.

    `without`: a test of a key and an item; those that pass it are left out.
    """

    __slots__ = ("_all", "_cells", "_least", "_without")

    def __init__(self, cells: dict[Any, dict[Any, HorizonCell]], least: int, without: Callable[[Any, Any], bool] | None = None) -> None:
        self._cells = cells
        self._least = least
        self._without = without
        self._all = least == NEVER and without is None

    def get(self, key: Any, default: Any = None) -> Any:
        items = self._cells.get(key)
        if items is None:
            return default
        if self._all:
            return list(items)
        least, without = self._least, self._without
        found: list[Any] = []
        for item, cell in items.items():  # a comprehension is a call of its own, and most keys have few items
            if cell[NOW] >= least and (without is None or not without(key, item)):
                found.append(item)
        return found or default

    def __getitem__(self, key: Any) -> list[Any]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return cast("list[Any]", found)

    def __contains__(self, key: object) -> bool:
        return key in self._cells if self._all else self.get(key) is not None

    @property
    def is_empty(self) -> bool:
        """True where no item has a horizon of `least`; the latest keys are tested first, as the
        most likely ones.
        """
        return not any(key in self for key in reversed(self._cells))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cells) if self._all else (key for key in self._cells if key in self)

    def __len__(self) -> int:
        return len(self._cells) if self._all else sum(1 for _ in self)


class _HeldTables(Mapping[Term, Ends]):
    """The tables of predicates that have triples.

    `get` may return an empty table, where a view has none of a predicate's triples: to detect that,
    all of the closure's triples of the predicate would be tested.
    """

    __slots__ = ("_by_subject", "_index", "_tables")

    def __init__(self, index: HeldIndex, tables: dict[Term, CellEnds], *, by_subject: bool) -> None:
        self._index = index
        self._tables = tables
        self._by_subject = by_subject

    def get(self, predicate: Term, default: Any = None) -> Any:
        cells = self._tables.get(predicate)
        if not cells:
            return default
        without, least = self._index.without, self._index.least
        if without is None or predicate not in without.by_subject:
            ends = _HeldEnds(cells, least)
        elif self._by_subject:
            ends = _HeldEnds(cells, least, lambda subject, object: (subject, predicate, object) in without.triples)
        else:
            ends = _HeldEnds(cells, least, lambda object, subject: (subject, predicate, object) in without.triples)
        return ends

    def __getitem__(self, predicate: Term) -> Ends:
        found = self.get(predicate)
        if found is None:
            raise KeyError(predicate)
        return cast(Ends, found)

    def __contains__(self, predicate: object) -> bool:
        ends = self.get(cast(Term, predicate))
        return ends is not None and not ends.is_empty

    def __iter__(self) -> Iterator[Term]:
        return (predicate for predicate in self._tables if predicate in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _HeldTriples(Set[Triple]):
    """The triples, for membership and iteration."""

    __slots__ = ("_index",)

    def __init__(self, index: HeldIndex) -> None:
        self._index = index

    def __contains__(self, triple: object) -> bool:
        cell = self._index.held.cells.get(cast(Triple, triple))
        if cell is None or len(cast(Triple, triple)) != 3 or cell[NOW] < self._index.least:
            return False
        return self._index.without is None or triple not in self._index.without.triples

    def __iter__(self) -> Iterator[Triple]:
        least, without = self._index.least, self._index.without
        found = (triple for triple, cell in self._index.held.triples() if cell[NOW] >= least)
        return found if without is None else (triple for triple in found if triple not in without.triples)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class HeldIndex(TripleIndex):
    """The triples of a closure with a horizon of at least `least`; read-only.

    `without`: an index whose triples are left out; None: all triples are in.

    >>> held = HeldFacts()
    >>> found = [held.settle([("<a>", "<p>", object)], h, h, h, []) for object, h in (("<b>", 3), ("<c>", 5))]
    >>> index = HeldIndex(held)
    >>> index.by_subject["<p>"]["<a>"], index.by_object["<p>"].get("<x>", []), len(index)
    (['<b>', '<c>'], [], 2)
    >>> index.least = 4
    >>> list(index.match("<a>", None, None)), ("<a>", "<p>", "<b>") in index, index.horizon(("<a>", "<p>", "<c>"))
    ([('<a>', '<p>', '<c>')], False, 5)
    """

    __slots__ = ("held", "least", "without")

    def __init__(self, held: HeldFacts, least: int = NEVER, without: TripleIndex | None = None) -> None:
        self.held = held
        self.least = least
        self.without = without
        self.has_edges = True
        self.by_subject = cast("dict[Term, Ends]", _HeldTables(self, held.by_subject, by_subject=True))
        self.by_object = cast("dict[Term, Ends]", _HeldTables(self, held.by_object, by_subject=False))
        self.triples = cast("set[Triple]", _HeldTriples(self))

    def horizon(self, triple: Triple) -> int | None:
        """The horizon of a triple; None where it is not in the index."""
        cell = self.held.cells.get(triple)
        return cell[NOW] if cell is not None and triple in self.triples else None

    def add(self, triple: Triple) -> bool:
        """Raises `TypeError`: facts are inserted into the closure."""
        raise TypeError("the facts of a closure are inserted, not added")

    @property
    def edges_from(self) -> Edges:
        """Subject -> (predicate, object) without hidden predicates."""
        return cast(Edges, _VisibleHeldEdges(self._all_edges_from(), 0))

    @property
    def edges_to(self) -> Edges:
        """Object -> (subject, predicate) without hidden predicates."""
        return cast(Edges, _VisibleHeldEdges(self._all_edges_to(), 1))

    def _all_edges_from(self) -> _HeldEnds:
        without = self.without
        return _HeldEnds(
            self.held.edges_from, self.least, None if without is None else lambda subject, edge: (subject, *edge) in without.triples
        )

    def _all_edges_to(self) -> _HeldEnds:
        without = self.without
        return _HeldEnds(
            self.held.edges_to, self.least, None if without is None else lambda object, edge: (*edge, object) in without.triples
        )

    def all_from(self, subject: Term) -> list[tuple[Term, Term]]:
        """(predicate, object) of a subject, hidden predicates included."""
        return self._all_edges_from().get(subject, [])  # type: ignore[no-any-return]

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        """(subject, predicate) of an object, hidden predicates included."""
        return self._all_edges_to().get(object, [])  # type: ignore[no-any-return]

    def all_links(self, subject: Term, object: Term) -> list[Term]:
        """Predicates from a subject to an object, hidden ones included."""
        return [p for p, o in self.all_from(subject) if o == object]


class _VisibleHeldEdges:
    """Edges by a term without those of hidden predicates."""

    __slots__ = ("_edges", "_slot")

    def __init__(self, edges: _HeldEnds, slot: int) -> None:
        self._edges = edges
        self._slot = slot

    def get(self, term: Term, default: list[tuple[Term, Term]] | None = None) -> list[tuple[Term, Term]]:
        """The visible edges of a term."""
        slot = self._slot
        return [edge for edge in self._edges.get(term, ()) if not is_hidden(edge[slot])] or (default if default is not None else [])

    def __getitem__(self, term: Term) -> list[tuple[Term, Term]]:
        return self.get(term)
