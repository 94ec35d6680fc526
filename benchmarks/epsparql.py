"""EP-SPARQL against dotr's own rules, from text to event, in CPU time and as ratios of one run.

    python -m benchmarks.epsparql [NAME]…

Each row runs two programs, or one program on two streams, in turns, each several times; a figure is
the least time of its runs, an element at a time through both stages in process. `goal`: for
throughputs the least ratio of the second to the first, else the greatest ratio of costs.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.background import say
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.time import Clock, Micros
from dotr.syntax.turtle.graphs import read_turtle

SECOND: Final[Micros] = 1_000_000
PREFIXES: Final = "PREFIX : <http://e/>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
RUNS: Final = 5
ELEMENTS: Final = 12_000

INTEGER: Final = "^^<http://www.w3.org/2001/XMLSchema#integer>"

Text = tuple[Micros, str]


@dataclass(frozen=True)
class Side:
    """A program, by its rules and units, and its stream."""

    rules: str
    units: str
    stream: Callable[[], Iterator[Text]]

    def compiled(self) -> CompiledProgram:
        documents = [Document("r.dotr", PREFIXES + self.rules)] if self.rules else []
        documents += [Document("q.epsparql", PREFIXES + self.units)] if self.units else []
        return compile_program(ProgramSpec(tuple(documents)))


@dataclass(frozen=True)
class Row:
    """A figure: the measure, what is measured, the goal, and whether a lower ratio is better."""

    name: str
    base: Side
    measured: Side
    goal: float
    is_cost: bool = False
    tail: float = 1.0
    """The last part of the stream that is measured."""


def run(side: Side, program: CompiledProgram, tail: float) -> tuple[float, int]:
    """µs of CPU an element, and the number of events."""
    stream = list(side.stream())
    engine = Engine(program, Clock())
    first = int(len(stream) * (1 - tail))
    events = 0
    gc.collect()
    begun = time.process_time()
    for number, (at, text) in enumerate(stream):
        if number == first:
            begun, events = time.process_time(), 0
        firings, _ = engine.step(at, [read_turtle(text, text)])
        events += len(firings)
    return (time.process_time() - begun) / (len(stream) - first) * 1e6, events


def measure(row: Row) -> None:
    programs = row.base.compiled(), row.measured.compiled()
    best = [float("inf")] * 2
    events = [0, 0]
    for _ in range(RUNS):
        for number, side in enumerate((row.base, row.measured)):
            cost, events[number] = run(side, programs[number], row.tail)
            best[number] = min(best[number], cost)
    ratio = best[1] / best[0] if row.is_cost else best[0] / best[1]
    verdict = "met" if (ratio <= row.goal if row.is_cost else ratio >= row.goal) else "MISSED"
    sign = "≤" if row.is_cost else "≥"
    figures = [f"{cost:7.2f} µs {count:6} events" for cost, count in zip(best, events, strict=True)]
    say(f"{row.name:49} {figures[0]}  {figures[1]}  {ratio:5.2f}  goal {sign} {row.goal}  {verdict}")


# --- streams: texts of one triple, in N-Triples ---


def keyed(keys: int, step: Micros, predicates: Sequence[str] = "ab", elements: int = ELEMENTS) -> Callable[[], Iterator[Text]]:
    """Elements `:k17 :a 5`, the predicates in turn for each key, every key once a round."""

    def stream() -> Iterator[Text]:
        source = random.Random(7)
        for number in range(elements):
            predicate = predicates[number // keys % len(predicates)]
            value = source.randrange(100)
            yield number * step, f'<http://e/k{number % keys}> <http://e/{predicate}> "{value}"{INTEGER} .'

    return stream


def prices(keys: int, step: Micros) -> Callable[[], Iterator[Text]]:
    """Prices of some companies, each every `keys * step` µs, between 50 and 150."""

    def stream() -> Iterator[Text]:
        source = random.Random(7)
        for number in range(ELEMENTS):
            yield number * step, f'<http://e/k{number % keys}> <http://e/price> "{source.randrange(50, 150)}"{INTEGER} .'

    return stream


def running(rounds: int) -> Callable[[], Iterator[Text]]:
    """The stream of example 7: the seed, then prices, of which the last 200 rounds are measured."""

    def stream() -> Iterator[Text]:
        yield 0, f'<http://e/acc> <http://e/n> "0"{INTEGER} . <http://e/acc> <http://e/sum> "0"{INTEGER} .'
        for number in range(1, rounds + 1):
            yield number * SECOND, f'<http://e/a> <http://e/price> "{number % 10}"{INTEGER} .'

    return stream


def unit(where: str, label: str = "Q") -> str:
    return f"REGISTER QUERY {label} AS SELECT ?c WHERE {where}\n"


def rule(clauses: str, anchor: str = "B = [ SELECT ?c ?y { ?c :b ?y } ]", of: str = "B") -> str:
    return f"define Q = [ [] :c ?c ] from {anchor} {clauses} with Q.?c = {of}.?c"


A, B, C = "{ ?c :a ?x }", "{ ?c :b ?y }", "{ ?c :d ?z }"
LATEST: Final = "A = [ SELECT ?c ?x { ?c :a ?x FILTER(?c = B.?c) } ] within 10 s from B"
FALL: Final = """{ ?c :price ?p } SEQ { ?c :price ?q } SEQ { ?c :price ?r }
    FILTER(?q < ?p * 0.7 && ?r > ?p * 1.05) WITHIN 30 s"""
FALL_RULE: Final = """query P = [ SELECT ?c ?p { ?c :price ?p } ]
    define Q = [ [] :c ?c ] from P as R
    and each P as M [ FILTER(?c = R.?c) ] within 30 s from R
    and each P as F [ FILTER(?c = R.?c && M.?p < ?p * 0.7 && R.?p > ?p * 1.05 && time(R) - time(F) <= 30) ] within 30 s from M
    with Q.?c = R.?c"""
PAIRED: Final = keyed(10, SECOND // 2)
TRIPLED: Final = keyed(10, SECOND // 4, "abd")
SEQUENCE: Final = unit(f"{A} SEQ {B} WITHIN 10 s")
SUM: Final = """REGISTER STREAM Sum AS CONSTRUCT { [] :n ?m ; :sum ?t } WHERE { ?x :n ?k ; :sum ?s } SEQ { :a :price ?p }
    BIND(?k + 1 AS ?m) BIND(?s + ?p AS ?t) WITHIN PT1H POLICY RECENT"""
OPTIONAL: Final = """{ ?c :a ?x FILTER(getDURATION() <= "PT10S"^^xsd:duration) } OPTIONALSEQ { ?c :b ?y }"""
IDLE: Final = "".join(unit(f"{{ ?c :i{number} ?x }} SEQ {{ ?c :j{number} ?y }} WITHIN 10 s", f"Idle{number}") for number in range(100))

ROWS: Final[Sequence[Row]] = (
    Row("sequence: SEQ against each", Side(rule(f"and each {LATEST}"), "", PAIRED), Side("", SEQUENCE, PAIRED), 0.9),
    Row(
        "sequence: RECENT against last, consuming",
        Side(rule(f"and last {LATEST}") + " consuming A", "", PAIRED),
        Side("", unit(f"{A} SEQ {B} WITHIN 10 s POLICY RECENT"), PAIRED),
        0.8,
    ),
    Row(
        "sequence: CHRONOLOGICAL against first, consuming",
        Side(rule(f"and first {LATEST}") + " consuming A", "", PAIRED),
        Side("", unit(f"{A} SEQ {B} WITHIN 10 s POLICY CHRONOLOGICAL"), PAIRED),
        0.8,
    ),
    Row(
        "prices: the paper's (1) against two each",
        Side(FALL_RULE, "", prices(10, SECOND)),
        Side("", unit(FALL), prices(10, SECOND)),
        0.9,
    ),
    Row("optional: OPTIONALSEQ with F against SEQ", Side("", SEQUENCE, PAIRED), Side("", unit(OPTIONAL), PAIRED), 0.7),
    Row(
        "tree: A SEQ {B SEQ C} against A SEQ B SEQ C",
        Side("", unit(f"{A} SEQ {B} SEQ {C} WITHIN 10 s"), TRIPLED),
        Side("", unit(f"{A} SEQ {{ {B} SEQ {C} }} WITHIN 10 s"), TRIPLED),
        0.6,
    ),
    Row(
        "keys: 10,000 against 10",
        Side("", SEQUENCE, keyed(10, SECOND // 2, elements=40_000)),
        Side("", SEQUENCE, keyed(10_000, SECOND // 2000, elements=40_000)),
        1.3,
        is_cost=True,
        tail=0.5,
    ),
    Row(
        "bound: 1,000 s against 10 s",
        Side("", SEQUENCE, PAIRED),
        Side("", unit(f"{A} SEQ {B} WITHIN 1000 s"), keyed(1000, SECOND // 2)),
        1.3,
        is_cost=True,
        tail=0.5,
    ),
    Row(
        "sum: example 7 after 1,000 rounds against 10",
        Side("", SUM, running(210)),
        Side("", SUM, running(1_200)),
        1.5,
        is_cost=True,
        tail=1 / 6,
    ),
    Row("idle: beside 100 idle units", Side("", SEQUENCE, PAIRED), Side("", SEQUENCE + IDLE, PAIRED), 1.1, is_cost=True),
)


def main(names: Sequence[str]) -> None:
    """Print the rows whose name begins with one of the given names; all rows without names."""
    for row in ROWS:
        if not names or any(row.name.startswith(name) for name in names):
            measure(row)


if __name__ == "__main__":
    main(sys.argv[1:])
