"""Order of simultaneous events (semantics.md, section 4, Ties), and equalities of constraints."""

from __future__ import annotations

from itertools import permutations

import pytest

from dotr.model.algebra import Attribute, Call, Const, Var
from dotr.model.event_order import AttributeValues, equated_pair, equated_pairs, sort_by_tie, tie_key

pytestmark = pytest.mark.core

AB = ("a", "b")
ORDERS: dict[str, list[AttributeValues]] = {
    "values by code point": [('"1"', '"2"'), ('"1"', "<z>"), ('"2"', '"1"')],
    "the first attribute first": [('"1"', '"9"'), ('"2"', '"1"')],
    "without a, b comes first, and a comes before b": [('"1"', None), ('"1"', '"2"'), ('"3"', '"2"'), (None, '"1"'), (None, '"2"')],
    "unbound attributes come before bound ones": [(None, None), ('"1"', None)],
    "blank nodes are equal, so the other attributes decide": [("_:z", '"1"'), ("_:b", '"2"'), ("_:a", '"3"')],
    "blank nodes by label if all else is equal": [("_:a", '"1"'), ("_:b", '"1"'), ("_:c", '"1"')],
    "a blank node is greater than any other term": [('"_:"', '"2"'), ("<_>", '"1"'), ("_:0", '"0"')],
    "a blank node in the last place": [("<x>", "<_:a>"), ("<x>", "_:0"), ("<x>", "_:1")],
    "unbound in the last place alone": [("<x>", None), ("<x>", "<y>")],
}


@pytest.mark.parametrize("name", ORDERS)
def test_tie_order(name: str) -> None:
    ordered = ORDERS[name]
    for given in permutations(ordered):
        assert sort_by_tie(AB, list(given)) == ordered
    assert sorted(ordered, key=lambda values: tie_key(AB, values)) == ordered


def test_all_blank_nodes_are_equal_first() -> None:
    assert tie_key(AB, ("_:x", '"1"')) == ((("a", "_:"), ("b", '"1"')), (("a", "_:x"), ("b", '"1"')))
    assert tie_key(AB, (None, "<_:x>")) == ((("b", "<_:x>"),), (("b", "<_:x>"),))


def test_single_event_is_unchanged() -> None:
    assert sort_by_tie(AB, []) == []
    assert sort_by_tie(AB, [(None, "_:x")]) == [(None, "_:x")]


def test_an_event_has_a_value_or_none_for_each_name() -> None:
    with pytest.raises(ValueError, match="shorter"):
        tie_key(AB, ('"1"',))


def test_equated_pairs_of_constraints() -> None:
    own, other, more = Var("x"), Attribute("M", "y"), Attribute("N", "z")
    assert equated_pair(Call("=", (own, other))) == equated_pair(Call("=", (other, own))) == ("x", other)
    assert equated_pair(Call("!=", (own, other))) is None
    assert equated_pair(Call("=", (own, own))) is None
    assert equated_pair(Call("=", (other, more))) is None
    assert equated_pair(Const('"1"')) is None
    found = [Call("=", (Var("z"), more)), Call("<", (own, other)), Call("=", (own, other)), Call("=", (more, own))]
    assert equated_pairs(found) == (("x", other), ("z", more))
