"""Streams that a LARS file reads, and their spreading by the places of its predicates (lars.md,
section 4).

Idea: all atoms that a rule joins have the same key, so all premises for a key are in its bucket,
and the background is in every bucket. A bucket also derives conclusions from background and facts
for keys of other buckets; these may be wrong, so that a bucket reports rows of its own keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dotr.languages.lars.keys import lars_key
from dotr.languages.lars.model import (
    Always,
    At,
    ClassName,
    Counted,
    EventName,
    LarsAtom,
    LarsFile,
    OwnRelation,
    PropertyName,
    Since,
    Sometime,
    TupleWindow,
)
from dotr.model.algebra import Const, TriplePattern
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource
from dotr.model.terms import Label, Term
from dotr.model.units import InstantTriples
from dotr.temporal.layout.spread import ReadSpread

EventReads: TypeAlias = tuple[tuple[Label, EventSource | FactSource], ...]
"""The sources of the events that a file reads, by label in alphabetic order."""


def lars_key_names(file: LarsFile, events: EventReads) -> tuple[str, ...]:
    """The predicates of a file with their places, as texts for state, sorted; empty: the file has
    one partition.
    """
    if lars_spreads(file, events) is None:
        return ()
    found = []
    for predicate, place in lars_key(file).places.items():
        match predicate:
            case PropertyName(iri):
                found.append(f"property {iri or ''} {place}")
            case ClassName(iri):
                found.append(f"class {iri or ''} {place}")
            case OwnRelation(name):
                found.append(f"relation {name} {place}")
            case EventName(label):
                found.append(f"event {label} {place}")
    return tuple(sorted(found))


def lars_spreads(file: LarsFile, events: EventReads) -> Sequence[ReadSpread] | None:
    """The spread of each read of a file; None: the file has one partition."""
    key = lars_key(file)
    if not key.places:
        return None
    found = [] if triples_read(file) is None else [ReadSpread((), False, key.objects)]
    for label, source in events:
        place = key.places.get(EventName(label))
        if not isinstance(place, str):
            return None
        found.append(ReadSpread((source.attributes.index(place),), False))
    return found


def labels_read(file: LarsFile, events: EventReads) -> Mapping[int, tuple[Label, EventSource | FactSource]]:
    """The labels that are read, by the number of their read; a read that is missing here is that
    of triples.
    """
    return dict(enumerate(events, 0 if triples_read(file) is None else 1))


def atoms_read(file: LarsFile) -> list[tuple[LarsAtom, Span]]:
    """The atoms of all literals, with their places."""
    found: list[tuple[LarsAtom, Span]] = []
    for literal in file.literals:
        found.append((literal.atom, literal.atom_span))
        if isinstance(literal.reach, Since):
            found.append((literal.reach.other, literal.reach.other_span))
    return found


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
