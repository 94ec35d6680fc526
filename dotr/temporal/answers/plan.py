"""Plans of queries whose solutions are maintained from report to report.

Idea: a maximal part of a query that consists of unions of conjunctions, FILTER, BIND, VALUES,
DISTINCT, aggregates, joins, OPTIONAL, MINUS and EXISTS is compiled to incremental operators
(`dotr.temporal.answers.operators`, `dotr.temporal.answers.joins`, `dotr.temporal.answers.groups`,
`dotr.temporal.answers.semijoins`) and is called *kept*. The constructs above the kept parts (paths
without a bound end, LIMIT, MATCH) are evaluated in full, with the kept solutions as input.
Invariant: a kept part has the bag of solutions of full evaluation, at every report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, assert_never

from dotr.errors.diagnostics import DotrError
from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.joins.branches import Unplannable, branches
from dotr.evaluation.joins.scope import Reads, Variables, possible, reads_of, union_of_reads
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.evidence import TracedSolution
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.incremental import split_paths
from dotr.instant.queries.matching import Bindings, Solution
from dotr.instant.queries.operators import AlgebraOperator, JoinOperator
from dotr.instant.queries.window_operators import WindowOperator
from dotr.model.algebra import (
    Bgp,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    MatchPattern,
    Minus,
    PathPattern,
    Pattern,
    Select,
    TriplePattern,
    Union,
    Values,
    WindowBlock,
    is_hidden,
)
from dotr.model.terms import Variable
from dotr.model.traverse import certain, expressions_in, has_exists, walk
from dotr.temporal.answers.changes import NO_TRIPLES, GraphChanges, GraphName, ReportWork, RowChanges
from dotr.temporal.answers.groups import MaintainedGroups
from dotr.temporal.answers.joins import MaintainedJoin, MaintainedLookup
from dotr.temporal.answers.operators import (
    ConjunctionScan,
    MaintainedDistinct,
    MaintainedExtend,
    MaintainedFilter,
    MaintainedOperator,
    MaintainedProjection,
    MaintainedTable,
    MaintainedUnion,
)
from dotr.temporal.answers.semijoins import MaintainedOptional, MaintainedWithoutPartner, MaintainedWithPartner, NotASemijoin, partner_of

DEFAULT_GRAPH: Final = "the default graph"
"""The reason of `NotKept` for a pattern over a default graph whose changes are unknown."""


LARGE_BACKGROUND: Final = "a part with many answers over the background"
"""The reason of `NotKept` for a pattern that is looked up instead, for the rows of another."""

MAX_STATIC_SIZE: Final = 50_000.0
"""The estimated number of solutions above which a part over the background alone is not kept, but
looked up."""


class NotKept(DotrError):
    """A construct of a query that is evaluated in full; the message names it."""


class MaintainedCompiler:
    """Compiler of patterns to incremental operators.

    - `graphs`: the graphs whose changes are known; a pattern over any other graph is not kept.
    - `background`: the triples of the default graph that never change.
    - `matches`: the operators of MATCH blocks by number; None for one that is not kept.
    """

    def __init__(
        self, graphs: Collection[GraphName], limits: Limits, background: TripleIndex, matches: Sequence[MaintainedOperator | None] = ()
    ) -> None:
        self.matches = matches
        self._graphs = graphs
        self._background = Graph(background, NO_TRIPLES)
        self._limits = limits
        self.read: dict[GraphName, Reads | None] = {}
        """The kinds of triples that patterns read, by graph; None for any."""

    def compile(self, pattern: Pattern, graph: GraphName = None) -> MaintainedOperator:
        """The operator that keeps a pattern over a graph. Raises `NotKept`."""
        if isinstance(pattern, WindowBlock):
            return self.compile(pattern.pattern, pattern.window)
        if isinstance(pattern, Select):
            return self._selected(pattern, graph)
        scan = self._scan(pattern, graph, sorted(possible(pattern)))
        return scan or self._compiled(pattern, graph)

    def _scan(self, pattern: Pattern, graph: GraphName, names: Sequence[Variable]) -> ConjunctionScan | None:
        """The scan of a union of conjunctions over one graph; None for another pattern."""
        if isinstance(pattern, WindowBlock):
            return self._scan(pattern.pattern, pattern.window, names)
        try:
            parts = branches(pattern)
        except Unplannable:
            return None
        if not all(part.is_monotone for part in parts):
            return None
        if graph not in self._graphs and any(part.patterns for part in parts):
            raise NotKept(DEFAULT_GRAPH)
        for each in (each for part in parts for each in part.patterns):
            self.read[graph] = union_of_reads(self.read.get(graph, frozenset()), reads_of(each))
        return ConjunctionScan(graph, parts, names, self._limits)

    def _compiled(self, pattern: Pattern, graph: GraphName) -> MaintainedOperator:
        match pattern:
            case Bgp():
                raise NotKept("a property path")
            case Join(left, right):
                return self._joined(left, right, graph)
            case Union(left, right):
                return MaintainedUnion((self.compile(left, graph), self.compile(right, graph)))
            case LeftJoin(left, right, test):
                _refuse_exists(pattern)
                one, other = self._sides(left, right, graph, sorted(possible(right)))
                return MaintainedOptional(one, other, certain(left) & certain(right), () if test is None else (test,))
            case Minus(left, right):
                shared = sorted(possible(left) & possible(right))
                if not shared:
                    return self.compile(left, graph)
                one, other = self._sides(left, right, graph, shared)
                return MaintainedWithoutPartner(one, other, certain(left) & certain(right), sharing=True)
            case Filter(inner, conditions):
                return self._filtered(inner, conditions, graph)
            case Extend(inner, variable, expression):
                _refuse_exists(pattern)
                return MaintainedExtend(self.compile(inner, graph), variable, expression)
            case Values():
                return MaintainedTable(pattern)
            case Group(inner, _, _):
                _refuse_exists(pattern)
                return MaintainedGroups(self.compile(inner, graph), pattern)
            case MatchPattern(number):
                found = self.matches[number] if self.matches else None
                if found is None:
                    raise NotKept("MATCH")
                return found
            case Select() | WindowBlock():
                raise AssertionError("compiled by `compile`")
            case _:
                assert_never(pattern)

    def _joined(self, left: Pattern, right: Pattern, graph: GraphName) -> MaintainedOperator:
        """The join of two patterns: by look-ups where one is a conjunction over the default
        graph."""
        in_both = certain(left) & certain(right)
        one, other = self.compile(left, graph), self.compile(right, graph)
        for kept, looked_up in ((one, other), (other, one)):
            if isinstance(looked_up, ConjunctionScan) and looked_up.graph is None and in_both and in_both.isdisjoint(looked_up.computed):
                return MaintainedLookup(kept, looked_up, in_both)
        if self.is_large(left, graph) or self.is_large(right, graph):
            raise NotKept(LARGE_BACKGROUND)
        return MaintainedJoin(one, other, in_both)

    def _sides(
        self, left: Pattern, right: Pattern, graph: GraphName, names: Sequence[Variable]
    ) -> tuple[MaintainedOperator, MaintainedOperator]:
        """The left side of OPTIONAL, MINUS or EXISTS, and its right side, projected to `names`."""
        if self.is_large(left, graph) or self.is_large(right, graph):
            raise NotKept(LARGE_BACKGROUND)
        one, scan = self.compile(left, graph), self._scan(right, graph, names)
        return one, scan or MaintainedProjection(self.compile(right, graph), names)

    def _filtered(self, inner: Pattern, conditions: Sequence[Expression], graph: GraphName) -> MaintainedOperator:
        plain = tuple([each for each in conditions if not has_exists(each)])
        found: MaintainedOperator | None = None
        if plain and len(plain) < len(conditions):
            found = self._scan(Filter(inner, plain), graph, sorted(possible(inner)))
        if found is None:
            found = self.compile(inner, graph)
            found = MaintainedFilter(found, plain) if plain else found
        for each in conditions:
            if not has_exists(each):
                continue
            if not isinstance(each, Exists):
                raise NotKept("EXISTS inside an expression")
            try:
                partner = partner_of(each, possible(inner))
            except NotASemijoin as construct:
                raise NotKept(str(construct)) from None
            if self.is_large(inner, graph) or self.is_large(partner.pattern, graph):
                raise NotKept(LARGE_BACKGROUND)
            read = possible(inner) | partner.mentioned
            names = sorted(possible(partner.pattern) & read)
            other = self._scan(partner.pattern, graph, names) or MaintainedProjection(self.compile(partner.pattern, graph), names)
            kind = MaintainedWithoutPartner if each.negated else MaintainedWithPartner
            found = kind(found, other, certain(inner) & certain(partner.pattern), partner.conditions)
        return found

    def is_large(self, pattern: Pattern, graph: GraphName) -> bool:
        """True for a pattern over the default graph alone with many solutions over the
        background."""
        if (
            graph is not None
            or not len(self._background.background)
            or any(isinstance(node, WindowBlock | MatchPattern) for node in walk(pattern))
        ):
            return False
        return AlgebraCompiler().compile(pattern).size(self._background) > MAX_STATIC_SIZE

    def _selected(self, select: Select, graph: GraphName) -> MaintainedOperator:
        if select.offset or select.limit is not None:
            raise NotKept("LIMIT or OFFSET")
        projected = self._scan(select.pattern, graph, select.projection)
        found = projected or MaintainedProjection(self.compile(select.pattern, graph), select.projection)
        return MaintainedDistinct(found) if select.distinct else found


def _refuse_exists(pattern: Pattern) -> None:
    if any(map(has_exists, expressions_in(pattern))):
        raise NotKept("EXISTS")


# --- parts of a query that is evaluated in full ---


class MaintainedPart(AlgebraOperator):
    """A part of a query whose solutions are kept, as an operator of full evaluation.

    `general` evaluates the pattern where some of its variables are bound.
    """

    __slots__ = ("_bag", "_general", "_kept", "_solutions")

    def __init__(self, pattern: Pattern, kept: MaintainedOperator, general: AlgebraOperator) -> None:
        super().__init__(pattern)
        self._kept = kept
        self._general = general
        self._bag: Counter[AnswerRow] = Counter()
        self._solutions: dict[AnswerRow, Solution] = {}

    @property
    def shown(self) -> list[Variable]:
        """The variables of a query's text that its solutions may bind."""
        return sorted(name for name in self.variables if not is_hidden(name))

    def update(self, graphs: GraphChanges, work: ReportWork) -> None:
        """Applies the changes of the graphs. Raises `LimitExceeded`, after which the part must be
        cleared."""
        inserted, deleted = self._kept.changes(graphs, work)
        for row in inserted:
            if not self._bag[row]:
                self._solutions[row] = {name: term for name, term in zip(self._kept.names, row, strict=True) if term is not None}
            self._bag[row] += 1
        for row in deleted:
            self._bag[row] -= 1
            if not self._bag[row]:
                del self._bag[row], self._solutions[row]

    def clear(self) -> None:
        """Discards all state; the next report is evaluated from scratch."""
        self._kept.clear()
        self._bag.clear()
        self._solutions.clear()

    def solutions(self, graph: Graph, bound: Bindings, outer: Bindings) -> Sequence[Solution]:
        if outer or not self.variables.isdisjoint(bound):
            return self._general.solutions(graph, bound, outer)
        return [self._solutions[row] for row in self._bag.elements()]

    def traced(self, graph: Graph, bound: Bindings, outer: Bindings) -> Iterator[TracedSolution]:
        return self._general.traced(graph, bound, outer)

    def size(self, graph: Graph) -> float:
        return float(len(self._bag))

    def full_scan_reason(self, bound: Variables) -> str:
        return self._general.full_scan_reason(bound)


class _PartsCompiler(AlgebraCompiler):
    """Compiler of full evaluation that compiles the largest possible parts with `kept`."""

    def __init__(self, kept: MaintainedCompiler, graph: GraphName, parts: list[MaintainedPart], in_full: dict[str, None]) -> None:
        self._kept = kept
        self._graph = graph
        self._parts = parts
        self._in_full = in_full

    def compile(self, pattern: Pattern) -> AlgebraOperator:
        if any(isinstance(node, TriplePattern | PathPattern | MatchPattern) for node in walk(pattern)):
            try:
                kept = self._kept.compile(pattern, self._graph)
                if self._kept.is_large(pattern, self._graph):
                    raise NotKept(LARGE_BACKGROUND)
            except NotKept as construct:
                self._in_full[str(construct)] = None
            else:
                self._parts.append(MaintainedPart(pattern, kept, AlgebraCompiler().compile(pattern)))
                return self._parts[-1]
        if isinstance(pattern, WindowBlock):
            inner = _PartsCompiler(self._kept, pattern.window, self._parts, self._in_full).compile(pattern.pattern)
            return WindowOperator(pattern, pattern.window, inner)
        if isinstance(pattern, Bgp):
            triples, paths = split_paths(pattern)
            if triples.patterns and paths.patterns:  # the paths start at terms that the triples bind
                return JoinOperator(pattern, self.compile(triples), AlgebraCompiler().compile(paths))
        return super().compile(pattern)

    def compile_lookup(self, pattern: Pattern, left: Pattern) -> AlgebraOperator:
        if certain(left) & possible(pattern):
            return AlgebraCompiler().compile(pattern)
        return self.compile(pattern)


class MaintainedPlan(NamedTuple):
    """The plan of a query.

    - `whole`: the incremental operator of the whole query, or None.
    - `operator`: where `whole` is None, the operator of full evaluation over the kept `parts`.
    - `in_full`: the constructs because of which a part is evaluated in full at each report.
    - `reads`: the kinds of triples that the kept parts read, by graph; None for any.
    """

    whole: MaintainedOperator | None
    operator: AlgebraOperator
    parts: tuple[MaintainedPart, ...]
    in_full: tuple[str, ...]
    reads: Mapping[GraphName, Reads | None]

    def clear(self) -> None:
        """Discards all state; the next report is evaluated from scratch."""
        if self.whole is not None:
            self.whole.clear()
        for part in self.parts:
            part.clear()

    def update(self, graphs: GraphChanges, limits: Limits) -> RowChanges | None:
        """Applies the changes of the graphs to all parts.

        Returns the inserted and deleted solutions of a query that is kept as a whole, else None.
        Raises `LimitExceeded`, after which the plan must be cleared.
        """
        work = ReportWork(limits)
        for part in self.parts:
            part.update(graphs, work)
        return None if self.whole is None else self.whole.changes(graphs, work)


def maintained_plan(
    select: Select,
    graphs: Collection[GraphName],
    limits: Limits,
    background: TripleIndex = NO_TRIPLES,
    matches: Sequence[MaintainedOperator | None] = (),
) -> MaintainedPlan:
    """The plan of a query.

    - `graphs`: the graphs whose changes are known from report to report: names of windows, and None
      for the default graph.
    - `background`: the triples of the default graph that never change.
    - `matches`: the operators of MATCH blocks by number, None for one that is not kept. They are
      used only where the whole query is kept.

    >>> from dotr.model.algebra import Const, Var
    >>> from dotr.evaluation.limits import LIMITS
    >>> a, b = (WindowBlock("<w>", Bgp((TriplePattern(Var("x"), Const(p), Var(p[1])),))) for p in ("<a>", "<b>"))
    >>> maintained_plan(Select(("x",), Join(a, b)), {"<w>"}, LIMITS).in_full
    ()
    >>> maintained_plan(Select(("x",), LeftJoin(a, b, None)), {"<w>"}, LIMITS).in_full
    ()
    >>> plan = maintained_plan(Select(("x",), LeftJoin(a, b, None), limit=1), {"<w>"}, LIMITS)
    >>> plan.in_full, len(plan.parts)
    (('LIMIT or OFFSET',), 1)
    """
    compiler = MaintainedCompiler(graphs, limits, background, matches)
    try:
        whole = compiler.compile(select)
    except NotKept:
        compiler.matches = ()
        parts: list[MaintainedPart] = []
        in_full: dict[str, None] = {}
        operator = _PartsCompiler(compiler, None, parts, in_full).compile(select)
        return MaintainedPlan(None, operator, tuple(parts), tuple(in_full), compiler.read)
    return MaintainedPlan(whole, AlgebraCompiler().compile(select), (), (), compiler.read)
