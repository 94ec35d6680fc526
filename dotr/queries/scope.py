"""What a pattern can bind, what it mentions, and what it reads (SPARQL 1.1, section 18.2.1).

Invariant: `certain(p) <= possible(p) <= mentioned(p)`; every solution of `p` binds all of `certain(p)` and nothing but `possible(p)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, TypeAlias, assert_never

from dotr.model.algebra import (
    AggregateCall,
    Alternative,
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
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    Negated,
    Path,
    Pattern,
    Repeat,
    Select,
    Sequence,
    TermPattern,
    TimeOf,
    TriplePattern,
    Union,
    Values,
    Var,
    slots_of,
)
from dotr.model.terms import Term, Variable

Variables: TypeAlias = frozenset[Variable]

Reads: TypeAlias = frozenset[tuple[Term, Term | None]]
"""Kinds of triples: a predicate, with a constant object or with any (None)."""

NOTHING: Final[Variables] = frozenset()


def reaches(pattern: BgpItem, bound: Collection[Variable]) -> bool:
    """Whether the pattern's matches can be looked up from what is bound: a triple term's, where it or all of its parts are.

    >>> from dotr.model.algebra import Const
    >>> term = TermPattern(Var("_:t"), Var("s"), Const("<p>"), Var("o"))
    >>> reaches(term, {"s"}), reaches(term, {"s", "o"}), reaches(term, {"_:t"})
    (False, True, True)
    """
    if isinstance(pattern, TermPattern):
        return pattern.term.name in bound or all(isinstance(slot, Const) or slot.name in bound for slot in slots_of(pattern)[1:])
    return any(isinstance(slot, Var) and slot.name in bound for slot in slots_of(pattern))


def variables_of(patterns: Iterable[BgpItem]) -> Variables:
    return frozenset(slot.name for pattern in patterns for slot in slots_of(pattern) if isinstance(slot, Var))


def possible(pattern: Pattern) -> Variables:
    """The variables that a solution may bind: those in scope after the pattern.

    >>> from dotr.model.algebra import Const
    >>> left, right = (Bgp((TriplePattern(Var("x"), Const("<p>"), Var(v)),)) for v in "yz")
    >>> sorted(possible(LeftJoin(left, right, None))), sorted(certain(LeftJoin(left, right, None)))
    (['x', 'y', 'z'], ['x', 'y'])
    >>> sorted(possible(Minus(left, right)))
    ['x', 'y']
    """
    match pattern:
        case Bgp(patterns):
            return variables_of(patterns)
        case Join(left, right) | LeftJoin(left, right, _) | Union(left, right):
            return possible(left) | possible(right)
        case Minus(inner, _) | Filter(inner, _):
            return possible(inner)
        case Extend(inner, variable, _):
            return possible(inner) | {variable}
        case Values(variables, _):
            return frozenset(variables)
        case Group(_, keys, aggregates):
            return frozenset(name for name, _ in (*keys, *aggregates))
        case Select(projection, _):
            return frozenset(projection)
        case _:
            assert_never(pattern)


def certain(pattern: Pattern) -> Variables:
    """The variables that every solution binds."""
    match pattern:
        case Bgp(patterns):
            return variables_of(patterns)
        case Join(left, right):
            return certain(left) | certain(right)
        case Union(left, right):
            return certain(left) & certain(right)
        case LeftJoin(inner, _, _) | Minus(inner, _) | Filter(inner, _):
            return certain(inner)
        case Extend(inner, variable, expression):
            bound = certain(inner)
            same = isinstance(expression, Const) or (isinstance(expression, Var) and expression.name in bound)
            return bound | {variable} if same else bound
        case Values(variables, rows):
            return frozenset(v for i, v in enumerate(variables) if all(row[i] is not None for row in rows))
        case Group(inner, keys, _):
            bound = certain(inner)
            return frozenset(name for name, key in keys if isinstance(key, Var) and key.name in bound)
        case Select(projection, inner):
            return certain(inner) & frozenset(projection)
        case _:
            assert_never(pattern)


# --- expressions ---


def parameters_of(*expressions: Expression) -> tuple[Var | Exists, ...]:
    """The variables and EXISTS patterns that expressions need the values of, each once, in order of appearance."""
    found: dict[Var | Exists, None] = {}
    for expression in expressions:
        _collect(expression, found)
    return tuple(found)


def _collect(expression: Expression, found: dict[Var | Exists, None]) -> None:
    match expression:
        case Var() | Exists():
            found[expression] = None
        case Const():
            pass
        case Call(_, arguments):
            for argument in arguments:
                _collect(argument, found)
        case Attribute() | TimeOf():
            raise AssertionError("a temporal constraint reached stage one")
        case _:
            assert_never(expression)


def has_exists(expression: Expression) -> bool:
    return any(isinstance(parameter, Exists) for parameter in parameters_of(expression))


def mentioned_in(expression: Expression) -> Variables:
    found = NOTHING
    for parameter in parameters_of(expression):
        found |= {parameter.name} if isinstance(parameter, Var) else mentioned(parameter.pattern)
    return found


def mentioned(pattern: Pattern) -> Variables:
    """Every variable that a substitution into the pattern could touch: in triples, expressions and tables; of a sub-query only the
    projected ones."""
    match pattern:
        case Select(projection, _):
            return frozenset(projection)
        case _:
            found = possible(pattern)
            for child in children(pattern):
                found |= mentioned(child)
            for expression in expressions_in(pattern):
                found |= mentioned_in(expression)
            return found


def children(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly inside; those of EXISTS are inside expressions."""
    match pattern:
        case Bgp() | Values():
            return ()
        case Join(left, right) | LeftJoin(left, right, _) | Union(left, right) | Minus(left, right):
            return left, right
        case Filter(inner, _) | Extend(inner, _, _) | Group(inner, _, _) | Select(_, inner):
            return (inner,)
        case _:
            assert_never(pattern)


def expressions_in(pattern: Pattern) -> tuple[Expression, ...]:
    """The expressions that stand directly in a pattern, not in its children."""
    match pattern:
        case Filter(_, conditions):
            return conditions
        case LeftJoin(_, _, condition):
            return () if condition is None else (condition,)
        case Extend(_, _, expression):
            return (expression,)
        case Group(_, keys, aggregates):
            return (*(key for _, key in keys), *_arguments(aggregates))
        case Select(order=order):
            return tuple(key.expression for key in order)
        case Bgp() | Values() | Join() | Union() | Minus():
            return ()
        case _:
            assert_never(pattern)


def _arguments(aggregates: tuple[tuple[Variable, AggregateCall], ...]) -> Iterator[Expression]:
    for _, call in aggregates:
        if call.argument is not None:
            yield call.argument


# --- what is read of the graph ---


def reads(pattern: Pattern) -> Reads | None:
    """The kinds of triples that the pattern's solutions can depend on; None: any triple.

    >>> from dotr.model.algebra import Const
    >>> sorted(reads(Bgp((TriplePattern(Var("x"), Const("<p>"), Var("y")), TriplePattern(Var("y"), Const("<q>"), Const("<c>"))))) or ())
    [('<p>', None), ('<q>', '<c>')]
    >>> reads(Bgp((TriplePattern(Var("x"), Var("p"), Var("y")),))) is None
    True
    """
    found: set[tuple[Term, Term | None]] = set()
    inside = [*children(pattern)]
    for expression in expressions_in(pattern):
        inside += [parameter.pattern for parameter in parameters_of(expression) if isinstance(parameter, Exists)]
    for child in inside:
        below = reads(child)
        if below is None:
            return None
        found |= below
    if isinstance(pattern, Bgp):
        for triple in pattern.patterns:
            kinds = reads_of(triple)
            if kinds is None:
                return None
            found |= kinds
    return frozenset(found)


def either(first: Reads | None, second: Reads | None) -> Reads | None:
    """What one or the other reads."""
    return None if first is None or second is None else first | second


def reads_of(pattern: BgpItem) -> Reads | None:
    if isinstance(pattern, TermPattern):
        return frozenset()
    if isinstance(pattern, TriplePattern):
        if isinstance(pattern.predicate, Var):
            return None
        return frozenset({(pattern.predicate.term, pattern.object.term if isinstance(pattern.object, Const) else None)})
    if nullable(pattern.path) and isinstance(pattern.subject, Var) and isinstance(pattern.object, Var):
        return None  # the nodes of the graph answer it
    predicates = path_predicates(pattern.path)
    return None if predicates is None else frozenset((predicate, None) for predicate in predicates)


def path_predicates(path: Path) -> frozenset[Term] | None:
    """The predicates that a path follows; None: any."""
    match path:
        case Link(predicate):
            return frozenset({predicate})
        case Inverse(inner) | Repeat(inner, _, _):
            return path_predicates(inner)
        case Sequence(left, right) | Alternative(left, right):
            first, second = path_predicates(left), path_predicates(right)
            return None if first is None or second is None else first | second
        case Negated():
            return None
        case _:
            assert_never(path)


def nullable(path: Path) -> bool:
    """Whether a path of length zero satisfies it."""
    match path:
        case Link() | Negated():
            return False
        case Inverse(inner):
            return nullable(inner)
        case Sequence(left, right):
            return nullable(left) and nullable(right)
        case Alternative(left, right):
            return nullable(left) or nullable(right)
        case Repeat(inner, least, _):
            return least == 0 or nullable(inner)
        case _:
            assert_never(path)
