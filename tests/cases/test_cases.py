"""Every case of `tests/cases` by the engine in this process, and the index of what they show."""

from __future__ import annotations

from functools import cache

import pytest
import yaml

from dotr import Program
from dotr.engine.program import CompiledProgram
from tests.oracle.cases import Case, CaseFile, difference, read_folder
from tests.support.paths import TESTS
from tests.support.running import run_engine

pytestmark = pytest.mark.core

FOLDER = TESTS / "cases"
INDEX: dict[str, dict[str, list[str]]] = yaml.safe_load((TESTS / "constructs.yaml").read_text())
FILES = read_folder(FOLDER)

CONSTRUCTS = (
    # semantics.md, section 7
    "the paper's Rule R",
    "followed by",
    "two rooms",
    # section 1
    "several elements in an instant",
    "repeated element",
    "blank nodes local to an element",
    "empty graph",
    "stream list in any order",
    "date-times",
    "unit of time",
    # section 2
    "instants do not mix",
    "no entailment",
    "RDFS",
    "OWL 2 RL",
    "Datalog, the paper's notation",
    "Datalog, RDFox's notation",
    "Datalog recursion",
    "Datalog FILTER",
    "Datalog BIND",
    "Datalog with two heads",
    "Datalog with a variable predicate",
    "Datalog NOT",
    "Datalog AGGREGATE",
    "term equality in queries",
    # section 3
    "facts before constraints",
    "multiplicity",
    "DISTINCT",
    "static facts",
    "non-monotonic query",
    "OPTIONAL",
    "UNION",
    "VALUES",
    "BIND",
    "FILTER",
    "base direction",
    "computed column",
    "MINUS",
    "EXISTS",
    "property path",
    "GROUP BY",
    "ORDER BY and LIMIT",
    "sub-query",
    "shared query",
    "shared query with M.?v",
    "inline label hides a shared one",
    "a rule's own labels",
    "several rule files",
    # section 4: clauses
    "each",
    "last",
    "first",
    "within D",
    "closed interval",
    "open interval",
    "half-open interval",
    "same instant",
    "xsd:duration",
    "window from a clause's label",
    "two clauses from the anchor",
    "constraint before selection",
    "selection is not revisited",
    "no event in two roles",
    "also",
    "before",
    "ties",
    "ties by hidden attributes",
    "value equality between labels",
    "constraint <",
    "constraint !=",
    "constraint ||",
    "as, with further filters",
    "hidden attribute",
    "last n",
    "first n",
    "not within",
    "not between",
    "aggregates",
    "order statistics",
    "aggregate between",
    "aggregate in a later constraint",
    # section 4: conditions, consumption, events
    "if",
    "error logic",
    "exact decimals",
    "time(L)",
    "elapsed",
    "consuming",
    "consuming, simultaneous anchors",
    "consuming, all bindings of an anchor first",
    "consuming two labels",
    "delay by a value",
    "delay by a value, of 0",
    "once",
    "once, simultaneous anchors",
    "once, branches",
    "consumption is a rule's own",
    "consuming an aggregate",
    "recursion in the past",
    "rule without a key",
    "rule over a rule",
    "rule over a rule over a rule at one instant",
    "rules over rules under several keys",
    "event of two rules",
    "internal event",
    # timers
    "every",
    "every, for each answer of the background",
    "delayed by",
    "delayed event of a rule",
    # section 5
    "with",
    "canonical computed values",
    "unbound assignment",
    "fresh names",
    "blank nodes in a template",
    "lists in a template",
    "Turtle abbreviations in a template",
    "dropped triples",
    "event without triples",
    "blank node of the stream in the output",
)


def params(files: dict[str, CaseFile]) -> list[object]:
    return [pytest.param(file, case, id=f"{name}: {case.name}") for name, file in files.items() for case in file.cases]


@cache
def program_of(file: CaseFile) -> CompiledProgram:
    """The program of a file: compiled once, since a run changes nothing of it."""
    return Program.load(file.rules, file.graphs, file.datalog, entailment=file.entailment, prefixes=file.prefixes, unit=file.unit)


def run_case(file: CaseFile, case: Case) -> None:
    program = program_of(file)
    result = run_engine(program, case.elements, case.clock)
    assert case.expect is None or difference(case.expect, case.compared(program.rules.rules, result.outputs)) == ""
    assert case.facts is None or difference(case.facts, result.facts) == ""


@pytest.mark.parametrize(("file", "case"), params(FILES))
def test_case(file: CaseFile, case: Case) -> None:
    run_case(file, case)


def test_every_construct_has_a_case() -> None:
    shown = {construct for cases in INDEX.values() for named in cases.values() for construct in named}
    assert shown == set(CONSTRUCTS)


def test_every_case_shows_a_construct() -> None:
    indexed = {(file, case) for file, cases in INDEX.items() for case, named in cases.items() if named}
    assert indexed == {(name, case.name) for name, file in FILES.items() for case in file.cases}
