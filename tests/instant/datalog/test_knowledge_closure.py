"""Edge cases of the closure: delta, isolation of instants, cost, refusals, limits."""

from __future__ import annotations

import ast
import inspect
import sys
from types import FrameType
from typing import Any

import pytest

from dotr.errors.diagnostics import Refused
from dotr.evaluation.limits import LimitExceeded
from dotr.instant.datalog.background import knowledge as knowledge_module
from dotr.instant.datalog.background.knowledge import Knowledge, check_safety
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.datalog.strata.stratification import strata
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_TYPE, RDFS, Triple, iri
from dotr.syntax.datalog import parse_datalog
from tests.support.unit_questions import asked
from tools.measures import CLOSERS

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


def test_restated_background_triple_is_not_in_the_delta() -> None:
    knowledge = Knowledge.load([t("c in b")], WHERE)
    assert list(knowledge.close([t("c in b"), t("s at c"), t("s at c")]).delta) == [t("s at c"), t("s in b")]


def test_closure_keeps_no_state_between_instants() -> None:
    knowledge = Knowledge.load([t("c in b"), t("C subClassOf D")], [*WHERE, *rule_set(Entailment.RDFS)])
    before = set(knowledge.background), len(knowledge.background)
    first = knowledge.close([t("c at d"), t("d in e"), t("D subClassOf E"), t("x a C")])
    assert t("x a E") in first.delta
    assert t("c in e") in first.delta
    second = knowledge.close([t("x a D")])
    assert list(second.delta) == [t("x a D")]
    assert (set(knowledge.background), len(knowledge.background)) == before
    assert list(knowledge.close([]).delta) == []


def test_schema_of_an_instant_applies_at_that_instant() -> None:
    knowledge = Knowledge.load([t("p subPropertyOf q"), t("x p y"), t("z a C")], rule_set(Entailment.RDFS))
    new = knowledge.close([t("q subPropertyOf r"), t("C subClassOf D"), t("u p v")]).delta
    assert set(new) == {t("q subPropertyOf r"), t("p subPropertyOf r"), t("C subClassOf D")} | {
        t("x r y"),
        t("z a D"),
        t("u p v"),
        t("u q v"),
        t("u r v"),
    }


def test_background_contradictions_are_not_repeated() -> None:
    impossible = rules("false :- :C(?x), :D(?x) .")
    knowledge = Knowledge.load([t("x a C"), t("x a D"), t("y a C")], impossible)
    assert [c.triples for c in knowledge.contradictions] == [(t("x a C"), t("x a D"))]
    assert knowledge.close([t("z a C")]).contradictions == ()
    assert knowledge.close([t("y a D")]).contradictions == (Contradiction("test.dlog:1", (t("y a C"), t("y a D"))),)


def test_head_that_is_not_rdf_derives_nothing() -> None:
    knowledge = Knowledge.load([], rules(":q(?y, ?x) :- :p(?x, ?y) . [?x, ?y, :z] :- :r(?x, ?y) ."))
    new = knowledge.close([(n("a"), n("p"), '"text"'), (n("a"), n("r"), "_:b"), (n("a"), n("r"), '"text"'), t("a r b"), t("c p d")]).delta
    assert set(new) == {(n("a"), n("p"), '"text"'), (n("a"), n("r"), "_:b"), (n("a"), n("r"), '"text"')} | {
        t("a r b"),
        t("a b z"),
        t("c p d"),
        t("d q c"),
    }


def test_facts_of_a_datalog_file_are_in_the_background() -> None:
    knowledge = Knowledge.load([t("x p y")], rules(":p(:a, :b) . :in(:c, :d) . :q(?x) :- :p(?x, ?y) ."))
    assert t("c in d") in knowledge.background
    assert t("a a q") in knowledge.background
    assert (knowledge.loaded, knowledge.derived) == (1, 4)


def test_filters_compare_values_and_joins_terms() -> None:
    program = rules(":hot(?r) :- :val(?r, ?v), FILTER(?v > 60), BIND(?v * 2 AS ?w), :double(?r, ?w) .")
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    knowledge = Knowledge.load([(n("r"), n("double"), f'"140"{integer}'), (n("s"), n("double"), f'"0140"{integer}')], program)
    assert (n("r"), RDF_TYPE, n("hot")) in knowledge.close([(n("r"), n("val"), f'"70"{integer}')]).delta
    assert len(knowledge.close([(n("s"), n("val"), f'"70"{integer}')]).delta) == 1
    assert len(knowledge.close([(n("r"), n("val"), '"70"')]).delta) == 1


# --- counts, not clocks ---


def lines_run(knowledge: Knowledge, triples: list[Triple]) -> int:
    """The number of lines of Python that an instant runs once its delta rules are compiled."""
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
def test_cost_of_an_instant_is_independent_of_the_background(entailment: Entailment) -> None:
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


def test_variable_predicate_costs_the_triples_of_its_subject() -> None:
    program = rules("[?y, ?p, ?o] :- [?x, :same, ?y], [?x, ?p, ?o] .")
    small, large = (lines_run(Knowledge.load(city(rooms), program), [t("x3 same z")]) for rooms in (10, 3000))
    assert small == large


# --- refused rules ---


def test_unsafe_rules_are_refused_with_their_spans() -> None:
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
    new = Knowledge.load([], program).close([(n("x"), n("q"), f'"1"{integer}')]).delta
    assert (n("x"), n("p"), f'"3"{integer}') in new


def refused(text: str) -> str:
    with pytest.raises(Refused) as found:
        Knowledge.load([], rules(text))
    return "\n".join(f"{problem.code} {problem.message}" for problem in found.value.diagnostics)


def test_recursion_through_not_names_the_cycle() -> None:
    text = "# what needs what\n"
    text += ":a(?x, ?y) :- :c(?x, ?y), NOT :b(?x, ?y) .\n:d(:x, :y) .\n:b(?x, ?y) :- :e(?x, ?y) .\n:e(?x, ?y) :- :a(?x, ?y) ."
    assert refused(text) == "K307 recursion through NOT: :a needs NOT :b (line 2), :b needs :e (line 4), :e needs :a (line 5)"
    assert refused(":n(?x, ?n) :- AGGREGATE(:n(?x, ?m) ON ?x BIND MAX(?m) AS ?n) .") == (
        "K307 recursion through AGGREGATE: :n needs AGGREGATE of :n (line 1)"
    )
    assert refused("[?x, :p, ?y] :- [?x, ?q, ?y], :C(?x), NOT :D(?x) . :D(?x) :- [?x, :p, ?z] .") == (
        "K307 recursion through NOT: :p needs NOT :D (line 1), :D needs :p (line 1)"
    )
    assert refused("[?x, ?p, ?y] :- :s(?p, ?x), :t(?p, ?y), NOT :u(?p, ?y) .") == (
        "K307 recursion through NOT: any triple needs NOT :u (line 1)"
    )


def test_each_cycle_is_reported() -> None:
    assert refused(":a(?x) :- :c(?x), NOT :a(?x) . :b(?x) :- :c(?x), NOT :b(?x) .").count("K307") == 2


@pytest.mark.parametrize(
    "text",
    [
        ":a(?x, :yes) :- :c(?x), NOT :a(?x, :no) .",
        ":A(?x) :- :C(?x), NOT :B(?x) . :B(?x) :- :D(?x), NOT :E(?x) .",
        ":a(?x, ?z) :- :a(?x, ?y), :a(?y, ?z), NOT :b(?x, ?z) .",
        ":A(?x) :- NOT :B(?x), :C(?x), BIND(1 AS ?n), FILTER(?n = 1) .",
        "false :- :A(?x), NOT :B(?x) .",
    ],
)
def test_stratified_program_is_accepted(text: str) -> None:
    assert [each for rule in rules(text) for each in check_safety(rule)] == []
    Knowledge.load([], rules(text))


def test_a_long_chain_of_strata_needs_no_recursion() -> None:
    text = "\n".join(f":C{number + 1}(?x) :- :D(?x), NOT :C{number}(?x) ." for number in range(1500))
    assert strata(rules(text)) == list(range(1, 1501))


def test_unsafe_variables_of_an_aggregate_are_refused() -> None:
    assert refused(":n(?r, ?n) :- AGGREGATE(:in(?x, ?y) ON ?r BIND COUNT(?x) AS ?n) .").startswith("K305 rule test.dlog:1: no atom")
    assert "FILTER uses" in refused(":n(?r, ?n) :- AGGREGATE(:in(?x, ?r), FILTER(?w > 1) ON ?r BIND COUNT(?x) AS ?n) .")
    assert "SUM of ?n uses" in refused(":n(?r, ?n) :- AGGREGATE(:in(?x, ?r) ON ?r BIND SUM(?w) AS ?n) .")
    assert "?x belongs to an AGGREGATE alone" in refused(":n(?r, ?n) :- :C(?x), AGGREGATE(:in(?x, ?r) ON ?r BIND COUNT(?x) AS ?n) .")
    assert "?x is a result" in refused(":n(?r, ?x) :- AGGREGATE(:in(?x, ?r) ON ?r BIND COUNT(?x) AS ?x) .")
    assert "K301" in refused(":n(?r, ?m) :- AGGREGATE(:in(?x, ?r) ON ?r BIND COUNT(?x) AS ?n) .")


def test_aggregates_of_one_body_may_share_local_names() -> None:
    """A name local to one AGGREGATE is no variable of the body, so the same name in another is another variable."""
    counts = "AGGREGATE(:in(?x, ?r), :is(?x, ?y) ON ?r BIND COUNT(?x) AS ?n), AGGREGATE(:door(?x, ?r) ON ?r BIND COUNT(?x) AS ?m)"
    text = f":more(?r, ?n) :- {counts},"
    program = rules(f"{text} FILTER(?n > ?m) .")
    background = [
        t(each) for each in ("a in hall", "a is open", "b in hall", "b is open", "x door hall", "c in attic", "c is open", "y door attic")
    ]
    knowledge = Knowledge.load(background, program)

    def more(*new: str) -> set[str]:
        closure = knowledge.close([t(each) for each in new])
        return {each[0] for each in [*closure.background, *closure.delta] if each[1] == n("more")}

    assert more("q p q") == {n("hall")}
    assert more("z door hall") == set()
    assert more("d in attic", "d is open") == {n("hall"), n("attic")}
    assert "?x belongs to an AGGREGATE alone" in refused(f"{text} NOT :C(?x) .")
    assert "?n belongs to an AGGREGATE alone" in refused(f"{text} AGGREGATE(:of(?r, ?n) ON ?r BIND SUM(?n) AS ?s) .")


def test_contradiction_by_not_is_found_at_the_instant() -> None:
    knowledge = Knowledge.load([t("x a A"), t("y a A"), t("y a B")], rules("false :- :A(?x), NOT :B(?x) . :B(?x) :- :C(?x), NOT :D(?x) ."))
    assert [found.triples for found in knowledge.contradictions] == [(t("x a A"),)]
    assert [found.triples for found in knowledge.close([t("z a A"), t("x a B")]).contradictions] == [(t("z a A"),)]


# --- retraction by an instant ---


def test_schema_of_the_instant_applies_to_conclusions_of_aggregates() -> None:
    program = rules("[?room, :size, ?n] :- AGGREGATE([?room, :holds, ?x] ON ?room BIND COUNT(?x) AS ?n) .")
    knowledge = Knowledge.load([t("a holds b")], [*rule_set(Entailment.RDFS), *program])
    new = knowledge.close([t("c holds d"), (n("size"), iri(RDFS + "domain"), n("Sized"))]).delta
    assert {t("c a Sized"), t("a a Sized")} <= set(new)


def test_instant_without_trigger_retracts_nothing() -> None:
    knowledge = Knowledge.load([t("s a Sensor")], rules(":Working(?s) :- :Sensor(?s), NOT :Broken(?s) ."))
    closure = knowledge.close([t("r a Sensor"), t("r p q")])
    assert closure.background is knowledge.background
    assert closure.removed is None
    assert t("r a Working") in closure.delta


def test_retraction_costs_its_consequences_alone() -> None:
    program = rules(":Working(?s) :- :Sensor(?s), NOT :Broken(?s) . :seen(?r, ?s) :- :Working(?s), :in(?s, ?r) .")

    def lines(sensors: int) -> int:
        triples = [each for number in range(sensors) for each in (t(f"s{number} a Sensor"), t(f"s{number} in r{number}"))]
        return lines_run(Knowledge.load(triples, program), [t("s3 a Broken")])

    assert lines(10) == lines(3000)


# --- limits ---


COUNTING = ":p(?x, ?n) :- :p(?x, ?m), BIND(?m + 1 AS ?n) ."


@pytest.mark.parametrize(
    "text",
    [COUNTING, COUNTING + ":A(?x) :- :B(?x), NOT :C(?x) .", ":p(?x, ?n) :- :p(?x, ?m), NOT :C(?x), BIND(?m + 1 AS ?n) ."],
)
def test_endless_instant_exceeds_the_limit(text: str) -> None:
    one = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    knowledge = Knowledge.load([], rules(text))
    knowledge.limit_to(20_000)
    with pytest.raises(LimitExceeded, match="more than 20,000 triples"):
        knowledge.close([(n("x"), n("p"), one)])
    assert list(knowledge.close([t("x q y")]).delta) == [t("x q y")]


def test_derivations_are_limited() -> None:
    """A chain of 300 has 45,000 pairs; a rule not recognised as transitive derives each once for
    every node between.
    """
    knowledge = Knowledge.load([], rules(":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z), FILTER(?x != ?z) ."))
    chain = [t(f"x{number} p x{number + 1}") for number in range(300)]
    knowledge.limit_to(50_000)
    with pytest.raises(LimitExceeded, match="more than 500,000 derivations"):
        knowledge.close(chain)
    linear = Knowledge.load([], rules(":q(?x, ?y) :- :p(?x, ?y) . :q(?x, ?z) :- :p(?x, ?y), :q(?y, ?z) ."))
    linear.limit_to(3_319)
    with pytest.raises(LimitExceeded, match="more than 3,319 triples"):
        linear.close(chain[:80])
    linear.limit_to(3_320)
    assert len(linear.close(chain[:80]).delta) == 3_320


@pytest.mark.parametrize(
    ("text", "entailment"),
    [
        (":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) .", Entailment.NONE),
        (":p(?x, ?z) :- :p(?y, ?z), :p(?x, ?y) .", Entailment.NONE),
        (":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) . :p(?x, ?y) :- :q(?x, ?y), NOT :A(?x) .", Entailment.NONE),
        ("", Entailment.OWL2RL),
    ],
    ids=["datalog", "turned", "strata", "owl"],
)
def test_transitive_chain_at_an_instant_costs_its_pairs(text: str, entailment: Entailment) -> None:
    background = [(n("p"), RDF_TYPE, f"<{OWL}TransitiveProperty>"), t("x7 p y"), t("z p x3")]
    knowledge = Knowledge.load(background, [*rule_set(entailment), *rules(text)])
    chain = [t(f"x{number} p x{number + 1}") for number in range(300)]
    new = knowledge.close(chain).delta
    assert len(new.by_subject[n("p")]) == 301
    assert sum(map(len, new.by_subject[n("p")].values())) == 300 * 301 // 2 + 7 + 297 + 1
    knowledge.limit_to(len(new))
    assert len(knowledge.close(chain).delta) == len(new)
    knowledge.limit_to(len(new) - 1)
    with pytest.raises(LimitExceeded):
        knowledge.close(chain)


def test_transitive_rule_is_limited_by_examined_pairs() -> None:
    """From 40 nodes by 40 to 40: 4,800 pairs, 1,600 of them in 40 ways each."""
    knowledge = Knowledge.load([], rules(":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) ."))
    steps = [t(f"{one}{i} p {other}{k}") for one, other in ("ab", "bc") for i in range(40) for k in range(40)]
    knowledge.limit_to(5_000)
    with pytest.raises(LimitExceeded, match="more than 50,000 derivations"):
        knowledge.close(steps)
    assert len(knowledge.close(steps[:1600]).delta) == 1600


def test_endless_background_is_refused() -> None:
    one = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
    with pytest.raises(Refused, match="K308 the background: more than 5,000 triples"):
        Knowledge.load([(n("x"), n("p"), one)], rules(COUNTING), limit=5000)
    chain = [t(f"x{number} p x{number + 1}") for number in range(100)]
    assert Knowledge.load(chain, rules(":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) ."), limit=5050).derived == 4950


def test_knowledge_asks_no_closer_for_its_class() -> None:
    """Differences between closers are in their methods (`InstantCloser`)."""
    found = asked(ast.walk(ast.parse(inspect.getsource(knowledge_module))))
    assert not found.keys() & {*CLOSERS, "InstantCloser"}
