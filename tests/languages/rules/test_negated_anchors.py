"""Negations of the anchor or of a chosen event (D315): they give a warning, and never hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr import Event, Program
from dotr.languages.rules import compile_rules
from dotr.model.places import Document

pytestmark = pytest.mark.core

QUERIES = """
PREFIX : <http://example.org/>
query Open = [ SELECT ?door ?v WHERE { ?o :opens ?door ; :by ?v } ]
query Main = [ SELECT ?door WHERE { ?o :opens ?door . ?door a :Main } ]
query Any  = [ SELECT ?d WHERE { ?x :opens ?d } ]
query Least = [ SELECT ?d WHERE { ?x :opens ?d } ORDER BY ?d LIMIT 1 ]
"""
FORBIDDEN = {
    "no condition": "from Open delayed by 10 s and not Open as Other within 10 s from Open",
    "a longer window": "from Open delayed by 10 s and not Open as Other [ FILTER(?door = Open.?door) ] within 1 min from Open",
    "the same condition": "from Open [ FILTER(?v != 4) ] delayed by 10 s and not Open as Other [ FILTER(?v != 4) ] within 10 s from Open",
    "a weaker condition": "from Open [ FILTER(?v > 7) ] delayed by 10 s and not Open as Other [ FILTER(?v >= 5) ] within 10 s from Open",
    "as much": "from Open delayed by 10 s and not Open as Other [ FILTER(?v >= Open.?v) ] within 10 s from Open",
    "an equality the other way": "from Open delayed by 10 s and not Open as Other [ FILTER(Open.?door = ?door) ] within 10 s from Open",
    "its time": "from Open delayed by 10 s and not Open as Other [ FILTER(time(Other) <= time(Open)) ] within 10 s from Open",
    "an equal query": (
        "from A = [ SELECT ?a WHERE { ?o :opens ?a . ?o :by ?v FILTER(?v > 7) } ] delayed by 10 s "
        "and not B = [ SELECT ?a WHERE { ?o :opens ?a . ?o :by ?v FILTER(?a = A.?a && ?v > 7) } ] within 10 s from A"
    ),
    "a chosen event": (
        "from Open as Now and last Open as Before [ FILTER(?door = Now.?door) ] within 10 s from Now "
        "and not Open as Other [ FILTER(?door = Now.?door) ] within 1 min from Now"
    ),
}
NOT_COMPARED = {
    "a wider query": "from Main delayed by 10 s and not Any [ FILTER(?d = Main.?door) ] within 10 s from Main",
    "a query written again": (
        "from A = [ SELECT ?a WHERE { ?o :opens ?a . ?o :by ?v FILTER(?v > 7) } ] delayed by 10 s "
        "and not B = [ SELECT ?b WHERE { ?p :by ?w . ?p :opens ?b FILTER(?b = A.?a && ?w > 5) } ] within 10 s from A"
    ),
}
POSSIBLE = {
    "the window is open there": "from Open delayed by 10 s and not Open as Other within [0, 10 s) from Open",
    "a condition of its own": "from Open delayed by 10 s and not Open as Other [ FILTER(?v > 8) ] within 10 s from Open",
    "a stronger condition": "from Open [ FILTER(?v > 5) ] delayed by 10 s and not Open as Other [ FILTER(?v > 8) ] within 10 s from Open",
    "more": "from Open delayed by 10 s and not Open as Other [ FILTER(?v > Open.?v) ] within 10 s from Open",
    "another door": "from Open delayed by 10 s and not Open as Other [ FILTER(?door != Open.?door) ] within [9 s, 10 s] from Open",
    "a narrower query": "from Any delayed by 10 s and not Main [ FILTER(?door = Any.?d) ] within 10 s from Any",
    "a sliced query": "from Any delayed by 10 s and not Least [ FILTER(?d = Any.?d) ] within 10 s from Any",
    "earlier than the chosen one": (
        "from Open as Now and last Open as Before [ FILTER(?door = Now.?door) ] within 10 s from Now "
        "and not Open as Other [ FILTER(?door = Now.?door && ?v > 8) ] within 5 s from Now"
    ),
}


def rules_of(body: str) -> str:
    return f"{QUERIES}\nrule R define E = [ [] a :E ] {body}\n"


def warned(body: str) -> bool:
    found = compile_rules([Document("r.dotr", rules_of(body))], {}).checked().diagnostics
    return any(d.code == "D315" for d in found)


def fires(body: str, folder: Path) -> bool:
    path = folder / "r.dotr"
    path.write_text(rules_of(body), encoding="utf-8")
    with Program.load(path).session() as session:
        events: list[Event] = []
        for time, doors in ((0, ":gate"), (3, ":hall"), (9, ":gate"), (40, ":hall, :back")):
            graph = f"@prefix : <http://example.org/> . :o{time} :opens {doors} ; :by 8 . :gate a :Main ."
            events += session.advance(time, graph)
        return bool([*events, *session.finish()])


@pytest.mark.parametrize("body", FORBIDDEN.values(), ids=FORBIDDEN)
def test_negation_of_a_bound_event_gives_a_warning_and_never_fires(body: str, tmp_path: Path) -> None:
    assert warned(body)
    assert not fires(body, tmp_path)


@pytest.mark.parametrize("body", NOT_COMPARED.values(), ids=NOT_COMPARED)
def test_queries_written_differently_are_not_compared(body: str, tmp_path: Path) -> None:
    assert not warned(body)
    assert not fires(body, tmp_path)


@pytest.mark.parametrize("body", POSSIBLE.values(), ids=POSSIBLE)
def test_negation_that_can_hold_gives_no_warning(body: str, tmp_path: Path) -> None:
    assert not warned(body)
    assert fires(body, tmp_path)
