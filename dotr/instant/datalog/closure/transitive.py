"""Delta rules for transitivity: `[?x, P, ?z] :- [?x, P, ?y], [?y, P, ?z]` in time proportional to
pairs times outgoing steps.

Idea: a triple that the rule itself concluded is a path of other triples, the *steps*. A path is
never used as the first of the two premises: a step is extended by a step or a path, so that every
path is found once for its first step. A chain of n triples has n²/2 pairs; the plain rule derives
n³/6.

A small case: the steps a–b, b–c, c–d. The path a–d is found from the step a–b and the path b–d, and
not again from the path a–c and the step c–d.

Invariant: a triple is recorded as concluded before it is added to the delta, from triples that were
there, so each is a path of steps. Background triples and unrecorded triples are steps.

Cost: for each triple, the steps into its subject; for each step, the triples that leave its object.
Both are counted against the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import ref

from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.instant.datalog.closure.delta_rules import DeltaPosition, split_schema
from dotr.instant.datalog.closure.derivations import ConstraintViolation, Push
from dotr.model.algebra import Const, Slot, TriplePattern, Var
from dotr.model.terms import Term, Triple

if TYPE_CHECKING:
    from dotr.instant.datalog.closure.delta_rules import DeltaRule


class TransitivePairs:
    """Pairs of one predicate while a closure fills an index.

    `concluded`: pairs of the rule itself; `into`: object -> subjects of the steps; `examined`:
      pairs so far.
    """

    __slots__ = ("concluded", "examined", "into")

    def __init__(self, into: dict[Term, list[Term]]) -> None:
        self.concluded: set[tuple[Term, Term]] = set()
        self.into = into
        self.examined = 0


def transitive_predicate(position: DeltaPosition, key: Term | None, background: TripleIndex) -> Term | None:
    """The predicate that a rule makes transitive, if that is all that it does; otherwise None.

    `key`: the predicate of a free position with schema in the background.
    >>> from dotr.model.datalog import DatalogRule
    >>> patterns = (TriplePattern(Var(s), Const("<p>"), Var(o)) for s, o in ("xy", "yz", "xz"))
    >>> first, second, head = patterns
    >>> rule, other = (DatalogRule("r", (each,), (first, second)) for each in (head, first))
    >>> positions = [DeltaPosition(each, first, 0, None) for each in (rule, other)]
    >>> [transitive_predicate(position, None, TripleIndex()) for position in positions]
    ['<p>', None]
    """
    rule, pattern = position.rule, position.pattern
    if len(rule.head) != 1 or len(rule.body) < 2:
        return None
    rest = position.others() if key is None else list(split_schema(position, background).rest)
    if len(rest) != 1 or not isinstance(rest[0], TriplePattern):
        return None
    head, other = rule.head[0], rest[0]
    names: Slot = Const(key) if key is not None and isinstance(pattern.predicate, Const) else pattern.predicate
    if not head.predicate == pattern.predicate == other.predicate == names or not (key is not None or isinstance(names, Const)):
        return None
    first, second = (pattern, other) if pattern.object == other.subject else (other, pattern)
    ends = (first.subject, first.object, second.object)
    if not all(isinstance(end, Var) and end != names for end in ends) or len(set(ends)) != 3:
        return None
    if (first.object, head.subject, head.object) != (second.subject, first.subject, second.object):
        return None
    return names.term if isinstance(names, Const) else key


def is_first(position: DeltaPosition) -> bool:
    """True for the position of the first step of a transitive rule."""
    return position.pattern.subject == position.rule.head[0].subject


class Transitive:
    """Delta rules of a transitive predicate; `limit` bounds the examined pairs of a closure."""

    def __init__(self, predicate: Term, background: TripleIndex, limit: int) -> None:
        self._predicate = predicate
        self._triples = background.triples
        self._from: Final = background.by_subject.get(predicate, NO_ENDS)
        self._into: Final = background.by_object.get(predicate, NO_ENDS)
        self._limit = limit
        self._reset()

    def _reset(self, _: object = None) -> None:
        self._delta_triples: Callable[[], set[Triple] | None] = lambda: None
        self._pairs = TransitivePairs({})

    def _pairs_of(self, delta: TripleIndex) -> TransitivePairs:
        """The pairs of a delta that is being filled; the triples of a new delta are steps."""
        if self._delta_triples() is not delta.triples:
            subjects_of = delta.by_object.get(self._predicate, NO_ENDS)
            self._pairs = TransitivePairs({object: list(subjects) for object, subjects in subjects_of.items()})
            self._delta_triples = ref(delta.triples, self._reset)
        return self._pairs

    def first(
        self, s: Term, p: Term, o: Term, delta: TripleIndex, push: Push, active: list[DeltaRule], alarms: list[ConstraintViolation]
    ) -> None:
        """Applies the rule to a triple as the first step of a path."""
        pairs = self._pairs_of(delta)
        if (s, o) in pairs.concluded:
            return
        into = pairs.into.get(o)
        if into is None:
            pairs.into[o] = [s]
        else:
            into.append(s)
        for ends in (self._from.get(o, NO_TERMS), delta.by_subject[p].get(o, NO_TERMS)):
            self._count(pairs, len(ends))
            for end in ends:
                self._conclude(pairs, s, end, delta, push)

    def second(
        self, s: Term, p: Term, o: Term, delta: TripleIndex, push: Push, active: list[DeltaRule], alarms: list[ConstraintViolation]
    ) -> None:
        """Applies the rule to a triple as the continuation of a step."""
        pairs = self._pairs_of(delta)
        for starts in (self._into.get(s, NO_TERMS), pairs.into.get(s, NO_TERMS)):
            self._count(pairs, len(starts))
            for start in starts:
                self._conclude(pairs, start, o, delta, push)

    def _conclude(self, pairs: TransitivePairs, s: Term, o: Term, delta: TripleIndex, push: Push) -> None:
        pair = (s, o)
        if pair not in pairs.concluded:
            triple = (s, self._predicate, o)
            if triple not in delta.triples and triple not in self._triples:
                pairs.concluded.add(pair)
                push(triple)

    def _count(self, pairs: TransitivePairs, examined: int) -> None:
        pairs.examined += examined
        if pairs.examined > self._limit:
            raise LimitExceeded(self._limit, "derivations")
