"""The background as a file holds it, in the shape of a `TripleIndex`: what generated joins and queries read.

Idea: a predicate with few triples is copied into ordinary dictionaries when it is first asked for, as long as a budget lasts, so that a
small or little-used background is as fast as one in memory. The others are looked up in the mapped columns, behind a bounded memory of
what was found lately. Long lists are not made: a `TermRange` stands for them and reads as it is gone through.
Invariant: every way of access gives the triples of the file, each once. What an instant asks for in vain is never kept.
Cost: private memory is bounded by `_PROMOTED` and `_REMEMBERED`, about 15 MB when both are used up. A look-up costs 0.04 µs where it is
promoted, 0.1 µs where it was made lately, otherwise one search in the dictionary and one in the columns, about 2 µs. Access by a variable
predicate costs one search for each predicate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, ItemsView, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast, overload

from dotr.model.terms import Term, Triple
from dotr.store.columns import ColumnDirection, Columns, PredicateColumns, read_predicates
from dotr.store.dictionary import Dictionary
from dotr.store.file import MappedFile, UnusableFile
from dotr.store.lazy_sequences import LazySequence
from dotr.store.triples import HIDDEN, NO_EDGES, NO_TERMS, Edges, Ends, TripleIndex

_PROMOTED: Final = 30_000
"""How many triples are copied into dictionaries, at most."""
_ONE: Final = 10_000
"""A predicate with more triples is not copied."""
_REMEMBERED: Final = 40_000
"""How many terms the look-ups of the other predicates remember, at most."""
_LONG: Final = 64
"""A longer list is not made."""
_NEAR: Final = 2_000
"""Of how many terms all edges are remembered."""
_MOST_LEVELS: Final = 1 << 16
"""Strata that no program has."""

Default = TypeVar("Default")


@dataclass(slots=True)
class LookupCache:
    """What all look-ups of an index share: how much is copied and remembered, and what to forget."""

    promoted: int = 0
    remembered: int = 0
    lists: list[dict[Term, list[Term]]] = field(default_factory=list)

    def forget(self) -> None:
        """Forgets what is remembered."""
        for each in self.lists:
            each.clear()
        self.remembered = 0


class TermRange(LazySequence[Term]):
    """Terms whose numbers stand in a row of the columns, ascending; reads like a list, and makes none."""

    __slots__ = ("_dictionary", "_numbers")

    def __init__(self, dictionary: Dictionary, numbers: memoryview) -> None:
        self._dictionary = dictionary
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> Term: ...
    @overload
    def __getitem__(self, place: slice) -> list[Term]: ...
    def __getitem__(self, place: int | slice) -> Term | list[Term]:
        if isinstance(place, slice):
            return [self._dictionary.term(number) for number in self._numbers[place]]
        return self._dictionary.term(self._numbers[place])

    def __iter__(self) -> Iterator[Term]:
        return map(self._dictionary.term, self._numbers)

    def __contains__(self, term: object) -> bool:
        number = self._dictionary.number(term) if isinstance(term, str) else -1
        if number < 0:
            return False
        place = bisect_left(self._numbers, number)
        return place < len(self._numbers) and self._numbers[place] == number


class MappedEnds(Mapping[Term, "list[Term]"]):
    """The triples of one predicate, one end to the other ends."""

    __slots__ = ("_columns", "_decoded", "_dictionary", "_find", "_memory", "_number", "_term", "_words", "recent")

    def __init__(self, columns: Columns, dictionary: Dictionary, memory: LookupCache) -> None:
        self._columns = columns
        self._words = columns.words
        self._dictionary = dictionary
        self._number, self._term, self._find = dictionary.number, dictionary.term, columns.find
        self._decoded = dictionary.decoder()
        self._memory = memory
        self.recent: dict[Term, list[Term]] = {}

    def get(self, term: Term, default: Default | list[Term] | None = None) -> Default | list[Term] | None:  # type: ignore[override]
        found = self.recent.get(term)
        if found is None:
            number = self._number(term)
            if number < 0:
                return default
            start, stop = self._find(number)
            found = [self._term(self._words[start])] if stop - start == 1 else self._others(start, stop)
            memory = self._memory
            memory.remembered += 2 + min(stop - start, _LONG)
            if memory.remembered > _REMEMBERED:
                memory.forget()
            self.recent[term] = found
        return found or default

    def _others(self, start: int, stop: int) -> list[Term]:
        if stop - start > _LONG:
            return cast("list[Term]", TermRange(self._dictionary, self._words[start:stop]))
        return self._decoded(self._words[start:stop])

    def __getitem__(self, term: Term) -> list[Term]:
        found = self.get(term, None)
        if found is None:
            raise KeyError(term)
        return found

    def __contains__(self, term: object) -> bool:
        number = self._dictionary.number(term) if isinstance(term, str) else -1
        start, stop = self._columns.find(number) if number >= 0 else (0, 0)
        return start < stop

    def __iter__(self) -> Iterator[Term]:
        return map(self._dictionary.term, self._columns.ends())

    def __len__(self) -> int:
        return self._columns.direction.ends

    @property
    def longest(self) -> int:
        """As many other ends no end has more of: all but one each might be one's."""
        direction = self._columns.direction
        return direction.triples - direction.ends + 1

    def items(self) -> ItemsView[Term, list[Term]]:
        return _Items(self)

    def pairs(self) -> Iterator[tuple[Term, list[Term]]]:
        """Each end and its other ends; nothing of it is remembered."""
        term = self._dictionary.term
        for end, start, stop in self._columns.runs():
            yield term(end), self._others(start, stop)


class _Items(ItemsView[Term, "list[Term]"]):
    """The items of `MappedEnds`, without looking each end up."""

    _mapping: MappedEnds

    def __iter__(self) -> Iterator[tuple[Term, list[Term]]]:
        return self._mapping.pairs()


class MappedTables(Mapping[Term, Ends]):
    """The predicates of one direction; a small one is promoted when it is first asked for."""

    __slots__ = ("_made", "_make", "_predicates")

    def __init__(self, predicates: Mapping[Term, PredicateColumns], make: Callable[[PredicateColumns], Ends]) -> None:
        self._predicates = predicates
        self._make = make
        self._made: dict[Term, Ends] = {}

    def get(self, predicate: Term, default: Default | Ends | None = None) -> Default | Ends | None:  # type: ignore[override]
        made = self._made.get(predicate)
        if made is None:
            row = self._predicates.get(predicate)
            if row is None:
                return default
            made = self._made[predicate] = self._make(row)
        return made

    def __getitem__(self, predicate: Term) -> Ends:
        found = self.get(predicate)
        if found is None:
            raise KeyError(predicate)
        return found

    def __contains__(self, predicate: object) -> bool:
        return predicate in self._predicates

    def __iter__(self) -> Iterator[Term]:
        return iter(self._predicates)

    def __len__(self) -> int:
        return len(self._predicates)


class MappedTriples(Set[Triple]):
    """All triples, for membership."""

    __slots__ = ("_by_subject", "_columns", "_index", "_length", "_number")

    def __init__(self, index: MappedIndex, dictionary: Dictionary, columns: Mapping[Term, Columns]) -> None:
        self._index = index
        self._by_subject = index.by_subject
        self._number = dictionary.number
        self._columns = columns
        self._length = sum(each.direction.triples for each in columns.values())

    def __contains__(self, triple: object) -> bool:
        subject, predicate, object_ = cast(Triple, triple)
        if self._number(subject) < 0:
            return False
        ends = self._by_subject.get(predicate)
        if ends is None:
            return False
        others = ends.get(subject, NO_TERMS)
        if len(others) <= _LONG:
            return object_ in others
        end, other = self._number(subject), self._number(object_)
        return other >= 0 and self._columns[predicate].holds(end, other)

    def __iter__(self) -> Iterator[Triple]:
        return iter(self._index)

    def __len__(self) -> int:
        return self._length


class MappedIndex(TripleIndex):
    """The triples of a file, or those of one of its levels."""

    __slots__ = ("_dictionary", "_near", "file", "known_absent")

    def __init__(
        self, file: MappedFile, dictionary: Dictionary, predicates: Mapping[Term, PredicateColumns], ends: Callable[[ColumnDirection], Ends]
    ) -> None:
        self.file = file
        self._dictionary = dictionary
        words = file.view("triples", "I")
        # Stand-ins: they read like what `TripleIndex` has there, and nobody may write to either.
        self.by_subject = cast("dict[Term, Ends]", MappedTables(predicates, lambda row: ends(row.by_subject)))
        self.by_object = cast("dict[Term, Ends]", MappedTables(predicates, lambda row: ends(row.by_object)))
        columns = {predicate: Columns(words, row.by_subject) for predicate, row in predicates.items()}
        self.triples = cast("set[Triple]", MappedTriples(self, dictionary, columns))
        self.known_absent = dictionary.strangers
        self.has_edges = False
        self._near: dict[tuple[bool, Term], list[tuple[Term, Term]]] = {}

    def add(self, triple: Triple) -> bool:
        raise TypeError("a compiled store is not written to")

    def _edges(self, term: Term, outgoing: bool) -> list[tuple[Term, Term]]:
        """The edges of a term, those of hidden predicates among them."""
        if self._dictionary.number(term) < 0:
            return NO_EDGES
        found = self._near.get((outgoing, term))
        if found is None:
            if outgoing:
                found = [(p, o) for p, ends in self.by_subject.items() for o in ends.get(term, NO_TERMS)]
            else:
                found = [(s, p) for p, ends in self.by_object.items() for s in ends.get(term, NO_TERMS)]
            if len(found) <= _LONG:
                if len(self._near) >= _NEAR:
                    self._near.clear()
                self._near[outgoing, term] = found
        return found

    @property
    def edges_from(self) -> Edges:
        return cast(Edges, _Visible(self.all_from, 0))

    @property
    def edges_to(self) -> Edges:
        return cast(Edges, _Visible(self.all_to, 1))

    def all_from(self, subject: Term) -> list[tuple[Term, Term]]:
        return self._edges(subject, True)

    def all_to(self, object: Term) -> list[tuple[Term, Term]]:
        return self._edges(object, False)

    def all_links(self, subject: Term, object: Term) -> list[Term]:
        number = self._dictionary.number
        if number(subject) < 0 or number(object) < 0:
            return NO_TERMS
        return [predicate for predicate in self.by_subject if (subject, predicate, object) in self.triples]

    def links(self, subject: Term, object: Term) -> list[Term]:
        return [predicate for predicate in self.all_links(subject, object) if not predicate.startswith(HIDDEN)]


def mapped_levels(file: MappedFile) -> tuple[MappedIndex, ...]:
    """The levels of a file, the lowest first, the whole last; raises `UnusableFile` where the file does not fit together. They share what they
    copy and remember, and the tables of what they have in common."""
    dictionary, memory = Dictionary(file), LookupCache()
    words = file.view("triples", "I")
    rows = read_predicates(file)
    if any(row.term >= len(dictionary) or row.level >= _MOST_LEVELS for row in rows):
        raise UnusableFile("is damaged: its predicates have no names")
    by_level: dict[int, list[PredicateColumns]] = {}
    for row in rows:
        by_level.setdefault(row.level, []).append(row)
    made: dict[ColumnDirection, Ends] = {}

    def ends(direction: ColumnDirection) -> Ends:
        if direction not in made:
            made[direction] = _ends(Columns(words, direction), dictionary, memory)
        return made[direction]

    found: list[MappedIndex] = []
    predicates: dict[Term, PredicateColumns] = {}
    for level in range(max(by_level, default=0), -1, -1):
        if found and level not in by_level:
            found.append(found[-1])
            continue
        predicates.update({dictionary.term(row.term): row for row in by_level.get(level, ())})
        found.append(MappedIndex(file, dictionary, {p: row for p, row in predicates.items() if row.by_subject.triples}, ends))
    return tuple(reversed(found))


def _ends(columns: Columns, dictionary: Dictionary, memory: LookupCache) -> Ends:
    mapped, triples = MappedEnds(columns, dictionary, memory), columns.direction.triples
    if triples > _ONE or memory.promoted + triples > _PROMOTED:
        memory.lists.append(mapped.recent)
        return cast(Ends, mapped)
    memory.promoted += triples
    return {end: list(others) for end, others in mapped.items()}


class _Visible:
    """Edges by term, without those of hidden predicates, which stand at `place`."""

    __slots__ = ("_edges", "_place")

    def __init__(self, edges: Callable[[Term], list[tuple[Term, Term]]], place: int) -> None:
        self._edges = edges
        self._place = place

    def get(self, term: Term, default: list[tuple[Term, Term]] = NO_EDGES) -> list[tuple[Term, Term]]:
        place = self._place
        return [edge for edge in self._edges(term) if not edge[place].startswith(HIDDEN)] or default

    def __getitem__(self, term: Term) -> list[tuple[Term, Term]]:
        found = self.get(term, NO_EDGES)
        if not found:
            raise KeyError(term)
        return found
