"""Closure in rounds: it equals the engine's closure, and has each triple at its least height."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.rounds import RoundsClosure, close_in_rounds
from dotr.explanations.evidence.rule_matches import ProvingRules
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import Triple
from dotr.syntax.datalog import parse_datalog
from tests.instant.datalog.test_closure_properties import graphs, programs
from tests.instant.datalog.test_entailment_equality import PROGRAMS, cases, program
from tests.instant.datalog.test_stratified_properties import Author
from tests.oracle.closure import close

PHASES = (Phase.explicit, Phase.generate)


def reasons(knowledge: Knowledge, rules: Sequence[DatalogRule], instant: Sequence[Triple]) -> RoundsClosure:
    closure = knowledge.close(instant)
    return close_in_rounds(ProvingRules(rules), closure.background, instant, knowledge.lower_models(instant), closure.delta)


def check(knowledge: Knowledge, rules: Sequence[DatalogRule], instant: Sequence[Triple]) -> RoundsClosure:
    """The rounds derive the engine's closure; every derivation has its height, and all its premises hold."""
    closure = knowledge.close(instant)
    found = reasons(knowledge, rules, instant)
    assert set(found.delta) == set(closure.delta)
    assert {match.rule.rule.name for match in found.contradictions} >= {each.rule for each in closure.contradictions}
    for triple, height in found.heights.items():
        if height == 0:
            assert triple in instant
            continue
        premises = found.derivations[triple].premises
        assert triple in set(found.derivations[triple].conclusions())
        assert all(premise in closure.background.triples or premise in found.heights for premise in premises)
        assert max((found.heights.get(premise, 0) for premise in premises), default=0) == height - 1
    return found


@settings(max_examples=150, deadline=None)
@given(graphs, graphs, programs)
def test_rounds_derive_the_closure_of_random_datalog(background: set[Triple], instant: set[Triple], rules: list[DatalogRule]) -> None:
    check(Knowledge.load(sorted(background), rules), rules, sorted(instant))


@settings(phases=PHASES, max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases(odd=False) | cases(odd=True), st.sampled_from(PROGRAMS))
def test_rounds_derive_the_closure_of_equal_names(case: tuple[frozenset[Triple], frozenset[Triple]], text: str) -> None:
    background, instant = case
    check(Knowledge.load(sorted(background), program(text)), program(text), sorted(instant))


@pytest.mark.parametrize("entailment", Entailment, ids=lambda entailment: entailment.value)
def test_rounds_derive_the_closure_under_negation_and_aggregation(entailment: Entailment) -> None:
    derived = 0
    for seed in range(60 if entailment is Entailment.NONE else 40):
        author = Author(seed)
        own = author.program()
        background = author.graph(4, 14)
        rules = [*own, *rule_set(entailment)]
        knowledge = Knowledge.load(background, rules)
        whole = close_in_rounds(
            ProvingRules(rules), TripleIndex(), background, knowledge.lower_models(()), knowledge.background, with_facts=True
        )
        assert set(whole.delta) == set(knowledge.background)
        for _ in range(2):
            instant = author.graph(0, 5)
            found = check(knowledge, rules, instant)
            derived += len(found.derivations)
            if entailment is Entailment.NONE:
                assert {*knowledge.close(instant).background, *found.delta} == close([*background, *instant], own, "none")
    assert derived > 20


def test_the_least_of_several_derivations_of_one_height_is_kept() -> None:
    rules = parse_datalog(
        Document("a.dlog", ":hot(?x, ?y) :- :near(?x, ?z), :fire(?z, ?y) .\n:hot(?x, ?y) :- :burns(?x, ?y) .\n"), {"": ""}
    )
    near = [("<s>", "<near>", f"<{name}>") for name in "abc"]
    fires = [(f"<{name}>", "<fire>", "<y>") for name in "abc"]
    triples = [("<s>", "<burns>", "<y>"), *near, *fires]
    for seed in range(5):
        random.Random(seed).shuffle(triples)
        closed = close_in_rounds(ProvingRules(rules), TripleIndex(), triples, [], [])
        match = closed.derivations["<s>", "<hot>", "<y>"]
        assert match.rule.rule.name == "a.dlog:1"
        assert match.premises == (near[0], fires[0])
