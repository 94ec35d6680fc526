"""Tree of operators of one unit, with its state (ep-sparql.md, sections 2, 5 and 7).

Idea: the tree is driven by arrivals. A moment has two halves: first the new solutions of the whole
pattern, from what is read now; then what is strictly past from now on is kept, for which events of
the same moment may still come. So recursion through SEQ needs no order of units.
Invariant: the state is the kept solutions; what a policy has used is not among them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from dotr.joins.limits import LIMITS, LimitExceeded, Limits
from dotr.model.intervals import IntervalPattern, UsePolicy
from dotr.model.terms import Variable
from dotr.model.time import Clock, Micros
from dotr.patterns.intervals.compile import TreeCompiler
from dotr.patterns.intervals.nodes import TreeMoment
from dotr.patterns.intervals.solutions import IntervalSolution

_SECONDS: Final = Clock()


class NewSolutions(NamedTuple):
    """The solutions of a moment; none where an operator has gone over a limit, `exceeded`."""

    solutions: list[IntervalSolution]
    exceeded: LimitExceeded | None


class PatternTree:
    """A pattern with its kept solutions.

    - `names`: the variables of a solution, sorted.

    Operands are numbered in the order of the text, and their values follow their sorted variables.
    """

    def __init__(
        self,
        pattern: IntervalPattern,
        policy: UsePolicy = UsePolicy.UNRESTRICTED,
        clock: Clock = _SECONDS,
        limits: Limits = LIMITS,
        *,
        traced: bool = False,
    ) -> None:
        compiled = TreeCompiler(policy, clock, limits, traced=traced).compile(pattern)
        self._root = compiled.node
        self._stores = tuple(compiled.node.all_stores())
        self.names: tuple[Variable, ...] = compiled.shape.names

    def new(self, now: Micros, arrived: Mapping[int, list[IntervalSolution]]) -> NewSolutions:
        """The solutions of the pattern that end now, in µs, after all moments before.

        Args:
            arrived: the new solutions of operands, by number.
        """
        moment = TreeMoment(now, arrived)
        solutions = self._root.new(moment) if moment.mask else []
        return NewSolutions([] if moment.exceeded else solutions, moment.exceeded)

    def keep(self, now: Micros, arrived: Mapping[int, list[IntervalSolution]]) -> LimitExceeded | None:
        """Keep what of a moment is strictly past afterwards; called after `new` for the same time,
        with all that has arrived at operands on the left of SEQ and OPTIONALSEQ.

        Returns the limit that an operator there has gone over.
        """
        moment = TreeMoment(now, arrived)
        if moment.mask:
            self._root.keep(moment)
        return moment.exceeded

    def expire(self, now: Micros) -> None:
        """Forget what no later moment than `now`, in µs, can combine."""
        for store in self._stores:
            store.expire(now - store.bound)

    def __len__(self) -> int:
        """The number of kept solutions, one for each operator that keeps them."""
        return sum(map(len, self._stores))

    def to_json(self) -> str:
        """The state as JSON."""
        return json.dumps([[[end, start, values] for end, start, values, _ in store] for store in self._stores])

    def restore(self, text: str) -> None:
        """The inverse of `to_json`; what is kept now is forgotten."""
        for store, solutions in zip(self._stores, json.loads(text), strict=True):
            store.clear()
            for end, start, values in solutions:
                store.add([(end, start, tuple(values), ())], end)
