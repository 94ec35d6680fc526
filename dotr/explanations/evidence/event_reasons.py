"""Reasons of an event: the evaluation of its rule at its anchor, and the reasons of its events.

Idea: a replay (`dotr.explanations.replay.firings`) finds the firing. The plain evaluator
(`dotr.explanations.evidence.rule_evaluation`) gives the outcome of every condition along its match.
Each fact that the match binds has a proof, and each composite event the reasons of its own firing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from dotr.engine.driver import close_instant
from dotr.engine.replay import CachedReplay, ReplayedInstant
from dotr.explanations.evidence.evaluations import AnchorEvaluation, Binding, ClauseEvaluation, ConsumedEvents
from dotr.explanations.evidence.proofs import InstantProofs, TripleProof, program_rules, prove_fact
from dotr.explanations.evidence.reasons import FactReason, FiringReason, SourceReason, UnitReason
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.evidence.rule_matches import ProvingRules
from dotr.explanations.replay.firings import AnyFiring, FiringRecorder, NamedFiring, UnitFiring
from dotr.explanations.replay.history import RecordedEvent
from dotr.instant.queries.evidence import used_triples
from dotr.instant.queries.graph import Graph
from dotr.model import dataclass
from dotr.model.rules import FactSource, Role, Rule
from dotr.model.terms import Label, Term
from dotr.model.time import Micros
from dotr.temporal.layout.retention import positive_roles


class ProofsByTime:
    """Proofs at the instants of a replay; each instant is closed once.

    Args:
        cached: the replay.
        extend: extends a proof, such as by the derivations of background triples.

    Attributes:
        cached: the replay.
    """

    def __init__(self, cached: CachedReplay, extend: Callable[[TripleProof], TripleProof] = lambda proof: proof) -> None:
        self.cached = cached
        self._program = cached.replay.program
        self.extend = extend
        self._rules: ProvingRules | None = None
        self._instants: dict[Micros, InstantProofs] = {}

    @property
    def rules(self) -> ProvingRules:
        """The rules of the program's background."""
        if self._rules is None:
            self._rules = program_rules(self._program)
        return self._rules

    def at(self, time: Micros) -> InstantProofs:
        """Proofs at a time in µs since 1970; of the background alone if there is no instant.

        Elements that a run leaves out of the instant are left out here too.
        """
        found = self._instants.get(time)
        if found is None:
            instant = self.cached.instant(time) or ReplayedInstant(time, (), ())
            left_out = {each.element for each in close_instant(self._program, time, instant.graphs).rejected} if instant.graphs else set()
            if 0 < len(left_out) < len(instant.graphs):
                numbers = [number for number in range(len(instant.graphs)) if number not in left_out]
                instant = ReplayedInstant(time, [instant.graphs[n] for n in numbers], [instant.places[n] for n in numbers])
            found = self._instants[time] = InstantProofs(self._program, instant, self.rules)
        return found

    def fact(self, event: RecordedEvent, source: FactSource) -> FactReason:
        """The reason of a fact or of a tick."""
        proofs = self.at(event.time)
        if source.period is not None:
            proofs = InstantProofs(self._program, ReplayedInstant(event.time, (), ()), self.rules)
        closed = proofs.closed
        graph = Graph(closed.background, closed.delta)
        names = set(source.query.projection)
        attributes = {name: term for name, term in event.attributes.items() if name in names}
        evidence = prove_fact(source.query, attributes, graph, lambda triple: closed.heights.get(triple, 0)) or ()
        found = {triple: self.extend(proof) for triple in used_triples(evidence) if (proof := proofs.proof(triple)) is not None}
        return FactReason(event, source, evidence, found)


@dataclass(frozen=True, eq=False)
class ReasonFinder:
    """Base of the finders of reasons of recorded events.

    Attributes:
        recorder: the recorder, after the instant of the event.
        proofs: proofs at the instants of the replay.
        follow: the reason of another event; None beyond the maximum depth.
    """

    recorder: FiringRecorder
    proofs: ProofsByTime
    follow: Callable[[AnyFiring], UnitReason | None]


class UnitReasonFinder(ReasonFinder):
    """Base of the finders of reasons of a language's events."""

    @abstractmethod
    def of(self, firing: UnitFiring, name: Term | None = None) -> UnitReason:
        """The reasons of an event; `name`: only of the part that creates this fresh name."""


@dataclass(frozen=True, eq=False)
class EventReasons(ReasonFinder):
    """Finder of the reasons of recorded firings of rules."""

    def of(self, firing: NamedFiring) -> FiringReason:
        """The reasons of a firing. Composite events are followed to the depth of `follow`."""
        rule = firing.rule
        evaluator = self._evaluator(rule)
        anchor = firing.events[rule.anchor.label]
        self._consume(evaluator, firing)
        evaluation = evaluator.evaluate(anchor)
        clauses = tuple(self._on_the_way(evaluation, firing))
        final = next((each for each in evaluation.final if _is_bound_as(each.binding, firing)), None)
        sources: dict[Label, SourceReason] = {}
        for role in positive_roles(rule):
            source = self._source(rule, role, firing.events[role.label])
            if source is not None:
                sources[role.label] = source
        return FiringReason(firing, evaluation, clauses, () if final is None else final.conditions, sources)

    def _evaluator(self, rule: Rule) -> RuleEvaluator:
        replay = self.recorder.replay
        return RuleEvaluator(
            rule, self.recorder.history_of(rule), ConsumedEvents(), replay.clock, replay.program.rules.places.get(rule.name)
        )

    def _consume(self, evaluator: RuleEvaluator, until: NamedFiring) -> None:
        """Record the events that earlier firings of the rule have consumed."""
        rule = evaluator.rule
        labels = [label for label in rule.consuming if label != rule.anchor.label]
        if not labels:
            return
        by_anchor: dict[RecordedEvent, list[NamedFiring]] = {}
        for each in self.recorder.firings.get(rule.name, ()):
            if each.time > until.time:
                break
            assert isinstance(each, NamedFiring)
            by_anchor.setdefault(each.events[rule.anchor.label], []).append(each)
        last = evaluator.order_of(until.events[rule.anchor.label])
        for anchor in sorted(by_anchor, key=evaluator.order_of):
            order, firings = evaluator.order_of(anchor), by_anchor[anchor]
            if order >= last:
                break
            if all(label in firings[0].events for label in labels):
                for each in firings:
                    for label in labels:
                        evaluator.consumed.add(label, each.events[label], order)
            else:
                evaluator.consume(evaluator.evaluate(anchor))

    def _on_the_way(self, evaluation: AnchorEvaluation, firing: NamedFiring) -> Iterator[ClauseEvaluation]:
        for evaluations in evaluation.clauses:
            for each in evaluations:
                if _is_bound_as(each.binding, firing) and any(_is_bound_as(after, firing) for after in each.bindings):
                    yield each
                    break

    def _source(self, rule: Rule, role: Role, event: RecordedEvent) -> SourceReason | None:
        if isinstance(role.source, FactSource):
            return self.proofs.fact(event, role.source)
        made = self.recorder.firing_of_event(event, rule)
        return None if made is None else self.follow(made)


def _is_bound_as(binding: Binding, firing: NamedFiring) -> bool:
    return all(firing.events.get(label) == event for label, event in binding.events.items())
