"""CSRBench: seven continuous queries over weather stations, compared with an evaluation by brute force.

    python -m benchmarks.csrbench [--data FOLDER] [--origins N]

Source: Dell'Aglio and others, *On Correctness in RDF Stream Processor Benchmarking* (ISWC 2013). The
triples of `data_NN.ttl` are one element at second NN. Each query is evaluated in the form of C-SPARQL and
SPARQLstream (`configs/csrbench/windows.rspql`) and in that of CQELS (`changes.rspql`), at every origin
of its step. The brute force computes windows by the definition and queries pyoxigraph; it shares only
the text of the queries with dotr. Seconds are dotr's CPU.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyoxigraph import Literal, QuerySolutions, RdfFormat, Store, parse

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.terminal import print_stdout
from dotr.languages.continuous.unit import queries_among
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph
from dotr.model.terms import Triple
from dotr.model.time import Clock
from dotr.syntax.turtle.graphs import read_graph
from tests.support.paths import DATA, ROOT

QUERIES: Final = ROOT / "configs" / "csrbench"
_SECOND: Final = 1_000_000
_STATEMENT: Final = re.compile(
    r"REGISTER (?P<relation>\w+) (?P<label>\w+) AS (?P<select>SELECT .*?)\n"
    r"FROM WINDOW ON <weather> \[RANGE (?P<range>\d+)s(?: STEP (?P<step>\d+)s)?"
    r"(?P<change> REPORT ON CONTENT CHANGE)?\] (?P<where>WHERE \{.*?\}\n)",
    re.DOTALL,
)

Answers = dict[int, Counter[tuple[object, ...]]]
"""The solutions that each second's report gives."""


class BenchmarkQuery(NamedTuple):
    """A query of a file: its label, window and step in seconds, SPARQL, and CQELS's policy."""

    label: str
    range: int
    step: int
    sparql: str
    on_change: bool


def queries_of(file: Path) -> Iterator[BenchmarkQuery]:
    """The queries of a file."""
    text = file.read_text(encoding="utf-8")
    prefixes = "\n".join(line for line in text.splitlines() if line.startswith("PREFIX"))
    for found in _STATEMENT.finditer(text + "\n"):
        width = int(found["range"])
        sparql = f"{prefixes}\n{found['select']} {found['where']}"
        yield BenchmarkQuery(found["label"], width, int(found["step"] or width), sparql, found["change"] is not None)


def elements(folder: Path) -> dict[int, str]:
    """The text of each second's element."""
    return {int(file.stem.removeprefix("data_")): file.read_text(encoding="utf-8") for file in sorted(folder.glob("data_*.ttl"))}


def _row(values: Sequence[object]) -> tuple[object, ...]:
    """A solution in a form that can be compared: numbers as numbers."""
    return tuple(round(float(each.value), 9) if isinstance(each, Literal) else str(each) for each in values)


def by_brute_force(query: BenchmarkQuery, texts: dict[int, str], origin: int) -> Answers:
    """The answers of a query by the definition of the page."""
    quads = {second: list(parse(text.encode(), RdfFormat.TURTLE)) for second, text in texts.items()}
    last = max(quads)
    times = (
        sorted(quads)
        if query.on_change
        else [t for t in range(min(quads), last + query.range + query.step) if (t - origin) % query.step == 0]
    )
    answers: Answers = {}
    before: Counter[tuple[object, ...]] = Counter()
    reported: list[int] = []
    for now in times:
        close = now + (origin - now) % query.step
        held = [second for second in quads if close - query.range < second <= min(close, now)]
        if (held == reported) if query.on_change else not held:
            continue
        reported = held
        store = Store()
        store.extend(quad for second in held for quad in quads[second])
        found = store.query(query.sparql)
        assert isinstance(found, QuerySolutions)
        names = [variable.value for variable in found.variables]
        given = Counter(_row([solution[name] for name in names]) for solution in found)
        answers[now] = given - before if query.on_change else given
        before = given
    return {second: given for second, given in answers.items() if given}


def by_dotr(program: CompiledProgram, texts: dict[int, str], graphs: dict[int, tuple[Triple, ...]]) -> dict[str, Answers]:
    """The answers of dotr, by label."""
    engine = Engine(program, Clock())
    firings = [firing for second in sorted(texts) for firing in engine.step(second * _SECOND, [FedGraph.on("weather", graphs[second])])[0]]
    firings += [firing for moment in engine.finish() for firing in moment]
    answers: dict[str, Answers] = {}
    projections = {unit.name: list(unit.query.query.projection) for unit in queries_among(program.units)}
    for firing in firings:
        bound = dict(firing.attributes)
        values: list[object] = []
        for name in projections[firing.rule]:
            term = bound[name]
            values.append(Literal(term.partition('"')[2].partition('"')[0]) if term.startswith('"') else term)
        answers.setdefault(firing.rule, {}).setdefault(firing.time // _SECOND, Counter())[_row(values)] += 1
    return answers


def differences(folder: Path, most: int | None = None) -> Iterator[tuple[str, int, bool, int, float]]:
    """For each file, origin and query: its label, the origin, whether dotr and the brute force agree, the
    number of answers, and the seconds that dotr took for all queries. `most`: origins of each query.
    """
    texts = elements(folder)
    graphs = {second: read_graph(text, {}, 512) for second, text in texts.items()}
    for name in ("windows", "changes"):
        file = QUERIES / f"{name}.rspql"
        queries = list(queries_of(file))
        assert len(queries) == 7, "the seven queries of CSRBench"
        for origin in range(max(query.step for query in queries) if most is None else most):
            spec = ProgramSpec((Document(str(file), file.read_text(encoding="utf-8")),), origin=origin * _SECOND)
            program = compile_program(spec)
            begun = time.process_time()
            found = by_dotr(program, texts, graphs)
            seconds = time.process_time() - begun
            for query in queries:
                if origin < query.step:
                    expected = by_brute_force(query, texts, origin)
                    given = sum(sum(each.values()) for each in expected.values())
                    yield f"{query.label} ({name})", origin, found.get(query.label, {}) == expected, given, seconds


def main() -> None:
    """Print the number of queries that agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA / "csrbench" / "data")
    parser.add_argument("--origins", type=int)
    options = parser.parse_args()
    agreeing: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    seconds: dict[tuple[str, int], float] = {}
    for label, origin, agrees, given, taken in differences(options.data, options.origins):
        agreeing[label] += agrees
        origins[label] += 1
        answers[label] += given
        seconds[label.partition(" ")[2], origin] = taken
    for label in origins:
        print_stdout(f"{label:14} {agreeing[label]:3} of {origins[label]:3} origins as by brute force, {answers[label]:6,} answers")
    print_stdout(f"{sum(seconds.values()):.1f} s of CPU for {len(seconds)} runs of seven queries")


if __name__ == "__main__":
    main()
