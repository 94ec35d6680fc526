"""Join order: the sequence in which a join visits the items of its body.

Idea: greedy. The next pattern is the one with the smallest expected fan-out for the variables bound
so far; that of a pattern that reads the delta alone is always small. A condition follows as soon as
its variables are bound, before further patterns extend rows that the condition rejects. A triple
term follows as soon as the term or all of its parts are bound.
Invariant: every item of the body occurs exactly once in the order.
Cost: quadratic in the length of the body, at compile time. Sizes come from the index of the
background, if known, in constant time (the number of a predicate's distinct ends estimates that of
its triples).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from math import inf
from typing import TypeAlias

from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.model import dataclass
from dotr.model.algebra import Alternative, Const, Inverse, Link, Path, PathPattern, Repeat, Slot, TermPattern, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, GroupAggregate, Not, RelationAtom
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables

GraphItem: TypeAlias = TriplePattern | PathPattern | RelationAtom
"""An item of a body with matches on a side."""

JoinItem: TypeAlias = GraphItem | TermPattern | FilterItem | Bind | Not | GroupAggregate


class Side(Enum):
    """The index that a triple pattern reads: the background, the delta (the instant's triples) or
    both. A path on the delta has the pairs that the delta adds to those of the background.
    """

    BACKGROUND = "background"
    DELTA = "delta"
    BOTH = "both"


Sides: TypeAlias = Side | Sequence[Side]
"""The side of every triple pattern and path of a body, or one for each, in the order of the body."""

JoinStep: TypeAlias = tuple[GraphItem, Side] | TermPattern | FilterItem | Bind | Not | GroupAggregate


def ordered(body: Sequence[JoinItem], bound: Collection[Variable], sides: Sides, background: TripleIndex | None) -> list[JoinStep]:
    """The items of a body in join order.

    `bound`: variables bound before the join. `background`: the index for size estimates, or None.
    Returns triple patterns with their sides, and the other items.
    """
    # Most rules have one atom beside the delta atom.
    if len(body) == 1 and isinstance(body[0], GraphItem):
        return [(body[0], sides if isinstance(sides, Side) else sides[0])]
    bound_now = set(bound)
    triples = [item for item in body if isinstance(item, GraphItem)]
    patterns = list(zip(triples, [sides] * len(triples) if isinstance(sides, Side) else sides, strict=True))
    conditions = [item for item in body if not isinstance(item, GraphItem)]
    matched = bound_now.union(*(free_variables(p) for p, _ in patterns), (c.variable for c in conditions if isinstance(c, Bind)))
    matched = matched.union(*(free_variables(c) for c in conditions if isinstance(c, TermPattern)))
    aggregates = [c for c in conditions if isinstance(c, GroupAggregate)]
    bindable = matched.union(*(_binds(aggregate) for aggregate in aggregates)) if aggregates else matched
    steps: list[JoinStep] = []

    def append(condition: TermPattern | FilterItem | Bind | Not | GroupAggregate) -> None:
        conditions.remove(condition)
        steps.append(condition)
        if isinstance(condition, Bind):
            bound_now.add(condition.variable)
        elif isinstance(condition, TermPattern):
            bound_now.update(free_variables(condition))
        elif isinstance(condition, GroupAggregate):
            bound_now.update(_binds(condition))

    def is_ready(condition: TermPattern | FilterItem | Bind | Not | GroupAggregate) -> bool:
        if isinstance(condition, TermPattern):
            return condition.term.name in bound_now or all(map(is_bound, (condition.subject, condition.predicate, condition.object)))
        can_be_bound = matched if isinstance(condition, GroupAggregate) else bindable
        return can_be_bound.intersection(free_variables(condition)) <= bound_now

    def is_bound(slot: Slot) -> bool:
        return _is_bound(slot, bound_now)

    def append_ready() -> None:
        while ready := [c for c in conditions if is_ready(c)]:
            # Filters bind nothing, so that the other ready conditions stay ready.
            for condition in [c for c in ready if isinstance(c, FilterItem)] or ready[:1]:
                append(condition)

    append_ready()
    while patterns or conditions:
        if patterns:
            best = min(patterns, key=lambda each: _fanout(each[0], each[1], bound_now, background))
            patterns.remove(best)
            if isinstance(best[0], PathPattern) and best[1] is Side.DELTA:
                best = _near(best[0], patterns), Side.DELTA
            steps.append(best)
            bound_now.update(free_variables(best[0]))
        else:
            append(next((c for c in conditions if isinstance(c, GroupAggregate)), conditions[0]))
        append_ready()
    return steps


@dataclass(frozen=True, slots=True)
class SelectivePath(PathPattern):
    """A path on the delta with the patterns that its pairs will be joined with, and their sides."""

    near: tuple[tuple[TriplePattern, Side], ...]


def _near(path: PathPattern, patterns: Iterable[tuple[GraphItem, Side]]) -> SelectivePath:
    ends = {slot for slot in (path.subject, path.object) if isinstance(slot, Var)}
    near = [(each, side) for each, side in patterns if isinstance(each, TriplePattern) and ends.intersection((each.subject, each.object))]
    return SelectivePath(path.subject, path.path, path.object, tuple(near))


def _binds(aggregate: GroupAggregate) -> list[Variable]:
    return [*aggregate.keys, *(name for name, _ in aggregate.results)]


def _fanout(pattern: GraphItem, side: Side, bound: Collection[Variable], background: TripleIndex | None) -> float:
    """The estimated number of triples, or rows of a relation, that match one row."""
    if isinstance(pattern, RelationAtom):
        free = sum(not _is_bound(slot, bound) for slot in pattern.slots)
        return (0.0, 4.0)[free] if free < 2 else (8.0 if free < len(pattern.slots) else 1e4)
    if isinstance(pattern, PathPattern):
        if side is Side.DELTA:
            return 0.5  # its pairs are computed once, whatever is bound
        ends = _is_bound(pattern.subject, bound), _is_bound(pattern.object, bound)
        return inf if not any(ends) else 0.75 if all(ends) else 1.0 + _path_fanout(pattern.path, ends[0], background)
    subject, predicate, object = (_is_bound(slot, bound) for slot in (pattern.subject, pattern.predicate, pattern.object))
    bound_slots = subject + predicate + object
    if bound_slots == 3:
        return 0.0
    if side is Side.DELTA:
        return (4.0, 3.0, 1.0)[bound_slots]
    if predicate and background is not None and isinstance(pattern.predicate, Const):
        return _measured(pattern, pattern.predicate.term, subject, object, background)
    if predicate:
        # A constant object (typically a class) has more subjects than an object bound by a row.
        return 2.0 if subject else ((100.0 if isinstance(pattern.object, Const) else 8.0) if object else 1e4)
    if subject and object:
        return 2.0
    return 8.0 if subject else (50.0 if object else 1e6)


def _path_fanout(path: Path, forward: bool, background: TripleIndex | None) -> float:
    """The estimated number of ends of a path; `+` and `*` are taken to be three steps long."""
    match path:
        case Repeat(inner, _, many):
            step = _path_fanout(inner, forward, background)
            return step + step**2 + step**3 if many else step
        case Inverse(inner):
            return _path_fanout(inner, not forward, background)
        case Alternative(left, right):
            return _path_fanout(left, forward, background) + _path_fanout(right, forward, background)
        case Link(predicate) if background is not None:
            sizes = [len(ends.get(predicate, NO_ENDS)) for ends in (background.by_subject, background.by_object)]
            return max(sizes) / max(1, sizes[not forward])
        case _:
            return 2.0


def _measured(pattern: TriplePattern, predicate: Term, subject: bool, object: bool, background: TripleIndex) -> float:
    by_subject = background.by_subject.get(predicate, NO_ENDS)
    by_object = background.by_object.get(predicate, NO_ENDS)
    if subject and isinstance(pattern.subject, Const):
        return 1.0 + len(by_subject.get(pattern.subject.term, NO_TERMS))
    if object and isinstance(pattern.object, Const):
        return 1.0 + len(by_object.get(pattern.object.term, NO_TERMS))
    size = max(len(by_subject), len(by_object))
    if subject:
        return 1.0 + size / max(1, len(by_subject))
    if object:
        return 1.0 + size / max(1, len(by_object))
    return 3.0 + size


def _is_bound(slot: Slot, bound: Collection[Variable]) -> bool:
    return isinstance(slot, Const) or slot.name in bound
