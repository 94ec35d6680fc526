"""The parsed `.epsparql` files of a program (a `dotr.languages.linking.UnitFiles`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.epsparql.interval_warnings import interval_warnings
from dotr.languages.epsparql.reading import TemporalCode
from dotr.languages.epsparql.resolution import ProgramLabels, resolve_intervals
from dotr.languages.linking import ProgramNames, ResolvedUnits
from dotr.model.terms import Prefixes
from dotr.model.units import UnitEvents
from dotr.temporal.intervals.patterns import EventRead, TemporalQuery, operand_reads


@dataclass(frozen=True)
class IntervalFiles:
    """The units of the `.epsparql` files of a program."""

    queries: Sequence[TemporalQuery]
    diagnostics: Sequence[Diagnostic] = ()
    prefixes: Prefixes = field(default_factory=dict)

    @property
    def events(self) -> tuple[UnitEvents, ...]:
        """The events of all units."""
        return tuple(UnitEvents(each.label, each.attributes, each.label_span, each.makes_graphs) for each in self.queries)

    def resolve(self, names: ProgramNames) -> ResolvedUnits:
        """The units with the streams of their operands; reports E205 and E206."""
        problems = [problem for query in self.queries for problem in _unknown(query, names)]
        if problems:
            return ResolvedUnits((), problems)
        units = resolve_intervals(self.queries, ProgramLabels(names.labels, names.shared, names.rules))
        return ResolvedUnits(units, list(interval_warnings([unit.query for unit in units])))


def _unknown(query: TemporalQuery, names: ProgramNames) -> Iterator[Diagnostic]:
    """EVENTs of an unknown label (E205), or of an attribute that no event of the label has
    (E206)."""
    known = {label: each.attributes for label, each in names.labels.items()}
    known |= {label: tuple(each.query.projection) for label, each in names.shared.items()}
    for operand, _ in () if query.where is None else operand_reads(query.where):
        if not isinstance(operand, EventRead):
            continue
        if operand.label not in known:
            labels = sorted(known)
            hint = did_you_mean(operand.label, labels) or f"Labels are {', '.join(labels)}."
            yield Diagnostic(TemporalCode.UNKNOWN_LABEL, f"nothing makes events {operand.label}", operand.label_span, hint)
            continue
        for attribute, _ in operand.attributes:
            if attribute not in known[operand.label]:
                attributes = [f"?{name}" for name in sorted(known[operand.label])]
                hint = f"Its attributes are {', '.join(attributes)}." if attributes else "Its events have none."
                yield Diagnostic(
                    TemporalCode.UNKNOWN_ATTRIBUTE, f"no event {operand.label} can have an attribute ?{attribute}", operand.span, hint
                )
