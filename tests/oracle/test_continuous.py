"""The brute force of continuous queries gives what continuous.md prints: the table of section 13, and the limits of each section."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dotr.languages.continuous.reading import compile_continuous
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.terms import Term
from tests.oracle.cases import read_turtle, read_world
from tests.oracle.temporal import Output
from tests.oracle.units import UnitsResult, run_units

pytestmark = pytest.mark.core

NAMESPACE = "http://example.org/"
PREFIXES = {"": NAMESPACE, "owl": "http://www.w3.org/2002/07/owl#"}
SECOND = 1_000_000
Arrivals = Sequence[tuple[float, str]]


def answers(
    text: str,
    elements: Arrivals,
    datalog: str = "",
    graph: str = "",
    entailment: str = "none",
    rules: str = "",
    origin: int = 0,
    streams: dict[int, str] | None = None,
) -> UnitsResult:
    """The output of the queries and rules of a text; `streams`: the streams of some elements by number; others are on :in."""
    queries = compile_continuous([Document("q.rspql", text)], PREFIXES)
    assert not queries.errors, "\n".join(map(str, queries.errors))
    datalog_files = [("k.dlog", datalog)] if datalog else []
    world = read_world([("r.dotr", rules)] if rules else [], [graph] if graph else [], datalog_files, entailment, PREFIXES)
    given = [
        ((streams or {}).get(number, NAMESPACE + "in"), Element(int(at * SECOND), read_turtle(turtle, PREFIXES)))
        for number, (at, turtle) in enumerate(elements)
    ]
    return run_units(world, queries.queries, given, origin * SECOND)


def short(term: Term) -> str:
    return term.removeprefix(f"<{NAMESPACE}").removesuffix(">") if term.startswith("<") else term.split('"')[1]


def told(result: UnitsResult, label: str = "out") -> dict[float, list[str]]:
    """The attributes of a label's events, by second."""
    found: dict[float, list[str]] = {}
    for output in result.outputs:
        if output.event == label:
            found.setdefault(output.time / SECOND, []).append(" ".join(short(output.attributes[v]) for v in sorted(output.attributes)))
    return {time: sorted(rows) for time, rows in found.items()}


def readings(*arrivals: tuple[str, float]) -> Arrivals:
    """`x@t` of the page: `:x :v t`."""
    return [(at, f":{name} :v {at} .") for name, at in arrivals]


def query(spec: str, relation: str = "RSTREAM", line: str = "?x", where: str = "WINDOW <w> { ?x :v ?v }", every: str = "") -> str:
    return f"REGISTER {relation} <out> {every} AS SELECT {line} FROM NAMED WINDOW <w> ON :in [{spec}] WHERE {{ {where} }}"


ROWS = [
    ("sliding", query("RANGE 4s STEP 2s"), readings(("a", 1), ("b", 4)), {2: ["a"], 4: ["a", "b"], 6: ["b"]}),
    (
        "starting at",
        query("RANGE 5s STEP 2s STARTING AT 1"),
        readings(("a", 1), ("b", 2), ("c", 7)),
        {6: ["b"], 8: ["c"], 10: ["c"]},
    ),
    ("istream", query("RANGE 4s STEP 2s", "ISTREAM"), readings(("a", 1), ("a", 21)), {2: ["a"]}),
    (
        "istream of every close",
        query("RANGE 4s STEP 2s REPORT ON WINDOW CLOSE", "ISTREAM"),
        readings(("a", 1), ("a", 21)),
        {2: ["a"], 22: ["a"]},
    ),
    ("dstream", query("RANGE 4s STEP 2s", "DSTREAM"), readings(("a", 1), ("b", 3)), {6: ["a"], 8: ["b"]}),
    (
        "count of nothing",
        query("RANGE 10s REPORT ON WINDOW CLOSE", line="(COUNT(*) AS ?n)"),
        readings(("a", 3), ("b", 25)),
        {10: ["1"], 20: ["0"], 30: ["1"], 40: ["0"]},
    ),
    (
        "content change",
        query("RANGE 10s REPORT ON CONTENT CHANGE"),
        readings(("a", 1), ("b", 5), ("d", 11)),
        {1: ["a"], 5: ["a", "b"], 11: ["d"]},
    ),
    (
        "elements",
        query("ELEMENTS 2"),
        readings(("a", 1), ("b", 2), ("c", 2), ("d", 3)),
        {1: ["a"], 2: ["b", "c"], 3: ["b", "c", "d"]},
    ),
]


@pytest.mark.parametrize(("text", "elements", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_row_of_section_13(text: str, elements: Arrivals, expected: dict[float, list[str]]) -> None:
    assert told(answers(text, elements)) == expected


def test_transitive_window_of_imars_figure_4() -> None:
    text = query("RANGE 10s STEP 1s", "DSTREAM", "?y", "WINDOW <w> { :A :isIn ?y }")
    links = [(1, ":A :isIn :B ."), (2, ":B :isIn :C ."), (3, ":C :isIn :D ."), (4, ":A :isIn :E . :E :isIn :D .")]
    expected = {11: ["B", "C"], 14: ["D", "E"]}
    assert told(answers(text, links, datalog=":isIn(?x, ?z) :- :isIn(?x, ?y), :isIn(?y, ?z) .")) == expected
    assert told(answers(text, links, graph=":isIn a owl:TransitiveProperty .", entailment="owl2rl")) == expected


def thesis_example_23(options: str) -> dict[float, list[str]]:
    elements = [(15, ":p :contains :m ."), (16, ":m :mentionedIn :q3 ."), (18, ":m :mentionedIn :q4 .")]
    text = query(f"RANGE 4s STEP 2s STARTING AT 13 {options}", "RSTREAM", "?q", "WINDOW <w> { :p :propagatedBy ?q }")
    chain = ":propagatedBy owl:propertyChainAxiom ( :contains :mentionedIn ) ."
    return told(answers(text, elements, graph=chain, entailment="owl2rl"))


def test_levels_of_the_thesis_example_23() -> None:
    assert thesis_example_23("") == thesis_example_23("ENTAILMENT WINDOW") == {17: ["q3"]}
    assert thesis_example_23("ENTAILMENT STREAM WITHIN 1 min") == {17: ["q3"], 19: ["q3", "q4"], 21: ["q4"]}
    assert thesis_example_23("ENTAILMENT NONE") == thesis_example_23("ENTAILMENT SNAPSHOT") == {}


def match(spec: str, pattern: str, line: str = "*", every: str = "") -> str:
    return query(spec, "RSTREAM", line, f"MATCH {pattern}", every)


SEEN = [(1, ":A1 a :A ."), (2, ":A2 a :A ."), (3, ":B1 a :B ."), (4, ":B2 a :B ."), (5, ":B3 a :B .")]
CONTENT_CHANGE = "LANDMARK STEP 1h RESTARTING EVERY 1d REPORT ON CONTENT CHANGE"


def test_consuming_chronological_of_section_13() -> None:
    text = match(CONTENT_CHANGE, "CONSUMING { EVENT <w> { ?a a :A } SEQ CHRONOLOGICAL EVENT <w> { ?b a :B } }")
    assert told(answers(text, SEEN)) == {3: ["A1 B1"], 4: ["A2 B2"]}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", {3: ["A1 B1", "A2 B1"], 4: ["A1 B1", "A1 B2", "A2 B1", "A2 B2"]}),
        ("CHRONOLOGICAL", {3: ["A1 B1"], 4: ["A1 B1"]}),
        ("RECENT", {3: ["A2 B1"], 4: ["A2 B2"]}),
        ("NAIVE", {3: ["A2 B1"], 4: ["A2 B2"]}),
    ],
)
def test_policies_of_seq(policy: str, expected: dict[float, list[str]]) -> None:
    text = match(CONTENT_CHANGE, f"{{ EVENT <w> {{ ?a a :A }} SEQ {policy} EVENT <w> {{ ?b a :B }} }}")
    assert told(answers(text, SEEN[:4])) == expected


def test_naive_selects_each_side_by_itself() -> None:
    """The last A comes after the last B: NAIVE finds none, RECENT the last pair."""
    elements = [(1, ":A1 a :A ."), (2, ":B1 a :B ."), (3, ":A2 a :A .")]
    pattern = "{{ EVENT <w> {{ ?a a :A }} SEQ {} EVENT <w> {{ ?b a :B }} }}"
    assert 3 not in told(answers(match(CONTENT_CHANGE, pattern.format("NAIVE")), elements))
    assert told(answers(match(CONTENT_CHANGE, pattern.format("RECENT")), elements))[3] == ["A1 B1"]


def test_recent_falls_back_to_a_second_with_a_first() -> None:
    """Only those mappings of the second are considered that have a first: here the earlier one, as the later is not compatible."""
    elements = [(1, ":x :in 1 ."), (2, ":x :out 2 ."), (3, ":y :out 3 .")]
    pattern = "{{ EVENT <w> {{ ?x :in ?a }} SEQ {} EVENT <w> {{ ?x :out ?b }} }}"
    assert told(answers(match(CONTENT_CHANGE, pattern.format("RECENT"), "?x ?b"), elements))[3] == ["2 x"]
    assert 3 not in told(answers(match(CONTENT_CHANGE, pattern.format("NAIVE"), "?x ?b"), elements))


def test_first_inside_seq_is_chosen_under_the_other_sides_bindings() -> None:
    elements = [(1, ":x :in 1 ."), (2, ":y :in 2 ."), (3, ":y :out 3 .")]
    text = match(CONTENT_CHANGE, "{ FIRST EVENT <w> { ?x :in ?a } SEQ EVENT <w> { ?x :out ?b } }", "?x ?a")
    assert told(answers(text, elements)) == {3: ["2 y"]}


def test_at_and_ties() -> None:
    elements = [(1, ":x a :A . :y a :A ."), (4, ":z a :B .")]
    text = match(CONTENT_CHANGE, "{ LAST EVENT <w> AT ?s { ?a a :A } SEQ EVENT <w> AT ?t { ?b a :B } }")
    assert told(answers(text, elements)) == {4: ["x z 1 4", "y z 1 4"]}


def test_used_up_is_what_any_mapping_used_whatever_where_says() -> None:
    """The FILTER beside MATCH discards the solution of 3, and A1 and B1 are consumed nevertheless."""
    where = "MATCH CONSUMING { EVENT <w> { ?a a :A } SEQ CHRONOLOGICAL EVENT <w> { ?b a :B } } FILTER(?b != :B1)"
    assert told(answers(query(CONTENT_CHANGE, line="*", where=where), SEEN)) == {4: ["A2 B2"]}


def test_windows_in_the_past_and_now() -> None:
    assert told(answers(query("FROM NOW-4s TO NOW-2s STEP 2s"), readings(("a", 1), ("b", 4)))) == {4: ["a"], 6: ["b"]}
    assert told(answers(query("FROM NOW-4s TO NOW-2s"), readings(("a", 1), ("b", 4)))) == {4: ["a"], 6: ["b"]}
    assert told(answers(query("NOW"), readings(("a", 1), ("b", 1), ("a", 4)))) == {1: ["a", "b"], 4: ["a"]}


def test_origin_moves_closes_and_periods() -> None:
    assert told(answers(query("RANGE 4s"), readings(("a", 1), ("b", 3)), origin=2)) == {2: ["a"], 6: ["b"]}
    every = query("RANGE 10s STEP 5s", every="COMPUTED EVERY 3s")
    assert told(answers(every, readings(("a", 1)), origin=1)) == {1: ["a"], 4: ["a"]}
    assert told(answers(every, readings(("a", 1)))) == {3: ["a"], 6: ["a"], 9: ["a"]}


def test_landmarks_restart_and_are_limited() -> None:
    restarting = query("LANDMARK STEP 2s RESTARTING EVERY 4s")
    assert told(answers(restarting, readings(("a", 1), ("b", 4), ("c", 5), ("d", 9)))) == {
        2: ["a"],
        4: ["a", "b"],
        6: ["c"],
        8: ["c"],
        10: ["d"],
    }
    limited = query("LANDMARK STEP 2s LIMIT 2")
    assert told(answers(limited, readings(("a", 1), ("b", 3), ("c", 7)))) == {2: ["a"], 4: ["a", "b"], 6: ["a", "b"]}


def test_triples_are_counted_by_element() -> None:
    elements = [(1, ":a :v 1 . :a :v 2 ."), (2, ":b :v 1 ."), (3, ":c :v 1 . :c :v 2 . :c :v 3 .")]
    assert told(answers(query("TRIPLES 3 STEP 2", line="DISTINCT ?x"), elements)) == {1: ["a"], 3: ["c"]}


def test_a_close_beside_content_change_asks_for_both() -> None:
    text = query("RANGE 4s STEP 2s REPORT ON WINDOW CLOSE AND ON CONTENT CHANGE", "RSTREAM", "(COUNT(*) AS ?n)")
    assert told(answers(text, readings(("a", 1), ("b", 7)))) == {2: ["1"], 6: ["0"], 8: ["1"], 12: ["0"]}


def test_windows_without_report_are_read_when_another_reports() -> None:
    text = (
        "REGISTER RSTREAM <out> AS SELECT ?x ?y FROM NAMED WINDOW <w> ON :in [RANGE 10s REPORT ON WINDOW CLOSE]"
        " FROM NAMED WINDOW <v> ON :in [NOW] WHERE { WINDOW <w> { ?x :v ?n } OPTIONAL { WINDOW <v> { ?y :v ?m } } }"
    )
    assert told(answers(text, readings(("a", 3), ("b", 10)))) == {10: ["a b", "b b"]}


def test_a_query_reads_what_another_makes_at_the_same_time() -> None:
    text = (
        "REGISTER ISTREAM :Hot AS CONSTRUCT { ?x a :Hot } FROM WINDOW ON :in [RANGE 2s] { ?x :v ?n FILTER(?n > 2) }"
        " REGISTER RSTREAM <out> AS SELECT ?x FROM WINDOW ON <Hot> [RANGE 4s STEP 4s] { ?x a :Hot }"
    )
    assert told(answers(text, readings(("a", 1), ("b", 3), ("c", 5)))) == {4: ["b"], 8: ["c"]}
    assert told(answers(text.replace("<Hot>", ":Hot"), readings(("a", 1), ("b", 3), ("c", 5)))) == {4: ["b"], 8: ["c"]}


def test_rules_read_queries_and_queries_rules() -> None:
    rules = (
        "PREFIX : <http://example.org/> define Alarm = [ [] :of ?x ] from Hot and last Hot as Before within 10 s from Hot"
        " with Alarm.?x = Hot.?x"
    )
    text = (
        "REGISTER RSTREAM Hot AS SELECT ?x FROM NAMED WINDOW <w> ON :in [RANGE 2s] { WINDOW <w> { ?x :v ?n FILTER(?n > 2) } }"
        " REGISTER RSTREAM <out> AS SELECT ?x FROM WINDOW ON <Alarm> [NOW] { ?alarm :of ?x }"
    )
    # A rule of a test is compiled without the queries: it reads Hot as the event of a rule that never fires.
    never = " define Hot = [ [] :x ?x ] from Never = [ SELECT ?x { ?x a :Never } ] with Hot.?x = Never.?x"
    result = answers(text, readings(("a", 1), ("b", 3), ("c", 7)), rules=rules + never)
    assert told(result, "Hot") == {4: ["b"], 8: ["c"]}
    assert told(result, "Alarm") == {8: ["c"]}
    assert told(result) == {8: ["c"]}


def graphs(result: UnitsResult) -> list[Output]:
    return [output for output in result.outputs if output.event == "out"]


def test_construct_makes_one_graph_of_all_solutions() -> None:
    text = "REGISTER RSTREAM <out> AS CONSTRUCT { ?x :seen [ :at ?v ] } FROM WINDOW ON :in [RANGE 4s] { ?x :v ?v }"
    (one,) = graphs(answers(text, readings(("a", 1), ("b", 2))))
    assert len(one.graph) == 4
    dropped = "REGISTER RSTREAM <out> AS CONSTRUCT { ?v :of ?x } FROM WINDOW ON :in [RANGE 4s] { ?x :v ?v }"
    (none,) = graphs(answers(dropped, readings(("a", 1))))
    assert (len(none.graph), none.dropped) == (0, 1)


def test_ask_tells_true_and_false() -> None:
    text = "REGISTER RSTREAM <out> AS ASK FROM WINDOW ON :in [RANGE 2s REPORT ON WINDOW CLOSE] { ?x :v 1 }"
    assert told(answers(text, readings(("a", 1), ("b", 3)))) == {2: ["true"], 4: ["false"], 6: ["false"]}


def test_background_is_in_the_default_graph_and_not_in_blocks() -> None:
    both = "?x :v ?v . ?x a :Sensor"
    default = f"REGISTER RSTREAM <out> AS SELECT ?x FROM WINDOW ON :in [RANGE 2s] {{ {both} }}"
    assert told(answers(default, readings(("a", 1)), graph=":a a :Sensor .")) == {2: ["a"]}
    assert told(answers(query("RANGE 2s", where=f"WINDOW <w> {{ {both} }}"), readings(("a", 1)), graph=":a a :Sensor .")) == {}
    knows = answers(
        query("RANGE 2s", where="WINDOW <w> { ?x a :Live }"),
        readings(("a", 1), ("b", 1)),
        graph=":a a :Sensor . :c a :Live .",
        datalog=":Live(?x) :- :Sensor(?x), :v(?x, ?n) .",
    )
    assert told(knows) == {2: ["a"]}


def test_what_negation_alone_changes_is_said() -> None:
    """The window retracts a conclusion of the background; the window entails the conclusions from its absence."""
    datalog = ":Open(?x) :- :Door(?x), NOT :shut(?x, true) . :Calm(?x) :- :Door(?x), NOT :Open(?x) ."
    text = query("RANGE 2s", where="WINDOW <w> { ?x a :Calm }")
    assert told(answers(text, [(1, ":d :shut true .")], datalog=datalog, graph=":d a :Door . :e a :Door .")) == {2: ["d"]}


def test_items_of_a_window_level_see_the_items_before() -> None:
    elements = [(1, ":a :p :b ."), (2, ":b :p :c ."), (3, ":c :p :d .")]
    datalog = ":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) ."
    found = {
        level: told(answers(match(f"RANGE 4s ENTAILMENT {level}", "{ EVENT <w> AT ?t { :a :p ?y } }", "?t ?y"), elements, datalog=datalog))
        for level in ("NONE", "SNAPSHOT", "GRAPH", "WINDOW", "STREAM WITHIN 4s")
    }
    alone = {4: ["1 b"]}
    so_far = {4: ["1 b", "2 c", "3 d"]}
    assert found == {"NONE": alone, "SNAPSHOT": alone, "GRAPH": alone, "WINDOW": so_far, "STREAM WITHIN 4s": so_far}


def test_named_streams_are_apart_and_instants_whole() -> None:
    text = query("RANGE 2s")
    assert told(answers(text, readings(("a", 1), ("b", 1)), streams={1: NAMESPACE + "other"})) == {2: ["a"]}


def test_an_empty_graph_is_content() -> None:
    text = query("RANGE 2s", line="(COUNT(*) AS ?n)")
    assert told(answers(text, [(1, ""), (5, ":a :v 1 .")])) == {2: ["0"], 6: ["1"]}


def test_gaps_of_a_step_longer_than_the_range() -> None:
    assert told(answers(query("RANGE 1s STEP 4s"), readings(("a", 2), ("b", 4), ("c", 5)))) == {4: ["b"]}
