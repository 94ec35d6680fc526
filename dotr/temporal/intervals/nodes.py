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
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

from dotr.evaluation.codegen import define
from dotr.evaluation.expressions import equality_key
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.temporal.intervals.conditions import IntervalExpressions
from dotr.temporal.intervals.patterns import UsePolicy
from dotr.temporal.intervals.solutions import IntervalSolution, Pairing
from dotr.temporal.intervals.store import InsertSolutions, SolutionIndex, SolutionStore, indexed

# Generated functions that combine the new solutions of one side, x, with solutions of the other,
# y.
#
# Idea: every operator is a look-up: for each x the run of its key, from the newest y back to the
# first that ended before the horizon. The relation of the intervals, the common variables outside the
# key and the pushed-down tests are conditions in the loop, so that rejected combinations are not
# built.
# Invariant: all x end now. The runs are in the order of ends.
# Cost: for each x the solutions y of its key inside the bound. If there are more than `UNCOUNTED`,
# they count against the limit of probes; combinations count against the limit of rows.
# Source: ep-sparql.md, sections 2 and 7 (Anicic et al., section 5).


UNCOUNTED: Final = 64
"""The length of a run up to which a look-up does not count against the limit of probes."""

FindCombinations: TypeAlias = Callable[[Sequence[IntervalSolution], SolutionIndex, Micros, list[IntervalSolution]], None]
"""`find(xs, index, now, found)` appends combinations, and uncombined solutions x if y is optional.
Raises `LimitExceeded`.
"""

ChooseCombinations: TypeAlias = Callable[
    [Sequence[IntervalSolution], SolutionIndex, Micros, list[IntervalSolution], list["Taken"], list[IntervalSolution]], None
]
"""`choose(xs, index, now, found, taken, left)` does the same under a policy: it removes each used y
from its run, appends it to `taken`, and appends each uncombined x to `left`.
"""

Taken: TypeAlias = tuple[list[IntervalSolution], int, IntervalSolution]
"""A solution that was used: its run, its former position there, and itself."""


class Relation(Enum):
    """Relation of the intervals of x and y. In each of them y has ended by now.

    - AFTER: y ends before x starts.
    - ANY: no condition.
    - SAME: equal intervals. The index holds one moment, and its keys begin with the start.
    """

    AFTER = "after"
    ANY = "any"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class PairedSearch:
    """A search of combinations, to be compiled.

    - `bound`: the maximal duration of a combination in µs; None: unbounded.
    - `tests`: conditions on the combination.
    - `is_optional`: an x without a partner is a solution by itself.
    - `is_x_left`: x is the operator's left operand, whose parts come first.
    - `traced`: solutions hold the leaf solutions that they combine.
    """

    pairing: Pairing
    relation: Relation
    bound: Micros | None
    tests: IntervalExpressions
    is_optional: bool
    is_x_left: bool
    limits: Limits
    policy: UsePolicy = UsePolicy.UNRESTRICTED
    traced: bool = False

    def compile_find(self) -> FindCombinations:
        """The function without a policy. For `{ ?c :p ?x } SEQ { ?c :q ?y }` within 9 s:

        >>> from inspect import getsource
        >>> from dotr.model.time import Clock
        >>> from dotr.temporal.intervals.solutions import Shape
        >>> pairing = Pairing(Shape(("c", "x"), frozenset("cx")), Shape(("c", "y"), frozenset("cy")))
        >>> search = PairedSearch(pairing, Relation.AFTER, 9_000_000, IntervalExpressions((), Clock()), False, False, Limits())
        >>> print(getsource(search.compile_find()))
        def find(xs, index, now, found):
            low = now - 9000000
            tried = 0
            for x in xs:
                _, sx, vx, px = x
                run = index.get(vx[0])
                if run is not None:
                    for y in reversed(run):
                        ey, sy, vy, py = y
                        if ey < low: break
                        if ey >= sx or sy < low: continue
                        found.append((now, sy, (vx[0], vx[1], vy[1],), ()))
                    if len(run) > 64:
                        tried += len(run) - bisect_left(run, (low,))
                        if tried > 20000000:
                            raise LimitExceeded(20000000, 'solutions looked at')
                if len(found) > 1000000:
                    raise LimitExceeded(1000000, 'combinations')
        <BLANKLINE>
        """
        lines = [
            *self._opening(),
            *self._indented(2, ["alone = True"] if self.is_optional else []),
            "        if run is not None:",
            "            for y in reversed(run):",
            *self._indented(4, self._conditions(ends="break")),
            f"                found.append({self._combination()})",
            *self._indented(4, ["alone = False"] if self.is_optional else []),
            f"            if len(run) > {UNCOUNTED}:",
            *self._indented(4, self._counted("len(run)" if self.bound is None else "len(run) - bisect_left(run, (low,))")),
            *self._indented(2, ["if alone:", f"    found.append((now, sx, {self.pairing.alone()}, px))"] if self.is_optional else []),
            f"        if len(found) > {self.limits.rows}:",
            f"            raise LimitExceeded({self.limits.rows}, 'combinations')",
        ]
        find: FindCombinations = self._define("find", "xs, index, now, found", lines)
        return find

    def compile_choose(self) -> ChooseCombinations:
        """The function under a policy: the first y from the newest back (RECENT), or from the
        oldest inside the bound on (CHRONOLOGICAL), that can be combined. For `{A} SEQ {B}` under
        RECENT, with one run:

            for x in xs:
                _, sx, vx, px = x
                run = index.get(None)
                chosen = False
                if run:
                    for i in range(len(run) - 1, -1, -1):
                        y = run[i]
                        ey, sy, vy, py = y
                        if ey < low: break
                        if ey >= sx or sy < low: continue
                        chosen = True
                        break
                if chosen:
                    found.append((now, sy, (…), ()))
                    taken.append((run, i, y))
                    del run[i]
                else:
                    left.append(x)
        """
        recent = self.policy is UsePolicy.RECENT
        begin = "0" if self.bound is None else "0 if run[0][0] >= low else bisect_left(run, (low,))"
        alone = ["left.append(x)"]
        if self.is_optional:
            alone.append(f"found.append((now, sx, {self.pairing.alone()}, px))")
        lines = [
            *self._opening(),
            "        chosen = False",
            "        if run:",
            "            i = len(run)" if recent else f"            i = begin = {begin}",
            f"            for i in {'range(len(run) - 1, -1, -1)' if recent else 'range(begin, len(run))'}:",
            "                y = run[i]",
            *self._indented(4, self._conditions(ends="break" if recent else "")),
            "                chosen = True",
            "                break",
            f"            if len(run) > {UNCOUNTED}:",
            *self._indented(4, self._counted(f"len(run) - max(i, ({begin}))" if recent else "i - begin + 1")),
            "        if chosen:",
            f"            found.append({self._combination()})",
            "            taken.append((run, i, y))",
            "            del run[i]",
            "        else:",
            *self._indented(3, alone),
        ]
        choose: ChooseCombinations = self._define("choose", "xs, index, now, found, taken, left", lines)
        return choose

    # --- parts of the text ---

    def _opening(self) -> list[str]:
        lines = [] if self.bound is None else [f"    low = now - {self.bound}"]
        key = self.pairing.key("x", *(["sx"] if self.relation is Relation.SAME else []))
        return [*lines, "    tried = 0", "    for x in xs:", "        _, sx, vx, px = x", f"        run = index.get({key})"]

    def _conditions(self, ends: str) -> list[str]:
        """The lines that skip a candidate. `ends`: the statement at a candidate that ended before
        the bound (`break` in a loop to older ones); empty: no such test.
        """
        lines = ["ey, sy, vy, py = y"]
        if self.bound is not None and ends and self.relation is not Relation.SAME:
            lines.append(f"if ey < low: {ends}")
        elif self.relation is Relation.AFTER and self.policy is UsePolicy.CHRONOLOGICAL:
            lines.append("if ey >= sx: break")
        passed = ["ey >= sx"] if self.relation is Relation.AFTER else []
        if self.bound is not None:
            passed.append("sy < low")
            if self.relation is not Relation.AFTER:
                passed.append("sx < low")
        if passed:
            lines.append(f"if {' or '.join(passed)}: continue")
        lines += [f"if {each}: continue" for each in self.pairing.conflicts()]
        if not self.tests.is_empty:
            lines.append(f"if not {self.tests.call(self.pairing.term, self._start(), 'now')}: continue")
        return lines

    def _start(self) -> str:
        match self.relation:
            case Relation.AFTER:
                return "sy"
            case Relation.SAME:
                return "sx"
            case Relation.ANY:
                return "(sx if sx < sy else sy)"

    def _combination(self) -> str:
        parts = "()" if not self.traced else "px + py" if self.is_x_left else "py + px"
        return f"(now, {self._start()}, {self.pairing.values()}, {parts})"

    def _counted(self, count: str) -> list[str]:
        """The lines that add a count to the probes of the look-up and check their limit."""
        most = self.limits.probes
        return [f"tried += {count}", f"if tried > {most}:", f"    raise LimitExceeded({most}, 'solutions looked at')"]

    @staticmethod
    def _indented(levels: int, lines: Sequence[str]) -> list[str]:
        return ["    " * levels + line for line in lines]

    def _define(self, name: str, parameters: str, lines: Sequence[str]) -> Any:
        text = f"def {name}({parameters}):\n" + "\n".join(lines) + "\n"
        known: dict[str, object] = {"bisect_left": bisect_left, "equality_key": equality_key, "LimitExceeded": LimitExceeded}
        if not self.tests.is_empty:
            known |= self.tests.as_conditions()
        return define(text, "interval operator", name, known)


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
