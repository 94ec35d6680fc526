"""Pass 13: finds cross products in queries: parts of a group that share no variable.

Before: `SELECT ?a ?b { ?a :temp ?t . ?b :smoke ?s }`. After: the same query, and a warning at `?b`.
Idea: variables, conditions and BIND connect the parts of a group. Every connected component after
the first gives a warning. Parts without variables and VALUES are left out: they have few solutions.
Each group is checked by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.codes import RuleCode
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
    MatchPattern,
    Minus,
    Pattern,
    Select,
    Union,
    Values,
    Var,
    WindowBlock,
    is_hidden,
)
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.traverse import in_scope, parameters_of
from dotr.syntax import scan

_VariableSet: TypeAlias = frozenset[Variable]


def check_products(program: ProgramDraft) -> ProgramDraft:
    """Report the warning D319, in programs without errors."""
    if not program.is_error_free:
        return program
    own = [role.query for rule in program.rules for role in rule.roles if role.origin is RoleOrigin.OWN]
    queries = [*(query.query for query in program.queries), *own]
    return program.with_problems([problem for query in queries if query is not None for problem in _cross_products(query)])


def _cross_products(query: SplitQuery) -> Iterator[Diagnostic]:
    for first, second in _unconnected(query.select, ()):
        a, b = _visible_variable(first), _visible_variable(second)
        if a and b:
            hint = "Connect the two by a variable or a FILTER, or write two clauses of the rule."
            message = f"a cross product: nothing connects ?{b} with ?{a}, so that all are paired with all"
            yield warning(RuleCode.CROSS_PRODUCT, message, _variable_span(query.text, b), hint)


def _visible_variable(names: _VariableSet) -> Variable:
    """The least variable by name that is in the text of the query; empty if all are hidden."""
    return min((name for name in names if not is_hidden(name)), default="")


def _variable_span(text: Span, name: Variable) -> Span:
    spans = [Span(text.document, *t.span()) for t in scan.tokens(text) if t.lastgroup == "variable" and t[0][1:] == name]
    body = text.document.text.find("{", text.start)
    return next((span for span in spans if span.start > body), spans[0] if spans else text)


def _unconnected(pattern: Pattern, links: Sequence[_VariableSet]) -> Iterator[tuple[_VariableSet, _VariableSet]]:
    """For each group, its first component with each other one; `links` connect parts too."""
    match pattern:
        case Bgp() | Join() | LeftJoin():
            parts, conditions = _group_parts(pattern)
            groups = _components([names for names in parts if names], [*links, *conditions])
            yield from ((groups[0], other) for other in groups[1:])
            for nested in _nested_groups(pattern):
                yield from _unconnected(nested, ())
        case Filter(inner, expressions):
            yield from _unconnected(inner, [*links, *map(_linked_variables, expressions)])
        case Extend(inner, variable, expression):
            yield from _unconnected(inner, [*links, _linked_variables(expression) | {variable}])
        case Group(inner) | Minus(inner):
            yield from _unconnected(inner, links if isinstance(pattern, Minus) else ())
        case Select(_, inner):
            yield from _unconnected(inner, ())
        case Union(left, right):
            yield from _unconnected(left, ())
            yield from _unconnected(right, ())
        case WindowBlock(_, inner):
            yield from _unconnected(inner, links)
        case Values() | MatchPattern():
            pass
        case _:
            assert_never(pattern)


def _linked_variables(expression: Expression) -> _VariableSet:
    """The variables of an expression, and those in scope of its EXISTS."""
    variables: set[Variable] = set()
    for parameter in parameters_of([expression]):
        if isinstance(parameter, Var):
            variables.add(parameter.name)
        elif isinstance(parameter, Exists):
            variables.update(in_scope(parameter.pattern))
    return frozenset(variables)


def _group_parts(pattern: Pattern) -> tuple[list[_VariableSet], list[_VariableSet]]:
    """The variables of each part of a joined group, and of each condition between the parts."""
    match pattern:
        case Bgp(patterns):
            return [frozenset(in_scope(Bgp((each,)))) for each in patterns], []
        case Join(left, right) | LeftJoin(left, right):
            (left_parts, left_conditions), (right_parts, right_conditions) = _group_parts(left), _group_parts(right)
            if isinstance(pattern, LeftJoin):
                right_parts = [frozenset().union(*right_parts)]
                right_conditions = [] if pattern.condition is None else [_linked_variables(pattern.condition)]
            return left_parts + right_parts, left_conditions + right_conditions
        case Values():
            return [], []
        case Filter(inner, expressions):
            parts, conditions = _group_parts(inner)
            return parts, conditions + [_linked_variables(each) for each in expressions]
        case Extend(inner, variable, expression):
            parts, conditions = _group_parts(inner)
            return parts, [*conditions, _linked_variables(expression) | {variable}]
        case _:
            return [frozenset(in_scope(pattern))], []


def _nested_groups(pattern: Pattern) -> Iterator[Pattern]:
    """The groups nested in a group."""
    match pattern:
        case Join(left, right):
            yield from _nested_groups(left)
            yield from _nested_groups(right)
        case LeftJoin(left, right):
            yield from _nested_groups(left)
            yield right
        case Filter(inner) | Extend(inner):
            yield from _nested_groups(inner)
        case Union() | Select() | Minus() | Group():
            yield pattern
        case _:
            pass


def _components(parts: Sequence[_VariableSet], links: Sequence[_VariableSet]) -> list[_VariableSet]:
    """Connected components of the parts: parts with a common variable or link are merged.

    >>> parts = [frozenset("ab"), frozenset("c"), frozenset("de")]
    >>> [sorted(component) for component in _components(parts, [frozenset("bd")])]
    [['a', 'b', 'd', 'e'], ['c']]
    """
    components: list[_VariableSet] = []
    variables = frozenset().union(*parts)
    for part in [*parts, *(link & variables for link in links)]:
        if part:
            connected = [component for component in components if component & part]
            merged = part.union(*connected)
            index = components.index(connected[0]) if connected else len(components)
            components = [component for component in components if component not in connected]
            components.insert(index, merged)
    return components
