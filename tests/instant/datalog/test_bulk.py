"""Closure in bulk equals closure triple by triple."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import close_background
from dotr.instant.datalog.closure import bulk
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_TYPE, RDFS, Triple, iri
from dotr.syntax.datalog import parse_datalog

pytestmark = pytest.mark.core

SCHEMA = [RDF_TYPE, *(iri(RDFS + name) for name in ("subClassOf", "subPropertyOf", "domain", "range"))]
OWLS = [iri(OWL + name) for name in ("sameAs", "inverseOf", "equivalentClass", "disjointWith")]
CLASSES = [iri(OWL + name) for name in ("TransitiveProperty", "SymmetricProperty", "FunctionalProperty")]
NODES = [f"<http://e/{n}>" for n in "abcdpq"]
triples = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(NODES + SCHEMA + OWLS), st.sampled_from([*NODES, *CLASSES, '"x"'])), max_size=14
)
DATALOG = """
PREFIX : <http://e/>
:p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) .
[?x, ?q, ?y] :- [?p, :q, ?q], [?x, ?p, ?y] .
:a(?x) :- :p(?x, ?y), :p(?z, ?x), FILTER(?y != ?z) .
[?y, :b, ?n] :- [?x, :d, ?y], BIND(IRI("http://e/a") AS ?n) .
"""


def one_by_one(given: Sequence[Triple], rules: Sequence[DatalogRule]) -> tuple[set[Triple], set[tuple[str, tuple[Triple, ...]]]]:
    """The closure over an empty background by the closer of instants."""
    closure = Closer(RuleDispatch(rules), TripleIndex()).close(given)
    return set(closure.delta), set(closure.contradictions)


@pytest.mark.parametrize("entailment", [Entailment.NONE, Entailment.RDFS, Entailment.OWL2RL])
@settings(max_examples=80, deadline=None)
@given(given=triples, chunk=st.integers(1, 4), datalog=st.booleans())
def test_bulk_closure_equals_closure_triple_by_triple(entailment: Entailment, given: list[Triple], chunk: int, datalog: bool) -> None:
    rules = [*rule_set(entailment), *(parse_datalog(Document("d.dlog", DATALOG), {}) if datalog else ())]
    rules = [rule for rule in rules if rule.body]
    with patch.object(bulk, "_CHUNK_SIZE", chunk):
        closed = close_background(given, rules)
    expected, contradictions = one_by_one(given, rules)
    assert closed.triples == expected
    assert set(closed.contradictions) == contradictions
    assert closed.loaded == len(set(given))
    assert sorted(triple for group in closed.by_predicate.values() for triple in group) == sorted(closed.triples)
    index = closed.index()
    assert sorted(index) == sorted(closed.triples)
    assert sum(closed.by_rule.values()) >= len(closed.triples) - closed.loaded


def test_table_is_built_at_first_use_and_maintained() -> None:
    index = bulk.BulkIndex()
    index.extend("<p>", [("<a>", "<p>", "<b>")])
    assert not dict.__len__(index.by_object)
    assert index.by_object.get("<p>") == {"<b>": ["<a>"]}
    assert len(index.by_subject) == 1
    assert list(index.by_subject.items()) == [("<p>", {"<a>": ["<b>"]})]
    assert list(index.visible()) == list(index) == list(index.match(None, None, None)) == [("<a>", "<p>", "<b>")]
    index.extend("<p>", [("<c>", "<p>", "<b>")])
    assert index.by_object["<p>"] == {"<b>": ["<a>", "<c>"]}
    assert index.by_subject.get("<q>") is None
    assert index.edges_from["<a>"] == [("<p>", "<b>")]
    index.extend("<q>", [("<a>", "<q>", "<b>")])
    assert index.edges_from["<a>"] == [("<p>", "<b>"), ("<q>", "<b>")]


def test_each_triple_of_a_class_chain_is_derived_once() -> None:
    """A chain of classes with instances of the lowest class."""
    chain = [(f"<http://e/C{n}>", iri(RDFS + "subClassOf"), f"<http://e/C{n + 1}>") for n in range(8)]
    given = [*chain, *((f"<http://e/i{n}>", RDF_TYPE, "<http://e/C0>") for n in range(100))]
    closed = close_background(given, rule_set(Entailment.RDFS))
    assert closed.by_rule == {"rdfs11": 28, "rdfs9": 800}


def test_run_of_all_superclasses_skips_their_own_rules() -> None:
    """An instance of the lowest class gets all superclasses in one run; rules of those are skipped."""
    chain = [(f"<http://e/C{n}>", iri(RDFS + "subClassOf"), f"<http://e/C{m}>") for n in range(9) for m in range(n + 1, 9)]
    of_domain = ("<http://e/p>", iri(RDFS + "domain"), "<http://e/C0>")
    typed = [(f"<http://e/i{n}>", RDF_TYPE, "<http://e/C0>") for n in range(100)]
    with_property = [(f"<http://e/i{n}>", "<http://e/p>", "<http://e/x>") for n in range(100)]
    concluded = 0
    register = bulk.BulkCloser._register

    def counted(closer: bulk.BulkCloser, triples: list[Triple]) -> list[Triple]:
        nonlocal concluded
        concluded += sum(triple[0].startswith("<http://e/i") and triple[1] == RDF_TYPE for triple in triples)
        return register(closer, triples)

    for facts, count in ((typed, 100 + 800), (with_property, 100 + 800)):
        concluded = 0
        with patch.object(bulk.BulkCloser, "_register", counted):
            closed = close_background([*chain, of_domain, *facts], rule_set(Entailment.RDFS))
        assert sum(triple[1] == RDF_TYPE and triple[0].startswith("<http://e/i") for triple in closed.triples) == 900
        assert concluded == count
