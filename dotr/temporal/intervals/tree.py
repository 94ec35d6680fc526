"""Tree of operators of one unit, with its state (ep-sparql.md, sections 2, 5 and 7).

Idea: the tree is driven by arrivals. A moment has two phases: `new` computes the new solutions of
the whole pattern; `keep` then stores the left solutions of strict operators, among them those from
events that other units derive at the same moment. So recursion through SEQ needs no order of units.
Invariant: the state is the stored solutions without those that a policy has used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from dotr.evaluation.limits import LIMITS, Limits
from dotr.model.terms import Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.intervals.compile import TreeCompiler
from dotr.temporal.intervals.conditions import ConditionNote
from dotr.temporal.intervals.nodes import TreeMoment
from dotr.temporal.intervals.patterns import IntervalPattern, UsePolicy
from dotr.temporal.intervals.solutions import IntervalSolution
from dotr.temporal.intervals.store import SolutionStore

_SECONDS: Final = Clock()


class PatternTree:
    """A compiled pattern with its stored solutions.

    - `names`: the variables of a solution, sorted.
    - `note`: called where a FILTER of a chain is an error.

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
        note: ConditionNote | None = None,
    ) -> None:
        compiled = TreeCompiler(policy, clock, limits, traced=traced, note=note).compile(pattern)
        self._root = compiled.node
        self._stores = tuple(compiled.node.all_stores())
        self.names: tuple[Variable, ...] = compiled.shape.names

    def new(self, moment: TreeMoment) -> list[IntervalSolution]:
        """The solutions of the pattern that end at a moment, later than all moments before.

        An operator that exceeds a limit yields nothing, and `moment.exceeded` is the error.
        """
        return self._root.new(moment) if moment.mask else []

    def keep(self, moment: TreeMoment) -> None:
        """Stores the left solutions of SEQ and OPTIONALSEQ.

        Called after `new` for the same time, with all arrivals at their left operands.
        """
        if moment.mask:
            self._root.keep(moment)

    def expire(self, now: Micros) -> None:
        """Removes the solutions that no moment after `now` (µs) can combine."""
        for store in self._stores:
            store.expire(now - store.bound)

    def __len__(self) -> int:
        """The number of stored solutions, each counted once per operator that stores it."""
        return sum(map(len, self._stores))

    @property
    def stores(self) -> Sequence[SolutionStore]:
        """The stores of all operators, in a fixed order."""
        return self._stores

    def places_of_keys(self, keys: Sequence[Variable]) -> Sequence[int]:
        """For each store the position of the partition key in a solution's values; `keys` has the
        variable of the key for each operand.

        >>> from dotr.languages.epsparql.reading import compile_temporal
        >>> from dotr.model.places import Document
        >>> text = "REGISTER QUERY Q AS SELECT ?c WHERE { ?c :price ?b } SEQ { ?c :price ?a } WITHIN 9 s"
        >>> (unit,) = compile_temporal([Document("q.epsparql", text)], {"": "http://e/"}).checked().units
        >>> PatternTree(unit.where).places_of_keys(["c", "c"])
        [1]
        """
        return [store.names.index(keys[store.first]) for store in self._stores]

    @property
    def logs(self) -> Sequence[SolutionStore]:
        """The stores that have a log: all, without a policy."""
        return [store for store in self._stores if store.log is not None]

    def to_json(self, *, whole: bool) -> str:
        """The state as JSON; `whole`: with the solutions of the logs."""
        return json.dumps(
            [[[end, start, values] for end, start, values, _ in store] if whole or store.log is None else [] for store in self._stores]
        )

    def restore(self, text: str) -> None:
        """The inverse of `to_json`; replaces the present state."""
        for store, solutions in zip(self._stores, json.loads(text), strict=True):
            store.clear()
            for end, start, values in sorted(solutions, key=itemgetter(0)):
                store.add([(end, start, tuple(values), ())], end)
