"""Traversal of the algebra: one walk, one transformation and one renaming.

They cover expressions, paths, graph patterns and Datalog items.
Order: the order of the text; the projection of a query comes before its pattern.
Cost: linear in the nodes. `walk`, `subexpressions` and `operands` are iterative; `transform` and
`rename` recurse with two frames per level, and the parsers limit nesting to 128 levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias, assert_never, overload

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
    MatchPattern,
    Minus,
    Negated,
    OrderKey,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    Slot,
    TermPattern,
    TimeOf,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    slots_of,
)
from dotr.model.datalog import Bind, BodyItem, FilterItem, GroupAggregate, Not, RelationAtom
from dotr.model.terms import Variable

AlgebraNode: TypeAlias = Expression | Pattern | BgpItem | Path | BodyItem

Naming: TypeAlias = Callable[[Variable], Variable]
"""A function from the name of a variable to its new name."""

# --- expressions; EXISTS is a leaf of them ---


def subexpressions(expression: Expression) -> list[Expression]:
    """Return the expression and all expressions inside it, each before its arguments.

    EXISTS is a leaf.

    >>> [type(each).__name__ for each in subexpressions(Call("<", (Var("x"), Call("+", (Var("y"), Const('"1"'))))))]
    ['Call', 'Var', 'Call', 'Var', 'Const']
    """
    parts: list[Expression] = []
    pending = [expression]
    while pending:
        current = pending.pop()
        parts.append(current)
        if isinstance(current, Call):
            pending += current.arguments[::-1]
    return parts


def parameters_of(expressions: Iterable[Expression]) -> tuple[Var | Attribute | TimeOf | Exists, ...]:
    """Return the variable leaves of expressions, without duplicates, in order of appearance.

    >>> parameters_of([Call("<", (Var("x"), Attribute("Smoke", "y"))), Call("!", (Var("x"),))])
    (Var(name='x'), Attribute(label='Smoke', name='y'))
    """
    return tuple(
        dict.fromkeys([each for expression in expressions for each in subexpressions(expression) if not isinstance(each, Call | Const)])
    )


def has_exists(expression: Expression) -> bool:
    """Return whether EXISTS or NOT EXISTS occurs in an expression."""
    return any(isinstance(each, Exists) for each in subexpressions(expression))


def operands(expression: Expression, function: str) -> list[Expression]:
    """Return the operands of an associative function from the left, however its calls are nested.

    >>> a, b, c = Var("a"), Var("b"), Var("c")
    >>> operands(Call("||", (Call("||", (a, b)), c)), "||") == operands(Call("||", (a, Call("||", (b, c)))), "||") == [a, b, c]
    True
    """
    parts: list[Expression] = []
    pending = [expression]
    while pending:
        current = pending.pop()
        if isinstance(current, Call) and current.function == function:
            pending += current.arguments[::-1]
        else:
            parts.append(current)
    return parts


def conjuncts(expression: Expression) -> list[Expression]:
    """Return the operands of a conjunction between its outermost `&&`."""
    return operands(expression, "&&")


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the expression with `change` applied to every part, arguments before their call.

    `change` returns the replacement of a part, or the part itself; replacements are not visited
    again. Unchanged parts are shared with the original.

    >>> def constant(part: Expression) -> Expression:
    ...     return Const('"5"') if part == Var("x") else part
    >>> transform(Call("<", (Var("x"), Var("y"))), constant)
    Call(function='<', arguments=(Const(term='"5"'), Var(name='y')))
    """
    if isinstance(expression, Call):
        arguments = tuple([transform(argument, change) for argument in expression.arguments])
        if arguments != expression.arguments:
            expression = Call(expression.function, arguments)
    return change(expression)


# --- all nodes ---


def children(node: AlgebraNode) -> tuple[AlgebraNode, ...]:
    """Return the parts directly inside a node: slots, paths, patterns, expressions.

    >>> children(PathPattern(Var("x"), Inverse(Link("<p>")), Var("y")))
    (Var(name='x'), Inverse(path=Link(predicate='<p>')), Var(name='y'))
    """
    match node:
        case Var() | Const() | Attribute() | TimeOf() | Link() | Negated():
            return ()
        case Call(_, arguments):
            return arguments
        case TriplePattern(subject, predicate, object):
            return subject, predicate, object
        case TermPattern():
            return slots_of(node)
        case PathPattern(subject, path, object):
            return subject, path, object
        case Bgp(patterns):
            return patterns
        case Exists(pattern, _):
            return (pattern,)
        case Inverse(path) | Repeat(path):
            return (path,)
        case Sequence(left, right) | Alternative(left, right):
            return left, right
        case FilterItem(condition):
            return (condition,)
        case Bind(expression, _):
            return (expression,)
        case Not(body):
            return body
        case GroupAggregate(items, _, results):
            return (*items, *_arguments(results))
        case MatchPattern():
            return ()
        case Join() | LeftJoin() | Union() | Minus() | Filter() | Extend() | Values() | Group() | Select() | WindowBlock():
            return (*subpatterns(node), *expressions_in(node))
        case _:
            assert_never(node)


def walk(node: AlgebraNode) -> Iterator[AlgebraNode]:
    """Yield the node and all nodes inside it, including patterns of EXISTS, each before its parts.

    >>> where = Filter(Bgp(()), (Exists(Bgp((TriplePattern(Var("x"), Const("<p>"), Var("y")),)), True),))
    >>> [type(each).__name__ for each in walk(where)]
    ['Filter', 'Bgp', 'Exists', 'Bgp', 'TriplePattern', 'Var', 'Const', 'Var']
    """
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending += children(current)[::-1]


def depth(*nodes: AlgebraNode) -> int:
    """Return the number of levels of the deepest of some nodes.

    >>> depth(Call("!", (Call("!", (Var("x"),)),))), depth(Var("x"), Var("y")), depth()
    (3, 1, 0)
    """
    levels = 0
    level = list(nodes)
    while level:
        levels += 1
        level = [part for node in level for part in children(node)]
    return levels


# --- graph patterns ---


def subpatterns(pattern: Pattern) -> tuple[Pattern, ...]:
    """Return the patterns directly inside a pattern; those of EXISTS belong to its expressions."""
    match pattern:
        case Bgp() | Values() | MatchPattern():
            return ()
        case Join(left, right) | LeftJoin(left, right, _) | Union(left, right) | Minus(left, right):
            return left, right
        case Filter(inner, _) | Extend(inner, _, _) | Group(inner, _, _) | Select(_, inner) | WindowBlock(_, inner):
            return (inner,)
        case _:
            assert_never(pattern)


def joined_parts(pattern: Pattern) -> list[BgpItem | Pattern]:
    """Return the parts of a conjunction: items of basic graph patterns, and other patterns.

    >>> one, two = (TriplePattern(Var("x"), Const(f"<{p}>"), Var("y")) for p in "pq")
    >>> joined_parts(Join(Bgp((one,)), Bgp((two,)))) == [one, two]
    True
    """
    match pattern:
        case Bgp(items):
            return list(items)
        case Join(left, right):
            return joined_parts(left) + joined_parts(right)
        case _:
            return [pattern]


def required_parts(pattern: Pattern) -> tuple[Pattern, ...]:
    """Return the patterns inside a pattern that all have a solution if the pattern has one.

    >>> one, other = Bgp(()), Values(("x",), ())
    >>> required_parts(LeftJoin(one, other, None)) == (one,), required_parts(Union(one, other))
    (True, ())
    """
    match pattern:
        case Union() | Group(_, ()):
            return ()
        case LeftJoin(left, _, _) | Minus(left, _):
            return (left,)
        case _:
            return subpatterns(pattern)


def grouping(pattern: Pattern) -> Group | None:
    """Return the GROUP BY below the computed columns, HAVING and VALUES of a query, or None."""
    while True:
        match pattern:
            case Extend(inner, _, _) | Filter(inner, _) | Join(inner, Values()):
                pattern = inner
            case _:
                return pattern if isinstance(pattern, Group) else None


def expressions_in(pattern: Pattern) -> tuple[Expression, ...]:
    """Return the expressions of a pattern, without those of the patterns inside it."""
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
        case Bgp() | Values() | Join() | Union() | Minus() | WindowBlock() | MatchPattern():
            return ()
        case _:
            assert_never(pattern)


def _arguments(aggregates: tuple[tuple[Variable, AggregateCall], ...]) -> Iterator[Expression]:
    for _, call in aggregates:
        if call.argument is not None:
            yield call.argument


def with_changed_expressions(pattern: Pattern, change: Callable[[Expression], Expression]) -> Pattern:
    """Return the pattern with `change` applied to all parts of its expressions, also inside EXISTS.

    Each expression is changed as by `transform`.

    >>> def constant(part: Expression) -> Expression:
    ...     return Const('"5"') if part == Var("x") else part
    >>> with_changed_expressions(Filter(Bgp(()), (Call("<", (Var("x"), Var("y"))),)), constant).conditions
    (Call(function='<', arguments=(Const(term='"5"'), Var(name='y'))),)
    """

    def recurse(inner: Pattern) -> Pattern:
        return with_changed_expressions(inner, change)

    def leaf(part: Expression) -> Expression:
        return change(Exists(recurse(part.pattern), part.negated) if isinstance(part, Exists) else part)

    def changed(expression: Expression) -> Expression:
        return transform(expression, leaf)

    match pattern:
        case Bgp() | Values() | MatchPattern():
            return pattern
        case _:
            return _rebuilt(pattern, recurse, changed, lambda name: name)


def _rebuilt(
    pattern: Join | LeftJoin | Union | Minus | Filter | Extend | Group | Select | WindowBlock,
    inner: Callable[[Pattern], Pattern],
    changed: Callable[[Expression], Expression],
    name: Naming,
) -> Pattern:
    """Return a pattern with other patterns, expressions and variables, made in the order of the
    text."""
    match pattern:
        case Join(left, right) | Union(left, right) | Minus(left, right):
            return type(pattern)(inner(left), inner(right))
        case LeftJoin(left, right, condition):
            return LeftJoin(inner(left), inner(right), None if condition is None else changed(condition))
        case Filter(filtered, conditions):
            return Filter(inner(filtered), tuple(map(changed, conditions)))
        case Extend(extended, variable, expression):
            return Extend(inner(extended), name(variable), changed(expression))
        case WindowBlock(window, content):
            return WindowBlock(window, inner(content))
        case Group(grouped, keys, aggregates):
            members, by = inner(grouped), tuple([(name(variable), changed(key)) for variable, key in keys])
            calls = [(name(v), replace(call, argument=changed(call.argument)) if call.argument else call) for v, call in aggregates]
            return Group(members, by, tuple(calls))
        case Select(projection, selected, distinct, order, offset, limit):
            names, where = tuple(map(name, projection)), inner(selected)
            return Select(names, where, distinct, tuple([OrderKey(changed(key.expression), key.direction) for key in order]), offset, limit)
        case _:
            assert_never(pattern)


# --- variables ---


def free_variables(node: Expression | BgpItem | BodyItem | RelationAtom) -> tuple[Variable, ...]:
    """Return the variables that an expression or an item reads, each once, in order of appearance.

    Not counted: variables inside EXISTS, and the variable that a BIND binds. Those of an AGGREGATE
    are its keys.

    >>> free_variables(Call(">", (Var("b"), Call("+", (Var("a"), Var("b"))))))
    ('b', 'a')
    >>> free_variables(Bind(Var("a"), "c"))
    ('a',)
    """
    if isinstance(node, TriplePattern):  # the most frequent case, on the path of the closure
        return tuple(dict.fromkeys([slot.name for slot in (node.subject, node.predicate, node.object) if isinstance(slot, Var)]))
    match node:
        case TermPattern() | PathPattern():
            names = [slot.name for slot in slots_of(node) if isinstance(slot, Var)]
        case Call() | Var() | Const() | Attribute() | TimeOf() | Exists():
            names = [each.name for each in subexpressions(node) if isinstance(each, Var)]
        case FilterItem(expression) | Bind(expression, _):
            return free_variables(expression)
        case Not(body):
            names = [name for atom in body for name in free_variables(atom)]
        case GroupAggregate(_, keys, _):
            return tuple(dict.fromkeys(keys))
        case RelationAtom(_, slots):
            names = [slot.name for slot in slots if isinstance(slot, Var)]
        case _:
            assert_never(node)
    return tuple(dict.fromkeys(names))


def in_scope(pattern: Pattern) -> dict[Variable, None]:
    """Return the variables that a solution of a pattern may bind, in order of appearance.

    Source: SPARQL 1.1, section 18.2.1.

    >>> a, b = (Bgp((TriplePattern(Var(s), Const("<p>"), Var(o)),)) for s, o in ("ab", "bc"))
    >>> list(in_scope(Join(a, b))), list(in_scope(Minus(a, b)))
    (['a', 'b', 'c'], ['a', 'b'])
    """
    match pattern:
        case Bgp(patterns):
            return dict.fromkeys([slot.name for item in patterns for slot in slots_of(item) if isinstance(slot, Var)])
        case Join(left, right) | LeftJoin(left, right, _) | Union(left, right):
            return in_scope(left) | in_scope(right)
        case Minus(inner, _) | Filter(inner, _) | WindowBlock(_, inner):
            return in_scope(inner)
        case Extend(inner, variable, _):
            return in_scope(inner) | {variable: None}
        case Values(names, _) | MatchPattern(_, names):
            return dict.fromkeys(names)
        case Group(_, keys, aggregates):
            return dict.fromkeys([name for name, _ in (*keys, *aggregates)])
        case Select(projection, _):
            return dict.fromkeys(projection)
        case _:
            assert_never(pattern)


def never_bound(pattern: Pattern) -> Iterator[tuple[Variable, dict[Variable, None]]]:
    """Yield the variables that FILTERs and HAVING of a pattern read and their group never binds,
    each with those that it may bind. Conditions inside EXISTS see the group around it: left out.

    >>> triples = Bgp((TriplePattern(Var("a"), Const("<p>"), Var("b")),))
    >>> [(name, list(bound)) for name, bound in never_bound(Filter(triples, (Call(">", (Var("c"), Var("b"))),)))]
    [('c', ['a', 'b'])]
    """
    match pattern:
        case Filter(Group(inner, _, aggregates) as group, conditions):  # HAVING (?c > 1) reads SAMPLE(?c)
            read = {name for condition in conditions for name in free_variables(condition)}
            arguments = list(_arguments(tuple((name, call) for name, call in aggregates if name in read)))
            bound = in_scope(inner)
            yield from ((name, in_scope(group)) for name in sorted(read - in_scope(group).keys()))
            yield from ((name, bound) for each in arguments for name in free_variables(each) if name not in bound)
        case Filter(_, conditions):
            bound = in_scope(pattern)
            yield from ((name, bound) for condition in conditions for name in free_variables(condition) if name not in bound)
        case LeftJoin(_, _, condition) if condition is not None:
            bound = in_scope(pattern)
            yield from ((name, bound) for name in free_variables(condition) if name not in bound)
        case _:
            pass
    for each in subpatterns(pattern):
        yield from never_bound(each)


def certain(pattern: Pattern) -> frozenset[Variable]:
    """Return the variables that every solution of a pattern binds: a part of those in scope.

    >>> a, b = (Bgp((TriplePattern(Var(s), Const("<p>"), Var(o)),)) for s, o in ("ab", "bc"))
    >>> sorted(certain(LeftJoin(a, b, None))), sorted(certain(Union(a, b)))
    (['a', 'b'], ['b'])
    """
    match pattern:
        case Bgp() | MatchPattern():
            return frozenset(in_scope(pattern))
        case Join(left, right):
            return certain(left) | certain(right)
        case Union(left, right):
            return certain(left) & certain(right)
        case LeftJoin(inner, _, _) | Minus(inner, _) | Filter(inner, _) | WindowBlock(_, inner):
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


# --- renaming ---


@overload
def rename(node: Select, name: Naming) -> Select: ...
@overload
def rename(node: Pattern, name: Naming) -> Pattern: ...
@overload
def rename(node: TriplePattern, name: Naming) -> TriplePattern: ...
@overload
def rename(node: PathPattern, name: Naming) -> PathPattern: ...
@overload
def rename(node: TermPattern, name: Naming) -> TermPattern: ...
@overload
def rename(node: BgpItem, name: Naming) -> BgpItem: ...
@overload
def rename(node: Slot, name: Naming) -> Slot: ...
@overload
def rename(node: Expression, name: Naming) -> Expression: ...
def rename(node: Expression | Pattern | BgpItem, name: Naming) -> Expression | Pattern | BgpItem:
    """Return the node with its variables renamed wherever they occur, also inside EXISTS.

    `name` is called for every occurrence, in order of appearance, and may therefore number
    variables.

    >>> rename(Extend(Bgp(()), "x", Call("!", (Var("y"),))), str.upper)
    Extend(pattern=Bgp(patterns=()), variable='X', expression=Call(function='!', arguments=(Var(name='Y'),)))
    """
    match node:
        case Var() | Call() | Exists():
            return transform(node, lambda part: _renamed_leaf(part, name))
        case Const() | Attribute() | TimeOf():
            return node
        case TriplePattern(subject, predicate, object):
            return TriplePattern(rename(subject, name), rename(predicate, name), rename(object, name))
        case PathPattern(subject, path, object):
            return PathPattern(rename(subject, name), path, rename(object, name))
        case TermPattern(term, subject, predicate, object):
            return TermPattern(Var(name(term.name)), rename(subject, name), rename(predicate, name), rename(object, name))
        case Bgp(patterns):
            return Bgp(tuple([rename(item, name) for item in patterns]))
        case Values(variables, rows):
            return Values(tuple(map(name, variables)), rows)
        case MatchPattern(number, variables):
            return MatchPattern(number, tuple(map(name, variables)))
        case Join() | LeftJoin() | Union() | Minus() | Filter() | Extend() | WindowBlock() | Group() | Select():
            return _rebuilt(node, lambda part: rename(part, name), lambda part: rename(part, name), name)
        case _:
            assert_never(node)


def _renamed_leaf(part: Expression, name: Naming) -> Expression:
    """Return a variable or EXISTS renamed, or the part itself."""
    match part:
        case Var(variable):
            return Var(name(variable))
        case Exists(pattern, negated):
            return Exists(rename(pattern, name), negated)
        case _:
            return part
