"""The facts that windows entail, maintained from report to report, equal the brute force of continuous.md, section 5."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.evaluation.triples.mapped_index import MappedIndex
from dotr.instant.datalog.background.compiled_cache import CachePolicy, open_background
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.background.sources import Sources
from dotr.instant.datalog.content_entailment import ContentCloser
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.queries.graph import Graph
from dotr.languages.continuous.evaluation.window_closure import WindowClosure, WindowClosureView
from dotr.languages.continuous.model import EntailmentLevel
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import Triple
from dotr.syntax.datalog import parse_datalog
from dotr.temporal.horizons.closure import HorizonClosure
from tests.oracle.content_entailment import entailed_given
from tests.support.properties import examples
from tests.temporal.horizons.test_horizons_entailment import data, schema

TEXTS = [
    "[?x, <http://e/p>, ?z] :- [?x, <http://e/p>, ?y], [?y, <http://e/p>, ?z] .",
    "[?x, <http://e/q>, ?y] :- [?x, <http://e/p>, ?y], FILTER(?x != ?y) .",
    "[?y, <http://e/r>, ?x] :- [?x, ?p, ?y], [?p, <http://e/r>, ?p] .",
    "false :- [?x, <http://e/r>, ?y], [?y, <http://e/q>, ?y] .",
]
NAMES = [f"<http://e/{name}>" for name in "abcp"]


def parsed(*texts: str) -> tuple[DatalogRule, ...]:
    return tuple(parse_datalog(Document("window.dlog", "\n".join(texts)), {}))


def triple(source: random.Random) -> Triple:
    return (source.choice(NAMES), f"<http://e/{source.choice('ppqr')}>", source.choice(NAMES))


@given(st.integers(0, 10**9))
@examples(60)
def test_windows_and_views(seed: int) -> None:
    source = random.Random(seed)
    entailment = source.choice([Entailment.NONE, Entailment.NONE, Entailment.RDFS])
    own = parsed(*source.sample(TEXTS, source.randint(0, 4)))
    rules = (*own, *rule_set(entailment))

    def make() -> Triple:
        return triple(source) if entailment is Entailment.NONE else data(source, entailment)

    given_static = [make() for _ in range(source.choice([0, 3]))] + ([schema(source, entailment)] if entailment is Entailment.RDFS else [])
    knowledge = Knowledge.load(given_static, rules)
    level = source.choice([EntailmentLevel.NONE, EntailmentLevel.SNAPSHOT, EntailmentLevel.GRAPH, EntailmentLevel.WINDOW])
    closure = WindowClosure(level, knowledge, rules)
    views = [closure.view() for _ in range(source.randint(0, 2))]
    recomputed = ContentCloser(knowledge, rules)
    items: list[tuple[int, list[Triple]]] = []
    held: set[Triple] = set()
    begin = -100
    for time in range(8):
        for _ in range(source.randint(0, 2)):
            element = [make() for _ in range(source.randint(0, 2))]
            closure.insert(time, element)
            items.append((time, element))
        begin = max(begin, time - source.randint(1, 5))
        changes = closure.advance(begin)
        last = begin
        windows: list[tuple[WindowClosure | WindowClosureView, int]] = [(closure, begin)]
        for view in views:
            last = max(last, time - 2)
            view.advance(last)
            windows.append((view, last))
        for window, after in windows:
            content = [each for each in items if each[0] > after]
            together = [each for _, element in content for each in element]
            match level:
                case EntailmentLevel.NONE:
                    expected: set[Triple] = set(together)
                case EntailmentLevel.SNAPSHOT:
                    by_time: dict[int, list[Triple]] = {}
                    for at, element in content:
                        by_time.setdefault(at, []).extend(element)
                    expected = {each for item in by_time.values() for each in entailed_given(item, given_static, own, entailment.value)}
                case _:
                    expected = set(entailed_given(together, given_static, own, entailment.value))
                    assert window.contradictions() == recomputed.close(together).contradictions
            assert {each for each in window.index if not is_hidden(each[1])} == expected
            beyond = expected - set(knowledge.background.triples)
            assert set(window.beyond.visible()) == {each for each in window.beyond.triples if not is_hidden(each[1])} == beyond
            for subject, predicate, object in expected:
                matches = [(subject, predicate, object)] if (subject, predicate, object) in beyond else []
                assert [each for each in window.beyond.match(subject, predicate, None) if each[2] == object] == matches
                assert [each for each in window.beyond.match(None, predicate, object) if each[0] == subject] == matches
                assert [each for each in window.beyond.match(subject, None, None) if each[1:] == (predicate, object)] == matches
                assert [each for each in window.beyond.match(None, None, object) if each[:2] == (subject, predicate)] == matches
            if window is closure:
                assert sorted(changes.began) == sorted(expected - held)
                assert sorted(changes.ended) == sorted(held - expected)
                held = expected


@given(st.integers(0, 10**9))
@examples(10)
def test_owl2rl_closure_equals_recomputing(seed: int) -> None:
    source, rules = random.Random(seed), rule_set(Entailment.OWL2RL)
    knowledge = Knowledge.load([schema(source, Entailment.OWL2RL) for _ in range(6)], rules)
    closure, recomputed = WindowClosure(EntailmentLevel.GRAPH, knowledge, rules), ContentCloser(knowledge, rules)
    items: list[tuple[int, Triple]] = []
    for time in range(6):
        new = [data(source, Entailment.OWL2RL) for _ in range(3)]
        closure.insert(time, new)
        items += [(time, each) for each in new]
        closure.advance(time - 3)
        expected = recomputed.close(each for at, each in items if at > time - 3)
        assert set(closure.index.visible()) == set(expected.triples)
        assert closure.contradictions() == expected.contradictions


def test_over_a_compiled_background(tmp_path: Path) -> None:
    """Static triples may be a mapped index, and queries read the closure as a graph."""
    path = tmp_path / "rooms.ttl"
    path.write_text("<http://e/c> <http://e/in> <http://e/b> . <http://e/b> <http://e/in> <http://e/a> .", encoding="utf-8")
    text = "[?x, <http://e/in>, ?z] :- [?x, <http://e/in>, ?y], [?y, <http://e/in>, ?z] ."
    background = open_background(Sources((str(path),)), parsed(text), CachePolicy(tmp_path / "cache", min_bytes=0))
    assert isinstance(background.knowledge.background, MappedIndex)
    closure = WindowClosure(EntailmentLevel.GRAPH, background.knowledge, parsed(text))
    closure.insert(1, [("<http://e/s>", "<http://e/in>", "<http://e/c>")])
    closure.advance(0)
    assert {object for _, _, object in closure.index} == {f"<http://e/{name}>" for name in "cba"}
    graph = Graph(TripleIndex(), closure.index)
    assert sorted(graph.objects("<http://e/s>", "<http://e/in>")) == [f"<http://e/{name}>" for name in "abc"]


def test_rules_with_not_are_refused_except_at_snapshot() -> None:
    rules = parsed("[?x, <http://e/q>, ?y] :- [?x, <http://e/p>, ?y], NOT [?y, <http://e/p>, ?x] .")
    with pytest.raises(ValueError, match="close the content anew"):
        WindowClosure(EntailmentLevel.GRAPH, Knowledge.load([], rules), rules)
    assert len(WindowClosure(EntailmentLevel.SNAPSHOT, Knowledge.load([], rules), rules).index) == 0


def test_more_triples_than_the_limit_raise() -> None:
    rules = parsed(TEXTS[0])
    closure = WindowClosure(EntailmentLevel.GRAPH, Knowledge.load([], rules), rules, limit=100)
    closure.insert(1, [(f"<n{n}>", "<http://e/p>", f"<n{n + 1}>") for n in range(50)])
    with pytest.raises(LimitExceeded):
        closure.advance(0)


def test_fact_that_ends_and_begins_again_between_two_points_of_a_view_is_renewed() -> None:
    """The fact ends at a point at which no fact begins; the view then moves over both points at once."""
    closure = HorizonClosure([])
    fact = ("<a>", "<p>", "<b>")
    closure.insert(fact, 0, 1)
    closure.advance(0)
    view = closure.view()
    assert view.advance(0).began == [fact]
    assert closure.advance(2).ended == [fact]
    closure.insert(fact, 3, 5)
    assert closure.advance(3).began == [fact]
    changes = view.advance(3)
    assert (changes.began, changes.ended, changes.renewed) == ([], [], [fact])
