"""Multi-query optimisation: queries that differ only in filters are evaluated once, with equal
events."""

from __future__ import annotations

from dotr.api.session import Session
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.instant.instants import merge
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.syntax.turtle.graphs import read_graph

RULE = """
rule R{n} define E{n} = [ [] a :E ; :v ?v ; :w ?w ]
from A = [ SELECT ?s ?v WHERE {{ ?s :a ?v . FILTER (?v > {low}) }} ]
and {mode} B = [ SELECT ?s ?w WHERE {{ ?s :b ?w . FILTER (?w < {high} && ?s = A.?s) }} ] within 5 s from A
with E{n}.?v = A.?v, E{n}.?w = B.?w
"""


def program(*rules: tuple[str, int, int]) -> CompiledProgram:
    text = "PREFIX : <http://e/>\n" + "".join(RULE.format(n=n, mode=m, low=a, high=b) for n, (m, a, b) in enumerate(rules))
    return compile_program(ProgramSpec(rules=(Document("r.dotr", text),), prefixes={"": "http://e/"}))


def run(compiled: CompiledProgram) -> list[tuple[object, str, str, str]]:
    found: list[tuple[object, str, str, str]] = []
    with Session(compiled) as session:
        for time, graph in [
            (1, ":s :b 1 ."),
            (2, ":s :b 5, 9 . :z :b 2 ."),
            (3, ":s :a 4 ; :b 3 ."),
            (4, ':s :a 9, "9" ; :b "x" .'),
            (9, ":s :a 9 ."),
        ]:
            found += [(e.time, e.type, e.attributes["v"], e.attributes["w"]) for e in session.advance(time, graph)]
    return found


def test_queries_that_differ_in_thresholds_are_one_stream() -> None:
    compiled = program(("last", 3, 10), ("last", 5, 4), ("each", 3, 4))
    assert len(compiled.layout.streams) == 2


def test_shared_queries_make_the_events_of_separate_ones() -> None:
    rules = [("last", 3, 10), ("last", 5, 4), ("each", 3, 4), ("first", 8, 6)]
    alone = [
        event
        for n in range(4)
        for event in run(program(*(rules[n] if k == n else ("last", 10**6, k) for k in range(4))))
        if event[1] == f"E{n}"
    ]
    assert sorted(run(program(*rules))) == sorted(alone)
    assert {event[1] for event in alone} == {"E0", "E1", "E2", "E3"}


def test_two_labels_of_one_rule_share_a_stream() -> None:
    text = """PREFIX : <http://e/>
    rule R define E = [ [] :v ?v ; :w ?w ]
    from High = [ SELECT ?v WHERE { ?s :a ?v . FILTER (?v > 5) } ]
    and each Any = [ SELECT ?v WHERE { ?s :a ?v . FILTER (?v > 0) } ] within [0, 0] from High
    with E.?v = High.?v, E.?w = Any.?v"""
    compiled = compile_program(ProgramSpec(rules=(Document("r.dotr", text),), prefixes={"": "http://e/"}))
    assert len(compiled.layout.streams) == 1
    with Session(compiled) as session:
        assert len(session.advance(1, ":s :a 7, 1 .")) == 2


def test_facts_of_interest_are_those_of_the_queries_as_written() -> None:
    compiled = program(("last", 3, 10), ("last", 5, 4))
    facts = compiled.facts_of_interest(merge(1, [read_graph(":s :a 4 .", {"": "http://e/"}, 64)]))
    assert len(facts) == 1


def test_queries_equal_up_to_names_are_one() -> None:
    rule = """rule {n} define {n} = [ [] :v ?v ; :w ?w ]
    from A = [ SELECT ?{s} ?{v} WHERE {{ ?{s} :a ?{v} . FILTER (?{v} > {low}) }} ]
    and ?n = count(B.?{w}) of B = [ SELECT ?{s} ?{w} WHERE {{ ?{s} :b ?{w} . FILTER (?{w} > {low} && ?{s} = A.?{s}) }} ] within 5 s from A
    if ?n > 0 with {n}.?v = A.?{v}, {n}.?w = ?n
    """
    names = [{"n": "R", "s": "s", "v": "v", "w": "w", "low": 1}, {"n": "S", "s": "x", "v": "y", "w": "z", "low": 2}]
    text = "PREFIX : <http://e/>\n" + "".join(rule.format(**each) for each in names)
    compiled = compile_program(ProgramSpec(rules=(Document("r.dotr", text),), prefixes={"": "http://e/"}))
    assert len(compiled.layout.streams) == 2
    (layer,) = compiled.layout.layers
    assert {placed.ports for placed in layer.rules} == {(0, 1)}
    with Session(compiled) as session:
        session.advance(1, ":s :b 2, 3 .")
        found = session.advance(2, ":s :a 9 .")
    count = '"{}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert [(e.rule, e.attributes["w"]) for e in found] == [("R", count.format(2)), ("S", count.format(1))]


def test_equal_queries_with_names_in_another_order_have_their_own_tie_order() -> None:
    query = "query {l} = [ SELECT ?{x} ?{y} WHERE {{ ?{x} :a ?{y} }} ] rule R{l} define E{l} = [ [] a :E ] from {l}\n"
    text = "PREFIX : <http://e/>\n" + query.format(l="P", x="s", y="v") + query.format(l="Q", x="v", y="s")
    compiled = compile_program(ProgramSpec(rules=(Document("r.dotr", text),), prefixes={"": "http://e/"}))
    assert len(compiled.layout.streams) == 2
    assert len(compiled.stage_one.plans) == 1, "and one query, whose answers are sorted for each"
    found = compiled.stage_one.evaluate(merge(1, [read_graph(":s1 :a :v2, :v1 . :s0 :a :v3 .", {"": "http://e/"}, 64)])).facts
    rows = {stream: [[str(term)[-3:-1] for term in row] for row in rows] for stream, rows in found.items()}
    assert rows == {0: [["s0", "v3"], ["s1", "v1"], ["s1", "v2"]], 1: [["v1", "s1"], ["v2", "s1"], ["v3", "s0"]]}


def test_a_shared_prefilter_drops_rows_that_no_rule_accepts() -> None:
    compiled = program(*(("last", low, 10 + low) for low in range(100)))

    def facts(graph: str) -> int:
        found = compiled.stage_one.evaluate(merge(1, [read_graph(graph, {"": "http://e/"}, 64)]))
        return sum(map(len, found.facts.values()))

    assert [facts(f":s {p} .") for p in (":a 0", ":a 1", ':a "x"', ":b 109", ":b 108.5")] == [0, 1, 0, 0, 1]


def test_equality_conditions_are_not_thresholds() -> None:
    """Equality conditions are tested rule by rule, also those on bound labels and aggregates."""
    text = "PREFIX : <http://e/>\n" + "".join(
        f"""rule R{n} define E{n} = [ [] a :E ] from A = [ SELECT ?v WHERE {{ ?s :a ?v }} ]
        and each B = [ SELECT ?w WHERE {{ ?s :b ?w . FILTER (?w > {n}) }} ] within [0, 5 s] from A
        if A.?v = {n} && B.?w = {n + 1}
        """
        for n in range(4)
    )
    compiled = compile_program(ProgramSpec(rules=(Document("r.dotr", text),), prefixes={"": "http://e/"}))
    with Session(compiled) as session:
        assert [e.rule for e in session.advance(1, ":s :a 2, 2.0, 9 ; :b 1, 2, 3, 4 .")] == ["R2", "R2"]
        assert [e.rule for e in session.advance(2, ':s :a 0e0, "1" ; :b 1.0 .')] == ["R0", "R0"]


CONDITIONS = [
    'STRSTARTS(?v, "{c}")',
    'REGEX(?v, "{c}$")',
    '?v != "{c}"',
    '?v != "{c}" && ?w > {n}',
    '?v IN ("{c}", "b")',
    'CONCAT(?v, "{c}") = ?z',
    '?w + STRLEN("{c}") > ?w2 && ?v != "{d}"',
]


def test_conditions_without_a_search_are_evaluated_once_for_each_constant() -> None:
    """Many rules with few distinct constants, in the anchor's query or in `if`, make the events of
    each rule alone, in the order of their names.
    """
    instants = [f':s{n} :v "{v}" ; :w {w} ; :w2 {w2} ; :z "{z}" .' for n, (v, w, w2, z) in enumerate(VALUES)]

    def fired(rules: list[str]) -> list[tuple[object, str, dict[str, str]]]:
        compiled = compile_program(ProgramSpec(rules=(Document("r.dotr", "PREFIX : <http://e/>\n" + "".join(rules)),), prefixes=PREFIXES))
        with Session(compiled) as session:
            return [(e.time, e.rule, dict(e.attributes)) for n, graph in enumerate(instants) for e in session.advance(n, graph)]

    for written in CONDITIONS:
        conditions = [written.format(c="ab"[n % 2], d="ba"[n % 2], n=n % 3) for n in range(7)]
        anchors = [ANCHOR.format(n=n, filter=f"FILTER({each})", condition="") for n, each in enumerate(conditions)]
        later = [ANCHOR.format(n=n, filter="", condition="if " + each.replace("?", "A.?")) for n, each in enumerate(conditions)]
        for rules in anchors, later:
            assert sorted(fired(rules), key=str) == sorted([event for rule in rules for event in fired([rule])], key=str)
        assert [event[:2] for event in fired(anchors)] == [event[:2] for event in fired(later)]
        assert 0 < len(fired(anchors)) < 7 * len(instants)


PREFIXES = {"": "http://e/"}
VALUES = [("a", 1, 2, "aa"), ("b", 5, 1, "bb"), ("ab", 2, 2, "aba"), ("c", 0, 9, "cb"), ("", 3, 3, "a")]
ANCHOR = """rule R{n} define E{n} = [ [] a :E ; :v ?v ]
from A = [ SELECT ?v ?w ?w2 ?z WHERE {{ ?s :v ?v ; :w ?w ; :w2 ?w2 ; :z ?z {filter} }} ]
{condition} with E{n}.?v = A.?v
"""
