"""Continuous queries against the goals of continuous.md, section 12, in one run.

    python -m benchmarks.windows            all rows, some minutes
    python -m benchmarks.windows --quick    without closures alone and CSRBench

Incremental maintenance against evaluation from scratch, in CPU time; each number is the median of steps in turns:

- closures of windows, and steps in small and large windows: `benchmarks.horizons`;
- answers: a window of 10⁴ triples of which 1 % changes at each report. A step is the whole
  work of the engine, from elements to events. Evaluation from scratch is the index of the window
  (there are no rules, so the index is the closure), the full evaluation of the query over it, and
  for ISTREAM and DSTREAM the comparison with the last answers; it makes no events;
- ten queries over one stream: `benchmarks.shared_windows`;
- a report of a window without a change: the whole work of the query;
- CSRBench: `benchmarks.csrbench`.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from typing import Final, NamedTuple

from benchmarks import horizons, shared_windows
from benchmarks.background import say
from benchmarks.horizons import WINDOW, cpu
from benchmarks.shared_windows import SECOND, STREAM
from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.limits import LIMITS
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.content_entailment import ContentCloser
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY
from dotr.instant.queries.window_operators import ReportGraph
from dotr.languages.continuous.evaluation.report import ReportEvaluator
from dotr.languages.continuous.evaluation.run import QueryRun
from dotr.languages.continuous.model import ContinuousQuery, RelationToStream
from dotr.languages.continuous.reading import compile_continuous
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph
from dotr.model.terms import XSD, Triple
from dotr.model.time import Clock
from dotr.temporal.matching.operator import Arrival

NAMESPACE: Final = "http://example.org/"
SIZE: Final = WINDOW // 100
"""Triples of one report: 1 % of the window."""

SEEN: Final = "WINDOW <w> { ?seen :by ?sensor . ?sensor :shows ?v }"
PLACED: Final = "WINDOW <w> { ?sensor :in ?room . ?sensor :shows ?v }"


class QueryParts(NamedTuple):
    """The parts of a query around its window."""

    form: str
    line: str
    where: str
    modifiers: str = ""
    goal: int | None = None

    def text(self, spec: str) -> str:
        """The query over a window."""
        window = f"FROM NAMED WINDOW <w> ON <{STREAM}> [{spec}]"
        return f"PREFIX : <{NAMESPACE}> REGISTER {self.form} <Q> AS {self.line} {window} WHERE {{ {self.where} }} {self.modifiers}"


QUERIES: Final[dict[str, QueryParts]] = {
    "ISTREAM of a join": QueryParts("ISTREAM", "SELECT ?seen ?v", SEEN, goal=20),
    "DSTREAM of a join": QueryParts("DSTREAM", "SELECT ?seen ?v", SEEN, goal=20),
    "RSTREAM of a join": QueryParts("RSTREAM", "SELECT ?seen ?v", SEEN),
    "AVG by group": QueryParts("RSTREAM", "SELECT ?room (AVG(?v) AS ?mean)", PLACED, "GROUP BY ?room", goal=20),
    "MAX by group, HAVING": QueryParts("ISTREAM", "SELECT ?room (MAX(?v) AS ?most)", PLACED, "GROUP BY ?room HAVING(COUNT(*) > 9)"),
    "a join with OPTIONAL": QueryParts("ISTREAM", "SELECT ?seen ?v", f"{SEEN} OPTIONAL {{ WINDOW <w> {{ ?sensor :off ?k }} }}"),
    "readings OPTIONAL rooms": QueryParts(
        "ISTREAM", "SELECT ?sensor ?v ?room", "WINDOW <w> { ?sensor :shows ?v } OPTIONAL { WINDOW <w> { ?sensor :in ?room } }"
    ),
    "readings MINUS rooms": QueryParts("ISTREAM", "SELECT ?sensor ?v", "WINDOW <w> { ?sensor :shows ?v MINUS { ?sensor :in ?room } }"),
    "readings NOT EXISTS room": QueryParts(
        "ISTREAM", "SELECT ?sensor ?v", "WINDOW <w> { ?sensor :shows ?v FILTER NOT EXISTS { ?sensor :in ?room } }"
    ),
    "a join with LIMIT 10": QueryParts("ISTREAM", "SELECT ?seen ?v", SEEN, "ORDER BY ?v LIMIT 10"),
}


def readings() -> Iterator[Triple]:
    """Readings of sensors, each seen once, in 50 rooms: half of the triples have a value."""
    for number in count():
        sensor = f"<{NAMESPACE}sensor{number}>"
        place = (f"<{NAMESPACE}seen{number}>", f"<{NAMESPACE}by>", sensor)
        yield place if number % 2 else (sensor, f"<{NAMESPACE}in>", f"<{NAMESPACE}room{number % 50}>")
        yield (sensor, f"<{NAMESPACE}shows>", f'"{number % 97}.25"^^<{XSD}decimal>')


def compiled(text: str) -> ContinuousQuery:
    return compile_continuous([Document("q.rspql", text)], {}).checked().queries[0]


class AnswersAnew:
    """The query evaluated in full over an index of a window, and compared with the last answers."""

    def __init__(self, query: ContinuousQuery) -> None:
        self._select = query.query
        self._relation = query.relation
        self._operator = AlgebraCompiler().compile(query.query)
        self._before: Counter[tuple[str | None, ...]] = Counter()

    def report(self, content: TripleIndex) -> int:
        """The number of rows of the report."""
        graph = ReportGraph(TripleIndex(), TripleIndex(), {"<w>": Graph(TripleIndex(), content)}, [])
        names = self._select.projection
        rows = [tuple([each.get(name) for name in names]) for each in self._operator.solutions(graph, EMPTY, EMPTY)]
        if self._relation is RelationToStream.RSTREAM:
            return len(rows)
        before, self._before = self._before, Counter(rows)
        given = self._before - before if self._relation is RelationToStream.ISTREAM else before - self._before
        return given.total()


def answers() -> None:
    """Prints the time of a step of each query, and of its evaluation in full."""
    say(f"answers over a window of {WINDOW} triples, 1 % a report")
    say("                              index ms   query ms    step ms  evaluating/step       goal")
    for name, parts in QUERIES.items():
        times = zip(*timed_steps(parts.text("RANGE 100s STEP 1s")), strict=True)
        index, alone, kept = (statistics.median(each) for each in times)
        goal = "" if parts.goal is None else f"{parts.goal:10}"
        say(f"  {name:24} {index:12.2f} {alone:10.2f} {kept:10.3f} {(index + alone) / kept:16.1f} {goal}".rstrip())


def timed_steps(text: str) -> Iterator[tuple[float, float, float]]:
    """Milliseconds of the index, of the query over it, and of a step, ten steps a time, of a full
    window.
    """
    anew = AnswersAnew(compiled(text))
    engine = Engine(compile_program(ProgramSpec((Document("q.rspql", text),))), Clock())
    triples, content = readings(), list[Triple]()
    for tens in range(19):
        graphs = [tuple(islice(triples, SIZE)) for _ in range(10)]
        content = [*content, *(triple for graph in graphs for triple in graph)][-WINDOW:]
        steps = [
            partial(engine.step, (tens * 10 + number + 1) * SECOND, [FedGraph.on(STREAM, graph)]) for number, graph in enumerate(graphs)
        ]
        taken = cpu(partial(_call_all, steps)) / len(steps)
        if tens > 10:
            yield cpu(partial(TripleIndex, content)), cpu(partial(anew.report, TripleIndex(content))), taken


def _call_all(steps: Sequence[Callable[[], object]]) -> None:
    for step in steps:
        step()


def unchanged() -> None:
    """Prints the time of a report of a window without a change."""
    for name in ("ISTREAM of a join", "AVG by group"):
        query = compiled(QUERIES[name].text("RANGE 1d STEP 1s REPORT PERIODIC 1s"))
        closer = ContentCloser(Knowledge.load([], []), (), LIMITS.triples)
        run = QueryRun(ReportEvaluator(query, closer, Clock(), LIMITS), 0)
        run.begin(SECOND)
        triples = readings()
        for second in range(1, 101):
            run.step(second * SECOND, {0: [_arrival(triples)]})
        reports = 1000
        taken = cpu(_reports(run, 101, reports)) / reports
        say(f"a report of {WINDOW} triples in which nothing changed, {name}: {taken * 1e3:.1f} µs (goal 50)")


def _arrival(triples: Iterator[Triple]) -> Arrival:
    return 0, tuple(term for triple in islice(triples, SIZE) for term in triple)


def _reports(run: QueryRun, first: int, number: int) -> Callable[[], object]:
    def reports() -> None:
        for second in range(first, first + number):
            run.step(second * SECOND, {})

    return reports


def main() -> None:
    """Print all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if not options.quick:
        for shape in horizons.SHAPES:
            horizons.shares(shape)
        horizons.sizes()
    answers()
    shared_windows.ten_queries()
    unchanged()
    if not options.quick:
        csrbench_rows()


def csrbench_rows() -> None:
    """Prints the number of queries of CSRBench that agree with the brute force, at one origin."""
    from benchmarks.csrbench import differences
    from tests.support.paths import DATA

    folder = DATA / "csrbench" / "data"
    if not folder.is_dir():
        say(f"CSRBench: {folder} is not there; DOTR_DATA names the folder of data sets")
        return
    wrong: Counter[str] = Counter()
    for label, _, agrees, _, _ in differences(folder, 1):
        wrong[label] += not agrees
    right = sum(not number for number in wrong.values())
    say(f"CSRBench: {right} of {len(wrong)} queries as by brute force at origin 0 (all: benchmarks.csrbench)")


if __name__ == "__main__":
    main()
