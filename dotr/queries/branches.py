"""A monotone pattern as a union of conjunctions (Ullman 1988, ch. 3): what can be answered from the new triples alone.

Basic graph patterns, FILTER, BIND, VALUES, UNION and plain sub-selects distribute into branches with multiplicity kept; the rest of the
algebra can lose a solution by a new triple, or counts, and is no union of conjunctions: `Unplannable` says which part.
Invariant: the bag union of the branches' solutions is the bag of the pattern's, on every graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, assert_never

from dotr.model.algebra import (
    Attribute,
    Bgp,
    Call,
    Const,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    Pattern,
    Select,
    Slot,
    TimeOf,
    TriplePattern,
    Union,
    Values,
    Var,
)
from dotr.model.terms import Term, Variable
from dotr.queries.scope import Variables, has_exists, variables_of

UNBOUND: Final[Variable] = ".unbound"
"""What a variable is called in an expression that cannot see it."""

MANY: Final = 64
"""More branches than this are not worth their code."""


class Unplannable(Exception):
    """The part of the algebra that is no union of conjunctions."""


@dataclass(frozen=True, slots=True)
class Step:
    """A FILTER (`variable` is None) or a BIND, over what its branch binds."""

    variable: Variable | None
    expression: Expression


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of VALUES that bind all of their variables."""

    variables: tuple[Variable, ...]
    rows: tuple[tuple[Term, ...], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A conjunction. BIND's variables stand in no pattern and in no table; the steps are in an order in which they can be taken."""

    patterns: tuple[TriplePattern, ...] = ()
    tables: tuple[Table, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def matched(self) -> Variables:
        return variables_of(self.patterns) | {name for table in self.tables for name in table.variables}

    @property
    def computed(self) -> Variables:
        return frozenset(step.variable for step in self.steps if step.variable is not None)


def branches(pattern: Pattern) -> tuple[Branch, ...]:
    """The pattern's branches; raises `Unplannable`.

    >>> a, b, c = (Bgp((TriplePattern(Var("x"), Const(p), Var(p[1])),)) for p in ("<a>", "<b>", "<c>"))
    >>> [sorted(branch.matched) for branch in branches(Join(a, Union(b, c)))]
    [['a', 'b', 'x'], ['a', 'c', 'x']]
    """
    return tuple(_Distribution().of(pattern))


class _Distribution:
    def __init__(self) -> None:
        self._fresh = count()

    def of(self, pattern: Pattern) -> list[Branch]:
        match pattern:
            case Bgp(patterns):
                triples = tuple(each for each in patterns if isinstance(each, TriplePattern))
                if len(triples) < len(patterns):
                    raise Unplannable("a property path")
                return [Branch(triples)]
            case Join(left, right):
                found = [_joined(first, second) for first in self.of(left) for second in self.of(right)]
            case Union(left, right):
                found = self.of(left) + self.of(right)
            case Filter(inner, conditions):
                if any(map(has_exists, conditions)):
                    raise Unplannable("EXISTS")
                found = [_with_steps(branch, [Step(None, condition) for condition in conditions]) for branch in self.of(inner)]
            case Extend(inner, variable, expression):
                if has_exists(expression):
                    raise Unplannable("EXISTS")
                found = [_with_steps(branch, [Step(variable, expression)]) for branch in self.of(inner)]
            case Values(variables, rows):
                found = list(_tables(variables, rows))
            case Select():
                found = self._selected(pattern)
            case LeftJoin():
                raise Unplannable("OPTIONAL")
            case Minus():
                raise Unplannable("MINUS")
            case Group():
                raise Unplannable("aggregates")
            case _:
                assert_never(pattern)
        if len(found) > MANY:
            raise Unplannable(f"more than {MANY} combinations of UNION branches")
        return found

    def _selected(self, select: Select) -> list[Branch]:
        """A sub-select that only projects: its other variables get names of their own."""
        if select.distinct:
            raise Unplannable("DISTINCT in a sub-query")
        if select.offset or select.limit is not None:
            raise Unplannable("LIMIT or OFFSET")
        names: dict[Variable, Variable] = {}
        for branch in (inner := self.of(select.pattern)):
            for name in sorted((branch.matched | branch.computed) - set(select.projection)):
                if name not in names:
                    names[name] = f".inner{next(self._fresh)}"
        return [_renamed(branch, names) for branch in inner]


def _joined(left: Branch, right: Branch) -> Branch:
    if not (left.computed.isdisjoint(right.matched | right.computed) and right.computed.isdisjoint(left.matched)):
        raise Unplannable("a join on a value that BIND computes")
    return Branch(left.patterns + right.patterns, left.tables + right.tables, left.steps + right.steps)


def _with_steps(branch: Branch, steps: list[Step]) -> Branch:
    """The branch with further steps; variables that it does not bind are out of their scope."""
    known = branch.matched | branch.computed
    scoped = tuple(replace(step, expression=_scoped(step.expression, known)) for step in steps)
    return replace(branch, steps=branch.steps + scoped)


def _scoped(expression: Expression, known: Variables) -> Expression:
    match expression:
        case Var(name):
            return expression if name in known else Var(UNBOUND)
        case Call(function, arguments):
            return Call(function, tuple(_scoped(argument, known) for argument in arguments))
        case Const():
            return expression
        case Exists() | Attribute() | TimeOf():
            raise AssertionError(expression)
        case _:
            assert_never(expression)


def _renamed(branch: Branch, names: Mapping[Variable, Variable]) -> Branch:
    def name(variable: Variable) -> Variable:
        return names.get(variable, variable)

    def slot(each: Slot) -> Slot:
        return Var(name(each.name)) if isinstance(each, Var) else each

    def expression(each: Expression) -> Expression:
        match each:
            case Var(variable):
                return Var(name(variable))
            case Call(function, arguments):
                return Call(function, tuple(map(expression, arguments)))
            case _:
                return each

    return Branch(
        tuple(TriplePattern(slot(p.subject), slot(p.predicate), slot(p.object)) for p in branch.patterns),
        tuple(Table(tuple(map(name, table.variables)), table.rows) for table in branch.tables),
        tuple(Step(None if s.variable is None else name(s.variable), expression(s.expression)) for s in branch.steps),
    )


def _tables(variables: tuple[Variable, ...], rows: tuple[tuple[Term | None, ...], ...]) -> Iterator[Branch]:
    """A branch for each choice of the columns that are bound (UNDEF binds nothing).

    >>> [branch.tables[0].variables for branch in _tables(("x", "y"), (("<a>", "<b>"), ("<c>", None)))]
    [('x', 'y'), ('x',)]
    """
    groups: dict[tuple[Variable, ...], list[tuple[Term, ...]]] = {}
    for row in rows:
        bound = tuple(name for name, term in zip(variables, row, strict=True) if term is not None)
        groups.setdefault(bound, []).append(tuple(term for term in row if term is not None))
    for bound, members in groups.items():
        yield Branch(tables=(Table(bound, tuple(members)),))
