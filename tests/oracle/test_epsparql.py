"""EP-SPARQL by brute force on the examples of ep-sparql.md, section 9: the oracle itself must be right."""

from __future__ import annotations

from collections import Counter

import pytest

from dotr.languages.epsparql.reading import compile_temporal
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.terms import Label, Term, literal_parts
from tests.oracle.cases import read_turtle
from tests.oracle.program import World
from tests.oracle.units import UnitsResult, run_units

pytestmark = pytest.mark.core

S = 1_000_000
PREFIXES = "PREFIX : <http://example.org/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
Row = tuple[int, Label, str]


def run(text: str, stream: str) -> UnitsResult:
    """`stream`: times in seconds and Turtle, `1 :a :price 10 | 5 :a :price 6`."""
    units = compile_temporal([Document("q.epsparql", PREFIXES + text)], {}).checked().units
    elements = []
    for each in filter(None, map(str.strip, stream.split("|"))):
        time, _, graph = each.partition(" ")
        elements.append(("s", Element(int(time) * S, read_turtle(graph + " .", {"": "http://example.org/"}))))
    return run_units(World(), (), elements, temporal=units)


def short(term: Term) -> str:
    return term.removeprefix("<http://example.org/").removesuffix(">") if term.startswith("<") else literal_parts(term)[0]


def rows(text: str, stream: str) -> Counter[Row]:
    """Each event as time in seconds, label, and its attributes in order of names: `c=a q=2`."""
    result = run(text, stream)
    assert not result.too_much
    return Counter((o.time // S, o.event, " ".join(f"{n}={short(t)}" for n, t in sorted(o.attributes.items()))) for o in result.outputs)


def pairs(text: str, stream: str) -> list[str]:
    """The attributes of all events in order of time, without times and labels."""
    return [shown for (_, _, shown), count in sorted(rows(text, stream).items()) for _ in range(count)]


FALL = """REGISTER QUERY Fall AS SELECT ?c WHERE { ?c :price ?p } SEQ { ?c :price ?q }
    FILTER(?q < ?p * 0.7 && getDURATION() < "PT10S"^^xsd:duration)"""


def test_1_a_fall() -> None:
    assert rows(FALL, "1 :a :price 10 | 5 :a :price 6") == {(5, "Fall", "c=a"): 1}
    assert rows(FALL, "1 :a :price 10 | 11 :a :price 6") == {}
    assert rows(FALL, "1 :a :price 10 | 1 :a :price 6") == {}


A, B, C = "{ ?a a :A }", "{ ?b a :B }", "{ ?c a :C }"
INTERVAL = "(getSTARTTIME() AS ?s) (getENDTIME() AS ?e)"


def of(pattern: str) -> str:
    return f"REGISTER QUERY Q AS SELECT {INTERVAL} WHERE {pattern}"


def test_2_three_in_sequence() -> None:
    three = of(f"{A} SEQ {B} SEQ {C} WITHIN 10 s")
    assert rows(three, "1 :x a :A | 3 :y a :B | 5 :y a :B | 9 :z a :C") == {(9, "Q", "e=9 s=1"): 2}
    assert rows(three, "1 :x a :A | 3 :y a :B | 5 :y a :B | 11 :z a :C") == {(11, "Q", "e=11 s=1"): 2}
    assert rows(three, "1 :x a :A | 3 :y a :B | 5 :y a :B | 12 :z a :C") == {}


def test_3_nested() -> None:
    assert rows(of(f"{A} SEQ {{ {B} SEQ {C} }} WITHIN 10 s"), "2 :y a :B | 3 :x a :A | 5 :z a :C") == {}
    conjunction = of(f"{{ {A} SEQ {C} }} AND {B} WITHIN 10 s")
    assert rows(conjunction, "2 :y a :B | 3 :x a :A | 5 :z a :C") == {(5, "Q", "e=5 s=2"): 1}
    assert rows(conjunction, "3 :x a :A | 5 :z a :C | 7 :y a :B") == {(7, "Q", "e=7 s=3"): 1}


RATED = f"""REGISTER QUERY Q AS SELECT ?r {INTERVAL} WHERE
    {{ ?c :rated ?r FILTER(getDURATION() < "PT5S"^^xsd:duration) }} OPTIONALSEQ {{ ?c :price ?p }}"""


def test_4_an_optional_part_in_the_past() -> None:
    assert rows(RATED, "1 :a :rated 3 | 4 :a :price 1") == {(4, "Q", "e=4 r=3 s=1"): 1}
    assert rows(RATED, "1 :a :rated 3 | 8 :a :price 1") == {(8, "Q", "e=8 s=8"): 1}
    assert rows(RATED, "4 :a :rated 3 | 4 :a :price 1") == {(4, "Q", "e=4 s=4"): 1}
    assert rows(RATED, "4 :a :price 1 | 5 :a :rated 3") == {(4, "Q", "e=4 s=4"): 1}


def test_5_nothing_between() -> None:
    text = of(f"{{ {A} SEQ {B} }} EQUALSOPTIONAL {{ {A} SEQ {C} SEQ {B} }} FILTER(!BOUND(?c)) WITHIN 9 s")
    assert rows(text, "1 :x a :A | 1 :z a :C | 3 :y a :B") == {(3, "Q", "e=3 s=1"): 1}
    assert rows(text, "1 :x a :A | 2 :z a :C | 3 :y a :B") == {}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("UNRESTRICTED", ["1,3", "2,3", "1,4", "2,4"]),
        ("CHRONOLOGICAL", ["1,3", "2,4"]),
        ("RECENT", ["2,3", "1,4"]),
    ],
)
def test_6_policies(policy: str, expected: list[str]) -> None:
    found = pairs(of(f"{A} SEQ {B} WITHIN 9 s POLICY {policy}"), "1 :x a :A | 2 :x a :A | 3 :y a :B | 4 :y a :B")
    assert sorted(found) == sorted(f"e={e} s={s}" for s, e in (pair.split(",") for pair in expected))


SUM = """REGISTER STREAM Sum AS CONSTRUCT { [] :n ?m ; :sum ?t } WHERE { ?x :n ?k ; :sum ?s } SEQ { :a :price ?p }
    BIND(?k + 1 AS ?m) BIND(?s + ?p AS ?t) WITHIN PT1H"""


def test_7_a_running_sum() -> None:
    stream = "0 :acc :n 0 ; :sum 0 | 1 :a :price 5 | 2 :a :price 7"
    assert rows(f"{SUM} POLICY RECENT", stream) == {(1, "Sum", "m=1 t=5"): 1, (2, "Sum", "m=2 t=12"): 1}
    assert rows(SUM, stream) == {(1, "Sum", "m=1 t=5"): 1, (2, "Sum", "m=2 t=12"): 1, (2, "Sum", "m=1 t=7"): 1}


UP = """REGISTER STREAM Up AS CONSTRUCT { ?c :rose ?q } WHERE { ?c :price ?p } SEQ { ?c :price ?q } FILTER(?q > ?p) WITHIN 9 s
    REGISTER QUERY Twice AS SELECT ?q ?r (getSTARTTIME() AS ?s) (getENDTIME() AS ?e) WHERE { ?c :rose ?q } SEQ { ?c :rose ?r } WITHIN 9 s"""


def test_8_constructed_graphs_have_intervals() -> None:
    stream = "1 :a :price 1 | 2 :a :price 2 | 3 :a :price 3"
    assert rows(UP, stream) == {(2, "Up", "c=a q=2"): 1, (3, "Up", "c=a q=3"): 2}
    more = rows(UP, stream + " | 4 :a :price 5")
    assert {row: n for row, n in more.items() if row[1] == "Twice"} == {(4, "Twice", "e=4 q=2 r=5 s=1"): 1}


@pytest.mark.parametrize(
    ("policy", "expected"), [("UNRESTRICTED", ["1,5", "1,9", "8,9"]), ("CHRONOLOGICAL", ["1,5", "8,9"]), ("RECENT", ["1,9"])]
)
def test_9_filters_choose_nothing(policy: str, expected: list[str]) -> None:
    text = f"REGISTER QUERY Q AS SELECT ?a ?b WHERE {{ :x :a ?a }} SEQ {{ :x :b ?b }} FILTER(?b > ?a) WITHIN 9 s POLICY {policy}"
    found = pairs(text, "1 :x :a 1 | 2 :x :a 8 | 3 :x :b 5 | 4 :x :b 9")
    assert sorted(found) == sorted(f"a={a} b={b}" for a, b in (pair.split(",") for pair in expected))


@pytest.mark.parametrize(("policy", "expected"), [("CHRONOLOGICAL", ["1 3 5", "2 4 6"]), ("RECENT", ["1 4 5", "2 3 6"])])
def test_10_policies_of_three(policy: str, expected: list[str]) -> None:
    text = f"REGISTER QUERY Q AS SELECT ?a ?b ?c WHERE {{ :x :a ?a }} SEQ {{ :x :b ?b }} SEQ {{ :x :c ?c }} WITHIN 9 s POLICY {policy}"
    found = pairs(text, "1 :x :a 1 | 2 :x :a 2 | 3 :x :b 3 | 4 :x :b 4 | 5 :x :c 5 | 6 :x :c 6")
    assert sorted(found) == sorted(f"a={a} b={b} c={c}" for a, b, c in (each.split() for each in expected))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("UNRESTRICTED", ["1 3", "2 3", "1 4", "2 4", "5 3", "5 4"]), ("CHRONOLOGICAL", ["1 3", "2 4"]), ("RECENT", ["2 3", "1 4"])],
)
def test_and_under_a_policy_uses_each_solution_once(policy: str, expected: list[str]) -> None:
    text = f"REGISTER QUERY Q AS SELECT ?a ?b WHERE {{ :x :a ?a }} AND {{ :x :b ?b }} WITHIN 9 s POLICY {policy}"
    found = pairs(text, "1 :x :a 1 | 2 :x :a 2 | 3 :x :b 3 | 4 :x :b 4 | 5 :x :a 5")
    assert sorted(found) == sorted(f"a={a} b={b}" for a, b in (each.split() for each in expected))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("UNRESTRICTED", ["1 3", "1 4", "2 3", "2 4", "6 7"]), ("CHRONOLOGICAL", ["1 3", "2 4", "6 7"]), ("RECENT", ["1 4", "2 3", "6 7"])],
)
def test_equals_under_a_policy_uses_each_solution_once(policy: str, expected: list[str]) -> None:
    text = f"REGISTER QUERY Q AS SELECT ?a ?b WHERE {{ :x :a ?a }} EQUALS {{ :x :b ?b }} POLICY {policy}"
    found = pairs(text, "1 :x :a 1, 2 ; :b 3, 4 | 2 :x :a 5 | 3 :x :a 6 ; :b 7")
    assert sorted(found) == sorted(f"a={a} b={b}" for a, b in (each.split() for each in expected))


@pytest.mark.parametrize(("policy", "expected"), [("CHRONOLOGICAL", ["1 3", "2 4", "5 "]), ("RECENT", ["1 4", "2 3", "5 "])])
def test_optional_equals_under_a_policy_is_alone_where_none_is_left(policy: str, expected: list[str]) -> None:
    text = f"REGISTER QUERY Q AS SELECT ?a ?b WHERE {{ :x :a ?a }} EQUALSOPTIONAL {{ :x :b ?b }} POLICY {policy}"
    found = pairs(text, "1 :x :a 1, 2 ; :b 3, 4 | 2 :x :a 5")
    assert sorted(found) == sorted(f"a={a} b={b}" if b else f"a={a}" for a, b in (each.split(" ") for each in expected))
