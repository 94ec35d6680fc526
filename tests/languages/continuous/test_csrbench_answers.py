"""CSRBench (Dell'Aglio and others, 2013): at the origins of continuous.md, section 13, answers
equal those recorded of three systems.

A recorded sequence of answers is written here as a digest: the answers of each report in order,
sorted, with numbers to nine places. CQELS outputs one answer at a time; its answers are grouped by
report. Windows are those of the paper (query 6: five seconds).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final

import pytest

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.languages.continuous.reading import compile_continuous
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element, FedGraph
from dotr.model.terms import Term, iri_text, is_iri, literal_parts
from dotr.model.time import Clock
from tests.oracle.cases import read_turtle
from tests.oracle.program import World
from tests.oracle.units import run_units
from tests.support.paths import DATA

FOLDER: Final = DATA / "csrbench"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="needs CSRBench's data in the folder that DOTR_DATA names")

STREAM: Final = "http://example.org/in"
SECONDS: Final = {1: (10, 10), 2: (1, 1), 3: (4, 4), 4: (4, 4), 5: (5, 1), 6: (5, 5), 7: (5, 5)}
RECORDED: Final = [
    ("csparql", 1, 9, "b667196fbfe02e20"),
    ("csparql", 2, 0, "2e99584188359258"),
    ("csparql", 4, 3, "14f6413f76a3518e"),
    ("csparql", 6, 4, "b838ba3d2fea9cf2"),
    ("csparql", 7, 4, "3876e42120f51aba"),
    ("sparqlstream", 1, 1, "f957904ed92b123c"),
    ("sparqlstream", 2, 0, "2e99584188359258"),
    ("sparqlstream", 3, 2, "39f7c7745f3b18f6"),
    ("sparqlstream", 5, 0, "c955b056d169b9b0"),
    ("sparqlstream", 6, 2, "39fa0b32d1e598e6"),
    ("sparqlstream", 7, 3, "8a8d24793f8ee169"),
    ("cqels", 1, 0, "2e99584188359258"),
    ("cqels", 2, 0, "2e99584188359258"),
    ("cqels", 3, 0, "69266ac22af41a91"),
    ("cqels", 5, 0, "2e99584188359258"),
]
Answers = list[tuple[int, Mapping[str, Term]]]


@cache
def elements() -> list[Element]:
    files = sorted((FOLDER / "data").glob("data_*.ttl"))
    return [Element(int(path.stem[5:]) * 1_000_000, read_turtle(path.read_text(), {})) for path in files]


def query(number: int, *, cqels: bool) -> str:
    text = re.sub(r"\\\s*\n|\\", " ", (FOLDER / "queries.properties").read_text())
    found = re.search(rf"query{number}\.booleanquery\s*=(.*)", text)
    assert found is not None
    line, where = found[1].split("WHERE", 1)
    prologue, line = line.split("SELECT", 1)
    width, step = SECONDS[number]
    relation, report = ("ISTREAM", "REPORT ON CONTENT CHANGE") if cqels else ("RSTREAM", "")
    window = f"FROM WINDOW ON <{STREAM}> [RANGE {width}s STEP {step}s {report}]"
    return f"{prologue} REGISTER {relation} answers AS SELECT {line} {window} WHERE {where}"


def by_engine(text: str, origin: int) -> Answers:
    engine = Engine(compile_program(ProgramSpec((Document("q.rspql", text),), origin=origin)), Clock())
    firings = [firing for each in elements() for firing in engine.step(each.time, [FedGraph.on(STREAM, each.triples)])[0]]
    firings += [firing for moment in engine.finish() for firing in moment]
    return [(firing.time, dict(firing.attributes)) for firing in firings]


def by_brute_force(text: str, origin: int) -> Answers:
    queries = compile_continuous([Document("q.rspql", text)], {}).checked().queries
    outputs = run_units(World(), queries, [(STREAM, each) for each in elements()], origin).outputs
    return [(output.time, output.attributes) for output in outputs]


def written(term: Term) -> str:
    if is_iri(term):
        return iri_text(term)
    lexical = literal_parts(term)[0]
    try:
        return str(round(float(lexical), 9))
    except ValueError:
        return lexical


def digest(answers: Iterable[tuple[int, Mapping[str, Term]]]) -> str:
    reports: dict[int, list[str]] = {}
    for time, answer in answers:
        reports.setdefault(time, []).append(" ".join(f"{name}={written(term)}" for name, term in sorted(answer.items())))
    return hashlib.sha256(json.dumps([sorted(reports[time]) for time in sorted(reports)]).encode()).hexdigest()[:16]


@pytest.mark.parametrize("evaluate", [by_engine, by_brute_force], ids=["engine", "brute force"])
@pytest.mark.parametrize(("system", "number", "second", "recorded"), RECORDED, ids=[f"{row[0]}-{row[1]}" for row in RECORDED])
def test_answers_equal_the_recorded_ones(
    system: str, number: int, second: int, recorded: str, evaluate: Callable[[str, int], Answers]
) -> None:
    assert digest(evaluate(query(number, cqels=system == "cqels"), second * 1_000_000)) == recorded
