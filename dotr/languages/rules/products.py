"""Pass 11: queries of which parts have nothing to do with each other, so that each solution of one is paired with each of the other.

Before: `SELECT ?a ?b { ?a :temp ?t . ?b :smoke ?s }`. After: the same query, and a warning at `?b`. Idea: parts of a group are connected
by variables, by conditions and by BIND; a part without variables multiplies nothing, and the rows of VALUES are few. Each group is looked
at by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.rules import scan
from dotr.languages.rules.codes import RuleCode
from dotr.languages.rules.program import ProgramDraft, RoleOrigin, SplitQuery, warning
from dotr.model.algebra import (
    Bgp,
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
    Union,
    Values,
    Var,
    is_hidden,
)
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.traverse import in_scope, parameters_of

_VariableSet: TypeAlias = frozenset[Variable]


def check_products(program: ProgramDraft) -> ProgramDraft:
    """Adds a warning for each query of a program without errors that has such parts."""
    if not program.sound:
        return program
    own = [role.question for rule in program.rules for role in rule.roles if role.origin is RoleOrigin.OWN]
    questions = [*(query.question for query in program.queries), *own]
    return program.reporting([found for question in questions if question is not None for found in _told(question)])


def _told(question: SplitQuery) -> Iterator[Diagnostic]:
    for first, second in _apart(question.select, ()):
        a, b = _named(first), _named(second)
        if a and b:
            hint = "Connect the two by a variable or a FILTER, or ask them in two clauses of the rule."
            message = f"a cross product: nothing connects ?{b} with ?{a}, so that all are paired with all"
            yield warning(RuleCode.CROSS_PRODUCT, message, _place(question.text, b), hint)


def _named(names: _VariableSet) -> Variable:
    """A variable that the author wrote."""
    return min((name for name in names if not is_hidden(name)), default="")


def _place(text: Span, name: Variable) -> Span:
    found = [Span(text.document, *t.span()) for t in scan.tokens(text) if t.lastgroup == "variable" and t[0][1:] == name]
    body = text.document.text.find("{", text.start)
    return next((each for each in found if each.start > body), found[0] if found else text)


def _apart(pattern: Pattern, links: Sequence[_VariableSet]) -> Iterator[tuple[_VariableSet, _VariableSet]]:
    """The parts of each group that nothing connects with its first one; `links` are what connects besides."""
    match pattern:
        case Bgp() | Join() | LeftJoin():
            parts, conditions = _parts(pattern)
            groups = _connected([names for names in parts if names], [*links, *conditions])
            yield from ((groups[0], other) for other in groups[1:])
            for inside in _inside(pattern):
                yield from _apart(inside, ())
        case Filter(inner, expressions):
            yield from _apart(inner, [*links, *map(_mentioned, expressions)])
        case Extend(inner, variable, expression):
            yield from _apart(inner, [*links, _mentioned(expression) | {variable}])
        case Group(inner) | Minus(inner):
            yield from _apart(inner, links if isinstance(pattern, Minus) else ())
        case Select(_, inner):
            yield from _apart(inner, ())
        case Union(left, right):
            yield from _apart(left, ())
            yield from _apart(right, ())
        case Values():
            pass
        case _:
            assert_never(pattern)


def _mentioned(expression: Expression) -> _VariableSet:
    """The variables that an expression reads, and those that its EXISTS may bind."""
    found: set[Variable] = set()
    for parameter in parameters_of([expression]):
        if isinstance(parameter, Var):
            found.add(parameter.name)
        elif isinstance(parameter, Exists):
            found.update(in_scope(parameter.pattern))
    return frozenset(found)


def _parts(pattern: Pattern) -> tuple[list[_VariableSet], list[_VariableSet]]:
    """The variables of the parts of a group that is joined, and of the conditions between them."""
    match pattern:
        case Bgp(patterns):
            return [frozenset(in_scope(Bgp((each,)))) for each in patterns], []
        case Join(left, right) | LeftJoin(left, right):
            (some, conditions), (others, more) = _parts(left), _parts(right)
            if isinstance(pattern, LeftJoin):
                others = [frozenset().union(*others)]
                more = [] if pattern.condition is None else [_mentioned(pattern.condition)]
            return some + others, conditions + more
        case Values():
            return [], []
        case Filter(inner, expressions):
            parts, conditions = _parts(inner)
            return parts, conditions + [_mentioned(each) for each in expressions]
        case Extend(inner, variable, expression):
            parts, conditions = _parts(inner)
            return parts, [*conditions, _mentioned(expression) | {variable}]
        case _:
            return [frozenset(in_scope(pattern))], []


def _inside(pattern: Pattern) -> Iterator[Pattern]:
    """The groups that are parts of a group."""
    match pattern:
        case Join(left, right):
            yield from _inside(left)
            yield from _inside(right)
        case LeftJoin(left, right):
            yield from _inside(left)
            yield right
        case Filter(inner) | Extend(inner):
            yield from _inside(inner)
        case Union() | Select() | Minus() | Group():
            yield pattern
        case _:
            pass


def _connected(parts: Sequence[_VariableSet], links: Sequence[_VariableSet]) -> list[_VariableSet]:
    """Parts put together as far as they share variables, or a link does with both.

    >>> [sorted(each) for each in _connected([frozenset("ab"), frozenset("c"), frozenset("de")], [frozenset("bd")])]
    [['a', 'b', 'd', 'e'], ['c']]
    """
    groups: list[_VariableSet] = []
    known = frozenset().union(*parts)
    for part in [*parts, *(link & known for link in links)]:
        if part:
            touched = [group for group in groups if group & part]
            merged = part.union(*touched)
            place = groups.index(touched[0]) if touched else len(groups)
            groups = [group for group in groups if group not in touched]
            groups.insert(place, merged)
    return groups
