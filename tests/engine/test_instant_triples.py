"""Triples of an instant that units read: of K(t) or of I(t), without K(B)."""

from __future__ import annotations

import pytest

from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.instants import merge
from dotr.instant.stage_one import StageOne
from dotr.model.places import Document
from dotr.model.units import InstantTriples
from dotr.syntax.datalog import parse_datalog

pytestmark = pytest.mark.core

PREFIX = "PREFIX : <http://e/>\n"
RULES = PREFIX + ":in[?a, ?c] :- :in[?a, ?b], :in[?b, ?c] .\n:Open(?a) :- :Room(?a), NOT :locked[?a, ?b] ."


def name(text: str) -> str:
    return f"<http://e/{text}>" if text != "a" else "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


def triples(*texts: str) -> tuple[tuple[str, str, str], ...]:
    found = []
    for text in texts:
        subject, predicate, object_ = map(name, text.split())
        found.append((subject, predicate, object_))
    return tuple(found)


def triples_read(read: InstantTriples, instant: tuple[tuple[str, str, str], ...]) -> list[str]:
    knowledge = Knowledge.load(triples("b in c", "r a Room"), parse_datalog(Document("k.dlog", RULES), {}))
    found = StageOne(knowledge, [], triples=[read]).evaluate(merge(7, [instant]))
    return [" ".join((term or "").rpartition("/")[2].strip("<>").rpartition("#")[2] for term in row) for row in found.triples.get(read, ())]


def test_triples_of_the_closure_exclude_the_background() -> None:
    instant = triples("x in b", "b in c", "x p y")
    assert triples_read(InstantTriples(False, None), instant) == ["x in b", "x in c", "x p y"]
    assert triples_read(InstantTriples(False, frozenset([name("in")])), instant) == ["x in b", "x in c"]
    assert triples_read(InstantTriples(False, frozenset([name("q")])), instant) == []


def test_asserted_triples_are_those_of_the_instant_alone() -> None:
    instant = triples("x p y", "x in b", "b in c", "x in b")
    assert triples_read(InstantTriples(True, None), instant) == ["x in b", "x p y"]
    assert triples_read(InstantTriples(True, frozenset([name("p")])), instant) == ["x p y"]


def test_retracted_triples_are_excluded_as_background() -> None:
    assert triples_read(InstantTriples(False, None), triples("r locked k", "s a Room")) == ["r locked k", "s type Open", "s type Room"]


def test_instant_has_no_triples_given_no_unit_that_reads_them() -> None:
    knowledge = Knowledge.load((), ())
    assert StageOne(knowledge, []).evaluate(merge(7, [triples("x p y")])).triples == {}
