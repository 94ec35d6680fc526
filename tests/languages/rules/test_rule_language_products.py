"""Warnings of cross products in queries."""

from __future__ import annotations

import pytest

from dotr.languages.rules import compile_rules
from dotr.model.places import Document

pytestmark = pytest.mark.core


def cross_product_warnings(where: str) -> list[str]:
    text = f"PREFIX : <http://e/>\nrule R define E = [ [] a :E ] from A = [ SELECT * WHERE {{ {where} }} ]"
    return [d.message for d in compile_rules([Document("r.dotr", text)], {}).diagnostics if d.code == "D319"]


@pytest.mark.parametrize(
    "where",
    [
        "?a :p ?b . ?c :q ?d",
        "?a :p ?b . ?c :q ?d FILTER(?d > 5)",
        "?a :p ?b BIND(?b + 1 AS ?n) ?c :q ?d",
        "?a :p ?b OPTIONAL { ?c :q ?d }",
        "?a :p ?b { ?c :q ?d } UNION { ?c :r ?d }",
        "?a :p ?b { SELECT ?c { ?c :q ?d } }",
        "?x :y ?z OPTIONAL { ?z :p ?b . ?c :q ?d }",
        "{ ?a :p ?b . ?c :q ?d } UNION { ?a :q ?b }",
        "?a :p/:q ?b . ?c :q* ?d",
        "?x :y ?z MINUS { ?x :p ?b } ?c :q ?d",
    ],
)
def test_cross_product_has_warning(where: str) -> None:
    (message,) = cross_product_warnings(where)
    assert message.startswith("a cross product: nothing connects ?")


@pytest.mark.parametrize(
    "where",
    [
        "?a :p ?b . ?b :q ?d",
        "?a :p ?b . ?c :q ?d FILTER(?b = ?d)",
        "?a :p ?b . ?c :q ?d BIND(?b - ?d AS ?n)",
        "?a :p ?b . ?c :q ?d FILTER EXISTS { ?a :near ?c }",
        "?a :p ?b . :lamp :is :on",
        "?a :p ?b . VALUES ?c { 1 2 }",
        "?a :p ?b OPTIONAL { ?a :q ?d FILTER(?d > ?b) }",
        "?a :p ?b OPTIONAL { ?c :q ?d FILTER(?d > ?b) }",
        "?a :p [ :q ?d ] . ?d :r ?e",
        "{ ?a :p ?b } UNION { ?c :q ?d }",
        "?a :p ?b MINUS { ?c :q ?d }",
    ],
)
def test_connected_query_has_no_warning(where: str) -> None:
    assert cross_product_warnings(where) == []
