"""Hostile and damaged files of EP-SPARQL: bounded time, diagnostics with places."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.languages.epsparql.reading import TemporalSet, compile_temporal
from dotr.model.places import Document
from tests.support.changed_texts import TextChange, changed, changes, check_places
from tests.support.paths import TESTS
from tests.support.properties import examples

PREFIXES = {"": "http://example.org/", "xsd": "http://www.w3.org/2001/XMLSchema#"}
GOOD = """PREFIX : <http://example.org/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
REGISTER QUERY Fall "a fall" AS SELECT ?c (?p - ?q AS ?by) WHERE { { ?c :price ?p } SEQ { ?c :price ?q } FILTER(?q < ?p * 0.7) }
  EQUALSOPTIONAL { { ?c :price ?p } SEQ EVENT Up(?c) SEQ { ?c :price ?q } } UNION { ?c a :C } BIND(getENDTIME() AS ?e)
  FILTER(getDURATION() < "PT10S"^^xsd:duration) WITHIN 1 min POLICY RECENT
REGISTER STREAM Up AS CONSTRUCT { ?c :rose [ :by ?q ] } WHERE { ?c :rated ?r FILTER(?r > ?q) } OPTIONALSEQ { ?c :price ?q } WITHIN 9 s
"""


def read(text: str) -> TemporalSet:
    return compile_temporal([Document("q.epsparql", text)], PREFIXES)


HOSTILE = {
    "empty": "",
    "spaces": " \n\t ",
    "register alone": "REGISTER",
    "many registers": "REGISTER " * 3000,
    "braces": "REGISTER QUERY Q AS SELECT * WHERE " + "{" * 20000,
    "closing braces": "REGISTER QUERY Q AS SELECT * WHERE " + "}" * 20000,
    "deep chains": "REGISTER QUERY Q AS SELECT * WHERE " + "{ { ?x :p ?y } SEQ " * 500 + "{ ?x :p ?y }" + " WITHIN 1 s }" * 500,
    "long chain": "REGISTER QUERY Q AS SELECT * WHERE { ?x :p ?y }" + " SEQ { ?x :p ?y }" * 3000 + " WITHIN 1 s",
    "long union": "REGISTER QUERY Q AS SELECT * WHERE { ?x :p ?y }" + " UNION { ?x :p ?y }" * 3000,
    "many triples": "REGISTER QUERY Q AS SELECT * WHERE { " + "?x :p ?y . " * 3000 + "} SEQ { ?x :p ?y } WITHIN 1 s",
    "many events": "REGISTER QUERY Q AS SELECT * WHERE EVENT E(" + ", ".join(f"?a{n}" for n in range(3000)) + ")",
    "many filters": "REGISTER QUERY Q AS SELECT * WHERE { ?x :p ?y }" + " FILTER(?x = ?y)" * 1000,
    "long word": "REGISTER QUERY " + "Q" * 100_000 + " AS SELECT * WHERE { ?x :p ?y }",
    "long number": "REGISTER QUERY Q AS SELECT * WHERE { ?x :p ?y } WITHIN " + "9" * 100_000 + " s",
    "deep filter": "REGISTER QUERY Q AS SELECT * WHERE { ?x :p ?y } FILTER" + "(" * 5000 + "?x" + ")" * 5000,
    "nul": GOOD.replace("Fall", "Fa\x00ll"),
    "surrogates": GOOD.replace(":rose", "<http://e/\ud800>"),
    "never closed": 'REGISTER QUERY Q AS SELECT * WHERE { ?x :p "abc }',
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_text_is_bounded(name: str) -> None:
    start = time.process_time()
    result = read(HOSTILE[name])
    assert time.process_time() - start < 20
    assert bool(result.errors or result.units) == bool(HOSTILE[name].strip()), "`check` warns of a file without a statement (C209)"
    assert all(len(str(each)) < 20_000 for each in result.diagnostics)


CORPUS = [path.read_text() for path in sorted((TESTS / "errors").glob("*.epsparql"))] + [GOOD] * 20
PIECES = [
    *"[]{}().;,?<>\"'#-^|*+/\\",
    *[
        "REGISTER",
        "QUERY",
        "STREAM",
        "AS",
        "SELECT",
        "CONSTRUCT",
        "WHERE",
        "SEQ",
        "AND",
        "EQUALS",
        "OPTIONALSEQ",
        "EQUALSOPTIONAL",
        "UNION",
        "EVENT",
        "FILTER",
        "BIND",
        "WITHIN",
        "POLICY",
    ],
    *[
        "OPTIONAL",
        "MINUS",
        "EXISTS",
        "VALUES",
        "GROUP",
        "BY",
        "LIMIT",
        "DISTINCT",
        "RECENT",
        "getDURATION()",
        "getENDTIME",
        "SEQOPTIONAL",
        "10s",
        ":p",
        "?x",
        "{",
        "}",
        "(",
        ")",
        "Fall",
        "dotr_id1",
    ],
]


@given(st.sampled_from(CORPUS), changes(PIECES, 800, 20))
@examples(120)
def test_changed_texts_never_raise(text: str, some: list[TextChange]) -> None:
    """Problems are diagnostics with a place in the text; without an error there is a unit."""
    text = changed(text, some)
    result = read(text)
    check_places(result.diagnostics, text)
    assert result.errors or result.units
