"""Closure of a window maintained from step to step, against closing it from scratch.

    python -m benchmarks.horizons

One transitive predicate over triples in the order of their times, of three shapes:

    single    edges without neighbours: no conclusions
    chains    chains of three edges: six pairs each
    random    edges between random nodes, half an edge out of each: a conclusion expires with
              the older of its edges, so that a step changes twice its share of the window

`anew` is the fastest closure from scratch with an index to query: that of an instant, or that of a
background and its index; `bulk` is the latter without its index. All in CPU time; each number is the
median of its steps, in turns with closures from scratch.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import Final

from benchmarks.background import say
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import close_background, without_collection
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch
from dotr.model.places import Document
from dotr.model.terms import Triple
from dotr.syntax.datalog import parse_datalog
from dotr.temporal.horizons.closure import ClosureView, HorizonClosure

IN: Final = "<http://example.org/isIn>"
RULES: Final = parse_datalog(Document("is_in.dlog", f"[?x, {IN}, ?z] :- [?x, {IN}, ?y], [?y, {IN}, ?z] ."), {})
LIMIT: Final = 10**7
WINDOW: Final = 10_000
SHARES: Final = {0.001: 100.0, 0.01: 50.0, 0.025: 20.0, 0.13: 2.0, 0.5: 0.95, 1.0: 0.95}
"""The part of a window that a step replaces, with the goal."""


def node(number: int) -> str:
    return f"<http://example.org/n{number}>"


def chains(length: int) -> Iterator[Triple]:
    return ((node(number), IN, node(number + 1)) for number in count() if number % (length + 1) < length)


def random_edges(nodes: int) -> Iterator[Triple]:
    source = random.Random(16)
    while True:
        yield (node(source.randrange(nodes)), IN, node(source.randrange(nodes)))


SHAPES: Final[dict[str, Callable[[], Iterator[Triple]]]] = {
    "single": lambda: chains(1),
    "chains": lambda: chains(3),
    "random": lambda: random_edges(2 * WINDOW),
}


def cpu(run: Callable[[], object | None]) -> float:
    """Milliseconds of CPU, without collections of garbage.

    The time includes freeing the result, as a step frees the triples that expire.
    """
    gc.collect()
    with without_collection():
        begin = time.process_time()
        kept = run()
        del kept
        taken = time.process_time() - begin
    return taken * 1e3


def recomputed_windows(triples: Sequence[Triple]) -> tuple[float, float]:
    """Closure from scratch with an index, and in bulk without."""
    as_instant = cpu(lambda: Closer(RuleDispatch(RULES), TripleIndex(), LIMIT).close(triples))
    bulk = cpu(lambda: close_background(list(triples), RULES, LIMIT))
    return min(as_instant, cpu(lambda: close_background(list(triples), RULES, LIMIT).index())), bulk


class SlidingWindow:
    """A window over triples that arrive `size` at a time, and its closure."""

    def __init__(self, triples: Iterator[Triple], window: int, size: int, views: int = 0) -> None:
        self._triples = triples
        self._size = size
        self._steps = max(1, window // size)
        self._time = 0
        self.closure = HorizonClosure(RULES)
        self.views: list[ClosureView] = [self.closure.view() for _ in range(views)]
        self.content: list[Triple] = []
        while self._time < self._steps:
            self.step(self.next())

    def next(self) -> list[Triple]:
        """The triples of the next step."""
        return list(islice(self._triples, self._size))

    def step(self, triples: list[Triple]) -> None:
        """Moves the window by one step."""
        self.content = (self.content + triples)[-self._steps * self._size :]
        self.move(triples)

    def move_by(self, coming: Sequence[list[Triple]]) -> None:
        """Moves the closure by several steps."""
        for triples in coming:
            self.move(triples)

    def move(self, triples: list[Triple]) -> None:
        """Moves the closure by one step, and each view."""
        begin = self._time - self._steps + 1
        self.closure.insert_all(triples, begin, self._time)
        self._time += 1
        self.closure.advance(begin)
        for number, view in enumerate(self.views):
            view.advance(begin + (self._steps * number // len(self.views)))

    def timed_step(self, steps: int = 1) -> float:
        """Milliseconds of one of several steps."""
        coming = [self.next() for _ in range(steps)]
        taken = cpu(lambda: self.move_by(coming))
        self.content = [*self.content, *(triple for triples in coming for triple in triples)][-self._steps * self._size :]
        return taken / steps


def shares(shape: str) -> None:
    say(f"{shape}: a window of {WINDOW} triples")
    say("  change      facts    anew ms    bulk ms    step ms   anew/step       goal")
    for share, goal in SHARES.items():
        size = int(WINDOW * share)
        window = SlidingWindow(SHAPES[shape](), WINDOW, size)
        anew, bulk, steps = [], [], []
        for _ in range(5):
            with_index, without = recomputed_windows(window.content)
            anew.append(with_index)
            bulk.append(without)
            steps.append(window.timed_step(max(1, min(20, WINDOW // size // 5))))
        full, alone, step = (statistics.median(each) for each in (anew, bulk, steps))
        facts = len(window.closure.held.cells)
        say(f"  {share:6.1%} {facts:10d} {full:10.2f} {alone:10.2f} {step:10.3f} {full / step:11.1f} {goal:10.2f}")


def sizes() -> None:
    windows = [SlidingWindow(SHAPES["chains"](), size, 100) for size in (WINDOW, 10 * WINDOW)]
    times = [[window.timed_step(10) for window in windows] for _ in range(9)]
    small, large = (statistics.median(each) for each in zip(*times, strict=True))
    say(f"a step of 100 triples: {small:.3f} ms in 10⁴, {large:.3f} ms in 10⁵: {large / small:.2f} times (goal 1.5)")


def views() -> None:
    for share in (0.001, 0.01, 0.025):
        alone, together = (SlidingWindow(SHAPES["chains"](), WINDOW, int(WINDOW * share), number) for number in (0, 10))
        times = [(alone.timed_step(10), together.timed_step(10)) for _ in range(9)]
        one, ten = (statistics.median(each) for each in zip(*times, strict=True))
        say(f"ten views at {share:.1%}: {ten:.3f} ms a step, the longest alone {one:.3f} ms: {ten / one:.2f} times (goal 3)")


if __name__ == "__main__":
    for each in SHAPES:
        shares(each)
    sizes()
    views()
