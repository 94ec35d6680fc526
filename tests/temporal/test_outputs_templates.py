"""Compiled templates: output, dropped triples, and fresh names that are unique and repeatable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import RdfFormat, parse

from dotr.model.places import Document, Span
from dotr.model.terms import Term, Triple, literal
from dotr.streams.formats.writing import ntriples
from dotr.syntax.turtle.parser import parse_template
from dotr.temporal.templates import CompiledTemplate, compile_template, match_digest

pytestmark = pytest.mark.core

P = "<http://e/p>"


def compiled(text: str, *variables: str) -> CompiledTemplate:
    return compile_template(parse_template(Span(Document("t", text), 0, len(text)), {"": "http://e/"}), variables)


def made(text: str, **values: Term | None) -> tuple[tuple[Triple, ...], int]:
    return compiled(text, *values).instantiate(tuple(values.values()), match_digest("R", 1, [], 0))


def test_a_template_without_variables_is_a_constant() -> None:
    assert made(":a :p 1, :b") == (
        (("<http://e/a>", P, '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'), ("<http://e/a>", P, "<http://e/b>")),
        0,
    )
    assert not compiled(":a :p 1").has_fresh_names


def test_values_are_found_by_the_order_of_the_variables() -> None:
    assert made(":a :p ?y, ?x", x="<x:x>", unused=None, y="<y:y>") == ((("<http://e/a>", P, "<y:y>"), ("<http://e/a>", P, "<x:x>")), 0)


def test_an_unbound_variable_drops_the_triples_that_need_it() -> None:
    assert made(":a :p ?x ; :q ?y", x=None, y='"1"') == ((("<http://e/a>", "<http://e/q>", '"1"'),), 1)
    assert made(":a :p ?never") == ((), 1)


def test_triples_outside_rdf_are_dropped() -> None:
    assert made("?x :p :o. :s ?x :o. :s :p ?x", x='"text"') == ((("<http://e/s>", P, '"text"'),), 2)
    assert made("?x :p :o. :s ?x :o. :s :p ?x", x="_:b1")[1] == 1
    assert made("?x :p :o. :s ?x :o. :s :p ?x", x="<x:y>")[1] == 0


def test_repeated_triple_is_output_once() -> None:
    assert made(":a :p ?x, ?y, :c", x="<http://e/c>", y="<http://e/c>") == ((("<http://e/a>", P, "<http://e/c>"),), 0)
    assert made(":a :p ?x, ?y, ?z", x="<x:c>", y="<x:c>", z=None) == ((("<http://e/a>", P, "<x:c>"),), 1)


def test_fresh_names_are_urns_and_blank_nodes_of_32_digits() -> None:
    (((name, _, value),), dropped) = made("dotr_id1 :p []")
    assert dropped == 0
    assert re.fullmatch("<urn:dotr:[0-9a-f]{32}>", name)
    assert re.fullmatch("_:b[0-9a-f]{32}", value)
    assert name[10:-1] != value[3:]


def test_names_of_a_template_differ_and_equal_names_are_the_same() -> None:
    ((first, second, third), _) = made("dotr_id1 :p dotr_id2 . dotr_id1 :q _:x, _:y")
    assert first[0] == second[0] != first[2]
    assert second[2] != third[2]


def test_names_are_repeatable_and_unique_per_match() -> None:
    template = compiled("dotr_id1 :p []")
    digests = {
        match_digest(rule, time, bound, ordinal)
        for rule in ("R", "S")
        for time in (1, 2)
        for bound in ([], [("L", 1, ('"a"',))], [("L", 1, ('"a"', None))], [("L", 1, (None, '"a"'))], [("L", 1, ()), ("M", 1, ())])
        for ordinal in (0, 1)
    }
    graphs = {template.instantiate((), digest) for digest in digests}
    assert len(digests) == 40
    assert len({term for graph, _ in graphs for triple in graph for term in (triple[0], triple[2])}) == 80
    assert graphs == {template.instantiate((), digest) for digest in digests}


_TERMS = st.one_of(
    st.none(),
    st.sampled_from(["<http://e/c>", "<http://e/p>", "_:b7"]),
    st.builds(literal, st.text(st.characters(exclude_categories=["Cs"]))),
    st.builds(lambda text: literal(text, language="en"), st.text('ab\n"\\')),
)


@given(x=_TERMS, y=_TERMS)
def test_written_graph_reads_back_unchanged(x: Term | None, y: Term | None) -> None:
    graph, dropped = made("?x :p ?y . dotr_id1 ?x ?y, [ :q ?x ] . :a :p ( ?x :c ) . ?y a ?x", x=x, y=y)
    read = [tuple(str(quad).split(" ", 2)) for quad in parse(ntriples(graph), RdfFormat.N_TRIPLES)]
    assert read == list(graph)
    assert len(set(graph)) == len(graph)
    assert dropped == sum(
        (
            x is None or y is None or x[0] == '"',
            x is None or y is None or x[0] != "<",
            x is None or x[0] != "<",
            x is None,
            x is None,
            x is None or y is None or y[0] == '"',
        )
    )
