"""Stages of rules: keys of clauses, replicated clauses, layers, columns of bindings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dotr.model.rules import FactSource
from dotr.temporal.layout.keys import AnyPartition, KeyedPartitions, SinglePartition
from dotr.temporal.layout.layers import Layout, PlacedRule, Port, lay_out
from dotr.temporal.layout.retention import AnchorDelay
from dotr.temporal.layout.stages import AggregatedValue, AliveRules, BindingStream, BoundOrdinal, BoundTime, BoundValue, BranchSize
from tests.temporal.layout.test_placement import SECOND, rule, rules

pytestmark = pytest.mark.core


def cut(text: str, since: Mapping[str, int] | None = None) -> Layout:
    return lay_out(rules(text), since or {}, cut=True)


def stages(layout: Layout, name: str = "R") -> list[tuple[int, str, set[str]]]:
    """For each stage of a rule: the layer, the keys of its labels, and the replicated labels."""
    return [
        (layer.number, split_text(placed), set(placed.stage.replicated))
        for layer in layout.layers
        for placed in layer.rules
        if placed.rule.name == name
    ]


def split_text(placed: PlacedRule) -> str:
    match placed.split:
        case KeyedPartitions(attribute):
            return " ".join(f"{label}.{name}" for label, name in attribute.items())
        case AnyPartition():
            return "any"
        case SinglePartition():
            return "one"


def ports(layout: Layout, name: str = "R") -> list[tuple[Port, int | None]]:
    """The ports of a rule's stages, with their retention in seconds."""
    return [
        (layer.ports[port], None if (kept := layer.retention[port]) is None else kept // SECOND)
        for layer in layout.layers
        for placed in layer.rules
        if placed.rule.name == name
        for port in placed.ports
    ]


def entered(layout: Layout, name: str = "R") -> list[BindingStream]:
    found = [p.stage.enters for layer in layout.layers for p in layer.rules if p.rule.name == name]
    return [stream for stream in found if stream is not None]


TWO_KEYS = "from A and each B [ FILTER(?r = A.?r) ] within 5 s from A and last C [ FILTER(?v = B.?v) ] within 7 s from B with E.?a = C.?r"


def test_clauses_under_two_keys_are_two_stages() -> None:
    layout = cut(rule(TWO_KEYS))
    assert stages(layout) == [(0, "A.r B.r", set()), (1, "B.v C.v", set())]
    assert [placed.stage.is_last for layer in layout.layers for placed in layer.rules] == [False, True]
    assert [(port.key, kept) for port, kept in ports(layout)] == [("r", None), ("r", 5), ("1.v?", None), ("v", 12)]
    assert [layer.queues for layer in layout.layers] == [{}, {}]


def test_delayed_anchors_wait_in_the_first_stage() -> None:
    layout = cut(rule(TWO_KEYS.replace("from A and", "from A delayed by 3 s and", 1)))
    assert [layer.queues for layer in layout.layers] == [{(0, AnchorDelay(3 * SECOND)): 0}, {}]
    assert [layer.may_fire_without_events for layer in layout.layers] == [True, False]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # without any key, anchors are spread and every clause is replicated
        ("from A and last B within 5 s from A", [(0, "any", {"B"})]),
        ("from A and last B [ FILTER(?v < A.?v) ] within 5 s from A and not C within 5 s from A", [(0, "any", {"B", "C"})]),
        ("from A and last B [ FILTER(?r = 5) ] within 5 s from A", [(0, "any", {"B"})]),
        # a clause without a key is in the stage of the preceding clause
        (
            "from A and last B [ FILTER(?r = A.?r) ] within 5 s from A and last C within 5 s from A",
            [(0, "A.r B.r", {"C"})],
        ),
        # a clause before the first key is in the stage of that key, if the key is the anchor's
        ("from A and last C within 5 s from A and not B [ FILTER(?r = A.?r) ] within 5 s from A", [(0, "A.r B.r", {"C"})]),
        # otherwise it is in a stage before
        (
            "from A and last C within 5 s from A and not B [ FILTER(?r = C.?r) ] within 5 s from A",
            [(0, "any", {"C"}), (1, "C.r B.r", set())],
        ),
        # a tick without attributes has one partition, until a clause has a key
        ("from every 5 s as T and last C within 5 s from T", [(0, "one", set())]),
        (
            "from every 5 s as T and last C within 5 s from T and last B [ FILTER(?r = C.?r) ] within 5 s from C",
            [(0, "one", set()), (1, "C.r B.r", set())],
        ),
        ("from every 5 s for [ SELECT ?r WHERE { ?x :r ?r } ] as T and last C within 5 s from T", [(0, "any", {"C"})]),
        # the variable of an aggregate is a key; two conjuncts are two keys; equalities of positive clauses are transitive
        (
            "from A and ?n = count(*) of B within 5 s from A and last C [ FILTER(?v = ?n) ] within 5 s from A",
            [(0, "any", {"B"}), (1, "C.v", set())],
        ),
        (
            "from A and last B [ FILTER(?r = A.?r) ] within 5 s from A and last C [ FILTER(?v = A.?v && ?r = B.?r) ] within 5 s from A",
            [(0, "A.r B.r C.r", set())],
        ),
        # equalities of negations are not transitive
        (
            "from A and last B within 5 s from A and not C [ FILTER(?r = A.?r && ?r = B.?r) ] within 5 s from A",
            [(0, "A.r C.r", {"B"})],
        ),
        # of the first stages with the lowest last layer, the longest
        (
            "from A and last B [ FILTER(?r = A.?r && ?v = A.?v) ] within 5 s from A "
            "and last C as D [ FILTER(?v = B.?v) ] within 5 s from A and last C [ FILTER(?r = D.?r) ] within 5 s from A",
            [(0, "A.v B.v D.v", set()), (1, "D.r C.r", set())],
        ),
        # a lower last layer before a longer first stage
        (
            "from A and last B [ FILTER(?r = A.?r && ?v = A.?v) ] within 5 s from A "
            "and last C [ FILTER(?r = A.?r && ?v = B.?v) ] within 5 s from A and not C as D [ FILTER(?r = A.?r) ] within 5 s from A",
            [(0, "A.r B.r C.r D.r", set())],
        ),
    ],
)
def test_rule_without_a_common_key_is_cut_into_stages(body: str, expected: list[tuple[int, str, set[str]]]) -> None:
    assert stages(cut(rule(f"{body} with E.?a = 1"))) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("last B [ FILTER(?r = A.?r) ] within 5 s from A and last C within 5 s from A", "A.r B.r"),
        ("last B [ FILTER(?r = A.?r) ] within 5 s from A and last C [ FILTER(?v = B.?v) ] within 5 s from A", "A.r B.r"),
        ("last B [ FILTER(?v = A.?v) ] within 5 s from A and ?n = count(*) of C [ FILTER(?r = A.?r) ] within 5 s from A", "A.v B.v"),
    ],
)
def test_consuming_rule_has_one_stage_under_a_key_of_consumed_labels(body: str, expected: str) -> None:
    assert stages(cut(rule(f"from A and {body} with E.?a = 1 consuming B"))) == [(0, expected, {"C"})]
    assert stages(cut(rule(f"from A and {body} with E.?a = 1 consuming C, B"))) == [(0, "one", set())]


def test_rules_with_a_key_are_not_cut() -> None:
    text = rule("from A and last B [ FILTER(?r = A.?r) ] within 5 s from A with E.?a = A.?r")
    text += rule("from E as X with F.?a = X.?a", "S", "F") + rule("from A with G.?a = A.?r", "T", "G")
    assert cut(text) == lay_out(rules(text))


def test_rules_without_state_are_not_cut() -> None:
    text = rule("from A and last B within [0, 0] from A with E.?a = A.?r")
    assert cut(text) == lay_out(rules(text))


def test_recursion_keeps_one_key_for_its_own_events() -> None:
    body = "from A and last E as Old [ FILTER(?a = A.?r) ] within (0, 5 s] from A"
    assert stages(cut(rule(f"{body} and last B within 5 s from A with E.?a = A.?r"))) == [(0, "A.r Old.a", {"B"})]
    assert stages(cut(rule(f"{body} and last B [ FILTER(?v = Old.?a) ] within 5 s from A with E.?a = A.?r"))) == [
        (0, "A.r Old.a B.v", set())
    ]
    assert stages(cut(rule(f"{body} and last B [ FILTER(?v = A.?v) ] within 5 s from A with E.?a = A.?r"))) == [(0, "A.r Old.a", {"B"})]
    assert stages(cut(rule(f"{body} with E.?a = A.?v"))) == [(0, "one", set())]


def test_reader_under_the_key_of_the_last_stage_is_in_its_layer() -> None:
    made = rule(TWO_KEYS.replace("E.?a = C.?r", "E.?a = B.?v"))
    under_it = rule("from E as X and not C [ FILTER(?v = X.?a) ] within 5 s from X with F.?a = X.?a", "S", "F")
    spread = rule("from E as X and not C within 5 s from X with G.?a = X.?a", "T", "G")
    replicated = rule("from C and last E as X within 5 s from C with H.?a = X.?a", "U", "H")
    alone = rule("from E as X with I.?a = X.?a", "V", "I")
    found = cut(made + under_it + spread + replicated + alone)
    assert [stages(found, name)[-1][0] for name in "RSTUV"] == [1, 1, 2, 2, 1]
    assert [(placed.rule.name, placed.depth) for placed in found.layers[1].rules] == [("R", 0), ("S", 1), ("V", 1)]


def test_first_stage_prefers_the_key_under_which_the_anchor_is_made() -> None:
    made = rule("from A and last B [ FILTER(?v = A.?v) ] within 5 s from A with M.?z = A.?v, M.?y = A.?r, M.?a = 1", "Maker", "M")
    body = "from M and last B [ FILTER(?r = M.?y && ?v = M.?z) ] within 5 s from M"
    body += " and last C [ FILTER(?v = B.?v && ?r = B.?r) ] within 5 s from M"
    assert stages(cut(made + rule(f"{body} and not C as D within 5 s from M with E.?a = 1"))) == [(0, "M.z B.v C.v", {"D"})]


def test_later_stage_prefers_the_key_of_an_existing_port() -> None:
    body = TWO_KEYS.replace("?v = B.?v", "?v = B.?v && ?r = B.?v")
    assert stages(cut(rule(body)))[1][1] == "B.v C.r"
    other = rule(TWO_KEYS.replace("E.?a = C.?r", "D.?a = C.?r"), "Other", "D")
    found = cut(rule(body) + other)
    assert stages(found)[1][1] == "B.v C.v"
    assert len([port for port in found.layers[1].ports if isinstance(port.stream, int)]) == 1


def test_binding_has_the_columns_that_later_stages_read() -> None:
    plain = rule(TWO_KEYS).replace("[] :a", ":e :a")
    (stream,) = entered(cut(plain.replace("= C.?r", "= B.?r")))
    anchor = (BoundTime(0), BoundOrdinal(0), BoundValue(0, "r"), BoundValue(0, "v"))
    assert stream.columns == (BranchSize(), *anchor, BoundTime(1), BoundOrdinal(1), BoundValue(1, "r"), BoundValue(1, "v"))
    assert stream.key == BoundValue(1, "v")
    (stream,) = entered(cut(plain.replace("each B", "first B")))
    assert stream.columns == (*anchor, BoundTime(1), BoundOrdinal(1), BoundValue(1, "v"))
    for fresh in ("dotr_id :a", "[] :a"):
        (stream,) = entered(cut(plain.replace("each B", "first B").replace(":e :a", fresh)))
        assert stream.columns == (*anchor, BoundTime(1), BoundOrdinal(1), BoundValue(1, "r"), BoundValue(1, "v"))


def test_binding_has_columns_for_aggregates_and_none_for_negations() -> None:
    body = (
        "from A and ?n = sum(B.?v) of B [ FILTER(?r = A.?r) ] within 5 s from A and not B as D [ FILTER(?r = A.?r) ] within 1 s from A "
        "and last C [ FILTER(?v = ?n) ] within 5 s from A and last C as F [ FILTER(?r = A.?v) ] within 5 s from C with E.?a = F.?r"
    )
    first, second = entered(cut(rule(body).replace("[] :a", ":e :a")))
    assert first.columns[4:] == (AggregatedValue(1),)
    assert first.key == AggregatedValue(1)
    assert second.columns[4:] == (AggregatedValue(1), BoundTime(3), BoundOrdinal(3))
    assert second.names[4:] == ("1.value", "3.time", "3.ordinal")


def test_rules_of_one_shape_share_a_stream_of_bindings() -> None:
    body = TWO_KEYS.replace("from A and", "from A [ FILTER(?v > 5) ] and", 1)
    text = rule(body) + rule(body.replace("> 5", "> 6"), "Q") + rule(body.replace("within 7 s", "within 8 s"), "S")
    found = cut(text)
    assert [stream.rules for stream in entered(found)] == [("Q", "R")]
    assert entered(found) == entered(found, "Q")
    assert entered(found)[0].columns[0] == AliveRules()
    assert [stream.rules for stream in entered(found, "S")] == [("S",)]
    added = cut(text, {"Q.B": 5 * SECOND})
    assert [stream.rules for name in "QR" for stream in entered(added, name)] == [("Q",), ("R",)]


def test_spread_anchors_have_separate_ports() -> None:
    text = rule("from A and last B within 5 s from A with E.?a = A.?r") + rule("from A with F.?a = A.?r", "S", "F")
    (layer,) = cut(text).layers
    kinds = [(port.spread, port.by_time, port.is_replicated) for port in layer.ports]
    assert kinds == [(True, True, False), (False, False, True), (True, False, False)]
    assert all(isinstance(source, FactSource) for source in cut(text).streams)
