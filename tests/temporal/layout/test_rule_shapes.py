"""Shapes of rules: equal if rules may share a matcher, different if the attributes that they read differ."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given

from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.rules import Rule
from dotr.temporal.layout.bindings import rule_shape
from dotr.temporal.matching.rule_templates import group_rules
from tests.support.properties import examples
from tests.temporal.matching.test_rule_templates import HEADER, rules_of_one_template

RULE = """PREFIX : <http://e/>
query P = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
rule R define C = [ dotr_id1 :v ?v ] from P as Now [ FILTER(?v > 3) ] and last P as Before [ FILTER(?x = Now.?x) ] within 30 s from Now
with C.?v = Before.?v
"""


def rule_of(text: str) -> Rule:
    (rule,) = compile_rules([Document("r.dotr", text)], {}).rules
    return rule


@pytest.mark.parametrize(
    ("old", "new"),
    [("> 3", "> 4"), ("> 3", "> 2 + 2"), ("Before", "Former"), ("rule R define C", "rule S define C"), (":v ?v ] from", ":w ?v ] from")],
)
def test_shape_is_independent_of_constants_names_and_labels(old: str, new: str) -> None:
    assert rule_shape(rule_of(RULE)) == rule_shape(rule_of(RULE.replace(old, new)))


@pytest.mark.parametrize(("old", "new"), [("last", "first"), ("30 s", "31 s"), ("> 3", "< 3"), ("Before.?v", "Now.?v"), ("dotr_id1", "?v")])
def test_shape_depends_on_modes_windows_operators_and_attributes(old: str, new: str) -> None:
    assert rule_shape(rule_of(RULE)) != rule_shape(rule_of(RULE.replace(old, new)))


@examples(60)
@given(rules_of_one_template())
def test_rules_that_share_a_matcher_have_one_shape(texts: list[str]) -> None:
    program = compile_program(ProgramSpec((Document("r.dotr", HEADER + "\n".join(texts)),)))
    layer = program.layout.layers[0]
    placed = [(n, each.rule, each.ports, program.attributes[each.rule.event]) for n, each in enumerate(layer.rules)]
    for group in group_rules(placed):
        members = [layer.rules[number].rule for number in group.numbers]
        assert all(rule_shape(a) == rule_shape(b) for a, b in combinations(members, 2))
