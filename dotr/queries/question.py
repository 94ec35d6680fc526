"""When two queries ask the same: equal up to the names of their variables.

Their answers are then the same rows, since values stand in the order of the projection; where their names sort otherwise, the same rows
with the columns in another order (`columns`). Names matter where a tie is broken by them (LIMIT and OFFSET, semantics.md, section 4), so
that such queries are compared as they stand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from dotr.model.algebra import (
    AggregateCall,
    Attribute,
    Bgp,
    BgpItem,
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
    OrderKey,
    PathPattern,
    Pattern,
    Select,
    Slot,
    TermPattern,
    TimeOf,
    TriplePattern,
    Union,
    Values,
    Var,
)
from dotr.model.terms import Variable
from dotr.queries.scope import children, expressions_in, parameters_of


def question(select: Select) -> Select:
    """The query with its variables numbered in the order in which they are met: equal for queries that ask the same.

    >>> def asked(subject: str, object: str) -> Select:
    ...     return question(Select((object,), Bgp((TriplePattern(Var(subject), Const("<p>"), Var(object)),))))
    >>> asked("x", "y") == asked("y", "z"), asked("x", "y") == asked("x", "x")
    (True, False)
    """
    return select if _is_sliced(select) else _Numbering().select(select)


def columns(select: Select) -> tuple[Select, tuple[Variable, ...]]:
    """The query as `question` has it, whatever the order of its columns; and what its columns are called there, in their order.

    >>> def asked(subject: str, object: str) -> tuple[Select, tuple[Variable, ...]]:
    ...     names = tuple(sorted([subject, object]))
    ...     return columns(Select(names, Bgp((TriplePattern(Var(subject), Const("<p>"), Var(object)),))))
    >>> asked("x", "y")[0] == asked("y", "x")[0], asked("x", "y")[1], asked("y", "x")[1]
    (True, ('v0', 'v1'), ('v1', 'v0'))
    """
    if _is_sliced(select):
        return select, select.projection
    numbering = _Numbering()
    pattern = numbering.pattern(select.pattern)
    names = numbering.names(select.projection)
    return replace(select, projection=tuple(sorted(names)), pattern=pattern, order=()), names


def same_question(a: Select, b: Select) -> bool:
    """Whether two queries have the same answers in the same columns, as far as their text shows."""
    return a == b or question(a) == question(b)


def _is_sliced(pattern: Pattern) -> bool:
    if isinstance(pattern, Select) and (pattern.offset or pattern.limit is not None):
        return True
    inside = [p.pattern for e in expressions_in(pattern) for p in parameters_of(e) if isinstance(p, Exists)]
    return any(map(_is_sliced, [*children(pattern), *inside]))


class _Numbering:
    def __init__(self) -> None:
        self._names: dict[Variable, Variable] = {}

    def name(self, variable: Variable) -> Variable:
        """A name of the same sort: a blank node's, a hidden one, or one that a query can write."""
        if variable not in self._names:
            sort = "_:" if variable.startswith("_:") else "." if variable.startswith(".") else "v"
            self._names[variable] = f"{sort}{len(self._names)}"
        return self._names[variable]

    def names(self, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        return tuple(map(self.name, variables))

    def select(self, select: Select) -> Select:
        projection = self.names(select.projection)
        pattern = self.pattern(select.pattern)
        order = tuple(OrderKey(self.expression(key.expression), key.direction) for key in select.order)
        return Select(projection, pattern, select.distinct, order, select.offset, select.limit)

    def pattern(self, pattern: Pattern) -> Pattern:
        match pattern:
            case Bgp(patterns):
                return Bgp(tuple(map(self.item, patterns)))
            case Join(left, right):
                return Join(self.pattern(left), self.pattern(right))
            case LeftJoin(left, right, condition):
                return LeftJoin(self.pattern(left), self.pattern(right), None if condition is None else self.expression(condition))
            case Union(left, right):
                return Union(self.pattern(left), self.pattern(right))
            case Minus(left, right):
                return Minus(self.pattern(left), self.pattern(right))
            case Filter(inner, conditions):
                return Filter(self.pattern(inner), tuple(map(self.expression, conditions)))
            case Extend(inner, variable, expression):
                return Extend(self.pattern(inner), self.name(variable), self.expression(expression))
            case Values(variables, rows):
                return Values(self.names(variables), rows)
            case Group(inner, keys, aggregates):
                renamed = self.pattern(inner)
                new_keys = tuple((self.name(name), self.expression(key)) for name, key in keys)
                return Group(renamed, new_keys, tuple((self.name(name), self.aggregate(call)) for name, call in aggregates))
            case Select():
                return self.select(pattern)
            case _:
                assert_never(pattern)

    def aggregate(self, call: AggregateCall) -> AggregateCall:
        argument = None if call.argument is None else self.expression(call.argument)
        return AggregateCall(call.function, call.distinct, argument, call.separator)

    def item(self, pattern: BgpItem) -> BgpItem:
        match pattern:
            case TriplePattern(subject, predicate, object):
                return TriplePattern(self.slot(subject), self.slot(predicate), self.slot(object))
            case PathPattern(subject, path, object):
                return PathPattern(self.slot(subject), path, self.slot(object))
            case TermPattern(term, subject, predicate, object):
                return TermPattern(Var(self.name(term.name)), self.slot(subject), self.slot(predicate), self.slot(object))
            case _:
                assert_never(pattern)

    def slot(self, slot: Slot) -> Slot:
        return Var(self.name(slot.name)) if isinstance(slot, Var) else slot

    def expression(self, expression: Expression) -> Expression:
        match expression:
            case Var(name):
                return Var(self.name(name))
            case Call(function, arguments):
                return Call(function, tuple(map(self.expression, arguments)))
            case Exists(pattern, negated):
                return Exists(self.pattern(pattern), negated)
            case Const() | Attribute() | TimeOf():
                return expression
            case _:
                assert_never(expression)
