"""Keys of EP-SPARQL units (ep-sparql.md, section 5)."""

from __future__ import annotations

import pytest

from dotr.languages.epsparql.interval_keys import interval_key, operand_keys
from dotr.languages.epsparql.reading import compile_temporal
from dotr.model.places import Document

pytestmark = pytest.mark.core

A, B, C = "{ ?x :a ?y }", "{ ?x :b ?z }", "{ ?w :c ?z }"


def keys(pattern: str, line: str = "*") -> tuple[str, ...] | None:
    text = f"PREFIX : <http://example.org/> REGISTER QUERY Q AS SELECT {line} WHERE {pattern}"
    (unit,) = compile_temporal([Document("q.epsparql", text)], {}).checked().units
    found = operand_keys(unit)
    assert (found is None) == bool(interval_key(unit).reason)
    return found


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (f"{A} SEQ {B} WITHIN 5 s", ("x", "x")),
        (f"{A} SEQ {B} AND {C} WITHIN 5 s", None),
        (f"{A} SEQ {C} FILTER(?x = ?w) WITHIN 5 s", ("x", "w")),
        (f"{A} SEQ {C} FILTER(sameTerm(?w, ?y) && ?z > 1) WITHIN 5 s", ("y", "w")),
        (f"{A} SEQ {C} FILTER(?x = ?w || ?x = ?z) WITHIN 5 s", None),
        (f"{A} SEQ {C} FILTER(?x = ?w) WITHIN 5 s POLICY RECENT", None),
        (f"{A} SEQ {B} WITHIN 5 s POLICY RECENT", ("x", "x")),
        (f"{A} SEQ {B} UNION {{ ?x :d ?y }} WITHIN 5 s", ("x", "x", "x")),
        (f"{A} SEQ {B} UNION {C} WITHIN 5 s", None),
        (f"{A} OPTIONALSEQ {C} FILTER(?x = ?w) WITHIN 5 s", None),
        (f"{{ ?x :a ?y FILTER(?x = ?w) }} OPTIONALSEQ {C} WITHIN 5 s", ("x", "w")),
        (f"{{ {A} SEQ {C} FILTER(?x = ?w) }} AND {{ ?x :d ?v }} WITHIN 5 s", ("x", "w", "x")),
        (f"{A} SEQ {{ ?q :b ?z OPTIONAL {{ ?q :r ?x }} }} WITHIN 5 s", None),
        (f"{A} SEQ {{ ?v :b ?u }} SEQ {C} FILTER(?x = ?v) FILTER(?v = ?w) WITHIN 5 s", ("x", "v", "w")),
        ("{ :a :b :c } SEQ { :d :e :f } WITHIN 5 s", None),
    ],
)
def test_key_has_an_equal_variable_for_each_operand(pattern: str, expected: tuple[str, ...] | None) -> None:
    assert keys(pattern, "(1 AS ?one)") == expected


def test_distinct_needs_the_key_among_its_columns() -> None:
    assert keys(f"{A} SEQ {B} WITHIN 5 s", "DISTINCT ?x") == ("x", "x")
    assert keys(f"{A} SEQ {B} WITHIN 5 s", "DISTINCT ?y") is None
    assert keys(f"{A} SEQ {C} FILTER(?x = ?w) WITHIN 5 s", "DISTINCT ?w") == ("x", "w")
    assert keys(f"{A} SEQ {C} FILTER(?x = ?w) WITHIN 5 s", "DISTINCT (?w AS ?v)") is None
