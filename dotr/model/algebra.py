"""SPARQL as data: expressions, graph patterns and SELECT queries (SPARQL 1.1, section 18; SPARQL 1.2 where triple terms are concerned).

Expressions serve every room: query filters, Datalog filters, temporal constraints, `if` and `with`.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, TypeVar, assert_never

from dotr.model.terms import Label, Term, Variable


@dataclass(frozen=True, slots=True)
class Var:
    """A variable; a blank node of a query is a variable whose name starts with `_:` (it cannot be projected)."""

    name: Variable


def is_hidden(name: Variable) -> bool:
    """Whether a variable is a blank node of a query, or was made where the query was read (`.0`): no query can name it.

    >>> is_hidden("_:x"), is_hidden(".0"), is_hidden("_x")
    (True, True, False)
    """
    return name.startswith(("_:", "."))


@dataclass(frozen=True, slots=True)
class Const:
    term: Term


@dataclass(frozen=True, slots=True)
class Attribute:
    """`M.?v`: the attribute of the event bound to a label of the same rule."""

    label: Label
    name: Variable


@dataclass(frozen=True, slots=True)
class TimeOf:
    """`time(L)`: the time of the event bound to a label."""

    label: Label


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function applied to arguments.

    `function` is an operator (`=`, `!=`, `<`, `<=`, `>`, `>=`, `&&`, `||`, `!`, `+`, `-`, `*`, `/`, `UNARY-`, `UNARY+`), a SPARQL
    keyword in capitals (`BOUND`, `IF`, `COALESCE`, `IN`, `NOT IN`, `REGEX`, `STRDT`, `TRIPLE`, …), or an IRI in angle brackets (a cast).
    `IN` and `NOT IN` have the tested value as their first argument; `BOUND` has a Var or an Attribute as its only one. Arithmetic of many
    operands is one call, whose function is the text of its operators in their order (`chain`).
    """

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    pattern: Pattern
    negated: bool


Expression: TypeAlias = Var | Const | Attribute | TimeOf | Call | Exists

_Part = TypeVar("_Part")

MAX_NESTED_CHAIN: Final = 16
"""Operands up to which a chain nests to the left, as it is written."""


def fold_balanced(parts: Listed[_Part], join: Callable[[_Part, _Part], _Part]) -> _Part:
    """The parts joined by an associative operation: from the left, or, where they are many, as a balanced tree, so that what goes down into
    it does not go deep. The order of the parts stays.

    >>> fold_balanced("abc", lambda a, b: f"({a}{b})"), fold_balanced("abcdefghijklmnopq", lambda a, b: f"({a}{b})")
    ('((ab)c)', '((((ab)(cd))((ef)(gh)))(((ij)(kl))((mn)(o(pq)))))')
    """
    if len(parts) > MAX_NESTED_CHAIN or len(parts) == 1:
        return _fold_halves(parts, join)
    result = parts[0]
    for part in parts[1:]:
        result = join(result, part)
    return result


def _fold_halves(parts: Listed[_Part], join: Callable[[_Part, _Part], _Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return join(_fold_halves(parts[:half], join), _fold_halves(parts[half:], join))


def chain(operators: Listed[str], operands: Listed[Expression]) -> Expression:
    """`a && b && c`, `a || b` or `a - b + c`: one operator between any two operands, all of one precedence, computed from the left.

    >>> a = Const('"1"')
    >>> chain("+-", [a, a, a]).function, chain("+-" * 10, [a] * 21).function
    ('-', '+-+-+-+-+-+-+-+-+-+-')
    """
    if len(operands) > MAX_NESTED_CHAIN:
        if operators[0] not in ("&&", "||"):
            return Call("".join(operators), tuple(operands))
        return fold_balanced(operands, lambda a, b: Call(operators[0], (a, b)))
    result = operands[0]
    for operator, operand in zip(operators, operands[1:], strict=True):
        result = Call(operator, (result, operand))
    return result


def is_chain(function: str) -> bool:
    """Whether a function is the arithmetic of more than two operands.

    >>> is_chain("+*"), is_chain("+"), is_chain("&&"), is_chain("UNARY-")
    (True, False, False, False)
    """
    return len(function) > 1 and not function.strip("+-*/")


def is_arithmetic(function: str) -> bool:
    """Whether a function is `+`, `-`, `*`, `/` or several of them."""
    return not function.strip("+-*/")


Slot: TypeAlias = Var | Const
"""A place of a triple pattern."""


@dataclass(frozen=True, slots=True)
class TriplePattern:
    subject: Slot
    predicate: Slot
    object: Slot


@dataclass(frozen=True, slots=True)
class TermPattern:
    """`term` is the triple term of these three: how `?r rdf:reifies <<( ?s ?p ?o )>>` says what its object is.

    It binds nothing from nowhere: `term` stands in another pattern too, as a subject or an object, or is the object of another such term.
    """

    term: Var
    subject: Slot
    predicate: Slot
    object: Slot


# --- property paths (SPARQL 1.1, section 9) ---


@dataclass(frozen=True, slots=True)
class Link:
    predicate: Term


@dataclass(frozen=True, slots=True)
class Inverse:
    path: Path


@dataclass(frozen=True, slots=True)
class Sequence:
    left: Path
    right: Path


@dataclass(frozen=True, slots=True)
class Alternative:
    left: Path
    right: Path


@dataclass(frozen=True, slots=True)
class Repeat:
    """`path*` (least 0, many), `path+` (least 1, many) and `path?` (least 0, not many)."""

    path: Path
    least: int
    many: bool


@dataclass(frozen=True, slots=True)
class Negated:
    """`!(a|^b)`: any predicate but `forward`, or the inverse of any but `backward` (None where no inverse was written)."""

    forward: tuple[Term, ...] | None
    backward: tuple[Term, ...] | None


Path: TypeAlias = Link | Inverse | Sequence | Alternative | Repeat | Negated


@dataclass(frozen=True, slots=True)
class PathPattern:
    subject: Slot
    path: Path
    object: Slot


BgpItem: TypeAlias = TriplePattern | PathPattern | TermPattern


# --- graph patterns ---


@dataclass(frozen=True, slots=True)
class Bgp:
    """A basic graph pattern: all of its patterns hold. No patterns: one empty solution."""

    patterns: tuple[BgpItem, ...]


@dataclass(frozen=True, slots=True)
class Join:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """OPTIONAL; the condition (`None`: true) sees the variables of both sides."""

    left: Pattern
    right: Pattern
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class Union:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Minus:
    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Filter:
    """The conditions are conjuncts: each alone decides (SPARQL's `&&` of them has the same solutions)."""

    pattern: Pattern
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Extend:
    """BIND and computed SELECT columns; an error leaves the variable unbound."""

    pattern: Pattern
    variable: Variable
    expression: Expression


@dataclass(frozen=True, slots=True)
class Values:
    variables: tuple[Variable, ...]
    rows: tuple[tuple[Term | None, ...], ...]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """COUNT, SUM, AVG, MIN, MAX, SAMPLE or GROUP_CONCAT of a group; `argument` is None for `COUNT(*)`."""

    function: str
    distinct: bool
    argument: Expression | None
    separator: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """GROUP BY: one solution a group, with the key variables and one variable for each aggregate."""

    pattern: Pattern
    keys: tuple[tuple[Variable, Expression], ...]
    aggregates: tuple[tuple[Variable, AggregateCall], ...]


class Direction(Enum):
    ASCENDING = "ASC"
    DESCENDING = "DESC"


@dataclass(frozen=True, slots=True)
class OrderKey:
    expression: Expression
    direction: Direction


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT query or a sub-query: the pattern (HAVING is a Filter over its Group, computed columns are Extends), then the
    solution modifiers in SPARQL's order: ORDER BY, projection, DISTINCT, OFFSET, LIMIT."""

    projection: tuple[Variable, ...]
    pattern: Pattern
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    offset: int = 0
    limit: int | None = None


Pattern: TypeAlias = Bgp | Join | LeftJoin | Union | Minus | Filter | Extend | Values | Group | Select


def slots_of(item: BgpItem) -> tuple[Slot, ...]:
    """What stands in a pattern: terms and variables, in its order."""
    match item:
        case TriplePattern(subject, predicate, object):
            return subject, predicate, object
        case PathPattern(subject, _, object):
            return subject, object
        case TermPattern(term, subject, predicate, object):
            return term, subject, predicate, object
        case _:
            assert_never(item)
