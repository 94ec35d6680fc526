"""Placement of rules: partition, layer, depth and retention; the output does not depend on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.languages.rules import compile_rules
from dotr.model.algebra import Attribute, Call, Var
from dotr.model.places import Document
from dotr.model.rules import Rule
from dotr.model.stream import Element
from dotr.model.terms import RDF_TYPE, XSD, Triple, literal
from dotr.model.time import Clock
from dotr.temporal.layout import placement
from dotr.temporal.layout.keys import (
    AnyPartition,
    KeyedPartitions,
    SinglePartition,
    bucket,
    bucket_of_values,
    carried_keys,
    keyed_partitions,
    partitioning,
)
from dotr.temporal.layout.layers import Layout, lay_out
from dotr.temporal.layout.retention import longest_chain, lookbacks
from dotr.temporal.matching.operator import Operator
from tests.oracle.temporal import Output
from tests.support.running import outputs, partitioned

pytestmark = pytest.mark.core

SECOND = 1_000_000
HEADER = """PREFIX : <http://example.org/>
query A = [ SELECT ?r ?v WHERE { ?x a :A . OPTIONAL { ?x :r ?r } OPTIONAL { ?x :v ?v } } ]
query B = [ SELECT ?r ?v WHERE { ?x a :B . OPTIONAL { ?x :r ?r } OPTIONAL { ?x :v ?v } } ]
query C = [ SELECT ?r ?v WHERE { ?x a :C . OPTIONAL { ?x :r ?r } OPTIONAL { ?x :v ?v } } ]
"""


def rules(text: str) -> tuple[Rule, ...]:
    found = compile_rules([Document("rules.dotr", HEADER + text)], {}).rules
    assert found
    return found


def rule(body: str, name: str = "R", event: str = "E") -> str:
    return f"rule {name} define {event} = [ [] :a ?a ] {body}\n"


def element(time: int, *facts: tuple[str, str, int]) -> Element:
    """Facts as their class, their room (may be empty) and their value."""
    triples: list[Triple] = []
    for number, (kind, room, value) in enumerate(facts):
        subject = f"<http://example.org/{time}-{number}>"
        triples.append((subject, RDF_TYPE, f"<http://example.org/{kind}>"))
        triples.append((subject, "<http://example.org/v>", literal(str(value), XSD + "integer")))
        if room:
            triples.append((subject, "<http://example.org/r>", f"<http://example.org/{room}>"))
    return Element(time * SECOND, tuple(triples))


def run(text: str, elements: list[Element]) -> list[Output]:
    """The output of one partition, equal to that of eight."""
    program = compile_program(ProgramSpec((Document("rules.dotr", HEADER + text),)))
    one = partitioned(program, elements, 1)
    assert partitioned(program, elements, 8, reload=True) == one
    return outputs(one)


def shown(found: list[Output]) -> list[tuple[int, str, str]]:
    return [(o.time // SECOND, o.rule, o.attributes.get("a", "")) for o in found]


# --- partitions ---


def test_negated_label_must_be_equated_with_the_key() -> None:
    (tied,) = rules(rule("from A and not B [ FILTER(?r = A.?r) ] within 5 s from A with E.?a = A.?v"))
    assert partitioning(tied) == KeyedPartitions({"A": "r", "B": "r"})
    (loose,) = rules(rule("from A and not B within 5 s from A with E.?a = A.?v"))
    assert isinstance(partitioning(loose), SinglePartition)


def test_equalities_of_a_negated_label_are_not_transitive() -> None:
    body = "from A and last B within 5 s from A and not C [ FILTER(?r = A.?r && ?r = B.?r) ] within 5 s from A with E.?a = A.?v"
    assert isinstance(partitioning(rules(rule(body))[0]), SinglePartition)
    found = run(rule(body), [element(1, ("B", "b", 1)), element(2, ("C", "a", 1)), element(3, ("A", "a", 7))])
    assert shown(found) == [(3, "R", literal("7", XSD + "integer"))]


def test_aggregated_label_must_be_equated_through_positive_roles() -> None:
    body = (
        "from A and last B [ FILTER(?r = A.?r) ] within 5 s from A "
        "and ?n = count(*) of C [ FILTER(?r = B.?r) ] within 5 s from B with E.?a = ?n"
    )
    assert partitioning(rules(rule(body))[0]) == KeyedPartitions({"A": "r", "B": "r", "C": "r"})


def test_anchor_with_unbound_key_fires_negations_and_aggregates() -> None:
    text = rule("from A and not B [ FILTER(?r = A.?r) ] within 5 s from A with E.?a = A.?v")
    text += rule("from A and ?n = count(*) of B [ FILTER(?r = A.?r) ] within 5 s from A with F.?a = ?n", "S", "F")
    found = run(text, [element(1, ("B", "", 1), ("B", "a", 1)), element(2, ("A", "", 7), ("A", "a", 8), ("A", "b", 9))])
    values = [literal(str(n), XSD + "integer") for n in (7, 9, 0, 0, 1)]
    assert shown(found) == [(2, "R", values[0]), (2, "R", values[1]), (2, "S", values[2]), (2, "S", values[3]), (2, "S", values[4])]


def test_rule_without_a_key_gives_the_reason() -> None:
    loose = rule("from A and last B [ FILTER(?r = A.?r) ] within 5 s from A and last C within 5 s from A with E.?a = A.?v")
    assert partitioning(rules(loose)[0]) == SinglePartition("no constraint equates an attribute of C with one of a label bound before")
    apart = rule(
        "from A and last B [ FILTER(?r = A.?r) ] within 5 s from A and last C [ FILTER(?v = A.?v) ] within 5 s from A with E.?a = A.?v"
    )
    assert partitioning(rules(apart)[0]) == SinglePartition("no attribute of A is equated with one of every other label")


def test_preferred_key_is_taken_else_the_first_by_name() -> None:
    (both,) = rules(
        rule("from A and last B [ FILTER(?v = A.?v && A.?r = ?r) ] within 5 s from A with E.?a = A.?v, E.?b = B.?r, E.?c = B.?v")
    )
    by_room, by_value = KeyedPartitions({"A": "r", "B": "r"}), KeyedPartitions({"A": "v", "B": "v"})
    assert keyed_partitions(both) == {"r": by_room, "v": by_value}
    assert partitioning(both) == partitioning(both, ["x", "r", "v"]) == by_room
    assert partitioning(both, ["x", "v", "r"]) == by_value
    assert (sorted(carried_keys(both, by_room)), sorted(carried_keys(both, by_value))) == (["b"], ["a", "c"])
    (alone,) = rules(rule("from A with E.?a = A.?v"))
    assert partitioning(alone) == AnyPartition()
    assert partitioning(alone, ["v"]) == KeyedPartitions({"A": "v"})


def test_keys_are_equated_through_any_positive_label() -> None:
    """Both attributes of B are A's room, and C's room is B's; an aggregate's own equalities
    determine its key."""
    body = (
        "from A and last B [ FILTER(?v = A.?r && ?r = ?v && A.?r = ?r) ] within 5 s from A "
        "and first C [ FILTER(?r = B.?v) ] within 5 s from B "
        "and ?n = count(*) of A as D [ FILTER(?v = A.?v && ?r = C.?r) ] within 5 s from A with E.?a = ?n"
    )
    assert partitioning(rules(rule(body))[0]) == KeyedPartitions({"A": "r", "B": "r", "C": "r", "D": "r"})


def test_buckets_are_the_same_on_every_machine() -> None:
    integer, decimal = literal("1", XSD + "integer"), literal("1.0", XSD + "decimal")
    assert (bucket(None, 64), bucket("<http://example.org/a>", 64), bucket(integer, 64), bucket(decimal, 64)) == (0, 19, 11, 11)
    assert [bucket_of_values(values, 64) for values in ((), (None,), (integer,), (decimal,))] == [57, 60, 20, 2]


# --- recursion ---

RUN = rule("from A with Up.?a = A.?r, Up.?n = 1", "Start", "Up") + rule(
    "from A and last Up as Old [ FILTER({key}) ] within (0, 5 s] from A with Up.?a = A.?r, Up.?n = Old.?n + 1", "More", "Up"
)


def places(layout: Layout) -> dict[str, tuple[int, int, object]]:
    return {p.rule.name: (layer.number, p.depth, p.split) for layer in layout.layers for p in layer.rules}


def test_recursion_under_one_key_stays_in_one_layer() -> None:
    found = places(lay_out(rules(RUN.format(key="?a = A.?r"))))
    assert found["More"][:2] == (1, 0)
    assert found["More"][2] == KeyedPartitions({"A": "r", "Old": "a"})
    assert found["Start"] == (0, 0, AnyPartition())


def test_recursion_without_a_common_key_has_one_partition() -> None:
    found = places(lay_out(rules(RUN.format(key="?n < 3"))))
    assert isinstance(found["More"][2], SinglePartition)
    not_carried = RUN.format(key="?a = A.?r").replace("Up.?a = A.?r, Up.?n = Old", "Up.?a = A.?v, Up.?n = Old")
    assert isinstance(places(lay_out(rules(not_carried)))["More"][2], SinglePartition)


@pytest.mark.parametrize("key", ["?a = A.?r", "?n < 3"])
def test_recursion_counts_the_run(key: str) -> None:
    found = run(RUN.format(key=key), [element(t, ("A", "a", t)) for t in (1, 2, 3, 20)])
    assert sorted((o.time // SECOND, o.attributes["n"]) for o in found) == [
        (t, literal(str(n), XSD + "integer")) for t, n in ((1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (20, 1))
    ]


def test_rules_recursive_over_the_past_share_a_key() -> None:
    text = rule("from A and last F [ FILTER(?a = A.?r) ] within (0, 5 s] from A with E.?a = A.?r", "R", "E")
    text += rule("from E as X with F.?a = X.?a", "S", "F") + rule("from B with F.?a = B.?r", "T", "F")
    found = places(lay_out(rules(text)))
    assert found["R"][0] == found["S"][0]
    assert found["S"][1] == found["R"][1] + 1
    assert found["S"][2] == KeyedPartitions({"X": "a"})
    output = run(text, [element(1, ("B", "a", 1), ("B", "b", 1)), element(2, ("A", "a", 1)), element(4, ("A", "a", 1), ("A", "c", 1))])
    assert [(o.time // SECOND, o.rule) for o in output] == [(1, "T"), (1, "T"), (2, "R"), (2, "S"), (4, "R"), (4, "S")]


def test_reads_of_the_past_impose_no_order() -> None:
    text = rule("from A with E.?a = A.?r", "R", "E")
    text += rule("from A and last E as X [ FILTER(?a = A.?r) ] within (0, 5 s] from A with F.?a = A.?r", "S", "F")
    text += rule("from A and last E as X [ FILTER(?a = A.?r) ] within [0, 5 s] from A with G.?a = A.?r", "T", "G")
    found = places(lay_out(rules(text.replace("from A with", "from A and last B [ FILTER(?r = A.?r) ] within 5 s from A with"))))
    assert found["R"][:2] == found["S"][:2] == (0, 0)
    assert found["T"][:2] == (0, 1)


def test_events_of_one_label_from_two_layers_differ() -> None:
    text = rule("from A with E.?a = A.?r", "R", "E")
    text += rule("from E as X and last B within 9 s from X with F.?a = X.?a", "S", "F")  # one partition: layer 1
    text += rule("from A with F.?a = A.?r", "T", "F")
    text += rule("from C and last F as F1 within [0, 9 s] from C and last F as F2 within [0, 9 s] from C with G.?a = F1.?a", "U", "G")
    found = run(text, [element(1, ("B", "a", 1)), element(2, ("A", "a", 1)), element(3, ("C", "c", 1))])
    assert [o.rule for o in found] == ["R", "S", "T", "U"]


MUTUAL = rule("from A and last F [ FILTER(?a = A.?r) ] within (0, 5 s] from A with E.?a = A.?r", "R", "E") + rule(
    "from A and last E [ FILTER(?a = A.?r) ] within (0, 5 s] from A with F.?a = A.?r", "S", "F"
)


def test_component_without_a_common_key_gives_the_reason() -> None:
    found = places(lay_out(rules(MUTUAL.replace("FILTER(?a = A.?r)", "FILTER(?a < 3)"))))
    expected = SinglePartition("E, F depends on itself, and no key goes all the way round")
    assert [found[name][2] for name in "RS"] == [expected, expected]


def test_component_with_too_many_trials_has_one_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (0, 1):
        monkeypatch.setattr(placement, "_MAX_TRIALS", most)
        assert isinstance(places(lay_out(rules(MUTUAL)))["R"][2], SinglePartition)
    monkeypatch.setattr(placement, "_MAX_TRIALS", 2)
    assert places(lay_out(rules(MUTUAL)))["R"][2] == KeyedPartitions({"A": "r", "F": "a"})
    assert places(lay_out(rules(MUTUAL)))["S"][2] == KeyedPartitions({"A": "r", "E": "a"})


def test_composite_events_are_in_tie_order() -> None:
    made = rule("from A and last B within 9 s from A with E.?a = 10 - A.?v", "R", "E")
    for read in ("last E as X within [0, 9 s] from C", "last E as X [ FILTER(?a != C.?v) ] within [0, 9 s] from C"):
        text = made + rule(f"from C and {read} with F.?a = X.?a", "S", "F")
        elements = [element(1, ("B", "b", 1)), element(2, ("A", "a", 1), ("A", "a", 2)), element(3, ("C", "c", 1))]
        assert shown(run(text, elements))[2:] == [(3, "S", literal("9", XSD + "integer"))]


def test_events_of_the_single_partition_are_read_there() -> None:
    made = rule("from A and last B within 9 s from A with E.?a = A.?v", "R", "E")
    read = rule("from C and last E as X within 9 s from C with F.?a = X.?a", "S", "F")
    keyed_rule = rule("from C and last E as X [ FILTER(?a = C.?v) ] within 9 s from C with G.?a = X.?a", "T", "G")
    found = places(lay_out(rules(made + read + keyed_rule)))
    assert [found[name][0] for name in "RST"] == [0, 0, 1]


def test_spread_rule_shares_no_port_with_others() -> None:
    spread = rule("from A with E.?a = A.?r", "R", "E")
    keyed_rule = rule("from E as X and last E as Y [ FILTER(?a = X.?a) ] within 9 s from X with F.?a = X.?a", "S", "F")
    loose = rule("from E as X and last B within 9 s from X with G.?a = X.?a", "T", "G")
    alone = rule("from E as X with H.?a = X.?a", "U", "H")
    found = places(lay_out(rules(spread + keyed_rule + loose + alone)))
    assert [found[name][0] for name in "RSTU"] == [0, 1, 1, 1]


# --- reach and state ---


def test_retention_is_the_longest_chain_of_windows() -> None:
    (chain,) = rules(
        rule(
            "from A and last B within 5 s from A and each C within [1 s, 3 s) from B and not A as X between B and C "
            "and ?n = count(*) of B as Y within 2 s from C with E.?a = ?n"
        )
    )
    assert [tuple(reach) for reach in lookbacks(chain)] == [
        (0, 0),
        (1, 5_000_000),
        (1_000_001, 7_999_999),
        (2, 7_999_998),
        (1_000_002, 9_999_999),
    ]
    (layer,) = lay_out([chain]).layers
    kept = {port.stream: kept for port, kept in zip(layer.ports, layer.retention, strict=True)}
    assert sorted(kept.values(), key=str) == [7_999_998, 7_999_999, 9_999_999]


def test_longest_chain_leads_to_the_anchor() -> None:
    (long,) = rules(
        rule(
            "from A and last B within 5 s from A and last C within 2 s from A and last A as AA within 1 s from B "
            "and last A as A0 within 9 s from C "
            "and not C as F between B and AA and not C as G between A0 and AA "
            "and not C as H between A and C and not B as I between C and A "
            "with E.?a = A.?v",
            event="Out",
        ).replace("E.?a", "Out.?a")
    )
    chains = {clause.role.label: "".join(link.role.label for link in longest_chain(long, clause)) for clause in long.clauses}
    assert chains == {"B": "B", "C": "C", "AA": "AAB", "A0": "A0C", "F": "FAAB", "G": "GA0C", "H": "HC", "I": "IC"}


def test_events_that_only_anchors_read_are_not_stored() -> None:
    layout = lay_out(rules(rule("from A with E.?a = A.?r")))
    assert layout.layers[0].retention == (None,)


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        (rule("from A with E.?a = A.?r"), 0),
        (rule("from A and each B [ FILTER(?v = A.?v) ] within [0, 0] from A with E.?a = B.?r consuming B"), 0),
        (rule("from A and ?n = count(*) of B within [0, 0] from A with E.?a = ?n"), 0),
        (rule("from A with E.?a = A.?r") + rule("from E with F.?a = E.?a", "S", "F"), 0),
        (rule("from A with E.?a = A.?r") + rule("from E and not F within 1 us from E with F.?a = E.?a", "S", "F"), 2),
        (rule("from A and not B within [0, 1 us] from A with E.?a = A.?r"), 1),
        (rule("from A delayed by 1 us with E.?a = A.?r"), 1),
        (rule("from every 1 min as A with E.?a = time(A)"), 1),
    ],
)
def test_rules_over_several_instants_need_state(text: str, operators: int) -> None:
    assert lay_out(rules(text)).stateful_operators == operators


def test_state_is_bounded_by_the_retention() -> None:
    (only,) = rules(rule("from A and ?n = sum(B.?v) of B [ FILTER(?r = A.?r) ] within 5 s from A with E.?a = ?n"))
    layout = lay_out([only])
    operator = Operator(layout.layers[0], {"E": ("a",)}, Clock())
    state = operator.start()
    port = next(p for p, kept in enumerate(layout.layers[0].retention) if kept)
    most = 0
    for second in range(3_000):
        values = (f"<http://example.org/room{second}>", literal("1", XSD + "integer"))
        operator.step(state, second * SECOND, {port: [(0, values)]})
        most = max(most, sum(len(lane) for lanes in state.stores[port].indexes for lane in lanes.values()))
    assert len(state) == 6
    assert most < 300


def test_aggregate_may_be_used_in_later_constraints() -> None:
    """In the model, the aggregate is an attribute of the aggregated label, under the aggregate's name."""
    (only,) = rules(
        rule(
            "from A and ?m = avg(B.?v) of B within 9 s from A "
            "and last B as High [ FILTER(?v > A.?v) ] within 9 s from A with E.?a = High.?v"
        )
    )
    first, second = only.clauses
    above = replace(second.role, constraints=(Call(">", (Var("v"), Attribute("B", "m"))),))
    changed = replace(only, clauses=(first, replace(second, role=above)))
    layout = lay_out([changed])
    operator = Operator(layout.layers[0], {"E": ("a",)}, Clock())
    state = operator.start()
    streams = {source.query.pattern: number for number, source in enumerate(layout.streams)}
    assert len(streams) == 2
    ports = {"A" if "A>" in repr(layout.streams[p.stream].query) else "B": n for n, p in enumerate(layout.layers[0].ports)}  # type: ignore[index]
    for second_, value in enumerate((1, 8, 3, 2)):
        operator.step(state, second_ * SECOND, {ports["B"]: [(0, (None, literal(str(value), XSD + "integer")))]})
    ((_, _, _, values),) = operator.step(state, 5 * SECOND, {ports["A"]: [(0, (None, literal("0", XSD + "integer")))]})
    assert values == (literal("8", XSD + "integer"),)
