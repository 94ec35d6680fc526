"""The grammar that parses: rdflib's, in elements of `dotr`'s own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pyparsing import CaselessKeyword, Keyword, Literal, ParseException, ParserElement
from rdflib.plugins.sparql.parser import parseQuery

from dotr.syntax.sparql import grammar
from tests.support.paths import ROOT

pytestmark = pytest.mark.core


def test_rdflib_parses_as_without_dotr() -> None:
    assert str(grammar.parse(grammar.EXPRESSION, "!!?t1")).startswith("ConditionalOrExpression")  # SPARQL 1.2
    with pytest.raises(ParseException):
        parseQuery("SELECT * { FILTER(!!?x) }")  # SPARQL 1.1
    parseQuery("SELECT * { # a comment\n FILTER(!?x) }")


def test_rdflib_may_parse_first() -> None:
    """rdflib's elements are merged at its first text, so some are no longer parts of others."""
    code = (
        "from rdflib.plugins.sparql.parser import parseQuery; parseQuery('SELECT * { FILTER(!?x) }')\n"
        "from dotr.syntax.sparql import grammar; grammar.parse(grammar.EXPRESSION, '! ! ?t1 || 2 < ABS ( ?t2 )')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_no_element_looks_for_comments() -> None:
    elements = [each for each in grammar.copies().values() if each.recurse()]
    assert len(elements) > 500
    assert not any(each.ignoreExprs for each in (*elements, *(part for each in elements for part in each.recurse())))
    with pytest.raises(grammar.Unparsed) as refused:
        grammar.parse(grammar.QUERY, "SELECT ?t0 { # a comment\n }")
    assert refused.value.offset == 13


QUERIES = """
SELECT * { ?t1 <t2> ?t3 , [ <t4> <t5> ; a ?t6 ] ; ^ <t7> / ( <t8> | ! ( <t9> | ^ a ) ) * ?t1 . ( ?t1 -1.5 ) <t2> + [ ] }
SELECT DISTINCT ?t0 ( SUM ( DISTINCT ?t1 ) + 1e6 AS ?t2 ) ( GROUP_CONCAT ( ?t3 ; SEPARATOR = "" ) AS ?t4 ) { }
SELECT * { } GROUP BY ?t0 ( ?t1 AS ?t5 ) HAVING ( ! ?t1 ) ORDER BY ASC ( ?t0 ) DESC ( ?t1 ) LIMIT 3 OFFSET 1
SELECT REDUCED ?t0 FROM <t1> FROM NAMED <t2> WHERE { { SELECT ?t0 { ?t0 a <t3> } } UNION { GRAPH ?t5 { } } MINUS { } }
SELECT * { OPTIONAL { BIND ( 1 AS ?t9 ) } VALUES ( ?t1 ?t2 ) { ( UNDEF "a"@en ) ( true "b"^^<t3> ) } VALUES ?t4 { 1 } }
SELECT * { FILTER NOT EXISTS { ?t1 <t1> ?t2 } FILTER ( ?t1 NOT IN ( 1 , - ?t2 ) || EXISTS { } && ?t4 <= +2 ) }
SELECT * { FILTER ( <t1> ( DISTINCT ?t1 ) = COUNT ( * ) ) SERVICE SILENT <t2> { } }
"""


def test_choices_by_the_next_character_give_the_same_trees() -> None:
    """Queries of all forms, cut anywhere; calls of all functions; each mark and keyword beside each kind of operand."""
    plain, choosing = grammar.copies(choosing=False), grammar.copies()
    words = {each.match for each in plain.values() if isinstance(each, Literal | Keyword | CaselessKeyword)}
    texts = [(grammar.QUERY, text) for text in QUERIES.strip().splitlines()]
    texts += [(grammar.QUERY, text[: len(text) * cut // 4]) for _, text in texts for cut in range(4)]
    texts += [(grammar.EXPRESSION, f"{word} ( {', '.join(['?t1', '<t2>', '1'][:count])} )") for word in words for count in range(4)]
    texts += [
        (grammar.EXPRESSION, f"{left} {word} {right}") for word in words for left, right in (("", "?t1"), ("1", "-2"), ("( true )", ""))
    ]
    texts += [(grammar.GROUP, f"{{ ?t1 {word} ?t2 }}") for word in words]
    parsed = 0
    for element, text in texts:
        found = [_tree(copies[element], text) for copies in (plain, choosing)]
        assert found[0] == found[1], text
        parsed += found[0] is not None
    assert parsed > 90


def _tree(element: ParserElement, text: str) -> str | None:
    try:
        tree = element.parse_string(text, parse_all=True).dump()
    except ParseException:
        return None
    return re.sub(r"BNode\('[^']*'\)|\bN[0-9a-f]{32}\b", "BNode", tree)
