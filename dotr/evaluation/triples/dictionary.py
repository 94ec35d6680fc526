"""Dictionary of terms and their numbers, in both directions, over mapped bytes.

    text      the terms in UTF-8, concatenated in the order of their numbers
    ends      the end of each term in `text`, 4 bytes; `high`: the fifth byte beyond 4 GiB of text
    buckets   the first index of each bucket in the two sections below; 4 bytes for every 4 terms
    marks     the lowest byte of each term's hash, by bucket
    numbers   the terms' numbers, by bucket, 4 bytes

Idea: nearly every term of a stream (subjects, values) is unknown to the background. A bucket has
about 4 marks, and in 63 cases of 64 none equals the mark of an unknown term. An unknown term costs
one CRC and one search of a few bytes; only a term with an equal mark is compared as text.

Cost: 10 bytes a term (11 beyond 4 GiB) and its text; 0.4 µs for an unknown term, 0.8 µs for a known
one, 0.03 µs for one in the cache; 0.3 µs from number to term.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final
from zlib import crc32

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.triples.file import Buffer, MappedFile, UnusableFile
from dotr.model.terms import Term

MAX_TERMS: Final = (1 << 32) - 1
_TERMS_PER_BUCKET: Final = 4
_BLOCK: Final = 1 << 16

_MAX_RECENT: Final = 10_000
"""Capacity of the cache of known terms."""
_MAX_KNOWN_ABSENT: Final = 4_000
"""Capacity of the cache of unknown terms."""


class StoreCapacityExceeded(DotrError):
    """More terms, or triples of one predicate, than a store can number."""


def _bucket_count(terms: int) -> int:
    return terms // _TERMS_PER_BUCKET + 1


def dictionary_sections(terms: list[Term], *, high_from: int = 1 << 32) -> dict[str, Iterable[Buffer]]:
    """Sections of a dictionary.

    `terms`: different terms; the index of a term is its number.
    `high_from`: the size of the text in bytes from which ends have a fifth byte.
    Raises `StoreCapacityExceeded` for more than `MAX_TERMS` terms.
    """
    if len(terms) > MAX_TERMS:
        raise StoreCapacityExceeded(f"{len(terms):,} terms, where a compiled store can number {MAX_TERMS:,}")
    ends, high = array("I", (0,)), bytearray((0,))
    buckets = _bucket_count(len(terms))
    keys: list[int] = []
    size = 0
    for number, term in enumerate(terms):
        text = term.encode("utf-8", "surrogatepass")
        size += len(text)
        ends.append(size & 0xFFFFFFFF)
        high.append(size >> 32)
        code = crc32(text)
        keys.append((code * buckets >> 32) << 40 | number << 8 | code & 0xFF)
    keys.sort()
    counts = [0] * (buckets + 1)
    for key in keys:
        counts[(key >> 40) + 1] += 1
    return {
        "text": _encoded_blocks(terms),
        "ends": (ends,),
        "high": (high,) if size >= high_from else (),
        "buckets": (array("I", accumulate(counts)),),
        "marks": (bytes([key & 0xFF for key in keys]),),
        "numbers": (array("I", [key >> 8 & 0xFFFFFFFF for key in keys]),),
    }


def _encoded_blocks(terms: list[Term]) -> Iterator[bytes]:
    for start in range(0, len(terms), _BLOCK):
        yield "".join(terms[start : start + _BLOCK]).encode("utf-8", "surrogatepass")


class Dictionary:
    """Look-ups in the dictionary of a file; raises `UnusableFile` where its sections do not fit
    together.

    Two bounded caches hold some known terms with their numbers, and some unknown terms.
    """

    def __init__(self, file: MappedFile) -> None:
        self._ends = file.view("ends", "I")
        self._high = file.view("high")
        self._buckets = file.view("buckets", "I")
        self._numbers = file.view("numbers", "I")
        self._bytes: mmap.mmap = file.bytes
        self._text = file.section("text").offset
        self._marks = file.section("marks").offset
        self._count = len(self._numbers)
        self._recent: dict[Term, int] = {}
        self.known_absent: set[Term] = set()
        """Some terms that are not in the dictionary."""
        counted = (
            file.section("marks").length == self._count == len(self._ends) - 1 and len(self._buckets) == _bucket_count(self._count) + 1
        )
        if not counted or self._buckets[-1] != self._count or len(self._high) not in (0, len(self._ends)):
            raise UnusableFile("is damaged: its dictionary does not fit together")
        self._search = self._compile_search()
        if self._end(self._count) != file.section("text").length:
            raise UnusableFile("is damaged: its dictionary does not fit its text")

    def __len__(self) -> int:
        return self._count

    def _end(self, number: int) -> int:
        """End of the term before `number`, as an offset in the text."""
        return self._ends[number] | self._high[number] << 32 if self._high else self._ends[number]

    def term(self, number: int) -> Term:
        """The term with a number."""
        start, end = (self._end(number), self._end(number + 1)) if self._high else (self._ends[number], self._ends[number + 1])
        return str(self._bytes[self._text + start : self._text + end], "utf-8", "surrogatepass")

    def decoder(self) -> Callable[[Iterable[int]], list[Term]]:
        """Function from numbers to terms, with all look-ups bound to locals."""
        if self._high:
            return lambda numbers: [self.term(number) for number in numbers]
        ends, text, mapped = self._ends, self._text, self._bytes

        def decoded(numbers: Iterable[int]) -> list[Term]:
            return [str(mapped[text + ends[n] : text + ends[n + 1]], "utf-8", "surrogatepass") for n in numbers]

        return decoded

    def number(self, term: Term) -> int:
        """The number of a term, or -1."""
        number = self._recent.get(term)
        if number is not None:
            return number
        if term in self.known_absent:
            return -1
        number = self._search(term)
        if number < 0:
            if len(self.known_absent) >= _MAX_KNOWN_ABSENT:
                self.known_absent.clear()
            self.known_absent.add(term)
        else:
            if len(self._recent) >= _MAX_RECENT:
                self._recent.clear()
            self._recent[term] = number
        return number

    def _compile_search(self) -> Callable[[Term], int]:
        """Search for a term's number as a closure over local variables; the result -1 is an unknown
        term.

        A term with CRC c is in bucket `c * buckets >> 32`; its mark is `c & 0xFF`.
        """
        buckets, numbers, ends, mapped = self._buckets, self._numbers, self._ends, self._bytes
        marks, text, count, find, high = self._marks, self._text, len(self._buckets) - 1, self._bytes.find, bool(self._high)

        def search(term: Term) -> int:
            try:
                encoded = term.encode()
            except UnicodeEncodeError:
                encoded = term.encode("utf-8", "surrogatepass")
            code = crc32(encoded)
            bucket = code * count >> 32
            start, stop = marks + buckets[bucket], marks + buckets[bucket + 1]
            mark = _ONE_BYTE[code & 0xFF]
            while (start := find(mark, start, stop)) >= 0:
                number = numbers[start - marks]
                first, last = (self._end(number), self._end(number + 1)) if high else (ends[number], ends[number + 1])
                if last - first == len(encoded) and mapped[text + first : text + last] == encoded:
                    return number
                start += 1
            return -1

        return search


_ONE_BYTE: Final = [bytes((code,)) for code in range(256)]
