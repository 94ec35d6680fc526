"""The grammar that parses: rdflib's, in elements of `dotr`'s own."""

from __future__ import annotations

import pytest
from pyparsing import ParseException
from rdflib.plugins.sparql.parser import parseQuery

from dotr.syntax.sparql import grammar

pytestmark = pytest.mark.core


def test_rdflib_parses_as_without_dotr() -> None:
    assert str(grammar.parse(grammar.EXPRESSION, "!!?t1")).startswith("ConditionalOrExpression")  # SPARQL 1.2
    with pytest.raises(ParseException):
        parseQuery("SELECT * { FILTER(!!?x) }")  # SPARQL 1.1
    parseQuery("SELECT * { # a comment\n FILTER(!?x) }")


def test_no_element_looks_for_comments() -> None:
    elements = [each for each in grammar.copies().values() if each.recurse()]
    assert len(elements) > 500
    assert not any(each.ignoreExprs for each in (*elements, *(part for each in elements for part in each.recurse())))
    with pytest.raises(grammar.Unparsed) as refused:
        grammar.parse(grammar.QUERY, "SELECT ?t0 { # a comment\n }")
    assert refused.value.offset == 13
