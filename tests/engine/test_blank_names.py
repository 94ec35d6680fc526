"""Blank nodes are named where they leave an instant: in facts and in contradictions."""

from __future__ import annotations

import pytest

from dotr.engine.driver import close_instant
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.background.compiled_cache import CachePolicy
from dotr.instant.datalog.entailment import Entailment
from dotr.instant.instants import merge, merge_unnamed
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.terms import RDF_TYPE, Triple

pytestmark = pytest.mark.core

PREFIXES = {"": "http://e/", "owl": "http://www.w3.org/2002/07/owl#"}
AT, NAME, QUOTED = "<http://e/at>", "<http://e/name>", "<http://e/says>"
ELEMENTS: tuple[tuple[Triple, ...], ...] = (
    (("_:0", AT, "_:1"), ("_:1", NAME, '"one"')),
    (("_:0", AT, "_:1"), ("_:1", NAME, '"one"')),
    (),
    (("<http://e/a>", AT, "<http://e/b>"), ("<http://e/b>", NAME, '":"')),
    (("<http://e/c>", AT, "<http://e/d>"), ("<http://e/d>", NAME, '"two"'), ("<http://e/d>", QUOTED, "<<( _:0 <http://e/p> _:1 )>>")),
    (("_:0", AT, "<http://e/d>"),),
)


def program(select: str, **further: object) -> CompiledProgram:
    rule = f"rule R define X = [ [] a :X ] from A = [ {select} ]"
    return compile_program(ProgramSpec((Document("r.dotr", rule),), prefixes=PREFIXES, **further), CachePolicy(None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("select", "late"),
    [
        ("SELECT ?a ?b ?n WHERE { ?a :at ?b . ?b :name ?n }", True),
        ("SELECT ?a ?s WHERE { { ?a :at ?b . ?b :says ?s } UNION { ?a :at ?b FILTER(isBlank(?a)) } }", True),
        ("SELECT DISTINCT ?s ?o WHERE { ?a :says ?t . BIND(SUBJECT(?t) AS ?s) BIND(OBJECT(?t) AS ?o) }", True),
        ("SELECT ?a WHERE { ?a :at ?b } ORDER BY ?a LIMIT 1", False),
        ("SELECT (MIN(?a) AS ?m) WHERE { ?a :at ?b }", False),
        ("SELECT ?a ?n WHERE { ?a :at ?b OPTIONAL { ?b :name ?n } }", True),
    ],
)
def test_facts_equal_those_of_the_named_instant(select: str, late: bool) -> None:
    compiled = program(select)
    assert compiled.stage_one.names_late is late
    closed = close_instant(compiled, 7, ELEMENTS)
    assert closed.facts == compiled.stage_one.evaluate(merge(7, ELEMENTS))
    assert closed.facts.facts
    assert not any(term is not None and "_:i" in term for rows in closed.facts.facts.values() for row in rows for term in row)


def test_program_without_rules_closes_instants_to_no_facts() -> None:
    assert not close_instant(compile_program(ProgramSpec()), 7, ELEMENTS).facts.facts


def test_instants_are_named_early_given_same_as_or_negation() -> None:
    for datalog in ("owl:sameAs(?x, ?y) :- :at(?x, ?y) .", ":odd(?x, ?x) :- :at(?x, ?y), NOT :name(?x, ?y) ."):
        assert not program(
            "SELECT ?a WHERE { ?a :at ?b }", datalog=(Document("k.dlog", datalog),), entailment=Entailment.OWL2RL
        ).stage_one.names_late


def test_contradiction_has_names_of_blank_nodes() -> None:
    compiled = program("SELECT ?a WHERE { ?a a :C }", entailment=Entailment.OWL2RL)
    disjoint: tuple[Triple, ...] = (("<http://e/C>", "<http://www.w3.org/2002/07/owl#disjointWith>", "<http://e/D>"),)
    both: tuple[Triple, ...] = (("_:0", RDF_TYPE, "<http://e/C>"), ("_:0", RDF_TYPE, "<http://e/D>"))
    facts = close_instant(compiled, 7, (disjoint, both)).facts
    assert facts.inconsistencies == compiled.stage_one.evaluate(merge(7, (disjoint, both))).inconsistencies != ()


def test_labels_of_an_unnamed_instant_map_to_the_names_of_its_merge() -> None:
    instant, names = merge_unnamed(7, ELEMENTS)
    assert names is not None
    named = merge(7, ELEMENTS)
    assert names.instant() == named
    assert tuple(names.of_row(triple) for triple in instant.triples) == named.triples
    assert len(set(instant.triples)) == len(set(named.triples))
    assert merge_unnamed(7, ELEMENTS[2:3]) == (merge(7, []), None)
    assert names.of_row(("_:g0x1", None, '"x"')) == ("_:g0x1", None, '"x"')
