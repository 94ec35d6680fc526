"""Variable scope of a pattern (SPARQL 1.1, section 18.2.1), and the kinds of triples that the
pattern reads.

Invariant: `certain(p) <= possible(p) <= mentioned(p)` (`certain`: `dotr.model.traverse`); every
solution of `p` binds all of `certain(p)` and no variable outside `possible(p)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, TypeAlias, assert_never

from dotr.model.algebra import (
    Alternative,
    Attribute,
    BgpItem,
    Const,
    Exists,
    Expression,
    Inverse,
    Link,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    TermPattern,
    TimeOf,
    TriplePattern,
    Var,
    slots_of,
)
from dotr.model.terms import Term, Variable
from dotr.model.traverse import expressions_in, in_scope, parameters_of, subpatterns, walk

Variables: TypeAlias = frozenset[Variable]

Reads: TypeAlias = frozenset[tuple[Term, Term | None]]
"""Kinds of triples: a predicate, with a constant object or with any (None)."""

NOTHING: Final[Variables] = frozenset()


def can_look_up(pattern: BgpItem, bound: Collection[Variable]) -> bool:
    """Tests whether bound variables allow a look-up of the pattern's matches instead of a scan.

    A triple pattern needs one bound variable; a triple term is bound itself or in all of its parts.

    >>> from dotr.model.algebra import Const
    >>> term = TermPattern(Var("_:t"), Var("s"), Const("<p>"), Var("o"))
    >>> can_look_up(term, {"s"}), can_look_up(term, {"s", "o"}), can_look_up(term, {"_:t"})
    (False, True, True)
    """
    if isinstance(pattern, TermPattern):
        return pattern.term.name in bound or all(isinstance(slot, Const) or slot.name in bound for slot in slots_of(pattern)[1:])
    return any(isinstance(slot, Var) and slot.name in bound for slot in slots_of(pattern))


def variables_of(patterns: Iterable[BgpItem]) -> Variables:
    """The variables of the slots of patterns."""
    return frozenset(slot.name for pattern in patterns for slot in slots_of(pattern) if isinstance(slot, Var))


def possible(pattern: Pattern) -> Variables:
    """The variables that a solution may bind: those in scope.

    >>> from dotr.model.algebra import Bgp, LeftJoin, Minus
    >>> left, right = (Bgp((TriplePattern(Var("x"), Const("<p>"), Var(v)),)) for v in "yz")
    >>> sorted(possible(LeftJoin(left, right, None))), sorted(possible(Minus(left, right)))
    (['x', 'y', 'z'], ['x', 'y'])
    """
    return frozenset(in_scope(pattern))


# --- expressions ---


def query_parameters(*expressions: Expression) -> tuple[Var | Exists, ...]:
    """The variables and EXISTS patterns that query expressions depend on, distinct, in order of
    appearance.
    """
    return tuple([_query_parameter(parameter) for parameter in parameters_of(expressions)])


def _query_parameter(parameter: Var | Attribute | TimeOf | Exists) -> Var | Exists:
    assert not isinstance(parameter, Attribute | TimeOf), "a temporal constraint reached stage one"
    return parameter


def mentioned_in(expression: Expression) -> Variables:
    """The variables of an expression, with those that its EXISTS patterns mention."""
    names = NOTHING
    for parameter in query_parameters(expression):
        names |= {parameter.name} if isinstance(parameter, Var) else mentioned(parameter.pattern)
    return names


def mentioned(pattern: Pattern) -> Variables:
    """The variables that a substitution into the pattern can replace: in triples, expressions and
    tables; of a sub-query only the projected ones.
    """
    match pattern:
        case Select(projection, _):
            return frozenset(projection)
        case _:
            names = possible(pattern)
            for child in subpatterns(pattern):
                names |= mentioned(child)
            for expression in expressions_in(pattern):
                names |= mentioned_in(expression)
            return names


# --- kinds of triples ---


def reads(pattern: Pattern) -> Reads | None:
    """The kinds of triples that the pattern's solutions can depend on; None for any triple.

    >>> from dotr.model.algebra import Bgp
    >>> sorted(reads(Bgp((TriplePattern(Var("x"), Const("<p>"), Var("y")), TriplePattern(Var("y"), Const("<q>"), Const("<c>"))))) or ())
    [('<p>', None), ('<q>', '<c>')]
    >>> reads(Bgp((TriplePattern(Var("x"), Var("p"), Var("y")),))) is None
    True
    """
    all_kinds: set[tuple[Term, Term | None]] = set()
    for node in walk(pattern):
        if isinstance(node, TriplePattern | PathPattern):
            kinds = reads_of(node)
            if kinds is None:
                return None
            all_kinds |= kinds
    return frozenset(all_kinds)


def union_of_reads(first: Reads | None, second: Reads | None) -> Reads | None:
    """The union of two sets of kinds; None (any triple) if one of them is."""
    return None if first is None or second is None else first | second


def reads_of(pattern: BgpItem) -> Reads | None:
    """The kinds of triples that one item of a basic graph pattern reads; None for any triple."""
    if isinstance(pattern, TermPattern):
        return frozenset()
    if isinstance(pattern, TriplePattern):
        if isinstance(pattern.predicate, Var):
            return None
        return frozenset({(pattern.predicate.term, pattern.object.term if isinstance(pattern.object, Const) else None)})
    if is_nullable(pattern.path) and isinstance(pattern.subject, Var) and isinstance(pattern.object, Var):
        return None  # a path of length zero matches at every node of the graph
    predicates = path_predicates(pattern.path)
    return None if predicates is None else frozenset((predicate, None) for predicate in predicates)


def path_predicates(path: Path) -> frozenset[Term] | None:
    """The predicates that a path follows; None for any."""
    predicates: set[Term] = set()
    for step in walk(path):
        if isinstance(step, Negated):
            return None
        if isinstance(step, Link):
            predicates.add(step.predicate)
    return frozenset(predicates)


def is_single_step(path: Path) -> bool:
    """Tests whether each match of the path is one triple.

    >>> is_single_step(Alternative(Link("<p>"), Inverse(Link("<q>")))), is_single_step(Sequence(Link("<p>"), Link("<q>")))
    (True, False)
    """
    return all(isinstance(each, Link | Inverse | Alternative | Negated) for each in walk(path))


def is_nullable(path: Path) -> bool:
    """Tests whether a path of length zero satisfies the expression."""
    match path:
        case Link() | Negated():
            return False
        case Inverse(inner):
            return is_nullable(inner)
        case Sequence(left, right):
            return is_nullable(left) and is_nullable(right)
        case Alternative(left, right):
            return is_nullable(left) or is_nullable(right)
        case Repeat(inner, least, _):
            return least == 0 or is_nullable(inner)
        case _:
            assert_never(path)
