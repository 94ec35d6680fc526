"""Golden files of the generated operators over intervals (ep-sparql.md), in `tests/evaluation/codegen/intervals`.

After a deliberate change of a generator:

    python -m tests.evaluation.codegen.test_interval_code_golden
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dotr.evaluation.limits import Limits
from dotr.model.algebra import Call, Const, Var
from dotr.model.terms import XSD, literal
from dotr.model.time import Clock
from dotr.temporal.intervals.compile import compile_end, compile_rows
from dotr.temporal.intervals.conditions import IntervalExpressions
from dotr.temporal.intervals.nodes import PairedSearch, Relation
from dotr.temporal.intervals.patterns import DURATION, UsePolicy
from dotr.temporal.intervals.solutions import Pairing, Shape
from dotr.temporal.intervals.store import compile_insertion
from tests.evaluation.codegen.test_codegen_golden import text_of
from tests.support.paths import TESTS

FOLDER = TESTS / "evaluation" / "codegen" / "intervals"
CLOCK = Clock()
LIMITS = Limits(probes=1000, rows=100)
CERTAIN = Pairing(Shape(("a", "b"), frozenset("ab")), Shape(("b", "c"), frozenset("bc")))
"""Both sides bind ?b, so it is the key."""
MAYBE = Pairing(Shape(("a", "b"), frozenset("a")), Shape(("b", "c"), frozenset("c")), (("a", "c"),))
"""Each side may bind ?b; a test equates ?a and ?c."""
NO_TEST = IntervalExpressions((), CLOCK)
LONGER = IntervalExpressions((Call(">", (Var(DURATION), Var("c"))),), CLOCK)


def find(relation: Relation, pairing: Pairing = CERTAIN, bound: int | None = 9_000_000, *, optional: bool = False) -> Callable[..., Any]:
    return PairedSearch(pairing, relation, bound, NO_TEST, optional, is_x_left=False, limits=LIMITS).compile_find()


def choose(policy: UsePolicy, relation: Relation, bound: int | None, *, optional: bool = False) -> Callable[..., Any]:
    search = PairedSearch(CERTAIN, relation, bound, LONGER, optional, is_x_left=True, limits=LIMITS, policy=policy, traced=True)
    return search.compile_choose()


def sequence() -> Callable[..., Any]:
    """`{ ?b :p ?c } SEQ { ?a :q ?b } WITHIN 9 s`: the second operand is x."""
    return find(Relation.AFTER)


def unbounded_sequence() -> Callable[..., Any]:
    return find(Relation.AFTER, bound=None)


def conjunction_with_unbound_variables() -> Callable[..., Any]:
    """AND, whose operands may both bind ?b, with the test `?a = ?c`."""
    return find(Relation.ANY, MAYBE)


def optional_equals_with_a_test() -> Callable[..., Any]:
    """EQUALSOPTIONAL with a filter on the duration, and the parts of both operands."""
    search = PairedSearch(CERTAIN, Relation.SAME, None, LONGER, is_optional=True, is_x_left=True, limits=LIMITS, traced=True)
    return search.compile_find()


def recent_sequence() -> Callable[..., Any]:
    return choose(UsePolicy.RECENT, Relation.AFTER, 9_000_000)


def chronological_sequence() -> Callable[..., Any]:
    return choose(UsePolicy.CHRONOLOGICAL, Relation.AFTER, 9_000_000, optional=True)


def unbounded_chronological_conjunction() -> Callable[..., Any]:
    return choose(UsePolicy.CHRONOLOGICAL, Relation.ANY, None)


def store() -> Callable[..., Any]:
    """The insertion under the values of ?b."""
    return compile_insertion(CERTAIN, "y")


def store_by_start() -> Callable[..., Any]:
    """The insertion of EQUALS, under the start and the values that a test equates."""
    return compile_insertion(MAYBE, "y", "y[1]")


def end_of_a_chain() -> Callable[..., Any]:
    """`BIND(?a AS ?m) FILTER(?m > 2) WITHIN 5 s`."""
    two = Const(literal("2", XSD + "integer"))
    return compile_end(CERTAIN.x, [("m", Var("a"))], [Call(">", (Var("m"), two))], 5_000_000, CLOCK)


def branch_of_a_union() -> Callable[..., Any]:
    return compile_rows(Shape(("b",), frozenset("b")), CERTAIN.x)


CASES: list[Callable[[], Callable[..., Any]]] = [
    sequence,
    unbounded_sequence,
    conjunction_with_unbound_variables,
    optional_equals_with_a_test,
    recent_sequence,
    chronological_sequence,
    unbounded_chronological_conjunction,
    store,
    store_by_start,
    end_of_a_chain,
    branch_of_a_union,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_generated_operator_equals_the_golden_file(case: Callable[[], Callable[..., Any]]) -> None:
    assert text_of(case) == (FOLDER / f"{case.__name__}.txt").read_text(encoding="utf-8")


def test_every_golden_file_of_an_operator_has_a_case() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(case.__name__ for case in CASES)


if __name__ == "__main__":
    for case in CASES:
        (FOLDER / f"{case.__name__}.txt").write_text(text_of(case), encoding="utf-8")
