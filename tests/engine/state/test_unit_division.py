"""The state of a unit in one partition, as earlier releases stored it, is divided over the buckets of the unit's keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyspark")

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.engine.state.migration import StateMigrator, state_change
from dotr.engine.state.schema import KnowledgeDigests, StateSchema, state_schema
from dotr.engine.state.units import UnitsValue
from dotr.engine.unit_layer import decode_units
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import FedGraph, output_order
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.syntax.turtle.graphs import read_graph
from dotr.temporal.matching.state import StateError
from tests.support.layered_batches import LayeredRun, MemoryStore

pytestmark = pytest.mark.core

UNITS = """\
PREFIX : <http://example.org/>
REGISTER QUERY Rise AS SELECT ?x ?m ?n WHERE { ?x :v ?m } SEQ { ?x :v ?n } FILTER(?n > ?m) WITHIN 9 s
REGISTER QUERY Both AS SELECT ?x ?y ?m WHERE { ?x :v ?m } AND { ?y :w ?n } FILTER(?x = ?y) WITHIN 9 s
REGISTER QUERY Pair AS SELECT ?x ?m ?n WHERE { ?y :at ?x } SEQ { ?x :v ?m } SEQ { ?x :w ?n } WITHIN 9 s POLICY RECENT
REGISTER QUERY Any AS SELECT ?m ?n WHERE { ?x :v ?m } SEQ { ?y :w ?n } WITHIN 4 s
"""
FILE = """\
Few(?x, ?v) :- :v(?x, ?v) IN [LAST 2 PER ?x] .
Calm(?x) :- Few(?x, ?v), NOT :w(?x, 0) IN [5 s] .
REPORT ENDED Few(?x, ?v) AS Gone .  REPORT Calm(?x) .
"""
QUERIES = """\
PREFIX : <http://example.org/>
REGISTER ISTREAM Few3 AS SELECT ?x ?v FROM WINDOW ON :s [ELEMENTS 3 REPORT ON CONTENT CHANGE ENTAILMENT NONE] WHERE { ?x :v ?v }
REGISTER RSTREAM Sums AS SELECT (SUM(?v) AS ?n) FROM WINDOW ON :s [RANGE 7s STEP 2s ENTAILMENT SNAPSHOT] WHERE { ?x :v ?v } GROUP BY ?x
REGISTER DSTREAM Old AS SELECT ?x ?v FROM NAMED WINDOW <w> ON :s [TRIPLES 20 STEP 4 ENTAILMENT NONE] WHERE { WINDOW <w> { ?x :v ?v } }
REGISTER RSTREAM Changed AS SELECT ?x FROM NAMED WINDOW <w> ON :s
    [RANGE 6s STEP 3s REPORT PERIODIC 2s AND ON CONTENT CHANGE ENTAILMENT NONE] WHERE { WINDOW <w> { ?x :w ?v } }
REGISTER ISTREAM Graph AS CONSTRUCT { ?x :new [ :is ?v ] } FROM WINDOW ON :s [RANGE 5s STEP 1s ENTAILMENT NONE] WHERE { ?x :v ?v }
"""
SPEC = ProgramSpec(
    (Document("q.epsparql", UNITS), Document("a.lars", FILE), Document("q.rspql", QUERIES)), prefixes={"": "http://example.org/"}
)
BUCKETS = 3
SPREAD = ["Both", "Changed", "Few3", "Graph", "Old", "Pair", "Rise", "Sums", "a.lars"]


def instants() -> list[tuple[Micros, list[tuple[Triple, ...]]]]:
    found = []
    for now in range(30):
        text = f":s{now % 4} :v {now * 7 % 11} . :s{now % 3} :w {now % 5} . :t{now % 2} :at :s{now % 5} ."
        triples = read_graph(text, {"": "http://example.org/"}, 100)
        graphs: list[tuple[Triple, ...]] = [FedGraph.on("http://example.org/s", each) for each in (triples[:1], triples[1:])]
        found.append((now * 1_000_000, graphs))
    return found


def in_one_partition(schema: StateSchema) -> StateSchema:
    """The schema as it was written before units were spread."""
    data = schema.to_json()
    for unit in data["units"]:  # type: ignore[attr-defined]
        unit.pop("key", None)
    return StateSchema.of_json(data)


def test_state_of_one_partition_moves_to_the_buckets_of_its_keys() -> None:
    program = compile_program(replace(SPEC, cut=True))
    assert sorted(placed.unit.name for placed in program.layout.units if placed.is_spread) == SPREAD
    stream, cut = instants(), 15
    whole = compile_program(SPEC)
    engine = Engine(whole, Clock())
    for time, graphs in stream[:cut]:
        engine.step(time, graphs)
    (written,) = engine.encode(stream[cut - 1][0])
    states = decode_units(written)
    expected = [firing for time, graphs in stream[cut:] for firing in engine.step(time, graphs)[0]]
    assert {firing.rule for firing in expected} == {
        "Rise",
        "Both",
        "Pair",
        "Any",
        "Gone",
        "Calm",
        "Few3",
        "Sums",
        "Old",
        "Changed",
        "Graph",
    }

    before = in_one_partition(state_schema(whole, knowledge="k"))
    change = state_change(before, program, stream[cut - 1][0], KnowledgeDigests("k", "k"))
    assert change.moves
    assert {str(each).partition(" ")[2] for each in change.verdicts if each.moved} == {
        f"{name} keeps its state, in another layer or under another key" for name in SPREAD
    }
    migrator = StateMigrator(before, change.after, program, Clock(), BUCKETS)
    parts: dict[tuple[int, int], list[UnitsValue]] = {}
    for unit in before.units:  # each was in the bucket of its partition
        rest, logs = states[unit.name]
        entries = [[(time, ordinal, tuple(row)) for time, ordinal, row in log] for log in logs]
        value = UnitsValue(stream[cut - 1][0], [(unit.name, rest, len(entries))], entries, None)
        for place, part in migrator.redistribute_units(unit.partition % BUCKETS, value, MemoryStore()).items():
            parts.setdefault(place, []).append(part)
    run = LayeredRun(replace(SPEC, cut=True), BUCKETS)
    for layer, stores in enumerate(run.stores):
        for bucket, store in enumerate(stores):
            store.set_value(b"moved", migrator.unite_units(parts.get((layer, bucket), ()), stream[cut - 1][0]).encode())
    expected += [firing for moment in engine.finish() for firing in moment]
    assert run.batch(stream[cut:], LAST_MICRO) == sorted(expected, key=output_order)


def test_spread_state_stays_in_its_bucket_and_another_key_is_refused() -> None:
    program = compile_program(SPEC)
    schema = state_schema(program, knowledge="k")
    assert StateSchema.of_json(schema.to_json()) == schema
    value = UnitsValue(5, [("Rise", "[[]]", 1)], [[(5, 0, ("5", '"1"', "<a>"))]], None)
    migrator = StateMigrator(schema, schema, program, Clock(), BUCKETS)
    assert migrator.redistribute_units(2, value, MemoryStore()) == {(0, 2): value}
    other = replace(schema, units=tuple(replace(unit, key=("m", "n")) if unit.name == "Rise" else unit for unit in schema.units))
    with pytest.raises(StateError, match="Rise was divided by another key"):
        StateMigrator(other, schema, program, Clock(), BUCKETS).redistribute_units(2, value, MemoryStore())
