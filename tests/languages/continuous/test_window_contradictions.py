"""The contradictions of an incremental window closure equal those of recomputing the content, equal names included."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.content_entailment import ContentCloser
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.languages.continuous.evaluation.window_closure import WindowClosure
from dotr.languages.continuous.model import EntailmentLevel
from dotr.model.datalog import DatalogRule
from dotr.model.terms import OWL, RDF_TYPE, Triple, iri
from tests.instant.datalog.test_entailment_equality import NAMED, PHASES, PLAIN, cases, program

pytestmark = pytest.mark.core

ONCE = settings(phases=PHASES, max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SAME, DIFFERENT, DISJOINT = (iri(OWL + name) for name in ("sameAs", "differentFrom", "disjointWith"))


def incremental_and_recomputed(
    background: list[Triple], items: list[tuple[int, Triple]], rules: list[DatalogRule], widths: list[int]
) -> tuple[WindowClosure, ContentCloser]:
    """Compares both at each time, over windows of several widths; `items`: time and triple, inserted by time."""
    knowledge = Knowledge.load(background, rules)
    kept, recomputed = WindowClosure(EntailmentLevel.GRAPH, knowledge, rules), ContentCloser(knowledge, rules)
    views = [kept.view() for _ in widths]
    for time in range(max([at for at, _ in items], default=0) + 3):
        kept.insert(time, [each for at, each in items if at == time])
        kept.advance(time - max(widths))
        for view, width in zip(views, widths, strict=True):
            view.advance(time - width)
            expected = recomputed.close(each for at, each in items if time - width < at <= time)
            assert view.contradictions() == expected.contradictions
    return kept, recomputed


@given(cases(False), st.integers(0, 10**9), st.sampled_from(["", PLAIN]))
@ONCE
def test_equal_names(case: tuple[frozenset[Triple], frozenset[Triple]], seed: int, text: str) -> None:
    background, instant = case
    source = random.Random(seed)
    items = [(source.randint(0, 3), each) for each in [*sorted(instant), *source.sample(sorted(background), min(2, len(background)))]]
    incremental_and_recomputed(sorted(background), items, program(text), [2, 3])


@given(cases(True), st.integers(0, 10**9), st.sampled_from(["", NAMED]))
@ONCE
def test_names_that_are_more_than_individuals(case: tuple[frozenset[Triple], frozenset[Triple]], seed: int, text: str) -> None:
    background, instant = case
    source = random.Random(seed)
    incremental_and_recomputed(sorted(background), [(source.randint(0, 1), each) for each in sorted(instant)], program(text), [2])


def test_contradiction_is_reported_once_under_the_representative() -> None:
    """The representative has the most triples in the background, then the least name."""
    rules = list(rule_set(Entailment.OWL2RL))
    background = [("<A>", DISJOINT, "<B>"), ("<b>", RDF_TYPE, "<A>")]
    items = [(1, ("<a>", SAME, "<b>")), (2, ("<c>", SAME, "<a>")), (2, ("<c>", RDF_TYPE, "<B>"))]
    kept, _ = incremental_and_recomputed(background, items[:2], rules, [5])
    assert kept.contradictions() == ()
    kept, _ = incremental_and_recomputed(background, items, rules, [5])
    (found,) = kept.contradictions(0)
    assert found.rule == "cax-dw"
    assert found.triples == tuple(sorted([("<A>", DISJOINT, "<B>"), ("<b>", RDF_TYPE, "<A>"), ("<b>", RDF_TYPE, "<B>")]))


def test_different_names_do_not_depend_on_the_order_of_triples() -> None:
    rules = list(rule_set(Entailment.OWL2RL))
    knowledge = Knowledge.load([], rules)
    triples = [("<c>", SAME, "<a>"), ("<b>", SAME, "<c>"), ("<c>", DIFFERENT, "<b>"), ("<a>", DIFFERENT, "<c>")]
    found = {knowledge.close(order).contradictions for order in (triples, triples[::-1], triples[2:] + triples[:2])}
    assert [each.triples for contradictions in found for each in contradictions] == [(("<a>", DIFFERENT, "<b>"), ("<a>", SAME, "<b>"))]


def test_contradiction_of_the_background_is_not_reported_for_a_window() -> None:
    rules = list(rule_set(Entailment.OWL2RL))
    background = [("<A>", DISJOINT, "<B>"), ("<b>", RDF_TYPE, "<A>"), ("<b>", RDF_TYPE, "<B>")]
    kept, _ = incremental_and_recomputed(background, [(1, ("<b>", RDF_TYPE, "<A>"))], rules, [5])
    assert kept.contradictions() == ()
    kept, _ = incremental_and_recomputed(background, [(1, ("<b>", RDF_TYPE, "<A>")), (1, ("<b>", SAME, "<c>"))], rules, [5])
