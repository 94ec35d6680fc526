"""Ground atoms of LARS files, and their unification with atoms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dotr.languages.lars.closure.rows import AtomRows
from dotr.languages.lars.model import ClassName, EventAtom, EventName, LarsAtom, LarsPredicate, OwnRelation, PropertyName, slots_of_atom
from dotr.model.algebra import Const, TriplePattern
from dotr.model.datalog import RelationAtom
from dotr.model.terms import RDF_TYPE, Term, Triple, Variable
from dotr.temporal.horizons.rules import FactRow


class GroundAtom(NamedTuple):
    """An atom without variables.

    - `predicate`: its predicate.
    - `terms`: its terms, in the order of `slots_of_atom`.
    - `names`: for an event, the attributes of its terms.
    """

    predicate: LarsPredicate
    terms: FactRow
    names: tuple[Variable, ...] = ()

    @property
    def triple(self) -> Triple | None:
        """The triple; None for an atom of an own relation and for an event."""
        if not isinstance(self.predicate, PropertyName | ClassName):
            return None
        return self.terms[0], self.terms[1], self.terms[2]


def ground(rows: AtomRows, row: FactRow) -> GroundAtom:
    """The ground atom of a row of a relation.

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
    """The bindings `bound`, extended so that an atom equals a ground atom; None: there are none.

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
