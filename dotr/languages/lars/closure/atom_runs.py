"""Runs of atoms: the consecutive points up to now at which an atom holds, for ALWAYS and SINCE.

Idea: an atom of a point extends its run of the preceding point, or starts one. A run from a to u
covers the window k − β … k − α of each point k with a + β ≤ k ≤ u + α. A run from the first point
of the line also covers windows that begin before that point, which has no predecessors.

Cost: a constant time for each atom of a point; the runs of the last point are kept, and no other.
Source: lars.md, sections 2 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dotr.temporal.horizons.rules import FactRow, Point


class AtomRuns:
    """The first point of the run of each atom that held at the last point.

    >>> runs = AtomRuns()
    >>> runs.advance(1, [("<a>",)]), runs.advance(2, [("<a>",), ("<b>",)]), runs.advance(4, [("<a>",)])
    ({('<a>',): 1}, {('<a>',): 1, ('<b>',): 2}, {('<a>',): 4})
    """

    def __init__(self) -> None:
        self._point: Point | None = None
        self._starts: dict[FactRow, Point] = {}

    def advance(self, k: Point, rows: Iterable[FactRow]) -> Mapping[FactRow, Point]:
        """The start of the run of each atom of point `k`, given those rows; `k` ascends.

        The mapping must not be changed.
        """
        if self._point == k - 1:
            get = self._starts.get
            self._starts = {row: get(row, k) for row in rows}
        else:
            self._starts = dict.fromkeys(rows, k)
        self._point = k
        return self._starts

    def __len__(self) -> int:
        return len(self._starts)

    def to_json(self) -> object:
        """The state as values of JSON."""
        return [self._point, [[start, *row] for row, start in self._starts.items()]]

    def restore(self, written: list[object]) -> None:
        """The inverse of `to_json`."""
        self._point = written[0]  # type: ignore[assignment]
        self._starts = {tuple(row): start for start, *row in written[1]}  # type: ignore[attr-defined]


def covered(start: Point, end: Point, first: Point, least: int, greatest: int) -> tuple[Point, Point] | None:
    """The first and the last point whose window is covered by a run from `start` to `end`; None:
    there is no such point.

    The window of a point reaches from `greatest` to `least` points back, and not before `first`,
    the first point of the line.

    >>> covered(3, 5, 1, 0, 2), covered(1, 1, 1, 0, 2), covered(3, 4, 1, 0, 2), covered(3, 5, 1, 1, 2)
    ((5, 5), (1, 1), None, (5, 6))
    """
    begin = first + least if start == first else start + greatest
    return (begin, end + least) if begin <= end + least else None
