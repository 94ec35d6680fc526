"""Property paths over a graph (SPARQL 1.1, sections 9 and 18.4).

Idea: evaluation walks forward from a known subject or backward from a known object; all pairs are
enumerated only if neither end is known.
Invariant: sequence, alternative and negated sets keep multiplicity; `?`, `*` and `+` are distinct.
Cost: of `*` and `+`, the edges reachable from the known end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from dotr.evaluation.joins.scope import is_nullable
from dotr.instant.queries.graph import Graph
from dotr.model.algebra import Alternative, Inverse, Link, Negated, Path, Repeat, Sequence
from dotr.model.terms import Term


def path_ends(graph: Graph, path: Path, start: Term, *, forward: bool) -> Iterable[Term]:
    """The ends of paths that start at a term, or (backward) the starts of paths that end there."""
    match path:
        case Link(predicate):
            return graph.objects(start, predicate) if forward else graph.subjects(predicate, start)
        case Inverse(inner):
            return path_ends(graph, inner, start, forward=not forward)
        case Sequence(left, right):
            return _sequence(graph, left, right, start, forward)
        case Alternative(left, right):
            return [*path_ends(graph, left, start, forward=forward), *path_ends(graph, right, start, forward=forward)]
        case Repeat(inner, least, many):
            return _repeat(graph, inner, least, many, start, forward)
        case Negated():
            return _negated(graph, path, start, forward)
        case _:
            assert_never(path)


def _sequence(graph: Graph, left: Path, right: Path, start: Term, forward: bool) -> Iterator[Term]:
    if is_nullable(left) and is_nullable(right) and not graph.is_node(start):
        return  # the term in the middle is the value of a variable, hence a node of the graph
    first, second = (left, right) if forward else (right, left)
    for middle in path_ends(graph, first, start, forward=forward):
        yield from path_ends(graph, second, middle, forward=forward)


def _repeat(graph: Graph, inner: Path, least: int, many: bool, start: Term, forward: bool) -> Iterable[Term]:
    seen: dict[Term, None] = {start: None} if least == 0 else {}
    frontier = dict.fromkeys(end for end in path_ends(graph, inner, start, forward=forward) if end not in seen)
    while frontier:
        seen.update(frontier)
        if not many:
            break
        frontier = dict.fromkeys(end for middle in frontier for end in path_ends(graph, inner, middle, forward=forward) if end not in seen)
    return seen


def _negated(graph: Graph, path: Negated, start: Term, forward: bool) -> Iterator[Term]:
    for excluded, along in ((path.forward, forward), (path.backward, not forward)):
        if excluded is not None:
            for predicate in graph.predicates():
                if predicate not in excluded:
                    yield from graph.objects(start, predicate) if along else graph.subjects(predicate, start)


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
            for subject, middle in path_pairs(graph, left):
                for object in path_ends(graph, right, middle, forward=True):
                    yield subject, object
        case Alternative(left, right):
            yield from path_pairs(graph, left)
            yield from path_pairs(graph, right)
        case Repeat(inner, least, _):
            starts = graph.nodes() if least == 0 else iter(dict.fromkeys(subject for subject, _ in path_pairs(graph, inner)))
            for subject in starts:
                for object in path_ends(graph, path, subject, forward=True):
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
