"""Nodes of a tree of operators without a policy: the solutions that are new at a moment.

Idea: the tree is evaluated once per moment, bottom up; an operand without arrivals below it is
skipped. A left solution of a strict operator (SEQ, OPTIONALSEQ) combines only with later right
ones, so the left operand is evaluated and stored after the rest of the moment.
Invariant: `new` returns the solutions that end at the moment, each once; the stores hold the
earlier solutions that can still be combined.
Source: ep-sparql.md, sections 2 and 7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from dotr.evaluation.limits import LimitExceeded
from dotr.model.time import Micros
from dotr.temporal.intervals.pairs import FindCombinations
from dotr.temporal.intervals.solutions import IntervalSolution
from dotr.temporal.intervals.store import InsertSolutions, SolutionIndex, SolutionStore, indexed

NO_SOLUTIONS: Final[list[IntervalSolution]] = []


class TreeMoment:
    """The solutions that arrive at one time `now` (µs), by the number of their operand.

    `exceeded` is the error of the first limit that an operator has exceeded at this moment.
    """

    __slots__ = ("arrived", "exceeded", "mask", "now")

    def __init__(self, now: Micros, arrived: Mapping[int, list[IntervalSolution]]) -> None:
        self.now = now
        self.arrived = arrived
        self.mask = sum([1 << leaf for leaf in arrived])
        self.exceeded: LimitExceeded | None = None


class TreeNode(ABC):
    """A node; `mask` has the bits of the operands below it."""

    mask: int

    @abstractmethod
    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        """The solutions that end now; the list is never modified afterwards.

        Called once per moment, and only if a solution has arrived below the node.
        """

    @property
    def inner(self) -> Sequence[TreeNode]:
        """The nodes directly below."""
        return ()

    def keep(self, moment: TreeMoment) -> None:
        """Stores the left solutions of strict operators, for later moments; called after `new`."""
        for each in self.inner:
            if each.mask & moment.mask:
                each.keep(moment)

    @property
    def stores(self) -> Sequence[SolutionStore]:
        """The stores of this node alone."""
        return ()

    def all_stores(self) -> Iterator[SolutionStore]:
        """The stores of this node and below, in a fixed order."""
        for each in self.inner:
            yield from each.all_stores()
        yield from self.stores


class LeafNode(TreeNode):
    """A plain group or an EVENT."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.mask = 1 << number

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        return moment.arrived.get(self.number, NO_SOLUTIONS)


class UnionNode(TreeNode):
    """UNION; `rows` convert the rows of each branch to the common shape."""

    def __init__(self, branches: Sequence[TreeNode], rows: Sequence[Callable[[list[IntervalSolution]], list[IntervalSolution]]]) -> None:
        self._branches = tuple(branches)
        self._rows = tuple(rows)
        self.mask = 0
        for each in branches:
            self.mask |= each.mask

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        found: list[IntervalSolution] = []
        for branch, rows in zip(self._branches, self._rows, strict=True):
            if branch.mask & moment.mask:
                found += rows(branch.new(moment))
        return found

    @property
    def inner(self) -> Sequence[TreeNode]:
        return self._branches


class EndNode(TreeNode):
    """The end of a chain: BIND, FILTER and WITHIN as one function of solutions."""

    def __init__(self, pattern: TreeNode, finish: Callable[[list[IntervalSolution]], list[IntervalSolution]]) -> None:
        self._pattern = pattern
        self._finish = finish
        self.mask = pattern.mask

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        solutions = self._pattern.new(moment)
        return self._finish(solutions) if solutions else solutions

    @property
    def inner(self) -> Sequence[TreeNode]:
        return (self._pattern,)


class PairNode(TreeNode):
    """An operator of two operands."""

    def __init__(self, left: TreeNode, right: TreeNode) -> None:
        self.left = left
        self.right = right
        self.mask = left.mask | right.mask

    @property
    def inner(self) -> Sequence[TreeNode]:
        return self.left, self.right

    def found(
        self, find: FindCombinations, xs: Sequence[IntervalSolution], index: SolutionIndex, moment: TreeMoment
    ) -> list[IntervalSolution]:
        """The combinations that a search finds; none if it exceeds a limit."""
        found: list[IntervalSolution] = []
        try:
            find(xs, index, moment.now, found)
        except LimitExceeded as error:
            moment.exceeded = moment.exceeded or error
            return []
        return found


class StrictNode(PairNode):
    """SEQ and OPTIONALSEQ: the solutions on the left are kept."""

    def __init__(self, left: TreeNode, right: TreeNode, find: FindCombinations, store: SolutionStore) -> None:
        super().__init__(left, right)
        self._find = find
        self._store = store

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        if not self.right.mask & moment.mask:
            return NO_SOLUTIONS
        xs = self.right.new(moment)
        return self.found(self._find, xs, self._store.index, moment) if xs else xs

    def keep(self, moment: TreeMoment) -> None:
        if self.right.mask & moment.mask:
            self.right.keep(moment)
        if self.left.mask & moment.mask:
            solutions = self.left.new(moment)
            if solutions:
                self._store.add(solutions, moment.now)
            self.left.keep(moment)

    @property
    def stores(self) -> Sequence[SolutionStore]:
        return (self._store,)


class ConjunctionNode(PairNode):
    """AND: the solutions of both sides are kept.

    New right solutions are combined with all left ones, new left solutions with the older right
    ones.
    """

    def __init__(
        self, left: TreeNode, right: TreeNode, finds: tuple[FindCombinations, FindCombinations], stores: tuple[SolutionStore, SolutionStore]
    ) -> None:
        super().__init__(left, right)
        self._find_left, self._find_right = finds
        self._lefts, self._rights = stores

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        ones = self.left.new(moment) if self.left.mask & moment.mask else NO_SOLUTIONS
        others = self.right.new(moment) if self.right.mask & moment.mask else NO_SOLUTIONS
        found: list[IntervalSolution] = []
        if ones:
            self._lefts.add(ones, moment.now)
        if others:
            found = self.found(self._find_left, others, self._lefts.index, moment)
        if ones:
            found = found + self.found(self._find_right, ones, self._rights.index, moment)
        if others:
            self._rights.add(others, moment.now)
        return found

    @property
    def stores(self) -> Sequence[SolutionStore]:
        return self._lefts, self._rights


class EqualsNode(PairNode):
    """EQUALS and EQUALSOPTIONAL; without state.

    `is_left_sought`: left solutions are looked up for each right one; otherwise the reverse.
    """

    def __init__(self, left: TreeNode, right: TreeNode, find: FindCombinations, insert: InsertSolutions, *, is_left_sought: bool) -> None:
        super().__init__(left, right)
        self._find = find
        self._insert = insert
        self._sought, self._seeking = (left, right) if is_left_sought else (right, left)
        self._is_optional = not is_left_sought

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        xs = self._seeking.new(moment) if self._seeking.mask & moment.mask else NO_SOLUTIONS
        ys = self._sought.new(moment) if self._sought.mask & moment.mask else NO_SOLUTIONS
        if not xs or not (ys or self._is_optional):
            return NO_SOLUTIONS
        index = indexed(self._insert, ys)
        return self.found(self._find, xs, index, moment)
