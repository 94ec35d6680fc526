"""Solutions that are kept are those of full evaluation at every report, for random queries over windows that move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from dotr.datalog.background import Knowledge
from dotr.engine.kept_solutions import KeptSolutions, SeenGraph
from dotr.engine.kept_windows import WindowChanges
from dotr.horizons.window_closure import WindowClosure
from dotr.joins.limits import LIMITS
from dotr.model.algebra import AggregateCall, Call, Const, Filter, Group, Pattern, Select, Var, WindowBlock
from dotr.model.continuous import EntailmentLevel
from dotr.model.terms import XSD, Triple, literal
from dotr.queries.evaluate import AlgebraCompiler
from dotr.queries.graph import Graph
from dotr.queries.kept_changes import GraphName
from dotr.queries.kept_plan import KeptPlan, kept_plan
from dotr.queries.operators import EMPTY
from dotr.queries.report_graph import ReportGraph
from dotr.store.triples import TripleIndex
from tests.queries.test_queries_plans import NAMES, NODES, NUMBERS, PREDICATES, Author, Row

pytestmark = pytest.mark.core

WINDOWS: tuple[GraphName, ...] = ("<w>", "<v>")
MORE_NUMBERS = [literal(text, XSD + "double") for text in ("1.0E-1", "1.0E16", "NaN", "-INF")] + [literal("0.2", XSD + "decimal")]
FUNCTIONS = ["COUNT", "SUM", "SUM", "AVG", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT"]


class WindowAuthor(Author):
    """A generator of random queries over windows and the default graph."""

    def bgp(self) -> Pattern:
        chance = self.random.random()
        found = super().bgp()
        return WindowBlock("<w>", found) if chance < 0.5 else WindowBlock("<v>", found) if chance < 0.75 else found

    def group(self, depth: int) -> Pattern:
        inner = self.pattern(depth)
        self.fresh += 1
        keys = tuple((name, Var(name)) for name in NAMES if self.random.random() < 0.25)
        function = self.random.choice(FUNCTIONS)
        argument = None if function == "COUNT" and self.random.random() < 0.5 else Var(self.random.choice(NAMES))
        call = AggregateCall(function, self.random.random() < 0.3, argument)
        grouped: Pattern = Group(inner, keys, ((f"g{self.fresh}", call), (f"n{self.fresh}", AggregateCall("COUNT", False, None))))
        if self.random.random() < 0.4:
            grouped = Filter(grouped, (Call(">", (Var(f"n{self.fresh}"), Const(NUMBERS[0]))),))
        return Select((*(name for name, _ in keys), f"g{self.fresh}"), grouped)

    def data(self, most: int) -> list[Triple]:
        objects = NODES * 2 + NUMBERS + MORE_NUMBERS
        return [
            (self.random.choice(NODES), self.random.choice(PREDICATES), self.random.choice(objects))
            for _ in range(self.random.randint(0, most))
        ]


class MovingGraph:
    """A window that moves, as its closure tells it, or as one that is closed anew at every report."""

    def __init__(self, author: WindowAuthor, background: list[Triple], *, is_kept: bool) -> None:
        self._author = author
        self._knowledge = Knowledge.load(background, [])
        self._closure = WindowClosure(EntailmentLevel.GRAPH, self._knowledge, [])
        self._begin = self._time = 0
        self._is_kept = is_kept
        self._is_new = True

    def move(self) -> SeenGraph:
        """The graph at the next report."""
        source = self._author.random
        for _ in range(source.choice([0, 0, 1, 2, 5])):
            self._time += 1
            self._closure.insert(self._time, self._author.data(4))
        self._begin = max(self._begin, self._time - source.choice([0, 2, 4, 4, 20, 100]))
        found = self._closure.advance(self._begin)
        changes = None if self._is_new else WindowChanges(found.began, (), found.ended, False)  # type: ignore[arg-type]
        self._is_new = False
        background, seen = self._knowledge.background, self._closure.beyond
        return SeenGraph(seen, background, changes) if self._is_kept else SeenGraph(TripleIndex(seen), background)


def in_full(select: Select, graphs: Mapping[GraphName, SeenGraph]) -> Counter[Row]:
    blocks = {name: Graph(TripleIndex(), TripleIndex(graphs[name].triples)) for name in WINDOWS if name is not None}
    graph = ReportGraph(graphs[None].background, TripleIndex(graphs[None].triples), blocks, [])
    solutions = AlgebraCompiler().compile(select).solutions(graph, EMPTY, EMPTY)
    return Counter(tuple(solution.get(name) for name in select.projection) for solution in solutions)


def by_parts(plan: KeptPlan, select: Select, graphs: Mapping[GraphName, SeenGraph]) -> Counter[Row]:
    blocks = {name: Graph(TripleIndex(), graphs[name].triples) for name in WINDOWS if name is not None}
    graph = ReportGraph(graphs[None].background, graphs[None].triples, blocks, [])
    return Counter(tuple(each.get(name) for name in select.projection) for each in plan.operator.solutions(graph, EMPTY, EMPTY))


def check(author: WindowAuthor) -> KeptPlan:
    select = author.query()
    background = author.data(6) if author.random.random() < 0.6 else []
    plan = kept_plan(select, {*WINDOWS, None}, LIMITS)
    kept = KeptSolutions(plan, LIMITS)
    moving = {name: MovingGraph(author, [], is_kept=author.random.random() < 0.7) for name in WINDOWS}
    moving[None] = MovingGraph(author, background, is_kept=author.random.random() < 0.8)
    bag: Counter[Row] = Counter()
    for _ in range(6):
        graphs = {name: each.move() for name, each in moving.items()}
        if author.random.random() < 0.1:
            kept.clear()
        changes = kept.update(graphs)
        if changes is None:
            bag = by_parts(plan, select, graphs)
        else:
            bag = Counter() if changes.is_anew else bag
            bag.update(changes.came)
            bag.subtract(changes.went)
            assert kept.number == bag.total()
        assert +bag == in_full(select, graphs), (select, plan.in_full)
        assert min(bag.values(), default=0) >= 0
    return plan


@pytest.mark.parametrize("chunk", range(5))
def test_kept_solutions_of_conjunctions_are_those_of_full_evaluation(chunk: int) -> None:
    plans = [check(WindowAuthor(chunk * 1000 + number, monotone=True)) for number in range(40)]
    assert sum(plan.whole is not None for plan in plans) == 40


@pytest.mark.parametrize("chunk", range(10))
def test_kept_parts_of_any_query_give_its_solutions(chunk: int) -> None:
    plans = [check(WindowAuthor(chunk * 1000 + number, monotone=False)) for number in range(40)]
    assert sum(plan.whole is not None for plan in plans) > 8
    assert sum(bool(plan.parts) for plan in plans) > 8
