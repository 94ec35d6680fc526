"""Worst-case work of a join by the size of the delta: joins that cannot reach a limit run
uncounted.

Idea: a loop over the delta has at most one iteration for each delta triple; a loop over a term's
background triples has at most as many as the largest fan-out of a term. The product bounds the
join. Most joins follow links of small fan-out, so that an instant of ordinary size cannot exceed a
limit.
Invariant: the bound holds for every delta of that size.
Cost: one pass over a predicate's table when a join that reads the predicate is first bounded; for a
mapped background two numbers of its directory.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final, cast

from dotr.evaluation.joins.order import JoinStep, Side
from dotr.evaluation.joins.scope import is_single_step, path_predicates
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, Ends, TripleIndex
from dotr.model.algebra import Const, Link, PathPattern, Repeat, Slot, TermPattern, TriplePattern
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables, walk

_SIZES: Final = (256, 128, 64, 32, 16, 8, 4)


class FanoutBounds:
    """Largest fan-outs of single look-ups in a background, computed on first use and cached."""

    def __init__(self, background: TripleIndex) -> None:
        self._background = background
        self._max_fanouts: dict[tuple[bool, Term], int] = {}

    def safe_size(self, steps: Collection[JoinStep], rows: int, max_work: int) -> int:
        """The largest of a few delta sizes for which a join does at most `max_work`; 0 if there is
        none.

        `steps`: the join in its order. `rows`: the product of the sizes of the VALUES tables behind
        the steps. `max_work`: triples and rows.

        >>> from dotr.model.algebra import Var
        >>> rooms = FanoutBounds(TripleIndex([(f"<s{n}>", "<in>", "<room>") for n in range(500)]))
        >>> reading = (TriplePattern(Var("r"), Const("<from>"), Var("s")), Side.DELTA)
        >>> room = (TriplePattern(Var("s"), Const("<in>"), Var("room")), Side.BACKGROUND)
        >>> other = (TriplePattern(Var("t"), Const("<in>"), Var("room")), Side.BACKGROUND)
        >>> rooms.safe_size([reading, room], 1, 10_000), rooms.safe_size([reading, room, other], 1, 10_000)
        (256, 8)
        """
        return next((size for size in _SIZES if self._work(steps, rows, size) <= max_work), 0)

    def work_of_row(self, steps: Collection[JoinStep], given: Collection[Variable], rows: int) -> float:
        """An upper bound of the triples and rows that a join over the background visits for one row
        of terms of the variables `given`; `steps` and `rows` as for `safe_size`.

        >>> from dotr.model.algebra import Var
        >>> rooms = FanoutBounds(TripleIndex([("<s>", "<in>", f"<room{n}>") for n in range(5)]))
        >>> rooms.work_of_row([(TriplePattern(Var("s"), Const("<in>"), Var("room")), Side.BACKGROUND)], ["s"], 1)
        10.0
        """
        return self._work(steps, rows, 0, given)

    def _work(self, steps: Collection[JoinStep], rows: int, size: int, given: Collection[Variable] = ()) -> float:
        solutions, work = 1.0, 0.0
        bound: set[Variable] = set(given)
        for step in steps:
            if isinstance(step, tuple) and isinstance(step[0], TriplePattern):
                pattern, side = step[0], step[1]
                solutions *= self._max_matches(pattern, side, bound, size)
                work += solutions
                bound.update(free_variables(pattern))
            elif isinstance(step, tuple) and isinstance(step[0], PathPattern):
                path = step[0].path
                if not (isinstance(path, Repeat) and is_single_step(path.path)) or path_predicates(path) is None:
                    return inf
                # A walk visits each edge once.
                solutions *= 1 + sum(self._max_edges(each.predicate) for each in walk(path) if isinstance(each, Link))
                work += solutions
                bound.update(free_variables(step[0]))
            elif isinstance(step, TermPattern):
                bound.update(free_variables(step))
        return work + solutions * rows

    def _max_matches(self, pattern: TriplePattern, side: Side, bound: Collection[Variable], size: int) -> int:
        """An upper bound on the matches of a pattern for one solution."""
        subject, predicate, object = (
            isinstance(slot, Const) or slot.name in bound for slot in (pattern.subject, pattern.predicate, pattern.object)
        )
        if subject and predicate and object:
            return 1
        delta_matches = 0 if side is Side.BACKGROUND else size
        if side is Side.DELTA:
            return delta_matches
        if not isinstance(pattern.predicate, Const):
            return delta_matches + len(self._background)
        term = pattern.predicate.term
        if not (subject or object):
            return delta_matches + self._max_edges(term)
        return delta_matches + self._max_other_ends(subject, term, pattern.subject if subject else pattern.object)

    def _max_edges(self, predicate: Term) -> int:
        return self._max_fanout(True, predicate) * len(self._background.by_subject.get(predicate, NO_ENDS))

    def _max_other_ends(self, by_subject: bool, predicate: Term, end: Slot) -> int:
        if isinstance(end, Const):
            tables = self._background.by_subject if by_subject else self._background.by_object
            return len(tables.get(predicate, NO_ENDS).get(end.term, NO_TERMS))
        return self._max_fanout(by_subject, predicate)

    def _max_fanout(self, by_subject: bool, predicate: Term) -> int:
        fanout = self._max_fanouts.get((by_subject, predicate))
        if fanout is None:
            tables = self._background.by_subject if by_subject else self._background.by_object
            fanout = self._max_fanouts[by_subject, predicate] = _longest_list(tables.get(predicate, NO_ENDS))
        return fanout


def _longest_list(ends: object) -> int:
    """An upper bound on the other ends of an end."""
    if not isinstance(ends, dict):
        from dotr.evaluation.triples.mapped_index import MappedEnds

        if isinstance(ends, MappedEnds):
            return ends.longest
    return max(map(len, cast(Ends, ends).values()), default=0)
