"""Atoms of LARS files without variables, and the bindings with which an atom is one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dotr.horizons.lars_rows import AtomRows
from dotr.horizons.rules import FactRow
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import RelationAtom
from dotr.model.lars import ClassName, EventAtom, EventName, LarsAtom, LarsPredicate, OwnRelation, PropertyName, slots_of_atom
from dotr.model.terms import RDF_TYPE, Term, Triple, Variable


class GroundAtom(NamedTuple):
    """An atom without variables: its terms as `slots_of_atom` orders them.

    - `names`: of an event the attributes of its terms.
    """

    predicate: LarsPredicate
    terms: FactRow
    names: tuple[Variable, ...] = ()

    @property
    def triple(self) -> Triple | None:
        """The triple; None of an own atom or an event."""
        if not isinstance(self.predicate, PropertyName | ClassName):
            return None
        return self.terms[0], self.terms[1], self.terms[2]


def ground(rows: AtomRows, row: FactRow) -> GroundAtom:
    """The atom of a row.

    >>> ground(AtomRows(PropertyName("<e:p>")), ("<e:a>", '"1"')).triple
    ('<e:a>', '<e:p>', '"1"')
    """
    match rows.predicate:
        case PropertyName(str(iri)):
            return GroundAtom(rows.predicate, (row[0], iri, row[1]))
        case ClassName(str(iri)):
            return GroundAtom(rows.predicate, (row[0], RDF_TYPE, iri))
        case ClassName(None):
            return GroundAtom(rows.predicate, (row[0], RDF_TYPE, row[1]))
        case _:
            return GroundAtom(rows.predicate, row, rows.names)


def unified(atom: LarsAtom, given: GroundAtom, bound: Mapping[Variable, Term]) -> dict[Variable, Term] | None:
    """The bindings, those before included, with which an atom is a given one; None: there are none.

    >>> from dotr.model.algebra import Var
    >>> given = ground(AtomRows(OwnRelation("Near")), ("<e:a>", "<e:b>"))
    >>> unified(RelationAtom("Near", (Var("x"), Const("<e:b>"))), given, {"y": "<e:c>"})
    {'y': '<e:c>', 'x': '<e:a>'}
    """
    if not _is_of(atom, given):
        return None
    found = dict(bound)
    for slot, term in zip(slots_of_atom(atom), given.terms, strict=True):
        if (slot.term if isinstance(slot, Const) else found.setdefault(slot.name, term)) != term:
            return None
    return found


def _is_of(atom: LarsAtom, given: GroundAtom) -> bool:
    match atom, given.predicate:
        case TriplePattern(), PropertyName() | ClassName():
            return True
        case RelationAtom(name), OwnRelation(relation):
            return name == relation and len(atom.slots) == len(given.terms)
        case EventAtom(label), EventName(other):
            return label == other and tuple(name for name, _ in atom.attributes) == given.names
        case _:
            return False
