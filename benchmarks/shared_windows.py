"""Ten continuous queries over one stream and level, against the longest alone, through the engine.

Their windows have RANGE 1 to 10 min and close every 10 s; each second brings some links of a
transitive property. Each query has the answers of one node only, so that the windows dominate the cost.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from benchmarks.background import say
from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph
from dotr.model.terms import Triple
from dotr.model.time import Clock

SECOND: Final = 1_000_000
STREAM: Final = "http://example.org/s"
IN: Final = "<http://example.org/isIn>"
RULES: Final = f"[?x, {IN}, ?z] :- [?x, {IN}, ?y], [?y, {IN}, ?z] ."
PER_SECOND: Final = 10


def query(minutes: int, pattern: str, form: str = "ISTREAM", step: int = 10) -> str:
    """A query with a window of some minutes."""
    window = f"FROM NAMED WINDOW <w> ON <{STREAM}> [RANGE {minutes}m STEP {step}s]"
    return f"REGISTER {form} <Q{minutes}> AS SELECT * {window} WHERE {{ WINDOW <w> {{ {pattern} }} }}"


def engine_of(queries: Sequence[str], datalog: str = RULES) -> Engine:
    """An engine over queries."""
    spec = ProgramSpec((Document("q.rspql", "\n".join(queries)),), (Document("k.dlog", datalog),) if datalog else (), ())
    return Engine(compile_program(spec), Clock())


class EngineRun:
    """An engine that receives some triples each second."""

    def __init__(self, engine: Engine, triples: Iterator[Triple], size: int = PER_SECOND) -> None:
        self.engine = engine
        self._triples = triples
        self._size = size
        self._second = 0

    def seconds(self, number: int) -> Callable[[], object]:
        """The prepared steps of the next seconds."""
        graphs = [[FedGraph.on(STREAM, tuple(islice(self._triples, self._size)))] for _ in range(number)]
        begin, self._second = self._second, self._second + number

        def run() -> None:
            for second, each in enumerate(graphs, begin + 1):
                self.engine.step(second * SECOND, each)

        return run


def ten_queries() -> None:
    """Prints the time of ten queries, and of the longest alone."""
    from benchmarks.horizons import chains, cpu

    pattern = f"<http://example.org/n1> {IN} ?y"
    everyone = EngineRun(engine_of([query(minutes, pattern) for minutes in range(1, 11)]), chains(3))
    longest = EngineRun(engine_of([query(10, pattern)]), chains(3))
    for each in (everyone, longest):
        each.seconds(660)()
    times = [(cpu(everyone.seconds(30)), cpu(longest.seconds(30))) for _ in range(9)]
    ten, one = (statistics.median(each) / 30 for each in zip(*times, strict=True))
    say(
        f"ten queries with RANGE 1 to 10 min: {ten:.3f} ms a second of {PER_SECOND} triples, the longest alone {one:.3f} ms: "
        f"{ten / one:.2f} times (goal 3)"
    )


if __name__ == "__main__":
    ten_queries()
