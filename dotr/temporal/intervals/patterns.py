"""Patterns over time: the compiled form of MATCH in continuous queries and of EP-SPARQL units.

A *mapping* of an event pattern of MATCH has bindings, and the first and last time of the matched
items of a window. A *solution* of an interval pattern of EP-SPARQL has bindings and a closed
interval. It is found over the whole stream, and never retracted.
Source: continuous.md, section 7; ep-sparql.md, section 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.model import dataclass
from dotr.model.algebra import Expression, Pattern, Select, Slot, TriplePattern, Var
from dotr.model.places import Span
from dotr.model.templates import Template, TemplateSlot, TemplateTerm, TemplateTriple, leaves
from dotr.model.terms import Label, Term, Variable, is_triple
from dotr.model.time import Micros


@dataclass(frozen=True, slots=True)
class PlainGroup:
    """`EVENT w AT ?v { P }`: each solution of P over one item is a mapping, at the item's time.

    - `window`: the IRI of the window whose items are matched.
    - `pattern`: P, triple patterns and FILTERs.
    - `time`: the variable bound to the item's time, a term as that of `time(L)`; None without AT.
    """

    window: Term
    pattern: Pattern
    time: Variable | None
    span: Span


class Edge(Enum):
    """`FIRST E` and `LAST E`: all mappings with the least or greatest (last time, first time)."""

    FIRST = "FIRST"
    LAST = "LAST"


@dataclass(frozen=True, slots=True)
class Outermost:
    """`FIRST E` or `LAST E`."""

    edge: Edge
    events: EventPattern


class SequencePolicy(Enum):
    """Pairs that `A SEQ B` selects among the compatible mappings a, b with a before b.

    - UNRESTRICTED: all pairs.
    - NAIVE: the pairs of LAST A and LAST B, each chosen by itself.
    - CHRONOLOGICAL: the first b that has an a before it, with the first such a.
    - RECENT: the last b that has an a before it, with the last such a.
    """

    UNRESTRICTED = ""
    NAIVE = "NAIVE"
    CHRONOLOGICAL = "CHRONOLOGICAL"
    RECENT = "RECENT"


@dataclass(frozen=True, slots=True)
class Ordered:
    """`A SEQ B`: compatible mappings; the left one ends strictly before the right one begins."""

    left: EventPattern
    right: EventPattern
    policy: SequencePolicy


EventPattern: TypeAlias = PlainGroup | Outermost | Ordered
"""The pattern inside MATCH."""


@dataclass(frozen=True, slots=True)
class MatchBlock:
    """`MATCH { E }`.

    - `consuming`: a triple of a match is not matched again at later reports.
    - `variables`: those that a mapping binds, in order of appearance, without blank nodes of E.
    """

    events: EventPattern
    consuming: bool
    variables: tuple[Variable, ...]
    span: Span


def plain_groups(events: EventPattern) -> tuple[PlainGroup, ...]:
    """Return the EVENTs of a pattern, in the order of the text."""
    match events:
        case PlainGroup():
            return (events,)
        case Outermost(_, inner):
            return plain_groups(inner)
        case Ordered(left, right, _):
            return plain_groups(left) + plain_groups(right)


# --- EP-SPARQL: patterns over the whole stream (ep-sparql.md, sections 1 to 4) ---

START: Final[Variable] = ".start"
END: Final[Variable] = ".end"
DURATION: Final[Variable] = ".duration"
"""Variables of getSTARTTIME(), getENDTIME() and getDURATION() in an expression: terms of the
interval of the solution for which the expression is evaluated.
"""


@dataclass(frozen=True, slots=True)
class InstantGroup:
    """`{ P }`, a plain group: at each instant t every solution of P over K(t), with [t, t].

    - `visible`: the variables of a solution, in order of appearance, without blank nodes.
    - `certain`: those that every solution binds.
    - `triples`: the triple patterns of a basic group; empty for any other group. A basic group is
      also matched in each constructed graph by itself, if that graph may answer all its triples.

    FILTERs and BINDs of a basic group that use functions of its interval are in a `Chain` around
    it, and those of an optional operand in the `Combination`.
    """

    pattern: Pattern
    visible: tuple[Variable, ...]
    certain: frozenset[Variable]
    triples: tuple[TriplePattern, ...]
    span: Span

    @property
    def is_basic(self) -> bool:
        """True if P is also matched in constructed graphs."""
        return bool(self.triples)

    @property
    def query(self) -> Select:
        """The solutions of P as a query, with their multiplicity."""
        return Select(self.visible, self.pattern)


@dataclass(frozen=True, slots=True)
class EventRead:
    """`EVENT L(?a AS ?x, …)`: each event of L, from its start to its time.

    - `attributes`: (attribute, variable) in the order of the text; the variables differ.
    - `certain`: variables of attributes that every event of L has; empty until all units of the
      program are compiled.
    """

    label: Label
    attributes: tuple[tuple[Variable, Variable], ...]
    span: Span
    label_span: Span
    certain: frozenset[Variable] = frozenset()


class TemporalOperator(Enum):
    """Operator between two patterns, by the relation of the intervals of a and b."""

    SEQ = "SEQ"
    EQUALS = "EQUALS"
    AND = "AND"
    OPTIONALSEQ = "OPTIONALSEQ"
    EQUALSOPTIONAL = "EQUALSOPTIONAL"

    @property
    def is_strict(self) -> bool:
        """True if a ends before b starts: the left operand is read strictly in the past."""
        return self in (TemporalOperator.SEQ, TemporalOperator.OPTIONALSEQ)

    @property
    def is_optional(self) -> bool:
        """True if a solution may lack one operand."""
        return self in (TemporalOperator.OPTIONALSEQ, TemporalOperator.EQUALSOPTIONAL)


@dataclass(frozen=True, slots=True)
class Combination:
    """`A SEQ B`, `A AND B`, …: combinations of a solution of each operand.

    - `condition`: F of an optional operator, over the combination and its interval; else empty.
    - `within`: in µs, the least WITHIN on the chain of the operator or around it; None without one.
      Solutions further apart do not combine, whatever the operator.
    - `bound`: in µs, the greatest distance of solutions that can give a result: the least of
      `within` and the limits of getDURATION() that hold for every result (of an optional operator:
      those in F). None only at EQUALS and EQUALSOPTIONAL. SEQ, EQUALS and AND combine nothing
      beyond it.
    - `span`: the operator's word.
    """

    operator: TemporalOperator
    left: IntervalPattern
    right: IntervalPattern
    condition: tuple[Expression, ...]
    within: Micros | None
    bound: Micros | None
    span: Span


@dataclass(frozen=True, slots=True)
class Alternatives:
    """`A UNION B UNION …`: the solutions of every branch."""

    branches: tuple[IntervalPattern, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """The end of a chain: `pattern BIND(…) … FILTER(…) … WITHIN d`; braces without it are no Chain.

    A solution is extended by `bindings`, in order, then tested by `filters`, whose conjunction is
    required, and by `within`, in µs.
    """

    pattern: IntervalPattern
    bindings: tuple[tuple[Variable, Expression], ...]
    filters: tuple[Expression, ...]
    within: Micros | None
    span: Span


IntervalPattern: TypeAlias = InstantGroup | EventRead | Combination | Alternatives | Chain
"""A pattern whose solutions have a mapping and a closed interval."""


class UsePolicy(Enum):
    """Combinations in which an operator uses a solution: all, the first found, or the last."""

    UNRESTRICTED = "UNRESTRICTED"
    CHRONOLOGICAL = "CHRONOLOGICAL"
    RECENT = "RECENT"


@dataclass(frozen=True, slots=True)
class SelectedSolutions:
    """A QUERY: each solution is an event without a graph.

    - `columns`: variable and expression (None: a variable of the pattern) in the order of the text;
      an expression may use the variables before it, and the functions of the interval.
    - `distinct`: one event for solutions that are equal in columns and interval.
    """

    where: IntervalPattern
    columns: tuple[tuple[Variable, Expression | None], ...]
    distinct: bool


@dataclass(frozen=True, slots=True)
class ConstructedGraphs:
    """A STREAM: each solution is an event with a graph of its own."""

    where: IntervalPattern
    template: Template


@dataclass(frozen=True, slots=True)
class InstantAnswers:
    """A QUERY of one plain group with modifiers or aggregates: SPARQL's answers over K(t) alone."""

    query: Select


SolutionForm: TypeAlias = SelectedSolutions | ConstructedGraphs | InstantAnswers


@dataclass(frozen=True, slots=True)
class TemporalQuery:
    """A QUERY or STREAM of an `.epsparql` file.

    - `documentation`: the string behind the label; may be empty.
    - `span`: the statement; `label_span`: its label.
    """

    label: Label
    documentation: str
    form: SolutionForm
    policy: UsePolicy
    span: Span
    label_span: Span

    @property
    def where(self) -> IntervalPattern | None:
        """The pattern; None of a QUERY with SPARQL's modifiers."""
        return None if isinstance(self.form, InstantAnswers) else self.form.where

    @property
    def makes_graphs(self) -> bool:
        """True of a STREAM: its events have graphs."""
        return isinstance(self.form, ConstructedGraphs)

    @property
    def attributes(self) -> tuple[Variable, ...]:
        """The attributes that an event can have, sorted."""
        match self.form:
            case SelectedSolutions(_, columns):
                return tuple(sorted({name for name, _ in columns}))
            case ConstructedGraphs(_, template):
                return tuple(sorted({leaf.name for leaf in leaves(template) if isinstance(leaf, Var)}))
            case InstantAnswers(query):
                return tuple(sorted(set(query.projection)))
            case _:
                assert_never(self.form)


class OperandRead(NamedTuple):
    """A plain group or an EVENT of a unit.

    `now`: its solutions of the current moment can be in a result of that moment; False inside the
    left operand of SEQ and OPTIONALSEQ, which is strictly past.
    """

    operand: InstantGroup | EventRead
    now: bool


def operand_reads(pattern: IntervalPattern, *, now: bool = True) -> Iterator[OperandRead]:
    """The plain groups and EVENTs of a pattern, in the order of the text; `now` is the root's."""
    match pattern:
        case InstantGroup() | EventRead():
            yield OperandRead(pattern, now)
        case Combination(operator, left, right):
            yield from operand_reads(left, now=now and not operator.is_strict)
            yield from operand_reads(right, now=now)
        case Alternatives(branches):
            for branch in branches:
                yield from operand_reads(branch, now=now)
        case Chain(inner):
            yield from operand_reads(inner, now=now)
        case _:
            assert_never(pattern)


def visible_variables(pattern: IntervalPattern) -> tuple[Variable, ...]:
    """The variables that a solution may bind, each once, in the order of the text."""
    match pattern:
        case InstantGroup(_, visible):
            names = list(visible)
        case EventRead(_, attributes):
            names = [variable for _, variable in attributes]
        case Combination(_, left, right):
            names = [*visible_variables(left), *visible_variables(right)]
        case Alternatives(branches):
            names = [name for branch in branches for name in visible_variables(branch)]
        case Chain(inner, bindings):
            names = [*visible_variables(inner), *(name for name, _ in bindings)]
        case _:
            assert_never(pattern)
    return tuple(dict.fromkeys(names))


def certain_variables(pattern: IntervalPattern) -> frozenset[Variable]:
    """The variables that every solution binds.

    Those of BIND are left out, since an error leaves them unbound.
    """
    match pattern:
        case InstantGroup() | EventRead():
            return pattern.certain
        case Combination(operator, left, right):
            if operator is TemporalOperator.OPTIONALSEQ:
                return certain_variables(right)
            if operator is TemporalOperator.EQUALSOPTIONAL:
                return certain_variables(left)
            return certain_variables(left) | certain_variables(right)
        case Alternatives(branches):
            return frozenset.intersection(*map(certain_variables, branches))
        case Chain(inner):
            return certain_variables(inner)
        case _:
            assert_never(pattern)


def combinations(pattern: IntervalPattern) -> Iterator[Combination]:
    """The operators of a pattern, inner ones before outer ones."""
    match pattern:
        case InstantGroup() | EventRead():
            return
        case Combination(_, left, right):
            yield from combinations(left)
            yield from combinations(right)
            yield pattern
        case Alternatives(branches):
            for branch in branches:
                yield from combinations(branch)
        case Chain(inner):
            yield from combinations(inner)
        case _:
            assert_never(pattern)


def may_read(group: InstantGroup, template: Template) -> bool:
    """True if a basic group may have solutions over a graph of a template.

    Each triple of the group must unify with some triple of the template: equal constants unify, a
    variable of either side with everything, and a blank node of the template with variables alone.

    >>> from dotr.model.algebra import Bgp, Const
    >>> from dotr.model.places import Document
    >>> from dotr.model.templates import Blank
    >>> def group(*triples: TriplePattern) -> InstantGroup:
    ...     return InstantGroup(Bgp(triples), ("x",), frozenset("x"), triples, Span(Document("", ""), 0, 0))
    >>> rose = TriplePattern(Var("x"), Const("<http://e/rose>"), Const('"1"'))
    >>> may_read(group(rose), Template(((Blank("b"), Const("<http://e/rose>"), Var("q")),)))
    True
    >>> may_read(group(rose), Template(((Blank("b"), Const("<http://e/rose>"), Const('"2"')),)))
    False
    """
    return group.is_basic and all(any(_unify(triple, output) for output in template.triples) for triple in group.triples)


def _unify(triple: TriplePattern, output: TemplateTriple) -> bool:
    return all(map(_unify_slots, (triple.subject, triple.predicate, triple.object), output))


def _unify_slots(slot: Slot, output: TemplateSlot) -> bool:
    if isinstance(slot, Var) or isinstance(output, Var):
        return True
    return is_triple(slot.term) if isinstance(output, TemplateTerm) else slot == output
