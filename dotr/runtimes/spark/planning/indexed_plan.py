"""Ends of batches from an index of granules: no record is read.

Idea: the greatest time before a granule is the running maximum of those before it. A cut at T needs
no exact position. Reading for the next cut continues at the first granule that has a time beyond T.
Reading for this one may stop at the first granule that follows a time beyond T + delay, since all
later records with times up to T are late. A task judges lateness itself, and skips records outside
of its range of time.
Invariant: positions never decrease from cut to cut. All records before a position have times up to
the cut's, and its greatest time is exact, so that a task judges as one reader of the whole would.
Cost: a heap operation a granule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heapreplace
from typing import Final, TypeAlias

from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.spark.exchange.positions import END, Cut, InputPosition, Offset
from dotr.runtimes.spark.planning.granules import Piece

ReadPiece: TypeAlias = Callable[[int, int], Piece]
"""`read(input, piece)`: a piece of an input; waits until it is written."""

_PASSED: Final = 4_096
"""Passed granules of an input that are kept, at most."""


class _IndexedInput:
    """The granules of one input from a position on: offset, line and weight of each, and up to its
    end the greatest time, by how much the last element of that time is set apart, and the time up
    to which elements may be."""

    def __init__(self, read: Callable[[int], Piece], base: InputPosition, start: InputPosition, delay: Micros) -> None:
        self._read = read
        self._start = start
        self._delay = delay
        self._granules: list[tuple[int, int, int, Micros, Micros, Micros]] = []
        self._at = 0  # the first granule that is not passed
        self._stop = 0
        self._before = start.greatest, start.shift  # of the greatest time before the first granule that is not passed
        self._known, self._shift = base.greatest, base.shift  # and before the next one to be read
        self._latest = start.greatest + start.shift
        self._piece: int | None = 0 if start.offset != END else None
        self._link = base.offset
        self._line = base.line

    def _load(self) -> bool:
        """Read the next piece; False at the end of the input."""
        if self._piece is None:
            return False
        piece, first = self._read(self._piece), self._link
        # Granules before the link are left out: the scan of a range may have started inside of a
        # record. Lines are counted from the start of the range: if its line 3, at the link, is line
        # 90 of the file, its line 5 is line 92.
        found = [each for each in piece.granules if each.offset >= first]
        shift = self._line - found[0].line if found and self._piece else 0
        start, known, shift_known, latest = self._start, self._known, self._shift, self._latest
        ends = [each.offset for each in found[1:]]
        ends.append(LAST_MICRO if piece.link is None else piece.link.offset)
        for (offset, line, weight, greatest, ties), end in zip(found, ends, strict=True) if found else ():
            if greatest >= known and (ties or greatest > known):
                shift_known = shift_known + ties if greatest == known else max(0, ties - 1)
                known = greatest
            if end <= start.offset:
                continue
            latest = max(latest, known + shift_known)
            if offset < start.offset:  # the granule contains the start
                offset, line = start.offset, start.line - shift
            self._granules.append((offset, line + shift, weight, known, shift_known, latest))
        self._known, self._shift, self._latest = known, shift_known, latest
        if piece.link is None:
            self._piece = None
        else:
            self._piece, self._link = piece.link.piece, piece.link.offset
            self._line = piece.link.line + shift
        return True

    def greatest(self) -> Micros | None:
        """The time up to which elements may be, to the end of the next granule; None where all are
        passed."""
        while self._at == len(self._granules):
            if not self._load():
                return None
        return self._granules[self._at][5]

    def pass_one(self) -> int:
        """Pass a granule; returns its weight."""
        _, _, weight, greatest, shift, _ = self._granules[self._at]
        self._before = greatest, shift
        self._at += 1
        return weight

    def position(self) -> InputPosition:
        """The position of the first granule that is not passed."""
        if self.greatest() is None:
            return InputPosition(END, 0, self._before[0])
        offset, line, *_ = self._granules[self._at]
        return InputPosition(offset, line, self._before[0], shift=self._before[1])

    def stop(self, time: Micros) -> int:
        """The offset where reading up to a time may stop."""
        if self._at > _PASSED:
            del self._granules[: self._at]
            self._stop -= self._at
            self._at = 0
        beyond = time + self._delay
        granules = self._granules
        stop = max(self._stop, self._at)
        while True:
            if stop == len(granules) and not self._load():
                break
            if (granules[stop - 1][3] if stop > self._at else self._before[0]) > beyond:
                break
            stop += 1
        self._stop = stop
        return granules[stop][0] if stop < len(granules) else END


def indexed_plan(
    read: ReadPiece, base: Offset, delays: Sequence[Micros], start: Offset, size: int, until: Micros = LAST_MICRO
) -> Iterator[Cut]:
    """Cuts of about `size` elements of ordinary length from an offset on, the last one at `until`
    (µs).

    `base` is the offset from which on the inputs are indexed. A cut never divides an instant.

    >>> from dotr.runtimes.spark.planning.granules import Granule
    >>> pieces = [Piece((Granule(0, 1, 2, 5), Granule(20, 3, 2, 4), Granule(40, 5, 2, 9)), None)]
    >>> for cut in indexed_plan(lambda number, piece: pieces[number], Offset.start(1), [0], Offset.start(1), 4):
    ...     print(cut.time, *cut.positions[0][:3], cut.stops, cut.elements)
    5 40 5 5 (-1,) 4
    4611686018427387904 -1 0 9 (-1,) 2
    """
    inputs = [
        _IndexedInput(partial(read, number), begin, position, delay)
        for number, (begin, position, delay) in enumerate(zip(base.positions, start.positions, delays, strict=True))
    ]
    waiting: list[tuple[Micros, int]] = []
    for number, each in enumerate(inputs):
        first = each.greatest()
        if first is not None:
            waiting.append((first, number))
    heapify(waiting)
    after = start.time
    while after < until:
        weight, time = 0, after
        while waiting and (greatest := waiting[0][0]) <= until:
            if weight >= size and greatest > time > after:
                break
            number = waiting[0][1]
            weight += inputs[number].pass_one()
            time = max(time, greatest)
            following = inputs[number].greatest()
            if following is None:
                heappop(waiting)
            else:
                heapreplace(waiting, (following, number))
        else:
            time = until
        yield Cut(time, tuple([each.position() for each in inputs]), tuple([each.stop(time) for each in inputs]), weight)
        after = time


def ending_at(cuts: Iterable[Cut], end: Offset) -> list[Cut]:
    """The cuts of a batch that is planned again, with the end positions `end` of the log in the
    place of those of the new plan; no position of a cut lies beyond them.

    >>> def cut(time, offset): return Cut(time, (InputPosition(offset, offset, 0),), (90,), 1)
    >>> found = ending_at([cut(3, 20), cut(5, 60), cut(7, 70)], Offset(7, (InputPosition(50, 50, 0),)))
    >>> [(each.time, each.positions[0].offset) for each in found]
    [(3, 20), (5, 50), (7, 50)]
    """
    found = []
    for cut in cuts:
        positions = [min(each, last, key=_place) for each, last in zip(cut.positions, end.positions, strict=True)]
        found.append(cut._replace(positions=tuple(positions)))
    return [*found[:-1], found[-1]._replace(positions=end.positions)] if found else found


def _place(position: InputPosition) -> int:
    return LAST_MICRO if position.offset == END else position.offset
