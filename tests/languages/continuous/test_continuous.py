"""Compiler of continuous queries: texts of RSP4J, YASPER, RSP-JS, the W3C group and C-SPARQL; every construct; hostile texts."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.languages.continuous.model import (
    AskForm,
    ConstructForm,
    ContinuousQuery,
    ContinuousWindow,
    ElementsExtent,
    EntailmentLevel,
    Extent,
    LandmarkExtent,
    Level,
    NowExtent,
    RangeExtent,
    RelationToStream,
    ReportPolicies,
    SelectForm,
    StreamLevel,
    TriplesExtent,
)
from dotr.languages.continuous.reading import ContinuousSet, compile_continuous, statement_spans
from dotr.model.algebra import Bgp, Filter, Join, LeftJoin, MatchPattern, Select, WindowBlock
from dotr.model.places import Document
from dotr.model.time import Unit
from dotr.temporal.intervals.patterns import Edge, Ordered, Outermost, PlainGroup, SequencePolicy
from tests.support.changed_texts import TextChange, changed, changes, check_places
from tests.support.paths import TESTS
from tests.support.properties import examples

S = 1_000_000
CLOSES = ReportPolicies(window_close=True, non_empty=True)


def read(text: str, unit: Unit = Unit.SECOND) -> ContinuousSet:
    return compile_continuous([Document("q.rspql", text)], {"": "http://example.org/"}, unit)


def one(text: str, unit: Unit = Unit.SECOND) -> ContinuousQuery:
    (query,) = read(text, unit).checked().queries
    return query


def window(spec: str, unit: Unit = Unit.SECOND, relation: str = "RSTREAM") -> ContinuousWindow:
    return one(
        f"REGISTER {relation} <out> AS SELECT ?x FROM NAMED WINDOW <w> ON <in> [{spec}] {{ WINDOW <w> {{ ?x ?p ?y }} }}", unit
    ).windows[0]


# --- texts of other engines ---


def test_query_of_rsp4j_and_yasper_is_compiled() -> None:
    query = one("""
        PREFIX c: <http://example.org/color#>
        REGISTER RSTREAM <http://out.example.org/stream> AS
        SELECT ?green
        FROM NAMED WINDOW <http://example.org/w1> ON <http://stream.example.org/1> [RANGE PT2S STEP PT2S]
        WHERE { WINDOW <http://example.org/w1> { ?green a c:Green } }
    """)
    assert (query.label, query.name, query.relation) == ("stream", "http://out.example.org/stream", RelationToStream.RSTREAM)
    assert query.windows[0].extent == RangeExtent(2 * S, 2 * S)
    assert query.windows[0].policies == CLOSES


def test_query_of_rsp_js_with_bare_numbers_and_relative_names_is_compiled() -> None:
    query = one("""PREFIX : <https://rsp.js/>
        REGISTER RStream <output> AS
        SELECT (AVG(?v) AS ?average)
        FROM NAMED WINDOW :w1 ON STREAM :stream1 [RANGE 10 STEP 2]
        FROM NAMED WINDOW :w2 ON STREAM :stream2 [RANGE 5 STEP 2]
        WHERE{ WINDOW :w1 { ?sensor :value ?v . ?sensor :measurement: ?m } WINDOW :w2 { ?s :value ?v } }""")
    assert (query.label, query.name) == ("output", "output")
    assert [(each.name, each.stream) for each in query.windows] == [
        ("<https://rsp.js/w1>", "https://rsp.js/stream1"),
        ("<https://rsp.js/w2>", "https://rsp.js/stream2"),
    ]
    assert isinstance(query.form, SelectForm)
    milliseconds = window("RANGE 10 STEP 2", Unit.MILLISECOND).extent
    assert milliseconds == RangeExtent(10_000, 2_000)


def test_query_of_the_w3c_draft_is_compiled() -> None:
    query = one("""PREFIX e: <http://example.org/>
        REGISTER STREAM e:hot AS
        CONSTRUCT ISTREAM { ?s e:hotterThan ?before }
        FROM NAMED WINDOW e:now ON e:obs [RANGE PT1H STEP PT10M]
        FROM NAMED WINDOW e:past ON e:obs [FROM NOW-PT2H TO NOW-PT1H STEP PT1H]
        WHERE {
          WINDOW e:now { ?s e:value ?value }
          WINDOW e:past { ?s e:value ?before }
          FILTER(?value > ?before)
        }""")
    assert (query.label, query.relation, query.makes_graphs) == ("hot", RelationToStream.ISTREAM, True)
    assert [each.extent for each in query.windows] == [RangeExtent(3600 * S, 600 * S), RangeExtent(7200 * S, 3600 * S, 3600 * S)]
    assert isinstance(query.form, ConstructForm)
    assert query.query.projection == ("s", "value", "before")


def test_queries_of_c_sparql_are_compiled() -> None:
    query = one("""REGISTER QUERY CarsEntering COMPUTED EVERY 10m AS
        PREFIX t: <http://linkedurbandata.org/traffic#>
        SELECT DISTINCT ?district ?tollgate (COUNT(?car) AS ?passages)
        FROM STREAM <http://streams.org/gates.trdf> [RANGE 30m STEP 5m]
        WHERE { ?tollgate t:registers ?car . ?district t:contains ?tollgate }
        GROUP BY ?district ?tollgate""")
    assert (query.label, query.relation) == ("CarsEntering", RelationToStream.RSTREAM)
    (only,) = query.windows
    assert (only.name, only.extent) == (None, RangeExtent(1800 * S, 300 * S))
    assert only.policies == ReportPolicies(period=600 * S, non_empty=True)
    physical = one("REGISTER STREAM Last AS CONSTRUCT { ?s :p ?o } FROM STREAM :in [RANGE TRIPLES 100] WHERE { ?s :p ?o }")
    assert physical.windows[0].extent == TriplesExtent(100, 1)
    assert one("REGISTER QUERY q COMPUTE EVERY 5s AS ASK FROM STREAM :in [RANGE 1h TUMBLING] { ?s :p ?o }").windows[
        0
    ].extent == RangeExtent(3600 * S, 3600 * S)


# --- every construct ---


@pytest.mark.parametrize(
    ("spec", "extent"),
    [
        ("RANGE 10s", RangeExtent(10 * S, 10 * S)),
        ("range 10 s step 5 s", RangeExtent(10 * S, 5 * S)),
        ("RANGE 10s SLIDE 5s", RangeExtent(10 * S, 5 * S)),
        ("RANGE PT0.25S STEP 1 ms", RangeExtent(250_000, 1_000)),
        ("RANGE 1 h 30 min STEP P1D", RangeExtent(5400 * S, 86_400 * S)),
        ('RANGE "PT5M"^^<http://www.w3.org/2001/XMLSchema#duration>', RangeExtent(300 * S, 300 * S)),
        ("RANGE 10m # of the last ten minutes ]\n STEP 1m", RangeExtent(600 * S, 60 * S)),
        ("FROM NOW-10s TO NOW", RangeExtent(10 * S, 10 * S)),
        ("FROM NOW - 10s TO NOW - 4s", RangeExtent(10 * S, 6 * S, 4 * S)),
        ("FROM NOW-PT10S TO NOW-0 STEP 2", RangeExtent(10 * S, 2 * S)),
        ("LANDMARK STEP 5s RESTARTING EVERY 1 d", LandmarkExtent(5 * S, 86_400 * S, None)),
        ("LANDMARK STEP 5s LIMIT 100", LandmarkExtent(5 * S, None, 100)),
        ("ELEMENTS 3", ElementsExtent(3, 1)),
        ("RANGE ELEMENTS 3 STEP 2", ElementsExtent(3, 2)),
        ("TRIPLES 7 STEP 2", TriplesExtent(7, 2)),
        ("NOW", NowExtent()),
        ("RANGE 10s STARTING AT 5", RangeExtent(10 * S, 10 * S, start=5 * S)),
        ("RANGE 10s STARTING AT -5", RangeExtent(10 * S, 10 * S, start=-5 * S)),
        ("RANGE 10s STARTING AT 1970-01-01T00:00:05Z", RangeExtent(10 * S, 10 * S, start=5 * S)),
        ("RANGE 10s STARTING AT 1970-01-01T01:00:05.5+01:00", RangeExtent(10 * S, 10 * S, start=5_500_000)),
        (
            'RANGE 10s STARTING AT "1970-01-01T00:00:05Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
            RangeExtent(10 * S, 10 * S, start=5 * S),
        ),
        ("LANDMARK STEP 5s LIMIT 1 STARTING AT 1", LandmarkExtent(5 * S, None, 1, start=S)),
    ],
)
def test_extent_is_read(spec: str, extent: Extent) -> None:
    assert window(spec).extent == extent


@pytest.mark.parametrize(
    ("spec", "relation", "policies"),
    [
        ("RANGE 10s", "RSTREAM", CLOSES),
        ("RANGE 10s", "DSTREAM", ReportPolicies(window_close=True)),
        ("ELEMENTS 2", "RSTREAM", ReportPolicies(window_close=True)),
        ("TRIPLES 2", "ISTREAM", ReportPolicies(window_close=True)),
        ("NOW", "DSTREAM", ReportPolicies(content_change=True)),
        ("RANGE 10s REPORT WINDOW CLOSE", "RSTREAM", ReportPolicies(window_close=True)),
        ("RANGE 10s REPORT ON_WINDOW_CLOSE AND NON_EMPTY_CONTENT", "RSTREAM", CLOSES),
        ("RANGE 10s REPORT on content change and non-empty content", "RSTREAM", ReportPolicies(content_change=True, non_empty=True)),
        ("RANGE 10s REPORT PERIODIC 3s AND ON WINDOW CLOSE", "RSTREAM", ReportPolicies(window_close=True, period=3 * S)),
    ],
)
def test_policies_are_read_or_default(spec: str, relation: str, policies: ReportPolicies) -> None:
    assert window(spec, relation=relation).policies == policies


def test_window_without_report_beside_one_with_report_never_reports() -> None:
    query = one(
        "REGISTER RSTREAM o AS SELECT ?x FROM NAMED WINDOW <a> ON <s> [RANGE 1s REPORT PERIODIC 1s] FROM NAMED WINDOW <b> ON <s> [NOW]"
        " { WINDOW <a> { ?x ?p ?y } WINDOW <b> { ?x ?p ?y } }"
    )
    assert [each.policies for each in query.windows] == [ReportPolicies(period=S), None]


@pytest.mark.parametrize(
    ("text", "block", "event"),
    [
        ("", EntailmentLevel.GRAPH, EntailmentLevel.SNAPSHOT),
        ("ENTAILMENT GRAPH", EntailmentLevel.GRAPH, EntailmentLevel.GRAPH),
        ("entailment none", EntailmentLevel.NONE, EntailmentLevel.NONE),
        ("ENTAILMENT STREAM WITHIN 1 min REPORT PERIODIC 1s", StreamLevel(60 * S), StreamLevel(60 * S)),
    ],
)
def test_level_is_read_or_default(text: str, block: Level, event: Level) -> None:
    found = window(f"RANGE 10s {text}")
    assert (found.block_level, found.event_level) == (block, event)


def test_keyword_inside_name_string_or_comment_is_text() -> None:
    query = one("""PREFIX register: <http://example.org/REGISTER#> # REGISTER QUERY no AS
        REGISTER RSTREAM register:FROM AS SELECT ?where ?window
        FROM NAMED WINDOW register:WINDOW ON STREAM register:STREAM [NOW]
        WHERE { WINDOW register:WINDOW { ?where register:MATCH "MATCH { EVENT } REGISTER QUERY x AS" . ?window register:at ?AT } }""")
    assert query.label == "FROM"
    assert isinstance(query.query.pattern, WindowBlock)


def test_prologue_applies_to_later_statements_and_behind_as_to_its_own() -> None:
    text = """PREFIX a: <http://a/> REGISTER QUERY one AS PREFIX b: <http://b/> ASK FROM STREAM a:s [NOW] { ?x b:p ?y } ;
        BASE <http://base/> REGISTER QUERY two AS ASK FROM STREAM <s> [NOW] { ?x a:p ?y }
        REGISTER QUERY three AS ASK FROM STREAM a:s [NOW] { ?x b:p ?y }"""
    result = read(text)
    assert [query.windows[0].stream for query in result.queries] == ["http://a/s", "http://base/s"]
    assert ["unknown prefix b:" in each.message for each in result.errors] == [True]
    assert len(list(statement_spans(Document("q.rspql", text)))) == 3


def test_configured_prefixes_are_used_by_files_without_prefixes() -> None:
    assert one("REGISTER QUERY q AS ASK FROM STREAM :s [NOW] { ?x :p ?y }").windows[0].stream == "http://example.org/s"
    assert read("PREFIX a: <http://a/> REGISTER QUERY q AS ASK FROM STREAM :s [NOW] { ?x a:p ?y }").errors


def test_patterns_around_windows_are_compiled() -> None:
    query = one("""REGISTER RSTREAM o AS SELECT * FROM NAMED WINDOW <a> ON <s> [NOW] FROM WINDOW ON <t> [NOW] FROM STREAM <t> [RANGE 5s]
        WHERE { WINDOW <a> { ?x :p ?y FILTER(?y > 1) } ?y :q ?z OPTIONAL { WINDOW <a> { ?z :r ?u } }
        FILTER EXISTS { WINDOW <a> { ?z a ?c } } }""")
    match query.query.pattern:
        case Filter(LeftJoin(Join(WindowBlock("<a>", Filter()), Bgp()), WindowBlock("<a>", Bgp()), None), (_,)):
            pass
        case other:
            raise AssertionError(other)
    assert query.query.projection == ("x", "y", "z", "u")
    assert [each.name for each in query.windows] == ["<a>", None, None]


def test_match_is_compiled_to_event_pattern() -> None:
    query = one("""REGISTER RSTREAM o AS SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE 1m]
        { MATCH CONSUMING { FIRST EVENT <w> AT ?t { ?x a :A ; :p ?n FILTER(?n > 2) }
          SEQ recent EVENT <w> { ?x a :B } SEQ (EVENT <w> { [] :q ?x }) } }""")
    (block,) = query.matches
    assert (block.consuming, block.variables) == (True, ("t", "x", "n"))
    match block.events:
        case Ordered(
            Ordered(Outermost(Edge.FIRST, PlainGroup("<w>", Filter(), "t")), PlainGroup(time=None), SequencePolicy.RECENT),
            PlainGroup(),
            SequencePolicy.UNRESTRICTED,
        ):
            pass
        case other:
            raise AssertionError(other)
    assert query.query.pattern == MatchPattern(0, ("t", "x", "n"))


def test_construct_and_ask_are_compiled() -> None:
    short = one("REGISTER ISTREAM o AS CONSTRUCT FROM STREAM :s [NOW] WHERE { ?x :p [ :q ?y ] }")
    assert isinstance(short.form, ConstructForm)
    assert len(short.form.template.triples) == 2
    grouped = one(
        "REGISTER ISTREAM o AS CONSTRUCT { ?x a :Busy } FROM STREAM :s [NOW] WHERE { ?x :p ?y } GROUP BY ?x HAVING(COUNT(*) > 2) LIMIT 3"
    )
    assert (grouped.query.projection, grouped.query.limit) == (("x",), 3)
    assert isinstance(one("REGISTER ISTREAM o AS ASK RSTREAM FROM STREAM :s [NOW] { ?x :p ?y }".replace("ISTREAM", "QUERY")).form, AskForm)
    based = one("BASE <http://b/> REGISTER QUERY o AS CONSTRUCT { <x> <p> ?y } FROM STREAM <s> [NOW] { <x> <p> ?y }")
    assert isinstance(based.form, ConstructForm)
    assert "http://b/x" in str(based.form.template)


def test_sub_select_inside_a_window_is_compiled() -> None:
    query = one("REGISTER QUERY o AS SELECT ?n FROM NAMED WINDOW <w> ON <s> [NOW] { WINDOW <w> { SELECT (COUNT(*) AS ?n) { ?x :p ?y } } }")
    assert isinstance(query.query.pattern, WindowBlock)
    assert isinstance(query.query.pattern.pattern, Select)


# --- hostile texts ---

GOOD = "REGISTER RSTREAM <out> AS SELECT ?x FROM NAMED WINDOW <w> ON <in> [RANGE 10s STEP 5s] { WINDOW <w> { ?x ?p ?y } }"
HOSTILE = {
    "open braces": GOOD.replace("?x ?p ?y", "{ " * 50_000),
    "nested groups": GOOD.replace("?x ?p ?y", "{ " * 140 + "?x ?p ?y" + " }" * 140),
    "brackets in a window": GOOD.replace("RANGE", "[" * 50_000),
    "a long name": GOOD.replace("<out>", "<" + "a" * 500_000 + ">"),
    "a long word": GOOD.replace("RSTREAM", "R" * 500_000),
    "many digits": GOOD.replace("10s", "1" * 100_000 + "s"),
    "many digits of a count": GOOD.replace("RANGE 10s STEP 5s", "ELEMENTS " + "9" * 100_000),
    "many digits of a time": GOOD.replace("STEP 5s", "STARTING AT " + "9" * 100_000),
    "many options": GOOD.replace("STEP 5s", "STARTING AT 1 " * 5_000),
    "many policies": GOOD.replace("STEP 5s", "REPORT PERIODIC 1s" + " AND PERIODIC 1s" * 5_000),
    "many windows": GOOD.replace("{ WINDOW", "FROM NAMED WINDOW <w> ON <in> [NOW] " * 2_000 + "{ WINDOW", 1),
    "many statements": (GOOD + "\n") * 300,
    "many registers": "REGISTER " * 3_000,
    "many events": GOOD.replace("WINDOW <w> {", "MATCH { " + "EVENT <w> { ?x ?p ?y } SEQ " * 5_000 + "EVENT <w> {") + " }",
    "FIRST of FIRST": GOOD.replace("WINDOW <w> { ?x ?p ?y }", "MATCH { " + "FIRST " * 20_000 + "EVENT <w> { ?x ?p ?y } }"),
    "parentheses": GOOD.replace("WINDOW <w> { ?x ?p ?y }", "MATCH { " + "( " * 20_000 + "EVENT <w> { ?x ?p ?y } }"),
    "quotes": GOOD.replace("?x ?p ?y", '"' * 50_001),
    "prefixes": "PREFIX a: <http://a/> " * 20_000 + GOOD,
    "a zero": GOOD.replace("SELECT ?x", "SELECT ?x\0"),
    "surrogates": GOOD.replace("<out>", "<out\ud800>"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_text_is_bounded(name: str) -> None:
    start = time.process_time()
    result = read(HOSTILE[name])
    assert time.process_time() - start < 20
    assert result.errors or result.queries
    assert all(len(str(each)) < 20_000 for each in result.diagnostics)


CORPUS = [path.read_text() for path in sorted((TESTS / "errors").glob("*.rspql"))] + [GOOD]
PIECES = [
    *"[]{}().;,?<>\"'#-^|*+/\\",
    *[
        "REGISTER",
        "AS",
        "SELECT",
        "FROM",
        "NAMED",
        "WINDOW",
        "ON",
        "STREAM",
        "RANGE",
        "STEP",
        "NOW",
        "TO",
        "LANDMARK",
        "REPORT",
        "AND",
        "EVENT",
        "SEQ",
        "MATCH",
        "FIRST",
        "AT",
        "10s",
        "<w>",
        ":w",
        "?x",
    ],
]


@given(st.sampled_from(CORPUS), changes(PIECES, 400, 12))
@examples(150)
def test_changed_texts_never_raise(text: str, some: list[TextChange]) -> None:
    """Problems are diagnostics with a place in the text; without an error there is a query."""
    text = changed(text, some)
    result = read(text)
    check_places(result.diagnostics, text)
    assert result.errors or result.queries


def test_query_is_independent_of_the_text_around_it() -> None:
    alone, other = one(GOOD), one("\n\n" + GOOD + "\n# end")
    span = alone.span
    assert replace(
        other, span=span, label_span=span, windows=tuple(replace(each, span=span, stream_span=span) for each in other.windows)
    ) == replace(alone, label_span=span, windows=tuple(replace(each, span=span, stream_span=span) for each in alone.windows))
