"""Counters of rules by themselves: sums of counts, anchors by active rows, and the furthest clauses."""

from __future__ import annotations

import pytest

from dotr.model.algebra import Attribute, Call, Const, Var
from dotr.temporal.matching.rule_counts import GroupCounter, LayerCounter, RuleCounts

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [
        (RuleCounts(2, 1, 1), RuleCounts(3, 4, 2), RuleCounts(5, 5, 2)),
        (RuleCounts(furthest=2), RuleCounts(furthest=1), RuleCounts(furthest=2)),
        (RuleCounts(after=(3, 1)), RuleCounts(), RuleCounts(after=(3, 1))),
        (RuleCounts(), RuleCounts(after=(3, 1)), RuleCounts(after=(3, 1))),
        (
            RuleCounts(after=(3, 1), errors={1: 2}, first_error=(False, 5, 1, "")),
            RuleCounts(after=(4, 0), errors={1: 1, 2: 1}),
            RuleCounts(after=(7, 1), errors={1: 3, 2: 1}, first_error=(False, 5, 1, "")),
        ),
    ],
    ids=["anchors and events", "furthest", "counted here", "counted there", "counted in both"],
)
def test_counts_of_two_partitions_are_added(one: RuleCounts, other: RuleCounts, total: RuleCounts) -> None:
    assert one + other == total


def anchors(counter: GroupCounter) -> dict[int, int]:
    return {rule: counts.anchors for rule, counts in counter.counts().items()}


@pytest.mark.parametrize(("prefix", "expected"), [(True, {7: 9, 8: 7, 9: 4}), (False, {7: 4, 8: 7, 9: 9})])
def test_anchors_of_active_rows_are_counted_from_their_end(prefix: bool, expected: dict[int, int]) -> None:
    counter = GroupCounter([7, 8, 9], 2, prefix=prefix)
    assert not counter.has_anchors
    for active, times in ((1, 2), (2, 3), (3, 4)):
        counter.lengths[active] += times
    assert anchors(counter) == expected
    assert counter.has_anchors


def test_anchors_of_all_rows_of_some_and_of_one_are_added() -> None:
    counter = GroupCounter([7, 8], 1, prefix=True)
    counter.anchors += 5
    counter.lengths[1] += 1
    counter.by_rule[8] += 2
    assert anchors(counter) == {7: 6, 8: 7}
    assert anchors(GroupCounter([7, 8], 1)) == {7: 0, 8: 0}


def furthest(counter: GroupCounter) -> dict[int, int]:
    return {rule: counts.furthest for rule, counts in counter.counts().items()}


def test_furthest_clause_is_the_last_one_that_a_binding_has_passed() -> None:
    counter = GroupCounter([7, 8, 9], 4)
    counter.reach(1, [(7,), (8,)])
    counter.reach(2, [(8,), (9,)])  # 9 has passed no clause before: this is no binding of it
    assert furthest(counter) == {7: 1, 8: 2, 9: 0}
    counter.reach(3, [(8,)])
    counter.reach(1, [(7,), (9,)])
    assert furthest(counter) == {7: 1, 8: 3, 9: 1}


def test_stage_counts_its_own_clauses() -> None:
    counter = GroupCounter([7, 8], 4, passed=1)
    assert furthest(counter) == {7: 0, 8: 0}
    counter.reach(2, [(8,)])
    assert furthest(counter) == {7: 0, 8: 2}


def test_bindings_after_each_step_are_counted_on_request() -> None:
    counter = GroupCounter([7], 2, counted=True)
    assert counter.bindings == (0, 0)
    counter.after[0] += 3
    counter.after[1] += 2
    counted = counter.counts()[7]
    assert (counted.after, counted.errors, counted.events) == ((3, 2), {}, 0)
    counter.bindings = (1, 1)
    assert counter.counts()[7].after == (1, 1)
    silent = GroupCounter([7], 2)
    silent.after[0] += 3
    assert silent.counts()[7].after == ()


HIGH = Call(">", (Var("v"), Const('"5"^^<http://www.w3.org/2001/XMLSchema#integer>')))
ABOVE = Call(">", (Var("v"), Attribute("0", "v")))


def test_reason_is_about_the_part_that_errs() -> None:
    counter = GroupCounter([7], 1)
    of_lab, bound = Call("=", (Var("room"), Const('"attic"'))), Call("BOUND", (Var("w"),))
    counter.fail(7, 1, (5, 0, ()), Call("||", (of_lab, HIGH)), ('"lab"', '"n/a"'))
    assert counter.counts()[7].first_error == (False, 5, 1, '"n/a" is text')
    counter.fail(7, 1, (4, 0, ()), Call("&&", (Call("||", (of_lab, HIGH)), Call("!", (bound,)))), ('"lab"', None, None))
    assert counter.counts()[7].first_error == (False, 5, 1, '"n/a" is text'), "a text is told before an unbound value"


def test_errors_of_an_anchor_that_is_retried_are_forgotten() -> None:
    counter = GroupCounter([7, 8], 2)
    early, late = (5, 0, ()), (9, 0, ())
    counter.fail(7, 2, late, ABOVE, ("<e:a>", '"n/a"'))
    counter.fail(8, 1, early, HIGH, (None,))
    counter.forget(late)
    assert {rule: each.errors for rule, each in counter.counts().items()} == {7: {2: 1}, 8: {1: 1}}, "that of another anchor came last"
    counter.fail(7, 1, early, HIGH, ('"5"^^<http://www.w3.org/2001/XMLSchema#integer>',))
    counter.fail(8, 1, early, HIGH, ("<e:a>",))
    counter.forget(early, 8)
    assert counter.counts()[7].errors == {1: 1, 2: 1}
    assert counter.counts()[7].first_error == (False, 5, 1, "its value is an error")
    assert counter.counts()[8].first_error == (True, 5, 1, "a value is unbound")


def test_many_errors_are_added_up_between_anchors() -> None:
    counter = GroupCounter([7], 2)
    for number in range(10_000):
        counter.fail(7, 1, (10_000 - number, 0, ()), HIGH, (f'"{number}"',))
    assert len(counter.errors) < 5_000
    assert counter.counts()[7] == RuleCounts(errors={1: 10_000}, first_error=(False, 1, 1, '"9999" is text'))


def test_retried_anchor_notes_clauses_and_no_anchors() -> None:
    counter = GroupCounter([7, 8], 3, prefix=True, counted=True, passed=0)
    again = counter.repeating()
    again.lengths[2] += 1
    again.anchors += 1
    again.reach(1, [(7,)])
    again.after[0] += 1
    assert anchors(counter) == {7: 0, 8: 0}
    assert furthest(counter) == {7: 1, 8: 0}
    assert counter.bindings == (1, 0, 0)
    assert again.counts()[7] == RuleCounts(anchors=2, furthest=1, after=(1, 0, 0))


@pytest.mark.parametrize("with_anchors", [True, False])
def test_counter_of_a_single_rule_is_added_to_its_group(with_anchors: bool) -> None:
    counter = GroupCounter([7, 8], 3)
    counter.by_rule[8] += 1
    single = GroupCounter([8], 3)
    single.anchors += 2
    single.reach(1, [(8,)])
    counter.add_rule(8, single, with_anchors=with_anchors)
    counter.add_rule(8, single, with_anchors=with_anchors)
    assert anchors(counter) == {7: 0, 8: 5 if with_anchors else 1}
    assert furthest(counter) == {7: 0, 8: 1}
    single.reach(2, [(8,)])
    counter.add_rule(8, single, with_anchors=False)
    assert furthest(counter) == {7: 0, 8: 2}


def test_events_are_counted_by_the_name_of_the_rule() -> None:
    layer = LayerCounter([GroupCounter([1], 1), GroupCounter([0], 1)], ["A", "B"])
    layer.groups[0].anchors += 4
    layer.events["B"] += 3
    assert layer.counts(["A", "B"]) == {"A": RuleCounts(), "B": RuleCounts(anchors=4, events=3)}
