"""The walks, transformations and renamings of `dotr.model.traverse`, compared with plain recursion
over fields; graphs likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import count, pairwise

from hypothesis import given
from hypothesis import strategies as st

from dotr.model.algebra import Call, Const, Expression, Select, Var
from dotr.model.graphs import components, shortest_path, strong_components
from dotr.model.places import Document, Span
from dotr.model.traverse import children, conjuncts, depth, free_variables, in_scope, rename, subexpressions, transform, walk
from dotr.syntax.datalog import parse_datalog
from dotr.syntax.sparql import parse_expression, parse_select

QUERY = """PREFIX : <http://e/>
SELECT ?x (COUNT(DISTINCT ?y + 1) AS ?n) (GROUP_CONCAT(?t) AS ?ts) {
  ?x :p ?y ; :q/^:r|:s* ?z ; !(:u|^:w) [ :v "1" ] . ?r :reifies <<( ?x :p ?y )>> .
  OPTIONAL { ?y :t ?t FILTER(?t > ?x || NOT EXISTS { ?t :u ?u MINUS { ?u :a ?x } }) }
  { SELECT DISTINCT ?z { { ?z :a ?b } UNION { ?z :b ?c } } ORDER BY DESC(?z + 1) LIMIT 5 }
  BIND(IF(BOUND(?t), ?t, ?y) AS ?w) VALUES (?x ?y) { (:a UNDEF) } FILTER(?w != :x && EXISTS { ?w :in ?x })
} GROUP BY ?x HAVING(COUNT(?y) > 2) ORDER BY ?n"""

DATALOG = """:a[?x, ?n] :- :b[?x, ?y], NOT :c[?y, ?z], FILTER(?y > ?x), BIND(?n + 1 AS ?m),
    AGGREGATE(:d[?x, ?v], FILTER(?v > 1), BIND(?v + 1 AS ?w) ON ?x BIND SUM(?w * 2) AS ?n) ."""


def query(text: str = QUERY) -> Select:
    return parse_select(Span(Document("", text), 0, len(text)), {})


def expression(text: str) -> Expression:
    return parse_expression(Span(Document("", text), 0, len(text)), {})


def inside(node: object) -> Iterator[object]:
    """A node and all parts of its fields, recursively."""
    yield node
    if is_dataclass(node):
        yield from inside(tuple(getattr(node, field.name) for field in fields(node)))
    elif isinstance(node, tuple):
        for part in node:
            yield from inside(part)


def test_walk_given_every_kind_of_node_yields_each_variable_and_constant() -> None:
    (rule,) = parse_datalog(Document("", DATALOG), {"": "http://e/"})
    for root in (query(), *rule.body):
        walked = [node for node in walk(root) if isinstance(node, Var | Const | Call)]
        assert sorted(map(repr, walked)) == sorted(repr(node) for node in inside(root) if isinstance(node, Var | Const | Call))
        assert depth(root) == 1 + depth(*children(root))


def test_rename_given_other_names_and_back_gives_the_query_itself() -> None:
    names: dict[str, str] = {}
    numbers = count()

    def numbered(name: str) -> str:
        return names.setdefault(name, f"n{next(numbers)}")

    there = rename(query(), numbered)
    assert list(names)[:3] == ["x", "n", "ts"], "the projection comes first"
    assert not {node.name for node in walk(there) if isinstance(node, Var)} & names.keys()
    back = {new: old for old, new in names.items()}
    assert rename(there, back.__getitem__) == query()
    assert list(in_scope(there.pattern)) == [names[name] for name in in_scope(query().pattern)]


def test_free_variables_given_negation_and_aggregate_exclude_bound_ones() -> None:
    (rule,) = parse_datalog(Document("", DATALOG), {"": "http://e/"})
    assert [free_variables(item) for item in rule.body] == [("x", "y"), ("y", "z"), ("y", "x"), ("n",), ("x",)]


def test_transform_given_no_change_gives_the_same_object() -> None:
    whole = expression("?a + 2 * STRLEN(?b) < M.?c && !BOUND(?d)")
    assert transform(whole, lambda part: part) is whole
    assert transform(whole, lambda part: Var("z") if isinstance(part, Var) else part) == expression(
        "?z + 2 * STRLEN(?z) < M.?c && !BOUND(?z)"
    )


def test_walks_given_an_expression_of_ten_thousand_levels_need_no_stack() -> None:
    deep: Expression = Var("x")
    for _ in range(10_000):
        deep = Call("&&", (deep, Var("y")))
    assert sum(1 for _ in subexpressions(deep)) == sum(1 for _ in walk(deep)) == 20_001
    assert len(conjuncts(deep)) == 10_001
    assert free_variables(deep) == ("x", "y")
    assert depth(deep) == 10_001


graphs = st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=4), max_size=8)


def reached(graph: Mapping[int, list[int]], start: int) -> set[int]:
    found = {start}
    while more := {end for node in found for end in graph.get(node, ())} - found:
        found |= more
    return found


@given(graphs)
def test_strong_components_given_any_graph_are_mutually_reachable_and_in_order(graph: dict[int, list[int]]) -> None:
    found = list(strong_components(graph, lambda node: graph.get(node, ())))
    place = {node: number for number, component in enumerate(found) for node in component}
    assert sorted(place) == sorted(set().union(*(reached(graph, node) for node in graph)))
    for node in place:
        for other in reached(graph, node):
            assert place[other] <= place[node]
            assert (place[other] == place[node]) == (node in reached(graph, other))
    edges = [(node, end) for node, ends in graph.items() for end in ends]
    of = components(edges)
    assert all((of[a] == of[b]) == (place[a] == place[b]) for a, b in edges)


@given(graphs, st.integers(0, 7), st.integers(0, 7))
def test_shortest_path_given_any_graph_takes_the_fewest_steps(graph: dict[int, list[int]], start: int, end: int) -> None:
    if end not in reached(graph, start):
        return
    path = shortest_path(start, end, lambda node: graph.get(node, ()))
    assert (path[0], path[-1]) == (start, end)
    assert all(after in graph[node] for node, after in pairwise(path))
    near, steps = {start}, 1
    while end not in near:
        near |= {after for node in near for after in graph.get(node, ())}
        steps += 1
    assert len(path) == steps


def test_strong_components_given_a_long_chain_need_no_stack() -> None:
    assert [node for (node,) in strong_components([0], lambda node: [node + 1] if node < 5_000 else [])] == list(range(5_000, -1, -1))
