"""Kept elements of a published stream: the newest ones, in whole pages.

Idea: elements have consecutive numbers, in the order of their IDs, and page N has the numbers
250 N to 250 N + 249. The oldest pages leave, so that the kept ones are a suffix of the stream that
begins with a page. What has left is known by the order of the IDs alone.
Invariant: the first kept number depends on the elements and on `Keep`, not on how the elements were
cut into batches; it never decreases. An element that is kept in files is in them before it is read.
Cost: an append takes constant time an element, over all appends; a search is binary.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final, NamedTuple, Protocol

from dotr.model.terms import Label
from dotr.model.time import Micros

PAGE: Final = 250
"""Number of elements of a full page."""

ELEMENT_ID: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})", re.ASCII)
"""Text of an ID: a time in µs, and a number among the elements of that time."""


class Keep(NamedTuple):
    """Limits of what is kept, rounded up to whole pages; None: no limit.

    - `elements`: the newest ones, as a number.
    - `time`: in µs behind the time of the newest one.
    - `bytes`: of the lines of the newest ones. The newest element is kept even where it has more.
    """

    elements: int | None = 1_000
    time: Micros | None = None
    bytes: int | None = None


class NewElement(NamedTuple):
    """An element on its way into the published stream.

    - `time`: in µs since 1970.
    - `ordinal`: its number among those of its time.
    - `label`: that of the event, or the name of the input.
    - `line`: its NDJSON line as a file has it, without the line end.
    """

    time: Micros
    ordinal: int
    label: Label
    line: bytes


class KeptElement(NamedTuple):
    """An element of the published stream: that of `NewElement`, with its number from 0 on."""

    number: int
    time: Micros
    ordinal: int
    label: Label
    line: bytes

    @property
    def id(self) -> str:
        """The ID.

        >>> KeptElement(7, 12_000_000, 3, "Fire", b"{}").id
        '12000000-3'
        """
        return f"{self.time}-{self.ordinal}"


class Gone(NamedTuple):
    """The answer for what has left: the ID of the first element that is kept."""

    first: str


class PageStore(Protocol):
    """Files in which kept elements survive the process."""

    @property
    def last_batch(self) -> int | None:
        """The number of the last batch with an element; None if there is none."""

    def write(self, batch: int | None, first: int, elements: Sequence[KeptElement], end: int, /) -> None:
        """Store the elements before the number `end` that are new, and that those before `first`
        have left: all of it, or nothing. `batch`: that of the elements; None for no batch."""


class KeptElements:
    """The kept elements of a stream. One thread appends, any thread reads.

    Parameters:
    - `keep`: the limits.
    - `elements`: those that are kept already, and `next` the number of the next one.
    - `store`: the files behind it; None where elements are only in memory.

    `version` changes with each append.

    >>> kept = KeptElements(Keep(elements=2))
    >>> [each.id for each in kept.append([NewElement(12, 0, "Fire", b"{}"), NewElement(12, 1, "Fire", b"{}")])]
    ['12-0', '12-1']
    >>> kept.first, kept.next, kept.place_behind("12-0"), kept.find("12-2"), kept.since(13)
    (0, 2, 1, None, 2)
    """

    def __init__(self, keep: Keep, elements: Iterable[KeptElement] = (), next: int = 0, store: PageStore | None = None) -> None:
        self._keep = keep
        self._store = store
        self._lock = Lock()
        self._elements = list(elements)
        self._next = next
        self._needed = self._elements[0].number if self._elements else next
        self._bytes = sum(len(each.line) for each in self._elements)
        self.version = 0
        if self._elements:
            self.append_batch(None, [()])

    @property
    def first(self) -> int:
        """The number of the first kept element; `next` if none is kept."""
        with self._lock:
            return self._first

    @property
    def _first(self) -> int:
        return self._next - len(self._elements)

    @property
    def next(self) -> int:
        """The number of the next element."""
        return self._next

    @property
    def last_batch(self) -> int | None:
        """The number of the last batch in the files that has an element; None if there is none."""
        return None if self._store is None else self._store.last_batch

    def append(self, elements: Sequence[NewElement]) -> Sequence[KeptElement]:
        """Append elements in the order of their IDs, as `append_batch` does without a batch."""
        return self.append_batch(None, [elements])

    def append_batch(self, batch: int | None, blocks: Iterable[Sequence[NewElement]]) -> Sequence[KeptElement]:
        """Append the elements of a batch that is not in the files yet; then the oldest pages leave.

        Args:
            batch: its number, for the files; None where the elements are of no batch.
            blocks: elements in the order of their IDs, behind all that were appended before.

        Returns:
            The new elements that are kept. Where more came at once than is kept, the first of them
            has not the number that was the next.

        Raises:
            ValueError: an ID is not behind the one before it.
            WriteFailed, Refused: the files cannot be written; nothing is appended.
        """
        if batch is not None and (written := self.last_batch) is not None and batch <= written:
            return []
        old, base = self._elements, self._first
        begin = end = self._next  # of the new elements that are needed, which are `fresh`
        fresh: list[KeptElement] = []
        needed, size = self._needed, self._bytes
        last = _key(old[-1]) if old else None
        for block in blocks:
            for time, ordinal, label, line in block:
                if last is not None and (time, ordinal) <= last:
                    raise ValueError(f"the element {time}-{ordinal} is not behind {last[0]}-{last[1]}")
                last = time, ordinal
                fresh.append(KeptElement(end, time, ordinal, label, line))
                size += len(line)
                end += 1
            while last is not None and needed < end - 1:
                oldest = old[needed - base] if needed < self._next else fresh[needed - begin]
                if not self._leaves(oldest, end, size, last[0]):
                    break
                size -= len(oldest.line)
                needed += 1
            # Of a batch of 600 elements from number 0 on, of which 90 are needed (from 510 on), those from 500 on stay.
            if (left := needed - needed % PAGE - begin) > 0:
                del fresh[:left]
                begin += left
        first = max(base, needed - needed % PAGE)
        if self._store is not None and (batch is not None or first > base):
            self._store.write(batch, first, fresh, end)
        with self._lock:
            old += fresh
            del old[: len(old) - (end - first)]
            self._next, self._needed, self._bytes = end, needed, size
            self.version += 1
        return fresh

    def _leaves(self, oldest: KeptElement, next: int, size: int, newest: Micros) -> bool:
        """True where the first of the elements before `next` is beyond a limit."""
        elements, time, bytes = self._keep
        return (
            (elements is not None and next - oldest.number > elements)
            or (time is not None and newest - oldest.time > time)
            or (bytes is not None and size > bytes)
        )

    def find(self, id: str) -> KeptElement | Gone | None:
        """The element of an ID; Gone for an ID before the first kept one, None for any other."""
        with self._lock:
            place = self._place(id)
            return self._elements[place] if isinstance(place, int) else place

    def place_behind(self, id: str) -> int | Gone | None:
        """The number behind that of an ID; Gone for an ID before the first kept one, None for any
        other that is not kept."""
        with self._lock:
            place = self._place(id)
            return self._first + place + 1 if isinstance(place, int) else place

    def _place(self, id: str) -> int | Gone | None:
        if (match := ELEMENT_ID.fullmatch(id)) is None or not self._elements:
            return None
        key = int(match[1]), int(match[2])
        place = bisect_left(self._elements, key, key=_key)
        if place < len(self._elements) and _key(self._elements[place]) == key:
            return place
        return Gone(self._elements[0].id) if place == 0 and self._first > 0 else None

    def since(self, time: Micros) -> int:
        """The number of the first kept element at or behind a time (µs); `next` if there is none."""
        with self._lock:
            return self._first + bisect_left(self._elements, time, key=_time)

    def slice(self, start: int, stop: int) -> Sequence[KeptElement]:
        """The kept elements from number `start` on, before `stop`."""
        with self._lock:
            return self._sliced(start, stop)

    def _sliced(self, start: int, stop: int) -> Sequence[KeptElement]:
        first = self._first
        return self._elements[max(0, start - first) : max(0, stop - first)]

    def page(self, n: int) -> Sequence[KeptElement] | Gone | None:
        """The elements of a page; Gone where it has left, None where it is to come."""
        with self._lock:
            found = self._sliced(n * PAGE, (n + 1) * PAGE) if n >= 0 else []
            if found:
                return found
            return Gone(self._elements[0].id) if 0 <= n * PAGE < self._first else None

    @property
    def pages(self) -> range:
        """The numbers of the kept pages."""
        with self._lock:
            return range(self._first // PAGE, -(-self._next // PAGE))

    def is_full(self, n: int) -> bool:
        """True where no element comes to a page any more."""
        return (n + 1) * PAGE <= self._next


def _key(element: KeptElement) -> tuple[Micros, int]:
    return element.time, element.ordinal


def _time(element: KeptElement) -> Micros:
    return element.time
