"""Proof of a fact: the triples and conditions of one solution of its query.

Idea: the SELECT is evaluated over the closed instant with the fact's attributes bound; each
operator adds its evidence to a solution. Of the solutions for the fact, that with the triples of
least height is kept, then the first in the tie order.
Cost: that of the query with bound attributes; sub-queries with LIMIT are evaluated in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice, pairwise
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.evaluation.joins.scope import mentioned
from dotr.explanations.evidence.proofs import ComputedTerm, HeldFilter
from dotr.explanations.evidence.rule_matches import instance
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import Solution, matches, most_selective_first, path_ends
from dotr.instant.queries.operators import EMPTY, AlgebraOperator, are_compatible
from dotr.instant.queries.solution_expressions import CompiledCondition, CompiledExpression
from dotr.instant.queries.window_operators import report_graph
from dotr.model.algebra import (
    AggregateCall,
    Alternative,
    Bgp,
    BgpItem,
    Call,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    MatchPattern,
    Minus,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    Var,
    WindowBlock,
    is_hidden,
    slots_of,
)
from dotr.model.algebra import Sequence as PathSequence
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import conjuncts, parameters_of

_MAX_SOLUTIONS: Final = 1_000
"""Maximum number of solutions that are compared for one fact."""

Height: TypeAlias = Callable[[Triple], int]


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
    bindings: Mapping[Variable, Term]


class SolutionGroup(NamedTuple):
    """A group of GROUP BY.

    - `keys`: the terms that all members share.
    - `results`: each aggregate with its term; None: it errs.
    - `members`: the evidence of each member, in their order.
    """

    keys: Mapping[Variable, Term]
    results: tuple[tuple[AggregateCall, Term | None], ...]
    members: tuple[Evidence, ...]


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
_Found: TypeAlias = tuple[Solution, Evidence]


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


def prove_fact(select: Select, attributes: Mapping[Variable, Term], graph: Graph, height: Height) -> Evidence | None:
    """The evidence of the best solution for a fact; None if no solution has its attributes.

    Args:
        select: the query.
        attributes: the bound attributes of the fact; the others of the projection are unbound.
        graph: the closed instant.
        height: the height of the proof of a triple.

    >>> from dotr.model.algebra import Const
    >>> from dotr.evaluation.triples.index import TripleIndex
    >>> at, inside = (TriplePattern(Var("x"), Const(p), Var(o)) for p, o in (("<at>", "y"), ("<in>", "z")))
    >>> graph = Graph(TripleIndex([("<a>", "<in>", "<r>")]), TripleIndex([("<a>", "<at>", "<d>")]))
    >>> [item.triple for item in prove_fact(Select(("x",), Bgp((at, inside))), {"x": "<a>"}, graph, lambda triple: 0)]
    [('<a>', '<at>', '<d>'), ('<a>', '<in>', '<r>')]
    """

    def order(evidence: Evidence) -> tuple[int, list[Triple]]:
        triples = list(used_triples(evidence))
        return max(map(height, triples), default=0), triples

    return prove_solution(select, attributes, graph, order)


def prove_solution(
    select: Select, attributes: Mapping[Variable, Term], graph: Graph, order: Callable[[Evidence], tuple[int, Sequence[object]]]
) -> Evidence | None:
    """The evidence of the solution with these attributes that is first in an order.

    Args:
        select: the query.
        attributes: the bound attributes; the others of the projection are unbound.
        graph: the graph.
        order: the sort key of a solution's evidence.

    Returns:
        None if no solution has these attributes.
    """
    prover = SolutionProver(graph)

    def proofs(given: Mapping[Variable, Term]) -> list[Evidence]:
        found = islice(prover.solutions(select, given), _MAX_SOLUTIONS)
        return [evidence for solution, evidence in found if solution == attributes]

    # With its end bound, a path of length 0 from a constant that is no node of the graph has no solution: evaluate it unbound.
    return min(proofs(attributes) or proofs({}), key=order, default=None)


@dataclass(frozen=True, eq=False)
class SolutionProver:
    """Evaluator of patterns that returns the evidence of each solution."""

    graph: Graph

    def solutions(self, pattern: Pattern, bound: Mapping[Variable, Term]) -> Iterator[_Found]:
        """The solutions of a pattern that are compatible with `bound`, each with its evidence.

        Operators over the whole bag of solutions, such as LIMIT, are evaluated before the
        restriction to `bound`.
        """
        match pattern:
            case Bgp(items):
                yield from self._conjunction(items, bound)
            case Join(left, right):
                for solution, evidence in self.solutions(left, bound):
                    for other, more in self.solutions(right, {**bound, **solution}):
                        yield {**solution, **other}, evidence + more
            case LeftJoin(left, right, condition):
                for found in self.solutions(left, bound):
                    yield from self._compatible(self._optional(found, right, condition), bound)
            case Union(left, right):
                yield from self.solutions(left, bound)
                yield from self.solutions(right, bound)
            case Minus(left, right):
                for solution, evidence in self.solutions(left, bound):
                    if not any(name in solution for other, _ in self.solutions(right, solution) for name in other):
                        yield solution, (*evidence, _unmatched(Unmatchable.MINUS, right, solution))
            case Filter(inner, conditions):
                for solution, evidence in self.solutions(inner, bound):
                    if all(self._holds(condition, solution) for condition in conditions):
                        yield solution, evidence + tuple(item for each in conditions for item in self._held(each, solution))
            case Extend(inner, variable, expression):
                given = {name: term for name, term in bound.items() if name != variable}
                for solution, evidence in self.solutions(inner, given):
                    term = CompiledExpression(expression, self._compile_exists).evaluate(self.graph, solution, EMPTY)
                    if term is None:
                        yield solution, evidence
                    elif bound.get(variable, term) == term:
                        computed = ComputedTerm(variable, expression, term, _terms_of(expression, solution))
                        yield {**solution, variable: term}, (*evidence, *(() if _is_renaming(expression) else (computed,)))
            case Values(variables, rows):
                for row in rows:
                    solution = {name: term for name, term in zip(variables, row, strict=True) if term is not None}
                    yield from self._compatible([(solution, ())], bound)
            case Group():
                yield from self._groups(pattern, bound)
            case Select():
                yield from self._selected(pattern, bound)
            case WindowBlock(window, inner):
                within = replace(self, graph=report_graph(self.graph).windows[window])
                for solution, evidence in within.solutions(inner, bound):
                    yield solution, (UsedWindow(window, evidence),)
            case MatchPattern(number):
                mappings = enumerate(report_graph(self.graph).matches[number])
                yield from self._compatible([(solution, (UsedMapping(number, mapping),)) for mapping, solution in mappings], bound)
            case _:
                assert_never(pattern)

    # --- conjunctions ---

    def _conjunction(self, items: tuple[BgpItem, ...], bound: Mapping[Variable, Term]) -> Iterator[_Found]:
        names = frozenset(slot.name for item in items for slot in slots_of(item) if isinstance(slot, Var))
        ordered = most_selective_first(self.graph, items, names.intersection(bound))
        for solution in matches(self.graph, ordered, bound, EMPTY):
            evidence: list[EvidenceItem] = []
            for item in items:
                match item:
                    case TriplePattern():
                        triple = instance(item, solution)
                        assert triple is not None
                        evidence.append(UsedTriple(triple, item))
                    case PathPattern(subject, path, value):
                        ends = instance(TriplePattern(subject, subject, value), solution)
                        assert ends is not None
                        steps = path_triples(self.graph, path, ends[0], ends[2])
                        if steps:
                            evidence.append(UsedPath(ends[0], path, ends[2], tuple(steps)))
                    case TermPattern():
                        pass
                    case _:
                        assert_never(item)
            yield solution, tuple(evidence)

    # --- other operators ---

    def _compatible(self, found: Sequence[_Found], bound: Mapping[Variable, Term]) -> Iterator[_Found]:
        return ((solution, evidence) for solution, evidence in found if are_compatible(solution, dict(bound)))

    def _optional(self, found: _Found, right: Pattern, condition: Expression | None) -> list[_Found]:
        solution, evidence = found
        merged: list[_Found] = []
        for other, more in self.solutions(right, solution):
            both = {**solution, **other}
            if condition is None or self._holds(condition, both):
                held = () if condition is None else tuple(self._held(condition, both))
                merged.append((both, evidence + more + held))
        return merged or [(solution, (*evidence, _unmatched(Unmatchable.OPTIONAL, right, solution)))]

    def _holds(self, condition: Expression, solution: Solution) -> bool:
        return CompiledCondition(condition, self._compile_exists).holds(self.graph, solution, EMPTY)

    def _held(self, condition: Expression, solution: Solution) -> Iterator[EvidenceItem]:
        """The evidence of a condition that holds."""
        for part in conjuncts(condition):
            match part:
                case Exists(pattern, negated):
                    yield from self._existing(pattern, solution, negated=negated)
                case Call("!", (Exists(pattern, negated),)):
                    yield from self._existing(pattern, solution, negated=not negated)
                case _:
                    yield HeldFilter(part, _terms_of(part, solution))

    def _existing(self, pattern: Pattern, solution: Solution, *, negated: bool) -> Iterator[EvidenceItem]:
        inside = {name: solution[name] for name in mentioned(pattern) if name in solution}
        if negated:
            yield UnmatchedPattern(Unmatchable.NOT_EXISTS, pattern, inside)
            return
        found = next(self.solutions(pattern, inside), None)
        if found is not None:
            yield from found[1]

    def _groups(self, group: Group, bound: Mapping[Variable, Term]) -> Iterator[_Found]:
        keys = [(name, CompiledExpression(key, self._compile_exists)) for name, key in group.keys]
        plain = {name: bound[name] for name, key in group.keys if key == Var(name) and name in bound}
        members: dict[tuple[Term | None, ...], list[Evidence]] = {}
        for solution, evidence in self.solutions(group.pattern, plain):
            members.setdefault(tuple(key.evaluate(self.graph, solution, EMPTY) for _, key in keys), []).append(evidence)
        for row in self._compile(group).solutions(self.graph, dict(bound), EMPTY):
            key = tuple(row.get(name) for name, _ in keys)
            results = tuple((call, row.get(name)) for name, call in group.aggregates)
            shared = {name: row[name] for name, _ in keys if name in row and not is_hidden(name)}
            yield row, (SolutionGroup(shared, results, tuple(members.get(key, ()))),)

    def _selected(self, select: Select, bound: Mapping[Variable, Term]) -> Iterator[_Found]:
        given = {name: bound[name] for name in select.projection if name in bound}
        rows = self._compile(select).solutions(self.graph, given, EMPTY) if select.offset or select.limit is not None else None
        for solution, evidence in self.solutions(select.pattern, given):
            row = {name: solution[name] for name in select.projection if name in solution}
            if rows is None or row in rows:
                yield row, evidence

    def _compile(self, pattern: Pattern) -> AlgebraOperator:
        return AlgebraCompiler().compile(pattern)

    def _compile_exists(self, exists: Exists) -> AlgebraOperator:
        return AlgebraCompiler().compile(exists.pattern)


def _is_renaming(expression: Expression) -> bool:
    """True for a copy of an aggregate's value, which is shown with its group."""
    return isinstance(expression, Var) and is_hidden(expression.name)


def _unmatched(operator: Unmatchable, pattern: Pattern, solution: Solution) -> UnmatchedPattern:
    names = mentioned(pattern)
    return UnmatchedPattern(operator, pattern, {name: term for name, term in solution.items() if name in names})


def _terms_of(expression: Expression, solution: Solution) -> dict[Variable, Term]:
    names = [part.name for part in parameters_of([expression]) if isinstance(part, Var)]
    return {name: solution[name] for name in names if name in solution}


# --- paths ---


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
        case PathSequence(left, right):
            for middle in sorted(set(path_ends(graph, left, start, forward=True))):
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
    before: dict[Term, Term] = {}
    frontier = [start]
    while frontier:
        reached: dict[Term, Term] = {}
        for node in frontier:
            for other in path_ends(graph, inner, node, forward=True):
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
