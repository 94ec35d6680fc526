"""Spreading of LARS files by the places of their predicates (lars.md, section 4).

Idea: all atoms that a rule joins have the same key, so all premises for a key are in its bucket,
and the background is in every bucket. A bucket also derives conclusions from background and facts
for keys of other buckets; these may be wrong, so that a bucket reports rows of its own keys alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from dotr.languages.lars.keys import LarsKey, lars_key
from dotr.languages.lars.model import ClassName, EventName, OwnRelation, PropertyName
from dotr.languages.lars.unit import LarsUnit
from dotr.model.terms import Term
from dotr.temporal.layout.spread import ReadSpread


def lars_key_names(unit: LarsUnit) -> tuple[str, ...]:
    """The predicates of a file with their places, as texts for state, sorted; empty: the file has
    one partition.
    """
    if lars_spreads(unit) is None:
        return ()
    found = []
    for predicate, place in lars_key(unit.file).places.items():
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


def keyed_by_object(key: LarsKey) -> frozenset[Term]:
    """The properties whose triples are keyed by their objects; other triples are keyed by
    subjects."""
    places = {each.iri: place for each, place in key.places.items() if isinstance(each, PropertyName)}
    return frozenset(iri for iri, place in places.items() if iri is not None and place == 2)


def lars_spreads(unit: LarsUnit) -> Sequence[ReadSpread] | None:
    """The spread of each read of a file; None: the file has one partition."""
    key = lars_key(unit.file)
    if not key.places:
        return None
    found = []
    for number, _ in enumerate(unit.reads):
        if number not in unit.labels:
            found.append(ReadSpread((), False, keyed_by_object(key)))
            continue
        label, source = unit.labels[number]
        place = key.places.get(EventName(label))
        if not isinstance(place, str):
            return None
        found.append(ReadSpread((source.attributes.index(place),), False))
    return found
