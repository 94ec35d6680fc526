"""Compilation of an interval pattern to a tree of nodes (ep-sparql.md, sections 2, 3 and 7).

Idea: from the leaves up, each node has a shape, the variables of its solutions, from which its
functions are generated. Without a policy, a conjunct of a FILTER is pushed down to the lowest
operator that binds its variables. It is not pushed below an optional operator, and only where its
variables have the same terms as at the end of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dotr.evaluation.codegen import define
from dotr.evaluation.expressions.values.datetimes import Duration
from dotr.evaluation.expressions.values.terms import read
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.model import dataclass
from dotr.model.algebra import Call, Const, Expression, Var
from dotr.model.terms import Variable
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.model.traverse import conjuncts, free_variables
from dotr.temporal.intervals.conditions import ConditionNote, IntervalExpressions, reads_interval
from dotr.temporal.intervals.nodes import (
    NO_SOLUTIONS,
    ChooseCombinations,
    ConjunctionNode,
    EndNode,
    EqualsNode,
    LeafNode,
    PairedSearch,
    PairNode,
    Relation,
    StrictNode,
    Taken,
    TreeMoment,
    TreeNode,
    UnionNode,
)
from dotr.temporal.intervals.patterns import (
    DURATION,
    Alternatives,
    Chain,
    Combination,
    EventRead,
    InstantGroup,
    IntervalPattern,
    TemporalOperator,
    UsePolicy,
    certain_variables,
    visible_variables,
)
from dotr.temporal.intervals.solutions import IntervalSolution, Pairing, Shape, in_order, united
from dotr.temporal.intervals.store import InsertSolutions, SolutionIndex, SolutionStore, compile_insertion, indexed

# Nodes under CHRONOLOGICAL and RECENT: each operator uses a solution in one combination at most.
#
# Idea: the solutions of a moment are processed in ascending ≺. Each is combined with the least
# (CHRONOLOGICAL) or greatest (RECENT) compatible unused solution of the other side. A used solution
# is removed from its store; a search that exceeds a limit uses nothing.
# Invariant: a run of a store is ascending in ≺: by end, start, then ties over all variables.
# Cost: for each new solution, the solutions of its key up to the one chosen.
# Source: ep-sparql.md, section 2.3.


class Operand:
    """An operand of an operator under a policy: its new solutions are in ascending ≺."""

    __slots__ = ("_names", "node")

    def __init__(self, node: TreeNode, names: Sequence[Variable]) -> None:
        self.node = node
        self._names = names

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        """The solutions that end now, ascending in ≺."""
        return in_order(self._names, self.node.new(moment)) if self.node.mask & moment.mask else NO_SOLUTIONS


class ChoosingNode(PairNode):
    """An operator under a policy."""

    def __init__(self, left: Operand, right: Operand) -> None:
        super().__init__(left.node, right.node)
        self.lefts = left
        self.rights = right

    def chosen(
        self,
        choose: ChooseCombinations,
        xs: Sequence[IntervalSolution],
        index: SolutionIndex,
        moment: TreeMoment,
        found: list[IntervalSolution],
        left: list[IntervalSolution],
    ) -> list[Taken]:
        """Appends combinations to `found` and uncombined solutions of `xs` to `left`; returns the
        used solutions. If a limit is exceeded, nothing is found and nothing is used.
        """
        taken: list[Taken] = []
        try:
            choose(xs, index, moment.now, found, taken, left)
        except LimitExceeded as error:
            moment.exceeded = moment.exceeded or error
            for run, place, solution in reversed(taken):
                run.insert(place, solution)
            found.clear()
            left[:] = xs
            return []
        return taken


class ChoosingStrictNode(ChoosingNode):
    """SEQ and OPTIONALSEQ under a policy."""

    def __init__(self, left: Operand, right: Operand, choose: ChooseCombinations, store: SolutionStore) -> None:
        super().__init__(left, right)
        self._choose = choose
        self._store = store

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        xs = self.rights.new(moment)
        found: list[IntervalSolution] = []
        if xs:
            self.chosen(self._choose, xs, self._store.index, moment, found, [])
        return found

    def keep(self, moment: TreeMoment) -> None:
        if self.right.mask & moment.mask:
            self.right.keep(moment)
        if self.left.mask & moment.mask:
            solutions = self.lefts.new(moment)
            if solutions:
                self._store.add(solutions, moment.now)
            self.left.keep(moment)

    @property
    def stores(self) -> Sequence[SolutionStore]:
        return (self._store,)


class ChoosingConjunctionNode(ChoosingNode):
    """AND under a policy.

    New right solutions choose first, among all left ones; then the unused new left solutions choose
    among the older right ones. A new right solution that found no partner has none among the new
    left ones either.
    """

    def __init__(
        self,
        left: Operand,
        right: Operand,
        chooses: tuple[ChooseCombinations, ChooseCombinations],
        stores: tuple[SolutionStore, SolutionStore],
    ) -> None:
        super().__init__(left, right)
        self._choose_left, self._choose_right = chooses
        self._lefts, self._rights = stores

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        ones, others = self.lefts.new(moment), self.rights.new(moment)
        found: list[IntervalSolution] = []
        unused: list[IntervalSolution] = []
        if ones:
            self._lefts.add(ones, moment.now)
        if others:
            taken = self.chosen(self._choose_left, others, self._lefts.index, moment, found, unused)
            used = {id(solution) for _, _, solution in taken}
            ones = [each for each in ones if id(each) not in used]
        if ones:
            further: list[IntervalSolution] = []
            left: list[IntervalSolution] = []
            if self.chosen(self._choose_right, ones, self._rights.index, moment, further, left):
                waiting = {id(each) for each in left}
                self._lefts.remove([each for each in ones if id(each) not in waiting])
                found += further
        if unused:
            self._rights.add(unused, moment.now)
        return found

    @property
    def stores(self) -> Sequence[SolutionStore]:
        return self._lefts, self._rights


class ChoosingEqualsNode(ChoosingNode):
    """EQUALS and EQUALSOPTIONAL under a policy; without state."""

    def __init__(self, left: Operand, right: Operand, choose: ChooseCombinations, insert: InsertSolutions, *, is_left_sought: bool) -> None:
        super().__init__(left, right)
        self._choose = choose
        self._insert = insert
        self._is_left_sought = is_left_sought

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        ones, others = self.lefts.new(moment), self.rights.new(moment)
        xs, ys = (others, ones) if self._is_left_sought else (ones, others)
        if not xs:
            return NO_SOLUTIONS
        index = indexed(self._insert, ys)
        found: list[IntervalSolution] = []
        self.chosen(self._choose, xs, index, moment, found, [])
        return found


@dataclass(frozen=True, slots=True)
class ShapedNode:
    """A node with the variables of its solutions."""

    node: TreeNode
    shape: Shape


def shape_of(pattern: IntervalPattern) -> Shape:
    """The variables of a pattern's solutions."""
    return Shape(tuple(sorted(visible_variables(pattern))), certain_variables(pattern))


class TreeCompiler:
    """Compiler of one pattern.

    - `traced`: solutions hold the leaf solutions that they combine.
    - `note`: called where a FILTER of a chain is an error.
    """

    def __init__(self, policy: UsePolicy, clock: Clock, limits: Limits, *, traced: bool = False, note: ConditionNote | None = None) -> None:
        self._policy = policy
        self._clock = clock
        self._limits = limits
        self._traced = traced
        self._note = note
        self._leaves = 0

    def compile(self, pattern: IntervalPattern, tests: Sequence[Expression] = ()) -> ShapedNode:
        """The node of a pattern, for solutions that pass some tests.

        The tests read no interval. Operands are numbered in the order of the text.
        """
        match pattern:
            case InstantGroup() | EventRead():
                self._leaves += 1
                return self._ended(ShapedNode(LeafNode(self._leaves - 1), shape_of(pattern)), tests)
            case Alternatives(branches):
                return self._ended(self._union([self.compile(branch) for branch in branches]), tests)
            case Combination():
                return self._combination(pattern, tests)
            case Chain():
                return self._chain(pattern, tests)

    def _ended(
        self,
        below: ShapedNode,
        filters: Sequence[Expression],
        bindings: Sequence[tuple[Variable, Expression]] = (),
        within: Micros | None = None,
    ) -> ShapedNode:
        """A node with the end of a chain above it; the node itself if the end is empty."""
        if not filters and not bindings and within is None:
            return below
        finish = compile_end(below.shape, bindings, filters, within, self._clock, self._note)
        return ShapedNode(EndNode(below.node, finish), below.shape.extended([name for name, _ in bindings]))

    @staticmethod
    def _union(branches: Sequence[ShapedNode]) -> ShapedNode:
        common = united([branch.shape for branch in branches])
        rows = [compile_rows(branch.shape, common) for branch in branches]
        return ShapedNode(UnionNode([branch.node for branch in branches], rows), common)

    def _chain(self, chain: Chain, tests: Sequence[Expression]) -> ShapedNode:
        """A chain. Filters that read a variable of BIND are tested at its end, the others are
        pushed down."""
        bound = {name for name, _ in chain.bindings}
        filters = [each for written in chain.filters for each in conjuncts(written)]
        inner = chain.pattern
        within = chain.within
        if isinstance(inner, Combination) and inner.operator in _BOUNDED and inner.bound is not None:
            filters = [each for each in filters if not _is_limit(each, inner.bound)]
            within = None  # implied: the operator's bound is at most WITHIN
        late = [each for each in [*filters, *tests] if not bound.isdisjoint(free_variables(each))]
        early = [each for each in [*filters, *tests] if each not in late]
        if self._policy is not UsePolicy.UNRESTRICTED or not isinstance(inner, Combination):
            at_end = [each for each in early if reads_interval([each]) or self._policy is not UsePolicy.UNRESTRICTED]
            below = self.compile(inner, [each for each in early if each not in at_end])
            return self._ended(below, [*at_end, *late], chain.bindings, within)
        return self._ended(self._combination(inner, early), late, chain.bindings, within)

    # --- operators ---

    def _combination(self, pattern: Combination, tests: Sequence[Expression]) -> ShapedNode:
        """An operator; the tests are those of its chain and may read the interval of the chain."""
        operator = pattern.operator
        here = list(tests)
        below: dict[str, list[Expression]] = {"left": [], "right": []}
        if operator.is_optional or self._policy is not UsePolicy.UNRESTRICTED:
            after, here = here, list(pattern.condition)
        else:
            after = []
            shapes = {"left": shape_of(pattern.left), "right": shape_of(pattern.right)}
            for test in tests:
                for side, other in (("left", "right"), ("right", "left")):
                    if _is_decided(test, shapes[side], shapes[other]):
                        below[side].append(test)
                        here.remove(test)
                        break
        left, right = self.compile(pattern.left, below["left"]), self.compile(pattern.right, below["right"])
        conditions = IntervalExpressions(tuple(here), self._clock, note=None if operator.is_optional else self._note)
        match operator:
            case TemporalOperator.SEQ | TemporalOperator.OPTIONALSEQ:
                node = self._strict(pattern, left, right, conditions)
            case TemporalOperator.AND:
                node = self._conjunction(pattern, left, right, conditions)
            case TemporalOperator.EQUALS | TemporalOperator.EQUALSOPTIONAL:
                node = self._equals(pattern, left, right, conditions)
        match operator:
            case TemporalOperator.OPTIONALSEQ:
                shape = right.shape.optionally(left.shape)
            case TemporalOperator.EQUALSOPTIONAL:
                shape = left.shape.optionally(right.shape)
            case _:
                shape = left.shape.joined(right.shape)
        return self._ended(ShapedNode(node, shape), after)

    def _search(
        self, relation: Relation, bound: Micros | None, pairing: Pairing, conditions: IntervalExpressions, *, optional: bool, x_left: bool
    ) -> PairedSearch:
        return PairedSearch(pairing, relation, bound, conditions, optional, x_left, self._limits, self._policy, self._traced)

    @property
    def _is_free(self) -> bool:
        return self._policy is UsePolicy.UNRESTRICTED

    def _store(self, kept: ShapedNode, bound: Micros, pairing: Pairing) -> SolutionStore:
        mask = kept.node.mask
        first = (mask & -mask).bit_length() - 1  # of the bits 0b1100, that of leaf 2
        return SolutionStore(bound, compile_insertion(pairing, "y"), has_log=self._is_free, names=kept.shape.names, first=first)

    def _strict(self, pattern: Combination, left: ShapedNode, right: ShapedNode, conditions: IntervalExpressions) -> TreeNode:
        bound = _bound(pattern)
        pairing = _pairing(right.shape, left.shape, conditions)
        search = self._search(Relation.AFTER, bound, pairing, conditions, optional=pattern.operator.is_optional, x_left=False)
        store = self._store(left, bound, pairing)
        if self._is_free:
            return StrictNode(left.node, right.node, search.compile_find(), store)
        return ChoosingStrictNode(_operand(left), _operand(right), search.compile_choose(), store)

    def _conjunction(self, pattern: Combination, left: ShapedNode, right: ShapedNode, conditions: IntervalExpressions) -> TreeNode:
        bound = _bound(pattern)
        pairings = _pairing(right.shape, left.shape, conditions), _pairing(left.shape, right.shape, conditions)
        searches = [
            self._search(Relation.ANY, bound, pairing, conditions, optional=False, x_left=x_left)
            for pairing, x_left in zip(pairings, (False, True), strict=True)
        ]
        lefts, rights = [self._store(side, bound, pairing) for side, pairing in zip((left, right), pairings, strict=True)]
        if self._is_free:
            return ConjunctionNode(left.node, right.node, (searches[0].compile_find(), searches[1].compile_find()), (lefts, rights))
        chooses = searches[0].compile_choose(), searches[1].compile_choose()
        return ChoosingConjunctionNode(_operand(left), _operand(right), chooses, (lefts, rights))

    def _equals(self, pattern: Combination, left: ShapedNode, right: ShapedNode, conditions: IntervalExpressions) -> TreeNode:
        optional = pattern.operator.is_optional
        bound = pattern.within if optional else pattern.bound
        one, other = (left, right) if optional else (right, left)
        pairing = _pairing(one.shape, other.shape, conditions)
        search = self._search(Relation.SAME, bound, pairing, conditions, optional=optional, x_left=optional)
        insert = compile_insertion(pairing, "y", "y[1]")
        if self._is_free:
            return EqualsNode(left.node, right.node, search.compile_find(), insert, is_left_sought=not optional)
        return ChoosingEqualsNode(_operand(left), _operand(right), search.compile_choose(), insert, is_left_sought=not optional)


_BOUNDED = (TemporalOperator.SEQ, TemporalOperator.AND, TemporalOperator.EQUALS)
"""The operators whose combinations are never longer than their bound."""


def _bound(pattern: Combination) -> Micros:
    """The bound (µs) of an operator that keeps solutions."""
    return LAST_MICRO if pattern.bound is None else pattern.bound


def _operand(below: ShapedNode) -> Operand:
    return Operand(below.node, below.shape.names)


def _pairing(x: Shape, y: Shape, conditions: IntervalExpressions) -> Pairing:
    """The pairing of x and y, with the pairs of variables that a condition `?a = ?b` equates."""
    equated: list[tuple[Variable, Variable]] = []
    own = x.certain - set(y.names), y.certain - set(x.names)
    for test in (each for written in conditions.expressions for each in conjuncts(written)):
        match test:
            case Call("=", (Var(one), Var(other))) if one in own[0] and other in own[1]:
                equated.append((one, other))
            case Call("=", (Var(other), Var(one))) if one in own[0] and other in own[1]:
                equated.append((one, other))
            case _:
                pass
    return Pairing(x, y, tuple(sorted(equated)))


def _is_decided(test: Expression, side: Shape, other: Shape) -> bool:
    """True if a test has the same result for a solution of one side as for each of its
    combinations."""
    names = free_variables(test)
    if reads_interval([test]) or not names:
        return False
    return all(name in side.names and (name in side.certain or name not in other.names) for name in names)


def _is_limit(test: Expression, bound: Micros) -> bool:
    """True for `getDURATION() <= d`, `< d` or mirrored if the bound implies it."""
    match test:
        case Call(("<" | "<=") as function, (Var(name), Const(term))) | Call((">" | ">=") as function, (Const(term), Var(name))):
            limit = read(term)
            if name != DURATION or not isinstance(limit, Duration) or limit.months:
                return False
            length = limit.seconds * 1_000_000
            return bound < length if function in ("<", ">") else bound <= length
        case _:
            return False


# Generated functions of single solutions: the end of a chain (BIND, FILTER, WITHIN), and the
# common row form of the branches of a UNION.
#
# Source: ep-sparql.md, section 2.

FinishSolutions: TypeAlias = Callable[[list[IntervalSolution]], list[IntervalSolution]]


def compile_end(
    shape: Shape,
    bindings: Sequence[tuple[Variable, Expression]],
    filters: Sequence[Expression],
    within: Micros | None,
    clock: Clock,
    note: ConditionNote | None = None,
) -> FinishSolutions:
    """Generates BIND, FILTER and WITHIN of a chain over a pattern of the shape `shape`.

    `note` is called where FILTERs are an error.

    For `BIND(?k AS ?m) FILTER(BOUND(?m)) WITHIN 5 s`:

    >>> from inspect import getsource
    >>> from dotr.model.algebra import Call, Var
    >>> chain = [("m", Var("k"))], [Call("BOUND", (Var("m"),))], 5_000_000
    >>> print(getsource(compile_end(Shape(("k",), frozenset("k")), *chain, Clock())))
    def finish(solutions):
        found = []
        for z in solutions:
            e, s, v, p = z
            if e - s > 5000000: continue
            b0 = bind0(v[0])
            if not holds(b0): continue
            found.append((e, s, (v[0], b0,), p))
        return found
    <BLANKLINE>
    >>> finish = compile_end(Shape(("k",), frozenset("k")), [], [], 5, Clock())
    >>> finish([(9, 4, ('"1"',), ()), (9, 3, ('"2"',), ())])
    [(9, 4, ('"1"',), ())]
    """
    lines = ["e, s, v, p = z"]
    known: dict[str, object] = {}
    if within is not None:
        lines.append(f"if e - s > {within}: continue")
    bound: dict[Variable, str] = {}

    def term(name: Variable) -> str:
        return bound[name] if name in bound else f"v[{shape.place(name)}]" if name in shape.names else "None"

    for number, (name, expression) in enumerate(bindings):
        value = IntervalExpressions((expression,), clock, f"bind{number}")
        known |= value.as_value()
        lines.append(f"b{number} = {value.call(term, 's', 'e')}")
        bound[name] = f"b{number}"
    if filters:
        conditions = IntervalExpressions(tuple(filters), clock, note=note)
        known |= conditions.as_conditions()
        lines.append(f"if not {conditions.call(term, 's', 'e')}: continue")
    names = shape.extended([name for name, _ in bindings]).names
    result = f"(e, s, ({', '.join(map(term, names))},), p)" if bindings else "z"
    return _define([*lines, f"found.append({result})"], known)


def compile_rows(shape: Shape, common: Shape) -> FinishSolutions:
    """Generates the conversion of a branch's rows to the common shape of a UNION.

    >>> rows = compile_rows(Shape(("b",), frozenset("b")), Shape(("a", "b"), frozenset("b")))
    >>> rows([(9, 4, ('"1"',), ())])
    [(9, 4, (None, '"1"'), ())]
    """
    if shape.names == common.names:
        return list
    terms = [f"v[{shape.place(name)}]" if name in shape.names else "None" for name in common.names]
    return _define(["e, s, v, p = z", f"found.append((e, s, ({', '.join(terms)},), p))"], {})


def _define(lines: Sequence[str], known: dict[str, object]) -> FinishSolutions:
    body = "".join(f"        {line}\n" for line in lines)
    return define(
        f"def finish(solutions):\n    found = []\n    for z in solutions:\n{body}    return found\n", "interval chain", "finish", known
    )
