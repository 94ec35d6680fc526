"""Evidence of a solution: the triples and conditions from which the operators of a query made it.

Idea: an operator returns the evidence of a solution on request only (`AlgebraOperator.traced`), for
an explanation; a run never asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple, TypeAlias, assert_never

from dotr.evaluation.joins.paths import path_ends
from dotr.evaluation.joins.scope import mentioned
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Bindings, Solution
from dotr.model.algebra import (
    AggregateCall,
    Alternative,
    BgpItem,
    Const,
    Expression,
    Inverse,
    Link,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Sequence,
    Slot,
    TermPattern,
    TriplePattern,
)
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import free_variables


class UsedTriple(NamedTuple):
    """A triple with the pattern that it matches."""

    triple: Triple
    pattern: TriplePattern


class UsedPath(NamedTuple):
    """A property path between two terms, and the triples along it; a path of length 0 is no
    evidence."""

    subject: Term
    path: Path
    object: Term
    triples: tuple[Triple, ...]


class Unmatchable(Enum):
    """An operator whose right side has no match for a solution."""

    OPTIONAL = "OPTIONAL"
    MINUS = "MINUS"
    NOT_EXISTS = "NOT EXISTS"


class UnmatchedPattern(NamedTuple):
    """A pattern without a match, with the terms of its variables in the solution."""

    operator: Unmatchable
    pattern: Pattern
    bindings: Bindings


class SolutionGroup(NamedTuple):
    """A group of GROUP BY.

    - `keys`: the terms that all members share.
    - `results`: each aggregate with its term; None: it errs.
    - `members`: the evidence of each member, in their order.
    """

    keys: Bindings
    results: tuple[tuple[AggregateCall, Term | None], ...]
    members: tuple[Evidence, ...]


class HeldFilter(NamedTuple):
    """A FILTER that holds, and the terms of its variables."""

    expression: Expression
    bindings: Bindings


class ComputedTerm(NamedTuple):
    """A BIND: the variable, the expression, its term, and the terms of the expression's
    variables."""

    variable: Variable
    expression: Expression
    term: Term
    bindings: Bindings


class UsedWindow(NamedTuple):
    """A WINDOW block of a continuous query, with the evidence of the solution in its window."""

    window: Term
    evidence: Evidence


class UsedMapping(NamedTuple):
    """A mapping of a MATCH block of a continuous query: the number of the block, and of its
    mapping."""

    block: int
    mapping: int


EvidenceItem: TypeAlias = UsedTriple | UsedPath | UnmatchedPattern | SolutionGroup | HeldFilter | ComputedTerm | UsedWindow | UsedMapping
Evidence: TypeAlias = tuple[EvidenceItem, ...]
TracedSolution: TypeAlias = tuple[Solution, Evidence]


def used_triples(evidence: Evidence) -> Iterator[Triple]:
    """The triples of some evidence, including those of groups, without those of windows."""
    for item in evidence:
        match item:
            case UsedTriple(triple, _):
                yield triple
            case UsedPath(_, _, _, triples):
                yield from triples
            case SolutionGroup(_, _, members):
                for member in members:
                    yield from used_triples(member)
            case _:
                pass


def unmatched(operator: Unmatchable, pattern: Pattern, solution: Bindings) -> UnmatchedPattern:
    """The evidence of a solution for which a pattern has no match."""
    names = mentioned(pattern)
    return UnmatchedPattern(operator, pattern, {name: term for name, term in solution.items() if name in names})


def terms_of(expression: Expression, solution: Bindings) -> Bindings:
    """The terms of the variables of an expression outside EXISTS, in order of appearance."""
    return {name: solution[name] for name in free_variables(expression) if name in solution}


# --- basic graph patterns ---


def matched(graph: Graph, items: tuple[BgpItem, ...], solution: Solution) -> Iterator[EvidenceItem]:
    """The evidence of a solution of a basic graph pattern, in the order of its text."""

    def term(slot: Slot) -> Term:
        return slot.term if isinstance(slot, Const) else solution[slot.name]

    for item in items:
        match item:
            case TriplePattern(subject, predicate, value):
                yield UsedTriple((term(subject), term(predicate), term(value)), item)
            case PathPattern(subject, path, value):
                steps = path_triples(graph, path, term(subject), term(value))
                if steps:
                    yield UsedPath(term(subject), path, term(value), tuple(steps))
            case TermPattern():
                pass
            case _:
                assert_never(item)


def path_triples(graph: Graph, path: Path, start: Term, end: Term) -> list[Triple] | None:
    """The triples of a path between two terms, with the fewest steps of `+` and `*`; None: no path.

    >>> from dotr.evaluation.triples.index import TripleIndex
    >>> graph = Graph(TripleIndex([("<a>", "<p>", "<b>"), ("<b>", "<p>", "<c>")]), TripleIndex())
    >>> path_triples(graph, Repeat(Link("<p>"), 1, True), "<a>", "<c>")
    [('<a>', '<p>', '<b>'), ('<b>', '<p>', '<c>')]
    """
    match path:
        case Link(predicate):
            return [(start, predicate, end)] if end in graph.objects(start, predicate) else None
        case Inverse(inner):
            return path_triples(graph, inner, end, start)
        case Sequence(left, right):
            for middle in sorted(set(path_ends(left, graph.indexes, graph.spend, forward=True)(start))):
                after = path_triples(graph, right, middle, end)
                if after is not None:
                    return [*(path_triples(graph, left, start, middle) or ()), *after]
            return None
        case Alternative(left, right):
            found = path_triples(graph, left, start, end)
            return path_triples(graph, right, start, end) if found is None else found
        case Repeat(inner, least, many):
            return _repeated(graph, inner, start, end, at_least=least, many=many)
        case Negated(forward, backward):
            for excluded, triples in ((forward, graph.match(start, None, end)), (backward, graph.match(end, None, start))):
                if excluded is not None:
                    for triple in sorted(triples):
                        if triple[1] not in excluded:
                            return [triple]
            return None
        case _:
            assert_never(path)


def _repeated(graph: Graph, inner: Path, start: Term, end: Term, *, at_least: int, many: bool) -> list[Triple] | None:
    """The triples of the fewest repetitions of a path, breadth first."""
    if at_least == 0 and start == end:
        return []
    ends = path_ends(inner, graph.indexes, graph.spend, forward=True)
    before: dict[Term, Term] = {}
    frontier = [start]
    while frontier:
        reached: dict[Term, Term] = {}
        for node in frontier:
            for other in ends(node):
                if other not in before:
                    reached.setdefault(other, node)
        before.update(reached)
        if end in reached:
            nodes = [end]
            while True:
                nodes.append(before[nodes[-1]])
                if nodes[-1] == start:
                    break
            nodes.reverse()
            return [triple for one, two in pairwise(nodes) for triple in path_triples(graph, inner, one, two) or ()]
        if not many:
            return None
        frontier = sorted(reached)
    return None
