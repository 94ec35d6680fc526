"""MATCH by enumeration (continuous.md, section 7): every pattern is evaluated under bindings and before a time, by the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dotr.model.algebra import Bgp, Filter, TriplePattern, is_hidden
from dotr.model.terms import Term, Triple
from dotr.model.time import Clock, Micros
from dotr.temporal.intervals.patterns import Edge, EventPattern, Ordered, Outermost, PlainGroup, SequencePolicy
from tests.oracle.algebra import Solution, agree, solutions
from tests.oracle.content_entailment import put_in
from tests.oracle.expressions import time_term

Used = frozenset[tuple[Term, Micros, Triple]]
"""Triples of the items of windows."""


@dataclass(frozen=True)
class Occurrence:
    """Bindings, first and last time, and the triples that were used."""

    bindings: Solution
    first: Micros
    last: Micros
    used: Used

    @property
    def position(self) -> tuple[Micros, Micros]:
        return self.last, self.first


@dataclass(frozen=True)
class Matching:
    """The data of a report: the items of each window, by time, closed at its level, and the consumed triples."""

    items: Mapping[Term, Mapping[Micros, frozenset[Triple]]]
    used_up: Used
    clock: Clock

    def mappings(self, events: EventPattern, bound: Solution, before: Micros | None) -> list[Occurrence]:
        match events:
            case PlainGroup():
                return [m for m in self.basic(events, before) if agree(m.bindings, bound)]
            case Outermost(edge, inner):
                return outermost(edge, self.mappings(inner, bound, before))
            case Ordered(left, right, SequencePolicy.NAIVE):
                lefts, rights = (outermost(Edge.LAST, self.mappings(side, bound, before)) for side in (left, right))
                return [joined(a, b) for b in rights for a in lefts if agree(a.bindings, b.bindings) and a.last < b.first]
            case Ordered(left, right, policy):
                choices: list[tuple[Occurrence, list[Occurrence]]] = []
                for b in self.mappings(right, bound, before):
                    earlier = self.mappings(left, {**bound, **b.bindings}, b.first)
                    if earlier:
                        choices.append((b, earlier))
                if policy is not SequencePolicy.UNRESTRICTED:
                    edge = Edge.FIRST if policy is SequencePolicy.CHRONOLOGICAL else Edge.LAST
                    kept = outermost(edge, [b for b, _ in choices])
                    choices = [(b, outermost(edge, earlier)) for b, earlier in choices if b in kept]
                return [joined(a, b) for b, earlier in choices for a in earlier]

    def basic(self, event: PlainGroup, before: Micros | None) -> list[Occurrence]:
        found = []
        for time, item in sorted(self.items[event.window].items()):
            if before is not None and time >= before:
                continue
            graph = sorted(t for t in item if (event.window, time, t) not in self.used_up)
            triples = event.pattern.pattern if isinstance(event.pattern, Filter) else event.pattern
            assert isinstance(triples, Bgp)
            for solution in solutions(event.pattern, graph, {}):
                used = frozenset(
                    (event.window, time, put_in(atom, solution)) for atom in triples.patterns if isinstance(atom, TriplePattern)
                )
                bindings = {v: t for v, t in solution.items() if not is_hidden(v)}
                if event.time is not None:
                    bindings[event.time] = time_term(time, self.clock)
                found.append(Occurrence(bindings, time, time, used))
        return found


def outermost(edge: Edge, found: Sequence[Occurrence]) -> list[Occurrence]:
    """The matches with the least or the greatest (last, first) time; all of them at a tie."""
    choose: Callable[..., tuple[Micros, Micros]] = min if edge is Edge.FIRST else max
    end = choose((m.position for m in found), default=None)
    return [m for m in found if m.position == end]


def joined(a: Occurrence, b: Occurrence) -> Occurrence:
    return Occurrence({**a.bindings, **b.bindings}, a.first, b.last, a.used | b.used)
