"""Groups of rules: a hot key is evaluated in as many buckets as there are groups."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dotr.engine.program import CompiledProgram
from dotr.engine.router import Router
from dotr.engine.spec import ProgramSpec
from dotr.instant.instants import merge
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.terms import XSD
from dotr.model.time import LAST_MICRO, Clock
from tests.support.running import Batched, outputs, run_engine

pytestmark = pytest.mark.core

HEADER = "PREFIX : <http://e/>\nquery Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]\n"
MODES = ["each", "last", "first", "last 2", "first 2", "last 3", "first 3", "last 4", "first 4", "last 5"]
"""Modes of selection; rules with different modes share no matcher."""


def rule(number: int, mode: str) -> str:
    return (
        f"rule R{number} define E{number} = [ [] :room ?room ; :v ?v ] from Reading as Now\n"
        f"and {mode} Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 9 s from Now\n"
        f"with E{number}.?room = Now.?room, E{number}.?v = Old.?v\n"
    )


def program(rules: str, groups: int) -> CompiledProgram:
    return compile_program(ProgramSpec((Document("r.dotr", HEADER + rules),), cut=True, groups=groups))


def readings(number: int, hot: float) -> list[Element]:
    choose, found = random.Random(5), []
    for time in range(number):
        room = 0 if choose.random() < hot else choose.randrange(1, 9)
        triples = ("_:r", "<http://e/room>", f"<http://e/r{room}>"), ("_:r", "<http://e/value>", f'"{choose.randrange(9)}"^^<{XSD}integer>')
        found.append(Element(time * 1_000_000, triples))
    return found


def lookups(compiled: CompiledProgram, elements: list[Element], buckets: int) -> Counter[int]:
    """The number of anchors that each bucket evaluates, over all its rules."""
    router, (layer,), found = Router(compiled.layout, buckets), compiled.layout.layers, Counter[int]()
    anchors = Counter(placed.ports[0] for placed in layer.rules)
    for element in elements:
        (deliveries,) = router.facts(compiled.stage_one.evaluate(merge(element.time, [element.triples])).facts, element.time)
        for bucket, ports in deliveries.items():
            found[bucket] += sum(anchors[port] * len(arrivals) for port, arrivals in ports.items())
    return found


def test_ten_rules_on_a_hot_key_share_two_buckets() -> None:
    rules, elements = "".join(rule(number, mode) for number, mode in enumerate(MODES)), readings(400, hot=0.9)
    busiest = {groups: max((found := lookups(program(rules, groups), elements, 2)).values()) / found.total() for groups in (1, 2)}
    assert busiest[1] > 0.9
    assert busiest[2] <= 0.6
    assert {port.group for port in program(rules, 2).layout.layers[0].ports} == {(0, 2), (1, 2)}
    assert {port.group for port in program(rules, 1).layout.layers[0].ports} == {(0, 1)}


def test_rules_that_read_each_other_or_share_a_matcher_are_in_one_group() -> None:
    reader = (
        "rule Reader define Read = [ [] :room ?room ] from E0\nand last E0 as Old [ FILTER(?room = E0.?room) ] within 9 s from E0\n"
        "with Read.?room = E0.?room\n"
    )
    same_shape = [rule(number, "last").replace("?v < Now.?v", f"?v < Now.?v && ?v > {least}") for number, least in ((2, 3), (3, 5))]
    compiled = program(rule(0, "each") + rule(1, "first") + "".join(same_shape) + reader, 3)
    (layer,) = compiled.layout.layers
    group = {placed.rule.name: layer.ports[placed.ports[0]].group for placed in layer.rules}
    assert group["R0"] == group["Reader"]
    assert group["R2"] == group["R3"]
    assert len(set(group.values())) == 3


@pytest.mark.parametrize("buckets", [1, 2, 3, 5])
def test_groups_change_no_output(buckets: int) -> None:
    rules, elements = "".join(rule(number, mode) for number, mode in enumerate(MODES[:5])), readings(80, hot=0.6)
    expected = list(run_engine(program(rules, 1), elements, Clock()).outputs)
    run = Batched(program(rules, 3), Clock(), buckets)
    assert sorted(map(repr, outputs(run.batch(elements, LAST_MICRO)))) == sorted(map(repr, expected))
