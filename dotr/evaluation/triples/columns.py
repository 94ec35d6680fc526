"""Sorted columns of term numbers for triples, in both directions, over mapped bytes.

    predicates  seven numbers of 8 bytes a row: stratum, term, number of triples; and for each
                direction the number of different ends and the word where its columns begin
    triples     4-byte numbers; for one direction, ordered by end and then by other end,
                either  the end of each triple, the other end of each triple
                        (*pairs*: two numbers a triple)
                or      each different end, the start of its group, the other end of each triple
                        (*groups*, where that is shorter)

Idea: a background has one model for each stratum (`dotr.instant.datalog.strata.bulk_strata`); the
highest stratum is the whole background. A predicate's row at one stratum is valid for all lower
strata down to the next row of the same predicate. A predicate that grows with the strata is written
once for each stratum that adds to it, so every stratum is looked up at the same speed.

Invariant: both directions of a row hold the same triples, each once.

Cost: at most 16 bytes a triple for both directions together. A look-up is a binary search, about
0.6 µs among 1,000 ends and 1.2 µs among 10 million. Writing takes 1.5 µs a triple and 80 bytes for
each triple of the largest predicate.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from dotr.evaluation.triples.dictionary import MAX_TERMS, StoreCapacityExceeded
from dotr.evaluation.triples.file import Buffer, MappedFile, UnusableFile
from dotr.model.terms import Term, Triple

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
