"""Distribution of a graph pattern into a union of conjunctions (Ullman 1988, ch. 3), the form that
delta queries need.

Idea: basic graph patterns, FILTER, BIND, VALUES, UNION and plain sub-selects distribute into
branches with multiplicity. OPTIONAL, MINUS and EXISTS become look-ups for each solution of the
branch under them. A branch with a look-up is not monotone: a delta triple can retract a solution
(`dotr.evaluation.joins.deltas` restricts such branches). `/`, `|` and `^` of a path distribute,
too; `?`, `*`, `+` and `!()` are patterns of a branch, joined from a bound end. Any other construct,
and a path without a bound end, raises `Unplannable` with its name.
Invariant: the bag union of the branches' solutions is the bag of the pattern's, on every graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from itertools import count
from typing import Final, assert_never

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.joins.scope import NOTHING, Variables, is_nullable, possible, variables_of
from dotr.model import dataclass
from dotr.model.algebra import (
    Alternative,
    Bgp,
    BgpItem,
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
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
)
from dotr.model.terms import Term, Variable
from dotr.model.traverse import has_exists, rename, walk

UNBOUND: Final[Variable] = ".unbound"
"""The name, in an expression, of a variable that is out of the expression's scope."""

MAX_BRANCHES: Final = 64
"""A pattern with more branches is `Unplannable`: its code would cost more than it saves."""


class Unplannable(DotrError):
    """A construct of the algebra that does not distribute into conjunctions; the message is its
    name.
    """


@dataclass(frozen=True, slots=True)
class BranchStep:
    """A FILTER (`variable` is None) or a BIND, over the variables of its branch."""

    variable: Variable | None
    expression: Expression


@dataclass(frozen=True, slots=True)
class ValuesTable:
    """Rows of VALUES without UNDEF."""

    variables: tuple[Variable, ...]
    rows: tuple[tuple[Term, ...], ...]


class LookupKind(Enum):
    """The effect of a look-up on a solution: left join, semi-join or anti-join with its
    partners."""

    OPTIONAL = "OPTIONAL"
    PRESENT = "EXISTS"
    ABSENT = "NOT EXISTS or MINUS"


@dataclass(frozen=True, slots=True)
class PartnerLookup:
    """Monotone branches that are evaluated for the partners of a solution.

    `bound`: the solution's variables in scope of the branches. `binds`: the variables that the
    branches add to the solution. All other variables of the branches are local.
    """

    kind: LookupKind
    parts: tuple[Branch, ...]
    bound: Variables
    binds: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """A conjunction and the steps on each of its solutions.

    Invariant: variables of BIND and OPTIONAL occur in no pattern and no table of the branch; the
    steps are in an order in which they can run. `terms` destructure triple terms and read no graph.
    """

    patterns: tuple[TriplePattern | PathPattern, ...] = ()
    tables: tuple[ValuesTable, ...] = ()
    steps: tuple[BranchStep | PartnerLookup, ...] = ()
    terms: tuple[TermPattern, ...] = ()

    @property
    def matched(self) -> Variables:
        """The variables that patterns and tables bind, hence bound in every solution."""
        return variables_of((*self.patterns, *self.terms)) | {name for table in self.tables for name in table.variables}

    @property
    def computed(self) -> Variables:
        """The variables of BIND and OPTIONAL, bound in some solutions."""
        names: set[Variable] = set()
        for step in self.steps:
            if isinstance(step, PartnerLookup):
                names.update(step.binds)
            elif step.variable is not None:
                names.add(step.variable)
        return frozenset(names)

    @property
    def is_monotone(self) -> bool:
        """True if more triples never remove an answer: the branch has no EXISTS, MINUS or
        OPTIONAL."""
        return not any(isinstance(step, PartnerLookup) for step in self.steps)


def branches(pattern: Pattern) -> tuple[Branch, ...]:
    """The branches of a pattern. Raises `Unplannable`.

    >>> from dotr.model.algebra import Const, Var
    >>> a, b, c = (Bgp((TriplePattern(Var("x"), Const(p), Var(p[1])),)) for p in ("<a>", "<b>", "<c>"))
    >>> [sorted(branch.matched) for branch in branches(Join(a, Union(b, c)))]
    [['a', 'b', 'x'], ['a', 'c', 'x']]
    """
    distributed = tuple(_Distribution(count(), NOTHING).branches(pattern))
    for branch in distributed:
        _check_paths(branch, NOTHING, NOTHING, NOTHING)
    return distributed


class _Distribution:
    """The traversal of a pattern; `outer`: the variables that EXISTS substitutes into it."""

    def __init__(self, fresh: Iterator[int], outer: Variables) -> None:
        self._fresh = fresh
        self._outer = outer

    def branches(self, pattern: Pattern) -> list[Branch]:
        match pattern:
            case Bgp(patterns):
                distributed = [Branch()]
                for each in patterns:
                    distributed = [_join(branch, part) for branch in distributed for part in self._item(each)]
                    if len(distributed) > MAX_BRANCHES:
                        break
            case Join(left, right):
                distributed = [_join(first, second) for first in self.branches(left) for second in self.branches(right)]
            case Union(left, right):
                distributed = self.branches(left) + self.branches(right)
            case Filter(inner, conditions):
                distributed = [self._filtered(branch, conditions) for branch in self.branches(inner)]
            case Extend(inner, variable, expression):
                if has_exists(expression):
                    raise Unplannable("EXISTS inside an expression")
                distributed = [self._with_step(branch, BranchStep(variable, expression)) for branch in self.branches(inner)]
            case Values(variables, rows):
                distributed = list(_tables(variables, rows))
            case Select():
                distributed = self._selected(pattern)
            case LeftJoin(left, right, condition):
                distributed = [self._optional(branch, pattern, condition) for branch in self.branches(left)]
            case Minus(left, right):
                distributed = [self._minus(branch, self.branches(right)) for branch in self.branches(left)]
            case Group():
                raise Unplannable("aggregates")
            case WindowBlock():
                raise Unplannable("a WINDOW block")
            case MatchPattern():
                raise Unplannable("MATCH")
            case _:
                assert_never(pattern)
        if len(distributed) > MAX_BRANCHES:
            raise Unplannable(f"more than {MAX_BRANCHES} combinations of UNION branches")
        return distributed

    def _item(self, item: BgpItem) -> list[Branch]:
        """The branches of one item; `?x :p/(:q|^:r) ?y` is `?x :p ?m . ?m :q ?y` and
        `?x :p ?m . ?y :r ?m`.
        """
        match item:
            case TriplePattern():
                return [Branch((item,))]
            case TermPattern():
                return [Branch(terms=(item,))]
            case PathPattern(subject, Link(predicate), object):
                return [Branch((TriplePattern(subject, Const(predicate), object),))]
            case PathPattern(subject, Inverse(path), object):
                return self._item(PathPattern(object, path, subject))
            case PathPattern(subject, Alternative(left, right), object):
                return [*self._item(PathPattern(subject, left, object)), *self._item(PathPattern(subject, right, object))]
            case PathPattern(subject, Repeat(Repeat(path, least, many), again, more), object):
                return self._item(PathPattern(subject, Repeat(path, min(least, again), many or more), object))
            case PathPattern(subject, Sequence(left, right), object):
                middle = Var(f".middle{next(self._fresh)}")
                first, second = self._item(PathPattern(subject, left, middle)), self._item(PathPattern(middle, right, object))
                if len(first) * len(second) > MAX_BRANCHES:
                    raise Unplannable(f"more than {MAX_BRANCHES} combinations of alternatives in a path")
                return [_join(one, other) for one in first for other in second]
            case _:
                return [Branch((item,))]

    def _selected(self, select: Select) -> list[Branch]:
        """The branches of a sub-select that only projects; its other variables are renamed
        apart."""
        if select.distinct:
            raise Unplannable("DISTINCT in a sub-query")
        if select.offset or select.limit is not None:
            raise Unplannable("LIMIT or OFFSET")
        inner = _Distribution(self._fresh, self._outer & frozenset(select.projection)).branches(select.pattern)
        names: dict[Variable, Variable] = {}
        for branch in inner:
            for name in sorted((branch.matched | branch.computed) - set(select.projection)):
                if name not in names:
                    names[name] = f".inner{next(self._fresh)}"
        return [rename_variables(branch, names) for branch in inner]

    def _filtered(self, branch: Branch, conditions: tuple[Expression, ...]) -> Branch:
        for condition in conditions:
            if not has_exists(condition):
                branch = self._with_step(branch, BranchStep(None, condition))
        for condition in conditions:
            if isinstance(condition, Exists):
                branch = self._existing(branch, condition)
            elif has_exists(condition):
                raise Unplannable("EXISTS inside an expression")
        return branch

    def _with_step(self, branch: Branch, step: BranchStep) -> Branch:
        """The branch with a further step; the branch's variables are in scope of its expression."""
        scope = branch.matched | branch.computed | self._outer
        return replace(branch, steps=(*branch.steps, replace(step, expression=_scoped(step.expression, scope))))

    def _existing(self, branch: Branch, exists: Exists) -> Branch:
        scope = branch.matched | branch.computed | self._outer
        parts = _Distribution(self._fresh, scope).branches(exists.pattern)
        for part in parts:  # the solution's terms are put for the variables
            _check_paths(part, scope, scope, NOTHING)
        return _with_lookup(branch, PartnerLookup(LookupKind.ABSENT if exists.negated else LookupKind.PRESENT, tuple(parts), scope))

    def _optional(self, branch: Branch, optional: LeftJoin, condition: Expression | None) -> Branch:
        visible = possible(optional.right)
        scope = branch.matched | branch.computed
        parts = self.branches(optional.right)
        if condition is not None:
            if has_exists(condition):
                raise Unplannable("EXISTS in the condition of OPTIONAL")
            test = BranchStep(None, _scoped(condition, scope | visible | self._outer))
            parts = [replace(part, steps=(*part.steps, test)) for part in parts]
        for part in parts:
            _check_paths(part, scope, self._outer, _nodes(branch, NOTHING))
        binds = tuple(sorted(name for name in visible - scope if not name.startswith("_:")))
        return _with_lookup(branch, PartnerLookup(LookupKind.OPTIONAL, tuple(parts), scope | self._outer, binds))

    def _minus(self, branch: Branch, parts: list[Branch]) -> Branch:
        """The branch with an anti-join; only parts that share a variable can remove a solution."""
        scope = branch.matched | branch.computed
        sharing = tuple(part for part in parts if (part.matched | part.computed) & scope)
        for part in sharing:
            _check_paths(part, scope, self._outer, _nodes(branch, NOTHING))
        return _with_lookup(branch, PartnerLookup(LookupKind.ABSENT, sharing, scope | self._outer)) if sharing else branch


def _join(left: Branch, right: Branch) -> Branch:
    if not (left.computed.isdisjoint(right.matched | right.computed) and right.computed.isdisjoint(left.matched)):
        raise Unplannable("a join on a value that BIND computes or OPTIONAL may leave unbound")
    return Branch(left.patterns + right.patterns, left.tables + right.tables, left.steps + right.steps, left.terms + right.terms)


def _check_paths(branch: Branch, bound: Variables, constants: Variables, nodes: Variables) -> None:
    """Raises `Unplannable` for a path that cannot be joined from a bound end, or of which a length
    of zero would have to be tested.

    `bound`: the variables bound before the branch; `constants`: those for which terms are
    substituted; `nodes`: those whose terms are nodes of the graph. Between variables a path of
    length zero connects nodes of the graph only: it needs no test where another pattern has an end.
    """
    paths = [each for each in branch.patterns if isinstance(each, PathPattern)]
    if not paths:
        return
    reached = set(bound | variables_of(each for each in branch.patterns if not isinstance(each, PathPattern)))
    known = -1
    while known < len(reached):
        known = len(reached)
        _spread(paths, reached, constants)
        for term in branch.terms:  # taken apart where it is bound, and made where all its parts are
            parts = [slot.name for slot in (term.subject, term.predicate, term.object) if isinstance(slot, Var)]
            if term.term.name in reached:
                reached.update(parts)
            elif reached.issuperset(parts):
                reached.add(term.term.name)
    nodes |= _nodes(branch, nodes)
    for each in paths:
        ends = [slot.name for slot in (each.subject, each.object) if isinstance(slot, Var)]
        if not reached.issuperset(ends):
            raise Unplannable("a property path without a bound end")
        if is_nullable(each.path) and len(ends) == 2 and not (constants | nodes).intersection(ends):
            raise Unplannable("a property path of length zero between terms of no pattern")
        if any(isinstance(inner, Sequence) and is_nullable(inner) for inner in walk(each.path)):
            raise Unplannable("a property path that repeats a sequence of length zero")


def _nodes(branch: Branch, given: Variables) -> Variables:
    """The variables of a branch whose terms are subjects or objects of triples of the graph."""
    names = set(given)
    for each in branch.patterns:
        if isinstance(each, TriplePattern) or not is_nullable(each.path):
            names.update(slot.name for slot in (each.subject, each.object) if isinstance(slot, Var))
    _spread([each for each in branch.patterns if isinstance(each, PathPattern)], names)
    return frozenset(names)


def _spread(paths: list[PathPattern], names: set[Variable], constants: Variables | None = None) -> None:
    """Adds the variables that paths reach from others, and with `constants` from constants."""
    known = -1
    while known < len(names):
        known = len(names)
        for each in paths:
            ends = [slot.name for slot in (each.subject, each.object) if isinstance(slot, Var)]
            if not names.isdisjoint(ends) or (constants is not None and (len(ends) < 2 or not constants.isdisjoint(ends))):
                names.update(ends)


def _with_lookup(branch: Branch, lookup: PartnerLookup) -> Branch:
    """The branch with a further look-up. Raises `Unplannable` for shared variables that may be
    unbound.
    """
    for part in lookup.parts:
        if not part.is_monotone:
            raise Unplannable(f"{lookup.kind.value} around another")
        if part.computed & lookup.bound or part.matched & branch.computed:
            raise Unplannable(f"{lookup.kind.value} with a value that BIND computes or OPTIONAL may leave unbound")
    return replace(branch, steps=(*branch.steps, lookup))


def _scoped(expression: Expression, scope: Variables) -> Expression:
    return rename(expression, lambda name: name if name in scope else UNBOUND)


def rename_variables(branch: Branch, names: Mapping[Variable, Variable]) -> Branch:
    """The branch with some variables renamed."""

    def name(variable: Variable) -> Variable:
        return names.get(variable, variable)

    def step(each: BranchStep | PartnerLookup) -> BranchStep | PartnerLookup:
        match each:
            case BranchStep(variable, computed):
                return BranchStep(None if variable is None else name(variable), rename(computed, name))
            case PartnerLookup(kind, parts, bound, binds):
                inner = tuple(rename_variables(part, names) for part in parts)
                return PartnerLookup(kind, inner, frozenset(map(name, bound)), tuple(map(name, binds)))
            case _:
                assert_never(each)

    return Branch(
        tuple(rename(pattern, name) for pattern in branch.patterns),
        tuple(ValuesTable(tuple(map(name, table.variables)), table.rows) for table in branch.tables),
        tuple(map(step, branch.steps)),
        tuple(rename(term, name) for term in branch.terms),
    )


def _tables(variables: tuple[Variable, ...], rows: tuple[tuple[Term | None, ...], ...]) -> Iterator[Branch]:
    """One branch for each combination of bound columns (UNDEF binds nothing).

    >>> [branch.tables[0].variables for branch in _tables(("x", "y"), (("<a>", "<b>"), ("<c>", None)))]
    [('x', 'y'), ('x',)]
    """
    groups: dict[tuple[Variable, ...], list[tuple[Term, ...]]] = {}
    for row in rows:
        bound = tuple(name for name, term in zip(variables, row, strict=True) if term is not None)
        groups.setdefault(bound, []).append(tuple(term for term in row if term is not None))
    for bound, members in groups.items():
        yield Branch(tables=(ValuesTable(bound, tuple(members)),))
