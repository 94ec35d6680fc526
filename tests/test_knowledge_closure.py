"""Traps of the closure: what is new, what leaks, what an instant costs, what is refused."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from dotr.diagnostics import Refused
from dotr.knowledge.closure import Contradiction
from dotr.knowledge.entailment import Entailment, rule_set
from dotr.knowledge.knowledge import Knowledge, check_safety
from dotr.languages.datalog import parse_datalog
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.datalog import DatalogRule, Not
from dotr.model.places import Document
from dotr.model.terms import RDF_TYPE, RDFS, Triple, iri

SUBCLASS, SUBPROPERTY = iri(RDFS + "subClassOf"), iri(RDFS + "subPropertyOf")


def n(name: str) -> str:
    return f"<http://e/{name}>"


def t(text: str) -> Triple:
    """`"a p b"`: a triple of `http://e/` names; `a` as predicate is rdf:type."""
    s, p, o = text.split()
    known = {"a": RDF_TYPE, "subClassOf": SUBCLASS, "subPropertyOf": SUBPROPERTY}
    return n(s), known.get(p, n(p)), n(o)


def rules(text: str) -> list[DatalogRule]:
    return list(parse_datalog(Document("test.dlog", text), {"": "http://e/"}))


WHERE = rules(":in(?a, ?b) :- :at(?a, ?c), :in(?c, ?b) .")


def test_a_restated_background_triple_is_not_new() -> None:
    knowledge = Knowledge.load([t("c in b")], WHERE)
    assert list(knowledge.close([t("c in b"), t("s at c"), t("s at c")]).new) == [t("s at c"), t("s in b")]


def test_nothing_of_one_instant_is_left_for_the_next() -> None:
    knowledge = Knowledge.load([t("c in b"), t("C subClassOf D")], [*WHERE, *rule_set(Entailment.RDFS)])
    before = set(knowledge.background), len(knowledge.background)
    first = knowledge.close([t("c at d"), t("d in e"), t("D subClassOf E"), t("x a C")])
    assert t("x a E") in first.new
    assert t("c in e") in first.new
    second = knowledge.close([t("x a D")])
    assert list(second.new) == [t("x a D")]
    assert (set(knowledge.background), len(knowledge.background)) == before
    assert list(knowledge.close([]).new) == []


def test_schema_of_an_instant_is_schema_at_that_instant() -> None:
    knowledge = Knowledge.load([t("p subPropertyOf q"), t("x p y"), t("z a C")], rule_set(Entailment.RDFS))
    new = knowledge.close([t("q subPropertyOf r"), t("C subClassOf D"), t("u p v")]).new
    assert set(new) == {t("q subPropertyOf r"), t("p subPropertyOf r"), t("C subClassOf D")} | {
        t("x r y"),
        t("z a D"),
        t("u p v"),
        t("u q v"),
        t("u r v"),
    }


def test_contradictions_of_the_background_are_its_own() -> None:
    impossible = rules("false :- :C(?x), :D(?x) .")
    knowledge = Knowledge.load([t("x a C"), t("x a D"), t("y a C")], impossible)
    assert [c.triples for c in knowledge.contradictions] == [(t("x a C"), t("x a D"))]
    assert knowledge.close([t("z a C")]).contradictions == ()
    assert knowledge.close([t("y a D")]).contradictions == (Contradiction("test.dlog:1", (t("y a C"), t("y a D"))),)


def test_a_head_that_is_no_rdf_derives_nothing() -> None:
    knowledge = Knowledge.load([], rules(":q(?y, ?x) :- :p(?x, ?y) . [?x, ?y, :z] :- :r(?x, ?y) ."))
    new = knowledge.close([(n("a"), n("p"), '"text"'), (n("a"), n("r"), "_:b"), (n("a"), n("r"), '"text"'), t("a r b"), t("c p d")]).new
    assert set(new) == {(n("a"), n("p"), '"text"'), (n("a"), n("r"), "_:b"), (n("a"), n("r"), '"text"')} | {
        t("a r b"),
        t("a b z"),
        t("c p d"),
        t("d q c"),
    }


def test_facts_of_a_datalog_file_are_background() -> None:
    knowledge = Knowledge.load([t("x p y")], rules(":p(:a, :b) . :in(:c, :d) . :q(?x) :- :p(?x, ?y) ."))
    assert t("c in d") in knowledge.background
    assert t("a a q") in knowledge.background
    assert (knowledge.loaded, knowledge.derived) == (1, 4)


def test_filters_compare_values_and_joins_terms() -> None:
    program = rules(":hot(?r) :- :val(?r, ?v), FILTER(?v > 60), BIND(?v * 2 AS ?w), :double(?r, ?w) .")
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    knowledge = Knowledge.load([(n("r"), n("double"), f'"140"{integer}'), (n("s"), n("double"), f'"0140"{integer}')], program)
    assert (n("r"), RDF_TYPE, n("hot")) in knowledge.close([(n("r"), n("val"), f'"70"{integer}')]).new
    assert len(knowledge.close([(n("s"), n("val"), f'"70"{integer}')]).new) == 1
    assert len(knowledge.close([(n("r"), n("val"), '"70"')]).new) == 1


# --- counts, not clocks ---


def lines_run(knowledge: Knowledge, triples: list[Triple]) -> int:
    """How many lines of Python an instant runs, once its handlers have been written."""
    knowledge.close(triples)
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        knowledge.close(triples)
    finally:
        sys.settrace(previous)
    return count


def city(rooms: int) -> list[Triple]:
    schema = [t("Temp subClassOf Reading"), t("Reading subClassOf Event"), t("at subPropertyOf near")]
    return schema + [t(f"l{k} in r{k}") for k in range(rooms)] + [t(f"x{k} a Temp") for k in range(rooms)]


@pytest.mark.parametrize("entailment", [Entailment.NONE, Entailment.RDFS, Entailment.OWL2RL])
def test_an_instant_costs_the_same_whatever_the_background(entailment: Entailment) -> None:
    program = [*WHERE, *rule_set(entailment)]
    instant = [t("s at l3"), t("s a Temp"), t("s seen u")]
    small, large = (lines_run(Knowledge.load(city(rooms), program), instant) for rooms in (10, 3000))
    assert small == large
    assert large < 60 * len(instant)


def test_rules_that_do_not_apply_cost_nothing() -> None:
    idle = rules("\n".join(f":p{k}(?a, ?b) :- :q{k}(?a, ?c), :in{k}(?c, ?b) . :D{k}(?a) :- :C{k}(?a) ." for k in range(300)))
    instant = [t("s at l3"), t("s a Temp")]
    alone, crowded = (lines_run(Knowledge.load(city(10), program), instant) for program in (WHERE, [*WHERE, *idle]))
    assert crowded == alone


def test_a_variable_predicate_costs_the_triples_of_its_subject() -> None:
    program = rules("[?y, ?p, ?o] :- [?x, :same, ?y], [?x, ?p, ?o] .")
    small, large = (lines_run(Knowledge.load(city(rooms), program), [t("x3 same z")]) for rooms in (10, 3000))
    assert small == large


# --- what is refused ---


def test_unsafe_rules_are_refused_with_their_places() -> None:
    text = ":p(?x, ?z) :- :q(?x, ?y) .\n:p(?x, ?y) :- :q(?x, ?y), FILTER(?w > 3) .\n:p(?x, ?y) :- :q(?x, ?x), BIND(?u + 1 AS ?y) ."
    with pytest.raises(Refused) as refused:
        Knowledge.load([], rules(text))
    codes = [(problem.code, problem.span.line_column[0]) for problem in refused.value.diagnostics if problem.span is not None]
    assert codes == [("K301", 1), ("K302", 2), ("K301", 3), ("K303", 3)]
    assert "?z" in refused.value.diagnostics[0].message


def test_binds_depend_on_each_other_in_any_order() -> None:
    program = rules(":p(?x, ?w) :- BIND(?v + 1 AS ?w), BIND(?u + 1 AS ?v), :q(?x, ?u) .")
    assert [problem for rule in program for problem in check_safety(rule)] == []
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    new = Knowledge.load([], program).close([(n("x"), n("q"), f'"1"{integer}')]).new
    assert (n("x"), n("p"), f'"3"{integer}') in new


def test_negation_is_not_evaluated_yet() -> None:
    pattern = TriplePattern(Var("x"), Const(n("p")), Var("y"))
    rule = DatalogRule("r", (pattern,), (pattern, Not((TriplePattern(Var("x"), Const(n("q")), Var("y")),))))
    with pytest.raises(Refused, match="K304"):
        Knowledge.load([], [rule])
