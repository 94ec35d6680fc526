"""Compiler of EP-SPARQL: the paper's queries, temporal and plain groups, F, bounds, operands."""

from __future__ import annotations

import pytest

from dotr.languages.epsparql.reading import TemporalSet, compile_temporal
from dotr.model.algebra import Bgp, Call, Const, Exists, Filter, LeftJoin, Var
from dotr.model.places import Document
from dotr.temporal.intervals.patterns import (
    DURATION,
    END,
    START,
    Alternatives,
    Chain,
    Combination,
    ConstructedGraphs,
    EventRead,
    InstantAnswers,
    InstantGroup,
    IntervalPattern,
    SelectedSolutions,
    TemporalOperator,
    TemporalQuery,
    UsePolicy,
    certain_variables,
    combinations,
    operand_reads,
    visible_variables,
)

pytestmark = pytest.mark.core

S = 1_000_000
DAY = 86_400 * S
PREFIXES = {"": "http://example.org/", "xsd": "http://www.w3.org/2001/XMLSchema#"}


def read(text: str) -> TemporalSet:
    return compile_temporal([Document("q.epsparql", text)], PREFIXES)


def one(text: str) -> TemporalQuery:
    (unit,) = read(text).checked().units
    return unit


def where(pattern: str, policy: str = "") -> IntervalPattern:
    result = one(f"REGISTER QUERY Q AS SELECT * WHERE {pattern} {policy}").where
    assert result is not None
    return result


def codes(text: str) -> list[str]:
    return [each.code for each in read(text).errors]


def bounds(pattern: str) -> list[tuple[str, int | None]]:
    """Operators, inner ones first, with their bounds in seconds."""
    found = combinations(where(pattern))
    return [(each.operator.value, None if each.bound is None else each.bound // S) for each in found]


# --- the paper's six queries, as printed except for the prefixes of names ---

PAPER = {
    1: """REGISTER QUERY Paper AS SELECT ?company WHERE { ?company :hasStockPrice ?price1 } SEQ { ?company :hasStockPrice ?price2 }
        SEQ { ?company :hasStockPrice ?price3 }
        FILTER ( ?price2 < ?price1 * 0.7 && ?price3 > ?price1 * 1.05 && getDURATION() < "P30D"^^xsd:duration)""",
    2: """REGISTER QUERY Paper AS SELECT ?company ?ratingagency WHERE { ?company :downratedby ?ratingagency} OPTIONALSEQ
        { { ?company :hasStockPrice ?price1 } SEQ { ?company :hasStockPrice ?price2 }} FILTER (?price2 < ?price1 * 0.5)""",
    3: """REGISTER QUERY Paper AS SELECT ?company WHERE { ?company :hasStockprice ?price1 } SEQ
        { { ?company :hasAcquired ?othercompany } OPTIONALSEQ { ?company :hasStockPrice ?price2 } }
        FILTER ( ?price2 < ?price1 * 1.5 && !BOUND(?othercompany) && getDURATION() < "P15D"^^xsd:duration )""",
    4: """REGISTER STREAM Paper AS CONSTRUCT { ?company :downratedby ?ratingagency } WHERE
        { ?rating1 :rater ?ratingagency ; :rated ?company ; :score ?score1 } SEQ
        { ?rating2 :rater ?ratingagency ; :rated ?company ; :score ?score2 } FILTER ( ?score2 < ?score1 )""",
    5: """REGISTER STREAM Paper AS CONSTRUCT { _:aaa :hasCount ?count . _:aaa :hasSum ?sum . }
        { SELECT (?prevcount + 1 AS ?count) (?prevsum + ?price AS ?sum) WHERE
        {{ ?point :hasCount ?prevcount . ?point :hasSum ?prevsum . } SEQ { :ACME :hasStockPrice ?price . }} EQUALSOPTIONAL
        {{ ?point :hasCount ?prevcount . ?point :hasSum ?prevsum . } SEQ { :ACME :hasStockPrice ?inbetween . } SEQ
        { :ACME :hasStockPrice ?price . }} FILTER ( !BOUND(?inbetween) && getDURATION() < "P10D"^^xsd:duration )}""",
    6: """REGISTER QUERY Paper AS SELECT (?sum / ?count AS ?average) WHERE
        {{ :ACME :hasStockPrice ?price . } SEQ { ?point :hasCount ?count . ?point :hasSum ?sum . }} EQUALSOPTIONAL
        {{ :ACME :hasStockPrice ?price . } SEQ { :ACME :hasStockPrice ?inbetween . } SEQ
        { ?point :hasCount ?prevcount . ?point :hasSum ?prevsum . }}
        FILTER ( !BOUND(?inbetween) && getDURATION() > "P10D"^^xsd:duration )""",
}


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_query_of_the_paper_without_a_bound_gives_e201_alone(number: int) -> None:
    assert set(codes(PAPER[number])) == {"E201"}


@pytest.mark.parametrize("number", [2, 4, 6])
def test_query_of_the_paper_with_a_bound_is_compiled(number: int) -> None:
    assert one(f"{PAPER[number]} WITHIN 30 d").label == "Paper"


def test_query_1_of_the_paper_is_bounded_by_its_duration() -> None:
    unit = one(PAPER[1])
    assert bounds_of(unit) == [("SEQ", 30 * DAY - 1)] * 2
    assert unit.attributes == ("company",)


def test_query_3_of_the_paper_is_bounded_by_the_duration_in_the_optional_braces() -> None:
    text = PAPER[3].replace("?othercompany }", '?othercompany FILTER(getDURATION() < "P15D"^^xsd:duration) }')
    assert bounds_of(one(text)) == [("OPTIONALSEQ", 15 * DAY - 1), ("SEQ", 15 * DAY - 1)]


def bounds_of(unit: TemporalQuery) -> list[tuple[str, int | None]]:
    assert unit.where is not None
    return [(each.operator.value, each.bound) for each in combinations(unit.where)]


def test_query_5_of_the_paper_has_a_sub_select_as_its_where() -> None:
    unit = one(PAPER[5])
    assert isinstance(unit.form, ConstructedGraphs)
    assert unit.attributes == ("count", "sum")
    assert {bound for _, bound in bounds_of(unit)} == {None, 10 * DAY - 1}
    assert codes(PAPER[5].replace("_:aaa :hasCount ?count", "_:aaa :hasCount ?prevcount")) == ["E203"]


# --- temporal and plain groups ---


def test_a_group_without_temporal_words_is_plain() -> None:
    pattern = where("{ ?x :p ?y OPTIONAL { ?y :q ?z } { ?x :r ?w } UNION { ?x :s ?w } }")
    assert isinstance(pattern, InstantGroup)
    assert not pattern.is_basic
    assert pattern.visible == ("x", "y", "z", "w")
    assert pattern.certain == {"x", "y", "w"}


def test_a_group_of_one_union_and_filters_is_a_chain_of_plain_groups() -> None:
    pattern = where("{ { ?x :p ?y } UNION { ?x :q ?y FILTER(?y > 1) } FILTER(?x != ?y) }")
    assert isinstance(pattern, Chain)
    assert isinstance(pattern.pattern, Alternatives)
    assert [branch.is_basic for branch in pattern.pattern.branches if isinstance(branch, InstantGroup)] == [True, True]
    first = where("{ FILTER(?x != ?y) { ?x :p ?y } UNION { ?x :q ?y } }")
    assert isinstance(first, Chain)
    assert isinstance(first.pattern, Alternatives)


@pytest.mark.parametrize("more", ["BIND(1 AS ?n)", "?x a :C", "OPTIONAL { ?x :r ?z }", "FILTER EXISTS { ?x a :C }"])
def test_a_group_of_a_union_and_more_is_plain(more: str) -> None:
    assert isinstance(where(f"{{ {{ ?x :p ?y }} UNION {{ ?x :q ?y }} {more} }}"), InstantGroup)


@pytest.mark.parametrize(
    ("group", "is_basic"),
    [
        ("?x :p ?y . ?y :q [ :r ?z ]", True),
        ("?x :p ?y FILTER(?y > 1) BIND(?y + 1 AS ?z) VALUES ?x { :a }", True),
        ("?x :p/:q ?y", False),
        ("?x ^:p ?y", False),
        ("?x :p+ ?y", False),
        ("?x :p ?y FILTER EXISTS { ?x :q ?y }", False),
        ("{ ?x :p ?y }", False),
        ("VALUES ?x { :a }", False),
        ("", False),
        ("SELECT ?x WHERE { ?x :p ?y }", False),
        ("?x :p ?y MINUS { ?x :q ?y }", False),
        ("?x :p << :a :b ?c >>", False),
    ],
)
def test_basic_group_is_one_of_triples_alone(group: str, is_basic: bool) -> None:
    pattern = where(f"{{ {group} }} SEQ {{ ?x :p ?y }} WITHIN 5 s")
    assert isinstance(pattern, Chain)
    assert isinstance(pattern.pattern, Combination)
    left = pattern.pattern.left
    assert isinstance(left, InstantGroup)
    assert left.is_basic == is_basic


def test_operators_associate_to_the_left_and_union_binds_tighter() -> None:
    pattern = where("{ ?x :a ?y } SEQ { ?x :b ?y } UNION { ?x :c ?y } AND { ?x :d ?y } WITHIN 5 s")
    assert isinstance(pattern, Chain)
    outer = pattern.pattern
    assert isinstance(outer, Combination)
    assert outer.operator is TemporalOperator.AND
    assert isinstance(outer.left, Combination)
    assert outer.left.operator is TemporalOperator.SEQ
    assert isinstance(outer.left.right, Alternatives)


def test_keywords_and_functions_are_in_any_case() -> None:
    end = 'Filter(GetDuration() <= "PT5S"^^xsd:duration) policy Recent'
    unit = one(f'register query Q "doc" as select ?x where {{ ?x :p ?y }} Seq {{ ?x :q ?y }} {end}')
    assert (unit.policy, unit.documentation) == (UsePolicy.RECENT, "doc")


def test_braces_around_the_whole_where_are_optional() -> None:
    for pattern in ("{ ?x :p ?y } SEQ { ?x :q ?y } WITHIN 5 s", "{ { ?x :p ?y } SEQ { ?x :q ?y } WITHIN 5 s }"):
        assert bounds(pattern) == [("SEQ", 5)]
        assert one(f"REGISTER QUERY Q AS SELECT ?x {pattern}").attributes == ("x",)


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("5 min", 300 * S),
        ("PT1H", 3600 * S),
        ('"P10D"^^xsd:duration', 10 * DAY),
        ("1 h 30 min.", 5400 * S),
        ("250ms", S // 4),
        ("PT0.25S", S // 4),
    ],
)
def test_within_has_its_length_in_micros(written: str, length: int) -> None:
    (combination,) = combinations(where(f"{{ ?x :p ?y }} SEQ {{ ?x :q ?y }} WITHIN {written}"))
    assert combination.within == combination.bound == length


def test_event_is_read_with_its_attributes() -> None:
    pattern = where("EVENT Fire(?room AS ?r, ?n) SEQ EVENT Smoke SEQ EVENT Alarm() WITHIN 5 s")
    reads = [(each.operand, each.now) for each in operand_reads(pattern)]
    assert [(event.label, event.attributes, now) for event, now in reads if isinstance(event, EventRead)] == [
        ("Fire", (("room", "r"), ("n", "n")), False),
        ("Smoke", (), False),
        ("Alarm", (), True),
    ]
    assert one("REGISTER QUERY Q AS SELECT ?x EVENT Fire(?x)").attributes == ("x",)


def test_keyword_in_the_place_of_a_label_or_name_is_a_name() -> None:
    assert one('REGISTER QUERY EVENT AS SELECT ?seq WHERE { ?seq :SEQ ?event . FILTER(?event != "SEQ") } # SEQ').label == "EVENT"


# --- forms ---


def test_select_line_has_columns_with_expressions() -> None:
    unit = one("REGISTER QUERY Q AS SELECT DISTINCT ?x (getSTARTTIME() AS ?s) (?s + 1 AS ?t) WHERE { ?x :p ?y }")
    assert isinstance(unit.form, SelectedSolutions)
    assert unit.form.distinct
    assert unit.form.columns[:2] == (("x", None), ("s", Var(START)))
    assert unit.attributes == ("s", "t", "x")
    everything = one("REGISTER QUERY Q AS SELECT * WHERE { ?x :p [] } BIND(getENDTIME() AS ?e)")
    assert everything.attributes == ("e", "x")


def test_a_query_of_one_plain_group_may_have_modifiers() -> None:
    text = (
        "REGISTER QUERY Q AS SELECT ?x (COUNT(*) AS ?n) WHERE { ?x :p ?y } GROUP BY ?x HAVING(?x != :a) ORDER BY DESC(?n) LIMIT 3 OFFSET 1"
    )
    unit = one(text)
    assert isinstance(unit.form, InstantAnswers)
    assert unit.form.query.limit == 3
    assert unit.attributes == ("n", "x")
    assert isinstance(one("REGISTER QUERY Q AS SELECT (COUNT(*) AS ?n) { ?x :p ?y }").form, InstantAnswers)
    assert isinstance(one("REGISTER QUERY Q AS SELECT ?x (EXISTS { ?x :q ?z } AS ?e) { ?x :p ?y }").form, InstantAnswers)
    union = one("REGISTER QUERY Q AS SELECT (MAX(?y) AS ?n) { { ?x :p ?y } UNION { ?x :q ?y } }").form
    assert isinstance(union, InstantAnswers)
    assert isinstance(one("REGISTER QUERY Q AS SELECT DISTINCT ?x { ?x :p ?y }").form, SelectedSolutions)
    assert isinstance(one("REGISTER QUERY Q AS SELECT ?x { ?x :p ?y } VALUES ?x { :a }").form, InstantAnswers)


# --- functions, F and filters ---


def test_functions_of_a_basic_group_are_lifted_around_its_pattern() -> None:
    pattern = where("{ ?x :p ?y BIND(getENDTIME() AS ?e) FILTER(?y > 1 && ?e > 3) }")
    assert isinstance(pattern, Chain)
    assert isinstance(pattern.pattern, InstantGroup)
    assert pattern.pattern.visible == ("x", "y")
    assert isinstance(pattern.pattern.pattern, Filter)
    assert pattern.bindings == (("e", Var(END)),)
    assert len(pattern.filters) == 1
    assert visible_variables(pattern) == ("x", "y", "e")


def test_f_is_the_filters_in_the_braces_of_the_optional_operand() -> None:
    pattern = where('{ ?c :rated ?r FILTER(?r > ?p && getDURATION() < "PT5S"^^xsd:duration) } OPTIONALSEQ { ?c :price ?p FILTER(?p > 1) }')
    assert isinstance(pattern, Combination)
    assert len(pattern.condition) == 2
    assert isinstance(pattern.left, InstantGroup)
    assert isinstance(pattern.left.pattern, Bgp)
    assert isinstance(pattern.right, InstantGroup)
    assert isinstance(pattern.right.pattern, Filter)
    assert pattern.bound == 5 * S - 1


def test_one_more_pair_of_braces_makes_f_a_filter_of_the_operand() -> None:
    pattern = where("{ { ?c :rated ?r FILTER(?r > 1) } } OPTIONALSEQ { ?c :price ?p } WITHIN 5 s")
    assert isinstance(pattern, Chain)
    assert isinstance(pattern.pattern, Combination)
    assert pattern.pattern.condition == ()
    nested = where("{ { { ?c :rated ?r } SEQ { ?c :up ?u } FILTER(?r > 1) } } OPTIONALSEQ { ?c :price ?p } WITHIN 5 s")
    assert isinstance(nested, Chain)
    assert isinstance(nested.pattern, Combination)
    assert nested.pattern.condition == ()
    own = where("{ { ?c :rated ?r } SEQ { ?c :up ?u } FILTER(?r > ?p) } OPTIONALSEQ { ?c :price ?p } WITHIN 5 s")
    assert isinstance(own, Chain)
    assert isinstance(own.pattern, Combination)
    assert own.pattern.condition == (Call(">", (Var("r"), Var("p"))),)
    exists = where("{ { ?c :rated ?r FILTER EXISTS { ?c a :C } } } OPTIONALSEQ { ?c :price ?p } WITHIN 5 s")
    assert isinstance(exists, Chain)


@pytest.mark.parametrize("optional", ["EVENT E(?c)", "{ ?c :a ?x FILTER(?x > 1) } UNION { ?c :b ?x }", "{ ?c :a ?x } SEQ { ?c :b ?x }"])
def test_without_braces_of_its_own_an_optional_operand_has_no_f(optional: str) -> None:
    event = "REGISTER QUERY E AS SELECT ?c { ?c a :E }"
    text = f"{event} REGISTER QUERY Q AS SELECT * WHERE {optional} OPTIONALSEQ {{ ?c :price ?p }} WITHIN 5 s"
    *_, unit = read(text).checked().units
    assert isinstance(unit.where, Chain)
    assert isinstance(unit.where.pattern, Combination)
    assert unit.where.pattern.condition == ()


def test_filters_of_a_chain_are_split_and_exists_remains_in_its_plain_group() -> None:
    pattern = where("{ ?x :p ?y FILTER NOT EXISTS { ?x :q ?y } } SEQ { ?x :r ?z } FILTER(?y < ?z && BOUND(?x)) FILTER BOUND(?y) WITHIN 5 s")
    assert isinstance(pattern, Chain)
    assert len(pattern.filters) == 3
    assert isinstance(pattern.pattern, Combination)
    left = pattern.pattern.left
    assert isinstance(left, InstantGroup)
    assert isinstance(left.pattern, Filter)
    assert isinstance(left.pattern.conditions[0], Exists)
    assert Const("x") not in pattern.filters


# --- bounds (section 3) ---

A, B, C = "{ ?x :a ?y }", "{ ?x :b ?y }", "{ ?x :c ?y }"
LIMIT = 'FILTER(getDURATION() <= "PT{}S"^^xsd:duration)'


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (f"{A} SEQ {B} AND {C} WITHIN 7 s", [("SEQ", 7), ("AND", 7)]),
        (f"{{ {A} SEQ {B} WITHIN 3 s }} AND {C} WITHIN 7 s", [("SEQ", 3), ("AND", 7)]),
        (f"{{ {A} SEQ {B} WITHIN 9 s }} AND {C} WITHIN 7 s", [("SEQ", 7), ("AND", 7)]),
        (f"{{ {A} SEQ {B} }} AND {C} {LIMIT.format(6)}", [("SEQ", 6), ("AND", 6)]),
        (f"{{ {A} SEQ {B} {LIMIT.format(4)} }} UNION {C} {LIMIT.format(6)}", [("SEQ", 4)]),
        (f"{A} EQUALS {B}", [("EQUALS", None)]),
        (f"{A} EQUALSOPTIONAL {B}", [("EQUALSOPTIONAL", None)]),
        (f"{A} EQUALSOPTIONAL {{ {B} SEQ {C} }} {LIMIT.format(6)}", [("SEQ", 6), ("EQUALSOPTIONAL", None)]),
        (f"{{ {A} SEQ {B} }} EQUALSOPTIONAL {C} {LIMIT.format(6)}", [("SEQ", 6), ("EQUALSOPTIONAL", None)]),
        (f"{A} EQUALSOPTIONAL {{ {B} SEQ {C} {LIMIT.format(5)} }}", [("SEQ", 5), ("EQUALSOPTIONAL", 5)]),
        (f"{{ {A} SEQ {B} {LIMIT.format(5)} }} OPTIONALSEQ {C}", [("SEQ", 5), ("OPTIONALSEQ", 5)]),
        (f"{{ ?x :a ?y {LIMIT.format(5)} }} OPTIONALSEQ {{ {B} SEQ {C} }} {LIMIT.format(8)}", [("SEQ", 8), ("OPTIONALSEQ", 5)]),
        (f'{A} SEQ {B} FILTER("PT5S"^^xsd:dayTimeDuration = getDURATION())', [("SEQ", 5)]),
        (f'{A} SEQ {B} FILTER("PT5S"^^xsd:duration > getDURATION() && ?x = ?y)', [("SEQ", 4)]),
        (f"{A} AND {B} WITHIN 0 s", [("AND", 0)]),
    ],
)
def test_operator_has_the_least_bound_around_it(pattern: str, expected: list[tuple[str, int | None]]) -> None:
    assert bounds(pattern) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        f"{A} SEQ {B}",
        f"{A} AND {B}",
        f"{A} OPTIONALSEQ {B}",
        f"{A} OPTIONALSEQ {B} {LIMIT.format(5)}",
        f"{{ {A} SEQ {B} }} OPTIONALSEQ {C} {LIMIT.format(5)}",
        f'{A} SEQ {B} FILTER(getDURATION() > "PT5S"^^xsd:duration)',
        f'{A} SEQ {B} FILTER(getDURATION() < "PT5S"^^xsd:duration || ?x = ?y)',
        f'{A} SEQ {B} BIND("PT5S"^^xsd:duration AS ?d) FILTER(getDURATION() < ?d)',
        f'{A} SEQ {B} FILTER(getDURATION() < "P1M"^^xsd:duration)',
        f'{A} SEQ {B} FILTER(getDURATION() < "P1M"^^xsd:yearMonthDuration)',
        f"{{ {A} EQUALS {{ {B} SEQ {C} }} }} AND {{ {A} SEQ {B} WITHIN 5 s }}",
    ],
)
def test_operator_without_a_bound_is_an_error(pattern: str) -> None:
    assert set(codes(f"REGISTER QUERY Q AS SELECT * WHERE {pattern}")) == {"E201"}


@pytest.mark.parametrize(
    "pattern",
    [
        f"{A} SEQ {B} WITHIN 0 s",
        f'{A} SEQ {B} FILTER(getDURATION() < "PT0.000001S"^^xsd:duration)',
        f'{A} AND {B} FILTER(getDURATION() < "PT0S"^^xsd:duration)',
        f'{A} AND {B} FILTER(getDURATION() = "-PT1S"^^xsd:duration)',
        f'{A} EQUALS {B} FILTER(getDURATION() < "PT0S"^^xsd:duration)',
        f'{A} EQUALSOPTIONAL {B} FILTER(getDURATION() < "PT0S"^^xsd:duration)',
        f"{{ ?x :a ?y {LIMIT.format(0)} }} OPTIONALSEQ {B}",
    ],
)
def test_unsatisfiable_bound_is_an_error(pattern: str) -> None:
    assert codes(f"REGISTER QUERY Q AS SELECT * WHERE {pattern}") == ["E202"]


# --- errors: all of a file ---


def test_all_errors_of_a_file_are_reported() -> None:
    text = """REGISTER QUERY One AS SELECT ?a WHERE { ?x :p ?y . { ?x :p ?y } SEQ { ?x foo ?y } WITHIN 5 }
    REGISTER QUERY Two AS CONSTRUCT { ?x :p ?y } WHERE { ?x :p ?y } SEQ { ?x :q ?y }
    REGISTER QUERY Three AS SELECT ?x WHERE { ?x nope:p ?y } SEQ { ?x :p ?y FILTER(now() > 1) } WITHIN 1 s POLICY LAST
    REGISTER STREAM Four AS CONSTRUCT { ?z :p dotr_id1 } WHERE { GRAPH ?g { ?x :p ?y } }
    REGISTER QUERY Five AS SELECT ?x WHERE { ?x :p ?y }"""
    result = read(text)
    assert [each.code for each in result.errors] == ["E109", "Q103", "E108", "E104", "E201", "Q104", "Q108", "E106", "E114", "Q107"]
    assert [unit.label for unit in result.units] == ["Five"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("REGISTER QUERY Q AS SELECT ?x FROM :g WHERE { ?x :p ?y }", "Q107"),
        ("REGISTER QUERY Q AS SELECT ?x WHERE { SERVICE :s { ?x :p ?y } }", "Q107"),
        ("REGISTER QUERY Q AS SELECT ?x WHERE { ?x :p ?y BIND(UUID() AS ?u) }", "Q108"),
        ("REGISTER QUERY Q AS SELECT (RAND() AS ?r) WHERE { ?x :p ?y } SEQ { ?x :q ?y } WITHIN 1 s", "Q108"),
        ("REGISTER QUERY Q AS SELECT ?x WHERE { ?x :p ?y } SEQ { ?x :q ?y } FILTER(NOW() > 1) WITHIN 1 s", "Q108"),
        ("REGISTER QUERY Q AS SELECT ?x WHERE { ?x :p ?y } SEQ { ?x :q ?y } FILTER(SUM(?y) > 1) WITHIN 1 s", "Q113"),
        ("REGISTER QUERY Q AS SELECT ?x WHERE { { ?x :p ?y } SEQ { ?x :q ?y } WITHIN 1 s", "Q102"),
        ("REGISTER QUERY Q AS SELECT ?x WHERE { ?x :p ?y BIND(?x AS ?y) }", "Q111"),
    ],
)
def test_error_of_sparql_has_its_code(text: str, code: str) -> None:
    assert codes(text) == [code]


def test_certain_variables_are_those_of_mandatory_operands() -> None:
    pattern = where(f"{{ ?c :rated ?r }} OPTIONALSEQ {{ ?c :price ?p OPTIONAL {{ ?c :name ?n }} }} AND {A} UNION {{ ?x :b ?z }} WITHIN 5 s")
    assert certain_variables(pattern) == {"c", "p", "x"}
    assert isinstance(where("{ ?x :p ?y OPTIONAL { ?y :q ?z } }"), InstantGroup)
    group = where("{ ?x :p ?y OPTIONAL { ?y :q ?z } }")
    assert isinstance(group, InstantGroup)
    assert isinstance(group.pattern, LeftJoin)
    assert DURATION not in visible_variables(pattern)
