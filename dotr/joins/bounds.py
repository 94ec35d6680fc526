"""How much a join can cost at worst, by the number of an instant's triples: whether its work needs to be counted.

Idea: a loop over what is new has at most as many turns as there are new triples; one over a term's triples in the background at most as
many as the term that has most. The product bounds the join. Most joins follow links that are few, so that no instant of ordinary size
can take them over a limit, and these run without counting.
Invariant: the bound holds for every instant of that size.
Cost: a pass over a predicate's table when a join that reads it is first bounded; for a mapped background two numbers of its directory.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, cast

from dotr.joins.order import JoinStep, Side
from dotr.model.algebra import Const, Slot, TermPattern, TriplePattern
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables
from dotr.store.mapped_index import MappedEnds
from dotr.store.triples import NO_ENDS, NO_TERMS, Ends, TripleIndex

_SIZES: Final = (256, 128, 64, 32, 16, 8, 4)


class FanoutBounds:
    """How far single look-ups in a background can reach."""

    def __init__(self, background: TripleIndex) -> None:
        self._background = background
        self._max_fanouts: dict[tuple[bool, Term], int] = {}

    def safe_size(self, steps: Collection[JoinStep], rows: int, max_work: int) -> int:
        """A number of new triples up to which a join of these steps, with so many rows of tables behind them, does no more work than
        that; 0 where there is none.

        >>> from dotr.model.algebra import Var
        >>> rooms = FanoutBounds(TripleIndex([(f"<s{n}>", "<in>", "<room>") for n in range(500)]))
        >>> reading = (TriplePattern(Var("r"), Const("<from>"), Var("s")), Side.NEW)
        >>> room = (TriplePattern(Var("s"), Const("<in>"), Var("room")), Side.BACKGROUND)
        >>> other = (TriplePattern(Var("t"), Const("<in>"), Var("room")), Side.BACKGROUND)
        >>> rooms.safe_size([reading, room], 1, 10_000), rooms.safe_size([reading, room, other], 1, 10_000)
        (256, 8)
        """
        return next((size for size in _SIZES if self._work(steps, rows, size) <= max_work), 0)

    def _work(self, steps: Collection[JoinStep], rows: int, size: int) -> float:
        turns, work = 1.0, 0.0
        bound: set[Variable] = set()
        for step in steps:
            if isinstance(step, tuple):
                pattern, side = step
                turns *= self._max_matches(pattern, side, bound, size)
                work += turns
                bound.update(free_variables(pattern))
            elif isinstance(step, TermPattern):
                bound.update(free_variables(step))
        return work + turns * rows

    def _max_matches(self, pattern: TriplePattern, side: Side, bound: Collection[Variable], size: int) -> int:
        """The most matches of a pattern for one solution."""
        subject, predicate, object = (
            isinstance(slot, Const) or slot.name in bound for slot in (pattern.subject, pattern.predicate, pattern.object)
        )
        if subject and predicate and object:
            return 1
        of_new = 0 if side is Side.BACKGROUND else size
        if side is Side.DELTA:
            return of_new
        if not isinstance(pattern.predicate, Const):
            return of_new + len(self._background)
        term = pattern.predicate.term
        if not (subject or object):
            return of_new + self._max_fanout(True, term) * len(self._background.by_subject.get(term, NO_ENDS))
        return of_new + self._max_other_ends(subject, term, pattern.subject if subject else pattern.object)

    def _max_other_ends(self, by_subject: bool, predicate: Term, end: Slot) -> int:
        if isinstance(end, Const):
            tables = self._background.by_subject if by_subject else self._background.by_object
            return len(tables.get(predicate, NO_ENDS).get(end.term, NO_TERMS))
        return self._max_fanout(by_subject, predicate)

    def _max_fanout(self, by_subject: bool, predicate: Term) -> int:
        found = self._max_fanouts.get((by_subject, predicate))
        if found is None:
            tables = self._background.by_subject if by_subject else self._background.by_object
            found = self._max_fanouts[by_subject, predicate] = _longest_list(tables.get(predicate, NO_ENDS))
        return found


def _longest_list(ends: object) -> int:
    """The most other ends that an end has, or more."""
    if isinstance(ends, MappedEnds):
        return ends.longest
    return max(map(len, cast(Ends, ends).values()), default=0)
