"""LARS files on the horizon closure, with the rules and streams of Laser's experiments.

    python -m benchmarks.lars

Rules and streams are after Bazoobandi, Beck, Urbani, Laser (ISWC 2017), section 5: one rule with one
operator, 200 triples a point, windows of 1, 20 and 80 points.

    diamond   Q(?x, ?y) :- :p(?x, ?y) IN [n s]                        new triples at every point
    join      Q(?x, ?y, ?z) :- :p(?x, ?y) IN [n s], :q(?y, ?z) IN [n s]     a conclusion a triple
    box       Q(?x, ?y) :- :p(?x, ?y) ALWAYS IN [n s]                 the same triples at every point
    renewed   diamond and join with the same triples at every point

µs of CPU a triple, without parsing, after the window has filled; median of five stretches. Beside
them, in the same run, a naive evaluation of every point from its window (dictionaries and hash
joins, without state), and figures of Laser itself (it returns all atoms that hold; the operator
returns those that began and ended).
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from benchmarks.background import say
from benchmarks.horizons import cpu
from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.lars.closure.atoms import PointAtoms
from dotr.languages.lars.closure.maintained import LarsClosure
from dotr.languages.lars.closure.rules import rules_of_file
from dotr.languages.lars.reading import compile_lars
from dotr.model.places import Document
from dotr.model.terms import Term, Triple
from dotr.model.time import Clock, Unit

A_POINT: Final = 200
WINDOWS: Final = (1, 20, 80)
NAMESPACE: Final = "http://example.org/"
P: Final = f"<{NAMESPACE}p>"
Q: Final = f"<{NAMESPACE}q>"

LASER: Final = {
    "diamond": ("11 / 58 / 264", "11 / 24 / 99", "3 / 23 / 64 (3 / 10 / 29)"),
    "join": ("116 / 273 / 1093", "57 / 138 / 327", "30 / 97 / 215 (20 / 40 / 98)"),
    "box": ("13 / 28 / 104", "11 / 15 / 32", ""),
}
"""µs a triple for windows of 1 / 20 / 80 points: under CPython 2.7 and PyPy 7.3 on a machine three
to five times slower, and as measured before on a fast one (PyPy in brackets)."""


def node(kind: str, number: int) -> Term:
    return f"<{NAMESPACE}{kind}{number}>"


def new_triples() -> Iterator[list[Triple]]:
    """Triples that have not occurred before."""
    for k in count():
        yield [(node("x", k * A_POINT + n), P, node("y", n)) for n in range(A_POINT)]


def new_pairs() -> Iterator[list[Triple]]:
    """Two triples of each property meet in a node: four conclusions for four triples."""
    for k in count():
        found: list[Triple] = []
        for n in range(A_POINT // 4):
            middle = node("y", k * A_POINT + n)
            found += [(node("x", 2 * n + side), P, middle) for side in (0, 1)]
            found += [(middle, Q, node("z", 2 * n + side)) for side in (0, 1)]
        yield found


def same(triples: Iterator[list[Triple]]) -> Iterator[list[Triple]]:
    """The first triples, repeated."""
    first = next(triples)
    while True:
        yield list(first)


class Work(NamedTuple):
    """A rule, in which N stands for the window, its stream, and a naive evaluation of a window."""

    name: str
    rule: str
    stream: Callable[[], Iterator[list[Triple]]]
    naive: Callable[[Sequence[Sequence[Triple]]], object]


def naive_diamond(window: Sequence[Sequence[Triple]]) -> object:
    return {(s, o) for triples in window for s, p, o in triples if p == P}


def naive_box(window: Sequence[Sequence[Triple]]) -> object:
    return set.intersection(*({(s, o) for s, p, o in triples if p == P} for triples in window))


def naive_join(window: Sequence[Sequence[Triple]]) -> object:
    ends: dict[Term, set[Term]] = {}
    for triples in window:
        for s, p, o in triples:
            if p == Q:
                ends.setdefault(s, set()).add(o)
    return {(s, o, z) for triples in window for s, p, o in triples if p == P for z in ends.get(o, ())}


DIAMOND: Final = "Q(?x, ?y) :- :p(?x, ?y) IN [N s] . REPORT Q(?x, ?y) . REPORT ENDED Q(?x, ?y) AS Out ."
JOIN: Final = "Q(?x, ?y, ?z) :- :p(?x, ?y) IN [N s], :q(?y, ?z) IN [N s] . REPORT Q(?x, ?y, ?z) . REPORT ENDED Q(?x, ?y, ?z) AS Out ."
BOX: Final = "Q(?x, ?y) :- :p(?x, ?y) ALWAYS IN [N s] . REPORT Q(?x, ?y) . REPORT ENDED Q(?x, ?y) AS Out ."

WORKS: Final = (
    Work("diamond", DIAMOND, new_triples, naive_diamond),
    Work("join", JOIN, new_pairs, naive_join),
    Work("box", BOX, lambda: same(new_triples()), naive_box),
    Work("diamond, renewed", DIAMOND, lambda: same(new_triples()), naive_diamond),
    Work("join, renewed", JOIN, lambda: same(new_pairs()), naive_join),
)


class Line:
    """A file with its state, and the content of its window."""

    def __init__(self, work: Work, window: int) -> None:
        text = work.rule.replace("N s", f"{window - 1} s")  # [0] is one point
        (file,) = compile_lars([Document("laser.lars", text)], {"": NAMESPACE}).checked().files
        self.closure = LarsClosure(rules_of_file(file, TripleIndex(), Clock()), Unit.SECOND.value, Clock())
        self.window: list[list[Triple]] = []
        self._stream = work.stream()
        self._length = window
        self._point = 0
        self.closure.begin(0)

    def move(self, points: int) -> float:
        """µs a triple of some points."""
        coming = [next(self._stream) for _ in range(points)]
        self.window = [*self.window, *coming][-self._length :]

        def run() -> None:
            for triples in coming:
                self.closure.advance(self._point, PointAtoms(dict.fromkeys(triples, self._point), {}))
                self._point += 1

        return cpu(run) * 1e3 / (points * A_POINT)


def measured(work: Work, window: int) -> tuple[float, float]:
    """µs a triple: of the operator, and of the naive evaluation."""
    line = Line(work, window)
    line.move(window + 20)
    own, naive = [], []
    for _ in range(5):
        own.append(line.move(20))
        naive.append(cpu(lambda: [work.naive(line.window) for _ in range(3)]) * 1e3 / (3 * A_POINT))
    return statistics.median(own), statistics.median(naive)


def slashed(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def main() -> int:
    say(f"{A_POINT} triples a point, windows of {' / '.join(map(str, WINDOWS))} points; µs of CPU a triple")
    missed = 0
    figures: dict[str, list[float]] = {}
    for work in WORKS:
        pairs = [measured(work, window) for window in WINDOWS]
        own, naive = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        figures[work.name] = own
        growth = own[-1] / own[0]
        missed += growth > 2.5
        say(f"{work.name:17} {slashed(own):22} naive {slashed(naive):24} at 80 points {growth:.2f} times that at 1 (goal 2.5)")
        if work.name in LASER:
            cpython, pypy, before = LASER[work.name]
            say(f"{'':17} Laser: CPython 2.7 {cpython}; PyPy {pypy}{'; on a fast machine ' + before if before else ''}")
    for name in ("diamond", "join"):
        renewed = [new / old for new, old in zip(figures[f"{name}, renewed"], figures[name], strict=True)]
        missed += max(renewed) > 1
        say(f"{name}: renewed against new {slashed(renewed)} (goal 1)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
