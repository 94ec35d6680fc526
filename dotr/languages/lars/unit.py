"""LARS files as units of a program: the streams that they read, the events that they make (lars.md,
section 4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dotr.engine.unit_runs import UnitContext, UnitMeaning, UnitRun
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.limits import Limits
from dotr.explanations.unit import ExplainedUnit
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.keys import EventReads, atoms_read, lars_key, lars_key_names, lars_spreads, triples_read
from dotr.languages.lars.model import EventAtom, LarsFile, TimeWindow
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.places import Span
from dotr.model.terms import Label, Prefixes
from dotr.model.time import Clock, Micros
from dotr.model.units import UnitEvents, UnitStream
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.spread import BucketShare, ReadSpread
from dotr.temporal.layout.units import UnitRead

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
class LarsUnit(ExplainedUnit):
    """A LARS file with the sources of the events that it reads, by label in alphabetic order."""

    file: LarsFile
    events: EventReads

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.file.name

    @property
    def span(self) -> Span:
        """The first statement of the file."""
        return self.file.span

    @property
    def makes(self) -> tuple[UnitEvents, ...]:
        """The events of each REPORT."""
        return made_by(self.file)

    @property
    def reads(self) -> tuple[UnitRead, ...]:
        """The triples of instants, if the file reads any, then the events of each label."""
        triples = triples_read(self.file)
        streams: list[tuple[UnitStream, Span]] = [] if triples is None else [(triples, self.file.span)]
        spans = event_spans(self.file)
        streams += [(source, spans[label]) for label, source in self.events]
        return tuple(UnitRead(stream, True, span) for stream, span in streams)

    @property
    def key(self) -> UnitKey:
        """The key of the file."""
        return lars_key(self.file).unit_key

    def key_names(self) -> tuple[str, ...]:
        """The predicates of the file with their places, sorted; empty: it has one partition."""
        return lars_key_names(self.file, self.events)

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """The spread of each read; None: the file has one partition."""
        return lars_spreads(self.file, self.events)

    def run(self, context: UnitContext, share: BucketShare | None = None) -> UnitRun:
        """The run of the file."""
        from dotr.languages.lars.run import LarsRun

        return LarsRun(self.file, self.events, context, share)

    @property
    def periods(self) -> Sequence[Micros]:
        """That of the points."""
        return (self.file.resolution,)

    @property
    def waits(self) -> bool:
        """True if a window of time looks back."""
        windows = [each.reach.window for each in self.file.literals if each.reach is not None]
        return any(isinstance(each, TimeWindow) and each.interval.bounds[1] > 0 for each in windows)

    def warnings(self, knowledge: Knowledge, limits: Limits, static: Collection[Select]) -> Iterator[Diagnostic]:
        """L404 if the file has one partition."""
        if reason := self.key.reason:
            hint = "It runs on one core; other units run on others."
            message = f"{self.name} has one partition: {reason}"
            yield Diagnostic(LarsCode.ONE_PARTITION, message, self.span, hint, Severity.WARNING)

    def meaning(self, origin: Micros) -> UnitMeaning:
        """The file."""
        from dotr.languages.forms import written  # loaded with state

        return UnitMeaning(self.noun, written(self.file))

    def description(self, layer: Layer, within: DescribedProgram) -> UnitDescription:
        """The points and reports of the file, and its place among the layers."""
        from dotr.languages.lars.description import file_description

        return file_description(self.file, self.events, layer, within.prefixes)

    def retention(self, prefixes: Prefixes) -> Iterator[str]:
        """A line for each predicate of the stream."""
        from dotr.languages.lars.description import file_retention

        return file_retention(self.file, prefixes)

    def records(self, run: UnitRun, program: CompiledProgram, clock: Clock) -> Mapping[Label, UnitRecord]:
        """The record of the file, for each label."""
        from dotr.languages.lars.explanation.records import LarsRecord

        return dict.fromkeys([made.label for made in self.makes], LarsRecord(run, self.file, self.events, program, clock))

    def reasons(self, recorder: FiringRecorder, proofs: ProofsByTime, follow: Callable[[AnyFiring], UnitReason | None]) -> UnitReasonFinder:
        """A finder of the reasons of the unit's events."""
        from dotr.languages.lars.explanation.reasons import LarsReasons

        return LarsReasons(recorder, proofs, follow)

    def writer(self, context: WriterContext) -> UnitEventWriter:
        """The writer of the reasons of the language's events."""
        from dotr.languages.lars.explanation.text import LarsWriter

        return context.writers.part(LarsWriter, lambda: LarsWriter(context))

    def why_not(self, replay: Replay, label: Label, question: Question) -> WhyNot:
        """The reason for which the file produced no event of a label."""
        from dotr.languages.lars.explanation.why_not import why_no_point

        return why_no_point(replay, self.file, label, question)


def made_by(file: LarsFile) -> tuple[UnitEvents, ...]:
    """The events of each REPORT of a file; all attributes, the variables of its atom, are bound."""
    return tuple(
        UnitEvents(report.label, report.attributes, report.label_span, report.makes_graphs, report.attributes) for report in file.reports
    )


def event_spans(file: LarsFile) -> Mapping[Label, Span]:
    """The labels that a file reads, each with the place of its first EVENT."""
    spans: dict[Label, Span] = {}
    for atom, span in sorted(atoms_read(file), key=lambda each: each[1].start):
        if isinstance(atom, EventAtom):
            spans.setdefault(atom.label, span)
    return spans
