"""Incremental solutions equal those of full evaluation at every report, for random queries over
moving windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.limits import LIMITS, LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY
from dotr.instant.queries.window_operators import ReportGraph
from dotr.languages.continuous.evaluation.maintained_solutions import GraphAtReport, MaintainedSolutions
from dotr.languages.continuous.evaluation.shared_closure import WindowChanges
from dotr.languages.continuous.evaluation.window_closure import WindowClosure
from dotr.languages.continuous.model import EntailmentLevel
from dotr.languages.programs import compile_program
from dotr.model.algebra import (
    AggregateCall,
    Bgp,
    Call,
    Const,
    Exists,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    Pattern,
    Select,
    TriplePattern,
    Union,
    Var,
    WindowBlock,
)
from dotr.model.places import Document
from dotr.model.stream import FedGraph, Reason
from dotr.model.terms import XSD, Triple, literal
from dotr.model.time import Clock
from dotr.temporal.answers.changes import GraphName
from dotr.temporal.answers.plan import LARGE_BACKGROUND, MaintainedPlan, maintained_plan
from tests.instant.queries.test_queries_plans import NAMES, NODES, NUMBERS, PREDICATES, Author, Row
from tests.oracle.cases import read_turtle

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
    """The graph of a moving window: with the changes of its closure (`is_kept`), or without
    changes."""

    def __init__(self, author: WindowAuthor, background: list[Triple], *, is_kept: bool) -> None:
        self._author = author
        self._knowledge = Knowledge.load(background, [])
        self._closure = WindowClosure(EntailmentLevel.GRAPH, self._knowledge, [])
        self._begin = self._time = 0
        self._is_kept = is_kept
        self._is_new = True

    def move(self) -> GraphAtReport:
        """The graph at the next report."""
        source = self._author.random
        for _ in range(source.choice([0, 0, 1, 2, 5])):
            self._time += 1
            self._closure.insert(self._time, self._author.data(4))
        self._begin = max(self._begin, self._time - source.choice([0, 2, 4, 4, 20, 100]))
        found = self._closure.advance(self._begin)
        changes = None if self._is_new else WindowChanges(found.began, (), found.ended, False)  # type: ignore[arg-type]
        self._is_new = False
        background, beyond = self._knowledge.background, self._closure.beyond
        return GraphAtReport(beyond, background, changes) if self._is_kept else GraphAtReport(TripleIndex(beyond), background)


def in_full(select: Select, graphs: Mapping[GraphName, GraphAtReport]) -> Counter[Row]:
    blocks = {name: Graph(TripleIndex(), TripleIndex(graphs[name].triples)) for name in WINDOWS if name is not None}
    graph = ReportGraph(graphs[None].background, TripleIndex(graphs[None].triples), blocks, [])
    solutions = AlgebraCompiler().compile(select).solutions(graph, EMPTY, EMPTY)
    return Counter(tuple(solution.get(name) for name in select.projection) for solution in solutions)


def by_parts(plan: MaintainedPlan, select: Select, graphs: Mapping[GraphName, GraphAtReport]) -> Counter[Row]:
    blocks = {name: Graph(TripleIndex(), graphs[name].triples) for name in WINDOWS if name is not None}
    graph = ReportGraph(graphs[None].background, graphs[None].triples, blocks, [])
    return Counter(tuple(each.get(name) for name in select.projection) for each in plan.operator.solutions(graph, EMPTY, EMPTY))


def check(author: WindowAuthor) -> MaintainedPlan:
    select = author.query()
    background = author.data(6) if author.random.random() < 0.6 else []
    plan = maintained_plan(select, {*WINDOWS, None}, LIMITS)
    kept = MaintainedSolutions(plan, LIMITS)
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
            assert not (changes.is_initial and changes.deleted)
            bag = Counter() if changes.is_initial else bag
            bag.update(changes.inserted)
            bag.subtract(changes.deleted)
            assert kept.number == bag.total()
        assert +bag == in_full(select, graphs), (select, plan.in_full)
        assert min(bag.values(), default=0) >= 0
    return plan


@pytest.mark.parametrize("chunk", range(5))
def test_incremental_conjunctions_equal_full_evaluation(chunk: int) -> None:
    plans = [check(WindowAuthor(chunk * 1000 + number, monotone=True)) for number in range(40)]
    assert sum(plan.whole is not None for plan in plans) == 40


@pytest.mark.parametrize("chunk", range(10))
def test_incremental_parts_of_any_query_equal_full_evaluation(chunk: int) -> None:
    plans = [check(WindowAuthor(chunk * 1000 + number, monotone=False)) for number in range(72)]
    assert sum(plan.whole is not None for plan in plans) > 8
    assert sum(bool(plan.parts) for plan in plans) > 8


# --- limits and errors ---


def reports(text: str, elements: list[tuple[int, str]], limits: Limits) -> tuple[dict[int, list[str]], list[int]]:
    """The values of ?x by the second of the report, and the seconds of reports over a limit."""
    engine = Engine(compile_program(ProgramSpec((Document("q.rspql", text),), limits=limits, prefixes={"": "http://e/"})), Clock())
    firings = []
    for second, turtle in elements:
        firings += engine.step(second * 10**6, [FedGraph.on("http://e/in", read_turtle(turtle, {"": "http://e/"}))])[0]
    firings += [firing for moment in engine.finish() for firing in moment]
    values: dict[int, list[str]] = {}
    for firing in firings:
        values.setdefault(firing.time // 10**6, []).append(dict(firing.attributes)["x"].removeprefix("<http://e/").removesuffix(">"))
    assert {letter.reason for letter in engine.failed} <= {Reason.LIMIT}
    return {second: sorted(each) for second, each in values.items()}, [(letter.time or 0) // 10**6 for letter in engine.failed]


IN = "FROM NAMED WINDOW <w> ON :in [RANGE 3s STEP 1s REPORT ON WINDOW CLOSE]"
ELEMENTS = [(1, ":a :p :b ."), (2, ":b :p :c ."), (3, ":c :p :d . :d :p :e ."), (4, ":e :p :a ."), (7, ":f :p :a .")]
ROWS = replace(LIMITS, rows=3)


def test_report_over_the_limit_is_a_dead_letter_and_the_next_compares_with_the_last_output() -> None:
    values, over = reports(f"REGISTER ISTREAM Q AS SELECT ?x {IN} {{ WINDOW <w> {{ ?x :p ?y }} }}", ELEMENTS, ROWS)
    assert over == [3, 4]  # four rows, and again
    assert values == {1: ["a"], 2: ["b"], 5: ["c", "d", "e"], 7: ["f"]}
    values, over = reports(f"REGISTER DSTREAM Q AS SELECT ?x {IN} {{ WINDOW <w> {{ ?x :p ?y }} }}", ELEMENTS, ROWS)
    assert over == [3, 4]
    assert values == {5: ["a", "b"], 6: ["c", "d"], 7: ["e"], 10: ["f"]}


@pytest.mark.parametrize(
    "where", ["WINDOW <w> { ?x :p ?y } OPTIONAL { WINDOW <w> { ?y :q ?z } }", "WINDOW <w> { ?x :p ?y } WINDOW <w> { ?x ?r ?y }"]
)
def test_limit_holds_for_joins_and_for_parts(where: str) -> None:
    values, over = reports(f"REGISTER ISTREAM Q AS SELECT ?x {IN} {{ {where} }}", ELEMENTS, ROWS)
    assert over == [3, 4]
    assert values == {1: ["a"], 2: ["b"], 5: ["c", "d", "e"], 7: ["f"]}


def test_limit_of_probes_ends_a_report_with_many_pairs() -> None:
    elements = [(1, " ".join(f":a{n} :p :b ." for n in range(40))), (5, ":a :p :b .")]
    where = "WINDOW <w> { ?x :p ?y } WINDOW <w> { ?z :p ?y } FILTER(?x = ?z)"
    values, over = reports(f"REGISTER ISTREAM Q AS SELECT ?x {IN} {{ {where} }}", elements, replace(LIMITS, probes=1000))
    assert over == [1, 2, 3]
    assert values == {5: ["a"]}


def test_background_of_a_join_is_looked_up_not_stored() -> None:
    """Only two of a thousand triples are looked up, for two readings, so small limits suffice."""
    background = [(f"<s{number}>", "<in>", f"<r{number}>") for number in range(1000)]
    shows = WindowBlock("<w>", Bgp((TriplePattern(Var("s"), Const("<shows>"), Var("v")),)))
    select = Select(("v", "r"), Join(shows, Bgp((TriplePattern(Var("s"), Const("<in>"), Var("r")),))))
    limits = replace(LIMITS, rows=5, probes=50)
    kept = MaintainedSolutions(maintained_plan(select, {"<w>", None}, limits), limits)
    known = GraphAtReport(TripleIndex(), TripleIndex(background))
    window = TripleIndex([("<s1>", "<shows>", "<v1>"), ("<s7>", "<shows>", "<v7>")])
    found = kept.update({"<w>": GraphAtReport(window), None: known})
    assert found is not None
    assert sorted(found.inserted) == [("<v1>", "<r1>"), ("<v7>", "<r7>")]
    found = kept.update({"<w>": GraphAtReport(TripleIndex([("<s7>", "<shows>", "<v7>")])), None: known})
    assert found is not None
    assert (found.inserted, found.deleted, found.is_initial) == ([], [("<v1>", "<r1>")], False)


def test_part_with_many_answers_over_the_background_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotr.temporal.answers.plan.MAX_STATIC_SIZE", 100.0)
    background = TripleIndex([(f"<s{number}>", "<p>", f"<r{number}>") for number in range(1000)])
    rooms, shows = _pattern("s", "r"), WindowBlock("<w>", _pattern("s", "v"))
    either = Union(shows, WindowBlock("<w>", _pattern("r", "v")))  # binds neither always
    optional = LeftJoin(shows, WindowBlock("<w>", _pattern("v", "k")), None)
    for pattern, parts in (
        (Join(Select(("s", "v"), optional, limit=1), rooms), [["k", "s", "v"]]),
        (Join(either, rooms), [["r", "s", "v"]]),
        (LeftJoin(shows, rooms, None), [["s", "v"]]),
        (Minus(shows, rooms), [["s", "v"]]),
        (Filter(shows, (Exists(rooms, negated=True),)), [["s", "v"]]),
    ):
        plan = maintained_plan(Select(("r",), pattern), {"<w>", None}, LIMITS, background)
        assert LARGE_BACKGROUND in plan.in_full
        assert [part.shown for part in plan.parts] == parts
    assert not maintained_plan(Select(("r",), Join(optional, rooms)), {"<w>", None}, LIMITS, background).in_full


@pytest.mark.parametrize("chunk", range(5))
def test_incremental_optional_minus_and_exists_equal_full_evaluation(chunk: int) -> None:
    """Each of OPTIONAL, MINUS and EXISTS over two random patterns, as a whole."""
    plans = [check(PartnerAuthor(chunk * 1000 + number, monotone=True)) for number in range(40)]
    assert sum(plan.whole is not None for plan in plans) > 30


class PartnerAuthor(WindowAuthor):
    """A generator of queries that are OPTIONAL, MINUS or EXISTS of two patterns, with a
    condition."""

    def pattern(self, depth: int) -> Pattern:
        if depth < self.random.choice([1, 2, 2]):
            return super().pattern(depth)
        left, right = super().pattern(0), super().pattern(self.random.choice([0, 0, 1]))
        test = Call(self.random.choice(["<", "=", "!="]), (Var(self.random.choice(NAMES)), Var(self.random.choice(NAMES))))
        inside = Filter(right, (test,)) if self.random.random() < 0.4 else right
        match self.random.randrange(4):
            case 0:
                return LeftJoin(left, right, test if inside is not right else None)
            case 1:
                return Minus(left, inside)
            case _:
                return Filter(left, (Exists(inside, self.random.random() < 0.5), *([test] if self.random.random() < 0.2 else [])))


def test_state_is_empty_after_an_error() -> None:
    limits = replace(LIMITS, rows=1)
    kept = MaintainedSolutions(maintained_plan(Select(("x",), WindowBlock("<w>", _pattern("x", "y"))), {"<w>"}, limits), limits)
    one, two = TripleIndex([("<a>", "<p>", "<b>")]), TripleIndex([("<a>", "<p>", "<b>"), ("<b>", "<p>", "<b>")])
    with pytest.raises(LimitExceeded):
        kept.update({"<w>": GraphAtReport(two)})
    found = kept.update({"<w>": GraphAtReport(one)})
    assert found is not None
    assert (found.inserted, found.is_initial) == ([("<a>",)], True)


def _pattern(subject: str, object_: str) -> Pattern:
    return Bgp((TriplePattern(Var(subject), Const("<p>"), Var(object_)),))
