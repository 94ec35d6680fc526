"""Components of EP-SPARQL units and rules that depend on each other through the past.

Idea: such a component is one unit of the program, with one partition. Its reads are the streams
that members read from other units; events between members stay inside
(`languages.epsparql.component_run`).
Example: the STREAM `Sum` that reads its own graphs on the left of SEQ is a component of one member.
Source: ep-sparql.md, sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from dotr.engine.unit_runs import UnitContext, UnitMeaning, UnitRun
from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.limits import Limits
from dotr.explanations.unit import ExplainedUnit
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.languages.epsparql.unit import IntervalUnit, LinkedMembers, Member, background_groups, label_read, member_reads
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.graphs import components
from dotr.model.places import Span
from dotr.model.rules import Rule
from dotr.model.terms import Label, Prefixes
from dotr.model.time import Clock, Micros
from dotr.model.units import UnitEvents
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.retention import lookbacks
from dotr.temporal.layout.spread import BucketShare
from dotr.temporal.layout.units import ProgramUnit, StreamUnit, UnitRead, labels_made, makers, readings

if TYPE_CHECKING:
    from dotr.engine.program import CompiledProgram
    from dotr.engine.replay import Replay
    from dotr.explanations.descriptions import DescribedProgram, UnitDescription
    from dotr.explanations.evidence.event_reasons import ProofsByTime, UnitReasonFinder
    from dotr.explanations.evidence.reasons import UnitReason
    from dotr.explanations.replay.firings import AnyFiring, FiringRecorder
    from dotr.explanations.replay.records import UnitRecord
    from dotr.explanations.text.narrative import WhyNot
    from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
    from dotr.explanations.why_not.survey import Question
    from dotr.temporal.layout.layers import Layer


@dataclass(frozen=True, slots=True)
class IntervalComponent(LinkedMembers, ExplainedUnit):
    """Units, and rules, that depend on each other through the past."""

    @property
    def name(self) -> str:
        """The names of the members."""
        return "+".join(sorted(member.name for member in self.members))

    @property
    def span(self) -> Span:
        """The place of the first member's label."""
        return next(member.span for member in self.members if isinstance(member, IntervalUnit))

    @property
    def key(self) -> UnitKey:
        """None: one partition."""
        return UnitKey(None, f"{', '.join(sorted(self.inside))} depends on itself")

    @property
    def may_recur(self) -> bool:
        """True, through its members."""
        return True

    @property
    def acts_alone(self) -> bool:
        """True if the timer of a member may make events without arrivals."""
        return any(rule.anchor.delay for rule in self.rules)

    def run(self, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
        """The run of the members."""
        from dotr.languages.epsparql.component_run import ComponentRun

        return ComponentRun(self, context.clock, context.limits, traced=context.traced)

    def warnings(self, knowledge: Knowledge, limits: Limits, static: Collection[Select]) -> Iterator[Diagnostic]:
        """E401 for each group that the background alone answers."""
        yield from background_groups(self, static)

    def meaning(self, origin: Micros) -> UnitMeaning:
        """The text of each member."""
        from dotr.languages.forms import written  # loaded with state

        return UnitMeaning(self.noun, written(tuple(each.query if isinstance(each, IntervalUnit) else each for each in self.members)))

    def description(self, layer: Layer, within: DescribedProgram) -> UnitDescription:
        """Each unit among the members; the component is drawn as one."""
        from dotr.explanations.descriptions import UnitDescription, drawn_by_reads
        from dotr.languages.epsparql.description import unit_text

        reason = f"one partition, on one core: {', '.join(member.name for member in self.members)} depends on itself in the past"
        texts = [unit_text(member, layer, reason) for member in self.members if isinstance(member, IntervalUnit)]
        return UnitDescription(texts, drawn_by_reads(layer, self))

    def retention(self, prefixes: Prefixes) -> Iterator[str]:
        """That of each unit among the members."""
        for member in self.members:
            if isinstance(member, IntervalUnit):
                yield from member.retention(prefixes)

    def records(self, run: UnitRun, program: CompiledProgram, clock: Clock) -> Mapping[Label, UnitRecord]:
        """The records of the members other than rules."""
        from dotr.languages.epsparql.component_run import ComponentRun
        from dotr.languages.epsparql.explanation.interval_records import IntervalRecord

        assert isinstance(run, ComponentRun)
        return {label: IntervalRecord(member, member.unit) for label, member in run.runs.items()}

    def reach(self) -> Micros | None:
        """The sum over the members: an event has the start of its oldest part, so a bound of SEQ
        holds for what it was made of, however often a unit reads itself."""
        lengths = [max(each.far for each in lookbacks(rule)) for rule in self.rules]
        return sum(lengths) + sum(unit.reach() or 0 for unit in self._queries)

    def reasons(self, recorder: FiringRecorder, proofs: ProofsByTime, follow: Callable[[AnyFiring], UnitReason | None]) -> UnitReasonFinder:
        """A finder of the reasons of the members' events, as of any unit of EP-SPARQL."""
        return self._queries[0].reasons(recorder, proofs, follow)

    def writer(self, context: WriterContext) -> UnitEventWriter:
        """The writer of the reasons of the language's events."""
        return self._queries[0].writer(context)

    def why_not(self, replay: Replay, label: Label, question: Question) -> WhyNot:
        """The reason for which a member produced no event."""
        return next(each for each in self._queries if each.name == label).why_not(replay, label, question)

    @property
    def _queries(self) -> Sequence[IntervalUnit]:
        return [member for member in self.members if isinstance(member, IntervalUnit)]


def with_components(rules: Sequence[Rule], units: Sequence[StreamUnit], labels: Mapping[Label, UnitEvents]) -> list[StreamUnit]:
    """The units of a program; those of a recursive component are replaced by an
    `IntervalComponent`.

    `labels`: the events of each label, by label.
    """
    all_units: list[ProgramUnit] = [*rules, *units]
    by_name = {each.name: each for each in all_units}
    made = makers(all_units)
    needs = {name: [maker.name for each in readings(unit) for maker in made.get(each.label, ())] for name, unit in by_name.items()}
    number = components((name, need) for name in needs for need in needs[name])
    groups: dict[int, list[str]] = {}
    for name in by_name:
        if name in number:
            groups.setdefault(number[name], []).append(name)
    found: list[StreamUnit] = []
    replaced: set[str] = set()
    for names in groups.values():
        members = [by_name[name] for name in names]
        own = [each for each in members if isinstance(each, IntervalUnit | Rule)]
        recursive = len(names) > 1 or names[0] in needs[names[0]]
        if recursive and any(isinstance(each, IntervalUnit) for each in own):
            found.append(_component(own, made, labels))
            replaced.update(names)
    return [*[unit for unit in units if unit.name not in replaced], *found]


def _component(
    members: Sequence[Member], made: Mapping[Label, Sequence[ProgramUnit]], labels: Mapping[Label, UnitEvents]
) -> IntervalComponent:
    names = {member.name for member in members}
    inside = frozenset(label for member in members for label in labels_made(member))
    outside = {label for label in made if any(maker.name not in names for maker in made[label])}
    order: TopologicalSorter[str] = TopologicalSorter()
    reads: dict[tuple[object, bool], UnitRead] = {}
    for member in sorted(members, key=lambda each: each.name):
        order.add(member.name)
        for read in member_reads(member):
            label = label_read(read)
            if label in inside and read.now:
                order.add(member.name, *[maker.name for maker in made[label] if maker.name in names])
            if label not in inside or label in outside:
                reads.setdefault((read.stream, read.now), read)
    by_name = {member.name: member for member in members}
    made_events = [replace(labels[label], label=label) for label in sorted(inside)]
    return IntervalComponent(tuple(by_name[name] for name in order.static_order()), tuple(made_events), tuple(reads.values()), inside)
