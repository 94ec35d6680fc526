"""Queries that differ in their filters are asked once, and what the rules find stays the same."""

from __future__ import annotations

from dotr.engine.program import Program, compile_program
from dotr.engine.spec import ProgramSpec
from dotr.model.places import Document

RULE = """
rule R{n} define E{n} = [ [] a :E ; :v ?v ; :w ?w ]
from A = [ SELECT ?s ?v WHERE {{ ?s :a ?v . FILTER (?v > {low}) }} ]
and {mode} B = [ SELECT ?s ?w WHERE {{ ?s :b ?w . FILTER (?w < {high} && ?s = A.?s) }} ] within 5 s from A
with E{n}.?v = A.?v, E{n}.?w = B.?w
"""


def program(*rules: tuple[str, int, int]) -> Program:
    text = "PREFIX : <http://e/>\n" + "".join(RULE.format(n=n, mode=m, low=a, high=b) for n, (m, a, b) in enumerate(rules))
    return compile_program(ProgramSpec(rules=(Document("r.dotr", text),), prefixes={"": "http://e/"}))


def run(compiled: Program) -> list[tuple[int, str, str, str]]:
    found = []
    with compiled.session() as session:
        for time, graph in [
            (1, ":s :b 1 ."),
            (2, ":s :b 5, 9 . :z :b 2 ."),
            (3, ":s :a 4 ; :b 3 ."),
            (4, ':s :a 9, "9" ; :b "x" .'),
            (9, ":s :a 9 ."),
        ]:
            found += [(e.time, e.type, e.attributes["v"], e.attributes["w"]) for e in session.advance(time, graph)]
    return found


def test_one_query_for_all_thresholds() -> None:
    compiled = program(("last", 3, 10), ("last", 5, 4), ("each", 3, 4))
    assert len(compiled.layout.streams) == 2


def test_shared_is_as_alone() -> None:
    rules = [("last", 3, 10), ("last", 5, 4), ("each", 3, 4), ("first", 8, 6)]
    alone = [
        event
        for n in range(4)
        for event in run(program(*(rules[n] if k == n else ("last", 10**6, k) for k in range(4))))
        if event[1] == f"E{n}"
    ]
    assert sorted(run(program(*rules))) == sorted(alone)
    assert {event[1] for event in alone} == {"E0", "E1", "E2", "E3"}


def test_labels_of_one_rule_stay_two_types() -> None:
    text = """PREFIX : <http://e/>
    rule R define E = [ [] :v ?v ; :w ?w ]
    from High = [ SELECT ?v WHERE { ?s :a ?v . FILTER (?v > 5) } ]
    and each Any = [ SELECT ?v WHERE { ?s :a ?v . FILTER (?v > 0) } ] within [0, 0] from High
    with E.?v = High.?v, E.?w = Any.?v"""
    compiled = compile_program(ProgramSpec(rules=(Document("r.dotr", text),), prefixes={"": "http://e/"}))
    assert len(compiled.layout.streams) == 1
    with compiled.session() as session:
        assert len(session.advance(1, ":s :a 7, 1 .")) == 2


def test_facts_of_interest_are_those_of_the_queries_as_written() -> None:
    compiled = program(("last", 3, 10), ("last", 5, 4))
    from dotr.engine.instants import merge
    from dotr.languages.turtle.graphs import read_graph

    facts = compiled.facts_of_interest(merge(1, [read_graph(":s :a 4 .", {"": "http://e/"})]))
    assert len(facts) == 1
