"""LARS files as units of a program: the streams that they read, the events that they make (lars.md,
section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dotr.languages.lars.keys import lars_key
from dotr.languages.lars.model import Always, At, Counted, EventAtom, LarsAtom, LarsFile, Since, Sometime, TupleWindow
from dotr.model.algebra import Const, TriplePattern
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource, Rule
from dotr.model.terms import Label, Term
from dotr.model.units import InstantTriples, UnitEvents, UnitStream
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.units import UnitRead


@dataclass(frozen=True, slots=True)
class LarsUnit:
    """A LARS file with the sources of the events that it reads, by label in alphabetic order."""

    file: LarsFile
    events: tuple[tuple[Label, EventSource | FactSource], ...]

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
    def labels(self) -> Mapping[int, tuple[Label, EventSource | FactSource]]:
        """The labels that are read, by the number of their read; a read that is missing here is
        that of triples.
        """
        first = 0 if triples_read(self.file) is None else 1
        return dict(enumerate(self.events, first))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """None."""
        return ()

    @property
    def key(self) -> UnitKey:
        """The key of the file."""
        return lars_key(self.file).unit_key

    @property
    def may_recur(self) -> bool:
        """False: a LARS file is in no cycle, not even through the past."""
        return False

    @property
    def members(self) -> tuple[LarsUnit, ...]:
        """Itself."""
        return (self,)


def made_by(file: LarsFile) -> tuple[UnitEvents, ...]:
    """The events of each REPORT of a file; all attributes, the variables of its atom, are bound."""
    return tuple(
        UnitEvents(report.label, report.attributes, report.label_span, report.makes_graphs, report.attributes) for report in file.reports
    )


def atoms_read(file: LarsFile) -> list[tuple[LarsAtom, Span]]:
    """The atoms of all literals, with their places."""
    found: list[tuple[LarsAtom, Span]] = []
    for literal in file.literals:
        found.append((literal.atom, literal.atom_span))
        if isinstance(literal.reach, Since):
            found.append((literal.reach.other, literal.reach.other_span))
    return found


def event_spans(file: LarsFile) -> Mapping[Label, Span]:
    """The labels that a file reads, each with the place of its first EVENT."""
    spans: dict[Label, Span] = {}
    for atom, span in sorted(atoms_read(file), key=lambda each: each[1].start):
        if isinstance(atom, EventAtom):
            spans.setdefault(atom.label, span)
    return spans


def triples_read(file: LarsFile) -> InstantTriples | None:
    """The triples of instants that a file reads; None: it reads none.

    They are those of the properties of its literals and REPORTs; of all properties if a predicate
    is a variable, or if `[LAST n]` counts all triples.
    """
    predicates: set[Term] = set()
    atoms = [atom for atom, _ in atoms_read(file)] + [report.atom for report in file.reports]
    for atom in atoms:
        if not isinstance(atom, TriplePattern) or file.is_background(atom):
            continue
        if not isinstance(atom.predicate, Const):
            return InstantTriples(file.asserted, None)
        predicates.add(atom.predicate.term)
    for literal in file.literals:
        match literal.reach:
            case Sometime(TupleWindow(_, Counted.ALL)) | Always(TupleWindow(_, Counted.ALL)) | At(_, TupleWindow(_, Counted.ALL)):
                return InstantTriples(file.asserted, None)
            case _:
                pass
    return InstantTriples(file.asserted, frozenset(predicates)) if predicates else None
