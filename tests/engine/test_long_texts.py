"""Long chains of operands and deep nesting run, or are refused with a place."""

from __future__ import annotations

import pytest

from dotr.api.session import Session
from dotr.engine.program import compile_program
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.model.places import Document

HEAD = "PREFIX : <http://e/>\nrule R define E = [ dotr_id1 :x ?x ] from T = [ SELECT ?v { ?s :v ?v "
MANY = 1000


def session(rules: str, datalog: str = "") -> Session:
    documents = (Document("a.dlog", datalog),) if datalog else ()
    return Session(compile_program(ProgramSpec(rules=(Document("a.dotr", rules),), datalog=documents, prefixes={"": "http://e/"})))


def values(rules: str, datalog: str = "") -> list[str | None]:
    found = session(rules, datalog).advance(1, "@prefix : <http://e/> . :s :v 5 .")
    return [event.attributes.get("x", "").partition('"^^')[0][1:] or None for event in found]


CHAINS = [
    ("&&", "?v > -%d", "true"),
    ("||", "?v = %d", "true"),
    ("+", "?v - ?v + %d", str(sum(range(MANY)))),
    ("-", "?v * 0 + %d - %d", None),
    ("*", "(%d - %d + 1)", "1"),
]


@pytest.mark.parametrize(("operator", "operand", "result"), CHAINS, ids=[operator for operator, _, _ in CHAINS])
def test_thousand_operands_are_evaluated(operator: str, operand: str, result: str | None) -> None:
    chain = f" {operator} ".join(operand.replace("%d", str(i)) for i in range(MANY))
    of_event = chain.replace("?v", "T.?v")
    assigned = values(f"{HEAD} }} ] with E.?x = {of_event}")
    assert len(assigned) == 1
    assert result is None or assigned == [result]
    holds = ["5"] if assigned[0] not in ("0", "false", None) else []
    assert values(f"{HEAD} FILTER({chain}) }} ] with E.?x = T.?v") == holds
    assert values(f"{HEAD} }} ] if {of_event} with E.?x = T.?v") == holds
    derived = HEAD.replace(":v ?v", ":w ?v") + " } ] with E.?x = T.?v"
    assert values(derived, f":w[?s, ?v] :- :v[?s, ?v], FILTER({chain}) .") == holds


def test_thousand_arguments_and_members_are_evaluated() -> None:
    assert values(f"{HEAD} }} ] with E.?x = STRLEN(CONCAT({', '.join(['STR(T.?v)'] * MANY)}))") == [str(MANY)]
    assert values(f"{HEAD} }} ] with E.?x = COALESCE({', '.join(['1/0'] * MANY)}, T.?v)") == ["5"]
    assert values(f"{HEAD} }} ] with E.?x = T.?v IN ({', '.join(f'T.?v + {i}' for i in range(1, MANY))})") == ["false"]


@pytest.mark.parametrize("depth", [20, 60, 100, 120])
def test_nested_branches_are_evaluated(depth: int) -> None:
    nested = "IF(T.?v > 1, " * depth + "T.?v" + ", 2)" * depth
    assert values(f"{HEAD} }} ] with E.?x = {nested}") == ["5"]


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (f"{HEAD} FILTER({'(' * 200}?v{')' * 200}) }} ] with E.?x = T.?v", "Q117"),
        (f"{HEAD} FILTER({'?v + (' * 140}1{')' * 140}) }} ] with E.?x = T.?v", "Q117"),
        (f"{HEAD} {' '.join(f'BIND(?v + {i} AS ?w{i})' for i in range(1000))} }} ] with E.?x = T.?v", "Q117"),
        (f"{HEAD} {'{' * 200}{'}' * 200} }} ] with E.?x = T.?v", "Q117"),
        (f"{HEAD} . ?s {'(' * 200}:p{')' * 200} ?w }} ] with E.?x = T.?v", "Q117"),
    ],
)
def test_text_nested_too_deeply_is_refused(rules: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        session(rules)
    assert [problem.code for problem in refused.value.diagnostics] == [code]
    assert all(problem.span is not None for problem in refused.value.diagnostics)


def test_query_of_very_many_patterns_is_evaluated() -> None:
    assert values(f"{HEAD} . {' '.join(f'?s :v ?w{i} .' for i in range(150))} }} ] with E.?x = T.?v") == ["5"]
