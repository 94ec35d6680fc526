"""Atoms of a point, grouped by the rows in which a LARS file reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dotr.languages.lars.closure.rows import AtomRows
from dotr.languages.lars.model import ClassName, EventName, PropertyName
from dotr.model.terms import RDF_TYPE, Label, Term, Triple
from dotr.model.time import Micros
from dotr.temporal.horizons.rules import FactRow


class PointAtoms(NamedTuple):
    """The atoms of a point, each with the time in µs since 1970 of the last instant or event that
    has it.

    An event is a flat row of name and term of each attribute, sorted by name.
    """

    triples: Mapping[Triple, Micros]
    events: Mapping[Label, Mapping[FactRow, Micros]]

    def __bool__(self) -> bool:
        return bool(self.triples) or any(self.events.values())


NO_ATOMS: Final = PointAtoms({}, {})


class StreamedRows:
    """The rows that a file reads of the stream, indexed by the predicate or label of their atoms.

    >>> temperatures, rooms = AtomRows(PropertyName("<temp>")), AtomRows(ClassName("<Room>"))
    >>> sorted_rows = StreamedRows([temperatures, rooms])
    >>> found = sorted_rows.of(PointAtoms({("<a>", "<temp>", "<v>"): 5, ("<a>", RDF_TYPE, "<Room>"): 5}, {}))
    >>> found[temperatures], found[rooms]
    ([('<a>', '<v>')], [('<a>',)])
    """

    def __init__(self, streamed: Iterable[AtomRows]) -> None:
        self._by_predicate: dict[Term, list[AtomRows]] = {}
        self._of_all: list[AtomRows] = []
        self._by_label: dict[Label, list[AtomRows]] = {}
        for rows in streamed:
            match rows.predicate:
                case PropertyName(None):
                    self._of_all.append(rows)
                case PropertyName(str(iri)):
                    self._by_predicate.setdefault(iri, []).append(rows)
                case ClassName():
                    self._by_predicate.setdefault(RDF_TYPE, []).append(rows)
                case EventName(label):
                    self._by_label.setdefault(label, []).append(rows)

    def of(self, atoms: PointAtoms) -> dict[AtomRows, list[FactRow]]:
        """The atoms of a point that the file reads, grouped by their rows; each group is not empty.

        An atom is in every group that it is an atom of.
        """
        found: dict[AtomRows, list[FactRow]] = {}
        if atoms.triples:
            for rows in self._of_all:
                found[rows] = list(atoms.triples)
            by_predicate: dict[Term, list[Triple]] = {}
            known = self._by_predicate
            for triple in atoms.triples:
                predicate = triple[1]
                if predicate in known:
                    group = by_predicate.get(predicate)
                    if group is None:
                        by_predicate[predicate] = [triple]
                    else:
                        group.append(triple)
            for predicate, triples in by_predicate.items():
                for rows in known[predicate]:
                    match rows.predicate:
                        case ClassName(str(iri)):
                            of_class: list[FactRow] = [(subject,) for subject, _, object in triples if object == iri]
                            if of_class:
                                found[rows] = of_class
                        case _:
                            found[rows] = [(subject, object) for subject, _, object in triples]
        for label, events in atoms.events.items():
            for rows in self._by_label.get(label, ()):
                of_event = dict.fromkeys(row for event in events if (row := rows.row_of_event(event)) is not None)
                if of_event:
                    found[rows] = list(of_event)
        return found
