"""LARS files (`.lars`): rules over windows of the stream, their facts and their reports.

A file is one unit of a program. All times and lengths are in µs; points are whole numbers: point k
is the times in ((k − 1)·r, k·r], r being the file's resolution.
Source: lars.md, sections 1 to 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from enum import Enum
from typing import Final, TypeAlias, assert_never

from dotr.model import dataclass
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, RelationAtom
from dotr.model.places import Span
from dotr.model.terms import RDF_TYPE, Label, Term, Variable
from dotr.model.time import Interval, Micros, Unit

# --- atoms ---


@dataclass(frozen=True, slots=True)
class EventAtom:
    """`EVENT L(?a AS ?x, …)`: an event of another unit; `attributes` are sorted by name."""

    label: Label
    attributes: tuple[tuple[Variable, Slot], ...]


DerivedAtom: TypeAlias = TriplePattern | RelationAtom
"""An atom of a head, a fact or a report. An own atom `Busy(?x)` is a `RelationAtom`."""

LarsAtom: TypeAlias = DerivedAtom | EventAtom


@dataclass(frozen=True, slots=True)
class PropertyName:
    """Atoms of a property; None: a variable predicate, which reads all properties and classes."""

    iri: Term | None


@dataclass(frozen=True, slots=True)
class ClassName:
    """Atoms of a class; None: a variable class, which reads all classes."""

    iri: Term | None


@dataclass(frozen=True, slots=True)
class OwnRelation:
    """Atoms of a relation of the file itself."""

    name: Label


@dataclass(frozen=True, slots=True)
class EventName:
    """Events of a label of another unit."""

    label: Label


LarsPredicate: TypeAlias = PropertyName | ClassName | OwnRelation | EventName
"""The granularity of strata, keys and retention."""


def predicate_of(atom: LarsAtom) -> LarsPredicate:
    """The predicate of an atom.

    >>> predicate_of(TriplePattern(Var("x"), Const(RDF_TYPE), Const("<e:C>")))
    ClassName(iri='<e:C>')
    """
    match atom:
        case TriplePattern(_, Const(term), object_) if term == RDF_TYPE:
            return ClassName(object_.term if isinstance(object_, Const) else None)
        case TriplePattern(_, predicate, _):
            return PropertyName(predicate.term if isinstance(predicate, Const) else None)
        case RelationAtom(name):
            return OwnRelation(name)
        case EventAtom(label):
            return EventName(label)
        case _:
            assert_never(atom)


def may_share(one: LarsPredicate, other: LarsPredicate) -> bool:
    """True if an atom of one predicate may be an atom of the other.

    >>> may_share(PropertyName(None), ClassName("<e:C>")), may_share(ClassName(None), PropertyName("<e:p>"))
    (True, False)
    """
    match one, other:
        case (PropertyName(None), PropertyName() | ClassName()) | (PropertyName() | ClassName(), PropertyName(None)):
            return True
        case (ClassName(None), ClassName()) | (ClassName(), ClassName(None)):
            return True
        case _:
            return one == other


def shares_any(predicate: LarsPredicate, others: Set[LarsPredicate]) -> bool:
    """True if an atom of the predicate may be an atom of one of the others.

    Cost: constant, but for a variable property or class.

    >>> shares_any(ClassName("<e:C>"), {ClassName("<e:D>"), PropertyName(None)})
    True
    """
    if predicate in _OPEN_ENDED:
        return any(may_share(predicate, other) for other in others)
    return predicate in others or any(each in others and may_share(predicate, each) for each in _OPEN_ENDED)


_OPEN_ENDED: Final = (PropertyName(None), ClassName(None))
"""A variable property and class."""


def slots_of_atom(atom: LarsAtom) -> tuple[Slot, ...]:
    """The slots of an atom: subject, predicate, object; arguments; or values of attributes."""
    match atom:
        case TriplePattern(subject, predicate, object_):
            return subject, predicate, object_
        case RelationAtom(_, slots):
            return slots
        case EventAtom(_, attributes):
            return tuple(slot for _, slot in attributes)
        case _:
            assert_never(atom)


def variables_of_atom(atom: LarsAtom) -> tuple[Variable, ...]:
    """The variables of an atom, each once, in order of appearance."""
    return tuple(dict.fromkeys(slot.name for slot in slots_of_atom(atom) if isinstance(slot, Var)))


# --- windows ---


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """`[5 s]`, short for [0, 5 s], or an interval: the points u ≤ k with (k − u)·r in it."""

    interval: Interval

    def reach(self, resolution: Micros) -> tuple[int, int]:
        """The least and greatest distance k − u, in points; an empty window has least > greatest.

        `resolution`: r, in µs.

        >>> TimeWindow(Interval(0, 25, low_closed=False, high_closed=True)).reach(10)
        (1, 2)
        """
        least, greatest = self.interval.bounds
        return -(-least // resolution), greatest // resolution


class Counted(Enum):
    """Pairs (atom, point) that a tuple window counts.

    - ALL: the triples of the stream.
    - MATCHING: those that match the literal's atom by its constants and repeated variables.
    - PER: of these, those with the values that some variables of the atom have.
    """

    ALL = ""
    MATCHING = "MATCHING"
    PER = "PER"


@dataclass(frozen=True, slots=True)
class TupleWindow:
    """`[LAST count]`, `[LAST count MATCHING]` or `[LAST count PER ?v, …]`; only PER has a `per`."""

    count: int
    counted: Counted
    per: tuple[Variable, ...]


LarsWindow: TypeAlias = TimeWindow | TupleWindow


# --- literals ---


@dataclass(frozen=True, slots=True)
class Sometime:
    """`A IN W`: some point of the window has A."""

    window: LarsWindow


@dataclass(frozen=True, slots=True)
class Always:
    """`A ALWAYS IN W`: the window has a point, and each of its points has A."""

    window: LarsWindow


@dataclass(frozen=True, slots=True)
class At:
    """`A AT τ IN W`: the point of the window with the time τ has A; τ is a term as `time(L)` is."""

    time: Slot
    window: LarsWindow


@dataclass(frozen=True, slots=True)
class Since:
    """`A SINCE other IN W`: a point of the time window has `other`, and all later points have A."""

    other: LarsAtom
    other_span: Span
    window: TimeWindow


Reach: TypeAlias = Sometime | Always | At | Since


@dataclass(frozen=True, slots=True)
class LarsLiteral:
    """An atom at the evaluated point (`reach` is None) or in a window.

    - `atom_span`: the (first) atom; `window_span`: the window with its brackets, None without one.
    """

    atom: LarsAtom
    reach: Reach | None
    span: Span
    atom_span: Span
    window_span: Span | None = None

    @property
    def atoms(self) -> tuple[LarsAtom, ...]:
        """The atom; of `A SINCE B` both."""
        return (self.atom, self.reach.other) if isinstance(self.reach, Since) else (self.atom,)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of the literal, each once."""
        names = [name for atom in self.atoms for name in variables_of_atom(atom)]
        if isinstance(self.reach, At) and isinstance(self.reach.time, Var):
            names.append(self.reach.time.name)
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class LarsNot:
    """`NOT x` or `NOT(x, …)`: the literals do not all hold, for any values of the variables that
    occur here alone.
    """

    literals: tuple[LarsLiteral, ...]
    span: Span


LarsItem: TypeAlias = LarsLiteral | LarsNot | FilterItem | Bind


# --- statements ---


@dataclass(frozen=True, slots=True)
class LarsHead:
    """An atom derived at the evaluated point or, with `AT ?t`, at the point with that time."""

    atom: DerivedAtom
    at: Variable | None
    span: Span


@dataclass(frozen=True, slots=True)
class LarsRule:
    """`HEAD, … :- ITEM, … .`; `name` is file:line."""

    name: str
    heads: tuple[LarsHead, ...]
    body: tuple[LarsItem, ...]
    span: Span

    @property
    def literals(self) -> tuple[LarsLiteral, ...]:
        """The positive literals of the body."""
        return tuple(item for item in self.body if isinstance(item, LarsLiteral))

    @property
    def negated(self) -> tuple[LarsLiteral, ...]:
        """The literals under NOT."""
        return tuple(literal for item in self.body if isinstance(item, LarsNot) for literal in item.literals)


@dataclass(frozen=True, slots=True)
class LarsFact:
    """An atom without variables that holds at every point."""

    atom: DerivedAtom
    span: Span


class ReportKind(Enum):
    """Rows of a REPORT: those that begin to hold, those that cease to hold, or all that hold."""

    NEW = "NEW"
    ENDED = "ENDED"
    ALL = "ALL"


@dataclass(frozen=True, slots=True)
class LarsReport:
    """`REPORT kind atom AS label .`; `label_span`: the label, or the atom where AS is left out."""

    kind: ReportKind
    atom: DerivedAtom
    label: Label
    span: Span
    label_span: Span

    @property
    def attributes(self) -> tuple[Variable, ...]:
        """The attributes of the events: the variables of the atom, sorted."""
        return tuple(sorted(variables_of_atom(self.atom)))

    @property
    def makes_graphs(self) -> bool:
        """True of a triple atom: the graph of an event is its triple."""
        return isinstance(self.atom, TriplePattern)


@dataclass(frozen=True, slots=True)
class LarsFile:
    """A file, which is one unit. B, D, I and K are those of lars.md.

    - `name`: the shortest end of the file's path that no other file of the program has.
    - `resolution`: r, in µs.
    - `asserted`: STREAM ASSERTED: D is made of I(t) instead of K(t).
    - `background`: IRIs of properties and classes whose atoms are read from B alone.
    - `span`: the first statement that declares no prefix, for messages about the whole file.
    """

    name: str
    resolution: Micros
    asserted: bool
    background: frozenset[Term]
    facts: tuple[LarsFact, ...]
    rules: tuple[LarsRule, ...]
    reports: tuple[LarsReport, ...]
    span: Span

    @property
    def literals(self) -> Iterator[LarsLiteral]:
        """All literals, rule by rule: the positive ones, then those under NOT."""
        for rule in self.rules:
            yield from rule.literals
            yield from rule.negated

    @property
    def derived(self) -> frozenset[LarsPredicate]:
        """The predicates of the heads."""
        return frozenset(predicate_of(head.atom) for rule in self.rules for head in rule.heads)

    @property
    def timed_predicates(self) -> frozenset[LarsPredicate]:
        """The predicates of the heads with AT."""
        return frozenset(predicate_of(head.atom) for rule in self.rules for head in rule.heads if head.at is not None)

    def is_background(self, atom: LarsAtom) -> bool:
        """True if an atom is read from B alone: its property or class is listed by BACKGROUND."""
        match predicate_of(atom):
            case PropertyName(iri):
                return iri in self.background
            case ClassName(iri):
                return iri in self.background or RDF_TYPE in self.background
            case _:
                return False

    def may_be_derived(self, atom: LarsAtom) -> bool:
        """True if some head has the predicate of the atom, or may have it."""
        return not self.is_background(atom) and shares_any(predicate_of(atom), self.derived)

    def may_be_streamed(self, atom: LarsAtom) -> bool:
        """True if D may hold the atom: a triple or an event, and not of the background."""
        return not isinstance(atom, RelationAtom) and not self.is_background(atom)


DEFAULT_RESOLUTION: Micros = Unit.SECOND.value
