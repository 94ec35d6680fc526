"""Paths of length zero between a constant and a variable that another pattern binds (SPARQL 1.1, section 9.3)."""

from __future__ import annotations

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.instant.instants import merge
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.syntax.turtle.graphs import read_graph

pytestmark = pytest.mark.core

EX = "http://e/"
SELECTED = {
    # from a constant the path matches at the constant itself, a node of the graph or not
    "VALUES ?x { :c } :c :p* ?x": [":c"],
    ":c :p* ?x VALUES ?x { :c }": [":c"],
    "?x :p* :c VALUES ?x { :c }": [":c"],
    ":a :q ?y . :c :p? ?x VALUES ?x { :c }": [":c"],
    ":a :q ?y BIND(:c AS ?x) :c :p* ?x": [":c"],
    ":a ?x ?y . :q :p* ?x": [":q"],
    ":a :q ?y BIND(:c AS ?x) FILTER EXISTS { :c :p* ?x }": [":c"],
    # between variables it matches at the nodes of the graph alone
    "?x :p* ?x VALUES ?x { :c }": [],
    "VALUES ?x { :c } ?x :p* ?y": [],
    "VALUES ?x { :a } ?x :p* ?y": [":a"],
}


@pytest.mark.parametrize("pattern", SELECTED)
def test_path_of_length_zero_matches_at_a_constant(pattern: str) -> None:
    rules = f"PREFIX : <{EX}>\nquery A = [ SELECT ?x WHERE {{ {pattern} }} ]\nrule R define Out = [ [] a :Out ] from A"
    program = compile_program(ProgramSpec((Document("r.dotr", rules),)))
    facts = program.facts_of_interest(merge(0, [read_graph(":a :q :b .", {"": EX}, 64)]))
    assert [fact.attributes["x"].replace(f"<{EX}", ":").rstrip(">") for fact in facts] == SELECTED[pattern]
