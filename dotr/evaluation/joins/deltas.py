"""Semi-naive evaluation of a branch over a fixed background: static answers and delta queries.

Idea: one delta query for each pattern finds the answers that use a delta triple: that pattern reads
the delta, the patterns before it the background, those after it both. If some patterns match
nothing in the background, every answer needs a delta triple for each of them, and a single query
suffices. A look-up (OPTIONAL, EXISTS, MINUS) reads background and delta and is evaluated for every
solution: exact if the background alone has no solution, `Unplannable` otherwise.

A small case, `?r <from> ?s . ?s <in> ?room`: the first query reads (delta, both), the second
(background, delta).

Invariant: `static_answers` and the rows of all delta queries are together the bag of the branch's
answers over background and delta, provided the two share no triple.
Cost of a delta query: the matches that begin with a delta triple; one or two look-ups if there is
none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from dotr.evaluation.joins.branch_loops import AnswerRow, BranchFunction, compile_branch, is_early_filter, with_known_terms
from dotr.evaluation.joins.branches import Branch, BranchStep, Unplannable
from dotr.evaluation.joins.order import Side
from dotr.evaluation.joins.scope import Reads, path_predicates, reads_of, union_of_reads
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.algebra import Const, PathPattern, TriplePattern, Var
from dotr.model.terms import Term, Variable


class DeltaQuery(NamedTuple):
    """One join that finds answers of a branch.

    `sides`: the index that each pattern reads. `projection`: the columns. `trigger`: the predicate
    of which the delta must have a triple for an answer; None: any predicate.
    """

    branch: Branch
    sides: tuple[Side, ...]
    projection: tuple[Variable, ...]
    trigger: Term | None
    join: BranchFunction


class Conjunction:
    """A branch of a query over a background that does not change.

    `is_static_empty`: there are no answers over the background alone. `reads`: the kinds of triples
    (None: any) of which the delta must have one for an answer that is not static. `delta_queries`:
    the joins that find these answers. Without limits no work is counted. Raises `Unplannable`, or
    `LimitExceeded` if the evaluation over the background alone exceeds `Limits.for_background`.
    """

    def __init__(self, branch: Branch, projection: Sequence[Variable], background: TripleIndex, limits: Limits | None) -> None:
        self._branch = with_known_terms(branch)
        self._limits = limits
        self._projection = projection
        self._background = background
        patterns = self._branch.patterns
        delta_only = [each for each in patterns if isinstance(each, TriplePattern) and not _in_background(each, background)]
        self.is_static_empty = bool(delta_only) or not branch.is_monotone
        self.reads: Reads | None = frozenset()
        self.delta_queries: tuple[DeltaQuery, ...] = ()
        if not (branch.is_monotone or delta_only) and self._over_background(_without_lookups(self._branch), ()):
            raise Unplannable("OPTIONAL, EXISTS or MINUS over answers of the background alone")
        if delta_only:
            rarest = min(delta_only, key=_rarity)
            self.reads = _reads(rarest)
            self.delta_queries = (self._delta_query(rarest, [Side.DELTA if pattern in delta_only else Side.BOTH for pattern in patterns]),)
        else:
            for pattern in patterns:
                self.reads = union_of_reads(self.reads, _reads(pattern))
            count = len(patterns)
            self.delta_queries = tuple(
                self._delta_query(pattern, [Side.BACKGROUND] * i + [Side.DELTA] + [Side.BOTH] * (count - i - 1))
                for i, pattern in enumerate(patterns)
            )

    def static_answers(self) -> list[AnswerRow]:
        """The bag of answers over the background alone."""
        return [] if self.is_static_empty else self._over_background(self._branch, self._projection)

    def _over_background(self, branch: Branch, projection: Sequence[Variable]) -> list[AnswerRow]:
        limits = None if self._limits is None else self._limits.for_background
        return compile_branch(branch, Side.BACKGROUND, projection, self._background, limits)(self._background, TripleIndex())

    @cached_property
    def deltas_over_view(self) -> tuple[BranchFunction, ...]:
        """The delta queries, compiled for any view of the background."""
        return tuple(compile_branch(self._branch, query.sides, self._projection, None, self._limits) for query in self.delta_queries)

    def retracted_answers(self, view: TripleIndex, removed: TripleIndex) -> list[AnswerRow]:
        """The static answers that use a retracted triple.

        The retracted triples are a delta of the view: the same queries find the answers to
        subtract.
        """
        return [] if self.is_static_empty else [row for join in self.deltas_over_view for row in join(view, removed)]

    def _delta_query(self, seed: TriplePattern | PathPattern, sides: list[Side]) -> DeltaQuery:
        trigger = trigger_of(seed)
        join = compile_branch(self._branch, sides, self._projection, self._background, self._limits)
        return DeltaQuery(self._branch, tuple(sides), tuple(self._projection), trigger, join)


def bag_difference(rows: Iterable[AnswerRow], removed: Iterable[AnswerRow]) -> list[AnswerRow]:
    """The difference of two bags of rows, in the order of the first.

    >>> bag_difference([("<a>",), ("<b>",), ("<a>",)], [("<a>",)])
    [('<b>',), ('<a>',)]
    """
    counts = Counter(removed)
    if not counts:
        return list(rows)
    difference = []
    for row in rows:
        if counts[row]:
            counts[row] -= 1
        else:
            difference.append(row)
    return difference


def _without_lookups(branch: Branch) -> Branch:
    """The branch without its look-ups and the steps after them; its solutions include those of the
    branch.
    """
    steps = tuple(step for step in branch.steps if isinstance(step, BranchStep) and is_early_filter(step, branch.matched))
    return Branch(branch.patterns, branch.tables, steps, branch.terms)


def trigger_of(seed: TriplePattern | PathPattern) -> Term | None:
    """The predicate of which a delta needs a triple to match a pattern; None: any predicate.

    >>> from dotr.model.algebra import Link, Repeat
    >>> trigger_of(PathPattern(Var("x"), Repeat(Link("<p>"), 0, True), Var("y")))
    '<p>'
    """
    if isinstance(seed, TriplePattern):
        return seed.predicate.term if isinstance(seed.predicate, Const) else None
    predicates = path_predicates(seed.path) or ()
    return next(iter(predicates)) if len(predicates) == 1 else None


def _reads(pattern: TriplePattern | PathPattern) -> Reads | None:
    """The kinds of triples that can add to a pattern's matches. A new node adds none to a path of
    length zero: another pattern of the branch binds it."""
    if isinstance(pattern, TriplePattern):
        return reads_of(pattern)
    predicates = path_predicates(pattern.path)
    return None if predicates is None else frozenset((predicate, None) for predicate in predicates)


def _in_background(pattern: TriplePattern, background: TripleIndex) -> bool:
    terms = [slot.term if isinstance(slot, Const) else None for slot in (pattern.subject, pattern.predicate, pattern.object)]
    return next(background.match(*terms), None) is not None


def _rarity(pattern: TriplePattern) -> tuple[bool, bool, bool]:
    """A sort key of patterns by the expected number of delta matches, the fewest first."""
    return isinstance(pattern.predicate, Var), isinstance(pattern.object, Var), isinstance(pattern.subject, Var)
