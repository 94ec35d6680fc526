"""LARS files of a program: their events, and resolution of the labels that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.lars.lars_spread import atoms_read
from dotr.languages.lars.model import EventAtom, LarsFile
from dotr.languages.lars.reading import compile_lars
from dotr.languages.lars.unit import LarsUnit, event_spans, made_by
from dotr.languages.linking import ProgramNames, ResolvedUnits
from dotr.model.places import Document
from dotr.model.rules import EventSource, FactSource
from dotr.model.terms import Label, Prefixes
from dotr.model.units import UnitEvents
from dotr.temporal.layout.units import StreamUnit


@dataclass(frozen=True)
class LarsFiles:
    """The `.lars` files of a program."""

    files: Sequence[LarsFile]
    diagnostics: Sequence[Diagnostic]
    prefixes: Prefixes

    @property
    def events(self) -> tuple[UnitEvents, ...]:
        """The events of all REPORTs."""
        return tuple(events for file in self.files for events in made_by(file))

    def resolve(self, names: ProgramNames) -> ResolvedUnits:
        """The files with the sources of the labels that they read; reports D205 and D207."""
        problems: list[Diagnostic] = []
        units: list[StreamUnit] = []
        for file in self.files:
            found = len(problems)
            sources: dict[Label, EventSource | FactSource] = {}
            for label, first in event_spans(file).items():
                source = names.source_of(label, (), first, problems)
                if source is not None:
                    sources[label] = source
            for atom, span in atoms_read(file):
                if isinstance(atom, EventAtom) and atom.label in sources:
                    names.source_of(atom.label, [name for name, _ in atom.attributes], span, problems)
            if len(problems) == found:
                units.append(LarsUnit(file, tuple(sorted(sources.items(), key=lambda each: each[0]))))
        return ResolvedUnits(units, problems)


def read_lars_files(documents: Sequence[Document], prefixes: Prefixes) -> LarsFiles:
    """Read the LARS files of a program."""
    found = compile_lars(documents, prefixes)
    return LarsFiles(found.files, found.diagnostics, found.prefixes)
