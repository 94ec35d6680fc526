"""Proofs of the triples of a window: they are those of the engine, and each step is one of a rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.engine.replay import ElementPlace
from dotr.evaluation.triples.index import is_hidden
from dotr.explanations.evidence.proofs import BackgroundTriple, DerivedTriple, StatedTriple, TripleProof
from dotr.explanations.evidence.rule_matches import ProvingRules
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.content_entailment import ContentCloser
from dotr.languages.continuous.explanation.dataset import ContentProofs
from dotr.model.datalog import DatalogRule
from dotr.model.terms import Triple
from tests.instant.datalog.test_closure_properties import graphs, programs
from tests.instant.datalog.test_stratified_properties import Author

pytestmark = pytest.mark.core


def check(background: set[Triple], content: set[Triple], known: set[Triple], rules: list[DatalogRule]) -> None:
    background, content, known = ({each for each in graph if not is_hidden(each[1])} for graph in (background, content, known))
    knowledge = Knowledge.load(sorted(background), rules)
    places = {triple: ElementPlace("content", number) for number, triple in enumerate(sorted(content), 1)}
    beside = {triple: ElementPlace("known", number) for number, triple in enumerate(sorted(known), 1)}
    proofs = ContentProofs(knowledge, ProvingRules(rules), places, beside)
    assert set(proofs.index) == set(ContentCloser(knowledge, rules).close(sorted(content), sorted(known)).triples)
    for triple in proofs.index:
        proof = proofs.proof(triple)
        assert proof is not None
        assert_steps_are_of_rules(proof, knowledge, rules)
        is_positive = all(getattr(item, "predicate", None) is not None for rule in rules for item in rule.body)
        assert not is_positive or uses_content(proof), "a triple of the window uses its content"


def assert_steps_are_of_rules(proof: TripleProof, background: Knowledge, rules: list[DatalogRule]) -> None:
    """Each step is one of a rule. Recursive, since the proofs here are not high."""
    match proof:
        case DerivedTriple(triple, rule, premises):
            again = Knowledge.load([premise.triple for premise in premises], rules)
            assert any(getattr(item, "predicate", None) is None for item in rule.body) or triple in again.background.triples
            for premise in premises:
                assert_steps_are_of_rules(premise, background, rules)
        case BackgroundTriple(triple):
            assert triple in background.background.triples
        case StatedTriple():
            pass


def uses_content(proof: TripleProof) -> bool:
    match proof:
        case DerivedTriple(_, _, premises):
            return any(map(uses_content, premises))
        case StatedTriple(_, place):
            return str(place).startswith("content")
        case BackgroundTriple():
            return False


@settings(max_examples=60, deadline=None)
@given(graphs, graphs, graphs, programs)
def test_triples_of_random_windows_are_those_of_the_engine(
    background: set[Triple], content: set[Triple], known: set[Triple], rules: list[DatalogRule]
) -> None:
    check(background, content, known, rules)
    check(background, content, set(), rules)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_triples_of_windows_under_negation_are_those_of_the_engine(seed: int) -> None:
    author = Author(seed)
    rules = author.program()
    check(set(author.graph(0, 5)), set(author.graph(1, 4)), set(author.graph(0, 3)), rules)
