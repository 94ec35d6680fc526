"""Joins of shapes that random programs seldom contain."""

from __future__ import annotations

import pytest

from dotr.evaluation.joins.compile import compile_join, write_join
from dotr.evaluation.joins.order import JoinItem, Side
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem

pytestmark = pytest.mark.core


def pattern(text: str) -> TriplePattern:
    """`"?x p ?y"`."""
    subject, predicate, object = (slot(word) for word in text.split())
    return TriplePattern(subject, predicate, object)


def slot(word: str) -> Slot:
    return Var(word[1:]) if word[0] == "?" else Const(f"<{word}>")


def index(*triples: str) -> TripleIndex:
    return TripleIndex((f"<{s}>", f"<{p}>", f"<{o}>") for s, p, o in (text.split() for text in triples))


def test_join_deeper_than_the_nesting_limit_is_split() -> None:
    length = 45
    chain = index(*(f"n{k} p n{k + 1}" for k in range(length + 1)))
    body = [pattern(f"?v{k} p ?v{k + 1}") for k in range(length)]
    join = compile_join(body, [], [Side.BOTH] * length, ["v0", f"v{length}"])
    assert sorted(join(chain, TripleIndex())) == [("<n0>", "<n45>"), ("<n1>", "<n46>")]


def test_rows_keep_multiplicity() -> None:
    join = compile_join([pattern("?x p ?y"), pattern("?x q ?z")], [], [Side.BOTH, Side.BOTH], ["x"])
    assert join(index("a p 1", "a p 2", "a q 3"), index("a q 4")) == [("<a>",)] * 4


def test_empty_projection_gives_a_row_for_each_match() -> None:
    assert compile_join([pattern("?x p ?y")], [], [Side.DELTA], [])(index("a p b"), index("c p d", "c p e")) == [(), ()]


def test_empty_body_matches_once() -> None:
    assert compile_join([], ["x"], [], ["x", "y"])(TripleIndex(), TripleIndex(), "<a>") == [("<a>", None)]


def test_predicate_read_on_both_sides_and_then_in_the_delta_alone() -> None:
    body = [pattern("a p ?x"), pattern("?x p ?y")]
    for fixed in (None, index("a p b")):
        join = compile_join(body, [], [Side.BOTH, Side.DELTA], ["y"], index=fixed)
        assert join(index("a p b"), TripleIndex()) == []
        assert join(index("a p b"), index("b p c")) == [("<c>",)]


def test_variables_that_are_no_python_identifiers_are_allowed() -> None:
    body = [TriplePattern(Var("_:b0"), Const("<p>"), Var("0")), TriplePattern(Var("0"), Const("<p>"), Var("ﬁ"))]
    body.append(TriplePattern(Var("ﬁ"), Const("<p>"), Var("class")))
    join = compile_join(body, [], [Side.BOTH] * 3, ["_:b0", "0", "ﬁ", "class"])
    assert join(index("a p b", "b p c", "c p d"), TripleIndex()) == [("<a>", "<b>", "<c>", "<d>")]


def test_texts_of_the_user_stay_out_of_the_source() -> None:
    hostile = 'x"); raise SystemExit("'
    writer = write_join([TriplePattern(Var(hostile), Const(hostile), Var("y"))], [hostile], [Side.BOTH], ["y"])
    assert "SystemExit" not in writer.source


def test_condition_runs_as_soon_as_its_variables_are_bound() -> None:
    body: list[JoinItem] = [pattern("?x p ?y"), pattern("?y p ?z"), FilterItem(Call("!=", (Var("x"), Var("y"))))]
    lines = [line.strip() for line in write_join(body, [], [Side.DELTA, Side.BACKGROUND], ["z"]).source.split("\n")]
    (test,) = (k for k, line in enumerate(lines) if line.startswith("if not t"))
    (loop,) = (k for k, line in enumerate(lines) if line.startswith("for v_z in"))
    assert test < loop


def test_failing_bind_gives_no_row_and_bind_to_a_bound_variable_compares() -> None:
    bind = Bind(Call("+", (Var("y"), Var("y"))), "z")
    assert compile_join([pattern("?x p ?y"), bind], [], [Side.BOTH], ["z"])(index("a p b"), TripleIndex()) == []
    same = Bind(Call("IF", (Call("ISIRI", (Var("y"),)), Var("y"), Var("y"))), "x")
    assert compile_join([pattern("?x p ?y"), same], [], [Side.BOTH], ["x"])(index("a p b", "c p c"), TripleIndex()) == [("<c>",)]


def test_unbound_variable_of_a_condition_is_not_bound() -> None:
    bound = FilterItem(Call("!", (Call("BOUND", (Var("nowhere"),)),)))
    assert compile_join([pattern("?x p ?y"), bound], [], [Side.BOTH], ["x"])(index("a p b"), TripleIndex()) == [("<a>",)]


def test_hidden_predicates_match_by_name_only() -> None:
    data = index("a urn:dotr:hidden:h b", "a p b")
    every = [pattern("?s ?p ?o"), pattern("a ?p ?o"), pattern("?s ?p b"), pattern("a ?p b")]
    for each in every:
        for old, new in ((data, TripleIndex()), (TripleIndex(), data)):
            for fixed in (None, old):
                assert compile_join([each], [], [Side.BOTH], ["p"], index=fixed)(old, new) == [("<p>",)]
                found = compile_join([each], [], [Side.BOTH], ["p"], index=fixed, hidden=True)(old, new)
                assert sorted(found) == [("<p>",), ("<urn:dotr:hidden:h>",)]
    assert len(compile_join([pattern("?s urn:dotr:hidden:h ?o")], [], [Side.BOTH], ["s"])(data, TripleIndex())) == 1


def test_edges_follow_added_triples() -> None:
    growing = index("a p b")
    assert growing.edges_from["<a>"] == [("<p>", "<b>")]
    growing.add(("<a>", "<q>", "<c>"))
    growing.add(("<a>", "<urn:dotr:hidden:h>", "<c>"))
    assert growing.edges_from["<a>"] == [("<p>", "<b>"), ("<q>", "<c>")]
    assert growing.edges_to["<c>"] == [("<a>", "<q>")]
    assert len(growing.all_from("<a>")) == 3
    assert len(growing.all_links("<a>", "<c>")) == 2
