"""Basic graph patterns over a graph, by nested loops (SPARQL 1.1, section 18.3).

Invariant: `matches` returns exactly the solutions that are compatible with `bound` and with the
substitution of the variables of `outer` (EXISTS); each binds every variable of the patterns. A
triple term is matched after the term or all of its parts are bound.
Cost: patterns are matched in their order; `most_selective_first` orders them greedily by expected
matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TypeAlias, assert_never

from dotr.evaluation.joins.paths import is_node, path_ends, path_test
from dotr.evaluation.joins.scope import can_look_up, is_nullable, variables_of
from dotr.instant.queries.graph import Graph
from dotr.model.algebra import (
    Alternative,
    BgpItem,
    Const,
    Inverse,
    Link,
    Negated,
    Path,
    PathPattern,
    Repeat,
    Sequence,
    Slot,
    TermPattern,
    TriplePattern,
    Var,
    slots_of,
)
from dotr.model.terms import Term, Variable, is_blank, is_triple, triple_parts, triple_term

Solution: TypeAlias = dict[Variable, Term]
Bindings: TypeAlias = Mapping[Variable, Term]


def matches(graph: Graph, patterns: tuple[BgpItem, ...], bound: Bindings, outer: Bindings) -> Iterator[Solution]:
    """The solutions of a basic graph pattern; `bound` and `outer` as in the module's invariant."""
    known = {**outer, **bound}
    start = {slot.name: known[slot.name] for p in patterns for slot in slots_of(p) if isinstance(slot, Var) and slot.name in known}
    yield from _extend(graph, patterns, 0, start, outer)


def most_selective_first(graph: Graph, patterns: tuple[BgpItem, ...], bound: frozenset[Variable]) -> tuple[BgpItem, ...]:
    """The patterns in greedy order of expected matches, for variables bound before."""
    if len(patterns) < 2:
        return patterns
    left, chosen, known = list(patterns), [], set(bound)
    while left:
        best = min(left, key=lambda pattern: expected_matches(graph, pattern, known))
        left.remove(best)
        chosen.append(best)
        known |= variables_of((best,))
    return tuple(chosen)


def expected_matches(graph: Graph, pattern: BgpItem, known: set[Variable]) -> float:
    """The estimated number of matches of a pattern for one solution that binds the known
    variables."""
    if isinstance(pattern, TermPattern):
        return 0.1 if can_look_up(pattern, known) else inf
    subject, object = _constant(pattern.subject), _constant(pattern.object)
    subject_known = subject is not None or (isinstance(pattern.subject, Var) and pattern.subject.name in known)
    object_known = object is not None or (isinstance(pattern.object, Var) and pattern.object.name in known)
    if isinstance(pattern, PathPattern):
        return 2.0 if subject_known and object_known else 8.0 if subject_known or object_known else 1e9
    predicate = _constant(pattern.predicate)
    if subject_known and object_known:
        return 0.5
    if (subject is not None or not subject_known) and (object is not None or not object_known):
        return graph.size(subject, predicate, object)
    count, by_subject, by_object = graph.fanouts(predicate)
    return min(count, by_subject if subject_known else by_object)


def _constant(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def _extend(graph: Graph, patterns: tuple[BgpItem, ...], index: int, solution: Solution, outer: Bindings) -> Iterator[Solution]:
    if index == len(patterns):
        yield solution
        return
    pattern = patterns[index]
    match pattern:
        case TriplePattern():
            extensions = _triple_matches(graph, pattern, solution)
        case PathPattern():
            extensions = _path_matches(graph, pattern, solution, outer)
        case TermPattern():
            extensions = _term_matches(pattern, solution)
        case _:
            assert_never(pattern)
    for extended in extensions:
        yield from _extend(graph, patterns, index + 1, extended, outer)


def _value(slot: Slot, solution: Solution) -> Term | None:
    return slot.term if isinstance(slot, Const) else solution.get(slot.name)


def _triple_matches(graph: Graph, pattern: TriplePattern, solution: Solution) -> Iterator[Solution]:
    slots = slots_of(pattern)
    values = [_value(slot, solution) for slot in slots]
    free = [(position, slot.name) for position, slot in enumerate(slots) if isinstance(slot, Var) and values[position] is None]
    if values[1] is not None and is_blank(values[1]):
        return
    repeated = len({name for _, name in free}) < len(free)
    for triple in graph.match(*values):
        graph.budget -= 1
        if graph.budget < 0:
            graph.spend(0)
        if repeated and any(triple[i] != triple[j] for i, first in free for j, second in free if first == second):
            continue
        extended = solution.copy()
        for position, name in free:
            extended[name] = triple[position]
        yield extended


def _term_matches(pattern: TermPattern, solution: Solution) -> Iterator[Solution]:
    """The solution extended by the triple term or its parts; none if they do not match."""
    slots = slots_of(pattern)
    term, *parts = (_value(slot, solution) for slot in slots)
    if term is None:
        subject, predicate, object = parts
        term = triple_term(subject, predicate, object)  # type: ignore[arg-type]  # the order has bound all parts
    if term is None or not is_triple(term):
        return
    extended = solution.copy()
    for slot, value in zip(slots, (term, *triple_parts(term)), strict=True):
        if (slot.term if isinstance(slot, Const) else extended.setdefault(slot.name, value)) != value:
            return
    yield extended


def _path_matches(graph: Graph, pattern: PathPattern, solution: Solution, outer: Bindings) -> Iterator[Solution]:
    subject, object = pattern.subject, pattern.object
    start, end = _value(subject, solution), _value(object, solution)
    if is_nullable(pattern.path) and not any(isinstance(slot, Const) or slot.name in outer for slot in (subject, object)):
        for value in (start, end):
            if value is not None and not is_node(graph.indexes, value):
                return  # between variables a path of length zero matches at a node of the graph
    if start is not None and subject == object:
        end = start
    if start is not None and end is not None and isinstance(pattern.path, Repeat):
        if path_test(pattern.path, graph.indexes, graph.spend)(start, end):
            yield solution
    elif start is not None:
        for reached in path_ends(pattern.path, graph.indexes, graph.spend, forward=True)(start):
            if end is not None:
                if reached == end:
                    yield solution
            elif isinstance(object, Var):
                yield {**solution, object.name: reached}
    elif end is not None and isinstance(subject, Var):
        for reached in path_ends(pattern.path, graph.indexes, graph.spend, forward=False)(end):
            yield {**solution, subject.name: reached}
    elif isinstance(subject, Var) and isinstance(object, Var):
        for first, last in path_pairs(graph, pattern.path):
            if subject.name != object.name:
                yield {**solution, subject.name: first, object.name: last}
            elif first == last:
                yield {**solution, subject.name: first}


# Property paths over a graph (SPARQL 1.1, sections 9 and 18.4).
#
# A path with a known end is walked from it (`dotr.evaluation.joins.paths`); all pairs are enumerated
# only if neither end is known.


def path_pairs(graph: Graph, path: Path) -> Iterator[tuple[Term, Term]]:
    """All (subject, object) pairs of a path, with zero-length paths at every node of the graph."""
    match path:
        case Link(predicate):
            for subject, _, object in graph.match(None, predicate, None):
                graph.spend(1)
                yield subject, object
        case Inverse(inner):
            for subject, object in path_pairs(graph, inner):
                yield object, subject
        case Sequence(left, right):
            ends = path_ends(right, graph.indexes, graph.spend, forward=True)
            for subject, middle in path_pairs(graph, left):
                for object in ends(middle):
                    yield subject, object
        case Alternative(left, right):
            yield from path_pairs(graph, left)
            yield from path_pairs(graph, right)
        case Repeat(inner, least, _):
            starts = graph.nodes() if least == 0 else iter(dict.fromkeys(subject for subject, _ in path_pairs(graph, inner)))
            ends = path_ends(path, graph.indexes, graph.spend, forward=True)
            for subject in starts:
                for object in ends(subject):
                    yield subject, object
        case Negated(ahead, back):
            for excluded, along in ((ahead, True), (back, False)):
                if excluded is not None:
                    for subject, predicate, object in graph.match(None, None, None):
                        graph.spend(1)
                        if predicate not in excluded:
                            yield (subject, object) if along else (object, subject)
        case _:
            assert_never(path)
