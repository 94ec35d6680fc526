"""The cost of a step depends on the facts that begin or end alone: counted in calls, not timed."""

from __future__ import annotations

import sys

import pytest

from dotr.model.algebra import Var
from dotr.model.datalog import RelationAtom
from dotr.model.places import Document
from dotr.syntax.datalog import parse_datalog
from dotr.temporal.horizons.closure import HorizonClosure
from dotr.temporal.horizons.rules import FOREVER, WindowFact, WindowRule

pytestmark = pytest.mark.core

TRANSITIVE = parse_datalog(Document("in.dlog", "[?x, <http://e/in>, ?z] :- [?x, <http://e/in>, ?y], [?y, <http://e/in>, ?z] ."), {})


def step_calls(closure: HorizonClosure, facts: list[WindowFact], start: int, horizon: int) -> int:
    """The number of calls, of Python functions and of C functions, that a step makes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    closure.insert_all(facts, start, horizon)
    sys.setprofile(count)
    closure.advance(start)
    sys.setprofile(None)
    return calls


def chain(name: str, length: int) -> list[WindowFact]:
    return [(f"<{name}{n}>", "<http://e/in>", f"<{name}{n + 1}>") for n in range(length)]


@pytest.mark.parametrize("silent", [100, 3000])
def test_silent_facts_cost_nothing(silent: int) -> None:
    closure = HorizonClosure(TRANSITIVE)
    closure.insert_all([fact for n in range(silent // 4) for fact in chain(f"s{n}_", 4)], 0, FOREVER)
    step_calls(closure, chain("a", 3), 0, 3)
    begin_calls = step_calls(closure, chain("b", 3), 1, 4)
    end_calls = step_calls(closure, [], 4, 4)
    assert begin_calls <= 150
    assert end_calls <= 60


def test_renewed_facts_cost_no_more_than_new_ones() -> None:
    closure = HorizonClosure(TRANSITIVE)
    closure.insert_all(chain("a", 30), 0, 100)
    closure.advance(0)
    new = step_calls(closure, chain("b", 4), 1, 5)
    renewed = step_calls(closure, chain("b", 4), 2, 6)
    assert renewed <= 3 * new


def test_a_chain_costs_its_pairs() -> None:
    """A transitive rule extends paths by steps: a chain of n triples has n²/2 pairs, each found about once."""
    costs = [step_calls(HorizonClosure(TRANSITIVE), chain("a", length), 0, 5) for length in (50, 100)]
    assert costs[1] <= 5 * costs[0]


def test_join_cost_is_independent_of_rows_with_other_keys() -> None:
    """An atom of a relation is looked up by its bound columns."""
    x, y, z = map(Var, "xyz")
    rule = WindowRule("join", (RelationAtom("both", (x, z)),), (RelationAtom("one", (x, y)), RelationAtom("two", (y, z))))
    costs = []
    for size in (10, 2000):
        closure = HorizonClosure([rule])
        closure.insert_all([("two", (f"<y{n}>", "<z>")) for n in range(size)], 0, FOREVER)
        closure.insert(("one", ("<x>", "<other>")), 0, FOREVER)
        closure.advance(0)
        costs.append(step_calls(closure, [("one", ("<x>", "<y3>"))], 1, 5))
    assert costs[0] == costs[1]
    assert closure.horizon(("both", ("<x>", "<z>"))) == 5
