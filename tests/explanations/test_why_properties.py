"""Every event of random programs has reasons, all of whose parts are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given

from dotr.engine.replay import CachedReplay
from dotr.explanations.evidence.event_reasons import ProofsByTime
from dotr.explanations.evidence.reasons import FactReason, FiringReason
from dotr.explanations.text.tree import ReasonKind, WhyTree
from dotr.explanations.why import UnitReasons, WhyExplainer
from dotr.instant.queries.evidence import used_triples
from dotr.model.algebra import Bgp
from dotr.model.rules import FactSource
from dotr.model.stream import Element
from tests.explanations.test_rule_evaluation import replay_of
from tests.support.properties import compiled, examples, shown
from tests.support.running import run_engine
from tests.support.strategies import ProgramText, programs, programs_of_expressions
from tests.support.strategies_streams import streams


def assert_explained(text: ProgramText, elements: Sequence[Element]) -> None:
    shown(text, elements)
    program = compiled(text)
    expected = Counter(
        (each.time, each.rule, tuple(sorted(each.attributes.items()))) for each in run_engine(program, list(elements), text.clock).outputs
    )
    explainer = WhyExplainer(replay_of(program, text, elements))
    recorder = explainer.recorder([rule.name for rule in program.rules.rules])
    cached = CachedReplay(explainer.replay)
    reasons = UnitReasons(recorder, ProofsByTime(cached))
    found: Counter[object] = Counter()
    for firings in recorder.run():
        for firing in firings:
            found[firing.time, firing.unit_name, tuple(sorted(firing.attributes.items()))] += 1
            reason = reasons.of(firing)
            assert isinstance(reason, FiringReason)
            assert_complete(reason)
            tree = explainer.tree(recorder, firing)
            assert len(tree.lines()) <= len(tree.lines(50))
            assert_well_formed(tree)
    assert found == expected


def assert_complete(reason: FiringReason, level: int = 0) -> None:
    rule = reason.firing.rule
    assert [each.clause for each in reason.clauses] == list(rule.clauses)
    assert all(outcome.holds for outcome in (*reason.anchor.conditions, *reason.conditions))
    for source in reason.sources.values():
        match source:
            case FactReason(event, FactSource() as fact, evidence, proofs):
                assert evidence or isinstance(fact.query.pattern, Bgp) or not proofs, event
                assert set(used_triples(evidence)) == set(proofs)
            case FiringReason():
                assert_complete(source, level + 1)


def assert_well_formed(tree: WhyTree) -> None:
    assert tree.kind is ReasonKind.EVENT
    assert tree.to_json()["kind"] == "event"
    assert tree.to_mermaid().startswith("flowchart TD")


@examples(25)
@given(programs(), streams())
def test_every_event_of_a_random_program_has_reasons(text: ProgramText, elements: list[Element]) -> None:
    assert_explained(text, elements)


@examples(10)
@given(programs_of_expressions(), streams())
def test_every_event_of_random_expressions_has_reasons(text: ProgramText, elements: list[Element]) -> None:
    assert_explained(text, elements)
