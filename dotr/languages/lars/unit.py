"""LARS files as units of a program: the streams that they read, the events that they make (lars.md,
section 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dotr.engine.unit_runs import EngineUnit, UnitContext, UnitMeaning, UnitRun
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.limits import Limits
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.keys import lars_key
from dotr.languages.lars.lars_spread import EventReads, atoms_read, lars_key_names, lars_spreads, triples_read
from dotr.languages.lars.model import EventAtom, LarsFile
from dotr.model.algebra import Select
from dotr.model.places import Span
from dotr.model.terms import Label, Prefixes
from dotr.model.time import Micros
from dotr.model.units import UnitEvents, UnitStream
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.spread import BucketShare, ReadSpread
from dotr.temporal.layout.units import UnitRead

if TYPE_CHECKING:
    from dotr.explanations.descriptions import DescribedProgram, UnitDescription
    from dotr.temporal.layout.layers import Layer


@dataclass(frozen=True, slots=True)
class LarsUnit(EngineUnit):
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
