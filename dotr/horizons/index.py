"""The triples that hold, in the shape of a `TripleIndex`, for joins and queries.

Idea: tables that read the closure's cells: `by_subject[p].get(s)` is a list made of the objects
whose cells reach far enough. Nothing is copied before it is asked for.

Invariant: reads like a `TripleIndex` of the triples with a horizon of at least `least`.
Cost: a look-up costs its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, TypeAlias, TypeVar, cast

from dotr.horizons.facts import NOW, CellEnds, HeldFacts, HorizonCell
from dotr.horizons.rules import NEVER
from dotr.model.terms import Term, Triple
from dotr.store.triples import Edges, Ends, TripleIndex, is_hidden

Key = TypeVar("Key")
Item = TypeVar("Item")
Lists: TypeAlias = Mapping[Key, "list[Item]"]


class _HeldEnds(Mapping[Any, "list[Any]"]):
    """Lists of the items of a key with cells that reach `least`; no list is empty."""

    __slots__ = ("_cells", "_least")

    def __init__(self, cells: Mapping[Any, dict[Any, HorizonCell]], least: int) -> None:
        self._cells = cells
        self._least = least

    def get(self, key: Any, default: Any = None) -> Any:
        items = self._cells.get(key)
        if items is None:
            return default
        if self._least == NEVER:
            return list(items)
        least = self._least
        return [item for item, cell in items.items() if cell[NOW] >= least] or default

    def __getitem__(self, key: Any) -> list[Any]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return cast("list[Any]", found)

    def __contains__(self, key: object) -> bool:
        return key in self._cells if self._least == NEVER else self.get(key) is not None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cells) if self._least == NEVER else (key for key in self._cells if key in self)

    def __len__(self) -> int:
        return len(self._cells) if self._least == NEVER else sum(1 for _ in self)


class _HeldTables(Mapping[Term, Ends]):
    """The tables of predicates that have triples."""

    __slots__ = ("_index", "_tables")

    def __init__(self, index: HeldIndex, tables: Mapping[Term, CellEnds]) -> None:
        self._index = index
        self._tables = tables

    def get(self, predicate: Term, default: Any = None) -> Any:
        cells = self._tables.get(predicate)
        if not cells:
            return default
        ends = _HeldEnds(cells, self._index.least)
        return ends if self._index.least == NEVER or next(iter(ends), None) is not None else default

    def __getitem__(self, predicate: Term) -> Ends:
        found = self.get(predicate)
        if found is None:
            raise KeyError(predicate)
        return cast(Ends, found)

    def __contains__(self, predicate: object) -> bool:
        return self.get(cast(Term, predicate)) is not None

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
        return cell is not None and len(cast(Triple, triple)) == 3 and cell[NOW] >= self._index.least

    def __iter__(self) -> Iterator[Triple]:
        least = self._index.least
        return (triple for triple, cell in self._index.held.triples() if cell[NOW] >= least)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class HeldIndex(TripleIndex):
    """The triples of a closure with a horizon of at least `least`; it cannot be added to.

    >>> held = HeldFacts()
    >>> found = [held.settle([("<a>", "<p>", object)], h, h, h, []) for object, h in (("<b>", 3), ("<c>", 5))]
    >>> index = HeldIndex(held)
    >>> index.by_subject["<p>"]["<a>"], index.by_object["<p>"].get("<x>", []), len(index)
    (['<b>', '<c>'], [], 2)
    >>> index.least = 4
    >>> list(index.match("<a>", None, None)), ("<a>", "<p>", "<b>") in index, index.horizon(("<a>", "<p>", "<c>"))
    ([('<a>', '<p>', '<c>')], False, 5)
    """

    __slots__ = ("held", "least")

    def __init__(self, held: HeldFacts) -> None:
        self.held = held
        self.least = NEVER
        self.has_edges = True
        self.by_subject = cast("dict[Term, Ends]", _HeldTables(self, held.by_subject))
        self.by_object = cast("dict[Term, Ends]", _HeldTables(self, held.by_object))
        self.triples = cast("set[Triple]", _HeldTriples(self))

    def horizon(self, triple: Triple) -> int | None:
        """The horizon of a triple; None where it is not in the index."""
        cell = self.held.cells.get(triple)
        return cell[NOW] if cell is not None and cell[NOW] >= self.least else None

    def add(self, triple: Triple) -> bool:
        """Refuses: facts are inserted into the closure."""
        raise TypeError("the facts of a closure are inserted, not added")

    @property
    def edges_from(self) -> Edges:
        """Subject -> (predicate, object) without hidden predicates."""
        return cast(Edges, _VisibleHeldEdges(_HeldEnds(self.held.edges_from, self.least), 0))

    @property
    def edges_to(self) -> Edges:
        """Object -> (subject, predicate) without hidden predicates."""
        return cast(Edges, _VisibleHeldEdges(_HeldEnds(self.held.edges_to, self.least), 1))

    def all_from(self, subject: Term) -> list[tuple[Term, Term]]:
        """(predicate, object) of a subject, hidden predicates included."""
        return _HeldEnds(self.held.edges_from, self.least).get(subject, [])  # type: ignore[no-any-return]

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        """(subject, predicate) of an object, hidden predicates included."""
        return _HeldEnds(self.held.edges_to, self.least).get(object, [])  # type: ignore[no-any-return]

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
