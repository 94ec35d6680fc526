"""Shared joins give each query the answers of its own plan."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.queries import join_groups, plan
from dotr.instant.stage_one import StageOne
from dotr.model.algebra import Bgp, Call, Const, Expression, Extend, Filter, Join, Pattern, Select, Slot, TriplePattern, Union, Values, Var
from dotr.model.rules import FactSource
from dotr.model.stream import Instant
from dotr.model.terms import XSD, Term, Triple, literal
from tests.support.properties import examples

NODES = [f"<http://e/{name}>" for name in "abc"]
PREDICATES = [f"<http://e/{name}>" for name in "pqr"]
NUMBERS = [literal(str(n), XSD + "integer") for n in range(3)]
VARIABLES = "xyzw"


def slots(terms: list[Term]) -> st.SearchStrategy[Var | Const]:
    return st.one_of(*[st.sampled_from(VARIABLES).map(Var)] * 4, st.sampled_from(terms).map(Const))


def patterns() -> st.SearchStrategy[TriplePattern]:
    predicates = st.one_of(*[st.sampled_from(PREDICATES).map(Const)] * 9, st.sampled_from(VARIABLES).map(Var))
    return st.builds(TriplePattern, slots(NODES), predicates, slots([*NODES, *NUMBERS]))


@st.composite
def queries(draw: st.DrawFn, cores: list[tuple[TriplePattern, ...]]) -> Select:
    """A random query: a common core, further patterns, and operators over them."""
    own = draw(st.lists(patterns(), max_size=2))
    found: Pattern = Bgp((*draw(st.sampled_from(cores)), *own))
    conditions: tuple[Expression, ...] = (
        Call(draw(st.sampled_from(["<", ">=", "="])), (Var(draw(st.sampled_from(VARIABLES))), Const(draw(st.sampled_from(NUMBERS))))),
    )
    for kind in draw(st.lists(st.sampled_from(["filter", "bind", "values", "union"]), max_size=2, unique=True)):
        match kind:
            case "filter":
                found = Filter(found, conditions)
            case "bind":
                found = Extend(found, "n", Call("+", (Var(draw(st.sampled_from(VARIABLES))), Const(NUMBERS[1]))))
            case "values":
                found = Join(found, Values(("x",), tuple((node,) for node in draw(st.lists(st.sampled_from(NODES), max_size=3)))))
            case _:
                found = Union(found, Bgp(tuple(draw(st.lists(patterns(), min_size=1, max_size=2)))))
    names = draw(st.lists(st.sampled_from([*VARIABLES, "n"]), min_size=1, max_size=4, unique=True))
    return Select(tuple(sorted(names)), found, distinct=draw(st.booleans()))


def triples() -> st.SearchStrategy[list[Triple]]:
    return st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from([*NODES, *NUMBERS])), max_size=8)


def by_stage_one(selects: list[Select], background: list[Triple], instant: list[Triple]) -> list[Counter[AnswerRow]]:
    sources = [FactSource(select, select.projection, select.projection) for select in selects]
    facts = StageOne(Knowledge.load(background, ()), list(dict.fromkeys(sources))).evaluate(Instant(0, tuple(instant))).facts
    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    return [Counter(facts.get(numbers[source], ())) for source in sources]


def by_own_plan(select: Select, background: list[Triple], instant: list[Triple]) -> Counter[AnswerRow]:
    known = TripleIndex(background)
    return Counter(plan(select, known).answers(TripleIndex(triple for triple in instant if triple not in known)))


@examples(300)
@given(st.data())
def test_shared_joins_give_the_answers_of_each_query(data: st.DataObject) -> None:
    cores = data.draw(st.lists(st.lists(patterns(), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2))
    selects = data.draw(st.lists(queries(cores), min_size=2, max_size=6))
    background = data.draw(triples())
    for instant in data.draw(st.lists(triples(), min_size=1, max_size=3)):
        assert by_stage_one(selects, background, instant) == [by_own_plan(select, background, instant) for select in selects]


@examples(200)
@given(st.data())
def test_queries_equal_up_to_names_share_one_plan(data: st.DataObject) -> None:
    """Each stream has the facts of its own query, in its own tie order."""
    select = data.draw(queries([tuple(data.draw(st.lists(patterns(), min_size=1, max_size=2)))]))
    names = [*VARIABLES, "n"]
    others = [dict(zip(names, data.draw(st.permutations(["k", "l", "m", "o", "p"])), strict=True)) for _ in range(2)]
    sources = [FactSource(each, each.projection, each.projection) for each in [select, *(renamed(select, each) for each in others)]]
    streams = list(dict.fromkeys(sources))
    background = data.draw(triples())
    together = StageOne(Knowledge.load(background, ()), streams)
    assert len(together.plans) == 1
    for instant in data.draw(st.lists(triples(), min_size=1, max_size=3)):
        found = together.evaluate(Instant(0, tuple(instant))).facts
        for number, source in enumerate(streams):
            own = StageOne(Knowledge.load(background, ()), [source]).evaluate(Instant(0, tuple(instant))).facts
            assert list(found.get(number, ())) == list(own.get(0, ()))


def renamed(select: Select, names: dict[str, str]) -> Select:
    """The query with renamed variables, projected in their order."""

    def expression(each: Expression) -> Expression:
        match each:
            case Var(name):
                return Var(names[name])
            case Call(function, arguments):
                return Call(function, tuple(map(expression, arguments)))
            case _:
                return each

    def slot(each: Slot) -> Slot:
        return Var(names[each.name]) if isinstance(each, Var) else each

    def pattern(each: Pattern) -> Pattern:
        match each:
            case Bgp(triples):
                made = [TriplePattern(slot(t.subject), slot(t.predicate), slot(t.object)) for t in triples if isinstance(t, TriplePattern)]
                return Bgp(tuple(made))
            case Filter(inner, conditions):
                return Filter(pattern(inner), tuple(map(expression, conditions)))
            case Extend(inner, name, computed):
                return Extend(pattern(inner), names[name], expression(computed))
            case Join(left, right):
                return Join(pattern(left), pattern(right))
            case Union(left, right):
                return Union(pattern(left), pattern(right))
            case Values(variables, rows):
                return Values(tuple([names[name] for name in variables]), rows)
            case _:
                raise AssertionError(each)

    return Select(tuple(sorted(names[name] for name in select.projection)), pattern(select.pattern), distinct=select.distinct)


def chain(length: int, last: Term) -> Select:
    """The query `x0 :p x1 … :p xn . xn :last y`."""
    steps = [TriplePattern(Var(f"x{n}"), Const(PREDICATES[0]), Var(f"x{n + 1}")) for n in range(length)]
    return Select(("x0", "y"), Bgp((*steps, TriplePattern(Var(f"x{length}"), Const(last), Var("y")))))


def test_steps_after_a_long_core_run_for_every_solution() -> None:
    """The loops exceed the nesting limit of one function."""
    instant: list[Triple] = [(NODES[0], PREDICATES[0], NODES[0]), (NODES[0], PREDICATES[0], NODES[1]), (NODES[1], PREDICATES[0], NODES[0])]
    instant += [(NODES[0], PREDICATES[1], NUMBERS[0]), (NODES[1], PREDICATES[2], NUMBERS[1])]
    for length in (17, 18, 19, 20):
        selects = [chain(length, PREDICATES[1]), chain(length, PREDICATES[2]), chain(length - 1, PREDICATES[2])]
        assert by_stage_one(selects, [], instant[:1] + instant[3:]) == [
            by_own_plan(select, [], instant[:1] + instant[3:]) for select in selects
        ]
        assert by_stage_one(selects, [], instant[2:]) == [by_own_plan(select, [], instant[2:]) for select in selects]


def test_queries_with_a_common_core_share_a_group() -> None:
    """Queries with the same first step are one group, independent of variable names; others are in another group."""
    background = TripleIndex([(NODES[0], PREDICATES[1], NODES[1]), (NODES[1], PREDICATES[2], NODES[2])])

    def query(first: Term, a: str, b: str, c: str) -> Select:
        patterns = TriplePattern(Var(a), Const(first), Var(b)), TriplePattern(Var(b), Const(PREDICATES[1]), Var(c))
        return Select((a, c), Bgp(patterns))

    streamed, other = PREDICATES[0], "<http://e/other>"
    plans = [
        plan(select, background) for select in (query(streamed, "x", "y", "z"), query(streamed, "u", "v", "w"), query(other, "x", "y", "z"))
    ]
    assert [(group.trigger, group.plans) for group in join_groups(plans, background)] == [(streamed, (0, 1)), (other, (2,))]
