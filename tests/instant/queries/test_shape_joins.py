"""Instants of graphs of known shapes have the facts that their closure has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.limits import LIMITS, Limits
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.instants import merge
from dotr.instant.stage_one import StageOne
from dotr.model.algebra import (
    Bgp,
    Call,
    Const,
    Expression,
    Extend,
    Filter,
    Join,
    Link,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    TriplePattern,
    Union,
    Values,
    Var,
)
from dotr.model.datalog import DatalogRule
from dotr.model.rules import FactSource
from dotr.model.templates import GraphShape, ShapedTriple
from dotr.model.terms import RDF_TYPE, RDFS, XSD, Term, Triple, literal
from tests.support.properties import examples

pytestmark = pytest.mark.core

NODES = [f"<http://e/{name}>" for name in "abc"]
STREAMED = [f"<http://e/{name}>" for name in "pqr"]
BACKGROUND = [f"<http://e/{name}>" for name in "uvw"]
NUMBERS = [literal(str(n), XSD + "integer") for n in range(3)]
ODD = ["_:1", '":"', f"<<( _:0 {STREAMED[0]} {NODES[0]} )>>"]
VARIABLES = "xyzw"
SHAPES = [
    GraphShape((ShapedTriple(STREAMED[0]), ShapedTriple(STREAMED[1]))),
    GraphShape((ShapedTriple(STREAMED[0], NODES[0]), ShapedTriple(STREAMED[1]), ShapedTriple(STREAMED[2]))),
    GraphShape((ShapedTriple(RDF_TYPE, NODES[0]), ShapedTriple(STREAMED[2]))),
]
Graph = tuple[Triple, ...]


def of(name: str, predicate: Term, value: str) -> TriplePattern:
    """A pattern of two variables; a value in brackets is a term."""
    return TriplePattern(Var(name), Const(predicate), Const(value) if value[0] in '<"' else Var(value))


@st.composite
def patterns(draw: st.DrawFn) -> TriplePattern | PathPattern:
    """Most often a pattern of the graph itself or of the background, else any; or a path."""
    kind = draw(st.integers(0, 22))
    if kind > 19:
        link = Link(draw(st.sampled_from([*BACKGROUND[:2] * 3, STREAMED[2]])))
        ends = draw(st.sampled_from("yyzx")), draw(st.sampled_from("yzwu"))
        return PathPattern(Var(ends[0]), Repeat(link, draw(st.integers(0, 1)), draw(st.booleans()) or kind == 20), Var(ends[1]))
    if kind < 12:
        return of("x", draw(st.sampled_from(STREAMED)), draw(st.sampled_from(["y", "z", "w", NODES[0]])))
    if kind < 19:
        return of(
            draw(st.sampled_from("yzw")), draw(st.sampled_from(BACKGROUND[:2])), draw(st.sampled_from(["y", "z", "w", "u", NODES[1]]))
        )
    subject = draw(st.sampled_from(["x", "y", NODES[0]]))
    value = draw(st.sampled_from(["y", "x", NODES[0], NUMBERS[1]]))
    predicate = draw(st.sampled_from([*STREAMED, *BACKGROUND, RDF_TYPE]))
    return TriplePattern(Const(subject) if subject[0] == "<" else Var(subject), Const(predicate), of("x", predicate, value).object)


@st.composite
def queries(draw: st.DrawFn) -> Select:
    found: Pattern = Bgp((of("x", draw(st.sampled_from(STREAMED)), draw(st.sampled_from("yz"))), *draw(st.lists(patterns(), max_size=3))))
    names = st.sampled_from("yzw")
    conditions: tuple[Expression, ...] = (
        Call(draw(st.sampled_from(["<", ">=", "="])), (Var(draw(names)), Const(draw(st.sampled_from(NUMBERS))))),
    )
    for kind in draw(st.lists(st.sampled_from(["filter", "bind", "values", "union"]), max_size=2, unique=True)):
        match kind:
            case "filter":
                found = Filter(found, conditions)
            case "bind":
                found = Extend(found, "n", Call("+", (Var(draw(names)), Const(NUMBERS[1]))))
            case "values":
                found = Join(found, Values(("z",), tuple((node,) for node in draw(st.lists(st.sampled_from(NODES), max_size=3)))))
            case _:
                found = Union(found, Bgp(tuple(draw(st.lists(patterns(), min_size=1, max_size=2)))))
    projected = draw(st.lists(st.sampled_from([*"yzwnyzwnyzwnx"]), min_size=1, max_size=3, unique=True))
    return Select(tuple(sorted(projected)), found, distinct=draw(st.booleans()))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A graph of a shape, or one that differs from it a little."""
    shape = draw(st.sampled_from(SHAPES))
    terms = st.sampled_from([*NODES * 6, *NUMBERS * 3, *ODD])
    made = [("_:0", each.predicate, draw(terms) if each.object is None else each.object) for each in shape.triples]
    if draw(st.integers(0, 9)) == 0:
        number = draw(st.integers(0, len(made) - 1))
        match draw(st.sampled_from(["missing", "subject", "object", "more"])):
            case "missing":
                del made[number]
            case "subject":
                made[number] = (NODES[0], *made[number][1:])
            case "object":
                made[number] = (*made[number][:2], draw(terms))
            case _:
                made.append((NODES[1], BACKGROUND[0], NODES[2]))
    return tuple(made)


def background() -> st.SearchStrategy[list[Triple]]:
    known = st.tuples(
        st.sampled_from(NODES), st.sampled_from([*BACKGROUND * 3, STREAMED[0], RDF_TYPE]), st.sampled_from([*NODES, *NUMBERS])
    )
    schema = st.sampled_from(
        [(STREAMED[1], f"<{RDFS}domain>", NODES[1]), (NODES[1], f"<{RDFS}subClassOf>", NODES[2]), (STREAMED[0], f"<{RDFS}range>", NODES[2])]
    )
    return st.lists(st.one_of(known, known, known, schema), max_size=12)


ALWAYS: list[Triple] = [(subject, predicate, value) for subject in NODES for predicate in BACKGROUND[:2] for value in NODES[:2]]
RULES = [
    DatalogRule("renamed", (of("x", BACKGROUND[0], "y"),), (of("x", STREAMED[2], "y"),)),
    DatalogRule("joined", (of("x", BACKGROUND[1], "y"),), (of("x", STREAMED[1], "z"), of("z", BACKGROUND[0], "y"))),
    DatalogRule("read", (of("x", STREAMED[0], "y"),), (of("x", STREAMED[1], "y"),)),
]


def stage(selects: list[Select], knowledge: Knowledge, limits: Limits = LIMITS) -> StageOne:
    sources = dict.fromkeys(FactSource(select, select.projection, select.projection) for select in selects)
    return StageOne(knowledge, list(sources), limits=limits)


@examples(100)
@given(st.data())
def test_the_facts_are_those_of_the_closed_instant(data: st.DataObject) -> None:
    rules = data.draw(st.sampled_from([[], [], rule_set(Entailment.RDFS), [RULES[0]], [RULES[0]], [RULES[1]], [RULES[2]]]))
    limits = data.draw(st.sampled_from([LIMITS, LIMITS, Limits(rows=4, probes=9), Limits(triples=6)]))
    knowledge = Knowledge.load([*ALWAYS, *data.draw(background())], rules)
    knowledge.limit_to(limits.triples)
    try:
        shaped = stage(data.draw(st.lists(queries(), min_size=1, max_size=2)), knowledge, limits)
    except Exception as error:  # the background alone exceeds the limits
        assert "more than" in str(error)  # noqa: PT017
        return
    shaped.expect(data.draw(st.sampled_from([SHAPES, SHAPES, SHAPES[1:], SHAPES[:1]])))
    for instant in data.draw(st.lists(st.lists(graphs(), max_size=5), min_size=1, max_size=4)):
        assert shaped.evaluate_graphs(7, instant) == shaped.evaluate(merge(7, instant))


SENSOR, ROOM, SPEED = of("r", STREAMED[0], "s"), of("s", BACKGROUND[0], "room"), of("r", STREAMED[1], "v")
KNOWN: list[Triple] = [(NODES[0], BACKGROUND[0], NODES[1]), (STREAMED[1], f"<{RDFS}domain>", NODES[2])]


def reads_shapes(*selects: Select, entailment: Entailment = Entailment.NONE, rules: list[DatalogRule] | None = None) -> bool:
    shaped = stage(list(selects), Knowledge.load(KNOWN, [*rule_set(entailment), *(rules or [])]))
    shaped.expect(SHAPES[:1])
    return shaped._shape_joins is not None


def test_queries_over_single_graphs_need_no_closure() -> None:
    room = Select(("room", "v"), Filter(Bgp((SENSOR, ROOM, SPEED)), (Call(">", (Var("v"), Const(NUMBERS[0]))),)))
    assert reads_shapes(room)
    assert reads_shapes(room, entailment=Entailment.RDFS), "types that no query reads are not concluded"
    assert reads_shapes(Select(("s",), Bgp((SENSOR, of("r", STREAMED[2], "w"))))), "no graph of the shape has it"
    within = PathPattern(Var("s"), Repeat(Link(BACKGROUND[0]), 1, True), Var("room"))
    assert reads_shapes(Select(("room",), Bgp((SENSOR, within)))), "a path over the background"
    streamed = PathPattern(Var("s"), Repeat(Link(STREAMED[1]), 1, True), Var("room"))
    assert not reads_shapes(Select(("room",), Bgp((SENSOR, streamed))))


@pytest.mark.parametrize(
    "select",
    [
        Select(("r",), Bgp((SENSOR,))),
        Select(("s",), Bgp((SENSOR, of("t", STREAMED[1], "v")))),
        Select(("s",), Bgp((SENSOR, TriplePattern(Var("r"), Var("p"), Var("o"))))),
        Select(("s",), Filter(Bgp((SENSOR,)), (Call("ISBLANK", (Var("r"),)),))),
        Select(("s",), Bgp((SENSOR, of("s", STREAMED[1], "v")))),
    ],
)
def test_queries_over_several_graphs_or_their_blank_nodes_need_the_closure(select: Select) -> None:
    assert not reads_shapes(select)


def test_conclusions_that_a_query_reads_need_the_closure() -> None:
    typed = Select(("s",), Bgp((SENSOR, of("r", RDF_TYPE, NODES[2]))))
    assert not reads_shapes(typed, entailment=Entailment.RDFS)
    assert reads_shapes(Select(("s",), Bgp((SENSOR, of("r", RDF_TYPE, NODES[0])))), entailment=Entailment.RDFS), "of another class"
    assert not reads_shapes(Select(("s",), Bgp((SENSOR,))), rules=[RULES[1]]), "a rule that joins further triples"
    assert not reads_shapes(Select(("s",), Bgp((SENSOR,))), rules=[DatalogRule("no", (), (of("x", STREAMED[1], "y"),))]), "a contradiction"


def test_an_instant_with_a_graph_of_another_shape_is_closed() -> None:
    shaped = stage([Select(("s",), Bgp((SENSOR, SPEED)))], Knowledge.load((), ()))
    shaped.expect(SHAPES[:2])
    assert shaped._shape_joins is not None
    one = tuple([("_:0", predicate, NODES[0]) for predicate in STREAMED[:2]])
    other = tuple([("_:0", predicate, NODES[0]) for predicate in STREAMED])
    assert shaped._shape_joins.rows([one, other, one]) == {0: [(NODES[0],)] * 3}
    for odd in ((), one[:1], ((NODES[0], STREAMED[0], NODES[0]), one[1]), (("_:0", STREAMED[0], "_:1"), one[1])):
        assert shaped._shape_joins.rows([one, odd, other]) is None
        assert shaped.evaluate_graphs(7, [one, odd, other]) == shaped.evaluate(merge(7, [one, odd, other]))
    assert shaped._shape_joins.rows([]) == {}


def test_many_graphs_are_closed_within_the_limits() -> None:
    shaped = stage([Select(("s",), Bgp((SENSOR, SPEED)))], Knowledge.load((), ()), Limits(triples=6))
    shaped.expect(SHAPES[:1])
    one = tuple([("_:0", predicate, NODES[0]) for predicate in STREAMED[:2]])
    assert shaped._shape_joins is not None
    assert shaped._shape_joins.most_graphs == 3
    assert shaped._shape_joins.rows([one] * 4) is None
