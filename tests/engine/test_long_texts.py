"""Long chains of operands and deep nesting run, or are refused with a place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from dotr.api.session import Session
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.languages.programs import compile_program
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


# --- long programs: the work for twice the length is about twice as much ---

RULES = "PREFIX : <http://e/>\nquery E0 = [ SELECT ?v { ?s :v ?v } ]\n"
RULE = (
    "rule R%d define E%d = [ dotr_id1 :x ?v ] from E%d as A and last E0 as B%d [ FILTER(?v = A.?v) ] within 5 s from A with E%d.?v = A.?v\n"
)
STREAM = "REGISTER STREAM E%d AS CONSTRUCT { ?x :r ?v } WHERE EVENT E%d(?x, ?v)\n"
STREAMS = "PREFIX : <http://e/>\nREGISTER STREAM E0 AS CONSTRUCT { ?x :r ?v } WHERE { ?x :v ?v }\n"
RSPQL = "PREFIX : <http://e/>\n"
QUERY = (
    "REGISTER RSTREAM <E%d> AS CONSTRUCT { ?s :v ?v } FROM NAMED WINDOW <w> ON %s [RANGE 4s STEP 2s] WHERE { WINDOW <w> { ?s :v ?v } }\n"
)
LARS = "PREFIX : <http://e/>\nE0(?x) :- :p(?x, ?v) IN [3 s] .\n"


def _rules(n: int) -> Document:
    return Document("a.dotr", RULES + "".join(RULE % (i, i, i - 1, i, i) for i in range(1, n)))


def _streams(n: int) -> Document:
    return Document("a.epsparql", STREAMS + "".join(STREAM % (i, i - 1) for i in range(1, n)))


def _queries(n: int) -> Document:
    return Document("a.rspql", RSPQL + "".join(QUERY % (i, f"<E{i - 1}>" if i else ":in") for i in range(n)))


def _lars(n: int) -> Document:
    return Document("a.lars", LARS + "".join(f"E{i}(?x) :- E{i - 1}(?x) IN [3 s] .\n" for i in range(1, n)) + f"REPORT E{n - 1}(?x) .")


def _reports(n: int) -> Document:
    return Document("a.lars", LARS + "".join(f"E{i}(?x) :- :p(?x, ?v) IN [{i} s] . REPORT E{i}(?x) .\n" for i in range(1, n)))


def _calls(document: Document) -> int:
    """The number of calls of Python functions that compiling a document takes."""
    count = 0

    def called(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        compile_program(ProgramSpec(rules=(document,), prefixes={"": "http://e/"}))
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("text", [_rules, _streams, _queries, _lars, _reports])
def test_chain_is_compiled_in_linear_work(text: Callable[[int], Document]) -> None:
    _calls(text(3))  # imports and caches
    short, middle, long = (_calls(text(n)) for n in (20, 60, 140))
    assert long - middle < 2.4 * (middle - short)


@pytest.mark.parametrize("length", [257, 1000])
def test_long_path_is_refused_with_a_place(length: int) -> None:
    refused_with("Q117", f"{HEAD} . ?s {'/'.join([':p'] * length)} ?w }} ] with E.?x = T.?v")


def test_path_of_256_steps_is_evaluated() -> None:
    found = session(f"{HEAD} . ?s {'/'.join([':p'] * 256)} ?w }} ] with E.?x = T.?v").advance(
        1, "@prefix : <http://e/> . :s :v 5 ; :p :s ."
    )
    assert len(found) == 1


JOINED = {
    "triples": lambda n: " ".join(f"?s :p{i} ?w{i} ." for i in range(n)),
    "objects": lambda n: "?s :p " + ", ".join(f"?w{i}" for i in range(n)),
    "collection": lambda n: "?s :p (" + " ".join(["1"] * (n // 2 + 1)) + ")",
    "groups": lambda n: " ".join("{ " + " ".join(f"?s :p{i} ?w{i} ." for i in range(g, g + 50)) + " }" for g in range(0, n, 50)),
    "exists": lambda n: "FILTER EXISTS { " + " ".join(f"?s :p{i} ?w{i} ." for i in range(n)) + " }",
}


@pytest.mark.parametrize("form", sorted(JOINED))
@pytest.mark.parametrize("length", [550])
def test_join_of_very_many_triples_is_refused_with_a_place(form: str, length: int) -> None:
    refused_with("Q117", f"{HEAD} . {JOINED[form](length)} }} ] with E.?x = T.?v")


def test_join_of_500_triples_is_evaluated() -> None:
    found = session(f"{HEAD} . {JOINED['triples'](500)} }} ] with E.?x = T.?v")
    assert len(found.advance(1, f"@prefix : <http://e/> . :s :v 5 . {' '.join(f':s :p{i} 1 .' for i in range(500))}")) == 1


@pytest.mark.parametrize(("opening", "closing"), ["()", "[]", "{}"])
@pytest.mark.parametrize("depth", [151, 30_000])
def test_brackets_of_epsparql_are_refused_at_once(opening: str, closing: str, depth: int) -> None:
    text = f"PREFIX : <http://e/>\nREGISTER QUERY Q AS SELECT * WHERE {{ ?x :p {opening * depth}{closing * depth} }}"
    refused_with("Q117", text, "a.epsparql")


BODIES = {
    "variables": lambda n: ", ".join(f":p{i}[?x{i}, ?x{i + 1}]" for i in range(n)),
    "atoms": lambda n: ", ".join(f":p{i}[?x0, ?x1]" for i in range(n)),
}


@pytest.mark.parametrize("form", sorted(BODIES))
@pytest.mark.parametrize("length", [129, 3000])
def test_long_body_is_refused_with_a_place(form: str, length: int) -> None:
    body = BODIES[form](length)
    spec = ProgramSpec(datalog=(Document("a.dlog", f"@prefix : <http://e/> .\n:q[?x0, ?x1] :- {body} ."),))
    with pytest.raises(Refused) as refused:
        compile_program(spec)
    assert {(problem.code, problem.span is None) for problem in refused.value.diagnostics} == {("K309", False)}
    atoms = body.replace("[", "(").replace("]", ")")
    with pytest.raises(Refused) as refused:
        compile_program(ProgramSpec(rules=(Document("a.lars", f"PREFIX : <http://e/>\nQ(?x0) :- {atoms} .\nREPORT Q(?x) ."),)))
    assert {(problem.code, problem.span is None) for problem in refused.value.diagnostics} == {("K309", False)}


def refused_with(code: str, text: str, name: str = "a.dotr") -> None:
    with pytest.raises(Refused) as refused:
        compile_program(ProgramSpec(rules=(Document(name, text),), prefixes={"": "http://e/"}))
    assert [problem.code for problem in refused.value.diagnostics] == [code]
    assert all(problem.span is not None and problem.hint for problem in refused.value.diagnostics)
