"""MATCH of a continuous query: mappings of event patterns over the items of windows, found anew at
each report (continuous.md, section 7).

A mapping has bindings, its first and last time, and the triples that its EVENTs matched. A pattern
is evaluated under bindings, with which its mappings agree, and left of SEQ before a time.
Cost: for each EVENT, its items times their solutions; for SEQ, the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from dotr.model.algebra import Bgp, Const, Filter, Pattern, Slot, TriplePattern, is_hidden
from dotr.model.intervals import Edge, EventPattern, MatchBlock, Ordered, Outermost, PlainGroup, SequencePolicy
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import LAST_MICRO, Micros
from dotr.model.traverse import in_scope
from dotr.queries.evaluate import AlgebraCompiler
from dotr.queries.graph import Graph
from dotr.queries.kept_changes import NO_TRIPLES
from dotr.queries.matching import Bindings, Solution
from dotr.queries.operators import EMPTY, AlgebraOperator
from dotr.store.triples import TripleIndex


class MatchedTriple(NamedTuple):
    """A triple of a window's item, by the window's name and the item's time in µs."""

    window: Term
    time: Micros
    triple: Triple


class EventMapping(NamedTuple):
    """A mapping of an event pattern; `first` and `last` in µs."""

    bindings: Solution
    first: Micros
    last: Micros
    used: tuple[MatchedTriple, ...]


class MatchedItem(NamedTuple):
    """An item of a window as EVENTs see it: its time in µs, and the triples that its level
    gives."""

    time: Micros
    triples: TripleIndex


Items: TypeAlias = Mapping[Term, Sequence[MatchedItem]]
"""The items of each window that an EVENT reads, in the order of time."""


class MatchEvaluator:
    """A compiled MATCH block. `time_term` writes the time of an item as a term."""

    def __init__(self, block: MatchBlock, time_term: Callable[[Micros], Term]) -> None:
        self.block = block
        self._time_term = time_term
        self._operators: dict[PlainGroup, AlgebraOperator] = {}

    def mappings(self, items: Items, used: frozenset[MatchedTriple] = frozenset()) -> list[EventMapping]:
        """All mappings of the block; triples in `used` are matched by no EVENT."""
        return self._evaluate(self.block.events, EMPTY, LAST_MICRO, items, used)

    def _evaluate(
        self, events: EventPattern, bound: Bindings, before: Micros, items: Items, used: frozenset[MatchedTriple]
    ) -> list[EventMapping]:
        match events:
            case PlainGroup():
                return self._plain(events, bound, before, items, used)
            case Outermost(edge, inner):
                return _outermost(self._evaluate(inner, bound, before, items, used), edge)
            case Ordered(left, right, SequencePolicy.NAIVE):
                lefts = _outermost(self._evaluate(left, bound, before, items, used), Edge.LAST)
                rights = _outermost(self._evaluate(right, bound, before, items, used), Edge.LAST)
                return [_joined(a, b) for b in rights for a in lefts if a.last < b.first and _agree(a.bindings, b.bindings)]
            case Ordered(left, right, policy):
                choice = _EDGES.get(policy)
                found: list[EventMapping] = []
                chosen: list[tuple[Micros, Micros]] = []
                for b in self._evaluate(right, bound, before, items, used):
                    lefts = self._evaluate(left, {**bound, **b.bindings}, b.first, items, used)
                    pairs = [_joined(a, b) for a in (lefts if choice is None else _outermost(lefts, choice))]
                    found += pairs
                    chosen += [(b.last, b.first)] * len(pairs)
                if choice is None or not found:
                    return found
                best = min(chosen) if choice is Edge.FIRST else max(chosen)
                return [pair for pair, times in zip(found, chosen, strict=True) if times == best]
            case _:
                assert_never(events)

    def names_of(self, group: PlainGroup) -> Sequence[Variable]:
        """The variables that the mappings of an EVENT bind, sorted."""
        names = {name for name in in_scope(group.pattern) if not is_hidden(name)}
        return sorted(names if group.time is None else names | {group.time})

    def bindings_of(self, group: PlainGroup, time: Micros, triples: TripleIndex) -> Iterator[Solution]:
        """The bindings of the mappings of an EVENT over one item."""
        graph = Graph(NO_TRIPLES, triples)
        for solution in self._operator(group).solutions(graph, EMPTY, EMPTY):
            bindings = {name: term for name, term in solution.items() if not is_hidden(name)}
            if group.time is not None:
                bindings[group.time] = self._time_term(time)
            yield bindings

    def _operator(self, group: PlainGroup) -> AlgebraOperator:
        operator = self._operators.get(group)
        if operator is None:
            operator = self._operators[group] = AlgebraCompiler().compile(group.pattern)
        return operator

    def _plain(
        self, group: PlainGroup, bound: Bindings, before: Micros, items: Items, used: frozenset[MatchedTriple]
    ) -> list[EventMapping]:
        operator = self._operator(group)
        patterns = _triple_patterns(group.pattern)
        found: list[EventMapping] = []
        for time, triples in items[group.window]:
            if time >= before:
                break
            stamp = self._time_term(time)
            if group.time is not None and bound.get(group.time, stamp) != stamp:
                continue
            left = [triple for triple in triples if MatchedTriple(group.window, time, triple) not in used] if used else None
            graph = Graph(TripleIndex(), triples if left is None else TripleIndex(left))
            for solution in operator.solutions(graph, EMPTY, EMPTY):
                bindings = {name: term for name, term in solution.items() if not is_hidden(name)}
                if group.time is not None:
                    bindings[group.time] = stamp
                if _agree(bindings, bound):
                    matched = tuple(MatchedTriple(group.window, time, _triple(pattern, solution)) for pattern in patterns)
                    found.append(EventMapping(bindings, time, time, matched))
        return found


_EDGES: Mapping[SequencePolicy, Edge] = {SequencePolicy.CHRONOLOGICAL: Edge.FIRST, SequencePolicy.RECENT: Edge.LAST}


def _outermost(mappings: list[EventMapping], edge: Edge) -> list[EventMapping]:
    """The mappings with the least, or the greatest, last and first time; ties: all."""
    if not mappings:
        return []
    choose = min if edge is Edge.FIRST else max
    best = choose((each.last, each.first) for each in mappings)
    return [each for each in mappings if (each.last, each.first) == best]


def _joined(left: EventMapping, right: EventMapping) -> EventMapping:
    return EventMapping({**left.bindings, **right.bindings}, left.first, right.last, left.used + right.used)


def _agree(bindings: Bindings, others: Bindings) -> bool:
    return all(others.get(name, term) == term for name, term in bindings.items())


def _triple_patterns(pattern: Pattern) -> tuple[TriplePattern, ...]:
    """The triple patterns of an EVENT."""
    match pattern:
        case Bgp(items):
            return tuple(item for item in items if isinstance(item, TriplePattern))
        case Filter(inner, _):
            return _triple_patterns(inner)
        case _:
            return ()


def _triple(pattern: TriplePattern, solution: Solution) -> Triple:
    def term(slot: Slot) -> Term:
        return slot.term if isinstance(slot, Const) else solution[slot.name]

    return term(pattern.subject), term(pattern.predicate), term(pattern.object)
