"""Keys of continuous queries: every condition of continuous.md, section 9, with and without it."""

from __future__ import annotations

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.languages.continuous.keys import query_key
from dotr.languages.continuous.reading import compile_continuous
from dotr.languages.programs import compile_program
from dotr.model.places import Document

pytestmark = pytest.mark.core


def key_of(line: str, where: str, spec: str = "RANGE 10s ENTAILMENT NONE", relation: str = "RSTREAM", further: str = "") -> str | None:
    text = f"REGISTER {relation} <out> AS {line} FROM NAMED WINDOW <w> ON :in [{spec}] {further} {where}"
    (query,) = compile_continuous([Document("q.rspql", text)], {"": "http://example.org/"}).checked().queries
    found = query_key(query)
    assert (found.variable is None) == bool(found.reason)
    return found.variable


BLOCK = "{ WINDOW <w> { ?x :p ?y . ?x :q 1 FILTER(?y > 2) } }"


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("SELECT ?y", BLOCK),
        ("SELECT DISTINCT ?x", BLOCK),
        ("SELECT ?x (COUNT(*) AS ?n)", f"{BLOCK} GROUP BY ?x HAVING(COUNT(*) > 1) ORDER BY ?n"),
        ("CONSTRUCT { ?y :of :all }", BLOCK),
        ("SELECT ?y", "{ WINDOW <w> { ?x :p ?y OPTIONAL { ?x :q ?z } } }"),
        ("SELECT ?y", "{ WINDOW <w> { { ?x :p ?y } UNION { ?x :q ?y } } }"),
    ],
)
def test_query_is_keyed_by_its_subject(line: str, where: str) -> None:
    assert key_of(line, where) == "x"
    assert key_of(line, where, "ELEMENTS 3 ENTAILMENT SNAPSHOT") == "x"
    assert key_of(line, where, "RANGE 10s") is None


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("ASK", BLOCK),
        ("SELECT ?x", f"{BLOCK} LIMIT 3"),
        ("SELECT ?x", f"{BLOCK} OFFSET 3"),
        ("SELECT ?x", "{ WINDOW <w> { ?x :p ?y . ?y :q ?z } }"),
        ("SELECT ?y", "{ WINDOW <w> { :a :p ?y } }"),
        ("SELECT ?y", "{ WINDOW <w> { [] :p ?y } }"),
        ("SELECT ?x", "{ WINDOW <w> { ?x :p+ ?y } }"),
        ("SELECT ?x", "{ WINDOW <w> { ?x :p ?y MINUS { ?x :q ?z } } }"),
        ("SELECT ?x", "{ WINDOW <w> { ?x :p ?y FILTER EXISTS { ?x :q ?z } } }"),
        ("SELECT ?x", "{ WINDOW <w> { SELECT ?x { ?x :p ?y } } }"),
        ("SELECT ?x", "{ WINDOW <w> { ?x :p ?y } WINDOW <w> { ?x :q ?z } }"),
        ("SELECT ?x", "{ WINDOW <w> { ?x :p ?y } ?x :q ?z }"),
        ("SELECT ?x", "{ MATCH { EVENT <w> { ?x :p ?y } } }"),
        ("SELECT (COUNT(*) AS ?n)", BLOCK),
        ("SELECT ?y (COUNT(*) AS ?n)", f"{BLOCK} GROUP BY ?y"),
        ("SELECT DISTINCT ?y", BLOCK),
        ("SELECT ?y", "{ WINDOW <w> { OPTIONAL { ?x :p ?y } } }"),
        ("SELECT ?y", "{ WINDOW <w> { { ?x :p ?y } UNION { VALUES ?y { 1 } } } }"),
    ],
)
def test_query_has_one_partition(line: str, where: str) -> None:
    assert key_of(line, where) is None


def test_istream_and_dstream_are_keyed_if_the_key_is_projected() -> None:
    assert key_of("SELECT ?y", BLOCK, relation="ISTREAM") is None
    assert key_of("SELECT ?x", BLOCK, relation="DSTREAM") == "x"
    assert key_of("CONSTRUCT { ?y a :Seen }", BLOCK, relation="ISTREAM") == "x"


def test_query_over_two_windows_has_one_partition() -> None:
    further = "FROM WINDOW ON :in [RANGE 10s ENTAILMENT NONE]"
    assert key_of("SELECT ?x", "{ ?x :p ?y }", further=further) is None


@pytest.mark.parametrize(
    ("datalog", "where", "reason"),
    [
        (
            ":p(?x, ?z) :- :q(?x, ?z) .",
            BLOCK,
            "conclusions from several elements may join subjects: ENTAILMENT SNAPSHOT or NONE is closed element by element",
        ),
        ("", BLOCK, "the level of its window is not NONE or SNAPSHOT"),
        ("", "{ WINDOW <w> { ?x :p ?y . ?y :q ?z } }", "its triple patterns do not all have one variable as subject"),
    ],
)
def test_warning_names_conclusions_only_where_there_are_rules(datalog: str, where: str, reason: str) -> None:
    text = f"REGISTER RSTREAM <out> AS SELECT ?x FROM NAMED WINDOW <w> ON :in [RANGE 10s] {where}"
    rules = (Document("d.dlog", f"PREFIX : <http://example.org/>\n{datalog}"),) if datalog else ()
    spec = ProgramSpec((Document("q.rspql", text),), rules, prefixes={"": "http://example.org/"})
    (warning,) = [each for each in compile_program(spec).warnings if each.code == "W407"]
    assert warning.message == f"query out has one partition: {reason}"
    assert ("ENTAILMENT NONE" in warning.hint) == ("level" in reason)
