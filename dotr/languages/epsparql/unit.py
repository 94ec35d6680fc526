"""Units of EP-SPARQL in a program, and the members of a component (ep-sparql.md, 2, 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dotr.engine.unit_runs import UnitContext, UnitMeaning, UnitRun
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.limits import Limits
from dotr.explanations.unit import ExplainedUnit
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.interval_keys import LinkedQuery, interval_key, interval_key_names, interval_spreads
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.rules import EventSource, FactSource, Rule
from dotr.model.terms import Label, Prefixes
from dotr.model.time import Clock, Micros
from dotr.model.units import IntervalEvents, UnitEvents
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.retention import lookbacks, roles
from dotr.temporal.layout.spread import BucketShare, ReadSpread
from dotr.temporal.layout.units import StreamUnit, UnitRead

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
class IntervalUnit(LinkedQuery, ExplainedUnit):
    """A QUERY or STREAM with the streams that it reads."""

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """The events of the unit's label."""
        query = self.query
        return (UnitEvents(query.label, query.attributes, query.label_span, query.makes_graphs),)

    @property
    def key(self) -> UnitKey:
        """The key of the unit's partitions (ep-sparql.md, section 5)."""
        return interval_key(self.query)

    @property
    def may_recur(self) -> bool:
        """True: a unit may depend on itself through the left operand of SEQ."""
        return True

    @property
    def acts_alone(self) -> bool:
        """False: only arrivals make events."""
        return False

    def key_names(self) -> tuple[str, ...]:
        """The variable of each operand; empty: the unit has one partition."""
        return interval_key_names(self)

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """The spread of each read; None: the unit has one partition."""
        return interval_spreads(self)

    def run(self, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
        """The run of the unit."""
        from dotr.languages.epsparql.run import IntervalRun

        return IntervalRun(self, context.clock, context.limits, traced=context.traced, share=share)

    def warnings(self, knowledge: Knowledge, limits: Limits, static: Collection[Select]) -> Iterator[Diagnostic]:
        """E401 for each group that the background alone answers."""
        yield from background_groups(self, static)

    def meaning(self, origin: Micros) -> UnitMeaning:
        """The QUERY or STREAM."""
        from dotr.languages.forms import written  # loaded with state

        return UnitMeaning(self.noun, written(self.query))

    def description(self, layer: Layer, within: DescribedProgram) -> UnitDescription:
        """The operands and operators of the unit, and its place among the layers."""
        from dotr.explanations.descriptions import UnitDescription, drawn_by_reads
        from dotr.languages.epsparql.description import unit_text

        return UnitDescription([unit_text(self, layer)], drawn_by_reads(layer, self))

    def retention(self, prefixes: Prefixes) -> Iterator[str]:
        """A line for each operator that keeps solutions."""
        from dotr.languages.epsparql.description import unit_retention

        return unit_retention(self.query)

    def records(self, run: UnitRun, program: CompiledProgram, clock: Clock) -> Mapping[Label, UnitRecord]:
        """The record of the unit."""
        from dotr.languages.epsparql.explanation.interval_records import IntervalRecord

        return {self.name: IntervalRecord(run, self)}

    def reach(self) -> Micros | None:
        """The greatest bound of an operator in µs: no part of an event is older."""
        from dotr.temporal.intervals.patterns import combinations

        where = self.query.where
        return 0 if where is None else max((each.bound or 0 for each in combinations(where)), default=0)

    def reasons(self, recorder: FiringRecorder, proofs: ProofsByTime, follow: Callable[[AnyFiring], UnitReason | None]) -> UnitReasonFinder:
        """A finder of the reasons of the unit's events."""
        from dotr.languages.epsparql.explanation.text import IntervalReasons

        return IntervalReasons(recorder, proofs, follow)

    def writer(self, context: WriterContext) -> UnitEventWriter:
        """The writer of the reasons of the language's events."""
        from dotr.languages.epsparql.explanation.text import IntervalWriter

        return context.writers.part(IntervalWriter, lambda: IntervalWriter(context))

    def why_not(self, replay: Replay, label: Label, question: Question) -> WhyNot:
        """The reason for which the unit produced no event."""
        from dotr.languages.epsparql.explanation.why_not import why_no_interval

        return why_no_interval(replay, self, IntervalUnit, question)


def background_groups(unit: StreamUnit, static: Collection[Select]) -> Iterator[Diagnostic]:
    """E401 for each plain group of a unit, or of the units of a component, that the background alone
    answers: its query is among `static`.
    """
    of_rules = {rule.span.document.name for rule in unit.rules}
    for stream, _, span in unit.reads:
        if isinstance(stream, FactSource) and stream.query in static and span.document.name not in of_rules:
            message = "the background alone answers this group: it has solutions at every instant"
            hint = "Put its triples into the group that they describe, or add a pattern that only the stream can match."
            yield Diagnostic(TemporalCode.OF_THE_BACKGROUND, message, span, hint, Severity.WARNING)


Member: TypeAlias = IntervalUnit | Rule
"""A member of a component of units that depend on each other through the past."""


@dataclass(frozen=True, slots=True)
class LinkedMembers:
    """The members of a component, with the streams that it reads.

    - `members`: each after the members whose events of the same moment it reads.
    - `makes`: the events of all members.
    - `reads`: the streams read from outside, each once.
    - `inside`: the labels that members make.
    """

    members: tuple[Member, ...]
    makes: tuple[UnitEvents, ...]
    reads: tuple[UnitRead, ...]
    inside: frozenset[Label]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The members that are rules."""
        return tuple(member for member in self.members if isinstance(member, Rule))


def member_reads(member: Member) -> tuple[UnitRead, ...]:
    """The streams that a member reads, in the order of their numbers; of a rule, those of its
    roles.
    """
    if isinstance(member, IntervalUnit):
        return member.reads
    spans = zip(roles(member), lookbacks(member), strict=True)
    return tuple(UnitRead(role.source, reach.near == 0, role.span) for role, reach in spans)


def label_read(read: UnitRead) -> Label | None:
    """The label of the events of a read; None for facts."""
    match read.stream:
        case EventSource(label, _) | IntervalEvents(label, _):
            return label
        case _:
            return None
