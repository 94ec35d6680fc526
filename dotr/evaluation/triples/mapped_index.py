"""The background of a file as a `TripleIndex`: the index that generated joins and queries read.

Idea: a predicate with few triples is copied into dictionaries at its first use, within a budget, so
that a small or little-used background is as fast as one in memory. Other predicates are looked up
in the mapped columns, through a bounded cache. Long lists are never built: a `TermRange` decodes
its terms during iteration.

Invariant: every access path returns the triples of the file, each once. Terms that are not in the
file are never cached as keys.

Cost: private memory is bounded by `_MAX_PROMOTED` and `_MAX_CACHED`, about 15 MB when both are
full. A look-up takes 0.04 µs in a promoted predicate, 0.1 µs in the cache, otherwise one search in
the dictionary and one in the columns, about 2 µs. Access by a variable predicate costs one search
for each predicate.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from itertools import accumulate
from typing import Final, TypeVar, cast, overload

from dotr.evaluation.triples.dictionary import MAX_TERMS, Dictionary, StoreCapacityExceeded
from dotr.evaluation.triples.file import Buffer, MappedFile, UnusableFile
from dotr.evaluation.triples.index import NO_EDGES, NO_TERMS, UNSEEN, Edges, Ends, LazySequence, TripleIndex
from dotr.model import dataclass
from dotr.model.terms import Term, Triple

# Sorted columns of term numbers for triples, in both directions, over mapped bytes.
#
#     predicates  seven numbers of 8 bytes a row: stratum, term, number of triples; and for each
#                 direction the number of different ends and the word where its columns begin
#     triples     4-byte numbers; for one direction, ordered by end and then by other end,
#                 either  the end of each triple, the other end of each triple
#                         (*pairs*: two numbers a triple)
#                 or      each different end, the start of its group, the other end of each triple
#                         (*groups*, where that is shorter)
#
# Idea: a background has one model for each stratum (`dotr.instant.datalog.strata.bulk_strata`); the
# highest stratum is the whole background. A predicate's row at one stratum is valid for all lower
# strata down to the next row of the same predicate. A predicate that grows with the strata is written
# once for each stratum that adds to it, so every stratum is looked up at the same speed.
#
# Invariant: both directions of a row hold the same triples, each once.
#
# Cost: at most 16 bytes a triple for both directions together. A look-up is a binary search, about
# 0.6 µs among 1,000 ends and 1.2 µs among 10 million. Writing takes 1.5 µs a triple and 80 bytes for
# each triple of the largest predicate.


_FIELDS: Final = 7
_LOW: Final = 0xFFFFFFFF
_LOWER, _UPPER = (0, 1) if sys.byteorder == "little" else (1, 0)


@dataclass(frozen=True, slots=True)
class ColumnDirection:
    """One direction of one predicate: `ends` different ends, with columns from word `start` on."""

    triples: int
    ends: int
    start: int

    @property
    def is_grouped(self) -> bool:
        """True for groups, False for pairs: the shorter form."""
        return 2 * self.ends + 1 < self.triples

    @property
    def words(self) -> int:
        """Number of words of both columns."""
        return 2 * self.ends + 1 + self.triples if self.is_grouped else 2 * self.triples


@dataclass(frozen=True, slots=True)
class PredicateColumns:
    """The columns of one predicate in the models up to `stratum`; `term`: the predicate's
    number."""

    stratum: int
    term: int
    by_subject: ColumnDirection
    by_object: ColumnDirection


class ColumnWriter:
    """Writer of the sections `triples` and `predicates`.

    `numbers`: the number of each term.
    `predicates`: (stratum, predicate, triples) for each row; consumed once.
    The iterator of `triples` must be exhausted before `predicates` is called. Raises
    `StoreCapacityExceeded` for a predicate with more than `MAX_TERMS` triples.
    """

    def __init__(self, numbers: Mapping[Term, int], predicates: Iterable[tuple[int, Term, Iterable[Triple]]]) -> None:
        self._numbers = numbers
        self._source = predicates
        self._rows = array("Q")
        self._words = 0

    def triples(self) -> Iterator[Buffer]:
        """Buffers of section `triples`."""
        numbers = self._numbers
        for stratum, predicate, triples in self._source:
            keys = [numbers[s] << 32 | numbers[o] for s, _, o in triples]
            if len(keys) > MAX_TERMS:
                raise StoreCapacityExceeded(f"{len(keys):,} triples of {predicate}, where a compiled store can hold {MAX_TERMS:,}")
            keys.sort()
            self._rows.extend((stratum, numbers[predicate], len(keys)))
            yield from self._direction(keys)
            keys = [(key & _LOW) << 32 | key >> 32 for key in keys]
            keys.sort()
            yield from self._direction(keys)

    def _direction(self, keys: Sequence[int]) -> Iterator[Buffer]:
        if not keys:
            self._rows.extend((0, 0))
            return
        words = memoryview(array("Q", keys)).cast("B").cast("I")
        ends, others = words[_UPPER::2], words[_LOWER::2]
        counts = Counter(ends)
        direction = ColumnDirection(len(keys), len(counts), self._words)
        if direction.is_grouped:
            yield array("I", counts)
            yield array("I", accumulate(counts.values(), initial=0))
        else:
            yield ends.tobytes()
        yield others.tobytes()
        self._rows.extend((direction.ends, direction.start))
        self._words += direction.words

    def predicates(self) -> Iterator[Buffer]:
        """Buffers of section `predicates`."""
        yield self._rows


def read_predicates(file: MappedFile) -> list[PredicateColumns]:
    """Predicates of a file; raises `UnusableFile` where a predicate points beyond `triples`."""
    rows = file.view("predicates", "Q")
    words = file.section("triples").length // 4
    predicates = []
    for row in range(0, len(rows), _FIELDS):
        stratum, term, triples, subjects, first, objects, second = rows[row : row + _FIELDS]
        directions = ColumnDirection(triples, subjects, first), ColumnDirection(triples, objects, second)
        if any((each.ends == 0) != (triples == 0) or each.ends > triples or each.start + each.words > words for each in directions):
            raise UnusableFile("is damaged: its predicates do not fit its triples")
        predicates.append(PredicateColumns(stratum, term, *directions))
    return predicates


class Columns:
    """Look-ups in one direction of one predicate."""

    __slots__ = ("_first", "_is_grouped", "_last", "_others", "_starts", "direction", "words")

    def __init__(self, words: memoryview, direction: ColumnDirection) -> None:
        self.words = words
        self.direction = direction
        self._is_grouped = direction.is_grouped
        self._first = direction.start
        self._last = self._first + (direction.ends if self._is_grouped else direction.triples)
        self._starts = self._last - self._first
        self._others = self._last + (direction.ends + 1 if self._is_grouped else 0)

    def bounds(self, end: int) -> tuple[int, int]:
        """Half-open range of words that hold the other ends of `end`, ascending; (0, 0) for an
        unknown end.

        For the triples (1, 7), (1, 9), (4, 7) as pairs the words are `1 1 4 | 7 9 7`, and
        `bounds(1)` is (3, 5). As groups they are `1 4 | 0 2 3 | 7 9 7`: the second block holds the
        starts.
        """
        words, last = self.words, self._last
        index = bisect_left(words, end, self._first, last)
        if index == last or words[index] != end:
            return 0, 0
        others = self._others
        if self._is_grouped:
            index += self._starts
            return others + words[index], others + words[index + 1]
        stop = index + 1
        if stop < last and words[stop] == end:
            stop = bisect_right(words, end, stop, last)
        others -= self._first
        return others + index, others + stop

    def contains(self, end: int, other: int) -> bool:
        """True for a triple of these ends."""
        start, stop = self.bounds(end)
        index = bisect_left(self.words, other, start, stop)
        return index < stop and self.words[index] == other

    def ends(self) -> Iterator[int]:
        """The different ends, ascending."""
        if self._is_grouped:
            yield from self.words[self._first : self._last]
        else:
            before = -1
            for end in self.words[self._first : self._last]:
                if end != before:
                    yield end
                    before = end

    def groups(self) -> Iterator[tuple[int, int, int]]:
        """Each end with the half-open range of words of its other ends."""
        words, others = self.words, self._others
        if self._is_grouped:
            for index in range(self._first, self._last):
                group = index + self._starts
                yield words[index], others + words[group], others + words[group + 1]
            return
        shift = others - self._first
        start, last = self._first, self._last
        while start < last:
            end, stop = words[start], start + 1
            while stop < last and words[stop] == end:
                stop += 1
            yield end, shift + start, shift + stop
            start = stop


_MAX_PROMOTED: Final = 30_000
"""Number of triples, over all predicates, that are copied into dictionaries."""
_MAX_PROMOTED_PREDICATE: Final = 10_000
"""A predicate with more triples is not copied."""
_MAX_CACHED: Final = 40_000
"""Number of terms in the caches of all other predicates."""
_LAZY_FROM: Final = 64
"""A list with more terms is a `TermRange`."""
_MAX_CACHED_EDGES: Final = 2_000
"""Number of terms whose edges are cached."""
_MAX_STRATA: Final = 1 << 16
"""An upper bound of the strata of a program; a greater number is damage."""

Default = TypeVar("Default")


@dataclass(slots=True)
class LookupCache:
    """Budget and cache that all look-ups of a file share.

    `promoted`: triples copied so far; `cached`: terms in `tables`, the caches of the predicates.
    """

    promoted: int = 0
    cached: int = 0
    tables: list[dict[Term, list[Term]]] = field(default_factory=list)

    def clear(self) -> None:
        """Empties all caches."""
        for each in self.tables:
            each.clear()
        self.cached = 0


class TermRange(LazySequence[Term]):
    """Lazy list of the terms whose numbers are a range of the columns, ascending."""

    __slots__ = ("_dictionary", "_numbers")

    def __init__(self, dictionary: Dictionary, numbers: memoryview) -> None:
        self._dictionary = dictionary
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Term: ...
    @overload
    def __getitem__(self, index: slice) -> list[Term]: ...
    def __getitem__(self, index: int | slice) -> Term | list[Term]:
        if isinstance(index, slice):
            return [self._dictionary.term(number) for number in self._numbers[index]]
        return self._dictionary.term(self._numbers[index])

    def __iter__(self) -> Iterator[Term]:
        return map(self._dictionary.term, self._numbers)

    def __contains__(self, term: object) -> bool:
        number = self._dictionary.number(term) if isinstance(term, str) else -1
        if number < 0:
            return False
        index = bisect_left(self._numbers, number)
        return index < len(self._numbers) and self._numbers[index] == number


class MappedEnds(Mapping[Term, "list[Term]"]):
    """The triples of one predicate: one end to the other ends."""

    __slots__ = ("_bounds", "_cache", "_columns", "_decode", "_dictionary", "_number", "_term", "_words", "recent")

    def __init__(self, columns: Columns, dictionary: Dictionary, cache: LookupCache) -> None:
        self._columns = columns
        self._words = columns.words
        self._dictionary = dictionary
        self._number, self._term, self._bounds = dictionary.number, dictionary.term, columns.bounds
        self._decode = dictionary.decoder()
        self._cache = cache
        self.recent: dict[Term, list[Term]] = {}

    def get(self, term: Term, default: Default | list[Term] | None = None) -> Default | list[Term] | None:  # type: ignore[override]
        ends = self.recent.get(term)
        if ends is None:
            number = self._number(term)
            if number < 0:
                return default
            start, stop = self._bounds(number)
            ends = [self._term(self._words[start])] if stop - start == 1 else self._others(start, stop)
            cache = self._cache
            cache.cached += 2 + min(stop - start, _LAZY_FROM)
            if cache.cached > _MAX_CACHED:
                cache.clear()
            self.recent[term] = ends
        return ends or default

    def _others(self, start: int, stop: int) -> list[Term]:
        if stop - start > _LAZY_FROM:
            return cast("list[Term]", TermRange(self._dictionary, self._words[start:stop]))
        return self._decode(self._words[start:stop])

    def __getitem__(self, term: Term) -> list[Term]:
        found = self.get(term, None)
        if found is None:
            raise KeyError(term)
        return found

    def __contains__(self, term: object) -> bool:
        number = self._dictionary.number(term) if isinstance(term, str) else -1
        start, stop = self._columns.bounds(number) if number >= 0 else (0, 0)
        return start < stop

    def __iter__(self) -> Iterator[Term]:
        return map(self._dictionary.term, self._columns.ends())

    def __len__(self) -> int:
        return self._columns.direction.ends

    @property
    def longest(self) -> int:
        """Upper bound on the number of other ends of an end.

        With t triples and e ends, at most t - e + 1: every other end has at least one triple.
        """
        direction = self._columns.direction
        return direction.triples - direction.ends + 1

    def items(self) -> ItemsView[Term, list[Term]]:
        return _Items(self)

    def pairs(self) -> Iterator[tuple[Term, list[Term]]]:
        """Each end with its other ends; the cache is neither read nor filled."""
        term = self._dictionary.term
        for end, start, stop in self._columns.groups():
            yield term(end), self._others(start, stop)


class _Items(ItemsView[Term, "list[Term]"]):
    """Items of `MappedEnds`, read in the order of the columns."""

    _mapping: MappedEnds

    def __iter__(self) -> Iterator[tuple[Term, list[Term]]]:
        return self._mapping.pairs()


class MappedTables(Mapping[Term, Ends]):
    """The predicates of one direction; a table is built at its first use."""

    __slots__ = ("_build", "_built", "_predicates")

    def __init__(self, predicates: Mapping[Term, PredicateColumns], build: Callable[[PredicateColumns], Ends]) -> None:
        self._predicates = predicates
        self._build = build
        self._built: dict[Term, Ends] = {}

    def get(self, predicate: Term, default: Default | Ends | None = None) -> Default | Ends | None:  # type: ignore[override]
        table = self._built.get(predicate)
        if table is None:
            row = self._predicates.get(predicate)
            if row is None:
                return default
            table = self._built[predicate] = self._build(row)
        return table

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
    """All triples of a file, for membership."""

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
        if len(others) <= _LAZY_FROM:
            return object_ in others
        end, other = self._number(subject), self._number(object_)
        return other >= 0 and self._columns[predicate].contains(end, other)

    def __iter__(self) -> Iterator[Triple]:
        return iter(self._index)

    def __len__(self) -> int:
        return self._length


class MappedIndex(TripleIndex):
    """The triples of a file, or of one of its strata."""

    __slots__ = ("_dictionary", "_edge_cache", "file", "known_absent")

    def __init__(
        self,
        file: MappedFile,
        dictionary: Dictionary,
        predicates: Mapping[Term, PredicateColumns],
        build_ends: Callable[[ColumnDirection], Ends],
    ) -> None:
        self.file = file
        self._dictionary = dictionary
        words = file.view("triples", "I")
        # Read-only mappings in the place of the dictionaries and the set of `TripleIndex`.
        self.by_subject = cast("dict[Term, Ends]", MappedTables(predicates, lambda row: build_ends(row.by_subject)))
        self.by_object = cast("dict[Term, Ends]", MappedTables(predicates, lambda row: build_ends(row.by_object)))
        columns = {predicate: Columns(words, row.by_subject) for predicate, row in predicates.items()}
        self.triples = cast("set[Triple]", MappedTriples(self, dictionary, columns))
        self.known_absent = dictionary.known_absent
        self.has_edges = False
        self._edge_cache: dict[tuple[bool, Term], list[tuple[Term, Term]]] = {}

    def add(self, triple: Triple) -> bool:
        raise TypeError("a compiled store is read-only")

    def _edges(self, term: Term, outgoing: bool) -> list[tuple[Term, Term]]:
        """The edges of a term, those of hidden predicates included."""
        if self._dictionary.number(term) < 0:
            return NO_EDGES
        edges = self._edge_cache.get((outgoing, term))
        if edges is None:
            if outgoing:
                edges = [(p, o) for p, ends in self.by_subject.items() for o in ends.get(term, NO_TERMS)]
            else:
                edges = [(s, p) for p, ends in self.by_object.items() for s in ends.get(term, NO_TERMS)]
            if len(edges) <= _LAZY_FROM:
                if len(self._edge_cache) >= _MAX_CACHED_EDGES:
                    self._edge_cache.clear()
                self._edge_cache[outgoing, term] = edges
        return edges

    @property
    def edges_from(self) -> Edges:
        return cast(Edges, _VisibleEdges(self.all_from, 0))

    @property
    def edges_to(self) -> Edges:
        return cast(Edges, _VisibleEdges(self.all_to, 1))

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
        return [predicate for predicate in self.all_links(subject, object) if not predicate.startswith(UNSEEN)]


def mapped_strata(file: MappedFile) -> tuple[MappedIndex, ...]:
    """The strata of a file, the lowest first, the whole background last.

    All strata share one cache, and the tables of the predicates that they have in common. Raises
    `UnusableFile` where the sections do not fit together.
    """
    dictionary, cache = Dictionary(file), LookupCache()
    words = file.view("triples", "I")
    rows = read_predicates(file)
    if any(row.term >= len(dictionary) or row.stratum >= _MAX_STRATA for row in rows):
        raise UnusableFile("is damaged: its predicates have no names")
    by_stratum: dict[int, list[PredicateColumns]] = {}
    for row in rows:
        by_stratum.setdefault(row.stratum, []).append(row)
    built: dict[ColumnDirection, Ends] = {}

    def build_ends(direction: ColumnDirection) -> Ends:
        if direction not in built:
            built[direction] = _build_ends(Columns(words, direction), dictionary, cache)
        return built[direction]

    indexes: list[MappedIndex] = []
    predicates: dict[Term, PredicateColumns] = {}
    for stratum in range(max(by_stratum, default=0), -1, -1):
        if indexes and stratum not in by_stratum:
            indexes.append(indexes[-1])
            continue
        predicates.update({dictionary.term(row.term): row for row in by_stratum.get(stratum, ())})
        indexes.append(MappedIndex(file, dictionary, {p: row for p, row in predicates.items() if row.by_subject.triples}, build_ends))
    return tuple(reversed(indexes))


def _build_ends(columns: Columns, dictionary: Dictionary, cache: LookupCache) -> Ends:
    mapped, triples = MappedEnds(columns, dictionary, cache), columns.direction.triples
    if triples > _MAX_PROMOTED_PREDICATE or cache.promoted + triples > _MAX_PROMOTED:
        cache.tables.append(mapped.recent)
        return cast(Ends, mapped)
    cache.promoted += triples
    return {end: list(others) for end, others in mapped.items()}


class _VisibleEdges:
    """Edges by term without those of hidden predicates; `slot` is the index of the predicate in an
    edge.
    """

    __slots__ = ("_edges", "_slot")

    def __init__(self, edges: Callable[[Term], list[tuple[Term, Term]]], slot: int) -> None:
        self._edges = edges
        self._slot = slot

    def get(self, term: Term, default: list[tuple[Term, Term]] = NO_EDGES) -> list[tuple[Term, Term]]:
        slot = self._slot
        return [edge for edge in self._edges(term) if not edge[slot].startswith(UNSEEN)] or default

    def __getitem__(self, term: Term) -> list[tuple[Term, Term]]:
        found = self.get(term, NO_EDGES)
        if not found:
            raise KeyError(term)
        return found
