"""Atoms of LARS files as rows of relations, and the atoms of B as static rows.

    :temp(?s, ?v)    property <temp>     (?s, ?v)
    :Room(?x)        class <Room>        (?x,)
    [?s, ?p, ?o]     property *          (?s, ?p, ?o)
    [?x, a, ?c]      class *             (?x, ?c)
    Busy(?x)         own Busy            (?x,)
    EVENT High(?r)   event High(r)       (?r,)

Cost: a look-up in the background costs its answer; nothing of the background is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, assert_never

from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex, is_hidden
from dotr.languages.lars.model import ClassName, EventAtom, EventName, LarsAtom, LarsPredicate, OwnRelation, PropertyName, predicate_of
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.datalog import RelationAtom
from dotr.model.terms import RDF_TYPE, Triple, Variable
from dotr.temporal.horizons.facts import StaticRows, key_getter
from dotr.temporal.horizons.rules import FactRow


class AtomRows(NamedTuple):
    """Atoms of one predicate, as rows; `names`: the attributes that are the columns of an event's
    row.
    """

    predicate: LarsPredicate
    names: tuple[Variable, ...] = ()

    @property
    def name(self) -> str:
        """The relation's name.

        >>> AtomRows(PropertyName("<e:p>")).name, AtomRows(EventName("High"), ("room",)).name
        ('property <e:p>', 'event High(room)')
        """
        match self.predicate:
            case PropertyName(iri):
                return f"property {iri or '*'}"
            case ClassName(iri):
                return f"class {iri or '*'}"
            case OwnRelation(name):
                return f"own {name}"
            case EventName(label):
                return f"event {label}({', '.join(self.names)})"
            case other:
                assert_never(other)

    @property
    def is_of_triples(self) -> bool:
        """True for a property or a class."""
        return isinstance(self.predicate, PropertyName | ClassName)

    def generic(self, arity: int) -> LarsAtom:
        """An atom whose row has distinct variables only; `arity`: the number of columns, read for
        an own relation.
        """
        x, y = Var("x0"), Var("x1")
        match self.predicate:
            case PropertyName(iri):
                return TriplePattern(x, Var("x2") if iri is None else Const(iri), y)
            case ClassName(iri):
                return TriplePattern(x, Const(RDF_TYPE), y if iri is None else Const(iri))
            case OwnRelation(name):
                return RelationAtom(name, tuple(Var(f"x{number}") for number in range(arity)))
            case EventName(label):
                return EventAtom(label, tuple((name, Var(f"x{number}")) for number, name in enumerate(self.names)))
            case _:
                assert_never(self.predicate)

    def slots(self, atom: LarsAtom) -> tuple[Slot, ...]:
        """The row of an atom of this predicate, or of a less general one. Raises `ValueError` for
        others.

        >>> AtomRows(PropertyName(None)).slots(TriplePattern(Var("x"), Const(RDF_TYPE), Const("<e:C>")))[2]
        Const(term='<e:C>')
        """
        match self.predicate, atom:
            case PropertyName(None), TriplePattern(subject, predicate, object):
                return subject, predicate, object
            case ((PropertyName() | ClassName(None)), TriplePattern(subject, _, object)):
                return subject, object
            case ClassName(), TriplePattern(subject, _, _):
                return (subject,)
            case OwnRelation(), RelationAtom(_, slots):
                return slots
            case EventName(), EventAtom(_, attributes):
                return tuple(slot for _, slot in attributes)
            case _:
                raise ValueError(f"{atom} is no atom of {self.name}")

    def row_of(self, triple: Triple) -> FactRow:
        """The row of a triple of this predicate."""
        match self.predicate:
            case PropertyName(None):
                return triple
            case PropertyName() | ClassName(None):
                return triple[0], triple[2]
            case _:
                return (triple[0],)

    def row_of_event(self, event: FactRow) -> FactRow | None:
        """The row of an event, given as a flat row of names and terms; None where it lacks an
        attribute.

        >>> AtomRows(EventName("High"), ("room",)).row_of_event(("level", '"3"', "room", "<a>"))
        ('<a>',)
        """
        terms = dict(zip(event[::2], event[1::2], strict=True))
        try:
            return tuple([terms[name] for name in self.names])
        except KeyError:
            return None

    def row_of_atom(self, atom: FactRow) -> FactRow | None:
        """The row of a triple or an event; None where it is no atom of this predicate."""
        if isinstance(self.predicate, EventName):
            return self.row_of_event(atom)
        triple = atom[0], atom[1], atom[2]
        return self.row_of(triple) if self.selects(triple) else None

    def selects(self, triple: Triple) -> bool:
        """True if a triple is an atom of this predicate."""
        match self.predicate:
            case PropertyName(iri):
                return iri is None or triple[1] == iri
            case ClassName(iri):
                return triple[1] == RDF_TYPE and (iri is None or triple[2] == iri)
            case _:
                return False


def rows_of_atom(atom: LarsAtom) -> AtomRows:
    """The rows that an atom belongs to."""
    return AtomRows(predicate_of(atom), tuple(name for name, _ in atom.attributes) if isinstance(atom, EventAtom) else ())


def fits(slots: tuple[Slot, ...]) -> Callable[[FactRow], bool] | None:
    """Test of a row against constants and repeated variables; None where every row matches.

    >>> test = fits((Var("x"), Const("<e:a>"), Var("x")))
    >>> test(("<e:b>", "<e:a>", "<e:b>")), test(("<e:b>", "<e:a>", "<e:c>")), fits((Var("x"), Var("y")))
    (True, False, None)
    """
    constants = [(column, slot.term) for column, slot in enumerate(slots) if isinstance(slot, Const)]
    first: dict[Variable, int] = {}
    equal = []
    for column, slot in enumerate(slots):
        if isinstance(slot, Var) and first.setdefault(slot.name, column) != column:
            equal.append((first[slot.name], column))
    if not constants and not equal:
        return None
    return lambda row: all(row[column] == term for column, term in constants) and all(row[one] == row[other] for one, other in equal)


class BackgroundRows(StaticRows):
    """The atoms of B as rows: those of the closed background, and of the file's facts.

    `may_hold`: there may be rows.

    >>> index = TripleIndex([("<e:a>", "<e:p>", "<e:b>")])
    >>> rows = BackgroundRows(AtomRows(PropertyName("<e:p>")), index, [("<e:a>", "<e:c>")])
    >>> ("<e:a>", "<e:b>") in rows, rows.table((0,)).get("<e:a>", []), list(rows), len(rows)
    (True, [('<e:a>', '<e:b>'), ('<e:a>', '<e:c>')], [('<e:a>', '<e:b>'), ('<e:a>', '<e:c>')], 2)
    """

    def __init__(self, rows: AtomRows, index: TripleIndex, facts: Iterable[FactRow] = ()) -> None:
        self._rows: Final = rows
        self._index: Final = index
        self._facts: Final = sorted({row for row in facts if not self._is_in_background(row)})
        self._fact_set: Final = frozenset(self._facts)
        self.may_hold: Final = bool(self._facts) or self._has_any()

    def _has_any(self) -> bool:
        match self._rows.predicate:
            case PropertyName(None):
                return len(self._index) > 0
            case PropertyName(str(iri)):
                return iri in self._index.by_subject
            case ClassName(None):
                return RDF_TYPE in self._index.by_subject
            case ClassName(str(iri)):
                return iri in self._index.by_object.get(RDF_TYPE, NO_ENDS)
            case _:
                return False

    def _triple(self, row: FactRow) -> Triple | None:
        match self._rows.predicate:
            case PropertyName(None):
                return row[0], row[1], row[2]
            case PropertyName(str(iri)):
                return row[0], iri, row[1]
            case ClassName(None):
                return row[0], RDF_TYPE, row[1]
            case ClassName(str(iri)):
                return row[0], RDF_TYPE, iri
            case _:
                return None

    def _is_in_background(self, row: FactRow) -> bool:
        triple = self._triple(row)
        return triple is not None and triple in self._index.triples

    def __contains__(self, row: object) -> bool:
        return row in self._fact_set or self._is_in_background(row)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[FactRow]:
        yield from self._background((), ())
        yield from self._facts

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def table(self, columns: tuple[int, ...]) -> Mapping[Any, list[FactRow]]:
        """The rows by their key in some columns; look-ups alone, no iteration."""
        return _BackgroundTable(self, columns)

    def facts(self, columns: tuple[int, ...]) -> dict[Any, list[FactRow]]:
        """The rows of the file's facts by their key in some columns."""
        get, table = key_getter(columns), dict[Any, list[FactRow]]()
        for row in self._facts:
            table.setdefault(get(row), []).append(row)
        return table

    def of_background(self, columns: tuple[int, ...], key: Any) -> list[FactRow]:
        """The rows of the background with a key in some columns."""
        terms = (key,) if len(columns) == 1 else tuple(key)
        return list(self._background(columns, terms))

    def _background(self, columns: tuple[int, ...], terms: FactRow) -> Iterator[FactRow]:
        index, bound = self._index, dict(zip(columns, terms, strict=True))
        match self._rows.predicate:
            case PropertyName(None):
                for triple in index.match(bound.get(0), bound.get(1), bound.get(2)):
                    if not is_hidden(triple[1]):
                        yield triple
            case ClassName(str(iri)):
                if not bound or (bound[0], RDF_TYPE, iri) in index.triples:
                    for subject in [bound[0]] if bound else index.by_object.get(RDF_TYPE, NO_ENDS).get(iri, NO_TERMS):
                        yield (subject,)
            case PropertyName() | ClassName(None):
                predicate = self._rows.predicate.iri or RDF_TYPE
                for triple in index.match(bound.get(0), predicate, bound.get(1)):
                    yield triple[0], triple[2]
            case _:
                return


class _BackgroundTable(Mapping[Any, "list[FactRow]"]):
    """Lazy table of rows by a key: each look-up reads the index."""

    def __init__(self, rows: BackgroundRows, columns: tuple[int, ...]) -> None:
        self._rows = rows
        self._columns = columns
        self._facts = rows.facts(columns)

    def get(self, key: Any, default: Any = None) -> Any:
        found = self._rows.of_background(self._columns, key)
        return found + self._facts.get(key, []) or default

    def __getitem__(self, key: Any) -> list[FactRow]:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("rows of the background are asked for by key")

    def __len__(self) -> int:
        raise TypeError("rows of the background are asked for by key")
