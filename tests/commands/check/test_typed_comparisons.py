"""Typed comparison gives equal results in queries, constraints between events and shared
thresholds."""

from __future__ import annotations

import pytest

from dotr.api.session import Session
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document

PREFIXES = "PREFIX : <http://e/>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"

COMPARED = [
    ('"25"', ">", "20", False),  # an error
    ('"25"', "=", "25", False),
    ("25", ">", "20", True),
    ('"025"^^xsd:integer', "=", "25", True),
    ('"025"', "=", '"25"', False),
    ('"025"', "<", '"25"', True),
    ("0.1", "=", "0.1000000000000000055511151231257827", False),
    ("0.3", "=", "0.30", True),
    ("0.1", "<", "0.1000000000000000055511151231257827", True),
    ('"NaN"^^xsd:double', "=", '"NaN"^^xsd:double', False),
    ('"NaN"^^xsd:double', ">=", "0", False),
    ("9007199254740993", ">", "9007199254740992", True),
    ("1e0", "=", "1", True),
    ('"2020-01-01T01:00:00+01:00"^^xsd:dateTime', "=", '"2020-01-01T00:00:00Z"^^xsd:dateTime', True),
    ('"2020-01-01T01:30:00+01:00"^^xsd:dateTime', ">", '"2020-01-01T00:00:00Z"^^xsd:dateTime', True),
    ('"2020-01-01T00:00:00"^^xsd:dateTime', "=", '"2020-01-01T00:00:00Z"^^xsd:dateTime', True),
    ('"2020-01-03T00:00:00"^^xsd:dateTime', ">", '"2020-01-01T00:00:00Z"^^xsd:dateTime', True),
    ('"a"@en', "=", '"a"@EN', True),
    ('"a"@en', "=", '"a"', False),
    ('"a"@en', "=", '"a"@de', False),
    ('"b"@en', ">", '"a"', False),
]


def fired(rules: str, value: str, *before: str) -> set[str]:
    session = Session(compile_program(ProgramSpec(rules=(Document("r.dotr", PREFIXES + rules),))))
    turtle = "@prefix : <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . "
    for time, graph in enumerate([*before, f":s :v {value} ."]):
        events = session.advance(time, turtle + graph)
    return {event.rule for event in events}


def rule(number: int, operator: str, constant: str) -> str:
    return f"rule R{number} define E = [ [] a :E ] from A = [ SELECT ?v WHERE {{ ?s :v ?v FILTER(?v {operator} {constant}) }} ]\n"


@pytest.mark.parametrize(("value", "operator", "constant", "holds"), COMPARED)
def test_query_and_constraint_compare_equally(value: str, operator: str, constant: str, holds: bool) -> None:
    assert fired(rule(1, operator, constant), value) == ({"R1"} if holds else set())
    between = (
        "rule R1 define E = [ [] a :E ] from A = [ SELECT ?v WHERE { ?s :v ?v } ] "
        f"and last B = [ SELECT ?w WHERE {{ ?s :w ?w FILTER(A.?v {operator} ?w) }} ] within 9 s from A"
    )
    assert fired(between, value, f":s :w {constant} .") == ({"R1"} if holds else set())


@pytest.mark.parametrize("value", sorted({value for value, *_ in COMPARED}))
def test_shared_thresholds_compare_equally(value: str) -> None:
    rules = "".join(rule(number, operator, constant) for number, (_, operator, constant, _) in enumerate(COMPARED))
    together = fired(rules, value)
    apart = [fired(rule(number, operator, constant), value) for number, (_, operator, constant, _) in enumerate(COMPARED)]
    assert together == set().union(*apart)
    assert together >= {f"R{number}" for number, (own, _, _, holds) in enumerate(COMPARED) if own == value and holds}
