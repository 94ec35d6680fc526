"""Delta queries over instants whose graphs have known shapes, without an index of the instant.

Idea: all triples of such a graph have one subject, a blank node that no other graph contains. So no
two graphs of an instant join, and a pattern with this subject matches only the triple of the graph
that the shape determines. A delta query is thereby reduced to conditions on the objects and
patterns over the background. For the shape `[] :from … ; :value …` and the query
`?r :from ?s ; :value ?v . ?s :in ?room`:

    for graph in graphs:
        if len(graph) != 2: return graph
        (s, p0, o0), (s1, p1, o1), = graph
        if s != '_:0' or s1 != s or p0 != k0 or p1 != k1: return graph
        for v_s0 in b2.get(o0, NO_TERMS):
            rows0.append((v_s0, o1))

Invariant: the rows are those of the delta queries over the closed instant. This requires that no
Datalog rule derives what a query reads and that no query joins graphs of an instant; otherwise
`shape_joins` returns None. `ShapeJoins.rows` returns None for an instant with a graph of another
shape, with rows that hold blank nodes, or with so many graphs that a limit might be exceeded.
Cost: per graph a test of its predicates and subjects, and the steps of the queries; compiled at
first use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, TypeAlias

from dotr.evaluation.codegen.tree import Assign, CodeNode, IfElse, Return
from dotr.evaluation.joins.bounds import FanoutBounds
from dotr.evaluation.joins.branch_loops import early_filters, join_items, write_later_steps
from dotr.evaluation.joins.branches import Branch, BranchStep, rename_variables
from dotr.evaluation.joins.compile import JoinWriter
from dotr.evaluation.joins.deltas import DeltaQuery
from dotr.evaluation.joins.order import JoinStep, Side, ordered
from dotr.evaluation.joins.scope import mentioned_in, path_predicates
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.closure.shape_conclusions import ShapeConclusions
from dotr.instant.queries.plan import QueryPlan
from dotr.instant.queries.shared_joins import RowsByKey, TrieNode, write_trie
from dotr.model import dataclass
from dotr.model.algebra import Call, Const, PathPattern, TriplePattern, Var
from dotr.model.templates import GraphShape
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import free_variables

Graphs: TypeAlias = Sequence[tuple[Triple, ...]]
ShapeFunction: TypeAlias = Callable[[Iterable[tuple[Triple, ...]], RowsByKey], tuple[Triple, ...] | None]
"""`function(graphs, rows)` adds the rows of graphs up to the first graph of another shape, and
returns that graph. It returns `()` if a row has a blank node, None if all graphs were read."""

_MOST_MEMBERS: Final = 32
_MOST_STEPS: Final = 16


class _NotByShape(Exception):
    """A query that may join graphs of an instant, or read their blank nodes."""


@dataclass(frozen=True, slots=True)
class _ShapedQuery:
    """A delta query reduced to the graphs of one shape.

    - `steps`: patterns over the background, and conditions, in join order.
    - `checked`: projected names that may hold a blank node of the stream.
    """

    key: int
    branch: Branch
    early: tuple[BranchStep, ...]
    steps: tuple[JoinStep, ...]
    projection: tuple[Variable, ...]
    checked: tuple[Variable, ...]


class ShapeJoins:
    """The delta queries of a program over instants of some shapes; compiled at first use.

    - `most_graphs`: the largest number of graphs of an instant that cannot exceed a limit.
    """

    def __init__(self, queries: dict[tuple[Term, ...], tuple[GraphShape, list[_ShapedQuery]]], background: TripleIndex, most: int) -> None:
        self.most_graphs: Final = most
        self._queries = queries
        self._background = background
        self._functions: dict[tuple[Term, ...], ShapeFunction] = {}
        self._first: ShapeFunction | None = None

    def rows(self, graphs: Graphs) -> RowsByKey | None:
        """The rows of an instant's graphs by the keys of plans; None where the instant must be
        closed instead."""
        if len(graphs) > self.most_graphs:
            return None
        rows: RowsByKey = {}
        if self._first is None:
            other: tuple[Triple, ...] | None = graphs[0] if graphs else None
            remaining = iter(graphs)
            next(remaining, None)
        else:
            remaining = iter(graphs)
            other = self._first(remaining, rows)
        while other is not None:
            function = self._function_of(other)
            if function is None:
                return None
            unread = other
            other = function(chain([unread], remaining), rows)
            if other is unread:
                return None
            if unread is graphs[0]:
                self._first = function
        return rows

    def _function_of(self, graph: tuple[Triple, ...]) -> ShapeFunction | None:
        predicates = tuple([predicate for _, predicate, _ in graph])
        function = self._functions.get(predicates)
        if function is None and predicates in self._queries:
            function = self._functions[predicates] = _compiled(*self._queries[predicates], self._background)
        return function


def shape_joins(
    shapes: Collection[GraphShape],
    conclusions: ShapeConclusions,
    plans: Sequence[QueryPlan],
    keys: Sequence[int],
    background: TripleIndex,
    limits: Limits,
) -> ShapeJoins | None:
    """The delta queries of plans, reduced to graphs of some shapes.

    `keys`: the key of each plan's rows. None where some query may join two graphs, or read triples
    that rules derive from them.

    >>> from dotr.model.algebra import Bgp, Select
    >>> from dotr.model.templates import ShapedTriple
    >>> from dotr.instant.queries.plan import plan
    >>> sensor, room = TriplePattern(Var("r"), Const("<from>"), Var("s")), TriplePattern(Var("s"), Const("<in>"), Var("room"))
    >>> background = TripleIndex([("<s1>", "<in>", "<A>")])
    >>> plans = [plan(Select(("room",), Bgp((sensor, room))), background)]
    >>> shape = GraphShape((ShapedTriple("<from>"),))
    >>> joins = shape_joins([shape], ShapeConclusions(frozenset(), 0), plans, [7], background, Limits())
    >>> joins.rows([(("_:0", "<from>", "<s1>"),), (("_:0", "<from>", "<s2>"),)])
    {7: [('<A>',)]}
    >>> joins.rows([(("_:0", "<at>", "<s1>"),)]) is None
    True
    >>> from inspect import getsource
    >>> print(getsource(*joins._functions.values()))
        def join(graphs, rows_by_key):
            rows0 = []
            for graph in graphs:
                if len(graph) != 1:
                    if rows0:
                        rows_by_key[7] = rows_by_key[7] + rows0 if 7 in rows_by_key else rows0
                    return graph
                (s0, p0, o0),  = graph
                if s0 != k0 or p0 != k1:
                    if rows0:
                        rows_by_key[7] = rows_by_key[7] + rows0 if 7 in rows_by_key else rows0
                    return graph
                for v1 in b3.get(o0, NO_TERMS):
                    rows0.append((v1,))
            if rows0:
                rows_by_key[7] = rows_by_key[7] + rows0 if 7 in rows_by_key else rows0
    <BLANKLINE>
    """
    predicates = {each.predicate for shape in shapes for each in shape.triples}
    found: dict[tuple[Term, ...], tuple[GraphShape, list[_ShapedQuery]]] = {}
    fanouts, most = FanoutBounds(background), limits.triples
    for shape in shapes:
        members: list[_ShapedQuery] = []
        for key, each in zip(keys, plans, strict=True):
            for query in each.delta_queries or ():
                try:
                    members += _shaped(key, query, shape, predicates, conclusions, background)
                except _NotByShape:
                    return None
        if len(members) > _MOST_MEMBERS or len({each.predicate for each in shape.triples}) < len(shape.triples):
            return None
        found[tuple([each.predicate for each in shape.triples])] = shape, members
        work = sum([fanouts.work_of_row(each.steps, _bound(shape), _table_rows(each.branch)) for each in members])
        most = min(most, limits.triples // (len(shape.triples) + conclusions.derivations), int(limits.uncounted_work // max(1.0, work)))
    return ShapeJoins(found, background, most)


def _table_rows(branch: Branch) -> int:
    rows = 1
    for table in branch.tables:
        rows *= len(table.rows)
    return rows


def _object(number: int) -> Variable:
    """The variable that holds the object of a triple of the shape."""
    return f".o{number}"


def _bound(shape: GraphShape) -> list[Variable]:
    return [_object(number) for number in range(len(shape.triples))]


def _shaped(
    key: int,
    query: DeltaQuery,
    shape: GraphShape,
    predicates: Collection[Term],
    conclusions: ShapeConclusions,
    background: TripleIndex,
) -> Iterable[_ShapedQuery]:
    """The reduction of a delta query to the graphs of a shape, none where it has no answer there.

    Raises `_NotByShape` for a query that may join two graphs.
    """
    branch = query.branch
    for pattern, side in zip(branch.patterns, query.sides, strict=True):
        if isinstance(pattern, PathPattern):
            links = path_predicates(pattern.path)
            if links is None or any(each in predicates or conclusions.has(each, None) for each in links):
                raise _NotByShape
            if side is Side.DELTA:
                return []
    read_delta = {pattern.subject for pattern, side in zip(branch.patterns, query.sides, strict=True) if side is Side.DELTA}
    if len(read_delta) != 1 or branch.terms or not branch.is_monotone:
        raise _NotByShape
    own = read_delta.pop()
    names: dict[Variable, Variable] = {}
    conditions: list[BranchStep] = []
    others: list[TriplePattern | PathPattern] = []
    matches = isinstance(own, Var)  # a term of the query is no blank node of the stream
    for pattern, side in zip(branch.patterns, query.sides, strict=True):
        if isinstance(pattern, PathPattern):  # its triples are in the background
            others.append(pattern)
            continue
        if not isinstance(pattern.predicate, Const):
            raise _NotByShape
        value = pattern.object.term if isinstance(pattern.object, Const) else None
        if side is not Side.BACKGROUND and conclusions.has(pattern.predicate.term, value):
            raise _NotByShape
        if pattern.subject != own:
            if side is not Side.BACKGROUND and pattern.predicate.term in predicates:
                raise _NotByShape
            others.append(pattern)
            continue
        number = shape.position(pattern.predicate.term)
        if number is None or side is Side.BACKGROUND:  # the background has no blank nodes of the stream
            matches = False
        elif isinstance(pattern.object, Var):
            if names.setdefault(pattern.object.name, _object(number)) != _object(number):
                raise _NotByShape
        elif shape.triples[number].object is None:
            conditions.append(BranchStep(None, Call("SAMETERM", (Var(_object(number)), pattern.object))))
        elif shape.triples[number].object != pattern.object.term:
            matches = False
    if isinstance(own, Var) and _is_read(own.name, names, others, branch, query.projection):
        raise _NotByShape
    if not matches:
        return []
    return [_ordered(key, replace(branch, patterns=tuple(others)), names, conditions, query.projection, shape, background)]


def _is_read(
    name: Variable,
    names: Collection[Variable],
    others: Sequence[TriplePattern | PathPattern],
    branch: Branch,
    projection: Collection[Variable],
) -> bool:
    """True if the variable of a graph's blank node is read outside the patterns of the graph."""
    expressions = [step.expression for step in branch.steps if isinstance(step, BranchStep)]
    tables = [each for table in branch.tables for each in table.variables]
    return (
        name in names
        or name in projection
        or name in tables
        or any(name in free_variables(pattern) for pattern in others)
        or any(name in mentioned_in(expression) for expression in expressions)
    )


def _ordered(
    key: int,
    branch: Branch,
    names: dict[Variable, Variable],
    conditions: Sequence[BranchStep],
    projection: Sequence[Variable],
    shape: GraphShape,
    background: TripleIndex,
) -> _ShapedQuery:
    """The query with its variables numbered in join order, so that common steps are equal."""
    bound = _bound(shape)
    computed = set(branch.computed)
    renamed = rename_variables(branch, names)
    renamed = replace(renamed, steps=(*conditions, *renamed.steps))
    steps = ordered(join_items(renamed, early_filters(renamed, bound)), bound, Side.BACKGROUND, background)
    appearance: dict[Variable, None] = {}
    for step in steps:
        appearance.update(dict.fromkeys(free_variables(step[0] if isinstance(step, tuple) else step)))
    numbered = {name: f".s{number}" for number, name in enumerate(name for name in appearance if name not in bound)}
    renamed = rename_variables(renamed, numbered)
    early = early_filters(renamed, bound)
    final = {name: numbered.get(other, other) for name, other in ((name, names.get(name, name)) for name in projection)}
    columns = tuple([final[name] for name in projection])
    checked = tuple([final[name] for name in dict.fromkeys(projection) if name in computed or final[name] in bound])
    steps = ordered(join_items(renamed, early), bound, Side.BACKGROUND, background)
    if len(steps) + len(renamed.tables) > _MOST_STEPS:
        raise _NotByShape
    return _ShapedQuery(key, renamed, tuple(early), tuple(steps), columns, checked)


def _compiled(shape: GraphShape, members: Sequence[_ShapedQuery], background: TripleIndex) -> ShapeFunction:
    """The function of the graphs of a shape; see the module's docstring."""
    root = TrieNode()
    for number, member in enumerate(members):
        node = root
        for step in member.steps:
            node = node.children.setdefault(step, TrieNode())
        node.ends.append(number)
    writer = JoinWriter("join", leave="return", index=background)
    writer.begin(["graphs", "rows_by_key"])
    for number in range(len(members)):
        writer.assign(f"rows{number}", "[]")
    stored: list[CodeNode] = [
        IfElse([(f"rows{n}", [Assign(f"rows_by_key[{m.key}]", f"rows_by_key[{m.key}] + rows{n} if {m.key} in rows_by_key else rows{n}")])])
        for n, m in enumerate(members)
    ]
    writer.loop("graph", "graphs")
    count = len(shape.triples)
    other = [*stored, Return("graph")]
    writer.add(IfElse([(f"len(graph) != {count}", other)]))
    writer.assign("".join(f"(s{n}, p{n}, o{n}), " for n in range(count)), "graph")
    tests = [f"s0 != {writer.constant('_:0')}", *(f"s{n} != s0" for n in range(1, count))]
    for number, each in enumerate(shape.triples):
        tests.append(f"p{number} != {writer.constant(each.predicate)}")
        if each.object is not None:
            tests.append(f"o{number} != {writer.constant(each.object)}")
        writer.names[_object(number)] = f"o{number}"
    writer.add(IfElse([(" or ".join(tests), other)]))

    def write_end(number: int) -> None:
        member = members[number]
        write_later_steps(writer, member.branch, member.early, background, None)
        if member.checked:
            tests = []
            for name in member.checked:
                read = writer.read(name)
                tests.append(f"{read}[1] in ':<'" if name.startswith(".o") else f"({read} is not None and {read}[1] in ':<')")
            writer.add(IfElse([(" or ".join(tests), [Return("()")])]))
        writer.emit(f"rows{number}.append", writer.row(member.projection))

    if members:
        write_trie(writer, root, write_end)
    writer.end(stored)
    function: ShapeFunction = writer.function()
    return function
