"""Runs of atoms: the unbroken points at which each of them has held so far, for ALWAYS and SINCE.

Idea: an atom of a point goes on with its run of the point before, or begins one. A run from a to u
covers the window k − β … k − α of each point k with max(a + β, …) ≤ k ≤ u + α; a run that began at
the line's first point covers windows that are cut short there, too.

Cost: a constant time for each atom of a point; the runs of the last point are kept, and no other.
Source: lars.md, sections 2 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dotr.horizons.rules import FactRow, Point


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
        """The first points of the runs of a point's atoms; k ascends."""
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
    """The points whose window, from `greatest` to `least` points back, a run covers; None for none.

    `first`: the first point of the line, before which there are none.

    >>> covered(3, 5, 1, 0, 2), covered(1, 1, 1, 0, 2), covered(3, 4, 1, 0, 2), covered(3, 5, 1, 1, 2)
    ((5, 5), (1, 1), None, (5, 6))
    """
    begin = first + least if start == first else start + greatest
    return (begin, end + least) if begin <= end + least else None
