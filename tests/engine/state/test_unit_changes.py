"""The fate of the state of units of several languages when a program changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.state.migration import state_change
from dotr.engine.state.schema import KnowledgeDigests, StateSchema, state_schema
from dotr.languages.programs import compile_program
from dotr.model.places import Document

pytestmark = pytest.mark.core

PREFIX = "PREFIX : <http://e/>\n"
KNOWN = KnowledgeDigests("k", "k")
FILES = {
    "q.rspql": "REGISTER RSTREAM Seen AS CONSTRUCT { ?x a :Seen } FROM WINDOW ON <s> [RANGE 9s] { ?x :v ?v }\n"
    "REGISTER RSTREAM Many AS SELECT (COUNT(*) AS ?n) FROM WINDOW ON <Seen> [RANGE 9s] { ?x a :Seen }\n"
    "REGISTER RSTREAM Odd AS SELECT ?x FROM NAMED WINDOW <w> ON <Pair> [ELEMENTS 4] { WINDOW <w> { ?x :of ?y } }\n",
    "r.dotr": "query R = [ SELECT ?x ?v { ?x :v ?v } ]\n"
    "rule Pair define Pair = [ [] :of ?x ] from R and last R as Old [ FILTER(?x = R.?x) ] within 9 s from R with Pair.?x = R.?x\n",
    "a.lars": "Hot(?x) :- :v(?x, ?v) IN [9 s], FILTER(?v > 3) .\nREPORT Hot(?x) .\n",
    "e.epsparql": "REGISTER QUERY Up AS SELECT ?x WHERE { ?x :v ?v } SEQ { ?x :v ?w } FILTER(?w > ?v) WITHIN 9 s\n"
    "REGISTER QUERY Twice AS SELECT ?x WHERE EVENT Up(?x) SEQ EVENT Up(?x) WITHIN 9 s POLICY RECENT\n",
}


def program(**changes: str) -> CompiledProgram:
    files = {**FILES, **{name.replace("_", "."): text for name, text in changes.items()}}
    return compile_program(ProgramSpec(tuple(Document(name, PREFIX + text) for name, text in files.items())))


def fates(before: CompiledProgram, after: CompiledProgram) -> dict[str, str]:
    change = state_change(state_schema(before, knowledge="k"), after, 100_000_000, KNOWN)
    return {each.rule: str(each).partition(each.rule)[2].removeprefix(" ") for each in change.verdicts}


KEPT = "keeps its state"


def test_comments_order_and_spaces_keep_the_state() -> None:
    queries = "# counted\n".join(reversed(FILES["q.rspql"].splitlines(keepends=True)))
    lars = "# hot\n" + FILES["a.lars"].replace(" IN ", "\n  IN ").replace("REPORT Hot(?x)", "REPORT  NEW Hot(?x)")
    units = "# up\n" + FILES["e.epsparql"].replace("FILTER(?w > ?v)", "FILTER( ?w  >  ?v )")
    before, after = program(), program(q_rspql=queries, a_lars=lars, e_epsparql=units)
    assert set(fates(before, after).values()) == {KEPT}
    assert not state_change(state_schema(before, knowledge="k"), after, 100, KNOWN).moves


def test_changed_unit_starts_empty_and_its_readers_keep_what_it_made() -> None:
    queries = FILES["q.rspql"].replace("CONSTRUCT { ?x a :Seen }", "CONSTRUCT { ?x a :Seen ; :again true }")
    found = fates(program(), program(q_rspql=queries))
    assert found.pop("Seen") == "starts empty: it has changed"
    assert set(found.values()) == {KEPT}


def test_query_that_reads_a_changed_rule_keeps_its_state() -> None:
    found = fates(program(), program(r_dotr=FILES["r.dotr"].replace("within 9 s", "within 8 s")))
    assert found.pop("Pair").endswith("Old starts empty: its window has changed")
    assert set(found.values()) == {KEPT}


def test_lars_files_and_epsparql_units_have_verdicts() -> None:
    changed = program(a_lars=FILES["a.lars"].replace("9 s", "8 s"), e_epsparql=FILES["e.epsparql"].partition("REGISTER QUERY Twice")[0])
    found = fates(program(), changed)
    assert found.pop("a.lars") == "starts empty: it has changed"
    assert found.pop("Twice").startswith("is dropped: the program no longer has the ")
    assert set(found.values()) == {KEPT}


def test_schema_is_read_as_written_and_detects_state_stored_as_one_value() -> None:
    schema = state_schema(program(), knowledge="k")
    assert StateSchema.of_json(schema.to_json()) == schema
    assert not schema.is_of_whole_programs
    assert replace(schema, units=()).is_of_whole_programs
    rules = compile_program(ProgramSpec((Document("r.dotr", PREFIX + FILES["r.dotr"]),)))
    assert not state_schema(rules, knowledge="k").is_of_whole_programs
    assert "units" not in state_schema(rules, knowledge="k").to_json()
