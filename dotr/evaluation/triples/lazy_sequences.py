"""Lazy read-only sequences that concatenate and filter without copying."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TypeVar, overload

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
