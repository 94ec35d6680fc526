"""Nodes under CHRONOLOGICAL and RECENT: each operator uses a solution in one combination at most.

Idea: the solutions of a moment are processed in ascending ≺. Each is combined with the least
(CHRONOLOGICAL) or greatest (RECENT) compatible unused solution of the other side. A used solution
is removed from its store; a search that exceeds a limit uses nothing.
Invariant: a run of a store is ascending in ≺: by end, start, then ties over all variables.
Cost: for each new solution, the solutions of its key up to the one chosen.
Source: ep-sparql.md, section 2.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from dotr.evaluation.limits import LimitExceeded
from dotr.model.terms import Variable
from dotr.temporal.intervals.nodes import NO_SOLUTIONS, PairNode, TreeMoment, TreeNode
from dotr.temporal.intervals.pairs import ChooseCombinations, Taken
from dotr.temporal.intervals.solutions import IntervalSolution, in_order
from dotr.temporal.intervals.store import InsertSolutions, SolutionIndex, SolutionStore, indexed


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
