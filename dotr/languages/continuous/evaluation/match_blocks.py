"""Evaluation of MATCH blocks in full at each report (continuous.md, section 7).

Idea: a mapping of an event pattern has bindings, a first and a last time, and the triples that its
EVENTs matched. A pattern is evaluated under given bindings, so that only compatible mappings are
found; the left operand of SEQ is evaluated before the first time of the right mapping.
Cost: the items of the window, each matched once; for SEQ, the pairs of compatible mappings.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution
from dotr.instant.queries.operators import EMPTY, AlgebraOperator
from dotr.model.algebra import Bgp, Const, Filter, Pattern, Slot, TriplePattern, is_hidden
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import LAST_MICRO, Micros
from dotr.model.traverse import in_scope
from dotr.temporal.answers.changes import NO_TRIPLES
from dotr.temporal.intervals.patterns import Edge, EventPattern, MatchBlock, Ordered, Outermost, PlainGroup, SequencePolicy


class MatchedTriple(NamedTuple):
    """A triple of a window's item, by the window's name and the item's time in µs."""

    window: Term
    time: Micros
    triple: Triple


class EventMapping(NamedTuple):
    """A mapping of an event pattern: `first` and `last` time in µs, and the triples it `used`."""

    bindings: Solution
    first: Micros
    last: Micros
    used: tuple[MatchedTriple, ...]


class MatchedItem(NamedTuple):
    """An item of a window: its time in µs, and its triples, closed at the level of EVENTs."""

    time: Micros
    triples: TripleIndex


Items: TypeAlias = Mapping[Term, Sequence[MatchedItem]]
"""The items of each window that an EVENT reads, in the order of time."""


class MatchEvaluator:
    """A compiled MATCH block, with the mappings of items that were matched before.

    `time_term` makes a term of the time of an item.
    """

    def __init__(self, block: MatchBlock, time_term: Callable[[Micros], Term]) -> None:
        self.block = block
        self._time_term = time_term
        # Caches are keyed by the `id` of an EVENT: a comparison of patterns at each look-up is avoided,
        # and the block keeps its EVENTs alive.
        self._operators: dict[int, AlgebraOperator] = {}
        self._names: dict[int, Sequence[Variable]] = {}
        self._known: dict[int, dict[Micros, tuple[TripleIndex, list[EventMapping]]]] = {}
        self._of_report: dict[int, list[EventMapping]] = {}
        self._by_terms: dict[tuple[int, tuple[Variable, ...]], dict[tuple[Term | None, ...], list[EventMapping]]] = {}

    def mappings(self, items: Items, used: frozenset[MatchedTriple] = frozenset()) -> list[EventMapping]:
        """All mappings of the block at a report; no EVENT matches a triple of `used`."""
        self._of_report, self._by_terms = {}, {}
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
        found = self._names.get(id(group))
        if found is None:
            names = {name for name in in_scope(group.pattern) if not is_hidden(name)}
            found = self._names[id(group)] = sorted(names if group.time is None else names | {group.time})
        return found

    def bindings_of(self, group: PlainGroup, time: Micros, triples: TripleIndex) -> Iterator[Solution]:
        """The bindings of the mappings of an EVENT over one item."""
        for solution in self._operator(group).solutions(Graph(NO_TRIPLES, triples), EMPTY, EMPTY):
            yield self._bindings(group, time, solution)

    def _bindings(self, group: PlainGroup, time: Micros, solution: Solution) -> Solution:
        bindings = {name: term for name, term in solution.items() if not is_hidden(name)}
        if group.time is not None:
            bindings[group.time] = self._time_term(time)
        return bindings

    def _operator(self, group: PlainGroup) -> AlgebraOperator:
        operator = self._operators.get(id(group))
        if operator is None:
            operator = self._operators[id(group)] = AlgebraCompiler().compile(group.pattern)
        return operator

    def _plain(
        self, group: PlainGroup, bound: Bindings, before: Micros, items: Items, used: frozenset[MatchedTriple]
    ) -> list[EventMapping]:
        """The mappings of an EVENT before a time that are compatible with bindings."""
        mappings = self._of_report.get(id(group))
        if mappings is None:
            mappings = self._of_report[id(group)] = self._found(group, items[group.window], used)
        names = tuple([name for name in self.names_of(group) if name in bound])
        if names:
            key = id(group), names
            index = self._by_terms.get(key)
            if index is None:
                index = self._by_terms[key] = {}
                for each in mappings:
                    index.setdefault(tuple([each.bindings.get(name) for name in names]), []).append(each)
            mappings = index.get(tuple([bound[name] for name in names]), [])
        if before == LAST_MICRO:
            return mappings
        return mappings[: bisect_left(mappings, before, key=_first_time)]

    def _found(self, group: PlainGroup, items: Sequence[MatchedItem], used: frozenset[MatchedTriple]) -> list[EventMapping]:
        """The mappings of an EVENT at a report, in the order of time.

        Mappings of an item are reused while its index is the same and no triple of it is used up.
        """
        known = self._known.get(id(group), {})
        now = self._known[id(group)] = {}
        consumed = {each.time for each in used if each.window == group.window}
        found: list[EventMapping] = []
        for time, triples in items:
            entry = known.get(time)
            if time in consumed:
                rest = [triple for triple in triples if MatchedTriple(group.window, time, triple) not in used]
                found += self._of_item(group, time, TripleIndex(rest))
                continue
            if entry is None or entry[0] is not triples:
                entry = triples, self._of_item(group, time, triples)
            now[time] = entry
            found += entry[1]
        return found

    def _of_item(self, group: PlainGroup, time: Micros, triples: TripleIndex) -> list[EventMapping]:
        patterns = _triple_patterns(group.pattern)
        found: list[EventMapping] = []
        for solution in self._operator(group).solutions(Graph(NO_TRIPLES, triples), EMPTY, EMPTY):
            matched = tuple(MatchedTriple(group.window, time, _triple(pattern, solution)) for pattern in patterns)
            found.append(EventMapping(self._bindings(group, time, solution), time, time, matched))
        return found


def _first_time(mapping: EventMapping) -> Micros:
    return mapping.first


_EDGES: Mapping[SequencePolicy, Edge] = {SequencePolicy.CHRONOLOGICAL: Edge.FIRST, SequencePolicy.RECENT: Edge.LAST}


def _outermost(mappings: list[EventMapping], edge: Edge) -> list[EventMapping]:
    """The mappings with the least, or the greatest, (last, first) time; all of them where equal."""
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
